#include <algorithm>
#include <map>
#include <set>

#include "artifact/collection.h"
#include "artifact/header.h"
#include "cli/terminal.h"
#include "commands/chosen.h"
#include "commands/chosen_report.h"
#include "commands/commands.h"
#include "commands/diff_text.h"
#include "commands/report_diff.h"
#include "commands/run_choice.h"
#include "commands/session.h"
#include "pipeline/orchestrator.h"
#include "support/config.h"
#include "support/error.h"
#include "support/files.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::commands {

namespace {

using artifact::Difference;
using pipeline::Inventory;
using pipeline::OutputRecord;
using pipeline::Record;
using pipeline::Store;
using support::cat;
using support::ConfigError;
using support::quote;

/// One side of a comparison: how it was made, and its contents.
struct Side {
  std::string name;
  std::string stage;
  int version = 0;
  Json config;
  std::map<std::string, std::vector<std::string>> inputs;  // role → content digests
  std::map<std::string, fs::path> artifacts;               // role → file or folder; "" of a bare file
  std::map<std::string, std::string> contents;             // role → content digest, where it is known
};

Side side_of_path(const fs::path& path) {
  Side side;
  side.name = path.string();
  side.artifacts[""] = path;
  artifact::Recipe recipe;
  const bool folder = fs::is_directory(path);
  if (folder) {
    recipe = artifact::Manifest::read(path).recipe;
  } else if (artifact::h5::looks_like_hdf5(path)) {
    const artifact::h5::File file = artifact::h5::File::open(path);
    if (!file.root().has("pe")) return side;  // somebody else's HDF5: only its datasets are compared
    recipe = artifact::read_recipe(file);
  }
  side.stage = recipe.stage;
  side.version = recipe.version;
  side.config = recipe.config;
  if (recipe.inputs.is_object()) {
    for (const auto& [role, digests] : recipe.inputs.items()) {
      if (!digests.is_array()) continue;
      for (const Json& digest : digests)
        side.inputs[role].push_back(digest.is_string() ? digest.get<std::string>() : digest.dump());
    }
  }
  return side;
}

/// Collections are shown as folders of links, which live as long as this does.
class Links {
 public:
  Links() = default;
  Links(const Links&) = delete;
  ~Links() {
    std::error_code ignored;
    for (const fs::path& folder : folders_) fs::remove_all(folder, ignored);
  }
  fs::path add(const Store& store, const OutputRecord& output) {
    if (!output.collection) return store.object_path(output.object);
    const fs::path folder = support::unique_sibling(fs::temp_directory_path() / "pe-diff");
    folders_.push_back(folder);
    return store.materialise(output, folder);
  }

 private:
  std::vector<fs::path> folders_;
};

Side side_of_record(const Store& store, const Record& record, const std::string& digits, Links& links) {
  Side side;
  side.name = record.key.is_snapshot() ? cat(record.task, "@", record.key.step) : record.task;
  side.stage = record.stage;
  side.version = record.version;
  side.config = record.config;
  for (const auto& input : record.inputs) side.inputs[input.role].push_back(input.digest);
  const bool one =
      !digits.empty() && std::any_of(record.outputs.begin(), record.outputs.end(), [&](const OutputRecord& output) {
        return output.object.rfind(digits, 0) == 0 || output.content.rfind(digits, 0) == 0;
      });
  for (const OutputRecord& output : record.outputs) {
    // Digits of an output mean that output alone.
    if (one && output.object.rfind(digits, 0) != 0 && output.content.rfind(digits, 0) != 0) continue;
    side.contents[output.role] = output.content;
    if (store.has_object(output.object)) side.artifacts[output.role] = links.add(store, output);
  }
  return side;
}

Json config_json(const std::vector<support::Difference>& differences) {
  Json json = Json::array();
  for (const auto& each : differences)
    json.push_back({{"path", each.path}, {"first", each.before}, {"second", each.after}});
  return json;
}

/// Differences of the recipes, apart from their inputs.
std::string recipe_text(const Side& a, const Side& b, Json& json) {
  std::string out;
  if (!a.stage.empty() && !b.stage.empty() && (a.stage != b.stage || a.version != b.version)) {
    json["stage"] = {{"first", cat(a.stage, " ", a.version)}, {"second", cat(b.stage, " ", b.version)}};
    out += cat("stage     pe-", a.stage, " (result version ", a.version, ") -> pe-", b.stage, " (result version ",
               b.version, ")\n");
  }
  const auto configs = support::differences(a.config.is_object() ? a.config : Json::object(),
                                            b.config.is_object() ? b.config : Json::object());
  json["config"] = config_json(configs);
  for (const auto& each : configs) out += cat("config    ", config_difference_text(each), "\n");
  return out;
}

std::string inputs_text(const Side& a, const Side& b, Json& json) {
  std::string out;
  json["inputs"] = Json::array();
  std::set<std::string> roles;
  for (const auto& [role, digests] : a.inputs) roles.insert(role);
  for (const auto& [role, digests] : b.inputs) roles.insert(role);
  const std::vector<std::string> none;
  for (const std::string& role : roles) {
    const auto& x = a.inputs.count(role) != 0 ? a.inputs.at(role) : none;
    const auto& y = b.inputs.count(role) != 0 ? b.inputs.at(role) : none;
    if (x == y) continue;
    json["inputs"].push_back({{"role", role}, {"first", x}, {"second", y}});
    const auto shown = [](const std::vector<std::string>& digests) {
      if (digests.empty()) return std::string("(none)");
      return digests.size() == 1 ? digests.front().substr(0, 12) : cat(digests.size(), " artifacts");
    };
    std::size_t apart = 0;
    for (std::size_t i = 0; i < std::max(x.size(), y.size()); ++i)
      apart += i >= x.size() || i >= y.size() || x[i] != y[i] ? 1u : 0u;
    out += cat("input     ", role, ": ", shown(x), " -> ", shown(y), x.size() > 1 ? cat(", ", apart, " differ") : "",
               "\n");
  }
  return out;
}

/// Roles of both sides that are compared with each other, by the role that is shown.
/// Two bare files meet whatever their roles are called; so does a file with a record's only output.
std::map<std::string, std::pair<std::string, std::string>> pairs_of(const Side& a, const Side& b) {
  std::map<std::string, std::pair<std::string, std::string>> pairs;
  if (a.artifacts.size() == 1 && b.artifacts.size() == 1) {
    pairs[a.artifacts.begin()->first] = {a.artifacts.begin()->first, b.artifacts.begin()->first};
  } else {
    for (const auto& [role, path] : a.artifacts) pairs[role] = {role, role};
    for (const auto& [role, path] : b.artifacts) pairs[role] = {role, role};
    for (const auto& [role, content] : a.contents) pairs[role] = {role, role};
    for (const auto& [role, content] : b.contents) pairs[role] = {role, role};
  }
  return pairs;
}

/// Compares two artifacts that can be read; `label` is padded.
std::string artifacts_text(const fs::path& first, const fs::path& second, const artifact::DiffOptions& options,
                           const std::string& label, Json& each, const cli::Style& style) {
  const artifact::ArtifactDiff diff = artifact::diff_artifacts(first, second, options);
  each["same"] = diff.same();
  each["compared"] = diff.compared;
  each["differences"] = differences_json(diff);
  std::optional<Json> x_report, y_report;
  if (!diff.same() && options.only.empty()) {
    x_report = report_json(first);
    y_report = report_json(second);
  }
  if (diff.same() && diff.compared == 0 && !options.only.empty())
    return cat(label, "holds nothing at ", support::join(options.only, ", "), "\n");
  if (diff.same())
    return cat(label, style.good("same"), options.ulp > 0 ? cat(" within ", options.ulp, " ULP") : std::string(),
               options.only.empty() ? "" : ", in the compared parts", " (", diff.compared, " compared)\n");
  if (x_report && y_report) {
    const Json changes = report_differences(*x_report, *y_report);
    each["report"] = changes;
    return report_differences_text(changes, style);
  }
  return cat(label,
             style.bad(cat(diff.differences.size(), diff.differences.size() == 1 ? " difference" : " differences")),
             " (", diff.compared, " compared)\n", differences_text(diff, "  ", 40));
}

/// Compares two sides; true when they are the same in content.
bool compare(const Side& a, const Side& b, const artifact::DiffOptions& options, Json& json, std::string& out,
             const cli::Style& style) {
  bool same = true;
  json["first"] = a.name;
  json["second"] = b.name;
  out += recipe_text(a, b, json);
  out += inputs_text(a, b, json);
  json["artifacts"] = Json::array();
  for (const auto& [name, roles_of] : pairs_of(a, b)) {
    const auto& [x, y] = roles_of;
    Json each{{"role", name}};
    std::string label = name.empty() ? "content" : name;
    label.append(label.size() < 10 ? 10 - label.size() : 1, ' ');
    if (a.artifacts.count(x) != 0 && b.artifacts.count(y) != 0) {
      out += artifacts_text(a.artifacts.at(x), b.artifacts.at(y), options, label, each, style);
    } else {
      const bool equal = a.contents.count(x) != 0 && b.contents.count(y) != 0 && a.contents.at(x) == b.contents.at(y);
      each["same"] = equal;
      each["note"] = equal ? "same content; an object is gone" : "only one of them can be read";
      out += cat(label, each["note"].get<std::string>(), "\n");
    }
    same = same && each["same"].get<bool>();
    json["artifacts"].push_back(std::move(each));
  }
  const auto holds_some = [](const Json& each) { return each.value("compared", 1) != 0; };
  if (!options.only.empty() && std::none_of(json["artifacts"].begin(), json["artifacts"].end(), holds_some))
    throw ConfigError(cat("neither side holds anything at ", support::join(options.only, ", ")),
                      {"--only", 0, 0, "", 1}, "without --only, diff lists the paths that differ");
  json["same"] = same;
  return same;
}

// ---- runs -----------------------------------------------------------------------------------------------------------

/// The results of a run, task by task.
struct RunTasks {
  pipeline::RunStatus status;
  std::map<std::string, pipeline::TaskStatus> tasks;
};

RunTasks tasks_of(const Store& store, const std::string& id) {
  RunTasks run{pipeline::read_run(store, id), {}};
  for (const auto& task : run.status.tasks) run.tasks.emplace(task.id, task);
  return run;
}

std::optional<Record> record_of(const Store& store, const pipeline::TaskStatus& task) {
  const std::string key = task.task_key.empty() ? store.hint(task.plan_key).value_or("") : task.task_key;
  if (key.empty()) return std::nullopt;
  if (auto record = store.read({key, -1}, true)) return record;
  const auto steps = store.steps(key);
  if (steps.empty()) return std::nullopt;
  return store.read({key, steps.back()}, true);
}

/// Says in words, and in `json`, how the recipes of two results of one task differ.
std::string cause_of_difference(const Record& x, const Record& y, bool equal, Json& json) {
  std::string cause;
  if (x.version != y.version) cause += cat("result version ", x.version, " -> ", y.version, "; ");
  const auto configs = support::differences(x.config, y.config);
  json["config"] = config_json(configs);
  for (const auto& difference : configs) cause += config_difference_text(difference) + "; ";
  std::set<std::string> inputs;
  for (std::size_t i = 0; i < std::max(x.inputs.size(), y.inputs.size()); ++i) {
    const bool in_first = i < x.inputs.size(), in_second = i < y.inputs.size();
    if (!in_first || !in_second || x.inputs[i].digest != y.inputs[i].digest)
      inputs.insert(in_first ? x.inputs[i].role : y.inputs[i].role);
  }
  json["inputs"] = inputs;
  if (!inputs.empty()) cause += cat("input ", support::join({inputs.begin(), inputs.end()}, ", "), "; ");
  if (cause.empty()) cause = "files that its config names; ";
  cause += equal ? "the same content came out" : "other content came out";
  return cause;
}

std::string listed_ids(const std::string& title, const std::vector<std::string>& ids) {
  if (ids.empty()) return "";
  std::string out = title + "\n";
  for (std::size_t i = 0; i < ids.size() && i < 5; ++i) out += cat("  ", ids[i], "\n");
  if (ids.size() > 5) out += cat("  and ", ids.size() - 5, " more\n");
  return out;
}

int diff_runs(const cli::CommandLine& line, const Store& store, const std::string& first, const std::string& second) {
  const RunTasks a = tasks_of(store, first), b = tasks_of(store, second);
  const cli::Style style = out_style(line);
  Json json{{"schema", "pe-diff/1"},       {"schema_version", 1},          {"first", first},        {"second", second},
            {"only_first", Json::array()}, {"only_second", Json::array()}, {"tasks", Json::array()}};
  std::size_t same = 0;
  // Tasks that differ in the same way are listed together.
  std::map<std::string, std::vector<std::string>> causes;
  for (const auto& [id, task] : a.tasks) {
    const auto other = b.tasks.find(id);
    if (other == b.tasks.end()) {
      json["only_first"].push_back(id);
      continue;
    }
    const auto x = record_of(store, task), y = record_of(store, other->second);
    Json each{{"task", id}, {"first", task.task_key}, {"second", other->second.task_key}};
    if (!x || !y) {
      each["note"] = !x && !y ? "neither has a result" : !x ? "the first has no result" : "the second has no result";
      causes[each["note"]].push_back(id);
      json["tasks"].push_back(std::move(each));
      continue;
    }
    const bool equal = same_contents(*x, *y);
    if (x->key == y->key || (equal && x->config == y->config)) {
      ++same;
      continue;
    }
    each["same_content"] = equal;
    const std::string cause = cause_of_difference(*x, *y, equal, each);
    causes[cause].push_back(id);
    json["tasks"].push_back(std::move(each));
  }
  for (const auto& [id, task] : b.tasks) {
    if (a.tasks.count(id) == 0) json["only_second"].push_back(id);
  }
  json["same"] = same;
  const bool equal = causes.empty() && json["only_first"].empty() && json["only_second"].empty();
  if (line.json) {
    print_json(json);
    return equal ? pipeline::kRunDone : pipeline::kRunFailed;
  }
  print(cat(style.bold(first), " and ", style.bold(second), ": ", counted(same, "task"), " the same\n"));
  for (const auto& [cause, ids] : causes) print(listed_ids(cat(counted(ids.size(), "task"), "  ", cause), ids));
  print(listed_ids(cat("only in ", first), json["only_first"].get<std::vector<std::string>>()));
  print(listed_ids(cat("only in ", second), json["only_second"].get<std::vector<std::string>>()));
  return equal ? pipeline::kRunDone : pipeline::kRunFailed;
}

/// A value on part of a line.
std::string value_text(const Json& value) {
  constexpr int kColumns = 80;
  return cli::fit(cli::harmless(support::display(value)), kColumns);
}

/// "47 fewer (first: rope)".
std::string elements_text(std::size_t count, const std::string& kind, const Json& first) {
  return cat(support::with_commas(static_cast<std::int64_t>(count)), " ", kind, " (", count > 1 ? "first: " : "",
             value_text(first), ")");
}

/// Which elements are in one of two different lists only; how often counts, and where does not.
std::string list_difference_text(const Json& before, const Json& after) {
  std::map<Json, std::ptrdiff_t> balance;
  for (const Json& element : before) ++balance[element];
  for (const Json& element : after) --balance[element];
  std::vector<std::string> parts;
  const auto add = [&](const Json& list, std::ptrdiff_t sign, const std::string& kind) {
    std::size_t count = 0;
    const Json* first = nullptr;
    for (const Json& element : list) {
      std::ptrdiff_t& left = balance.at(element);
      if (left * sign <= 0) continue;
      left -= sign;
      ++count;
      if (!first) first = &element;
    }
    if (first) parts.push_back(elements_text(count, kind, *first));
  };
  add(before, 1, "fewer");
  add(after, -1, "more");
  return parts.empty() ? "another order" : support::join(parts, ", ");
}

}  // namespace

std::string differences_text(const artifact::ArtifactDiff& diff, const std::string& indent, std::size_t most) {
  std::string out;
  for (std::size_t i = 0; i < diff.differences.size() && i < most; ++i) {
    const Difference& each = diff.differences[i];
    out += cat(indent, each.path, ": ");
    switch (each.what) {
      case Difference::What::kOnlyInFirst:
        out += cat("only in the first (", each.first, ")");
        break;
      case Difference::What::kOnlyInSecond:
        out += cat("only in the second (", each.second, ")");
        break;
      case Difference::What::kType:
      case Difference::What::kShape:
      case Difference::What::kAttribute:
        out += cat(each.first.empty() ? "(none)" : each.first, " -> ", each.second.empty() ? "(none)" : each.second);
        break;
      case Difference::What::kBytes:
        out += cat(support::with_commas(static_cast<std::int64_t>(each.differing)), " bytes differ, the first at ",
                   each.where, " (", each.first, "; ", each.second, ")");
        break;
      case Difference::What::kValues: {
        out += cat(support::with_commas(static_cast<std::int64_t>(each.differing)), " of ",
                   support::with_commas(static_cast<std::int64_t>(each.elements)), " differ");
        if (each.largest_ulp == Difference::kFar)
          out += ", NaN against a number";
        else if (each.largest_ulp > 0)
          out +=
              cat(", at most ",
                  support::with_commas(static_cast<std::int64_t>(std::min<std::uint64_t>(each.largest_ulp, INT64_MAX))),
                  " ULP");
        if (each.largest_absolute > 0) out += cat(", by at most ", fmt::format("{:.3g}", each.largest_absolute));
        out += cat("; [", each.where, "] ", each.first, " -> ", each.second);
        break;
      }
    }
    out += "\n";
  }
  if (diff.differences.size() > most) out += cat(indent, "and ", diff.differences.size() - most, " more\n");
  return cli::harmless(out);
}

std::string config_difference_text(const support::Difference& difference) {
  const Json &before = difference.before, &after = difference.after;
  if (before.is_array() && after.is_array()) return cat(difference.path, ": ", list_difference_text(before, after));
  const auto shown = [](const Json& value) {
    if (value.is_null()) return std::string("(none)");
    if (value.is_array() && value.size() > 1) return elements_text(value.size(), "elements", value.front());
    return value_text(value);
  };
  return cat(difference.path, ": ", shown(before), " -> ", shown(after));
}

Json differences_json(const artifact::ArtifactDiff& diff) {
  Json list = Json::array();
  for (const Difference& each : diff.differences) {
    Json json{{"what", what_name(each.what)}, {"path", each.path}, {"first", each.first}, {"second", each.second}};
    if (each.what == Difference::What::kValues || each.what == Difference::What::kBytes) {
      json["elements"] = each.elements;
      json["differing"] = each.differing;
      json["where"] = each.where;
    }
    if (each.what == Difference::What::kValues) {
      json["largest_ulp"] = each.largest_ulp == Difference::kFar ? Json(nullptr) : Json(each.largest_ulp);
      json["largest_absolute"] = each.largest_absolute;
    }
    list.push_back(std::move(json));
  }
  return list;
}

namespace {

/// The two sides of a comparison. The store is opened when a side needs it.
class Sides {
 public:
  Sides(const cli::CommandLine& line, const Scope& scope) : line_(line), scope_(scope) {}

  const Store& store() {
    if (!store_) store_.emplace(open_for_reading(scope_.store));
    return *store_;
  }

  Side side(const std::string& word) {
    if (names_a_path(word, scope_.file)) return side_of_path(word);
    const pipeline::StoredResult& newest = newest_result(word);
    const auto record = store().read(newest.key);
    if (!record) throw support::ArtifactError(cat("the record of ", word, " went away"));
    const bool digits = word.size() >= 4 && word.find_first_not_of("0123456789abcdef") == std::string::npos;
    return side_of_record(store(), *record, digits ? word : "", links_);
  }

  void print_store_warnings() {
    if (store_) print_warnings(*store_);
  }

 private:
  /// An id may have had several results: the newest, of the pipeline that a file names. Of snapshots the last.
  const pipeline::StoredResult& newest_result(const std::string& word) {
    if (!inventory_) inventory_ = pipeline::read_inventory(store());
    const auto& results = inventory_->results;
    std::vector<std::size_t> found = pipeline::select_results(*inventory_, {word});
    if (!scope_.file.empty() && store().matching(word).empty())
      found = results_of_pipeline(line_, scope_, store(), *inventory_, found, word);
    if (!line_.run.empty()) {
      const std::string run = pick_run(store(), line_.run, scope_.file);
      std::erase_if(found, [&](std::size_t i) { return results[i].run != run; });
      if (found.empty())
        throw ConfigError(cat("run ", run, " made no result of ", quote(word)), {"--run", 0, 0, "", 1});
    }
    const pipeline::StoredResult& newest =
        results[*std::max_element(found.begin(), found.end(), [&](std::size_t a, std::size_t b) {
          return std::pair(results[a].ended, results[a].key.step) < std::pair(results[b].ended, results[b].key.step);
        })];
    std::set<std::string> tasks;
    for (const std::size_t i : found) tasks.insert(results[i].task);
    if (tasks.size() > 1) {
      throw ConfigError(
          cat(quote(word), " is ambiguous: ", found.size(), " results"), {},
          cat("as ", *tasks.begin(), " and ", *std::next(tasks.begin()), "; give the whole id or more digits"));
    }
    const bool mixed =
        std::any_of(found.begin(), found.end(), [&](std::size_t i) { return results[i].pipeline != newest.pipeline; });
    const auto made_by = [&](const pipeline::StoredResult& result) {
      return cat("run ", result.run, mixed ? " of " + quote(result.pipeline) : "");
    };
    std::map<std::string, std::string> others;  // key → run and pipeline
    for (const std::size_t i : found) others[results[i].key.key] = made_by(results[i]);
    others.erase(newest.key.key);
    if (!others.empty()) {
      std::vector<std::string> named;
      for (const auto& [key, maker] : others) named.push_back(cat(key.substr(0, 12), " (", maker, ")"));
      say(cat("pe-pipeline: ", word, " is the newest of ", others.size() + 1, " results, of ", made_by(newest),
              "; others: ", support::join(named, ", "), "\n"));
    }
    return newest;
  }

  const cli::CommandLine& line_;
  const Scope& scope_;
  Links links_;
  std::optional<Store> store_;
  std::optional<Inventory> inventory_;
};

}  // namespace

int diff_command(const cli::CommandLine& line) {
  const Scope scope = scope_of(line);
  if (scope.words.size() != 2) {
    throw ConfigError(cat("expected two things to compare, found ", scope.words.size()),
                      {"pe-pipeline diff", 0, 0, "", 1}, "each the path of an artifact, a key, a task's id, or a run");
  }
  artifact::DiffOptions options;
  options.ulp = static_cast<std::uint64_t>(line.ulp.value_or(0));
  options.only = line.only;
  const std::string &first = scope.words[0], &second = scope.words[1];
  Sides sides(line, scope);
  if (!fs::exists(first) && !fs::exists(second)) {
    const Store& store = sides.store();
    const auto x = run_called(store, first, "A"), y = run_called(store, second, "B");
    if (x && y) return diff_runs(line, store, *x, *y);
    if (x || y)
      throw ConfigError(cat(quote(x ? second : first), " is not a run, but ", quote(x ? first : second), " is"), {},
                        support::suggestion(x ? second : first, store.runs()));
  }
  const Side a = sides.side(first), b = sides.side(second);
  Json json{{"schema", "pe-diff/1"}, {"schema_version", 1}};
  std::string out;
  const bool same = compare(a, b, options, json, out, out_style(line));
  sides.print_store_warnings();
  if (line.json)
    print_json(json);
  else
    print(out);
  return same ? pipeline::kRunDone : pipeline::kRunFailed;
}

}  // namespace pe::commands
