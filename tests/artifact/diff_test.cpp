#include "artifact/diff.h"

#include <boost/test/unit_test.hpp>

#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "artifact/collection.h"
#include "artifact/header.h"
#include "support/error.h"
#include "support/files.h"
#include "support/replace_text.h"
#include "support/temp_folder.h"

using namespace pe;            // NOLINT
using namespace pe::artifact;  // NOLINT
namespace fs = std::filesystem;

namespace {

struct TwoFiles {
  test::TempFolder folder;
  fs::path write(const std::string& name, const std::vector<float>& weights, const std::vector<std::int64_t>& counts,
                 const std::string& note = "n", const std::string& stage = "fake") const {
    Recipe recipe;
    recipe.stage = stage;
    write_artifact(
        folder / name, Kind::kMetrics, 1, recipe,
        [&](h5::Group& root) {
          root.write("model/weights", weights);
          root.write("counts", counts);
          root.set_text("note", note);
        },
        {}, false);
    return folder / name;
  }
  fs::path collection(const std::string& name, const std::map<std::string, std::string>& files) const {
    CollectionWriter writer(folder / name, Kind::kReport, {});
    for (const auto& [member, text] : files) support::write_file_atomically(writer.add(member), text, false);
    writer.finish(false);
    return folder / name;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(diff)

BOOST_FIXTURE_TEST_CASE(the_recipe_is_no_difference, TwoFiles) {
  const auto result = diff_artifacts(write("a", {1, 2}, {3}, "n", "one"), write("b", {1, 2}, {3}, "n", "other"));
  BOOST_TEST(result.same());
  BOOST_TEST(result.compared == 2u);
}

BOOST_FIXTURE_TEST_CASE(texts_that_are_nested_without_end_are_compared_as_texts, TwoFiles) {
  const auto with = [&](const std::string& name, std::size_t levels) {
    const auto body = [&](h5::Group& root) { root.write_text("facts", test::deep_json(levels)); };
    write_artifact(folder / name, Kind::kMetrics, 1, {}, body, {}, false);
    return folder / name;
  };
  const auto result = diff_artifacts(with("a", 300'000), with("b", 300'001));
  BOOST_TEST(result.differences.size() == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_dataset_tells_how_many_elements_differ_where_and_by_how_much, TwoFiles) {
  std::vector<float> a(1000, 1.0f), b = a;
  b[17] = std::nextafter(1.0f, 2.0f);
  b[900] = std::nextafter(std::nextafter(1.0f, 0.0f), 0.0f);
  const auto result = diff_artifacts(write("a", a, {3}), write("b", b, {3}));
  BOOST_REQUIRE(result.differences.size() == 1u);
  const Difference& one = result.differences.front();
  BOOST_TEST(one.path == "/model/weights");
  BOOST_TEST((one.what == Difference::What::kValues));
  BOOST_TEST(one.elements == 1000u);
  BOOST_TEST(one.differing == 2u);
  BOOST_TEST(one.where == 17u);
  BOOST_TEST(one.largest_ulp == 2u);
  BOOST_TEST(one.first == "1");
  DiffOptions loose;
  loose.ulp = 1;
  BOOST_TEST(diff_artifacts(folder / "a", folder / "b", loose).differences.front().differing == 1u);
  loose.ulp = 2;
  BOOST_TEST(diff_artifacts(folder / "a", folder / "b", loose).same());
}

BOOST_FIXTURE_TEST_CASE(shapes_types_attributes_and_missing_datasets_are_told, TwoFiles) {
  const fs::path a = write("a", {1, 2}, {3}), b = write("b", {1, 2, 3}, {4}, "other");
  std::map<std::string, Difference> found;
  for (const auto& each : diff_artifacts(a, b).differences) found[each.path] = each;
  BOOST_TEST(found.size() == 3u);
  BOOST_TEST((found["/model/weights"].what == Difference::What::kShape));
  BOOST_TEST((found["/@note"].what == Difference::What::kAttribute));
  BOOST_TEST(found["/@note"].second == "'other'");
  BOOST_TEST(found["/counts"].largest_absolute == 1.0);
  write_artifact(
      folder / "c", Kind::kMetrics, 1, {},
      [&](h5::Group& root) {
        root.write("model/weights", std::vector<double>{1, 2});
        root.set_text("note", "n");
      },
      {}, false);
  found.clear();
  for (const auto& each : diff_artifacts(a, folder / "c").differences) found[each.path] = each;
  BOOST_TEST((found["/model/weights"].what == Difference::What::kType));
  BOOST_TEST((found["/counts"].what == Difference::What::kOnlyInFirst));
}

BOOST_FIXTURE_TEST_CASE(of_long_texts_only_what_differs_is_shown, TwoFiles) {
  const std::string same(300, 'x');
  const auto text_file = [&](const std::string& name, const std::string& text) {
    write_artifact(
        folder / name, Kind::kMetrics, 1, {}, [&](h5::Group& root) { root.write_text("text", text); }, {}, false);
    return folder / name;
  };
  Difference one =
      diff_artifacts(text_file("a", same + "one" + same), text_file("b", same + "two" + same)).differences.at(0);
  BOOST_TEST(one.first.find("one") != std::string::npos);
  BOOST_TEST(one.second.find("two") != std::string::npos);
  BOOST_TEST(one.first.size() < 80u);
  one = diff_artifacts(text_file("a", R"({"lr": 1.0, "note": "x", "z": 1})"),
                       text_file("b", R"({"lr": 2.0, "note": "x", "z": 2})"))
            .differences.at(0);
  BOOST_TEST(one.first == "lr: 1");
  BOOST_TEST(one.second == "2 and 1 more");
  one = diff_artifacts(text_file("a", R"({"lr": 1.0})"), text_file("b", R"({"lr": 1.5, "note": "longer"})"))
            .differences.at(0);
  BOOST_TEST((one.what == Difference::What::kValues));
  BOOST_TEST(one.first == "lr: 1");
}

BOOST_FIXTURE_TEST_CASE(only_narrows_the_comparison_to_a_path, TwoFiles) {
  const fs::path a = write("a", {1, 2}, {3}), b = write("b", {1, 9}, {4}, "other");
  DiffOptions options;
  options.only = {"/model"};
  const auto result = diff_artifacts(a, b, options);
  BOOST_REQUIRE(result.differences.size() == 1u);
  BOOST_TEST(result.differences[0].path == "/model/weights");
  options.only = {"/mod"};
  BOOST_TEST(diff_artifacts(a, b, options).compared == 0u);
}

BOOST_FIXTURE_TEST_CASE(collections_are_compared_member_by_member, TwoFiles) {
  const fs::path a = collection("a", {{"report.md", "one\ntwo\n"}, {"data/x.csv", "1\n"}, {"same", "s"}});
  const fs::path b = collection("b", {{"report.md", "one\ntWo\n"}, {"data/y.csv", "1\n"}, {"same", "s"}});
  std::map<std::string, Difference> found;
  const auto result = diff_artifacts(a, b);
  for (const auto& each : result.differences) found[each.path] = each;
  BOOST_TEST(found.size() == 3u);
  BOOST_TEST((found["report.md"].what == Difference::What::kBytes));
  BOOST_TEST(found["report.md"].differing == 1u);
  BOOST_TEST(found["report.md"].where == 5u);
  BOOST_TEST(found["report.md"].first.find("line 2") != std::string::npos);
  BOOST_TEST((found["data/x.csv"].what == Difference::What::kOnlyInFirst));
  DiffOptions options;
  options.only = {"same"};
  BOOST_TEST(diff_artifacts(a, b, options).same());
  BOOST_CHECK_THROW(diff_artifacts(a, write("f", {1}, {1})), support::ArtifactError);
  BOOST_CHECK_THROW(diff_artifacts(a, folder / "nothing"), support::ArtifactError);
}

BOOST_AUTO_TEST_CASE(ulp_distances_count_representable_numbers) {
  BOOST_TEST(ulp_distance(1.0f, 1.0f) == 0u);
  BOOST_TEST(ulp_distance(0.0f, -0.0f) == 0u);
  const float least = std::numeric_limits<float>::denorm_min();
  BOOST_TEST(ulp_distance(-least, least) == 2u);
  BOOST_TEST(ulp_distance(std::numeric_limits<float>::max(), std::numeric_limits<float>::infinity()) == 1u);
  BOOST_TEST(ulp_distance(1.0, std::nextafter(1.0, 2.0)) == 1u);
  const double huge = std::numeric_limits<double>::infinity();
  BOOST_TEST(ulp_distance(-huge, huge) == 2 * std::bit_cast<std::uint64_t>(huge));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  BOOST_TEST(ulp_distance(nan, nan) == 0u);
  BOOST_TEST(ulp_distance(nan, 1.0) == Difference::kFar);
  // Every neighbour is one step, over the whole range of 16-bit numbers.
  for (const bool bfloat : {true, false}) {
    const unsigned infinity = bfloat ? 0x7f80 : 0x7c00;
    for (unsigned bits = 0; bits < infinity; ++bits) {
      const auto a = static_cast<std::uint16_t>(bits), b = static_cast<std::uint16_t>(bits + 1);
      BOOST_REQUIRE(ulp_distance_16(a, b, bfloat) == 1u);
      BOOST_REQUIRE(ulp_distance_16(static_cast<std::uint16_t>(a | 0x8000), static_cast<std::uint16_t>(b | 0x8000),
                                    bfloat) == 1u);
    }
    BOOST_TEST(ulp_distance_16(static_cast<std::uint16_t>(infinity + 1), 0, bfloat) == Difference::kFar);
  }
}

BOOST_AUTO_TEST_SUITE_END()
