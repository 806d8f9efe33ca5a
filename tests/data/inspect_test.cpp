#include "data/token_shards/inspect.h"

#include <boost/test/unit_test.hpp>

#include "artifact/checkpoint.h"
#include "artifact/eval_table.h"
#include "artifact/metrics.h"
#include "artifact/raw_text.h"
#include "data/token_shards/tokenize.h"
#include "support/error.h"
#include "support/files.h"
#include "support/installed.h"
#include "support/process.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

using namespace pe;

BOOST_AUTO_TEST_SUITE(inspect)

BOOST_AUTO_TEST_CASE(totals_lengths_and_first_documents_are_told) {
  const test::TempFolder folder;
  artifact::RawTextWriter writer(folder / "raw", {});
  writer.add("Hello\x1b[31m there", "a.txt", 0);
  writer.add(std::string(1000, 'x'), "b.txt", 0);
  for (int i = 0; i < 10; ++i) writer.add("short " + std::to_string(i), "b.txt", 1);
  writer.finish();
  data::TokenizeConfig config;
  config.tokenizer = data::TokenizeConfig::Tokenizer::kBytes;
  config.split.validation_files = {"a.txt"};
  artifact::Workspace workspace;
  workspace.inputs["raw"] = {{folder / "raw", artifact::Kind::kRawText, "", {}}};
  workspace.outputs["data"] = folder / "data";
  workspace.progress = &support::silent_progress();
  data::tokenize(config, workspace);

  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  const std::string raw = data::inspect(folder / "raw", {});
  BOOST_TEST(has(raw, "12 documents, 1,086 bytes"), raw);
  BOOST_TEST(has(raw, "b.txt: 11 documents"));
  BOOST_TEST(has(raw, "Hello\\x1b[31m there"));  // nothing that commands a terminal
  BOOST_TEST(has(raw, "1,024 bytes"));
  const std::string shards =
      data::inspect(folder / "data" / "manifest.json", {.documents = 1, .characters = 20, .split = "train"});
  BOOST_TEST(has(shards, "train: 11 documents, 1,081 tokens, 1,070 bytes"), shards);
  BOOST_TEST(has(shards, "256 120 120"));
  BOOST_TEST(has(shards, "xxxxxxxxxxxxxxxxxxx\n"));
  BOOST_TEST(has(data::inspect(folder / "data", {.documents = 3, .characters = 400, .split = "validation"}),
                 "Hello\\x1b[31m there"));
  BOOST_CHECK_THROW(data::inspect(folder / "data", {.documents = 3, .characters = 400, .split = "dev"}),
                    support::ConfigError);
  BOOST_CHECK_THROW(data::inspect(folder.path(), {}), support::ArtifactError);
}

BOOST_AUTO_TEST_CASE(tables_are_shown_and_other_kinds_are_named) {
  const test::TempFolder folder;
  using artifact::ColumnType;
  artifact::Table documents("lm_doc", {{"doc_id", ColumnType::kInteger, ""}});
  for (int i = 0; i < 100; ++i) documents.add_row({i});
  artifact::Table summary("lm_summary", {{"L", ColumnType::kInteger, "tokens"}, {"ppl", ColumnType::kReal, ""}});
  summary.add_row({128, 3.25});
  summary.add_row({256, 4.5});
  artifact::write_eval_tables(folder / "scores.h5", {}, {{documents, summary}, {}});
  artifact::write_metrics(folder / "curves.h5", {}, {{documents}, {}});
  const std::string kSummary = "lm_summary: 2 rows\n    L   ppl\n  128  3.25\n  256   4.5\n";
  const std::string all = data::inspect(folder / "scores.h5", {});
  BOOST_TEST(all.rfind(kSummary + "\nlm_doc: 100 rows\n  doc_id\n       0\n", 0) == 0u, all);
  BOOST_TEST(all.find("\n      19\n  … 60 more rows\n      80\n") != std::string::npos, all);
  BOOST_TEST(data::inspect(folder / "scores.h5", {.table = "lm_summary"}) == kSummary);
  BOOST_TEST(data::inspect(folder / "curves.h5", {.rows = 2}) ==
             "lm_doc: 100 rows\n  doc_id\n       0\n  … 98 more rows\n      99\n");
  const auto refused = [&](const std::string& name, const data::InspectOptions& options, const std::string& words) {
    BOOST_CHECK_EXCEPTION(data::inspect(folder / name, options), support::Error, [&](const support::Error& error) {
      return std::string(error.what()).find(words) != std::string::npos;
    });
  };
  refused("scores.h5", {.table = "lm_sumary"}, "lm_summary");
  artifact::CheckpointWriter(folder / "model.h5", {}, {}).finish();
  refused("model.h5", {}, "expected kind raw-text, tokenizer, token-shards, eval-table or metrics, found checkpoint");
  refused("model.h5", {.table = "lm_doc"}, "--table: expected a file of kind eval-table or metrics, found checkpoint");
  // A file in the folder of a collection is itself.
  artifact::RawTextWriter writer(folder / "raw", {});
  writer.add("a text", "a.txt", 0);
  writer.finish();
  std::filesystem::copy(folder / "scores.h5", folder / "raw/scores.h5");
  BOOST_TEST(data::inspect(folder / "raw/scores.h5", {}) == all);
  BOOST_TEST(data::inspect(folder / "raw/documents-00000.h5", {}).find("raw text: 1 documents") == 0u);
}

BOOST_AUTO_TEST_CASE(the_lines_of_the_document_read_with_h5py,
                     *boost::unit_test::precondition(test::PythonHas{"h5py"})) {
  const test::TempFolder folder;
  artifact::RawTextWriter writer(folder / "raw", {});
  writer.add("h\u00e9llo", "a.txt", 0);
  writer.add("another", "b.txt", 0);
  writer.finish();
  data::TokenizeConfig config;
  config.tokenizer = data::TokenizeConfig::Tokenizer::kBytes;
  config.split.validation_files = {"a.txt"};
  artifact::Workspace workspace;
  workspace.inputs["raw"] = {{folder / "raw", artifact::Kind::kRawText, "", {}}};
  workspace.outputs["data"] = folder / "data";
  workspace.progress = &support::silent_progress();
  data::tokenize(config, workspace);
  const std::string document = support::read_file(test::source_root() / "doc/data.md");
  const std::string begin = "```python\n";
  const std::size_t from = document.find(begin);
  BOOST_REQUIRE(from != std::string::npos);
  std::string lines = document.substr(from + begin.size(), document.find("\n```", from) - from - begin.size());
  lines +=
      "\nassert (text, source) == ('h\u00e9llo', 'a.txt'), (text, source)\n"
      "assert list(ids) == [256] + list(b'another'), ids\n"
      "assert (number, tokenizer, model) == (1, 'bytes', b''), (number, tokenizer, model)\n";
  support::write_file_atomically(folder / "lines.py", lines, false);
  const auto ran =
      support::capture({"/usr/bin/python3", "-c",
                        "import os, sys; os.chdir(sys.argv[1]); exec(open('lines.py', encoding='utf-8').read())",
                        folder.path().string()});
  BOOST_TEST(ran.status.code == 0, ran.err);
}

BOOST_AUTO_TEST_SUITE_END()
