// pe-pipeline completion, and the hidden __complete that its scripts ask: what there is of stages, axes, runs and
// files.
#include <algorithm>
#include <set>

#include "cli/command_table.h"
#include "cli/completion.h"
#include "cli/field_help.h"
#include "cli/tool_table.h"
#include "commands/command_table.h"
#include "commands/commands.h"
#include "commands/encodings_command.h"
#include "commands/session.h"
#include "pipeline/orchestrator.h"
#include "support/config.h"
#include "support/error.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::commands {

namespace {

using cli::Candidate;
using cli::CompletionContext;
using support::cat;

/// A home folder as the shell would read it; the text that was typed stays in the candidates.
std::string at_home(const std::string& path) {
  const char* home = std::getenv("HOME");
  return home && path.rfind("~/", 0) == 0 ? home + path.substr(1) : path;
}

/// Files and folders that begin with the typed text. Folders are always included, since a file may be in them.
std::vector<Candidate> paths(const std::string& typed, const std::vector<std::string>& endings, bool files) {
  const auto slash = typed.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : typed.substr(0, slash + 1);
  const std::string begin = slash == std::string::npos ? typed : typed.substr(slash + 1);
  std::vector<Candidate> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : at_home(folder), error)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(begin, 0) != 0 || (name.front() == '.' && begin.empty())) continue;
    if (entry.is_directory(error)) {
      out.push_back({folder + name + "/", ""});
    } else if (files && (endings.empty() || std::any_of(endings.begin(), endings.end(), [&](const std::string& ending) {
                           return name.ends_with(ending);
                         }))) {
      out.push_back({folder + name, ""});
    }
  }
  std::sort(out.begin(), out.end(), [](const Candidate& a, const Candidate& b) { return a.word < b.word; });
  return out;
}

/// The pipeline file of the line, read but not expanded: a shell waits for the answer.
std::optional<pipeline::PipelineFile> pipeline_of(const CompletionContext& context) {
  for (const std::string& word : context.words) {
    if (!cli::names_pipeline_file(word)) continue;
    try {
      return pipeline::read_pipeline_file(at_home(word));
    } catch (const support::Error&) {
      return std::nullopt;  // a command that runs it reports the error
    }
  }
  return std::nullopt;
}

struct AxisWords {
  std::string name;
  std::vector<std::string> labels;
};
using Axes = std::vector<AxisWords>;

void add_axis(Axes& axes, AxisWords axis) {
  const auto same = [&](const AxisWords& other) { return other.name == axis.name; };
  if (std::none_of(axes.begin(), axes.end(), same)) axes.push_back(std::move(axis));
}

/// The axes of a stage: the axes in `over`, and `from` and the axes of the stages whose instances it follows.
void collect_axes(const pipeline::PipelineFile& file, const pipeline::StageDeclaration& stage, Axes& axes,
                  std::set<std::string>& seen) {
  if (!seen.insert(stage.label).second) return;
  for (const auto& [name, mark] : stage.over) {
    for (const auto* list : {&file.axes, &stage.axes}) {
      for (const auto& axis : *list) {
        if (axis.name == name) add_axis(axes, {axis.name, axis.labels()});
      }
    }
  }
  for (const auto& role : stage.each) {
    std::vector<std::string> labels;
    for (const auto& reference : role.references)
      labels.push_back(reference.text.substr(0, reference.text.find_first_of(".@[")));
    add_axis(axes, {"from", labels});
    for (const std::string& label : labels) {
      if (const auto* producer = file.find_stage(label)) collect_axes(file, *producer, axes, seen);
    }
  }
}

Axes axes_of(const pipeline::PipelineFile& file, const pipeline::StageDeclaration& stage) {
  Axes axes;
  std::set<std::string> seen;
  collect_axes(file, stage, axes, seen);
  return axes;
}

Axes all_axes(const pipeline::PipelineFile& file) {
  Axes axes;
  for (const auto& axis : file.axes) add_axis(axes, {axis.name, axis.labels()});
  for (const auto& stage : file.stages) {
    for (const auto& axis : stage.axes) add_axis(axes, {axis.name, axis.labels()});
  }
  return axes;
}

const AxisWords* named(const Axes& axes, const std::string& name) {
  for (const AxisWords& axis : axes) {
    if (axis.name == name) return &axis;
  }
  return nullptr;
}

/// Continuations of a selection such as `trunk[encoding=rope,seed=`.
std::vector<Candidate> selections(const pipeline::PipelineFile& file, const std::string& typed) {
  std::vector<Candidate> out;
  const std::string plus = typed.rfind('+', 0) == 0 ? "+" : "";
  const auto open = typed.find('[');
  const std::string label = typed.substr(plus.size(), open == std::string::npos ? open : open - plus.size());
  if (open == std::string::npos) {
    for (const auto& stage : file.stages) {
      if (stage.label.rfind(label, 0) != 0) continue;
      out.push_back({plus + stage.label, stage.run});
      if (!axes_of(file, stage).empty()) out.push_back({plus + stage.label + "[", "some of it"});
    }
    return out;
  }
  Axes axes;
  if (const auto* stage = file.find_stage(label))
    axes = axes_of(file, *stage);
  else if (label.empty() || label == "*")
    axes = all_axes(file);
  const auto comma = typed.rfind(',');
  const std::size_t from = comma == std::string::npos || comma < open ? open + 1 : comma + 1;
  const std::string before = typed.substr(0, from), part = typed.substr(from);
  std::set<std::string> used;
  for (const std::string& done : support::split(before.substr(open + 1), ',')) {
    if (!done.empty()) used.insert(done.substr(0, done.find('=')));
  }
  const auto equals = part.find('=');
  if (equals == std::string::npos) {
    for (const AxisWords& axis : axes) {
      if (used.count(axis.name) == 0) out.push_back({cat(before, axis.name, "="), support::join(axis.labels, ", ")});
    }
    return out;
  }
  const auto* axis = named(axes, part.substr(0, equals));
  if (!axis) return out;
  const bool more = used.size() + 1 < axes.size();
  for (const std::string& value : axis->labels) {
    const std::string word = cat(before, axis->name, "=", value);
    out.push_back({word + "]", ""});
    if (more) out.push_back({word + ",", ""});
  }
  return out;
}

/// Values for `key=`: the words of a choice, the kinds of a variant.
std::vector<std::string> values_of(const support::Field& field) {
  std::vector<std::string> out = field.choices;
  for (const auto& kind : field.kinds) out.push_back(kind.name);
  if (field.type == support::FieldType::kBool) out = {"true", "false"};
  return out;
}

std::vector<Candidate> settings(const support::Schema& fields, const std::string& prefix, const std::string& typed) {
  std::vector<Candidate> out;
  const auto equals = typed.find('=');
  if (equals != std::string::npos) {
    const std::string path = typed.substr(prefix.size(), equals - prefix.size());
    if (const auto* field = support::find_field(fields, path)) {
      for (const std::string& value : values_of(*field)) out.push_back({cat(typed.substr(0, equals + 1), value), ""});
    }
    return out;
  }
  for (const std::string& path : support::field_paths(fields)) {
    const auto* field = support::find_field(fields, path);
    out.push_back({cat(prefix, path, "="), field ? field->help : ""});
  }
  return out;
}

class Source : public cli::CompletionSource {
 public:
  const cli::CommandTable& commands() const override { return command_table(); }
  std::vector<Candidate> find(const std::string& kind, const std::string& typed,
                              const CompletionContext& context) override {
    std::vector<Candidate> out;
    const auto plain = [&](const std::vector<std::string>& words) {
      for (const std::string& word : words) out.push_back({word, ""});
    };
    if (kind == "FILE") {
      std::vector<std::string> endings{".yml", ".yaml"};
      if (context.command == "verify") endings.emplace_back(".zst");
      return paths(typed, endings, true);
    }
    if (kind == "DIR") return paths(typed, {}, false);
    if (kind == "PATH") return paths(typed, {}, true);
    if (kind == "PACKED") return paths(typed, {".zst"}, true);
    const bool side = kind == "A" || kind == "B";  // of `diff`
    if (kind == "REPORT" || side) {
      out = paths(typed, {".h5"}, side);
      if (side) plain(runs(context));
      if (const auto file = pipeline_of(context)) {
        for (Candidate& task : selections(*file, typed)) out.push_back(std::move(task));
      }
      return out;
    }
    if (kind == "ENCODING") {
      if (takes_encoding(context)) plain(encodings());
      return out;
    }
    if (kind == "DEVICE") {
      plain(devices());
      for (Candidate& path : paths(typed, {".yml"}, true)) out.push_back(std::move(path));
      return out;
    }
    if (kind == "PIN") {
      plain(pins(context));
      return out;
    }
    if (kind == "COMMAND") {
      for (const cli::Command& command : command_table()) out.push_back({command.name, command.summary});
      return out;
    }
    if (kind == "PROGRAM") {
      plain(stage_programs());
      return out;
    }
    if (kind == "RUN") {
      plain(runs(context));
      return out;
    }
    if (kind == "KEY=VALUE" || kind == "ROLE=PATH" || kind == "TOPIC") return of_stage(kind, typed, context);
    const auto file = pipeline_of(context);
    if (!file) return out;
    if (kind == "SELECT" || kind == "ID") return selections(*file, typed);
    if (kind == "SCALE") {
      for (const auto& scale : file->scales) out.push_back({scale.name, scale.is_default ? "the default" : ""});
    } else if (kind == "AXIS") {
      for (const AxisWords& axis : all_axes(*file)) out.push_back({axis.name, support::join(axis.labels, ", ")});
      if (context.command == "graph") out.push_back({"all", "stages alone"});
    } else if (kind.rfind("AXIS=", 0) == 0) {
      return axis_labels(*file, typed);
    } else if (kind == "STAGE.KEY=VALUE") {
      return stage_settings(*file, typed);
    }
    return out;
  }

 private:
  /// For --axis: `name=`, then labels with commas between.
  static std::vector<Candidate> axis_labels(const pipeline::PipelineFile& file, const std::string& typed) {
    std::vector<Candidate> out;
    const auto equals = typed.find('=');
    for (const AxisWords& axis : all_axes(file)) {
      if (equals == std::string::npos) {
        out.push_back({axis.name + "=", support::join(axis.labels, ", ")});
      } else if (axis.name == typed.substr(0, equals)) {
        const auto comma = std::max(equals, typed.rfind(',') == std::string::npos ? equals : typed.rfind(','));
        for (const std::string& label : axis.labels) out.push_back({typed.substr(0, comma + 1) + label, ""});
      }
    }
    return out;
  }

  /// Of the verbs of pe-encodings, check alone takes an encoding; of `show`, the word encoding alone.
  static bool takes_encoding(const CompletionContext& context) {
    if (!context.flag.empty()) return true;
    const std::string word = context.words.empty() ? "" : context.words.back();
    return context.program == "pe-encodings" ? word == "check" : context.command != "show" || word == "encoding";
  }

  static std::vector<std::string> encodings() {
    try {
      return encoding_names();
    } catch (const support::Error&) {
      return {};  // only pe-train knows them
    }
  }

  /// The devices that come with pe-pipeline, as `plan --device` names them.
  static std::vector<std::string> devices() {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator it(pipeline::shipped_folder() / "data" / "devices", error), end; !error && it != end;
         it.increment(error)) {
      if (it->path().extension() == ".yml") names.push_back(it->path().stem().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  static std::optional<pipeline::Store> store_of(const CompletionContext& context) {
    cli::CommandLine line;
    line.words = context.words;
    for (const auto& [flag, value] : context.values) {
      if (flag == "--store") line.store = at_home(value);
    }
    try {
      return open_for_reading(store_path_for(line));
    } catch (const support::Error&) {
      return std::nullopt;
    }
  }

  static std::vector<std::string> pins(const CompletionContext& context) {
    std::vector<std::string> names;
    const auto store = store_of(context);
    if (!store) return names;
    for (const auto& pin : pipeline::read_pins(*store)) names.push_back(pin.name);
    return names;
  }

  static std::vector<std::string> runs(const CompletionContext& context) {
    const auto store = store_of(context);
    std::vector<std::string> found = store ? store->runs() : std::vector<std::string>();
    std::reverse(found.begin(), found.end());
    return found;
  }

  static std::vector<Candidate> stage_settings(const pipeline::PipelineFile& file, const std::string& typed) {
    const auto dot = typed.find('.');
    std::vector<Candidate> out;
    if (dot == std::string::npos) {
      for (const auto& stage : file.stages) out.push_back({stage.label + ".", stage.run});
      for (const char* word : {"vars.", "axes.", "resources."}) out.push_back({word, ""});
      return out;
    }
    const std::string label = typed.substr(0, dot);
    if (label == "axes") {
      for (const AxisWords& axis : all_axes(file)) out.push_back({cat("axes.", axis.name, "="), ""});
    } else if (label == "vars" || label == "resources") {
      const support::Node& map = label == "vars" ? file.vars : file.resources;
      for (const auto& member : map.members)
        out.push_back({cat(label, ".", member.key, label == "vars" ? "=" : "."), ""});
    } else if (const auto* stage = file.find_stage(label)) {
      try {
        pipeline::StageCatalog catalog = stage_catalog();
        return settings(catalog.find(stage->run, file.root, {})->fields, label + ".", typed);
      } catch (const support::Error&) {
        return {};
      }
    }
    return out;
  }

  static std::vector<Candidate> of_stage(const std::string& kind, const std::string& typed,
                                         const CompletionContext& context) {
    std::vector<Candidate> out;
    try {
      pipeline::StageCatalog catalog = stage_catalog();
      const auto stage = catalog.find(context.program, fs::current_path(), {});
      if (kind == "KEY=VALUE") return settings(stage->fields, "", typed);
      if (kind == "TOPIC") {
        for (const cli::HelpTopic& topic : cli::help_topics(stage->fields)) out.push_back({topic.name, topic.about});
        return out;
      }
      const auto equals = typed.find('=');
      if (equals != std::string::npos) {
        for (Candidate& path : paths(typed.substr(equals + 1), {}, true)) {
          out.push_back({typed.substr(0, equals + 1) + path.word, ""});
        }
        return out;
      }
      const bool output = context.flag == "--output";
      for (const std::string& role : output ? stage->output_names() : stage->input_names())
        out.push_back({role + "=", ""});
    } catch (const support::Error&) {
      // Nothing is known of it.
    }
    return out;
  }
};

}  // namespace

int completion_command(const cli::CommandLine& line) {
  static const std::vector<std::string> shells = {"bash", "zsh", "fish"};
  if (line.words.size() != 1 || std::find(shells.begin(), shells.end(), line.words[0]) == shells.end()) {
    const std::string word = line.words.empty() ? "" : line.words.back();
    const std::string near = word.empty() ? "" : support::suggestion(word, shells);
    throw support::ConfigError(
        word.empty() ? "completion for which shell?" : cat("no completion for ", support::quote(word)),
        {"pe-pipeline completion", 0, 0, "", 1}, near.empty() ? "one of bash, zsh, fish" : near);
  }
  std::vector<std::string> programs = stage_programs();
  programs.insert(programs.begin(), "pe-pipeline");
  for (const cli::ToolText& tool : cli::tools()) programs.push_back(tool.program);
  print(cli::completion_script(line.words[0], programs));
  return pipeline::kRunDone;
}

int answer_shell(const std::vector<std::string>& arguments) {
  Source source;
  print(cli::answer_completion(arguments, source));
  return pipeline::kRunDone;
}

}  // namespace pe::commands
