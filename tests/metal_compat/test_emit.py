"""The Metal text of the project's kernels and of users' bodies."""

import re

import numpy as np
import pytest

import hiprt
from hiprt.kernels.lang.attributes import ATTRIBUTES
from hiprt.kernels.lang.kernel import KERNELS
from hiprt.kernels.offline.catalogue import instances
from hiprt.metal_compat import check_metal, emit_metal, metal_kernel


def test_a_kernel_of_the_project():
    instance = next(i for i in instances() if i.kernel.name == "rms_norm" and i.template[0] == hiprt.bfloat16)
    text = emit_metal(instance.kernel, instance.template)
    signature = re.search(r"\]\] void (\w+)\((.*)\) \{", text)
    assert signature[1] == instance.kernel.symbol(instance.template)
    assert signature[2].startswith(
        "const device bfloat16_t* x [[buffer(0)]], const device bfloat16_t* weight [[buffer(1)]], "
        "device bfloat16_t* out [[buffer(2)]], const constant uint& rows [[buffer(3)]], "
    )
    assert "uint3 threadgroup_position_in_grid [[threadgroup_position_in_grid]]" in signature[2]
    assert "[[kernel, max_total_threads_per_threadgroup(256)]]" in text


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=lambda kernel: kernel.name)
def test_attributes_of_a_signature_are_those_of_the_body(kernel):
    text = emit_metal(kernel, next(i.template for i in instances() if i.kernel is kernel))
    assert set(re.findall(r"\[\[(thread\w+|simd\w+)\]\]", text)) == {
        name for name in ATTRIBUTES if re.search(rf"\b{name}\b", kernel.body)
    }


def test_a_body_as_a_call_would_need_it(capsys):
    """The text is the one that verbose=True prints, without a launch."""
    kernel = metal_kernel("mine", ["a"], ["out"], "uint i = thread_position_in_grid.x;\nout[i] = a[i] + T(a_shape[0]);")
    call = {
        "inputs": [np.zeros((3, 4), np.float16)],
        "output_shapes": [(3, 4)],
        "output_dtypes": [np.dtype(np.float32)],
        "template": [("T", np.dtype(np.float32))],
    }
    text = emit_metal(kernel, **call)
    assert check_metal(text) == []
    kernel(**call, grid=(12, 1, 1), threadgroup=(12, 1, 1), verbose=True)
    assert text in capsys.readouterr().out


def test_a_call_that_does_not_fit_is_refused():
    kernel = metal_kernel("mine", ["a"], ["out"], "")
    with pytest.raises(ValueError, match="Expected `inputs` to have size 1"):
        emit_metal(kernel, inputs=[], output_shapes=[()], output_dtypes=[np.dtype(np.float32)])
