// Perplexity against context length, on the same documents at every length.
#include <algorithm>
#include <cmath>
#include <list>
#include <map>
#include <utility>

#include "evaluation/language_modelling/length_numbers.h"
#include "evaluation/language_modelling/lm_scoring.h"
#include "evaluation/language_modelling/position_curve.h"
#include "evaluation/lm_protocols.h"
#include "evaluation/skipped_contexts.h"
#include "evaluation/stream_documents.h"
#include "evaluation/task.h"
#include "statistics/estimates.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

using support::cat;

/// Documents of an item: enough to fill batches, few enough that a killed evaluation loses little and memory is
/// bounded.
constexpr std::int64_t kDocumentsPerItem = 16;

/// One kind of text, and the protocols that are measured on the same documents of it.
struct Part {
  TextKind kind;
  std::vector<std::size_t> protocols;  ///< places in the config's list
  const DocumentSource& source;
  StreamDocuments* stream;    ///< the source, where it is one
  std::string item;           ///< its name in the journal
  std::int64_t contexts = 1;  ///< that a document must hold
  std::int64_t longest = 0;   ///< the longest context that enough texts hold; 0: none
  std::map<std::int64_t, std::int64_t> skipped = {};  ///< longer contexts → texts that hold them
};

class Perplexity final : public Task {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field(
        "protocols", protocols_,
        "How texts are cut: " + support::join(lm_protocol_names(), ", ") + "; `pe-evaluate --list` says what each is.");
    v.field("stride", stride_, "Tokens between the starts of sliding windows; 0 leaves it to stride_share.",
            {.unit = "tokens", .min = 0});
    v.field("stride_share", stride_share_,
            "The same as a share of the context; 0: 256 from 1,024 tokens on, a quarter of the context below.",
            {.min = 0, .max = 1});
    v.field("min_context", min_context_,
            "In sliding windows, tokens with fewer before them in the window are not scored.",
            {.unit = "tokens", .min = 0, .neutral = Json(0)});
    v.choice("scored", scored_, {{"common", ScoredTokens::kCommon}, {"all", ScoredTokens::kAll}},
             "Tokens that blocks and sliding score: the tokens beyond the longest context, which are the same at "
             "every length; or every token once.",
             {.neutral = Json("common")});
    v.field("targets", targets_,
            "Tokens scored by tail at the end of a window, at most half of it, and by anchored before each end, at "
            "most half the "
            "longest context.",
            {.unit = "tokens", .min = 1, .neutral = Json(256)});
    v.field("tolerance", tolerance_, "Rise of perplexity over its value at the training length that counts as usable.",
            {.min = 0, .neutral = Json(0.05)});
    v.field("margin", margin_, "Distance from the best loss within which a context counts as effective.",
            {.unit = "nats", .min = 0, .neutral = Json(0.01)});
    v.field("words", words_, "Also nats per word, words being what white space parts (table lm_words).",
            {.neutral = Json(false)});
    v.check(!protocols_.empty(), "perplexity needs at least one protocol");
    for (const std::string& name : protocols_) {
      v.check(find_lm_protocol(name) != nullptr,
              cat("unknown protocol ", support::quote(name), "; ", support::suggestion(name, lm_protocol_names())));
    }
    v.check(stride_ == 0 || stride_share_ == 0, "give either `stride` or `stride_share`");
  }

  void run(TaskContext& context) const override {
    std::vector<Part> parts = document_parts(context);
    std::list<StreamDocuments> streams;
    for (const TextKind kind : {TextKind::kStream, TextKind::kBlankLineStream}) {
      const std::vector<std::size_t> chosen =
          protocols_of([&](const LmProtocol& protocol) { return protocol.text == kind; });
      if (chosen.empty()) continue;
      std::vector<std::int32_t> joint;
      std::int64_t bytes = 0;
      if (kind == TextKind::kStream && context.text.bos()) joint = {*context.text.bos()};
      if (kind == TextKind::kBlankLineStream) {
        joint = context.text.encode_inside("\n\n");
        bytes = 2;
      }
      StreamDocuments& stream = streams.emplace_back(context.documents, std::move(joint), bytes);
      parts.push_back(
          {kind, chosen, stream, &stream, kind == TextKind::kStream ? "perplexity/stream" : "perplexity/blank-lines"});
    }
    std::vector<SkippedContexts> skipped;
    for (Part& part : parts) {
      find_longest(context, part);
      std::vector<std::string> names;
      for (const std::size_t p : part.protocols) names.push_back(protocols_[p]);
      skipped.push_back({support::join(names, ", "), part.skipped, part.contexts, part.stream ? "piece" : "document"});
    }
    warn_of_skipped(context, "perplexity", skipped, least(context));
    std::vector<schema::Rows> summaries(protocols_.size());  // of all settings, in order
    for (const Part& part : parts) measure(context, part, summaries);
    for (const schema::Rows& rows : summaries) context.results.add(rows);
  }

 private:
  enum class ScoredTokens { kCommon, kAll };

  template <typename Choice>
  std::vector<std::size_t> protocols_of(const Choice& choice) const {
    std::vector<std::size_t> chosen;
    for (std::size_t p = 0; p < protocols_.size(); ++p) {
      if (choice(*find_lm_protocol(protocols_[p]))) chosen.push_back(p);
    }
    return chosen;
  }

  /// All protocols on the same documents, where enough of them hold twice the longest context, which blocks and sliding
  /// need. Else those two stop where documents end, and the others continue.
  std::vector<Part> document_parts(TaskContext& context) const {
    const auto of_documents = [](const LmProtocol& protocol) { return protocol.text == TextKind::kDocuments; };
    const auto all = protocols_of(of_documents), following = protocols_of(follows);
    const auto others =
        protocols_of([&](const LmProtocol& protocol) { return of_documents(protocol) && !follows(protocol); });
    if (all.empty()) return {};
    const DocumentSource& source = context.documents;
    const bool enough = count_documents(source, 2 * context.lengths.back()) >= least(context);
    if (following.empty() || others.empty() || enough) {
      const std::int64_t contexts = following.empty() ? 1 : 2;
      return {{TextKind::kDocuments, all, source, nullptr, "perplexity", contexts}};
    }
    context.progress.note(
        "perplexity: blocks and sliding use separate documents, since too few have twice the longest context");
    return {{TextKind::kDocuments, others, source, nullptr, "perplexity", 1},
            {TextKind::kDocuments, following, source, nullptr, "perplexity/windows", 2}};
  }

  static std::int64_t least(const TaskContext& context) {
    return std::min(context.settings.min_documents, context.settings.documents);
  }

  /// Settings of the protocols of a part, with their sums and rows.
  struct Findings {
    std::vector<LmSetting> live;                             ///< that texts and positions are there for
    std::vector<std::pair<std::size_t, std::size_t>> place;  ///< of the live ones: protocol, setting of that protocol
    std::vector<std::vector<schema::Rows>> cells;            ///< protocol → setting
    std::vector<std::vector<LmSums>> sums;                   ///< live setting → document
    std::vector<schema::Rows> items;
  };

  /// Fills `longest` and `skipped` of a part.
  static void find_longest(TaskContext& context, Part& part) {
    const Settings& settings = context.settings;
    StreamDocuments* const stream = part.stream;
    // Texts do not depend on the model: a length that this model has no positions for still selects them.
    for (auto length = context.lengths.rbegin(); length != context.lengths.rend() && part.longest == 0; ++length) {
      const std::int64_t there =
          stream != nullptr ? stream->pieces(*length) : count_documents(part.source, part.contexts * *length);
      if (there >= least(context))
        part.longest = *length;
      else
        part.skipped[*length] = there;
    }
    if (stream == nullptr && part.longest > 0 && settings.document_tokens > 0 &&
        settings.document_tokens < part.contexts * part.longest) {
      throw support::ConfigError(
          cat("eval.document_tokens is ", settings.document_tokens, ", but the longest context is ", part.longest,
              " tokens", part.contexts == 2 ? ", and blocks and sliding need twice as many" : ""),
          {}, "raise eval.document_tokens, or lower eval.lengths or eval.context");
    }
  }

  Findings plan_settings(TaskContext& context, const Part& part) const {
    const Settings& settings = context.settings;
    const auto& limit = context.scorer.capabilities().max_positions;
    Findings found;
    found.cells.resize(protocols_.size());
    for (const std::size_t p : part.protocols) {
      const LmProtocol& protocol = *find_lm_protocol(protocols_[p]);
      BosPolicy bos = protocol.bos.value_or(settings.bos);
      if (!context.text.bos()) bos = BosPolicy::kNone;
      std::vector<std::int64_t> lengths = context.lengths;
      if (protocol.cut == Cut::kPosition) {
        // One curve serves all lengths: the longest that there are texts and positions for.
        std::erase_if(lengths,
                      [&](std::int64_t length) { return length > part.longest || (limit && length > *limit); });
        if (lengths.empty()) continue;
        lengths = {lengths.back()};
      }
      for (const std::int64_t length : lengths) {
        const LmSetting setting{&protocol, length, stride_of(protocol, length), bos};
        if (const auto skipped = part.skipped.find(length); skipped != part.skipped.end()) {
          found.cells[p].push_back(missing(context, setting, skipped->second, status::kSkipped));
        } else if (limit && length > *limit) {
          found.cells[p].push_back(missing(context, setting, std::nullopt, status::kPositions));
        } else {
          found.place.emplace_back(p, found.cells[p].size());
          found.cells[p].emplace_back();
          found.live.push_back(setting);
        }
      }
    }
    return found;
  }

  void score_documents_of(TaskContext& context, const Part& part, const LmCutting& cutting,
                          const std::vector<std::int64_t>& ids, Findings& found) const {
    std::vector<std::size_t> summed;  // settings that have rows by document
    for (std::size_t setting = 0; setting < found.live.size(); ++setting) {
      if (found.live[setting].protocol->cut != Cut::kPosition) summed.push_back(setting);
    }
    found.sums.resize(found.live.size());
    for (std::size_t begin = 0; begin < ids.size(); begin += kDocumentsPerItem) {
      const std::size_t end = std::min(ids.size(), begin + static_cast<std::size_t>(kDocumentsPerItem));
      const std::vector<std::int64_t> some(ids.begin() + static_cast<std::ptrdiff_t>(begin),
                                           ids.begin() + static_cast<std::ptrdiff_t>(end));
      const auto watch = [&](double share) {
        const double done = static_cast<double>(begin) + share * static_cast<double>(end - begin);
        context.progress.advance(part.item + ": documents", static_cast<std::int64_t>(done), std::ssize(ids));
      };
      const schema::Rows& rows = context.results.item(cat(part.item, "/", begin, "-", end), [&] {
        const LmModel model{context.scorer, context.text, context.settings.draws, watch};
        return score(context, part.source, model, found.live, cutting, some, static_cast<std::int64_t>(begin));
      });
      schema::Rows documents;
      std::size_t row = 0;  // documents in order, settings within
      for (const LmSums& sum : rows.of<LmSums>()) {
        found.sums[summed[row++ % summed.size()]].push_back(sum);
        documents.add<schema::LmDocument>(sum);
      }
      context.results.add(documents);
      found.items.push_back(rows);
      watch(1);  // also where an earlier attempt had scored them
    }
  }

  void measure(TaskContext& context, const Part& part, std::vector<schema::Rows>& summaries) const {
    const Settings& settings = context.settings;
    StreamDocuments* const stream = part.stream;
    const std::int64_t longest = part.longest;
    const LmCutting cutting{
        .longest = longest,
        .cut = stream == nullptr ? std::max(settings.document_tokens, part.contexts * longest) : longest,
        .targets = targets_,
        .min_context = min_context_,
        .common = scored_ == ScoredTokens::kCommon,
        .words = words_};
    Findings found = plan_settings(context, part);
    const bool reaches_back = std::any_of(part.protocols.begin(), part.protocols.end(),
                                          [&](std::size_t p) { return find_lm_protocol(protocols_[p])->whole; });
    if (stream != nullptr && longest > 0) stream->cut_at(longest, reaches_back ? longest : 0);
    std::vector<std::int64_t> ids;
    if (!found.live.empty()) ids = select_documents(part.source, part.contexts * longest, settings.documents);
    score_documents_of(context, part, cutting, ids, found);
    for (std::size_t setting = 0; setting < found.live.size(); ++setting) {
      const auto [p, at] = found.place[setting];
      if (found.live[setting].protocol->cut == Cut::kPosition) {
        found.cells[p][at] =
            position_tables(context.documents.split(), found.items, context.scorer.capabilities().train_length);
        continue;
      }
      found.cells[p][at].add(summarise(context, found.live[setting], found.sums[setting]));
      if (words_) found.cells[p][at].add(in_words(context, found.live[setting], found.sums[setting]));
    }
    for (const std::size_t p : part.protocols) {
      for (const schema::Rows& rows : found.cells[p]) summaries[p].append(rows);
      if (!found.cells[p].empty() && find_lm_protocol(protocols_[p])->cut == Cut::kAnchored) {
        summaries[p].append(length_numbers(context, p, found.live, found.sums, found.place));
      }
    }
  }

  std::int64_t stride_of(const LmProtocol& protocol, std::int64_t length) const {
    if (protocol.cut != Cut::kSliding) return length;
    std::int64_t stride = stride_;
    if (protocol.stride == kStrideHalf) {
      stride = length / 2;
    } else if (protocol.stride != kStrideAsConfigured) {
      stride = protocol.stride;
    } else {
      if (stride == 0 && stride_share_ > 0) stride = std::llround(stride_share_ * static_cast<double>(length));
      if (stride == 0 && stride_share_ == 0) stride = default_stride(length);
    }
    return std::clamp<std::int64_t>(stride, 1, length);
  }

  schema::Rows score(TaskContext& context, const DocumentSource& source, const LmModel& model,
                     const std::vector<LmSetting>& live, const LmCutting& cutting, const std::vector<std::int64_t>& ids,
                     std::int64_t first) const {
    const LmScores scores = score_documents(model, source, live, cutting, ids, first);
    schema::Rows rows;
    for (std::size_t d = 0; d < ids.size(); ++d) {
      for (std::size_t setting = 0; setting < live.size(); ++setting) {
        if (live[setting].protocol->cut != Cut::kPosition) rows.add(scores.sums[d][setting]);
      }
    }
    rows.append(position_items(scores.by_position, context.scorer.capabilities().train_length));
    return rows;
  }

  /// Numbers that summarize the anchored curve of protocol `p`.
  schema::Rows length_numbers(TaskContext& context, std::size_t p, const std::vector<LmSetting>& live,
                              const std::vector<std::vector<LmSums>>& sums,
                              const std::vector<std::pair<std::size_t, std::size_t>>& place) const {
    LengthCurve curve;
    for (std::size_t setting = 0; setting < live.size(); ++setting) {
      if (place[setting].first != p) continue;
      curve.lengths.push_back(live[setting].length);
      curve.nll.emplace_back();
      curve.tokens.emplace_back();
      for (const LmSums& sum : sums[setting]) {
        curve.nll.back().push_back(sum.score.nll);
        curve.tokens.back().push_back(static_cast<double>(sum.score.tokens));
      }
    }
    schema::Rows rows;
    if (curve.lengths.empty()) return rows;
    const std::int64_t train = context.scorer.capabilities().train_length;
    const bool has_train = std::find(curve.lengths.begin(), curve.lengths.end(), train) != curve.lengths.end();
    struct Measure {
      std::string name;
      std::optional<std::int64_t> length;
      bool needs_train;
    };
    std::vector<Measure> measures;
    std::vector<LengthNumber> numbers;
    const auto add = [&](std::string name, std::optional<std::int64_t> length, bool needs_train,
                         LengthNumber number_of) {
      measures.push_back({std::move(name), length, needs_train});
      numbers.push_back(std::move(number_of));
    };
    add("effective_context", std::nullopt, false,
        [this](const auto& lengths, const auto& losses) { return effective_context(lengths, losses, margin_); });
    add("usable_context", std::nullopt, true, [this, train](const auto& lengths, const auto& losses) {
      return usable_context(lengths, losses, train, tolerance_);
    });
    add("degradation_auc", std::nullopt, true,
        [train](const auto& lengths, const auto& losses) { return degradation(lengths, losses, train); });
    for (std::size_t at = 0; at < curve.lengths.size(); ++at) {
      add("ratio", curve.lengths[at], true, [train, at](const auto& lengths, const auto& losses) {
        return perplexity_ratio(lengths, losses, train, at);
      });
    }
    const std::vector<WithInterval> values = with_intervals(curve, numbers);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const WithInterval& value = values[i];
      const char* state = status::kOk;
      if (measures[i].needs_train && !has_train)
        state = status::kUncovered;
      else if (std::isnan(value.value))
        state = status::kNone;
      else if (!std::isfinite(value.value) ||
               (measures[i].name == "ratio" && value.value > statistics::kOverflowPerplexity)) {
        state = status::kOverflow;
      }
      rows.add(schema::LmLength{.corpus = context.documents.split(),
                                .protocol = protocols_[p],
                                .measure = measures[i].name,
                                .length = measures[i].length,
                                .n_docs = std::ssize(curve.nll[0]),
                                .value = value.value,
                                .ci_lo = value.low,
                                .ci_hi = value.high,
                                .status = state});
    }
    return rows;
  }

  static schema::LmSummary summarise(TaskContext& context, const LmSetting& setting, const std::vector<LmSums>& sums) {
    std::vector<double> nll, tokens;
    std::int64_t total_tokens = 0, total_bytes = 0;
    double total_nll = 0, total_context = 0;
    for (const LmSums& sum : sums) {
      nll.push_back(setting.protocol->window_mean ? sum.window_means : sum.score.nll);
      tokens.push_back(static_cast<double>(setting.protocol->window_mean ? sum.windows : sum.score.tokens));
      total_tokens += sum.score.tokens;
      total_bytes += sum.score.bytes;
      total_nll += sum.score.nll;
      total_context += sum.context;
    }
    const statistics::Ratio mean_nll = statistics::ratio_of_sums(nll, tokens);
    const double perplexity = std::exp(mean_nll.value);
    const bool fine = std::isfinite(perplexity) && perplexity <= statistics::kOverflowPerplexity;
    schema::LmSummary row = head(context, setting);
    row.n_docs = std::ssize(sums);
    row.tokens_scored = total_tokens;
    if (total_tokens > 0) row.mean_context = total_context / static_cast<double>(total_tokens);
    row.nll_mean = mean_nll.value;
    row.ppl = perplexity;
    if (total_bytes > 0) row.bpb = total_nll / (std::log(2.0) * static_cast<double>(total_bytes));
    row.se_nll = mean_nll.se;
    row.ci_lo = mean_nll.low();
    row.ci_hi = mean_nll.high();
    // No token has min_context tokens before it.
    row.status = total_tokens == 0 ? status::kLength : fine ? status::kOk : status::kOverflow;
    return row;
  }

  /// The same in words. One document with unknown words leaves the cell without a number.
  static schema::LmWords in_words(TaskContext& context, const LmSetting& setting, const std::vector<LmSums>& sums) {
    std::vector<double> nll, words;
    std::int64_t total = 0;
    bool known = true;
    for (const LmSums& sum : sums) {
      nll.push_back(sum.score.nll);
      words.push_back(static_cast<double>(sum.words));
      total += sum.words;
      known = known && sum.words >= 0;
    }
    schema::LmWords row{.corpus = context.documents.split(),
                        .protocol = setting.protocol->name,
                        .length = setting.length,
                        .stride = setting.stride,
                        .n_docs = std::ssize(sums),
                        .status = status::kMeasure};
    if (!known || total == 0) return row;
    const statistics::Ratio mean = statistics::ratio_of_sums(nll, words);
    row.words_scored = total;
    row.nats_per_word = mean.value;
    row.ppl_word = std::exp(mean.value);
    row.se = mean.se;
    row.ci_lo = mean.low();
    row.ci_hi = mean.high();
    row.status = std::isfinite(row.ppl_word) ? status::kOk : status::kOverflow;
    return row;
  }

  static schema::LmSummary head(TaskContext& context, const LmSetting& setting) {
    return {.corpus = context.documents.split(),
            .protocol = setting.protocol->name,
            .length = setting.length,
            .stride = setting.stride,
            .bos_policy = bos_policy_name(setting.bos)};
  }

  static schema::Rows missing(TaskContext& context, const LmSetting& setting, std::optional<std::int64_t> documents,
                              const char* why) {
    schema::LmSummary row = head(context, setting);
    row.n_docs = documents;
    row.status = why;
    schema::Rows rows;
    rows.add(std::move(row));
    return rows;
  }

  std::vector<std::string> protocols_ = {"prefix", "blocks", "sliding"};
  std::int64_t stride_ = 0;
  double stride_share_ = 0;
  std::int64_t min_context_ = 0;
  ScoredTokens scored_ = ScoredTokens::kCommon;
  std::int64_t targets_ = 256;
  double tolerance_ = 0.05;
  double margin_ = 0.01;
  bool words_ = false;
};

}  // namespace

TaskEntry perplexity_task() {
  return {.name = "perplexity",
          .summary = "Perplexity and bits per byte against context length, loss by position, effective context.",
          .tables = {"lm_doc", "lm_summary", "lm_words", "lm_position", "lm_length"},
          .make = make_task<Perplexity>};
}

}  // namespace pe::evaluation
