"""Bodies: a user's Metal text without a signature, and the program generated around it for each form of call."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hiprt.array import bfloat16
from hiprt.kernels.lang.attributes import ATTRIBUTES
from hiprt.kernels.lang.dialect import BODY, prelude
from hiprt.kernels.lang.metal_to_hip import swizzles, translate_body, translate_header
from hiprt.module import READ, READ_WRITE, SCALAR, WRITE, Argument

__all__ = ["FEW", "WORDS", "Body", "Form", "Operand"]

# Metal's types as MLX writes them. Only templates may have double, since no device array does.
WORDS = {
    np.dtype(np.bool_): "bool",
    np.dtype(np.uint8): "uint8_t",
    np.dtype(np.uint16): "uint16_t",
    np.dtype(np.uint32): "uint32_t",
    np.dtype(np.uint64): "uint64_t",
    np.dtype(np.int8): "int8_t",
    np.dtype(np.int16): "int16_t",
    np.dtype(np.int32): "int32_t",
    np.dtype(np.int64): "int64_t",
    np.dtype(np.float16): "float16_t",
    bfloat16: "bfloat16_t",
    np.dtype(np.float32): "float",
    np.dtype(np.complex64): "complex64_t",
    np.dtype(np.float64): "double",
}
FEW = 8  # Metal keeps inputs with fewer elements in its constant address space
SYMBOL = re.compile(r"[A-Za-z_]\w*")
EXTENT = "extent of the grid"
NAMED_TYPE = re.compile(r"\b(?!(?:bool|float|double)\b)[A-Za-z_]\w*")


@dataclass(frozen=True)
class Operand:
    """The properties of one input array that a program's text depends on."""

    dtype: np.dtype[Any]
    ndim: int
    few: bool


@dataclass(frozen=True)
class Form:
    """The properties of one call that a program's text depends on.

    Attributes
    ----------
    inputs : tuple of Operand
    outputs : tuple of dtype
    template : tuple of (str, dtype or int or bool)
    kinds : tuple of type
        The types of the template's values.
    """

    inputs: tuple[Operand, ...]
    outputs: tuple[np.dtype[Any], ...]
    template: tuple[tuple[str, Any], ...] = ()
    kinds: tuple[type, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Forms are compared by these too, because Python takes 1 and True for equal.
        object.__setattr__(self, "kinds", tuple(type(value) for _, value in self.template))


@dataclass(frozen=True)
class Parameter:
    """One parameter of a generated signature; `kind` is a key of `KINDS`."""

    kind: str
    name: str
    word: str
    ndim: int
    space: str


@dataclass(frozen=True)
class Kind:
    """The text of a kind of parameter in Metal, and on HIP in the body, in the kernel, and in the call between them."""

    metal: str
    body: str
    kernel: str
    call: str


KINDS = {
    "array": Kind(
        "const {space} {word}* {name}", "const {word}* {name}", "const {word}* __restrict__ {name}", "{name}"
    ),
    "value": Kind(
        "const constant {word}& {name}", "const {word}& {name}", "const {word}* __restrict__ {name}", "*{name}"
    ),
    "shape": Kind(
        "const constant int* {name}_shape", "const int* {name}_shape", "hiprt::values<int, {ndim}> {name}_shape",
        "{name}_shape.at",
    ),
    "strides": Kind(
        "const constant int64_t* {name}_strides", "const ::metal::int64_t* {name}_strides",
        "hiprt::values<int64_t, {ndim}> {name}_strides", "{name}_strides.at",
    ),
    "ndim": Kind("const constant int& {name}_ndim", "const int& {name}_ndim", "", "{ndim}"),
    "output": Kind("device {word}* {name}", "{word}* {name}", "{word}* __restrict__ {name}", "{name}"),
}  # fmt: skip
DETAILS = ("shape", "strides", "ndim")


def qualified(word: str) -> str:
    """Return the name of a type by its whole path, unless it is a word of C++."""
    return NAMED_TYPE.sub(r"::metal::\g<0>", word)


class Body:
    """A kernel's body with the names it uses.

    Parameters
    ----------
    name : str
    inputs, outputs : sequence of str
    source : str
        The body.
    header : str
        The text before the kernel.
    atomic : bool
        Whether outputs are arrays of atomics.
    """

    def __init__(
        self,
        name: str,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        source: str,
        header: str = "",
        atomic: bool = False,
    ) -> None:
        self.name, self.inputs, self.outputs = name, inputs, outputs
        self.source, self.header, self.atomic = source, header, atomic
        # MLX decides by a plain search that includes comments, and so does this.
        self.attributes = [name for name in sorted(ATTRIBUTES) if name in source]
        self.details = {name: [d for d in DETAILS if f"{name}_{d}" in source] for name in inputs}

    def symbol(self, form: Form) -> str:
        """Return the kernel's name, made of the user's name, the template's values and the operands' types."""
        name = f"custom_kernel_{self.name}"
        if form.template:
            text = self.template_values(form)
            name += "_" + text.replace("<", "_").replace(">", "_").replace(", ", "_").replace("-", "_")[:-1]
        for operand in form.inputs:
            suffix = "s" if operand.ndim == 0 else "c" if operand.few else ""
            name += f"_{WORDS[operand.dtype]}{suffix}"
        return name + "".join(f"_{WORDS[dtype]}" for dtype in form.outputs)

    def parameters(self, form: Form) -> Iterator[Parameter]:
        """Yield the parameters in order, without attributes."""
        for name, operand in zip(self.inputs, form.inputs):
            space = "constant" if operand.few else "device"
            kind = "array" if operand.ndim else "value"
            yield Parameter(kind, name, WORDS[operand.dtype], operand.ndim, space)
            for detail in self.details[name] if operand.ndim else ():
                yield Parameter(detail, name, "", operand.ndim, "constant")
        for name, dtype in zip(self.outputs, form.outputs):
            word = WORDS[dtype]
            yield Parameter("output", name, f"atomic<{word}>" if self.atomic else word, 0, "device")

    def template_values(self, form: Form) -> str:
        """Return the template's arguments, such as ``<float, 3, 1>``."""
        values = (str(int(v)) if isinstance(v, int) else WORDS[v] for _, v in form.template)
        return f"<{', '.join(values)}>"

    def template_line(self, form: Form) -> str:
        """Return the line that opens a template; it is empty without parameters."""
        words = (
            f"{'bool' if isinstance(value, bool) else 'int' if isinstance(value, int) else 'typename'} {name}"
            for name, value in form.template
        )
        return f"template <{', '.join(words)}>\n" if form.template else ""

    def metal(self, form: Form) -> str:
        """Return the program in Metal: header, signature, body, and the template's instantiation.

        The text is MLX's, byte for byte, except for one defect of MLX (0.32.4): with several outputs, a shape, strides
        or ndim, and no attribute, MLX closes the signature behind the first output.
        """
        name = self.symbol(form)
        lines = [
            KINDS[p.kind].metal.format_map(vars(p)) + f" [[buffer({i})]]" for i, p in enumerate(self.parameters(form))
        ]
        lines += [f"{ATTRIBUTES[a].word} {a} [[{a}]]" for a in self.attributes]
        text = f"{self.header}{self.template_line(form)}[[kernel]] void {name}(\n  "
        text += ",\n  ".join(lines) + ") {\n" + self.source + "\n}\n"
        if form.template:
            whole = name + self.template_values(form)
            text += f'\ntemplate [[host_name("{name}")]] [[kernel]] decltype({whole}) {whole};\n'
        return text

    def hip(self, form: Form, *, line: bool, threads: int, is_folded: bool = False) -> str:
        """Return the program in HIP C++.

        A parameter may have any name that Metal takes: only the body's function has the user's names, and its
        signature names types in a way that they cannot hide.

        Parameters
        ----------
        form : Form
        line : bool
            Whether threadgroups have threads along x only.
        threads : int
            The most threads of a threadgroup.
        is_folded : bool
            Whether threadgroups along y and z are launched in one row, as for a grid that is larger along them than
            runtimes take.
        """
        parameters = [vars(p) | {"word": qualified(p.word)} for p in self.parameters(form)]
        ours = [p | {"name": f"hiprt_{i}"} for i, p in enumerate(parameters)]
        body = [KINDS[p["kind"]].body.format_map(p) for p in parameters]
        body += [f"{qualified(ATTRIBUTES[a].word)} {a}" for a in self.attributes]
        kernel = [KINDS[p["kind"]].kernel.format_map(p) for p in ours if KINDS[p["kind"]].kernel]
        call = [KINDS[p["kind"]].call.format_map(p) for p in ours]
        call += [ATTRIBUTES[a].exact for a in self.attributes]
        values = self.template_values(form) if form.template else ""
        return "\n".join(
            [
                f"#define HIPRT_LINE {int(line)}\n#define HIPRT_FOLDED {int(is_folded)}",
                f"{swizzles(self.header + self.source)}{prelude(BODY)}",
                f'#line 1 "namespace of {self.name}"\nnamespace metal {{',  # behind what all kernels begin with
                f'#line 1 "header of {self.name}"\n{translate_header(self.header)}',
                f'#line 1 "signature of {self.name}"\n{self.template_line(form)}',
                f"HIPRT_BODY void hiprt_body({', '.join(body)}) {{\nHIPRT_MATH_MODE",
                f'#line 1 "{self.name}.metal"\n{translate_body(self.source)}\n}}',
                f'#line 1 "kernel of {self.name}"',
                f'extern "C" __global__ void __launch_bounds__({threads})',
                f"{self.symbol(form)}({', '.join([*kernel, 'hiprt::extent hiprt_extent'])}) {{",
                "const hiprt::place here(hiprt_extent);",
                f"if (here.index < here.threads) hiprt_body{values}({', '.join(call)});\n}}",
                "}  // namespace metal\n",
            ]
        )

    def arguments(self, form: Form, *, reads_outputs: bool) -> list[Argument]:
        """Return the HIP kernel's arguments: arrays, the shapes and strides that the body names, the grid's extent.

        Parameters
        ----------
        form : Form
        reads_outputs : bool
            Whether outputs hold values that the body may read.
        """
        arguments = []
        for p in self.parameters(form):
            if p.kind in ("array", "value"):
                arguments.append(Argument(p.name, READ))
            elif p.kind == "output":
                arguments.append(Argument(p.name, READ_WRITE if reads_outputs else WRITE))
            elif p.kind != "ndim":
                width = 4 if p.kind == "shape" else 8
                arguments.append(Argument(f"{p.name}_{p.kind}", SCALAR, "bytes", size=width * p.ndim, alignment=width))
        return [*arguments, Argument(EXTENT, SCALAR, "bytes", size=24, alignment=4)]

    def check_names(self, form: Form) -> None:
        """Refuse names that no compiler takes, with a clearer message than its own.

        Raises
        ------
        ValueError
            A name is not an identifier, or stands twice.
        """
        names = [*self.inputs, *self.outputs, *(name for name, _ in form.template)]
        for name in [self.symbol(form), *names]:
            if not SYMBOL.fullmatch(name):
                raise ValueError(f"[metal_kernel] `{name}` is not a name that a kernel can have: not an identifier.")
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"[metal_kernel] `{name}` names several inputs, outputs or template parameters.")
