"""The memory of recorded steps is compared with the least that any layout needs."""

MOST = 1.05


def check_plan(plan):
    """Require that a plan takes at most 1.05 of what is live in it at once."""
    assert plan.lower_bound <= plan.nbytes <= MOST * plan.lower_bound


def check_plans(step):
    """Require it of every graph that a `Step` keeps."""
    assert step.plans, "the step has not been kept: call it once, with keep=True"
    for plan in step.plans:
        check_plan(plan)
