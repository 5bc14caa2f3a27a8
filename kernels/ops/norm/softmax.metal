// out = exp(x - top) / sum(exp(x - top)) for each row, whose largest value is top; with LOGARITHM out = log(sum(exp(x))),
// one number for a row. A threadgroup takes one row. A thread asks for many numbers at once, because each takes long to come,
// and scales its sum down when it meets a larger top (Milakov and Gimelshein, arXiv:1805.02867): the row is read once for it.
constexpr uint BATCH = 16;
threadgroup float parts[32];
const uint step = threads_per_threadgroup.x;
const uint first = thread_index_in_threadgroup;
const uint lane = thread_index_in_simdgroup;
const uint simdgroup = simdgroup_index_in_threadgroup;
const uint simdgroups = simdgroups_per_threadgroup;
const size_t base = size_t(threadgroup_position_in_grid.x) * width;
float own = -INFINITY, sum = 0.0f;
bool is_nan = false;
for (uint start = first; start < width; start += BATCH * step) {
  float values[BATCH], largest = own;
  for (uint i = 0; i < BATCH; i++) values[i] = start + i * step < width ? float(x[base + start + i * step]) : -INFINITY;
  for (uint i = 0; i < BATCH; i++) largest = max(largest, values[i]);
  for (uint i = 0; i < BATCH; i++) is_nan = is_nan || isnan(values[i]);
  if (largest > own) {
    sum *= exp(own - largest);
    own = largest;
  }
  if (own > -INFINITY) {
    float part = 0.0f;
    for (uint i = 0; i < BATCH; i++) part += exp(values[i] - own);
    sum += part;
  }
}
const float top = top_of_row(own, parts, lane, simdgroup, simdgroups);
if (own < top) sum *= exp(own - top);
sum = sum_of_row(is_nan ? NAN : sum, parts, lane, simdgroup, simdgroups);
if (LOGARITHM) {
  // The sum is NaN where the row has a NaN, and where the top is infinite, which is then the result: the row tells which.
  is_nan = sum_of_row(is_nan ? 1.0f : 0.0f, parts, lane, simdgroup, simdgroups) > 0.0f;
  float result = is_nan ? NAN : isinf(top) ? top : top + log(sum);
  if (first == 0) out[threadgroup_position_in_grid.x] = T(result);
} else {
  for (uint i = first; i < width; i += step) out[base + i] = T(exp(float(x[base + i]) - top) / sum);
}
