#include "evaluation/language_modelling/key_tokens.h"

#include <algorithm>

namespace pe::evaluation {

std::int64_t short_context(const Capabilities& reference) {
  return std::max<std::int64_t>(1, reference.train_length / 4);
}

std::vector<KeyToken> key_tokens(Scorer& reference, const std::vector<std::int32_t>& ids, const KeyRule& rule,
                                 std::int64_t draws) {
  const Capabilities& known = reference.capabilities();
  const std::int64_t context = short_context(known), step = std::max<std::int64_t>(1, known.train_length / 16);
  const auto n = static_cast<std::int64_t>(ids.size());
  if (n <= context) return {};
  std::vector<Sequence> sequences;  // the whole text, then the short contexts
  const auto add = [&](std::int64_t begin, std::int64_t end) {
    Sequence sequence{.ids = {ids.begin() + begin, ids.begin() + end}, .first = context, .last = end - begin};
    sequence.guesses = false;
    sequences.push_back(std::move(sequence));
  };
  add(0, n);
  for (std::int64_t begin = 0; begin + context < n; begin += step) add(begin, std::min(n, begin + context + step));
  const std::vector<MeanScore> scores = score_all(reference, sequences, draws);
  std::vector<KeyToken> found;
  for (std::int64_t place = context; place < n; ++place) {
    const auto window = static_cast<std::size_t>((place - context) / step),
               within = static_cast<std::size_t>((place - context) % step);
    const KeyToken token{place, scores[0].nll[static_cast<std::size_t>(place - context)],
                         scores[1 + window].nll[within]};
    if (token.less - token.full > rule.gain && token.full < rule.most) found.push_back(token);
  }
  return found;
}

}  // namespace pe::evaluation
