// Every program at the edges of the system it runs on: streams that are full or closed, limits of files and memory,
// outputs that are no files.
#include <sys/stat.h>

#include <boost/test/unit_test.hpp>
#include <set>

#include "project.h"
#include "support/error.h"
#include "support/explain.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/process.h"
#include "support/temp_folder.h"
#include "support/test_data.h"
#include "support/text.h"

using namespace pe;  // NOLINT
namespace fs = std::filesystem;
using test::has;

namespace {

struct Ended {
  int code = 0;
  std::string err, out;
};

/// A line of a shell, with the programs on its PATH.
Ended shell(const std::string& line, const fs::path& folder) {
  const std::string path = "PATH='" + (test::build_root() / "stages").string() + "':\"$PATH\"; ";
  const support::CapturedOutput found = support::capture({"bash", "-c", path + line}, {}, 1u << 20, folder);
  return {found.status.code, found.err, found.out};
}

/// The programs that were built, by name.
std::vector<std::string> programs() {
  std::vector<std::string> found;
  for (const std::string& name : support::list_folder(test::build_root() / "stages")) {
    const fs::path path = test::build_root() / "stages" / name;
    if (name.rfind("pe-", 0) == 0 && name.find('.') == std::string::npos && fs::is_regular_file(path))
      found.push_back(name);
  }
  return found;
}

/// Raw text, and shards of it: `raw`, `data`.
void make_data(const test::TempFolder& folder) {
  BOOST_TEST_REQUIRE(
      shell("pe-fetch --set source=generated --set generated.words=20k --output raw=raw --progress none && "
            "pe-tokenize --set vocabulary=512 --input raw=raw --output data=data --progress none",
            folder.path())
          .code == 0);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(programs_end_to_end)

BOOST_AUTO_TEST_CASE(standard_output_that_takes_nothing_is_told) {
  const test::TempFolder folder;
  BOOST_TEST_REQUIRE(programs().size() > 5u);
  for (const std::string& program : programs()) {
    const int expected = program == "pe-pipeline" ? 4 : support::kExitIo;
    for (const char* flag : {"--version", "--help"}) {
      for (const char* to : {">/dev/full", ">&-"}) {
        const Ended ended = shell(support::cat(program, " ", flag, " ", to), folder.path());
        BOOST_TEST(ended.code == expected, program << " " << flag << to << ": " << ended.err);
        BOOST_TEST(has(ended.err, "cannot write to standard output"),
                   program << " " << flag << to << ": " << ended.err);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_run_whose_events_are_lost_fails) {
  const test::TempFolder folder;
  support::write_file_atomically(folder / "t.yml",
                                 "schema: pe-pipeline/1\nname: t\nstages:\n"
                                 "  fetch: {run: pe-fetch, config: {set: {source: generated, generated.words: 20k}}}\n",
                                 false);
  const Ended ended = shell("pe-pipeline run t.yml --store store --progress json >/dev/full", folder.path());
  BOOST_TEST(ended.code == 4, ended.err);
  BOOST_TEST(has(ended.err, "cannot write to standard output"), ended.err);
  BOOST_TEST(has(shell("pe-pipeline run t.yml --store store", folder.path()).out, "nothing to do"));  // it did its work
}

BOOST_AUTO_TEST_CASE(stages_by_hand_end_with_their_results) {
  const test::TempFolder folder;
  make_data(folder);
  const auto succeeds = [&](const std::string& line) {
    const Ended ended = shell(line, folder.path());
    BOOST_TEST_REQUIRE(ended.code == 0, line << ": " << ended.err);
    return ended.out;
  };
  BOOST_TEST(succeeds("pe-train --input data=data --set train.tokens=4k --set train.length=32 --set train.batch=4 "
                      "--set train.warmup_steps=2 --set model.width=16 --set model.layers=1 --set model.heads=2 "
                      "--output model=m.h5 --output metrics=curves.h5 --progress none") == "");
  const std::string scores = succeeds(
      "pe-evaluate --input model=m.h5 --input data=data --set eval.tasks='[perplexity,copy]' "
      "--set eval.lengths='[1,2]' --set eval.documents=4 --set eval.min_documents=2 "
      "--set eval.perplexity.protocols='[prefix,sliding]' --output scores=e.h5 --progress none");
  for (const char* name : {"perplexity, prefix: ", "perplexity, sliding: ", "copy, exact answers: "}) {
    const auto at = scores.find(name);
    BOOST_REQUIRE_MESSAGE(at != std::string::npos, scores);
    const std::string line = scores.substr(at, scores.find('\n', at) - at);
    BOOST_TEST(has(line, " at 32, "), line);
    BOOST_TEST(line.substr(line.size() - 6) == " at 64", line);
  }
  BOOST_TEST(has(scores, "; `pe-data e.h5` prints them\n"), scores);
  const std::string tables = succeeds("pe-data e.h5");
  BOOST_TEST(tables.rfind("lm_summary: 4 rows\n", 0) == 0u, tables);
  for (const std::string& line : support::split(tables, '\n')) BOOST_TEST(support::display_width(line) <= 80u, line);
  BOOST_TEST(has(succeeds("pe-data curves.h5 --table train"), "train: "));

  const std::string texts = succeeds(
      "pe-sample --input model=m.h5 --input data=data --set sample.prompts='[The cat, A dog]' "
      "--set sample.documents=0 --set sample.tokens=8 --output texts=t.h5 --progress none");
  for (const char* part : {"given 0\n  prompt: The cat\n  text: ", "given 1\n  prompt: A dog\n  text: "})
    BOOST_TEST(has(texts, part), texts);
  BOOST_TEST(has(succeeds("pe-data t.h5"), texts));
}

BOOST_AUTO_TEST_CASE(a_limit_of_file_sizes_ends_no_program_without_a_word) {
  const test::TempFolder folder;
  make_data(folder);
  const std::set<std::string> before{"data", "raw"};
  for (const std::string line :
       {"pe-fetch --set source=generated --set generated.words=200k --output raw=more --progress none",
        "pe-tokenize --set vocabulary=512 --input raw=raw --output data=more --progress none"}) {
    const Ended ended = shell("ulimit -f 8; " + line, folder.path());
    BOOST_TEST(ended.code == support::kExitIo, line << ": " << ended.err);
    BOOST_TEST(has(ended.err, "File too large"), ended.err);
    for (const std::string& name : support::list_folder(folder.path())) {
      BOOST_TEST((before.count(name) == 1 || has(name, ".work")), name);
    }
  }
}

BOOST_AUTO_TEST_CASE(outputs_replace_nothing_but_files_and_no_input) {
  const test::TempFolder folder;
  make_data(folder);
  BOOST_TEST_REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
  const std::string train =
      "pe-train --input data=data --set train.tokens=4k --set train.length=32 --set train.batch=4 --progress none ";
  const Ended fifo = shell(train + "--output metrics=fifo", folder.path());
  BOOST_TEST(fifo.code == support::kExitCannotCreate, fifo.err);
  BOOST_TEST(support::irregular_kind(folder / "fifo", false).value() == "a FIFO");
  const std::string digest = support::read_file(folder / "data/dataset.h5");
  for (const char* outputs : {"--output model=data/dataset.h5", "--output model=same.h5 --output metrics=same.h5"}) {
    const Ended ended = shell(train + outputs, folder.path());
    BOOST_TEST(ended.code == support::kExitConfig, outputs << ": " << ended.err);
  }
  BOOST_TEST(support::read_file(folder / "data/dataset.h5") == digest);
  BOOST_TEST(!fs::exists(folder / "same.h5"));
}

BOOST_AUTO_TEST_CASE(a_model_that_is_larger_than_memory_is_out_of_memory) {
  const test::TempFolder folder;
  make_data(folder);
  const Ended ended = shell(
      "ulimit -v 6000000; pe-train --input data=data --set model.width=32768 --set model.heads=128 "
      "--set train.tokens=1M --set train.length=32 --set train.batch=4 --progress none",
      folder.path());
  BOOST_TEST(ended.code == support::kExitOutOfMemory, ended.err);
  BOOST_TEST(has(ended.err, "out of memory"), ended.err);
  BOOST_TEST(has(ended.err, "compute.micro_batch"), ended.err);
}

BOOST_AUTO_TEST_CASE(few_descriptors_are_named_as_the_reason) {
  const test::TempFolder folder;
  support::write_file_atomically(folder / "p.yml",
                                 "schema: pe-pipeline/1\nname: few\nstages:\n"
                                 "  raw: {run: pe-fetch, config: {set: {source: generated, generated.words: 2k}}}\n");
  for (const int limit : {16, 24, 32}) {
    const Ended ended =
        shell(support::cat("ulimit -n ", limit, "; pe-pipeline run p.yml --progress none"), folder.path());
    BOOST_TEST((ended.code == 0 || has(ended.err, "Too many open files")),
               limit << ": " << ended.code << " " << ended.err);
    BOOST_TEST(!has(ended.err, "Invalid argument"), ended.err);
  }
}

BOOST_AUTO_TEST_SUITE_END()
