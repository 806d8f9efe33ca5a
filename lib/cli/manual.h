/// @file
/// Man pages (man(7) macros, UTF-8), made from the tables that help is made from.
#pragma once

#include <string>
#include <vector>

#include "cli/command_table.h"
#include "cli/tool_flags.h"

namespace pe::cli {

/// "pe-pipeline" for no command, else "pe-pipeline-run", …: the name of a page in section 1.
std::string manual_name(const std::string& command);

/// The page of a command of pe-pipeline; of no command, the overview. `date` as 2026-11-21, for the footer.
std::string command_manual(const CommandTable& table, const std::string& command, const std::string& version,
                           const std::string& date);

/// Contents of the page of a stage in addition to the flags that all stages have.
struct StagePage {
  struct Entry {
    std::string name, text;
  };
  std::string program;  ///< "pe-train"
  std::string summary;
  std::string version;  ///< "0.2.0, result version 3"
  std::vector<Entry> inputs, outputs;
  std::string fields;  ///< lines of `--help`, unchanged
};
std::string stage_manual(const StagePage& page, const std::string& date);

/// The page of a program that is neither a stage nor pe-pipeline.
std::string tool_manual(const ToolText& tool, const std::string& date);

/// A page of those above as plain text, for pipes and where there is no man(1).
std::string plain_manual(const std::string& page);

}  // namespace pe::cli
