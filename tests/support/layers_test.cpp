// The arrows of doc/architecture.md: who may include whom. A new arrow has to be drawn there first.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/test_data.h"

namespace fs = std::filesystem;

namespace {

const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"support", {}},
    {"statistics", {"support"}},
    {"artifact", {"support"}},
    {"schema", {"artifact", "support"}},
    {"cli", {"support"}},
    {"stage", {"cli", "artifact", "support"}},
    {"pipeline", {"artifact", "support"}},
    {"commands", {"pipeline", "report", "cli", "artifact", "statistics", "support"}},
    {"data", {"artifact", "support", "sentencepiece"}},
    {"report", {"schema", "artifact", "statistics", "support"}},
    {"kernels", {"support", "cuda"}},
    {"encodings", {"kernels", "support", "cuda"}},
    {"model", {"encodings", "kernels", "artifact", "support", "cuda"}},
    {"interop", {"model", "encodings", "data", "artifact", "support"}},
    {"training", {"model", "encodings", "kernels", "data", "artifact", "support", "cuda", "mpi"}},
    {"evaluation", {"model", "encodings", "data", "schema", "artifact", "statistics", "support"}},
    {"studies",
     {"training", "evaluation", "model", "encodings", "report", "schema", "artifact", "statistics", "support"}},
    {"encoding_docs", {"encodings", "kernels", "report", "artifact", "support"}},
    {"cuda", {}},
    {"mpi", {}},
    {"sentencepiece", {}},
};

/// A room is a folder below lib/FOLDER, or "" for the files in lib/FOLDER itself. Each may see itself and the rooms
/// that it lists.
using Rooms = std::map<std::string, std::set<std::string>>;

const std::map<std::string, Rooms> kRooms = {
    {"pipeline",
     {
         {"file", {}},
         {"expand", {"file"}},
         {"store", {}},
         {"plan", {"expand", "file", "store"}},
         {"run", {"plan", "expand", "file", "store"}},
         {"cluster", {"run", "plan", "expand", "file", "store"}},
         {"maintenance", {"cluster", "run", "plan", "expand", "file", "store"}},
         {"", {"maintenance", "cluster", "run", "plan", "expand", "file", "store"}},
     }},
    {"data",
     {
         {"hub", {}},
         {"sources", {"hub"}},
         {"tasks", {}},
         {"tokenizers", {"tasks", "sources"}},
         {"token_shards", {"tokenizers", "tasks", "sources"}},
     }},
    {"encodings",
     {
         {"pch", {}},
         {"attention", {}},
         {"", {"attention"}},
         {"positions", {"", "attention"}},
         {"rotary", {"", "attention"}},
         {"bias", {"", "attention"}},
         {"absolute", {"positions", "rotary", "", "attention"}},
         {"extension", {"rotary", "", "attention"}},
         {"attention_scale", {"rotary", "", "attention"}},
         {"content", {"bias", "rotary", "", "attention"}},
     }},
    {"evaluation",
     {
         {"", {}},
         {"language_modelling", {""}},
         {"retrieval", {""}},
         {"algorithmic", {""}},
         {"probes", {""}},
     }},
    {"report",
     {
         {"", {}},
         {"figures", {""}},
         {"tables", {""}},
         {"results", {"tables", "figures", ""}},
         {"claims", {"results", "tables", ""}},
         {"sections", {"claims", "results", "tables", "figures", ""}},
         {"page", {"sections", "results", "figures", ""}},
     }},
};

/// Arrows between rooms that point up: file, header.
const std::set<std::pair<std::string, std::string>> kUpward = {
    {"lib/report/results/results.h",
     "report/claims/claims.h"},  // results hold what claims ask, and claims read results
};

/// A third-party header, by how its name begins, and the folders that may see it.
const std::map<std::string, std::set<std::string>> kThirdParty = {
    {"yaml-cpp/", {"support"}},
    {"openssl/", {"support"}},
    {"Random123/", {"support"}},
    {"CLI/", {"cli"}},
    {"hdf5", {"artifact"}},
    {"sentencepiece_", {"sentencepiece"}},
    {"arrow/", {"data"}},
    {"parquet/", {"data"}},
    {"zlib", {"data"}},
    {"zstd", {"data", "pipeline"}},
    {"curl/", {"data"}},
    {"pcre2", {"data"}},
    {"Eigen/", {"report", "evaluation"}},
    {"ATen/",
     {"kernels", "encodings", "model", "interop", "training", "evaluation", "studies", "encoding_docs", "cuda"}},
    {"torch/", {"encodings", "model", "training", "evaluation", "studies", "encoding_docs", "cuda"}},
    {"mpi.h", {"mpi"}},
    {"c10/",
     {"kernels", "encodings", "model", "interop", "training", "evaluation", "studies", "encoding_docs", "cuda"}},
};

struct Include {
  fs::path file;
  int line;
  std::string name;
  bool ours;
};

std::vector<Include> includes_below(const fs::path& folder) {
  static const std::regex pattern(R"rx(^\s*#\s*include\s*([<"])([^>"]+)[>"])rx");
  std::vector<Include> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const auto extension = entry.path().extension();
    if (extension != ".h" && extension != ".cpp" && extension != ".cu" && extension != ".inc") continue;
    std::ifstream file(entry.path());
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
      std::smatch match;
      if (std::regex_search(line, match, pattern)) out.push_back({entry.path(), number, match[2], match[1] == "\""});
    }
  }
  return out;
}

constexpr int kMostLines = 70;

struct Function {
  int line = 0;   ///< of its signature
  int lines = 0;  ///< with signature and closing brace
};

std::size_t indent_of(const std::string& line) { return std::min(line.find_first_not_of(' '), line.size()); }

/// True if a declaration cannot continue after this line.
bool ends_declaration(const std::string& line) {
  static const std::regex pattern(R"(^\s*$|[;{}]$|^\s*(public|private|protected):$|^\s*(//|#|template\b))");
  return std::regex_search(line, pattern);
}

/// Functions of a namespace or class, by their layout: a signature with a parenthesis whose last line ends with a
/// brace, up to a closing brace in the column of the signature.
std::vector<Function> functions_in(const std::vector<std::string>& lines) {
  static const std::regex other(
      R"(^\s*(namespace|struct|class|enum|union|extern|switch|for|if|while|else|do|try|case)\b|=\s*\{$)");
  std::vector<Function> found;
  for (std::size_t end = 0; end < lines.size(); ++end) {
    if (!lines[end].ends_with('{')) continue;
    std::size_t begin = end;
    std::string signature = lines[end];
    while (begin > 0 && !ends_declaration(lines[begin - 1])) signature = lines[--begin] + " " + signature;
    const std::size_t indent = indent_of(lines[begin]);
    if (signature.find('(') == std::string::npos || std::regex_search(signature, other) || indent > 6) continue;
    while (end < lines.size() && (indent_of(lines[end]) != indent || lines[end][indent] != '}')) ++end;
    found.push_back({static_cast<int>(begin) + 1, static_cast<int>(end - begin) + 1});
  }
  return found;
}

std::vector<std::string> source_lines(const fs::path& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::string at(const Include& include) {
  return include.file.lexically_relative(pe::test::source_root()).string() + ":" + std::to_string(include.line);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(layers)

BOOST_AUTO_TEST_CASE(every_include_arrow_points_down) {
  for (const auto& [folder, allowed] : kMayInclude) {
    for (const Include& include : includes_below(pe::test::source_root() / "lib" / folder)) {
      if (!include.ours) continue;
      const std::string target = include.name.substr(0, include.name.find('/'));
      const bool holds = target == folder || allowed.count(target) || !kMayInclude.count(target);
      BOOST_TEST(holds, at(include) << ": " << folder << " includes " << include.name << ", which lies above it");
    }
  }
}

// Deep JSON overflows the stack of whatever walks over it: one place parses, within bounds.
BOOST_AUTO_TEST_CASE(json_is_parsed_within_bounds) {
  const std::regex unbounded(R"rx((Json|json)::parse\()rx");
  for (const auto& entry : fs::recursive_directory_iterator(pe::test::source_root() / "lib")) {
    const fs::path& path = entry.path();
    if ((path.extension() != ".h" && path.extension() != ".cpp") || path.stem() == "parse_json") continue;
    std::ifstream file(path);
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
      BOOST_TEST(!std::regex_search(line, unbounded), path << ":" << number << ": use support/parse_json.h");
    }
  }
}

BOOST_AUTO_TEST_CASE(every_source_is_in_a_room) {
  for (const auto& [folder, rooms] : kRooms) {
    const fs::path root = pe::test::source_root() / "lib" / folder;
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      if (entry.path().extension() != ".h" && entry.path().extension() != ".cpp") continue;
      const fs::path place = entry.path().lexically_relative(root).parent_path();
      BOOST_TEST(rooms.count(place.string()), entry.path() << " is in no room of lib/" << folder);
    }
  }
}

BOOST_AUTO_TEST_CASE(arrows_between_rooms_point_down) {
  for (const auto& [folder, rooms] : kRooms) {
    const fs::path root = pe::test::source_root() / "lib" / folder;
    for (const Include& include : includes_below(root)) {
      if (include.name.rfind(folder + "/", 0) != 0) continue;
      const std::string room = include.file.lexically_relative(root).parent_path().string();
      const std::string target = fs::path(include.name).lexically_relative(folder).parent_path().string();
      if (kUpward.count({include.file.lexically_relative(pe::test::source_root()).string(), include.name})) continue;
      const auto allowed = rooms.find(room);
      BOOST_TEST(
          (target == room || (allowed != rooms.end() && allowed->second.count(target))),
          at(include) << ": " << folder << "/" << room << " includes " << include.name << ", which lies above it");
    }
  }
}

BOOST_AUTO_TEST_CASE(third_party_headers_stay_in_their_folders) {
  for (const auto& [folder, ignored] : kMayInclude) {
    for (const Include& include : includes_below(pe::test::source_root() / "lib" / folder)) {
      for (const auto& [prefix, allowed] : kThirdParty) {
        if (include.name.rfind(prefix, 0) != 0) continue;
        BOOST_TEST(allowed.count(folder), at(include) << ": " << include.name << " does not belong into " << folder);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(includes_of_ours_name_their_folder) {
  for (const auto& [folder, ignored] : kMayInclude) {
    for (const Include& include : includes_below(pe::test::source_root() / "lib" / folder)) {
      const bool embedded = include.name.size() > 4 && include.name.substr(include.name.size() - 4) == ".inc";
      if (!include.ours || embedded) continue;  // a file that the build turned into a literal
      BOOST_TEST(include.name.find('/') != std::string::npos, at(include)
                                                                  << ": \"" << include.name << "\" names no folder");
    }
  }
}

BOOST_AUTO_TEST_CASE(only_the_schema_names_columns_of_evaluations) {
  // table.reals("loss"), read.text(row, "pe"), cells[3], number(row[5]) …
  static const std::regex pattern(
      R"rx([.>](find_column|column|integers|reals|texts|present)\("|[.>](real|whole|text)\(\w+, "|\bnumber\(row\[)rx");
  for (const char* folder : {"evaluation", "report"}) {
    for (const auto& entry : fs::recursive_directory_iterator(pe::test::source_root() / "lib" / folder)) {
      if (entry.path().extension() != ".h" && entry.path().extension() != ".cpp") continue;
      std::ifstream file(entry.path());
      std::string line;
      for (int number = 1; std::getline(file, line); ++number) {
        BOOST_TEST(!std::regex_search(line, pattern), entry.path() << ":" << number << ": " << line);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(commands_see_the_orchestrator_through_one_header) {
  for (const Include& include : includes_below(pe::test::source_root() / "lib/commands")) {
    const bool holds = include.name.rfind("pipeline/", 0) != 0 || include.name == "pipeline/orchestrator.h";
    BOOST_TEST(holds, at(include) << ": include pipeline/orchestrator.h, which names " << include.name);
  }
}

BOOST_AUTO_TEST_CASE(there_is_one_type_of_splits) {
  static const std::regex pattern(R"(\benum\s+(class\s+)?\w*Split\b)");
  std::string found;
  for (const auto& entry : fs::recursive_directory_iterator(pe::test::source_root() / "lib")) {
    if (entry.path().extension() != ".h" && entry.path().extension() != ".cpp") continue;
    const std::string text = (std::stringstream() << std::ifstream(entry.path()).rdbuf()).str();
    if (std::regex_search(text, pattern))
      found += entry.path().lexically_relative(pe::test::source_root()).string() + " ";
  }
  BOOST_TEST(found == "lib/artifact/split.h ");
}

BOOST_AUTO_TEST_CASE(a_stage_is_a_thin_program) {
  for (const auto& entry : fs::directory_iterator(pe::test::source_root() / "stages")) {
    if (entry.path().extension() != ".cpp") continue;
    std::ifstream file(entry.path());
    int lines = 0;
    for (std::string line; std::getline(file, line);) ++lines;
    BOOST_TEST(lines <= 60, entry.path().filename() << " has " << lines << " lines");
  }
}

BOOST_AUTO_TEST_CASE(functions_are_found_by_their_layout) {
  std::vector<std::string> text = {
      "int short_one() { return 1; }", "", "struct S {", "  S(int a,", "    int b)", "      : a_(a) {"};
  text.insert(text.end(), 66, "    step();");
  text.insert(text.end(),
              {"  }", "};", "", "void free_one(int a,", "              int b) {", "  if (a) {", "  }", "}"});
  const std::vector<Function> found = functions_in(text);
  BOOST_REQUIRE(found.size() == 2u);
  BOOST_TEST(found[0].line == 4);
  BOOST_TEST(found[0].lines == 70);
  BOOST_TEST(found[1].line == 76);
  BOOST_TEST(found[1].lines == 5);
}

BOOST_AUTO_TEST_CASE(functions_are_short) {
  for (const char* folder : {"lib", "stages"}) {
    for (const auto& entry : fs::recursive_directory_iterator(pe::test::source_root() / folder)) {
      const fs::path& path = entry.path();
      if (path.extension() != ".h" && path.extension() != ".cpp" && path.extension() != ".cu") continue;
      const std::string name = path.lexically_relative(pe::test::source_root()).generic_string();
      for (const Function& function : functions_in(source_lines(path))) {
        BOOST_TEST(function.lines <= kMostLines, name << ":" << function.line << ": a function of " << function.lines
                                                      << " lines; expected at most " << kMostLines);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(lines_are_at_most_120_columns) {
  static const std::regex continuation("[\x80-\xBF]");  // bytes of UTF-8 that begin no character
  for (const char* folder : {"lib", "stages"}) {
    for (const auto& entry : fs::recursive_directory_iterator(pe::test::source_root() / folder)) {
      const fs::path& path = entry.path();
      if (path.extension() != ".h" && path.extension() != ".cpp") continue;
      int number = 0;
      for (const std::string& line : source_lines(path)) {
        ++number;
        // Patterns and configs in raw literals cannot be wrapped.
        if (line.size() <= 120 || line.starts_with("    R\"(") || line.starts_with("{'")) continue;
        const std::size_t columns = std::regex_replace(line, continuation, "").size();
        BOOST_TEST(columns <= 120, path << ":" << number << ": " << columns << " columns; expected at most 120");
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(every_source_of_the_library_is_built) {
  std::string listed;
  for (const auto& entry : fs::recursive_directory_iterator(pe::test::source_root() / "lib")) {
    if (entry.path().filename() == "meson.build")
      listed += (std::stringstream() << std::ifstream(entry.path()).rdbuf()).str();
  }
  for (const auto& entry : fs::recursive_directory_iterator(pe::test::source_root() / "lib")) {
    if (entry.path().extension() != ".cpp") continue;
    const std::string stem = entry.path().stem().string();
    BOOST_TEST(
        (listed.find("'" + stem + ".cpp'") != std::string::npos || listed.find("'" + stem + "'") != std::string::npos ||
         listed.find("/" + stem + "'") != std::string::npos || listed.find("/" + stem + ".cpp'") != std::string::npos),
        entry.path().lexically_relative(pe::test::source_root()) << " is named by no meson.build");
  }
}

BOOST_AUTO_TEST_SUITE_END()
