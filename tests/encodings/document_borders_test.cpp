// Properties of every encoding between documents, in a whole model: nothing crosses a border, and positions that
// restart change nothing where distances alone count. And each trained tensor has a gradient on every route.
#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/autograd.h>

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "encodings/attention/token_reader.h"
#include "fixture.h"
#include "model/language_model.h"

namespace data = boost::unit_test::data;
using namespace pe;
using namespace pe::encodings;
using namespace pe::test;
using model::LanguageModel;
using model::ModelConfig;

namespace {

constexpr std::int64_t kLength = 16, kBorder = 7, kVocabulary = 19;

/// Two layers of the battery's shape, in float64.
LanguageModel model_of(const Json& encoding, const std::string& canon = "") {
  const Shape shape = small_shape();
  ModelConfig config;
  config.width = shape.width;
  config.layers = shape.layers;
  config.heads = shape.query_heads;
  config.head_width = shape.head_width;
  config.feed_forward = 12;
  config.length = shape.train_length;
  config.encoding.json = encoding;
  config.canon.set = canon;
  LanguageModel model = LanguageModel::make(config, kVocabulary, 3, at::kCPU, at::kDouble);
  read_by_ids(model.encoding());
  stir(model.encoding());
  model.after_step();
  return model;
}

/// Two documents, the first of other tokens with another `first`.
Tensor ids_of(std::int64_t first) {
  Tensor ids = at::arange(kLength, at::kLong).mul(7).remainder(kVocabulary).unsqueeze(0).clone();
  ids.narrow(1, 0, kBorder).mul_(5).add_(first).remainder_(kVocabulary);
  return ids;
}

enum class Documents { kJoined, kMasked, kRestarted };

model::ForwardOptions options_of(Documents documents, bool training) {
  model::ForwardOptions options;
  options.training = training;
  if (documents == Documents::kJoined) return options;
  options.doc_start = at::arange(kLength, at::kLong).ge(kBorder).to(at::kLong).mul(kBorder);
  options.restart_positions = documents == Documents::kRestarted;
  return options;
}

/// Results of the second document: its hidden states, and the gradients of its loss by all trained tensors.
std::vector<Tensor> second_document(const LanguageModel& model, std::int64_t first, Documents documents,
                                    bool gradients) {
  const Tensor ids = ids_of(first);
  if (!gradients) {
    const at::NoGradGuard no_grad;
    return {model.forward(ids, options_of(documents, false)).narrow(1, kBorder, kLength - kBorder).clone()};
  }
  model.zero_gradients();
  const Tensor hidden = model.forward(ids, options_of(documents, true));
  Tensor targets = ids.roll(-1, 1);
  targets.narrow(1, 0, kBorder).fill_(-1);  // of the second document alone
  targets.select(1, kLength - 1).fill_(-1);
  model.loss_sum(hidden.flatten(0, 1), targets.flatten()).backward();
  std::vector<Tensor> all{hidden.detach().narrow(1, kBorder, kLength - kBorder).clone()};
  for (const model::Parameter& parameter : model.parameters()) all.push_back(parameter.tensor.grad().clone());
  return all;
}

/// The largest difference between corresponding tensors.
double apart(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, largest_difference(a[i], b[i]));
  return most;
}

void check_border(const Json& encoding, const std::string& canon, double allowed, bool trains) {
  const LanguageModel model = model_of(encoding, canon);
  for (const Documents documents : {Documents::kMasked, Documents::kRestarted}) {
    const auto one = second_document(model, 1, documents, trains), other = second_document(model, 4, documents, trains);
    BOOST_TEST(apart(one, other) <= allowed, (documents == Documents::kMasked ? "masked: " : "restarted: ")
                                                 << apart(one, other));
  }
  // Without the border the same change is seen, or the comparison would show nothing.
  const auto one = second_document(model, 1, Documents::kJoined, trains),
             other = second_document(model, 4, Documents::kJoined, trains);
  BOOST_TEST(largest_difference(one[0], other[0]) > 1e-6);
}

/// Is one of these the encoding, or a member of the stack?
bool has_member(const Subject& subject, std::initializer_list<const char*> names) {
  const std::string text = subject.config.dump();
  return std::any_of(names.begin(), names.end(),
                     [&](const char* name) { return text.find("\"" + std::string(name) + "\"") != std::string::npos; });
}

/// Every layer of the battery's shape in turn, each reading the output of the one before. @return the last output
Tensor run_layers(PositionalEncoding& encoding, const Toy& toy, const Span& span, const AttendOptions& options) {
  State state = begin_pass(encoding, span);
  say_numbers(encoding, toy.x, state);
  Tensor x = add_to_tokens(encoding, toy.x, state);
  const Shape& shape = toy.shape;
  const auto heads = [&](const Tensor& w, std::int64_t count) {
    return at::matmul(x, w.narrow(1, 0, count * shape.head_width))
        .unflatten(-1, {count, shape.head_width})
        .transpose(1, 2);
  };
  for (int layer = 0; layer < shape.layers; ++layer) {
    LayerContext context = layer_context(encoding, state, layer, x);
    const Heads all{.q = heads(toy.wq, encoding.projected_heads()),
                    .k = heads(toy.wk, shape.key_value_heads),
                    .v = heads(toy.wv, shape.key_value_heads),
                    .scale = 1 / std::sqrt(static_cast<double>(shape.head_width))};
    const Tensor out = attend(encoding, context, all, options).transpose(1, 2).flatten(2);
    encoding.after_feed_forward(context, x * 0.5);
    x = x + out;
  }
  return x;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(document_borders)

SUBJECT_TEST_CASE(nothing_crosses_the_border_of_a_document, subjects()) {
  // Bit for bit, with two exceptions. Sums from the start of the text are subtracted from each other, and the part that
  // both have leaves its rounding. Newton's steps of entmax end when all rows are there, so another row may add a step.
  const bool rounds = has_member(subject, {"fox", "path_fox", "cable", "cable_nw", "k_cable", "cope_guide", "wall",
                                           "carope", "selective_rope", "entmax"});
  const double allowed = rounds ? 1e-11 : 0;
  BOOST_TEST_CONTEXT(subject.name) { check_border(subject.config, "", allowed, !exempt(subject, "training")); }
}

BOOST_AUTO_TEST_CASE(no_convolution_crosses_the_border_of_a_document) {
  for (const char* encoding : {"none", "rope", "inkling", "alibi"}) check_border(encoding, "ABCD", 0, true);
}

SUBJECT_TEST_CASE(positions_that_restart_change_nothing_where_distances_alone_count, subjects()) {
  const LanguageModel model = model_of(subject.config);
  const Facts facts = model.encoding().facts();
  // A draw is for a number of positions; numbers that are read off the tokens are no positions.
  if (facts.stochastic || reader_of(model.encoding()) != nullptr) return;
  const auto masked = second_document(model, 1, Documents::kMasked, false),
             restarted = second_document(model, 1, Documents::kRestarted, false);
  if (facts.shift_invariant == ShiftInvariance::kAlways) BOOST_TEST(apart(masked, restarted) <= 1e-10, subject.name);
  // An embedding of the position is another one.
  if (model.encoding().traits(Span::whole(1, kLength)).adds_to_tokens)
    BOOST_TEST(apart(masked, restarted) > 1e-6, subject.name);
}

SUBJECT_TEST_CASE(every_trained_tensor_has_a_gradient_on_every_route, subjects()) {
  const Shape shape = small_shape();
  const auto encoding = make_encoding(subject.config, shape);
  if (encoding->parameters().empty()) return;
  stir(*encoding);
  const Toy toy(shape, 2, 10);
  Span span = Span::whole(2, 10);
  span.pe_len = 10;
  span.training = true;  // CLEX draws how far it reaches
  span.step = 1;
  std::vector<AttendOptions> routes{{}, {.route = Route::kReference}, {.route = Route::kChunked, .chunk_rows = 3}};
  if (route_name(*encoding, span, at::kDouble, true) != "chunked") routes.push_back({.route = Route::kFused});
  const Traits traits = encoding->traits(span);
  std::vector<Tensor> wanted;
  for (const Parameter& parameter : encoding->parameters()) wanted.push_back(parameter.value);
  for (const AttendOptions& route : routes) {
    const Tensor out = run_layers(*encoding, toy, span, route);
    const auto gradients =
        torch::autograd::grad({(out * normals("direction", out.sizes())).sum()}, wanted, {}, std::nullopt, false,
                              /*allow_unused=*/true);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const Parameter& parameter = encoding->parameters()[i];
      const double largest = gradients[i].defined() ? value(gradients[i].abs().max()) : 0;
      // The state that tape's last layer updates is read by no layer. A constant of a row of logits is nothing to
      // softmax.
      const bool last_of_tape = parameter.layer == shape.layers - 1 && parameter.name.starts_with("tape.");
      const bool last_bias =
          (parameter.name.starts_with("fire") && parameter.short_name == "b2" && !traits.rewrites_logits) ||
          (parameter.name.starts_with("dape") && parameter.short_name == "map2_b");
      const bool none = last_of_tape || (last_bias && !traits.normalises);
      BOOST_TEST((largest > 1e-9) == !none, subject.name << ", " << parameter.name << ", route "
                                                         << static_cast<int>(route.route) << ": " << largest);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
