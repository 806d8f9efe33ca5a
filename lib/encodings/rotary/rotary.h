/// @file
/// Base of all rotary encodings: given frequencies and an attention factor, it rotates the pairs of q and k. A member
/// of the family is a schedule of frequencies:
///
///     class PRope : public Rotary {
///       FrequencySchedule schedule() const override { … zeros after the first pairs … }
///     };
///
/// and whatever schedule it is, a rule of `rescaling.h` (YaRN, say) may extend it to longer texts.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "encodings/attention/positional_encoding.h"
#include "encodings/rotary/rotary_cache.h"
#include "support/config.h"

namespace pe::encodings {

/// Which channels form pair i of a head of width d: half: (i, i + d/2); interleaved: (2i, 2i + 1).
enum class PairLayout { kHalf, kInterleaved };

/// Rotates the first 2n channels of x by angles whose cosines and sines are given; the others stay. The sum
/// cos² + sin² need not be 1.
/// @param x [B,H,T,d_h]. @param cos, sin [T,n], [B,T,n] or [1 or B,G,T,n], where query head h reads head ⌊h·G/H⌋.
/// @return dtype and shape of x; computed in the dtype of the tables. Gradients flow to x, and to cos and sin where
/// these ask for them.
Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin, PairLayout layout);

/// Frequencies before any extension, and the facts that extension rules read.
struct FrequencySchedule {
  std::vector<double> theta;  ///< radians a token, one per pair; 0: the pair is not rotated
  double base = 10000;        ///< of the geometric sequence that they come from
  std::int64_t width = 0;     ///< channels that the sequence spans: pair i of it has base^(−2i/width)
};

/// A rule that extends a rotary encoding to texts longer than those it was trained on.
class Rescaling {
 public:
  virtual ~Rescaling() = default;
  /// A frequency of 0 stays 0.
  virtual RotaryFrequencies rescale(const FrequencySchedule& of, const Span& span) const = 0;
  /// The part of the span that the result depends on; the same key, the same result.
  virtual std::int64_t key(const Span& span) const { return 0; }
  virtual bool length_dependent() const { return false; }
  virtual bool shift_invariant() const { return true; }
};
using RescalingPointer = std::shared_ptr<const Rescaling>;

/// Options that every member has.
struct RotaryOptions {
  double base = 10000;
  PairLayout layout = PairLayout::kHalf;
  void describe(support::FieldVisitor& v);
  void describe_own(support::FieldVisitor& v) {}
};

/// @throws ConfigError naming the kind for a head width that is not even.
void check_even_head(const std::string& kind, std::int64_t head_width);

class Rotary : public PositionalEncoding {
 public:
  /// @throws ConfigError for an odd head width.
  Rotary(const std::string& kind, const Shape& shape, const RotaryOptions& options, RescalingPointer rescaling = {});

  /// Facts after rescaling: `own_facts` and the changes of the rule.
  Facts facts() const final;
  /// An angle between two tokens changes its sign where the key is the later one. Content-dependent angles are causal
  /// here.
  bool needs_causal_mask() const override { return own_facts().content_dependent; }
  void transform(LayerContext& context, Heads& heads) override;
  std::optional<RotatedPairs> rotated_pairs(int layer, const Span& span) const override;

  /// Is rotating q and k by one table all that S2 does? Override it to return false with `transform`.
  virtual bool only_rotates() const { return true; }
  /// That table.
  RotaryCache::Values tables_for(LayerContext& context, at::ScalarType type) {
    return table(context.span)(context, 0, context.span.keys, type);
  }
  PairLayout layout() const { return options_.layout; }

  virtual FrequencySchedule schedule() const;
  /// The schedule, rescaled.
  RotaryFrequencies frequencies(const Span& span) const { return rescaled(schedule(), span); }
  /// Replaces the rule in force by another, or by none, as a search for a rule does between passes.
  void rescale_with(RescalingPointer rescaling);

 protected:
  /// Pairs as the layout has them, `pairs` in each head.
  RotatedPairs laid_out(std::vector<double> theta, std::size_t pairs) const;
  virtual Facts own_facts() const { return {.rotates = true}; }
  RotaryFrequencies rescaled(const FrequencySchedule& of, const Span& span) const;
  /// 0 unless the rescaling depends on the span.
  std::int64_t frequency_key(const Span& span) const { return rescaling_ ? rescaling_->key(span) : 0; }
  RotaryCache& table(const Span& span);
  /// Rotates q and k by the angles of their rows.
  void rotate_heads(Heads& heads, const Span& span, const RotaryCache::Values& all) const;
  /// Frequencies that a table is made of: by default `frequencies`.
  virtual RotaryFrequencies table_rule(const Span& span) const { return frequencies(span); }

  std::string kind_;
  RotaryOptions options_;
  RescalingPointer rescaling_;

 private:
  std::map<std::int64_t, RotaryCache> tables_;
};

/// The cosines and sines [S, n] or [B, S, n] by which S2 rotates q and k. Empty where q has fewer rows than k, and for
/// encodings that do more in S2 or that read q and k before it.
struct RotaryTables {
  Tensor cos, sin;
  PairLayout layout = PairLayout::kHalf;
};
std::optional<RotaryTables> rotary_tables(PositionalEncoding& encoding, LayerContext& context, at::ScalarType type);

}  // namespace pe::encodings
