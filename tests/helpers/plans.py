"""How the memory of recorded steps is laid out, against what it needs at least."""

MOST = 1.05


def check_plan(plan):
    """Hold a plan to at most 1.05 of what is live in it at once."""
    assert plan.lower_bound <= plan.nbytes <= MOST * plan.lower_bound


def check_plans(step):
    """The same of every graph that a `Step` keeps."""
    assert step.plans, "the step has not been kept: call it once, with keep=True"
    for plan in step.plans:
        check_plan(plan)
