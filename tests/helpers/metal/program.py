"""Metal programs on the CPU device: the text's own body, under a signature that HIP understands."""

import re
from types import SimpleNamespace

from hiprt.array import pack_cell
from hiprt.compiler import compile_source
from hiprt.kernels.attributes import ATTRIBUTES
from hiprt.kernels.dialect import DIALECTS
from hiprt.kernels.kernel import GENERIC_OPTION, OPTIONS
from hiprt.kernels.words import declare_shared
from hiprt.metal_compat import check_metal
from hiprt.module import READ_WRITE, Argument, Function, Module

KERNEL = re.compile(r"\[\[kernel, max_total_threads_per_threadgroup\((\d+)\)\]\] void (\w+)\((.*)\) \{\n")
BUFFER = re.compile(r"(const )?(device|constant) (\w+)([*&]) (\w+) \[\[buffer\((\d+)\)\]\]")
ATTRIBUTE = re.compile(r"(\w+) (\w+) \[\[(\w+)\]\]")


class Program:
    """One kernel of a Metal text, ready to run on the CPU device.

    Attributes
    ----------
    name : str
    threads : int
        Most threads of a threadgroup.
    written : dict
        Whether the kernel may write a buffer, by binding index.
    """

    def __init__(self, text):
        problems = check_metal(text)
        if problems:
            raise SyntaxError("\n".join(map(str, problems)))
        metal, hip = DIALECTS["metal"].prelude, DIALECTS["hip"].prelude
        assert text.startswith(metal), "not a text of Kernel.text"
        before, threads, self.name, signature, body = KERNEL.split(text[len(metal) :])
        self.threads = int(threads)
        self.written, parameters, locals_ = {}, [], []
        for parameter in signature.split(", "):
            match = BUFFER.fullmatch(parameter)
            if match is None:
                word, name, attribute = ATTRIBUTE.fullmatch(parameter).groups()
                locals_.append(f"const {word} {name} = {ATTRIBUTES[attribute].whole};")
                continue
            const, _, word, mark, name, index = match.groups()
            self.written[int(index)] = const is None
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
        if self.function is None:
            code, _ = compile_source(self.text, f"{self.name}.hip", options=(*OPTIONS["cpu"], GENERIC_OPTION))
            arguments = [Argument(f"buffer{i}", READ_WRITE) for i in sorted(self.written)]
            self.function = Function(Module(code), self.name, arguments)
        cells = [SimpleNamespace(cell=pack_cell(at, at, at + 1)) for at in addresses]
        self.function(stream, tuple(grid), tuple(block), *cells)
        stream.synchronize()
