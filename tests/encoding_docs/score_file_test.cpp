// pe-score's library: files in and out. tests/end_to_end/encodings_test.cpp checks the program with h5py and numpy.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "artifact/h5.h"
#include "encoding_docs/score_file.h"
#include "encodings/fixture.h"
#include "encodings/registry.h"
#include "support/error.h"
#include "support/files.h"
#include "support/temp_folder.h"

using namespace pe;
using test::check_says;
namespace h5 = pe::artifact::h5;

namespace {

constexpr std::uint64_t kBatch = 2, kHeads = 4, kGroups = 2, kTokens = 9, kHeadWidth = 8, kWidth = 32;

/// A file with all that an encoding may read.
class Scene {
 public:
  Scene() { write({}, true); }
  std::filesystem::path in() const { return folder_ / "in.h5"; }
  std::filesystem::path out() const { return folder_ / "out.h5"; }

  void write(const std::vector<double>& positions, bool with_x, std::uint64_t k_tokens = kTokens) {
    h5::File file = h5::File::create(in());
    h5::Group root = file.root();
    const auto add = [&](const std::string& name, const h5::Shape& shape, double step) {
      std::vector<double> values(h5::element_count(shape));
      for (std::size_t n = 0; n < values.size(); ++n) values[n] = std::sin(step * static_cast<double>(n + 1));
      root.write<double>(name, values, shape);
    };
    add("q", {kBatch, kHeads, kTokens, kHeadWidth}, 0.1);
    add("k", {kBatch, kGroups, k_tokens, kHeadWidth}, 0.2);
    add("v", {kBatch, kGroups, kTokens, kHeadWidth}, 0.3);
    add("grad_output", {kBatch, kHeads, kTokens, kHeadWidth}, 0.4);
    if (with_x) add("x", {kBatch, kTokens, kWidth}, 0.15);
    if (!positions.empty()) root.write("positions", positions);
    std::vector<double> numbers;  // places and segments of sentences of three tokens
    for (std::uint64_t t = 0; t < kTokens; ++t)
      numbers.insert(numbers.end(), {static_cast<double>(t % 3), static_cast<double>(t / 3)});
    root.write<double>("token_positions", numbers, {kTokens, 2});
    file.close(false);
  }

  encoding_docs::ScoreOrder order(const Json& encoding) const {
    return {.encoding = encoding, .in = in(), .out = out(), .gradients = true, .train_length = 64, .pe_length = 256};
  }
  std::vector<double> read(const std::string& name) const { return h5::File::open(out()).root().read<double>(name); }

 private:
  test::TempFolder folder_;
};

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  BOOST_REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) most = std::max(most, std::abs(a[i] - b[i]));
  }
  return most;
}

std::string refusal(const encoding_docs::ScoreOrder& order) {
  try {
    encoding_docs::score_file(order);
  } catch (const support::Error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(score_file)

BOOST_AUTO_TEST_CASE(every_encoding_answers_with_logits_weights_output_and_gradients) {
  Scene scene;
  for (const encodings::EncodingEntry& entry : encodings::encodings()) {
    const std::string said = refusal(scene.order(encoding_docs::read_encoding(entry.name, {})));
    // Some have no form with fewer key/value heads than query heads, and say so.
    if (said != "accepted") {
      check_says(said, {"heads"});
      continue;
    }
    BOOST_TEST(scene.read("logits").size() == kBatch * kHeads * kTokens * kTokens, entry.name);
    const std::vector<double> output = scene.read("output"), weights = scene.read("weights");
    BOOST_TEST(output.size() == kBatch * kHeads * kTokens * kHeadWidth, entry.name);
    for (const double value : output) BOOST_REQUIRE_MESSAGE(std::isfinite(value), entry.name);
    for (const char* name : {"gradients/q", "gradients/k", "gradients/v", "gradients/x"}) {
      for (const double value : scene.read(name))
        BOOST_REQUIRE_MESSAGE(std::isfinite(value), entry.name << " " << name);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_chunked_route_gives_the_same_output_and_gradients) {
  Scene scene;
  for (const char* name : {"rope", "alibi", "t5", "fire", "cope"}) {
    encoding_docs::ScoreOrder order = scene.order(encoding_docs::read_encoding(name, {}));
    encoding_docs::score_file(order);
    const auto output = scene.read("output"), gradient = scene.read("gradients/k");
    order.route = encodings::Route::kChunked;
    encoding_docs::score_file(order);
    BOOST_TEST(largest_difference(output, scene.read("output")) < 1e-12, name);
    BOOST_TEST(largest_difference(gradient, scene.read("gradients/k")) < 1e-12, name);
  }
}

BOOST_AUTO_TEST_CASE(positions_of_the_file_count) {
  Scene scene;
  const auto logits_at = [&](const char* encoding, const std::vector<double>& positions) {
    scene.write(positions, true);
    encoding_docs::score_file(scene.order(encoding_docs::read_encoding(encoding, {})));
    return scene.read("logits");
  };
  const std::vector<double> running = {0, 1, 2, 3, 4, 5, 6, 7, 8}, shifted = {40, 41, 42, 43, 44, 45, 46, 47, 48};
  const std::vector<double> far = {0, 3, 4, 5, 9, 10, 11, 17, 30}, halves = {0, .5, 1, 1.5, 2, 2.5, 3, 3.5, 4};
  for (const char* name : {"rope", "alibi"}) {
    BOOST_TEST(largest_difference(logits_at(name, running), logits_at(name, {})) == 0);
    BOOST_TEST(largest_difference(logits_at(name, running), logits_at(name, shifted)) < 1e-9);
    BOOST_TEST(largest_difference(logits_at(name, running), logits_at(name, far)) > 0.1);
    BOOST_TEST(largest_difference(logits_at(name, running), logits_at(name, halves)) > 0.01);
  }
  // Twice as slow on every second position is the same angle.
  BOOST_TEST(largest_difference(logits_at("{kind: rope}", running), logits_at("rope", {0, 1, 2, 3, 4, 5, 6, 7, 8})) ==
             0);
}

BOOST_AUTO_TEST_CASE(parameters_of_the_file_are_used_and_written_back) {
  Scene scene;
  {
    scene.write({}, true);
    encoding_docs::score_file(scene.order(encoding_docs::read_encoding("t5", {"buckets=8", "max_distance=16"})));
    const std::vector<double> table = scene.read("parameters/table");
    BOOST_TEST(table.size() == 8 * kHeads);
  }
  // The same file with a table in it.
  const std::filesystem::path with = scene.in().string() + ".table";
  {
    h5::File from = h5::File::open(scene.in());
    h5::File to = h5::File::create(with);
    h5::Group root = to.root();
    for (const char* name : {"q", "k", "v", "grad_output"}) {
      root.write<double>(name, from.root().read<double>(name), from.root().open_dataset(name).shape());
    }
    h5::Group parameters = root.create_group("parameters");
    std::vector<double> table(8 * kHeads);
    for (std::size_t n = 0; n < table.size(); ++n) table[n] = static_cast<double>(n);
    parameters.write<double>("table", table, {8, kHeads});
    to.close(false);
  }
  encoding_docs::ScoreOrder order = scene.order(encoding_docs::read_encoding("none", {}));
  order.in = scene.in();
  encoding_docs::score_file(order);
  const std::vector<double> plain = scene.read("logits");
  order = scene.order(encoding_docs::read_encoding("t5", {"buckets=8", "max_distance=16"}));
  order.in = with;
  encoding_docs::score_file(order);
  const std::vector<double> biased = scene.read("logits");
  // Row 3, key 1 of head 2: distance 2 has a separate bucket, 2, so the bias is table[2][2] = 10.
  const std::size_t at = ((0 * kHeads + 2) * kTokens + 3) * kTokens + 1;
  BOOST_TEST(std::abs(biased[at] - plain[at] - 10) < 1e-12);
  order.encoding = encoding_docs::read_encoding("t5", {"buckets=16", "max_distance=32"});
  check_says(refusal(order), {"parameter 'table' has the shape [8, 4]", "expected [16, 4]"});
  order.encoding = encoding_docs::read_encoding("fire", {});
  check_says(refusal(order), {"no parameter 'table'", "w1"});
}

BOOST_AUTO_TEST_CASE(frozen_mixtures_are_written_and_taken) {
  Scene scene;
  const auto order_of = [&](const std::filesystem::path& in) {
    encoding_docs::ScoreOrder order = scene.order(encoding_docs::read_encoding("fope", {}));
    order.in = in;
    return order;
  };
  const std::filesystem::path plain = scene.in().string() + ".plain", doubled = scene.in().string() + ".doubled";
  const auto write_file = [&](const std::filesystem::path& path, double factor) {
    h5::File file = h5::File::create(path);
    h5::Group root = file.root();
    for (const char* name : {"q", "k", "v", "grad_output"}) {
      std::vector<double> values(kBatch * kHeads * kTokens * kHeadWidth);
      for (std::size_t n = 0; n < values.size(); ++n) values[n] = std::sin(0.3 * static_cast<double>(n) + name[0]);
      root.write<double>(name, values, {kBatch, kHeads, kTokens, kHeadWidth});
    }
    if (factor != 0) {
      h5::File written = h5::File::open(scene.out());
      h5::Group parameters = root.create_group("parameters");
      for (const char* name : {"cos", "sin"}) {
        const std::string full = std::string("parameters/") + name;
        std::vector<double> values = written.root().read<double>(full);
        for (double& value : values) value *= factor;
        parameters.write<double>(name, values, written.root().open_dataset(full).shape());
      }
    }
    file.close(false);
  };
  write_file(plain, 0);
  encoding_docs::score_file(order_of(plain));
  const std::vector<double> logits = scene.read("logits"), cos = scene.read("parameters/cos");
  BOOST_TEST(!cos.empty());
  BOOST_TEST(!h5::File::open(scene.out()).root().open_group("gradients").open_group("parameters").has("cos"));
  write_file(doubled, 1);  // the same again
  encoding_docs::score_file(order_of(doubled));
  BOOST_TEST(largest_difference(logits, scene.read("logits")) == 0);
  write_file(doubled, 2);
  encoding_docs::score_file(order_of(doubled));
  BOOST_TEST(largest_difference(logits, scene.read("logits")) > 1e-3);
  BOOST_TEST(scene.read("parameters/cos")[0] == 2 * cos[0]);
}

BOOST_AUTO_TEST_CASE(an_absolute_encoding_writes_its_vectors) {
  Scene scene;
  encoding_docs::score_file(scene.order(encoding_docs::read_encoding("sinusoidal", {})));
  const std::vector<double> embedding = scene.read("embedding");
  BOOST_REQUIRE(embedding.size() == kTokens * kWidth);
  BOOST_TEST(std::abs(embedding[7 * kWidth] - std::sin(7.0)) < 1e-12);
  BOOST_TEST(std::abs(embedding[7 * kWidth + 1] - std::cos(7.0)) < 1e-12);
}

BOOST_AUTO_TEST_CASE(what_is_missing_or_of_another_shape_is_named) {
  Scene scene;
  scene.write({}, true, kTokens + 1);
  check_says(refusal(scene.order(encoding_docs::read_encoding("rope", {}))),
             {"dataset 'k'", "[2, 2, 10, 8]", "[B, G, T, d_h]", "T is 9 by 'q'"});
  scene.write({0, 1, 2}, true);
  check_says(refusal(scene.order(encoding_docs::read_encoding("rope", {}))), {"dataset 'positions'", "[3]", "[T]"});
  {
    h5::File file = h5::File::create(scene.in());
    file.root().write<double>("q", std::vector<double>(8, 1.0), {1, 1, 1, 8});
    file.close(false);
  }
  check_says(refusal(scene.order(encoding_docs::read_encoding("rope", {}))),
             {"in.h5", "dataset 'k' [B, G, T, d_h] is missing"});
  encoding_docs::ScoreOrder nowhere = scene.order(encoding_docs::read_encoding("rope", {}));
  nowhere.in = "/nonexistent.h5";
  check_says(refusal(nowhere), {"/nonexistent.h5"});
  BOOST_TEST(!std::filesystem::exists(scene.out()));
}

BOOST_AUTO_TEST_CASE(the_answer_never_replaces_the_question) {
  const Scene scene;
  const std::string before = support::read_file(scene.in());
  std::filesystem::create_symlink(scene.in(), scene.in().string() + ".link");
  std::filesystem::create_hard_link(scene.in(), scene.in().string() + ".too");
  for (const std::string& out :
       {scene.in().string(), scene.in().parent_path().string() + "/./in.h5", scene.in().string() + ".too"}) {
    encoding_docs::ScoreOrder order = scene.order("rope");
    order.out = out;
    check_says(refusal(order), {"--out", "is the file of --in, which would be lost"});
  }
  encoding_docs::ScoreOrder order = scene.order("rope");
  order.out = scene.in().string() + ".link";
  check_says(refusal(order), {"a symbolic link"});
  BOOST_TEST((support::read_file(scene.in()) == before));
}

BOOST_AUTO_TEST_CASE(an_encoding_that_reads_x_asks_for_it) {
  Scene scene;
  scene.write({}, false);
  int asked = 0;
  for (const encodings::EncodingEntry& entry : encodings::encodings()) {
    encoding_docs::ScoreOrder order = scene.order(encoding_docs::read_encoding(entry.name, {}));
    const std::string said = refusal(order);
    if (said.find("dataset 'x'") != std::string::npos) {
      ++asked;
      BOOST_TEST(entry.facts.content_dependent, entry.name);
    }
  }
  if (encodings::find_encoding("fox") != nullptr) BOOST_TEST(asked > 0);
}

BOOST_AUTO_TEST_CASE(flags_are_read_as_a_config_is) {
  BOOST_TEST(encoding_docs::read_encoding("yarn", {"factor=4"})["factor"] == 4.0);
  BOOST_TEST(encoding_docs::read_encoding("{kind: yarn, factor: 2}", {"factor=4"}).is_object());
  BOOST_TEST((encoding_docs::read_encoding("alibi", {"slopes=1,0.5,0.25"})["slopes"] == Json({1.0, 0.5, 0.25})));
  BOOST_TEST(encodings::encoding_name(encoding_docs::read_encoding("{stack: [rope, {kind: ssmax}]}", {})) ==
             "rope+ssmax");
  const auto message = [](const std::string& text, const std::vector<std::string>& sets) {
    try {
      encoding_docs::read_encoding(text, sets);
    } catch (const support::ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  check_says(message("rotery", {}), {"--encoding", "did you mean 'rotary'?"});
  check_says(message("yarn", {"facotr=4"}), {"--set facotr", "factor"});
  check_says(message("yarn", {"factor=0.5"}), {"--set factor", "factor"});
  check_says(message("yarn", {"factor"}), {"KEY=VALUE"});
  check_says(message("{stack: [rope, ssmax]}", {"base=4"}), {"--set", "stack"});
}

BOOST_AUTO_TEST_SUITE_END()
