#include "encodings/attention/stack.h"

#include "encodings/attention/attention_window.h"
#include "encodings/attention/frozen.h"
#include "encodings/attention/fused_bias.h"
#include "encodings/attention/token_reader.h"
#include "encodings/attention/weight_mix.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

using support::cat;

class Stack : public PositionalEncoding,
              public FusesBias,
              public FrozenTables,
              public WindowedEncoding,
              public MixesByWeights,
              public ReadsTokens {
 public:
  Stack(std::vector<StackMember> members, const Shape& shape)
      : PositionalEncoding(shape), members_(std::move(members)) {
    for (const StackMember& member : members_) {
      std::vector<const PositionalEncoding*> others;
      for (const StackMember& other : members_) {
        if (&other != &member) others.push_back(other.encoding.get());
      }
      member.encoding->enter_stack(others);
    }
    const Span span = Span::whole(1, std::max<std::int64_t>(shape.train_length, 1));
    const auto exclusive = [&](const char* what, const auto& does) {
      const StackMember* first = nullptr;
      for (const StackMember& member : members_) {
        if (!does(*member.encoding)) continue;
        if (first != nullptr) {
          throw support::ConfigError(
              cat("encodings '", first->name, "' and '", member.name, "' of a stack both ", what), {},
              "leave one of them out");
        }
        first = &member;
      }
    };
    const auto by_trait = [&](const char* what, bool Traits::*trait) {
      exclusive(what, [&](PositionalEncoding& e) { return e.traits(span).*trait; });
    };
    exclusive("read numbers of the tokens", [](PositionalEncoding& e) { return reader_of(e) != nullptr; });
    exclusive("rotate queries and keys", [](PositionalEncoding& e) { return e.facts().rotates; });
    Span training = span;  // in which more members map positions
    training.training = true;
    exclusive("map positions", [&](PositionalEncoding& e) {
      return e.traits(span).maps_positions || e.traits(training).maps_positions;
    });
    by_trait("replace the product of queries and keys", &Traits::own_logits);
    by_trait("rewrite the logits", &Traits::rewrites_logits);
    by_trait("normalise the weights", &Traits::normalises);
    exclusive("mix more than the values", [&](PositionalEncoding& e) {
      const Traits t = e.traits(span);
      return t.extra_values || t.sink_share;
    });
    by_trait("carry something from row to row", &Traits::rows_coupled);
    std::stable_partition(members_.begin(), members_.end(),
                          [](const StackMember& m) { return m.encoding->facts().rotates; });
    for (const StackMember& member : members_) {
      for (const Parameter& parameter : member.encoding->parameters()) {
        for (const Parameter& other : parameters_) {
          if (other.name != parameter.name) continue;
          throw support::ConfigError(cat("encoding '", member.name, "' occurs in a stack twice, and it has parameters"),
                                     {}, "leave one of them out");
        }
        parameters_.push_back(parameter);
      }
      for (const Parameter& tensor : frozen_of(*member.encoding)) frozen_.push_back(tensor);
    }
  }

  const std::vector<Parameter>& frozen() const override { return frozen_; }

  Facts facts() const override {
    Facts all;
    for (const StackMember& member : members_) {
      const Facts f = member.encoding->facts();
      all.shift_invariant = std::min(all.shift_invariant, f.shift_invariant);
      all.rotates |= f.rotates;
      all.learned |= f.learned;
      all.length_dependent |= f.length_dependent;
      all.content_dependent |= f.content_dependent;
      all.stochastic |= f.stochastic;
      all.heads_per_query *= f.heads_per_query;
      if (f.max_positions) all.max_positions = std::min(all.max_positions.value_or(*f.max_positions), *f.max_positions);
    }
    return all;
  }

  bool needs_causal_mask() const override {
    return std::any_of(members_.begin(), members_.end(),
                       [](const StackMember& m) { return m.encoding->needs_causal_mask(); });
  }

  Traits traits(const Span& span) const override {
    Traits all;
    bool every_bias_is_channels = true, every_bias_is_toeplitz = true;
    all.has_table = true;
    for (const StackMember& member : members_) {
      const Traits t = member.encoding->traits(span);
      if (t.bias != BiasKind::kNone) {
        all.bias = BiasKind::kPairwise;
        every_bias_is_channels &= t.bias == BiasKind::kChannels;
        every_bias_is_toeplitz &= t.bias == BiasKind::kToeplitz;
        all.has_table &= t.bias == BiasKind::kToeplitz || t.has_table;
      }
      all.bias_needs_grad |= t.bias_needs_grad;
      all.bias_depends_on_batch |= t.bias_depends_on_batch;
      all.adds_to_tokens |= t.adds_to_tokens;
      all.maps_positions |= t.maps_positions;
      all.own_logits |= t.own_logits;
      all.rewrites_logits |= t.rewrites_logits;
      all.normalises |= t.normalises;
      all.sink |= t.sink;
      all.sink_share |= t.sink_share;
      all.rows_coupled |= t.rows_coupled;
      all.needs_row_constants |= t.needs_row_constants;
      all.needs_raw |= t.needs_raw;
      all.extra_values |= t.extra_values;
      all.scales_queries |= t.scales_queries;
      all.channels_cancel |= t.channels_cancel;
      all.live_logits = std::max(all.live_logits, t.live_logits);
    }
    all.bias_depends_on_batch |= all.maps_positions;  // a draw for each sequence gives each its own distances
    if (all.bias != BiasKind::kNone && every_bias_is_channels) all.bias = BiasKind::kChannels;
    if (all.bias != BiasKind::kNone && every_bias_is_toeplitz && !all.maps_positions) all.bias = BiasKind::kToeplitz;
    return all;
  }

  void begin(State& state) override {
    for (StackMember& member : members_) member.encoding->begin(state);
  }

  Tensor positions(int layer, const Span& span) const override {
    for (const StackMember& member : members_) {
      if (member.encoding->traits(span).maps_positions) return member.encoding->positions(layer, span);
    }
    return default_positions(span);
  }

  Json reads() const override {
    for (const StackMember& member : members_) {
      if (const ReadsTokens* reader = reader_of(*member.encoding)) return reader->reads();
    }
    return nullptr;
  }
  std::int64_t channels() const override {
    for (const StackMember& member : members_) {
      if (const ReadsTokens* reader = reader_of(*member.encoding)) return reader->channels();
    }
    return 0;
  }
  Tensor positions_by(const Tensor& numbers, int layer, const Span& span) const override {
    for (const StackMember& member : members_) {
      if (!member.encoding->traits(span).maps_positions) continue;
      if (const ReadsTokens* reader = reader_of(*member.encoding)) return reader->positions_by(numbers, layer, span);
    }
    return positions(layer, span);
  }

  std::int64_t window(int layer) const override {
    std::int64_t narrowest = 0;
    for (const StackMember& member : members_) {
      const std::int64_t w = window_of(*member.encoding, layer);
      if (w > 0) narrowest = narrowest > 0 ? std::min(narrowest, w) : w;
    }
    return narrowest;
  }

  Tensor add_to_tokens(LayerContext& context, const Tensor& x) override {
    Tensor sum = x;
    for (StackMember& member : members_) {
      if (member.encoding->traits(context.span).adds_to_tokens) sum = member.encoding->add_to_tokens(context, sum);
    }
    return sum;
  }

  void transform(LayerContext& context, Heads& heads) override {
    for (StackMember& member : members_) member.encoding->transform(context, heads);
  }

  std::optional<RotatedPairs> rotated_pairs(int layer, const Span& span) const override {
    for (const StackMember& member : members_) {
      if (auto rotated = member.encoding->rotated_pairs(layer, span)) return rotated;
    }
    return std::nullopt;
  }

  Channels channels(LayerContext& context, const Heads& heads) override {
    Channels all;
    for (StackMember& member : members_) {
      if (member.encoding->traits(context.span).bias != BiasKind::kChannels) continue;
      Channels c = member.encoding->channels(context, heads);
      if (!all.query.defined()) {
        all = std::move(c);
        continue;
      }
      all.query = side_by_side(all.query, c.query);
      all.key = side_by_side(all.key, c.key);
      all.query_pieces = std::max(all.query_pieces, c.query_pieces);
      all.key_pieces = std::max(all.key_pieces, c.key_pieces);
    }
    return all;
  }

  FusedKind fused_kind(const Span& span) const override {
    const PositionalEncoding* only = only_fused(span);
    return only != nullptr ? encodings::fused_kind(*only, span) : FusedKind::kNone;
  }
  FusedBias fused_bias(LayerContext& context, const Heads& heads) override {
    return dynamic_cast<FusesBias&>(*only_fused(context.span)).fused_bias(context, heads);
  }
  Tensor fused_rewrite(const Rows& rows) override {
    const PositionalEncoding* only = only_fused(rows.context.span);
    Tensor change;
    each_with_inputs(rows, [&](PositionalEncoding& encoding, const Traits&, const Rows& own) {
      if (&encoding == only) change = dynamic_cast<FusesBias&>(encoding).fused_rewrite(own);
    });
    return change;
  }

  Tensor table(LayerContext& context, std::int64_t n) override {
    Tensor sum;
    for (StackMember& member : members_) {
      if (member.encoding->traits(context.span).bias == BiasKind::kNone) continue;
      const Tensor t = member.encoding->table(context, n);
      sum = sum.defined() ? sum + t : t;
    }
    return sum;
  }

  std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads) override {
    std::vector<Tensor> all;
    for (StackMember& member : members_) {
      const std::vector<Tensor> own = member.encoding->row_inputs(context, heads);
      context.state.numbers[count_name(context.layer, &member - members_.data())] =
          static_cast<std::int64_t>(own.size());
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

  Tensor bias(const Rows& rows) override {
    Tensor sum;
    each_with_inputs(rows, [&](PositionalEncoding& encoding, const Traits& traits, const Rows& own) {
      if (traits.bias == BiasKind::kNone) return;
      const Tensor b = encoding.bias(own);
      sum = sum.defined() ? sum + b : b;
    });
    return sum;
  }

  Tensor logits(const Rows& rows) override {
    Tensor s;
    each_with_inputs(rows, [&](PositionalEncoding& encoding, const Traits& traits, const Rows& own) {
      if (traits.own_logits) s = encoding.logits(own);
    });
    return s.defined() ? s : PositionalEncoding::logits(rows);
  }

  Tensor rewrite(const Rows& rows, const Tensor& s) override {
    Tensor out = s;
    each_with_inputs(rows, [&](PositionalEncoding& encoding, const Traits& traits, const Rows& own) {
      if (traits.rewrites_logits) out = encoding.rewrite(own, out);
    });
    return out;
  }

  std::unique_ptr<Normaliser> normaliser(const LayerContext& context, const std::vector<Tensor>& inputs) override {
    std::size_t at = 0;
    for (std::size_t m = 0; m < members_.size(); ++m) {
      const auto count = static_cast<std::size_t>(context.state.numbers.at(count_name(context.layer, m)));
      const std::vector<Tensor> own(inputs.begin() + at, inputs.begin() + at + count);
      at += count;
      if (members_[m].encoding->traits(context.span).normalises) return members_[m].encoding->normaliser(context, own);
    }
    return nullptr;
  }

  Tensor extra_values(LayerContext& context, const Heads& heads) override {
    for (StackMember& member : members_) {
      if (member.encoding->traits(context.span).extra_values) return member.encoding->extra_values(context, heads);
    }
    return {};
  }

  bool mixes() const override {
    return std::any_of(members_.begin(), members_.end(),
                       [](const StackMember& m) { return mixer_of(*m.encoding) != nullptr; });
  }
  Tensor mix(const Rows& rows, const Tensor& weights) override {
    Tensor sum;
    each_with_inputs(rows, [&](PositionalEncoding& encoding, const Traits&, const Rows& own) {
      MixesByWeights* mixer = mixer_of(encoding);
      if (mixer == nullptr) return;
      const Tensor mixed = mixer->mix(own, weights);
      sum = sum.defined() ? sum + mixed : mixed;
    });
    return sum;
  }

  Tensor finish(LayerContext& context, const Tensor& out, const Tensor& extra) override {
    Tensor result = out;
    for (StackMember& member : members_) {
      const Traits traits = member.encoding->traits(context.span);
      result = member.encoding->finish(context, result, traits.extra_values || traits.sink_share ? extra : Tensor());
    }
    return result;
  }

  void after_feed_forward(LayerContext& context, const Tensor& y) override {
    for (StackMember& member : members_) member.encoding->after_feed_forward(context, y);
  }

  void after_step() override {
    for (StackMember& member : members_) member.encoding->after_step();
  }

 private:
  /// The only member that has a bias, rewrites logits, or has weights other than softmax's; else null.
  PositionalEncoding* only_fused(const Span& span) const {
    PositionalEncoding* only = nullptr;
    for (const StackMember& member : members_) {
      const Traits t = member.encoding->traits(span);
      if (t.bias == BiasKind::kNone && !t.rewrites_logits && (!t.normalises || t.sink)) continue;
      if (only != nullptr) return nullptr;
      only = member.encoding.get();
    }
    return only;
  }

  /// Of this stack alone: it may contain another stack.
  std::string count_name(int layer, std::size_t member) const {
    return cat("stack.", reinterpret_cast<std::uintptr_t>(this), ".inputs.", layer, ".", member);
  }

  /// Two factors of channels may differ in the sizes that broadcast.
  static Tensor side_by_side(const Tensor& a, const Tensor& b) {
    const std::int64_t batch = std::max(a.size(0), b.size(0)), heads = std::max(a.size(1), b.size(1));
    return at::cat({a.expand({batch, heads, -1, -1}), b.expand({batch, heads, -1, -1})}, -1);
  }

  /// Calls `use` for each member with the inputs that the member gave.
  template <typename Use>
  void each_with_inputs(const Rows& rows, const Use& use) {
    std::size_t at = 0;
    for (std::size_t m = 0; m < members_.size(); ++m) {
      const auto count = static_cast<std::size_t>(rows.context.state.numbers.at(count_name(rows.context.layer, m)));
      Rows own = rows;
      own.inputs.assign(rows.inputs.begin() + at, rows.inputs.begin() + at + count);
      at += count;
      use(*members_[m].encoding, members_[m].encoding->traits(rows.context.span), own);
    }
  }

  std::vector<StackMember> members_;
  std::vector<Parameter> frozen_;
};

}  // namespace

std::unique_ptr<PositionalEncoding> make_stack(std::vector<StackMember> members, const Shape& shape) {
  return std::make_unique<Stack>(std::move(members), shape);
}

}  // namespace pe::encodings
