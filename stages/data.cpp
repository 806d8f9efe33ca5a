// pe-data: what raw text, tokenizers and token shards hold. No stage: it prints, and writes a tokenizer's own files.
#include <cstdio>

#include "cli/tool_table.h"
#include "data/token_shards/inspect.h"
#include "data/tokenizers/tokenizer_stage.h"
#include "support/error.h"
#include "support/version.h"

int main(int argc, char** argv) {
  const pe::cli::ToolText& text = *pe::cli::find_tool("pe-data");
  try {
    pe::cli::ToolValues flags;
    if (const auto code = pe::cli::parse_tool_flags(argc, argv, text, flags)) return *code;
    pe::data::InspectOptions options;
    options.documents = flags.integer("--documents", 0);
    options.characters = flags.integer("--characters", 1);
    options.split = flags.text("--split");
    if (flags.is_set("--export-tokenizer")) {
      const std::string written =
          pe::data::export_tokenizer(pe::data::tokenizer_of(flags.text("--in")), flags.text("--export-tokenizer"));
      std::printf("wrote %s\n", written.c_str());
      return 0;
    }
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
