#include "engine/runner.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "check/checks.h"
#include "check/kernel_check.h"
#include "check/shadow.h"
#include "check/streaks.h"

namespace cpu {
namespace {

thread_local Runner *active_runner = nullptr;

constexpr char kNoStack[] = "there is no address space for the stacks of its threads";

constexpr size_t kMostThreadsAtOnce = 8192;  // of blocks that wait for the clock: each needs a stack

unsigned lowest(uint32_t set) { return unsigned(__builtin_ctz(set)); }

// Returns whether `a` comes before `b` in the program. The outermost step in which the ways to them differ decides. A
// turn of a loop comes before the next turn and before what follows the loop, so that lanes which left the loop wait
// for the others.
bool is_before(const __hiprt_step *a, const __hiprt_step *b) {
  bool before = a->depth < b->depth;
  while (a->depth > b->depth) a = a->outer;
  while (b->depth > a->depth) b = b->outer;
  for (; a; a = a->outer, b = b->outer) {
    if (a->place != b->place) before = a->place < b->place;
    else if (a->turn != b->turn) before = a->turn < b->turn;
  }
  return before;
}

// Returns those of `lanes` that are at the operation which comes first. With by_any_way, lanes at one place of the text
// belong together however they came there.
uint32_t first_members(const Warp &w, uint32_t lanes, bool by_any_way) {
  const __hiprt_step *first = &w.at[lowest(lanes)];
  uint32_t members = 0;
  for (uint32_t set = lanes; set; set &= set - 1) {
    const __hiprt_step *at = &w.at[lowest(set)];
    if (by_any_way ? at->place == first->place : at->trace == first->trace) members |= set & -set;
    else if (is_before(at, first)) first = at, members = set & -set;
  }
  return members;
}

bool can_go_on(const Block &block) { return block.alive && block.at_grid != block.alive; }

void perform(Warp *w, uint32_t members) {
  uint64_t before[HIPRT_CPU_WARP];
  std::copy(w->value, w->value + HIPRT_CPU_WARP, before);
  uint64_t ballot = 0;
  for (uint32_t set = members; set; set &= set - 1)
    ballot |= uint64_t(before[lowest(set)] != 0) << lowest(set);
  for (uint32_t set = members; set; set &= set - 1) {
    const unsigned lane = lowest(set), source = w->source[lane];
    if (w->op[lane] == __hiprt_warp_gather) w->value[lane] = members >> source & 1 ? before[source] : 0;
    else w->value[lane] = w->op[lane] == __hiprt_warp_ballot ? ballot : members;
  }
}

}  // namespace

void Launch::fail(hipError_t status, const std::string &text) {
  if (failed.exchange(true)) return;
  error = status;
  std::fprintf(stderr, "hiprt: kernel '%s': %s\n", kernel->name.c_str(), text.c_str());
}

bool Launch::take(uint64_t *begin, uint64_t *end) {
  *begin = next.fetch_add(chunk, std::memory_order_relaxed);
  *end = std::min(*begin + chunk, blocks);
  return *begin < blocks;
}

Block::Block() : shared(new SharedMemory), warps(32) {}

Runner *Runner::active() { return active_runner; }

void Runner::run(Launch *launch, uint64_t begin, uint64_t end) {
  launch_ = launch;
  active_runner = this;
  if (is_checking()) enter_core(core_);
  fiber_home(&home_);
  begin_ = begin, end_ = end;
  if (!launch->code->synchronises) {
    enter(take_strand());
  } else {
    while (begin_ < end_ && !launch->failed.load(std::memory_order_relaxed)) {
      begin_block(begin_++);
      if (launch->is_cooperative && begin_ < end_) {
        others_.emplace_back();
        std::swap(block_, others_.back());
      } else {
        enter(next(nullptr));
      }
    }
    others_.clear();
  }
  if (is_checking()) leave_core();
  active_runner = nullptr;
}

void Runner::enter(Strand *first) {
  running_ = first;
  first ? fiber_switch(&home_, first) : launch_->fail(hipErrorLaunchOutOfResources, kNoStack);
}

// A strand never ends. It is switched to when it has a thread to execute or, for plain kernels, a range of blocks.
void Runner::strand_main(void *p) {
  Strand *self = static_cast<Strand *>(p);
  Runner *runner = self->runner;
  fiber_started();
  for (;;) {
    if (runner->launch_->code->synchronises) {
      runner->launch_->code->run(runner->launch_->arguments, 1);
      runner->finish(self);
    } else {
      runner->plain_blocks(self->record());
      runner->idle_.push_back(self);
      runner->go(self, &runner->home_);
    }
  }
}

void Runner::set_block(uint64_t index) {
  block_.index[0] = unsigned(index % launch_->grid.x);
  block_.index[1] = unsigned(index / launch_->grid.x % launch_->grid.y);
  block_.index[2] = unsigned(index / launch_->grid.x / launch_->grid.y);
}

void Runner::fill(__hiprt_thread *r) const {
  const dim3 &block = launch_->block, &grid = launch_->grid;
  r->block[0] = block_.index[0], r->block[1] = block_.index[1], r->block[2] = block_.index[2];
  r->block_dim[0] = block.x, r->block_dim[1] = block.y, r->block_dim[2] = block.z;
  r->shared = block_.shared->bytes;
  r->grid_dim[0] = grid.x, r->grid_dim[1] = grid.y, r->grid_dim[2] = grid.z;
}

void Runner::plain_blocks(__hiprt_thread *record) {
  const Launch &launch = *launch_;
  for (uint64_t i = begin_; i < end_ && !launch.failed.load(std::memory_order_relaxed); ++i) {
    set_block(i);
    fill(record);
    if (is_checking()) begin_checked_block(block_.index, block_.shared->bytes);
    for (unsigned z = 0; z < launch.block.z; ++z) {
      for (unsigned y = 0; y < launch.block.y; ++y) {
        record->thread[0] = 0, record->thread[1] = y, record->thread[2] = z;
        if (is_checking()) begin_row(launch.block.x * (y + launch.block.y * z), launch.block.x);
        launch.code->run(launch.arguments, launch.block.x);
        if (is_checking()) end_row();
      }
    }
  }
}

void Runner::begin_block(uint64_t index) {
  set_block(index);
  block_.alive = launch_->block.x * launch_->block.y * launch_->block.z;
  block_.parked = block_.votes = block_.current = block_.at_grid = block_.clock_reads = 0;
  block_.warp_count = (block_.alive + HIPRT_CPU_WARP - 1) / HIPRT_CPU_WARP;
  for (unsigned i = 0; i < block_.warp_count; ++i) {
    const unsigned lanes = std::min(block_.alive - i * HIPRT_CPU_WARP, HIPRT_CPU_WARP);
    block_.warps[i].fresh = uint32_t((uint64_t{1} << lanes) - 1);
    block_.warps[i].ready = block_.warps[i].waiting = block_.warps[i].parked = 0;
    block_.warps[i].first = i * HIPRT_CPU_WARP;
  }
  if (is_checking()) begin_checked_block(block_.index, block_.shared->bytes);
}

bool Runner::add_strands() try {
  auto slab = std::make_unique<StackSlab>();
  if (!slab->stack(0)) return false;
  slabs_.reserve(slabs_.size() + 1);
  strands_.reserve(strands_.size() + StackSlab::kCount);
  idle_.reserve(strands_.size() + StackSlab::kCount);
  for (size_t i = StackSlab::kCount; i-- > 0;) {
    Strand *s = new (Strand::on_stack(slab->stack(i))) Strand;
    s->runner = this;
    s->usable = false;
    strands_.push_back(s);
    idle_.push_back(s);
  }
  slabs_.push_back(std::move(slab));
  return true;
} catch (const std::bad_alloc &) {
  return false;
}

// Returns null if there is no address space for another stack.
Strand *Runner::take_strand() {
  if (idle_.empty() && !add_strands()) return nullptr;
  Strand *s = idle_.back();
  idle_.pop_back();
  if (!s->usable) {
    const char *stack = reinterpret_cast<const char *>(s->base()) + StackSlab::guard_size();
    fiber_prepare(s, stack, reinterpret_cast<char *>(s), strand_main, s);
    s->usable = true;
  }
  return s;
}

// Gives a thread that has not begun to a strand. Returns null if there is none.
Strand *Runner::start(Strand *idle, Warp *warp, unsigned lane) {
  Strand *s = idle ? idle : take_strand();
  is_starved_ = !s;
  if (!s) return nullptr;
  __hiprt_thread *record = s->record();
  s->warp = warp, s->lane = record->lane = lane;
  record->step = 0;
  warp->strand[lane] = s;
  fill(record);
  const unsigned linear = warp->first + lane, x = launch_->block.x, y = launch_->block.y;
  record->thread[0] = linear % x, record->thread[1] = linear / x % y, record->thread[2] = linear / x / y;
  return s;
}

// Begins the first lane that has not begun. Returns null if there is no stack for it.
Strand *Runner::next_fresh(Warp *w, Strand *idle) {
  const unsigned lane = lowest(w->fresh);
  w->fresh &= w->fresh - 1;
  return start(idle, w, lane);
}

// Returns the first lane that can go on. It prefetches the second's stack, because a block's stacks do not fit the
// nearest cache.
Strand *Runner::go_on(Warp *w) {
  const unsigned lane = lowest(w->ready);
  w->ready &= w->ready - 1;
  if (w->ready) {
    const char *top = reinterpret_cast<const char *>(w->strand[lowest(w->ready)]->record());
    for (int line = 0; line < 5; ++line) __builtin_prefetch(top - 64 * line, 1);
  }
  return w->strand[lane];
}

// Returns the strand to go on with. A warp runs until all its lanes wait; `idle` is a free strand for a new thread, or
// null.
Strand *Runner::next(Strand *idle) {
  Warp &w = block_.warps[block_.current];
  for (;;) {
    if (w.ready) return go_on(&w);
    if (w.fresh) return next_fresh(&w, idle);
    if (!w.waiting || !resolve(&w)) return next_warp(idle);
  }
}

// Returns null if the block has ended, or cannot go on for want of a stack or because its threads wait for each other.
Strand *Runner::next_warp(Strand *idle) {
  for (unsigned k = 1; k <= block_.warp_count; ++k) {
    const unsigned i = (block_.current + k) % block_.warp_count;
    Warp &w = block_.warps[i];
    if (w.ready | w.fresh || (w.waiting && resolve(&w))) {
      block_.current = i;
      return next(idle);
    }
  }
  if (block_.parked != block_.alive) return nullptr;
  if (block_.alive == 0 || block_.at_grid == block_.alive) return next_block(idle);
  if (block_.at_grid) return nullptr;  // some threads wait for the block, others for the grid
  release();
  return next(idle);
}

// Goes on with another block of a cooperative launch. Once all that have not ended are at the grid's barrier, they pass it.
Strand *Runner::next_block(Strand *idle) {
  if (is_checking() && block_.at_grid) {
    check_release();
    leave_checked_block();
  }
  auto other = std::find_if(others_.begin(), others_.end(), can_go_on);
  if (other == others_.end()) {
    pass_grid();
    if (block_.alive) return next(idle);
    other = std::find_if(others_.begin(), others_.end(), can_go_on);
    if (other == others_.end()) return nullptr;
  }
  std::swap(block_, *other);
  if (is_checking()) enter_checked_block(block_.index, block_.shared->bytes);
  return next(idle);
}

// Lets all blocks go on that have not ended.
void Runner::pass_grid() {
  if (is_checking()) pass_checked_grid();
  let_go();
  for (Block &block : others_) {
    std::swap(block, block_);
    let_go();
    std::swap(block, block_);
  }
  if (is_checking() && block_.alive) enter_checked_block(block_.index, block_.shared->bytes);
}

// Lets the lanes at one warp operation go on if all that it awaits have come to it or have ended. A mask may name lanes
// that come to the same place of the text by another way, as on NVIDIA's hardware; such lanes are tried last.
bool Runner::resolve(Warp *w) { return resolve(w, false) || resolve(w, true); }

bool Runner::resolve(Warp *w, bool by_any_way) {
  const uint32_t present = w->waiting | w->parked;
  uint32_t members = 0;
  for (uint32_t rest = w->waiting; rest; rest &= ~members) {
    members = first_members(*w, rest, by_any_way);
    uint32_t awaited = 0;
    for (uint32_t set = members; set; set &= set - 1) awaited |= w->mask[lowest(set)];
    if (awaited & present & ~members) continue;
    if (is_checking()) check_members(*w, members);
    perform(w, members);
    w->waiting &= ~members;
    w->ready |= members;
    return true;
  }
  return false;
}

// All threads of the block that have not exited wait at a barrier.
void Runner::check_release() const {
  std::vector<uintptr_t> places;
  for (unsigned i = 0; i < block_.warp_count; ++i) {
    const unsigned threads = launch_->block.x * launch_->block.y * launch_->block.z - block_.warps[i].first;
    for (unsigned lane = 0; lane < std::min(threads, HIPRT_CPU_WARP); ++lane) {
      places.push_back(block_.warps[i].parked >> lane & 1 ? block_.warps[i].caller[lane] : 0);
    }
  }
  check_barrier(places);
  order_block();
}

void Runner::check_members(const Warp &w, uint32_t members) const {
  const uint32_t present = w.fresh | w.ready | w.waiting | w.parked;
  for (uint32_t set = members; set; set &= set - 1) {
    const unsigned lane = lowest(set), source = w.source[lane] % HIPRT_CPU_WARP;
    if (w.op[lane] != __hiprt_warp_gather || members >> source & 1) continue;
    report_inactive_lane(w.first + lane, source, !(present >> source & 1), w.caller[lane]);
  }
  order_lanes(w.first, members);
}

void Runner::access(uintptr_t address, size_t size, unsigned kind, uintptr_t caller) {
  const Strand *self = running_;
  if (address - self->base() < HIPRT_CPU_STACK_SIZE) return;
  if (kind & kAtomic) yield();
  check_access(address, size, kind, caller);
}

void Runner::fence(bool of_device) { check_fence(of_device); }

void Runner::release() {
  if (is_checking()) check_release();
  let_go();
}

void Runner::let_go() {
  if (block_.alive == 0) return;
  for (unsigned i = 0; i < block_.warp_count; ++i) {
    block_.warps[i].ready = block_.warps[i].parked;
    block_.warps[i].parked = 0;
  }
  block_.result_votes = block_.votes, block_.result_threads = block_.alive;
  block_.parked = block_.votes = block_.current = block_.at_grid = 0;
  while (!block_.warps[block_.current].ready) ++block_.current;
}

void Runner::go(Strand *from, Fiber *to, bool keep) {
  if (to != from) {
    running_ = to == &home_ ? nullptr : static_cast<Strand *>(to);
    fiber_switch(from, to, keep);
  }
  if (is_checking() && launch_->code->synchronises) resume_thread(from->warp->first + from->lane);
}

void Runner::finish(Strand *self) {
  --block_.alive;
  Strand *to = next(self);
  if (to == self) return;
  if (!to && block_.alive) give_up();
  idle_.push_back(self);
  go(self, to ? static_cast<Fiber *>(to) : &home_);
}

unsigned Runner::barrier(Strand *self, __hiprt_barrier kind, unsigned predicate) {
  if (kind == __hiprt_barrier_grid && !launch_->is_cooperative)
    fail(hipErrorLaunchFailure, "the grid's barrier is reached, but the launch is not a cooperative one");
  self->warp->parked |= 1u << self->lane;
  ++block_.parked;
  block_.at_grid += kind == __hiprt_barrier_grid;
  block_.votes += predicate;
  Strand *to = next(nullptr);
  if (!to) give_up();
  go(self, to);
  if (kind == __hiprt_barrier_and) return block_.result_votes == block_.result_threads;
  return kind == __hiprt_barrier_or ? block_.result_votes != 0 : block_.result_votes;
}

uint64_t Runner::warp_op(Strand *self, unsigned key, __hiprt_warp_op op, uint64_t value, unsigned source, unsigned mask) {
  Warp &w = *self->warp;
  const unsigned lane = self->lane;
  const __hiprt_step *outer = self->step();
  w.at[lane] = {outer, key, 0, outer ? outer->depth + 1 : 1, __hiprt_trace(outer, key, 0)};
  w.op[lane] = op, w.value[lane] = value, w.source[lane] = source, w.mask[lane] = mask;
  w.waiting |= 1u << lane;
  Strand *to = next(nullptr);
  if (!to) give_up();
  go(self, to);
  return w.value[lane];
}

// The warp's later lanes have their turn first, then the other warps, then this warp from its first lane on.
void Runner::yield() {
  Strand *self = running_;
  if (!launch_->code->synchronises) return;
  Warp &w = *self->warp;
  const uint32_t later = w.ready & ~((2u << self->lane) - 1);
  w.ready |= 1u << self->lane;
  Strand *to = nullptr;
  if (later) {
    const unsigned lane = lowest(later);
    w.ready &= ~(1u << lane);
    to = w.strand[lane];
  } else {
    to = w.fresh ? next_fresh(&w) : next_warp(nullptr);
  }
  if (!to) give_up();
  go(self, to);
}

void Runner::read_clock() {
  yield();
  // The order of accesses, which the checks keep, is that of one block after the other.
  if (!launch_->code->synchronises || is_checking() || ++block_.clock_reads < block_.alive) return;
  block_.clock_reads = 0;
  Strand *self = running_;
  self->warp->ready |= 1u << self->lane;
  if (!change_block()) {
    self->warp->ready &= ~(1u << self->lane);
    return;
  }
  Strand *to = next(nullptr);
  if (!to) give_up();
  go(self, to);
}

// Goes on with a block that has not begun, if there are stacks for it, or with the next of those that have. Returns false if
// there is none.
bool Runner::change_block() {
  const uint32_t threads = launch_->block.x * launch_->block.y * launch_->block.z;
  const auto is_over = [](const Block &block) { return block.alive == 0; };
  auto other = std::find_if(others_.begin(), others_.end(), is_over);
  const bool has_room = other != others_.end() || (others_.size() + 2) * threads <= kMostThreadsAtOnce;
  if (has_room && (begin_ < end_ || launch_->take(&begin_, &end_))) {
    while (idle_.size() < threads && add_strands()) continue;
    if (idle_.size() >= threads) {
      if (other == others_.end()) other = others_.emplace(other);
      std::swap(block_, *other);
      begin_block(begin_++);
      return true;
    }
  }
  for (size_t i = 0; i < others_.size(); ++i) {
    Block &next = others_[turn_++ % others_.size()];
    if (!can_go_on(next)) continue;
    std::swap(block_, next);
    return true;
  }
  return false;
}

std::string Runner::deadlock_text() const {
  unsigned waiting = 0;
  for (unsigned i = 0; i < block_.warp_count; ++i) waiting += unsigned(__builtin_popcount(block_.warps[i].waiting));
  const unsigned threads = launch_->block.x * launch_->block.y * launch_->block.z;
  return "block (" + std::to_string(block_.index[0]) + "," + std::to_string(block_.index[1]) + "," + std::to_string(block_.index[2]) +
         ") cannot go on: " + std::to_string(block_.parked - block_.at_grid) + " of its " + std::to_string(threads) +
         " threads wait at a block barrier, " + (block_.at_grid ? std::to_string(block_.at_grid) + " at the grid's, " : "") +
         std::to_string(waiting) +
         " at a warp operation whose mask names lanes that wait elsewhere, " + std::to_string(threads - block_.alive) +
         " have exited";
}

// Gives up a block that cannot go on.
void Runner::give_up() {
  if (is_starved_) fail(hipErrorLaunchOutOfResources, kNoStack);
  fail(hipErrorLaunchFailure, deadlock_text());
}

// Gives up the block: all strands of this core start anew.
void Runner::fail(hipError_t status, const std::string &text) {
  launch_->fail(status, text);
  idle_.clear();
  for (Strand *s : strands_) {
    s->usable = false;
    idle_.push_back(s);
  }
  Strand *self = running_;
  go(self, &home_, false);
  std::abort();  // an abandoned strand is never switched to
}

}  // namespace cpu
