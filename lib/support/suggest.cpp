#include "support/suggest.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "support/text.h"

namespace pe::support {

namespace {

constexpr std::size_t kLongest = 200;  // longer words are no slips, and their distances are costly

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

std::string_view group_of(std::string_view dotted) {
  return dotted.substr(0, dotted.size() - last_part(dotted).size());
}

/// In lower case and without what separates words: PeakLR, peak-lr and peak_lr are one.
std::string plain(std::string_view word) {
  std::string out;
  for (const char c : word) {
    if (c != '_' && c != '-' && c != ' ') out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

std::vector<std::string> parts_of(std::string_view word) {
  std::vector<std::string> parts(1);
  for (const char c : last_part(word)) {
    if (c == '_' || c == '-')
      parts.emplace_back();
    else
      parts.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return parts;
}

/// Names of our keys and encodings in other programs: name there (as `plain` writes it) → names here, the likeliest
/// first.
struct Synonym {
  std::string_view there;
  std::array<std::string_view, 2> here;  ///< "" where there is one name
};
constexpr Synonym kSynonyms[] = {
    {"lr", {"peak_lr"}},
    {"learningrate", {"peak_lr"}},
    {"maxlr", {"peak_lr"}},
    {"bs", {"batch"}},
    {"batchsize", {"batch"}},
    {"wd", {"weight_decay"}},
    {"l2", {"weight_decay"}},
    {"steps", {"tokens", "horizon_tokens"}},
    {"step", {"tokens", "horizon_tokens"}},
    {"maxsteps", {"tokens", "horizon_tokens"}},
    {"numsteps", {"tokens", "horizon_tokens"}},
    {"iters", {"tokens", "horizon_tokens"}},
    {"iterations", {"tokens", "horizon_tokens"}},
    {"epochs", {"tokens", "horizon_tokens"}},
    {"maxtokens", {"tokens", "horizon_tokens"}},
    {"warmup", {"warmup_steps"}},
    {"gradclip", {"clip"}},
    {"maxgradnorm", {"clip"}},
    {"minlr", {"final_share"}},
    {"lrschedule", {"schedule"}},
    {"lrscheduler", {"schedule"}},
    {"scheduler", {"schedule"}},
    {"optim", {"optimizer"}},
    {"seqlen", {"length"}},
    {"seqlength", {"length"}},
    {"sequencelength", {"length"}},
    {"blocksize", {"length"}},
    {"context", {"length"}},
    {"contextlength", {"length"}},
    {"ctx", {"length"}},
    {"maxlength", {"length"}},
    {"gradaccum", {"micro_batch"}},
    {"gradientaccumulationsteps", {"micro_batch"}},
    {"microbatchsize", {"micro_batch"}},
    {"dmodel", {"width"}},
    {"dim", {"width"}},
    {"hidden", {"width"}},
    {"hiddensize", {"width"}},
    {"nembd", {"width"}},
    {"depth", {"layers"}},
    {"nlayer", {"layers"}},
    {"nlayers", {"layers"}},
    {"numlayers", {"layers"}},
    {"nhead", {"heads"}},
    {"nheads", {"heads"}},
    {"numheads", {"heads"}},
    {"kvheads", {"key_value_heads"}},
    {"nkvheads", {"key_value_heads"}},
    {"headdim", {"head_width"}},
    {"dhead", {"head_width"}},
    {"dff", {"feed_forward"}},
    {"ffn", {"feed_forward"}},
    {"mlp", {"feed_forward"}},
    {"intermediatesize", {"feed_forward"}},
    {"vocab", {"vocabulary"}},
    {"vocabsize", {"vocabulary"}},
    {"pe", {"encoding"}},
    {"posenc", {"encoding"}},
    {"positionalencoding", {"encoding"}},
    {"theta", {"base"}},
    {"ropetheta", {"base"}},
    {"precision", {"dtype"}},
    {"gpus", {"ranks", "device"}},
    {"gpu", {"cuda"}},
    {"bfloat16", {"bf16"}},
    {"float32", {"fp32"}},
    {"nope", {"none"}},
    {"nopos", {"none"}},
    {"sincos", {"sinusoidal"}},
    {"sin", {"sinusoidal"}},
    {"rotary", {"rope"}},
    {"linear", {"pi"}},
    {"relativebias", {"t5"}},
    {"wpe", {"learned"}},
};

/// Of the candidates that `fits` accepts: one in the word's own group, else the shortest; ties go to the first.
template <typename Fits>
std::optional<std::string> choose(std::string_view word, const std::vector<std::string>& candidates, const Fits& fits) {
  const std::string* best = nullptr;
  const auto rank = [&](const std::string& candidate) {
    const bool elsewhere = group_of(candidate) != group_of(word);
    return std::pair(elsewhere, last_part(candidate).size());
  };
  for (const std::string& candidate : candidates) {
    if (candidate != word && fits(candidate) && (!best || rank(candidate) < rank(*best))) best = &candidate;
  }
  return best ? std::optional(*best) : std::nullopt;
}

std::optional<std::string> by_synonym(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string told = plain(last_part(word));
  for (const Synonym& synonym : kSynonyms) {
    if (synonym.there != told) continue;
    for (const std::string_view name : synonym.here) {
      if (name.empty()) break;
      if (auto found = choose(word, candidates, [&](const std::string& c) { return last_part(c) == name; }))
        return found;
    }
  }
  return std::nullopt;
}

/// Words share parts between underscores (`batch_size` and `batch`, `clip` and `grad_clip`), or one begins the other.
std::optional<std::string> by_parts(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr std::size_t kShortest = 3;  // "a" and "kv" are parts of too much
  const std::vector<std::string> mine = parts_of(word);
  const auto holds = [](const std::vector<std::string>& all, const std::vector<std::string>& some) {
    return std::all_of(some.begin(), some.end(), [&](const std::string& part) {
      return part.size() >= kShortest && std::find(all.begin(), all.end(), part) != all.end();
    });
  };
  if (auto found = choose(word, candidates, [&](const std::string& c) { return holds(parts_of(c), mine); }))
    return found;
  if (auto found = choose(word, candidates, [&](const std::string& c) { return holds(mine, parts_of(c)); }))
    return found;
  const std::string begin = plain(last_part(word));
  return choose(word, candidates, [&](const std::string& c) {
    return begin.size() >= kShortest && plain(last_part(c)).compare(0, begin.size(), begin) == 0;
  });
}

/// The candidate that is probably meant by `word`. In this order: the same name in another group or spelling
/// (`PeakLR`, `steps` for `step`), its name in other programs (`lr`, `bs`), or the nearest by edits. The last choice is
/// a name with the same parts (`batch_size`) or beginning (`enc`).
std::optional<std::string> meant(std::string_view word, const std::vector<std::string>& candidates) {
  if (word.empty() || word.size() > kLongest) return std::nullopt;
  const std::string written = plain(last_part(word));
  if (auto found = choose(word, candidates, [&](const std::string& c) { return plain(last_part(c)) == written; }))
    return found;
  if (auto found = choose(word, candidates, [&](const std::string& c) {
        const std::string other = plain(last_part(c));
        return other == written + "s" || other + "s" == written;
      }))
    return found;
  if (auto found = by_synonym(word, candidates)) return found;
  if (auto found = nearest(word, candidates)) return found;
  return by_parts(word, candidates);
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates) {
  if (word.size() > kLongest) return std::nullopt;
  std::optional<std::string> best;
  std::size_t best_distance = 0;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kLongest) continue;
    const std::size_t allowed = std::max<std::size_t>(1, std::max(word.size(), candidate.size()) / 3);
    const std::size_t distance = edit_distance(word, candidate);
    if (distance >= std::max(word.size(), candidate.size())) continue;  // nothing of it is left: '3' is no slip for '1'
    const bool begins = candidate.starts_with(word) && best && !best->starts_with(word);
    if (distance <= allowed && (!best || distance < best_distance || (distance == best_distance && begins))) {
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

std::string file_suggestion(const std::filesystem::path& wanted, const std::vector<std::string>& endings) {
  namespace fs = std::filesystem;
  const fs::path folder = wanted.parent_path();
  std::vector<std::string> paths;
  for (const fs::path& place : {folder, folder / "pipelines"}) {
    std::error_code error;
    const fs::path listed = place.empty() ? fs::path(".") : place;
    std::vector<std::string> here;
    for (fs::directory_iterator it(listed, error), end; !error && it != end; it.increment(error)) {
      const std::string ending = it->path().extension().string();
      if (!endings.empty() && std::find(endings.begin(), endings.end(), ending) == endings.end()) continue;
      here.push_back((place / it->path().filename()).string());
    }
    std::sort(here.begin(), here.end());
    paths.insert(paths.end(), here.begin(), here.end());
  }
  const std::string stem = wanted.stem().string();
  const std::string* best = nullptr;
  std::size_t least = 0;
  for (const std::string& path : paths) {
    const std::string other = fs::path(path).stem().string();
    if (other.size() > kLongest || stem.size() > kLongest) continue;
    const std::size_t distance = edit_distance(stem, other);
    const std::size_t allowed = std::max(stem.size(), other.size()) / 3;
    if (distance <= allowed && (!best || distance < least)) {
      best = &path;
      least = distance;
    }
  }
  return best ? "did you mean '" + *best + "'?" : "";
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const auto near = meant(word, candidates);
  return near ? "did you mean '" + *near + "'?" : "";
}

std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  if (std::string near = did_you_mean(word, candidates); !near.empty()) return near;
  if (candidates.empty() || word.size() > kLongest) return "";
  std::vector<std::string> shown = candidates;
  constexpr std::size_t kMostShown = 24;
  const bool some = candidates.size() > kMostShown;
  if (some) {
    std::vector<std::pair<std::size_t, std::string>> by_distance;
    for (const std::string& candidate : candidates) {
      if (candidate.size() > kLongest) continue;
      const std::size_t distance = edit_distance(word, candidate);
      if (2 * distance <= std::max(word.size(), candidate.size())) by_distance.emplace_back(distance, candidate);
    }
    const std::string all = cat(candidates.size(), " names");
    if (by_distance.empty()) {
      shown.resize(3);
      return cat("expected one of ", all, ", such as ", join(shown, ", "));
    }
    std::sort(by_distance.begin(), by_distance.end());
    by_distance.resize(std::min<std::size_t>(by_distance.size(), 5));
    shown.clear();
    for (auto& [distance, candidate] : by_distance) shown.push_back(quote(candidate));  // 'none' is a name, too
    return cat("the nearest of ", all, shown.size() == 1 ? " is " : " are ", join(shown, ", "));
  }
  return cat("expected one of ", join(shown, ", "));
}

}  // namespace pe::support
