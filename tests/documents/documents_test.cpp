// README, CONTRIBUTING, CHANGELOG and doc/ stay true: links and files that they name exist, commands parse, YAML is
// read as the programs read it, and words are spelt as in codespell's dictionary.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>
#include <regex>
#include <set>

#include "cli/command_line.h"
#include "cli/command_table.h"
#include "commands/command_table.h"
#include "data/tasks/algorithmic_task.h"
#include "pipeline/file/pipeline_file.h"
#include "report/claims/claims.h"
#include "support/error.h"
#include "support/files.h"
#include "support/installed.h"
#include "support/markdown.h"
#include "support/process.h"
#include "support/temp_folder.h"
#include "support/test_data.h"
#include "support/version.h"
#include "support/yaml.h"

namespace fs = std::filesystem;
using namespace pe;
using boost::unit_test::precondition;

namespace {

/// Path from the root → text, of every page that people read.
const std::map<std::string, std::string>& pages() {
  static const std::map<std::string, std::string> all = [] {
    std::map<std::string, std::string> found;
    const fs::path root = test::source_root();
    for (const char* name : {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "reports/README.md"}) {
      found[name] = support::read_file(root / name);
    }
    for (const auto& entry : fs::recursive_directory_iterator(root / "doc")) {
      if (entry.path().extension() != ".md") continue;
      found[fs::relative(entry.path(), root).string()] = support::read_file(entry.path());
    }
    return found;
  }();
  return all;
}

/// The page without its fenced blocks, whose brackets are no links.
std::string prose_of(const std::string& page) {
  std::string out;
  bool fenced = false;
  for (const std::string& line : support::split(page, '\n')) {
    if (line.find("```") != std::string::npos)
      fenced = !fenced;
    else if (!fenced)
      out += line;
    out += '\n';
  }
  return out;
}

std::size_t line_of(const std::string& text, std::size_t at) {
  return 1 + static_cast<std::size_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

/// GitHub's anchor for a heading: lower case, blanks as hyphens, no punctuation.
std::string anchor_of(const std::string& heading) {
  std::string out;
  for (const char c : heading) {
    const auto u = static_cast<unsigned char>(c);
    if (c == ' ')
      out += '-';
    else if (std::isalnum(u) || c == '-' || c == '_' || u >= 0x80)
      out += static_cast<char>(std::tolower(u));
  }
  return out;
}

std::set<std::string> anchors_of(const std::string& page) {
  std::set<std::string> anchors;
  for (const std::string& line : support::split(prose_of(page), '\n')) {
    const auto hashes = line.find_first_not_of('#');
    if (hashes == 0 || hashes == std::string::npos || line[hashes] != ' ') continue;
    anchors.insert(anchor_of(std::string(support::trim(line.substr(hashes)))));
  }
  return anchors;
}

/// The words of a shell line as a shell splits it, up to a comment, pipe or redirection; empty when that is unknown.
std::vector<std::string> shell_words(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  bool inside = false;
  char quote = 0;
  for (std::size_t i = 0; i <= line.size(); ++i) {
    const char c = i < line.size() ? line[i] : ' ';
    if (quote) {
      if (c == quote)
        quote = 0;
      else
        word += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      inside = true;
    } else if (c == ' ') {
      if (inside) words.push_back(word);
      word.clear();
      inside = false;
    } else if (!inside && c == '#') {
      break;
    } else if (c == '|' || c == '>' || c == ';' || c == '&') {
      break;
    } else {
      word += c;
      inside = true;
    }
  }
  return words;
}

struct ShellLine {
  std::string page;
  std::size_t line = 0;
  std::vector<std::string> words;
};

/// Every command of a block of shell, with lines that end in a backslash joined.
const std::vector<ShellLine>& shell_lines() {
  static const std::vector<ShellLine> all = [] {
    std::vector<ShellLine> lines;
    for (const auto& [name, page] : pages()) {
      for (const test::CodeBlock& block : test::code_blocks(page)) {
        if (block.language != "" && block.language != "sh" && block.language != "bash") continue;
        std::string whole;
        std::size_t number = block.line, first = block.line;
        for (const std::string& line : support::split(block.text, '\n')) {
          if (whole.empty()) first = number;
          ++number;
          if (!line.empty() && line.back() == '\\') {
            whole += line.substr(0, line.size() - 1);
            continue;
          }
          std::vector<std::string> words = shell_words(whole + line);
          whole.clear();
          while (!words.empty() && words.front().find('=') != std::string::npos) words.erase(words.begin());
          if (!words.empty()) lines.push_back({name, first, std::move(words)});
        }
      }
    }
    return lines;
  }();
  return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(documents)

BOOST_AUTO_TEST_CASE(links_lead_somewhere) {
  std::size_t checked = 0;
  for (const auto& [name, page] : pages()) {
    const std::string prose = prose_of(page);
    for (std::size_t at = prose.find("]("); at != std::string::npos; at = prose.find("](", at + 1)) {
      const std::size_t end = prose.find(')', at);
      const std::string link = prose.substr(at + 2, end - at - 2);
      if (link.find("://") != std::string::npos || link.rfind("mailto:", 0) == 0) continue;
      ++checked;
      const std::size_t hash = link.find('#');
      const std::string file = link.substr(0, hash);
      const fs::path target =
          file.empty() ? test::source_root() / name : test::source_root() / fs::path(name).parent_path() / file;
      BOOST_TEST(fs::exists(target), name << ":" << line_of(prose, at) << ": no file for the link '" << link << "'");
      if (hash == std::string::npos || !fs::exists(target) || target.extension() != ".md") continue;
      const auto anchors = anchors_of(support::read_file(target));
      BOOST_TEST(anchors.count(link.substr(hash + 1)) == 1u,
                 name << ":" << line_of(prose, at) << ": no heading for '" << link << "'");
    }
  }
  BOOST_TEST(checked > 100u);
}

BOOST_AUTO_TEST_CASE(files_that_pages_name_exist) {
  const std::vector<const char*> folders{"lib/", "tests/", "configs/", "pipelines/",
                                         "doc/", "meson/", "python/",  "examples/"};
  std::size_t checked = 0;
  for (const auto& [name, page] : pages()) {
    if (name == "CHANGELOG.md" || name == "doc/add-an-encoding.md") continue;  // names of the past, and of an example
    const std::string prose = prose_of(page);
    for (std::size_t at = prose.find('`'); at != std::string::npos;) {
      const std::size_t end = prose.find('`', at + 1);
      if (end == std::string::npos) break;
      const std::string word = prose.substr(at + 1, end - at - 1);
      const bool path =
          word.find_first_of(" *<>$[]{}…|") == std::string::npos &&
          std::any_of(folders.begin(), folders.end(), [&](const char* folder) { return word.rfind(folder, 0) == 0; });
      if (path) {
        ++checked;
        const bool there = fs::exists(test::source_root() / word) ||
                           fs::exists(test::source_root() / (word + ".cpp"));  // a program's source
        BOOST_TEST(there, name << ":" << line_of(prose, at) << ": there is no " << word);
      }
      at = prose.find('`', end + 1);
    }
  }
  BOOST_TEST(checked > 50u);
}

BOOST_AUTO_TEST_CASE(functions_of_the_tour_exist) {
  const std::string& page = pages().at("doc/tour.md");
  static const std::regex row(R"(\n\| [^|\n]+ \| `([^`\n]+)` \| `([^`\n]+)` \|)");
  std::size_t checked = 0;
  for (std::sregex_iterator it(page.begin(), page.end(), row), end; it != end; ++it) {
    ++checked;
    const std::string file = (*it)[1].str(), function = (*it)[2].str();
    const std::string text = support::read_file(test::source_root() / file);
    BOOST_TEST(std::regex_search(text, std::regex("\\b" + function + "\\b")),
               "doc/tour.md: " << file << " has no " << function);
  }
  BOOST_TEST(checked > 10u);
}

BOOST_AUTO_TEST_CASE(commands_are_understood) {
  std::size_t checked = 0;
  for (const ShellLine& shell : shell_lines()) {
    const std::string program = fs::path(shell.words.front()).filename().string();
    if (program != "pe-pipeline" || shell.words.size() < 2) continue;
    ++checked;
    std::vector<std::string> words = shell.words;
    words.front() = "pe-pipeline";
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    cli::CommandLine line;
    try {
      cli::parse_command_line(commands::command_table(), static_cast<int>(words.size()), arguments.data(), "1", line);
    } catch (const support::ConfigError& error) {
      BOOST_TEST(false, shell.page << ":" << shell.line << ": " << error.what());
    }
    for (const std::string& word : line.words) {
      if (word.rfind("pipelines/", 0) != 0) continue;
      BOOST_TEST(fs::exists(test::source_root() / word), shell.page << ":" << shell.line << ": there is no " << word);
    }
  }
  BOOST_TEST(checked > 25u);
}

BOOST_AUTO_TEST_CASE(yaml_is_read_as_the_programs_read_it) {
  std::size_t pipelines = 0, claims = 0, others = 0;
  for (const auto& [name, page] : pages()) {
    for (const test::CodeBlock& block : test::code_blocks(page)) {
      if (block.language != "yaml") continue;
      const std::string where = support::cat(name, ":", block.line);
      try {
        if (block.text.rfind("schema: pe-pipeline/1", 0) == 0) {
          ++pipelines;
          pipeline::parse_pipeline_file(block.text, where, test::source_root());
        } else if (block.text.rfind("claims:", 0) == 0) {
          ++claims;
          const test::TempFolder folder;
          support::write_file_atomically(folder / "claims.yml", block.text, false);
          report::read_claims(folder / "claims.yml");
        } else if (block.text.rfind("encoding:", 0) == 0 && block.text.find("\nencoding:") != std::string::npos) {
          for (const std::string& line : support::split(block.text, '\n')) {  // alternatives, a line each
            ++others;
            support::parse_yaml(line + "\n", where);
          }
        } else {
          ++others;
          support::parse_yaml(block.text, where);
        }
      } catch (const support::Error& error) {
        BOOST_TEST(false, where << ": " << error.what());
      }
    }
  }
  BOOST_TEST(pipelines >= 3u);
  BOOST_TEST(claims >= 1u);
  BOOST_TEST(others >= 4u);
}

BOOST_AUTO_TEST_CASE(shipped_pipelines_and_claims_are_read) {
  for (const auto& entry : fs::directory_iterator(test::source_root() / "pipelines")) {
    if (entry.path().extension() == ".yml") BOOST_CHECK_NO_THROW(pipeline::read_pipeline_file(entry.path()));
  }
  for (const auto& entry : fs::directory_iterator(test::source_root() / "configs/claims")) {
    BOOST_CHECK_NO_THROW(report::read_claims(entry.path()));
  }
}

BOOST_AUTO_TEST_CASE(axes_of_encodings_may_have_values) {
  // $(encoding) is the label: `--set axes.encoding.mine={…}` would change nothing.
  std::map<std::string, std::string> files;
  for (const auto& [name, page] : pages()) {
    for (const test::CodeBlock& block : test::code_blocks(page)) files[name] += block.text;
  }
  for (const auto& entry : fs::directory_iterator(test::source_root() / "pipelines")) {
    if (entry.path().extension() == ".yml") files[entry.path().filename()] = support::read_file(entry.path());
  }
  std::size_t values = 0;
  for (const auto& [name, text] : files) {
    static const std::regex read(R"(\bencoding: \$\(\w+(\.value)?\))");
    for (std::sregex_iterator it(text.begin(), text.end(), read), end; it != end; ++it) {
      ++values;
      BOOST_TEST((*it)[1].matched, name << ": " << it->str() << " reads the label of the axis, not its value");
    }
  }
  BOOST_TEST(values > 20u);
}

BOOST_AUTO_TEST_CASE(the_number_of_algorithmic_tasks_is_that_of_the_code) {
  const std::string phrase = support::cat(data::task_generators().size(), " algorithmic tasks");
  for (const auto& [name, page] : pages()) {
    if (name == "CHANGELOG.md") continue;  // numbers of their day
    for (std::size_t at = page.find(" algorithmic tasks"); at != std::string::npos;
         at = page.find(" algorithmic tasks", at + 1)) {
      std::size_t begin = at;
      while (begin > 0 && page[begin - 1] >= '0' && page[begin - 1] <= '9') --begin;
      if (begin == at) continue;
      const std::string said = page.substr(begin, at - begin) + " algorithmic tasks";
      BOOST_TEST(said == phrase, name << ":" << line_of(page, at) << ": says " << said << ", and there are " << phrase);
    }
  }
}

BOOST_AUTO_TEST_CASE(measures_of_the_page_are_those_of_the_tables) {
  const std::string meanings = support::read_file(test::source_root() / "lib/schema/language_modelling.h") +
                               support::read_file(test::source_root() / "lib/schema/retrieval.h");
  std::size_t checked = 0;
  bool inside = false;
  for (const std::string& line : support::split(pages().at("doc/evaluation.md"), '\n')) {
    if (line.rfind("| `measure` |", 0) == 0) {
      inside = true;
      continue;
    }
    inside = inside && line.rfind("|", 0) == 0;
    if (!inside) continue;
    const std::string names = line.substr(0, line.find('|', 1));
    static const std::regex in_code("`([^`]+)`");
    for (std::sregex_iterator it(names.begin(), names.end(), in_code), end; it != end; ++it) {
      ++checked;
      BOOST_TEST(std::regex_search(meanings, std::regex("\\b" + (*it)[1].str() + "\\b")),
                 "doc/evaluation.md: no table has the measure " << (*it)[1]);
    }
  }
  BOOST_TEST(checked >= 15u);
}

BOOST_AUTO_TEST_CASE(variables_that_the_programs_read_are_in_the_list) {
  const std::string& list = pages().at("doc/orchestrator.md");
  std::set<std::string> names;
  for (const char* folder : {"lib", "stages"}) {
    for (const auto& entry : fs::recursive_directory_iterator(test::source_root() / folder)) {
      if (entry.path().extension() != ".cpp") continue;
      const std::string text = support::read_file(entry.path());
      static const std::regex name("\"(PE_(?!RANK_)[A-Z_]+)\"");
      for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it) names.insert((*it)[1]);
    }
  }
  for (const std::string& name : names) {
    BOOST_TEST(list.find("`" + name + "`") != std::string::npos, "doc/orchestrator.md lacks the variable " << name);
  }
  BOOST_TEST(names.size() >= 4u);
}

BOOST_AUTO_TEST_CASE(the_tour_begins_with_the_pipeline_of_the_readme) {
  const auto pipeline = [](const std::string& page) {
    for (const test::CodeBlock& block : test::code_blocks(pages().at(page))) {
      if (block.text.find("\nname: first\n") != std::string::npos) return block.text;
    }
    return std::string();
  };
  BOOST_TEST(pipeline("README.md") == pipeline("doc/tour.md"));
  BOOST_TEST(pipeline("README.md").find("allow_partial: true") != std::string::npos);  // for `report --from-store`
}

BOOST_AUTO_TEST_CASE(lines_of_the_help_of_stages_end_with_a_sentence) {
  for (const auto& entry : fs::directory_iterator(test::source_root() / "stages")) {
    const std::string text = support::read_file(entry.path());
    const auto from = text.find(".epilogue =");
    if (from == std::string::npos) continue;
    const std::string epilogue = text.substr(from, text.find("\n       .", from) - from);
    for (std::size_t at = epilogue.find("\\n\""); at != std::string::npos; at = epilogue.find("\\n\"", at + 1)) {
      BOOST_TEST((epilogue[at - 1] == '.' || epilogue[at - 1] == ':'),
                 entry.path().filename() << ": a line of the epilogue ends within a sentence, and is wrapped again");
    }
  }
}

BOOST_AUTO_TEST_CASE(one_version_is_said_everywhere) {
  const std::string citation = support::read_file(test::source_root() / "CITATION.cff");
  BOOST_TEST(citation.find("\nversion: " PE_VERSION "\n") != std::string::npos, citation);
  const std::string& changes = pages().at("CHANGELOG.md");
  const auto first = changes.find("\n## ") + 1;
  BOOST_TEST(changes.substr(first, changes.find('\n', first) - first) == "## " PE_VERSION);
}

BOOST_AUTO_TEST_CASE(words_are_spelt_well, *precondition(test::Installed{"codespell"})) {
  const fs::path root = test::source_root();
  std::vector<std::string> command{"codespell", "--ignore-words", (root / "tests/documents/words.txt").string(),
                                   "--skip", "*.svg,*.csv,*.json,*.png,*.min.js"};
  for (const char* name : {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "CITATION.cff", "bootstrap", "doc", "lib",
                           "stages", "pipelines", "configs", "python", "examples", "reports/README.md"}) {
    command.push_back((root / name).string());
  }
  const support::CapturedOutput answer = support::capture(command);
  BOOST_TEST(answer.out.empty(), answer.out << "words that are right here belong into tests/documents/words.txt");
  BOOST_TEST((answer.status.code == 0 || !answer.out.empty()), answer.err);
  const test::TempFolder folder;  // it does find a slip
  support::write_file_atomically(folder / "slip.md", std::string("A pipe") + "lnie of stages.\nIt is recie" + "ved.\n",
                                 false);
  command.resize(5);
  command.push_back((folder / "slip.md").string());
  BOOST_TEST(support::capture(command).out.find("received") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_documents_become_a_site_with_search, *precondition(test::Installed{"mkdocs"})) {
  const test::TempFolder folder;
  const support::CapturedOutput made =
      support::capture({(test::source_root() / "doc/site").string(), (folder / "site").string()});
  BOOST_REQUIRE_MESSAGE(made.status.code == 0, made.out << made.err);  // a link that leads nowhere ends it, too
  std::size_t found = 0;
  for (const auto& [name, page] : pages()) {
    if (name.rfind("doc/", 0) != 0) continue;
    fs::path html = folder / ("site/" + name);
    html.replace_extension(".html");
    if (html.filename() == "README.html") html.replace_filename("index.html");
    BOOST_TEST(fs::exists(html), name << " has no page");
    ++found;
  }
  BOOST_TEST(found > 50u);
  BOOST_TEST(support::read_file(folder / "site/search/search_index.json").find("doc/encodings/rope.html") !=
             std::string::npos);
  const std::string front = support::read_file(folder / "site/index.html");
  for (const char* outside : {"src=\"http", "rel=\"stylesheet\" href=\"http", "@import"}) {
    BOOST_TEST(front.find(outside) == std::string::npos, outside);  // nothing is loaded from elsewhere
  }
}

namespace {

/// A clone with bootstrap alone, and stand-ins for Python and ninja that write down what they are called for.
struct BareClone {
  test::TempFolder folder;
  fs::path clone = folder / "clone", bin = clone / ".deps/wheels/bin";

  BareClone() {
    fs::create_directories(clone / "meson");
    fs::copy_file(test::source_root() / "bootstrap", clone / "bootstrap");
    for (const char* list : {"debian.txt", "wheels.txt", "wheels-nvcc.txt", "wheels-cuda.txt"})
      support::write_file_atomically(clone / "meson" / list, "# nothing\n", false);
    script("nvcc", "");
    // As pip does with --target: a folder that is there is replaced, and its files are lost. As meson does: build.ninja
    // comes last.
    script(
        "python",
        R"(case $1 in */meson.py) [ ! -e "$0.stops" ] || exit 1; mkdir -p "$3"; echo built by fake > "$3/build.ninja"; exit ;; esac
while [ $# -gt 0 ]; do case $1 in --target) to=$2 ;; -r) list=$(basename "$2") ;; esac; shift; done
rm -rf "$to/bin" && mkdir -p "$to/bin" && echo "$list" > "$to/bin/$list"
)");
  }

  void script(const char* name, const std::string& text) const {
    support::write_file_atomically(folder / name, "#!/bin/sh\n" + text, false);
    fs::permissions(folder / name, fs::perms::owner_all);
  }

  support::CapturedOutput bootstrap(std::vector<std::string> words, std::vector<std::string> environment = {}) const {
    std::vector<std::string> command{"env", "PATH=" + folder.path().string() + ":/usr/bin:/bin",
                                     "PYTHON=" + (folder / "python").string()};
    command.insert(command.end(), environment.begin(), environment.end());
    command.push_back((clone / "bootstrap").string());
    command.insert(command.end(), words.begin(), words.end());
    return support::capture(command);
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(bootstrap_keeps_the_programs_of_every_list_of_wheels) {
  const BareClone bare;
  const auto install = [&] {
    const support::CapturedOutput answer = bare.bootstrap({"--cuda", "install"});
    BOOST_TEST(answer.status.code == 0, answer.err);
    for (const char* list : {"wheels.txt", "wheels-nvcc.txt", "wheels-cuda.txt"})
      BOOST_TEST(fs::exists(bare.bin / list), list);
  };
  install();
  // A changed list starts again, so that nothing of the old one stays.
  support::write_file_atomically(bare.clone / "meson/wheels-nvcc.txt", "# something\n", false);
  support::write_file_atomically(bare.bin / "old", "", false);
  install();
  BOOST_TEST(!fs::exists(bare.bin / "old"));
  fs::remove_all(bare.clone / ".deps/wheels");  // stamps alone are no wheels
  install();
}

// ninja's list of steps has the form that its user chose, and ninja may fail: neither is "nothing to do".
BOOST_AUTO_TEST_CASE(bootstrap_builds_or_says_that_it_did_not) {
  const BareClone bare;
  BOOST_REQUIRE(bare.bootstrap({"install"}).status.code == 0);
  bare.script("clone/.deps/wheels/bin/ninja", R"(case "$*" in
*--quiet*) ;;
*-n*) [ ! -e "$0.fails" ] || { echo unknown target >&2; exit 1; }; [ "$NINJA_STATUS" = '[%f/%t] ' ] && echo '[1/1] step' ;;
*) touch "$0.built" ;;
esac
)");
  const fs::path ninja = bare.bin / "ninja";
  const auto built = [&] { return fs::remove(ninja.string() + ".built"); };
  // Interrupted while it was configured: the next call begins again.
  support::write_file_atomically(bare.folder / "python.stops", "", false);
  BOOST_TEST(bare.bootstrap({"build"}).status.code == 1);
  BOOST_TEST(!built());
  fs::remove(bare.folder / "python.stops");
  const support::CapturedOutput answer = bare.bootstrap({"build"}, {"NINJA_STATUS=[%p] "});
  BOOST_TEST(answer.status.code == 0, answer.err);
  BOOST_TEST(built(), answer.err);
  BOOST_TEST(answer.err.find("1 step, about") != std::string::npos, answer.err);
  support::write_file_atomically(ninja.string() + ".fails", "", false);
  BOOST_TEST(bare.bootstrap({"build"}).status.code == 1);
  BOOST_TEST(!built());
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"build", "nonsense"}, {"doctor", "nonsense"}, {"run"}, {"nonsense"}})
    BOOST_TEST(bare.bootstrap(words).status.code == 2, words.front());
  BOOST_TEST(bare.bootstrap({"build", "--help"}).out.find("usage: ") == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
