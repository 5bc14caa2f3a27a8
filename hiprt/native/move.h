/* Moves: memory that gets another address, and the addresses that point into it.
 *
 * The list of moves is the caller's. Any thread may ask. */
#pragma once
#include <stdint.h>

#include "hiprt/hiprt.h"

/* cffi begin */
/* Return where an address is after the moves. */
uint64_t hiprt_moved(uint64_t address, uint32_t n_moves, const hiprt_move *moves);
/* cffi end */

/* Give an address its value after the moves; whether it lies in memory that moves. */
int hiprt_move_address(uint64_t *address, uint32_t n_moves, const hiprt_move *moves);
