#include "encoding_docs/pitfalls.h"

#include <numbers>

#include "encoding_docs/example.h"
#include "encoding_docs/markdown.h"
#include "encodings/attention/attend.h"
#include "encodings/registry.h"
#include "support/text.h"

namespace pe::encoding_docs {
namespace {

using at::Tensor;
using encodings::Shape;
using encodings::Span;
using support::cat;

constexpr std::int64_t kPitfallTrainLength = 128, kPitfallHeadWidth = 64;
constexpr std::int64_t kPairs = kPitfallHeadWidth / 2;

Shape shape_of(std::int64_t heads = 1) {
  return {.width = heads * kPitfallHeadWidth,
          .query_heads = heads,
          .key_value_heads = heads,
          .head_width = kPitfallHeadWidth,
          .train_length = kPitfallTrainLength,
          .dtype = at::kDouble};
}

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string table_row(const std::vector<std::string>& cells) { return cat("| ", support::join(cells, " | "), " |\n"); }

/// Demonstrations show the encodings that this build has.
bool is_listed(const Json& config) {
  return encodings::find_encoding(config.is_string() ? config.get<std::string>() : config["kind"].get<std::string>()) !=
         nullptr;
}

/// One query, the last of `keys` rows: what it sees after S2.
struct RotatedPair {
  Tensor q, k;  // [B,1,1,d_h], [B,1,keys,d_h]
};
RotatedPair rotated(const Json& config, const Tensor& q, const Tensor& k, std::int64_t pe_len) {
  const auto encoding = encodings::make_encoding(config, shape_of());
  Span span{.batch = q.size(0), .queries = 1, .keys = k.size(2)};
  span.pe_len = pe_len;
  encodings::State state = encodings::begin_pass(*encoding, span);
  encodings::LayerContext context = encodings::layer_context(*encoding, state, 0);
  encodings::Heads heads{.q = q, .k = k, .v = k};
  encoding->transform(context, heads);
  return {heads.q, heads.k};
}

/// Angle of each pair at distances 0 .. n − 1, [pairs,n] in (−π, π].
Tensor angles(const Json& config, std::int64_t n) {
  Tensor q = at::zeros({kPairs, 1, 1, kPitfallHeadWidth}, at::kDouble),
         k = at::zeros({kPairs, 1, n, kPitfallHeadWidth}, at::kDouble);
  for (std::int64_t c = 0; c < kPairs; ++c) {  // the layout half: channel c and c + d_h/2
    q[c][0][0][c] = 1;
    k[c].select(-1, c).fill_(1);
  }
  const RotatedPair t = rotated(config, q, k, n);
  const Tensor cosines = at::matmul(t.q, t.k.transpose(-1, -2)).view({kPairs, n});
  Tensor other = at::zeros_like(q);
  for (std::int64_t c = 0; c < kPairs; ++c) other[c][0][0][c + kPairs] = 1;
  const RotatedPair u = rotated(config, other, k, n);
  return at::atan2(at::matmul(u.q, u.k.transpose(-1, -2)).view({kPairs, n}), cosines).flip(1);
}

/// The longest way from an angle in use to the nearest angle that was seen, for each pair, radians.
std::vector<double> unseen_gap(const Tensor& used, const Tensor& seen) {
  std::vector<double> out;
  for (std::int64_t c = 0; c < used.size(0); ++c) {
    const Tensor known = seen[c], fresh = used[c];
    Tensor way = (fresh.unsqueeze(1) - known.unsqueeze(0)).abs();
    way = at::minimum(way, 2 * std::numbers::pi - way);
    out.push_back(std::get<0>(way.min(1)).max().item<double>());
  }
  return out;
}

std::string mismatch() {
  std::string refusal;
  try {
    const auto learned = encodings::make_encoding("learned", shape_of());
    encodings::State state = encodings::begin_pass(*learned, Span::whole(1, kPitfallTrainLength + 1));
    encodings::add_to_tokens(*learned, at::zeros({1, kPitfallTrainLength + 1, kPitfallHeadWidth}, at::kDouble), state);
  } catch (const encodings::RangeError& error) {
    refusal = error.what();
  }
  std::string rows;
  const Tensor trained = angles("rope", kPitfallTrainLength);
  for (const Json& config : {Json("rope"), Json({{"kind", "ntk"}, {"factor", 4.0}}),
                             Json({{"kind", "pi"}, {"factor", 4.0}}), Json({{"kind", "yarn"}, {"factor", 4.0}})}) {
    if (!is_listed(config)) continue;
    int many = 0;
    double worst = 0;
    for (const double gap : unseen_gap(angles(config, 4 * kPitfallTrainLength), trained)) {
      many += gap > 0.1;
      worst = std::max(worst, gap);
    }
    rows += table_row({cat("`", support::display(config), "`"), cat(many, " of ", kPairs), fixed(worst, 2)});
  }
  return cat(
      "## Trained short, used long\n\n"
      "An encoding may be defined beyond the training length and still mean nothing there. A table ends:\n\n```\n",
      refusal,
      "\n```\n\n"
      "Beyond the training length, rotary encodings use angles that the model never saw in training. A head of width ",
      kPitfallHeadWidth, " has ", kPairs, " pairs. Trained with `rope` on ", kPitfallTrainLength,
      " tokens and used on ", 4 * kPitfallTrainLength,
      ", some meet an angle more than 0.1 radians from every angle of training:\n\n| used with | pairs that meet "
      "unseen angles | farthest, radians |\n|---|---|---|\n",
      rows,
      "\nEvaluate at the lengths that you will use. Take an encoding whose score keeps its meaning there "
      "(`alibi`), or extend a rotary one (`yarn`, `longrope`) and train more. `ntk` stretches the pairs between "
      "the first and the last by less than the factor, so choose a factor larger than the stretch that you want.\n");
}

std::string attention_scale() {
  std::string rows;
  for (const char* name : {"none", "ssmax"}) {
    std::vector<std::string> cells = {cat("`", name, "`")};
    for (const std::int64_t n : {128, 1024, 8192}) {
      const auto encoding = encodings::make_encoding(name, shape_of());
      Tensor q = at::zeros({1, 1, 1, kPitfallHeadWidth}, at::kDouble),
             k = at::zeros({1, 1, n, kPitfallHeadWidth}, at::kDouble);
      q[0][0][0][0] = 6 * std::sqrt(static_cast<double>(kPitfallHeadWidth));
      k[0][0][n / 2][0] = 1;  // a logit of 6, all others 0
      const Span span{.batch = 1, .queries = 1, .keys = n};
      encodings::State state = encodings::begin_pass(*encoding, span);
      encodings::LayerContext context = encodings::layer_context(*encoding, state, 0);
      encodings::AttentionMatrices matrices;
      at::NoGradGuard no_grad;
      encodings::attend(*encoding, context,
                        {.q = q, .k = k, .v = k, .scale = 1 / std::sqrt(static_cast<double>(kPitfallHeadWidth))},
                        {.route = encodings::Route::kReference, .matrices = &matrices});
      cells.push_back(fixed(matrices.weights.max().item<double>(), 3));
    }
    rows += table_row(cells);
  }
  return cat(
      "## Attention fades as texts grow\n\n"
      "The same logits spread over more keys. One key has the logit 6, all others 0; its weight:\n\n"
      "| encoding | 128 keys | 1,024 keys | 8,192 keys |\n|---|---|---|---|\n",
      rows, "\n`ssmax` here starts at the neutral value for ", kPitfallTrainLength,
      " tokens, and has learned nothing. Some extensions have a scale (`yarn`: logits × (0.1·ln s + 1)²). Add a "
      "temperature to others: `{stack: [rope, ssmax]}`.\n");
}

std::string uniform_scaling() {
  std::string rows;
  const Tensor q =
      at::full({1, 1, 1, kPitfallHeadWidth}, 1 / std::sqrt(static_cast<double>(kPitfallHeadWidth)), at::kDouble);
  const Tensor k = q.expand({1, 1, 64, kPitfallHeadWidth}).contiguous();
  const Json configs[] = {"rope",
                          {{"kind", "pi"}, {"factor", 8.0}},
                          {{"kind", "ntk"}, {"factor", 8.0}},
                          {{"kind", "yarn"}, {"factor", 8.0}, {"attention_factor", 1.0}}};
  for (const Json& config : configs) {
    if (!is_listed(config)) continue;
    const RotatedPair t = rotated(config, q, k, kPitfallTrainLength);
    const Tensor s = at::matmul(t.q, t.k.transpose(-1, -2)).view({64}).flip(0);
    std::vector<std::string> cells = {cat("`", support::display(config), "`")};
    for (const std::int64_t d : {1, 2, 4, 8}) cells.push_back(fixed((s[0] - s[d]).item<double>(), 3));
    rows += table_row(cells);
  }
  return cat(
      "## Scaling all frequencies alike\n\nInterpolation slows every pair, so neighbours become hard to "
      "distinguish. How far the product of a vector with itself falls from distance 0 to distance d (it is 1 at "
      "0):\n\n| encoding | d = 1 | d = 2 | d = 4 | d = 8 |\n|---|---|---|---|---|\n",
      rows, "\n`ntk` and `yarn` leave the fast pairs unchanged, and local order depends on these.\n");
}

std::string caching() {
  std::string rows;
  const Tensor q = named_normals("pitfalls.q", {1, 1, 1, kPitfallHeadWidth});
  const Tensor k = named_normals("pitfalls.k", {1, 1, 4 * kPitfallTrainLength, kPitfallHeadWidth});
  for (const char* name : {"rope", "dyn_ntk"}) {
    if (!is_listed(name)) continue;
    const Tensor then = rotated(name, q, k, kPitfallTrainLength).k;
    const RotatedPair now = rotated(name, q, k, 4 * kPitfallTrainLength);
    const Tensor right = at::matmul(now.q, now.k.transpose(-1, -2)), stale = at::matmul(now.q, then.transpose(-1, -2));
    rows += table_row({cat("`", name, "`"),
                       fixed((right - stale).abs().mean().item<double>() / right.abs().mean().item<double>(), 3)});
  }
  return cat(
      "## Caching what changes with length\n\nTables of cosines and sines, and biases, are worth keeping: here "
      "they are made once for a length and shared by all layers. But a cache of *rotated* keys is right only "
      "while frequencies do not change. Keys cached at ",
      kPitfallTrainLength, " tokens, a query at ", 4 * kPitfallTrainLength,
      "; mean error of a logit over the mean size of a logit:\n\n"
      "| encoding | relative error |\n|---|---|\n",
      rows,
      "\nEncodings that depend on the length (`length_dependent` in `pe-pipeline list encodings --json`) need "
      "unrotated keys in the cache. For the same reason evaluations set the length of such an encoding, and "
      "compute each prefix in a separate pass.\n");
}

std::string wavelengths() {
  std::string rows;
  for (const char* name : {"rope", "resonance"}) {
    if (!is_listed(name)) continue;
    const Tensor phases = angles(name, 16 * kPitfallTrainLength);
    const std::vector<double> gaps = unseen_gap(phases, phases.narrow(1, 0, kPitfallTrainLength));
    double worst = 0;
    int pairs = 0;
    for (std::int64_t c = 0; c < kPairs; ++c) {
      const double wavelength =
          2 * std::numbers::pi * std::pow(10000.0, 2.0 * static_cast<double>(c) / kPitfallHeadWidth);
      if (wavelength + 1 > kPitfallTrainLength) break;
      worst = std::max(worst, gaps[static_cast<std::size_t>(c)]);
      ++pairs;
    }
    rows += table_row({cat("`", name, "`"), cat(pairs), worst < 1e-9 ? "0" : fixed(worst, 4)});
  }
  return cat(
      "## Wavelengths that are no whole numbers\n\n"
      "A pair that turns once in 6.28 tokens never meets the same angle twice. How far the angles of the pairs that "
      "turn "
      "within ",
      kPitfallTrainLength, " tokens lie, up to ", 16 * kPitfallTrainLength,
      " tokens, from the nearest angle that training "
      "showed:\n\n| encoding | pairs | largest gap, radians |\n|---|---|---|\n",
      rows,
      "\n`resonance` rounds wavelengths, so that these pairs meet no new angle at any length. The gaps that it "
      "closes are small. The pairs that never complete a rotation (above) are the larger problem, and it does not "
      "change them. A model must be trained with it: its fastest pair rotates by π/3 instead of 1 per token.\n");
}

}  // namespace

std::string pitfalls_page() {
  at::NoGradGuard no_grad;
  return wrapped_markdown(
      cat("<!-- Written by `pe-encodings pitfalls`, which runs every demonstration again. -->\n"
          "# Pitfalls\n\nFive ways in which positional encodings go wrong. Every number below was computed by the "
          "encodings of this project when the page was written: `pe-encodings pitfalls` computes them again.\n\n",
          mismatch(), "\n", attention_scale(), "\n", uniform_scaling(), "\n", caching(), "\n", wavelengths()));
}

}  // namespace pe::encoding_docs
