// The order of works: which one comes before which by streams, events, waits of the host and edges of graphs. Works that
// nothing orders run one after the other here, and at the same time on a GPU.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace cpu {

// For each stream the number of its last work that comes before.
using TaskClock = std::map<uint32_t, uint64_t>;

void join(TaskClock *clock, const TaskClock &other);

// A queued work.
struct Task {
  uint32_t stream = 0;
  uint64_t number = 0;
  TaskClock clock;  // what comes before it, and itself
};

enum class StreamKind { Free, Blocking, Legacy };

// What a stream's next work comes after.
struct StreamOrder {
  uint32_t stream = 0;  // 0: it has had no work
  TaskClock clock;
};

// Makes the task of a work that is being queued. The scheduler's lock is held from here until queued_task() has it no
// more.
std::shared_ptr<Task> begin_task(StreamOrder *order, StreamKind kind, int device);
void end_queueing(StreamOrder *order, StreamKind kind, int device, const std::shared_ptr<Task> &task);
// Returns the task that is being queued by this thread, or null.
Task *queued_task();

// Notes that the host has waited for what a clock holds: all that it queues from now on comes after.
void host_waited(const TaskClock &clock);
// The same for all that is queued on a device, and for what the null stream waits for.
void host_waited_for_device(int device);
void host_waited_for_blocking(int device);

// Returns a number that no other launch of a graph has.
uint64_t new_graph_launch();

// The steps of a graph that come before each step, as rows of bits.
struct StepOrder {
  size_t words = 0;
  std::vector<uint64_t> bits;
  bool is_before(uint32_t a, uint32_t b) const { return bits[b * words + a / 64] >> (a % 64) & 1; }
};
// Returns null for a graph of so many steps that the rows would not fit.
std::shared_ptr<const StepOrder> order_steps(const std::vector<uint32_t> &first, const std::vector<uint32_t> &successors);

// The work that runs on this thread: a task, and the step of it that runs if it is a graph.
struct RunningTask {
  std::shared_ptr<const Task> task;
  uint64_t launch = 0;  // the launch of a graph, 0 for other works
  uint32_t step = 0;
  std::shared_ptr<const StepOrder> steps;
};
// Returns the one of this thread.
RunningTask &running_task();

bool is_before(const RunningTask &a, const RunningTask &b);

}  // namespace cpu
