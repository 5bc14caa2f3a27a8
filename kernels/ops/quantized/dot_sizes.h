// How a product by integer dot instructions is cut: a row into pieces, a matrix into tiles, x into parts.
namespace metal {

typedef pack<uint, 4> quad;

// A piece is what a lane loads of a row at a time: VALUES codes in WORDS words.
constexpr uint VALUES = PIECE_CODES<BITS, GROUP>, WORDS = VALUES * BITS / 32;
// Codes are spread to fields of FIELD bits, and x is DIGITS digits of as many. PACKS quads are a piece's digits of one place.
constexpr uint FIELD = BITS <= 4 ? 4 : 8, DIGITS = PLANES * 4 / FIELD, PACKS = VALUES * FIELD / 128;

// The simdgroups and threads of a threadgroup; a lane's next step is PACE pieces further.
constexpr uint MEMBERS = TEAMS * SPLIT, THREADS = MEMBERS * 32, PACE = 32 * SPLIT;
// The pieces of a row: EACH of a matrix, BESIDE of which are summed.
constexpr uint BESIDE = CHOICE == SUMMED ? CHOSEN : 1, EACH = WIDTH / VALUES, ALL = BESIDE * EACH;
// The columns of the result that a tile has, and the tiles of a gathered matrix.
constexpr uint OUTPUTS = GATED ? ROWS / 2 : ROWS, TILES_EACH = (COLUMNS + OUTPUTS - 1) / OUTPUTS;

// The pieces of a part, the number of parts, and a lane's steps of one, in whole rounds of DEPTH with those that have no piece.
constexpr uint PART = HELD > 0 ? HELD : ALL, PHASES = (ALL + PART - 1) / PART;
constexpr uint OWN = (PART + PACE - 1) / PACE, PADDED = (OWN + DEPTH - 1) / DEPTH * DEPTH;
// x is staged in units of eight numbers, LANES of a piece. A thread takes TURNS for a part, AHEAD of which it loads at once.
constexpr uint LANES = VALUES / 8, UNITS = BESIDE * WIDTH / 8, PART_UNITS = PART * LANES;
constexpr uint TURNS = (PART_UNITS + THREADS - 1) / THREADS, AHEAD = TURNS < 3 ? TURNS : 3;

}  // namespace metal
