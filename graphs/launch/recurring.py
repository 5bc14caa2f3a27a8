"""Recurring calls: which calls of a step are kept, to be launched again without calling the function.

A kept call has an executable graph and memory of its own. That pays for calls that launch other nodes than those
before, and for calls that come back. A call that differs in values or addresses only, and each time in others, is
recorded each time, and such calls take turns in a few graphs that are patched.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from hiprt.flags import flags

__all__ = ["TIMES", "TRANSIENT", "Recurring"]

TIMES = 3  # a call that is recorded for the third time has cost as much as a graph of its own
FORMS = 4  # forms in a row that launch the same nodes, from which on another form is one of many
TRANSIENT = 2  # graphs that calls which are not kept take turns in: one runs while the other is patched


class Recurring:
    """The calls that a step has recorded of late.

    Attributes
    ----------
    times : OrderedDict
        How often each signature was recorded, the latest last.
    forms : OrderedDict
        Whether the last call of each form launched nodes that no call had launched before, the latest last.
    same : int
        How many forms in a row, when they were first seen, launched nodes that were known.
    """

    def __init__(self) -> None:
        self.times: OrderedDict[Hashable, int] = OrderedDict()
        self.forms: OrderedDict[Hashable, bool] = OrderedDict()
        self.same = 0

    def is_expected(self, form: Hashable, signature: Hashable) -> bool:
        """Whether a call, which is about to be recorded, will probably be kept, and so needs memory of its own.

        Parameters
        ----------
        form : hashable
            What remains of the signature without plain values and addresses.
        signature : hashable
        """
        return self.times.get(signature, 0) + 1 >= TIMES or self.forms.get(form, self.same < FORMS)

    def is_kept(self, form: Hashable, signature: Hashable, *, is_new: bool) -> bool:
        """Note that a call was recorded, and return whether it is to be kept.

        Parameters
        ----------
        form, signature : hashable
        is_new : bool
            Whether it launched nodes that no call had launched before. Such a call is kept, and the first one of a
            form; any other when it is recorded for the third time.
        """
        is_first = form not in self.forms
        if is_first:
            self.same = 0 if is_new else self.same + 1
        is_other = is_new or (is_first and self.same <= FORMS)
        times = max(self.times.get(signature, 0) + 1, TIMES - 1 if is_other else 0)
        self.times[signature], self.forms[form] = times, is_new
        note(self.times, signature)
        note(self.forms, form)
        return is_other or times >= TIMES

    def keep(self, signature: Hashable) -> None:
        """Note that a call is kept: should it be dropped and recorded again, it is kept again."""
        self.times[signature] = TIMES
        note(self.times, signature)

    def clear(self) -> None:
        """Forget all calls."""
        self.times.clear()
        self.forms.clear()
        self.same = 0


def note(latest: OrderedDict[Hashable, int] | OrderedDict[Hashable, bool], key: Hashable) -> None:
    """Make a key the latest, and forget those that came longest ago."""
    latest.move_to_end(key)
    while len(latest) > flags.graph_keys:
        latest.popitem(last=False)
