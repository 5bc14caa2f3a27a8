"""The gated delta rule of one token as a custom kernel, which says nothing of what it computes."""

from hiprt import kernels
from hiprt.metal_compat import metal_kernel

DELTA = metal_kernel(
    "delta_step",
    ["q", "k", "v", "g", "beta", "state"],
    ["answer", "next"],
    """
    uint row = thread_position_in_grid.x; // of all states: one column of values
    uint head = row / DV;
    uint of = head / HEADS * KEY_HEADS + head % HEADS / (HEADS / KEY_HEADS);
    float seen = 0.0f, told = 0.0f;
    for (uint i = 0; i < DK; i++) seen += state[row * DK + i] * g[head] * float(k[of * DK + i]);
    float error = beta[head] * (float(v[row]) - seen);
    for (uint i = 0; i < DK; i++) {
      float kept = state[row * DK + i] * g[head] + error * float(k[of * DK + i]);
      next[row * DK + i] = kept;
      told += kept * float(q[of * DK + i]);
    }
    answer[row] = T(told);
    """,
)


def delta_step(q, k, v, g, beta, state):
    """Do what `kernels.gated_delta` does for one token, by a custom kernel that returns the next state."""
    sizes = {"HEADS": v.shape[2], "KEY_HEADS": q.shape[2], "DV": v.shape[3], "DK": q.shape[3]}
    answer, following = DELTA(
        inputs=[q, k, v, g, beta, state],
        template=[("T", v.dtype), *((name, int(size)) for name, size in sizes.items())],
        output_shapes=[v.shape, state.shape],
        output_dtypes=[v.dtype, state.dtype],
        grid=(v.size, 1, 1),
        threadgroup=(32, 1, 1),
    )
    kernels.copyto(state, following)
    return answer
