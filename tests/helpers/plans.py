"""How the memory of recorded steps is laid out, against what it needs at least."""

MOST = 1.05


def check_plans(step):
    """Hold every kept graph of a `Step` to at most 1.05 of what is live in it at once; the plans."""
    plans = step.plans
    assert plans, "the step has not been kept: call it once, with keep=True"
    for plan in plans:
        assert plan.lower_bound <= plan.nbytes <= MOST * plan.lower_bound, (step.name, plan.nbytes, plan.lower_bound)
    return plans
