// pe-encodings: what this project writes about its encodings, made from their code: doc/encodings/ and golden vectors.
#include <cstdio>

#include "cli/tool_table.h"
#include "handbook/golden.h"
#include "handbook/pages.h"
#include "handbook/pitfalls.h"
#include "support/error.h"
#include "support/files.h"
#include "support/version.h"

int main(int argc, char** argv) {
  const pe::cli::ToolText& text = *pe::cli::find_tool("pe-encodings");
  try {
    pe::cli::ToolValues flags;
    if (const auto code = pe::cli::parse_tool_flags(argc, argv, text, flags)) return *code;
    if (flags.verb() == "pages") {
      if (!flags.is_set("--out")) throw pe::support::ConfigError("--out is missing", {"pe-encodings pages", 0, 0, "", 1}, "add --out FOLDER");
      const int changed = pe::handbook::write_pages(flags.text("--out"));
      std::fprintf(stderr, "%d files changed\n", changed);
      return 0;
    }
    const std::string content = flags.verb() == "golden" ? pe::handbook::golden_vectors() : pe::handbook::pitfalls_page();
    if (flags.is_set("--out")) {
      pe::support::write_file_atomically(flags.text("--out"), content, /*durable=*/false);
    } else {
      std::fwrite(content.data(), 1, content.size(), stdout);
    }
    return 0;
  } catch (const pe::support::Error& error) {
    std::fprintf(stderr, "pe-encodings: %s\n", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pe-encodings: %s\nThis is a mistake of pe-encodings %s; please report it with this message.\n",
                 error.what(), PE_VERSION);
    return pe::support::kExitBug;
  }
}
