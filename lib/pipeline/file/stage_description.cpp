#include "pipeline/file/stage_description.h"

#include <algorithm>
#include <set>
#include <system_error>

#include "pipeline/file/ask_to_describe.h"
#include "support/capture_within.h"
#include "support/file_listing.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/json_fields.h"
#include "support/parse_json.h"
#include "support/process.h"
#include "support/program.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::pipeline {

namespace fs = std::filesystem;
using artifact::refuse_description;
using support::cat;
using support::ConfigError;

namespace {

constexpr int kSchemaVersion = 1;
constexpr std::string_view kSchemaPrefix = "pe-stage/";

/// The reason for not using a file next to an executable is not reported: the stage itself is asked then.
std::optional<Json> read_document(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  Json document = support::parse_json(support::read_file(path), support::kForeignJson);
  if (document.is_discarded() || !document.is_object()) return std::nullopt;
  return document;
}

void check_schema(const Json& document, const std::string& source) {
  if (!document.is_object() || !document.contains("schema") || !document["schema"].is_string())
    refuse_description("this is not a stage description");
  const std::string schema = document["schema"].get<std::string>();
  const auto number = schema.rfind(kSchemaPrefix, 0) == 0
                          ? support::parse_integer(std::string_view(schema).substr(kSchemaPrefix.size()))
                          : std::nullopt;
  if (!number)
    refuse_description(cat("expected schema 'pe-stage/", kSchemaVersion, "', found ", support::quote(schema)));
  if (*number > kSchemaVersion) {
    throw ConfigError(cat(source, " speaks ", schema, "; this pe-pipeline knows pe-stage/", kSchemaVersion), {},
                      "use the pe-pipeline that was built with it");
  }
}

/// The value of a key that may be missing or null.
template <typename Part>
std::optional<Part> optional_part(const Json& document, const char* key) {
  const auto it = document.find(key);
  if (it == document.end() || !it->is_object()) return std::nullopt;
  return it->get<Part>();
}

/// A field, or the `kind` or the `stack` of a variant.
bool is_config_key(const support::Schema& fields, const std::string& key) {
  if (support::find_field(fields, key) != nullptr) return true;
  if (!key.ends_with(".kind") && !key.ends_with(".stack")) return false;
  const support::Field* variant = support::find_field(fields, key.substr(0, key.rfind('.')));
  return variant != nullptr && variant->type == support::FieldType::kVariant;
}

/// Every config key that the parts name is one of the stage; no revision has the name of one.
void check_keys(const StageDescription& stage) {
  const auto need = [&](const std::string& part, const std::string& key) {
    if (!is_config_key(stage.fields, key))
      refuse_description(cat("its ", part, " names the field ", support::quote(key), ", which it lacks"));
  };
  for (const artifact::Revision& revision : stage.revisions) {
    if (support::find_field(stage.fields, revision.name))
      refuse_description(cat("its revision ", support::quote(revision.name), " has the name of a field"));
    for (const auto& [key, value] : revision.when.items()) need(cat("revision ", support::quote(revision.name)), key);
  }
  if (stage.trajectory) {
    for (const std::string& key : stage.trajectory->tokens_per_step) need("trajectory", key);
    need("trajectory", stage.trajectory->horizon);
    for (const auto& [key, value] : stage.trajectory->free_when.items()) need("trajectory", key);
  }
  if (stage.branch) {
    for (const std::string& key : {stage.branch->horizon, stage.branch->end, stage.branch->share}) need("branch", key);
  }
}

StageDescription read_description(const Json& document, const std::string& source) {
  check_schema(document, source);
  StageDescription stage;
  stage.name = artifact::text_member(document, "name");
  stage.program = document.contains("program") ? artifact::text_member(document, "program") : cat("pe-", stage.name);
  const Json& version = artifact::member(document, "version");
  if (!version.is_number_integer()) refuse_description("'version' in the description is not an integer");
  stage.version = version.get<int>();
  stage.summary = support::text_in(document, "summary");
  stage.build_id = stage.program_digest = support::text_in(document, "build_id");
  stage.release = support::text_in(document, "release");
  stage.inputs = artifact::list_member(document, "inputs").get<std::vector<artifact::InputRole>>();
  stage.outputs = artifact::list_member(document, "outputs").get<std::vector<artifact::OutputRole>>();
  stage.fields = support::with_context(cat("reading the description of ", source),
                                       [&] { return support::schema_from_json(artifact::member(document, "fields")); });
  if (document.contains("revisions"))
    stage.revisions = artifact::list_member(document, "revisions").get<std::vector<artifact::Revision>>();
  stage.plugins = artifact::texts_member(document, "plugins");
  stage.code = artifact::texts_member(document, "code");
  if (std::count(stage.code.begin(), stage.code.end(), "") > 0)
    refuse_description("'code' in the description has an empty path; it is a list such as [\"lib/*.py\"]");
  stage.resumes = artifact::flag_member(document, "resumes");
  stage.takes_labels = artifact::flag_member(document, "takes_labels");
  stage.reads_labels = !document.contains("reads_labels") || artifact::flag_member(document, "reads_labels");
  stage.trajectory = optional_part<artifact::Trajectory>(document, "trajectory");
  stage.branch = optional_part<artifact::Branch>(document, "branch");
  if (document.contains("costs") && document["costs"].is_object()) stage.costs = document["costs"];
  check_keys(stage);
  return stage;
}

template <typename Role>
const Role* named(const std::vector<Role>& roles, const std::string& name) {
  for (const Role& role : roles) {
    if (role.name == name) return &role;
  }
  return nullptr;
}

}  // namespace

const artifact::InputRole* StageDescription::find_input(const std::string& role) const { return named(inputs, role); }
const artifact::OutputRole* StageDescription::find_output(const std::string& role) const {
  return named(outputs, role);
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
  StageDescription stage;
  try {
    stage = read_description(document, source);
  } catch (const ConfigError& error) {
    const support::Diagnostic& first = error.diagnostics().front();
    throw ConfigError(first.message.starts_with(source) ? first.message : cat(source, ": ", first.message), first.place,
                      first.hint);
  }
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
  std::set<fs::path> code;
  for (const std::string& glob : stage.code) {
    const support::ListedFiles listed = support::list_files({(folder / glob).string()});
    for (const auto& [name, file] : listed.files) code.insert(file.lexically_normal());
    // A file or folder that is added later moves the time of a folder that was listed, also of an empty one.
    for (const fs::path& each : listed.folders) code.insert(each.lexically_normal());
  }
  paths.insert(paths.end(), code.begin(), code.end());
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
  if (::access(executable.c_str(), X_OK) != 0 && errno == EACCES)
    throw ConfigError(cat(support::quote(executable.string()), " is not executable"), place,
                      cat("chmod +x ", executable.string()));
  support::TimedCapture captured;
  try {
    captured = support::capture_within({executable.string(), "--describe"}, {.timeout_s = patience_s});
  } catch (const support::IoError& error) {
    throw ConfigError(error.diagnostics().front().message, place, "`run` names an executable stage");
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
    const bool is_path = run.find('/') != std::string::npos;
    std::string hint = is_path ? support::file_suggestion((root / run).lexically_normal(), {})
                               : support::suggestion(run, known_programs());
    std::error_code error;
    const bool of_project =
        run.starts_with("pe-") && !hint.starts_with("did you mean") && fs::exists(root / "bootstrap", error);
    if (of_project) hint = "`./bootstrap build` builds all programs of the project";
    throw ConfigError(where, place, hint);
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
