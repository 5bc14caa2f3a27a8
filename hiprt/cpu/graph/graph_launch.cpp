#include "graph/graph_launch.h"

#include <utility>

#include "check/checks.h"
#include "check/task_order.h"
#include "quirks/quirks.h"
#include "random.h"
#include "runtime/scheduler.h"
#include "runtime/stream.h"

namespace cpu {
namespace {

// Returns whether other streams' work may come between the steps of a launch, as on hardware.
bool is_sliced() { return quirk(Quirk::ParallelShuffle) || quirk(Quirk::ExecOverlap); }

// Which edges of a step: all, or those that cross from one of CLR's streams to another, or those that do not.
enum class Edges { All, Crossing, Staying };

// One launch. A launch that waits for events, or that is sliced, is queued as several works in a row. Each goes on as
// far as it can or, sliced, for a few steps. One work more than there are waits is enough, because a work starts when
// the wait before it is over; a slice runs at least one step.
class GraphWork : public Work {
 public:
  GraphWork(std::shared_ptr<const Order> order, std::shared_ptr<Plan> plan, std::shared_ptr<Series> series)
      : Work(hipGraphNodeTypeGraph), order_(std::move(order)), series_(std::move(series)), turn_(series_->queued),
        progress_(quirk(Quirk::ExecOverlap) ? own_ : series_->progress) {
    attach(std::move(plan));
  }
  ~GraphWork() override { detach(); }

  // Waits come first, because they mean what was recorded before this launch and not what the launch itself records.
  void queued() override {
    for (const auto *steps : {&order_->waits, &order_->records}) {
      for (const uint32_t step : *steps) plan_->works[step]->queued();
    }
  }
  // Under exec_overlap only their streams order launches, as in CLR.
  bool ready() const override {
    return quirk(Quirk::ExecOverlap) || series_->finished.load(std::memory_order_acquire) >= turn_;
  }
  bool can_go_on() const;
  hipError_t run() override;
  hipError_t go_on();
  void drop() override;
  std::shared_ptr<Work> clone() const override { return nullptr; }  // a launch is never a node

  // Returns how many works a launch is queued as after the first.
  size_t rests() const { return order_->waits.size() + (is_sliced() ? order_->indegree.size() : 0); }
  hipError_t run_late_roots();

 private:
  void attach(std::shared_ptr<Plan> plan) {
    plan->launches.fetch_add(1, std::memory_order_relaxed);
    plan_ = std::move(plan);
  }
  void detach() { plan_->launches.fetch_sub(1, std::memory_order_release); }
  void take_latest_plan();
  void forget_edges_of_disabled();
  hipError_t run_ready();
  hipError_t run_step(uint32_t step, Work *work);
  void complete(uint32_t step);
  void release(uint32_t step, Edges which);
  void abandon();
  // Notes that the launch is over. Launches finish in order, except those of a lost device.
  void finish() { series_->finished.fetch_add(1, std::memory_order_release); }

  const std::shared_ptr<const Order> order_;
  std::shared_ptr<Plan> plan_;
  const std::shared_ptr<Series> series_;
  const uint64_t turn_;
  const uint64_t launch_ = is_checking() ? new_graph_launch() : 0;
  Progress own_;
  Progress &progress_;
  std::vector<bool> early_;  // steps that ran before their launch; empty if none did
  size_t left_ = 0;          // steps that have not run
  bool begun_ = false;
  bool over_ = false;
  // The wait that was found to be over. It is not asked again, because the value in memory that it waits for may change
  // back.
  mutable uint32_t passed_ = UINT32_MAX;
};

struct GraphRestWork : Work {
  explicit GraphRestWork(std::shared_ptr<GraphWork> w) : Work(hipGraphNodeTypeGraph), launch(std::move(w)) {}
  bool ready() const override { return launch->can_go_on(); }
  hipError_t run() override { return launch->go_on(); }
  void drop() override { launch->drop(); }
  std::shared_ptr<Work> clone() const override { return nullptr; }

  const std::shared_ptr<GraphWork> launch;
};

struct LateRootsWork : Work {
  explicit LateRootsWork(std::shared_ptr<GraphWork> w) : Work(hipGraphNodeTypeGraph), launch(std::move(w)) {}
  hipError_t run() override { return launch->run_late_roots(); }
  std::shared_ptr<Work> clone() const override { return nullptr; }

  const std::shared_ptr<GraphWork> launch;
};

hipError_t GraphWork::run() {
  if (quirk(Quirk::UpdateInflightVisible)) take_latest_plan();
  progress_.missing = order_->indegree;
  progress_.ready = order_->roots;
  progress_.blocked.clear();
  left_ = plan_->works.size();
  begun_ = true;
  series_->newest = turn_;
  if (quirk(Quirk::DisabledDropsEdges)) forget_edges_of_disabled();
  return run_ready();
}

// Makes a launch in flight see later updates. No CLR does this; the quirk shows updates that should have waited. Events
// keep to what was queued.
void GraphWork::take_latest_plan() {
  auto latest = std::make_shared<Plan>(*series_->latest());
  for (const auto *steps : {&order_->waits, &order_->records}) {
    for (const uint32_t step : *steps) latest->works[step] = plan_->works[step];
  }
  detach();
  attach(std::move(latest));
}

// In CLR 7 a disabled kernel or copy has no command, so that nothing on other streams waits for it or for what it waited
// for (rocm-systems#11359; hip_graph_internal.hpp of ROCm/rocm-systems @004f1770e0b4). On its own stream a marker keeps the
// order. A fill has a command, and in 6.4 all have: it is never queued, but who waits for it has a marker queued on its
// stream instead (Event::notifyCmdQueue, rocclr/platform/command.cpp:265 of ROCm/clr @f9f995c6d).
void GraphWork::forget_edges_of_disabled() {
  for (uint32_t step = 0; step < plan_->works.size(); ++step) {
    if (plan_->orderless[step]) release(step, Edges::Crossing);
  }
}

bool GraphWork::can_go_on() const {
  if (over_ || !progress_.ready.empty()) return true;
  for (const uint32_t step : progress_.blocked) {
    if (!plan_->works[step]->ready()) continue;
    passed_ = step;
    return true;
  }
  return false;
}

hipError_t GraphWork::go_on() {
  if (over_) return hipSuccess;
  if (quirk(Quirk::ExecOverlap) && series_->newest != turn_) {
    // In CLR launches share the nodes' commands_ and streams_ without a lock, and the later one takes them away.
    abandon();
    return hipSuccess;
  }
  progress_.ready.insert(progress_.ready.end(), progress_.blocked.begin(), progress_.blocked.end());
  progress_.blocked.clear();
  return run_ready();
}

hipError_t GraphWork::run_ready() {
  auto &ready = progress_.ready;
  while (!ready.empty()) {
    const auto count = static_cast<uint32_t>(ready.size());
    std::swap(ready[count == 1 ? 0 : random_below(count)], ready.back());
    const uint32_t step = ready.back();
    ready.pop_back();
    Work *work = plan_->works[step].get();
    if (work && step != passed_ && !work->ready()) {
      progress_.blocked.push_back(step);
      continue;
    }
    const hipError_t error = work ? run_step(step, work) : hipSuccess;
    complete(step);
    if (error) {
      abandon();
      return error;
    }
    if (left_ > 0 && is_sliced() && random_below(2) == 0) return hipSuccess;
  }
  if (left_ == 0) {
    over_ = true;
    finish();
  }
  return hipSuccess;
}

hipError_t GraphWork::run_step(uint32_t step, Work *work) {
  if (!early_.empty() && early_[step]) return hipSuccess;
  // Up to 6.1 the arguments end with the executable graph (hip_graph.cpp:1268 of CLR 6.1).
  if (series_->destroyed.load(std::memory_order_acquire) && work->poison()) return hipSuccess;
  if (is_checking()) {
    running_task().launch = launch_;
    running_task().step = step;
    running_task().steps = order_->before;
  }
  // In CLR a host node holds a pointer to the node's parameters (hip_graph_internal.hpp:2267).
  if (work->type == hipGraphNodeTypeHost && quirk(Quirk::HostParamsLive)) return series_->latest()->works[step]->run();
  return work->run();
}

void GraphWork::complete(uint32_t step) {
  progress_.missing[step] = UINT32_MAX;
  --left_;
  const bool forgotten = quirk(Quirk::DisabledDropsEdges) && plan_->orderless[step];
  release(step, forgotten ? Edges::Staying : Edges::All);
}

void GraphWork::release(uint32_t step, Edges which) {
  for (uint32_t i = order_->first[step]; i < order_->first[step + 1]; ++i) {
    if (which != Edges::All && order_->crosses[i] != (which == Edges::Crossing)) continue;
    const uint32_t next = order_->successors[i];
    if (--progress_.missing[next] == 0) progress_.ready.push_back(next);
  }
}

// Ends the launch after a node failed, and drops what has not run.
void GraphWork::abandon() {
  for (size_t step = 0; step < plan_->works.size(); ++step) {
    if (progress_.missing[step] != UINT32_MAX && plan_->works[step]) plan_->works[step]->drop();
  }
  over_ = true;
  finish();
}

void GraphWork::drop() {
  if (over_) return;
  if (!begun_) progress_.missing = order_->indegree;
  abandon();
}

bool is_device_work(hipGraphNodeType type) {
  return type == hipGraphNodeTypeKernel || type == hipGraphNodeTypeMemcpy || type == hipGraphNodeTypeMemset;
}

hipError_t GraphWork::run_late_roots() {
  if (begun_ || over_) return hipSuccess;
  early_.resize(plan_->works.size());
  for (const uint32_t step : order_->late_roots) {
    Work *work = plan_->works[step].get();
    if (!work || !is_device_work(work->type)) continue;
    early_[step] = true;
    if (const hipError_t error = work->run()) return error;
  }
  return hipSuccess;
}

// Starts all roots but the first on another stream. CLR runs their segments on internal streams that do not wait for
// the launch stream.
hipError_t start_late_roots(int device, const std::shared_ptr<GraphWork> &launch, Series &series) {
  if (!series.side) series.side = std::make_shared<Stream>(device, hipStreamNonBlocking, 0, false);
  return Scheduler::get().push(series.side, std::make_shared<LateRootsWork>(launch));
}

}  // namespace

void Series::publish(const std::shared_ptr<const Plan> &plan) {
  const std::lock_guard lock(lock_);
  latest_ = plan;
}

std::shared_ptr<const Plan> Series::latest() const {
  const std::lock_guard lock(lock_);
  return latest_;
}

hipError_t queue_launch(hipStream_t stream, const std::shared_ptr<const Order> &order,
                        const std::shared_ptr<Plan> &plan, const std::shared_ptr<Series> &series) {
  auto launch = std::make_shared<GraphWork>(order, plan, series);
  if (const hipError_t error = enqueue(stream, launch)) return error;
  ++series->queued;
  for (size_t i = 0; i < launch->rests(); ++i) {
    if (const hipError_t error = enqueue(stream, std::make_shared<GraphRestWork>(launch))) return error;
  }
  if (order->late_roots.empty() || !quirk(Quirk::MultirootNoLaunchWait)) return hipSuccess;
  const std::shared_ptr<Stream> target = find_stream(stream);
  return target ? start_late_roots(target->device, launch, *series) : hipErrorInvalidHandle;
}

}  // namespace cpu
