"""Products of matrices and tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hiprt import kernels
from hiprt.array import Array
from hiprt.metal_compat.mlx.array import array, as_array
from hiprt.metal_compat.mlx.diagonals import diagonal
from hiprt.metal_compat.mlx.elementwise import conjugate
from hiprt.metal_compat.mlx.lazy import apply
from hiprt.metal_compat.mlx.shapes import axis_in, broadcast_to, expand_dims, flatten, reshape, swapaxes, transpose

__all__ = ["addmm", "einsum", "einsum_path", "gather_mm", "inner", "kron", "matmul", "outer", "tensordot", "vecdot"]


def matmul(a: Any, b: Any, /, *, stream: Any = None) -> array:
    """Return ``a @ b``."""
    made: array = apply(kernels.matmul, as_array(a), as_array(b))
    return made


def addmm(c: Any, a: Any, b: Any, /, alpha: float = 1.0, beta: float = 1.0, *, stream: Any = None) -> array:
    """Return ``alpha * (a @ b) + beta * c``."""

    def product(c: Array, a: Array, b: Array) -> Array:
        found = kernels.matmul(a, b)
        found = found if alpha == 1.0 else kernels.multiply(found, float(alpha))
        return kernels.add(found, c if beta == 1.0 else kernels.multiply(c, float(beta)))

    made: array = apply(product, as_array(c), as_array(a), as_array(b))
    return made


def gather_mm(
    a: Any,
    b: Any,
    /,
    lhs_indices: Any = None,
    rhs_indices: Any = None,
    *,
    sorted_indices: bool = False,
    stream: Any = None,
) -> array:
    """Return products of the matrices that indices name in two stacks."""

    def chosen(x: array, indices: Any) -> array:
        if indices is None:
            return x
        stack = reshape(x, math.prod(x.shape[:-2]), *x.shape[-2:])
        found: array = apply(kernels.take, stack, as_array(indices), 0)
        return found

    return matmul(chosen(as_array(a), lhs_indices), chosen(as_array(b), rhs_indices))


def inner(a: Any, b: Any, /, *, stream: Any = None) -> array:
    """Return sums of products along the last axes."""
    a, b = as_array(a), as_array(b)
    if not a.ndim or not b.ndim:
        scaled: array = apply(kernels.multiply, a, b)
        return scaled
    return tensordot(a, b, [[-1], [-1]])


def vecdot(a: Any, b: Any, /, *, axis: int = -1, stream: Any = None) -> array:
    """Return sums of products of two arrays along an axis, of conjugates of the first one."""
    a, b = as_array(a), as_array(b)
    if not a.ndim or not b.ndim:
        raise ValueError("[vecdot] Arrays must have at least one dimension.")
    if a.shape[axis_in("vecdot", axis, a.ndim)] != b.shape[axis_in("vecdot", axis, b.ndim)]:
        raise ValueError(f"[vecdot] Shapes {a.shape} and {b.shape} differ along axis {axis}.")
    made: array = apply(lambda x, y: kernels.sum(kernels.multiply(x, y), axis), conjugate(a), b)
    return made


def outer(a: Any, b: Any, /, *, stream: Any = None) -> array:
    """Return the products of all pairs of elements."""
    made: array = apply(kernels.multiply, expand_dims(flatten(as_array(a)), 1), flatten(as_array(b)))
    return made


def tensordot(a: Any, b: Any, /, axes: Any = 2, *, stream: Any = None) -> array:
    """Return sums of products along several axes of two arrays."""
    a, b = as_array(a), as_array(b)
    if isinstance(axes, int):
        left, right = list(range(a.ndim - axes, a.ndim)), list(range(axes))
    else:
        left, right = ([each] if isinstance(each, int) else list(each) for each in axes)
        left = [axis_in("tensordot", each, a.ndim) for each in left]
        right = [axis_in("tensordot", each, b.ndim) for each in right]
    if [a.shape[i] for i in left] != [b.shape[i] for i in right]:
        raise ValueError("[tensordot] a and b must have the same shape on the contracted axes.")
    rows = [i for i in range(a.ndim) if i not in left]
    columns = [i for i in range(b.ndim) if i not in right]
    n = math.prod(a.shape[i] for i in left)
    x = reshape(transpose(a, *rows, *left) if a.ndim else a, math.prod(a.shape[i] for i in rows), n)
    y = reshape(transpose(b, *right, *columns) if b.ndim else b, n, math.prod(b.shape[i] for i in columns))
    return reshape(matmul(x, y), *[a.shape[i] for i in rows], *[b.shape[i] for i in columns])


def kron(a: Any, b: Any, /, *, stream: Any = None) -> array:
    """Return the Kronecker product."""
    a, b = as_array(a), as_array(b)
    if not a.size or not b.size:
        raise ValueError("[kron] Input arrays cannot be empty.")
    ndim = max(a.ndim, b.ndim)
    left, right = ([1] * (ndim - each.ndim) + list(each.shape) for each in (a, b))
    x = reshape(a, *[n for size in left for n in (size, 1)])
    y = reshape(b, *[n for size in right for n in (1, size)])
    made: array = apply(kernels.multiply, x, y)
    return reshape(made, *[n * m for n, m in zip(left, right)])


def einsum(subscripts: str, *operands: Any, stream: Any = None) -> array:
    """Return sums of products along axes that letters name, as numpy's ``einsum``."""
    arrays = [as_array(each) for each in operands]
    taken, made = parsed(subscripts, [each.ndim for each in arrays])
    terms = spread([diagonals(x, letters) for x, letters in zip(arrays, taken)])
    while len(terms) > 1:
        (x, left), (y, right) = terms[0], terms[1]
        kept = set(made).union(*(letters for _, letters in terms[2:]))
        terms = [joined(x, left, y, right, kept), *terms[2:]]
    x, letters = terms[0]
    gone = tuple(i for i, letter in enumerate(letters) if letter not in made)
    if gone:
        x = apply(kernels.sum, x, gone, False)
        letters = [letter for letter in letters if letter in made]
    return transpose(x, *[letters.index(letter) for letter in made]) if made else x


def einsum_path(subscripts: str, *operands: Any) -> tuple[list[tuple[int, ...]], str]:
    """Return the order in which numpy would take the operands of `einsum`, and its description of the work.

    `einsum` itself takes them from the left.
    """
    shapes = [as_array(each).shape for each in operands]
    (_, *path), text = np.einsum_path(subscripts, *(np.broadcast_to(np.float32(0), shape) for shape in shapes))
    return path, text


def spread(terms: list[tuple[array, list[str]]]) -> list[tuple[array, list[str]]]:
    """Return the terms with axes of size 1 repeated where another term has more under the same letter."""
    sizes: dict[str, int] = {}
    for x, letters in terms:
        for letter, n in zip(letters, x.shape):
            sizes[letter] = max(n, sizes.get(letter, 1)) if n else 0
    wide = [tuple(sizes[letter] for letter in letters) for _, letters in terms]
    return [(x if x.shape == shape else broadcast_to(x, shape), each) for (x, each), shape in zip(terms, wide)]


def parsed(subscripts: str, ndims: list[int]) -> tuple[list[list[str]], list[str]]:
    """Return the letters of each operand's axes, and of the result's; axes under ``...`` are numbered from behind."""
    text = subscripts.replace(" ", "")
    given, arrow, result = text.partition("->")
    parts = given.split(",")
    if len(parts) != len(ndims):
        raise ValueError(f"[einsum] Number of operands, {len(ndims)}, does not match number of input subscripts")
    taken: list[list[str]] = []
    widest = 0
    for part, ndim in zip(parts, ndims):
        front, dots, back = part.partition("...")
        count = ndim - len(front) - len(back)
        if count < 0 or (count and not dots):
            raise ValueError(f"[einsum] Invalid number of subscripts {part} for an array with {ndim} dimensions.")
        widest = max(widest, count)
        taken.append([*front, *[f"#{i}" for i in range(-count, 0)], *back])
    wide = [f"#{i}" for i in range(-widest, 0)]
    if arrow:
        front, _dots, back = result.partition("...")
        return taken, [*front, *(wide if _dots else []), *back]
    letters = [letter for part in taken for letter in part if not letter.startswith("#")]
    return taken, [*wide, *sorted(letter for letter in set(letters) if letters.count(letter) == 1)]


def diagonals(x: array, letters: list[str]) -> tuple[array, list[str]]:
    """Return an array in which no letter comes twice."""
    for letter in dict.fromkeys(letters):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            x = diagonal(x, 0, first, second)
            letters = [each for i, each in enumerate(letters) if i not in (first, second)] + [letter]
    return x, letters


def joined(x: array, left: list[str], y: array, right: list[str], kept: set[str]) -> tuple[array, list[str]]:
    """Return the product of two terms, summed along the letters that nothing else has."""
    both = [letter for letter in left if letter in right]
    batch = [letter for letter in both if letter in kept]
    summed = [letter for letter in both if letter not in kept]
    rows = [letter for letter in left if letter not in right]
    columns = [letter for letter in right if letter not in left]
    a = transpose(x, *[left.index(each) for each in (*batch, *rows, *summed)]) if left else x
    b = transpose(y, *[right.index(each) for each in (*batch, *summed, *columns)]) if right else y
    size_of = dict(zip(right, y.shape))
    size_of |= {letter: n for letter, n in zip(left, x.shape) if n != 1 or letter not in size_of}
    ours, theirs = dict(zip(left, x.shape)), dict(zip(right, y.shape))

    def prod(letters: list[str]) -> int:
        return math.prod(size_of[letter] for letter in letters)

    front_a, front_b = [ours[each] for each in batch], [theirs[each] for each in batch]
    if not summed or x.dtype.numpy.kind in "biu":
        wide_a = reshape(a, *front_a, prod(rows), 1, *([prod(summed)] if summed else []))
        wide_b = reshape(b, *front_b, prod(summed), prod(columns)) if summed else reshape(b, *front_b, 1, prod(columns))
        found: array = apply(kernels.multiply, wide_a, expand_dims(swapaxes(wide_b, -1, -2), -3) if summed else wide_b)
        found = apply(kernels.sum, found, -1, False) if summed else found
    else:
        found = matmul(
            reshape(a, *front_a, prod(rows), prod(summed)), reshape(b, *front_b, prod(summed), prod(columns))
        )
    letters = [*batch, *rows, *columns]
    return reshape(found, *[size_of[letter] for letter in letters]), letters
