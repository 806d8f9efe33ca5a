// pe-encodings: checks an encoding, and writes what follows from the code of all: doc/encodings/ and golden vectors.
#include <cstdio>

#include "cli/print.h"
#include "cli/run_program.h"
#include "cli/tool_table.h"
#include "encoding_docs/battery/checks.h"
#include "encoding_docs/golden.h"
#include "encoding_docs/pages.h"
#include "encoding_docs/pitfalls.h"
#include "encoding_docs/score_file.h"
#include "kernels/explain.h"
#include "support/error.h"
#include "support/files.h"

int main(int argc, char** argv) {
  const auto body = [&] {
    pe::cli::ToolValues flags;
    if (const auto code = pe::cli::parse_tool_flags(argc, argv, *pe::cli::find_tool("pe-encodings"), flags))
      return *code;
    if (flags.verb() != "check" && flags.is_set("--encoding")) {
      throw pe::support::ConfigError(
          "'" + flags.verb() + "' takes no name of an encoding, found '" + flags.text("--encoding") + "'", {},
          "pe-encodings check NAME checks one encoding; the other verbs write what follows from all");
    }
    if (flags.verb() == "check") {
      if (!flags.is_set("--encoding")) {
        throw pe::support::ConfigError("the name of an encoding is missing", {"pe-encodings check", 0, 0, "", 1},
                                       "add NAME, such as alibi");
      }
      const auto report =
          pe::encoding_docs::battery::check_encoding(pe::encoding_docs::read_encoding(flags.text("--encoding"), {}));
      pe::cli::print(report.text);
      return report.passed ? 0 : 1;
    }
    if (flags.verb() == "pages") {
      if (!flags.is_set("--out")) {
        throw pe::support::ConfigError("--out is missing", {"pe-encodings pages", 0, 0, "", 1}, "add --out FOLDER");
      }
      const int changed = pe::encoding_docs::write_pages(flags.text("--out"));
      std::fprintf(stderr, "%d files changed\n", changed);
      return 0;
    }
    const std::string content =
        flags.verb() == "golden" ? pe::encoding_docs::golden_vectors() : pe::encoding_docs::pitfalls_page();
    if (flags.is_set("--out")) {
      pe::support::write_file_atomically(flags.text("--out"), content, /*durable=*/false);
    } else {
      pe::cli::print(content);
    }
    return 0;
  };
  return pe::cli::run_program("pe-encodings", body,
                              [](const std::exception& error) { return pe::kernels::explain(error); });
}
