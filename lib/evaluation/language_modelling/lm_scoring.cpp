#include "evaluation/language_modelling/lm_scoring.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace pe::evaluation {

namespace {

/// Number of ends of anchored targets in a document.
constexpr std::int64_t kAnchors = 4;

/// The document as windows see it: with its separator, if the policy puts one there.
struct Text {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> bytes;
  std::vector<std::int32_t> words;  ///< that end with each token; empty where not requested or unknown
};

/// A setting's wish for a window: which of its tokens [from, to) it scores.
struct ScoreRange {
  std::size_t setting;
  std::int64_t from, to;
};

/// Input of one pass: tokens [begin, end) of a text with separators by `bos`. Where the last one is only predicted,
/// `next`.
struct Pass {
  BosPolicy bos;
  std::int64_t begin, end;
  bool next;

  bool operator<(const Pass& other) const {
    return std::tie(bos, begin, end, next) < std::tie(other.bos, other.begin, other.end, other.next);
  }
};
using Requests = std::map<Pass, std::vector<ScoreRange>>;

/// Places that a separator before every window takes; one before the document is part of the text.
std::int64_t taken(BosPolicy bos) { return bos == BosPolicy::kEveryWindow ? 1 : 0; }

/// The whole text: anchored windows may be anywhere in it.
Text text_of(const TextCodec& codec, const Document& document, const std::vector<std::int32_t>& words, BosPolicy bos) {
  Text text;
  if (bos == BosPolicy::kDocStart) {
    text.ids.push_back(*codec.bos());
    text.bytes.push_back(0);
    if (!words.empty()) text.words.push_back(0);
  }
  text.ids.insert(text.ids.end(), document.ids.begin(), document.ids.end());
  text.bytes.insert(text.bytes.end(), document.bytes.begin(), document.bytes.end());
  text.words.insert(text.words.end(), words.begin(), words.end());
  return text;
}

/// The windows of a document under all settings, each once.
Requests requests_of(const std::vector<LmSetting>& settings, const LmCutting& cutting, const Document& document,
                     const std::map<BosPolicy, Text>& texts) {
  Requests requests;
  for (std::size_t at = 0; at < settings.size(); ++at) {
    const LmSetting& setting = settings[at];
    const LmProtocol& protocol = *setting.protocol;
    const auto n = static_cast<std::int64_t>(texts.at(setting.bos).ids.size());
    for (const Window& window : windows_of(setting, cutting, document.id, n, document.history)) {
      // A window's first token has no context unless each window has its separator.
      std::int64_t from = std::max(window.score_begin, window.begin + 1 - taken(setting.bos));
      if (protocol.cut == Cut::kSliding) from = std::max(from, window.begin + cutting.min_context);
      if (from >= window.score_end) continue;
      requests[{setting.bos, window.begin, window.end, protocol.predicts_next}].push_back({at, from, window.score_end});
    }
  }
  return requests;
}

/// One pass over the longest window has the losses of all shorter ones that begin where it does.
Requests shared(const Requests& requests) {
  std::map<std::pair<BosPolicy, std::int64_t>, std::vector<ScoreRange>> wanted;
  std::map<std::pair<BosPolicy, std::int64_t>, Pass> longest;
  for (const auto& [pass, wishes] : requests) {  // ascending in `end`, then `next`: the last one serves all
    auto& all = wanted[{pass.bos, pass.begin}];
    all.insert(all.end(), wishes.begin(), wishes.end());
    longest[{pass.bos, pass.begin}] = pass;
  }
  Requests result;
  for (auto& [key, wishes] : wanted) result[longest.at(key)] = std::move(wishes);
  return result;
}

/// The tokens of `pass`, scored from the first to the last that anyone wants.
Sequence sequence_of(const TextCodec& codec, const Text& text, const Pass& pass, std::int64_t from, std::int64_t to) {
  const std::int64_t shift = taken(pass.bos);
  Sequence sequence;
  sequence.guesses = false;
  if (shift != 0) sequence.ids.push_back(*codec.bos());
  sequence.ids.insert(sequence.ids.end(), text.ids.begin() + pass.begin, text.ids.begin() + pass.end);
  const std::int64_t first = from - pass.begin + shift, last = to - pass.begin + shift;
  if (!pass.next) {
    sequence.first = first;
    sequence.last = last;
    return sequence;
  }
  std::vector<std::int32_t> labels(sequence.ids.size() - 1, -1);
  for (std::int64_t at = first; at < last; ++at) {
    labels[static_cast<std::size_t>(at - 1)] = sequence.ids[static_cast<std::size_t>(at)];
  }
  sequence.ids.pop_back();
  sequence.labels = std::move(labels);
  return sequence;
}

/// The loss of each token that a pass scores.
struct ScoredPass {
  const Pass& pass;
  std::int64_t from;  ///< token of the text that the first loss belongs to
  const std::vector<double>& nll;

  double nll_at(std::int64_t token) const { return nll[static_cast<std::size_t>(token - from)]; }
  /// In the window.
  std::int64_t place(std::int64_t token) const { return token - pass.begin + taken(pass.bos); }
};

void add_losses(const ScoredPass& scored, const ScoreRange& wanted, std::vector<double>& by_position) {
  by_position.assign(static_cast<std::size_t>(scored.place(wanted.to)), 0);
  for (std::int64_t token = wanted.from; token < wanted.to; ++token)
    by_position[static_cast<std::size_t>(scored.place(token))] = scored.nll_at(token);
}

void add_window(const ScoredPass& scored, const ScoreRange& wanted, const Text& text, LmSums& sum) {
  double nll = 0;
  for (std::int64_t token = wanted.from; token < wanted.to; ++token) {
    sum.score.nll += scored.nll_at(token);
    nll += scored.nll_at(token);
    sum.context += static_cast<double>(scored.place(token));
    sum.score.bytes += text.bytes[static_cast<std::size_t>(token)];
    if (!text.words.empty()) sum.words += text.words[static_cast<std::size_t>(token)];
    ++sum.score.tokens;
  }
  sum.window_means += nll / static_cast<double>(wanted.to - wanted.from);
  ++sum.windows;
}

LmSums empty_sums(const LmSetting& setting, const DocumentSource& source, std::int64_t id, bool without_words) {
  LmSums sum;
  sum.corpus = source.split();
  sum.protocol = setting.protocol->name;
  sum.length = setting.length;
  sum.stride = setting.stride;
  sum.score.id = id;
  if (without_words) sum.words = -1;
  return sum;
}

}  // namespace

std::vector<Window> windows_of(const LmSetting& setting, const LmCutting& cutting, std::int64_t document,
                               std::int64_t n, std::int64_t history) {
  const LmProtocol& protocol = *setting.protocol;
  const std::int64_t length = setting.length - taken(setting.bos);
  const std::int64_t longest = cutting.longest - taken(setting.bos);
  if (protocol.cut == Cut::kAnchored) {
    std::vector<Window> result;
    for (const std::int64_t end : anchors(document, n, cutting.longest, kAnchors)) {
      const auto at_end = anchored_windows(end, length, targets_within(cutting.targets, cutting.longest));
      result.insert(result.end(), at_end.begin(), at_end.end());
    }
    return result;
  }
  const std::int64_t fed = protocol.predicts_next ? length + 1 : length;
  if (protocol.whole) {
    if (protocol.cut != Cut::kRolling) return sliding_windows(n, fed, std::min(setting.stride, length), history);
    // A document's separator is no target; a stream begins with one that is, though it has no context.
    return rolling_windows(n, length, protocol.text == TextKind::kDocuments ? 1 : history);
  }
  n = std::min(n - history, cutting.cut - taken(setting.bos));
  std::vector<Window> result;
  switch (protocol.cut) {
    case Cut::kBlocks:
      result = windows(Protocol::kBlocks, n, length, length);
      break;
    case Cut::kSliding:
      result = windows(Protocol::kSliding, n, length, std::min(setting.stride, length));
      break;
    case Cut::kTail:
      result = {tail_window(n, length, targets_within(cutting.targets, length))};
      break;
    default:
      result = windows(Protocol::kPrefix, n, length, 1);
      break;
  }
  if (follows(protocol) && cutting.common) {
    for (Window& window : result) window.score_begin = std::max(window.score_begin, longest);
    std::erase_if(result, [](const Window& window) { return window.score_begin >= window.score_end; });
  }
  for (Window& window : result) {
    for (std::int64_t* at : {&window.begin, &window.end, &window.score_begin, &window.score_end}) *at += history;
  }
  return result;
}

LmScores score_documents(const LmModel& model, const DocumentSource& source, const std::vector<LmSetting>& settings,
                         const LmCutting& cutting, const std::vector<std::int64_t>& ids, std::int64_t first) {
  bool whole = false;
  for (const LmSetting& setting : settings) {
    whole = whole || setting.protocol->whole || setting.protocol->cut == Cut::kAnchored;
  }
  const Capabilities& facts = model.scorer.capabilities();
  std::vector<std::map<BosPolicy, Text>> texts(ids.size());
  std::vector<Requests> requests;
  std::vector<Sequence> sequences;
  struct Owner {
    std::size_t document;
    const Pass* pass;
    std::int64_t from;
    const std::vector<ScoreRange>* wanted;
  };
  std::vector<Owner> owners;
  for (std::size_t d = 0; d < ids.size(); ++d) {
    const Document document = source.read(ids[d], whole ? source.tokens(ids[d]) : cutting.cut);
    const std::vector<std::int32_t> words = cutting.words
                                                ? source.words(ids[d], static_cast<std::int64_t>(document.ids.size()))
                                                : std::vector<std::int32_t>();
    for (const LmSetting& setting : settings) {
      if (texts[d].count(setting.bos) == 0) texts[d][setting.bos] = text_of(model.text, document, words, setting.bos);
    }
    Requests own = requests_of(settings, cutting, document, texts[d]);
    requests.push_back(facts.length_dependent || facts.stochastic ? std::move(own) : shared(own));
  }
  for (std::size_t d = 0; d < ids.size(); ++d) {
    for (const auto& [pass, wanted] : requests[d]) {
      std::int64_t from = pass.end, to = pass.begin;
      for (const ScoreRange& one : wanted) {
        from = std::min(from, one.from);
        to = std::max(to, one.to);
      }
      sequences.push_back(sequence_of(model.text, texts[d].at(pass.bos), pass, from, to));
      owners.push_back({d, &pass, from, &wanted});
    }
  }
  const std::vector<MeanScore> scores = score_all(model.scorer, sequences, model.draws, first * 1'000'000, model.watch);

  LmScores result{std::vector<std::vector<LmSums>>(ids.size()), std::vector<std::vector<double>>(ids.size())};
  for (std::size_t d = 0; d < ids.size(); ++d) {
    for (const LmSetting& setting : settings) {
      const bool without_words = cutting.words && texts[d].at(setting.bos).words.empty();
      result.sums[d].push_back(empty_sums(setting, source, ids[d], without_words));
    }
  }
  for (std::size_t i = 0; i < owners.size(); ++i) {
    const Owner& owner = owners[i];
    const ScoredPass scored{*owner.pass, owner.from, scores[i].nll};
    for (const ScoreRange& wanted : *owner.wanted) {
      if (settings[wanted.setting].protocol->cut == Cut::kPosition)
        add_losses(scored, wanted, result.by_position[owner.document]);
      else
        add_window(scored, wanted, texts[owner.document].at(owner.pass->bos),
                   result.sums[owner.document][wanted.setting]);
    }
  }
  return result;
}

}  // namespace pe::evaluation
