"""Kernels that are generated from tables are Metal, and machine code for AMD GPUs, as those with a file are."""

import pytest

from hiprt.kernels.offline.amd_compiler import Compiler
from hiprt.kernels.ops.elementwise import binary, ternary, unary
from hiprt.kernels.ops.elementwise.copies import COPY
from hiprt.kernels.ops.elementwise.expression import Form, kernel_of
from hiprt.kernels.ops.indexing import indexing, slices
from hiprt.kernels.ops.reduction import reduction
from hiprt.kernels.ops.reduction.argmax import kernel_of as place
from hiprt.kernels.ops.reduction.sort import merger, sorter
from hiprt.metal_compat import check_metal

TARGETS = ("gfx942", "gfx1201")
INTEGERS = {"bitwise_invert", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"}
FLOATING = {"float": "float", "half": "half", "bfloat16_t": "bfloat16_t"}


PARTS = ("complex", "imag", "real")


def elementwise():
    """Every expression: integers or floats, walked flat and along three axes, with a Python number."""
    rules = [getattr(unary, n) for n in unary.__all__ if n != "Unary"]
    rules += [getattr(binary, n) for n in binary.__all__ if n != "Binary"]
    rules = [op for op in rules if op.__name__ not in PARTS]
    for i, op in enumerate(rules):
        count = 1 if isinstance(op, unary.Unary) else 2
        word = ("int", "ulong", "uchar")[i % 3] if op.__name__ in INTEGERS else list(FLOATING)[i % 3]
        axes, numbers = (3, (False,) * count) if i % 2 else (0, (False, True)[:count])
        words = tuple("float" if number else word for number in numbers)
        yield kernel_of(op.expression, Form(words, (word,) * count, word, numbers, axes, (False,) * count, i % 4 < 2))
    yield kernel_of(
        ternary.WHERE,
        Form(("bool", "half", "int"), ("bool", "half", "half"), "half", (False,) * 3, 2, (False,) * 3, True),
    )
    for word in ("int8_t", "long", "bool"):
        for op in (
            binary.floor_divide,
            binary.remainder,
            binary.power,
            binary.maximum,
            unary.sign,
            unary.abs,
            unary.floor,
        ):
            count = 1 if isinstance(op, unary.Unary) else 2
            yield kernel_of(
                op.expression, Form((word,) * count, (word,) * count, word, (False,) * count, 0, (False,) * count, True)
            )


def complex_numbers():
    """Expressions of complex numbers: those with a function of their own, and a conversion."""
    for op in (
        *(unary.abs, unary.arccos, unary.arcsin, unary.arctan, unary.cosh, unary.exp, unary.log, unary.sqrt, unary.tan),
        *(binary.power, binary.logaddexp, binary.maximum),
    ):
        count = 1 if isinstance(op, unary.Unary) else 2
        words = ("complex64_t",) * count
        out = "float" if op is unary.abs else "complex64_t"
        yield kernel_of(op.expression, Form(words, words, out, (False,) * count, 0, (False,) * count, True))
    number = (False, True)
    yield kernel_of(
        binary.complex.expression, Form(("half", "float"), ("float",) * 2, "complex64_t", number, 0, number, True)
    )
    yield kernel_of(
        unary.imag.expression, Form(("bfloat16_t",), ("complex64_t",), "float", (False,), 0, (False,), True)
    )
    yield kernel_of(COPY, Form(("complex64_t",), ("complex64_t",), "half", (False,), 0, (False,), True))
    yield reduction.kernel_of("mean", "a + b", "complex64_t(0)", reduction.mean.final, "complex64_t", "complex64_t")
    yield sorter("complex64_t")


def others():
    """The rest, for a dtype or two."""
    for op in (reduction.all, reduction.max, reduction.mean, reduction.prod, reduction.sum):
        for given, out in (
            (("half", "half"), ("bool", "bool"))
            if op is reduction.all
            else (("bfloat16_t", "bfloat16_t"), ("int", "int"))
        ):
            if op is not reduction.mean or given != "int":
                wide = "float" if out in FLOATING else out
                yield reduction.kernel_of(op.name, op.text, f"{wide}({op.identity})", op.final, given, out)
    for word in ("half", "ulong", "int8_t"):
        yield sorter(word)
        yield merger(word)
        yield place("argmin", "falling_key", word)
    yield indexing.taker("ushort", "long")
    yield indexing.putter("half", "uchar", True)
    yield indexing.putter("ulong", "int", False)
    yield slices.kernel_of("ushort", (-1, 0, 1), True)
    yield slices.kernel_of("uint", (0,), False)


KERNELS = {kernel.name: kernel for kernel in (*elementwise(), *others())}
COMPLEX = {kernel.name: kernel for kernel in complex_numbers()}


@pytest.mark.every(3)
@pytest.mark.parametrize("name", KERNELS)
def test_is_metal(name):
    assert check_metal(KERNELS[name].text("metal", ())) == []


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_numbers_have_no_metal(name):
    with pytest.raises(ValueError, match="complex numbers"):
        COMPLEX[name].text("metal", ())


@pytest.mark.every(4)
@pytest.mark.parametrize("name", [*KERNELS, *COMPLEX])
def test_is_machine_code(name):
    compiler = Compiler()
    target = TARGETS[len(name) % 2]
    assembly = compiler.assembly((KERNELS | COMPLEX)[name].text("hip", ()), name, target)
    assert ".vgpr_spill_count: 0" in assembly
    assert compiler.code_object(assembly, name, target)
