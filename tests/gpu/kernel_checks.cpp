#include "gpu/kernel_checks.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "cuda/plugin.h"
#include "encodings/attention/attend_plain.h"
#include "encodings/plain_definition.h"
#include "encodings/rotary/rotary.h"
#include "kernels/dispatch.h"
#include "kernels/ops.h"
#include "kernels/product.h"
#include "model/functions.h"
#include "model/language_model.h"
#include "support/error.h"
#include "support/random.h"
#include "support/text.h"
#include "training/step.h"

namespace pe::test {
namespace {

using at::Tensor;
using kernels::kPlainOperations;
using kernels::kPluginOperations;

/// Of values that bf16 holds, so that only arithmetic differs.
Tensor values(std::uint64_t key, std::vector<std::int64_t> shape, at::Device device, double scale = 1) {
  Tensor made = at::empty(shape, at::kDouble);
  support::philox_normal(key, made.data_ptr<double>(), static_cast<std::size_t>(made.numel()));
  return (made * scale).to(at::kBFloat16).to(at::kDouble).to(device);
}

struct Found {
  std::string name;
  Tensor value;
};

/// In fp32 a kernel's own rounding is seen, in bf16 the rounding of its output.
constexpr struct {
  at::ScalarType type;
  double allowed;
} kTypes[] = {{at::kFloat, 2e-5}, {at::kBFloat16, 1e-2}};

/// @param run the result of a table of operations from inputs in a type
template <typename Run>
void compare(const std::string& what, const Run& run) {
  const std::vector<Found> expected = run(kPlainOperations, at::kDouble);
  for (const auto& [type, allowed] : kTypes) {
    const std::vector<Found> found = run(kPluginOperations, type), again = run(kPluginOperations, type);
    BOOST_REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      BOOST_TEST_CONTEXT(what << ": " << found[i].name << " in " << type) {
        const Tensor there = found[i].value.to(at::kDouble), reference = expected[i].value.to(at::kDouble);
        BOOST_REQUIRE((there.sizes() == reference.sizes()));
        const double scale = std::max(1.0, reference.abs().max().item<double>());
        BOOST_TEST((there - reference).abs().max().item<double>() <= allowed * scale);
        BOOST_TEST(found[i].value.equal(again[i].value));
      }
    }
  }
}

/// Weights of norms, and sums into gradients, are never narrower than fp32.
at::ScalarType wide(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

}  // namespace

void check_norms(at::Device device, const KernelShapes& shapes) {
  for (const std::int64_t width : {shapes.width, shapes.width + 1}) {  // with room for packs, and without
    const std::vector<std::int64_t> sizes{shapes.batch, shapes.length, width};
    const Tensor x = values(1, sizes, device), delta = values(2, sizes, device), dy = values(3, sizes, device),
                 w = values(4, {width}, device);
    for (const bool with_delta : {false, true}) {
      compare(with_delta ? "norm of a sum" : "norm", [&](const kernels::Operations& by, at::ScalarType type) {
        const Tensor weight = w.to(wide(type)), gradient = at::zeros_like(weight);
        const kernels::NormResult out = by.rms_norm(x.to(type), weight, 1e-6, with_delta ? delta.to(type) : Tensor());
        const Tensor dx = by.rms_norm_backward(dy.to(type), out.input, weight, out.rstd, delta.to(type), gradient);
        // A sum over thousands of rows is as exact as its terms.
        return std::vector<Found>{{"y", out.y},
                                  {"rstd", out.rstd},
                                  {"dx", dx},
                                  {"dweight", gradient / static_cast<double>(shapes.batch * shapes.length)}};
      });
    }
  }
}

void check_heads(at::Device device, const KernelShapes& shapes) {
  struct Case {
    std::int64_t width, pairs;
    bool half, norm, by_sequence;
  };
  const std::int64_t d = shapes.head_width;
  for (const Case& of : {Case{d, d / 2, true, true, false},
                         {2 * d, d, true, true, false},
                         {d, d / 4, false, true, true},
                         {d, d / 2, true, false, false},
                         {d, 0, true, true, false},
                         {d + 2, 5, true, true, false}}) {
    const std::int64_t rows = shapes.batch * shapes.length, columns = (shapes.heads + 2 * shapes.kv_heads) * of.width;
    const Tensor packed = values(1, {rows, columns}, device), wq = values(2, {of.width}, device),
                 wk = values(3, {of.width}, device);
    const auto like = [&](std::uint64_t key,
                          std::int64_t heads) {  // as the output's product leaves gradients: by token
      return values(key, {shapes.batch, shapes.length, heads, of.width}, device).transpose(1, 2);
    };
    const Tensor dq = like(4, shapes.heads), dk = like(5, shapes.kv_heads), dv = like(6, shapes.kv_heads);
    std::vector<std::int64_t> sizes{shapes.length, of.pairs};
    if (of.by_sequence) sizes.insert(sizes.begin(), shapes.batch);
    const Tensor angles = values(7, sizes, device), cos = angles.cos().to(at::kFloat),
                 sin = angles.sin().to(at::kFloat);
    const auto layout = of.half ? encodings::PairLayout::kHalf : encodings::PairLayout::kInterleaved;
    compare("heads", [&](const kernels::Operations& by, at::ScalarType type) {
      const Tensor in = packed.to(type);
      const kernels::PackedHeads q{in, 0, shapes.batch, shapes.heads, of.width},
          k{in, shapes.heads * of.width, shapes.batch, shapes.kv_heads, of.width},
          v{in, (shapes.heads + shapes.kv_heads) * of.width, shapes.batch, shapes.kv_heads, of.width};
      const Tensor nq = of.norm ? wq.to(wide(type)) : Tensor(), nk = of.norm ? wk.to(wide(type)) : Tensor();
      const Tensor gq = of.norm ? at::zeros_like(nq) : Tensor(), gk = of.norm ? at::zeros_like(nk) : Tensor();
      const bool rotates = of.pairs > 0, here = by.rotates_heads;  // the definition rotates in a second step
      const kernels::Rotation rotation = rotates && here ? kernels::Rotation{cos, sin, of.half} : kernels::Rotation{};
      const Tensor c = cos.to(at::kDouble), s = sin.to(at::kDouble);
      const auto turned = [&](const Tensor& heads, double sign) {
        return rotates && !here ? encodings::rotate(heads, c, s * sign, layout) : heads;
      };
      const auto out = by.split_heads({q, nq}, {k, nk}, 1e-6, rotation);
      const Tensor dpacked = at::zeros_like(in);
      by.split_heads_backward({q, turned(dq.to(type), -1), nq, out[0].rstd, gq},
                              {k, turned(dk.to(type), -1), nk, out[1].rstd, gk}, {v, dv.to(type), {}, {}, {}}, rotation,
                              dpacked);
      std::vector<Found> found{{"q", turned(out[0].y, 1)}, {"k", turned(out[1].y, 1)}, {"dpacked", dpacked}};
      if (of.norm)
        found.insert(found.end(),
                     {{"dquery_norm", gq / static_cast<double>(rows)}, {"dkey_norm", gk / static_cast<double>(rows)}});
      return found;
    });
  }
}

void check_rotations(at::Device device, const KernelShapes& shapes) {
  const std::int64_t d = shapes.head_width, pairs = d / 2;
  const Tensor x = values(1, {shapes.batch, shapes.length, shapes.heads, d}, device).transpose(1, 2);
  for (const auto& sizes : std::vector<std::vector<std::int64_t>>{
           {shapes.length, pairs}, {shapes.batch, shapes.length, pairs}, {1, shapes.kv_heads, shapes.length, pairs}}) {
    const Tensor cos = values(2, sizes, device).to(at::kFloat), sin = values(3, sizes, device).to(at::kFloat);
    compare("rotation", [&](const kernels::Operations& by, at::ScalarType type) {
      const auto once = [&](double sign) {
        if (by.rotate != nullptr) return by.rotate(x.to(type), {cos, sin, true}, sign);
        return encodings::rotate(x.to(type), cos.to(at::kDouble), sin.to(at::kDouble) * sign,
                                 encodings::PairLayout::kHalf);
      };
      return std::vector<Found>{{"forth", once(1)}, {"back", once(-1)}};
    });
  }
}

void check_swiglu(at::Device device, const KernelShapes& shapes) {
  for (const std::int64_t inner : {shapes.inner, shapes.inner + 3}) {
    const std::int64_t rows = shapes.batch * shapes.length;
    const Tensor gate_up = values(1, {rows, 2 * inner}, device), da = values(2, {rows, inner}, device);
    compare("swiglu", [&](const kernels::Operations& by, at::ScalarType type) {
      return std::vector<Found>{{"a", by.swiglu(gate_up.to(type))},
                                {"dgate_up", by.swiglu_backward(da.to(type), gate_up.to(type))}};
    });
  }
}

void check_cross_entropy(at::Device device, const KernelShapes& shapes) {
  const std::int64_t rows = shapes.length / 4;
  for (const std::int64_t vocabulary : {shapes.vocabulary, shapes.odd_vocabulary, 2 * shapes.vocabulary}) {
    const Tensor logits = values(1, {rows, vocabulary}, device, 3);
    std::vector<std::int64_t> chosen(static_cast<std::size_t>(rows));
    for (std::int64_t r = 0; r < rows; ++r)
      chosen[static_cast<std::size_t>(r)] = r % 7 == 3 ? -1 : r * 104729 % vocabulary;
    const Tensor targets = at::tensor(chosen).to(device);
    for (const kernels::LogitShape& shape : {kernels::LogitShape{}, {15, 1e-2}}) {
      compare("cross-entropy over " + std::to_string(vocabulary),
              [&](const kernels::Operations& by, at::ScalarType type) {
                Tensor in = logits.to(type).clone(), losses = at::empty({rows}, in.options().dtype(wide(type)));
                by.cross_entropy(in, targets, losses, true, shape);
                return std::vector<Found>{{"losses", losses}, {"gradient", in}};
              });
    }
  }
}

namespace {

/// Milliseconds of a call, the best of a few series; `wait` reads the output of a call.
template <typename Call, typename Wait>
double milliseconds(const Call& call, const Wait& wait) {
  double best = std::numeric_limits<double>::infinity();
  for (int series = 0; series < 4; ++series) {
    constexpr int kCalls = 3;
    wait();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) call();
    wait();
    best = std::min(
        best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count() / kCalls);
  }
  return best;
}

}  // namespace

void check_loss_routes(at::Device device, const KernelShapes& shapes) {
  const std::int64_t rows = shapes.batch * shapes.length, vocabulary = shapes.odd_vocabulary + 7;
  const auto in_bf16 = [&](std::uint64_t key, const std::vector<std::int64_t>& sizes, double factor) {
    return (values(key, sizes, device) * factor).to(at::kBFloat16);
  };
  const Tensor targets =
      at::arange(rows, at::TensorOptions(at::kLong).device(device)).mul_(104729).remainder_(vocabulary);
  const model::Weight head{in_bf16(2, {vocabulary, shapes.width}, 0.1),
                           at::zeros({vocabulary, shapes.width}, at::TensorOptions(at::kFloat).device(device))};
  const Tensor hidden = in_bf16(1, {rows, shapes.width}, 1).requires_grad_(true);
  const double scale = 1.0 / static_cast<double>(rows);
  std::map<bool, std::vector<Tensor>> found;
  for (const bool before : {false, true}) {
    const auto once = [&] {
      const Tensor loss = before ? model::training_loss(hidden, targets, head, {0, 0, scale})
                                 : model::linear_cross_entropy(hidden, targets, head) * scale;
      loss.backward();
      return loss.detach();
    };
    const Tensor loss = once();
    found[before] = {loss, hidden.grad().clone(), head.gradient.clone()};
    BOOST_TEST_MESSAGE("loss and gradients of "
                       << rows << " rows by " << vocabulary << ", factor " << (before ? "before: " : "afterwards: ")
                       << milliseconds(once, [&] { head.gradient[0][0].item<float>(); }) << " ms");
    head.gradient.zero_();
    hidden.mutable_grad().reset();
  }
  for (std::size_t i = 0; i < 3; ++i) {
    const Tensor expected = found[false][i].to(at::kDouble), difference = found[true][i].to(at::kDouble) - expected;
    BOOST_TEST(difference.abs().max().item<double>() <= 1e-2 * expected.abs().max().item<double>());
  }
  const PeCudaTable* plugin = kernels::plugin_for(hidden);
  BOOST_TEST_REQUIRE((plugin != nullptr));
  std::map<int, std::pair<Tensor, Tensor>> by;
  const std::int64_t wide = device.is_cuda() ? vocabulary : 40000;  // more than 512 threads hold in half a form
  const std::int64_t least = device.is_cuda() ? rows : 3;
  const Tensor logits = in_bf16(3, {least, wide}, 3), few = targets.narrow(0, 0, least).remainder(wide);
  for (const int threads : {512, 1024}) {
    const PeCudaLogits shape{.scale = 0.5, .threads = threads};
    Tensor in = logits.clone(), losses = at::empty({least}, at::TensorOptions(at::kFloat).device(device));
    const auto call = [&] {
      BOOST_TEST_REQUIRE(plugin->cross_entropy(in.data_ptr(), true, few.data_ptr<std::int64_t>(),
                                               losses.data_ptr<float>(), least, wide, true, &shape,
                                               kernels::stream_of(plugin, in)) == 0);
    };
    call();
    by[threads] = {losses.clone(), in.clone()};
    const double took = milliseconds(call, [&] { losses[0].item<float>(); });  // a check inside a message would end it
    BOOST_TEST_MESSAGE("cross-entropy by blocks of " << threads << " threads: " << took << " ms");
  }
  BOOST_TEST((by[512].first - by[1024].first).abs().max().item<float>() <= 2e-5F);
  BOOST_TEST((by[512].second - by[1024].second).to(at::kFloat).abs().max().item<float>() <= 2e-3F);
}

namespace {

/// The operands of a product, as a step of training stores them.
struct Operands {
  Tensor a, b, c;
  PeCudaProduct of;

  Operands(const PeCudaProduct& product, at::Device device) : of(product) {
    const auto made = [&](at::ScalarType type, bool turned, std::int64_t rows, std::int64_t columns,
                          std::int64_t step) {
      if (turned) std::swap(rows, columns);
      const auto count = [&](std::int64_t n) {
        return at::arange(1, n + 1, at::TensorOptions(at::kFloat).device(device));
      };
      const Tensor angles = (count(rows) * 0.7).view({rows, 1}) * count(step);
      const Tensor stored = angles.sin().to(type).narrow(1, 0, columns);
      return turned ? stored.t() : stored;
    };
    a = made(at::kBFloat16, of.a_turned, of.rows, of.depth, of.a_step);
    b = made(at::kBFloat16, of.b_turned, of.depth, of.columns, of.b_step);
    c = made(of.wide ? at::kFloat : at::kBFloat16, false, of.rows, of.columns, of.d_step);
  }

  /// By LibTorch. @return the result
  Tensor plain(Tensor& to) const {
    if (of.wide && of.adds) {
      kernels::add_product(to, a.t(), b);
      return to;
    }
    if (of.adds) return kernels::sum_with_product(c, a, b);
    if (of.wide) return kernels::wide_product(a, b);
    kernels::product_into(to, a, b);
    return to;
  }

  /// Twice, so that bytes are compared, and against float64 for the first rows.
  void check(const PeCudaTable* plugin, const PeCudaAlgorithm& by) const {
    const std::int64_t rows = std::min<std::int64_t>(of.rows, 256);
    Tensor expected = a.narrow(0, 0, rows).to(at::kDouble).matmul(b.to(at::kDouble));
    if (of.adds) expected = expected + c.narrow(0, 0, rows);
    const Tensor found = c.clone(), again = c.clone();
    for (const Tensor& to : {found, again}) run(plugin, by, to);
    const double scale = std::max(1.0, expected.abs().max().item<double>());
    const double off = (found.narrow(0, 0, rows).to(at::kDouble) - expected).abs().max().item<double>();
    BOOST_TEST(off <= (of.wide ? 1e-4 : 1e-2) * scale);
    BOOST_TEST(found.equal(again));
  }

  /// @param to  holds c where c is read from it
  void run(const PeCudaTable* plugin, const PeCudaAlgorithm& by, const Tensor& to) const {
    const Tensor workspace = at::empty({static_cast<std::int64_t>(by.workspace)}, a.options().dtype(at::kByte));
    BOOST_TEST_REQUIRE(plugin->product(&of, &by, a.const_data_ptr(), b.const_data_ptr(),
                                       of.wide ? to.const_data_ptr() : c.const_data_ptr(), to.mutable_data_ptr(),
                                       workspace.mutable_data_ptr(), kernels::stream_of(plugin, a)) == 0);
  }
};

/// The products of a training step that the plug-in could compute.
std::vector<PeCudaProduct> products_of_a_step(at::Device device, const KernelShapes& shapes) {
  model::ModelConfig config;
  config.width = shapes.width;
  config.layers = 1;
  config.heads = shapes.heads;
  config.feed_forward = shapes.inner;
  config.length = shapes.length;
  config.encoding.json = "none";
  const auto model = model::LanguageModel::make(config, shapes.vocabulary, 42, device, at::kBFloat16);
  const Tensor ids = at::arange(shapes.batch * shapes.length, at::TensorOptions(at::kLong).device(device))
                         .mul_(104729)
                         .remainder_(shapes.vocabulary)
                         .view({shapes.batch, shapes.length});
  std::vector<PeCudaProduct> seen, different;
  kernels::watch_products(&seen);
  model::ForwardOptions options;
  options.training = true;
  training::accumulate(model, ids, ids.reshape({-1}), options, 1.0 / static_cast<double>(ids.numel()));
  kernels::watch_products(nullptr);
  for (const PeCudaProduct& of : seen)
    if (std::find(different.begin(), different.end(), of) == different.end()) different.push_back(of);
  return different;
}

}  // namespace

void check_product_routes(at::Device device, const KernelShapes& shapes) {
  const PeCudaTable* plugin = kernels::plugin_for(device, at::kBFloat16);
  BOOST_TEST_REQUIRE((plugin != nullptr));
  if (plugin->product == nullptr) {
    BOOST_TEST_MESSAGE("this build found no cublasLt.h: products are LibTorch's");
    return;
  }
  const std::vector<PeCudaProduct> products = products_of_a_step(device, shapes);
  BOOST_TEST(products.size() >= 12U);  // four matrices of a layer: the product, and both of its gradients
  for (const PeCudaProduct& of : products) {
    const Operands operands(of, device);
    Tensor to = operands.c.clone();
    const auto wait = [&] { to[0][0].item<float>(); };
    std::vector<PeCudaProduct> unused;
    kernels::watch_products(&unused);  // LibTorch's, also where the build holds an algorithm
    const double plain = milliseconds([&] { operands.plain(to); }, wait);
    kernels::watch_products(nullptr);
    PeCudaAlgorithm found[8];
    int count = 0;
    BOOST_TEST_REQUIRE(plugin->product_algorithms(&of, 8, found, &count) == 0);
    double best = std::numeric_limits<double>::infinity();
    int fastest = 0;
    for (int i = 0; i < count; ++i) {
      operands.check(plugin, found[i]);
      const double took = milliseconds([&] { operands.run(plugin, found[i], to); }, wait);
      if (took < best) {
        best = took;
        fastest = i;
      }
    }
    BOOST_TEST_MESSAGE("product [" << of.rows << ", " << of.depth << "] · [" << of.depth << ", " << of.columns << "]"
                                   << (of.adds ? " + c" : "") << (of.wide ? " in fp32" : "") << ": LibTorch " << plain
                                   << " ms, number " << fastest << " of " << count << " " << best << " ms");
    if (best >= 0.98 * plain) continue;  // a difference that is seen again
    char line[512];
    plugin->write_product_record(&of, &found[fastest], line, sizeof line);
    BOOST_TEST_MESSAGE(line);
  }
}

namespace {

/// Plain attention as a layer stores it: heads of q and k by tokens, v in the packed projection.
struct AttentionInputs {
  encodings::PlainHeads heads;
  Tensor above;

  AttentionInputs(at::Device device, const KernelShapes& shapes) {
    const auto made = [&](std::uint64_t key, std::int64_t count) {
      const Tensor tokens = values(key, {shapes.batch, shapes.length, count, shapes.head_width}, device);
      return tokens.to(at::kBFloat16).transpose(1, 2);
    };
    const Tensor packed = made(3, shapes.heads + 2 * shapes.kv_heads);
    heads = {made(1, shapes.heads).requires_grad_(true), made(2, shapes.kv_heads).requires_grad_(true),
             packed.narrow(1, shapes.heads, shapes.kv_heads).requires_grad_(true),
             1 / std::sqrt(static_cast<double>(shapes.head_width))};
    above = made(4, shapes.heads);
  }

  /// Output and gradients.
  std::vector<Tensor> run(const PeCudaAttentionChoice& by) const {
    const Tensor out = encodings::attend_plain(heads, by);
    std::vector<Tensor> found = torch::autograd::grad({out}, {heads.q, heads.k, heads.v}, {above});
    found.insert(found.begin(), out.detach());
    return found;
  }

  /// Twice, so that bytes are compared, and against float64. @return milliseconds
  double check(const PeCudaAttentionChoice& by, const std::vector<Tensor>& expected) const {
    const std::vector<Tensor> found = run(by), again = run(by);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double scale = std::max(1.0, expected[i].abs().max().item<double>());
      const double off = (found[i].narrow(0, 0, 1).to(at::kDouble) - expected[i]).abs().max().item<double>();
      BOOST_TEST(off <= 1e-2 * scale);
      BOOST_TEST(found[i].equal(again[i]));
    }
    Tensor last = found[1];
    return milliseconds([&] { last = run(by)[1]; }, [&] { last[0][0][0][0].item<float>(); });
  }

  /// Of the first sequence.
  std::vector<Tensor> expected() const {
    const auto first = [](const Tensor& t) { return t.narrow(0, 0, 1); };
    return plain_by_definition({first(heads.q), first(heads.k), first(heads.v), heads.scale}, first(above));
  }
};

}  // namespace

void check_attention_routes(at::Device device, const KernelShapes& shapes) {
  const PeCudaTable* plugin = kernels::plugin_for(device, at::kBFloat16);
  BOOST_TEST_REQUIRE((plugin != nullptr));
  if (plugin->cudnn_attention == nullptr) {
    BOOST_TEST_MESSAGE("this build found no headers of cuDNN and its frontend: plain attention is LibTorch's");
    return;
  }
  BOOST_TEST_MESSAGE("attention with gradients of " << shapes.batch << " sequences of " << shapes.length << ", "
                                                    << shapes.heads << " heads, " << shapes.kv_heads
                                                    << " of keys, width " << shapes.head_width);
  const AttentionInputs in(device, shapes);
  const PeCudaAttention of = encodings::plain_shape(in.heads);
  const std::vector<Tensor> expected = in.expected();
  PeCudaAttentionChoice best;
  const double plain = in.check(best, expected);
  double least = plain;
  BOOST_TEST_MESSAGE("LibTorch's: " << plain << " ms");
  const auto measure = [&](const PeCudaAttentionChoice& by, const std::string& name) {
    double took = std::numeric_limits<double>::infinity();
    try {
      took = in.check(by, expected);
      BOOST_TEST_MESSAGE(name << ": " << took << " ms");
    } catch (const support::Error& error) {
      BOOST_TEST_MESSAGE(name << ": " << error.what());
    }
    if (took < least) least = took, best = by;
    return took;
  };
  const auto plans = [&](bool backward) {
    int count = 0;
    char why[512] = "";
    if (plugin->cudnn_attention_plans(&of, backward, &count, why, sizeof why) != 0) BOOST_TEST_MESSAGE(why);
    return count;
  };
  if (plugin->attends(device.is_cuda() ? device.index() : 0, shapes.head_width))
    measure({PeCudaAttentionRoute::kPlugin}, "the plug-in's");
  const auto by_cudnn = [&](int forward, int backward) {
    return measure({PeCudaAttentionRoute::kCudnn, forward, backward},
                   support::cat("cuDNN's, plans ", forward, " and ", backward));
  };
  const int backward_plans = plans(true);
  std::vector<double> times;  // a forward plan, with the first backward plan
  for (int forward = 0; backward_plans > 0 && forward < plans(false); ++forward) times.push_back(by_cudnn(forward, 0));
  const auto forward = static_cast<int>(std::min_element(times.begin(), times.end()) - times.begin());
  for (int backward = 1; !times.empty() && backward < backward_plans; ++backward) by_cudnn(forward, backward);
  if (least >= 0.98 * plain) return;  // a difference that is seen again
  char line[256];
  plugin->write_attention_record(&of, &best, line, sizeof line);
  BOOST_TEST_MESSAGE(line);
}

void check_embedding_gradient(at::Device device, const KernelShapes& shapes) {
  const std::int64_t tokens = 4 * shapes.batch * shapes.length;
  std::vector<std::int64_t> ids(static_cast<std::size_t>(tokens));
  support::Xoshiro random(3);
  for (std::int64_t& id : ids) {  // as in text: one token in twenty is the same, few are frequent, most are rare
    const std::uint64_t draw = random.below(20);
    id = draw == 0
             ? 7
             : static_cast<std::int64_t>(random.below(draw < 10 ? 50 : static_cast<std::uint64_t>(shapes.vocabulary)));
  }
  const Tensor index = at::tensor(ids).to(device), rows = values(1, {tokens, shapes.width}, device);
  compare("embedding", [&](const kernels::Operations& by, at::ScalarType type) {
    const Tensor gradient = at::zeros({shapes.vocabulary, shapes.width}, at::TensorOptions(wide(type)).device(device));
    by.add_embedding_gradient(rows.to(type), index, gradient, 0.5);
    return std::vector<Found>{{"gradient", gradient}};
  });
}

void check_adam(at::Device device, const KernelShapes& shapes) {
  const Tensor w = values(1, {shapes.weights}, device), g = values(2, {shapes.weights}, device),
               m = values(3, {shapes.weights}, device, 0.1),
               v = values(4, {shapes.weights}, device).square() +
                   0.01;  // near 0 a change could be as large as one likes
  for (const bool coupled : {false, true}) {
    const kernels::AdamRates rates{.lr = 0.01,
                                   .beta1 = 0.9,
                                   .beta2 = 0.95,
                                   .decay = 0.1,
                                   .eps = 1e-8,
                                   .step = 7,
                                   .divisor = 2.5,
                                   .coupled = coupled};
    const auto fresh = [](const Tensor& t) { return t.to(at::kFloat).clone(); };
    const auto run = [&] {
      kernels::AdamBuffers with{fresh(w), fresh(g), fresh(m), fresh(v),
                                at::zeros({shapes.weights}, at::TensorOptions(at::kBFloat16).device(device))};
      kPluginOperations.adam(with, rates);
      return with;
    };
    const kernels::AdamBuffers found = run(), again = run();
    Tensor gradient = g / 2.5, value = w;
    if (coupled)
      gradient = gradient + 0.1 * value;
    else
      value = value * (1 - 0.01 * 0.1);
    const Tensor first = 0.9 * m + 0.1 * gradient, second = 0.95 * v + 0.05 * gradient * gradient;
    value = value - 0.01 * (first / (1 - std::pow(0.9, 7))) / ((second / (1 - std::pow(0.95, 7))).sqrt() + 1e-8);
    BOOST_TEST((found.values - value).abs().max().item<double>() <= 4e-6);
    BOOST_TEST((found.first - first).abs().max().item<double>() <= 4e-6);
    BOOST_TEST((found.second - second).abs().max().item<double>() <= 4e-6 * second.max().item<double>());
    BOOST_TEST(found.shadow.equal(found.values.to(at::kBFloat16)));
    BOOST_TEST(found.values.equal(again.values));
  }
}

// Products of LibTorch, of bf16 factors on a GPU with sums in fp32: a rounding of the products alone would cost
// 2e-3.
void check_weight_gradients(at::Device device, const KernelShapes& shapes) {
  const std::int64_t tokens = shapes.batch * shapes.length;
  const Tensor a = values(1, {tokens, shapes.inner}, device), b = values(2, {tokens, shapes.width}, device),
               base = values(3, {shapes.inner, shapes.width}, device);
  const Tensor expected = base + a.t().matmul(b);
  const double scale = expected.abs().max().item<double>();
  for (const auto& [type, allowed] : kTypes) {
    const Tensor found = base.to(at::kFloat), again = base.to(at::kFloat);
    for (const Tensor& gradient : {found, again}) kernels::add_product(gradient, a.to(type), b.to(type));
    BOOST_TEST_CONTEXT("weight gradients in " << type) {
      const double most = device.is_cuda() && type == at::kBFloat16 ? 1e-4 : allowed;
      BOOST_TEST((found.to(at::kDouble) - expected).abs().max().item<double>() <= most * scale);
      BOOST_TEST(found.equal(again));
    }
  }
}

void check_draws_and_gathers(at::Device device, const KernelShapes& shapes) {
  const std::vector<std::uint64_t> keys{5, 0xFEDCBA9876543210};
  const Tensor like = at::empty({2, shapes.length, shapes.width}, at::TensorOptions(at::kFloat).device(device));
  const Tensor mask = kPluginOperations.dropout_mask(like, 0.1, keys).to(at::kCPU).view({2, -1});
  std::vector<double> draws(static_cast<std::size_t>(mask.size(1)));
  for (std::int64_t row = 0; row < 2; ++row) {
    support::philox_uniform(keys[static_cast<std::size_t>(row)], draws.data(), draws.size());
    std::int64_t wrong = 0;
    const auto* bits = mask.data_ptr<float>() + row * mask.size(1);
    for (std::size_t i = 0; i < draws.size(); ++i)
      wrong += bits[i] != (draws[i] < 0.1 ? 0.0F : static_cast<float>(1 / 0.9));
    BOOST_TEST(wrong == 0);
  }
  const std::vector<std::int64_t> sizes{2, shapes.heads, 16, shapes.length};
  const Tensor index = (values(1, sizes, device).abs() * (static_cast<double>(shapes.positions) / 4))
                           .to(at::kLong)
                           .clamp_max(shapes.positions - 1);
  const Tensor g = values(2, sizes, device);
  compare("gather", [&](const kernels::Operations& by, at::ScalarType type) {
    if (by.gather_gradient != nullptr)
      return std::vector<Found>{{"dz", by.gather_gradient(g.to(type), index, shapes.positions)}};
    const Tensor z = at::zeros({2, shapes.heads, 16, shapes.positions}, at::TensorOptions(type).device(device));
    return std::vector<Found>{{"dz", z.scatter_add(-1, index, g.to(type))}};
  });
}

}  // namespace pe::test
