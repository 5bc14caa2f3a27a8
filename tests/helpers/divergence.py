"""Bodies whose lanes part and meet again, with what each of 32 lanes writes when they meet as on a GPU."""

import numpy as np

LANES = np.arange(32)
ODD = LANES % 2 == 1
SUM = "inline int among(int v) {\n  return simd_sum(v);\n}\n"
SPLIT = "inline int halves(int v, bool odd) {\n  if (odd) return simd_sum(v); else return 1000 * simd_sum(v);\n}\n"
EARLY = "inline int early(int i) {\n  if (i < 8) return 0;\n  return simd_sum(1);\n}\n"
UNEVEN = "inline int uneven(int n) { int t = 0; for (int k = 0; k < n; k++) t += simd_sum(1); return t; }\n"
STRUCT = """
struct Tile {
  int scale;
  template <int N> int times(int v) const { return scale * N * simd_sum(v); }
  static int total(int v) { return simd_sum(v); }
};
"""
MACRO = "#define EITHER(c, x) ((c) ? simd_sum(x) : 100 * simd_sum(x))\n"


def rounds(n, meet):
    """Sum over a lane's own turns of how many lanes meet it there."""
    return [sum(meet(k) for k in range(int(own))) for own in n]


# name: (header, body that sets `v`, expected of the lanes)
CASES = {
    "a helper called from both arms": (
        SUM,
        "if (odd) v = among(1); else v = among(100);",
        np.where(ODD, 16, 1600),
    ),
    "a helper called from both sides of a choice": (
        SUM,
        "v = i % 3 == 0 ? among(1) : among(100);",
        np.where(LANES % 3 == 0, 11, 2100),
    ),
    "two operations on one line": (
        "",
        "if (odd) v = simd_sum(1); else v = simd_sum(100);",
        np.where(ODD, 16, 1600),
    ),
    "two operations of one macro": (MACRO, "v = EITHER(odd, 1);", np.where(ODD, 16, 1600)),
    "a helper's arms, called from both arms": (
        SPLIT,
        "if (i < 16) v = halves(1, odd); else v = 10 + halves(1, odd);",
        np.where(ODD, 8, 8000) + np.where(LANES < 16, 0, 10),
    ),
    "helpers of helpers": (
        SUM + "inline int twice(int v) { return among(v) + among(2 * v); }\n",
        "if (odd) v = twice(1); else v = twice(100);",
        np.where(ODD, 48, 4800),
    ),
    "a helper declared before its definition": (
        "int later(int v);\ninline int first(int v) { return later(v); }\nint later(int v) { return simd_sum(v); }\n",
        "if (odd) v = first(1); else v = first(100);\nv += later(1);",
        np.where(ODD, 16, 1600) + 32,
    ),
    "members of a struct": (
        STRUCT,
        "const Tile tile = {2}; if (odd) v = tile.times<3>(1); else v = tile.times<3>(1) + Tile::total(1);",
        np.where(ODD, 96, 112),
    ),
    "a helper's result as another's argument": (
        SUM,
        "v = among(odd ? among(1) : 0);",
        np.full(32, 256),
    ),
    "an operation of one arm before a helper for all": (
        SUM,
        "if (odd) v = simd_sum(1);\nv += 1000 * among(1);",
        np.where(ODD, 16, 0) + 32000,
    ),
    "lanes that leave a helper early": (
        EARLY,
        "v = early(i) + 100 * simd_sum(1);",
        np.where(LANES < 8, 0, 24) + 3200,
    ),
    "alternate turns of a loop": (
        "",
        "for (int k = 0; k < 4; k++) if (k % 2 == i % 2) v += simd_sum(1);",
        np.full(32, 32),
    ),
    "lanes that go on with the next turn": (
        "",
        "for (int k = 0; k < 3; k++) { v += simd_sum(1); if (odd) continue; v += 1000 * simd_sum(1); }",
        np.where(ODD, 96, 48096),
    ),
    "the same in a while loop": (
        "",
        "int k = 0; while (k < 3) { k++; v += simd_sum(1); if (odd) continue; v += 1000 * simd_sum(1); }",
        np.where(ODD, 96, 48096),
    ),
    "the same in a do loop": (
        "",
        "int k = 0; do { v += simd_sum(1); if (odd) continue; v += 1000 * simd_sum(1); } while (++k < 3);",
        np.where(ODD, 96, 48096),
    ),
    "lanes that break out": (
        "",
        "for (int k = 0; k < 9; k++) { if (k == i % 4) break; v += simd_sum(1); }\nv += 1000 * simd_sum(1);",
        np.array(rounds(LANES % 4, lambda k: int((LANES % 4 > k).sum()))) + 32000,
    ),
    "a vote as the condition of a loop": (
        "",
        "while (simd_any(v < 3 + i % 2)) v++;",
        np.full(32, 4),
    ),
    "a vote at the end of a loop": (
        "",
        "do v++; while (simd_any(v < 3 + i % 2));",
        np.full(32, 4),
    ),
    "loops of uneven length within one another": (
        UNEVEN,
        "for (int k = 0; k < 2; k++) v += uneven(1 + i % 2);\nv += 1000 * simd_sum(1);",
        np.where(ODD, 96, 64) + 32000,
    ),
    "a loop of a helper that both arms call": (
        UNEVEN,
        "if (i < 16) v = uneven(i % 4); else v = uneven(i % 2);",
        np.where(
            LANES < 16,
            rounds(LANES % 4, lambda k: int((LANES[:16] % 4 > k).sum())),
            rounds(LANES % 2, lambda k: int((LANES[:16] % 2 > k).sum())),
        ),
    ),
    "a loop without braces around a branch with else": (
        "",
        "if (i < 24) for (int k = 0; k < 2; k++) if (odd) v += simd_sum(1); else v += 100 * simd_sum(1); else v = -1;",
        np.where(LANES < 24, np.where(ODD, 24, 2400), -1),
    ),
    "a switch": (
        "",
        "switch (i % 4) { case 0: v = simd_sum(1); case 1: v += 100 * simd_sum(1); break; default: v = simd_sum(2); }",
        np.select([LANES % 4 == 0, LANES % 4 == 1], [1608, 1600], 32),
    ),
    "shuffles in two arms": (
        "inline int swap(int v, ushort by) { return simd_shuffle_xor(v, by); }\n",
        "if (odd) v = swap(i, 2); else v = 100 + swap(i, 4);",
        np.where(ODD, LANES ^ 2, 100 + (LANES ^ 4)),
    ),
    "quads": (
        "inline int four(int v) { return quad_sum(v); }\n",
        "if (i % 4 < 3) v = four(1); else v = four(5);",
        np.where(LANES % 4 < 3, 3, 5),
    ),
}


def source(body):
    """Return a whole body around one that sets `v`."""
    return f"int i = int(thread_index_in_threadgroup), v = 0; bool odd = i % 2 == 1; (void)odd;\n{body}\nout[i] = v;"


def results(name):
    """Run one case; return what the lanes wrote, and what they should have written."""
    from hiprt.metal_compat import metal_kernel

    header, body, expected = CASES[name]
    kernel = metal_kernel("probe", [], ["out"], source(body), header)
    how = {"grid": (32, 1, 1), "threadgroup": (32, 1, 1)}
    made = kernel(inputs=[], output_shapes=[(32,)], output_dtypes=[np.dtype("int32")], **how)
    return made[0].numpy().tolist(), np.asarray(expected).tolist()


def wrong():
    """Return the cases that come out wrong, by name."""
    import hiprt

    with hiprt.Stream() as stream, hiprt.use_stream(stream):
        return [name for name in CASES if results(name)[0] != results(name)[1]]
