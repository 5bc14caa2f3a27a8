"""Calls of modules (``mlx.nn.Module``), which are computed again without their Python.

`hiprt run` puts `adopt` on ``mlx.nn.Module``. The call of a module within which no other one runs, a whole model's in
mlx-lm, is then recorded (`hiprt.graphs.trace.recipes`). When two recordings are equal, the calls that they fit are made
from the recipe, in C: the weights are read where they are now, positions and lengths are computed from those in the
caches, and the caches are left as the model's Python would have left them. For caches of other lengths a recipe is made
from the same recording (`hiprt.graphs.trace.recipes.resized`). A call that no recipe fits runs Python.

What Python does besides, such as a print, a counter in a global variable, or a choice that depends on the time, is not
seen, and happens no more. ``HIPRT_MLX_RECIPES=0`` runs Python each time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, NamedTuple

from hiprt import collector
from hiprt.flags import flags
from hiprt.graphs.trace.core import Recipe
from hiprt.graphs.trace.integer import current_recording
from hiprt.graphs.trace.recipes.draft import Draft
from hiprt.graphs.trace.recipes.record import record
from hiprt.graphs.trace.recipes.resized import resized
from hiprt.metal_compat.mlx.random import keys

__all__ = ["Recipes", "adopt", "recipes_of"]

Function = Callable[..., Any]
ATTRIBUTE = "_hiprt_recipes"  # of a module whose calls are recorded
# Attributes of modules that are not for their calls.
SKIPPED = frozenset({ATTRIBUTE, "_no_grad"})
MOST_RECIPES, MOST_DRAFTS = 32, 8
CREDIT = 24  # how many recordings may come to nothing, one after the other
PLAYS = 8  # uses of recipes earn another one
# A call that no recipe fits after so many that one did, and the next one, come once: a cache is full, and grows.
MANY_USES, ONCE = 64, 2


class Busy(threading.local):
    """Whether a thread is within the call of a module."""

    is_busy = False


busy = Busy()


class Confirmed(NamedTuple):
    """A recording that another one has confirmed, and its recipe."""

    draft: Draft
    recipe: Recipe


class Recipes:
    """The recipes of one module's calls.

    Attributes
    ----------
    recipes : list of Recipe
        Those that were used last come first.
    drafts : list of Draft
        Recordings that nothing has confirmed.
    confirmed : Confirmed, optional
        The recording that was confirmed last. Recipes for caches of other lengths are made from it.
    uses, recordings : int
        How many calls were made from recipes, and how many were recorded.
    refusals : list of str
        Why the latest recordings came to nothing.
    """

    def __init__(self) -> None:
        self.recipes: list[Recipe] = []
        self.drafts: list[Draft] = []
        self.confirmed: Confirmed | None = None
        self.uses = self.recordings = 0
        self.refusals: list[str] = []
        self.credit = CREDIT
        self.once = 1  # how many calls are not recorded, the prompt's at first
        self.streak = 0  # uses of recipes, one after the other

    def __deepcopy__(self, memo: Any) -> Recipes:
        return Recipes()

    def __reduce__(self) -> tuple[Any, ...]:
        return Recipes, ()

    def call(self, function: Function, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what a module's function returns."""
        root = (module, args, kwargs, keys.of_thread())
        for i, recipe in enumerate(self.recipes):
            made = recipe.take(root)
            if made is not NotImplemented:
                if i:
                    self.recipes.insert(0, self.recipes.pop(i))
                self.uses += 1
                self.streak += 1
                if not self.uses % PLAYS:
                    self.credit = min(self.credit + 1, CREDIT)
                return made
        if self.streak >= MANY_USES:
            self.once = ONCE
        self.streak = 0
        if self.once or not self.credit:
            self.once = max(self.once - 1, 0)
            return function(module, *args, **kwargs)
        made = self.resized(root)
        if made is not NotImplemented:
            return made
        self.credit -= 1
        self.recordings += 1
        with collector.paused():
            made, found = record(function, (module, *args), kwargs, root, is_module, SKIPPED)
            self.note(found)
            return made

    def resized(self, root: tuple[Any, ...]) -> Any:
        """Return what a call returns, by a recipe for caches of other lengths; NotImplemented where there is none."""
        confirmed = self.confirmed
        values = None if confirmed is None else confirmed.recipe.values(root)
        if confirmed is None or values is None:
            return NotImplemented
        with collector.paused():
            recipe = resized(confirmed.draft, values)
        if recipe is None:
            return NotImplemented
        made = recipe.take(root)
        if made is not NotImplemented:
            self.recipes = [recipe, *self.recipes[: MOST_RECIPES - 1]]
            self.uses += 1
        return made

    def note(self, found: Draft | str) -> None:
        """Keep a recording, or make the recipe that it confirms."""
        if isinstance(found, str):
            self.refusals = [*self.refusals[-3:], found]
            return
        known = next((each for each in self.drafts if found.equals(each)), None)
        if known is None:
            self.drafts = [*self.drafts[1 - MOST_DRAFTS :], found]
            return
        self.drafts.remove(known)
        recipe = found.recipe()
        self.confirmed = Confirmed(found, recipe)
        self.recipes = [recipe, *self.recipes[: MOST_RECIPES - 1]]
        self.credit = min(self.credit + 2, CREDIT)


modules: list[type] = []


def is_module(part: Any) -> bool:
    """Whether an object is a module."""
    return isinstance(part, tuple(modules))


def recipes_of(module: Any) -> Recipes:
    """Return the recipes of a module's calls."""
    found: Recipes | None = vars(module).get(ATTRIBUTE)
    if found is None:
        found = vars(module)[ATTRIBUTE] = Recipes()
    return found


def called(function: Function) -> Function:
    """Return what stands for a module's ``__call__``."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if busy.is_busy or not flags.mlx_recipes or current_recording() is not None:
            return function(self, *args, **kwargs)
        busy.is_busy = True
        try:
            return recipes_of(self).call(function, self, args, kwargs)
        finally:
            busy.is_busy = False

    return update_wrapper(call, function)


def adopt(module: Any) -> None:
    """Let the calls of a class's subclasses be recorded, those that are made from now on."""

    def define(cls: Any, **options: Any) -> None:
        super(module, cls).__init_subclass__(**options)
        function = vars(cls).get("__call__")
        if callable(function):
            cls.__call__ = called(function)

    modules.append(module)
    module.__init_subclass__ = classmethod(define)  # type: ignore[arg-type]
