#include "graph/graph_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "check/poison.h"
#include "check/shadow.h"
#include "enumerator.h"
#include "quirks/quirks.h"
#include "runtime/device.h"
#include "runtime/memory.h"
#include "runtime/stream.h"

namespace cpu {

struct GraphBuffer {
  ~GraphBuffer();

  hipMemAllocNodeParams params{};
  std::vector<hipMemAccessDesc> access;
  int device = 0;
  bool live = false;    // the application may use it: the queued launches and frees leave it allocated
  bool used = false;    // what has run so far leaves it allocated
  bool backed = false;  // its bytes count as reserved
  std::shared_ptr<GraphBuffer> self;  // set while live: it outlasts the graphs that know it
};

namespace {

struct State {
  std::mutex mutex;
  std::map<void *, std::weak_ptr<GraphBuffer>> buffers;
  std::map<int, GraphMemoryUse> devices;
  // Memory that a quirk freed while it was in use. It is never given back, so that its user harms nobody else.
  std::set<std::shared_ptr<GraphBuffer>> lost;
};

State &state() {
  static State *instance = new State;
  return *instance;
}

using Lock = std::lock_guard<std::mutex>;

// The caller holds the lock. The result must outlive the lock, because the last owner of a buffer takes it.
std::shared_ptr<GraphBuffer> find_buffer(void *address) {
  const auto it = state().buffers.find(address);
  return it == state().buffers.end() ? nullptr : it->second.lock();
}

// Hands the whole pages of unused memory back to the host.
void release_pages(const GraphBuffer &buffer) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto base = reinterpret_cast<uintptr_t>(buffer.params.dptr);
  const uintptr_t first = (base + page - 1) / page * page;
  const uintptr_t last = (base + buffer.params.bytesize) / page * page;
  if (first < last) madvise(reinterpret_cast<void *>(first), last - first, MADV_DONTNEED);
}

const GraphBuffer *freed_by(const Action &action) {
  if (action.type != hipGraphNodeTypeMemFree) return nullptr;
  return static_cast<const GraphFreeWork &>(*action.work).buffer.get();
}

template <class T>
void drop(std::vector<std::shared_ptr<T>> *list, const std::shared_ptr<T> &item) {
  list->erase(std::remove(list->begin(), list->end(), item), list->end());
}

bool valid(const hipMemAllocNodeParams &params) {
  const hipMemPoolProps &props = params.poolProps;
  return params.bytesize > 0 && props.allocType == hipMemAllocationTypePinned &&
         number_of(props.location.type) == hipMemLocationTypeDevice && is_device(props.location.id) &&
         (params.accessDescCount == 0 || params.accessDescs);
}

}  // namespace

GraphBuffer::~GraphBuffer() {
  if (!params.dptr) return;
  {
    Lock lock(state().mutex);
    state().buffers.erase(params.dptr);
    GraphMemoryUse &counters = state().devices[device];
    if (used) counters.used.now -= params.bytesize;
    if (backed) counters.reserved.now -= params.bytesize;
  }
  memory_given_back(reinterpret_cast<uintptr_t>(params.dptr));
  hide(params.dptr);
  unreserve(device, params.dptr, params.bytesize);
}

hipError_t AllocWork::run() {
  memory_taken(reinterpret_cast<uintptr_t>(buffer->params.dptr), buffer->params.bytesize, false);
  Lock lock(state().mutex);
  GraphMemoryUse &counters = state().devices[buffer->device];
  if (!buffer->used) counters.used.add(buffer->params.bytesize);
  if (!buffer->backed) counters.reserved.add(buffer->params.bytesize);
  buffer->used = buffer->backed = true;
  return hipSuccess;
}

hipError_t GraphFreeWork::run() {
  memory_given_back(reinterpret_cast<uintptr_t>(buffer->params.dptr));
  if (quirk(Quirk::PoisonOnFree)) cpu::poison(buffer->params.dptr, buffer->params.bytesize);
  Lock lock(state().mutex);
  if (buffer->used) state().devices[buffer->device].used.now -= buffer->params.bytesize;
  buffer->used = false;
  return hipSuccess;
}

hipError_t make_alloc_action(hipMemAllocNodeParams *params, Action *out) {
  if (!params || !valid(*params)) return hipErrorInvalidValue;
  auto buffer = std::make_shared<GraphBuffer>();
  buffer->device = params->poolProps.location.id;
  buffer->access.assign(params->accessDescs, params->accessDescs + params->accessDescCount);
  void *address = nullptr;
  if (const hipError_t error = reserve(buffer->device, params->bytesize, &address)) return error;
  buffer->params = *params;
  buffer->params.dptr = address;
  buffer->params.accessDescs = buffer->access.empty() ? nullptr : buffer->access.data();
  show(address, params->bytesize, MemoryKind::Pool, buffer->device, 0, nullptr);
  {
    Lock lock(state().mutex);
    state().buffers[address] = buffer;
  }
  Action action;
  action.type = hipGraphNodeTypeMemAlloc;
  action.work = std::make_shared<AllocWork>(std::move(buffer));
  *out = std::move(action);
  params->dptr = address;
  return hipSuccess;
}

hipError_t make_free_action(void *address, Action *out) {
  std::shared_ptr<GraphBuffer> buffer;
  Lock lock(state().mutex);
  buffer = find_buffer(address);
  if (!buffer) return hipErrorInvalidValue;
  Action action;
  action.type = hipGraphNodeTypeMemFree;
  action.work = std::make_shared<GraphFreeWork>(buffer);
  *out = std::move(action);
  return hipSuccess;
}

bool frees_same(const Graph &graph, const Action &action) {
  const GraphBuffer *freed = freed_by(action);
  if (!freed) return false;
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [&](const auto &node) { return freed_by(node->action) == freed; });
}

const hipMemAllocNodeParams &alloc_params(const Node &node) {
  return static_cast<const AllocWork &>(*node.action.work).buffer->params;
}

void *freed_address(const Node &node) { return freed_by(node.action)->params.dptr; }

MemoryEffects memory_effects(const Graph &graph) {
  MemoryEffects effects;
  for (const auto &node : graph.nodes) {
    if (node->action.type != hipGraphNodeTypeMemAlloc) continue;
    effects.allocates.push_back(static_cast<const AllocWork &>(*node->action.work).buffer);
  }
  for (const auto &node : graph.nodes) {
    if (node->action.type != hipGraphNodeTypeMemFree) continue;
    const auto &buffer = static_cast<const GraphFreeWork &>(*node->action.work).buffer;
    const size_t before = effects.allocates.size();
    drop(&effects.allocates, buffer);
    if (effects.allocates.size() == before) effects.frees.push_back(buffer);
  }
  return effects;
}

hipError_t queue_effects(const MemoryEffects &effects, bool auto_free) {
  Lock lock(state().mutex);
  for (const auto &buffer : effects.allocates) {
    if (buffer->live && !auto_free) return hipErrorInvalidValue;
  }
  for (const auto &buffer : effects.frees) {
    if (!buffer->live) return hipErrorInvalidValue;
  }
  for (const auto &buffer : effects.allocates) {
    buffer->live = true;
    buffer->self = buffer;
  }
  for (const auto &buffer : effects.frees) {
    buffer->live = false;
    buffer->self.reset();
  }
  return hipSuccess;
}

hipError_t free_all_graph_memory(hipStream_t stream) {
  std::vector<std::shared_ptr<GraphBuffer>> seen, freed;
  {
    Lock lock(state().mutex);
    for (const auto &[address, weak] : state().buffers) {
      const auto &buffer = seen.emplace_back(weak.lock());
      if (!buffer || !buffer->live || buffer->device != current_device()) continue;
      buffer->live = false;
      buffer->self.reset();
      state().lost.insert(buffer);
      freed.push_back(buffer);
    }
  }
  for (const auto &buffer : freed) {
    if (const hipError_t error = enqueue(stream, std::make_shared<GraphFreeWork>(buffer))) return error;
  }
  return hipSuccess;
}

std::shared_ptr<Work> make_graph_free(void *address) {
  std::shared_ptr<GraphBuffer> buffer;
  Lock lock(state().mutex);
  buffer = find_buffer(address);
  if (!buffer || !buffer->live) return nullptr;
  buffer->live = false;
  buffer->self.reset();
  return std::make_shared<GraphFreeWork>(buffer);
}

GraphMemoryUse graph_memory_use(int device) {
  Lock lock(state().mutex);
  return state().devices[device];
}

void reset_graph_memory_high(int device, Counter GraphMemoryUse::*counter) {
  Lock lock(state().mutex);
  Counter &kept = state().devices[device].*counter;
  kept.high = kept.now;
}

void trim_graph_memory(int device) {
  std::vector<std::shared_ptr<GraphBuffer>> seen;
  Lock lock(state().mutex);
  for (const auto &[address, weak] : state().buffers) {
    const auto &buffer = seen.emplace_back(weak.lock());
    if (!buffer || buffer->device != device || buffer->used || !buffer->backed) continue;
    release_pages(*buffer);
    buffer->backed = false;
    state().devices[device].reserved.now -= buffer->params.bytesize;
  }
}

}  // namespace cpu
