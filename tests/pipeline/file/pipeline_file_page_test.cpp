// doc/pipeline-files.md explains every key that the parser knows, each with an example. The parser lists its keys
// itself: the error for an unknown key names the known ones.
#include <boost/test/unit_test.hpp>

#include "pipeline/file/pipeline_file.h"
#include "pipeline/file/policy.h"
#include "pipeline/file/slurm_policy.h"
#include "support/error.h"
#include "support/files.h"
#include "support/test_data.h"
#include "support/text.h"

using namespace pe;  // NOLINT

namespace {

/// The keys that a refusal of the key 'qqqqqqqqqqqq' offers.
std::vector<std::string> keys_in(const std::string& message) {
  const std::string mark = "expected one of ";
  const auto at = message.find(mark, message.find("qqqqqqqqqqqq"));
  BOOST_REQUIRE_MESSAGE(at != std::string::npos, message);
  const auto end = message.find('\n', at);
  std::vector<std::string> keys;
  for (const std::string& key : support::split(message.substr(at + mark.size(), end - at - mark.size()), ',')) {
    keys.emplace_back(support::trim(key));
  }
  return keys;
}

std::vector<std::string> keys_of_file(const std::string& text) {
  try {
    pipeline::parse_pipeline_file(text, "x.yml", "/");
  } catch (const support::ConfigError& error) {
    return keys_in(error.what());
  }
  BOOST_FAIL("nothing was refused in " << text);
  return {};
}

template <typename Read>
std::vector<std::string> keys_of_policy(Read read) {
  support::Diagnostics diagnostics;
  read(support::parse_yaml("{qqqqqqqqqqqq: 1}", "x.yml"), diagnostics);
  try {
    diagnostics.throw_if_any();
  } catch (const support::ConfigError& error) {
    return keys_in(error.what());
  }
  BOOST_FAIL("nothing was refused");
  return {};
}

/// Every key is in its section, in a row with an example.
void check_section(const std::string& page, const std::string& heading, const std::vector<std::string>& keys) {
  const auto begin = page.find(heading + "\n");
  BOOST_REQUIRE_MESSAGE(begin != std::string::npos, "no section " << heading);
  const auto end = page.find("\n#", begin + heading.size());
  const std::string section = page.substr(begin, end == std::string::npos ? end : end - begin);
  BOOST_TEST(keys.size() >= 2u, heading);
  for (const std::string& key : keys) {
    const auto row = section.find("\n| `" + key + "` |");
    BOOST_TEST((row != std::string::npos), heading << " lacks the key " << key);
    if (row == std::string::npos) continue;
    const std::string line = section.substr(row + 1, section.find('\n', row + 1) - row - 1);
    BOOST_TEST((line.find("`" + key + ": ") != std::string::npos), heading << ": " << key << " has no example");
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pipeline_file_page)

BOOST_AUTO_TEST_CASE(every_key_that_the_parser_knows_is_explained_with_an_example) {
  const std::string page = support::read_file(test::source_root() / "doc" / "pipeline-files.md");
  const std::string head = "schema: pe-pipeline/1\nname: x\n";
  const std::string stage = "stages:\n  a:\n    run: pe-a\n";
  check_section(page, "## Top level", keys_of_file(head + "qqqqqqqqqqqq: 1\n" + stage));
  check_section(page, "## `defaults`", keys_of_file(head + "defaults: {qqqqqqqqqqqq: 1}\n" + stage));
  check_section(page, "## `sequential`", keys_of_file(head + "sequential: {qqqqqqqqqqqq: 1}\n" + stage));
  check_section(page, "## A stage", keys_of_file(head + stage + "    qqqqqqqqqqqq: 1\n"));
  check_section(page, "### `config`", {"file", "set"});
  check_section(page, "## `scales`", keys_of_file(head + "scales: {a: {qqqqqqqqqqqq: 1}}\n" + stage));
  check_section(page, "## `resources`",
                keys_of_policy([](const support::Node& node, support::Diagnostics& diagnostics) {
                  pipeline::Resources resources;
                  pipeline::read_resources(node, resources, diagnostics);
                }));
  check_section(page, "## `retry`", keys_of_policy([](const support::Node& node, support::Diagnostics& diagnostics) {
                  pipeline::RetryPolicy retry;
                  pipeline::read_retry(node, retry, diagnostics);
                }));
  check_section(page, "## `checkpoint`",
                keys_of_policy([](const support::Node& node, support::Diagnostics& diagnostics) {
                  Json checkpoint = Json::object();
                  pipeline::read_checkpoint(node, checkpoint, diagnostics);
                }));
  check_section(page, "## `slurm`", keys_of_policy([](const support::Node& node, support::Diagnostics& diagnostics) {
                  pipeline::SlurmPolicy policy;
                  pipeline::read_slurm(node, /*of_stage=*/false, policy, diagnostics);
                }));
}

BOOST_AUTO_TEST_SUITE_END()
