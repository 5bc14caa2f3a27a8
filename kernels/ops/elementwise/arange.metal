// out[i] = start + i * step.
uint i = thread_position_in_grid.x;
if (i < size) out[i] = int(uint(start) + i * uint(step));
