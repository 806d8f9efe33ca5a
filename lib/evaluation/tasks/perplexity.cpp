// Perplexity against context length, on the same documents at every length.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "evaluation/summary.h"
#include "evaluation/task.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

using artifact::Cell;
using support::cat;

/// Documents of an item: enough to fill batches, few enough that a killed evaluation loses little and memory is bounded.
constexpr std::int64_t kDocumentsPerItem = 16;

/// Perplexities above this are not numbers to compare.
constexpr double kOverflowPerplexity = 1e4;

/// One protocol at one context length.
struct Setting {
  Protocol protocol;
  std::int64_t length;
  std::int64_t stride;   ///< `length` where windows do not overlap
};

/// What one setting sums up of one document.
struct Sums {
  std::int64_t tokens = 0;
  std::int64_t bytes = 0;
  double nll = 0;
};

/// The document as windows see it: with its separator, if the policy puts one there.
struct Text {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> bytes;
};

/// A window that must be fed, and who wants which of its tokens [from, to).
struct Wanted {
  std::size_t setting;
  std::int64_t from, to;
};
using Requests = std::map<std::pair<std::int64_t, std::int64_t>, std::vector<Wanted>>;

class Perplexity final : public Task {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("protocols", protocols_, "How documents are cut: prefix, blocks, sliding.");
    v.field("stride", stride_, "Tokens between the starts of sliding windows; 0 leaves it to stride_share.",
            {.unit = "tokens", .min = 0});
    v.field("stride_share", stride_share_,
            "The same as a share of the context; 0: 256 from 1,024 tokens on, a quarter of the context below.",
            {.min = 0, .max = 1});
    v.check(!protocols_.empty(), "perplexity needs at least one protocol");
    for (const std::string& name : protocols_) {
      v.check(find(name) != nullptr,
              cat("unknown protocol ", support::quote(name), "; ",
                  support::suggestion(name, {"prefix", "blocks", "sliding"})));
    }
    v.check(stride_ == 0 || stride_share_ == 0, "give either `stride` or `stride_share`");
  }

  void run(TaskContext& context) const override {
    const DocumentSource& source = context.documents;
    const Settings& settings = context.settings;
    const BosPolicy bos = context.text.bos() ? settings.bos : BosPolicy::kNone;
    const std::int64_t least = std::min(settings.min_documents, settings.documents);

    // Documents do not depend on the model: a length that this model has no positions for still selects them.
    std::int64_t longest = 0;
    std::map<std::int64_t, std::int64_t> skipped;   // context → documents that hold it
    for (auto length = context.lengths.rbegin(); length != context.lengths.rend() && longest == 0; ++length) {
      const std::int64_t there = count_documents(source, *length);
      if (there >= least) longest = *length;
      else skipped[*length] = there;
    }
    for (const auto& [length, there] : skipped) {
      context.progress.warn(cat("perplexity at ", length, " tokens is left out: ", there, " ", source.split(),
                                " documents hold as many, eval.min_documents asks for ", least));
    }
    if (longest > 0 && settings.document_tokens > 0 && settings.document_tokens < longest) {
      throw support::ConfigError(cat("eval.document_tokens is ", settings.document_tokens,
                                     ", but the longest context is ", longest, " tokens"),
                                 {}, "raise eval.document_tokens, or lower eval.lengths or eval.context");
    }
    const auto& limit = context.scorer.capabilities().max_positions;

    std::vector<Setting> live;
    std::vector<Rows> summaries;           // of all settings, in order
    std::vector<std::size_t> place;        // of the live ones among them
    for (const std::string& name : protocols_) {
      for (const std::int64_t length : context.lengths) {
        const Setting setting{*find(name), length, stride_of(*find(name), length)};
        if (skipped.count(length) != 0) {
          summaries.push_back(missing(context, setting, bos, Cell(skipped[length]), status::kSkipped));
        } else if (limit && length > *limit) {
          summaries.push_back(missing(context, setting, bos, Cell(), status::kPositions));
        } else {
          place.push_back(summaries.size());
          summaries.emplace_back();
          live.push_back(setting);
        }
      }
    }

    std::vector<std::int64_t> ids;
    if (!live.empty()) ids = select_documents(source, longest, settings.documents);
    const std::int64_t cut = settings.document_tokens > 0 ? settings.document_tokens : longest;
    std::vector<std::vector<Sums>> sums(live.size());   // setting → document
    for (std::size_t begin = 0; begin < ids.size(); begin += kDocumentsPerItem) {
      const std::size_t end = std::min(ids.size(), begin + static_cast<std::size_t>(kDocumentsPerItem));
      const std::vector<std::int64_t> part(ids.begin() + static_cast<std::ptrdiff_t>(begin),
                                           ids.begin() + static_cast<std::ptrdiff_t>(end));
      const Rows& rows = context.results.item(cat("perplexity/", begin, "-", end), [&] {
        return score_documents(context, live, bos, cut, part, static_cast<std::int64_t>(begin));
      });
      const std::vector<Row>& scored = rows.at("lm_doc");   // documents in order, settings within
      for (std::size_t row = 0; row < scored.size(); ++row) {
        sums[row % live.size()].push_back({static_cast<std::int64_t>(number(scored[row][5])),
                                           static_cast<std::int64_t>(number(scored[row][6])), number(scored[row][7])});
      }
      context.progress.advance("perplexity: documents", static_cast<std::int64_t>(end),
                               static_cast<std::int64_t>(ids.size()));
    }
    for (std::size_t setting = 0; setting < live.size(); ++setting) {
      summaries[place[setting]] = summarise(context, live[setting], bos, sums[setting]);
    }
    for (const Rows& rows : summaries) context.results.add(rows);
  }

 private:
  static const Protocol* find(const std::string& name) {
    static constexpr Protocol kAll[] = {Protocol::kPrefix, Protocol::kBlocks, Protocol::kSliding};
    for (const Protocol& protocol : kAll) {
      if (name == protocol_name(protocol)) return &protocol;
    }
    return nullptr;
  }

  std::int64_t stride_of(Protocol protocol, std::int64_t length) const {
    if (protocol != Protocol::kSliding) return length;
    std::int64_t stride = stride_;
    if (stride == 0 && stride_share_ > 0) stride = std::llround(stride_share_ * static_cast<double>(length));
    if (stride == 0 && stride_share_ == 0) stride = default_stride(length);
    return std::clamp<std::int64_t>(stride, 1, length);
  }

  Rows score_documents(TaskContext& context, const std::vector<Setting>& live, BosPolicy bos, std::int64_t cut,
                       const std::vector<std::int64_t>& ids, std::int64_t first) const {
    const bool separator = bos != BosPolicy::kNone;
    std::vector<Text> texts;
    std::vector<Sequence> sequences;
    struct Source {
      std::size_t document;
      std::int64_t from;                 // token of the text that the first score belongs to
      const std::vector<Wanted>* wanted;
    };
    std::vector<Source> sources;
    std::vector<Requests> requests;
    for (const std::int64_t id : ids) {
      const Document document = context.documents.read(id, separator ? cut - 1 : cut);
      Text text;
      if (bos == BosPolicy::kDocStart) {
        text.ids.push_back(*context.text.bos());
        text.bytes.push_back(0);
      }
      text.ids.insert(text.ids.end(), document.ids.begin(), document.ids.end());
      text.bytes.insert(text.bytes.end(), document.bytes.begin(), document.bytes.end());
      requests.push_back(requests_of(context, live, bos, static_cast<std::int64_t>(text.ids.size())));
      texts.push_back(std::move(text));
    }
    const std::int64_t shift = bos == BosPolicy::kEveryWindow ? 1 : 0;   // a separator of its own before each window
    for (std::size_t d = 0; d < texts.size(); ++d) {
      for (const auto& [extent, wanted] : requests[d]) {
        const auto [begin, end] = extent;
        std::int64_t from = end, to = begin;
        for (const Wanted& one : wanted) {
          from = std::min(from, one.from);
          to = std::max(to, one.to);
        }
        if (from >= to) continue;
        Sequence sequence;
        if (shift != 0) sequence.ids.push_back(*context.text.bos());
        sequence.ids.insert(sequence.ids.end(), texts[d].ids.begin() + begin, texts[d].ids.begin() + end);
        sequence.first = from - begin + shift;
        sequence.last = to - begin + shift;
        sequence.guesses = false;
        sequences.push_back(std::move(sequence));
        sources.push_back({d, from, &wanted});
      }
    }
    const std::vector<MeanScore> scores =
        score_all(context.scorer, sequences, context.settings.draws, first * 1'000'000);

    std::vector<std::vector<Sums>> sums(texts.size(), std::vector<Sums>(live.size()));
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const Source& source = sources[i];
      for (const Wanted& wanted : *source.wanted) {
        Sums& sum = sums[source.document][wanted.setting];
        for (std::int64_t token = wanted.from; token < wanted.to; ++token) {
          sum.nll += scores[i].nll[static_cast<std::size_t>(token - source.from)];
          sum.bytes += texts[source.document].bytes[static_cast<std::size_t>(token)];
          ++sum.tokens;
        }
      }
    }
    Rows rows;
    for (std::size_t d = 0; d < texts.size(); ++d) {
      for (std::size_t setting = 0; setting < live.size(); ++setting) {
        const Sums& sum = sums[d][setting];
        rows["lm_doc"].push_back({context.documents.split(), protocol_name(live[setting].protocol),
                                  live[setting].length, live[setting].stride, ids[d], sum.tokens, sum.bytes, sum.nll});
      }
    }
    return rows;
  }

  /// The windows of a text of `n` tokens under all settings, each once.
  static Requests requests_of(TaskContext& context, const std::vector<Setting>& live, BosPolicy bos, std::int64_t n) {
    // A separator before every window takes one of its places; one before the document is part of the text.
    const std::int64_t taken = bos == BosPolicy::kEveryWindow ? 1 : 0;
    Requests requests;
    std::int64_t longest_prefix = 0;
    for (std::size_t setting = 0; setting < live.size(); ++setting) {
      const std::int64_t length = live[setting].length - taken;
      const std::int64_t stride = std::min(live[setting].stride, length);
      for (const Window& window : windows(live[setting].protocol, n, length, stride)) {
        // Nothing stands before a window's first token unless each window has its separator.
        const std::int64_t from = std::max(window.score_begin, taken != 0 ? window.begin : window.begin + 1);
        if (window.begin == 0) longest_prefix = std::max(longest_prefix, window.end);
        if (from < window.score_end) requests[{window.begin, window.end}].push_back({setting, from, window.score_end});
      }
    }
    const Capabilities& model = context.scorer.capabilities();
    if (model.length_dependent || model.stochastic || longest_prefix == 0) return requests;
    // One pass over the longest prefix has the losses of all shorter ones.
    auto& all = requests[{0, longest_prefix}];
    for (auto it = requests.begin(); it != requests.end() && it->first.first == 0;) {
      if (it->first.second == longest_prefix) {
        ++it;
        continue;
      }
      all.insert(all.end(), it->second.begin(), it->second.end());
      it = requests.erase(it);
    }
    return requests;
  }

  static Rows summarise(TaskContext& context, const Setting& setting, BosPolicy bos, const std::vector<Sums>& sums) {
    std::vector<double> nll, tokens;
    std::int64_t total_tokens = 0, total_bytes = 0;
    double total_nll = 0;
    for (const Sums& sum : sums) {
      nll.push_back(sum.nll);
      tokens.push_back(static_cast<double>(sum.tokens));
      total_tokens += sum.tokens;
      total_bytes += sum.bytes;
      total_nll += sum.nll;
    }
    const Ratio mean_nll = ratio(nll, tokens);
    const double perplexity = std::exp(mean_nll.value);
    const bool fine = std::isfinite(perplexity) && perplexity <= kOverflowPerplexity;
    std::optional<double> bits;
    if (total_bytes > 0) bits = total_nll / (std::log(2.0) * static_cast<double>(total_bytes));
    return {{"lm_summary",
             {{context.documents.split(), protocol_name(setting.protocol), setting.length, setting.stride,
               bos_policy_name(bos), sums.size(), total_tokens, mean_nll.value, perplexity, bits, mean_nll.se,
               mean_nll.value - kNormal95 * mean_nll.se, mean_nll.value + kNormal95 * mean_nll.se,
               fine ? status::kOk : status::kOverflow}}}};
  }

  static Rows missing(TaskContext& context, const Setting& setting, BosPolicy bos, const Cell& documents,
                      const char* why) {
    return {{"lm_summary",
             {{context.documents.split(), protocol_name(setting.protocol), setting.length, setting.stride,
               bos_policy_name(bos), documents, Cell(), Cell(), Cell(), Cell(), Cell(), Cell(), Cell(), why}}}};
  }

  std::vector<std::string> protocols_ = {"prefix", "blocks", "sliding"};
  std::int64_t stride_ = 0;
  double stride_share_ = 0;
};

}  // namespace

TaskEntry perplexity_task() {
  return {.name = "perplexity",
          .summary = "Perplexity and bits per byte against context length: prefix, blocks, sliding.",
          .tables = {"lm_doc", "lm_summary"},
          .make = make_task<Perplexity>};
}

}  // namespace pe::evaluation
