// pe-hub: writes the lock of a data set on the hub, and brings its files here. No stage: what it learns from the network
// goes into a file, so that pipelines plan without one.
#include <cstdio>

#include "cli/tool_table.h"
#include "data/hub/hub_tool.h"
#include "stage/reporters.h"
#include "support/error.h"
#include "support/progress.h"
#include "support/version.h"

int main(int argc, char** argv) {
  const pe::cli::ToolText& text = *pe::cli::find_tool("pe-hub");
  try {
    pe::cli::ToolValues flags;
    if (const auto code = pe::cli::parse_tool_flags(argc, argv, text, flags)) return *code;
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
    flags.verb() == "lock" ? pe::data::write_lock(order, *progress) : pe::data::fetch_lock(order, *progress);
    return 0;
  } catch (const pe::support::Stopped&) {
    std::fprintf(stderr, "pe-hub: stopped; what is there already is kept\n");
    return pe::support::kExitInterrupted;
  } catch (const pe::support::Error& error) {
    std::fprintf(stderr, "pe-hub: %s\n", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pe-hub: %s\nThis is a mistake of pe-hub %s; please report it with this message.\n", error.what(), PE_VERSION);
    return pe::support::kExitBug;
  }
}
