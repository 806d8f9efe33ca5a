// The same encodings on a GPU; skipped where there is none.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "fixture.h"
#include "gpu/has_gpu.h"

namespace data = boost::unit_test::data;
using namespace pe;
using namespace pe::encodings;
using namespace pe::test;

namespace {

struct BothDevices {
  std::unique_ptr<PositionalEncoding> cpu, gpu;
  Toy on_cpu, on_gpu;
  Span cpu_span, gpu_span;
};

/// bfloat16 inputs, wide enough for the kernels' needs, and the same numbers in float32 on the CPU.
BothDevices on_both(const Json& config, std::int64_t groups) {
  Shape shape{.width = 64,
              .layers = 2,
              .query_heads = 4,
              .key_value_heads = groups,
              .head_width = 32,
              .train_length = 64,
              .seed = 5};
  Toy toy(shape, 2, 64);
  for (Tensor Toy::*member : {&Toy::wq, &Toy::wk, &Toy::wv}) (toy.*member).zero_();
  Shape gpu = shape;
  gpu.device = at::Device(at::kCUDA, 0);
  const Toy rounded = toy.to(at::kBFloat16);
  BothDevices pair{make_encoding(config, shape), make_encoding(config, gpu), rounded.to(at::kFloat),
                   rounded.on(gpu.device),       Span::whole(2, 64),         Span::whole(2, 64)};
  pair.cpu_span.pe_len = pair.gpu_span.pe_len = 64;
  pair.gpu_span.device = gpu.device;
  for (PositionalEncoding* encoding : {pair.cpu.get(), pair.gpu.get()}) {
    stir(*encoding);
    encoding->after_step();
  }
  return pair;
}

std::vector<Subject> some() {
  std::vector<Subject> all = subjects();
  const auto without = [&](const char* word) {
    std::erase_if(all, [&](const Subject& s) { return s.config.dump().find(word) != std::string::npos; });
  };
  without("slopes");
  without("silu");  // clex's frequencies overflow at this width and this many times the training length
  for (const Json& numbers : {Json{{"bias", "-1"}}, Json{{"frequencies", "0.1"}}}) {  // which begin on the CPU
    Json config = numbers;
    config["kind"] = "formula";
    all.push_back({config.dump(), config});
  }
  return all;
}

/// Errors of the output, then of each gradient, relative to the expected one; a parameter's also relative to a tenth of
/// the largest parameter gradient and to `floor`.
std::vector<double> errors(const ToyGradients& got, const ToyGradients& expected, double floor) {
  constexpr std::size_t kInputs = 4;  // x, q, k, v
  double largest = 0;
  for (std::size_t i = kInputs; i < expected.gradients.size(); ++i)
    largest = std::max(largest, value(expected.gradients[i].norm()));
  std::vector<double> all{relative_difference(got.out, expected.out)};
  for (std::size_t i = 0; i < got.gradients.size(); ++i) {
    const double own = value(expected.gradients[i].norm()) + 1e-3, more = i < kInputs ? 0 : 0.1 * largest + floor;
    all.push_back(relative_difference(got.gradients[i], expected.gradients[i]) * own / (own + more));
  }
  return all;
}

/// Allowed error of a parameter in bf16, as a share, and the reference for one whose gradient is 0 by symmetry.
/// Attention reads its output rounded to bf16, which over all rows adds up to some 0.1, however small the rest.
constexpr double kRounded = 0.05, kFloor = 4;

}  // namespace

BOOST_AUTO_TEST_SUITE(encoding_gpu, *boost::unit_test::precondition(HasGpu{}))

// In fp32, where only the order of sums differs; then in bf16, where no route may lose more than the definition does.
BOOST_DATA_TEST_CASE(all_routes_agree_with_the_reference_on_the_cpu, data::make(some()) * data::make({2, 4}), subject,
                     groups) {
  if (groups < 4 && exempt(subject, "shared keys")) return;
  const BothDevices pair = on_both(subject.config, groups);
  const ToyGradients expected = evaluate(*pair.cpu, pair.on_cpu, pair.cpu_span, {.route = Route::kReference});
  BOOST_TEST_REQUIRE(all_finite(expected.out));
  const auto run = [&](at::ScalarType type, Route route) {
    return errors(evaluate(*pair.gpu, pair.on_gpu.to(type), pair.gpu_span, {.route = route, .chunk_rows = 24}),
                  expected, type == at::kFloat ? 0 : kFloor);
  };
  for (const Route route : {Route::kAuto, Route::kChunked, Route::kReference}) {
    const std::vector<double> found = run(at::kFloat, route);
    for (std::size_t i = 0; i < found.size(); ++i)
      BOOST_TEST(found[i] <= 2e-3, "fp32, route " << static_cast<int>(route) << ", " << i << ": " << found[i]);
  }
  const auto allowed = [&](std::size_t i) {
    if (i == 0) return 2e-2;
    return pair.cpu->facts().content_dependent ? 0.15 : i <= 4 ? 2e-2 : kRounded;
  };
  const std::vector<double> definition = run(at::kBFloat16, Route::kReference);
  for (const Route route : {Route::kAuto, Route::kChunked}) {
    const std::vector<double> found = run(at::kBFloat16, route);
    for (std::size_t i = 0; i < found.size(); ++i) {
      BOOST_TEST(found[i] <= std::max(allowed(i), 1.5 * definition[i]),
                 "bf16, route " << static_cast<int>(route) << ", " << i << ": " << found[i] << ", the definition "
                                << definition[i]);
    }
  }
}

// At the length and width of real models, where attention has many tiles.
BOOST_DATA_TEST_CASE(attention_at_real_lengths_agrees_with_float64,
                     data::make({"none", "rope", "alibi", "t5", "kerple_log"}) * data::make({64, 128}), name, width) {
  const Shape shape{.width = 8 * width,
                    .layers = 1,
                    .query_heads = 8,
                    .key_value_heads = 2,
                    .head_width = width,
                    .train_length = 1024,
                    .seed = 5,
                    .device = at::Device(at::kCUDA, 0)};
  Toy toy(shape, 2, 1024);
  for (Tensor Toy::*member : {&Toy::wq, &Toy::wk, &Toy::wv}) (toy.*member).zero_();
  const Toy rounded = toy.to(at::kBFloat16);
  Span span = Span::whole(2, 1024);
  span.pe_len = 1024;
  span.device = shape.device;
  const auto encoding = make_encoding(name, shape);
  stir(*encoding);
  encoding->after_step();  // into the range that training keeps to
  const ToyGradients expected =
      evaluate(*encoding, rounded.to(at::kDouble).on(shape.device), span, {.route = Route::kReference});
  const ToyGradients got = evaluate(*encoding, rounded.on(shape.device), span, {.route = Route::kAuto});
  BOOST_TEST(relative_difference(got.out, expected.out) <= 2e-2);
  for (std::size_t i = 0; i < got.gradients.size(); ++i)
    BOOST_TEST(relative_difference(got.gradients[i], expected.gradients[i]) <= 3e-2, "gradient " << i);
  const ToyGradients again = evaluate(*encoding, rounded.on(shape.device), span, {.route = Route::kAuto});
  BOOST_TEST(again.out.equal(got.out));
  for (std::size_t i = 0; i < got.gradients.size(); ++i)
    BOOST_TEST(again.gradients[i].equal(got.gradients[i]), "gradient " << i);
}

// A mask that needs a gradient while q, k and v are frozen would have the fused kernel write where it must not.
BOOST_DATA_TEST_CASE(a_frozen_model_trains_its_bias, data::make({"t5", "fire"}), name) {
  const BothDevices pair = on_both(name, 4);
  const auto gradients = [](PositionalEncoding& encoding, const Toy& toy, const Span& span, Route route) {
    const Tensor out = toy.run(encoding, span, {.route = route});
    (out.to(at::kFloat) * normals("direction", out.sizes()).to(at::kBFloat16).to(out.device(), at::kFloat))
        .sum()
        .backward();
    ToyGradients found{.out = out, .gradients = std::vector<Tensor>(4, at::zeros({1}))};  // inputs are frozen
    for (const Parameter& p : encoding.parameters()) {
      found.gradients.push_back(p.value.grad().defined() ? p.value.grad() : at::zeros_like(p.value));
    }
    return found;
  };
  const ToyGradients expected = gradients(*pair.cpu, pair.on_cpu, pair.cpu_span, Route::kReference),
                     got = gradients(*pair.gpu, pair.on_gpu, pair.gpu_span, Route::kAuto);
  for (const double error : errors(got, expected, kFloor)) BOOST_TEST(error <= kRounded);
}

BOOST_AUTO_TEST_SUITE_END()
