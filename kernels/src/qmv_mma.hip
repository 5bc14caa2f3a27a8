// Vectors times the transposed quantised matrix by matrix instructions, which multiply 16 by 16 codes with 16 by 8 numbers.
// A simdgroup takes 8 rows; of a row it reads two chunks of 64 bytes a step, which are rows g and g + 8 of the instruction.
// Each column of the other operand is x where one scale's codes are and zero elsewhere, so that sums come out by scale.
typedef coded<T, BITS> Code;
constexpr uint CHUNK = 512 / BITS;
constexpr uint STEP = 2 * CHUNK;
constexpr uint SLOT = uint(GROUP) < CHUNK ? GROUP : CHUNK;
constexpr uint SLOTS = STEP / SLOT;
constexpr uint SPREAD = uint(GROUP) > CHUNK ? GROUP / CHUNK : 1;  // chunks with one scale
constexpr uint TILED = (BATCH * SLOTS + 7) / 8;
constexpr int REGISTERS = Code::REGISTERS;
constexpr uint ENTRIES = PHASE * 32 + (BATCH > 1 ? 4 : 0);  // of a vector; the rest keeps vectors apart in the banks
constexpr uint ZEROS = BATCH * ENTRIES + (BATCH > 1 ? 0 : 4);
constexpr uint RUNS = 4;
threadgroup pack<uint, REGISTERS> staged[ZEROS + 16];
threadgroup pack<float, 2> sums[BATCH * PHASE * SLOTS / 2];
threadgroup float squares[TILES * SPLIT];
threadgroup float partial[SPLIT * TILES * 8 * BATCH];
const uint lane = thread_index_in_simdgroup, g = lane / 4, t = lane % 4;
const uint member = simdgroup_index_in_threadgroup;
const uint split = member % SPLIT, tile = member / SPLIT;
const uint steps = width / STEP;
constexpr uint OUTPUTS = GATED ? 4 : 8;  // of a simdgroup; gated: 4 rows of the gate, then the same 4 of the other half
const uint tiles = threadgroup_position_in_grid.x * TILES;
const uint wanted = (tiles + tile) * OUTPUTS + (GATED ? g & 3u : g);
const uint row = min(wanted, columns - 1) + (GATED && g >= 4 ? columns : 0u);
const device uint* codes = weight + size_t(row) * (width / STEP * 32) + t * 4;
const size_t scaled = size_t(row) * (width / GROUP);

struct Part {
  pack<uint, 4> low, high;
  uint scale, bias;
};
Part ring[DEPTH];
const uint pair = 2 * t & (SLOTS - 1);  // this lane's two columns are neighbouring scales of one vector
#define FETCH(part, step)                                                                                     \
  part.low = load_once(codes + (step) * 32);                                                                  \
  part.high = load_once(codes + (step) * 32 + 16);                                                            \
  if (SPREAD > 1) {                                                                                           \
    part.scale = load_now((const device ushort*)scales + scaled + (step) * 2 / SPREAD);                       \
    part.bias = load_now((const device ushort*)biases + scaled + (step) * 2 / SPREAD);                        \
  } else {                                                                                                    \
    part.scale = load_now((const device uint*)(scales + scaled + (step) * SLOTS + pair));                     \
    part.bias = load_now((const device uint*)(biases + scaled + (step) * SLOTS + pair));                      \
  }
#pragma unroll
for (int d = 0; d < DEPTH; d++) {
  if (d * SPLIT + split < steps) {
    FETCH(ring[d], d * SPLIT + split)
  }
}

// Where this lane's column finds x: zeros where the lane's codes have another scale than the column.
uint places[TILED], strides[TILED];
for (uint n = 0; n < TILED; n++) {
  const uint column = n * 8 + g, vector = column / SLOTS, chunk = column / (SLOTS / 2) % 2;
  const bool is_mine = vector < BATCH && column % (SLOTS / 2) == t * (SLOTS / 2) / 4;
  places[n] = is_mine ? vector * ENTRIES + chunk * 16 + t : ZEROS;
  strides[n] = is_mine ? 32 : 0;
}
if (thread_index_in_threadgroup < 16) {
  for (int i = 0; i < REGISTERS; i++) staged[ZEROS + thread_index_in_threadgroup].values[i] = 0;
}
float totals[TILED];
for (uint n = 0; n < TILED; n++) totals[n] = 0.0f;
// In the prologue a simdgroup has one vector to itself, or its share of one.
constexpr uint PACKS = STEP / 8, STRIDE = TILES * SPLIT / BATCH * 32;
const uint own = member % BATCH;
const device T* vector = x + size_t(min(own, batch - 1)) * width;
float square = 0.0f;
wait_for_inputs();

for (uint begin = 0; begin < steps; begin += PHASE) {
  const uint end = min(begin + PHASE, steps);
  if (begin) threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint start = member / BATCH * 32; start < (end - begin) * PACKS; start += RUNS * STRIDE) {
    pack<T, 8> values[RUNS], factors[RUNS];
#pragma unroll
    for (uint r = 0; r < RUNS; r++) {
      const uint at = start + r * STRIDE + lane;
      if (at < (end - begin) * PACKS) {
        values[r] = *(const device pack<T, 8>*)(vector + begin * STEP + at * 8);
        if (NORMED) factors[r] = *(const device pack<T, 8>*)(norm + begin * STEP + at * 8);
      }
    }
#pragma unroll
    for (uint r = 0; r < RUNS; r++) {
      const uint at = start + r * STRIDE + lane;
      if (start + r * STRIDE < (end - begin) * PACKS) {
        const bool is_there = at < (end - begin) * PACKS;
        float sum = 0.0f;
        T ready[8];
        for (int i = 0; i < 8; i++) {
          const float value = is_there ? float(values[r].values[i]) : 0.0f;
          if (NORMED) square = mad(value, value, square);
          ready[i] = NORMED && is_there ? T(value * float(factors[r].values[i])) : T(value);
          sum += float(ready[i]);
        }
        for (uint other = 1; other < SLOT / 8; other *= 2) sum += simd_shuffle_xor(sum, other);
        if (is_there) {
          const uint slot = own * PHASE * SLOTS + at / (SLOT / 8);
          if (at % (SLOT / 8) == 0) sums[slot / 2].values[slot % 2] = sum;
          uint pairs[BITS / 4 * REGISTERS];
          arrange<T, BITS>(ready, pairs);
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
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (begin == 0) begin_next();

  for (uint base = begin; base < end; base += SPLIT * DEPTH) {
#pragma unroll
    for (int d = 0; d < DEPTH; d++) {
      const uint step = base + d * SPLIT + split;
      if (step < end) {
        float c[TILED][4] = {};
#pragma unroll
        for (uint j = 0; j < 4; j++) {
          uint low[REGISTERS], high[REGISTERS];
          numbers_of<T, BITS>(ring[d].low.values[j], low);
          numbers_of<T, BITS>(ring[d].high.values[j], high);
#pragma unroll
          for (uint n = 0; n < TILED; n++) {
            const pack<uint, REGISTERS> b = staged[places[n] + (step - begin) * strides[n] + j * 4];
#pragma unroll
            for (int i = 0; i < REGISTERS; i += 2) {
              mma<T>(c[n], low[i], high[i], low[i + 1], high[i + 1], b.values[i], b.values[i + 1]);
            }
          }
        }
        const uint scale_pair = SPREAD > 1 ? ring[d].scale * 0x10001u : ring[d].scale;
        const uint bias_pair = SPREAD > 1 ? ring[d].bias * 0x10001u : ring[d].bias;
        const float scale[2] = {low_of<T>(scale_pair), high_of<T>(scale_pair)};
        const float bias[2] = {low_of<T>(bias_pair), high_of<T>(bias_pair)};
        const uint next = step + SPLIT * DEPTH;
        if (next < steps) {
          FETCH(ring[d], next)
        }
#pragma unroll
        for (uint n = 0; n < TILED; n++) {
          const uint column = n * 8 + 2 * t;
          const uint of = min(column / SLOTS, uint(BATCH) - 1);
          const pack<float, 2> sum = sums[((of * PHASE + step - begin) * SLOTS + pair) / 2];
#pragma unroll
          for (uint e = 0; e < 2; e++) {
            const bool is_high = (column + e) / (SLOTS / 2) % 2;
            const float value = is_high ? c[n][2 + e] : c[n][e];
            totals[n] = mad(scale[e], mad(-Code::OFFSET, sum.values[e], value), totals[n]);
            totals[n] = mad(bias[e], sum.values[e], totals[n]);
          }
        }
      }
    }
  }
}
#undef FETCH

#pragma unroll
for (uint n = 0; n < TILED; n++) {
  float total = totals[n];
  for (uint other = 1; other < SLOTS / 2; other *= 2) total += simd_shuffle_xor(total, other);
  const uint of = (n * 8 + 2 * t) / SLOTS;
  if (pair == 0 && of < BATCH) partial[((split * TILES + tile) * 8 + g) * BATCH + of] = total;
}
if (NORMED) {
  square = simd_sum(square);
  if (lane == 0) squares[member] = square;
}
threadgroup_barrier(mem_flags::mem_threadgroup);
for (uint i = thread_index_in_threadgroup; i < TILES * OUTPUTS * BATCH; i += TILES * SPLIT * 32) {
  const uint of = i % BATCH, output = i / BATCH;
  const uint column = tiles * OUTPUTS + output;
  if (of >= batch || column >= columns) continue;
  float factor = 1.0f;
  if (NORMED) {
    float all = 0.0f;
    for (uint m = of; m < TILES * SPLIT; m += BATCH) all += squares[m];
    factor = rsqrt(all / float(width) + eps);
  }
  const uint at = (output / OUTPUTS * 8 + output % OUTPUTS) * BATCH + of;
  float value = 0.0f, other = 0.0f;
  for (uint s = 0; s < SPLIT; s++) {
    value += partial[s * TILES * 8 * BATCH + at];
    if (GATED) other += partial[s * TILES * 8 * BATCH + at + 4 * BATCH];
  }
  value *= factor;
  if (GATED) value = value / (1.0f + exp(-value)) * (other * factor);
  const size_t to = size_t(of) * columns + column;
  if (ADDED) value += float(residual[to]);
  out[to] = S(value);
}
