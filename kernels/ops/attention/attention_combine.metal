// Puts together the parts of one head that several threadgroups left (attention.metal). parts: for each head the sums of
// every split, then the largest score and the norm of every split.
const uint head = threadgroup_position_in_grid.x;
const uint i = thread_index_in_threadgroup;
wait_for_inputs();
begin_next();
const device float* part = parts + size_t(head) * splits * (width + 2);
const device float* tops = part + splits * width;
float higher = tops[0];
for (uint s = 1; s < splits; s++) higher = max(higher, tops[2 * s]);
float all = 0.0f, total = 0.0f;
for (uint s = 0; s < splits; s++) {
  const float weight = exp2(tops[2 * s] - higher);
  all = mad(tops[2 * s + 1], weight, all);
  if (i < width) total = mad(part[s * width + i], weight, total);
}
if (i >= width) return;
const size_t from = size_t(head / heads) * gate_stride + head % heads * width + i;
const float opening = is_gated ? 1.0f / (1.0f + exp(-float(gate[from]))) : 1.0f;
out[size_t(head) * width + i] = T(all > 0.0f ? total / all * opening : 0.0f);
