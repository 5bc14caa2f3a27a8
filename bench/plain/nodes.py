"""Nodes: how many nodes a decode step in plain ops has after each pass, beside the engine's own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import hiprt
from hiprt import flags
from hiprt.bench.engine.models import preset
from hiprt.bench.engine.models.model import Model
from hiprt.bench.plain.model import Plain
from hiprt.graphs import Step
from hiprt.graphs.trace.passes import PASSES

__all__ = ["Nodes", "nodes_of"]

CAPACITY = 64  # tokens that the states have room for


@dataclass(frozen=True)
class Nodes:
    """The nodes of a preset's decode step.

    Attributes
    ----------
    preset : str
    primitives : int
        How many the traced step has.
    after : dict
        The nodes of its graph after this pass and those before it, by the pass's name; ``none`` without any.
    engine : int
        The nodes of the engine's own step, which calls the kernels of decode steps by hand.
    told : list of str
        What the passes tell.
    """

    preset: str
    primitives: int
    after: dict[str, int]
    engine: int
    told: list[str]


def nodes_of(name: str, batch: int = 1) -> Nodes:
    """Compile a preset's decode step with more and more passes, and count.

    Raises
    ------
    ValueError
        There is no such preset.
    """
    engine = preset(name)
    plain = Plain.of(engine)
    tokens, position = hiprt.zeros(batch, np.int32), hiprt.zeros(batch, np.int32)

    def compiled_of(model: Model | Plain, passes: tuple[str, ...]) -> tuple[int, int, list[str]]:
        state = model.state(batch, CAPACITY)
        compiled = hiprt.compile(lambda tokens, position: model.decode(tokens, position, state))
        with flags.override(compile_passes=passes):
            compiled(tokens, position)
        ((traced,),) = compiled.kinds.values()
        return traced.primitives, compiled.steps[0].nodes, [str(each) for each in traced.passes]

    names = list(PASSES)
    primitives, nodes, told = compiled_of(plain, ())
    after = {"none": nodes}
    for count, last in enumerate(names, 1):
        _, after[last], told = compiled_of(plain, tuple(names[:count]))
    state = engine.state(batch, CAPACITY)
    step = Step(lambda: engine.decode(tokens, position, state))
    step()
    return Nodes(name, primitives, after, step.nodes, told)
