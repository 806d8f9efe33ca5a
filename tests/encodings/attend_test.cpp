// Attention with an encoding against naive loops in double precision, and the choice of routes.
#include <ATen/Context.h>
#include <ATen/SDPBackend.h>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "cuda/plugin.h"
#include "encodings/attention/attend_rows.h"
#include "encodings/attention/toeplitz.h"
#include "fixture.h"
#include "kernels/dispatch.h"
#include "support/error.h"

namespace data = boost::unit_test::data;
using namespace pe;
using namespace pe::encodings;
using namespace pe::test;

namespace {

using Vector = std::vector<double>;

/// A formula for one layer, in terms of single tokens. Positions are whole numbers.
struct Formula {
  std::function<Vector(Vector x, double position)> turn = [](Vector x, double) { return x; };
  std::function<double(int head, double i, double j)> bias = [](int, double, double) { return 0.0; };
  std::function<double(int head, int visible)> temperature = [](int, int) { return 1.0; };
  /// cope: table [d_h][positions], empty if there is none.
  std::vector<Vector> counts;
};

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Vector row_of(const Tensor& t, int b, int h, int i) {
  Vector row;
  for (std::int64_t c = 0; c < t.size(3); ++c) row.push_back(t[b][h][i][c].item<double>());
  return row;
}

/// [B,H,T,d_h] by loops over everything.
Tensor naive_attention(const Tensor& q, const Tensor& k, const Tensor& v, double scale, const Formula& formula,
                       const std::vector<std::vector<std::int64_t>>& positions, const std::vector<int>& doc_start) {
  const int batch = q.size(0), heads = q.size(1), groups = k.size(1), length = q.size(2);
  Tensor out = at::zeros_like(q);
  for (int b = 0; b < batch; ++b) {
    for (int h = 0; h < heads; ++h) {
      const int g = h * groups / heads;
      for (int i = 0; i < length; ++i) {
        const double pi = static_cast<double>(positions[b][i]);
        const int start = doc_start[i], visible = i - start + 1;
        const Vector raw = row_of(q, b, h, i);
        Vector query = formula.turn(raw, pi);
        for (double& c : query) c *= formula.temperature(h, visible);
        Vector logits(i + 1), gates(i + 1);
        for (int j = start; j <= i; ++j) {
          const double pj = static_cast<double>(positions[b][j]);
          logits[j] = scale * dot(query, formula.turn(row_of(k, b, g, j), pj)) + formula.bias(h, pi, pj);
        }
        if (!formula.counts.empty()) {
          Vector z(formula.counts[0].size());
          for (std::size_t n = 0; n < z.size(); ++n) {
            for (std::size_t c = 0; c < raw.size(); ++c) z[n] += raw[c] * formula.counts[c][n];
          }
          double p = 0;
          Vector added(i + 1);
          for (int j = i; j >= start; --j) {
            p += 1 / (1 + std::exp(-logits[j]));
            const double clamped = std::min(p, static_cast<double>(z.size() - 1));
            const int low = static_cast<int>(std::floor(clamped)), high = static_cast<int>(std::ceil(clamped));
            added[j] = (clamped - low) * z[high] + (1 - clamped + low) * z[low];
          }
          for (int j = start; j <= i; ++j) logits[j] += added[j];
        }
        double total = 0;
        for (int j = start; j <= i; ++j) total += std::exp(logits[j]);
        for (int j = start; j <= i; ++j) {
          const Vector value = row_of(v, b, g, j);
          for (std::size_t c = 0; c < value.size(); ++c) {
            out[b][h][i][static_cast<std::int64_t>(c)] += std::exp(logits[j]) / total * value[c];
          }
        }
      }
    }
  }
  return out;
}

/// Reads a parameter of layer 1, or the model's.
Tensor parameter(const PositionalEncoding& encoding, const std::string& kind, const std::string& short_name) {
  for (const Parameter& p : encoding.parameters()) {
    if (p.short_name == short_name && p.layer != 0 && p.name.starts_with(kind + ".")) return p.value.detach();
  }
  BOOST_FAIL("no parameter " << short_name);
  return {};
}

double number(const Tensor& t) { return t.item<double>(); }

/// half: pairs (i, i + d/2), else (2i, 2i + 1).
std::function<Vector(Vector, double)> rotation(bool half, std::function<double(int pair, int width)> theta,
                                               double factor) {
  return [=](Vector x, double position) {
    const int width = static_cast<int>(x.size());
    Vector y(x.size());
    for (int i = 0; i < width / 2; ++i) {
      const int a = half ? i : 2 * i, b = half ? i + width / 2 : 2 * i + 1;
      const double angle = position * theta(i, width);
      y[a] = factor * (x[a] * std::cos(angle) - x[b] * std::sin(angle));
      y[b] = factor * (x[a] * std::sin(angle) + x[b] * std::cos(angle));
    }
    return y;
  };
}

/// The joint formula of the members of a config.
Formula formula_of(const Json& config, const PositionalEncoding& encoding, const Shape& shape) {
  Formula f;
  std::vector<std::function<double(int, double, double)>> biases;
  const Json members = config.is_object() && config.contains("stack") ? config["stack"] : Json::array({config});
  for (const Json& member : members) {
    const Json options = member.is_string() ? Json{{"kind", member}} : member;
    const std::string kind = options["kind"];
    if (kind == "rope" || kind == "yarn") {
      const double s = options.value("factor", 1.0), length = static_cast<double>(shape.train_length);
      const bool extends = kind == "yarn" && s > 1;
      const auto theta = [=](int i, int width) {
        const double plain = std::pow(10000.0, -2.0 * i / width);
        if (!extends) return plain;
        const auto pair = [&](double turns) {
          return width * std::log(length / (2 * M_PI * turns)) / (2 * std::log(1e4));
        };
        const double low = std::max(std::floor(pair(32)), 0.0);
        double high = std::min(std::ceil(pair(1)), width - 1.0);
        if (low == high) high += .001;
        const double ramp = std::min(1.0, std::max(0.0, (i - low) / (high - low)));
        return plain * (ramp / s + 1 - ramp);
      };
      f.turn = rotation(options.value("layout", "half") == "half", theta, extends ? .1 * std::log(s) + 1 : 1);
    } else if (kind == "alibi") {
      biases.push_back([=](int h, double i, double j) {  // four heads
        return -std::pow(2.0, -2.0 * (h + 1)) * (i - j);
      });
    } else if (kind == "t5") {
      const Tensor table = parameter(encoding, kind, "table");
      biases.push_back([=](int h, double i, double j) {
        const int d = static_cast<int>(i - j);
        const int bucket = d < 16 ? d : std::min(31, 16 + static_cast<int>(std::log(d / 16.0) / std::log(8.0) * 16));
        return number(table[bucket][h]);
      });
    } else if (kind == "fire") {
      const double c = number(parameter(encoding, kind, "c"));
      const double length =
          std::abs(options.value("initial_length", 512.0) * number(parameter(encoding, kind, "length_multiplier")));
      const Tensor w1 = parameter(encoding, kind, "w1"), b1 = parameter(encoding, kind, "b1"),
                   w2 = parameter(encoding, kind, "w2"), b2 = parameter(encoding, kind, "b2");
      biases.push_back([=](int h, double i, double j) {
        const auto psi = [&](double x) { return std::log(1 + std::abs(c * x)); };
        const double x = psi(i - j) / (psi(std::max(i, length)) + 1e-6);
        double sum = number(b2[h]);
        for (int n = 0; n < 32; ++n) sum += number(w2[h][n]) * std::max(0.0, number(w1[n][0]) * x + number(b1[n]));
        return sum;
      });
    } else if (kind == "ssmax") {
      const Tensor s = parameter(encoding, kind, "s");
      f.temperature = [=](int h, int visible) { return number(s[h]) * std::log(static_cast<double>(visible)); };
    } else if (kind == "cope") {
      const Tensor table = parameter(encoding, kind, "table");
      for (std::int64_t c = 0; c < table.size(0); ++c) {
        Vector row;
        for (std::int64_t n = 0; n < table.size(1); ++n) row.push_back(number(table[c][n]));
        f.counts.push_back(row);
      }
    } else {
      BOOST_REQUIRE_MESSAGE(kind == "none" || kind == "randomised", "no formula for " << kind);
    }
  }
  f.bias = [biases](int h, double i, double j) {
    double sum = 0;
    for (const auto& bias : biases) sum += bias(h, i, j);
    return sum;
  };
  return f;
}

Json json(std::string text) {
  std::replace(text.begin(), text.end(), '\'', '"');
  return Json::parse(text);
}

const char* const kFormulas[] = {"'none'",
                                 "'rope'",
                                 "{'kind': 'rope', 'layout': 'interleaved'}",
                                 "{'kind': 'yarn', 'factor': 4}",
                                 "'alibi'",
                                 "'t5'",
                                 "'fire'",
                                 "{'kind': 'fire', 'initial_length': 3}",
                                 "'ssmax'",
                                 "'cope'",
                                 "{'kind': 'cope', 'positions': 3}",
                                 "{'stack': ['ssmax', 'rope']}",
                                 "{'stack': ['rope', 'alibi']}",
                                 "{'stack': ['alibi', 'cope']}",
                                 "{'stack': ['t5', 'fire', 'rope', 'ssmax']}",
                                 "{'stack': ['randomised', 'rope']}",
                                 "{'stack': ['randomised', 'alibi', 'fire']}",
                                 "{'stack': [{'kind': 'randomised', 'per_sample': true}, 't5', 'rope']}"};

struct Inputs {
  Tensor q = normals("attend q", {2, 4, 7, 4}), k = normals("attend k", {2, 2, 7, 4}),
         v = normals("attend v", {2, 2, 7, 4});
};

}  // namespace

BOOST_AUTO_TEST_SUITE(attend)

BOOST_AUTO_TEST_CASE(a_gpu_must_not_fall_back_to_plain_attention_unasked) {
  const Tensor q = at::empty({1, 2, 3, 20}, at::kBFloat16);
  const auto refused = [&](std::int64_t backend, const Tensor& of) {
    try {
      require_fused_backend(backend, of, true);
    } catch (const support::Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const bool was = at::globalContext().deterministicAlgorithms();
  at::globalContext().setDeterministicAlgorithms(false, false);
  const auto plain = static_cast<std::int64_t>(at::SDPBackend::math);
  BOOST_TEST(refused(plain, q).find("no fused attention for heads of width 20 in BFloat16 with a mask") !=
             std::string::npos);
  BOOST_TEST(refused(plain, q).find("compute.kernels: plain") != std::string::npos);
  BOOST_TEST(refused(plain, q.to(at::kDouble)) == "");  // that has no other
  for (const auto backend :
       {at::SDPBackend::flash_attention, at::SDPBackend::efficient_attention, at::SDPBackend::cudnn_attention}) {
    BOOST_TEST(refused(static_cast<std::int64_t>(backend), q) == "");
  }
  at::globalContext().setDeterministicAlgorithms(true, false);
  BOOST_TEST(refused(static_cast<std::int64_t>(at::SDPBackend::flash_attention), q) == "");
  BOOST_TEST(
      refused(static_cast<std::int64_t>(at::SDPBackend::cudnn_attention), q).find("compute.deterministic is on") !=
      std::string::npos);
  at::globalContext().setDeterministicAlgorithms(was, false);
  kernels::use_fused(false);
  BOOST_TEST(refused(plain, q) == "");
  kernels::use_fused(true);
  BOOST_TEST(backend_name(plain) == "plain");
}

BOOST_DATA_TEST_CASE(every_route_gives_what_naive_loops_give, data::make(kFormulas), text) {
  const Json config = json(text);
  const Shape shape = small_shape(4, 2);
  const auto encoding = make_encoding(config, shape);
  stir(*encoding);
  const Formula formula = formula_of(config, *encoding, shape);
  const Inputs in;
  at::NoGradGuard no_grad;
  for (const bool documents : {false, true}) {
    Span span = Span::whole(2, 7);
    span.first_position = 5;
    std::vector<int> doc_start(7, 0);
    if (documents) {
      doc_start = {0, 0, 2, 2, 2, 2, 2};
      span.doc_start = at::tensor({0, 0, 2, 2, 2, 2, 2}, at::TensorOptions(at::kLong));
    }
    State state = begin_pass(*encoding, span);
    LayerContext context = layer_context(*encoding, state, 1);
    std::vector<std::vector<std::int64_t>> positions(2, std::vector<std::int64_t>(7));
    const Tensor ids = context.positions.expand({2, 7});
    for (int b = 0; b < 2; ++b) {
      for (int t = 0; t < 7; ++t) positions[b][t] = ids[b][t].item<std::int64_t>();
    }
    const Tensor expected = naive_attention(in.q, in.k, in.v, 0.5, formula, positions, doc_start);
    for (const Route route : {Route::kReference, Route::kAuto, Route::kChunked}) {
      const Tensor got = pe::encodings::attend(*encoding, context, {.q = in.q, .k = in.k, .v = in.v, .scale = 0.5},
                                               {.route = route, .chunk_rows = 3});
      BOOST_TEST(largest_difference(expected, got) <= 1e-12,
                 "route " << static_cast<int>(route) << ", documents " << documents);
    }
  }
}

// A budget of 4 GiB on a GPU of 80 GB, whatever part of it the driver keeps.
BOOST_AUTO_TEST_CASE(strips_of_a_gpu_are_taller_and_fit_its_memory) {
  PeCudaTable plugin{};
  plugin.device_properties = [](int device, PeCudaDevice* properties) {
    properties->memory_bytes = std::uint64_t{79} << (device == 0 ? 30 : 28);
    return 0;
  };
  kernels::set_plugin(&plugin);
  Span span = Span::whole(8, 4096);
  const Traits traits{.live_logits = 6};
  BOOST_TEST(rows_at_a_time(span, 8, traits, 0) == (std::int64_t{512} << 20) / (8 * 8 * 4096 * 4 * 6));
  span.device = at::Device(at::kCUDA, 0);
  BOOST_TEST(rows_at_a_time(span, 8, traits, 0) == (std::int64_t{4} << 30) / (8 * 8 * 4096 * 4 * 6));
  BOOST_TEST(rows_at_a_time(Span{.queries = 4096, .keys = 4096, .device = span.device}, 8, traits, 0) == 1024);
  BOOST_TEST(rows_at_a_time(span, 8, traits, 24) == 24);
  span.device = at::Device(at::kCUDA, 1);
  BOOST_TEST(rows_at_a_time(span, 8, traits, 0) == (std::int64_t{1} << 30) / (8 * 8 * 4096 * 4 * 6));
  kernels::set_plugin(nullptr);
}

// Strips of 8 rows: every key's gradient is a sum of up to 64 parts, which bf16 would round 64 times.
BOOST_AUTO_TEST_CASE(gradients_of_a_long_text_in_bf16_do_not_suffer_from_its_strips) {
  const Toy toy(small_shape(), 1, 512);
  const auto gradients = [&](at::ScalarType type, std::int64_t rows) {
    const auto encoding = make_encoding(json("'cope'"), small_shape());
    stir(*encoding);
    Toy own = toy.to(type);
    own.require_gradients();
    return evaluate(*encoding, own, Span::whole(1, 512), {.route = Route::kChunked, .chunk_rows = rows}).gradients;
  };
  const auto whole = gradients(at::kBFloat16, 512), strips = gradients(at::kBFloat16, 8);
  for (std::size_t input = 1; input < 4; ++input) {  // of q, k and v
    const double difference = relative_difference(strips[input].to(at::kDouble), whole[input].to(at::kDouble));
    BOOST_TEST(difference <= 2.0 / 256, "input " << input << ": " << difference);
  }
}

// Two passes over one encoding, as a validation within a step has them, each by the weights that it began with.
BOOST_AUTO_TEST_CASE(a_pass_of_fire_keeps_the_effective_length_that_it_began_with) {
  const auto fire = make_encoding(json("{'kind': 'fire', 'initial_length': 8}"), small_shape());
  State before = begin_pass(*fire, Span::whole(1, 12));
  BOOST_TEST((fire->traits(before.span).bias == BiasKind::kPairwise));
  for (const Parameter& parameter : fire->parameters()) {
    if (parameter.short_name == "length_multiplier") Tensor(parameter.value).detach().fill_(2);
  }
  BOOST_TEST((fire->traits(Span::whole(1, 12)).bias == BiasKind::kToeplitz));  // no pass has begun
  State after = begin_pass(*fire, Span::whole(1, 12));
  BOOST_TEST((fire->traits(after.span).bias == BiasKind::kToeplitz));
  BOOST_TEST((fire->traits(before.span).bias == BiasKind::kPairwise));
}

BOOST_AUTO_TEST_CASE(a_toeplitz_matrix_is_what_a_lookup_gives) {
  const Tensor table = normals("toeplitz", {3, 12}).requires_grad_(true);
  for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>{0, 1}, {0, 5}, {4, 9}, {11, 12}, {0, 12}}) {
    for (std::int64_t keys = 1; keys <= end; ++keys) {
      const Tensor matrix = toeplitz(table, begin, end, keys);
      const Tensor upstream = normals("toeplitz gradient", matrix.sizes());
      if (table.grad().defined()) table.mutable_grad() = Tensor();
      (matrix * upstream).sum().backward();
      for (std::int64_t h = 0; h < 3; ++h) {
        for (std::int64_t r = 0; r < end - begin; ++r) {
          for (std::int64_t j = 0; j < keys; ++j) {
            const double expected = j <= begin + r ? number(table[h][begin + r - j]) : 0;
            BOOST_REQUIRE(number(matrix[h][r][j]) == expected);
          }
        }
        for (std::int64_t d = 0; d < 12; ++d) {
          double sum = 0;
          for (std::int64_t r = 0; r < end - begin; ++r) {
            const std::int64_t j = begin + r - d;
            if (j >= 0 && j < keys) sum += number(upstream[h][r][j]);
          }
          BOOST_REQUIRE(std::abs(number(table.grad()[h][d]) - sum) <= 1e-12);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(routes_are_the_cheapest_exact_ones) {
  const auto route_in = [](at::ScalarType type, const char* config, bool gradients, const Span& span) {
    return route_name(*make_encoding(json(config), small_shape()), span, type, gradients);
  };
  const auto route = [&](const char* config, bool gradients, const Span& span = Span::whole(2, 16)) {
    return route_in(at::kDouble, config, gradients, span);
  };
  for (const bool gradients : {false, true}) {
    for (const char* bare : {"'none'", "'sinusoidal'", "'learned'", "'rope'", "'yarn'", "'ssmax'",
                             "{'stack': ['rope', 'ssmax']}", "{'stack': ['randomised', 'rope']}"}) {
      BOOST_TEST(route(bare, gradients) == "fused");
    }
    BOOST_TEST(route("'alibi'", gradients) == "fused, extra channels");
    BOOST_TEST(route("{'stack': ['rope', 'alibi']}", gradients) == "fused, extra channels");
    BOOST_TEST(route("{'stack': ['randomised', 'alibi']}", gradients) == "fused, additive mask");
    BOOST_TEST(route("'cope'", gradients) == "chunked");
    BOOST_TEST(route("{'stack': ['alibi', 'cope']}", gradients) == "chunked");
    for (const char* learned :
         {"'t5'", "'fire'", "{'kind': 'fire', 'initial_length': 3}", "{'stack': ['alibi', 't5']}"}) {
      BOOST_TEST(route(learned, gradients) == (gradients ? "fused, trained mask" : "fused, additive mask"));
    }
    for (const char* sink : {"'sink_logit'", "'sink_off_by_one'", "'sink_kv'", "{'stack': ['fox', 'sink_logit']}"}) {
      BOOST_TEST(route(sink, gradients) == "fused, sink");
    }
    for (const char* low_rank : {"'nape'", "'fox'", "'cable'", "'cable_nw'", "{'kind': 'grape_a', 'form': 'q'}",
                                 "'cope_guide'", "{'stack': ['rope', 'fox']}"}) {
      BOOST_TEST(route(low_rank, gradients) == "fused, extra channels");
    }
    BOOST_TEST(route("'sandwich'", gradients) == "fused, additive mask");
    // The kernels for float32 take any bias by distance, but only positions in the order of rows.
    for (const char* by_distance : {"'t5'", "'fire'", "'sandwich'", "'alibi'", "'nape'", "{'stack': ['alibi', 't5']}",
                                    "{'stack': ['rope', 'alibi']}", "{'stack': ['alibi', 'sink_logit']}"}) {
      BOOST_TEST(route_in(at::kFloat, by_distance, gradients, Span::whole(2, 16)) == "fused, distance table");
    }
    BOOST_TEST(route_in(at::kFloat, "'sink_logit'", gradients, Span::whole(2, 16)) == "fused, sink");
    BOOST_TEST(route_in(at::kFloat, "{'kind': 'fire', 'initial_length': 3}", gradients, Span::whole(2, 16)) !=
               "fused, distance table");
    BOOST_TEST(route_in(at::kFloat, "{'stack': ['randomised', 'alibi']}", gradients, Span::whole(2, 16)) ==
               "fused, additive mask");
    for (const char* rows : {"'path'", "'wall'", "'dape_v2'", "{'stack': ['alibi', 'selective']}", "'stickbreaking'",
                             "{'kind': 'sink_kv', 'value': 'learned'}"}) {
      BOOST_TEST(route(rows, gradients) == "chunked");
    }
    // Only our kernels return the share that the sink leaves, which its trained value needs.
    BOOST_TEST(route_in(at::kFloat, "{'kind': 'sink_kv', 'value': 'learned'}", gradients, Span::whole(2, 16)) ==
               "fused, sink");
    BOOST_TEST(route("'selective'", gradients) == (gradients ? "fused, trained mask" : "fused, additive mask"));
  }
  // A gradient that half precision would round away does not go through channels.
  BOOST_TEST(route_name(*make_encoding("cable", small_shape()), Span::whole(2, 16), at::kBFloat16, true) ==
             "fused, trained mask");
  BOOST_TEST(route_name(*make_encoding("cable", small_shape()), Span::whole(2, 16), at::kBFloat16, false) ==
             "fused, extra channels");
  Span packed = Span::whole(2, 16);
  packed.doc_start = at::zeros({16}, at::TensorOptions(at::kLong));
  BOOST_TEST(route("'rope'", true, packed) == "fused, additive mask");
  BOOST_TEST(route_in(at::kFloat, "'rope'", true, packed) == "fused");
  BOOST_TEST(route("'rope'", true, {.batch = 2, .queries = 1, .keys = 16}) == "fused");
  BOOST_TEST(route("'rope'", true, {.batch = 2, .queries = 3, .keys = 16}) == "fused, additive mask");
}

// compute.kernels: plain.
BOOST_AUTO_TEST_CASE(without_kernels_of_ours_other_routes_give_the_same) {
  const auto t5 = make_encoding("t5", small_shape());
  stir(*t5);
  const Span span = Span::whole(2, 40);
  const Toy toy(small_shape(), 2, 40, at::kFloat);
  const ToyGradients ours = evaluate(*t5, toy, span, {});
  const struct Plain {
    Plain() { kernels::use_fused(false); }
    ~Plain() { kernels::use_fused(true); }
  } plain_kernels;
  const ToyGradients plain = evaluate(*t5, toy, span, {});
  BOOST_TEST(route_name(*t5, span, at::kFloat, true) == "fused, trained mask");
  BOOST_TEST(route_name(*make_encoding("rope", small_shape()), span, at::kFloat, true) == "fused");
  BOOST_TEST(largest_difference(ours.out, plain.out) <= 1e-5);
  for (std::size_t i = 0; i < ours.gradients.size(); ++i) {
    BOOST_TEST(largest_difference(ours.gradients[i], plain.gradients[i]) <=
               2e-5 * (1 + value(plain.gradients[i].abs().max())));
  }
}

BOOST_AUTO_TEST_CASE(a_route_that_cannot_carry_the_encoding_is_refused) {
  const auto cope = make_encoding("cope", small_shape(4, 2));
  const Inputs in;
  State state = begin_pass(*cope, Span::whole(2, 7));
  LayerContext context = layer_context(*cope, state, 0);
  BOOST_CHECK_THROW(pe::encodings::attend(*cope, context, {.q = in.q, .k = in.k, .v = in.v}, {.route = Route::kFused}),
                    support::ConfigError);
}

BOOST_AUTO_TEST_CASE(shapes_that_disagree_with_the_pass_are_named) {
  const auto none = make_encoding("none", small_shape(4, 2));
  const Inputs in;
  const auto message = [&](Heads heads, const Span& span) -> std::string {
    try {
      State state = begin_pass(*none, span);
      LayerContext context = layer_context(*none, state, 0);
      pe::encodings::attend(*none, context, std::move(heads));
    } catch (const ShapeError& error) {
      return error.what();
    }
    return "accepted";
  };
  BOOST_TEST(message({.q = in.q, .k = in.k, .v = in.v}, Span::whole(2, 7)) == "accepted");
  const std::string long_pass = message({.q = in.q, .k = in.k, .v = in.v}, Span::whole(2, 8));
  BOOST_TEST(long_pass.find("8 queries") != std::string::npos);
  BOOST_TEST(long_pass.find("[2, 4, 7, 4]") != std::string::npos);
  const std::string heads = message({.q = in.q, .k = in.q, .v = in.q}, Span::whole(2, 7));
  BOOST_TEST(heads.find("2 key/value heads, found 4 and 4") != std::string::npos);
  BOOST_CHECK_THROW(begin_pass(*none, {.batch = 1, .queries = 5, .keys = 4}), ShapeError);
}

BOOST_AUTO_TEST_CASE(a_trace_holds_logits_and_weights) {
  const auto encoding = make_encoding(json("{'stack': ['rope', 'alibi']}"), small_shape(4, 2));
  const Inputs in;
  State state = begin_pass(*encoding, Span::whole(2, 7));
  LayerContext context = layer_context(*encoding, state, 0);
  AttentionMatrices matrices;
  pe::encodings::attend(*encoding, context, {.q = in.q, .k = in.k, .v = in.v, .scale = 0.5}, {.matrices = &matrices});
  BOOST_TEST((matrices.logits.sizes() == at::IntArrayRef{2, 4, 7, 7}));
  BOOST_TEST(largest_difference(matrices.weights.sum(-1), at::ones({2, 4, 7}, at::kDouble)) <= 1e-14);
  for (int i = 0; i < 7; ++i) {
    for (int j = i + 1; j < 7; ++j) {
      BOOST_TEST(std::isinf(number(matrices.logits[1][3][i][j])));
      BOOST_TEST(number(matrices.weights[1][3][i][j]) == 0);
    }
  }
}

// A bias of rank one in bfloat16 needs its factor in pieces: one piece is off by whole units.
BOOST_AUTO_TEST_CASE(channels_in_bfloat16_hold_a_far_distance_exactly) {
  for (const std::int64_t groups : {2, 1}) {
    Shape shape = small_shape(2, groups);
    shape.dtype = at::kFloat;
    const auto alibi = make_encoding(json("{'kind': 'alibi', 'slopes': [0.3, 0.00390625]}"), shape);
    const std::int64_t length = 700;
    // Without q·k the weights depend on the bias alone, and values show which key was seen.
    const Tensor q = at::zeros({1, 2, length, 4}, at::kBFloat16), k = at::zeros({1, groups, length, 4}, at::kBFloat16);
    const Tensor v = at::arange(length, at::kFloat)
                         .remainder(7)
                         .view({1, 1, length, 1})
                         .expand({1, groups, length, 4})
                         .to(at::kBFloat16);
    State state = begin_pass(*alibi, Span::whole(1, length));
    LayerContext context = layer_context(*alibi, state, 0);
    const Tensor fast = pe::encodings::attend(*alibi, context, {.q = q, .k = k, .v = v});
    const Tensor expected =
        pe::encodings::attend(*alibi, context, {.q = q.to(at::kFloat), .k = k.to(at::kFloat), .v = v.to(at::kFloat)},
                              {.route = Route::kReference});
    BOOST_TEST(relative_difference(fast, expected) <= 4e-3);
  }
}

BOOST_AUTO_TEST_SUITE_END()
