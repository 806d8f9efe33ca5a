// pe-score with every two encodings that may be stacked, at positions with gaps and with parameters from the file.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>
#include <set>

#include "artifact/h5.h"
#include "encoding_docs/score_file.h"
#include "encodings/attention/frozen.h"
#include "encodings/attention/token_reader.h"
#include "encodings/fixture.h"
#include "encodings/registry.h"
#include "support/error.h"
#include "support/temp_folder.h"

namespace data = boost::unit_test::data;
using namespace pe;
using at::Tensor;
namespace h5 = pe::artifact::h5;

namespace {

constexpr std::int64_t kHeads = 4, kTokens = 6, kHeadWidth = 8, kWidth = 32, kParts = 8;
const std::vector<double> kGaps = {0, 1, 4, 5, 9, 15};
const std::vector<double> kFractions = {0, 0.5, 4, 5, 9.25, 15};

const encodings::Shape& shape() {
  static const encodings::Shape made{.width = kWidth,
                                     .query_heads = kHeads,
                                     .key_value_heads = kHeads,
                                     .head_width = kHeadWidth,
                                     .train_length = 16,
                                     .dtype = at::kDouble};
  return made;
}

Tensor waves(at::IntArrayRef sizes, double step) {
  std::int64_t count = 1;
  for (const std::int64_t n : sizes) count *= n;
  return at::sin(at::arange(1, count + 1, at::kDouble) * step).view(sizes);
}

/// Places and segments of sentences of four tokens, [1, T, 2].
Tensor token_numbers() {
  const Tensor rows = at::arange(kTokens, at::kLong);
  return at::stack({rows.remainder(4), rows.div(4, "floor")}, -1).unsqueeze(0);
}

/// Names as a file has them: the short one where no other parameter has it, else with the kind before it.
std::map<std::string, Tensor> named_tensors(const encodings::PositionalEncoding& encoding) {
  std::vector<encodings::Parameter> all = encoding.parameters();
  const std::vector<encodings::Parameter>& frozen = encodings::frozen_of(encoding);
  all.insert(all.end(), frozen.begin(), frozen.end());
  std::map<std::string, Tensor> named;
  for (const encodings::Parameter& p : all) {
    const auto same = [&](const encodings::Parameter& other) { return other.short_name == p.short_name; };
    const bool unique = std::count_if(all.begin(), all.end(), same) == 1;
    named[unique ? p.short_name : p.name.substr(0, p.name.find('.')) + "." + p.short_name] = p.value;
  }
  return named;
}

void write(h5::Group& to, const std::string& name, const Tensor& t) {
  h5::Shape sizes;
  for (const std::int64_t n : t.sizes()) sizes.push_back(static_cast<std::uint64_t>(n));
  const Tensor flat = t.detach().contiguous();
  to.write<double>(name, std::vector<double>(flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()), sizes);
}

/// pe-score's answer for an encoding at those positions, its parameters moved and written into the file, held against
/// the definition. @return its message where it refused, or nothing.
std::string check_score(const Json& config, const std::vector<double>& positions, const test::TempFolder& folder) {
  std::unique_ptr<encodings::PositionalEncoding> encoding;
  try {
    encoding = encodings::make_encoding(config, shape());
  } catch (const support::Error& error) {
    return error.what();
  }
  const std::map<std::string, Tensor> tensors = named_tensors(*encoding);
  {
    at::NoGradGuard no_grad;
    for (auto [name, t] : tensors) t.add_(waves(t.sizes(), 0.7) * 0.1);
  }
  const Tensor q = waves({1, encoding->projected_heads(), kTokens, kHeadWidth}, 0.1),
               k = waves({1, kHeads, kTokens, kHeadWidth}, 0.2), v = waves({1, kHeads, kTokens, kHeadWidth}, 0.3),
               x = waves({1, kTokens, kWidth}, 0.15);
  const encoding_docs::ScoreOrder order{.encoding = config,
                                        .in = folder / "in.h5",
                                        .out = folder / "out.h5",
                                        .route = encodings::Route::kAuto,
                                        .gradients = true,
                                        .train_length = 16,
                                        .pe_length = 64};
  {
    h5::File file = h5::File::create(order.in);
    h5::Group root = file.root();
    write(root, "q", q);
    write(root, "k", k);
    write(root, "v", v);
    write(root, "x", x);
    write(root, "grad_output", waves({1, kHeads, kTokens, kHeadWidth}, 0.4));
    root.write("positions", positions);
    write(root, "token_positions", token_numbers()[0].to(at::kDouble));
    h5::Group parameters = root.create_group("parameters");
    for (const auto& [name, t] : tensors) write(parameters, name, t);
    file.close(false);
  }
  try {
    encoding_docs::score_file(order);
  } catch (const support::Error& error) {
    BOOST_TEST(error.exit_code() != support::kExitBug, config.dump() << " says: " << error.what());
    return error.what();
  }
  encodings::Span span = encodings::Span::whole(1, kTokens);
  span.pe_len = 64;
  span.positions = at::tensor(positions, at::kDouble);
  if (positions == kGaps) span.positions = span.positions.to(at::kLong);
  at::NoGradGuard no_grad;
  encodings::State state = encodings::begin_pass(*encoding, span);
  encodings::give_numbers(state, token_numbers());
  encodings::LayerContext context = encodings::layer_context(*encoding, state, 0, x);
  const Tensor expected = encodings::attend(*encoding, context, {.q = q, .k = k, .v = v, .scale = 1 / std::sqrt(8.0)},
                                            {.route = encodings::Route::kReference});
  const h5::File file = h5::File::open(order.out);
  const std::vector<double> output = file.root().read<double>("output");
  BOOST_REQUIRE_EQUAL(static_cast<std::int64_t>(output.size()), expected.numel());
  BOOST_TEST(test::largest_difference(at::tensor(output, at::kDouble).view(expected.sizes()), expected) <= 1e-9,
             config.dump());
  for (const auto& [name, t] : tensors) {
    const std::vector<double> used = file.root().read<double>("parameters/" + name);
    BOOST_TEST(at::equal(at::tensor(used, at::kDouble).view(t.sizes()), t), config.dump() << " did not use " << name);
    if (!t.requires_grad()) continue;
    for (const double value : file.root().read<double>("gradients/parameters/" + name)) {
      BOOST_REQUIRE_MESSAGE(std::isfinite(value), config.dump() << ": the gradient of " << name);
    }
  }
  return "";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(score_pairs)

BOOST_DATA_TEST_CASE(every_pair_that_may_be_stacked_answers_at_positions_with_gaps, data::xrange(kParts), part) {
  const test::TempFolder folder;
  const std::vector<encodings::EncodingEntry>& all = encodings::encodings();
  std::size_t answered = 0, pairs = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = i + 1; j < all.size(); ++j) {
      if (static_cast<int>((i + j) % kParts) != part) continue;
      ++pairs;
      const std::string refused = check_score({{"stack", {all[i].name, all[j].name}}}, kGaps, folder);
      answered += refused.empty();
    }
  }
  BOOST_TEST(2 * answered > pairs, answered << " of " << pairs << " pairs answered");
}

BOOST_AUTO_TEST_CASE(every_encoding_answers_at_fractions_or_says_that_it_has_none) {
  const test::TempFolder folder;
  std::set<std::string> answered;
  for (const encodings::EncodingEntry& entry : encodings::encodings()) {
    const std::string refused = check_score({{"kind", entry.name}}, kFractions, folder);
    if (refused.empty()) answered.insert(entry.name);
  }
  for (const char* name : {"rope", "alibi", "sinusoidal", "fire", "fope"}) BOOST_TEST(answered.count(name) == 1, name);
  BOOST_TEST(answered.count("t5") == 0);  // a table has no entry between two distances
}

BOOST_AUTO_TEST_CASE(positions_beside_an_encoding_that_gives_its_own_are_refused) {
  const test::TempFolder folder;
  for (const char* config : {R"({"kind": "randomised"})", R"({"stack": ["randomised", "rope"]})"}) {
    const std::string said = check_score(Json::parse(config), kGaps, folder);
    BOOST_TEST(said.find("sets the positions of the tokens") != std::string::npos, said);
  }
}

BOOST_AUTO_TEST_SUITE_END()
