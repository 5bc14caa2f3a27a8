// softmax(scale * q . keys[0..position]) . values for many rows of one query head, by the matrix instructions of wgmma.h. Two
// teams of four simdgroups take 64 rows each, whose queries, scores, shares and sums are in registers. A third team brings
// KEYS keys and values at a time, and has some of these tiles in threadgroup memory or on their way.
//
// While a team makes shares of a tile's scores, the values of the tile before are multiplied with theirs, and the other team's
// products run: the two issue them in turn. The sums are kept relative to a score that no later one exceeds by a factor of
// more than 2 ** SLACK.
constexpr uint ROWS = 128, TEAMS = 2, TEAM = 128;  // rows and teams of a threadgroup; threads of a team
constexpr uint HALF = KEYS * 128, TILE = WIDTH / 64 * HALF;  // bytes of 64 columns, and of all
constexpr uint KEY_TILES = 3, VALUE_TILES = 4;               // that are held
constexpr uint PIECES = WIDTH / 8, BESIDE = TEAM / PIECES;   // of 16 bytes in a row; rows that a team brings at once
constexpr float SLACK = 8.0f;
typedef pack<uint, 4> piece;
extern __shared__ piece held[];
threadgroup int limits[ROWS];
threadgroup ulong barriers[2 * VALUE_TILES + KEY_TILES];
const uint index = thread_index_in_threadgroup, lane = index % 32, g = lane / 4, t = lane % 4, team = index / TEAM;
const uint own = index / 32 * 16 + g;  // the first row of a lane; the other one is 8 further
// Stages: a tile is there; all have read its keys; all have read its values.
const uint there = in_shared(barriers), keys_read = there + VALUE_TILES * 8, values_read = keys_read + KEY_TILES * 8;
const uint ring = (in_shared(held) + 1023u) / 1024 * 1024;
// Rows that see most come first.
const uint first = (threadgroups_per_grid.x - 1 - threadgroup_position_in_grid.x) * ROWS;
const uint head = threadgroup_position_in_grid.y;
const uint present = min(ROWS, rows - first);
const size_t row_stride = size_t(heads) * WIDTH;
const size_t kept = size_t(head / repeat) * capacity * PIECES;
const device piece* const key_pieces = (const device piece*)keys + kept;
const device piece* const value_pieces = (const device piece*)values + kept;
begin_next();
wait_for_inputs();

if (index < ROWS) {
  const device uint* const places = (const device uint*)position + first;
  limits[index] = index < present ? min(int(load_now(places + index)), int(capacity) - 1) : -1;
}
if (index < 2 * VALUE_TILES + KEY_TILES) begin_stage(there + index * 8, index < VALUE_TILES ? TEAM : TEAMS * TEAM / 32);
stages_begun();
threadgroup_barrier(mem_flags::mem_threadgroup);
const int last = simd_max(max(max(limits[lane], limits[lane + 32]), max(limits[lane + 64], limits[lane + 96])));
const uint tiles = uint(last + int(KEYS)) / KEYS;
const auto keys_at = [&](uint tile) { return ring + tile % KEY_TILES * TILE; };
const auto values_at = [&](uint tile) { return ring + (KEY_TILES + tile % VALUE_TILES) * TILE; };

if (team == TEAMS) {
  leave_registers<40>();
  const uint line = index % TEAM / PIECES, part = index % PIECES;
  const uint place = part / 8 * HALF + line * 128 + (part % 8 ^ line % 8) * 16;
  // What lies behind the last position is not read: the tile has the last one again.
  const auto bring = [&](uint tile, uint to, const device piece* pieces) {
#pragma unroll
    for (uint i = 0; i < KEYS / BESIDE; i++) {
      const uint from = min(tile * KEYS + line + i * BESIDE, uint(last)) * PIECES + part;
      const uint at = to + place + i * (BESIDE * 128);
      asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(at), "l"(pieces + from) : "memory");
    }
  };
#pragma unroll 1
  for (uint tile = 0; tile < tiles; tile++) {
    if (tile >= KEY_TILES) wait_for_stage(keys_read + tile % KEY_TILES * 8, (tile / KEY_TILES + 1) % 2);
    bring(tile, keys_at(tile), key_pieces);
    if (tile >= VALUE_TILES) wait_for_stage(values_read + tile % VALUE_TILES * 8, (tile / VALUE_TILES + 1) % 2);
    bring(tile, values_at(tile), value_pieces);
    end_copies();
    if (tile > 0) {
      wait_for_all_but<1>();
      show_to_matrices();
      arrive_at_stage(there + (tile - 1) % VALUE_TILES * 8);
    }
  }
  wait_for_all_but<0>();
  show_to_matrices();
  if (tiles > 0) arrive_at_stage(there + (tiles - 1) % VALUE_TILES * 8);
} else {
  take_registers<232>();
  const int limit[2] = {limits[own], limits[own + 8]};
  const int least = simd_min(min(limit[0], limit[1]));
  // The factor is positive, so that the largest product gives the largest score.
  const uint flipped = scale < 0.0f ? 0x80008000u : 0u;
  const float factor = fmax(fabs(scale) * 1.44269504f, 1.2e-38f);
  uint queries[WIDTH / 4], shares[KEYS / 4];
  float scores[KEYS / 2] = {}, sums[WIDTH / 2] = {};
  float top[2] = {-INFINITY, -INFINITY}, norm[2] = {0.0f, 0.0f}, fade[2];
  bool fades = false;
#pragma unroll
  for (uint i = 0; i < WIDTH / 4; i++) {
    const size_t row = first + min(own + i % 2 * 8, present - 1);
    const device uint* const from = (const device uint*)(q + row * row_stride + head * WIDTH);
    queries[i] = load_now(from + i / 4 * 8 + i / 2 % 2 * 4 + t) ^ flipped;
  }

  const auto multiply_keys = [&](uint tile) {
    const uint at = keys_at(tile);
    begin_products();
#pragma unroll
    for (uint i = 0; i < WIDTH / 16; i++) {
      const ulong lines = lines_at(at + i / 4 * HALF + i % 4 * 32);
      if (i == 0) set_products(scores, queries, lines, T(0.0f));
      else add_products(scores, queries + i * 4, lines, T(0.0f));
    }
    end_products();
  };
  const auto multiply_values = [&](uint tile) {
    const uint at = values_at(tile);
    begin_products();
#pragma unroll
    for (uint i = 0; i < KEYS / 16; i++) {
      add_turned_products(sums, shares + i * 4, lines_at(at + i * 2048, HALF), T(0.0f));
    }
    end_products();
  };
  // Scores become powers of two, relative to `top`.
  const auto take_powers = [&](int start) {
    if (start + KEYS - 1 > least) {
#pragma unroll
      for (uint i = 0; i < KEYS / 2; i++) {
        if (start + int(i / 4 * 8 + t * 2 + i % 2) > limit[i / 2 % 2]) scores[i] = -INFINITY;
      }
    }
    float higher[2] = {-INFINITY, -INFINITY}, base[2];
#pragma unroll
    for (uint i = 0; i < KEYS / 2; i++) higher[i / 2 % 2] = fmax(higher[i / 2 % 2], scores[i]);
#pragma unroll
    for (uint r = 0; r < 2; r++) {
      higher[r] = fmax(higher[r], simd_shuffle_xor(higher[r], 1));
      higher[r] = factor * fmax(higher[r], simd_shuffle_xor(higher[r], 2));
      const bool grows = higher[r] > top[r] + SLACK;
      fade[r] = grows ? power_of_two(top[r] - higher[r]) : 1.0f;
      top[r] = grows ? higher[r] : top[r];
      // A row that sees nothing has no score to be relative to.
      base[r] = top[r] > -INFINITY ? top[r] : 0.0f;
      norm[r] *= fade[r];
    }
#pragma unroll
    for (uint i = 0; i < KEYS / 2; i++) {
      scores[i] = power_of_two(fma(scores[i], factor, -base[i / 2 % 2]));
      norm[i / 2 % 2] += scores[i];
    }
    fades = __any_sync(0xffffffffu, fade[0] != 1.0f || fade[1] != 1.0f);
  };
  // The values that were multiplied last are read then.
  const auto keep_shares = [&]() {
    wait_for_products<0>();
    hold_registers(sums);
    hold_registers(shares);
    if (fades) {
#pragma unroll
      for (uint i = 0; i < WIDTH / 2; i++) sums[i] *= fade[i / 2 % 2];
    }
#pragma unroll
    for (uint i = 0; i < KEYS / 4; i++) shares[i] = pair_of(scores[2 * i], scores[2 * i + 1], T(0.0f));
    hold_registers(shares);
  };

  if (tiles > 0) {
    uint tile = 0;
    if (team == 1) give_turn(0);
#pragma unroll 1
    do {
      keep_shares();
      if (tile > 1 && lane == 0) arrive_at_stage(values_read + (tile - 2) % VALUE_TILES * 8);
      wait_for_stage(there + tile % VALUE_TILES * 8, tile / VALUE_TILES % 2);
      wait_for_turn(team);
      multiply_keys(tile);
      multiply_values(max(tile, 1u) - 1);  // at first all shares are zeros, and any values that are there do
      if (team == 0 || tile + 1 < tiles) give_turn(1 - team);
      wait_for_products<1>();
      hold_registers(scores);
      if (lane == 0) arrive_at_stage(keys_read + tile % KEY_TILES * 8);
      // The wait for the values' products stands behind the loop's branch: in one block the compiler puts it before this.
      take_powers(int(tile * KEYS));
      tile++;
    } while (tile < tiles);
    keep_shares();
    multiply_values(tiles - 1);
    wait_for_products<0>();
    hold_registers(sums);
  }
  const bool stores_pairs = size_t(out) % sizeof(uint) == 0;
#pragma unroll
  for (uint r = 0; r < 2; r++) {
    float total = norm[r] + simd_shuffle_xor(norm[r], 1);
    total += simd_shuffle_xor(total, 2);
    const float inverse = total > 0.0f ? 1.0f / total : 0.0f;
    if (own + r * 8 >= present) continue;
    const size_t row = first + own + r * 8;
    if (is_gated) {
      const device ushort* const gates = (const device ushort*)gate + row * gate_stride + head * WIDTH + t * 2;
#pragma unroll
      for (uint i = 0; i < WIDTH / 4; i++) {
        const float given = float(number_of_bits<T>(load_now(gates + i / 2 * 8 + i % 2)));
        float& sum = sums[i / 2 * 4 + r * 2 + i % 2];
        sum = __fdividef(sum, 1.0f + power_of_two(-1.44269504f * given));
      }
    }
    device ushort* const results = (device ushort*)out + row * row_stride + head * WIDTH + t * 2;
#pragma unroll
    for (uint i = 0; i < WIDTH / 8; i++) {
      const uint pair = pair_of(sums[i * 4 + r * 2] * inverse, sums[i * 4 + r * 2 + 1] * inverse, T(0.0f));
      if (stores_pairs) {
        *(device uint*)(results + i * 8) = pair;
      } else {
        results[i * 8] = ushort(pair);
        results[i * 8 + 1] = ushort(pair >> 16);
      }
    }
  }
}
