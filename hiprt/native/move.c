#include "move.h"

int hiprt_move_address(uint64_t *address, uint32_t n_moves, const hiprt_move *moves) {
  uint32_t low = 0, high = n_moves;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (moves[middle].end > *address)
      high = middle;
    else
      low = middle + 1;
  }
  if (low == n_moves || *address < moves[low].start) return 0;
  *address += moves[low].to - moves[low].start;
  return 1;
}

uint64_t hiprt_moved(uint64_t address, uint32_t n_moves, const hiprt_move *moves) {
  hiprt_move_address(&address, n_moves, moves);
  return address;
}
