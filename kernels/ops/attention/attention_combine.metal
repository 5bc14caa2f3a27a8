// Puts together the parts of one head that several threadgroups left (one_pass.h).
const uint head = threadgroup_position_in_grid.x;
const uint i = thread_index_in_threadgroup;
wait_for_inputs();
begin_next();
if (i >= width) return;
summed_parts sum;
sum.add(parts + size_t(head) * splits * (width + 2), splits, width + 2, width, i);
const size_t from = size_t(head / heads) * gate_stride + head % heads * width + i;
out[size_t(head) * width + i] = T(is_gated ? sum.share() * opening_of(float(gate[from])) : sum.share());
