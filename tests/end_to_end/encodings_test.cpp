// User commands on encodings through the programs: lists, pages of one, scores, and errors with their place.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <set>

#include "support/files.h"
#include "support/installed.h"
#include "support/json.h"
#include "support/process.h"
#include "support/temp_folder.h"
#include "support/test_data.h"
#include "support/text.h"

namespace fs = std::filesystem;
using pe::Json;
using pe::support::capture;
using pe::support::CapturedOutput;

namespace {

std::string program(const std::string& name) { return (pe::test::build_root() / "stages" / name).string(); }

void check_says(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    BOOST_TEST(text.find(part) != std::string::npos, "'" << part << "' is missing in: " << text);
}

std::vector<std::string> listed_names() {
  const CapturedOutput answer = capture({program("pe-pipeline"), "list", "encodings", "--json"});
  BOOST_REQUIRE_MESSAGE(answer.status.code == 0, answer.err);
  std::vector<std::string> names;
  const Json listed = Json::parse(answer.out);
  for (const Json& one : listed.at("encodings")) names.push_back(one.at("name"));
  BOOST_REQUIRE(names.size() > 10);
  return names;
}

/// `pipelines/smoke.yml` with another line for the encoding; the lines before it stay where they are.
struct Project {
  explicit Project(const std::string& encoding, const std::string& model = "") {
    fs::copy(pe::test::source_root() / "configs", folder / "configs", fs::copy_options::recursive);
    std::ofstream(folder / "bad.yml") << R"(schema: pe-pipeline/1
name: bad
stages:
  fetch:
    run: pe-fetch
    config:
      set: {source: generated, generated.words: 3k, generated.max_words: 200, generated.seed: 1}
  tokenize:
    run: pe-tokenize
    needs: {raw: fetch}
    config:
      file: configs/tokenize.yml
      set: {tokenizer: bytes}
  trunk:
    run: pe-train
    needs: {data: tokenize}
    config:
      file: [configs/model.yml, configs/train.yml]
      set:
        model: {width: 32, layers: 2, heads: 2)"
                                      << model << R"(}
        train: {batch: 4, length: 64, seed: 42, tokens: 16k, decay_share: 0, warmup_steps: 4}
        model.encoding: )" << encoding << "\n";
  }
  std::string refusal() const {
    const CapturedOutput answer =
        capture({program("pe-pipeline"), "run", (folder / "bad.yml").string(), "--store", (folder / "store").string()});
    BOOST_TEST(answer.status.code == 2, answer.err);
    return answer.err;
  }
  pe::test::TempFolder folder;
};

/// The tasks of a pipeline at a scale; "": the file has none.
std::string tasks_of(const std::string& name, const std::string& scale) {
  std::vector<std::string> words{
      program("pe-pipeline"), "list",  "tasks", (pe::test::source_root() / "pipelines" / name).string(), "--store",
      "/nonexistent-store",   "--json"};
  if (!scale.empty()) words.insert(words.end(), {"--scale", scale});
  const CapturedOutput listed = capture(words);
  BOOST_REQUIRE_MESSAGE(listed.status.code == 0, listed.err);
  return listed.out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(encodings_for_people)

BOOST_AUTO_TEST_CASE(list_encodings_has_a_line_for_each) {
  const CapturedOutput answer = capture({program("pe-pipeline"), "list", "encodings"});
  BOOST_TEST(answer.status.code == 0);
  check_says(answer.out, {"name", "kind", "acts on", "learned", "reference", "rope", "token embeddings",
                          "arXiv:2104.09864", "layers·(33·heads + 66)"});
  const std::vector<std::string> names = listed_names();
  BOOST_TEST(static_cast<std::size_t>(std::count(answer.out.begin(), answer.out.end(), '\n')) == names.size() + 1);
  BOOST_TEST(names.front() == "none");
}

BOOST_AUTO_TEST_CASE(show_encoding_tells_formula_options_and_errata) {
  const CapturedOutput answer = capture({program("pe-pipeline"), "show", "encoding", "yarn"});
  BOOST_TEST(answer.status.code == 0);
  check_says(answer.out, {"formula", "ramp", "known for", "errata", "options", "factor", "default 1", "tokens",
                          "arXiv:2309.00071"});
  const CapturedOutput json = capture({program("pe-pipeline"), "show", "encoding", "nope", "--json"});
  BOOST_TEST(Json::parse(json.out).at("name") == "none");
  const CapturedOutput unknown = capture({program("pe-pipeline"), "show", "encoding", "yran"});
  BOOST_TEST(unknown.status.code == 2);
  check_says(unknown.err, {"unknown encoding 'yran'", "did you mean 'yarn'?"});
  const CapturedOutput none = capture({program("pe-pipeline"), "show", "encoding"});
  BOOST_TEST(none.status.code == 2);
  check_says(none.err, {"which encoding?", "list encodings"});
}

BOOST_AUTO_TEST_CASE(scores_agree_with_numpy_through_h5py,
                     *boost::unit_test::precondition(pe::test::PythonHas{"h5py, numpy"})) {
  const pe::test::TempFolder folder;
  const CapturedOutput answer =
      capture({"/usr/bin/python3", (pe::test::source_root() / "tests/end_to_end/score_oracle.py").string(),
               program("pe-score"), folder.path().string()});
  BOOST_TEST(answer.status.code == 0, answer.out << answer.err);
}

BOOST_AUTO_TEST_CASE(pe_encodings_checks_one_encoding) {
  const auto check = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {program("pe-encodings"), "check"});
    return capture(words);
  };
  const CapturedOutput alibi = check({"alibi"});
  BOOST_TEST(alibi.status.code == 0, alibi.out << alibi.err);
  check_says(alibi.out, {"ok    entry", "ok    gradients", "finite differences", "ok    causality", "ok    repetition",
                         "alibi: ", "configurations, all checks passed"});
  BOOST_TEST(alibi.out.find("FAIL") == std::string::npos);
  const CapturedOutput yarn = check({"{kind: yarn, factor: 4}"});
  BOOST_TEST(yarn.status.code == 0, yarn.out << yarn.err);
  check_says(yarn.out, {"yarn: 1 configuration, all checks passed"});
  const CapturedOutput unknown = check({"alibbi"});
  BOOST_TEST(unknown.status.code == 2);
  check_says(unknown.err, {"alibbi", "did you mean 'alibi'?"});
  const CapturedOutput none = check({});
  BOOST_TEST(none.status.code == 2);
  check_says(none.err, {"the name of an encoding is missing", "add NAME"});
  const CapturedOutput ignored = capture({program("pe-encodings"), "pitfalls", "alibi"});
  BOOST_TEST(ignored.status.code == 2);
  check_says(ignored.err, {"'pitfalls' takes no name of an encoding", "'alibi'"});
}

BOOST_AUTO_TEST_CASE(pe_score_names_what_is_wrong) {
  const pe::test::TempFolder folder;
  const auto said = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), program("pe-score"));
    const CapturedOutput answer = capture(flags);
    BOOST_TEST(answer.status.code != 0);
    return answer.err;
  };
  check_says(said({"--encodin", "rope"}), {"--encodin", "did you mean", "--encoding"});
  check_says(said({"--encoding", "rope"}), {"--in is missing"});
  check_says(said({"--encoding", "rotery", "--in", "a.h5", "--out", "b.h5"}), {"--encoding", "did you mean 'rotary'?"});
  check_says(said({"--encoding", "yarn", "--set", "factor=0.2", "--in", "a.h5", "--out", "b.h5"}),
             {"--set factor", "at least 1"});
  check_says(said({"--encoding", "rope", "--in", "/nonexistent.h5", "--out", "b.h5"}), {"/nonexistent.h5"});
  check_says(said({"--encoding", "rope", "--dtype", "float16", "--in", "a.h5", "--out", "b.h5"}),
             {"--dtype", "bfloat16", "float16"});
  check_says(said({"--encoding", "rope", "--layer", "x", "--in", "a.h5", "--out", "b.h5"}), {"--layer", "'x'"});
}

BOOST_AUTO_TEST_CASE(a_head_width_that_cannot_be_turned_names_the_config_line) {
  check_says(Project("rope", ", head_width: 15").refusal(),
             {"bad.yml:22", "model.encoding", "head width 15", "not even"});
}

BOOST_AUTO_TEST_CASE(a_text_longer_than_a_learned_table_names_the_config_line) {
  check_says(Project("{kind: learned, max_positions: 32}").refusal(),
             {"bad.yml:22", "32 positions", "train.length is 64"});
}

BOOST_AUTO_TEST_CASE(a_factor_below_one_names_the_config_line) {
  check_says(Project("{kind: yarn, factor: 0.5}").refusal(), {"bad.yml:22", "factor", "0.5"});
}

BOOST_AUTO_TEST_CASE(an_unknown_option_names_the_config_line_and_the_nearest_word) {
  check_says(Project("{kind: yarn, facotr: 2}").refusal(), {"bad.yml:22", "facotr", "did you mean 'factor'?"});
}

BOOST_AUTO_TEST_CASE(two_rotations_in_a_stack_name_the_config_line) {
  check_says(Project("{stack: [rope, yarn]}").refusal(), {"bad.yml:22", "'rope' and 'yarn'", "both rotate"});
}

BOOST_AUTO_TEST_CASE(the_pipelines_over_every_encoding_have_them_all) {
  const std::string few = tasks_of("every_encoding.yml", "");
  const std::string atlas = tasks_of("atlas.yml", "full");
  const std::string page = pe::support::read_file(pe::test::source_root() / "doc/studies/atlas.md");
  const std::string grid = tasks_of("fineweb_grid.yml", "full") + tasks_of("fineweb_grid.yml", "others");
  const std::set<std::string> without_text{"distance_map", "coupled", "formula"};  // atlas.yml has the reasons
  for (const std::string& name : listed_names()) {
    BOOST_TEST(few.find(pe::support::cat("trunk[encoding=", name)) != std::string::npos,
               name << " is not in every_encoding.yml");
    if (without_text.count(name) == 1) continue;
    BOOST_TEST(atlas.find(pe::support::cat("train[encoding=", name, ",")) != std::string::npos,
               name << " is not in atlas.yml");
    BOOST_TEST(page.find(pe::support::cat("`", name, "`")) != std::string::npos,
               name << " is neither in a table of doc/studies/atlas.md nor among the missing rows");
    BOOST_TEST(grid.find(pe::support::cat("trunk[encoding=", name, ",")) != std::string::npos,
               name << " is not in fineweb_grid.yml");
  }
}

BOOST_AUTO_TEST_SUITE_END()
