"""Decode: what a decode step computes in single ops becomes the kernels that do several of them.

These kernels do not round in between, and sum in another order, so that this pass changes results by rounding.
"""

from __future__ import annotations

from collections.abc import Mapping

from hiprt import kernels
from hiprt.array import Array
from hiprt.graphs.trace.passes.dead_code import dead_code
from hiprt.graphs.trace.passes.decode.experts import experts, wanted_by_routes
from hiprt.graphs.trace.passes.decode.heads import heads, heads_of_attention, openings, wanted_by_heads
from hiprt.graphs.trace.passes.decode.joins import joins
from hiprt.graphs.trace.passes.decode.match import replaced_by
from hiprt.graphs.trace.passes.decode.matrices import NO_LEAVES, Joined
from hiprt.graphs.trace.passes.decode.products import gates, norms, residuals, wanted_by_gates
from hiprt.graphs.trace.passes.decode.recurrence import (
    gated_norms,
    inputs_of_rules,
    recurrences,
    wanted_by_recurrences,
    wanted_by_rules,
)
from hiprt.graphs.trace.passes.decode.routing import routes, shared_sums, sums
from hiprt.graphs.trace.passes.decode.rows import rows
from hiprt.graphs.trace.passes.decode.uses import Uses
from hiprt.graphs.trace.program import Program

__all__ = ["decode"]

FOUND_IN = (kernels.quantized_matmul, kernels.kv_write, kernels.gather_qmm, kernels.gated_delta)


def decode(program: Program, leaves: Mapping[int, Array] = NO_LEAVES) -> Program:
    """Return the program with the kernels of decode steps in the place of single ops.

    - ``rms_norm``, ``quantized_matmul``, ``silu_mul`` of its halves, or ``silu`` and ``multiply``, and ``add`` of a
      residual become ``product``;
    - the norms and rotations of queries and keys, the writes to both caches and ``attention`` to them become
      ``norm_rope_attention``, and the gate behind ``attention`` becomes a part of it;
    - ``softmax``, ``argpartition`` and the shares of the largest become ``moe_route``; the weighted sum of experts, and
      of a shared one, becomes ``moe_combine``; these, ``gather_qmm`` with a gate in between and ``add`` of a residual
      become ``moe_route``, ``moe_gate_up`` and ``moe_down``;
    - from ``conv_step`` to the gated norm, a step of a gated-delta layer becomes ``gdn_step``; where another kernel
      does the rule, what it takes becomes ``gdn_inputs``, and the norm ``gated_rms_norm``;
    - products of the same vectors become one where these kernels take its columns, with matrices that are joined.

    What has one token of one text as axes of one element in front is computed as rows before that.

    Parameters
    ----------
    program : Program
    leaves : mapping of int to Array
        The values of a lazy graph that hold arrays which the program captured, by the arrays' ids. Such arrays are
        moved to where they are joined, so that the memory is there once.
    """
    if not any(primitive.op in FOUND_IN for primitive in program.primitives):
        return program
    program = dead_code(rows(program))
    told = Joined(program, leaves)
    join = joins((wanted_by_heads, wanted_by_gates, wanted_by_routes, wanted_by_recurrences, wanted_by_rules), told)
    finders = (
        routes,
        sums,
        shared_sums,
        join,
        gates,
        recurrences,
        inputs_of_rules,
        gated_norms,
        experts(told),
        openings,
        residuals,
        norms,
        heads,
    )
    for find in (*finders, heads_of_attention):
        uses = Uses(program)
        program = replaced_by(program, find(uses), uses)
    if told.count:
        program.notes = (*program.notes, told)
    return program
