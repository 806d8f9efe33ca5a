// Perplexity against context length, on the same documents at every length.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "evaluation/length_numbers.h"
#include "evaluation/lm_protocols.h"
#include "evaluation/stream_documents.h"
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

/// Ends of a document at which anchored targets stand.
constexpr std::int64_t kAnchors = 4;

/// Rows that only the journal sees: what single documents add to a mean of windows, or to losses by position.
constexpr const char* kWindowRows = "perplexity.windows";
constexpr const char* kPositionRows = "perplexity.positions";
constexpr const char* kWordRows = "perplexity.words";

/// One protocol at one context length.
struct Setting {
  const LmProtocol* protocol;
  std::int64_t length;
  std::int64_t stride;   ///< `length` where windows do not overlap
  BosPolicy bos;
};

/// What one setting sums up of one document.
struct Sums {
  std::int64_t tokens = 0;
  std::int64_t bytes = 0;
  double nll = 0;
  std::int64_t windows = 0;
  double window_means = 0;
  std::int64_t words = 0;   ///< -1: they cannot be told
};

/// The document as windows see it: with its separator, if the policy puts one there.
struct Text {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> bytes;
  std::vector<std::int32_t> words;   ///< that end with each token; empty where nobody asks, or they cannot be told
};

/// A window that must be fed, and who wants which of its tokens [from, to).
struct Wanted {
  std::size_t setting;
  std::int64_t from, to;
};
/// (where separators stand, begin, end) → wishes.
using Requests = std::map<std::tuple<BosPolicy, std::int64_t, std::int64_t>, std::vector<Wanted>>;

/// Where a bin of positions begins and ends, and how they are spaced.
struct Bin {
  const char* spacing;
  std::int64_t begin, end;
};

class Perplexity final : public Task {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("protocols", protocols_,
            "How texts are cut: " + support::join(lm_protocol_names(), ", ") + "; `pe-evaluate --list` says what each is.");
    v.field("stride", stride_, "Tokens between the starts of sliding windows; 0 leaves it to stride_share.",
            {.unit = "tokens", .min = 0});
    v.field("stride_share", stride_share_,
            "The same as a share of the context; 0: 256 from 1,024 tokens on, a quarter of the context below.",
            {.min = 0, .max = 1});
    v.field("min_context", min_context_, "In sliding windows, tokens with fewer before them in the window are not scored.",
            {.unit = "tokens", .min = 0, .neutral = Json(0)});
    v.field("targets", targets_, "Tokens scored at the end of a window by tail and anchored, at most half the shortest context.",
            {.unit = "tokens", .min = 1, .neutral = Json(256)});
    v.field("tolerance", tolerance_, "Rise of perplexity over that of the training length that counts as usable.",
            {.min = 0, .neutral = Json(0.05)});
    v.field("margin", margin_, "Distance from the best loss within which a context counts as effective.",
            {.unit = "nats", .min = 0, .neutral = Json(0.01)});
    v.field("words", words_, "Also nats per word, words being what white space parts (table lm_words).", {.neutral = Json(false)});
    v.check(!protocols_.empty(), "perplexity needs at least one protocol");
    for (const std::string& name : protocols_) {
      v.check(find_lm_protocol(name) != nullptr,
              cat("unknown protocol ", support::quote(name), "; ", support::suggestion(name, lm_protocol_names())));
    }
    v.check(stride_ == 0 || stride_share_ == 0, "give either `stride` or `stride_share`");
  }

  void run(TaskContext& context) const override {
    std::vector<Rows> summaries(protocols_.size());   // of all settings, in order
    measure(context, TextKind::kDocuments, context.documents, nullptr, "perplexity", summaries);
    for (const TextKind kind : {TextKind::kStream, TextKind::kBlankLineStream}) {
      if (std::none_of(protocols_.begin(), protocols_.end(),
                       [&](const std::string& name) { return find_lm_protocol(name)->text == kind; })) {
        continue;
      }
      std::vector<std::int32_t> joint;
      std::int64_t bytes = 0;
      if (kind == TextKind::kStream && context.text.bos()) joint = {*context.text.bos()};
      if (kind == TextKind::kBlankLineStream) {
        joint = context.text.encode_inside("\n\n");
        bytes = 2;
      }
      StreamDocuments stream(context.documents, std::move(joint), bytes);
      measure(context, kind, stream, &stream, kind == TextKind::kStream ? "perplexity/stream" : "perplexity/blank-lines",
              summaries);
    }
    for (const Rows& rows : summaries) context.results.add(rows);
  }

 private:
  /// All protocols on one kind of text. @param stream the source, where it is one
  void measure(TaskContext& context, TextKind kind, const DocumentSource& source, StreamDocuments* stream,
               const std::string& item, std::vector<Rows>& summaries) const {
    const Settings& settings = context.settings;
    const std::int64_t least = std::min(settings.min_documents, settings.documents);

    // Texts do not depend on the model: a length that this model has no positions for still selects them.
    std::int64_t longest = 0;
    std::map<std::int64_t, std::int64_t> skipped;   // context → documents that hold it
    for (auto length = context.lengths.rbegin(); length != context.lengths.rend() && longest == 0; ++length) {
      const std::int64_t there = stream != nullptr ? stream->pieces(*length) : count_documents(source, *length);
      if (there >= least) longest = *length;
      else skipped[*length] = there;
    }
    if (stream != nullptr && longest > 0) stream->cut_at(longest);
    for (const auto& [length, there] : skipped) {
      context.progress.warn(cat(item, " at ", length, " tokens is left out: ", there, " ", source.split(),
                                " documents hold as many, eval.min_documents asks for ", least));
    }
    if (stream == nullptr && longest > 0 && settings.document_tokens > 0 && settings.document_tokens < longest) {
      throw support::ConfigError(cat("eval.document_tokens is ", settings.document_tokens,
                                     ", but the longest context is ", longest, " tokens"),
                                 {}, "raise eval.document_tokens, or lower eval.lengths or eval.context");
    }
    const auto& limit = context.scorer.capabilities().max_positions;

    std::vector<Setting> live;
    std::vector<std::pair<std::size_t, std::size_t>> place;   // of the live ones: protocol, setting of that protocol
    std::vector<std::vector<Rows>> cells(protocols_.size());
    for (std::size_t p = 0; p < protocols_.size(); ++p) {
      const LmProtocol& protocol = *find_lm_protocol(protocols_[p]);
      if (protocol.text != kind) continue;
      BosPolicy bos = protocol.bos.value_or(settings.bos);
      if (!context.text.bos()) bos = BosPolicy::kNone;
      std::vector<std::int64_t> lengths = context.lengths;
      if (protocol.cut == Cut::kPosition) {
        // One curve serves all lengths: the longest that there are texts and positions for.
        std::erase_if(lengths, [&](std::int64_t length) { return length > longest || (limit && length > *limit); });
        if (lengths.empty()) continue;
        lengths = {lengths.back()};
      }
      for (const std::int64_t length : lengths) {
        const Setting setting{&protocol, length, stride_of(protocol, length), bos};
        if (skipped.count(length) != 0) {
          cells[p].push_back(missing(context, setting, Cell(skipped[length]), status::kSkipped));
        } else if (limit && length > *limit) {
          cells[p].push_back(missing(context, setting, Cell(), status::kPositions));
        } else {
          place.emplace_back(p, cells[p].size());
          cells[p].emplace_back();
          live.push_back(setting);
        }
      }
    }

    std::vector<std::int64_t> ids;
    if (!live.empty()) ids = select_documents(source, longest, settings.documents);
    const std::int64_t cut = settings.document_tokens > 0 && stream == nullptr ? settings.document_tokens : longest;
    std::vector<std::vector<Sums>> sums(live.size());   // setting → document
    std::vector<Row> positions;
    std::vector<std::size_t> summed;                    // settings that have rows by document
    for (std::size_t setting = 0; setting < live.size(); ++setting) {
      if (live[setting].protocol->cut != Cut::kPosition) summed.push_back(setting);
    }
    for (std::size_t begin = 0; begin < ids.size(); begin += kDocumentsPerItem) {
      const std::size_t end = std::min(ids.size(), begin + static_cast<std::size_t>(kDocumentsPerItem));
      const std::vector<std::int64_t> part(ids.begin() + static_cast<std::ptrdiff_t>(begin),
                                           ids.begin() + static_cast<std::ptrdiff_t>(end));
      const Rows& rows = context.results.item(cat(item, "/", begin, "-", end), [&] {
        return score_documents(context, source, live, longest, cut, part, static_cast<std::int64_t>(begin));
      });
      if (!summed.empty()) {
        const std::vector<Row>& scored = rows.at("lm_doc");   // documents in order, settings within
        const auto windows = rows.find(kWindowRows), words = rows.find(kWordRows);
        for (std::size_t row = 0; row < scored.size(); ++row) {
          Sums sum{static_cast<std::int64_t>(number(scored[row][5])), static_cast<std::int64_t>(number(scored[row][6])),
                   number(scored[row][7])};
          if (windows != rows.end()) {
            sum.windows = static_cast<std::int64_t>(number(windows->second[row][0]));
            sum.window_means = number(windows->second[row][1]);
          }
          if (words != rows.end()) sum.words = static_cast<std::int64_t>(number(words->second[row][0]));
          sums[summed[row % summed.size()]].push_back(sum);
        }
      }
      if (const auto found = rows.find(kPositionRows); found != rows.end()) {
        positions.insert(positions.end(), found->second.begin(), found->second.end());
      }
      context.progress.advance(item + ": documents", static_cast<std::int64_t>(end), static_cast<std::int64_t>(ids.size()));
    }
    for (std::size_t setting = 0; setting < live.size(); ++setting) {
      const auto [p, at] = place[setting];
      cells[p][at] = live[setting].protocol->cut == Cut::kPosition ? by_position(context, positions)
                                                                   : summarise(context, live[setting], sums[setting]);
      if (words_ && live[setting].protocol->cut != Cut::kPosition) {
        append(in_words(context, live[setting], sums[setting]), cells[p][at]);
      }
    }
    for (std::size_t p = 0; p < protocols_.size(); ++p) {
      for (const Rows& rows : cells[p]) append(rows, summaries[p]);
      if (!cells[p].empty() && find_lm_protocol(protocols_[p])->cut == Cut::kAnchored) {
        append(length_numbers(context, p, live, sums, place), summaries[p]);
      }
    }
  }

  static void append(const Rows& rows, Rows& into) {
    for (const auto& [table, list] : rows) into[table].insert(into[table].end(), list.begin(), list.end());
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

  Rows score_documents(TaskContext& context, const DocumentSource& source, const std::vector<Setting>& live,
                       std::int64_t longest, std::int64_t cut, const std::vector<std::int64_t>& ids,
                       std::int64_t first) const {
    bool anchored = false;
    for (const Setting& setting : live) anchored = anchored || setting.protocol->cut == Cut::kAnchored;
    std::vector<std::map<BosPolicy, Text>> texts;
    std::vector<Requests> requests;
    for (const std::int64_t id : ids) {
      const Document document = source.read(id, anchored ? source.tokens(id) : cut);
      const std::vector<std::int32_t> words =
          words_ ? source.words(id, static_cast<std::int64_t>(document.ids.size())) : std::vector<std::int32_t>();
      std::map<BosPolicy, Text> versions;
      Requests wishes;
      for (const Setting& setting : live) {
        if (versions.count(setting.bos) == 0) versions[setting.bos] = text_of(context, document, words, setting, cut);
      }
      add_requests(context, live, versions, document, longest, wishes);
      texts.push_back(std::move(versions));
      requests.push_back(std::move(wishes));
    }

    std::vector<Sequence> sequences;
    struct Source {
      std::size_t document;
      BosPolicy bos;
      std::int64_t from;                 // token of the text that the first score belongs to
      const std::vector<Wanted>* wanted;
    };
    std::vector<Source> sources;
    for (std::size_t d = 0; d < texts.size(); ++d) {
      for (const auto& [extent, wanted] : requests[d]) {
        const auto [bos, begin, end] = extent;
        const std::int64_t shift = bos == BosPolicy::kEveryWindow ? 1 : 0;   // a separator of its own before each window
        std::int64_t from = end, to = begin;
        for (const Wanted& one : wanted) {
          from = std::min(from, one.from);
          to = std::max(to, one.to);
        }
        if (from >= to) continue;
        const Text& text = texts[d].at(bos);
        Sequence sequence;
        if (shift != 0) sequence.ids.push_back(*context.text.bos());
        sequence.ids.insert(sequence.ids.end(), text.ids.begin() + begin, text.ids.begin() + end);
        sequence.first = from - begin + shift;
        sequence.last = to - begin + shift;
        sequence.guesses = false;
        sequences.push_back(std::move(sequence));
        sources.push_back({d, bos, from, &wanted});
      }
    }
    const std::vector<MeanScore> scores =
        score_all(context.scorer, sequences, context.settings.draws, first * 1'000'000);

    const std::vector<Bin> bins = bins_of(context, live);
    std::vector<std::vector<Sums>> sums(texts.size(), std::vector<Sums>(live.size()));
    std::vector<std::vector<double>> in_bin(bins.size(), std::vector<double>(texts.size()));   // bin → document
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const Source& from = sources[i];
      const Text& text = texts[from.document].at(from.bos);
      for (const Wanted& wanted : *from.wanted) {
        const auto nll_at = [&](std::int64_t token) { return scores[i].nll[static_cast<std::size_t>(token - from.from)]; };
        if (live[wanted.setting].protocol->cut == Cut::kPosition) {
          for (std::size_t b = 0; b < bins.size(); ++b) {
            double sum = 0;
            for (std::int64_t token = std::max(wanted.from, bins[b].begin); token < std::min(wanted.to, bins[b].end); ++token) {
              sum += nll_at(token);
            }
            in_bin[b][from.document] = sum;
          }
          continue;
        }
        Sums& sum = sums[from.document][wanted.setting];
        double nll = 0;
        for (std::int64_t token = wanted.from; token < wanted.to; ++token) {
          sum.nll += nll_at(token);
          nll += nll_at(token);
          sum.bytes += text.bytes[static_cast<std::size_t>(token)];
          if (!text.words.empty()) sum.words += text.words[static_cast<std::size_t>(token)];
          ++sum.tokens;
        }
        sum.window_means += nll / static_cast<double>(wanted.to - wanted.from);
        ++sum.windows;
      }
    }
    Rows rows;
    bool window_means = false;
    for (const Setting& setting : live) window_means = window_means || setting.protocol->window_mean;
    for (std::size_t d = 0; d < texts.size(); ++d) {
      for (std::size_t setting = 0; setting < live.size(); ++setting) {
        if (live[setting].protocol->cut == Cut::kPosition) continue;
        const Sums& sum = sums[d][setting];
        rows["lm_doc"].push_back({source.split(), live[setting].protocol->name, live[setting].length,
                                  live[setting].stride, ids[d], sum.tokens, sum.bytes, sum.nll});
        if (window_means) rows[kWindowRows].push_back({sum.windows, sum.window_means});
        if (words_) rows[kWordRows].push_back({texts[d].at(live[setting].bos).words.empty() ? -1 : sum.words});
      }
    }
    for (std::size_t b = 0; b < bins.size(); ++b) {
      // The text's very first token has no score.
      const std::int64_t tokens = bins[b].end - std::max<std::int64_t>(bins[b].begin, first_scored(live));
      double sum = 0, squares = 0;
      for (const double nll : in_bin[b]) {
        const double mean = nll / static_cast<double>(tokens);
        sum += mean;
        squares += mean * mean;
      }
      rows[kPositionRows].push_back({bins[b].spacing, bins[b].begin, bins[b].end, texts.size(), sum, squares});
    }
    return rows;
  }

  static Text text_of(TaskContext& context, const Document& document, const std::vector<std::int32_t>& words,
                      const Setting& setting, std::int64_t cut) {
    Text text;
    if (setting.bos == BosPolicy::kDocStart) {
      text.ids.push_back(*context.text.bos());
      text.bytes.push_back(0);
      if (!words.empty()) text.words.push_back(0);
    }
    const std::int64_t own = setting.bos == BosPolicy::kNone ? cut : cut - 1;
    // Anchored windows may stand anywhere in the document, so the version without separators is whole.
    const std::size_t keep = setting.bos == BosPolicy::kNone
                                 ? document.ids.size()
                                 : std::min(document.ids.size(), static_cast<std::size_t>(own));
    text.ids.insert(text.ids.end(), document.ids.begin(), document.ids.begin() + static_cast<std::ptrdiff_t>(keep));
    text.bytes.insert(text.bytes.end(), document.bytes.begin(), document.bytes.begin() + static_cast<std::ptrdiff_t>(keep));
    if (!words.empty()) text.words.insert(text.words.end(), words.begin(), words.begin() + static_cast<std::ptrdiff_t>(keep));
    return text;
  }

  /// The windows of a document under all settings, each once.
  void add_requests(TaskContext& context, const std::vector<Setting>& live, const std::map<BosPolicy, Text>& versions,
                    const Document& document, std::int64_t longest, Requests& requests) const {
    std::map<BosPolicy, std::int64_t> longest_prefix;
    const std::int64_t shortest = context.lengths.front();
    for (std::size_t at = 0; at < live.size(); ++at) {
      const Setting& setting = live[at];
      const LmProtocol& protocol = *setting.protocol;
      // A separator before every window takes one of its places; one before the document is part of the text.
      const std::int64_t taken = setting.bos == BosPolicy::kEveryWindow ? 1 : 0;
      const std::int64_t length = setting.length - taken;
      const auto whole = static_cast<std::int64_t>(versions.at(setting.bos).ids.size());
      const std::int64_t n = setting.bos == BosPolicy::kNone ? std::min(whole, cut_of(context, longest)) : whole;
      std::vector<Window> cut;
      switch (protocol.cut) {
        case Cut::kPrefix:
        case Cut::kPosition: cut = windows(Protocol::kPrefix, n, length, 1); break;
        case Cut::kBlocks: cut = windows(Protocol::kBlocks, n, length, length); break;
        case Cut::kSliding: cut = windows(Protocol::kSliding, n, length, std::min(setting.stride, length)); break;
        case Cut::kRolling: cut = rolling_windows(n, length); break;
        case Cut::kTail: cut = {tail_window(n, length, common_targets(targets_, shortest))}; break;
        case Cut::kAnchored:
          for (const std::int64_t end : anchors(document.id, whole, longest, kAnchors)) {
            cut.push_back(anchored_window(end, length, common_targets(targets_, shortest)));
          }
          break;
      }
      for (const Window& window : cut) {
        // Nothing stands before a window's first token unless each window has its separator.
        std::int64_t from = std::max(window.score_begin, taken != 0 ? window.begin : window.begin + 1);
        if (protocol.cut == Cut::kSliding) from = std::max(from, window.begin + min_context_);
        if (window.begin == 0) longest_prefix[setting.bos] = std::max(longest_prefix[setting.bos], window.end);
        if (from < window.score_end) requests[{setting.bos, window.begin, window.end}].push_back({at, from, window.score_end});
      }
    }
    const Capabilities& model = context.scorer.capabilities();
    if (model.length_dependent || model.stochastic) return;
    // One pass over the longest prefix has the losses of all shorter ones.
    for (const auto& [bos, end] : longest_prefix) {
      if (end == 0) continue;
      auto& all = requests[{bos, 0, end}];
      for (auto it = requests.begin(); it != requests.end();) {
        const auto [of, begin, to] = it->first;
        if (of != bos || begin != 0 || to == end) {
          ++it;
          continue;
        }
        all.insert(all.end(), it->second.begin(), it->second.end());
        it = requests.erase(it);
      }
    }
  }

  static std::int64_t cut_of(const TaskContext& context, std::int64_t longest) {
    return context.settings.document_tokens > 0 ? std::max(context.settings.document_tokens, longest) : longest;
  }

  /// The first position of a text that has a loss.
  static std::int64_t first_scored(const std::vector<Setting>& live) {
    for (const Setting& setting : live) {
      if (setting.protocol->cut == Cut::kPosition) return setting.bos == BosPolicy::kEveryWindow ? 0 : 1;
    }
    return 1;
  }

  /// Bins of the position protocol: edges at powers of two, and a width of train_length / 32.
  static std::vector<Bin> bins_of(const TaskContext& context, const std::vector<Setting>& live) {
    std::vector<Bin> bins;
    for (const Setting& setting : live) {
      if (setting.protocol->cut != Cut::kPosition) continue;
      const std::int64_t end = setting.length - (setting.bos == BosPolicy::kEveryWindow ? 1 : 0);
      for (std::int64_t edge = 1; edge < end; edge *= 2) bins.push_back({"log", edge, std::min(2 * edge, end)});
      const std::int64_t width = std::max<std::int64_t>(1, context.scorer.capabilities().train_length / 32);
      for (std::int64_t edge = 0; edge < end; edge += width) {
        if (std::min(edge + width, end) > first_scored(live)) bins.push_back({"linear", edge, std::min(edge + width, end)});
      }
    }
    return bins;
  }

  static Rows by_position(TaskContext& context, const std::vector<Row>& parts) {
    struct Bin {
      double documents = 0, sum = 0, squares = 0;
    };
    std::vector<Row> order;
    std::map<std::tuple<std::string, std::int64_t, std::int64_t>, Bin> bins;
    for (const Row& row : parts) {
      const std::string spacing = std::get<std::string>(row[0].value());
      const auto begin = static_cast<std::int64_t>(number(row[1])), end = static_cast<std::int64_t>(number(row[2]));
      auto [found, fresh] = bins.try_emplace({spacing, begin, end});
      if (fresh) order.push_back({spacing, begin, end});
      found->second.documents += number(row[3]);
      found->second.sum += number(row[4]);
      found->second.squares += number(row[5]);
    }
    Rows rows;
    std::vector<PositionBin> linear;
    double documents = 0;
    for (const Row& row : order) {
      const std::string spacing = std::get<std::string>(row[0].value());
      const auto begin = static_cast<std::int64_t>(number(row[1])), end = static_cast<std::int64_t>(number(row[2]));
      const Bin& bin = bins.at({spacing, begin, end});
      const double mean = bin.sum / bin.documents;
      const double variance = std::max(0.0, bin.squares - bin.documents * mean * mean) / (bin.documents - 1);
      rows["lm_position"].push_back({context.documents.split(), spacing, begin, end, static_cast<std::int64_t>(bin.documents),
                                     mean, bin.documents < 2 ? Cell() : Cell(std::sqrt(variance / bin.documents))});
      if (spacing == "linear") linear.push_back({begin, end, mean});
      documents = bin.documents;
    }
    const std::int64_t train = context.scorer.capabilities().train_length;
    const auto add = [&](const char* measure, double value, const char* otherwise) {
      rows["lm_length"].push_back({context.documents.split(), "position", measure, Cell(), documents, value, Cell(), Cell(),
                                   std::isnan(value) ? otherwise : status::kOk});
    };
    const bool beyond = !linear.empty() && linear.back().end > train;
    add("blowup_position", blowup_position(linear, train), beyond ? status::kNone : status::kUncovered);
    add("gain_4x", gain_at_four(linear, train), status::kUncovered);
    return rows;
  }

  /// What the anchored curve of protocol `p` is condensed to.
  Rows length_numbers(TaskContext& context, std::size_t p, const std::vector<Setting>& live,
                      const std::vector<std::vector<Sums>>& sums,
                      const std::vector<std::pair<std::size_t, std::size_t>>& place) const {
    LengthCurve curve;
    for (std::size_t setting = 0; setting < live.size(); ++setting) {
      if (place[setting].first != p) continue;
      curve.lengths.push_back(live[setting].length);
      curve.nll.emplace_back();
      curve.tokens.emplace_back();
      for (const Sums& sum : sums[setting]) {
        curve.nll.back().push_back(sum.nll);
        curve.tokens.back().push_back(static_cast<double>(sum.tokens));
      }
    }
    Rows rows;
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
    const auto add = [&](std::string name, std::optional<std::int64_t> length, bool needs_train, LengthNumber number_of) {
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
      add("ratio", curve.lengths[at], true,
          [train, at](const auto& lengths, const auto& losses) { return perplexity_ratio(lengths, losses, train, at); });
    }
    const std::vector<WithInterval> values = with_intervals(curve, numbers);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const WithInterval& value = values[i];
      const char* state = status::kOk;
      if (measures[i].needs_train && !has_train) state = status::kUncovered;
      else if (std::isnan(value.value)) state = status::kNone;
      else if (!std::isfinite(value.value) || (measures[i].name == "ratio" && value.value > kOverflowPerplexity)) {
        state = status::kOverflow;
      }
      rows["lm_length"].push_back({context.documents.split(), protocols_[p], measures[i].name, measures[i].length,
                                   curve.nll[0].size(), value.value, value.low, value.high, state});
    }
    return rows;
  }

  static Rows summarise(TaskContext& context, const Setting& setting, const std::vector<Sums>& sums) {
    std::vector<double> nll, tokens;
    std::int64_t total_tokens = 0, total_bytes = 0;
    double total_nll = 0;
    for (const Sums& sum : sums) {
      nll.push_back(setting.protocol->window_mean ? sum.window_means : sum.nll);
      tokens.push_back(static_cast<double>(setting.protocol->window_mean ? sum.windows : sum.tokens));
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
             {{context.documents.split(), setting.protocol->name, setting.length, setting.stride,
               bos_policy_name(setting.bos), sums.size(), total_tokens, mean_nll.value, perplexity, bits, mean_nll.se,
               mean_nll.value - kNormal95 * mean_nll.se, mean_nll.value + kNormal95 * mean_nll.se,
               fine ? status::kOk : status::kOverflow}}}};
  }

  /// The same in words. One document whose words cannot be told leaves the cell without a number.
  static Rows in_words(TaskContext& context, const Setting& setting, const std::vector<Sums>& sums) {
    std::vector<double> nll, words;
    std::int64_t total = 0;
    bool known = true;
    for (const Sums& sum : sums) {
      nll.push_back(sum.nll);
      words.push_back(static_cast<double>(sum.words));
      total += sum.words;
      known = known && sum.words >= 0;
    }
    Row row = {context.documents.split(), setting.protocol->name, setting.length, setting.stride, sums.size()};
    if (!known || total == 0) {
      row.insert(row.end(), {Cell(), Cell(), Cell(), Cell(), Cell(), Cell(), status::kMeasure});
      return {{"lm_words", {row}}};
    }
    const Ratio mean = ratio(nll, words);
    const double perplexity = std::exp(mean.value);
    row.insert(row.end(), {total, mean.value, perplexity, mean.se, mean.value - kNormal95 * mean.se, mean.value + kNormal95 * mean.se,
                           std::isfinite(perplexity) ? status::kOk : status::kOverflow});
    return {{"lm_words", {row}}};
  }

  static Rows missing(TaskContext& context, const Setting& setting, const Cell& documents, const char* why) {
    return {{"lm_summary",
             {{context.documents.split(), setting.protocol->name, setting.length, setting.stride,
               bos_policy_name(setting.bos), documents, Cell(), Cell(), Cell(), Cell(), Cell(), Cell(), Cell(), why}}}};
  }

  std::vector<std::string> protocols_ = {"prefix", "blocks", "sliding"};
  std::int64_t stride_ = 0;
  double stride_share_ = 0;
  std::int64_t min_context_ = 0;
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
