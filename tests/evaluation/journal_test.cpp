#include "evaluation/journal.h"

#include <boost/test/unit_test.hpp>
#include <limits>

#include "support/files.h"
#include "support/temp_folder.h"

using namespace pe::evaluation;
using pe::artifact::Cell;

namespace {

Rows some_rows() {
  return {{"lm_doc", {{"test", 1, 0.1 + 0.2, Cell()}, {"a \"b\"\n", -7, std::numeric_limits<double>::infinity(), 1e-300}}}};
}

bool same(const Rows& a, const Rows& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [table, list] : a) {
    if (b.count(table) == 0 || b.at(table).size() != list.size()) return false;
    for (std::size_t row = 0; row < list.size(); ++row) {
      for (std::size_t i = 0; i < list[row].size(); ++i) {
        if (list[row][i].value() != b.at(table)[row][i].value()) return false;
      }
    }
  }
  return true;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(journal)

BOOST_AUTO_TEST_CASE(a_finished_item_is_not_done_again_and_comes_back_exactly) {
  const pe::test::TempFolder folder;
  {
    Journal first(folder / "j.jsonl", "me");
    first.item("a", some_rows);
  }
  Journal second(folder / "j.jsonl", "me");
  BOOST_TEST(second.recovered() == 1);
  bool done = false;
  const Rows& rows = second.item("a", [&] {
    done = true;
    return some_rows();
  });
  BOOST_TEST(!done);
  BOOST_TEST(same(rows, some_rows()));
  BOOST_TEST(same(second.rows(), some_rows()));
}

BOOST_AUTO_TEST_CASE(a_line_that_was_cut_short_is_done_again) {
  const pe::test::TempFolder folder;
  {
    Journal first(folder / "j.jsonl", "me");
    first.item("a", some_rows);
    first.item("b", some_rows);
  }
  const std::string whole = pe::support::read_file(folder / "j.jsonl");
  for (std::size_t cut : {std::size_t{1}, std::size_t{20}, whole.size() / 4}) {
    pe::support::write_file_atomically(folder / "j.jsonl", whole.substr(0, whole.size() - cut - 1), false);
    Journal second(folder / "j.jsonl", "me");
    BOOST_TEST(second.recovered() == 1);
    second.item("a", some_rows);
    second.item("b", some_rows);
    Journal third(folder / "j.jsonl", "me");
    BOOST_TEST(third.recovered() == 2);
  }
}

BOOST_AUTO_TEST_CASE(rows_of_another_config_are_left_alone) {
  const pe::test::TempFolder folder;
  {
    Journal first(folder / "j.jsonl", "me");
    first.item("a", some_rows);
  }
  BOOST_TEST(Journal(folder / "j.jsonl", "another").recovered() == 0);
}

BOOST_AUTO_TEST_CASE(tables_begin_with_the_identity_and_nan_is_missing) {
  const Rows rows = {{"algo_trial", {{"copy", "test", 64, 0, 31, 1.0, 31.0, 31,
                                      std::numeric_limits<double>::quiet_NaN()}}}};
  const auto tables = make_tables(rows, {"0123456789ab", "rope", 42, 100});
  BOOST_REQUIRE_EQUAL(tables.size(), 1);
  BOOST_TEST(tables[0].name() == "algo_trial");
  BOOST_TEST(tables[0].texts("run_id").at(0) == "0123456789ab");
  BOOST_TEST(tables[0].integers("step").at(0) == 100);
  BOOST_TEST(tables[0].integers("size").at(0) == 31);
  BOOST_TEST(tables[0].missing(0, tables[0].column("nll_sum")));
}

BOOST_AUTO_TEST_SUITE_END()
