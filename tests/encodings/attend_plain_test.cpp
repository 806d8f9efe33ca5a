// The routes of plain causal attention: the choice by records, and cuDNN's by its stand-in against float64.
#include "encodings/attention/attend_plain.h"

#include <boost/test/unit_test.hpp>

#include "cuda/cudnn_stand_in.h"
#include "cuda/host_plugin.h"
#include "fixture.h"
#include "plain_definition.h"
#include "support/error.h"
#include "support/explain.h"
#include "support/random.h"
#include "support/text.h"

using namespace pe;
using namespace pe::encodings;
using namespace pe::test;

namespace {

constexpr std::int64_t kBatch = 2, kHeads = 4, kGroups = 2, kWidth = 32;
constexpr std::int64_t kByCudnn = 22, kByPlugin = 23;  // of tests/cuda/stand_in/cuda/recorded_attention.inc

/// [B,T,n], bf16 numbers.
Tensor rows(std::uint64_t key, std::int64_t batch, std::int64_t length, std::int64_t count) {
  Tensor made = at::empty({batch, length, count}, at::kDouble);
  support::philox_normal(key, made.data_ptr<double>(), static_cast<std::size_t>(made.numel()));
  return made.to(at::kBFloat16);
}

/// Columns of one packed projection.
PlainHeads packed_heads(std::int64_t length, std::int64_t batch = kBatch, std::int64_t groups = kGroups) {
  const Tensor packed =
      rows(1, batch, length, (kHeads + 2 * groups) * kWidth).unflatten(2, {-1, kWidth}).transpose(1, 2);
  const auto part = [&](std::int64_t first, std::int64_t count) {
    return packed.narrow(1, first, count).requires_grad_(true);
  };
  return {part(0, kHeads), part(kHeads, groups), part(kHeads + groups, groups), 0.2};
}

std::vector<Tensor> pass(const PlainHeads& heads, const PeCudaAttentionChoice& by, const Tensor& above) {
  const Tensor out = encodings::attend_plain(heads, by);
  const std::vector<Tensor> gradients = torch::autograd::grad({out}, {heads.q, heads.k, heads.v}, {above});
  return {out.detach(), gradients[0], gradients[1], gradients[2]};
}

void compare(const std::vector<Tensor>& got, const std::vector<Tensor>& expected, double allowed = 5e-3) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double off = relative_difference(got[i], expected[i]);
    BOOST_TEST(off <= allowed, "result " << i << " is off by " << off);
  }
}

/// A gradient of the output [B,H,T,d_h], as the output projection gives it.
Tensor gradient_above(std::int64_t length) {
  return rows(9, kBatch, length, kHeads * kWidth).unflatten(2, {kHeads, kWidth}).transpose(1, 2);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(attend_plain)

BOOST_AUTO_TEST_CASE(cudnns_values_and_gradients_agree_with_float64_and_repeat) {
  const StandIn plugin;
  const PlainHeads packed = packed_heads(kByCudnn);
  const auto by_head = [](const Tensor& t) { return t.detach().contiguous().requires_grad_(true); };
  const PlainHeads apart{by_head(packed.q), by_head(packed.k), packed.v, packed.scale};
  for (const PlainHeads& heads : {packed, apart}) {
    const PeCudaAttentionChoice choice = plain_choice(heads);
    BOOST_TEST((choice == PeCudaAttentionChoice{PeCudaAttentionRoute::kCudnn, 1, 2}));
    const Tensor above = gradient_above(kByCudnn);
    const std::int64_t before = cudnn_calls().passes;
    const std::vector<Tensor> got = pass(heads, choice, above);
    BOOST_TEST(cudnn_calls().passes == before + 2);
    BOOST_TEST(cudnn_calls().last_forward_plan == 1);
    BOOST_TEST(cudnn_calls().last_backward_plan == 2);
    compare(got, plain_by_definition(heads, above));
    const std::vector<Tensor> again = pass(heads, choice, above);
    for (std::size_t i = 0; i < got.size(); ++i) BOOST_TEST(again[i].equal(got[i]));
    compare(pass(heads, choice, above.contiguous()), plain_by_definition(heads, above));  // heads apart
  }
}

// A token's gradients have the layout of its packed projection, and its outputs the order that their projection reads.
BOOST_AUTO_TEST_CASE(results_lie_where_their_readers_want_them) {
  const StandIn plugin;
  const PlainHeads heads = packed_heads(kByCudnn);
  const std::vector<Tensor> got = pass(heads, {PeCudaAttentionRoute::kCudnn}, gradient_above(kByCudnn));
  BOOST_TEST(got[0].transpose(1, 2).is_contiguous());
  const std::int64_t row = (kHeads + 2 * kGroups) * kWidth;
  const std::vector<std::int64_t> strides{kByCudnn * row, kWidth, row, 1};
  for (std::size_t i = 1; i < 4; ++i) BOOST_TEST(got[i].strides().vec() == strides);
  const auto place = [&](std::size_t i) { return static_cast<const at::BFloat16*>(got[i].data_ptr()); };
  BOOST_TEST(place(2) - place(1) == kHeads * kWidth);
  BOOST_TEST(place(3) - place(1) == (kHeads + kGroups) * kWidth);
}

BOOST_AUTO_TEST_CASE(a_shape_has_its_plans_made_once) {
  const StandIn plugin;
  const PlainHeads heads = packed_heads(kByCudnn);
  const Tensor above = gradient_above(kByCudnn);
  pass(heads, plain_choice(heads), above);
  const std::int64_t plans = cudnn_calls().plans;
  pass(heads, plain_choice(heads), above);
  BOOST_TEST(cudnn_calls().plans == plans);
  const Tensor k = heads.k.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_(true);
  const PlainHeads apart{heads.q, k, heads.v, heads.scale};
  pass(apart, plain_choice(apart), above);
  BOOST_TEST(cudnn_calls().plans == plans + 2);
}

BOOST_AUTO_TEST_CASE(a_record_holds_for_its_device_version_and_shape) {
  const StandIn plugin;
  const auto route = [](std::int64_t length, std::int64_t batch = kBatch, std::int64_t groups = kGroups) {
    return plain_choice(packed_heads(length, batch, groups)).by;
  };
  BOOST_TEST((route(kByCudnn) == PeCudaAttentionRoute::kCudnn));
  BOOST_TEST((route(kByCudnn, 1) == PeCudaAttentionRoute::kCudnn));
  BOOST_TEST((route(kByPlugin) == PeCudaAttentionRoute::kPlugin));
  BOOST_TEST((route(kByCudnn, 3) == PeCudaAttentionRoute::kLibTorch));     // more sequences than were measured
  BOOST_TEST((route(kByCudnn, 2, 4) == PeCudaAttentionRoute::kLibTorch));  // no record
  BOOST_TEST((route(24) == PeCudaAttentionRoute::kLibTorch));              // of another device
  BOOST_TEST((route(25) == PeCudaAttentionRoute::kLibTorch));              // recorded so
  BOOST_TEST((route(kRefusedLength) == PeCudaAttentionRoute::kLibTorch));  // cuDNN has no plan
  BOOST_TEST((route(28) == PeCudaAttentionRoute::kLibTorch));              // it has fewer plans
  const PeCudaAttention of = plain_shape(packed_heads(kByCudnn));
  const PeCudaAttentionChoice choice{PeCudaAttentionRoute::kCudnn, 1, 2};
  char line[256];
  host_plugin().write_attention_record(&of, &choice, line, sizeof line);
  BOOST_TEST(std::string(line) == "{{90, 132, 91900}, 2, 4, 2, 22, 32, {PeCudaAttentionRoute::kCudnn, 1, 2}},");
}

// Rows that begin at odd places, that are read twice, or whose values are apart; other types and numbers of rows.
BOOST_AUTO_TEST_CASE(heads_that_cudnn_cannot_read_are_libtorchs) {
  const StandIn plugin;
  const PlainHeads heads = packed_heads(kByCudnn);
  const Tensor odd = rows(2, kBatch, kByCudnn, kHeads * kWidth + 1).narrow(2, 1, kHeads * kWidth);
  const auto precise = [](const Tensor& t) { return t.to(at::kFloat); };
  for (const PlainHeads& other :
       std::vector<PlainHeads>{{odd.unflatten(2, {kHeads, kWidth}).transpose(1, 2), heads.k, heads.v},
                               {heads.q, heads.k.narrow(0, 0, 1).expand({kBatch, -1, -1, -1}), heads.v},
                               {heads.q, heads.k, heads.v.transpose(2, 3).contiguous().transpose(2, 3)},
                               {precise(heads.q), precise(heads.k), precise(heads.v)},
                               {heads.q.narrow(2, 0, 9), heads.k, heads.v}}) {
    BOOST_TEST((plain_choice(other) == PeCudaAttentionChoice{}));
  }
}

BOOST_AUTO_TEST_CASE(without_a_plug_in_it_is_libtorchs) {
  BOOST_TEST((plain_choice(packed_heads(kByCudnn)) == PeCudaAttentionChoice{}));
}

BOOST_AUTO_TEST_CASE(the_plug_ins_and_libtorchs_routes_agree_with_float64) {
  const StandIn plugin;
  const PlainHeads heads = packed_heads(kByPlugin);
  const Tensor above = gradient_above(kByPlugin);
  const std::int64_t before = cudnn_calls().passes;
  for (const PeCudaAttentionRoute by : {PeCudaAttentionRoute::kPlugin, PeCudaAttentionRoute::kLibTorch})
    compare(pass(heads, {by}, above), plain_by_definition(heads, above), 2e-2);
  BOOST_TEST(cudnn_calls().passes == before);
}

// A plan that cannot be built is no reason for another route, whose bytes may differ.
BOOST_AUTO_TEST_CASE(a_failure_ends_the_pass_and_names_cudnn_and_the_shape) {
  const StandIn plugin;
  for (const auto& [length, why] :
       {std::pair{kRefusedLength, "there is no plan"}, {kBrokenLength, "the plan cannot be built"}}) {
    const PlainHeads heads = packed_heads(length);
    const std::string text = support::cat("cuDNN's attention of [2, 4, ", length, ", 32] ends with: ", why);
    BOOST_CHECK_EXCEPTION(encodings::attend_plain(heads, {PeCudaAttentionRoute::kCudnn}), support::Error,
                          [&](const support::Error& error) {
                            return error.exit_code() == support::kExitDevice &&
                                   std::string(error.what()).find(text) != std::string::npos;
                          });
  }
  BOOST_TEST((plain_choice(packed_heads(kBrokenLength)).by == PeCudaAttentionRoute::kCudnn));
}

// The dispatcher takes the recorded route, and says so.
BOOST_AUTO_TEST_CASE(attend_takes_the_recorded_route) {
  const Shape shape{.width = kHeads * kWidth,
                    .layers = 1,
                    .query_heads = kHeads,
                    .key_value_heads = kGroups,
                    .head_width = kWidth,
                    .train_length = 64,
                    .seed = 5,
                    .dtype = at::kFloat};
  for (const auto& [config, length, name] : {std::tuple{"none", kByCudnn, "fused, cuDNN's attention"},
                                             {"rope", kByCudnn, "fused, cuDNN's attention"},
                                             {"rope", kByPlugin, "fused, the plug-in's attention"},
                                             {"rope", kRefusedLength, "fused"}}) {
    const auto encoding = make_encoding(Json(config), shape);
    const Span span = Span::whole(kBatch, length);
    const Toy low = Toy(shape, kBatch, length).to(at::kBFloat16);
    const ToyGradients expected = evaluate(*encoding, low, span, {.route = Route::kReference});
    const StandIn plugin;
    BOOST_TEST(route_name(*encoding, span, at::kBFloat16, true) == name);
    const std::int64_t before = cudnn_calls().passes;
    const ToyGradients got = evaluate(*encoding, low, span, {});
    BOOST_TEST(cudnn_calls().passes == before + (std::string(name).find("cuDNN") != std::string::npos ? 2 : 0));
    BOOST_TEST(relative_difference(got.out, expected.out) <= 2e-2);
    for (std::size_t i = 0; i < got.gradients.size(); ++i)
      BOOST_TEST(relative_difference(got.gradients[i], expected.gradients[i]) <= 4e-2);
  }
}

BOOST_AUTO_TEST_SUITE_END()
