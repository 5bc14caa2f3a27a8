// The `chosen` largest of a token's logits, the largest first and of equal ones the lower expert, and their shares; one
// token a threadgroup. With is_shared the last column is the gate of an expert that every token takes, as the last one.
wait_for_inputs();
begin_next();
const uint columns = experts + is_shared;
const device T* from = logits + size_t(threadgroup_position_in_grid.x) * columns;
device int* places = indices + size_t(threadgroup_position_in_grid.x) * (chosen + is_shared);
device T* shares = weights + size_t(threadgroup_position_in_grid.x) * (chosen + is_shared);
#if HIPRT_CPU_LOOPS
float top = -INFINITY, sum = 0.0f;
for (uint i = 0; i < experts; i++) top = max(top, float(from[i]));
for (uint i = 0; i < experts; i++) sum += exp(float(from[i]) - top);
// Each round takes the largest behind the last one taken: by value, then by place.
float kept = 0.0f;
Largest last{0x7fffffff, 0u};
for (uint round = 0; round < chosen; round++) {
  Largest best{LOWEST_KEY, 0xffffffffu};
  for (uint i = 0; i < experts; i++) {
    const int key = order_key(float(from[i]));
    if (round == 0 || key < last.key || (key == last.key && i > last.place)) consider(best, key, i);
  }
  last = best;
  places[round] = int(best.place);
  kept += exp(float(from[best.place]) - top);
}
const float total = is_normalised ? kept : sum;
for (uint round = 0; round < chosen; round++) shares[round] = T(exp(float(from[places[round]]) - top) / total);
const bool is_first = true;
#else
// A thread's logit goes to the place that its rank says: how many are larger, or equal and before it. Keys are compared
// with one more, so that of NaN is one less here, which is still above infinity's.
constexpr uint MOST = 2048;
threadgroup pack<int, 4> keys[MOST / 4];
threadgroup float powers[MOST];
threadgroup float parts[32];
const uint lane = thread_index_in_simdgroup;
const uint simdgroup = simdgroup_index_in_threadgroup;
const uint simdgroups = simdgroups_per_threadgroup;
const uint step = simdgroups * 32;
const uint index = simdgroup * 32 + lane;
const uint padded = (experts + 31) / 32 * 32;
float top = -INFINITY;
for (uint i = index; i < padded; i += step) {
  const float value = i < experts ? float(from[i]) : -INFINITY;
  keys[i / 4].values[i % 4] = i < experts ? min(order_key(value), 0x7ffffffe) : LOWEST_KEY;
  top = max(top, value);
}
top = top_of_row(top, parts, lane, simdgroup, simdgroups);
float sum = 0.0f;
for (uint i = index; i < padded; i += step) {
  const int key = keys[i / 4].values[i % 4];
  const uint begin = (i - lane) / 4;
  uint rank = 0;
  for (uint j = 0; j < begin; j++) {
    for (int c = 0; c < 4; c++) rank += keys[j].values[c] >= key ? 1u : 0u;
  }
  for (uint j = begin; j < begin + 8; j++) {
    for (int c = 0; c < 4; c++) rank += keys[j].values[c] >= key + (j * 4 + c < i ? 0 : 1) ? 1u : 0u;
  }
  for (uint j = begin + 8; j < padded / 4; j++) {
    for (int c = 0; c < 4; c++) rank += keys[j].values[c] > key ? 1u : 0u;
  }
  const float power = i < experts ? exp(float(from[i]) - top) : 0.0f;
  sum += power;
  if (i < experts && rank < chosen) {
    powers[rank] = power;
    places[rank] = int(i);
  }
}
sum = sum_of_row(sum, parts, lane, simdgroup, simdgroups);
if (is_normalised) {
  sum = 0.0f;
  for (uint r = 0; r < chosen; r++) sum += powers[r];
}
for (uint r = index; r < chosen; r += step) shares[r] = T(powers[r] / sum);
const bool is_first = index == 0;
#endif
if (is_shared && is_first) {
  places[chosen] = int(experts);
  shares[chosen] = T(1.0f / (1.0f + exp(-float(from[experts]))));
}
