"""Metal programs on the CPU device: the text's own body, under a signature that HIP understands."""

import re
import struct
from functools import cache

import numpy as np

from hiprt.array import Array
from hiprt.buffer import Buffer
from hiprt.compiler import compile_source
from hiprt.kernels.lang.attributes import ATTRIBUTES
from hiprt.kernels.lang.dialect import BODY as BODY_FILES, DIALECTS, METAL_BODY, prelude
from hiprt.kernels.lang.kernel import GENERIC_OPTION
from hiprt.kernels.lang.metal_to_hip import declare_shared, swizzles, translate_body, translate_header
from hiprt.metal_compat import check_metal
from hiprt.module import READ_WRITE, SCALAR, Argument, Function, Module
from hiprt.provider import CPU

KERNEL = re.compile(r"\[\[kernel, max_total_threads_per_threadgroup\((\d+)\)\]\] void (\w+)\((.*)\) \{\n")
BUFFER = re.compile(r"(const )?(device|constant) (\w+)([*&]) (\w+) \[\[buffer\((\d+)\)\]\]")
ATTRIBUTE = re.compile(r"(\w+) (\w+) \[\[(\w+)\]\]")


BYTE = np.dtype(np.uint8)
# Of types in memory; 4 of the others.
ALIGNMENTS = dict.fromkeys(("int64_t", "uint64_t", "ulong", "complex64_t"), 8)
ALIGNMENTS |= dict.fromkeys(("half", "float16_t", "bfloat16_t", "int16_t", "uint16_t"), 2)
ALIGNMENTS |= dict.fromkeys(("uchar", "bool", "int8_t", "uint8_t"), 1)


class Program:
    """One kernel of a Metal text, ready to run on the CPU device.

    Attributes
    ----------
    name : str
    threads : int
        Most threads of a threadgroup.
    counts_threads : bool
        Whether grids count threads.
    written : dict
        Whether the kernel may write a buffer, by binding index.
    alignments : dict
        Of the buffers, in bytes.
    """

    counts_threads = False
    options = (*CPU.math_modes["safe"], GENERIC_OPTION)
    extent = ()

    def __init__(self, text):
        refuse(text)
        metal, hip = DIALECTS["metal"].prelude, DIALECTS["hip"].prelude
        assert text.startswith(metal), "not a text of Kernel.text"
        before, threads, self.name, signature, body = KERNEL.split(text[len(metal) :])
        self.threads = int(threads)
        self.written, self.alignments, parameters, locals_ = {}, {}, [], []
        for parameter in signature.split(", "):
            match = BUFFER.fullmatch(parameter)
            if match is None:
                word, name, attribute = ATTRIBUTE.fullmatch(parameter).groups()
                locals_.append(f"const {word} {name} = {ATTRIBUTES[attribute].whole.format(threads=0)};")
                continue
            const, _, word, mark, name, index = match.groups()
            self.written[int(index)] = const is None
            self.alignments[int(index)] = ALIGNMENTS.get(word, 4)
            parameters.append(f"{const or ''}{word}* {name}{'_at' if mark == '&' else ''}")
            if mark == "&":
                locals_.append(f"const {word}& {name} = *{name}_at;")
        head = f'namespace metal {{\nextern "C" __global__ void __launch_bounds__({threads}) {self.name}'
        lines = [
            f"{hip}{before}{head}({', '.join(parameters)}) {{",
            *locals_,
            declare_shared(body),
            "}  // namespace metal",
        ]
        self.text = "\n".join(lines)
        self.function = None

    def run(self, stream, grid, block, addresses):
        """Run on the CPU device; one address per binding index."""
        self.launch(stream, tuple(grid), tuple(block), addresses)

    def launch(self, stream, grid, block, addresses, *values):
        if self.function is None:
            code, _ = compile_source(self.text, f"{self.name}.hip", options=self.options)
            arguments = [Argument(f"buffer{i}", READ_WRITE) for i in sorted(self.written)]
            self.function = Function(Module(code), self.name, [*arguments, *self.extent])
        arrays = [Array(Buffer(at, 1, 0), (1,), BYTE, at) for at in addresses]
        self.function(stream, grid, block, *arrays, *values)
        stream.synchronize()


BODY = re.compile(
    r"(.*?)(template <[^\n]*>\n)?\[\[kernel\]\] void (\w+)\(\n(.*?)\) \{\n(.*)\n\}\n"
    r"(?:\ntemplate \[\[host_name.*decltype\(\w+(<.*>)\) [^\n]*\n)?",
    re.DOTALL,
)


class BodyProgram(Program):
    """The same for a user's body, whose grid counts threads."""

    counts_threads = True
    extent = (Argument("extent", SCALAR, "bytes", size=24, alignment=4),)

    def __init__(self, text, mode):
        refuse(text)
        for name in re.findall(r"\b(?:complex64_t|Limits)\b", text):
            raise SyntaxError(f"unknown type {name}: metal_body.h does not have it")
        self.options, self.threads, self.function = CPU.math_modes[mode], 1024, None
        header, template, self.name, signature, body, values = BODY.fullmatch(text).groups()
        self.written, self.alignments, parameters, kernel, call = {}, {}, [], [], []
        for line in signature.split(",\n"):
            parameter, attribute = re.fullmatch(r"\s*(.*) \[\[(.*)\]\]", line).groups()
            parameters.append(parameter)
            if attribute in ATTRIBUTES:
                call.append(ATTRIBUTES[attribute].exact)
                continue
            const, word, mark, name = re.fullmatch(
                r"(const )?(?:constant|device) (\S+?)([*&]) (\w+)", parameter
            ).groups()
            self.alignments[len(self.written)] = ALIGNMENTS.get(word, 4)
            self.written[len(self.written)] = const is None
            kernel.append(f"{const or ''}{word}* {name}")
            call.append(("*" if mark == "&" else "") + name)
        self.text = "\n".join(
            [
                "#define HIPRT_LINE 0\n#define HIPRT_FOLDED 0",
                f"{swizzles(text)}{prelude(BODY_FILES)}namespace metal {{",
                f"{translate_header(header)}\n{template or ''}",
                f"HIPRT_BODY void hiprt_body({', '.join(parameters)}) {{\nHIPRT_MATH_MODE\n{translate_body(body)}\n}}",
                f'extern "C" __global__ void __launch_bounds__({self.threads}) {self.name}(',
                f"{', '.join(kernel)}, hiprt::extent hiprt_extent) {{\nconst hiprt::place here(hiprt_extent);",
                f"if (here.index < here.threads) hiprt_body{values or ''}({', '.join(call)});\n}}\n}}",
            ]
        )

    def run(self, stream, grid, block, addresses):
        """Run on the CPU device; one address per binding index."""
        whole = [min(a, b) for a, b in zip(grid, block)]
        groups = tuple(-(-a // b) for a, b in zip(grid, whole))
        extent = struct.pack("<6I", *grid, *whole)
        self.launch(stream, groups, (whole[0] * whole[1] * whole[2], 1, 1), addresses, extent)


def refuse(text):
    """Refuse what the checker of Metal's language refuses."""
    problems = check_metal(text)
    if problems:
        raise SyntaxError("\n".join(map(str, problems)))


@cache
def program(text, mode):
    """Return a text's program; its checks and its compilation are the same for every device of the fake."""
    _, before, body = text.rpartition(prelude(METAL_BODY))
    return BodyProgram(body, mode) if before else Program(text)
