#include "pipeline/file/stage_description.h"

#include <cstdlib>
#include <set>
#include <system_error>

#include "pipeline/file/ask_to_describe.h"
#include "support/capture_within.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/parse_json.h"
#include "support/process.h"
#include "support/program.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::pipeline {

namespace fs = std::filesystem;
using support::cat;
using support::ConfigError;

namespace {

constexpr int kSchemaVersion = 1;
constexpr std::string_view kSchemaPrefix = "pe-stage/";

[[noreturn]] void bad(const std::string& source, const std::string& what) {
  throw ConfigError(cat(source, ": ", what), {}, "rebuild the stage together with pe-pipeline");
}

const Json& member(const Json& object, const char* key, const std::string& source) {
  const auto it = object.find(key);
  if (it == object.end()) bad(source, cat("the description lacks '", key, "'"));
  return *it;
}

std::string text_member(const Json& object, const char* key, const std::string& source) {
  const Json& value = member(object, key, source);
  if (!value.is_string()) bad(source, cat("'", key, "' in the description is not a string"));
  return value.get<std::string>();
}

bool flag_member(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_boolean() && it->get<bool>();
}

artifact::Kind kind_member(const Json& object, const std::string& source) {
  const std::string name = text_member(object, "kind", source);
  if (const auto kind = artifact::find_kind(name)) return *kind;
  bad(source, cat("unknown artifact kind ", support::quote(name)));
}

const Json& list_member(const Json& object, const char* key, const std::string& source) {
  const Json& value = member(object, key, source);
  if (!value.is_array()) bad(source, cat("'", key, "' in the description is not a list"));
  for (const Json& item : value) {
    if (!item.is_object()) bad(source, cat("'", key, "' in the description holds something that is not a map"));
  }
  return value;
}

/// The reason for not using a file next to an executable is not reported: the stage itself is asked then.
std::optional<Json> read_document(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  Json document = support::parse_json(support::read_file(path), support::kForeignJson);
  if (document.is_discarded() || !document.is_object()) return std::nullopt;
  return document;
}

std::vector<artifact::Revision> revisions_in(const Json& document, const support::Schema& fields,
                                             const std::string& source) {
  std::vector<artifact::Revision> revisions;
  for (const Json& one : list_member(document, "revisions", source)) {
    artifact::Revision revision{.name = text_member(one, "name", source)};
    revision.when = member(one, "when", source);
    const Json& number = member(one, "number", source);
    if (!revision.when.is_object() || revision.when.empty() || !number.is_number_integer()) {
      bad(source,
          cat("its revision ", support::quote(revision.name), " lacks an object 'when' or an integer 'number'"));
    }
    revision.number = number.get<int>();
    if (support::find_field(fields, revision.name)) {
      bad(source, cat("its revision ", support::quote(revision.name), " has the name of a field"));
    }
    for (const auto& [key, value] : revision.when.items()) {
      if (!support::find_field(fields, key)) {
        bad(source, cat("its revision ", support::quote(revision.name), " names the field ", support::quote(key),
                        ", which it lacks"));
      }
    }
    revisions.push_back(std::move(revision));
  }
  return revisions;
}

void check_schema(const Json& document, const std::string& source) {
  if (!document.is_object() || !document.contains("schema") || !document["schema"].is_string()) {
    bad(source, "this is not a stage description");
  }
  const std::string schema = document["schema"].get<std::string>();
  const auto number = schema.rfind(kSchemaPrefix, 0) == 0
                          ? support::parse_integer(std::string_view(schema).substr(kSchemaPrefix.size()))
                          : std::nullopt;
  if (!number) bad(source, cat("expected schema 'pe-stage/", kSchemaVersion, "', found ", support::quote(schema)));
  if (*number > kSchemaVersion) {
    throw ConfigError(cat(source, " speaks ", schema, "; this pe-pipeline knows pe-stage/", kSchemaVersion), {},
                      "use the pe-pipeline that was built with it");
  }
}

std::vector<std::string> plugins_in(const Json& document, const std::string& source) {
  std::vector<std::string> plugins;
  if (!document.contains("plugins")) return plugins;
  for (const Json& plugin : document["plugins"]) {
    if (!plugin.is_string()) bad(source, "'plugins' in the description holds something that is not a string");
    plugins.push_back(plugin.get<std::string>());
  }
  return plugins;
}

std::vector<std::string> code_in(const Json& document, const std::string& source) {
  std::vector<std::string> code;
  if (!document.contains("code")) return code;
  if (!document["code"].is_array())
    bad(source, "'code' in the description is not a list of paths, as in [\"lib/*.py\"]");
  for (const Json& glob : document["code"]) {
    if (!glob.is_string() || glob.get_ref<const std::string&>().empty())
      bad(source, "'code' in the description holds something that is no path, as in [\"lib/*.py\"]");
    code.push_back(glob.get<std::string>());
  }
  return code;
}

std::optional<artifact::Trajectory> trajectory_in(const Json& document, const support::Schema& fields,
                                                  const std::string& source) {
  if (!document.contains("trajectory") || !document["trajectory"].is_object()) return std::nullopt;
  const Json& trajectory = document["trajectory"];
  artifact::Trajectory described;
  described.horizon = text_member(trajectory, "horizon", source);
  const Json& factors = member(trajectory, "tokens_per_step", source);
  if (!factors.is_array()) bad(source, "'tokens_per_step' in the description is not a list");
  for (const Json& key : factors) {
    if (!key.is_string()) bad(source, "'tokens_per_step' in the description holds something that is not a string");
    described.tokens_per_step.push_back(key.get<std::string>());
  }
  if (trajectory.contains("free_when") && trajectory["free_when"].is_object()) {
    described.free_when = trajectory["free_when"];
  }
  std::vector<std::string> keys = described.tokens_per_step;
  keys.push_back(described.horizon);
  for (const auto& [key, value] : described.free_when.items()) keys.push_back(key);
  for (const std::string& key : keys) {
    if (!support::find_field(fields, key)) {
      bad(source, cat("its trajectory names the field ", support::quote(key), ", which it lacks"));
    }
  }
  return described;
}

std::optional<artifact::Branch> branch_in(const Json& document, const support::Schema& fields,
                                          const std::string& source) {
  if (!document.contains("branch") || !document["branch"].is_object()) return std::nullopt;
  const Json& branch = document["branch"];
  artifact::Branch described{text_member(branch, "horizon", source), text_member(branch, "end", source),
                             text_member(branch, "share", source)};
  for (const std::string& key : {described.horizon, described.end, described.share}) {
    if (!support::find_field(fields, key))
      bad(source, cat("its branch names the field ", support::quote(key), ", which it lacks"));
  }
  return described;
}

}  // namespace

const artifact::InputRole* StageDescription::find_input(const std::string& role) const {
  for (const auto& input : inputs) {
    if (input.name == role) return &input;
  }
  return nullptr;
}

const artifact::OutputRole* StageDescription::find_output(const std::string& role) const {
  for (const auto& output : outputs) {
    if (output.name == role) return &output;
  }
  return nullptr;
}

std::vector<std::string> StageDescription::input_names() const {
  std::vector<std::string> names;
  for (const auto& input : inputs) names.push_back(input.name);
  return names;
}

std::vector<std::string> StageDescription::output_names() const {
  std::vector<std::string> names;
  for (const auto& output : outputs) names.push_back(output.name);
  return names;
}

StageDescription parse_description(Json document, const std::string& source) {
  check_schema(document, source);
  StageDescription stage;
  stage.name = text_member(document, "name", source);
  stage.program = document.contains("program") ? text_member(document, "program", source) : cat("pe-", stage.name);
  const Json& version = member(document, "version", source);
  if (!version.is_number_integer()) bad(source, "'version' in the description is not an integer");
  stage.version = version.get<int>();
  stage.summary = document.value("summary", std::string());
  stage.build_id = stage.program_digest = document.value("build_id", std::string());
  stage.release = document.value("release", std::string());
  for (const Json& input : list_member(document, "inputs", source)) {
    stage.inputs.push_back({text_member(input, "name", source), kind_member(input, source), flag_member(input, "many"),
                            flag_member(input, "optional")});
  }
  for (const Json& output : list_member(document, "outputs", source)) {
    stage.outputs.push_back(
        {text_member(output, "name", source), kind_member(output, source), flag_member(output, "volatile")});
  }
  stage.fields = support::with_context(cat("reading the description of ", source),
                                       [&] { return support::schema_from_json(member(document, "fields", source)); });
  if (document.contains("revisions")) stage.revisions = revisions_in(document, stage.fields, source);
  stage.plugins = plugins_in(document, source);
  stage.code = code_in(document, source);
  stage.resumes = flag_member(document, "resumes");
  stage.takes_labels = flag_member(document, "takes_labels");
  stage.reads_labels = !document.contains("reads_labels") || flag_member(document, "reads_labels");
  stage.trajectory = trajectory_in(document, stage.fields, source);
  stage.branch = branch_in(document, stage.fields, source);
  if (document.contains("costs") && document["costs"].is_object()) stage.costs = document["costs"];
  const bool has_build = document.erase("build_id") > 0;  // a rebuild that describes the same leaves plans valid
  stage.digest = support::sha256_hex(document.dump());
  if (has_build) document["build_id"] = stage.build_id;
  stage.document = std::move(document);  // a training's is 280 KB, which shells wait for: no copy is made
  return stage;
}

std::vector<support::FileRead> program_files(const StageDescription& stage) {
  const fs::path executable = stage.executable, folder = executable.parent_path();
  std::vector<fs::path> paths{executable};
  for (const std::string& plugin : stage.plugins) {
    if (fs::path file = support::plugin_for(folder, plugin); !file.empty()) paths.push_back(std::move(file));
  }
  std::set<fs::path> folders;  // a file that is added later moves the time of its folder
  for (fs::path& file : support::code_files(folder, stage.code)) {
    folders.insert(file.parent_path());
    paths.push_back(std::move(file));
  }
  paths.insert(paths.end(), folders.begin(), folders.end());
  std::vector<support::FileRead> files;
  for (const fs::path& path : paths) files.push_back({path.string(), support::stamp_of(path), {}});
  return files;
}

StageCatalog::StageCatalog(std::vector<fs::path> folders) : folders_(std::move(folders)) {}

void StageCatalog::add(StageDescription description) {
  if (description.digest.empty()) description.digest = support::sha256_hex(description.program);
  const std::string program = description.program;
  by_run_[program] = std::make_shared<StageDescription>(std::move(description));
}

void StageCatalog::note(const fs::path& file) { files_.push_back({file.string(), support::stamp_of(file), {}}); }

/// A script may not take the name of a stage of this project: their results would share keys under
/// `code: result-version`.
void StageCatalog::refuse_reserved_name(const StageDescription& stage, const fs::path& executable,
                                        const support::Place& place) const {
  const std::string program = cat("pe-", stage.name);
  for (const fs::path& folder : folders_) {
    std::error_code error;
    if (!fs::exists(folder / cat(program, ".describe.json"), error)) continue;
    if (fs::equivalent(folder, executable.parent_path(), error)) return;
    throw ConfigError(cat(support::quote(executable.string()), " calls itself ", support::quote(stage.name),
                          ", which is the name of ", program),
                      place, "give `name` in its description another value");
  }
}

std::optional<fs::path> StageCatalog::locate(const std::string& run, const fs::path& root) {
  std::error_code error;
  if (run.find('/') != std::string::npos) {
    const fs::path path = fs::path(run).is_absolute() ? fs::path(run) : root / run;
    if (fs::is_regular_file(path, error)) return path.lexically_normal();
    return std::nullopt;
  }
  // Places that hold no such program are noted, too: one that appears there is found first.
  for (const fs::path& folder : folders_) {
    if (fs::is_regular_file(folder / run, error)) return folder / run;
    note(folder / run);
  }
  const auto found = support::find_program(run);
  for (const fs::path& earlier : support::program_places(run)) {
    if (found && earlier == *found) break;
    note(earlier);
  }
  return found;
}

std::vector<std::string> StageCatalog::known_programs() const {
  std::set<std::string> names;
  for (const auto& [run, description] : by_run_) names.insert(run);
  for (const fs::path& folder : folders_) {
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      const std::string name = it->path().filename().string();
      constexpr std::string_view kEnding = ".describe.json";
      if (name.size() > kEnding.size() && name.compare(name.size() - kEnding.size(), kEnding.size(), kEnding) == 0) {
        names.insert(name.substr(0, name.size() - kEnding.size()));
      }
    }
  }
  return {names.begin(), names.end()};
}

Json ask_to_describe(const fs::path& executable, double patience_s, const support::Place& place) {
  constexpr const char* kHint = "`run` names a stage, a program that answers --describe with pe-stage/1";
  support::TimedCapture captured;
  try {
    captured = support::capture_within({executable.string(), "--describe"}, {.timeout_s = patience_s});
  } catch (const support::IoError& error) {
    throw ConfigError(
        cat("cannot start ", support::quote(executable.string()), ": ", error.diagnostics().front().message), place,
        "`run` names an executable stage");
  }
  if (captured.timed_out) {
    throw ConfigError(cat(support::quote(executable.string()), " did not answer --describe within ",
                          support::short_duration(patience_s)),
                      place, kHint);
  }
  if (captured.overlong)
    throw ConfigError(cat(support::quote(executable.string()), " prints without end when asked to --describe itself"),
                      place, kHint);
  const bool ended_well = captured.status.code == 0;
  Json answer = ended_well ? support::parse_json(captured.out, support::kForeignJson) : Json(Json::value_t::discarded);
  if (answer.is_discarded()) {
    const std::string problem = support::json_problem(captured.out, support::kForeignJson);
    std::vector<std::string> said = support::split(support::trim(captured.err), '\n');
    constexpr std::size_t kMostLines = 5;  // the last ones: a traceback ends with the error
    if (said.size() > kMostLines) said.erase(said.begin(), said.end() - kMostLines);
    throw ConfigError(
        cat(support::quote(executable.string()), " does not describe itself: `--describe` ended with ",
            captured.status.code, ended_well ? cat(", and its answer ", problem) : "",
            support::trim(captured.err).empty() ? "" : cat("; it said:\n  ", support::join(said, "\n  "))),
        place, kHint);
  }
  return answer;
}

Json StageCatalog::ask(const fs::path& executable, const std::string& content, const support::Place& place) {
  const fs::path known =
      memory_.empty() ? fs::path() : memory_ / cat(executable.filename().string(), ".", content, ".json");
  if (!known.empty()) {
    if (auto document = read_document(known)) return *std::move(document);
  }
  started_ = true;
  const Json answer = ask_to_describe(executable, patience_s_, place);
  std::error_code error;
  if (!known.empty() && fs::is_directory(memory_.parent_path().parent_path(), error)) {
    try {
      support::make_folders(memory_);
      support::write_file_atomically(known, answer.dump() + "\n", false);
    } catch (const support::IoError&) {
      // The stage is asked again next time.
    }
  }
  return answer;
}

std::shared_ptr<const StageDescription> StageCatalog::find(const std::string& run, const fs::path& root,
                                                           const support::Place& place) {
  if (const auto it = by_run_.find(run); it != by_run_.end()) return it->second;
  const auto executable = locate(run, root);
  if (!executable) {
    const std::string where =
        run.find('/') != std::string::npos
            ? cat("no file ", support::quote((root / run).lexically_normal().string()))
            : cat("the program ", support::quote(run), " is neither in the folder of pe-pipeline nor on the PATH");
    throw ConfigError(where, place, support::suggestion(run, known_programs()));
  }
  const fs::path beside = cat(executable->string(), ".describe.json");
  // Stamped before they are read: a later stamp shows any change from here on.
  const support::FileStamp looked = support::stamp_of(*executable);
  note(*executable);
  note(beside);
  const std::string build_id = support::build_of(*executable);
  std::optional<Json> document = read_document(beside);
  if (!document || document->value("build_id", std::string()) != build_id) document = ask(*executable, build_id, place);
  StageDescription stage;
  try {
    stage = parse_description(*std::move(document), executable->string());
  } catch (const support::Error& error) {
    const auto& first = error.diagnostics().front();
    throw ConfigError(first.message, place, first.hint);
  }
  stage.executable = fs::absolute(*executable).lexically_normal().string();
  stage.build_id = build_id;
  stage.is_script = support::elf_build_id(*executable).empty();
  if (stage.is_script) refuse_reserved_name(stage, *executable, place);
  try {
    stage.files = program_files(stage);
    stage.files.front().stamp = looked;
  } catch (const ConfigError& error) {
    throw ConfigError(error.diagnostics().front().message, place, error.diagnostics().front().hint);
  }
  for (const std::string& plugin : stage.plugins) {
    for (const fs::path& file : support::plugin_places(executable->parent_path(), plugin)) note(file);
  }
  files_.insert(files_.end(), stage.files.begin() + 1, stage.files.end());  // the executable is there already
  stage.program_digest = support::program_digest(*executable, stage.plugins, stage.code);
  return by_run_[run] = std::make_shared<StageDescription>(std::move(stage));
}

}  // namespace pe::pipeline
