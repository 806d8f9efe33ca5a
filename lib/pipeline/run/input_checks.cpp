#include "pipeline/run/input_checks.h"

#include <algorithm>
#include <utility>

namespace pe::pipeline {

bool names_any(const OutputRecord& output, const std::set<std::string>& digests) {
  return digests.count(output.object) != 0 ||
         std::any_of(output.members.begin(), output.members.end(),
                     [&](const std::string& member) { return digests.count(member) != 0; });
}

std::vector<std::size_t> InputChecks::wanted_snapshots(std::size_t i) const {
  std::vector<std::size_t> wanted;
  if (!run_.task(i).is_trajectory()) return wanted;
  const TaskStates::State& state = run_.states->at(i);
  for (const std::size_t k : run_.states->needed_snapshots(i)) {
    const auto number = static_cast<int>(k);
    if (state.forced ? state.fresh->count(number) == 0 : state.snapshots->count(number) == 0) wanted.push_back(k);
  }
  return wanted;
}

std::optional<InputChecks::Earlier> InputChecks::earlier_snapshot(std::size_t i,
                                                                  const std::vector<std::size_t>& snapshots) const {
  const Task& task = run_.task(i);
  const TaskStates::State& state = run_.states->at(i);
  if (!run_.options.resume || !task.stage->resumes || state.forced || snapshots.empty()) return std::nullopt;
  const std::int64_t limit = task.snapshots[snapshots.front()].step;
  const std::vector<std::int64_t> steps = run_.store.steps(state.key.hex());
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    if (*step >= limit) continue;
    auto result = run_.store.find({state.key.hex(), *step}, true);
    if (!result || result->status != ResultStatus::kDone || !run_.store.complete(*result, true)) continue;
    // Readers of a damaged one make it again.
    const bool unfit = std::any_of(result->outputs.begin(), result->outputs.end(),
                                   [&](const OutputRecord& output) { return names_any(output, unfit_); });
    if (!unfit) return Earlier{*step, *std::move(result)};
  }
  return std::nullopt;
}

void InputChecks::each_input(std::size_t i, const std::function<void(const OutputRecord&)>& take) const {
  for (const Edge& edge : run_.task(i).inputs) {
    const auto result = run_.states->result_of(edge);
    if (const OutputRecord* output = result ? result->output(edge.output) : nullptr) take(*output);
  }
}

std::vector<OutputRecord> InputChecks::unread(std::size_t i) const {
  std::vector<OutputRecord> outputs;
  const auto take = [&](const OutputRecord& output) {
    if (!run_.store.is_verified(output)) outputs.push_back(output);
  };
  each_input(i, take);
  if (const auto earlier = earlier_snapshot(i, wanted_snapshots(i)))
    std::for_each(earlier->result.outputs.begin(), earlier->result.outputs.end(), take);
  return outputs;
}

bool InputChecks::passed(std::size_t i) {
  if (!run_.options.check_inputs) return true;
  // Remembered until the task starts: it may be asked about many times before it gets a slot.
  if (!passed_[i]) passed_[i] = unread(i).empty();
  return passed_[i];
}

void InputChecks::begin(std::size_t i) {
  Reading reading;
  reading.started_s = run_.runner.now();
  reading.job.task = i;
  reading.job.number = ++last_number_;
  reading.job.outputs = unread(i);
  for (const OutputRecord& output : reading.job.outputs) reading.bytes += output.bytes;
  run_.states->set_phase(i, TaskPhase::kVerifying);
  VerifyJob job = reading.job;
  reading_[i] = std::move(reading);
  publisher_.submit(std::move(job));
}

void InputChecks::begin_again(std::size_t i, std::uint64_t ticket) {
  VerifyJob job;
  job.task = i;
  job.ticket = ticket;
  job.again = true;
  each_input(i, [&](const OutputRecord& output) { job.outputs.push_back(output); });
  publisher_.submit(std::move(job));
}

std::optional<std::set<std::string>> InputChecks::take(const VerifyAnswer& answer) {
  const auto reading = reading_.find(answer.job.task);
  if (reading == reading_.end() || reading->second.job.number != answer.job.number) return std::nullopt;
  reading_.erase(reading);
  std::set<std::string> damaged(answer.damaged.begin(), answer.damaged.end());
  unfit_.insert(damaged.begin(), damaged.end());
  if (damaged.empty()) return damaged;
  std::set<std::string> needed;
  each_input(answer.job.task, [&](const OutputRecord& output) {
    needed.insert(output.object);
    needed.insert(output.members.begin(), output.members.end());
  });
  std::erase_if(damaged, [&](const std::string& digest) { return needed.count(digest) == 0; });
  return damaged;
}

}  // namespace pe::pipeline
