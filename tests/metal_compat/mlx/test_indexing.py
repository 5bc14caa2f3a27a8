"""Indices and assignments, against numpy."""

import numpy as np
import pytest

from hiprt.metal_compat import mlx as mx

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
I = np.array([0, 2, 1, -1])  # noqa: E741
ROWS = np.array([[0], [2]])
INDICES = [
    0,
    -1,
    (1, 2),
    (..., 2),
    (slice(None), 1),
    (slice(None, None, -1), None, slice(3, 0, -2)),
    (None, 0, ..., None),
    I % 3,
    (slice(None), I),
    (slice(None), I, 1),
    (I % 3, I),
    (I % 3, slice(None), I),
    (0, slice(1, 3), I),
    (ROWS, I),
    (slice(1, None), ROWS, I),
    (slice(0, 2), I, None),
]


def ours(index):
    if isinstance(index, tuple):
        return tuple(ours(each) for each in index)
    return mx.array(index) if isinstance(index, np.ndarray) else index


@pytest.mark.parametrize("index", INDICES, ids=range(len(INDICES)))
def test_parts_are_those_of_numpy(index):
    assert np.array_equal(np.array(mx.array(X)[ours(index)]), X[index])


@pytest.mark.parametrize("index", INDICES, ids=range(len(INDICES)))
def test_assignments_change_what_numpy_changes(index):
    a, other, host = mx.array(X), mx.array(X), X.copy()
    part = a
    a[ours(index)] = -1
    host[index] = -1
    assert np.array_equal(np.array(a), host)
    assert part is a
    host[index] = values = np.arange(X[index].size, dtype=np.float32).reshape(X[index].shape)
    other[ours(index)] = mx.array(values)
    assert np.array_equal(np.array(other), host)


def test_an_assignment_does_not_change_what_was_made_before():
    a = mx.zeros((4,))
    view, twice = a[1:3], a * 2
    a[1] = 7
    assert view.tolist() == [0, 0]
    assert twice.tolist() == [0, 0, 0, 0]
    assert a.tolist() == [0, 7, 0, 0]


def test_masks_choose_what_is_assigned():
    a, host = mx.array(X), X.copy()
    a[a > 30] = 0
    host[host > 30] = 0
    assert np.array_equal(np.array(a), host)
    rows = np.array([True, False, True])
    a[mx.array(rows)] = mx.array(X[:2] + 100)
    host[rows] = X[:2] + 100
    assert np.array_equal(np.array(a), host)
    with pytest.raises(ValueError, match="boolean indices"):
        a[mx.array(rows)]


@pytest.mark.parametrize(
    ("name", "ufunc"),
    [
        ("add", np.add),
        ("subtract", np.subtract),
        ("multiply", np.multiply),
        ("maximum", np.maximum),
        ("minimum", np.minimum),
    ],
)
def test_each_index_that_comes_again_counts_again(name, ufunc):
    at, values = np.array([1, 0, 1]), np.array([3.0, 2.0, 4.0], np.float32)
    host = np.ones(3, np.float32)
    made = getattr(mx.ones((3,)).at[mx.array(at)], name)(mx.array(values))
    ufunc.at(host, at, values)
    assert np.array_equal(np.array(made), host)


def test_wrong_indices_are_refused():
    a = mx.array(X)
    for index in ((0, 0, 0, 0), (..., 0, ...), "a", mx.array([1.0])):
        with pytest.raises(ValueError, match=r"ndex|ndices"):
            a[index]


def test_masks_of_one_number_and_of_strided_arrays():
    for mask in (True, mx.array(True)):
        a = mx.array([1.0, 2.0, 3.0])
        a[mask] = 5.0
        assert a.tolist() == [5, 5, 5]
    a = mx.array([1.0, 2.0, 3.0])
    a[False] = 5.0
    assert a.tolist() == [1, 2, 3]
    target, mask = mx.arange(10.0)[1::2], mx.array([1, 0, 0, 1, 0, 0, 1, 0, 0, 0]).astype(mx.bool_)[::2]
    target[mask] = mx.arange(-4.0, 0.0)[::2]
    assert target.tolist() == [-4, 3, 5, -2, 9]
