#include "data/token_shards/inspect.h"

#include <boost/test/unit_test.hpp>

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
