// Several vectors times the transposed quantised matrix by integer matrix instructions, each with the bits that
// integer_rings.hip gives it alone: sums of integers are exact, and what is rounded is rounded in that kernel's order. These
// are the sums of a row by the SPLIT simdgroups that share it, and the sum of squares by steps.
//
// x is brought to 16 bits as there, of which a plane has the upper and one the lower bytes. A matrix instruction multiplies
// codes of one scale, of two tiles of 8 rows, with 8 columns: up to 4 vectors with both planes, or one plane of more, which
// are WIDE. A simdgroup has DEPTH steps of two tiles on their way to threadgroup memory. EARLY of them are asked for before x
// is; x waits for them, because memory answers in turn. HELPERS are simdgroups without tiles: they bring x to 16 bits, which
// is most of the work where a threadgroup has few rows.
//
// A cluster is SHARERS times PARTNERS threadgroups. SHARERS have their rows in common and divide the SPLIT among themselves:
// each brings only the x of its own steps, and gives the others its sums of their vectors. PARTNERS have rows of their own
// and the same steps, and each brings a part of the vectors to 16 bits for all of them.
//
// A simdgroup brings x by registers, a few steps at a time. With COPIES all of x comes by bulk copies at once, and is brought to
// 16 bits where it lies, which is faster for most matrices of many codes.
//
// With ONE_ROUND no threadgroup has more tiles than are put together at once, and what further rounds need is left out.
//
// With LEAVES_PLACE, which no sharers have, the place of each vector's largest result is found too. Simdgroups, which are
// not fewer than vectors, have results of one vector each. A threadgroup leaves a word for each vector, and the last
// threadgroup waits for the words of those before it (reduction/largest_word.h).
constexpr uint CHUNK = 512 / BITS, STEP = 2 * CHUNK;  // codes of 64 bytes of a row, and of a step
constexpr uint SLOT = uint(GROUP) < CHUNK ? GROUP : CHUNK, SLOTS = STEP / SLOT;
constexpr uint SCALES = uint(GROUP) < STEP ? STEP / GROUP : 1;  // of a step
constexpr uint STEPS = WIDTH / STEP, OWN = (STEPS + SPLIT - 1) / SPLIT, SCALED = STEPS * SCALES;
constexpr uint HERE = SPLIT / SHARERS, STEPS_HERE = SHARERS > 1 ? OWN * HERE : STEPS;  // of this threadgroup
constexpr uint MEMBERS = TEAMS * HERE + HELPERS, THREADS = MEMBERS * 32;
constexpr uint PARTS = GATED ? 2 : 1, OUTPUTS = 8 / PARTS;  // of a tile; gated: 4 rows of each half
constexpr uint ROUND = 2 * TEAMS * PER;                     // tiles whose sums are put together at once
constexpr bool ONE_TURN = ONE_ROUND && PER == 1;            // nothing comes behind a team's first tiles
constexpr bool WIDE = VECTORS > 4;
constexpr uint PLANES = WIDE ? 2 : 1, EACH_LANE = WIDE ? 2 : 1;  // planes of an instruction, and vectors of a lane's result
constexpr uint PRODUCTS = STEP / 32;                             // matrix instructions of a step and plane
constexpr uint HELD = STEP / 8, PLANE = HELD / 2;                // pieces of x of a step, and of a plane of it
constexpr uint VECTOR = STEPS_HERE * HELD + 4;                   // apart in the banks
constexpr uint LINE = WIDE ? 8 : VECTORS;                        // sums of a slot
constexpr uint OWNED = (VECTORS + SHARERS - 1) / SHARERS;        // vectors whose results a sharer has: each SHARERSth
constexpr uint TILE_SUMS = SPLIT * OWNED * 8 + 4;                // of simdgroups that share rows, vectors and rows; apart in the banks
// Sharers bring the scales of their own steps only: of each row OWN runs of RUN pieces, which may begin before the first of
// the scales, since pieces are aligned. Behind rows of a multiple of four pieces there is another, so that lanes find those
// of eight rows in different banks; what bulk copies bring lies as in memory.
constexpr bool IS_PART = SHARERS > 1, IS_APART = IS_PART || SCALED % 32 == 0;
constexpr uint RUN_BYTES = HERE * SCALES * 2, RUN = (RUN_BYTES + RUN_BYTES % 16) / 16;
constexpr uint OF_ROW = IS_PART ? OWN * RUN : SCALED / 8, ROW_PIECES = OF_ROW + (OF_ROW % 4 == 0 ? 1 : 0);
constexpr uint ROW_SCALES = IS_APART ? ROW_PIECES * 8 : SCALED, STEP_SCALES = IS_PART ? RUN * 8 : SPLIT * SCALES;  // apart, as they lie
constexpr uint SCALE_PIECES = (ROUND * 8 * ROW_SCALES * 2 + 15) / 16;  // of a round, and as many of biases
constexpr uint STAGE = 16 * 8;                                     // pieces of a step of two tiles
// x comes by tasks, each a step of a bundle of vectors. A simdgroup has up to TRIPS of them, ASKED of which are on their way.
constexpr uint BROUGHT = (VECTORS + PARTNERS - 1) / PARTNERS;  // vectors of this threadgroup, but fewer of the last one
constexpr auto work_of = [](uint bundle) {
  const uint trips = (STEPS_HERE * ((BROUGHT + bundle - 1) / bundle) + MEMBERS - 1) / MEMBERS;
  const bool has_room = trips == 1 || MEMBERS <= 16;  // in registers, for four vectors of several tasks
  return trips * (2 * bundle + (bundle < 4 || has_room ? 1 : 4));
};
constexpr uint FEW = BROUGHT > 1 && work_of(2) <= work_of(1) ? 2 : 1;
constexpr uint BUNDLE = BROUGHT > 2 && work_of(4) <= work_of(FEW) ? 4 : FEW, BUNDLES = (BROUGHT + BUNDLE - 1) / BUNDLE;
constexpr uint TASKS = STEPS_HERE * BUNDLES;
constexpr uint TRIPS = (TASKS + MEMBERS - 1) / MEMBERS, MOST_ASKED = (MEMBERS > 16 ? 24 : 40) / (BUNDLE * 4 + (NORMED ? 4 : 0));
constexpr uint ASKED = TRIPS < MOST_ASKED ? TRIPS : MOST_ASKED;
typedef pack<uint, 4> piece;
typedef pack<float, 2> unit;
// A row of a stage is a whole line of threadgroup memory: with rows that lie on two lines each a step takes 1 to 5 % longer.
alignas(128) extern __shared__ piece held[];
threadgroup piece* const stages = held + (VECTORS * VECTOR + 7) / 8 * 8;
threadgroup piece* const copied = stages + TEAMS * HERE * DEPTH * STAGE;
#if HIPRT_TARGET_NVIDIA
constexpr uint COPIED = 4 * SCALE_PIECES;
#else
constexpr uint COPIED = 0;
#endif
threadgroup unit* const sums = (threadgroup unit*)(copied + COPIED);  // of x by scale, and what its numbers count
threadgroup float* const partial = (threadgroup float*)(sums + STEPS_HERE * SLOTS * LINE);
threadgroup float* const squares = partial + 2 * ROUND * TILE_SUMS;  // of each vector, by steps
constexpr bool HAS_FACTORS = NORMED && SHARERS == 1;
threadgroup float factors[HAS_FACTORS ? VECTORS : 1];
const uint lane = thread_index_in_simdgroup, g = lane / 4, t = lane % 4;
constexpr bool IS_BOTH = SHARERS > 1 && PARTNERS > 1;
constexpr uint IN_CLUSTER = SHARERS * PARTNERS;
const uint in_cluster = IN_CLUSTER > 1 ? place_in_cluster() : 0u;
const uint sharer = IS_BOTH ? in_cluster % SHARERS : SHARERS > 1 ? in_cluster : 0u, first_split = sharer * HERE;
const uint partner = IS_BOTH ? in_cluster / SHARERS : PARTNERS > 1 ? in_cluster : 0u, first_brought = partner * BROUGHT;
const uint end_brought = min(first_brought + BROUGHT, uint(VECTORS));
const uint member = simdgroup_index_in_threadgroup, within = member % HERE, split = first_split + within, team = member / HERE;
const uint groups = threadgroups_per_grid.x / SHARERS, group = threadgroup_position_in_grid.x / SHARERS;
const uint all_tiles = columns / OUTPUTS, each = all_tiles / groups, more = all_tiles % groups;
const uint first_tile = group * each + min(group, more), end_tile = first_tile + each + (group < more ? 1u : 0u);
const auto row_of = [&](uint tile, uint local) {
  return GATED ? tile * 4 + local % 4 + (local >= 4 ? columns : 0u) : tile * 8 + local;
};
begin_next();

// Stages: of scales of two rounds, or of the only one, of x that partners give, of as many sums that sharers give, and of x by
// bundles.
constexpr uint IN_TURN = ONE_ROUND ? 1 : 2, X_STAGES = PARTNERS > 1 ? 1 : 0, SUM_STAGES = SHARERS > 1 ? IN_TURN : 0;
threadgroup ulong full[IN_TURN + X_STAGES + SUM_STAGES + (COPIES ? BUNDLES : 0)];
#if HIPRT_TARGET_NVIDIA
const uint arrived = in_shared(full);
#else
const uint arrived = 0;
#endif
const uint x_given = arrived + IN_TURN * 8, sums_given = x_given + X_STAGES * 8, x_arrived = sums_given + SUM_STAGES * 8;
const uint squares_given = SHARERS > 1 ? sums_given : x_given;  // what results are multiplied by is found behind either
const auto give = [&](auto* at, auto value) {  // to the partners
#pragma unroll
  for (uint other = 1; other < uint(PARTNERS); other++) {
    store_in_cluster(at, value, x_given, sharer + (partner ^ other) * SHARERS);
  }
};
// The steps of each vector that this threadgroup brings, and the bytes of squares that others give.
const uint present =
    SHARERS > 1 ? STEPS / SPLIT * HERE + min(HERE, max(STEPS % SPLIT, first_split) - first_split) : STEPS;
const uint squares_bytes = NORMED ? (VECTORS * STEPS - (end_brought - first_brought) * present) * 4 : 0;
#if HIPRT_TARGET_NVIDIA
const uint buffers = in_shared(copied);
const auto bring = [&](uint round) {  // by all threads where rows lie apart, else by one
  const uint begin = first_tile + round * ROUND, end = min(begin + ROUND, end_tile), bar = arrived + round % 2 * 8;
  if (begin >= end) return;
  if (IS_APART) {
#pragma unroll 1
    for (uint i = thread_index_in_threadgroup; i < ROUND * 8 * OF_ROW; i += THREADS) {
      const uint of = i / OF_ROW, at = i % OF_ROW, part = of / (ROUND * OUTPUTS), local = of % (ROUND * OUTPUTS);
      const uint piece_at = IS_PART ? ((at / RUN * SPLIT + first_split) * SCALES) / 8 + at % RUN : at;
      const size_t from = size_t(row_of(begin, part * 4) + local) * SCALED + piece_at * 8;
      if (local < (end - begin) * OUTPUTS && piece_at < SCALED / 8) {
        threadgroup piece* const to = copied + round % 2 * 2 * SCALE_PIECES + of * ROW_PIECES + at;
        copy_later<16>(to, (const device ushort*)scales + from);
        copy_later<16>(to + SCALE_PIECES, (const device ushort*)biases + from);
      }
    }
    arrive_with_copies(bar);
    return;
  }
  const uint bytes = (end - begin) * (OUTPUTS * SCALED * 2);
  expect_bytes(bar, 2 * PARTS * bytes);
  for (uint part = 0; part < PARTS; part++) {
    const uint to = buffers + (round % 2 * 2 * SCALE_PIECES + part * (SCALE_PIECES / PARTS)) * 16;
    const size_t from = size_t(row_of(begin, part * 4)) * SCALED;
    copy_bulk_once(to, scales + from, bytes, bar);
    copy_bulk_once(to + SCALE_PIECES * 16, biases + from, bytes, bar);
  }
};
if (thread_index_in_threadgroup == 0) {
  for (uint i = 0; i < IN_TURN; i++) begin_stage(arrived + i * 8, IS_APART ? THREADS : 1);
  for (uint at = x_given; at < arrived + sizeof(full); at += 8) begin_stage(at, 1);
  stages_begun();
  if (PARTNERS > 1) {
    const uint of_vector = present * (HELD * 16 + SLOTS * 8);
    expect_bytes(x_given, (VECTORS - (end_brought - first_brought)) * of_vector + (SHARERS > 1 ? 0 : squares_bytes));
  }
  if (!IS_APART) bring(0);
}
#endif
if (IN_CLUSTER > 1) arrive_in_cluster();

// A lane brings a piece each of two rows of a tile, one of either half. The pieces of a row lie where lanes find those of eight
// rows in different banks. Each simdgroup has OWN steps of a row in its stages, of which the last is empty where STEPS end.
constexpr uint TILE_WORDS = OUTPUTS * STEPS * 32;
const bool has_tiles = team < uint(TEAMS), has_last = OWN * SPLIT == STEPS || (OWN - 1) * SPLIT + split < STEPS;
threadgroup piece* const ring = stages + member * (DEPTH * STAGE);  // of a simdgroup that has tiles
const uint row = lane / 8, own_piece = row * 8 + (lane % 8 ^ row);
uint next_tile = first_tile + team * 2, next_own = 0;
const device uint* upper = weight + size_t(row_of(next_tile, row)) * (STEPS * 32) + split * 32 + lane % 8 * 4;
const device uint* lower = upper + (GATED ? columns : 4u) * size_t(STEPS * 32);
const auto fetch = [&](uint stage) {  // without branches, between which a compiler could move nothing
  const bool is_last = next_own + 1 == OWN, is_there = (has_last || !is_last) && (!ONE_TURN || next_own < OWN);
  const copy_place to_upper = place_of_copy(ring + stage + own_piece), to_lower = place_of_copy(ring + stage + 32 + (own_piece ^ 4));
#pragma unroll
  for (uint i = 0; i < 2; i++) {
    copy_later_if(to_upper + i * (64 * 16), upper + i * TILE_WORDS, is_there && next_tile + i < end_tile);
    copy_later_if(to_lower + i * (64 * 16), lower + i * TILE_WORDS, is_there && next_tile + i < end_tile);
  }
  end_copies();
  const bool is_next = is_last && !ONE_TURN;  // the team's next tiles follow
  const uint on = is_next ? 2 * TEAMS * TILE_WORDS - (OWN - 1) * (SPLIT * 32) : SPLIT * 32;
  upper += on;
  lower += on;
  next_tile += is_next ? 2 * TEAMS : 0u;
  next_own = is_next ? 0u : next_own + 1;
};
#pragma unroll 1
for (uint d = 0; has_tiles && d < uint(EARLY); d++) fetch(d * STAGE);
// Where no codes are asked for before x, scales come behind it too, and the barrier before them.
constexpr bool IS_X_FIRST = EARLY == 0 && !COPIES;
const auto bring_first_scales = [&] {
  threadgroup_barrier(mem_flags::mem_threadgroup);
#if HIPRT_TARGET_NVIDIA
  if (IS_APART) bring(0);
#endif
};
if (!IS_X_FIRST) bring_first_scales();

// A step behind the last, or a vector behind the last, is read where another lies, and left out when it is written.
constexpr bool IS_FULL = VECTORS % (BUNDLE * PARTNERS) == 0;  // each bundle has all its vectors
piece next[ASKED][BUNDLE], next_by[ASKED] = {};
const auto step_of = [&](uint task) {
  const uint here = task % STEPS_HERE;
  return here / HERE * SPLIT + first_split + here % HERE;
};
const auto place_of = [&](uint task) {
  const uint step = step_of(task);
  return (OWN * SPLIT == STEPS ? step : min(step, STEPS - 1)) * STEP + lane % HELD * 8;
};
const auto ask_for_norm = [&](uint k, uint task) {
  if (NORMED && task < TASKS) next_by[k] = load_now((const device piece*)(norm + place_of(task)));
};
const auto ask_for_x = [&](uint k, uint task) {
#pragma unroll
  for (uint i = 0; !COPIES && task < TASKS && i < BUNDLE; i++) {
    const uint v = first_brought + task / STEPS_HERE * BUNDLE + i;
    next[k][i] = load_now((const device piece*)(x + size_t(IS_FULL ? v : min(v, uint(VECTORS - 1))) * WIDTH + place_of(task)));
  }
};
#pragma unroll
for (uint k = 0; k < ASKED; k++) ask_for_norm(k, member + k * MEMBERS);
wait_for_inputs();
#if HIPRT_TARGET_NVIDIA
if (COPIES && member == MEMBERS - 1) {  // each bundle is waited for by itself; of sharers' vectors HERE steps lie together
  constexpr uint STRETCH = SHARERS > 1 ? HERE : STEPS, STRETCHES = STEPS_HERE / STRETCH;
  if (lane < BUNDLES) {
    expect_bytes(x_arrived + lane * 8, min(BUNDLE, end_brought - first_brought - lane * BUNDLE) * present * (HELD * 16));
  }
  simdgroup_barrier(mem_flags::mem_none);
  for (uint i = lane; i < (end_brought - first_brought) * STRETCHES; i += 32) {
    const uint v = first_brought + i / STRETCHES, own = i % STRETCHES, first = own * SPLIT + first_split;
    if (first < STEPS) {
      copy_bulk(in_shared(held + v * VECTOR + own * (STRETCH * HELD)), x + size_t(v) * WIDTH + first * STEP,
                min(STRETCH, STEPS - first) * (HELD * 16), x_arrived + i / STRETCHES / BUNDLE * 8);
    }
  }
}
#else
if (COPIES) {
  for (uint i = thread_index_in_threadgroup; i < VECTORS * STEPS * HELD; i += THREADS) {
    held[i / (STEPS * HELD) * VECTOR + i % (STEPS * HELD)] = ((const device piece*)x)[i];
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
}
#endif
#pragma unroll
for (uint k = 0; k < ASKED; k++) ask_for_x(k, member + k * MEMBERS);
if (IS_X_FIRST) bring_first_scales();
#pragma unroll 1
for (uint d = EARLY; has_tiles && d < uint(DEPTH); d++) fetch(d * STAGE);
#if HIPRT_TARGET_NVIDIA
if (!ONE_ROUND && (IS_APART || thread_index_in_threadgroup == 0)) bring(1);
#endif

// Bring x to 16 bits. A simdgroup does for some vectors what members of the other kernel do for one.
// Of codes of 4 bits a lane has both words of its place in a product, else one word each of two places.
constexpr bool IS_WHOLE = BITS == 4;
const uint word = lane * (BITS / 4), product = word / (IS_WHOLE ? 4 : 8), beside = word / 4 % 2;
const uint places[2] = {product / 2 * 4 + word % 4, PLANE + (product / 2 ^ 1) * 4 + word % 4};
if (IN_CLUSTER > 1) wait_for_cluster();  // its stages have begun
const auto bring_task = [&](uint task) {
  const uint here = task % STEPS_HERE, first_vector = first_brought + task / STEPS_HERE * BUNDLE, step = step_of(task);
  if (step < STEPS) {
    threadgroup piece* const own_x = held + first_vector * VECTOR + here * HELD;
    threadgroup unit* const own_sums = sums + (here * SLOTS + lane / (SLOT / 8)) * LINE + first_vector;
    const auto is_there = [&](uint i) {
      return lane < HELD && (IS_FULL || first_vector + i < end_brought);
    };
    if (COPIES) {
#if HIPRT_TARGET_NVIDIA
      wait_for_stage(x_arrived + task / STEPS_HERE * 8, 0);
#endif
#pragma unroll
      for (uint i = 0; i < BUNDLE; i++) next[0][i] = own_x[(is_there(i) ? i : 0) * VECTOR + lane % HELD];
      simdgroup_barrier(mem_flags::mem_threadgroup);  // all of it is read before it is written
    }
    float square[BUNDLE] = {};
    float numbers[BUNDLE][8], largest[BUNDLE] = {}, sum[BUNDLE] = {};
#pragma unroll
    for (uint i = 0; i < BUNDLE; i++) {
      for (int j = 0; j < 8; j++) {
        const uint both = next[0][i].values[j / 2], weigh = next_by[0].values[j / 2];
        float number = j % 2 ? high_of<T>(both) : low_of<T>(both);
        if (NORMED) {
          if (lane < HELD) square[i] = mad(number, number, square[i]);
          number *= j % 2 ? high_of<T>(weigh) : low_of<T>(weigh);
        }
        largest[i] = fmax(largest[i], abs(number));
        sum[i] += number;
        numbers[i][j] = number;
      }
    }
    constexpr uint LANES = SLOT / 8;  // that have numbers of a scale
    const auto add = [](float a, float b) { return a + b; };
    const uint exponent = unit_exponent(joined<1, LANES / 2>(largest, lane, [](float a, float b) { return fmax(a, b); }));
    const uint of_lane = joined_vector<1, 2, BUNDLE>(lane);
    const float summed_up = joined<1, LANES / 2>(sum, lane, add);
    const float to_units = units_in_one(exponent);
    if (is_there(of_lane) && lane % LANES < BUNDLE) {
      const unit summed = {{summed_up, unit_of<BITS>(exponent)}};
      own_sums[of_lane] = summed;
      give(own_sums + of_lane, summed);
    }
#pragma unroll
    for (uint i = 0; i < BUNDLE; i++) {
      const float up = BUNDLE == 1 ? to_units : simd_shuffle(to_units, lane / LANES * LANES + joined_lane<BUNDLE>(i));
      const byte_planes planes = planes_of<BITS, !WIDE>(numbers[i], up);
      if (is_there(i)) {
        for (uint p = 0; p < 2; p++) {
          const pack<uint, 2> words = p ? planes.lower : planes.upper;
          threadgroup uint* const to = (threadgroup uint*)(own_x + i * VECTOR + places[p]) + product % 2 * 2;
          if (IS_WHOLE) {
            *(threadgroup pack<uint, 2>*)to = words;
            give((threadgroup pack<uint, 2>*)to, words);
          } else {
            to[beside] = words.values[0];
            to[beside + 4] = words.values[1];
            give(to + beside, words.values[0]);
            give(to + beside + 4, words.values[1]);
          }
        }
      }
    }
    if (NORMED) {
      const float squared = joined<16, 1>(square, lane, add);
      const uint v = first_vector + joined_vector<16, 8, BUNDLE>(lane);
      if (lane % (32 / BUNDLE) == 0 && v < end_brought) {
        threadgroup float* const to = squares + v * STEPS + step;
        *to = squared;
#pragma unroll
        for (uint other = 1; other < IN_CLUSTER; other++) store_in_cluster(to, squared, squares_given, in_cluster ^ other);
      }
    }
  }
};
// One piece of code for all tasks: copies of it would come from memory. What is on its way moves up by a task.
#pragma unroll 1
for (uint task = member; task < TASKS; task += MEMBERS) {
  bring_task(task);
#pragma unroll
  for (uint k = 0; k + 1 < ASKED; k++) {
    next_by[k] = next_by[k + 1];
#pragma unroll
    for (uint i = 0; i < BUNDLE; i++) next[k][i] = next[k + 1][i];
  }
  if (TRIPS > ASKED) ask_for_norm(ASKED - 1, task + ASKED * MEMBERS);
  if (TRIPS > ASKED) ask_for_x(ASKED - 1, task + ASKED * MEMBERS);
}
threadgroup_barrier(mem_flags::mem_threadgroup);
#if HIPRT_TARGET_NVIDIA
if (PARTNERS > 1) wait_for_stage(x_given, 0);
#endif

// The lane's column is vector g, or plane g % 2 of vector g / 2; of a result it has vectors 2t and 2t + 1, or vector t.
const threadgroup piece* const column =
    held + min(WIDE ? g : g / 2, uint(VECTORS - 1)) * VECTOR + (WIDE ? 0u : g % 2 * PLANE) + within * HELD + t;
const uint first_plane = WIDE ? 0u : g % 2;
const threadgroup unit* const sums_from = sums + within * (SLOTS * LINE) + (WIDE ? 2 * t : min(t, uint(VECTORS - 1)));
const uint fragment_row = lane % 16, fragment = fragment_row * 8 + (lane / 16 ^ fragment_row % 8);
// Even vectors come before odd ones, so that lanes write to different banks.
const auto place_of_vector = [](uint v) {
  return SHARERS == 1 ? v % EACH_LANE * ((OWNED + EACH_LANE - 1) / EACH_LANE) + v / EACH_LANE : v / SHARERS;
};
// A simdgroup finds what results are multiplied by, but for sharers: they have all squares behind the first round only.
const auto factor_of = [&](uint v) {
  float squared = 0.0f;
  for (uint s = 0; s < STEPS; s++) squared += squares[v * STEPS + s];
  return rsqrt(squared / float(WIDTH) + eps);
};
if (HAS_FACTORS && member == MEMBERS - 1 && lane < uint(VECTORS)) factors[lane] = factor_of(lane);
#if LEAVES_PLACE
constexpr uint TAKERS = MEMBERS / VECTORS * VECTORS;  // simdgroups that take results, as many of each vector
const uint taken_vector = member % VECTORS, first_taken = member / VECTORS * 32 + lane;
Largest largest{LOWEST_KEY, 0xffffffffu};
#else
constexpr uint TAKERS = MEMBERS;
#endif
uint round = 0, stage = 0;
// Sharers meet before the third round, whose sums lie where those of the first did, and before each one behind it. So all of a
// cluster have as many rounds, of which the last may have no tiles for some.
const uint last_tile = IS_BOTH && more > 0 ? first_tile + each + 1 : end_tile;
for (uint base = first_tile; base < last_tile; base += ROUND, round++) {
  const uint stop = min(base + ROUND, end_tile), turn = round % 2;  // sums lie in turn, so that one barrier is enough
  const uint outputs = (stop - base) * OUTPUTS, owned = (VECTORS - sharer + SHARERS - 1) / SHARERS;
  if (SHARERS > 1 && round >= 2) cluster_barrier();
#if HIPRT_TARGET_NVIDIA
  if (SHARERS > 1 && thread_index_in_threadgroup == 0) {
    expect_bytes(sums_given + turn * 8, (stop - base) * owned * ((SPLIT - HERE) * 32) + (round == 0 ? squares_bytes : 0u));
  }
#endif
  constexpr uint MOST_OUTPUTS = ROUND * OUTPUTS;
  constexpr uint EACH = (MOST_OUTPUTS * OWNED + TAKERS * 32 - 1) / (TAKERS * 32);  // results of a thread
  constexpr bool IS_AHEAD = ADDED && EACH <= 2;
  uint addends[2] = {};
#pragma unroll
  for (uint e = 0; IS_AHEAD && e < EACH; e++) {
    const uint i = thread_index_in_threadgroup + e * THREADS, v = i / MOST_OUTPUTS, output = i % MOST_OUTPUTS;
    if (v < owned && output < outputs) {
      addends[e] = load_now((const device ushort*)residual + size_t(v * SHARERS + sharer) * columns + base * OUTPUTS + output);
    }
  }
#if HIPRT_TARGET_NVIDIA
  const threadgroup ushort* const scale_from = (const threadgroup ushort*)(copied + turn * 2 * SCALE_PIECES) +
                                               (IS_PART ? first_split * SCALES % 8 + within * SCALES : split * SCALES) +
                                               (GATED ? g % 4 + g / 4 * (ROUND * 4) : g) * ROW_SCALES;
  if (!IS_BOTH || base < stop) wait_for_stage(arrived + turn * 8, round / 2 % 2);
#endif
  // A step's scales, as words of two where they are several.
  typedef pack<uint, (SCALES + 1) / 2> line;
  const auto line_at = [](const auto* from) {
    line found;
    if (SCALES == 1) {
      found.values[0] = *from;
    } else {
      found = *(const line*)from;
    }
    return found;
  };
  const auto scale_in = [](const line& of, uint i) { return i % 2 ? high_of<T>(of.values[i / 2]) : low_of<T>(of.values[i / 2]); };
#pragma unroll 1
  for (uint tile = has_tiles ? base + team * 2 : stop; tile < stop; tile += TEAMS * 2) {
    float totals[2][EACH_LANE][SLOTS] = {};  // by tile and vector
    const threadgroup piece* x_of = column;
    const threadgroup unit* sums_of = sums_from;
#if HIPRT_TARGET_NVIDIA
    const threadgroup ushort* scales_of = scale_from + (tile - base) * (OUTPUTS * ROW_SCALES);
#endif
#pragma unroll 1
    for (uint own = 0; own < OWN; own++) {
      wait_for_all_but<DEPTH - 1>();
      simdgroup_barrier(mem_flags::mem_threadgroup);
      // Words of two pieces of 16 rows: of row g of the first and of the second tile, then the same of the second piece.
      uint words[4][4];
#pragma unroll
      for (uint q = 0; q < 4; q++) {
#if HIPRT_TARGET_NVIDIA
        load_fragments<false>(words[q], ring + stage + (fragment ^ 2 * q));
#else
        for (uint i = 0; i < 4; i++) {
          const uint from = i % 2 * 8 + g;
          words[q][i] = ring[stage + from * 8 + ((2 * q + i / 2) ^ from % 8)].values[t];
        }
#endif
      }
      simdgroup_barrier(mem_flags::mem_threadgroup);
      fetch(stage);
      stage = stage == (DEPTH - 1) * STAGE ? 0u : stage + STAGE;
      if (own + 1 == OWN && !has_last) break;  // an empty stage
      line by[2], plus[2];
#pragma unroll
      for (uint i = 0; i < 2; i++) {
#if HIPRT_TARGET_NVIDIA
        const threadgroup ushort* const from = scales_of + i * (OUTPUTS * ROW_SCALES);
        by[i] = line_at(from);
        plus[i] = line_at(from + SCALE_PIECES * 8);
#else
        const size_t from = size_t(row_of(min(tile + i, end_tile - 1), g)) * SCALED + (own * SPLIT + split) * SCALES;
        by[i] = line_at((const device ushort*)scales + from);
        plus[i] = line_at((const device ushort*)biases + from);
#endif
      }
#if HIPRT_TARGET_NVIDIA
      scales_of += STEP_SCALES;
#endif
      piece b[PLANES];
#pragma unroll
      for (uint slot = 0; slot < SLOTS; slot++) {
        int c[PLANES][4] = {};
#pragma unroll
        for (uint m = slot * PRODUCTS / SLOTS; m < (slot + 1) * PRODUCTS / SLOTS; m++) {
#pragma unroll
          for (uint p = 0; p < PLANES; p++) {
            if (m % 2 == 0) b[p] = x_of[p * PLANE + (m / 2 ^ p ^ first_plane) * 4];
            const uint first = b[p].values[m % 2 * 2], second = b[p].values[m % 2 * 2 + 1];
            const auto multiply = [&](uint a0, uint a1, uint a2, uint a3) {
              if (WIDE && p == 1) {
                mma_codes<false>(c[p], a0, a1, a2, a3, first, second);
              } else {
                mma_codes(c[p], a0, a1, a2, a3, first, second);
              }
            };
            if (BITS == 4) {
              constexpr uint HIGH = 0xf0f0f0f0u;
              const uint l = words[m / 2][m % 2 * 2], k = words[m / 2][m % 2 * 2 + 1];
              multiply(l << 4 & HIGH, k << 4 & HIGH, l & HIGH, k & HIGH);
            } else {
              const uint* const w = words[m % 4];
              multiply(w[0], w[1], w[2], w[3]);
            }
          }
        }
        const pack<unit, EACH_LANE> both =
            *(const threadgroup pack<unit, EACH_LANE>*)(sums_of + slot * LINE);
#pragma unroll
        for (uint i = 0; i < 2; i++) {
          const float scale = scale_in(by[i], slot * SCALES / SLOTS), bias = scale_in(plus[i], slot * SCALES / SLOTS);
#pragma unroll
          for (uint e = 0; e < EACH_LANE; e++) {
            const int dot = WIDE ? c[0][2 * i + e] * 256 + c[PLANES - 1][2 * i + e] : c[0][2 * i] * 256 + c[0][2 * i + 1];
            float& total = totals[i][e][slot];
            total = mad(scale, float(dot) * both.values[e].values[1], total);
            total = mad(bias, both.values[e].values[0], total);
          }
        }
      }
      x_of += HERE * HELD;
      sums_of += HERE * SLOTS * LINE;
    }
#pragma unroll
    for (uint i = 0; i < 2; i++) {
#pragma unroll
      for (uint e = 0; e < EACH_LANE; e++) {
        const float* const all = totals[i][e];
        const uint v = EACH_LANE * t + e;
        if (v < uint(VECTORS) && tile + i < stop) {
          const float total = SLOTS == 4 ? (all[0] + all[1]) + (all[SLOTS - 2] + all[SLOTS - 1]) : all[0] + all[1];
          const uint at = (turn * ROUND + tile + i - base) * TILE_SUMS + (split * OWNED + place_of_vector(v)) * 8 + g;
          threadgroup float* const to = partial + at;
          if (v % SHARERS == sharer) {
            *to = total;
          } else {
            store_in_cluster(to, total, sums_given + turn * 8, v % SHARERS + partner * SHARERS);
          }
        }
      }
    }
    if (ONE_TURN) break;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
#if HIPRT_TARGET_NVIDIA
  if (SHARERS > 1) wait_for_stage(sums_given + turn * 8, round / 2 % 2);
  if (!ONE_ROUND && (IS_APART || thread_index_in_threadgroup == 0)) bring(round + 2);
#endif
#pragma unroll(IS_AHEAD ? EACH : 1)
  for (uint e = 0; e < EACH; e++) {
#if LEAVES_PLACE
    const uint v = taken_vector, output = first_taken + e * (TAKERS / VECTORS * 32);
    if (member >= TAKERS || output >= outputs) break;
#else
    const uint i = thread_index_in_threadgroup + e * THREADS, v = i / MOST_OUTPUTS * SHARERS + sharer, output = i % MOST_OUTPUTS;
    if (v >= uint(VECTORS)) break;
    if (output >= outputs) continue;
#endif
    const uint column = base * OUTPUTS + output;
    const size_t to = size_t(v) * columns + column;
    const threadgroup float* const from =
        partial + (turn * ROUND + output / OUTPUTS) * TILE_SUMS + place_of_vector(v) * 8 + output % OUTPUTS;
    float value = 0.0f, other = 0.0f;
#pragma unroll
    for (uint s = 0; s < SPLIT && s < STEPS; s++) {
      value += from[s * (OWNED * 8)];
      if (GATED) other += from[s * (OWNED * 8) + 4];
    }
    const float factor = !NORMED ? 1.0f : HAS_FACTORS ? factors[v] : factor_of(v);
    value *= factor;
    if (GATED) value = value / (1.0f + exp(-value)) * (other * factor);
    const S result = S(ADDED ? value + (IS_AHEAD ? low_of<T>(addends[e]) : float(residual[to])) : value);
    out[to] = result;
#if LEAVES_PLACE
    const int key = order_key(float(result));  // a thread's places ascend, so that the first of equal ones stays
    if (key > largest.key) largest = Largest{key, column};
#endif
  }
  if (ONE_ROUND) break;
}

#if LEAVES_PLACE
const bool is_last_group = group == groups - 1;
device atomic_ulong* const words = (device atomic_ulong*)arrivals;  // those of a vector lie together
if (is_last_group && member < TAKERS) {
  for (uint i = first_taken; i < group; i += TAKERS / VECTORS * 32) {
    largest = larger(largest, take_word(words + taken_vector * groups + i));
  }
}
threadgroup Largest* const by_members = (threadgroup Largest*)held;  // nothing reads x behind the last round's barrier
const int highest = simd_max(largest.key);
const uint first_place = simd_min(largest.key == highest ? largest.place : 0xffffffffu);
if (lane == 0) by_members[member] = Largest{highest, first_place};
threadgroup_barrier(mem_flags::mem_threadgroup);
if (thread_index_in_threadgroup < uint(VECTORS)) {
  const uint v = thread_index_in_threadgroup;
  largest = by_members[v];
  for (uint m = v + VECTORS; m < TAKERS; m += VECTORS) largest = larger(largest, by_members[m]);
  if (is_last_group) {
    place[v] = int(largest.place);
  } else {
    leave_word(words + v * groups + group, largest);
  }
}
#endif
