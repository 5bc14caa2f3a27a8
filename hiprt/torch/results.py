"""Results: what a captured function returned, for another call of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

__all__ = ["Results"]


def told_by(tensor: Any) -> tuple[Any, bool, bool]:
    """Return what a view has from the tensor that it is made of, besides where it begins and what its axes are."""
    return tensor.dtype, tensor.is_conj(), tensor.is_neg()


class View(NamedTuple):
    """A result that lies in the memory of an argument or weight.

    Attributes
    ----------
    tensor : int
        The number of that tensor.
    offset : int
        How many elements of it come before the result; -1 where the result is the tensor itself.
    """

    tensor: int
    offset: int


class Results:
    """How the results of a call follow from the graph's memory and the call's tensors.

    Parameters
    ----------
    torch : module
    results : object
        What the function returned when it was captured.
    tensors : sequence of Tensor
        The arguments and weights that it was captured with.
    memory : sequence of (int, int)
        Their addresses and sizes in bytes.

    Attributes
    ----------
    lie_elsewhere : bool
        Whether some lie in the memory of arguments and weights.
    only : Tensor or None
        What the function returned, where that is one tensor of its own.

    Raises
    ------
    ValueError
        A result is a view of an argument as another dtype, or conjugated or negated.
    """

    def __init__(self, torch: Any, results: Any, tensors: Sequence[Any], memory: Sequence[tuple[int, int]]) -> None:
        self.torch = torch
        self.leaves, self.tree = torch.utils._pytree.tree_flatten(results)
        self.views = [self.view(leaf, tensors, memory) for leaf in self.leaves]
        self.lie_elsewhere = any(view is not None for view in self.views)
        self.only = results if isinstance(results, torch.Tensor) and not self.lie_elsewhere else None

    def view(self, leaf: Any, tensors: Sequence[Any], memory: Sequence[tuple[int, int]]) -> View | None:
        """Find the tensor in which a result lies; None for a result of its own, and for what is no tensor."""
        if not isinstance(leaf, self.torch.Tensor):
            return None
        for i, tensor in enumerate(tensors):
            if leaf is tensor:
                return View(i, -1)
        address = leaf.data_ptr()
        for i, (start, size) in enumerate(memory):
            if start <= address < start + size:
                if told_by(leaf) != told_by(tensors[i]):
                    raise ValueError("a result is a view of an argument as another dtype, or conjugated or negated")
                return View(i, (address - start) // leaf.element_size())
        return None

    def of_call(self, tensors: Sequence[Any], copy: Callable[[Any], Any] | None) -> Any:
        """Return what the function returns for a call with these tensors, whose graph was launched.

        Parameters
        ----------
        tensors : sequence of Tensor
        copy : callable or None
            Copies what the graph wrote; None: that itself is returned.
        """
        if self.only is not None:
            return copy(self.only) if copy else self.only
        leaves = [self.leaf(leaf, view, tensors, copy) for leaf, view in zip(self.leaves, self.views)]
        return self.torch.utils._pytree.tree_unflatten(leaves, self.tree)

    def leaf(self, leaf: Any, view: View | None, tensors: Sequence[Any], copy: Callable[[Any], Any] | None) -> Any:
        """Return one result."""
        if view is None:
            return copy(leaf) if copy and isinstance(leaf, self.torch.Tensor) else leaf
        tensor = tensors[view.tensor]
        if view.offset < 0:
            return tensor
        with self.torch.no_grad():
            start = tensor.storage_offset() + view.offset
            return self.torch.as_strided(tensor, leaf.shape, leaf.stride(), start)
