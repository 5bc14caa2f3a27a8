// Vectors times the transposed quantised matrix by matrix instructions, which multiply 16 by 16 codes with 16 by 8 numbers.
// A simdgroup takes a tile of 8 rows; of a row it reads two chunks of 64 bytes a step, which are rows g and g + 8 of the
// instruction. Each column of the other operand is x where one scale's codes are and zero elsewhere, so that sums come out
// by scale. A threadgroup has a stretch of tiles: the steps of them all, tile after tile, are shared out evenly among its
// simdgroups, and a tile that two or more of them share is put together from their parts. Where x is too long for shared
// memory, all this is done phase by phase, STEPS steps of each row at a time.
typedef coded<T, BITS> Code;
constexpr uint CHUNK = 512 / BITS;
constexpr uint STEP = 2 * CHUNK;
constexpr uint SLOT = uint(GROUP) < CHUNK ? GROUP : CHUNK;
constexpr uint SLOTS = STEP / SLOT;
constexpr uint SPREAD = uint(GROUP) > CHUNK ? GROUP / CHUNK : 1;  // chunks with one scale
constexpr uint TILED = (BATCH * SLOTS + 7) / 8;
constexpr int REGISTERS = Code::REGISTERS;
constexpr uint ENTRIES = STEPS * 32 + (BATCH > 1 ? 4 : 0);  // of a vector; the rest keeps vectors apart in the banks
constexpr uint ZEROS = BATCH * ENTRIES + (BATCH > 1 ? 0 : 4);
constexpr uint OUTPUTS = GATED ? 4 : 8;  // of a tile; gated: 4 rows of the gate, then the same 4 of the other half
constexpr uint RUNS = 2;
threadgroup pack<uint, REGISTERS> staged[ZEROS + 16];
threadgroup pack<float, 2> sums[BATCH * STEPS * SLOTS / 2];
threadgroup float squares[SIMDGROUPS];
threadgroup float partial[2 * SIMDGROUPS * 8 * BATCH];
threadgroup float running[PHASED ? PHASED * 8 * BATCH : 1];  // of each tile: what the phases before made
const uint lane = thread_index_in_simdgroup, g = lane / 4, t = lane % 4;
const uint member = simdgroup_index_in_threadgroup;

const uint tiles = columns / OUTPUTS;
const uint first_tile = uint(ulong(tiles) * threadgroup_position_in_grid.x / threadgroups);
const uint end_tile = uint(ulong(tiles) * (threadgroup_position_in_grid.x + 1) / threadgroups);
const uint row_words = width / (32 / BITS), row_scales = width / GROUP;
const uint pair = 2 * t & (SLOTS - 1);  // this lane's two columns are neighbouring scales of one vector

struct Part {
  pack<uint, 4> low, high;
  uint scale, bias;
};
Part ring[DEPTH];
#define FETCH(part)                                                                                           \
  part.low = load_once(codes);                                                                                \
  part.high = load_once(codes + 16);                                                                          \
  if (SPREAD > 1) {                                                                                           \
    part.scale = load_now((const ushort*)scales + scaled) * 0x10001u;                                         \
    part.bias = load_now((const ushort*)biases + scaled) * 0x10001u;                                          \
  } else {                                                                                                    \
    part.scale = load_now((const uint*)(scales + scaled));                                                    \
    part.bias = load_now((const uint*)(biases + scaled));                                                     \
  }                                                                                                           \
  codes += 32;                                                                                                \
  scaled += SLOTS / SPREAD;                                                                                   \
  fetched++;                                                                                                  \
  if (--left == 0) {                                                                                          \
    left = steps;                                                                                             \
    codes += size_t(OUTPUTS) * row_words - steps * 32;                                                              \
    scaled += size_t(OUTPUTS) * row_scales - steps * (SLOTS / SPREAD);                                                              \
  }
// Ends an output with its sums; before the last phase, keeps them. Tiles count from the threadgroup's first.
#define FINISH(tile, of, output, first_sum, second_sum)                                                       \
  float value = first_sum, other = second_sum;                                                                \
  const uint kept = ((tile) * 8 + output) * BATCH + of;                                                       \
  if (PHASED && done > 0) {                                                                                   \
    value += running[kept];                                                                                   \
    if (GATED) other += running[kept + 4 * BATCH];                                                            \
  }                                                                                                           \
  if (done + steps < whole) {                                                                                 \
    running[kept] = value;                                                                                    \
    if (GATED) running[kept + 4 * BATCH] = other;                                                             \
  } else if (of < batch) {                                                                                    \
    if (NORMED) {                                                                                             \
      float all = 0.0f;                                                                                       \
      for (uint m = of; m < SIMDGROUPS; m += BATCH) all += squares[m];                                        \
      const float factor = rsqrt(all / float(width) + eps);                                                   \
      value *= factor;                                                                                        \
      other *= factor;                                                                                        \
    }                                                                                                         \
    if (GATED) value = value / (1.0f + exp(-value)) * other;                                                  \
    const size_t to = size_t(of) * columns + (first_tile + tile) * OUTPUTS + output;                          \
    if (ADDED) value += float(residual[to]);                                                                  \
    out[to] = S(value);                                                                                       \
  }

// Where this lane's column finds x: zeros where the lane's codes have another scale than the column.
uint places[TILED], strides[TILED];
#pragma unroll
for (uint n = 0; n < TILED; n++) {
  const uint column = n * 8 + g, vector = column / SLOTS, chunk = column / (SLOTS / 2) % 2;
  const bool is_mine = vector < BATCH && column % (SLOTS / 2) == t * (SLOTS / 2) / 4;
  places[n] = is_mine ? vector * ENTRIES + chunk * 16 + t : ZEROS;
  strides[n] = is_mine ? 32 : 0;
}
if (thread_index_in_threadgroup < 16) {
  for (int i = 0; i < REGISTERS; i++) staged[ZEROS + thread_index_in_threadgroup].values[i] = 0;
}

// The prologue: x, times the weights of its norm, in the order of the registers. A simdgroup has one vector to itself, or
// its share of one; a lane takes eight neighbours at a time.
constexpr uint STRIDE = SIMDGROUPS / BATCH * 32;
const uint own = member % BATCH;
const T* vector = x + size_t(min(own, batch - 1)) * width;
float square = 0.0f;
const uint whole = width / STEP;
for (uint done = 0; done < whole; done += STEPS) {
const uint steps = PHASED ? min(uint(STEPS), whole - done) : STEPS;
const uint work = (end_tile - first_tile) * steps;
const uint begin = work * member / SIMDGROUPS, end = work * (member + 1) / SIMDGROUPS;
// The next step to fetch: where it is, and how many of its row are left.
const uint row = (first_tile + begin / steps) * OUTPUTS + (GATED ? (g & 3u) + (g >> 2) * columns : g);
uint left = steps - begin % steps;
const uint* codes = weight + size_t(row) * row_words + (done + begin % steps) * 32 + t * 4;
size_t scaled = size_t(row) * row_scales + (done + begin % steps) * (SLOTS / SPREAD) + (SPREAD > 1 ? 0 : pair);
uint fetched = begin;
#pragma unroll
for (int d = 0; d < DEPTH; d++) {
  if (fetched < end) {
    FETCH(ring[d])
  }
}

if (done == 0) wait_for_inputs();
if (done > 0) threadgroup_barrier(mem_flags::mem_threadgroup);
const uint packs = steps * (STEP / 8);
for (uint start = member / BATCH * 32; start < packs; start += RUNS * STRIDE) {
  pack<uint, 4> values[RUNS], factors[RUNS];
#pragma unroll
  for (uint r = 0; r < RUNS; r++) {
    const uint at = min(start + r * STRIDE + lane, packs - 1);
    values[r] = *(const pack<uint, 4>*)(vector + done * STEP + at * 8);
    if (NORMED) factors[r] = *(const pack<uint, 4>*)(norm + done * STEP + at * 8);
  }
#pragma unroll
  for (uint r = 0; r < RUNS; r++) {
    const uint at = start + r * STRIDE + lane;
    if (start + r * STRIDE < packs) {
      const bool is_there = at < packs;
      float sum = 0.0f;
#pragma unroll
      for (int i = 0; i < 4; i++) {
        if (NORMED) {
          const float low = low_of<T>(values[r].values[i]), high = high_of<T>(values[r].values[i]);
          if (is_there) square = mad(low, low, mad(high, high, square));
          values[r].values[i] = product_of<T>(values[r].values[i], factors[r].values[i]);
        }
        sum += low_of<T>(values[r].values[i]) + high_of<T>(values[r].values[i]);
      }
#pragma unroll
      for (uint other = 1; other < SLOT / 8; other *= 2) sum += simd_shuffle_xor(sum, other);
      if (is_there) {
        const uint slot = own * STEPS * SLOTS + at / (SLOT / 8);
        if (at % (SLOT / 8) == 0) sums[slot / 2].values[slot % 2] = sum;
        uint pairs[BITS / 4 * REGISTERS];
        arrange<T, BITS>(values[r].values, pairs);
#pragma unroll
        for (uint w = 0; w < BITS / 4; w++) {
          const uint word = at * (BITS / 4) + w;  // of the row: four to a lane, four lanes to a chunk
          pack<uint, REGISTERS> entry;
          for (int i = 0; i < REGISTERS; i++) entry.values[i] = pairs[w * REGISTERS + i];
          staged[own * ENTRIES + word / 16 * 16 + word % 4 * 4 + word / 4 % 4] = entry;
        }
      }
    }
  }
}
if (NORMED) {
  const float all = simd_sum(square);
  if (lane == 0) squares[member] = all;
}
threadgroup_barrier(mem_flags::mem_threadgroup);
if (done == 0) let_next_begin();

float totals[TILED];
#pragma unroll
for (uint n = 0; n < TILED; n++) totals[n] = 0.0f;
uint step = begin % steps, tile = begin / steps;
bool is_whole = step == 0;
for (uint base = begin; base < end; base += DEPTH) {
#pragma unroll
  for (int d = 0; d < DEPTH; d++) {
    if (base + d < end) {
      float c[TILED][4] = {};
#pragma unroll
      for (uint j = 0; j < 4; j++) {
        uint low[REGISTERS], high[REGISTERS];
        numbers_of<T, BITS>(ring[d].low.values[j], low);
        numbers_of<T, BITS>(ring[d].high.values[j], high);
#pragma unroll
        for (uint n = 0; n < TILED; n++) {
          const pack<uint, REGISTERS> b = staged[places[n] + step * strides[n] + j * 4];
#pragma unroll
          for (int i = 0; i < REGISTERS; i += 2) {
            mma<T>(c[n], low[i], high[i], low[i + 1], high[i + 1], b.values[i], b.values[i + 1]);
          }
        }
      }
      const float scale[2] = {low_of<T>(ring[d].scale), high_of<T>(ring[d].scale)};
      const float bias[2] = {low_of<T>(ring[d].bias), high_of<T>(ring[d].bias)};
      if (fetched < end) {
        FETCH(ring[d])
      }
#pragma unroll
      for (uint n = 0; n < TILED; n++) {
        const uint column = n * 8 + 2 * t;
        const uint of = min(column / SLOTS, uint(BATCH) - 1);
        const pack<float, 2> sum = sums[((of * STEPS + step) * SLOTS + pair) / 2];
#pragma unroll
        for (uint e = 0; e < 2; e++) {
          const bool is_high = (column + e) / (SLOTS / 2) % 2;
          const float value = is_high ? c[n][2 + e] : c[n][e];
          totals[n] = mad(scale[e], mad(-Code::OFFSET, sum.values[e], value), totals[n]);
          totals[n] = mad(bias[e], sum.values[e], totals[n]);
        }
      }
      if (++step == steps || base + d + 1 == end) {
        is_whole = is_whole && step == steps;
        // Where the parts of a tile that is shared go: the first of a simdgroup's, or the last.
        const uint slot = 2 * member + (tile == begin / steps ? 0 : 1);
#pragma unroll
        for (uint n = 0; n < TILED; n++) {
          float total = totals[n];
          for (uint other = 1; other < SLOTS / 2; other *= 2) total += simd_shuffle_xor(total, other);
          const uint of = (n * 8 + 2 * t) / SLOTS;
          const float second = GATED ? simd_shuffle_xor(total, 16) : 0.0f;
          if (is_whole) {
            if (pair == 0 && of < BATCH && g < OUTPUTS) {
              FINISH(tile, of, g, total, second)
            }
          } else if (pair == 0 && of < BATCH) {
            partial[(slot * 8 + g) * BATCH + of] = total;
          }
          totals[n] = 0.0f;
        }
        step = 0;
        tile++;
        is_whole = true;
      }
    }
  }
}
threadgroup_barrier(mem_flags::mem_threadgroup);

// A tile that is shared belongs to the simdgroup that ends it.
const uint shared = begin / steps * steps;
if (begin < end && begin > shared && end >= shared + steps) {
  for (uint i = lane; i < OUTPUTS * BATCH; i += 32) {
    const uint of = i % BATCH, output = i / BATCH;
    float first = 0.0f, second = 0.0f;
    for (uint m = member + 1; m-- > 0;) {
      const uint its_begin = work * m / SIMDGROUPS, its_end = work * (m + 1) / SIMDGROUPS;
      if (its_end <= shared) break;
      if (its_begin == its_end) continue;
      const uint slot = 2 * m + (its_begin >= shared ? 0 : 1);
      first += partial[(slot * 8 + output) * BATCH + of];
      if (GATED) second += partial[(slot * 8 + output + 4) * BATCH + of];
    }
    FINISH(begin / steps, of, output, first, second)
  }
}
}
#undef FETCH
#undef FINISH
