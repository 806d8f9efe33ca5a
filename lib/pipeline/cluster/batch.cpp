#include "pipeline/cluster/batch.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "pipeline/run/run.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;

namespace {

std::string harmless_name(const std::string& text) {
  std::string name;
  for (const char c : text) name += std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' ? c : '_';
  return name.substr(0, 60);
}

/// Minutes, rounded up: what Slurm counts in.
std::int64_t minutes(double seconds) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(seconds / 60)));
}

std::int64_t mebibytes(std::int64_t bytes) { return std::max<std::int64_t>(1, (bytes + (1 << 20) - 1) >> 20); }

/// For a pattern of Slurm's, in which % begins a replacement.
std::string literal(const std::string& path) {
  std::string out;
  for (const char c : path) out += c == '%' ? std::string("%%") : std::string(1, c);
  return out;
}

std::int64_t shared_out(std::int64_t value, std::int64_t parts) { return (value + parts - 1) / parts; }

constexpr std::string_view kGres = "--gres=";

/// Options of the file. Of several --gres Slurm takes the last one, so they become one with `gres`, the GPUs of the
/// job.
void add_options(const std::vector<std::string>& options, std::string gres, std::vector<std::string>& words) {
  for (const std::string& option : options) {
    if (option.rfind(kGres, 0) == 0)
      gres += cat(gres.empty() ? "" : ",", option.substr(kGres.size()));
    else
      words.push_back(option);
  }
  if (!gres.empty()) words.push_back(cat(kGres, gres));
}

}  // namespace

std::string job_name(const std::string& label, const std::string& token) { return harmless_name(label) + "." + token; }

std::string dependency(const std::vector<ArrayNeed>& needs, const std::map<std::size_t, std::string>& jobs) {
  std::vector<std::string> parts;
  for (const auto& [kind, word] :
       {std::pair{ArrayNeed::Kind::kAfterCorr, "aftercorr"}, std::pair{ArrayNeed::Kind::kAfterOk, "afterok"},
        std::pair{ArrayNeed::Kind::kAfterAny, "afterany"}}) {
    std::string ids;
    for (const ArrayNeed& need : needs) {
      const auto job = jobs.find(need.array);
      if (need.kind != kind || job == jobs.end()) continue;
      if (need.indices.empty()) ids += ":" + job->second;
      for (const std::int64_t index : need.indices) ids += cat(":", job->second, "_", index);
    }
    if (!ids.empty()) parts.push_back(word + ids);
  }
  return support::join(parts, ",");
}

double JobArray::lead_s() const {
  const double time_s = resources.time_s > 0 ? resources.time_s : usual_time_s;
  // At most half of the time: the signal to stop must not come at the start.
  return time_s > 0 ? std::min(policy.signal_lead_s, std::floor(static_cast<double>(minutes(time_s)) * 30))
                    : policy.signal_lead_s;
}

std::vector<std::string> sbatch_options(const JobArray& array, const BatchPlace& place) {
  const SlurmPolicy& policy = array.policy;
  const Resources& resources = array.resources;
  std::vector<std::string> words = {
      cat("--job-name=", job_name(array.label, place.token)),
      cat("--comment=pe-pipeline:", place.run, ":", place.token), cat("--chdir=", place.folder),
      // Slurm would also replace %j and the like in the folder that a relative name is put behind.
      cat("--output=", literal(place.folder), "/jobs/", place.token, "_%a.log"), "--open-mode=append", "--requeue",
      cat("--array=", index_list(array.elements),
          policy.max_running > 0 ? cat("%", policy.max_running) : std::string()),
      cat("--nodes=", policy.nodes)};
  const std::int64_t gpus = static_cast<std::int64_t>(std::ceil(resources.gpus));
  if (policy.nodes > 1) {
    // A task a node for the launcher of ranks; it divides what it is given.
    words.push_back("--ntasks-per-node=1");
  } else {
    words.push_back("--ntasks=1");
  }
  words.push_back(cat("--cpus-per-task=", shared_out(resources.cpus, policy.nodes)));
  const std::int64_t mem = shared_out(mebibytes(resources.mem_bytes), policy.nodes);
  if (policy.memory == "per-node") words.push_back(cat("--mem=", mem, "M"));
  if (policy.memory == "per-cpu")
    words.push_back(cat("--mem-per-cpu=", shared_out(mem, shared_out(resources.cpus, policy.nodes)), "M"));
  std::string gres;
  if (gpus > 0) {
    const std::string type = policy.gpu_type.empty() ? "" : policy.gpu_type + ":";
    const std::int64_t each = shared_out(gpus, policy.nodes);
    if (policy.gpus == "gres")
      gres = cat("gpu:", type, each);
    else
      words.push_back(cat("--gpus-per-node=", type, each));
  }
  if (resources.time_s > 0) words.push_back(cat("--time=", minutes(resources.time_s)));
  words.push_back(cat("--signal=B:USR1@", static_cast<std::int64_t>(array.lead_s())));
  if (const std::string& partition = policy.partition(resources.name); !partition.empty())
    words.push_back(cat("--partition=", partition));
  if (!policy.account.empty()) words.push_back(cat("--account=", policy.account));
  if (!policy.qos.empty()) words.push_back(cat("--qos=", policy.qos));
  if (!policy.constraint.empty()) words.push_back(cat("--constraint=", policy.constraint));
  if (!policy.reservation.empty()) words.push_back(cat("--reservation=", policy.reservation));
  words.push_back(policy.keep_environment ? "--export=ALL" : "--export=NIL");
  add_options(policy.options, gres, words);
  return words;
}

std::string batch_script(const JobArray& array, const BatchPlace& place) {
  std::string script = "#!/bin/bash\n";
  for (const std::string& line : array.policy.setup) script += line + "\n";
  // In place of the shell, so that signals to the batch step come here.
  script += cat("exec ", shell_command(place.command), " \"$SLURM_ARRAY_TASK_ID\"\n");
  return script;
}

}  // namespace pe::pipeline
