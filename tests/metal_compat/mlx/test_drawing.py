"""Graphs of what is not computed yet."""

import io

from hiprt.metal_compat import mlx as mx


def test_ops_that_wait_are_drawn(tmp_path):
    a, b = mx.array(1.0), mx.array(2.0)
    made = mx.divmod(a + b, b)
    to = io.StringIO()
    mx.export_to_dot(to, list(made), a=a, b=b)
    text = to.getvalue()
    assert [text.count(f'label="{name}"') for name in ("add", "floor_divide", "remainder")] == [1, 1, 1]
    assert text.count('"b" ->') == 3
    mx.export_to_dot(tmp_path / "x.dot", made)
    assert (tmp_path / "x.dot").read_text().count("->") == text.count("->")


def test_what_is_computed_has_no_ops():
    a = mx.array(1.0) + 1
    mx.eval(a)
    to = io.StringIO()
    mx.export_to_dot(to, a, {"more": mx.array(1)}, [])
    assert "shape=rectangle" not in to.getvalue()
    assert "->" not in to.getvalue()
