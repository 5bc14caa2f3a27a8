"""`metal_kernel`: MLX's call for a kernel written as the body of a Metal function, on every device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from hiprt.array import Array, empty
from hiprt.kernels.lang.metal_body import Body
from hiprt.metal_compat.argument_values import call_error, input_value, is_list
from hiprt.metal_compat.call import FUNCTIONS, MISSING, Call, Names, ordered
from hiprt.metal_compat.copy_and_fill import from_host, initialise, row_contiguous
from hiprt.metal_compat.options import math_mode
from hiprt.metal_compat.program_cache import MOST_THREADS, ProgramCache
from hiprt.op import Op

__all__ = ["MetalKernel", "metal_kernel"]


def metal_kernel(
    name: str,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    source: str | None = None,
    header: str = "",
    ensure_row_contiguous: bool = True,
    atomic_outputs: bool = False,
    compile_options: Mapping[str, str] | None = None,
    **unknown: Any,
) -> MetalKernel:
    """Return a kernel from the body of a Metal function; nothing is compiled before its first call.

    Parameters
    ----------
    name : str
    input_names, output_names : sequence of str
        The names of the arrays, in the order of the call's lists. Without them the kernel is called with
        dictionaries, and arrays are ordered by name.
    source : str
        The body. It uses the arrays by name, ``<input>_shape``, ``<input>_strides`` and ``<input>_ndim``, Metal's
        attributes, and what MLX offers (``elem_to_loc``, ``ceildiv``, ``Limits``, ...).
    header : str
        The text before the function: includes, helper functions, constants.
    ensure_row_contiguous : bool
        Whether inputs with gaps are copied first.
    atomic_outputs : bool
        Whether outputs are ``device atomic<T>*``.
    compile_options : dict, optional
        ``{"math_mode": "safe"}`` (the default), ``"relaxed"`` or ``"fast"``.

    Raises
    ------
    TypeError
        An argument is missing, unknown or of a wrong type.
    ValueError
        There is no output, or a compile option is unknown.
    """
    if isinstance(input_names, str) and output_names is None and source is None:
        input_names, source = None, input_names
    named = input_names is not None or output_names is not None
    lists = all(
        is_list(names) and all(isinstance(n, str) for n in names or ()) for names in (input_names, output_names)
    )
    texts = all(isinstance(text, str) for text in (name, source, header))
    switches = all(isinstance(switch, (bool, np.bool_)) for switch in (ensure_row_contiguous, atomic_outputs))
    if unknown or not texts or not switches or (named and not lists):
        raise TypeError(
            "metal_kernel(): incompatible function arguments. Expected name: str, input_names: Sequence[str], "
            "output_names: Sequence[str], source: str, header: str, ensure_row_contiguous: bool, atomic_outputs: bool, "
            f"compile_options: dict | None{'; got ' + ', '.join(unknown) if unknown else ''}."
        )
    if named and not output_names:
        raise ValueError("[metal_kernel] Must specify at least one output.")
    names = (tuple(input_names or ()), tuple(output_names or ())) if named else None
    return MetalKernel(
        name, names, source or "", header, ensure_row_contiguous, atomic_outputs, math_mode(compile_options)
    )


class Generated(NamedTuple):
    """A call of a kernel as MLX has it.

    Attributes
    ----------
    name, text : str
        The generated name and Metal text.
    inputs : list of Array or numpy array
    grid, threadgroup : tuple of 3 int
    details : list of (bool, bool, bool)
        Whether the text has the shape, the strides and the number of axes of each input.
    init_value : number, optional
    """

    name: str
    text: str
    inputs: list[Any]
    grid: tuple[int, int, int]
    threadgroup: tuple[int, int, int]
    details: list[tuple[bool, bool, bool]]
    init_value: float | None


class MetalKernel:
    """A kernel that `metal_kernel` made.

    Attributes
    ----------
    name : str
    math_mode : str
        The math mode: safe, relaxed or fast.
    """

    def __init__(
        self,
        name: str,
        names: Names | None,
        source: str,
        header: str,
        ensure_row_contiguous: bool,
        atomic_outputs: bool,
        math_mode: str,
    ) -> None:
        self.name, self.names = name, names
        self.source, self.header = source, header
        self.ensure_row_contiguous, self.atomic_outputs = ensure_row_contiguous, atomic_outputs
        self.math_mode = math_mode
        self.programs: dict[Names, ProgramCache] = {}

    def __call__(
        self,
        *positional: Any,
        inputs: Any = MISSING,
        output_shapes: Any = MISSING,
        output_dtypes: Any = MISSING,
        grid: Any = MISSING,
        threadgroup: Any = MISSING,
        template: Any = None,
        init_value: float | None = None,
        verbose: bool = False,
        stream: Any = None,
        ensure_row_contiguous: bool | None = None,
        **unknown: Any,
    ) -> Any:
        """Run the kernel on a stream.

        Parameters
        ----------
        inputs : list, or dict by name
            The inputs: arrays, numpy arrays or numbers.
        output_shapes : list of shapes, or dict by name
            The outputs' shapes. This and `grid`, `threadgroup` and `template` may also be functions of the inputs'
            shapes that return the value.
        output_dtypes : list of dtypes, or dict by name
        grid : tuple of 3 int
            The threads; exactly these run.
        threadgroup : tuple of 3 int
            The threads of a threadgroup; threadgroups at the grid's edges are smaller.
        template : list of (str, value), or dict, optional
            The template's names and values, which are dtypes, ints or bools.
        init_value : number, optional
            The value that outputs hold before the kernel runs; undefined by default.
        verbose : bool
            Whether to print the generated Metal text.
        stream : Stream or Device, optional
            The stream, or the device whose current stream is taken; this thread's current stream by default.
        ensure_row_contiguous : bool, optional
            Replaces the kernel's own setting for this call.

        Returns
        -------
        list of Array, or dict by name
            The outputs, in a list or by name as the inputs were given.

        Raises
        ------
        TypeError, ValueError
            An argument does not fit. The messages and the order of the checks are MLX's.
        CompileError
            The body does not compile.
        """
        if positional or unknown:
            raise call_error(f"Only known keywords are taken{''.join(f', not `{name}`' for name in unknown)}.")
        contiguous = self.ensure_row_contiguous if ensure_row_contiguous is None else ensure_row_contiguous
        made = run(
            self,
            inputs=inputs,
            output_shapes=output_shapes,
            output_dtypes=output_dtypes,
            grid=grid,
            threadgroup=threadgroup,
            template=template,
            init_value=init_value,
            verbose=verbose,
            contiguous=contiguous,
            stream=stream,
        )
        if not isinstance(inputs, Mapping):
            return made
        return dict(zip(self.names[1] if self.names else sorted(output_shapes), made))

    def definition(self) -> dict[str, Any]:
        """Return the arguments of `metal_kernel` that make the kernel."""
        inputs, outputs = self.names or (None, None)
        return {
            "name": self.name,
            "input_names": inputs,
            "output_names": outputs,
            "source": self.source,
            "header": self.header,
            "ensure_row_contiguous": self.ensure_row_contiguous,
            "atomic_outputs": self.atomic_outputs,
            "compile_options": {"math_mode": self.math_mode},
        }

    def portable(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return a call's arguments by name, with those that are functions of the inputs' shapes called."""
        _, inputs = ordered("inputs", self.names and self.names[0], arguments["inputs"])
        shapes = [input_value(x).shape for x in inputs]
        late = {name: arguments[name](*shapes) for name in FUNCTIONS if callable(arguments[name])}
        return arguments | late

    def generated(self, arguments: dict[str, Any]) -> Generated:
        """Return what MLX has of a call with these arguments by name."""
        call = Call(self.names, arguments | {"stream": None})
        body, form = self.program(call.names).body, call.form()
        details = [
            ("shape" in body.details[name], "strides" in body.details[name], "ndim" in body.details[name])
            for name in body.inputs
        ]
        init_value = arguments["init_value"]
        return Generated(
            body.symbol(form), body.metal(form), call.inputs, call.grid, call.threadgroup, details, init_value
        )

    @classmethod
    def defined(cls, definition: dict[str, Any], shared: dict[str, Any]) -> MetalKernel:
        """Return the kernel that has a definition."""
        return metal_kernel(**definition)

    def program(self, names: Names) -> ProgramCache:
        """Return the programs for inputs and outputs of these names."""
        found = self.programs.get(names)
        if found is None:
            body = Body(self.name, *names, self.source, self.header, self.atomic_outputs)
            found = self.programs.setdefault(names, ProgramCache(body, self.math_mode))
        return found


def run_on(
    kernel: MetalKernel,
    *,
    inputs: Any,
    output_shapes: Any,
    output_dtypes: Any,
    grid: Any,
    threadgroup: Any,
    template: Any = None,
    init_value: float | None = None,
    verbose: bool = False,
    contiguous: bool = True,
    stream: Any = None,
) -> list[Array]:
    """Do what a call of a kernel does, and return the outputs in order; traces record this."""
    given = {
        "inputs": inputs,
        "output_shapes": output_shapes,
        "output_dtypes": output_dtypes,
        "grid": grid,
        "threadgroup": threadgroup,
        "template": template,
        "init_value": init_value,
        "verbose": verbose,
        "stream": stream,
    }
    call = Call(kernel.names, given)
    programs = kernel.program(call.names)
    form = call.form()
    is_rehearsed = call.stream.written is not None
    if verbose and not is_rehearsed:
        print(f"Generated source code for `{kernel.name}`:\n```\n{programs.body.metal(form)}\n```")
    call.check_limits(MOST_THREADS)
    made = [empty(shape, dtype, call.stream) for shape, dtype in zip(call.output_shapes, call.output_dtypes)]
    if is_rehearsed:  # nothing runs on the stream, so that nothing is compiled
        rehearsal: Any = call.stream
        if 0 not in call.grid:
            rehearsal.need(partial(programs.source, form, call.grid, call.threadgroup))
        return made
    arrays = [x if isinstance(x, Array) else from_host(x, call.stream) for x in call.inputs]
    if contiguous:
        arrays = [row_contiguous(x, call.stream) for x in arrays]
    if init_value is not None:
        for out in made:
            initialise(out, init_value, call.stream)
    reads_outputs = init_value is not None or kernel.atomic_outputs
    programs.launch(call.stream, form, call.grid, call.threadgroup, arrays, made, reads_outputs=reads_outputs)
    return made


run = Op(run_on, "metal_kernel", MetalKernel)
