#include "stage/stage_main.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <optional>
#include <system_error>
#include <thread>

#include "artifact/task_protocol.h"
#include "cli/print.h"
#include "cli/run_program.h"
#include "cli/stage_flags.h"
#include "stage/launch.h"
#include "stage/reporters.h"
#include "stage/task_file.h"
#include "support/error.h"
#include "support/explain.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/json_text.h"
#include "support/parse_json.h"
#include "support/process.h"
#include "support/program.h"
#include "support/ranks.h"
#include "support/text.h"
#include "support/version.h"

namespace pe::stage {

namespace {

/// The work folder of a stage that was started by hand without `--work`. Stages that are started in one folder share
/// it, so it is removed by the last of them.
class OwnWorkFolder {
 public:
  /// Makes the folder, if it is not there, and uses it from here on. @throws IoError
  explicit OwnWorkFolder(std::filesystem::path path);

  /// Removes the folder with all that is in it but charts (`artifact::kChartFolder`), unless another process uses it.
  void remove();

 private:
  std::filesystem::path path_;
  support::Descriptor used_;  // a shared lock of the folder is on it
};

OwnWorkFolder::OwnWorkFolder(std::filesystem::path path) : path_(std::move(path)) {
  while (true) {
    support::make_folders(path_);
    used_ = support::Descriptor(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!used_ && errno == ENOENT) continue;  // it was removed in between
    if (!used_) support::throw_errno("open", path_.string());
    if (::flock(used_.get(), LOCK_SH) != 0) return;  // a file system without locks: `remove` will fail to get one
    struct stat ours {
    }, there{};
    if (::fstat(used_.get(), &ours) == 0 && ::stat(path_.c_str(), &there) == 0 && ours.st_ino == there.st_ino &&
        ours.st_dev == there.st_dev) {
      return;
    }
  }
}

void OwnWorkFolder::remove() {
  if (::flock(used_.get(), LOCK_EX | LOCK_NB) != 0) return;
  std::error_code ignored;
  for (const std::string& name : support::list_folder(path_, ignored)) {
    if (name != artifact::kChartFolder) std::filesystem::remove_all(path_ / name, ignored);
  }
  std::filesystem::remove(path_, ignored);  // unless there are charts
}

/// Plug-ins that a stage with LibTorch loads while it runs, where they were built.
std::vector<std::string> plugins_of(const StageInfo& info) {
  std::vector<std::string> plugins;
  if (info.prepare) plugins.push_back("cuda/pe-cuda");
  if (info.takes_ranks) plugins.push_back("mpi/pe-mpi");
  return plugins;
}

/// The task's key was made for one result version with its revisions, and under `code: build` for one build.
void require_own_program(const WorkOrder& order, const StageInfo& info) {
  std::string found;
  if (order.version && *order.version != info.version) {
    found = support::cat("result version ", *order.version, " of pe-", info.name, ", but this program has version ",
                         info.version);
  } else if (const auto revisions = revisions_of(info); order.version && order.revisions != revisions) {
    found = support::cat("revisions ", Json(order.revisions).dump(), " of pe-", info.name, ", but this program has ",
                         Json(revisions).dump());
  } else if (!order.build.empty() && order.build != support::own_program_digest(plugins_of(info))) {
    found = support::cat("another build of pe-", info.name, " (code: build)");
  }
  if (found.empty()) return;
  throw support::Error(artifact::kExitOtherProgram,
                       support::Diagnostic{support::cat("this task was planned for ", found),
                                           {},
                                           "it was rebuilt after the run was planned: start the run again",
                                           {}});
}

Json describe(const StageInfo& info, const support::Schema& schema) {
  Json out = {{"schema", "pe-stage/1"},
              {"name", info.name},
              {"program", "pe-" + info.name},
              {"version", info.version},
              {"release", PE_VERSION},
              {"summary", info.summary},
              {"build_id", support::own_build_id()},
              {"plugins", plugins_of(info)},
              {"inputs", info.inputs},
              {"outputs", info.outputs},
              {"fields", support::schema_to_json(schema)},
              {"resumes", info.resumes},
              {"takes_labels", info.takes_labels},
              {"reads_labels", info.reads_labels},
              {"trajectory", nullptr},
              {"costs", info.costs}};
  if (!info.revisions.empty()) out["revisions"] = info.revisions;
  if (info.trajectory) out["trajectory"] = *info.trajectory;
  if (info.branch) out["branch"] = *info.branch;
  return out;
}

std::string roles_text(const StageInfo& info) {
  std::vector<std::string> inputs, outputs;
  for (const InputRole& role : info.inputs) {
    inputs.push_back(support::cat(role.name, " (", artifact::kind_name(role.kind), role.many ? ", any number" : "",
                                  role.optional ? ", optional" : "", ")"));
  }
  for (const OutputRole& role : info.outputs) {
    outputs.push_back(support::cat(role.name, " (", artifact::kind_name(role.kind),
                                   artifact::is_collection(role.kind) ? ", a folder" : "",
                                   role.is_volatile ? ", measured: differs from run to run" : "", ")"));
  }
  return support::cat("Inputs:   ", inputs.empty() ? "none" : support::join(inputs, ", "),
                      "\nOutputs:  ", support::join(outputs, ", "), "\n");
}

/// Value of compute.ranks; 0 where it is not set, or where the stage has no such key.
std::int64_t ranks_asked_for(const Json& config) {
  const auto compute = config.find("compute");
  if (compute == config.end() || !compute->is_object()) return 0;
  const auto ranks = compute->find("ranks");
  return ranks != compute->end() && ranks->is_number_integer() ? ranks->get<std::int64_t>() : 0;
}

void check_ranks(const StageInfo& info, const Json& config) {
  const std::int64_t asked = ranks_asked_for(config);
  if (asked > 1 && !info.takes_ranks) {
    throw support::ConfigError(support::cat("compute.ranks is ", asked, ", but pe-", info.name, " runs in one process"),
                               {}, "set compute.ranks: 1, and gpus: 1 in the resources");
  }
}

/// Whether this process is to start ranks instead of being one.
bool launches(const StageInfo& info, const Json& config) {
  const support::Ranks& own = support::own_ranks();
  const std::int64_t asked = ranks_asked_for(config);
  if (own.count > 1 && !info.takes_ranks) {
    throw support::ConfigError(
        support::cat("pe-", info.name, " runs in one process, but ", own.count, " were started (", own.from, ")"));
  }
  if (own.count > 1 && asked != 0 && asked != own.count) {
    throw support::ConfigError(
        support::cat("compute.ranks is ", asked, ", but ", own.count, " processes were started (", own.from, ")"), {},
        support::cat("start ", asked, ", or set compute.ranks: ", own.count));
  }
  return asked > 1 && own.count == 1;
}

int launch(const WorkOrder& order, int argc, char** argv) {
  RankLaunch ranks;
  ranks.count = ranks_asked_for(order.config);
  ranks.mpi = order.config["compute"].value("device", "auto") != "cuda";
  ranks.arguments.assign(argv, argv + argc);
  ranks.arguments.front() = support::own_executable().string();
  ranks.events_fd = order.events_fd;
  return launch_ranks(ranks);
}

/// Rank 0 reports an error that every rank finds; its launcher then ends the others before they report it too.
void tell(const std::string& program, const support::Error& error) {
  std::int64_t rank = 0;
  try {
    rank = support::own_ranks().rank;
  } catch (const support::Error&) {  // the same error
  }
  if (rank != 0) {
    if (error.exit_code() == support::kExitDiverged) return;
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    while (std::chrono::steady_clock::now() < patience) {
      if (support::stop_requested()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    std::fprintf(stderr, "rank %lld: ", static_cast<long long>(rank));
  }
  cli::print_error(program, error);
}

/// One answer a line: {"ok": true} or {"ok": false, "errors": [...]}; the orchestrator sends all configs in one call.
int check_configs(const StageInfo& info, const support::Schema& schema, const std::function<void(const Json&)>& check) {
  std::string line;
  bool all = true;
  while (std::getline(std::cin, line)) {
    Json answer = {{"ok", true}};
    try {
      Json config = support::defaults(schema);
      support::Diagnostics diagnostics;
      support::overlay(schema, support::from_json(support::require_json(line, support::kForeignJson), "config"), config,
                       nullptr, diagnostics);
      diagnostics.throw_if_any();
      check_ranks(info, config);
      check(config);
    } catch (const support::Error& error) {
      answer = {{"ok", false}, {"errors", Json::array()}};
      for (const auto& diagnostic : error.diagnostics()) answer["errors"].push_back(diagnostic.render());
      all = false;
    } catch (const Json::exception& error) {
      answer = {{"ok", false}, {"errors", {std::string("not a config: ") + error.what()}}};
      all = false;
    }
    cli::print(support::json_text(answer) + "\n");
  }
  return all ? support::kExitDone : support::kExitConfig;
}

void make_parents(const artifact::Workspace& workspace) {
  const auto make = [](const std::map<std::string, std::filesystem::path>& outputs) {
    for (const auto& [role, path] : outputs) {
      if (path.has_parent_path()) support::make_folders(path.parent_path());
    }
  };
  make(workspace.outputs);
  for (const artifact::Snapshot& snapshot : workspace.snapshots) make(snapshot.outputs);
}

int run_order(WorkOrder order, const StageInfo& info, const cli::StageFlags& flags,
              const std::function<void(const Json&, artifact::Workspace&)>& body) {
  std::unique_ptr<support::Progress> progress;
  const support::Ranks& own = support::own_ranks();
  if (own.count > 1) order.events_fd = own.is_first() ? rank_events() : std::nullopt;
  if (!own.is_first()) {
    progress = make_human_reporter("none");
  } else if (order.events_fd) {
    support::stop_when_closed(*order.events_fd);
    progress = make_event_reporter(*order.events_fd);
  } else {
    progress = make_human_reporter(flags.progress);
  }
  support::install_stop_signals();
  support::make_folders(order.workspace.work);
  make_parents(order.workspace);  // or hours of work would end at a missing folder
  order.workspace.progress = progress.get();
  if (own.is_first() && order.events_fd) {
    Json machine = info.machine ? info.machine(order.config) : Json::object();
    machine["event"] = "machine";
    machine["build_id"] = support::own_build_id();
    progress->event(machine);
  }
  const auto tell_memory = [&] { progress->event({{"event", "memory"}, {"peak_rss_bytes", support::peak_memory()}}); };
  try {
    body(order.config, order.workspace);
  } catch (const support::StopRequest& stopped) {
    tell_memory();
    progress->note(stopped.resumable() ? "stopped at a checkpoint; the same command resumes from it" : "interrupted");
    return stopped.resumable() ? support::kExitCheckpointed : support::kExitInterrupted;
  }
  tell_memory();
  if (info.results && flags.task.empty() && own.is_first()) {
    order.workspace.progress = nullptr;
    progress.reset();  // takes its line off the terminal
    cli::print(info.results(order.workspace));
  }
  return support::kExitDone;
}

}  // namespace

int run_stage(int argc, char** argv, const StageInfo& info, const support::Schema& schema,
              const std::function<void(const Json& config)>& check,
              const std::function<void(const Json& config, artifact::Workspace& workspace)>& body) {
  const std::string program = "pe-" + info.name;
  Json config;  // of the order, once it is read
  try {
    support::begin_program();
    cli::StageFlags flags;
    const cli::StageText text{
        program,          info.summary, support::cat(PE_VERSION, ", result version ", info.version),
        roles_text(info), &schema,      info.epilogue,
        info.flags};
    if (const auto code = cli::parse_stage_flags(argc, argv, text, flags)) return *code;
    if (flags.describe) {
      cli::print(describe(info, schema).dump(1) + "\n");
      return support::kExitDone;
    }
    if (flags.check) return check_configs(info, schema, check);
    WorkOrder order = flags.task.empty() ? order_from_flags(flags, info, schema) : read_task(flags.task, info, schema);
    config = order.config;
    require_own_program(order, info);
    if (info.prefetch && support::own_ranks().is_first()) info.prefetch(order.workspace);
    check_ranks(info, order.config);
    check(order.config);
    const bool is_launcher = launches(info, order.config);
    if (!is_launcher && support::own_ranks().count > 1) follow_launcher();
    if (!is_launcher && info.prepare) info.prepare(order.config, argc, argv);
    // Ranks share a folder; who started them removes it.
    std::optional<OwnWorkFolder> own_work;
    if (order.removes_work && support::own_ranks().count <= 1) own_work.emplace(order.workspace.work);
    const auto outputs = order.workspace.outputs;
    const int code =
        is_launcher ? launch(order, argc, argv) : rank_exit(run_order(std::move(order), info, flags, body));
    if (own_work && code == support::kExitDone) own_work->remove();
    if (flags.task.empty() && code == support::kExitDone && support::own_ranks().count <= 1) {
      for (const auto& [role, path] : outputs)
        std::fprintf(stderr, "%s: %s is in %s\n", program.c_str(), role.c_str(), path.c_str());
    }
    return code;
  } catch (const std::exception& exception) {
    const support::Error error = support::as_error(exception, [&](const std::exception& unknown) {
      return info.explain ? info.explain(unknown, config) : std::nullopt;
    });
    tell(program, error);
    return rank_exit(error.exit_code());
  }
}

}  // namespace pe::stage
