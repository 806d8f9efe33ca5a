// Evaluation of rotary models on longer texts by other distances: near keys keep theirs, far ones are brought into
// reach.
#include "encodings/attention/head_vectors.h"
#include "encodings/registry.h"
#include "encodings/rotary/rescaling.h"

namespace pe::encodings {
namespace {

using support::ConfigError;

enum class DistanceRule { kRerope, kLeakyRerope, kSelfExtend, kDca, kLmInfinite };

struct DistanceMapOptions : ExtensionOptions {
  DistanceRule rule = DistanceRule::kRerope;
  std::optional<std::int64_t> window, group, chunk, cap, train_length;
  double slowness = 0;
  std::int64_t sinks = 10;
  bool logn = false;
  void describe(support::FieldVisitor& v) {
    v.choice("rule", rule,
             {{"rerope", DistanceRule::kRerope},
              {"leaky_rerope", DistanceRule::kLeakyRerope},
              {"self_extend", DistanceRule::kSelfExtend},
              {"dca", DistanceRule::kDca},
              {"lm_infinite", DistanceRule::kLmInfinite}},
             "Rule that maps distances.");
    v.field("window", window,
            "Distances below this are unchanged. Auto is a quarter of the training length L; leaky_rerope has an "
            "eighth and lm_infinite has L.",
            {.unit = "tokens", .min = 1});
    v.field("factor", slowness,
            "leaky_rerope: divisor of distances beyond the window; 0 computes it from the length of the text.",
            {.min = 0});
    v.check(slowness == 0 || slowness >= 1, "a factor below 1 would stretch distances");
    v.field("group", group,
            "self_extend: number of tokens beyond the window that share a position; auto computes it from the length "
            "of the text.",
            {.unit = "tokens", .min = 1});
    v.field("chunk", chunk, "dca: tokens of a chunk; auto is ⌊5L/8⌋.", {.unit = "tokens", .min = 1});
    v.field("cap", cap, "dca: largest position of a query for keys of another chunk; auto is ⌊3L/4⌋.",
            {.unit = "tokens", .min = 1});
    v.field("sinks", sinks, "lm_infinite: first keys that all queries see, in addition to the window.",
            {.unit = "tokens", .min = 0});
    v.field("logn", logn, "Multiply queries by max(1, ln(position + 1)/ln L).");
    v.field("train_length", train_length, "L; auto: from the model.", {.unit = "tokens", .min = 2});
    describe_without_factor(v);
  }
};

class DistanceMap : public PositionalEncoding {
 public:
  DistanceMap(const DistanceMapOptions& options, const Shape& shape)
      : PositionalEncoding(shape),
        options_(options),
        over_(extended(options, shape, {})),
        length_(extended_length("distance_map", options.train_length, shape)) {
    if (!over_->only_rotates() || over_->facts().heads_per_query != 1 || over_->facts().content_dependent) {
      throw ConfigError("encoding 'distance_map' needs a base that only rotates queries and keys by their positions");
    }
    if (length_ < 2) throw ConfigError("encoding 'distance_map' needs a training length of at least 2");
    const std::int64_t divisor = options.rule == DistanceRule::kLeakyRerope  ? 8
                                 : options.rule == DistanceRule::kLmInfinite ? 1
                                                                             : 4;
    window_ = options.window.value_or(std::max<std::int64_t>(1, length_ / divisor));
    chunk_ = options.chunk.value_or(std::max<std::int64_t>(1, 5 * length_ / 8));
    cap_ = options.cap.value_or(std::max<std::int64_t>(chunk_, 3 * length_ / 4));
    parameters_ = over_->parameters();
  }

  Facts facts() const override {
    const bool by_place =
        options_.logn || options_.rule == DistanceRule::kSelfExtend || options_.rule == DistanceRule::kDca;
    Facts facts = over_->facts();
    if (by_place) facts.shift_invariant = ShiftInvariance::kNever;
    facts.length_dependent = stretches() && !given_stretch();
    return facts;
  }
  Traits traits(const Span& span) const override { return {.own_logits = true}; }
  void enter_stack(const std::vector<const PositionalEncoding*>& others) override {
    for (const PositionalEncoding* other : others) {
      const auto* holder = dynamic_cast<const HoldsHeadVectors*>(other);
      if (holder != nullptr && holder->apply_after_rotation())
        throw ConfigError(
            "encoding 'distance_map' rotates queries and keys for each distance, and another member of the stack reads "
            "them after one rotation",
            {}, "leave one of them out");
    }
  }

  void begin(State& state) override {
    if (state.span.training) {
      throw ConfigError(
          "encoding 'distance_map' is for the evaluation of a model with a rotary encoding, not for training", {},
          "train with its base, and add distance_map to the extensions of an evaluation");
    }
    if (stretches() && !given_stretch() && !state.span.pe_len) working_length("distance_map", std::nullopt, state.span);
  }

  /// Queries and keys, rotated by each of the rule's maps of positions: [B,H,T,d_h] and [B,G,S,d_h] in turn.
  std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads) override {
    const at::ScalarType type = table_type(heads.q.scalar_type());
    const Span& span = context.span;
    Tensor q = heads.q.to(type);
    if (options_.logn) q = q * sharpened(context).to(type);
    std::vector<Tensor> rotated;
    for (const Places& places : maps(context)) {
      const RotaryCache::Values of_queries = angles(context, places.query, type),
                                of_keys = angles(context, places.key, type);
      const auto last = [&](const Tensor& t) { return t.narrow(t.dim() - 2, span.keys - span.queries, span.queries); };
      rotated.push_back(rotate(q, last(of_queries.cos), last(of_queries.sin), over_->layout()));
      rotated.push_back(rotate(heads.k.to(type), of_keys.cos, of_keys.sin, over_->layout()));
    }
    return rotated;
  }

  /// Keys in one part of the reach of all rows are multiplied once, with that part's positions; the few that are near
  /// to some rows and far from others by both.
  Tensor logits(const Rows& rows) override {
    const Reach reach = reach_of(rows);
    std::vector<Tensor> parts;
    for (const Columns& columns : columns_of(reach)) {
      Tensor s = product(rows, columns.nearest, columns);
      for (std::size_t map = columns.nearest + 1; map <= columns.farthest; ++map) {
        const Tensor beyond = reach.between(columns.begin, columns.count()).ge(reach.from[map - 1]);
        s = at::where(beyond, product(rows, map, columns), s);
      }
      parts.push_back(s);
    }
    const Tensor s = parts.size() == 1 ? parts[0] : at::cat(parts, -1);
    if (options_.rule != DistanceRule::kLmInfinite) return s;
    return s.masked_fill(out_of_sight(rows), -std::numeric_limits<double>::infinity());
  }

 private:
  /// For each key row a position as a query and one as a key.
  struct Places {
    Tensor query, key;
  };

  bool stretches() const {
    return options_.rule == DistanceRule::kLeakyRerope || options_.rule == DistanceRule::kSelfExtend;
  }
  bool given_stretch() const {
    return options_.rule == DistanceRule::kSelfExtend ? options_.group.has_value() : options_.slowness > 0;
  }

  /// How many times slower distances grow beyond the window, so that the length worked at stays within L.
  double stretch(const Span& span) const {
    if (options_.rule == DistanceRule::kSelfExtend && options_.group) return static_cast<double>(*options_.group);
    if (options_.rule == DistanceRule::kLeakyRerope && options_.slowness > 0) return options_.slowness;
    const std::int64_t beyond = working_length("distance_map", std::nullopt, span) - window_;
    const std::int64_t room = std::max<std::int64_t>(1, length_ - window_);
    return static_cast<double>(std::max<std::int64_t>(1, (beyond + room - 1) / room));
  }

  std::vector<Places> maps(const LayerContext& context) const {
    const Tensor& p = context.positions;
    const Tensor at_zero = at::zeros_like(p);
    switch (options_.rule) {
      case DistanceRule::kRerope:
      case DistanceRule::kLmInfinite:
        return {{p, p}, {at_zero + window_, at_zero}};
      case DistanceRule::kLeakyRerope: {
        const double s = stretch(context.span), w = static_cast<double>(window_);
        const Tensor slow = p.to(at::kDouble) / s;
        return {{p, p}, {slow + (w - w / s), slow}};
      }
      case DistanceRule::kSelfExtend: {
        const auto g = static_cast<std::int64_t>(stretch(context.span));
        const Tensor grouped = at::floor_divide(whole(p), g);
        return {{p, p}, {grouped + (window_ - window_ / g), grouped}};
      }
      case DistanceRule::kDca: {
        const Tensor place = at::remainder(whole(p), chunk_);
        return {{place, place},
                {(place + chunk_).clamp_max(cap_), place},
                {at_zero + std::min(2 * chunk_ - 1, cap_), place}};
      }
    }
    return {};
  }

  Tensor whole(const Tensor& positions) const {
    if (!positions.is_floating_point()) return positions;
    throw ConfigError("encoding 'distance_map' groups whole positions with this rule, and these are fractions");
  }

  /// The encoding's own cosines and sines at other positions.
  RotaryCache::Values angles(LayerContext& context, const Tensor& positions, at::ScalarType type) {
    LayerContext elsewhere{.state = context.state,
                           .span = context.span,
                           .layer = context.layer,
                           .positions = positions,
                           .contiguous = false};
    return over_->tables_for(elsewhere, type);
  }

  /// How far back a key is, which says by which of the maps it is seen: map m from a distance of from[m − 1] on.
  struct Reach {
    Tensor queries, keys;  // [rows] or [B,rows], [keys] or [B,keys]
    std::vector<std::int64_t> from;

    /// [rows,count] or [B,1,rows,count]
    Tensor between(std::int64_t begin, std::int64_t count) const {
      const Tensor d = queries.unsqueeze(-1) - keys.narrow(-1, begin, count).unsqueeze(-2);
      return d.dim() == 3 ? d.unsqueeze(1) : d;
    }
  };

  /// Neighbouring keys that the same maps see, `nearest` to `farthest`, whichever the row.
  struct Columns {
    std::int64_t begin = 0, end = 0;
    std::size_t nearest = 0, farthest = 0;

    std::int64_t count() const { return end - begin; }
  };

  /// In tokens, dca: in chunks.
  Reach reach_of(const Rows& rows) const {
    if (options_.rule != DistanceRule::kDca) return {rows.query_positions, rows.key_positions, {window_}};
    return {at::floor_divide(rows.query_positions, chunk_), at::floor_divide(rows.key_positions, chunk_), {1, 2}};
  }

  static std::vector<Columns> columns_of(const Reach& reach) {
    const std::int64_t keys = reach.keys.size(-1);
    const auto maps_at = [&](const Tensor& distance, bool farthest) {  // [keys]; [B,keys] over its sequences
      Tensor passed = at::zeros({keys}, at::TensorOptions(at::kLong).device(distance.device()));
      for (const std::int64_t from : reach.from) {
        const Tensor beyond = distance.ge(from);
        passed = passed + (beyond.dim() == 1 ? beyond : farthest ? beyond.any(0) : beyond.all(0));
      }
      return passed.to(at::kCPU);
    };
    const Tensor near = maps_at(reach.queries.amin(-1, /*keepdim=*/true) - reach.keys, false);
    const Tensor far = maps_at(reach.queries.amax(-1, /*keepdim=*/true) - reach.keys, true);
    const auto *nearest = near.const_data_ptr<std::int64_t>(), *farthest = far.const_data_ptr<std::int64_t>();
    std::vector<Columns> columns;
    for (std::int64_t key = 0; key < keys; ++key) {
      const auto low = static_cast<std::size_t>(nearest[key]), high = static_cast<std::size_t>(farthest[key]);
      if (columns.empty() || columns.back().nearest != low || columns.back().farthest != high)
        columns.push_back({key, key, low, high});
      columns.back().end = key + 1;
    }
    return columns;
  }

  /// scale·q·kᵀ of some keys, rotated by one of the maps.
  Tensor product(const Rows& rows, std::size_t map, const Columns& columns) {
    Rows part = rows;
    part.q = rows.inputs.at(2 * map).narrow(2, rows.begin, rows.count());
    part.k = rows.inputs.at(2 * map + 1).narrow(2, columns.begin, columns.count());
    return PositionalEncoding::logits(part);
  }

  /// Neither within the window, by rows, nor among the first keys of the document.
  Tensor out_of_sight(const Rows& rows) const {
    const Tensor columns = at::arange(rows.keys, at::TensorOptions(at::kLong).device(rows.q.device()));
    const Tensor far = (rows.query_rows().unsqueeze(-1) - columns).ge(window_);  // [rows,keys]
    const Tensor& start = rows.context.span.doc_start;
    if (!start.defined()) return far.logical_and(columns.ge(options_.sinks));
    const Tensor later = columns.ge(
        start.narrow(-1, rows.context.span.keys - rows.context.span.queries + rows.begin, rows.count()).unsqueeze(-1) +
        options_.sinks);
    return later.dim() == 3 ? far.logical_and(later).unsqueeze(1) : far.logical_and(later);
  }

  /// max(1, ln(p + 1)/ln L) of the query rows.
  Tensor sharpened(const LayerContext& context) const {
    const Span& span = context.span;
    const Tensor p = context.positions.narrow(-1, span.keys - span.queries, span.queries).to(at::kDouble);
    const Tensor tau = (at::log1p(p) / std::log(static_cast<double>(length_))).clamp_min(1).unsqueeze(-1);
    return tau.dim() == 3 ? tau.unsqueeze(1) : tau;
  }

  DistanceMapOptions options_;
  std::unique_ptr<Rotary> over_;
  std::int64_t length_, window_ = 1, chunk_ = 1, cap_ = 1;
};

}  // namespace

EncodingEntry distance_map_entry() {
  return with_options<DistanceMap, DistanceMapOptions>(
      {.name = "distance_map",
       .summary =
           "Evaluates a rotary model with mapped distances: near ones are unchanged, far ones are capped, slowed down "
           "or grouped.",
       .reference =
           "ReRoPE: Su 2023; Self-Extend: Jin et al. 2024, arXiv:2401.01325; DCA: An et al. 2024, arXiv:2402.17463; "
           "LM-Infinite: Han et al. 2023, arXiv:2308.16137",
       .facts = {.rotates = true},
       .family = Family::kExtension,
       .acts_on = "product of q and k",
       .formula =
           "logit(i,j) = rope's, with D in place of d = i − j\n"
           "rerope: min(d, w); leaky_rerope: d < w: d, else w + (d − w)/s\n"
           "self_extend: d < w: d, else ⌊i/g⌋ − ⌊j/g⌋ + w − ⌊w/g⌋\n"
           "dca, chunks of c: same: d; previous: min(i mod c + c, m) − j mod c; earlier: min(2c − 1, m) − j mod c\n"
           "lm_infinite: min(d, w), and keys beyond w are seen only among the first `sinks`",
       .known_for = "Longer texts without tuning, by evaluation alone: no pair of tokens stands further apart "
                    "than training saw. Training with it is rejected.",
       .errata = {
           "The code of Self-Extend ignores w if the text is shorter, and its newer version uses w/g without rounding.",
           "The tables of ChunkLlama include an attention factor that its published results did not use. Its cap is "
           "inclusive.",
           "The code of ReRoPE always multiplies queries by logn; here this is an option."}});
}

}  // namespace pe::encodings
