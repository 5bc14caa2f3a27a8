"""Calls of metal_kernel: both forms, the checks with their order and messages, names and printed text."""

import re

import numpy as np
import pytest

import hiprt
from hiprt.graphs import Step
from hiprt.metal_compat import metal_kernel

F32 = np.dtype(np.float32)
SOURCE = "uint i = thread_position_in_grid.x; out[i] = a[i] * 2;"


def make(**changes):
    """Return a kernel that doubles its input."""
    return metal_kernel(**{"name": "k", "input_names": ["a"], "output_names": ["out"], "source": SOURCE, **changes})


def call(kernel=None, **changes):
    """Call the kernel on four numbers."""
    given = {
        "inputs": [np.arange(4, dtype=np.float32)],
        "output_shapes": [(4,)],
        "output_dtypes": [F32],
        "grid": (4, 1, 1),
        "threadgroup": (4, 1, 1),
    }
    return (kernel or make())(**{**given, **changes})


CONSTRUCTION = {
    "no output": (ValueError, "[metal_kernel] Must specify at least one output.", {"output_names": []}),
    "options as list": (ValueError, "[metal_kernel] Expected `compile_options` to be a dict.", {"compile_options": []}),
    "options as str": (
        ValueError,
        "[metal_kernel] Expected `compile_options` to be a dict.",
        {"compile_options": "fast"},
    ),
    "unknown option": (ValueError, "[metal_kernel] Unknown compile option `foo`.", {"compile_options": {"foo": 1}}),
    "unknown mode": (
        ValueError,
        "[metal_kernel] Expected math_mode to be 'safe', 'relaxed', or 'fast'.",
        {"compile_options": {"math_mode": "slow"}},
    ),
    "mode of a wrong type": (
        ValueError,
        "[metal_kernel] Expected math_mode to be 'safe', 'relaxed', or 'fast'.",
        {"compile_options": {"math_mode": 1}},
    ),
    "name as int": (TypeError, "metal_kernel(): incompatible function arguments.", {"name": 1}),
    "names as str": (TypeError, "metal_kernel(): incompatible function arguments.", {"input_names": "a"}),
    "no output names": (TypeError, "metal_kernel(): incompatible function arguments.", {"output_names": None}),
    "unknown argument": (TypeError, "metal_kernel(): incompatible function arguments.", {"colour": 1}),
    "switch of a wrong type": (
        TypeError,
        "metal_kernel(): incompatible function arguments.",
        {"atomic_outputs": "yes"},
    ),
}


@pytest.mark.parametrize("case", CONSTRUCTION)
def test_construction_refuses(case):
    kind, message, changes = CONSTRUCTION[case]
    with pytest.raises(kind) as caught:
        make(**changes)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "changes",
    [
        {"input_names": ()},
        {"input_names": ("a",), "output_names": ("out",)},
        {"input_names": ["a", "a"]},
        {"name": "my kernel-1"},
        {"name": ""},
        {"compile_options": {}},
        {"source": "this is not Metal"},
    ],
    ids=str,
)
def test_construction_is_lenient(changes):
    """Nothing is compiled, no device is touched, names are not looked at."""
    assert callable(make(**changes))


TYPES = "__call__(): incompatible function arguments."
INVALID = "[metal_kernel] Invalid template argument. Must be `mlx.core.Dtype`, `int` or `bool`."
CALLS = {
    "grid of two": (TypeError, TYPES, {"grid": (4, 1)}),
    "grid with a float": (TypeError, TYPES, {"grid": (4.0, 1, 1)}),
    "grid too large": (TypeError, TYPES, {"grid": (2**31, 1, 1)}),
    "grid as int": (TypeError, TYPES, {"grid": 4}),
    "dtype as str": (TypeError, TYPES, {"output_dtypes": ["float32"]}),
    "dtype as type": (TypeError, TYPES, {"output_dtypes": [float]}),
    "shape as int": (TypeError, TYPES, {"output_shapes": [4]}),
    "init value as str": (TypeError, TYPES, {"init_value": "0"}),
    "unknown keyword": (TypeError, TYPES, {"colour": 1}),
    "template as numbers": (TypeError, TYPES, {"template": [1, 2]}),
    "verbose as str": (TypeError, TYPES, {"verbose": "yes"}),
    "stream as int": (TypeError, TYPES, {"stream": 3}),
    "inputs as array": (TypeError, TYPES, {"inputs": np.zeros(4)}),
    "list as input": (ValueError, "Invalid type list received in array initialization.", {"inputs": [[1, 2]]}),
    "text as input": (ValueError, "Invalid type str received in array initialization.", {"inputs": ["a"]}),
    "int of 65 bits": (ValueError, "9223372036854775808 does not fit", {"inputs": [2**63]}),
    "template str": (ValueError, INVALID, {"template": [("T", "float32")]}),
    "template float": (ValueError, INVALID, {"template": [("T", 1.5)]}),
    "template None": (ValueError, INVALID, {"template": [("T", None)]}),
    "template numpy int": (ValueError, INVALID, {"template": [("T", np.int64(3))]}),
    "template numpy bool": (ValueError, INVALID, {"template": [("T", np.bool_(1))]}),
    "template type": (ValueError, INVALID, {"template": [("T", float)]}),
    "template int of 33 bits": (ValueError, INVALID, {"template": [("T", 2**31)]}),
    "two inputs": (
        ValueError,
        "[metal_kernel] Expected `inputs` to have size 1 but got size 2.\n",
        {"inputs": [np.zeros(4), np.zeros(4)]},
    ),
    "no shapes": (
        ValueError,
        "[metal_kernel] Expected `output_shapes` to have size 1 but got size 0.\n",
        {"output_shapes": []},
    ),
    "two dtypes": (
        ValueError,
        "[metal_kernel] Expected `output_dtypes` to have size 1 but got size 2.\n",
        {"output_dtypes": [F32, F32]},
    ),
    "host stream": (ValueError, "[metal_kernel] Only supports the GPU.", {"stream": "cpu"}),
    "float64 output": (ValueError, "float64 is not supported on the GPU", {"output_dtypes": [np.dtype(np.float64)]}),
    "threadgroup too large": (
        ValueError,
        "Thread group size (4096) is greater than  the maximum allowed threads per threadgroup (1024).",
        {"threadgroup": (4096, 1, 1)},
    ),
    "negative grid": (ValueError, "[metal_kernel] A grid of (-4, 1, 1)", {"grid": (-4, 1, 1)}),
    "empty threadgroup": (ValueError, "[metal_kernel] A grid of (4, 1, 1)", {"threadgroup": (0, 1, 1)}),
}


@pytest.mark.parametrize("case", CALLS)
def test_call_refuses(case):
    kind, message, changes = CALLS[case]
    with pytest.raises(kind) as caught:
        call(**changes)
    assert str(caught.value).startswith(message)


def test_missing_and_positional_arguments():
    for wrong in (lambda: make()([np.zeros(4)]), lambda: make()(inputs=[np.zeros(4)])):
        with pytest.raises(TypeError, match=re.escape(TYPES)):
            wrong()


def test_order_of_checks():
    """Each mistake hides the ones behind it."""
    mistakes = [
        ({"grid": 4}, TYPES),
        ({"inputs": [[1]]}, "Invalid type list"),
        ({"template": [("T", "x")]}, INVALID),
        ({"output_shapes": []}, "[metal_kernel] Expected `output_shapes`"),
        ({"output_dtypes": [F32, F32]}, "[metal_kernel] Expected `output_dtypes`"),
        ({"stream": "cpu"}, "[metal_kernel] Only supports the GPU."),
    ]
    for i in range(len(mistakes)):
        changes = {name: value for mistake, _ in mistakes[i:] for name, value in mistake.items()}
        with pytest.raises((TypeError, ValueError)) as caught:
            call(**changes)
        assert str(caught.value).startswith(mistakes[i][1])


def test_float64_array_is_refused_after_the_text_was_printed(capsys):
    with pytest.raises(ValueError, match="float64 is not supported on the GPU"):
        call(inputs=[hiprt.array(np.zeros(4))], verbose=True)
    assert "const constant double* a [[buffer(0)]]" in capsys.readouterr().out


def test_verbose_prints_the_text_under_the_users_name(capsys):
    call(make(name="mine"), verbose=True)
    text = capsys.readouterr().out
    assert text.startswith("Generated source code for `mine`:\n```\n[[kernel]] void custom_kernel_mine_floatc_float(\n")
    assert text.endswith("}\n\n```\n")


def test_result_is_a_list_in_the_order_of_the_names():
    kernel = make(output_names=["x", "w"], source="x[0] = a[0]; w[0] = int(a[3]);")
    found = call(kernel, output_shapes=[(1,), (1, 1)], output_dtypes=[F32, np.int32], grid=(1, 1, 1))
    assert isinstance(found, list)
    assert [(f.shape, f.dtype.name) for f in found] == [((1,), "float32"), ((1, 1), "int32")]
    assert [f.item() for f in found] == [0, 3]


@pytest.mark.parametrize("how", [{"name": "k", "source": SOURCE}, ("k", SOURCE)], ids=["keywords", "positions"])
def test_older_form_with_dictionaries(how):
    """MLX 0.17.0: names come with the call, results go by name, contiguity is decided at the call."""
    kernel = metal_kernel(**how) if isinstance(how, dict) else metal_kernel(*how)
    x = hiprt.array(np.arange(8, dtype=np.float32))[::2]
    found = kernel(
        inputs={"a": x},
        template={"T": F32, "N": 3},
        grid=(4, 1, 1),
        threadgroup=(256, 1, 1),
        output_shapes={"out": (4,)},
        output_dtypes={"out": F32},
        ensure_row_contiguous=False,
    )
    assert list(found) == ["out"]
    assert found["out"].numpy().tolist() == [0, 2, 4, 6]


def test_dictionaries_are_ordered_by_name_without_names_and_by_the_names_with_them(capsys):
    source = "q[0] = b[0] - a[0];"
    given = {"inputs": {"b": np.ones(1, np.float32), "a": np.zeros(1, np.float32)}, "output_shapes": {"q": (1,)}}
    given |= {"output_dtypes": {"q": F32}, "grid": (1, 1, 1), "threadgroup": (1, 1, 1), "verbose": True}
    assert metal_kernel("k", source=source)(**given)["q"].item() == 1
    assert metal_kernel("k", ["b", "a"], ["q"], source)(**given)["q"].item() == 1
    first, second = capsys.readouterr().out.split("Generated")[1:]
    assert first.index(" a [[") < first.index(" b [[")
    assert second.index(" b [[") < second.index(" a [[")


def test_dictionaries_with_other_names_are_refused():
    with pytest.raises(ValueError, match=re.escape("[metal_kernel] Expected `inputs` to have the names ['a']")):
        call(inputs={"x": np.zeros(4, np.float32)})


def test_lists_without_names_are_refused():
    with pytest.raises(TypeError, match=re.escape(TYPES)):
        call(metal_kernel("k", source=SOURCE))


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (True, "bool"),
        (7, "int32_t"),
        (2**31, "int64_t"),
        (-(2**31) - 1, "int64_t"),
        (1.5, "float"),
        (2j, "complex64_t"),
        (np.int64(3), "int64_t"),
        (np.float64(3), "float"),
        (np.complex128(3), "complex64_t"),
        (np.float16(3), "float16_t"),
        (np.zeros((3, 3)), "float"),
        (np.zeros(9, np.uint8), "uint8_t"),
        (np.zeros(9, hiprt.bfloat16), "bfloat16_t"),
        (np.zeros(9, np.complex128), "complex64_t"),
    ],
    ids=str,
)
def test_host_values_get_mlx_types(value, word, capsys):
    call(make(source="out[0] = 1;"), inputs=[value], verbose=True)
    assert f" {word}{'*' if np.ndim(value) else '&'} a [[buffer(0)]]" in capsys.readouterr().out


def test_scalar_inputs_have_their_value(run):
    source = "out[0] = a; out[1] = float(b); out[2] = c.imag;"
    assert run(source, [2.5, 2**40, 1 - 3j], shape=(3,), grid=(1, 1, 1)).tolist() == [2.5, 2.0**40, -3]


def test_functions_of_the_shapes():
    """An extension of MLX's call: shapes, grid, threadgroup and template follow the inputs."""
    kernel = make(input_names=["a", "b"], source="uint i = thread_position_in_grid.x; out[i] = a[i] + b[0] * N;")
    seen = []
    for n in (4, 8):
        found = kernel(
            inputs=[np.arange(n, dtype=np.float32), np.ones((2, 3), np.float32)],
            output_shapes=lambda a, b: [a, b][:1],
            output_dtypes=[F32],
            grid=lambda a, b: (a[0], 1, 1),
            threadgroup=lambda a, b: seen.append((a, b)) or (a[0] // 2, 1, 1),
            template=lambda a, b: [("N", b[1])],
        )[0]
        assert found.numpy().tolist() == [i + 3 for i in range(n)]
    assert seen == [((4,), (2, 3)), ((8,), (2, 3))]


def test_a_step_with_other_shapes_gets_their_results():
    """A step records a node with its reads and writes, and makes a new recording for a new shape."""
    kernel = make()

    def double_twice(x):
        once = kernel(inputs=[x], output_shapes=lambda a: [a], output_dtypes=[F32], grid=lambda a: (a[0], 1, 1),
                      threadgroup=(4, 1, 1), init_value=1)[0]  # fmt: skip
        return kernel(inputs=[once], output_shapes=lambda a: [a], output_dtypes=[F32], grid=lambda a: (a[0], 1, 1),
                      threadgroup=(4, 1, 1))[0]  # fmt: skip

    step = Step(double_twice)
    for n in (4, 8, 4, 8):
        x = hiprt.array(np.arange(n, dtype=np.float32))
        assert step(x).numpy().tolist() == [4 * i for i in range(n)]
        # The step has a fill, and two kernels that wait for the arrays that they read.
        assert (step.nodes, step.edges) == (3, 2)


def test_a_kept_step_is_replayed():
    kernel, x = make(), hiprt.array(np.arange(4, dtype=np.float32))
    step = Step(lambda: call(kernel, inputs=[x])[0])
    results = []
    for start in (0, 10):
        x.set(np.arange(4) + start)
        results.append(step().numpy().tolist())
    assert results == [[0, 2, 4, 6], [20, 22, 24, 26]]
    assert step.rungs["replay"] == 1


def test_numbers_as_inputs_do_not_divide_a_step():
    kernel = make(source="out[0] = a;")
    step = Step(lambda: call(kernel, inputs=[3], output_shapes=[()], grid=(1, 1, 1))[0])
    assert [step().item(), step().item()] == [3, 3]
    assert not any("split" in reason for reason in step.reasons)


def test_kernels_of_one_name_and_other_source_do_not_share_code():
    first, second = make(), make(source="out[thread_position_in_grid.x] = 7;")
    assert call(first)[0].numpy().tolist() == [0, 2, 4, 6]
    assert call(second)[0].numpy().tolist() == [7, 7, 7, 7]


def test_one_kernel_with_two_dtypes_and_template_values():
    kernel = make(source="uint i = thread_position_in_grid.x; out[i] = a[i] * (B ? 10 : 1);")
    for value, factor in [(True, 10), (0, 1), (1, 10)]:
        for dtype in (np.float32, np.int32):
            found = call(kernel, inputs=[np.arange(4, dtype=dtype)], output_dtypes=[dtype], template=[("B", value)])
            assert found[0].numpy().tolist() == [factor * i for i in range(4)]


def test_compile_errors_name_the_users_line():
    for changes, place in [
        ({"source": "uint i = 0;\nout[i] = nothing;"}, r"k\.metal[:(]2"),
        ({"header": "float f() { return 1; }\nfloat g() { return nothing; }\n"}, r"header of k[:(]2"),
    ]:
        kernel = make(**changes)
        for _ in range(2):  # a failed build is not remembered as a good one
            with pytest.raises(hiprt.CompileError) as caught:
                call(kernel)
            assert str(caught.value).startswith("[metal::Device] Unable to build metal library from source\n")
            assert re.search(place, caught.value.log)
            assert "nothing" in caught.value.log


@pytest.mark.parametrize(
    ("changes", "word"), [({"name": "my kernel-1"}, "not an identifier"), ({"input_names": ["out"]}, "several")]
)
def test_illegal_names_are_told_at_the_first_launch(changes, word):
    with pytest.raises(ValueError, match=word):
        call(make(**changes))


def test_outputs_are_fresh():
    x = hiprt.array(np.arange(4, dtype=np.float32))
    kernel = make(source="out[thread_position_in_grid.x] = 1;")
    first, second = call(kernel, inputs=[x])[0], call(kernel, inputs=[x])[0]
    assert len({x.address, first.address, second.address}) == 3


def test_stream_and_device_are_taken():
    stream = hiprt.current_stream()
    for place in (None, stream, stream.device, "gpu"):
        assert call(stream=place)[0].numpy().tolist() == [0, 2, 4, 6]


def test_more_buffers_than_metal_has_are_warned_of():
    names = [f"a{i}" for i in range(31)]
    kernel = make(input_names=names, source="out[0] = a30[0];")
    with pytest.warns(hiprt.HipWarning, match="32 buffers"):
        found = call(kernel, inputs=[np.full(1, i, np.float32) for i in range(31)], grid=(1, 1, 1))
    assert found[0].numpy()[0] == 30


def test_template_values_that_python_takes_for_equal_are_programs_of_their_own(run):
    """1 is an int and True a bool, in either order; 1.0 is neither."""
    source = "out[0] = sizeof(N);"
    how = {"shape": (1,), "dtype": np.int32}
    kernel = metal_kernel("probe", [], ["out"], source)
    for value, size in ((1, 4), (True, 1), (0, 4), (False, 1)):
        (made,) = kernel(
            inputs=[],
            output_shapes=[(1,)],
            output_dtypes=[np.int32],
            grid=(1, 1, 1),
            threadgroup=(1, 1, 1),
            template=[("N", value)],
        )
        assert made.item() == size
    with pytest.raises(ValueError, match="Invalid template argument"):
        run(source, template=[("N", 1.0)], **how)
