#include "pipeline/file/slurm_policy.h"

#include <algorithm>
#include <utility>

#include "pipeline/file/policy_values.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::Diagnostics;
using support::Node;
using support::quote;
using support::Suffixes;

namespace {

/// Only `setup` may hold $(…), which the shell of a job reads.
void refuse_substitution(const std::string& key, const std::string& text, const support::Place& place,
                         Diagnostics& diagnostics) {
  if (text.find("$(") == std::string::npos) return;
  diagnostics.add(cat(quote(key), " of 'slurm' is no place for $(…), found ", quote(text)), place,
                  "write the value: `slurm` has no substitutions");
}

std::string word(const Node::Member& member, Diagnostics& diagnostics) {
  refuse_substitution(member.key, member.value.text, member.value.place(), diagnostics);
  if (member.value.is_scalar() && !member.value.text.empty() &&
      member.value.text.find_first_of("\n\r") == std::string::npos) {
    return member.value.text;
  }
  diagnostics.add(cat("expected a text for ", quote(member.key), ", found ", member.value.found()),
                  member.value.place());
  return "";
}

std::string one_of(const Node::Member& member, const std::vector<std::string>& known, Diagnostics& diagnostics) {
  const std::string found = member.value.is_scalar() ? member.value.text : "";
  if (std::find(known.begin(), known.end(), found) != known.end()) return found;
  std::string hint = support::suggestion(found, known);
  if (hint.empty()) hint = cat("expected one of ", support::join(known, ", "));
  diagnostics.add(cat(quote(member.key), " of 'slurm' cannot be ", member.value.found()), member.value.place(), hint);
  return known.front();
}

/// Options of sbatch that `submit` itself sets, or that would keep it from finding and steering its jobs; each with the
/// way out. Those at the end would replace what the pipeline file asks for: the plan would count with other resources.
struct ReservedOption {
  const char* name;
  const char* instead;
};
constexpr const char* kNameless = "leave it out: `submit` sets it, and finds its jobs again by it";
constexpr ReservedOption kReserved[] = {
    {"job-name", kNameless},
    {"array", kNameless},
    {"dependency", "leave it out: `submit` sets what each job waits for"},
    {"kill-on-invalid-dep", "leave it out: `submit` sets it"},
    {"output", "leave it out: `pe-pipeline logs` shows what a job prints"},
    {"error", "leave it out: `pe-pipeline logs` shows what a job prints"},
    {"chdir", "leave it out: `submit` sets it"},
    {"open-mode", "leave it out: `submit` sets it"},
    {"wrap", "leave it out: lines before the work go into `slurm.setup`"},
    {"clusters", "leave it out: jobs go to the Slurm of this machine; SLURM_CONF names another"},
    {"signal", "`slurm.signal_lead` sets the time between the signal and the end of the job"},
    {"requeue", "leave it out: `submit` asks for it"},
    {"no-requeue", "leave it out: a job that received a signal to stop is requeued to continue"},
    {"wait", "leave it out: `pe-pipeline status --watch` waits for the end"},
    {"test-only", "`pe-pipeline submit --print` shows what would be sent"},
    {"parsable", "leave it out: `submit` sets it"},
    {"uid", "leave it out: jobs belong to the user who submits"},
    {"time", "`resources.time` sets the time of a job; `slurm.time` is for resources without one"},
    {"mem", "`resources.mem` sets the memory; `slurm.memory` sets how Slurm is asked for it"},
    {"mem-per-cpu", "`resources.mem` sets the memory; `slurm.memory: per-cpu` asks for it by CPU"},
    {"mem-per-gpu", "`resources.mem` sets the memory"},
    {"cpus-per-task", "`resources.cpus` sets the CPUs"},
    {"cpus-per-gpu", "`resources.cpus` sets the CPUs"},
    {"ntasks", "leave it out: a job is one task on each of its nodes"},
    {"ntasks-per-node", "leave it out: a job is one task on each of its nodes"},
    {"nodes", "`slurm.nodes` sets the number of nodes"},
    {"gpus", "`resources.gpus` sets the GPUs, `slurm.gpu_type` their type"},
    {"gpus-per-node", "`resources.gpus` sets the GPUs, `slurm.gpu_type` their type"},
    {"gpus-per-task", "`resources.gpus` sets the GPUs, `slurm.gpu_type` their type"},
    {"partition", "`slurm.partition` sets the partition"},
    {"account", "`slurm.account` sets the account"},
    {"qos", "`slurm.qos` sets the quality of service"},
    {"constraint", "`slurm.constraint` sets the features of the nodes"},
    {"reservation", "`slurm.reservation` sets the reservation"},
    {"help", "see `sbatch --help`"},
    {"usage", "see `sbatch --help`"},
    {"version", "see `sbatch --version`"},
};

/// sbatch takes any beginning of a name that is no other option's, so that "--job=x" is --job-name.
const ReservedOption* reserved(const std::string& option) {
  const std::string name = option.substr(2, option.find('=') - 2);
  if (name.size() < 3) return nullptr;  // ambiguous: sbatch refuses it
  for (const ReservedOption& one : kReserved) {
    if (std::string_view(one.name).substr(0, name.size()) == name) return &one;
  }
  return nullptr;
}

void check_option(const std::string& option, const support::Place& place, Diagnostics& diagnostics) {
  refuse_substitution("options", option, place, diagnostics);
  if (option.rfind("--", 0) != 0) {
    diagnostics.add(cat("an entry of 'options' is one option of sbatch, found ", quote(option)), place,
                    "such as --exclude=node7");
  } else if (const ReservedOption* one = reserved(option)) {
    diagnostics.add(cat("'options' of 'slurm' cannot hold --", one->name, ", found ", quote(option)), place,
                    one->instead);
  } else if (option.rfind("--gres=", 0) == 0 && option.find("gpu") != std::string::npos) {
    diagnostics.add(cat("'options' of 'slurm' cannot ask for GPUs, found ", quote(option)), place,
                    "`resources.gpus` sets the GPUs, `slurm.gpu_type` their type");
  }
}

}  // namespace

const std::string& SlurmPolicy::partition(const std::string& resources) const {
  static const std::string none;
  const auto own = partitions.find(resources);
  if (own != partitions.end()) return own->second;
  const auto general = partitions.find("default");
  return general == partitions.end() ? none : general->second;
}

void read_slurm(const Node& map, bool of_stage, SlurmPolicy& policy, Diagnostics& diagnostics) {
  if (!is_map(map, "'slurm'", diagnostics)) return;
  static const std::vector<std::string> kOfStage{"partition",   "account",     "qos",    "constraint", "reservation",
                                                 "isa",         "memory",      "gpus",   "gpu_type",   "setup",
                                                 "options",     "environment", "run_on", "nodes",      "max_running",
                                                 "signal_lead", "time"};
  static const std::vector<std::string> kOfFile{"mode", "max_in_queue"};
  const std::map<std::string, std::string*> texts{{"account", &policy.account},         {"qos", &policy.qos},
                                                  {"constraint", &policy.constraint},   {"isa", &policy.isa},
                                                  {"reservation", &policy.reservation}, {"gpu_type", &policy.gpu_type}};
  for (const auto& member : map.members) {
    const std::string& key = member.key;
    if (const auto text = texts.find(key); text != texts.end()) {
      *text->second = word(member, diagnostics);
    } else if (key == "partition") {
      if (!member.value.is_map()) {
        policy.partitions = {{"default", word(member, diagnostics)}};
        continue;
      }
      for (const auto& one : member.value.members) policy.partitions[one.key] = word(one, diagnostics);
    } else if (key == "memory") {
      policy.memory = one_of(member, {"per-node", "per-cpu", "none"}, diagnostics);
    } else if (key == "gpus") {
      policy.gpus = one_of(member, {"gres", "per-node"}, diagnostics);
    } else if (key == "environment") {
      policy.keep_environment = one_of(member, {"keep", "clear"}, diagnostics) == "keep";
    } else if (key == "run_on" || key == "where") {  // `where` and `at_once` are the names in older files
      policy.here = one_of(member, {"job", "here"}, diagnostics) == "here";
    } else if (key == "nodes") {
      if (auto value = integer(member, Suffixes::kNone, 1, diagnostics, "2")) policy.nodes = *value;
    } else if (key == "max_running" || key == "at_once") {
      if (auto value = integer(member, Suffixes::kNone, 1, diagnostics, "16; leave it out for any number"))
        policy.max_running = *value;
    } else if (key == "signal_lead") {
      if (auto value = real(member, Suffixes::kSeconds, 0, diagnostics, "5m")) policy.signal_lead_s = *value;
    } else if (key == "time") {
      if (auto value = time_limit(member, diagnostics)) policy.time_s = *value;
    } else if (key == "setup") {
      policy.setup = words_of(member, diagnostics);
    } else if (key == "options") {
      policy.options = words_of(member, diagnostics);
      for (const std::string& option : policy.options) check_option(option, member.value.place(), diagnostics);
    } else if (!of_stage && key == "mode") {
      policy.mode = one_of(member, {"stage", "lane"}, diagnostics);
    } else if (!of_stage && key == "max_in_queue") {
      if (auto value = integer(member, Suffixes::kNone, 2, diagnostics, "2000")) policy.max_in_queue = *value;
    } else {
      if (of_stage && std::find(kOfFile.begin(), kOfFile.end(), key) != kOfFile.end()) {
        diagnostics.add(cat(quote(key), " belongs to the file's block 'slurm', not to a stage's"),
                        member.key_mark.place());
        continue;
      }
      std::vector<std::string> known = kOfStage;
      if (!of_stage) known.insert(known.end(), kOfFile.begin(), kOfFile.end());
      refuse_key(member, "'slurm'", known, diagnostics);
    }
  }
}

void set_slurm(PipelineFile& file, const std::string& key, Node value) {
  Node& block = file.slurm;
  block.kind = Node::Kind::kMap;
  const auto member = std::find_if(block.members.begin(), block.members.end(),
                                   [&](const Node::Member& known) { return known.key == key; });
  if (member != block.members.end()) {
    member->value = std::move(value);
    return;
  }
  const support::Mark mark = value.mark;
  block.members.push_back({key, mark, std::move(value)});
}

namespace {

/// The keys of a map of partitions are names of the file's resources.
void check_partitions(const PipelineFile& file, const Node& slurm, Diagnostics& diagnostics) {
  const Node* partitions = slurm.is_map() ? slurm.find("partition") : nullptr;
  if (!partitions || !partitions->is_map()) return;
  std::vector<std::string> known{"default"};
  for (const auto& resources : file.resources.members) known.push_back(resources.key);
  for (const auto& one : partitions->members) {
    if (std::find(known.begin(), known.end(), one.key) != known.end()) continue;
    diagnostics.add(cat("no resources ", quote(one.key), ", which 'partition' of 'slurm' names"), one.key_mark.place(),
                    support::suggestion(one.key, known));
  }
}

}  // namespace

const Node* signal_lead_of(const PipelineFile& file, const std::string& stage) {
  const StageDeclaration* node = file.find_stage(stage);
  for (const Node* block : {node ? &node->slurm : nullptr, &file.slurm}) {
    const Node* lead = block && block->is_map() ? block->find("signal_lead") : nullptr;
    if (lead) return lead;
  }
  return nullptr;
}

SlurmPolicies slurm_policies(const PipelineFile& file, Diagnostics& diagnostics) {
  SlurmPolicies policies;
  SlurmPolicy of_file;
  if (!file.slurm.is_null()) read_slurm(file.slurm, /*of_stage=*/false, of_file, diagnostics);
  check_partitions(file, file.slurm, diagnostics);
  for (const StageDeclaration& stage : file.stages) check_partitions(file, stage.slurm, diagnostics);
  for (const StageDeclaration& stage : file.stages) {
    SlurmPolicy& policy = policies[stage.label] = of_file;
    if (!stage.slurm.is_null()) read_slurm(stage.slurm, /*of_stage=*/true, policy, diagnostics);
  }
  return policies;
}

Json to_json(const SlurmPolicy& policy) {
  return {{"partitions", policy.partitions},
          {"account", policy.account},
          {"qos", policy.qos},
          {"constraint", policy.constraint},
          {"reservation", policy.reservation},
          {"isa", policy.isa},
          {"memory", policy.memory},
          {"gpus", policy.gpus},
          {"gpu_type", policy.gpu_type},
          {"nodes", policy.nodes},
          {"setup", policy.setup},
          {"options", policy.options},
          {"keep_environment", policy.keep_environment},
          {"here", policy.here},
          {"mode", policy.mode},
          {"max_running", policy.max_running},
          {"max_in_queue", policy.max_in_queue},
          {"signal_lead_s", policy.signal_lead_s},
          {"time_s", policy.time_s}};
}

}  // namespace pe::pipeline
