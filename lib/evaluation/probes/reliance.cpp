// Inputs that a model relies on: its encoding, the order of its context, the position of the text, and its contiguity.
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "encodings/attention/positional_encoding.h"
#include "encodings/registry.h"
#include "evaluation/items.h"
#include "evaluation/model_variants.h"
#include "evaluation/probes/probe_texts.h"
#include "evaluation/windows.h"
#include "statistics/estimates.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

using support::cat;

constexpr std::int64_t kEnds = 4;  // of a document at which a shuffled context is tested

const std::vector<std::string>& test_names() {
  static const std::vector<std::string> names = {"without_encoding", "constant_position", "shuffled_prefix",
                                                 "translation", "gap"};
  return names;
}

class Reliance final : public Task {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("sequences", sequences_, "Held-out texts of the training length.",
            {.min = 1, .max = 100000, .neutral = Json(64)});
    v.field("tests", tests_, "Changes of the model or its input: " + support::join(test_names(), ", ") + ".",
            {.neutral = Json(test_names())});
    v.field("kept", kept_, "shuffled_prefix: tokens at the end that keep their order; the next one is scored.",
            {.unit = "tokens", .min = 1, .neutral = Json(kept_)});
    v.field("offsets", offsets_,
            "Shift of the positions of all tokens (translation) or of the second half (gap); 0: the training length.",
            {.unit = "tokens", .min = 0, .neutral = Json(offsets_)});
    for (const std::string& name : tests_) {
      v.check(std::find(test_names().begin(), test_names().end(), name) != test_names().end(),
              cat("unknown test ", support::quote(name), "; ", support::suggestion(name, test_names())));
    }
  }

  void run(TaskContext& context) const override {
    const model::LanguageModel& model = probed_model(context);
    const std::int64_t length = model.config().length;
    const auto missing = [&](const std::string& test, std::int64_t amount, const char* why) {
      context.results.add_row(schema::ProbeReliance{
          .corpus = context.documents.split(), .length = length, .test = test, .amount = amount, .status = why});
    };
    std::vector<Case> cases;
    for (const std::string& test : tests_) {
      if (test == "shuffled_prefix") {
        for (const std::int64_t kept : kept_) cases.push_back({test, kept});
      } else if (test == "translation" || test == "gap") {
        for (const std::int64_t offset : offsets_) cases.push_back({test, offset == 0 ? length : offset});
      } else {
        cases.push_back({test, 0});
      }
    }
    const ProbeLengths lengths = probe_lengths(context, {length}, sequences_, [&](std::int64_t, const char* why) {
      for (const Case& one : cases) missing(one.test, one.amount, why);
    });
    if (lengths.live.empty()) return;
    const auto texts = probe_texts(context.documents, length, length, sequences_, context.text.bos());
    for (const Case& one : cases) {
      if (one.test == "shuffled_prefix" && one.amount > length - 3) {
        missing(one.test, one.amount, status::kLength);
        continue;
      }
      const auto limit = context.scorer.capabilities().max_positions;
      if ((one.test == "translation" || one.test == "gap") && limit && length + one.amount > *limit) {
        missing(one.test, one.amount, status::kPositions);
        continue;
      }
      // An encoding that makes several heads of a query has weights of another shape than none.
      const bool has_weights_of_none =
          context.variants && encodings::heads_per_query(context.variants->encoding()) == 1;
      if (one.test == "without_encoding" && !has_weights_of_none) {
        missing(one.test, one.amount, status::kEncoding);
        continue;
      }
      const bool moves = one.test == "constant_position" || one.test == "translation" || one.test == "gap";
      if (moves && sets_positions(model)) {
        missing(one.test, one.amount, status::kEncoding);
        continue;
      }
      try {
        context.results.item(cat("reliance/", one.test, "/", one.amount),
                             [&] { return measure(context, model, texts, length, one); });
      } catch (const encodings::RangeError&) {  // a table that is stretched has no bound, and no moved positions
        missing(one.test, one.amount, status::kPositions);
      }
    }
  }

 private:
  struct Case {
    std::string test;
    std::int64_t amount = 0;
  };

  /// Moves the tokens of the model under test. @returns the first token that is scored
  static std::int64_t move_positions(const Case& one, std::int64_t length, at::Device device,
                                     model::ForwardOptions& options) {
    std::int64_t begin = 1;
    const auto longs = at::TensorOptions(at::kLong).device(device);
    if (one.test == "constant_position") options.positions = at::zeros({length}, longs);
    if (one.test == "translation") options.position = one.amount;
    if (one.test == "gap") {
      const std::int64_t half = length / 2;
      options.positions = at::arange(length, longs);
      options.positions.narrow(0, half, length - half).add_(one.amount);
      begin = half + 1;  // tokens that look across the gap
    }
    return begin;
  }

  schema::Rows measure(TaskContext& context, const model::LanguageModel& model, const std::vector<TokenIds>& texts,
                       std::int64_t length, const Case& one) const {
    const std::int64_t tokens = context.settings.batch_tokens;
    std::vector<double> before, after, scored;
    if (one.test == "shuffled_prefix") {
      std::vector<std::size_t> owner;
      std::vector<TokenIds> plain, shuffled;
      ends_of_documents(context, length, one.amount, plain, shuffled, owner);
      const auto a = summed_losses(model, plain, length - 1, length, tokens);
      const auto b = summed_losses(model, shuffled, length - 1, length, tokens);
      before.resize(texts.size());
      after.resize(texts.size());
      scored.resize(texts.size());
      for (std::size_t i = 0; i < owner.size(); ++i) {
        before[owner[i]] += a[i];
        after[owner[i]] += b[i];
        ++scored[owner[i]];
      }
    } else {
      model::ForwardOptions options;
      const std::int64_t begin = move_positions(one, length, model.device(), options);
      before = summed_losses(model, texts, begin, length, tokens);
      if (one.test == "without_encoding") {
        const auto other = context.variants->make(Json("none"));
        std::vector<Sequence> sequences;
        for (const TokenIds& ids : texts) sequences.push_back({ids, begin, length, /*guesses=*/false});
        for (const MeanScore& score : score_all(*other, sequences, 1)) {
          double sum = 0;
          for (const double nll : score.nll) sum += nll;
          after.push_back(sum);
        }
      } else {
        after = summed_losses(model, texts, begin, length, tokens, options);
      }
      scored.assign(texts.size(), static_cast<double>(length - begin));
    }
    std::vector<double> change;
    double total = 0;
    for (std::size_t i = 0; i < before.size(); ++i) {
      change.push_back(after[i] - before[i]);
      total += scored[i];
    }
    const statistics::Ratio base = statistics::ratio_of_sums(before, scored),
                            changed = statistics::ratio_of_sums(after, scored),
                            delta = statistics::ratio_of_sums(change, scored);
    const bool fine = std::isfinite(delta.value);
    schema::Rows rows;
    rows.add(schema::ProbeReliance{.corpus = context.documents.split(),
                                   .length = length,
                                   .test = one.test,
                                   .amount = one.amount,
                                   .n_docs = std::ssize(texts),
                                   .tokens_scored = static_cast<std::int64_t>(total),
                                   .nll_plain = base.value,
                                   .nll = changed.value,
                                   .delta = delta.value,
                                   .se = delta.se,
                                   .ci_lo = delta.low(),
                                   .ci_hi = delta.high(),
                                   .status = fine ? status::kOk : status::kOverflow});
    return rows;
  }

  /// Windows of `length` tokens before up to four ends of each document; and the same with all but the last `kept`
  /// tokens of the context in another order.
  void ends_of_documents(TaskContext& context, std::int64_t length, std::int64_t kept, std::vector<TokenIds>& plain,
                         std::vector<TokenIds>& shuffled, std::vector<std::size_t>& owner) const {
    const std::vector<std::int64_t> ids = select_documents(context.documents, length, sequences_);
    for (std::size_t d = 0; d < ids.size(); ++d) {
      const Document document = context.documents.read(ids[d], context.documents.tokens(ids[d]));
      const auto n = static_cast<std::int64_t>(document.ids.size());
      for (const std::int64_t end : anchors(ids[d], n, length, kEnds)) {
        TokenIds window(document.ids.begin() + (end - length), document.ids.begin() + end);
        plain.push_back(window);
        // The last token is the target; tokens before the `kept` ones in front of it may move.
        TokenIds moved(window.begin(), window.end() - 1 - kept);
        support::Xoshiro random(probe_key("reliance", end, ids[d]));
        random.shuffle(moved);
        std::copy(moved.begin(), moved.end(), window.begin());
        shuffled.push_back(std::move(window));
        owner.push_back(d);
      }
    }
  }

  std::int64_t sequences_ = 64;
  std::vector<std::string> tests_ = test_names();
  std::vector<std::int64_t> kept_ = {1, 4, 16};
  std::vector<std::int64_t> offsets_ = {1, 64, 0};
};

}  // namespace

TaskEntry reliance_task() {
  return {
      .name = "reliance",
      .summary = "Probe: loss without the encoding, at one position, with a shuffled prefix, translated, across a gap.",
      .tables = {"probe_reliance"},
      .make = make_task<Reliance>};
}

}  // namespace pe::evaluation
