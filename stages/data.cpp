// pe-data: what raw text and token shards hold. No stage: it prints.
#include <cstdio>

#include "cli/tool_table.h"
#include "data/inspect.h"
#include "support/error.h"

int main(int argc, char** argv) {
  const pe::cli::ToolText& text = *pe::cli::find_tool("pe-data");
  try {
    pe::cli::ToolValues flags;
    if (const auto code = pe::cli::parse_tool_flags(argc, argv, text, flags)) return *code;
    pe::data::InspectOptions options;
    options.documents = flags.integer("--documents", 0);
    options.characters = flags.integer("--characters", 1);
    options.split = flags.text("--split");
    std::fputs(pe::data::inspect(flags.text("--in"), options).c_str(), stdout);
    return 0;
  } catch (const pe::support::Error& error) {
    std::fprintf(stderr, "pe-data: %s\n", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pe-data: %s\nThis is a mistake of pe-data %s; please report it with this message.\n", error.what(), PE_VERSION);
    return pe::support::kExitBug;
  }
}
