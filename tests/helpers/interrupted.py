"""A step whose launch fails, and which another thread calls before it runs eagerly."""

import threading

from quirks.test_guards import CoreExec

from helpers.hip_calls import raw
from hiprt import graphs


class Interrupted(graphs.Step):
    """A step that is called as usual until `fail_next`.

    Attributes
    ----------
    others : list
        What the other thread's call has returned.
    """

    def fail_next(self, *args):
        """Let the next launch of the only kept call fail, and another thread call the step with these arguments."""
        self.others = []
        self.thread = threading.Thread(target=lambda: self.others.append(self(*args)))
        (kept,) = self.kept.values()
        self.own_stream().synchronize()
        assert raw("hipGraphExecDestroy", CoreExec.of(kept.exec).handle) == 0

    def fail(self, *args):
        """Do what a step does, behind the other thread's call."""
        if self.thread.ident is None:
            self.thread.start()
            self.thread.join()
        return super().fail(*args)
