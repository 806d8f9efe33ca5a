#include "evaluation/journal.h"

#include <boost/test/unit_test.hpp>
#include <limits>

#include "support/files.h"
#include "support/temp_folder.h"

using namespace pe::evaluation;
namespace schema = pe::schema;

namespace {

schema::Rows some_rows() {
  schema::Rows rows;
  rows.add(schema::LmDocument{.corpus = "test", .length = 1, .score = {.nll = 0.1 + 0.2}});
  rows.add(
      schema::LmDocument{.corpus = "a \"b\"\n", .score = {.id = -7, .nll = std::numeric_limits<double>::infinity()}});
  rows.add(schema::LmSummary{.nll_mean = 1e-300});  // with missing numbers
  return rows;
}

bool same(const schema::Rows& a, const schema::Rows& b) {
  return a.to_json() == b.to_json() &&
         a.of<schema::LmDocument>().at(1).score.nll == b.of<schema::LmDocument>().at(1).score.nll &&
         a.of<schema::LmSummary>().at(0).n_docs == b.of<schema::LmSummary>().at(0).n_docs;
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
  const schema::Rows& rows = second.item("a", [&] {
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

BOOST_AUTO_TEST_SUITE_END()
