// out[i] = code * scale for the positions up to the last one; behind it nothing is written. A thread takes one run of
// neighbours, which are of one group.
constexpr uint RUN = 16 / sizeof(T);
constexpr uint GROUP = 64;
const uint run = thread_position_in_grid.x;
if (run >= runs) return;
const size_t first = size_t(run) * RUN;
if (int(first / width % capacity) > position[0]) return;
const float scale = scales[first / GROUP];
pack<T, RUN> made;
for (uint i = 0; i < RUN; i++) made.values[i] = T(scale * float(codes[first + i]));
*(device pack<T, RUN>*)(out + first) = made;
