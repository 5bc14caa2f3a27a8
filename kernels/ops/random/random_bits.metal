// Threefry 2x32 (Salmon et al., 2011): a thread makes two words, one for each half of the result.
uint i = thread_position_in_grid.x;
if (i < size - size / 2u) {
  const bool is_last = i == size / 2u;  // the middle word of an odd size, which has no partner
  const uint partner = i + size - size / 2u;
  uint ks[3] = {key[0], key[1], key[0] ^ key[1] ^ 0x1bd11bdau};
  const uint turns[2][4] = {{13u, 15u, 26u, 6u}, {17u, 29u, 16u, 24u}};
  uint a = i + ks[0], b = (is_last ? 0u : partner) + ks[1];
  for (uint round = 0u; round < 5u; round++) {
    for (uint turn = 0u; turn < 4u; turn++) {
      const uint by = turns[round % 2u][turn];
      a += b;
      b = (b << by) | (b >> (32u - by));
      b ^= a;
    }
    a += ks[(round + 1u) % 3u];
    b += ks[(round + 2u) % 3u] + round + 1u;
  }
  out[i] = a;
  if (!is_last) out[partner] = b;
}
