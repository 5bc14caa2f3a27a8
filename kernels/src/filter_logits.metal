// out = logits where they are likely enough, else -inf. One threadgroup. given: bit 0 top_k, bit 1 top_p, bit 2 min_p.
// The threshold is found by halving the range of keys (largest.h) 32 times: it is the highest key at which k logits, or
// the share p of all exponentials, are reached.
threadgroup float parts[32];
const uint step = threads_per_threadgroup.x;
const uint first = thread_index_in_threadgroup;
const uint lane = thread_index_in_simdgroup;
const uint simdgroup = simdgroup_index_in_threadgroup;
const uint simdgroups = simdgroups_per_threadgroup;
float top = -INFINITY;
for (uint i = first; i < width; i += step) top = max(top, float(logits[i]));
top = top_of_row(top, parts, lane, simdgroup, simdgroups);
int k = (given & 1u) != 0 ? top_k[0] : 0;
float p = (given & 2u) != 0 ? top_p[0] : 1.0f;
float m = (given & 4u) != 0 ? min_p[0] : 0.0f;
bool counts = k > 0 && uint(k) < width;
bool weighs = p < 1.0f;
int threshold = LOWEST_KEY;
if (counts || weighs) {
  float all = 0.0f;
  for (uint i = first; i < width; i += step) all += exp(float(logits[i]) - top);
  float wanted = p * sum_of_row(all, parts, lane, simdgroup, simdgroups);
  long low = LOWEST_KEY, high = order_key(top);
  while (low < high) {
    int middle = int((low + high + 1) >> 1);
    float count = 0.0f, mass = 0.0f;
    for (uint i = first; i < width; i += step) {
      bool is_over = order_key(float(logits[i])) >= middle;
      count += is_over ? 1.0f : 0.0f;
      mass += is_over ? exp(float(logits[i]) - top) : 0.0f;
    }
    count = sum_of_row(count, parts, lane, simdgroup, simdgroups);
    mass = sum_of_row(mass, parts, lane, simdgroup, simdgroups);
    if ((counts && count >= float(k)) || (weighs && mass >= wanted)) {
      low = middle;
    } else {
      high = long(middle) - 1;
    }
  }
  threshold = int(low);
}
float least = m > 0.0f ? top + log(m) : -INFINITY;
for (uint i = first; i < width; i += step) {
  float value = float(logits[i]);
  bool is_kept = order_key(value) >= threshold && !(value < least);
  out[i] = is_kept ? T(logits[i]) : T(-INFINITY);
}
