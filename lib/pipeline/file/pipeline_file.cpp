#include "pipeline/file/pipeline_file.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <system_error>
#include <unordered_set>

#include "pipeline/file/policy_values.h"
#include "support/environment.h"
#include "support/files.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::pipeline {

namespace fs = std::filesystem;
using support::cat;
using support::ConfigError;
using support::Diagnostics;
using support::Mark;
using support::Node;
using support::quote;
using support::suggestion;

namespace {

constexpr std::string_view kSchema = "pe-pipeline/1";
constexpr std::array<std::string_view, 3> kReservedAxes{"from", "stage", "snapshot"};
constexpr std::array<std::string_view, 4> kReservedStages{"vars", "axes", "resources", "slurm"};

bool is_name(std::string_view text) {
  if (text.empty() || text.front() < 'a' || text.front() > 'z') return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
}

bool is_label(std::string_view text) {
  if (text.empty() || text.size() > 64) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '+' || c == '-';
  });
}

/// A snapshot's label names a folder, which "." and ".." do not.
bool is_snapshot_label(std::string_view text) {
  return is_label(text) && (std::isalnum(static_cast<unsigned char>(text.front())) || text.front() == '_');
}

bool is_pipeline_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

/// Reads one file; every method adds its mistakes and continues.
class Reader {
 public:
  Reader(Diagnostics& diagnostics) : diagnostics_(diagnostics) {}

  PipelineFile read(const Node& document);

 private:
  bool expect_map(const Node& node, const std::string& what) {
    if (node.is_map()) return true;
    diagnostics_.add(cat("expected a map for ", what, ", found ", node.found()), node.place());
    return false;
  }

  void check_keys(const Node& map, const std::string& what, const std::vector<std::string>& known,
                  const std::string& otherwise = {}) {
    for (const auto& member : map.members) {
      if (diagnostics_.full()) return;
      if (std::find(known.begin(), known.end(), member.key) != known.end()) continue;
      std::string hint = suggestion(member.key, known);
      if (hint.empty()) hint = cat("expected one of ", support::join(known, ", "));
      if (!otherwise.empty() && hint.rfind("did you mean", 0) != 0) hint = otherwise;
      diagnostics_.add(cat("unknown key ", quote(member.key), " in ", what), member.key_mark.place(), hint);
    }
  }

  std::string text(const Node& node, const std::string& what) {
    if (node.is_scalar()) return node.text;
    diagnostics_.add(cat("expected a text for ", what, ", found ", node.found()), node.place());
    return {};
  }

  std::string text_member(const Node& map, std::string_view key, const std::string& what) {
    const Node* node = map.find(key);
    return node ? text(*node, what) : std::string();
  }

  /// A member that must be a map; null when absent or wrong.
  Node map_member(const Node& map, std::string_view key, const std::string& what) {
    const Node* node = map.find(key);
    if (!node || node->is_null()) return {};
    return expect_map(*node, what) ? *node : Node{};
  }

  std::string word_member(const Node& map, std::string_view key, const std::vector<std::string>& words,
                          const std::string& otherwise) {
    const Node* node = map.find(key);
    if (!node) return otherwise;
    const std::string word = text(*node, quote(key));
    if (word.empty()) return otherwise;
    if (std::find(words.begin(), words.end(), word) != words.end()) return word;
    std::string hint = suggestion(word, words);
    diagnostics_.add(cat("unknown value ", quote(word), " of ", quote(key)), node->place(),
                     hint.empty() ? cat("expected one of ", support::join(words, ", ")) : hint);
    return otherwise;
  }

  bool flag(const Node& node, const std::string& what) {
    if (node.is_scalar() && node.plain && (node.text == "true" || node.text == "false")) return node.text == "true";
    diagnostics_.add(cat("expected true or false for ", what, ", found ", node.found()), node.place());
    return false;
  }

  /// A scalar or a list of scalars.
  std::vector<Node> scalars(const Node& node, const std::string& what) {
    if (node.is_scalar()) return {node};
    if (!node.is_list()) {
      diagnostics_.add(cat("expected a text or a list of texts for ", what, ", found ", node.found()), node.place());
      return {};
    }
    std::vector<Node> found;
    for (const Node& item : node.items) {
      if (item.is_scalar()) {
        found.push_back(item);
      } else {
        diagnostics_.add(cat("expected a text in ", what, ", found ", item.found()), item.place());
      }
    }
    return found;
  }

  void read_environment(const Node& names);
  void read_sequential(const Node& own);
  void read_schema(const Node& document);
  void read_name(const Node& document);
  void read_defaults(const Node& defaults);
  void read_vars(const Node& document);
  void read_scales(const Node& scales);
  void read_program(const Node& node, const std::string& where, StageDeclaration& stage);
  void read_config(const Node& node, const std::string& where, StageDeclaration& stage);
  void read_snapshots(const Node& node, StageDeclaration& stage);
  std::vector<std::pair<std::string, Mark>> over_axes(const Node& over);
  std::vector<Axis> axes(const Node& map, const std::string& what);
  std::vector<CellPattern> patterns(const Node& node, const std::string& what);
  std::vector<StageDeclaration::Role> roles(const Node& stage, std::string_view key, bool many,
                                            const std::string& where);
  void stage(const Node::Member& member);
  void scale(const Node::Member& member);

  Diagnostics& diagnostics_;
  PipelineFile file_;
};

std::vector<Axis> Reader::axes(const Node& map, const std::string& what) {
  std::vector<Axis> found;
  if (map.is_null() || !expect_map(map, what)) return found;
  for (const auto& member : map.members) {
    if (auto axis = parse_axis(member.key, member.key_mark, member.value, diagnostics_)) {
      found.push_back(std::move(*axis));
    }
  }
  return found;
}

std::vector<CellPattern> Reader::patterns(const Node& node, const std::string& what) {
  std::vector<CellPattern> found;
  if (!node.is_list()) {
    diagnostics_.add(cat("expected a list of maps axis -> label for ", what, ", found ", node.found()), node.place());
    return found;
  }
  for (const Node& item : node.items) {
    if (!expect_map(item, cat("an entry of ", what))) continue;
    CellPattern pattern;
    for (const auto& member : item.members) {
      AxisPattern axis{member.key, member.key_mark, {}, {}};
      for (const Node& label : scalars(member.value, cat("the labels of axis ", quote(member.key)))) {
        axis.labels.push_back(label.text);
        axis.label_marks.push_back(label.mark);
      }
      if (member.value.is_list() && member.value.items.empty())
        diagnostics_.add(cat("axis ", quote(member.key), " of ", what, " has no label, so it matches nothing"),
                         member.value.place(), "name labels, or leave the axis out");
      pattern.push_back(std::move(axis));
    }
    if (pattern.empty()) {
      diagnostics_.add(cat("an empty entry of ", what, " would match everything"), item.place());
      continue;
    }
    found.push_back(std::move(pattern));
  }
  return found;
}

std::vector<StageDeclaration::Role> Reader::roles(const Node& stage, std::string_view key, bool many,
                                                  const std::string& where) {
  std::vector<StageDeclaration::Role> found;
  const Node* node = stage.find(key);
  if (!node || node->is_null()) return found;
  if (!expect_map(*node, cat(quote(key), " of ", where))) return found;
  for (const auto& member : node->members) {
    StageDeclaration::Role role{member.key, member.key_mark, {}};
    if (!many && !member.value.is_scalar()) {
      diagnostics_.add(
          cat("expected one reference for role ", quote(member.key), ", found ", member.value.found()),
          member.value.place(),
          member.value.is_list() ? "`gather` takes several artifacts, `each` makes one instance for each" : "");
      continue;
    }
    for (const Node& reference : scalars(member.value, cat("role ", quote(member.key)))) {
      role.references.push_back({reference.text, reference.mark});
    }
    if (role.references.empty()) {
      diagnostics_.add(cat("role ", quote(member.key), " names no stage"), member.key_mark.place());
      continue;
    }
    found.push_back(std::move(role));
  }
  return found;
}

void Reader::read_program(const Node& node, const std::string& where, StageDeclaration& stage) {
  if (const Node* run = node.find("run")) {
    stage.run = text(*run, "'run'");
    stage.run_mark = run->mark;
    if (run->is_scalar() && stage.run.empty()) diagnostics_.add("'run' names no program", run->place());
  } else {
    diagnostics_.add(cat(where, " lacks 'run'"), stage.mark.place(), "`run: pe-train` names the program of the stage");
  }
}

std::vector<std::pair<std::string, Mark>> Reader::over_axes(const Node& over) {
  std::vector<std::pair<std::string, Mark>> found;
  std::set<std::string> seen;
  for (const Node& axis : scalars(over, "'over'")) {
    if (!seen.insert(axis.text).second) {
      diagnostics_.add(cat("axis ", quote(axis.text), " is listed twice in 'over'"), axis.place());
      continue;
    }
    found.emplace_back(axis.text, axis.mark);
  }
  return found;
}

void Reader::read_config(const Node& node, const std::string& where, StageDeclaration& stage) {
  if (const Node* config = node.find("config"); config && !config->is_null() && expect_map(*config, "'config'")) {
    check_keys(*config, cat("'config' of ", where), {"file", "set"}, "values of the stage go under `set`");
    if (const Node* files = config->find("file")) stage.config_files = scalars(*files, "'config.file'");
    stage.set = map_member(*config, "set", "'config.set'");
  }
}

void Reader::read_snapshots(const Node& node, StageDeclaration& stage) {
  if (const Node* snapshots = node.find("snapshots"); snapshots && expect_map(*snapshots, "'snapshots'")) {
    for (const auto& point : snapshots->members) {
      if (!is_snapshot_label(point.key)) {
        diagnostics_.add(cat("snapshot label ", quote(point.key), " does not match [A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}"),
                         point.key_mark.place());
        continue;
      }
      stage.snapshots.emplace_back(point.key, point.value);
      stage.snapshot_marks.push_back(point.key_mark);
    }
    if (snapshots->members.empty()) {
      diagnostics_.add("'snapshots' is empty", snapshots->place(),
                       "leave it out, or name a point such as `final: 1.0`");
    }
  }
}

void Reader::stage(const Node::Member& member) {
  StageDeclaration stage;
  stage.label = member.key;
  stage.mark = member.key_mark;
  const std::size_t before = diagnostics_.size();
  if (!is_name(member.key)) {
    diagnostics_.add(cat("stage label ", quote(member.key), " does not match [a-z][a-z0-9_]*"),
                     member.key_mark.place());
  } else if (std::find(kReservedStages.begin(), kReservedStages.end(), member.key) != kReservedStages.end()) {
    diagnostics_.add(cat("a stage cannot be called ", quote(member.key)), member.key_mark.place(),
                     "`--set` uses this word for something else");
  }
  const std::string where = cat("stage ", quote(member.key));
  if (!expect_map(member.value, where)) return;
  const Node& node = member.value;
  check_keys(node, where,
             {"run", "over", "axes", "exclude", "only", "needs", "gather", "each", "config", "snapshots", "budgets",
              "resources", "retry", "checkpoint", "slurm", "allow_partial", "outputs"});
  read_program(node, where, stage);
  if (const Node* over = node.find("over")) stage.over = over_axes(*over);
  if (const Node* own = node.find("axes")) stage.axes = axes(*own, cat("'axes' of ", where));
  if (const Node* exclude = node.find("exclude")) stage.exclude = patterns(*exclude, "'exclude'");
  if (const Node* only = node.find("only")) stage.only = patterns(*only, "'only'");
  stage.needs = roles(node, "needs", false, where);
  stage.gather = roles(node, "gather", true, where);
  stage.each = roles(node, "each", true, where);
  if (stage.each.size() > 1) {
    diagnostics_.add(cat("'each' of ", where, " has ", stage.each.size(), " roles; it takes one"),
                     stage.each[1].mark.place(), "the other role goes under `needs`, joined by the axes both share");
  }
  read_config(node, where, stage);
  read_snapshots(node, stage);
  if (const Node* budgets = node.find("budgets")) stage.budgets = parse_budgets(*budgets, diagnostics_);
  if (const Node* resources = node.find("resources")) stage.resources = *resources;
  if (const Node* retry = node.find("retry")) stage.retry = *retry;
  stage.checkpoint = map_member(node, "checkpoint", "'checkpoint'");
  stage.slurm = map_member(node, "slurm", "'slurm'");
  if (const Node* partial = node.find("allow_partial")) stage.allow_partial = flag(*partial, "'allow_partial'");
  if (const Node* outputs = node.find("outputs"); outputs && expect_map(*outputs, "'outputs'")) {
    stage.outputs_mark = outputs->mark;
    for (const auto& output : outputs->members) {
      stage.outputs[output.key] = text(output.value, cat("the friendly name of ", quote(output.key)));
    }
  }
  diagnostics_.add_context(cat("while reading ", where, " (", stage.mark.place().str(), ")"), before);
  file_.stages.push_back(std::move(stage));
}

void Reader::scale(const Node::Member& member) {
  PipelineFile::Scale scale;
  scale.name = member.key;
  scale.mark = member.key_mark;
  const std::string where = cat("scale ", quote(member.key));
  if (!is_label(member.key)) {
    diagnostics_.add(cat(where, " does not match [A-Za-z0-9_.+-]{1,64}"), member.key_mark.place());
  }
  if (member.value.is_null()) {
    file_.scales.push_back(std::move(scale));
    return;
  }
  if (!expect_map(member.value, where)) return;
  check_keys(member.value, where, {"vars", "axes", "default"});
  scale.vars = map_member(member.value, "vars", cat("'vars' of ", where));
  if (const Node* own = member.value.find("axes")) scale.axes = axes(*own, cat("'axes' of ", where));
  if (const Node* mark = member.value.find("default")) scale.is_default = flag(*mark, cat("'default' of ", where));
  file_.scales.push_back(std::move(scale));
}

void Reader::read_environment(const Node& names) {
  for (const Node& name : scalars(names, "'environment'")) {
    const bool begins = !name.text.empty() && std::isdigit(static_cast<unsigned char>(name.text.front())) == 0;
    const bool plain = begins && std::all_of(name.text.begin(), name.text.end(), [](char c) {
                         return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
                       });
    if (plain)
      file_.environment.push_back(name.text);
    else
      diagnostics_.add(cat("expected the name of an environment variable in 'environment', found ", quote(name.text)),
                       name.place(), "names alone, as in [CUDA_HOME]; the values come from the shell that runs it");
  }
}

void Reader::read_sequential(const Node& own) {
  check_keys(own, "'sequential'", {"axis", "claim", "from", "most", "alpha"});
  Sequential& sequential = file_.sequential.emplace();
  sequential.place = own.place();
  sequential.axis = text_member(own, "axis", "'sequential.axis'");
  sequential.claim = text_member(own, "claim", "'sequential.claim'");
  std::optional<std::int64_t> most;
  for (const Node::Member& member : own.members) {
    if (member.key == "from" || member.key == "most") {
      const auto count = integer(member, support::Suffixes::kNone, 3, diagnostics_, "8");
      if (member.key == "most")
        most = count;
      else
        sequential.from = count.value_or(sequential.from);
    } else if (member.key == "alpha") {
      sequential.alpha = real(member, support::Suffixes::kNone, 1e-6, diagnostics_, "0.05").value_or(sequential.alpha);
    }
  }
  sequential.most = most.value_or(0);
  for (const char* key : {"axis", "claim", "most"}) {
    if (!own.find(key)) diagnostics_.add(cat("'sequential' lacks ", quote(key)), own.place());
  }
  if (!most || sequential.axis.empty()) return;
  if (sequential.from > sequential.most)
    diagnostics_.add(cat("'sequential.from' is ", sequential.from, ", above 'most', ", sequential.most), own.place());
  if (sequential.alpha > 0.5)
    diagnostics_.add(cat("expected at most 0.5 as 'sequential.alpha', found ", sequential.alpha), own.place());
}

void Reader::read_schema(const Node& document) {
  const Node* schema = document.find("schema");
  if (!schema) {
    diagnostics_.add("the file lacks 'schema'", document.place(), cat("begin it with `schema: ", kSchema, "`"));
  } else if (const std::string found = text(*schema, "'schema'"); !found.empty() && found != kSchema) {
    const bool newer = found.rfind("pe-pipeline/", 0) == 0;
    diagnostics_.add(
        cat(newer ? "this pe-pipeline does not know schema " : "this is not a pipeline file: schema ", quote(found)),
        schema->place(), cat("expected ", kSchema));
  }
}

void Reader::read_name(const Node& document) {
  const Node* name = document.find("name");
  if (!name) {
    diagnostics_.add("the file lacks 'name'", document.place(), "`name: my_grid` names its reports and runs");
  } else if (file_.name = text(*name, "'name'"); name->is_scalar()) {
    if (!is_pipeline_name(file_.name)) {
      diagnostics_.add(cat("name ", quote(file_.name), " does not match [a-z0-9_-]+"), name->place());
    } else if (file_.name == "published" || file_.name == "golden") {
      diagnostics_.add(cat("a pipeline cannot be called ", quote(file_.name)), name->place(),
                       "that folder of reports/ is kept for committed results");
    }
  }
}

void Reader::read_defaults(const Node& defaults) {
  check_keys(defaults, "'defaults'", {"config", "resources", "retry", "checkpoint", "numerics", "code", "on_diverge"});
  if (const Node* config = defaults.find("config")) file_.default_config = scalars(*config, "'defaults.config'");
  if (const Node* resources = defaults.find("resources")) file_.default_resources = *resources;
  if (const Node* retry = defaults.find("retry")) file_.default_retry = *retry;
  file_.default_checkpoint = map_member(defaults, "checkpoint", "'defaults.checkpoint'");
  file_.numerics = word_member(defaults, "numerics", {"exact", "tolerant"}, "exact");
  file_.code = word_member(defaults, "code", {"result-version", "build"}, "");
  file_.on_diverge = word_member(defaults, "on_diverge", {"record", "fail"}, "record");
}

void Reader::read_vars(const Node& document) {
  file_.vars = map_member(document, "vars", "'vars'");
  for (const auto& member : file_.vars.members) {
    if (!is_name(member.key)) {
      diagnostics_.add(cat("name of var ", quote(member.key), " does not match [a-z][a-z0-9_]*"),
                       member.key_mark.place());
    }
    for (const Axis& axis : file_.axes) {
      if (axis.name == member.key) {
        diagnostics_.add(cat(quote(member.key), " is an axis and a var"), member.key_mark.place(),
                         "axes and vars share one namespace: rename one");
      }
    }
  }
}

void Reader::read_scales(const Node& scales) {
  for (const auto& member : scales.members) scale(member);
  const Mark* first = nullptr;
  for (const auto& each : file_.scales) {
    if (!each.is_default) continue;
    if (first) diagnostics_.add("two scales are marked `default: true`", each.mark.place());
    first = &each.mark;
  }
}

PipelineFile Reader::read(const Node& document) {
  if (!document.is_map()) {
    diagnostics_.add(cat("expected a map with `schema: ", kSchema, "`, found ", document.found()), document.place());
    return {};
  }
  check_keys(document, "the pipeline file",
             {"schema", "name", "title", "description", "defaults", "axes", "vars", "resources", "slurm", "scales",
              "environment", "claims", "sequential", "stages"});
  read_schema(document);
  read_name(document);
  file_.title = text_member(document, "title", "'title'");
  file_.description = text_member(document, "description", "'description'");
  if (const Node defaults = map_member(document, "defaults", "'defaults'"); defaults.is_map()) read_defaults(defaults);
  if (const Node* own = document.find("axes")) file_.axes = axes(*own, "'axes'");
  read_vars(document);
  file_.resources = map_member(document, "resources", "'resources'");
  file_.slurm = map_member(document, "slurm", "'slurm'");
  if (const Node scales = map_member(document, "scales", "'scales'"); scales.is_map()) read_scales(scales);
  if (const Node* names = document.find("environment")) read_environment(*names);
  if (const Node* claims = document.find("claims")) file_.claims = text(*claims, "'claims'");
  if (const Node own = map_member(document, "sequential", "'sequential'"); own.is_map()) read_sequential(own);
  const Node* stages = document.find("stages");
  if (!stages) {
    diagnostics_.add("the file lacks 'stages'", document.place());
  } else if (expect_map(*stages, "'stages'")) {
    for (const auto& member : stages->members) stage(member);
    if (stages->members.empty()) diagnostics_.add("'stages' is empty", stages->place());
    spread_budgets(file_, diagnostics_);
  }
  return std::move(file_);
}

/// A bracket of a reference inside `{ }` or `[ ]` makes the YAML reader stumble; it cannot know what was meant.
[[noreturn]] void rethrow_with_hint(const ConfigError& error) {
  std::vector<support::Diagnostic> diagnostics = error.diagnostics();
  for (auto& diagnostic : diagnostics) {
    const std::string& line = diagnostic.place.excerpt;
    for (std::size_t at = line.find('['); at != std::string::npos && at > 0; at = line.find('[', at + 1)) {
      const char before = line[at - 1];
      const bool after_word = (before >= 'a' && before <= 'z') || (before >= '0' && before <= '9') || before == '_';
      if (after_word && line.find('=', at) != std::string::npos && line.find_first_of("{[") < at) {
        diagnostic.hint = "inside { } or [ ] a reference with brackets is quoted: 'trunk[seed=42]'";
        break;
      }
    }
  }
  throw ConfigError(std::move(diagnostics));
}

}  // namespace

std::vector<std::string> Axis::labels() const {
  std::vector<std::string> found;
  for (const AxisValue& value : values) found.push_back(value.label);
  return found;
}

const StageDeclaration* PipelineFile::find_stage(const std::string& label) const {
  for (const StageDeclaration& stage : stages) {
    if (stage.label == label) return &stage;
  }
  return nullptr;
}

std::optional<Axis> parse_axis(const std::string& name, const Mark& mark, const Node& node, Diagnostics& diagnostics) {
  const std::size_t before = diagnostics.size();
  if (!is_name(name)) {
    diagnostics.add(cat("name of axis ", quote(name), " does not match [a-z][a-z0-9_]*"), mark.place());
  } else if (std::find(kReservedAxes.begin(), kReservedAxes.end(), name) != kReservedAxes.end()) {
    diagnostics.add(cat("an axis cannot be called ", quote(name)), mark.place(),
                    "the word says where an artifact is from");
  }
  Axis axis{name, {}, mark};
  std::unordered_set<std::string> seen;
  std::map<double, std::string> numbers;
  const auto add = [&](const std::string& label, const Node& value, const Mark& where) {
    if (!is_label(label)) {
      diagnostics.add(cat("label ", quote(label), " of axis ", quote(name), " does not match [A-Za-z0-9_.+-]{1,64}"),
                      where.place(), node.is_list() ? cat("give it a label: `", name, ": {label: value}`") : "");
    } else if (!seen.insert(label).second) {
      diagnostics.add(cat("label ", quote(label), " occurs twice in axis ", quote(name)), where.place());
    } else if (const auto number = node.is_list() && value.plain ? support::parse_real(label) : std::nullopt;
               number && !std::isnan(*number) && !numbers.try_emplace(*number, label).second) {
      diagnostics.add(cat(quote(label), " and ", quote(numbers[*number]), " of axis ", quote(name), " are one number"),
                      where.place());
    } else {
      axis.values.push_back({label, value});
    }
  };
  if (node.is_list()) {
    for (const Node& item : node.items) {
      if (item.is_scalar()) {
        add(item.text, item, item.mark);
      } else {
        diagnostics.add(cat("a value of axis ", quote(name), " is ", item.found(), "; a list holds scalars"),
                        item.place(), cat("the map form takes any value: `", name, ": {label: value}`"));
      }
    }
  } else if (node.is_map()) {
    for (const auto& member : node.members) {
      Node value = member.value;
      if (value.is_null()) {  // `{rope: }`: the label is the value
        value = Node{Node::Kind::kScalar, member.key, true, member.key_mark, {}, {}};
      }
      add(member.key, value, member.key_mark);
    }
  } else {
    diagnostics.add(
        cat("expected a list of labels or a map label -> value for axis ", quote(name), ", found ", node.found()),
        node.mark.line ? node.place() : mark.place(), node.is_scalar() ? cat("write '[", node.text, "]'") : "");
  }
  if (axis.values.empty() && diagnostics.size() == before) {
    diagnostics.add(cat("axis ", quote(name), " has no values"), mark.place());
  }
  if (diagnostics.size() != before && axis.values.empty()) return std::nullopt;
  return axis;
}

std::optional<Reference> parse_reference(const std::string& text, const Mark& mark, Diagnostics& diagnostics) {
  Reference reference;
  const auto fail = [&](const std::string& what) {
    diagnostics.add(cat("reference ", quote(text), ": ", what), mark.place(),
                    "write stage, then .output, then @snapshot, then [axis=label,...]");
    return std::nullopt;
  };
  std::string_view rest = text;
  const auto take = [&](std::string_view stops) {
    const std::size_t end = std::min(rest.find_first_of(stops), rest.size());
    const std::string part(rest.substr(0, end));
    rest.remove_prefix(end);
    return part;
  };
  reference.stage = take(".@[");
  if (reference.stage.empty()) return fail("it names no stage");
  if (!rest.empty() && rest.front() == '.') {
    rest.remove_prefix(1);
    reference.output = take("@[");
    if (reference.output.empty()) return fail("no output after '.'");
  }
  if (!rest.empty() && rest.front() == '@') {
    rest.remove_prefix(1);
    reference.snapshot = take("[");
    if (reference.snapshot.empty()) return fail("no snapshot after '@'");
  }
  if (!rest.empty()) {
    if (rest.back() != ']') return fail("']' is missing at the end");
    rest.remove_prefix(1);
    rest.remove_suffix(1);
    for (const std::string& part : support::split(rest, ',')) {
      const std::string_view pin = support::trim(part);
      const std::size_t equals = pin.find('=');
      if (equals == std::string_view::npos || equals == 0 || equals + 1 == pin.size()) {
        return fail(cat(quote(pin), " is not of the form axis=label"));
      }
      reference.pins.emplace_back(support::trim(pin.substr(0, equals)), support::trim(pin.substr(equals + 1)));
    }
  }
  return reference;
}

PipelineFile parse_pipeline_file(std::string_view text, const std::string& name, const fs::path& root) {
  Node document;
  try {
    document = support::parse_yaml(text, name);
  } catch (const ConfigError& error) {
    rethrow_with_hint(error);
  }
  Diagnostics diagnostics;
  PipelineFile file = Reader(diagnostics).read(document);
  diagnostics.throw_if_any();
  file.path = name;
  file.root = root;
  return file;
}

namespace {

bool is_home(const fs::path& folder) {
  const std::string home = support::variable("HOME");
  std::error_code error;
  return !home.empty() && fs::equivalent(folder, home, error);
}

bool holds_version_control(const fs::path& folder) {
  std::error_code error;
  for (const char* name : {".git", ".hg", ".jj", ".svn"}) {
    if (fs::exists(folder / name, error)) return true;
  }
  return false;
}

/// The nearest folder from `own` upwards that is a project's root by `is_root`, else `own`. A home is no project, and
/// no project reaches beyond its version control.
template <typename IsRoot>
fs::path project_of(const fs::path& own, const IsRoot& is_root) {
  for (fs::path folder = own;; folder = folder.parent_path()) {
    const bool last = folder == folder.parent_path() || is_home(folder);
    if (last && folder != own) return own;
    if (is_root(folder)) return folder;
    if (last || holds_version_control(folder)) return own;
  }
}

}  // namespace

fs::path find_root(const fs::path& pipeline_file) {
  const fs::path own = fs::absolute(pipeline_file).lexically_normal().parent_path();
  return project_of(own, [](const fs::path& folder) {
    std::error_code error;
    return fs::is_directory(folder / "configs", error);
  });
}

fs::path find_root_of_store(const fs::path& folder) {
  return project_of(fs::absolute(folder).lexically_normal(), [](const fs::path& candidate) {
    std::error_code error;
    return fs::is_regular_file(candidate / "store/VERSION", error);
  });
}

PipelineFile read_pipeline_file(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    throw ConfigError(cat("no pipeline file ", quote(path.string())), {},
                      support::file_suggestion(path, {".yml", ".yaml"}));
  }
  support::FileRead read;
  const std::string text = support::read_file(path, 16u << 20, read);
  PipelineFile file = parse_pipeline_file(text, path.string(), find_root(path));
  file.read = std::move(read);
  return file;
}

}  // namespace pe::pipeline
