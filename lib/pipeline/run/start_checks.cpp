#include "pipeline/run/start_checks.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "pipeline/file/config_value.h"
#include "support/capture_within.h"
#include "support/error.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/parse_json.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::quote;

namespace {

constexpr double kCheckSecondsEach = 0.1;  // in addition to the patience, for each config
constexpr const char* kAnswers =
    R"(--check writes {"ok": true} or {"ok": false, "errors": ["…"]} for each, one a line)";

bool will_run(const Plan& plan, std::size_t i) {
  return plan.tasks[i].state == TaskState::kRun || plan.tasks[i].state == TaskState::kLikelyReuse;
}

}  // namespace

void refuse_impossible(const Graph& graph, const Plan& plan, const Capacity& capacity, const std::vector<bool>& only) {
  support::Diagnostics diagnostics;
  std::map<std::string, std::pair<std::string, std::size_t>> seen;  // message → (first id, count)
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (!will_run(plan, i) || (!only.empty() && !only[i])) continue;
    const std::string why = impossible(graph.tasks[i].resources, capacity);
    if (why.empty()) continue;
    auto [at, fresh] = seen.try_emplace(graph.tasks[i].label + "\n" + why, graph.tasks[i].id, 0);
    ++at->second.second;
  }
  for (const auto& [key, value] : seen) {
    const auto& [id, count] = value;
    diagnostics.add(cat(quote(id), count > 1 ? cat(" and ", count - 1, " more") : std::string(),
                        " cannot run here: ", key.substr(key.find('\n') + 1)));
  }
  diagnostics.throw_if_any();
}

namespace {

struct NamedWord {
  std::string text;
  bool quoted = false;
};

/// Texts in quotes, and outside of these names as fields have them, in order.
std::vector<NamedWord> named_words(const std::string& message) {
  std::vector<NamedWord> words;
  const auto is_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; };
  for (std::size_t at = 0; at < message.size();) {
    if (message[at] == '\'') {
      const std::size_t to = message.find('\'', at + 1);
      if (to == std::string::npos) break;
      words.push_back({message.substr(at + 1, to - at - 1), true});
      at = to + 1;
      continue;
    }
    std::size_t to = at;
    while (to < message.size() && is_name(message[to])) ++to;
    if (to > at) {
      const std::size_t end = message.find_last_not_of('.', to - 1);  // a full stop is no part of a name
      words.push_back({message.substr(at, end == std::string::npos || end < at ? 0 : end + 1 - at), false});
    }
    at = std::max(to, at + 1);
  }
  return words;
}

/// The dotted path, below `path`, of a text that is this value; empty when there is none.
std::string path_of_value(const Json& config, const std::string& path, const std::string& value) {
  if (config.is_string()) return config == value ? path : "";
  if (!config.is_structured()) return "";
  for (const auto& [key, member] : config.items()) {
    const std::string below = config.is_object() ? cat(path, ".", key) : path;
    if (std::string found = path_of_value(member, below, value); !found.empty()) return found;
  }
  return "";
}

/// Where the field that a message blames was set. Its path is in quotes or has a dot ("train.peak_lr must be …"). If a
/// group is in quotes ("in 'model': heads must divide width"), it is the first field of it that is named, or holds a
/// value in quotes.
support::Place place_named_in(const std::string& message, const Json& config, const support::Origins& origins) {
  const auto at_or_below = [&](const std::string& path) -> const support::Place* {
    const auto found = origins.lower_bound(path);
    if (found == origins.end()) return nullptr;
    return found->first == path || found->first.starts_with(path + ".") ? &found->second : nullptr;
  };
  std::string group;
  const support::Place* first_dotted = nullptr;
  for (const NamedWord& word : named_words(message)) {
    const Json* value = word.text.empty() ? nullptr : find_value(config, word.text);
    if (word.quoted && value && value->is_object() && group.empty() && origins.count(word.text) == 0 &&
        word.text.find('.') == std::string::npos) {
      group = word.text;
      continue;
    }
    const bool dotted = word.text.find('.') != std::string::npos;
    if ((word.quoted || dotted) && group.empty()) {
      const auto* place = at_or_below(word.text);
      // Of two fields that do not go together, the one on the command line is probably wrong.
      if (place && (word.quoted || place->file.starts_with("--set"))) return *place;
      if (place && !first_dotted) first_dotted = place;
    }
    if (group.empty()) continue;
    for (const std::string& path : {cat(group, ".", word.text), cat(group, ".", word.text, "s")}) {
      if (const auto* place = at_or_below(path)) return *place;
    }
    const std::string path = word.quoted ? path_of_value(config.at(group), group, word.text) : "";
    if (const auto* place = path.empty() ? nullptr : at_or_below(path)) return *place;
  }
  return first_dotted ? *first_dotted : support::Place();
}

}  // namespace

namespace {

/// The answers of a stage to its configs, in order, one a line: {"ok": true} or {"ok": false, "errors": ["…"]}.
class Answers {
 public:
  Answers(const Graph& graph, const std::vector<std::size_t>& tasks, const support::CapturedOutput& captured)
      : graph_(graph), tasks_(tasks) {
    for (const std::string& line : support::split(captured.out, '\n')) {
      const Json answer = support::parse_json(line, support::kForeignJson);
      if (!answer.is_object() || answered_ >= tasks.size()) continue;
      take(answer, tasks[answered_++]);
    }
  }

  /// The refusals, without duplicates.
  std::vector<support::Diagnostic> refusals() const {
    std::vector<support::Diagnostic> diagnostics;
    for (const auto& [message, where] : refused_) {
      const std::string more = where.second > 1 ? cat(" and ", where.second - 1, " more") : std::string();
      diagnostics.push_back(
          {cat(graph_.tasks[where.first].id, more, ": ", message),
           place_named_in(message, *graph_.tasks[where.first].config, graph_.origins_of(graph_.tasks[where.first])),
           {},
           {}});
    }
    return diagnostics;
  }
  bool complete() const { return answered_ == tasks_.size(); }
  std::size_t answered() const { return answered_; }

 private:
  void take(const Json& answer, std::size_t task) {
    const auto ok = answer.find("ok"), errors = answer.find("errors");
    bool told = false;
    if (errors != answer.end() && errors->is_array()) {
      for (const Json& error : *errors) {
        refuse(error.is_string() ? error.get<std::string>() : "an error that is no text", task);
        told = true;
      }
    }
    if (!told && (ok == answer.end() || !ok->is_boolean() || !ok->get<bool>()))
      refuse("its config is refused, without a reason", task);
  }
  void refuse(const std::string& message, std::size_t task) {
    ++refused_.try_emplace(message, task, 0).first->second.second;
  }

  const Graph& graph_;
  const std::vector<std::size_t>& tasks_;
  std::map<std::string, std::pair<std::size_t, std::size_t>> refused_;  // message → (first task, how many)
  std::size_t answered_ = 0;
};

}  // namespace

namespace {

using ByExecutable = std::map<std::string, std::vector<std::size_t>>;

ByExecutable tasks_by_executable(const Graph& graph, const Plan& plan) {
  ByExecutable by_executable;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (will_run(plan, i) && !graph.tasks[i].stage->executable.empty())
      by_executable[graph.tasks[i].stage->executable].push_back(i);
  }
  return by_executable;
}

/// False when it was asked to stop.
bool ask_to_check(const std::string& executable, const Graph& graph, const std::vector<std::size_t>& tasks,
                  double patience_s, const std::function<int()>& stop) {
  std::string lines;
  for (const std::size_t i : tasks) lines += graph.tasks[i].config->dump() + "\n";
  const double limit_s = patience_s + kCheckSecondsEach * static_cast<double>(tasks.size());
  const auto asked_to_stop = [&] { return stop && stop() > 0; };
  const auto captured =
      support::capture_within({executable, "--check"}, {.timeout_s = limit_s, .input = lines, .stop = asked_to_stop});
  if (captured.stopped) return false;
  if (captured.timed_out) {
    throw support::ConfigError(
        cat(quote(executable), " did not answer --check within ", support::short_duration(limit_s)), {},
        "a stage reads configs from standard input, one a line, until it ends");
  }
  if (captured.overlong)
    throw support::ConfigError(cat(quote(executable), " prints without end when asked to --check configs"), {},
                               kAnswers);
  const Answers answers(graph, tasks, captured);
  auto diagnostics = answers.refusals();
  const std::string program = std::filesystem::path(executable).filename().string();
  if (diagnostics.empty() && captured.status.code != 0) {
    const std::string text(support::trim(captured.err.empty() ? captured.out : captured.err));
    diagnostics.push_back(
        {cat(program, " refuses a config (exit code ", captured.status.code, "):\n", text), {}, {}, {}});
  } else if (diagnostics.empty() && !answers.complete()) {
    diagnostics.push_back(
        {cat(program, " answered ", answers.answered(), " of ", tasks.size(), " configs"), {}, kAnswers, {}});
  }
  if (!diagnostics.empty()) throw support::ConfigError(std::move(diagnostics));
  return true;
}

constexpr std::size_t kMostRemembered = 100;

std::vector<std::string> accepted_before(const std::filesystem::path& memo) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(memo, error)) return {};
  try {
    return support::split(support::read_file(memo, 1u << 20), '\n');
  } catch (const support::IoError&) {
    return {};
  }
}

}  // namespace

void check_configs(const Graph& graph, const Plan& plan, double patience_s, const std::function<int()>& stop) {
  for (const auto& [executable, tasks] : tasks_by_executable(graph, plan)) {
    if (!ask_to_check(executable, graph, tasks, patience_s, stop)) return;
  }
}

void check_some_configs(const Graph& graph, const Plan& plan, const std::filesystem::path& store, std::size_t most) {
  ByExecutable chosen;
  support::Sha256 hash;
  for (const auto& [executable, tasks] : tasks_by_executable(graph, plan)) {
    std::set<const Json*> seen;
    std::vector<std::size_t> different;
    for (const std::size_t i : tasks) {
      if (seen.insert(&*graph.tasks[i].config).second) different.push_back(i);
    }
    std::vector<std::size_t>& some = chosen[executable];
    const std::size_t count = std::min(most, different.size());
    for (std::size_t k = 0; k < count; ++k) some.push_back(different[k * different.size() / count]);
    hash.update(cat(executable, "\n", graph.tasks[tasks.front()].stage->program_digest, "\n"));
    for (const std::size_t i : some) {
      hash.update(graph.tasks[i].config->dump() + "\n");
      // Stages may read the files that their configs name, such as a file of claims.
      for (const ExternalInput& external : graph.tasks[i].externals) {
        for (const support::FileRead& read : external.content->reads) hash.update(read.sha256 + "\n");
      }
    }
  }
  const std::string digest = hash.hex();
  const std::filesystem::path memo = store / "memo" / "checked";
  std::vector<std::string> known = accepted_before(memo);
  if (std::find(known.begin(), known.end(), digest) != known.end()) return;
  for (const auto& [executable, tasks] : chosen) ask_to_check(executable, graph, tasks, kCheckPatienceS, {});
  known.insert(known.begin(), digest);
  known.resize(std::min(known.size(), kMostRemembered));
  std::error_code error;
  if (!std::filesystem::is_directory(store, error)) return;  // a plan begins no store
  try {
    support::make_folders(memo.parent_path());
    support::write_file_atomically(memo, support::join(known, "\n"), false);
  } catch (const support::Error&) {
    // Nothing is lost but time.
  }
}

}  // namespace pe::pipeline
