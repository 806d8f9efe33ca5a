// Encodings whose attention the plug-in's kernels take, on the CPU by their stand-in, against the definition.
#include <ATen/record_function.h>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "cuda/host_plugin.h"
#include "fixture.h"

namespace data = boost::unit_test::data;
using namespace pe;
using namespace pe::encodings;
using namespace pe::test;

namespace {

constexpr const char* kByDistance[] = {"'alibi'",
                                       "'nape'",
                                       "'t5'",
                                       "'kerple_log'",
                                       "'kerple_power'",
                                       "'sandwich'",
                                       "'bam'",
                                       "'fire'",
                                       "'fire_guide'",
                                       "{'stack': ['rope', 'alibi', 't5']}",
                                       "{'stack': ['t5', 'sink_logit']}"};

constexpr const char* kGated[] = {"'fox'",
                                  "{'kind': 'fox', 'gate': 'bias_only'}",
                                  "{'kind': 'fox', 'gate': 'fixed'}",
                                  "'cable'",
                                  "'cable_nw'",
                                  "'grape_a'",
                                  "{'kind': 'grape_a', 'form': 'k'}",
                                  "{'kind': 'grape_a', 'form': 'q'}",
                                  "{'stack': ['rope', 'fox']}",
                                  "{'stack': ['cable', 'sink_logit']}",
                                  "{'stack': ['fox', 'sink_kv', {'kind': 'window', 'size': 40}]}"};

constexpr const char* kBent[] = {"{'kind': 'fire', 'initial_length': 20}",
                                 "{'kind': 'fire_per_head', 'initial_length': 20}",
                                 "{'stack': ['rope', {'kind': 'fire', 'initial_length': 7}, 'sink_logit']}",
                                 "{'stack': [{'kind': 'fire', 'initial_length': 30}, {'kind': 'window', "
                                 "'size': 40}]}"};

constexpr const char* kPairs[] = {"'selective'",
                                  "'transformer_xl'",
                                  "'inkling'",
                                  "'k_cable'",
                                  "{'kind': 'grape_ap', 'hidden': 4}",
                                  "{'stack': ['alibi', 'fox']}",
                                  "{'stack': ['randomised', 't5']}",
                                  "{'stack': ['transformer_xl', {'kind': 'window', 'size': 40}]}"};

constexpr const char* kSticks[] = {"'stickbreaking'",
                                   "{'kind': 'stickbreaking', 'attend_current': true, 'remainder': false}",
                                   "{'stack': ['rope', 'stickbreaking', {'kind': 'window', 'size': 40}]}"};

constexpr const char* kCounts[] = {"'cope'", "{'kind': 'cope', 'positions': 9, 'cope_div': true}",
                                   "{'stack': ['cope', 'sink_logit', {'kind': 'window', 'size': 40}]}"};

constexpr const char* kEdges[] = {"'grape_ap'", "{'stack': ['rope', 'grape_ap', 'sink_logit']}",
                                  "{'stack': ['grape_ap', {'kind': 'window', 'size': 40}]}"};

constexpr const char* kNetworks[] = {"'dape'",
                                     "'dape_v2'",
                                     "{'kind': 'dape', 'bias': 'none'}",
                                     "{'kind': 'dape_v2', 'bias': 'none'}",
                                     "{'kind': 'dape', 'bias': 'fire'}",
                                     "{'kind': 'dape_v2', 'bias': 'alibi'}",
                                     "{'stack': ['dape_v2', 'sink_logit']}",
                                     "{'stack': ['dape', 'sink_kv']}",
                                     "{'stack': ['dape_v2', {'kind': 'window', 'size': 40}]}"};

Json json(std::string text) {
  std::replace(text.begin(), text.end(), '\'', '"');
  return Json::parse(text);
}

Shape shape_of_heads(std::int64_t heads, std::int64_t groups) {
  return {.width = 64,
          .layers = 2,
          .query_heads = heads,
          .key_value_heads = groups,
          .head_width = 32,
          .train_length = 128,
          .seed = 5,
          .dtype = at::kFloat};
}

/// Compares bfloat16 by the plug-in's kernels with the same numbers in float32 by the definition.
void compare(const Json& config, const Shape& shape, const Span& span, const std::string& route,
             const std::function<void(PositionalEncoding&)>& prepare = {}, const AttendOptions& options = {}) {
  const auto encoding = make_encoding(config, shape);
  stir(*encoding);
  if (prepare) prepare(*encoding);
  Toy low(shape, span.batch, span.keys);
  // Both see the same numbers as q, k and v: nothing but attention is compared.
  for (Tensor Toy::*member : {&Toy::wq, &Toy::wk, &Toy::wv}) (low.*member).zero_();
  low = low.to(at::kBFloat16);
  const Toy high = low.to(at::kFloat);
  const ToyGradients expected = evaluate(*encoding, high, span, {.route = Route::kReference});
  const StandIn plugin;
  BOOST_TEST(route_name(*encoding, span, at::kBFloat16, true) == route);
  const ToyGradients got = evaluate(*encoding, low, span, options);
  BOOST_TEST(relative_difference(got.out, expected.out) <= 1e-2);
  double largest = 0;
  for (const Tensor& g : expected.gradients) largest = std::max(largest, value(g.norm()));
  for (std::size_t i = 0; i < got.gradients.size(); ++i) {
    // A parameter of a few numbers sums terms of both signs, as large as the terms of other gradients.
    const double noise = i < 4 ? 0 : 5e-3 * largest, size = value(expected.gradients[i].norm()) + 1e-3;
    const double off = relative_difference(got.gradients[i], expected.gradients[i]);
    BOOST_TEST(off <= 2e-2 + noise / size, "gradient " << i << " is off by " << off);
  }
}

Span packed_documents() {
  Span span = Span::whole(2, 90);
  span.doc_start = at::zeros({2, 90}, at::TensorOptions(at::kLong));
  span.doc_start.select(0, 0).narrow(0, 33, 57).fill_(33);
  span.doc_start.select(0, 1).narrow(0, 70, 20).fill_(70);
  return span;
}

struct Counts {
  int calls = 0;  ///< of LibTorch
  int reads = 0;  ///< values of tensors that the host asked for
} counts;
std::unique_ptr<at::ObserverContext> count_call(const at::RecordFunction& function) {
  ++counts.calls;
  counts.reads += std::string(function.name()) == "aten::_local_scalar_dense";
  return nullptr;
}

Counts counts_of(const std::function<void()>& pass) {
  const auto handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback(count_call).scopes({at::RecordScope::FUNCTION}));
  counts = {};
  pass();
  at::removeCallback(handle);
  return counts;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(attend_by_plugin)

BOOST_DATA_TEST_CASE(gated_distances_agree_with_the_definition, data::make(kGated), config) {
  compare(json(config), shape_of_heads(4, 2), Span::whole(2, 90), "fused, gated distance");
  compare(json(config), shape_of_heads(4, 2), packed_documents(), "fused, gated distance");
}

BOOST_DATA_TEST_CASE(bent_distances_agree_with_the_definition, data::make(kBent), config) {
  compare(json(config), shape_of_heads(4, 2), Span::whole(2, 90), "fused, bent distance");
  Span documents = packed_documents();
  documents.restart_positions = true;
  compare(json(config), shape_of_heads(4, 2), documents, "fused, bent distance");
}

BOOST_DATA_TEST_CASE(biases_of_pairs_agree_with_the_definition, data::make(kPairs), config) {
  compare(json(config), shape_of_heads(4, 2), Span::whole(2, 90), "fused, bias of pairs");
  compare(json(config), shape_of_heads(4, 2), packed_documents(), "fused, bias of pairs");
}

BOOST_DATA_TEST_CASE(sticks_agree_with_the_definition, data::make(kSticks), config) {
  compare(json(config), shape_of_heads(4, 2), Span::whole(2, 90), "fused, stick-breaking");
  compare(json(config), shape_of_heads(4, 2), packed_documents(), "fused, stick-breaking");
}

BOOST_DATA_TEST_CASE(counts_agree_with_the_definition, data::make(kCounts), config) {
  compare(json(config), shape_of_heads(4, 2), Span::whole(2, 90), "fused, counts");
  compare(json(config), shape_of_heads(4, 2), packed_documents(), "fused, counts");
}

// Rotated q and k are rounded to bf16, and so counts cross whole numbers, where the slope changes. So here it does not.
BOOST_AUTO_TEST_CASE(counts_of_rotated_logits_agree_with_the_definition) {
  const auto straighten = [](PositionalEncoding& encoding) {
    const at::NoGradGuard no_gradients;
    for (const Parameter& parameter : encoding.parameters()) {
      const Tensor table = parameter.value;
      table.copy_(table.narrow(1, 0, 1) * at::arange(table.size(1), table.options()).div(16));
    }
  };
  for (const char* config : {"{'stack': ['rope', 'cope']}", "{'stack': ['rope', {'kind': 'cope', 'z': 'rot'}]}"}) {
    compare(json(config), shape_of_heads(4, 2), Span::whole(2, 90), "fused, counts", straighten);
    compare(json(config), shape_of_heads(4, 2), packed_documents(), "fused, counts", straighten);
  }
}

BOOST_DATA_TEST_CASE(edges_agree_with_the_definition, data::make(kEdges), config) {
  compare(json(config), shape_of_heads(4, 2), Span::whole(2, 90), "fused, edges");
  compare(json(config), shape_of_heads(4, 2), packed_documents(), "fused, edges");
}

BOOST_DATA_TEST_CASE(networks_agree_with_the_definition, data::make(kNetworks), config) {
  compare(json(config), shape_of_heads(4, 2), Span::whole(2, 90), "fused, network of pairs");
  compare(json(config), shape_of_heads(4, 2), packed_documents(), "fused, network of pairs");
}

// Rotated q and k are rounded to bf16, and so hidden values become positive or negative. Here all are positive.
BOOST_AUTO_TEST_CASE(networks_of_rotated_logits_agree_with_the_definition) {
  const auto raise = [](PositionalEncoding& encoding) {
    const at::NoGradGuard no_gradients;
    for (const Parameter& parameter : encoding.parameters())
      if (parameter.short_name == "map1_b") Tensor(parameter.value).fill_(8);
  };
  for (const char* config : {"{'stack': ['rope', 'dape']}", "{'stack': ['rope', 'dape_v2', 'sink_logit']}"}) {
    compare(json(config), shape_of_heads(4, 2), Span::whole(2, 90), "fused, network of pairs", raise);
    compare(json(config), shape_of_heads(4, 2), packed_documents(), "fused, network of pairs", raise);
  }
}

// Several strips add up; fewer queries than keys; heads that fill no group of eight.
BOOST_AUTO_TEST_CASE(networks_in_strips_agree_with_the_definition) {
  Span last = Span::whole(2, 90);
  last.queries = 50;
  for (const char* config : {"dape", "dape_v2"}) {
    for (const Span& span : {Span::whole(2, 90), packed_documents(), last}) {
      compare(config, shape_of_heads(4, 2), span, "fused, network of pairs", {}, {.chunk_rows = 32});
    }
    const auto clamp = [](PositionalEncoding& encoding) { encoding.after_step(); };  // numbers of the base
    compare(config, shape_of_heads(9, 3), Span::whole(1, 40), "fused, network of pairs", clamp);
  }
}

BOOST_AUTO_TEST_CASE(networks_that_the_kernel_does_not_take_go_through_strips) {
  const StandIn plugin;
  const auto route = [](const char* config, const Span& span, at::ScalarType type = at::kBFloat16) {
    return route_name(*make_encoding(json(config), shape_of_heads(4, 2)), span, type, true);
  };
  const Span whole = Span::whole(2, 90), longer = Span::whole(1, 600);
  BOOST_TEST(route("'dape_v2'", longer) == "fused, network of pairs");
  BOOST_TEST(route("{'kind': 'dape_v2', 'bias': 'fire'}", longer) == "chunked");  // no table
  BOOST_TEST(route("'dape_v2'", whole, at::kFloat) == "chunked");
  BOOST_TEST(route("{'stack': ['randomised', 'dape']}", whole) == "chunked");
  BOOST_TEST(route("{'stack': ['alibi', 'dape']}", whole) == "chunked");
  BOOST_TEST(route("{'stack': ['dape', 'entmax']}", whole) == "chunked");
  // Sums for so many heads do not fit into a block's memory.
  const auto of_heads = [&](const char* name, std::int64_t heads) {
    return route_name(*make_encoding(name, shape_of_heads(heads, heads)), whole, at::kBFloat16, true);
  };
  BOOST_TEST(of_heads("dape_v2", 24) == "fused, network of pairs");
  BOOST_TEST(of_heads("dape_v2", 32) == "chunked");
  BOOST_TEST(of_heads("dape", 48) == "fused, network of pairs");
  Span moved = whole;
  moved.positions = at::arange(90, at::TensorOptions(at::kLong)) * 2;
  BOOST_TEST(route("'dape'", moved) == "chunked");
}

// The chunked route as on a GPU: one strip for these rows.
BOOST_DATA_TEST_CASE(a_fused_route_takes_half_the_calls_of_a_strip,
                     data::make({"stickbreaking", "cope", "grape_ap", "dape", "dape_v2"}), name) {
  const Shape shape = shape_of_heads(4, 2);
  const auto encoding = make_encoding(name, shape);
  const Toy toy = Toy(shape, 2, 90).to(at::kBFloat16);
  const StandIn plugin;
  const auto calls = [&](Route route) {
    return counts_of([&] { evaluate(*encoding, toy, Span::whole(2, 90), {.route = route, .chunk_rows = 1024}); }).calls;
  };
  const int fused = calls(Route::kFused), chunked = calls(Route::kChunked);
  BOOST_TEST_MESSAGE("calls of LibTorch for a pass forward and backward: " << fused << ", in a strip " << chunked);
  BOOST_TEST(2 * fused <= chunked);
}

// On a GPU each read waits for all queued work.
BOOST_AUTO_TEST_CASE(a_pass_on_a_gpu_reads_no_values) {
  for (const char* config :
       {"{'kind': 'fire', 'initial_length': 20}", "{'kind': 'fire_per_head', 'initial_length': 20}", "'pope'",
        "'entmax'", "{'kind': 'entmax', 'alpha': 1.2}", "{'stack': ['randomised', 't5']}",
        "{'stack': ['randomised', 'transformer_xl']}", "'learned'", "'binary'"}) {
    const Shape shape = shape_of_heads(2, 2);
    const auto encoding = make_encoding(json(config), shape);
    stir(*encoding);
    const Toy toy = Toy(shape, 2, 90).to(at::kFloat);
    Span span = Span::whole(2, 90);
    span.training = true;
    if (encoding->traits(span).adds_to_tokens) {  // restarted positions are not counted from row to row
      span = packed_documents();
      span.restart_positions = true;
    }
    const Tensor expected = toy.run(*encoding, span, {.route = Route::kReference});
    const StandIn plugin;
    Tensor got;
    BOOST_TEST(counts_of([&] { got = toy.run(*encoding, span, {.route = Route::kReference}); }).reads == 0,
               config << " reads values");
    BOOST_TEST(relative_difference(got, expected) <= 1e-5, config);
  }
}

BOOST_DATA_TEST_CASE(biases_by_distance_agree_with_the_definition, data::make(kByDistance), config) {
  compare(json(config), shape_of_heads(4, 2), Span::whole(2, 90), "fused, distance table");
}

BOOST_DATA_TEST_CASE(documents_and_sinks_need_no_bias,
                     data::make({"'none'", "'rope'", "'sink_logit'", "'sink_kv'",
                                 "{'kind': 'sink_kv', 'value': 'learned'}"}),
                     config) {
  const bool sink = std::string(config).find("sink") != std::string::npos;
  compare(json(config), shape_of_heads(2, 2), packed_documents(), sink ? "fused, sink" : "fused");
}

// Heads of widths without a kernel, and q and k that S2 makes wider than v.
BOOST_AUTO_TEST_CASE(what_the_kernels_do_not_take_goes_another_way) {
  const StandIn plugin;
  Shape narrow = shape_of_heads(2, 2);
  narrow.head_width = 24;
  BOOST_TEST(route_name(*make_encoding("t5", narrow), Span::whole(1, 64), at::kBFloat16, true) ==
             "fused, trained mask");
  BOOST_TEST(route_name(*make_encoding("t5", shape_of_heads(2, 2)), Span::whole(1, 64), at::kDouble, true) ==
             "fused, trained mask");
  Span packed = Span::whole(1, 64);
  packed.doc_start = at::zeros({64}, at::TensorOptions(at::kLong));
  const auto pope = make_encoding("pope", shape_of_heads(2, 2));
  const Toy low = Toy(shape_of_heads(2, 2), 1, 64).to(at::kBFloat16), high = low.to(at::kFloat);
  const Tensor expected = high.run(*pope, packed, {.route = Route::kReference});
  BOOST_TEST(relative_difference(low.run(*pope, packed).to(at::kFloat), expected) <= 1e-2);
}

BOOST_AUTO_TEST_SUITE_END()
