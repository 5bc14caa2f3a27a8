"""How the memory of recorded steps is laid out, against what it needs at least."""

from hiprt.allocator import Arena, default_pool
from hiprt.graphs.recording import Recording

MOST = 1.05


def plan_of(function, stream):
    """Record what a function launches, and run none of it; how its intermediates and results are laid out."""
    arena = Arena(default_pool.allocate)
    recording = Recording(arena)
    with recording.record(stream):
        results = function()
    recording.settle(stream)
    del results
    return check_plan(*arena.plans)


def check_plan(plan):
    """Hold a plan to at most 1.05 of what is live in it at once; return it."""
    assert plan.lower_bound <= plan.nbytes <= MOST * plan.lower_bound
    return plan


def check_plans(step):
    """The same of every graph that a `Step` keeps."""
    assert step.plans, "the step has not been kept: call it once, with keep=True"
    return [check_plan(plan) for plan in step.plans]
