"""Programs of functions, traced as `compile` does, before any pass."""

from hiprt.graphs.trace.program import Program
from hiprt.graphs.trace.trace import Trace


def traced(function, *arrays, shapeless=False):
    """Return the program of a function of arrays."""
    trace = Trace(shapeless=shapeless)
    values = [trace.given(array) for array in arrays]
    with trace.recording():
        made = function(*values)
    return Program(values, trace.primitives, made if isinstance(made, tuple) else (made,), trace.guards)


def calls(program):
    """The calls of a program, without what they return."""
    lines = [line for line in program.text().splitlines()[1:-1] if "captured" not in line]
    return [line.split(": ", 1)[-1].split(" = ", 1)[-1].strip() for line in lines]
