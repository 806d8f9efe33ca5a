#include "artifact/table.h"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <limits>

#include "artifact/artifact_check.h"
#include "artifact/eval_table.h"
#include "artifact/metrics.h"
#include "artifact/table_text.h"
#include "support/error.h"
#include "support/hash.h"
#include "support/replace_text.h"
#include "support/temp_folder.h"

using namespace pe;
using artifact::ColumnType;
using artifact::Table;
using artifact::Tables;

BOOST_AUTO_TEST_SUITE(table)

namespace {

Tables sample() {
  Table docs("lm_doc", {{"run_id", ColumnType::kText, ""},
                        {"L", ColumnType::kInteger, "tokens"},
                        {"nll_sum", ColumnType::kReal, "nats"}});
  docs.add_row({"abc", 128, 3.25});
  docs.add_row({"naïve", std::nullopt, std::numeric_limits<double>::quiet_NaN()});
  docs.add_row({std::nullopt, 0, std::nullopt});
  docs.add_row({"", -5, -std::numeric_limits<double>::infinity()});
  docs.attributes["stride"] = "64";
  Table empty("lm_summary", {{"ppl", ColumnType::kReal, ""}});
  return {{docs, empty}, {{"model", "ff00"}, {"labels", {{"seed", "42"}}}}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(tables_are_text_in_aligned_columns) {
  Table scores("lm_summary", {{"pe", ColumnType::kText, ""},
                              {"protocol", ColumnType::kText, ""},
                              {"L", ColumnType::kInteger, "tokens"},
                              {"ppl", ColumnType::kReal, ""},
                              {"bpb", ColumnType::kReal, "bits/byte"}});
  scores.add_row({"rope", "prefix", 128, 3.3412, 0.5});
  scores.add_row({"rope", "sliding", 128, 12.5, std::nullopt});
  scores.add_row({"rope", "sliding", 1024, std::numeric_limits<double>::quiet_NaN(), 0.25});
  BOOST_TEST(artifact::table_text(scores) ==
             "lm_summary: 3 rows\n"
             "  pe rope\n"
             "  protocol     L    ppl   bpb\n"
             "  prefix     128  3.341   0.5\n"
             "  sliding    128   12.5     -\n"
             "  sliding   1024    nan  0.25\n");
  // Narrow: columns that do not fit follow, after the columns that distinguish rows.
  BOOST_TEST(artifact::table_text(scores, {.rows = 2, .columns = 24}) ==
             "lm_summary: 3 rows\n"
             "  pe rope\n"
             "  protocol     L    ppl\n"
             "  prefix     128  3.341\n"
             "  … 1 more row\n"
             "  sliding   1024    nan\n"
             "\n"
             "   bpb\n"
             "   0.5\n"
             "  … 1 more row\n"
             "  0.25\n");
  const std::string all = artifact::tables_text({{sample().tables[0], scores}, {}});
  BOOST_TEST(all.find("lm_summary: 3 rows") == 0u, all);  // first, though it is the second
  BOOST_TEST(all.find("\n\nlm_doc: 4 rows\n") != std::string::npos, all);
}

BOOST_AUTO_TEST_CASE(long_texts_are_passages_and_command_no_terminal) {
  Table samples("samples", {{"prompt_id", ColumnType::kText, ""},
                            {"text_id", ColumnType::kInteger, ""},
                            {"prompt", ColumnType::kText, ""},
                            {"text", ColumnType::kText, ""}});
  samples.add_row({"given 0", 0, "Once", " upon a time\n\nthere was\x1b[31m a fox."});
  samples.add_row({"given 1", 0, "A fox", " more"});
  const std::string passages =
      "given 0\n"
      "  prompt: Once\n"
      "  text:  upon a time\n"
      "\n"
      "    there was\\x1b[31m a fox.\n"
      "\n"
      "given 1\n"
      "  prompt: A fox\n"
      "  text:  more\n";
  BOOST_TEST(artifact::passages_text(samples) == passages);
  BOOST_TEST(artifact::table_text(samples) ==
             "samples: 2 rows\n  text_id 0\n  prompt_id\n  given 0\n  given 1\n\n" + passages);
  BOOST_TEST(artifact::passages_text(sample().tables[0]).empty());
}

BOOST_AUTO_TEST_CASE(facts_that_are_nested_without_end_are_refused) {
  const test::TempFolder folder;
  artifact::write_eval_tables(folder / "t.h5", {}, sample());
  BOOST_TEST_REQUIRE(test::replace_text(folder / "t.h5", "facts", test::deep_json(300'000)));
  BOOST_CHECK_THROW(artifact::read_eval_tables(folder / "t.h5"), support::ArtifactError);
  BOOST_CHECK_THROW(artifact::check_artifact(folder / "t.h5", artifact::Kind::kEvalTable), support::ArtifactError);
}

BOOST_AUTO_TEST_CASE(cells_come_back_and_missing_ones_stay_missing) {
  const test::TempFolder folder;
  artifact::write_eval_tables(folder / "t.h5", {}, sample());
  const Tables read = artifact::read_eval_tables(folder / "t.h5");
  BOOST_TEST(read.facts == sample().facts);
  BOOST_TEST(read.tables.size() == 2u);
  const Table& docs = read.at("lm_doc");
  BOOST_TEST(docs.rows() == 4u);
  BOOST_TEST(docs.texts("run_id") == (std::vector<std::string>{"abc", "naïve", "", ""}));
  BOOST_TEST(docs.present("run_id") == (std::vector<bool>{true, true, false, true}));
  BOOST_TEST(docs.integers("L")[3] == -5);
  BOOST_TEST(docs.cell(1, 1).missing());
  BOOST_TEST(!docs.cell(2, 1).missing());  // a 0 is no missing value
  BOOST_TEST(!docs.cell(1, 2).missing());  // and a NaN is a separate value
  BOOST_TEST(std::isnan(docs.reals("nll_sum")[1]));
  BOOST_TEST(docs.cell(2, 2).missing());
  BOOST_TEST(std::isinf(docs.reals("nll_sum")[3]));
  BOOST_TEST(std::isnan(docs.reals("L")[1]));
  BOOST_TEST(docs.columns()[1].unit == "tokens");
  BOOST_TEST(docs.attributes.at("stride") == "64");
  BOOST_TEST(read.at("lm_summary").rows() == 0u);
  artifact::check_artifact(folder / "t.h5", artifact::Kind::kEvalTable);
  artifact::write_eval_tables(folder / "again.h5", {}, read);
  BOOST_TEST(support::sha256_file(folder / "t.h5") == support::sha256_file(folder / "again.h5"));
}

BOOST_AUTO_TEST_CASE(names_that_are_not_there_suggest_the_nearest) {
  const Tables tables = sample();
  const auto suggests = [](const char* word) {
    return [word](const support::ArtifactError& e) { return std::string(e.what()).find(word) != std::string::npos; };
  };
  BOOST_CHECK_EXCEPTION(tables.at("lm_dok"), support::ArtifactError, suggests("lm_doc"));
  BOOST_CHECK_EXCEPTION(tables.at("lm_doc").reals("nll_sun"), support::ArtifactError, suggests("nll_sum"));
  BOOST_CHECK_EXCEPTION(tables.at("lm_doc").integers("nll_sum"), support::ArtifactError,
                        suggests("expected integer, found real"));
}

BOOST_AUTO_TEST_CASE(rows_that_do_not_fit_are_our_bug) {
  Table table("t", {{"a", ColumnType::kInteger, ""}});
  BOOST_CHECK_THROW(table.add_row({1, 2}), support::Error);
  BOOST_CHECK_THROW(table.add_row({"text"}), support::Error);
  BOOST_CHECK_THROW(table.add_row({1.5}), support::Error);
  BOOST_TEST(table.rows() == 0u);
}

BOOST_AUTO_TEST_CASE(metrics_are_tables_of_another_kind) {
  const test::TempFolder folder;
  Table train("train", artifact::train_columns());
  train.add_row({1, 1024, 7.6, 2.9, 0.001, 1.5, 0});
  artifact::write_metrics(folder / "m.h5", {}, {{train}, {}});
  BOOST_TEST(artifact::read_metrics(folder / "m.h5").at("train").reals("loss")[0] == 7.6);
  BOOST_CHECK_THROW(artifact::read_eval_tables(folder / "m.h5"), support::ArtifactError);
}

BOOST_AUTO_TEST_SUITE_END()
