// Memory that graphs allocate and free. Its address is fixed when the node is made.
//
// Who may use or free the memory is decided when launches and frees are queued (`live`); whether its bytes count as
// used is decided when they run (`used`).
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "graph/graph.h"
#include "hip/hip_runtime_api.h"
#include "runtime/work.h"

namespace cpu {

struct GraphBuffer;

// An allocation node's work.
struct AllocWork : Work {
  explicit AllocWork(std::shared_ptr<GraphBuffer> b) : Work(hipGraphNodeTypeMemAlloc), buffer(std::move(b)) {}
  hipError_t run() override;
  std::shared_ptr<Work> clone() const override { return std::make_shared<AllocWork>(buffer); }

  const std::shared_ptr<GraphBuffer> buffer;
};

// The work of a free node, and of hipFreeAsync of graph memory.
struct GraphFreeWork : Work {
  explicit GraphFreeWork(std::shared_ptr<GraphBuffer> b) : Work(hipGraphNodeTypeMemFree), buffer(std::move(b)) {}
  hipError_t run() override;
  void drop() override { run(); }
  std::shared_ptr<Work> clone() const override { return std::make_shared<GraphFreeWork>(buffer); }

  const std::shared_ptr<GraphBuffer> buffer;
};

// Reserves memory and writes its address into the parameters.
hipError_t make_alloc_action(hipMemAllocNodeParams *params, Action *out);
hipError_t make_free_action(void *address, Action *out);
// Returns whether the graph has a node that frees the same allocation.
bool frees_same(const Graph &graph, const Action &action);
const hipMemAllocNodeParams &alloc_params(const Node &node);
void *freed_address(const Node &node);

// What a launch leaves behind: allocations that it does not free, and frees of what other launches allocated.
struct MemoryEffects {
  std::vector<std::shared_ptr<GraphBuffer>> allocates;
  std::vector<std::shared_ptr<GraphBuffer>> frees;
};
MemoryEffects memory_effects(const Graph &graph);
// Accounts for a launch that is being queued. The result is hipErrorInvalidValue, and nothing is done, if an earlier
// allocation lives (unless auto_free) or a free has nothing to free.
hipError_t queue_effects(const MemoryEffects &effects, bool auto_free);
// Frees the memory of every graph of the device, as a launch with AutoFreeOnLaunch does first under the quirk
// autofree_device_wide (hip_graph_internal.cpp:832).
hipError_t free_all_graph_memory(hipStream_t stream);

// How many bytes the graphs of a device hold.
struct Counter {
  size_t now = 0;
  size_t high = 0;
  void add(size_t bytes) { high = std::max(high, now += bytes); }
};

struct GraphMemoryUse {
  Counter used;
  Counter reserved;
};
GraphMemoryUse graph_memory_use(int device);
// Sets the highest value of a counter to the present one.
void reset_graph_memory_high(int device, Counter GraphMemoryUse::*counter);
// Hands the pages of unused graph memory back to the host.
void trim_graph_memory(int device);

// Returns the work that frees graph memory, for hipFreeAsync and hipFree; null if no live graph allocation has this
// address.
std::shared_ptr<Work> make_graph_free(void *address);

}  // namespace cpu
