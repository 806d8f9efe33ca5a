#include "commands/plan_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "artifact/collection.h"
#include "artifact/split.h"
#include "artifact/token_shards.h"
#include "commands/session.h"
#include "pipeline/orchestrator.h"
#include "support/error.h"
#include "support/files.h"
#include "support/text.h"

namespace pe::commands {

namespace {

using pipeline::DeviceTable;
using pipeline::Estimate;
using pipeline::Graph;
using pipeline::Plan;
using pipeline::Store;
using pipeline::Task;
using pipeline::TaskState;
using support::cat;

constexpr std::size_t kMostLines = 6;  // of sources, and of reasons for unknown times

bool counts(const Plan& plan, std::size_t i) {
  const TaskState state = plan.tasks[i].state;
  return (state == TaskState::kRun || state == TaskState::kBlocked) && !plan.tasks[i].same_as;
}

/// "trunk > decay > evaluate".
std::string chain_text(const Graph& graph, const Estimate& cost) {
  std::vector<std::string> labels;
  for (const std::size_t i : cost.chain) {
    if (labels.empty() || labels.back() != graph.tasks[i].label) labels.push_back(graph.tasks[i].label);
  }
  return support::join(labels, " > ");
}

std::string spent_text(const Graph& graph, const Plan& plan, const Estimate& cost, const pipeline::Capacity& capacity) {
  std::vector<std::string> parts;
  if (cost.known == 0) {
    parts.push_back("unknown: no such task ran here");
  } else {
    const std::string error = cost.compared ? fmt::format(" (+-{:.0f} %)", cost.error * 100) : "";
    const std::string slots =
        cost.gpu_s > 0 ? counted(capacity.gpus.size(), "GPU") : counted(static_cast<std::size_t>(capacity.cpus), "CPU");
    if (cost.gpu_s > 0)
      parts.push_back(
          fmt::format("GPU hours {}{}", support::with_commas(std::llround(std::ceil(cost.gpu_s / 3600))), error));
    else
      parts.push_back(cat("task time ", support::short_duration(cost.task_s), error));
    parts.push_back(cat("wall ", support::short_duration(cost.wall_s), " on ", slots));
    if (cost.chain.size() > 1)
      parts.push_back(cat("longest chain ", chain_text(graph, cost), " ", support::short_duration(cost.chain_s)));
  }
  std::string text = support::join(parts, "   ");
  if (cost.known && cost.unknown) text += cat("; excludes ", counted(cost.unknown, "task"), " of unknown cost");
  if (const std::size_t likely = plan.count(TaskState::kLikelyReuse))
    text += cat("; plus ", counted(likely, "task"), " if their inputs change");
  return text;
}

/// The entries with most tasks, a line each.
std::string lines_of(const char* name, const std::map<std::string, std::size_t>& entries) {
  std::vector<std::pair<std::size_t, std::string>> sorted;
  for (const auto& [text, tasks] : entries) sorted.emplace_back(tasks, text);
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string lines;
  for (std::size_t i = 0; i < sorted.size() && i < kMostLines; ++i)
    lines += fmt::format("{:<9}{}: {}\n", i == 0 ? name : "", counted(sorted[i].first, "task"), sorted[i].second);
  if (sorted.size() > kMostLines) lines += fmt::format("{:<9}and {} of other kinds\n", "", sorted.size() - kMostLines);
  return lines;
}

std::string disk_text(const Estimate& cost) {
  std::vector<std::string> parts;
  if (cost.snapshots) parts.push_back(cat(counted(cost.snapshots, "snapshot"), " at 12 bytes a parameter"));
  if (cost.ends) parts.push_back(cat(counted(cost.ends, "end"), " of trainings at 4 bytes a parameter"));
  std::string text = cat("+", support::short_bytes(cost.bytes));
  if (!parts.empty()) text += cat(": ", support::join(parts, ", "));
  if (cost.bytes_unknown) text += cat("; excludes ", counted(cost.bytes_unknown, "task"), " of unknown size");
  return text;
}

std::string memory_text(const std::vector<MemoryNeed>& needs, const DeviceTable& table) {
  std::vector<std::string> parts;
  for (const MemoryNeed& need : needs) {
    const std::string size = cat(support::short_count(need.parameters), " parameters ");
    if (need.measured) {
      parts.push_back(cat(size, support::shortest(need.measured->memory_gib), " GiB with ", need.measured->sequences,
                          " x ", support::with_commas(need.measured->length), " tokens",
                          need.measured->memory_gib > table.memory_gib ? ", too much" : ""));
    } else {
      parts.push_back(cat(size, "unknown"));
    }
  }
  return cat(support::join(parts, "; "), " (of ", support::shortest(table.memory_gib), " GiB)");
}

std::string epochs_text(const std::vector<Epochs>& all) {
  std::vector<std::string> parts;
  for (const Epochs& one : all) {
    if (!one.data) {
      parts.push_back(cat(one.label, " unknown before its data is in the store"));
    } else {
      parts.push_back(fmt::format("{} {:.2g} at most ({} of {} tokens)", one.label, one.tokens / *one.data,
                                  support::short_count(one.tokens), support::short_count(*one.data)));
    }
  }
  return support::join(parts, "; ");
}

/// Tokens for training in token shards of the store. Empty when they cannot be read: no plan fails for that.
std::optional<double> training_tokens_in(const Store& store, const pipeline::OutputRecord& output) {
  try {
    const fs::path manifest = store.object_path(output.object);
    const auto members = artifact::Manifest::parse(support::read_file(manifest), manifest.string());
    const artifact::Member* dataset = members.find("dataset.h5");
    if (!dataset) return std::nullopt;
    const auto totals = artifact::read_dataset_totals(store.object_path(dataset->file_digest));
    const double tokens = static_cast<double>(totals.splits[static_cast<std::size_t>(artifact::Split::kTrain)].tokens);
    return tokens > 0 ? std::optional(tokens) : std::nullopt;
  } catch (const support::Error&) {
    return std::nullopt;
  }
}

}  // namespace

pipeline::Capacity capacity_on_device(pipeline::Capacity capacity, bool gpus_named, const Graph& graph) {
  if (!gpus_named) capacity.gpus = {"0"};
  const auto gpus = static_cast<std::int64_t>(std::max<std::size_t>(1, capacity.gpus.size()));
  for (const Task& task : graph.tasks) {
    const std::int64_t at_once = task.resources.gpus > 0 ? gpus : 1;
    capacity.cpus = std::max(capacity.cpus, task.resources.cpus * at_once);
    capacity.mem_bytes = std::max(capacity.mem_bytes, task.resources.mem_bytes * at_once);
  }
  return capacity;
}

std::vector<Epochs> epochs_of(const Graph& graph, const Plan& plan, const Store& store) {
  std::map<std::string, std::optional<double>> tokens_in;  // by object
  std::map<std::string, Epochs> by_label;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const Task& task = graph.tasks[i];
    if (!counts(plan, i)) continue;
    const double last = task.is_trajectory() ? static_cast<double>(pipeline::last_needed_step(plan.tasks[i])) : 0;
    const auto tokens = last > 0 ? pipeline::trajectory_tokens(task, static_cast<std::int64_t>(last))
                                 : pipeline::own_tokens(graph, task).value_or(0);
    if (tokens <= 0) continue;
    for (const pipeline::Edge& edge : task.inputs) {
      const Task& producer = graph.tasks[edge.producer];
      const auto* described = producer.stage->find_output(edge.output);
      if (!described || described->kind != artifact::Kind::kTokenShards) continue;
      const auto& result = plan.tasks[edge.producer].result;
      const auto* output = plan.tasks[edge.producer].present && result ? result->output(edge.output) : nullptr;
      std::optional<double> data;
      if (output) {
        const auto [known, fresh] = tokens_in.try_emplace(output->object);
        if (fresh) known->second = training_tokens_in(store, *output);
        data = known->second;
      }
      Epochs& most = by_label[task.label];
      const auto share = [](const Epochs& one) { return one.data ? one.tokens / *one.data : 0; };
      const Epochs own{task.label, tokens, data};
      if (most.label.empty() || share(own) > share(most)) most = own;
    }
  }
  std::vector<Epochs> all;
  for (auto& [label, epochs] : by_label) all.push_back(std::move(epochs));
  return all;
}

std::vector<MemoryNeed> memory_of(const Graph& graph, const Plan& plan, const DeviceTable& table) {
  std::map<double, MemoryNeed> by_size;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (!counts(plan, i) || graph.tasks[i].resources.gpus <= 0 || !pipeline::own_tokens(graph, graph.tasks[i]))
      continue;
    const auto parameters = pipeline::model_costs(graph, graph.tasks[i]).parameters;
    if (!parameters) continue;
    MemoryNeed& need = by_size[*parameters];
    need.parameters = *parameters;
    ++need.tasks;
    const auto* nearest = table.nearest(*parameters);
    constexpr double kSame = 0.1;
    if (nearest && std::abs(nearest->parameters / *parameters - 1) < kSame) need.measured = nearest;
  }
  std::vector<MemoryNeed> needs;
  for (const auto& [size, need] : by_size) needs.push_back(need);
  return needs;
}

std::string cost_lines(const Graph& graph, const Plan& plan, const Store& store, const Estimate& cost,
                       const pipeline::Capacity& capacity, const DeviceTable* table) {
  std::string lines = cat("cost     ", spent_text(graph, plan, cost, capacity), "\n");
  if (cost.known) lines += lines_of("from", cost.sources);
  if (cost.known || table) lines += lines_of("unknown", cost.unknown_why);
  if (cost.other_encodings)
    lines += cat("guess    ", counted(cost.other_encodings, "task"), ": task time ",
                 support::short_duration(cost.other_encodings_s), " if their encodings are as fast as others\n");
  if (cost.bytes >= 1) lines += cat("disk     ", disk_text(cost), "\n");
  if (table) {
    if (const auto needs = memory_of(graph, plan, *table); !needs.empty())
      lines += cat("memory   ", memory_text(needs, *table), "\n");
  }
  const auto epochs = epochs_of(graph, plan, store);
  const bool known = std::any_of(epochs.begin(), epochs.end(), [](const Epochs& one) { return one.data.has_value(); });
  if (!epochs.empty() && (known || table)) lines += cat("epochs   ", epochs_text(epochs), "\n");
  return lines;
}

}  // namespace pe::commands
