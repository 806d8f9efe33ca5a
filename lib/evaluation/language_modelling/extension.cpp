// One checkpoint at longer contexts, without training. It runs under every static rule of the rotary family, with its
// logits scaled, cropped to the training length, and unchanged. Interventions show which frequencies and layers a
// length breaks. Same anchored targets for every variant and length.
#include <algorithm>
#include <cmath>
#include <limits>

#include "evaluation/model_variants.h"
#include "evaluation/task.h"
#include "evaluation/windows.h"
#include "statistics/estimates.h"
#include "support/missing.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

using support::cat;

constexpr std::int64_t kAnchors = 4;
using support::kMissing;

/// The scale that was chosen; NaN where none was. A row that only the journal sees.
struct FittedScale {
  static constexpr const char* kName = "extension.fitted";
  double a = kMissing;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("a", row.a, "", "scale");
  }
};

std::vector<std::string> plain_variants() {
  std::vector<std::string> names = {"plain", "crop"};
  names.insert(names.end(), static_rules().begin(), static_rules().end());
  names.emplace_back("logit_scale");
  return names;
}

/// Each of them has several variants: `base_500000`, `p_rope_0.75`, `zeroed_1` (the band of the fastest pairs),
/// `frozen_4`, `layer_0`.
const std::vector<std::string>& interventions() {
  static const std::vector<std::string> names = {"base", "p_rope", "zeroed", "frozen", "layer"};
  return names;
}

/// Every name that the list may have; distance rules and interventions are measured only where they are named.
std::vector<std::string> variant_names() {
  std::vector<std::string> names = plain_variants();
  for (const auto& more : {distance_rules(), interventions()}) names.insert(names.end(), more.begin(), more.end());
  return names;
}

class Extension final : public Task {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("variants", variants_,
            "Forms of the model: " + support::join(variant_names(), ", ") +
                ". crop feeds the last tokens of the training length alone; logit_scale multiplies logits by "
                "1 + a·ln(L / training length). " +
                support::join(distance_rules(), ", ") +
                " map distances and find their own factor. For plain rope, base uses other bases, and p_rope rotates "
                "only the fastest pairs. The kind zeroed does not rotate a band of pairs, and frozen rotates it no "
                "farther than training did. The kind layer rotates nothing in one layer.",
            {.neutral = Json(plain_variants())});
    v.field("bases", bases_, "Bases of `base`.", {.min = 1.001, .max = 1e12, .neutral = Json(bases_)});
    v.field("fractions", fractions_, "Shares of the pairs that `p_rope` turns.",
            {.min = 0, .max = 1, .neutral = Json(fractions_)});
    v.field("bands", bands_, "Bands of neighbouring pairs that `zeroed` and `frozen` change one at a time.",
            {.min = 1, .max = 1024, .neutral = Json(4)});
    v.field("targets", targets_, "Tokens scored at the end of a window, at most half the longest context.",
            {.unit = "tokens", .min = 1, .neutral = Json(256)});
    v.field("scales", scales_, "Values of a that are tried on validation documents.",
            {.min = 0, .max = 10, .neutral = Json(scales_)});
    v.field("fit_documents", fit_documents_, "Validation documents on which a is chosen, for each length.",
            {.unit = "documents", .min = 1, .neutral = Json(16)});
    const std::vector<std::string> names = variant_names();
    v.check(!variants_.empty(), "extension needs at least one variant");
    v.check(!scales_.empty(), "extension.scales needs at least one value");
    for (const std::string& name : variants_) {
      v.check(std::find(names.begin(), names.end(), name) != names.end(),
              cat("unknown variant ", support::quote(name), "; ", support::suggestion(name, names)));
    }
  }

  void run(TaskContext& context) const override {
    const std::int64_t least = std::min(context.settings.min_documents, context.settings.documents);
    std::vector<std::int64_t> lengths = context.lengths;
    while (!lengths.empty() && count_documents(context.documents, lengths.back()) < least) lengths.pop_back();
    const std::int64_t targets = lengths.empty() ? 0 : targets_within(targets_, lengths.back());
    std::vector<std::int64_t> ids;
    if (!lengths.empty()) ids = select_documents(context.documents, lengths.back(), context.settings.documents);
    for (const Variant& variant : expanded(context)) {
      for (const std::int64_t length : context.lengths) {
        if (std::find(lengths.begin(), lengths.end(), length) == lengths.end()) {
          context.results.add_row(
              missing(context, variant.name, length, status::kSkipped, count_documents(context.documents, length)));
          continue;
        }
        one(context, variant, length, lengths.back(), targets, ids);
      }
      context.progress.note(cat("extension: ", variant.name, " is done"));
    }
  }

 private:
  /// One form of the model: a rule of the list, or one of the variants of an intervention.
  struct Variant {
    std::string kind;                                  ///< as the list has it
    std::string name;                                  ///< as the table has it
    Json options = nullptr;                            ///< of base and p_rope: changed options of rope
    std::pair<std::int64_t, std::int64_t> pairs = {};  ///< of zeroed and frozen: [first, end)
    std::int64_t layer = 0;
  };

  /// 500000 rather than 5e+05.
  static std::string written(double base) {
    return base == std::floor(base) ? cat(std::llround(base)) : support::shortest(base);
  }

  std::vector<Variant> expanded(const TaskContext& context) const {
    const std::int64_t pairs = context.variants != nullptr ? context.variants->pairs() : 0;
    const std::int64_t layers = context.variants != nullptr ? context.variants->layers() : 0;
    std::vector<Variant> all;
    for (const std::string& kind : variants_) {
      if (kind == "base") {
        for (const double base : bases_) all.push_back({kind, cat("base_", written(base)), {{"base", base}}});
      } else if (kind == "p_rope") {
        for (const double share : fractions_)
          all.push_back({kind, cat("p_rope_", support::shortest(share)), {{"fraction", share}}});
      } else if (kind == "zeroed" || kind == "frozen") {
        const std::int64_t bands = std::min(bands_, std::max<std::int64_t>(pairs, 1));
        for (std::int64_t band = 0; band < bands; ++band) {
          all.push_back({.kind = kind,
                         .name = cat(kind, "_", band + 1),
                         .pairs = {band * pairs / bands, (band + 1) * pairs / bands}});
        }
      } else if (kind == "layer") {
        for (std::int64_t layer = 0; layer < std::max<std::int64_t>(layers, 1); ++layer) {
          all.push_back({.kind = kind, .name = cat("layer_", layer), .layer = layer});
        }
      } else {
        all.push_back({kind, kind});
      }
    }
    return all;
  }

  /// The model in that form at a length; null where its encoding has no such form.
  static std::unique_ptr<Scorer> changed(const ModelVariants& model, const Variant& variant, double factor) {
    if (variant.kind == "base" || variant.kind == "p_rope") {
      const auto encoding = rope_changed(model.encoding(), variant.kind == "base" ? "rope" : "p_rope", variant.options);
      return encoding ? model.make(*encoding) : nullptr;
    }
    if (variant.kind == "zeroed" || variant.kind == "frozen") {
      const double inside = variant.kind == "zeroed" ? 0 : 1 / factor;
      return model.make_scaled([&](std::int64_t, std::int64_t pair) {
        return pair >= variant.pairs.first && pair < variant.pairs.second ? inside : 1;
      });
    }
    if (variant.kind == "layer") {
      return model.make_scaled([&](std::int64_t layer, std::int64_t) { return layer == variant.layer ? 0.0 : 1.0; });
    }
    const auto encoding = extended_encoding(model.encoding(), variant.kind, factor);
    return encoding ? made_or_null(model, *encoding) : nullptr;
  }

  /// Null where the encodings cannot be combined.
  static std::unique_ptr<Scorer> made_or_null(const ModelVariants& model, const Json& encoding) {
    try {
      return model.make(encoding);
    } catch (const support::ConfigError&) {
      return nullptr;
    }
  }

  void one(TaskContext& context, const Variant& variant, std::int64_t length, std::int64_t longest,
           std::int64_t targets, const std::vector<std::int64_t>& ids) const {
    const Capabilities& model = context.scorer.capabilities();
    const std::int64_t fed = variant.kind == "crop" ? std::min(length, model.train_length) : length;
    const double factor = std::max(1.0, static_cast<double>(length) / static_cast<double>(model.train_length));
    if (model.max_positions && fed > *model.max_positions) {
      context.results.add_row(missing(context, variant.name, length, status::kPositions));
      return;
    }
    const bool swapped = variant.kind != "plain" && variant.kind != "crop";
    if (swapped && (context.variants == nullptr || (variant.kind == "logit_scale" && context.fitting == nullptr))) {
      context.results.add_row(missing(context, variant.name, length, status::kEncoding));
      return;
    }
    const schema::Rows& rows = context.results.item(cat("extension/", variant.name, "/", length), [&] {
      double fitted = kMissing;
      std::unique_ptr<Scorer> other;
      if (variant.kind == "logit_scale") {
        other = made_or_null(*context.variants, scaled_encoding(context.variants->encoding(), 1));
        if (other) {
          fitted = fit(context, length, longest, targets);
          other = context.variants->make(scaled_encoding(context.variants->encoding(), scale(fitted, factor)));
        }
      } else if (swapped) {
        other = changed(*context.variants, variant, factor);
      }
      schema::Rows made;
      made.add(FittedScale{fitted});
      if (swapped && other == nullptr) return made;
      Scorer& scorer = other ? *other : context.scorer;
      const auto sums = score(context, scorer, context.documents, ids, fed, longest, targets);
      for (std::size_t d = 0; d < ids.size(); ++d) {
        made.add(schema::ExtensionDocument{.corpus = context.documents.split(),
                                           .variant = variant.name,
                                           .length = length,
                                           .doc_id = ids[d],
                                           .tokens_scored = static_cast<std::int64_t>(sums[d].second),
                                           .nll_sum = sums[d].first});
      }
      return made;
    });
    if (rows.of<schema::ExtensionDocument>().empty()) {
      context.results.add_row(missing(context, variant.name, length, status::kEncoding));
      return;
    }
    summarise(context, variant.name, length, factor, rows);
  }

  static double scale(double a, double factor) { return 1 + a * std::log(factor); }

  /// Σ nll and tokens of each document: the `targets` tokens before each anchor, from the `fed` tokens that end there.
  static std::vector<std::pair<double, double>> score(TaskContext& context, Scorer& scorer,
                                                      const DocumentSource& documents,
                                                      const std::vector<std::int64_t>& ids, std::int64_t fed,
                                                      std::int64_t longest, std::int64_t targets) {
    std::vector<Sequence> sequences;
    std::vector<std::size_t> owner;
    for (std::size_t d = 0; d < ids.size(); ++d) {
      const Document document = documents.read(ids[d], documents.tokens(ids[d]));
      const auto n = static_cast<std::int64_t>(document.ids.size());
      for (const std::int64_t end : anchors(ids[d], n, longest, kAnchors)) {
        for (const Window& window : anchored_windows(end, fed, targets)) {
          Sequence sequence;
          sequence.ids.assign(document.ids.begin() + window.begin, document.ids.begin() + window.end);
          sequence.first = window.score_begin - window.begin;
          sequence.last = window.score_end - window.begin;
          sequence.guesses = false;
          sequences.push_back(std::move(sequence));
          owner.push_back(d);
        }
      }
    }
    const std::vector<MeanScore> scores = score_all(scorer, sequences, context.settings.draws);
    std::vector<std::pair<double, double>> sums(ids.size());
    for (std::size_t i = 0; i < scores.size(); ++i) {
      for (const double nll : scores[i].nll) sums[owner[i]].first += nll;
      sums[owner[i]].second += static_cast<double>(scores[i].nll.size());
    }
    return sums;
  }

  /// The a with the smallest loss on validation documents; 0 within the training length, where it has no effect.
  double fit(TaskContext& context, std::int64_t length, std::int64_t longest, std::int64_t targets) const {
    const double factor = static_cast<double>(length) / static_cast<double>(context.scorer.capabilities().train_length);
    if (factor <= 1) return 0;
    std::vector<std::int64_t> ids = select_documents(*context.fitting, longest, fit_documents_);
    if (ids.empty()) {
      throw support::ConfigError(cat("extension: no ", context.fitting->split(), " document has ", longest,
                                     " tokens, and the scale of logits is chosen on such"),
                                 {}, "lower eval.lengths, or leave logit_scale out of eval.extension.variants");
    }
    double best = 0, least = std::numeric_limits<double>::infinity();
    for (const double a : scales_) {
      const auto scorer = context.variants->make(scaled_encoding(context.variants->encoding(), scale(a, factor)));
      double nll = 0;
      for (const auto& [sum, tokens] : score(context, *scorer, *context.fitting, ids, length, longest, targets))
        nll += sum;
      if (nll < least) {
        least = nll;
        best = a;
      }
    }
    return best;
  }

  static void summarise(TaskContext& context, const std::string& variant, std::int64_t length, double factor,
                        const schema::Rows& rows) {
    std::vector<double> nll, tokens;
    double total = 0;
    for (const schema::ExtensionDocument& row : rows.of<schema::ExtensionDocument>()) {
      tokens.push_back(static_cast<double>(row.tokens_scored));
      nll.push_back(row.nll_sum);
      total += tokens.back();
    }
    const statistics::Ratio mean_nll = statistics::ratio_of_sums(nll, tokens);
    const double perplexity = std::exp(mean_nll.value);
    const bool fine = std::isfinite(perplexity) && perplexity <= statistics::kOverflowPerplexity;
    context.results.add_row(schema::Extension{.corpus = context.documents.split(),
                                              .variant = variant,
                                              .length = length,
                                              .factor = factor,
                                              .fitted = rows.of<FittedScale>().at(0).a,
                                              .n_docs = std::ssize(nll),
                                              .tokens_scored = static_cast<std::int64_t>(total),
                                              .nll_mean = mean_nll.value,
                                              .ppl = perplexity,
                                              .se_nll = mean_nll.se,
                                              .ci_lo = mean_nll.low(),
                                              .ci_hi = mean_nll.high(),
                                              .status = fine ? status::kOk : status::kOverflow});
  }

  static schema::Extension missing(TaskContext& context, const std::string& variant, std::int64_t length,
                                   const char* why, std::optional<std::int64_t> documents = std::nullopt) {
    return {
        .corpus = context.documents.split(), .variant = variant, .length = length, .n_docs = documents, .status = why};
  }

  std::vector<std::string> variants_ = plain_variants();
  std::int64_t targets_ = 256;
  std::vector<double> scales_ = {0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5};
  std::int64_t fit_documents_ = 16;
  std::vector<double> bases_ = {50'000, 500'000, 5'000'000};
  std::vector<double> fractions_ = {0.75, 0.5};
  std::int64_t bands_ = 4;
};

}  // namespace

TaskEntry extension_task() {
  return {.name = "extension",
          .summary = "One rotary checkpoint at longer contexts under every static rule, untrained: variant x length.",
          .tables = {"lm_extension_doc", "lm_extension"},
          .make = make_task<Extension>};
}

}  // namespace pe::evaluation
