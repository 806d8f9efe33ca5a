// pe-data: what raw text, tokenizers, token shards and tables hold. No stage: it prints, and writes a tokenizer's own
// files.
#include "cli/print.h"
#include "cli/run_program.h"
#include "cli/tool_table.h"
#include "data/token_shards/inspect.h"
#include "data/tokenizers/tokenizer_stage.h"

int main(int argc, char** argv) {
  return pe::cli::run_program("pe-data", [&] {
    pe::cli::ToolValues flags;
    if (const auto code = pe::cli::parse_tool_flags(argc, argv, *pe::cli::find_tool("pe-data"), flags)) return *code;
    pe::data::InspectOptions options;
    options.documents = flags.integer("--documents", 0);
    options.characters = flags.integer("--characters", 1);
    options.split = flags.text("--split");
    if (flags.is_set("--table")) options.table = flags.text("--table");
    options.rows = static_cast<std::size_t>(flags.integer("--rows", 1));
    if (flags.is_set("--export-tokenizer")) {
      const std::string written =
          pe::data::export_tokenizer(pe::data::tokenizer_of(flags.text("--in")), flags.text("--export-tokenizer"));
      pe::cli::print("wrote " + written + "\n");
      return 0;
    }
    pe::cli::print(pe::data::inspect(flags.text("--in"), options));
    return 0;
  });
}
