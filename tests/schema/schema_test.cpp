// Rows as structs: their columns, differences that reading accepts, and the way through JSON.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "artifact/table.h"
#include "schema/tables.h"
#include "support/error.h"
#include "support/files.h"
#include "support/test_data.h"

using namespace pe;
using artifact::ColumnType;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <typename T>
std::vector<T> read(const artifact::Table& table) {
  const schema::Reader<T> reader(table, "here");
  std::vector<T> rows;
  for (std::size_t row = 0; row < reader.rows(); ++row) rows.push_back(reader.row(row));
  return rows;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(evaluation_tables)

// Artifacts of every version have these columns: none may change its place, and none its name.
BOOST_AUTO_TEST_CASE(tables_and_columns_are_those_of_earlier_artifacts) {
  std::string all;
  for (const schema::Layout& layout : schema::layouts()) {
    all += layout.name + "\n";
    BOOST_TEST(!layout.meaning.empty(), layout.name);
    for (const schema::Column& column : layout.columns) {
      all += "  " + column.name + " " + std::string(artifact::column_type_name(column.type)) +
             (column.unit.empty() ? "" : " " + column.unit) + "\n";
    }
  }
  BOOST_TEST(all == support::read_file(test::source_root() / "tests/schema/golden/columns.txt"));
}

BOOST_AUTO_TEST_CASE(tables_begin_with_the_identity_and_nan_is_missing) {
  schema::Rows rows;
  rows.add(
      schema::AlgoTrial{.task = "copy", .split = "test", .length = 64, .size = 31, .em = kInfinity, .token_total = 31});
  rows.add(schema::LmLength{.measure = "ratio"});
  const auto tables = schema::make_tables(rows, {"0123456789ab", "rope", 42, 100});
  BOOST_REQUIRE_EQUAL(tables.size(), 2);
  BOOST_TEST(tables[0].name() == "lm_length");  // in the order of tables
  BOOST_TEST(tables[0].missing(0, tables[0].column("L")));
  BOOST_TEST(!tables[0].missing(0, tables[0].column("status")));  // an empty text is no missing one
  BOOST_TEST(tables[1].name() == "algo_trial");
  BOOST_TEST(tables[1].texts("run_id").at(0) == "0123456789ab");
  BOOST_TEST(tables[1].integers("step").at(0) == 100);
  BOOST_TEST(tables[1].integers("size").at(0) == 31);
  BOOST_TEST(tables[1].reals("em").at(0) == kInfinity);
  BOOST_TEST(tables[1].missing(0, tables[1].column("nll_sum")));
}

BOOST_AUTO_TEST_CASE(what_was_written_is_read_back) {
  schema::Rows rows;
  const schema::LmSummary whole{
      .corpus = "test", .protocol = "prefix", .length = 128, .stride = 64, .n_docs = 3, .nll_mean = 2.5};
  const schema::LmSummary empty{.protocol = "sliding", .length = 256, .status = "na_positions"};
  rows.add(whole);
  rows.add(empty);
  const auto found = read<schema::LmSummary>(schema::make_tables(rows, {}).at(0));
  BOOST_REQUIRE_EQUAL(found.size(), 2);
  BOOST_TEST(found[0].corpus == "test");
  BOOST_TEST(found[0].length == 128);
  BOOST_TEST(found[0].n_docs.value() == 3);
  BOOST_TEST(found[0].nll_mean == 2.5);
  BOOST_TEST(!found[0].tokens_scored.has_value());
  BOOST_TEST(found[1].status == "na_positions");
  BOOST_TEST(!found[1].n_docs.has_value());
  BOOST_TEST(std::isnan(found[1].nll_mean));
}

BOOST_AUTO_TEST_CASE(columns_that_an_older_artifact_lacks_are_missing_and_needed_ones_are_an_error) {
  artifact::Table table(
      "lm_summary",
      {{"nll_mean", ColumnType::kReal, ""}, {"L", ColumnType::kReal, ""}, {"n_docs", ColumnType::kText, ""}});
  table.add_row({1.5, 128.0, "40"});
  const auto found = read<schema::LmSummary>(table);
  BOOST_TEST(found.at(0).length == 128);  // other types are converted
  BOOST_TEST(found.at(0).n_docs.value() == 40);
  BOOST_TEST(found.at(0).status.empty());
  BOOST_TEST(std::isnan(found.at(0).bpb));
  table.add_row({1.5, artifact::Cell(), "40"});
  BOOST_CHECK_EXCEPTION(read<schema::LmSummary>(table), support::ArtifactError, [](const auto& error) {
    return std::string(error.what()).find("here: row 1 has no L") != std::string::npos;
  });
  artifact::Table renamed("lm_doc", {{"length", ColumnType::kInteger, ""}});
  BOOST_TEST(read<schema::LmDocument>(renamed).empty());  // without rows nothing is needed
  renamed.add_row({128});
  BOOST_CHECK_EXCEPTION(read<schema::LmDocument>(renamed), support::ArtifactError, [](const auto& error) {
    return std::string(error.what()).find("has no column 'L'") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(rows_of_a_journal_are_merged_before_and_after_their_type_is_known) {
  const auto of = [](std::int64_t id, double nll) {
    schema::Rows rows;
    rows.add(schema::LmDocument{.corpus = "a \"b\"\n", .score = {.id = id, .nll = nll}});
    return rows;
  };
  const auto kept = [](const schema::Rows& rows) {
    return schema::Rows::from_json(Json::parse(rows.to_json().dump()));
  };
  schema::Rows all = kept(of(1, 0.1 + 0.2));
  all.append(kept(of(2, kInfinity)));
  all.append(of(3, schema::kMissing));
  all.append(kept(of(4, 1e-300)));
  const auto& rows = all.of<schema::LmDocument>();
  BOOST_REQUIRE_EQUAL(rows.size(), 4);
  for (std::size_t i = 0; i < 4; ++i) BOOST_TEST(rows[i].score.id == static_cast<std::int64_t>(i) + 1);
  BOOST_TEST(rows[0].score.nll == 0.1 + 0.2);
  BOOST_TEST(rows[1].score.nll == kInfinity);
  BOOST_TEST(std::isnan(rows[2].score.nll));
  BOOST_TEST(rows[3].score.nll == 1e-300);
  BOOST_TEST(rows[3].corpus == "a \"b\"\n");
  // Damaged entries are an error, never a row of zeros.
  const schema::Rows damaged = schema::Rows::from_json(Json::parse(R"({"lm_doc": [[1], 7, {"a": 1}], "x": 3})"));
  BOOST_CHECK_THROW(damaged.of<schema::LmDocument>(), support::ArtifactError);
  BOOST_TEST(schema::Rows::from_json(Json(7)).of<schema::LmDocument>().empty());
}

BOOST_AUTO_TEST_SUITE_END()
