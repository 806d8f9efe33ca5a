// xPos: RoPE whose pairs also fade with distance, the fast ones most. Queries are scaled down and keys up by position,
// so the product has the factor ζ^(distance/scale_base), whatever position the scales are counted from.
#include "encodings/rotary/rotary_schedules.h"

namespace pe::encodings {
namespace {

struct XposOptions : RotaryOptions {
  double scale_base = 512;
  XposOptions() { layout = PairLayout::kInterleaved; }
  void describe(support::FieldVisitor& v) {
    v.field("base", base, "Wavelengths grow from 2π to 2π·base tokens.", {.min = 1});
    describe_own(v);
    v.check(base > 1, "a base of 1 would rotate all pairs equally");
  }
  void describe_own(support::FieldVisitor& v) {
    v.field("scale_base", scale_base, "Number of tokens over which pair i decays by its ζ = (2i + 0.4d)/(1.4d).",
            {.unit = "tokens", .min = 1});
  }
};

class Xpos : public Rotary {
 public:
  Xpos(const XposOptions& options, const Shape& shape, RescalingPointer rescaling = {})
      : Rotary("xpos", shape, options, std::move(rescaling)), scale_base_(options.scale_base) {
    options_.layout = PairLayout::kInterleaved;  // also below an extension, whose own layout is another by default
  }

  /// A factor that fades with distance into the past would grow with distance into the future.
  bool needs_causal_mask() const override { return true; }

  bool only_rotates() const override { return false; }
  void transform(LayerContext& context, Heads& heads) override {
    const Span& span = context.span;
    const at::ScalarType type = heads.q.scalar_type();
    // All layers of a pass share the tables, unless their positions differ.
    const auto kept = [&](const char* name) -> Tensor& { return context.state.tensors[std::string("xpos.") + name]; };
    if (!context.contiguous || !kept("query_cos").defined() || kept("query_cos").scalar_type() != table_type(type)) {
      const RotaryCache::Values angles = table(span)(context, 0, span.keys, type);
      const Tensor fade = scales(context, table_type(type)), grow = fade.reciprocal();
      const std::int64_t offset = span.keys - span.queries;
      const auto of_queries = [&](const Tensor& t) { return t.narrow(-2, offset, span.queries); };
      kept("query_cos") = of_queries(angles.cos) * of_queries(fade);
      kept("query_sin") = of_queries(angles.sin) * of_queries(fade);
      kept("key_cos") = angles.cos * grow;
      kept("key_sin") = angles.sin * grow;
    }
    heads.q = rotate(heads.q, kept("query_cos"), kept("query_sin"), options_.layout);
    heads.k = rotate(heads.k, kept("key_cos"), kept("key_sin"), options_.layout);
  }

 private:
  /// ζ^(position/scale_base), [S,n] or [B,S,n]. Counted from position 0, and beyond what float32 holds then (16,384
  /// positions are 2^58) from a place nearer by: the product does not depend on it.
  Tensor scales(const LayerContext& context, at::ScalarType type) const {
    at::NoGradGuard no_grad;
    const std::int64_t pairs = shape_.head_width / 2;
    std::vector<double> log_zeta;
    for (std::int64_t i = 0; i < pairs; ++i) {
      const double d = static_cast<double>(shape_.head_width);
      log_zeta.push_back(std::log((2 * static_cast<double>(i) + 0.4 * d) / (1.4 * d)));
    }
    const Tensor rates = at::tensor(log_zeta, at::TensorOptions(at::kDouble)).to(context.positions.device());
    const std::int64_t origin = origin_of(context, -log_zeta.front());
    const Tensor place = (context.positions.to(at::kDouble) - static_cast<double>(origin)) / scale_base_;
    return (place.unsqueeze(-1) * rates).exp().to(type);
  }

  /// A whole number of blocks, or the middle where only that fits. @throws RangeError where the positions are too far
  /// apart for float32
  std::int64_t origin_of(const LayerContext& context, double steepest) const {
    const Span& span = context.span;
    const auto block = static_cast<std::int64_t>(32 * scale_base_);
    const double far = kLargestExponent / steepest * scale_base_;
    const std::int64_t middle = span.first_position + span.keys / 2;
    std::int64_t low = span.first_position, high = low + span.keys - 1;
    if (!context.contiguous) {
      low = context.bounds ? context.bounds->first : static_cast<std::int64_t>(context.positions.min().item<double>());
      high = context.bounds ? context.bounds->second
                            : static_cast<std::int64_t>(std::ceil(context.positions.max().item<double>()));
    }
    const auto fits = [&](std::int64_t origin) {
      return static_cast<double>(std::max(origin - low, high - origin)) <= far;
    };
    const std::int64_t usual = middle / block * block;
    if (fits(usual)) return usual;
    const std::int64_t central = low + (high - low) / 2;
    if (fits(central)) return central;
    throw RangeError(
        support::cat("encoding 'xpos' with scale_base ", support::shortest(scale_base_), ": positions ", low, " to ",
                     high, " are more than ", std::llround(2 * far), " apart, beyond the numbers of float32"),
        "raise scale_base, or shorten the text");
  }

  static constexpr double kLargestExponent = 86;  // e^88 is float32's largest number
  double scale_base_;
};

constexpr const char* kXposSummary = "RoPE with pairs that decay exponentially with distance, fast pairs most.";

}  // namespace

RotarySchedule xpos_schedule() { return rotary_schedule<Xpos, XposOptions>("xpos", kXposSummary); }

EncodingEntry xpos_entry() {
  return with_options<Xpos, XposOptions>(
      {.name = "xpos",
       .aliases = {"lex"},
       .summary = kXposSummary,
       .reference = "Sun et al. 2022, arXiv:2212.10554",
       .facts = {.rotates = true},
       .family = Family::kRotary,
       .acts_on = "q and k",
       .formula = "rope (interleaved pairs) whose pair c fades: logit(i,j) = Σ_c ζ_c^(d/scale_base)·(rope's pair "
                  "c)/√d_h\n"
                  "ζ_c = (2c + 0.4·d_h)/(1.4·d_h): the queries times ζ^(i/scale_base), the keys times "
                  "ζ^(−j/scale_base)",
       .known_for = "Made for longer texts, with attention in blocks of half the training length. Without the blocks "
                    "it is only mildly better than rope.",
       .errata = {"Positions of the scales start at 0; centred forms of other code bases give the same products with "
                  "other rounding.",
                  "In float16 a factor on q or k overflows beyond 4,500 tokens from the origin of the scales, in "
                  "bfloat16 beyond 36,000. This program moves the origin before that. Texts longer than 137 times "
                  "scale_base have no origin that fits, and are rejected."}});
}

}  // namespace pe::encodings
