// pe-hub: writes the lock of a data set on the hub, and brings its files here. No stage: what it learns from the
// network goes into a file, so that pipelines plan without one.
#include <cstdio>

#include "cli/run_program.h"
#include "cli/tool_table.h"
#include "data/hub/hub_tool.h"
#include "stage/reporters.h"
#include "support/error.h"
#include "support/progress.h"

int main(int argc, char** argv) {
  return pe::cli::run_program("pe-hub", [&] {
    pe::cli::ToolValues flags;
    if (const auto code = pe::cli::parse_tool_flags(argc, argv, *pe::cli::find_tool("pe-hub"), flags)) return *code;
    pe::support::install_stop_signals();
    const auto progress = pe::stage::make_human_reporter("auto");
    pe::data::HubOrder order;
    const auto given = [&](const char* flag) { return flags.is_set(flag) ? flags.text(flag) : std::string(); };
    order.name = given("--data");
    order.urls = given("--urls");
    order.lock = given("--lock");
    if (flags.is_set("--files")) order.patterns = flags.all("--files");
    if (flags.is_set("--max-shards")) order.max_files = flags.integer("--max-shards", 1);
    order.max_bytes = given("--max-bytes");
    order.dry_run = flags.is_set("--dry-run");
    order.offline = flags.is_set("--offline");
    order.verify = flags.is_set("--verify");
    order.parallel = static_cast<int>(flags.integer("--parallel", 1, 64));
    try {
      flags.verb() == "lock" ? pe::data::write_lock(order, *progress) : pe::data::fetch_lock(order, *progress);
    } catch (const pe::support::StopRequest&) {
      std::fprintf(stderr, "pe-hub: stopped; what is there already is kept\n");
      return static_cast<int>(pe::support::kExitInterrupted);
    }
    return 0;
  });
}
