#include "pipeline/simulation/world.h"

#include <cxxabi.h>
#include <errno.h>

#include <algorithm>
#include <limits>

namespace pe::test {

namespace {

thread_local Process* current = nullptr;  // null: the test itself, or a thread that is none of its world

constexpr std::size_t kStack = 1 << 20;

/// State of the C++ runtime for a thread's exceptions: several contexts of one thread may be in handlers, so each has
/// its own.
struct Exceptions {
  void* caught = nullptr;
  unsigned int uncaught = 0;
};
Exceptions& exceptions() { return *reinterpret_cast<Exceptions*>(abi::__cxa_get_globals()); }

}  // namespace

std::uint64_t RandomChoices::next() {  // splitmix64
  std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

std::size_t AllChoices::pick(std::size_t n) {
  if (n < 2) return 0;
  if (at_ == path_.size()) path_.emplace_back(0, n);
  return path_[at_++].first;
}

bool AllChoices::advance() {
  at_ = 0;
  while (!path_.empty() && path_.back().first + 1 == path_.back().second) path_.pop_back();
  if (path_.empty()) return false;
  ++path_.back().first;
  return true;
}

std::string AllChoices::str() const {
  std::string text;
  for (const auto& [choice, of] : path_) text += (text.empty() ? "" : " ") + std::to_string(choice);
  return text;
}

World::World(std::filesystem::path disk, Choices& choices, Faults faults)
    : disk_(std::move(disk)), choices_(choices), faults_(faults) {}

World::~World() = default;

Process* World::moving() { return current; }

Process& World::add(std::string name, std::function<void()> body) {
  processes_.push_back(std::make_unique<Process>(*this, std::move(name), std::move(body)));
  Process& process = *processes_.back();
  process.wakes_s = now_s_;
  process.stack.reset(new char[kStack]);
  ::getcontext(&process.context);
  process.context.uc_stack.ss_sp = process.stack.get();
  process.context.uc_stack.ss_size = kStack;
  ::makecontext(&process.context, &World::begin, 0);
  return process;
}

void World::run() {
  cut_ = false;
  deaths_ = 0;
  hand_over(nullptr);
  processes_.clear();
  if (cut_) lose_unsynced(choices_);
}

void World::begin() {
  Process* self = current;
  exceptions() = {};
  self->body();
  self->ended = true;
  self->world.hand_over(self);
}

void World::hand_over(Process* from) {
  double first = std::numeric_limits<double>::infinity();
  for (const auto& process : processes_) {
    if (!process->ended) first = std::min(first, process->dead ? now_s_ : process->wakes_s);
  }
  if (first != std::numeric_limits<double>::infinity()) now_s_ = std::max(now_s_, first);
  std::vector<Process*> awake;
  for (const auto& process : processes_) {
    if (!process->ended && (process->dead || process->wakes_s <= now_s_)) awake.push_back(process.get());
  }
  Process* to = awake.empty() ? nullptr : awake[choices_.pick(awake.size())];
  if (to == from) return;
  current = to;
  ucontext_t& here = from ? from->context : rest_;
  const Exceptions own = exceptions();
  ::swapcontext(&here, to ? &to->context : &rest_);
  exceptions() = own;
  current = from;
}

bool World::step() {
  Process& process = *current;
  if (process.dead) return false;
  if (process.quiet > 0) return true;
  ++happened.calls;
  if (deaths_ < faults_.most_deaths) {
    if (choices_.chance(faults_.crash)) {
      ++deaths_;
      ++happened.crashes;
      die(process);
      return false;
    }
    if (choices_.chance(faults_.power_cut)) {
      deaths_ = faults_.most_deaths;
      cut_ = true;
      ++happened.power_cuts;
      for (auto& each : processes_) die(*each);
      return false;
    }
  }
  if (choices_.chance(faults_.change)) hand_over(&process);
  return !process.dead;
}

int World::failure() {
  if (current->quiet > 0 || !choices_.chance(faults_.fail)) return 0;
  ++happened.failures;
  static constexpr int kErrors[] = {EIO, ENOSPC, ESTALE};
  return kErrors[choices_.pick(3)];
}

int World::read_failure() {
  if (current->quiet > 0 || !choices_.chance(faults_.unread)) return 0;
  ++happened.unread;
  static constexpr int kErrors[] = {EACCES, EIO, ESTALE};
  return kErrors[choices_.pick(3)];
}

void World::sleep_until(double when_s) {
  Process& process = *current;
  if (process.dead) return;
  process.wakes_s = when_s;
  hand_over(&process);
}

}  // namespace pe::test
