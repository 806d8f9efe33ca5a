// The manual and completion, made from the tables that make help: complete, and right in the eyes of the programs that
// read them (mandoc, man, bash, zsh, fish), where those are installed.
#include <boost/test/unit_test.hpp>
#include <set>
#include <sstream>

#include "cli/stage_flags.h"
#include "cli/tool_table.h"
#include "commands/command_table.h"
#include "project.h"
#include "pseudo_terminal.h"
#include "support/installed.h"
#include "support/text.h"

using namespace pe;  // NOLINT
namespace fs = std::filesystem;
using test::has;
using test::Project;
using test::PseudoTerminal;

namespace {

std::set<std::string> lines_of(const std::string& text) {
  std::set<std::string> out;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) out.insert(line.substr(0, line.find('\t')));
  return out;
}

/// Answer of the hidden command to words, as zsh and fish ask.
std::set<std::string> asked(const Project& project, std::vector<std::string> words) {
  words.insert(words.begin(), {Project::program(), "__complete", "fish"});
  return lines_of(project.call_words(words).out);
}

std::set<std::string> asked_by_bash(const Project& project, const std::string& line) {
  return lines_of(project.call_words({Project::program(), "__complete", "bash", line, "\"'><=;|&(:"}).out);
}

std::string text_of(const std::set<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += word + "\n";
  return out;
}

fs::path pages_of(const Project& project) {
  const fs::path folder = project.root() / "man1";
  const auto answer = project.call_words({Project::program(), "man", "--out", folder.string()});
  BOOST_TEST(answer.code == 0, answer.err);
  return folder;
}

/// A page as a reader sees it: plain text, hyphens and overstrikes undone.
std::string rendered(const Project& project, const fs::path& page) {
  return project.call_words({"mandoc", "-T", "ascii", "-O", "width=200", page.string()}).out;
}

std::string plain(std::string text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && text[i + 1] == '\b') {
      ++i;
      continue;
    }
    out += text[i];
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(manual_and_completion)

BOOST_AUTO_TEST_CASE(every_command_and_stage_has_a_page_that_lints_and_names_every_flag) {
  const Project project;
  const fs::path folder = pages_of(project);
  for (const cli::Command& command : commands::command_table()) {
    const fs::path page = folder / ("pe-pipeline-" + command.name + ".1");
    BOOST_REQUIRE_MESSAGE(fs::exists(page), page);
    if (!support::find_program("mandoc")) continue;
    const std::string text = plain(rendered(project, page));
    for (const cli::Flag& flag : command.flags) {
      for (const std::string& name : support::split(flag.names, ','))
        BOOST_TEST(has(text, name), page << " lacks " << name);
    }
    BOOST_TEST(has(text, "EXIT STATUS"), page);
  }
  BOOST_TEST(fs::exists(folder / "pe-pipeline.1"));
  BOOST_TEST(fs::exists(folder / "pe-train.1"));
  for (const cli::ToolText& tool : cli::tools()) {
    const fs::path page = folder / (tool.program + ".1");
    BOOST_REQUIRE_MESSAGE(fs::exists(page), page);
    if (!support::find_program("mandoc")) continue;
    const std::string text = plain(rendered(project, page));
    for (const cli::ToolFlag& flag : tool.flags) BOOST_TEST(has(text, flag.name), page << " lacks " << flag.name);
  }
}

BOOST_AUTO_TEST_CASE(mandoc_finds_nothing_wrong, *boost::unit_test::precondition(pe::test::Installed{"mandoc"})) {
  const Project project;
  for (const auto& entry : fs::directory_iterator(pages_of(project))) {
    // "STYLE" is taste (such as no OS version); warnings and errors are mistakes.
    const auto answer = project.call_words({"mandoc", "-T", "lint", "-W", "warning", entry.path().string()});
    BOOST_TEST(answer.out + answer.err == "", entry.path());
  }
}

BOOST_AUTO_TEST_CASE(man_finds_nothing_wrong, *boost::unit_test::precondition(pe::test::Installed{"man"})) {
  const Project project;
  for (const auto& entry : fs::directory_iterator(pages_of(project))) {
    const auto answer = project.call_words({"env", "LC_ALL=C.UTF-8", "MANROFFSEQ=", "man", "--warnings", "-E", "UTF-8",
                                            "-l", "-Tutf8", "-Z", entry.path().string()});
    BOOST_TEST(answer.err == "", entry.path());
  }
}

BOOST_AUTO_TEST_CASE(a_stage_page_lists_its_config_fields_and_roles,
                     *boost::unit_test::precondition(pe::test::Installed{"mandoc"})) {
  const Project project;
  const fs::path page = pages_of(project) / "pe-train.1";
  const std::string text = plain(rendered(project, page));
  for (const char* part : {"train.tokens", "--set", "INPUTS", "data", "OUTPUTS", "model", "CONFIG FIELDS"})
    BOOST_TEST(has(text, part), part);
}

BOOST_AUTO_TEST_CASE(the_manual_of_an_unknown_word_names_the_nearest) {
  const Project project;
  auto answer = project.call_words({Project::program(), "man", "rnu"});
  BOOST_TEST(answer.code == 2);
  CHECK_HAS(answer.err, "did you mean 'run'?");
  answer = project.call_words({Project::program(), "man", "pe-trian"});
  CHECK_HAS(answer.err, "did you mean 'pe-train'?");
  // In a pipe a page is plain text.
  const std::string page = project.call_words({Project::program(), "man", "run"}).out;
  BOOST_TEST(page.rfind("NAME\n    pe-pipeline-run - run what is missing", 0) == 0u, page.substr(0, 200));
  CHECK_HAS(page, "\nOPTIONS\n    --set STAGE.KEY=VALUE\n        Override a value");
  BOOST_TEST(page.find("\\f") == std::string::npos);
  BOOST_TEST(page.find("\n.") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(words_are_completed_by_what_may_stand_there) {
  const Project project;
  const std::string file = project.file().string();
  const auto some = [&](const std::vector<std::string>& words, const std::vector<std::string>& expected) {
    const auto found = asked(project, words);
    for (const std::string& word : expected) BOOST_TEST(found.count(word), word << " is not among\n" << text_of(found));
  };
  // Commands and their flags: all of the table.
  const auto verbs = asked(project, {"pe-pipeline", ""});
  for (const cli::Command& command : commands::command_table()) {
    BOOST_TEST(verbs.count(command.name), command.name);
    const auto flags = asked(project, {"pe-pipeline", command.name, "--"});
    for (const cli::Flag& flag : command.flags) {
      BOOST_TEST(flags.count(support::split(flag.names, ',').back()), command.name << " " << flag.names);
    }
  }
  some({"pe-pipeline", "run", "--progress", ""}, {"auto", "tty", "plain", "json", "none"});
  some({"pe-pipeline", "run", "--progress=j"}, {"--progress=json"});
  some({"pe-pipeline", "list", ""}, {"stages", "tasks", "artifacts", "runs"});
  some({"pe-pipeline", "help", "r"}, {"run"});
  some({"pe-pipeline", "completion", ""}, {"bash", "zsh", "fish"});
  some({"pe-pipeline", "run", project.root().string() + "/t"}, {file});
  // Words from the pipeline file.
  some({"pe-pipeline", "run", file, ""}, {"data", "trunk", "decay", "report"});
  some({"pe-pipeline", "run", file, "trunk"}, {"trunk", "trunk["});
  some({"pe-pipeline", "run", file, "+tru"}, {"+trunk"});
  some({"pe-pipeline", "run", file, "decay["}, {"decay[seed=", "decay[branch="});
  some({"pe-pipeline", "run", file, "decay[seed="}, {"decay[seed=1]", "decay[seed=2,"});
  some({"pe-pipeline", "run", file, "decay[seed=1,br"}, {"decay[seed=1,branch="});
  some({"pe-pipeline", "run", file, "decay[seed=1,branch=s"}, {"decay[seed=1,branch=s10]", "decay[seed=1,branch=s20]"});
  BOOST_TEST(!asked(project, {"pe-pipeline", "run", file, "decay[seed=1,"}).count("decay[seed=1,seed="));
  some({"pe-pipeline", "plan", file, "--axis", ""}, {"seed=", "branch="});
  some({"pe-pipeline", "plan", file, "--axis", "seed=1,"}, {"seed=1,2"});
  some({"pe-pipeline", "plan", file, "--set", ""}, {"trunk.", "decay.", "axes."});
  some({"pe-pipeline", "plan", file, "--set", "trunk.s"}, {"trunk.shape=", "trunk.step_s="});
  some({"pe-pipeline", "plan", file, "--set", "trunk.shape="}, {"trunk.shape=free", "trunk.shape=bound"});
  some({"pe-pipeline", "graph", file, "--collapse", ""}, {"seed", "branch", "all"});
  // A stage that follows the instances of others has their axes, and says whose.
  support::write_file_atomically(
      project.root() / "each.yml",
      std::string(test::kToyPipeline) + "  after:\n    run: pe-toy\n    each: {init: [decay]}\n", false);
  some({"pe-pipeline", "run", (project.root() / "each.yml").string(), "after["},
       {"after[from=", "after[seed=", "after[branch="});
  some({"pe-pipeline", "run", (project.root() / "each.yml").string(), "after[from="}, {"after[from=decay]"});
  // Runs of the store that the file has.
  project.call("run");
  some({"pe-pipeline", "status", file, "--run", ""}, {project.store().runs().back()});
  some({"pe-pipeline", "timeline", file, ""}, {project.store().runs().back()});
  some({"pe-pipeline", "diff", file, ""}, {"trunk", project.store().runs().back()});
  some({"pe-pipeline", "diff", file, "trunk[seed=1]", ""}, {"trunk", project.store().runs().back()});
  support::write_file_atomically(project.root() / "results.tar.zst", "", false);
  some({"pe-pipeline", "verify", project.root().string() + "/r"}, {(project.root() / "results.tar.zst").string()});
  // Stages, from their descriptions.
  some({"pe-train", "--"}, {"--config", "--set", "--input", "--describe"});
  some({"pe-train", "--set", "train.to"}, {"train.tokens="});
  some({"pe-train", "--input", ""}, {"data="});
  some({"pe-train", "--output", ""}, {"model="});
  // Topics of help: groups, fields, lists of kinds, and kinds.
  some({"pe-train", "--help", ""}, {"all", "model", "train.peak_lr", "encodings", "rope"});
  some({"pe-train", "-h", "yar"}, {"yarn", "yarn_resonance"});
  some({"pe-train", "--help=enc"}, {"--help=encodings"});
  BOOST_TEST(asked(project, {"pe-score", "--help", ""}).count("all") == 0u);  // a program without topics
  some({"pe-score", "--"}, {"--encoding", "--route"});
  some({"pe-score", "--route", ""}, {"reference", "fused", "chunked"});
  some({"pe-score", "--encoding", "yar"}, {"yarn", "yarn_resonance"});
  some({"pe-encodings", ""}, {"check", "pages", "golden"});
  // A word gets candidates of its kind, and none of another.
  const auto only = [&](const std::vector<std::string>& words, const std::string& typed, const std::string& expected) {
    std::vector<std::string> all = words;
    all.push_back(typed);
    const auto found = asked(project, all);
    BOOST_TEST(found.size() == (expected.empty() ? 0u : 1u), text_of(found));
    if (!expected.empty()) BOOST_TEST(found.count(expected), expected << " is not among\n" << text_of(found));
  };
  only({"pe-encodings", "check"}, "alib", "alibi");
  only({"pe-encodings", "pages"}, "alib", "");
  only({"pe-pipeline", "show", "encoding"}, "alib", "alibi");
  only({"pe-pipeline", "show", "report"}, "", "");
  only({"pe-pipeline", "plan", file, "--device"}, "h1", "h100");
  only({"pe-pipeline", "plan", file, "--device"}, "hop", "");
  only({"pe-hub", "--data"}, "", "");
  only({"pe-pipeline", "metrics", "--project"}, "", "");
  only({"pe-pipeline", "unpin"}, "", "");
  project.call_words({Project::program(), "pin", "paper", "report"});
  only({"pe-pipeline", "unpin"}, "", "paper");
  some({"/some/where/pe-train", "--set", "model.encoding="}, {"model.encoding=rope", "model.encoding=none"});
}

BOOST_AUTO_TEST_CASE(what_is_wrong_or_unknown_completes_to_nothing_and_says_nothing) {
  const Project project("schema: pe-pipeline/1\nname: [");
  const std::string file = project.file().string();
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"pe-pipeline", "run", file, ""},
                                             {"pe-pipeline", "nothing", ""},
                                             {"pe-pipeline"},
                                             {},
                                             {"pe-none", "--set", "a"},
                                             {"pe-pipeline", "run", "nowhere.yml", "--axis", ""}}) {
    std::vector<std::string> call = {Project::program(), "__complete", "fish"};
    call.insert(call.end(), words.begin(), words.end());
    const auto answer = project.call_words(call);
    BOOST_TEST(answer.code == 0);
    BOOST_TEST(answer.err == "");
  }
}

BOOST_AUTO_TEST_CASE(bash_gets_the_part_of_a_word_that_it_replaces) {
  const Project project;
  fs::copy_file(project.file(), project.root() / "t.yml");
  const auto one = [&](const std::string& line, const std::string& expected) {
    const auto found = asked_by_bash(project, line);
    BOOST_TEST(found.count(expected), line << ": " << expected << " is not among\n" << text_of(found));
  };
  one("pe-pipeline pl", "plan");
  one("pe-pipeline run t", "t.yml");
  one("pe-pipeline run t.yml 'decay[seed=", "decay[seed=1]");  // inside quotes nothing is escaped
  one("pe-pipeline run t.yml decay", "decay\\[");
  one("pe-pipeline run t.yml decay[seed=", "1\\]");  // bash breaks words at =
  one("pe-pipeline run --progress=j", "json");
}

BOOST_AUTO_TEST_CASE(a_real_bash_completes_at_its_prompt,
                     *boost::unit_test::precondition(pe::test::Installed{"bash"})) {
  const Project project;
  PseudoTerminal shell(160, 24,
                       {"env", "TERM=dumb", "INPUTRC=/dev/null", "PS1=> ",
                        "PATH=" + fs::path(Project::program()).parent_path().string() + ":" + ::getenv("PATH"), "bash",
                        "--norc", "--noprofile", "-i"},
                       project.root().string());
  shell.type("source <(pe-pipeline completion bash); bind 'set enable-bracketed-paste off'; echo rea''dy\n");
  BOOST_REQUIRE_MESSAGE(shell.read_until("\nready", 10), shell.screen.text());
  shell.type("pe-pipeline expl\t");
  BOOST_TEST(shell.read_until("> pe-pipeline explain", 10), shell.screen.text());
  shell.type("toy.\t'trunk[se\t");
  BOOST_TEST(shell.read_until("pe-pipeline explain toy.yml 'trunk[seed=", 10), shell.screen.text());
  shell.type("2]' --js\t");
  BOOST_TEST(shell.read_until("toy.yml 'trunk[seed=2]' --json", 10), shell.screen.text());
  shell.type("\003");  // the terminal drops what was typed with it
  shell.read_for(0.5);
  shell.type("pe-train --set train.warmup\t");
  BOOST_TEST(shell.read_until("pe-train --set train.warmup_", 10), shell.screen.text());
  shell.type("\003");
  shell.read_for(0.5);
  shell.type("pe-train --help encodin\t");
  BOOST_TEST(shell.read_until("pe-train --help encodings", 10), shell.screen.text());
  shell.type("\003");
  shell.read_for(0.5);
  shell.type("exit\n");
  shell.wait();
}

BOOST_AUTO_TEST_CASE(a_real_zsh_completes_at_its_prompt, *boost::unit_test::precondition(pe::test::Installed{"zsh"})) {
  const Project project;
  PseudoTerminal shell(
      160, 24,
      {"env", "TERM=vt100", "ZDOTDIR=/nonexistent", "PS1=> ",
       "PATH=" + fs::path(Project::program()).parent_path().string() + ":" + ::getenv("PATH"), "zsh", "-f", "-i"},
      project.root().string());
  shell.type(
      "autoload -U compinit; compinit -u -D; source <(pe-pipeline completion zsh); unsetopt zle_bracketed_paste; echo "
      "rea''dy\n");
  BOOST_REQUIRE_MESSAGE(shell.read_until("\nready", 15), shell.screen.text());
  shell.type("pe-pipeline expl\t");
  BOOST_TEST(shell.read_until("> pe-pipeline explain", 10), shell.screen.text());
  shell.type("toy.\t");
  BOOST_TEST(shell.read_until("explain toy.yml", 10), shell.screen.text());
  shell.type("'trunk[se\t");
  BOOST_TEST(shell.read_until("'trunk[seed=", 10), shell.screen.text());
  shell.type("\003");
  shell.read_for(0.5);
  shell.type("pe-train --help encodin\t");
  BOOST_TEST(shell.read_until("pe-train --help encodings", 10), shell.screen.text());
  shell.type("\003");
  shell.read_for(0.5);
  shell.type("exit\n");
  shell.wait();
}

BOOST_AUTO_TEST_CASE(a_real_fish_completes, *boost::unit_test::precondition(pe::test::Installed{"fish"})) {
  const Project project;
  const std::string path = fs::path(Project::program()).parent_path().string();
  const auto ask = [&](const std::string& line) {
    return lines_of(
        project
            .call_words({"env", "HOME=" + project.root().string(), "PATH=" + path + ":" + ::getenv("PATH"), "fish",
                         "--no-config", "-c", "pe-pipeline completion fish | source; complete -C \"" + line + "\""})
            .out);
  };
  BOOST_TEST(ask("pe-pipeline expl").count("explain"));
  BOOST_TEST(ask("pe-pipeline run toy.").count("toy.yml"));
  BOOST_TEST(ask("pe-pipeline run toy.yml tru").count("trunk"), text_of(ask("pe-pipeline run toy.yml tru")));
  BOOST_TEST(ask("pe-pipeline run toy.yml --progress ").count("plain"));
  BOOST_TEST(ask("pe-train --set train.warmup").size() > 0u);
  BOOST_TEST(ask("pe-train --help encodin").count("encodings"), text_of(ask("pe-train --help encodin")));
}

BOOST_AUTO_TEST_SUITE_END()
