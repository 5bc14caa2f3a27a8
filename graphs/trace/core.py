"""The C types of traces and compiled functions; see their files in ``graphs/native``."""

from hiprt import objects

__all__ = [
    "ITSELF", "Compiled", "HostView", "Issue", "Lazy", "Primitive", "Recipe", "Trace", "Traced", "alike", "apply",
    "cut", "declare", "hold", "is_pinned", "move", "note", "numbered", "pin", "run", "watch",
]  # fmt: skip

types = objects.load("hiprt.graphs.native.trace")
Trace, Primitive = types.Trace, types.Primitive
compiled = objects.load("hiprt.graphs.native.compiled")
Compiled, Traced = compiled.Compiled, compiled.Traced
cuts = objects.load("hiprt.graphs.native.cut")
cut, hold, is_pinned, move, pin = cuts.cut, cuts.hold, cuts.is_pinned, cuts.move, cuts.pin
issues = objects.load("hiprt.graphs.native.issue")
ITSELF, Issue, note, run = issues.ITSELF, issues.Issue, issues.note, issues.run
lazies = objects.load("hiprt.graphs.native.lazy")
HostView = objects.load("hiprt.graphs.native.host_view").HostView
Lazy, apply, declare, watch = lazies.Lazy, lazies.apply, lazies.declare, lazies.watch
recipes = objects.load("hiprt.graphs.native.recipe")
Recipe, alike, numbered = recipes.Recipe, recipes.alike, recipes.numbered
