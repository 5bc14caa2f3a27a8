// Rows of a cache in blocks of `1 << shift` positions, which lie in a pool where the table of their sequence says.
namespace metal {

template <typename T, int WIDTH>
struct paged_rows {
  const device T* pool;  // of a head
  const device int* table;
  uint shift;

  // The row whose first element is the one with this number among those of the sequence. Of a run without a block it is any row
  // of the pool.
  const device T* operator+(size_t element) const {
    const uint place = uint(element / WIDTH);
    const uint block = uint(max(table[place >> shift], 0));
    return pool + ((size_t(block) << shift) + (place & ((1u << shift) - 1u))) * WIDTH;
  }
};

}  // namespace metal
