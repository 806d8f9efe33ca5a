#include "support/suggest.h"

#include <algorithm>
#include <utility>

namespace pe::support {

namespace {

/// Optimal string alignment distance: insertions, deletions, replacements and swaps of neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

std::string_view last_part(std::string_view dotted) {
  const auto dot = dotted.rfind('.');
  return dot == std::string_view::npos ? dotted : dotted.substr(dot + 1);
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates) {
  if (word.size() > 200) return std::nullopt;
  std::optional<std::string> best;
  std::size_t best_distance = 0;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > 200) continue;
    const std::size_t allowed = std::max<std::size_t>(1, std::max(word.size(), candidate.size()) / 3);
    const std::size_t distance = edit_distance(word, candidate);
    if (distance <= allowed && (!best || distance < best_distance)) {
      best = candidate;
      best_distance = distance;
    }
  }
  if (!best) {  // the right name in the wrong group, such as `tokens` for `train.tokens`
    for (const std::string& candidate : candidates) {
      if (candidate != word && last_part(candidate) == last_part(word)) return candidate;
    }
  }
  return best;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  if (const auto near = nearest(word, candidates)) return "did you mean '" + *near + "'?";
  if (candidates.empty() || word.size() > 200) return "";
  std::vector<std::string> shown = candidates;
  constexpr std::size_t kMostShown = 24;
  const bool some = candidates.size() > kMostShown;
  if (some) {
    std::vector<std::pair<std::size_t, std::string>> by_distance;
    for (const std::string& candidate : candidates) {
      if (candidate.size() <= 200) by_distance.emplace_back(edit_distance(word, candidate), candidate);
    }
    std::sort(by_distance.begin(), by_distance.end());
    by_distance.resize(std::min<std::size_t>(by_distance.size(), 5));
    shown.clear();
    for (auto& [distance, candidate] : by_distance) shown.push_back(std::move(candidate));
  }
  std::string text = some ? "the nearest of " + std::to_string(candidates.size()) + " are " : "expected one of ";
  for (std::size_t i = 0; i < shown.size(); ++i) text += (i ? ", " : "") + shown[i];
  return text;
}

}  // namespace pe::support
