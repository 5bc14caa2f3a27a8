#include "check/thread_order.h"

#include <algorithm>

namespace cpu {
namespace {

// Empties what a kernel has filled; the memory is kept where it was of use.
template <class T>
void empty(std::vector<T> *all) {
  constexpr size_t kFew = 1024;
  if (all->capacity() > kFew && all->size() < all->capacity() / 8) std::vector<T>().swap(*all);
  else all->clear();
}

}  // namespace

void SyncVariables::clear() {
  empty(&all_);
  all_.emplace_back();
  pages_.clear();
  between_.clear();
  page_ = nullptr;
}

void ThreadOrder::begin_kernel(EpochLog *log, unsigned core) {
  log_ = log;
  core_ = core;
  runs_.clear();
  variables_.clear();
  empty(&releases_);
  passed_ = 0;
}

void ThreadOrder::begin_block(uint32_t block, unsigned threads) {
  block_ = block;
  threads_ = threads;
  std::fill(fenced_, fenced_ + threads, 0);
  for (unsigned thread : knowing_) of_thread_[thread].clear();
  knowing_.clear();
  of_block_.clear();
  if (passed_) of_block_.push_back({SyncVariables::kGrid, passed_});
  begin_phase();
}

void ThreadOrder::reach_grid() {
  const uint32_t last = phase_ - 1;
  Release release{block_, 0, false, last, last, last};
  if (!of_block_.empty()) release.rest.reset(new Release::Rest{{}, of_block_});
  pass_on(SyncVariables::kGrid, std::move(release));
}

void ThreadOrder::pass_grid() { passed_ = variables_[SyncVariables::kGrid].count; }

const EpochLog::Owner *ThreadOrder::owner(uint32_t epoch) const {
  const auto after = std::upper_bound(runs_.begin(), runs_.end(), epoch, [](uint32_t e, const EpochLog::Run *run) { return e < run->first; });
  if (after == runs_.begin()) return nullptr;
  const EpochLog::Run &run = **(after - 1);
  return epoch < run.end() ? &run.owners[epoch - run.first] : nullptr;
}

void ThreadOrder::make_room(size_t epochs) {
  if (runs_.empty() || !runs_.back()->has_room(epochs)) runs_.push_back(log_->begin_run(core_));
}

uint32_t ThreadOrder::next_time(unsigned warp) {
  make_room(1);
  return runs_.back()->add(block_, warp);
}

// The epochs of a phase follow each other.
void ThreadOrder::begin_phase() {
  make_room((threads_ + kLanes - 1) / kLanes);
  phase_ = runs_.back()->end();
  for (unsigned first = 0; first < threads_; first += kLanes) {
    const uint32_t time = next_time(first / kLanes);
    std::fill(time_ + first, time_ + std::min(first + kLanes, threads_), time);
    warp_[first / kLanes] = 0;
    has_lanes_[first / kLanes] = false;
  }
}

void ThreadOrder::barrier() {
  for (unsigned thread : knowing_) {
    for (const Known &known : of_thread_[thread]) add(&of_block_, known);
    of_thread_[thread].clear();
  }
  knowing_.clear();
  begin_phase();
}

uint32_t ThreadOrder::known_time(unsigned of, unsigned now) const {
  uint32_t time = phase_ - 1;
  const unsigned warp = now / kLanes;
  if (of / kLanes != warp) return time;
  time = std::max(time, warp_[warp]);
  return has_lanes_[warp] ? std::max(time, lane_[now][of % kLanes]) : time;
}

void ThreadOrder::lanes(unsigned first, uint32_t set) {
  const unsigned warp = first / kLanes, count = std::min(threads_ - first, kLanes);
  const bool is_whole = set == ~uint32_t{0} >> (kLanes - count);
  if (is_whole) {
    warp_[warp] = runs_.back()->end() - 1;
    has_lanes_[warp] = false;
  } else {
    if (!has_lanes_[warp]) {
      for (unsigned lane = 0; lane < kLanes; ++lane) std::fill(lane_[first + lane], lane_[first + lane] + kLanes, 0);
      has_lanes_[warp] = true;
    }
    uint32_t joined[kLanes] = {};
    for (uint32_t rest = set; rest; rest &= rest - 1) {
      const unsigned lane = static_cast<unsigned>(__builtin_ctz(rest));
      for (unsigned i = 0; i < kLanes; ++i) joined[i] = std::max(joined[i], lane_[first + lane][i]);
      joined[lane] = time_[first + lane];
    }
    for (uint32_t rest = set; rest; rest &= rest - 1) {
      std::copy(joined, joined + kLanes, lane_[first + static_cast<unsigned>(__builtin_ctz(rest))]);
    }
  }
  const uint32_t time = next_time(warp);
  std::vector<Known> known;
  for (uint32_t rest = set; rest; rest &= rest - 1) {
    const unsigned thread = first + static_cast<unsigned>(__builtin_ctz(rest));
    time_[thread] = time;
    for (const Known &one : of_thread_[thread]) add(&known, one);
  }
  for (uint32_t rest = known.empty() ? 0 : set; rest; rest &= rest - 1) {
    const unsigned thread = first + static_cast<unsigned>(__builtin_ctz(rest));
    if (of_thread_[thread].empty()) knowing_.push_back(thread);
    of_thread_[thread] = known;
  }
}

void ThreadOrder::fence(unsigned thread, bool of_device) {
  fenced_[thread] = time_[thread];
  fence_is_of_device_[thread] = of_device;
  advance(thread);
}

void ThreadOrder::atomic(unsigned thread, uintptr_t address, bool writes, bool reads, bool releases) {
  const uint32_t variable = variables_.at(address);
  if (writes && (releases || fenced_[thread])) {
    const unsigned warp = thread / kLanes;
    const uint32_t own = releases ? time_[thread] : fenced_[thread], last = phase_ - 1;
    Release release{block_, static_cast<uint16_t>(thread), !releases && !fence_is_of_device_[thread], own, std::max(last, warp_[warp]), last};
    Release::Rest rest{{}, of_block_};
    for (unsigned lane = 0; has_lanes_[warp] && lane < kLanes; ++lane) rest.of_lanes.push_back(known_time(warp * kLanes + lane, thread));
    if (releases) advance(thread);
    for (const Known &known : of_thread_[thread]) add(&rest.known, known);
    // What came before at this variable is known to whoever acquires it.
    const auto is_own = [&](const Known &known) { return known.variable == variable; };
    rest.known.erase(std::remove_if(rest.known.begin(), rest.known.end(), is_own), rest.known.end());
    if (!rest.known.empty() || !rest.of_lanes.empty()) release.rest.reset(new Release::Rest(std::move(rest)));
    pass_on(variable, std::move(release));
  }
  // Many programs leave out the fence behind the atomic operation that they learn from, and hardware does without.
  if (const uint32_t count = reads ? variables_[variable].count : 0) {
    if (of_thread_[thread].empty()) knowing_.push_back(thread);
    add(&of_thread_[thread], {variable, count});
  }
}

void ThreadOrder::add(std::vector<Known> *all, const Known &one) {
  for (Known &known : *all) {
    if (known.variable != one.variable) continue;
    known.count = std::max(known.count, one.count);
    return;
  }
  all->push_back(one);
}

void ThreadOrder::pass_on(uint32_t variable, Release release) {
  SyncVariable &at = variables_[variable];
  release.number = at.count++;
  release.previous = at.last;
  at.last = static_cast<uint32_t>(releases_.size());
  releases_.push_back(std::move(release));
}

const ReleaseList &ThreadOrder::list_of(const SyncVariable &variable) const {
  if (!variable.list) variable.list = std::make_unique<ReleaseList>();
  ReleaseList &list = *variable.list;
  std::vector<uint32_t> added;
  for (uint32_t place = variable.last; list.count < variable.count; ++list.count, place = releases_[place].previous) added.push_back(place);
  for (auto place = added.rbegin(); place != added.rend(); ++place) {
    list.of_block[releases_[*place].block].push_back(*place);
    if (releases_[*place].rest && !releases_[*place].rest->known.empty()) list.with_known.push_back(*place);
  }
  return list;
}

bool ThreadOrder::is_known(uint32_t block, unsigned of, uint32_t time, unsigned now) const {
  constexpr int kDepth = 6;
  const auto knows = [&](const Known &known) { return is_in(known, block, of, time, kDepth); };
  const auto &own = of_thread_[now];
  return std::any_of(own.begin(), own.end(), knows) || std::any_of(of_block_.begin(), of_block_.end(), knows);
}

bool ThreadOrder::is_in(const Known &known, uint32_t block, unsigned of, uint32_t time, int depth) const {
  const ReleaseList &list = list_of(variables_[known.variable]);
  const auto places = list.of_block.find(block);
  if (places != list.of_block.end()) {
    for (auto place = places->second.rbegin(); place != places->second.rend(); ++place) {
      const Release &release = releases_[*place];
      if (release.number >= known.count) continue;
      if (release.within_block && release.block != block_) continue;
      if (time <= release.time_of(of)) return true;
    }
  }
  if (depth == 0) return false;
  for (const uint32_t place : list.with_known) {
    const Release &release = releases_[place];
    if (release.number >= known.count) break;
    if (release.within_block && release.block != block_) continue;
    for (const Known &further : release.rest->known) {
      if (is_in(further, block, of, time, depth - 1)) return true;
    }
  }
  return false;
}

}  // namespace cpu
