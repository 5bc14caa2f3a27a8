"""Grids are Metal's: exactly the grid's threads run, threadgroups at the edges are smaller, attributes say so."""

import itertools

import numpy as np
import pytest

import hiprt
from hiprt.kernels.lang.attributes import ATTRIBUTES
from hiprt.metal_compat import metal_kernel

GRIDS = [
    ((24, 1, 1), (256, 1, 1)),
    ((257, 1, 1), (256, 1, 1)),
    ((100, 1, 1), (33, 1, 1)),
    ((7, 5, 3), (4, 2, 2)),
    ((3, 50, 2), (8, 32, 1)),
    ((1, 1, 70), (1, 1, 64)),
    ((40, 3, 1), (33, 1, 1)),
    ((5, 5, 5), (5, 5, 5)),
]


def expected(grid, threadgroup):
    """Return every attribute of every thread, by its position in the grid, from the definitions in the reference."""
    whole = np.minimum(grid, threadgroup)
    groups = -(-np.array(grid) // whole)
    for position in itertools.product(*(range(n) for n in grid)):
        group = np.array(position) // whole
        size = np.minimum(whole, grid - group * whole)
        local = np.array(position) - group * whole
        index = local[0] + size[0] * (local[1] + size[1] * local[2])
        threads, most = int(size.prod()), int(whole.prod())
        yield {
            "dispatch_quadgroups_per_threadgroup": -(-most // 4),
            "dispatch_simdgroups_per_threadgroup": -(-most // 32),
            "dispatch_threads_per_threadgroup": whole,
            "grid_origin": np.zeros(3),
            "grid_size": grid,
            "quadgroup_index_in_threadgroup": index // 4,
            "quadgroups_per_threadgroup": -(-threads // 4),
            "simdgroup_index_in_threadgroup": index // 32,
            "simdgroups_per_threadgroup": -(-threads // 32),
            "thread_execution_width": 32,
            "thread_index_in_quadgroup": index % 4,
            "thread_index_in_simdgroup": index % 32,
            "thread_index_in_threadgroup": index,
            "thread_position_in_grid": position,
            "thread_position_in_threadgroup": local,
            "threadgroup_position_in_grid": group,
            "threadgroups_per_grid": groups,
            "threads_per_grid": grid,
            "threads_per_simdgroup": 32,
            "threads_per_threadgroup": size,
        }


@pytest.mark.parametrize("synchronises", [False, True], ids=["loops", "fibers"])
@pytest.mark.parametrize(("grid", "threadgroup"), GRIDS)
def test_every_attribute_of_every_thread(grid, threadgroup, synchronises, run):
    parts = [
        f"{name}.{axis}" if attribute.word == "uint3" else name
        for name, attribute in ATTRIBUTES.items()
        for axis in ("xyz" if attribute.word == "uint3" else "x")
    ]
    source = (
        "uint3 p = thread_position_in_grid;\n"
        f"uint at = {len(parts)} * ((p.x * threads_per_grid.y + p.y) * threads_per_grid.z + p.z);\n"
        + "threadgroup_barrier(mem_flags::mem_none);\n" * synchronises
        + "".join(f"out[at++] = {part};\n" for part in parts)
    )
    got = run(source, shape=(int(np.prod(grid)), len(parts)), dtype=np.uint32, grid=grid, threadgroup=threadgroup)
    for row, values in zip(got, expected(np.array(grid), threadgroup), strict=True):
        assert row.tolist() == [int(v) for name in ATTRIBUTES for v in np.ravel(values[name])]


@pytest.mark.parametrize(("grid", "threadgroup"), GRIDS)
def test_exactly_the_threads_of_the_grid_run(grid, threadgroup, run):
    got = run(
        "uint3 p = thread_position_in_grid;\n"
        "atomic_fetch_add_explicit(&out[(p.x * threads_per_grid.y + p.y) * threads_per_grid.z + p.z], 1, "
        "memory_order_relaxed);",
        shape=(int(np.prod(grid)) + 600,),
        dtype=np.int32,
        grid=grid,
        threadgroup=threadgroup,
        init_value=0,
        atomic_outputs=True,
    )
    assert (got[: np.prod(grid)] == 1).all()
    assert not got[np.prod(grid) :].any()


def test_barriers_of_a_smaller_threadgroup_wait_for_its_threads_only(run):
    source = """
threadgroup int values[64];
uint i = thread_index_in_threadgroup, n = threads_per_threadgroup.x;
values[i] = int(thread_position_in_grid.x);
threadgroup_barrier(mem_flags::mem_threadgroup);
out[thread_position_in_grid.x] = values[n - 1 - i];
"""
    got = run(source, shape=(150,), dtype=np.int32, threadgroup=(64, 1, 1))
    assert got.tolist() == [*range(63, -1, -1), *range(127, 63, -1), *range(149, 127, -1)]


def test_threads_that_have_left_are_not_awaited(run):
    source = """
threadgroup int total;
uint i = thread_index_in_threadgroup;
if (i >= 40) return;
if (i == 0) total = 7;
threadgroup_barrier(mem_flags::mem_threadgroup);
out[thread_position_in_grid.x] = total + int(i);
"""
    got = run(source, shape=(96,), dtype=np.int32, threadgroup=(96, 1, 1), init_value=-1)
    assert got.tolist() == [7 + i for i in range(40)] + [-1] * 56


def test_a_grid_with_a_zero_runs_nothing(run):
    got = run("out[0] = 1;", shape=(3,), grid=(0, 4, 1), threadgroup=(4, 1, 1), init_value=5)
    assert got.tolist() == [5, 5, 5]


def test_threadgroups_are_clipped_to_the_grid_but_their_limit_is_not():
    kernel = metal_kernel("k", [], ["out"], "out[thread_position_in_grid.x] = 1;")
    given = {"inputs": [], "output_shapes": [(4,)], "output_dtypes": [np.float32], "grid": (4, 1, 1)}
    assert kernel(**given, threadgroup=(1024, 1, 1))[0].numpy().tolist() == [1, 1, 1, 1]
    with pytest.raises(ValueError, match=r"Thread group size \(2048\)"):
        kernel(**given, threadgroup=(2048, 1, 1))


def test_attributes_can_be_changed_like_parameters(run):
    got = run(
        "thread_position_in_grid.x += 1; out[thread_position_in_grid.x - 1] = thread_position_in_grid.x;", shape=(3,)
    )
    assert got.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("grid", "threadgroup"),
    [
        ((1, 70_000, 1), (1, 1, 1)),
        ((3, 1, 140_001), (2, 1, 2)),
        ((2, 300, 70_001), (2, 7, 1)),
        ((1, 65_536, 3), (1, 1, 1)),
        ((5, 131_071, 2), (4, 2, 2)),
    ],
)
def test_grids_larger_than_a_runtime_takes_along_y_and_z(grid, threadgroup, run):
    """Every thread runs once and knows its place; runtimes take 65,535 threadgroups along these axes."""
    got = run(
        "uint3 p = thread_position_in_grid, group = threadgroup_position_in_grid;\n"
        "uint3 at = group * dispatch_threads_per_threadgroup + thread_position_in_threadgroup;\n"
        "bool is_right = all(at == p) && all(p < threads_per_grid) && all(group < threadgroups_per_grid);\n"
        "out[(ulong(p.z) * threads_per_grid.y + p.y) * threads_per_grid.x + p.x] += is_right ? 1 : 100;",
        shape=grid[::-1],
        dtype=np.uint8,
        grid=grid,
        threadgroup=threadgroup,
        init_value=0,
    )
    assert (got == 1).all()


def test_rows_of_a_view_are_copied_however_many_they_are(run):
    """A body gets its input without gaps; one with more rows than threadgroups fit along an axis."""
    values = np.arange(2 * 70_000 * 2, dtype=np.int32).reshape(70_000, 4)
    view = hiprt.array(values)[:, ::2]
    got = run("uint i = thread_position_in_grid.x; out[i] = a[i];", [view], shape=view.shape, dtype=np.int32)
    np.testing.assert_array_equal(got, values[:, ::2])
