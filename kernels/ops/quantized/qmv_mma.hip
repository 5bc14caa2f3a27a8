// Vectors times the transposed quantised matrix by matrix instructions, which multiply 16 by 16 codes with 16 by 8 numbers.
// A simdgroup takes 8 rows; of a row it reads two chunks of 64 bytes a step, which are rows g and g + 8 of the instruction.
// Each column of the other operand is x where one scale's codes are and zero elsewhere, so that sums come out by scale.
// x is brought to half, each stretch with a scale in front of it multiplied by a power of two that keeps it in range.
constexpr uint CHUNK = 512 / BITS;
constexpr uint STEP = 2 * CHUNK;
constexpr uint SLOT = uint(GROUP) < CHUNK ? GROUP : CHUNK;
constexpr uint SLOTS = STEP / SLOT;
constexpr uint SPREAD = uint(GROUP) > CHUNK ? GROUP / CHUNK : 1;  // chunks with one scale
constexpr uint SCALES = SPREAD > 1 ? 2 / SPREAD : SLOTS;          // of a step
constexpr uint TILED = (BATCH * SLOTS + 7) / 8;
constexpr int REGISTERS = BITS == 4 ? 4 : 2;
constexpr uint CHAINS = TILED == 1 && DEPTH > 1 ? 2 : 1;  // sums side by side: an instruction waits for the one before it
constexpr uint STEPS = WIDTH / STEP;
constexpr uint OWN = (STEPS + SPLIT - 1) / SPLIT;  // steps of a simdgroup
constexpr bool IS_WHOLE = STEPS <= uint(PHASE);    // all of x is staged at once
constexpr bool IS_EVEN = STEPS % SPLIT == 0 && OWN % DEPTH == 0;
constexpr uint OUTPUTS = GATED ? 4 : 8;                               // of a simdgroup; gated: 4 rows of each half
constexpr uint ENTRIES = PHASE * 32 + (BATCH > 1 ? 4 : 0);            // of a vector; the rest keeps vectors apart in the banks
constexpr uint ZEROS = BATCH * ENTRIES + (BATCH > 1 ? 0 : 4);
threadgroup pack<uint, REGISTERS> staged[ZEROS + 16];
threadgroup pack<float, 4> sums[BATCH * PHASE * SLOTS / 2];  // of two neighbouring scales: sums of x, then factors of dots
threadgroup float squares[TILES * SPLIT];
threadgroup float partial[IS_WHOLE && SPLIT == 1 ? 1 : SPLIT * TILES * 8 * BATCH];
const uint lane = thread_index_in_simdgroup, g = lane / 4, t = lane % 4;
const uint member = simdgroup_index_in_threadgroup;
const uint split = member % SPLIT, tile = threadgroup_position_in_grid.x * TILES + member / SPLIT;
const uint all_tiles = (columns + OUTPUTS - 1) / OUTPUTS, apart = threadgroups_per_grid.x * TILES;
const uint pair = 2 * t & (SLOTS - 1);  // this lane's two columns are neighbouring scales of one vector

struct Part {
  pack<uint, 4> low, high;
  uint scale, bias;
};
struct Row {
  const device uint* codes;
  const device ushort* scales;
  const device ushort* biases;
};
Part ring[DEPTH];
// This lane's row of a tile, from this simdgroup's first step on.
#define FIND(row, of)                                                                                         \
  {                                                                                                           \
    const uint index = min((of) * OUTPUTS + (GATED ? g & 3u : g), columns - 1) + (GATED && g >= 4 ? columns : 0u); \
    row.codes = weight + size_t(index) * (STEPS * 32) + split * 32 + t * 4;                                   \
    const size_t scaled = size_t(index) * (STEPS * SCALES) + split * SCALES + (SPREAD > 1 ? 0u : pair);       \
    row.scales = (const device ushort*)scales + scaled;                                                       \
    row.biases = (const device ushort*)biases + scaled;                                                       \
  }
#define FETCH(part, row, index)                                                                               \
  part.low = load_once(row.codes + (index) * (SPLIT * 32));                                                   \
  part.high = load_once(row.codes + (index) * (SPLIT * 32) + 16);                                             \
  if (SPREAD > 1) {                                                                                           \
    part.scale = load_now(row.scales + (index) * (SPLIT * SCALES)) * 0x10001u;                                \
    part.bias = load_now(row.biases + (index) * (SPLIT * SCALES)) * 0x10001u;                                 \
  } else {                                                                                                    \
    part.scale = load_now((const device uint*)(row.scales + (index) * (SPLIT * SCALES)));                     \
    part.bias = load_now((const device uint*)(row.biases + (index) * (SPLIT * SCALES)));                      \
  }
Row row;
FIND(row, tile)
#pragma unroll
for (uint d = 0; d < uint(DEPTH); d++) {
  if (d * SPLIT + split < STEPS) {
    FETCH(ring[d], row, d)
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
// In the prologue a simdgroup has one vector to itself, or its share of one.
constexpr uint PACKS = STEP / 8, STRIDE = TILES * SPLIT / BATCH * 32;
constexpr uint STAGED_PACKS = (IS_WHOLE ? STEPS : uint(PHASE)) * PACKS;
constexpr uint RUNS = STAGED_PACKS > 3 * STRIDE ? 4 : (STAGED_PACKS + STRIDE - 1) / STRIDE;
const uint own = member % BATCH;
const device T* vector = x + size_t(min(own, batch - 1)) * WIDTH;
float square = 0.0f;
float totals[TILED], factors[TILED];
begin_next();
wait_for_inputs();

// Put a stretch of x where all simdgroups of the threadgroup find it.
const auto stage = [&](uint begin, uint end) {
  for (uint start = member / BATCH * 32; start < (end - begin) * PACKS; start += RUNS * STRIDE) {
    pack<T, 8> values[RUNS], weights[RUNS];
#pragma unroll
    for (uint r = 0; r < RUNS; r++) {
      const uint at = start + r * STRIDE + lane;
      if (at < (end - begin) * PACKS) {
        values[r] = *(const device pack<T, 8>*)(vector + begin * STEP + at * 8);
        if (NORMED) weights[r] = *(const device pack<T, 8>*)(norm + begin * STEP + at * 8);
      }
    }
#pragma unroll
    for (uint r = 0; r < RUNS; r++) {
      const uint at = start + r * STRIDE + lane;
      if (start + r * STRIDE < (end - begin) * PACKS) {
        const bool is_there = at < (end - begin) * PACKS;
        float v[8], largest = 0.0f;
        for (int i = 0; i < 8; i++) {
          v[i] = is_there ? float(values[r].values[i]) : 0.0f;
          if (NORMED) {
            square = mad(v[i], v[i], square);
            v[i] = is_there ? v[i] * float(weights[r].values[i]) : 0.0f;
          }
          largest = max(largest, abs(v[i]));
        }
        for (uint other = 1; other < SLOT / 8; other *= 2) largest = max(largest, simd_shuffle_xor(largest, other));
        // The largest becomes 2^12 to 2^13: a sixteenth of what is 2^-22 of it is still a normal half.
        const uint exponent = min(max(as_type<uint>(largest) >> 23, 13u), 242u);
        const float up = as_type<float>((266u - exponent) << 23);
        half ready[8];
        float sum = 0.0f;
        for (int i = 0; i < 8; i++) {
          ready[i] = half(v[i] * up);
          sum += float(ready[i]);
        }
        for (uint other = 1; other < SLOT / 8; other *= 2) sum += simd_shuffle_xor(sum, other);
        if (is_there) {
          const uint slot = own * PHASE * SLOTS + at / (SLOT / 8);
          if (at % (SLOT / 8) == 0) {
            sums[slot / 2].values[slot % 2] = sum * as_type<float>((exponent - 12u) << 23);
            // Codes are read as half without a leading one: in units of 2^-24.
            sums[slot / 2].values[2 + slot % 2] = as_type<float>((exponent + 12u) << 23);
          }
          for (uint w = 0; w < BITS / 4; w++) {
            const uint word = at * (BITS / 4) + w;  // of the row: four to a lane, four lanes to a chunk
            staged[own * ENTRIES + word / 16 * 16 + word % 4 * 4 + word / 4 % 4] = arranged<BITS>(ready + w * 4);
          }
        }
      }
    }
  }
  if (NORMED && end == STEPS) {
    square = simd_sum(square);
    if (lane == 0) squares[member] = square;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
};
if (IS_WHOLE) stage(0, STEPS);

for (uint now = tile; now == tile || (REPEATED && now < all_tiles); now += apart) {
  for (uint n = 0; n < TILED; n++) totals[n] = 0.0f;
  Row after = row;
  const bool is_last = !REPEATED || now + apart >= all_tiles;
  if (!is_last) FIND(after, now + apart)
  for (uint begin = 0; begin < STEPS; begin += PHASE) {
    const uint end = IS_WHOLE ? STEPS : min(begin + PHASE, STEPS);
    if (!IS_WHOLE) {
      if (begin) threadgroup_barrier(mem_flags::mem_threadgroup);
      stage(begin, end);
    }
    for (uint base = begin / SPLIT; base * SPLIT < end; base += DEPTH) {
#pragma unroll
      for (uint d = 0; d < uint(DEPTH); d++) {
        const uint step = (base + d) * SPLIT + split;
        if ((IS_EVEN && IS_WHOLE) || step < end) {
          float c[CHAINS][TILED][4] = {};
#pragma unroll
          for (uint j = 0; j < 4; j++) {
            const pack<uint, REGISTERS> low = halves_of<BITS>(ring[d].low.values[j]);
            const pack<uint, REGISTERS> high = halves_of<BITS>(ring[d].high.values[j]);
#pragma unroll
            for (uint n = 0; n < TILED; n++) {
              const pack<uint, REGISTERS> b = staged[places[n] + (step - begin) * strides[n] + j * 4];
#pragma unroll
              for (int i = 0; i < REGISTERS; i += 2) {
                mma<half>(c[(j * REGISTERS + i) / 2 % CHAINS][n], low.values[i], high.values[i], low.values[i + 1], high.values[i + 1], b.values[i],
                          b.values[i + 1]);
              }
            }
          }
          const float scale[2] = {low_of<T>(ring[d].scale), high_of<T>(ring[d].scale)};
          const float bias[2] = {low_of<T>(ring[d].bias), high_of<T>(ring[d].bias)};
          if (base + d + DEPTH < OWN && (base + d + DEPTH) * SPLIT + split < STEPS) {
            FETCH(ring[d], row, base + d + DEPTH)
          } else if (!is_last) {
            FETCH(ring[d], after, d)
          }
#pragma unroll
          for (uint n = 0; n < TILED; n++) {
            const uint column = n * 8 + 2 * t;
            const uint of = min(column / SLOTS, uint(BATCH) - 1);
            const pack<float, 4> sum = sums[((of * PHASE + step - begin) * SLOTS + pair) / 2];
#pragma unroll
            for (uint e = 0; e < 2; e++) {
              const bool is_high = (column + e) / (SLOTS / 2) % 2;
              float dot = is_high ? c[0][n][2 + e] : c[0][n][e];
              if (CHAINS > 1) dot += is_high ? c[CHAINS - 1][n][2 + e] : c[CHAINS - 1][n][e];
              totals[n] = mad(scale[e] * sum.values[2 + e], dot, totals[n]);
              totals[n] = mad(bias[e], sum.values[e], totals[n]);
            }
          }
        }
      }
    }
  }
  row = after;

#pragma unroll
  for (uint n = 0; n < TILED; n++) {
    for (uint other = 1; other < SLOTS / 2; other *= 2) totals[n] += simd_shuffle_xor(totals[n], other);
    const uint of = (n * 8 + 2 * t) / SLOTS;
    if (IS_WHOLE && SPLIT == 1) {
      if (now == tile) {
        float squared = 0.0f;
        for (uint m = min(of, uint(BATCH) - 1); NORMED && m < TILES; m += BATCH) squared += squares[m];
        factors[n] = NORMED ? rsqrt(squared / float(WIDTH) + eps) : 1.0f;
      }
      float value = totals[n] * factors[n];
      if (GATED) value = value / (1.0f + exp(-value)) * simd_shuffle_xor(value, 16);
      const uint column = now * OUTPUTS + g;
      if (pair == 0 && of < batch && g < OUTPUTS && column < columns) {
        const size_t to = size_t(of) * columns + column;
        out[to] = S(ADDED ? value + float(residual[to]) : value);
      }
    } else if (pair == 0 && of < BATCH) {
      partial[(member * 8 + g) * BATCH + of] = totals[n];
    }
  }
}
#undef FIND
#undef FETCH

if (!(IS_WHOLE && SPLIT == 1)) {
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = thread_index_in_threadgroup; i < TILES * OUTPUTS * BATCH; i += TILES * SPLIT * 32) {
    const uint of = i % BATCH, output = i / BATCH;
    const uint column = threadgroup_position_in_grid.x * TILES * OUTPUTS + output;
    if (of < batch && column < columns) {
      float factor = 1.0f;
      if (NORMED) {
        float squared = 0.0f;
        for (uint m = of; m < TILES * SPLIT; m += BATCH) squared += squares[m];
        factor = rsqrt(squared / float(WIDTH) + eps);
      }
      float value = 0.0f, other = 0.0f;
      for (uint s = 0; s < SPLIT; s++) {
        const uint at = ((output / OUTPUTS * SPLIT + s) * 8 + output % OUTPUTS) * BATCH + of;
        value += partial[at];
        if (GATED) other += partial[at + 4 * BATCH];
      }
      value *= factor;
      if (GATED) value = value / (1.0f + exp(-value)) * (other * factor);
      const size_t to = size_t(of) * columns + column;
      out[to] = S(ADDED ? value + float(residual[to]) : value);
    }
  }
}
