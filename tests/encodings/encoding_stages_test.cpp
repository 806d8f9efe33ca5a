// The stages that no registered encoding uses yet, each by a small encoding of this file, with numbers from the papers.
// They are another product (S6), logits that depend on earlier rows, other normalisers and extra values (S8), and S9.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "encodings/attention/stack.h"
#include "spot.h"

namespace data = boost::unit_test::data;
using namespace pe;
using namespace pe::encodings;
using namespace pe::test;

namespace {

/// Logits are products of channels that decay from key to query, each at its own content-dependent rate.
class ChannelDecay : public PositionalEncoding {
 public:
  explicit ChannelDecay(const Shape& shape) : PositionalEncoding(shape) {
    weight_ = add_normal("channel_decay", "weight", {shape.width, shape.query_heads * shape.head_width}, 0, .3, true);
  }
  Traits traits(const Span&) const override { return {.own_logits = true}; }
  std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads) override {
    const Tensor gates = at::sigmoid(at::matmul(context.x, weight_) + 1);  // [B,S,H·d]
    const Tensor decay = fixed_gates.defined() ? fixed_gates : gates;
    return {decay.log().cumsum(1).view({decay.size(0), decay.size(1), -1, shape_.head_width}).transpose(1, 2)};
  }
  Tensor logits(const Rows& rows) override {
    const Tensor& p = rows.inputs.at(0);  // [B,H,S,d]
    const std::int64_t offset = rows.context.span.keys - rows.context.span.queries;
    const Tensor mine = p.narrow(2, offset + rows.begin, rows.count()).unsqueeze(3),
                 theirs = p.narrow(2, 0, rows.keys).unsqueeze(2);
    const Tensor k = rows.k.repeat_interleave(rows.q.size(1) / rows.k.size(1), 1);
    // The future would overflow; it is masked.
    const Tensor factor = (mine - theirs).clamp_max(0).exp();
    return (rows.q.unsqueeze(3) * k.unsqueeze(2) * factor).sum(-1) * rows.scale;
  }
  Tensor fixed_gates;

 private:
  Tensor weight_;
};

/// Logits of earlier queries for a key lower it for later ones.
class Selective : public PositionalEncoding {
 public:
  using PositionalEncoding::PositionalEncoding;
  Traits traits(const Span&) const override { return {.rewrites_logits = true, .rows_coupled = true}; }
  Tensor rewrite(const Rows& rows, const Tensor& s) override {
    const Tensor columns = at::arange(rows.keys, at::TensorOptions(at::kLong));
    const Tensor hidden =
        rows.visible.logical_not().logical_or(columns.eq(rows.query_rows().unsqueeze(1))).logical_or(columns.eq(0));
    const Tensor asked = at::relu(s.narrow(1, 0, 1)).masked_fill(hidden, 0.0);
    Tensor before = asked.cumsum(2) - asked;
    Tensor total = asked.sum(2, true);
    if (rows.carry->defined()) {
      const Tensor earlier = at::constant_pad_nd(*rows.carry, {0, rows.keys - rows.carry->size(3)});
      before = before + earlier;
      total = total + earlier;
    }
    *rows.carry = total;
    return s - before;
  }
};

class StickBreaking : public PositionalEncoding {
 public:
  using PositionalEncoding::PositionalEncoding;
  Traits traits(const Span&) const override { return {.normalises = true}; }

  class Sticks : public Normaliser {
   public:
    Result normalise(const Tensor& logits, const Rows& rows) const override {
      const Tensor columns = at::arange(rows.keys, at::TensorOptions(at::kLong));
      const Tensor earlier = rows.visible.logical_and(columns.lt(rows.query_rows().unsqueeze(1)));
      const Tensor z = logits.masked_fill(earlier.logical_not(), 0.0);
      const Tensor kept = at::log_sigmoid(-z).masked_fill(earlier.logical_not(), 0.0);
      const Tensor after = kept.flip(-1).cumsum(-1).flip(-1) - kept;  // of the keys between this one and the query
      const Tensor weights = (at::log_sigmoid(z) + after).exp().masked_fill(earlier.logical_not(), 0.0);
      return {weights, 1 - weights.sum(-1)};
    }
  };
  std::unique_ptr<Normaliser> normaliser(const LayerContext&, const std::vector<Tensor>&) override {
    return std::make_unique<Sticks>();
  }
};

/// A learned logit that takes part in each row's softmax and brings no value.
class Sink : public PositionalEncoding {
 public:
  explicit Sink(const Shape& shape) : PositionalEncoding(shape) {
    sink_ = add_constant("sink", "sink", {shape.query_heads}, 0, false);
  }
  Traits traits(const Span&) const override { return {.normalises = true, .needs_row_constants = true}; }
  std::vector<Tensor> row_inputs(LayerContext&, const Heads&) override { return {sink_}; }

  class WithSink : public Normaliser {
   public:
    explicit WithSink(Tensor sink) : sink(std::move(sink)) {}
    Result normalise(const Tensor& logits, const Rows&) const override {
      const Tensor column = sink.view({1, -1, 1, 1}).expand({logits.size(0), -1, logits.size(2), 1});
      return {at::softmax(at::cat({logits, column}, -1), -1).narrow(-1, 0, logits.size(-1)), {}};
    }
    Tensor sink_logits() const override { return sink; }
    Tensor sink;
  };
  std::unique_ptr<Normaliser> normaliser(const LayerContext&, const std::vector<Tensor>& inputs) override {
    return std::make_unique<WithSink>(inputs.at(0));
  }

 private:
  Tensor sink_;
};

/// A state of each token that attention moves and the feed-forward rotates: cosines and sines that evolve.
class Evolving : public PositionalEncoding {
 public:
  explicit Evolving(const Shape& shape) : PositionalEncoding(shape) {
    rate_ = add_constant("evolving", "rate", {}, .5, false);
  }
  Traits traits(const Span&) const override { return {.extra_values = true}; }
  void begin(State& state) override {
    const Tensor angles = default_positions(state.span).to(at::kDouble).view({1, 1, -1, 1});
    state.tensors["evolving"] =
        at::cat({angles.cos(), angles.sin()}, -1).expand({state.span.batch, shape_.query_heads, -1, -1});
  }
  Tensor extra_values(LayerContext& context, const Heads&) override { return context.state.tensors.at("evolving"); }
  Tensor finish(LayerContext& context, const Tensor& out, const Tensor& extra) override {
    Tensor& state = context.state.tensors.at("evolving");
    state = state + rate_ * extra;
    return out;
  }
  void after_feed_forward(LayerContext& context, const Tensor& y) override {
    Tensor& state = context.state.tensors.at("evolving");
    state = state + y.mean(-1).unsqueeze(1).unsqueeze(-1);
  }

 private:
  Tensor rate_;
};

/// Read by an encoding.
struct ReadTokens : FourTokens {
  ReadTokens() { x = at::zeros({1, 4, 2}, at::kDouble); }
};

std::unique_ptr<PositionalEncoding> make(const std::string& name, const Shape& shape) {
  if (name == "channel_decay") return std::make_unique<ChannelDecay>(shape);
  if (name == "selective") return std::make_unique<Selective>(shape);
  if (name == "stick_breaking") return std::make_unique<StickBreaking>(shape);
  if (name == "sink") return std::make_unique<Sink>(shape);
  if (name == "evolving") return std::make_unique<Evolving>(shape);
  // In a stack members get their own inputs, in spite of the others'.
  std::vector<StackMember> members;
  for (const char* member : {"rope", "fire", "t5", "alibi"}) members.push_back({member, make_encoding(member, shape)});
  for (const char* member : {"selective", "sink"}) members.push_back({member, make(member, shape)});
  if (name == "stack with another product") members.push_back({"channel_decay", make("channel_decay", shape)});
  return make_stack(std::move(members), shape);
}

const char* const kNames[] = {
    "channel_decay", "selective", "stick_breaking", "sink", "evolving", "stack", "stack with another product"};

}  // namespace

BOOST_AUTO_TEST_SUITE(encoding_stages)

BOOST_AUTO_TEST_CASE(another_product) {
  ReadTokens f;
  ChannelDecay encoding(f.shape);
  encoding.fixed_gates = numbers({.9, .5, .8, .9, .7, .6, .95, .85}, {1, 4, 2});
  f.run(encoding);
  check(f.logits(1), {.636396, .707107});
  check(f.logits(2), {.777817, .424264, 0});
  check(f.logits(3), {.051619, -.360624, -1.272792, 1.414214});
}

BOOST_AUTO_TEST_CASE(logits_that_depend_on_earlier_rows) {
  ReadTokens f;
  Selective encoding(f.shape);
  f.run(encoding);
  check(f.weights(3), {.178588, .043418, .043418, .734577});
}

BOOST_AUTO_TEST_CASE(a_normaliser_with_a_remainder) {
  ReadTokens f;
  StickBreaking encoding(f.shape);
  f.run(encoding);
  check(f.weights(2).narrow(0, 0, 2), {.265654, .669762});
  check(f.weights(3).narrow(0, 0, 3), {.269388, .265654, .19557});
  check(1 - f.matrices.weights[0][0].sum(-1), {1, .330238, .064585, .269388});
  check(f.out[0][0][3], {1.003734, .191836});
  BOOST_TEST(at::equal(f.out[0][0][0], f.v[0][0][0]));
}

BOOST_AUTO_TEST_CASE(a_sink) {
  ReadTokens f;
  Sink encoding(f.shape);
  f.run(encoding);
  check(f.out, {.669762, 0, .401112, .401112, .628058, .371942, 1.38254, -.493043});
  check(1 - f.matrices.weights[0][0].sum(-1), {.330238, .197776, .12283, .145997});
  at::NoGradGuard no_grad;
  Tensor(encoding.parameters()[0].value).fill_(1);
  f.run(encoding);
  check(f.out[0][0][3], {1.105267, -.394162});
}

BOOST_AUTO_TEST_CASE(extra_values_are_mixed_by_the_same_weights) {
  // Two tokens that attend evenly.
  const Shape shape{.width = 2, .head_width = 2, .dtype = at::kDouble};
  Evolving encoding(shape);
  at::NoGradGuard no_grad;
  for (const Route route : {Route::kReference, Route::kChunked, Route::kFused}) {
    State state = begin_pass(encoding, Span::whole(1, 2));
    LayerContext context = layer_context(encoding, state, 0);
    const Tensor zero = at::zeros({1, 1, 2, 2}, at::kDouble);
    encodings::attend(encoding, context, {.q = zero, .k = zero, .v = zero}, {.route = route});
    check(state.tensors["evolving"][0][0][1], {.925378, 1.051839});
    encoding.after_feed_forward(context, numbers({0, 0, .2, .4}, {1, 2, 2}));
    check(state.tensors["evolving"][0][0][1], {1.225378, 1.351839});
  }
}

BOOST_DATA_TEST_CASE(routes_agree_on_outputs_and_gradients, data::make(kNames) * data::make({1, 2}), name, groups) {
  const Shape shape = small_shape(2, groups);
  const auto encoding = make(name, shape);
  stir(*encoding);
  const Toy toy(shape, 2, 8);
  const ToyGradients reference = evaluate(*encoding, toy, Span::whole(2, 8), {.route = Route::kReference});
  for (const std::int64_t rows : {1, 3, 8}) {
    const ToyGradients chunked =
        evaluate(*encoding, toy, Span::whole(2, 8), {.route = Route::kChunked, .chunk_rows = rows});
    BOOST_TEST(largest_difference(reference.out, chunked.out) <= 1e-12);
    for (std::size_t i = 0; i < reference.gradients.size(); ++i) {
      BOOST_TEST(largest_difference(reference.gradients[i], chunked.gradients[i]) <= 1e-11, "gradient " << i);
    }
  }
  const ToyGradients automatic = evaluate(*encoding, toy, Span::whole(2, 8), {});
  BOOST_TEST(largest_difference(reference.out, automatic.out) <= 1e-11);
}

BOOST_AUTO_TEST_CASE(gradients_of_a_carry_are_those_of_finite_differences) {
  Selective encoding(small_shape());
  Toy toy(small_shape(), 1, 6);
  const Span span = Span::whole(1, 6);
  const AttendOptions options{.route = Route::kChunked, .chunk_rows = 2};
  const ToyGradients found = evaluate(encoding, toy, span, options);
  at::NoGradGuard no_grad;
  const Tensor direction = normals("direction", found.out.sizes()).to(at::kBFloat16).to(at::kDouble);
  Tensor q = toy.q.view(-1);
  for (std::int64_t e = 0; e < q.numel(); ++e) {
    double* entry = element(q, e);
    const double kept = *entry, step = 1e-6;
    *entry = kept + step;
    const double above = value((toy.run(encoding, span, options) * direction).sum());
    *entry = kept - step;
    const double below = value((toy.run(encoding, span, options) * direction).sum());
    *entry = kept;
    BOOST_TEST(std::abs((above - below) / (2 * step) - value(found.gradients[1].view(-1)[e])) <= 1e-6);
  }
}

BOOST_AUTO_TEST_SUITE_END()
