#include "data/inspect.h"

#include <boost/test/unit_test.hpp>

#include "artifact/raw_text.h"
#include "data/tokenize.h"
#include "support/error.h"
#include "support/temp_folder.h"

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

  const auto has = [](const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; };
  const std::string raw = data::inspect(folder / "raw", {});
  BOOST_TEST(has(raw, "12 documents, 1,086 bytes"), raw);
  BOOST_TEST(has(raw, "b.txt: 11 documents"));
  BOOST_TEST(has(raw, "Hello\\x1b[31m there"));   // nothing that commands a terminal
  BOOST_TEST(has(raw, "1,024 bytes"));
  const std::string shards = data::inspect(folder / "data" / "manifest.json", {.documents = 1, .characters = 20, .split = "train"});
  BOOST_TEST(has(shards, "train: 11 documents, 1,081 tokens, 1,070 bytes"), shards);
  BOOST_TEST(has(shards, "256 120 120"));
  BOOST_TEST(has(shards, "xxxxxxxxxxxxxxxxxxx\n"));
  BOOST_TEST(has(data::inspect(folder / "data", {.documents = 3, .characters = 400, .split = "validation"}), "Hello\\x1b[31m there"));
  BOOST_CHECK_THROW(data::inspect(folder / "data", {.documents = 3, .characters = 400, .split = "dev"}), support::ConfigError);
  BOOST_CHECK_THROW(data::inspect(folder.path(), {}), support::ArtifactError);
}

BOOST_AUTO_TEST_SUITE_END()
