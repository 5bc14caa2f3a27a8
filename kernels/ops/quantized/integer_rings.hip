// One vector times the transposed quantised matrix by integer matrix instructions, which multiply 16 by 32 codes with
// 32 by 8 numbers. x is brought to 16 bits for each scale of the codes: two columns of the other operand, of which the
// first counts 256 times. Columns are zero where the codes have another scale, so that sums come out by scale.
//
// A threadgroup has a stretch of tiles of 8 rows; TEAMS of SPLIT simdgroups take tiles in turn, and in a team each has its
// own steps of the rows, of two chunks of 64 bytes. A simdgroup has DEPTH steps on their way in registers, EARLY of them
// asked for before x is there, together with the norm: more would keep x waiting. Two loads are one step, whole lines of
// four rows each; so lanes of even g have the first chunk of row g / 2 and the second of row 4 + g / 2, those of odd g the
// other chunks. Scales and biases come by bulk copies, a round ahead: there are many rows of few bytes.
//
// Of a stack of matrices, CHOSEN by the indices of a token, which is the second axis of the grid: their rows behind each
// other for one x (GATHERED), or their widths beside each other, for as many stretches of x with a share each (SUMMED). An
// up lies `between` rows behind its gate.
//
// With ONE_ROUND no threadgroup has more tiles than are put together at once, and what further rounds need is left out.
//
// With ROUTED the first ROUTERS threadgroups compute the logits of a router, and in each of the others a simdgroup chooses by
// them (experts/router.h) while its neighbours prepare x. Without such threadgroups the kernel before leaves them early, and
// the choice is made before the inputs are there: that kernel is one with LEAVES_LOGITS, a plain matrix of WHOLE rows. With
// HAS_LOGITS there is no router, but the logits of each token are given. A simdgroup takes those of its threadgroup's token
// behind the wait; the tokens are the second axis of the grid.
//
// With LEAVES_PLACE the place of the largest result is found too: each threadgroup leaves that of its own rows in a word, and
// the last one waits for the words of those before it (reduction/largest_word.h).
constexpr uint CHUNK = 512 / BITS;
constexpr uint STEP = 2 * CHUNK;
constexpr uint SLOT = uint(GROUP) < CHUNK ? GROUP : CHUNK;
constexpr uint SLOTS = STEP / SLOT, HALF = SLOTS / 2;             // at most 4: two columns each
constexpr uint SPREAD = uint(GROUP) > CHUNK ? GROUP / CHUNK : 1;  // chunks with one scale
constexpr uint SCALES = SPREAD > 1 ? 2 / SPREAD : SLOTS;          // of a step
constexpr uint FIELDS = BITS == 4 ? 2 : 1;                        // registers of a word's codes, the second 16 times as much
constexpr uint BESIDE = CHOICE == SUMMED ? CHOSEN : 1, STEPS_EACH = WIDTH / STEP;  // of one matrix
constexpr uint STEPS = BESIDE * STEPS_EACH, OWN = (STEPS + SPLIT - 1) / SPLIT, SCALED = STEPS_EACH * SCALES;
// Rows of scales of a multiple of four pieces lie a piece apart: lanes read those of eight rows, which would be in few banks.
constexpr bool IS_APART = CHOICE == ONE && !IS_ROUTED && SCALED % 32 == 0;
constexpr uint ROW_SCALES = IS_APART ? SCALED + 8 : SCALED;
constexpr uint PARTS = GATED ? 2 : 1, OUTPUTS = 8 / PARTS;  // of a tile; gated: 4 rows of each half
constexpr uint ROUND = TEAMS * PER;                         // tiles whose sums are put together at once
constexpr uint MEMBERS = TEAMS * SPLIT, PACKS = STEP / 8;
constexpr uint LENGTH = OWN < uint(DEPTH) ? OWN : uint(DEPTH);     // steps of a tile that are on their way
constexpr uint TURNS = OWN < uint(DEPTH) ? uint(DEPTH) / OWN : 1;  // tiles that are
constexpr bool ONE_TURN = ONE_ROUND && PER == TURNS;               // nothing comes behind a team's first tiles
constexpr uint BLOCK = 17, HELD = BLOCK * FIELDS;                  // pieces of x of a field, behind them one of zeros; of a step
typedef pack<uint, 4> piece;
extern __shared__ piece copied[];
threadgroup pack<float, 2> sums[SPLIT * OWN * 4];  // by scale: the sum of x, and the unit of what it was brought to
threadgroup float squares[NORMED ? STEPS : 1];
threadgroup float partial[2 * ROUND * SPLIT * 8];
const uint lane = thread_index_in_simdgroup, g = lane / 4, t = lane % 4;
const uint member = simdgroup_index_in_threadgroup, split = member % SPLIT, team = member / SPLIT;
#if ROUTED
static_assert(EARLY == 0, "nothing can be asked for before the choice");
constexpr uint ROWS = EXPERTS + SHARED;
#endif
#if ROUTED && !HAS_LOGITS
constexpr uint MOST = (ROWS + ROUTERS - 1) / (ROUTERS > 0 ? ROUTERS : ROWS);
threadgroup ulong router_full[1];
threadgroup float router_sums[(MOST + 1) * (WIDTH / 512)];
if (ROUTERS > 0 && threadgroup_position_in_grid.x < uint(ROUTERS)) {
  begin_next();
  router_rows<T, WIDTH, ROUTER_GROUP, MOST, MEMBERS> rows = {router, router_scales, router_biases, norm, 0, 0};
  rows.first = min(threadgroup_position_in_grid.x * MOST, ROWS);
  rows.count = min(MOST, ROWS - rows.first);
  if (rows.count > 0) rows.ask((threadgroup uchar*)copied, router_full, thread_index_in_threadgroup);
  wait_for_inputs();
  if (rows.count > 0) rows.take(x, eps, arrivals + FIRST_LOGIT, ROWS, router_full, router_sums, member, lane);
  return;
}
#endif
constexpr uint TILES_EACH = CHOICE == GATHERED ? COLUMNS / OUTPUTS : 1;
// Of the chosen matrices: their first rows, and their shares or 0 for one that does not exist. Of SUMMED ones each simdgroup has
// its own, since simdgroups may have guessed at different times.
threadgroup uint all_first_rows[CHOICE == SUMMED ? MEMBERS * CHOSEN : CHOICE == GATHERED ? CHOSEN : 1];
threadgroup float all_factors[CHOICE == SUMMED ? MEMBERS * CHOSEN : CHOICE == GATHERED ? CHOSEN : 1];
threadgroup uint* const first_rows = all_first_rows + (CHOICE == SUMMED ? member * CHOSEN : 0u);
threadgroup float* const factors = all_factors + (CHOICE == SUMMED ? member * CHOSEN : 0u);
const uint groups = threadgroups_per_grid.x - ROUTERS, group = threadgroup_position_in_grid.x - ROUTERS;
const uint all_tiles = CHOICE == GATHERED ? CHOSEN * TILES_EACH : columns / OUTPUTS;
const uint each = all_tiles / groups, more = all_tiles % groups;
const uint first_tile = group * each + min(group, more), end_tile = first_tile + each + (group < more ? 1u : 0u);
const uint token = CHOICE == ONE ? 0u : threadgroup_position_in_grid.y;
const device T* const own_x = x + size_t(token) * (BESIDE * WIDTH);
#if ROUTED
// A kernel that chooses before its inputs are there begins behind the wait of the one that leaves the words: those of the layer
// before have been taken then. The kernel behind it guesses by what it has chosen, and so begins later.
constexpr bool IS_EARLY = !HAS_LOGITS && ROUTERS == 0;
expert_choice<T, EXPERTS, CHOSEN, SHARED> choice = {};
#if !HAS_LOGITS
const device uint* const words = arrivals + FIRST_LOGIT + group % LOGIT_COPIES * ROWS;
constexpr bool IS_ASKED = IS_EARLY && MEMBERS > 1;
if (IS_ASKED && member == 0) choice.ask(words, lane);
#endif
#else
constexpr bool IS_EARLY = false;
#endif
// Indices of summed matrices are read as they are before the inputs are there, and codes and scales of these matrices are asked
// for. That is a guess, right unless this has started before the choice was made: then they are asked for again.
constexpr bool IS_CHOSEN = CHOICE != ONE && !IS_ROUTED, GUESSES = CHOICE == SUMMED;
threadgroup uint was_wrong[1];  // whether the first simdgroup was, which has asked for the scales of all
const auto matrix_at = [&](uint e) {
  return uint(atomic_load_explicit((const device atomic_int*)indices + token * CHOSEN + e, memory_order_relaxed));
};
const auto first_row_of = [&](uint matrix) {
  return matrix < matrices ? matrix * (between == columns ? PARTS * columns : columns) : 0u;
};
constexpr uint GUESSED = GUESSES ? (CHOSEN + 31) / 32 : 1;  // by a lane
uint guess[GUESSED];
#pragma unroll
for (uint i = 0; GUESSES && i < GUESSED; i++) guess[i] = i * 32 + lane < uint(CHOSEN) ? matrix_at(i * 32 + lane) : 0u;
const auto row_of = [&](uint tile, uint local) {
  const uint within = CHOICE == GATHERED ? tile % TILES_EACH : tile, before = CHOICE == GATHERED ? first_rows[tile / TILES_EACH] : 0u;
  return before + (GATED ? within * 4 + local % 4 + (local >= 4 ? between : 0u) : within * 8 + local);
};
// Of this lane's column, which is of scale t, only one of its two rows of the result counts: that with codes of this scale.
const bool is_second = t / HALF % 2 != g % 2;
const uint local = is_second ? 4 + g / 2 : g / 2;
const uint scale_at = (CHOICE == SUMMED ? 0u : split * SCALES) + (SPREAD > 1 ? 0u : min(t, SLOTS - 1));
const uint scale_in_round = kept(scale_at + (GATED ? local % 4 + local / 4 * (ROUND * 4) : local) * ROW_SCALES);
const uint partial_at = kept(split * 8 + local);
// Where this lane's column finds x of the simdgroup's steps: zeros where the lane's codes have another scale than the column.
const bool is_mine = g / 2 < SLOTS && g / 2 % HALF == t * HALF / 4;
const uint column_at = kept(split * (OWN * HELD) + (is_mine ? g / 2 / HALF * 8 + t * 2 + g % 2 : BLOCK - 1));
// Where this lane leaves x of a step: two words of a piece, of one word of codes, whose fields are multiplied by themselves, or
// of two words.
const uint word = lane * (BITS / 4), pair = word % 4 * FIELDS / 2;
const uint word_at = kept(split * (OWN * HELD) * 4 + (pair / 2 * BLOCK + word / 16 * 8 + word / 4 % 4 * 2) * 4 + pair % 2 * (FIELDS == 2 ? 1 : 2));
#if !LEAVES_LOGITS
if (!IS_EARLY) begin_next();
#endif
constexpr uint SHARE = (OWN + TEAMS - 1) / TEAMS;  // steps of x that a simdgroup brings, RUNS of them at once
constexpr uint RUNS = SHARE < 4 ? SHARE : 4;
// The simdgroup that chooses experts comes last among those of its part, and so brings no step where others can.
const uint bringer = IS_ROUTED ? (team + TEAMS - 1) % TEAMS : team;
piece values[RUNS], weights[RUNS];
const auto fetch_parts = [&](piece* to, const device T* from, uint base) {
#pragma unroll
  for (uint r = 0; r < RUNS; r++) {
    const uint own = (base + r) * TEAMS + bringer, step = own * SPLIT + split;
    to[r] = {{0, 0, 0, 0}};
    if (lane < PACKS && own < OWN && step < STEPS) to[r] = load_now((const device piece*)(from + step * STEP + lane * 8));
  }
};
if (NORMED) fetch_parts(weights, norm, 0);
if (IS_CHOSEN && !GUESSES) {
  wait_for_inputs();
  for (uint e = thread_index_in_threadgroup; e < uint(CHOSEN); e += MEMBERS * 32) {
    const uint matrix = matrix_at(e);
    first_rows[e] = first_row_of(matrix);
    factors[e] = matrix < matrices ? 1.0f : 0.0f;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
}
if (GUESSES) {
#pragma unroll
  for (uint i = 0; i < GUESSED; i++) {
    if (i * 32 + lane < uint(CHOSEN)) first_rows[i * 32 + lane] = first_row_of(guess[i] + MISLEADS);
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
}
#if HIPRT_TARGET_NVIDIA
threadgroup ulong full[2];
constexpr uint SCALE_BYTES = BESIDE * ROUND * 8 * ROW_SCALES * 2;  // of a round, and as many of biases
const uint arrived = in_shared(full), buffers = in_shared(copied);
const auto bring = [&](uint round) {  // by a simdgroup, or by all where rows lie apart
  const uint begin = first_tile + round * ROUND, end = min(begin + ROUND, end_tile), bar = arrived + round % 2 * 8;
  if (begin >= end) return;
  if (IS_APART) {
    constexpr uint OF_ROW = SCALED / 8;
#pragma unroll 1
    for (uint i = thread_index_in_threadgroup; i < ROUND * 8 * OF_ROW; i += MEMBERS * 32) {
      const uint of = i / OF_ROW, at = i % OF_ROW, part = of / (ROUND * OUTPUTS), within = of % (ROUND * OUTPUTS);
      const size_t from = size_t(row_of(begin, part * 4) + within) * SCALED + at * 8;
      if (within < (end - begin) * OUTPUTS) {
        threadgroup piece* const to = copied + round % 2 * (2 * SCALE_BYTES / 16) + of * (ROW_SCALES / 8) + at;
        copy_later<16>(to, (const device ushort*)scales + from);
        copy_later<16>(to + SCALE_BYTES / 16, (const device ushort*)biases + from);
      }
    }
    arrive_with_copies(bar);
    return;
  }
  if (lane == 0) expect_bytes(bar, 2 * BESIDE * PARTS * (end - begin) * (OUTPUTS * SCALED * 2));
  simdgroup_barrier(mem_flags::mem_threadgroup);
  for (uint from = begin, next; from < end; from = next) {
    next = CHOICE == GATHERED ? min(end, (from / TILES_EACH + 1) * TILES_EACH) : end;  // rows that lie together
    for (uint i = lane; i < 2 * BESIDE * PARTS; i += 32) {
      const uint part = i / 2;
      const size_t row = CHOICE == SUMMED ? first_rows[part] + from * 8 : row_of(from, part * 4);
      const uint to = buffers + round % 2 * (2 * SCALE_BYTES) + part * (SCALE_BYTES / (BESIDE * PARTS)) +
                      (from - begin) * (OUTPUTS * SCALED * 2);
      copy_bulk_once(to + i % 2 * SCALE_BYTES, (i % 2 ? biases : scales) + row * SCALED, (next - from) * (OUTPUTS * SCALED * 2), bar);
    }
  }
};
const auto bring_first = [&] {
  bring(0);
  if (!ONE_ROUND) bring(1);
};
if (member == (IS_EARLY && MEMBERS > 1 ? 1u : 0u)) {  // not the one that chooses
  if (lane == 0) {
    begin_stage(arrived, IS_APART ? MEMBERS * 32 : 1);
    if (!ONE_ROUND) begin_stage(arrived + 8, IS_APART ? MEMBERS * 32 : 1);
    stages_begun();
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
  if (!IS_ROUTED && !IS_APART) bring_first();
}
constexpr uint COPIED = 4 * SCALE_BYTES / 16;
#else
constexpr uint COPIED = 0;
#endif
#if LEAVES_LOGITS
constexpr uint MOST = (ROUTED_ROWS + GROUPS - 1) / GROUPS;
threadgroup ulong folded_full[1];
folded_rows<T, WIDTH, WHOLE, MOST, MEMBERS> logits;
threadgroup float logit_sums[MOST * logits.PARTS];
logits.first = group * ROUTED_ROWS / GROUPS;
logits.count = (group + 1) * ROUTED_ROWS / GROUPS - logits.first;
logits.ask(folded, copied + COPIED + SPLIT * OWN * HELD, folded_full, thread_index_in_threadgroup);
#endif

piece low[DEPTH], high[DEPTH];
const auto codes_at = [&](uint tile, uint own, bool is_high) {
  const uint step = own * SPLIT + split, before = CHOICE == SUMMED ? first_rows[step / STEPS_EACH] : 0u;
  const device uint* const codes = weight + (CHOICE == SUMMED ? step % STEPS_EACH * 32 : split * 32 + own * (SPLIT * 32));
  return codes + size_t(before + row_of(tile, is_high ? 4 + g / 2 : g / 2)) * (STEPS_EACH * 32) + (is_high ? lane % 8 ^ 4 : lane % 8) * 4;
};
const auto fetch = [&](uint at, uint tile, uint own) {
  low[at] = load_once(codes_at(tile, own, false));
  high[at] = load_once(codes_at(tile, own, true));
};
const auto fetch_first = [&](uint at) {
  const uint tile = first_tile + team + at / LENGTH * TEAMS, own = at % LENGTH;
  if (tile < end_tile && own * SPLIT + split < STEPS) fetch(at, tile, own);
};
#pragma unroll
for (uint d = 0; d < uint(EARLY); d++) fetch_first(d);
// By the last threads, since the first simdgroup has the most to do.
for (uint i = MEMBERS * 32 - 1 - thread_index_in_threadgroup; i < SPLIT * OWN * FIELDS; i += MEMBERS * 32) {
  copied[COPIED + i * BLOCK + BLOCK - 1] = {{0, 0, 0, 0}};
}
if (!IS_EARLY && !GUESSES) threadgroup_barrier(mem_flags::mem_threadgroup);  // else behind the choice, or behind x
#if HIPRT_TARGET_NVIDIA
if (IS_APART) bring_first();
#endif
#if ROUTED
// One simdgroup chooses, and where that is not early the others prepare x meanwhile. Another one has gone through the same
// instructions with zeros before the inputs are there: those that a processor does not have in its nearest cache take 1.4 cycles
// more each. Words that are left early have been asked for at the top.
const uint first_place = HAS_LOGITS ? token * CHOSEN : 0u;
threadgroup uint kept_words[ROWS];
#if !HAS_LOGITS
constexpr uint POLLS = 4;  // of words that are left early; behind them all of the kernel before is waited for
uint taken_before = 0;
#endif
#pragma unroll 1
for (uint turn = HIPRT_TARGET_NVIDIA ? 0 : 1; turn < 2; turn++) {
  const bool is_real = turn == 1;
  if (is_real && !IS_EARLY) wait_for_inputs();
  if (member != (is_real ? 0 : MEMBERS - 1)) continue;
#if HAS_LOGITS
  if (is_real) choice.take_logits(logits + size_t(token) * ROWS, lane);
#else
  if (is_real && !IS_ASKED) choice.ask(words, lane);
  for (uint polls = 1; is_real && !choice.takes(lane) && (!IS_EARLY || polls <= POLLS); polls++) {
    if (IS_EARLY && polls == POLLS) wait_for_inputs();
    choice.ask(words, lane);
  }
  if (is_real && lane == 0) taken_before = atomic_fetch_add_explicit((device atomic_uint*)arrivals, 1u, memory_order_relaxed);
#endif
  if (is_real && group == 0) choice.keep(kept_words, lane);
  choice.choose(lane);
  if (is_real && lane < uint(CHOSEN)) {
    first_rows[lane] = choice.expert * (PARTS * columns);
    factors[lane] = 1.0f;
    if (group == 0) places[first_place + lane] = int(choice.expert);
  }
}
const auto fetch_chosen = [&] {
  threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
  for (uint d = 0; d < uint(DEPTH); d++) fetch_first(d);
#if HIPRT_TARGET_NVIDIA
  if (member == 0) bring_first();
#endif
};
if (IS_EARLY) {
  fetch_chosen();
  begin_next();
  wait_for_inputs();
}
#else
if (!IS_CHOSEN || GUESSES) wait_for_inputs();
#endif
#if LEAVES_LOGITS
begin_next();
#endif

if (IS_CHOSEN) fetch_parts(values, own_x, 0);
if (GUESSES) {
  uint is_wrong = 0;
  for (uint e = lane; e < uint(CHOSEN); e += 32) {
    const uint matrix = matrix_at(e), row = first_row_of(matrix);
    const uint share = load_now((const device ushort*)shares + token * CHOSEN + e);  // not behind the index
    factors[e] = matrix < matrices ? low_of<T>(share) : 0.0f;
    if (row != first_rows[e]) first_rows[e] = row, is_wrong = 1;
  }
  is_wrong = simd_max(is_wrong);
  if (thread_index_in_threadgroup == 0) was_wrong[0] = is_wrong;
  simdgroup_barrier(mem_flags::mem_threadgroup);
  if (is_wrong != 0) {
#if HIPRT_TARGET_NVIDIA
    if (member == 0) {
      if (first_tile < end_tile) wait_for_stage(arrived, 0);
      if (!ONE_ROUND && first_tile + ROUND < end_tile) wait_for_stage(arrived + 8, 0);
      bring_first();
    }
#endif
#pragma unroll
    for (uint d = 0; d < uint(EARLY); d++) fetch_first(d);
  }
}

// Bring this simdgroup's parts of x to where its team's lanes find them.
threadgroup piece* const held = copied + COPIED;
threadgroup pack<float, 2>* const own_sums = sums + split * (OWN * 4);
float square[RUNS];  // of the lane's numbers, by step
const auto leave_squares = [&](uint base) {
#pragma unroll
  for (uint r = 0; NORMED && r < RUNS; r++) {
    const uint own = (base + r) * TEAMS + bringer, step = own * SPLIT + split;
    const float all = simd_sum(square[r]);
    if (lane == 0 && own < OWN && step < STEPS) squares[step] = all;
  }
};
#pragma unroll 1
for (uint base = 0; base < SHARE; base += RUNS) {
  if (CHOICE == ONE || IS_ROUTED || base > 0) fetch_parts(values, own_x, base);
  if (NORMED && base > 0) fetch_parts(weights, norm, base);
#if LEAVES_LOGITS
  if (base == 0) logits.fetch(own_x, residual, thread_index_in_threadgroup);
#endif
  if (base == 0 && !IS_ROUTED) {
#pragma unroll
    for (uint d = EARLY; d < uint(DEPTH); d++) fetch_first(d);
  }
#pragma unroll
  for (uint r = 0; r < RUNS; r++) {
    const uint own = (base + r) * TEAMS + bringer, step = own * SPLIT + split;
    square[r] = 0.0f;
    if (IS_ROUTED && own >= OWN) continue;
    const float factor = CHOICE == SUMMED && own < OWN && step < STEPS ? factors[step / STEPS_EACH] : 1.0f;
    float v[8], sum = 0.0f;
    for (int i = 0; i < 8; i++) {
      const uint both = values[r].values[i / 2], weigh = NORMED ? weights[r].values[i / 2] : 0u;
      v[i] = i % 2 ? high_of<T>(both) : low_of<T>(both);
      if (CHOICE == SUMMED) v[i] *= factor;
      if (NORMED) {
        square[r] = mad(v[i], v[i], square[r]);
        v[i] *= i % 2 ? high_of<T>(weigh) : low_of<T>(weigh);
      }
      sum += v[i];
    }
    const float first = fmax(fmax(abs(v[0]), abs(v[1])), fmax(abs(v[2]), abs(v[3])));
    float largest = fmax(first, fmax(fmax(abs(v[4]), abs(v[5])), fmax(abs(v[6]), abs(v[7]))));
    for (uint other = 1; other < SLOT / 8; other *= 2) {
      largest = fmax(largest, simd_shuffle_xor(largest, other));
      sum += simd_shuffle_xor(sum, other);
    }
    const uint exponent = unit_exponent(largest);
    const byte_planes planes = planes_of<BITS>(v, units_in_one(exponent));
    if (lane < PACKS && own < OWN && own * SPLIT + split < STEPS) {
      if (lane % (SLOT / 8) == 0) own_sums[own * 4 + lane / (SLOT / 8)] = {{sum, unit_of<BITS>(exponent)}};
      threadgroup uint* const to = (threadgroup uint*)held + word_at + own * (HELD * 4);
      for (uint p = 0; p < 2; p++) {
        const pack<uint, 2> words = p ? planes.lower : planes.upper;
        to[p * 4] = words.values[0];
        to[p * 4 + FIELDS] = words.values[1];
      }
    }
  }
  if (SHARE > RUNS) leave_squares(base);
}
#if ROUTED
if (!IS_EARLY) {
  fetch_chosen();
} else {
  if (SHARE <= RUNS) leave_squares(0);
  threadgroup_barrier(mem_flags::mem_threadgroup);
}
if (member == 0 && group == 0) {
  float squared = 0.0f;
  for (uint s = 0; IS_EARLY && s < STEPS; s++) squared += squares[s];
  const float factor = IS_EARLY ? rsqrt(squared / float(WIDTH) + eps) : 1.0f;
  const float share = choice.share(kept_words, lane, is_normalised != 0, factor);
  if (lane < uint(CHOSEN)) portions[first_place + lane] = T(share);
}
#endif
#if LEAVES_LOGITS
logits.add(logit_sums, folded_full, thread_index_in_threadgroup);
threadgroup_barrier(mem_flags::mem_threadgroup);
if (member == MEMBERS - 1) logits.leave(logit_sums, arrivals + FIRST_LOGIT, ROUTED_ROWS, lane);
#else
if ((TEAMS > 1 || GUESSES) && !IS_ROUTED) {
  threadgroup_barrier(mem_flags::mem_threadgroup);
} else {
  simdgroup_barrier(mem_flags::mem_threadgroup);
}
#endif
const bool is_second_time = GUESSES && was_wrong[0] != 0;

if (!IS_EARLY && SHARE <= RUNS) leave_squares(0);  // while codes are on their way

const threadgroup piece* const column = held + column_at;
const size_t before_out = size_t(token) * (all_tiles * OUTPUTS);
#if LEAVES_PLACE
threadgroup int top_keys[MEMBERS];
threadgroup uint top_places[MEMBERS];
Largest largest{LOWEST_KEY, 0xffffffffu};
#endif
uint round = 0;
for (uint base = first_tile; base < end_tile; base += ROUND, round++) {
  const uint stop = min(base + ROUND, end_tile), turn = round % 2;  // sums lie in turn, so that one barrier is enough
  constexpr bool IS_AHEAD = ADDED && ROUND * OUTPUTS <= MEMBERS * 32;
  uint addend = 0;
  if (IS_AHEAD && thread_index_in_threadgroup < (stop - base) * OUTPUTS) {
    addend = load_now((const device ushort*)residual + before_out + base * OUTPUTS + thread_index_in_threadgroup);
  }
#if HIPRT_TARGET_NVIDIA
  const threadgroup T* const scale_from = (const threadgroup T*)copied + turn * SCALE_BYTES + scale_in_round;
  wait_for_stage(arrived + turn * 8, (round / 2 + (is_second_time ? 1 : 0)) % 2);
#endif
#pragma unroll 1
  for (uint start = base + team; start < stop; start += TURNS * TEAMS) {
#pragma unroll
    for (uint u = 0; u < TURNS; u++) {
      const uint tile = start + u * TEAMS, after = tile + TURNS * TEAMS;
      if (tile < stop) {
        float total = 0.0f;
#pragma unroll 1
        for (uint first = 0; first < OWN; first += LENGTH) {
          // What is asked for meanwhile: the next steps of this tile, or the first of the team's next one.
          const bool is_last = first + LENGTH >= OWN, is_any = !is_last || (!ONE_TURN && after < end_tile);
          const uint next = is_last && !ONE_TURN ? min(after, end_tile - 1) : tile, next_own = is_last ? 0u : first + LENGTH;
          const device uint* const next_low = CHOICE == SUMMED ? weight : codes_at(next, next_own, false);
          const device uint* const next_high = CHOICE == SUMMED ? weight : codes_at(next, next_own, true);
          const threadgroup piece* const column_from = column + first * HELD;
#pragma unroll
          for (uint d = 0; d < LENGTH; d++) {
            const uint own = first + d, at = u * LENGTH + d, step = own * SPLIT + split;
            const bool is_there = OWN * SPLIT == STEPS || step < STEPS;
            int c[FIELDS][4] = {};
            if (is_there) {
#pragma unroll
              for (uint h = 0; h < FIELDS; h++) {
                const piece b = column_from[d * HELD + h * BLOCK];
                const uint* const l = low[at].values + (FIELDS == 2 ? 2 * h : 0u);
                const uint* const m = high[at].values + (FIELDS == 2 ? 2 * h : 0u);
                if (FIELDS == 2) {
                  constexpr uint LOW = 0x0f0f0f0fu, HIGH = 0xf0f0f0f0u;
                  mma_codes(c[0], l[0] & LOW, m[0] & LOW, l[1] & LOW, m[1] & LOW, b.values[0], b.values[1]);
                  mma_codes(c[FIELDS - 1], l[0] & HIGH, m[0] & HIGH, l[1] & HIGH, m[1] & HIGH, b.values[2], b.values[3]);
                } else {
                  mma_codes(c[0], l[0], m[0], l[1], m[1], b.values[0], b.values[1]);
                  mma_codes(c[0], l[2], m[2], l[3], m[3], b.values[2], b.values[3]);
                }
              }
            }
            if (is_any && (OWN * SPLIT == STEPS || (next_own + d) * SPLIT + split < STEPS)) {
              if (CHOICE == SUMMED) {
                fetch(at, next, next_own + d);
              } else {
                low[at] = load_once(next_low + d * (SPLIT * 32));
                high[at] = load_once(next_high + d * (SPLIT * 32));
              }
            }
            simdgroup_barrier(mem_flags::mem_none);
            if (is_there && t < SLOTS) {
              int dot = (is_second ? c[0][2] : c[0][0]) * 256 + (is_second ? c[0][3] : c[0][1]);
              if (FIELDS == 2) {
                const int* const d16 = c[FIELDS - 1];
                dot = dot * 16 + (is_second ? d16[2] : d16[0]) * 256 + (is_second ? d16[3] : d16[1]);
              }
              const uint in_row = CHOICE == SUMMED ? step % STEPS_EACH * SCALES : own * (SPLIT * SCALES);
#if HIPRT_TARGET_NVIDIA
              const threadgroup T* const from = scale_from + (tile - base) * (OUTPUTS * ROW_SCALES) + in_row +
                                                (CHOICE == SUMMED ? step / STEPS_EACH * (ROUND * 8 * SCALED) : 0u);
              const float by = float(from[0]), plus = float(from[SCALE_BYTES / 2]);
#else
              const uint before = CHOICE == SUMMED ? first_rows[step / STEPS_EACH] : 0u;
              const size_t from = size_t(before + row_of(tile, local)) * SCALED + scale_at + in_row;
              const float by = float(scales[from]), plus = float(biases[from]);
#endif
              const pack<float, 2> both = own_sums[own * 4 + t];
              total = mad(by, float(dot) * both.values[1], total);
              total = mad(plus, both.values[0], total);
            }
          }
        }
        for (uint other = 1; other < HALF; other *= 2) total += simd_shuffle_xor(total, other);
        total += simd_shuffle_xor(total, 4 | HALF);
        if (t == 0) partial[(turn * ROUND + tile - base) * (SPLIT * 8) + partial_at] = total;
      }
    }
    if (ONE_TURN) break;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
#if HIPRT_TARGET_NVIDIA
  if (!ONE_ROUND && (IS_APART || member == 0)) bring(round + 2);
#endif
  const auto leave_result = [&](uint i) {
    const uint output = i % OUTPUTS;
    const threadgroup float* const from = partial + (turn * ROUND + i / OUTPUTS) * (SPLIT * 8) + output;
    float value = 0.0f, other = 0.0f, squared = 0.0f;
#pragma unroll
    for (uint s = 0; s < SPLIT && s < STEPS; s++) {
      value += from[s * 8];
      if (GATED) other += from[s * 8 + 4];
    }
    for (uint s = 0; NORMED && s < STEPS; s++) squared += squares[s];
    const float factor = NORMED ? rsqrt(squared / float(WIDTH) + eps) : 1.0f;
    value *= factor;
    if (GATED) value = value / (1.0f + exp(-value)) * (other * factor);
    if (CHOICE == GATHERED) value *= factors[(base + i / OUTPUTS) / TILES_EACH];
    const size_t to = before_out + base * OUTPUTS + i;
    const S result = S(ADDED ? value + (IS_AHEAD ? low_of<T>(addend) : float(residual[to])) : value);
    out[to] = result;
#if LEAVES_PLACE
    const int key = order_key(float(result));  // a thread's places ascend, so that the first of equal ones stays
    if (key > largest.key) largest = Largest{key, uint(to)};
#endif
  };
  const uint outputs = (stop - base) * OUTPUTS;
  if (ONE_ROUND) {  // few instructions are worth more than few branches where they run once
#pragma unroll 1
    for (uint i = thread_index_in_threadgroup; i < outputs; i += MEMBERS * 32) leave_result(i);
    break;
  }
  for (uint i = thread_index_in_threadgroup; i < outputs; i += MEMBERS * 32) leave_result(i);
}
#if ROUTED && !HAS_LOGITS
// The last threadgroup that has taken the words leaves zeros.
if (member == 0 && simd_broadcast(taken_before, 0) == groups - 1) {
  for (uint i = lane; i < LOGIT_COPIES * ROWS; i += 32) arrivals[FIRST_LOGIT + i] = 0;
  if (lane == 0) arrivals[0] = 0;
}
#endif

#if LEAVES_PLACE
largest = largest_of_threadgroup(largest, top_keys, top_places, lane, member, MEMBERS);
device atomic_ulong* const words = (device atomic_ulong*)arrivals;
if (group != groups - 1) {
  if (thread_index_in_threadgroup == 0) leave_word(words + group, largest);
} else {
  for (uint i = thread_index_in_threadgroup; i < group; i += MEMBERS * 32) largest = larger(largest, take_word(words + i));
  threadgroup_barrier(mem_flags::mem_threadgroup);
  largest = largest_of_threadgroup(largest, top_keys, top_places, lane, member, MEMBERS);
  if (thread_index_in_threadgroup == 0) place[0] = int(largest.place);
}
#endif
