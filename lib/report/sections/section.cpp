#include "report/sections/section.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "report/results/training_curves.h"
#include "support/missing.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;
using support::kMissing;

}  // namespace

void append_if_fits(std::string& line, const std::string& tail) {
  if (support::display_width(line) + support::display_width(tail) <= kLineColumns) line += tail;
}

std::string join_as_sentence(const std::vector<std::string>& sentences) {
  std::string text;
  for (std::string sentence : sentences) {
    if (sentence.empty()) continue;
    if (sentence.back() == '.') sentence.pop_back();
    char& first = sentence[0];
    const bool symbol = sentence.size() > 1 && sentence[1] == ' ';  // "n = 32"
    if (text.empty() && !symbol && first >= 'a' && first <= 'z') first = static_cast<char>(first - 'a' + 'A');
    const std::string word =
        sentence.substr(1, sentence.find(' ') == std::string::npos ? sentence.npos : sentence.find(' ') - 1);
    const bool name = std::any_of(word.begin(), word.end(), [](char c) { return c >= 'A' && c <= 'Z'; });  // "RoPE"
    if (!text.empty() && !name && first >= 'A' && first <= 'Z') first = static_cast<char>(first - 'A' + 'a');
    text += (text.empty() ? "" : "; ") + sentence;
  }
  return text.empty() ? text : text + ".";
}

std::vector<LmPlace> lm_places(const Results& results) {
  std::vector<LmPlace> places;
  for (const std::string& protocol : protocols_of(results)) {
    for (const std::int64_t length : lengths_of(results, protocol)) places.push_back({protocol, length});
  }
  return places;
}

std::string other_settings_note(const std::vector<CostSetting>& settings) {
  return settings.size() > 1 ? "; times of other devices and settings are in the section on cost" : "";
}

std::string mark_of(const std::string& status) {
  if (status == "overflow") return "overflow";
  return status == "not_measured" ? "–" : "n/a";
}

namespace {

std::string length_words(const Results& results, std::int64_t length, const char* unit) {
  const bool whole = results.train_length > 0 && length % results.train_length == 0;
  return cat(support::with_commas(length), unit, whole ? cat(" (", length / results.train_length, "×)") : "");
}

}  // namespace

std::string length_header(const Results& results, std::int64_t length) { return length_words(results, length, ""); }
std::string tokens_header(const Results& results, std::int64_t length) {
  return length_words(results, length, " tokens");
}

void add_training_rules(Panel& panel, const Results& results, const std::string& variant) {
  const auto lengths = train_lengths_of(results, variant);
  for (const std::int64_t length : lengths) {
    panel.rules.push_back({true, static_cast<double>(length),
                           lengths.size() == 1 ? "training length" : cat("trained at ", support::with_commas(length))});
  }
}

namespace {

/// "Training length: 128 tokens.", "Training lengths: 128 tokens (decay); 512 (extend)."
std::string lengths_sentence(const Results& results) {
  if (results.train_length > 0) return cat("Training length: ", support::with_commas(results.train_length), " tokens.");
  std::map<std::int64_t, std::vector<std::string>> arms;
  std::vector<std::string> unknown;
  for (const Arm& arm : results.arms) {
    const std::int64_t length = train_length_of(results, arm);
    const std::string name = has_variants(results) && !arm.variant.empty() ? arm.variant : arm.encoding;
    auto& names = arms[length];
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  if (arms.empty() || (arms.size() == 1 && arms.begin()->first == 0)) return "The training length is not known.";
  std::vector<std::string> parts;
  for (const auto& [length, names] : arms) {
    const std::string who = names.size() <= 4 ? support::join(names, ", ") : cat(names.size(), " models");
    parts.push_back(length > 0 ? cat(support::with_commas(length), " tokens (", who, ")")
                               : cat("not known (", who, ")"));
  }
  return cat("Training lengths: ", support::join(parts, "; "), ".");
}

}  // namespace

std::string training_sentence(const Results& results) {
  std::vector<std::string> parts{lengths_sentence(results)};
  // How absolute encodings were scaled against the tokens decides comparisons, so it is said wherever it is known.
  std::set<std::string> scales;
  for (const Run& run : results.runs) {
    const auto encoding = run.facts.find("encoding");
    if (encoding == run.facts.end() || !encoding->is_object()) continue;
    for (const char* key : {"pe_scale", "scale"}) {
      const auto scale = encoding->find(key);
      if (scale != encoding->end() && (scale->is_string() || scale->is_number()) && std::string(key) == "pe_scale") {
        scales.insert(cat(run.encoding, " ", scale->is_string() ? scale->get<std::string>() : scale->dump()));
      }
    }
  }
  if (!scales.empty()) {  // of absolute encodings against the tokens
    parts.push_back(cat("pe_scale: ", support::join({scales.begin(), scales.end()}, ", ")));
  }
  parts.insert(parts.end(), results.notes.begin(), results.notes.end());
  return join_as_sentence(parts);
}

std::string seeds_sentence(const Results& results) {
  std::set<std::string> seeds;
  std::size_t fewest = std::numeric_limits<std::size_t>::max(), most = 0;
  for (const Arm& arm : results.arms) {
    fewest = std::min(fewest, arm.runs.size());
    most = std::max(most, arm.runs.size());
    for (const std::size_t run : arm.runs) {
      if (!results.runs[run].seed.empty()) seeds.insert(results.runs[run].seed);
    }
  }
  if (most == 0) return "";
  const std::string count = fewest == most ? cat(most) : cat(fewest, " to ", most);
  std::string text = cat(count, most == 1 ? " seed" : " seeds", " per model");
  if (!seeds.empty() && seeds.size() <= 8) text += cat(" (", support::join({seeds.begin(), seeds.end()}, ", "), ")");
  return text + ".";
}

std::string setting_words(const Results& results) {
  std::set<double> parameters, steps;
  std::vector<std::string> names;
  for (const Curve& curve : results.curves) {
    for (const auto& [key, values] : {std::pair{"parameters", &parameters}, {"step", &steps}}) {
      const auto found = curve.run.facts.find(key);
      if (found != curve.run.facts.end() && found->is_number()) values->insert(found->get<double>());
    }
    const std::string name = data_name(results, curve, "");
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  for (const Run& run : results.runs) {
    if (results.curves.empty() && run.step > 0) steps.insert(static_cast<double>(run.step));
  }
  std::size_t fewest = std::numeric_limits<std::size_t>::max(), most = 0;
  for (const Arm& arm : results.arms) {
    fewest = std::min(fewest, arm.runs.size());
    most = std::max(most, arm.runs.size());
  }
  const auto range = [](const std::string& low, const std::string& high, const char* what) {
    return low == high ? cat(low, what) : cat(low, " to ", high, what);
  };
  std::vector<std::string> parts;
  if (!parameters.empty())
    parts.push_back(
        range(support::short_count(*parameters.begin()), support::short_count(*parameters.rbegin()), " parameters"));
  if (!steps.empty())
    parts.push_back(range(support::with_commas(std::llround(*steps.begin())),
                          support::with_commas(std::llround(*steps.rbegin())), " steps"));
  if (most > 0) parts.push_back(range(cat(fewest), cat(most), most == 1 ? " seed" : " seeds"));
  parts.insert(parts.end(), names.begin(), names.end());
  return support::join(parts, " · ");
}

std::vector<Column> arm_columns(bool with_variant) {
  std::vector<Column> columns{{.id = "encoding", .header = "Encoding", .text = true}};
  if (with_variant) columns.push_back({.id = "variant", .header = "Variant", .text = true});
  return columns;
}

std::vector<Cell> arm_cells(const std::string& encoding, const std::string& variant, bool with_variant) {
  std::vector<Cell> cells{Cell::of_text(encoding)};
  if (with_variant) cells.push_back(Cell::of_text(variant));
  return cells;
}

std::vector<Column> arm_columns(const Results& results) { return arm_columns(has_variants(results)); }
std::vector<Cell> arm_cells(const Results& results, const Arm& arm) {
  return arm_cells(arm.encoding, arm.variant, has_variants(results));
}

std::vector<std::size_t> places_of(const Results& results, const std::vector<const Curve*>& curves) {
  std::set<std::size_t> places;
  for (const Curve* curve : curves) places.insert(static_cast<std::size_t>(curve - results.curves.data()));
  return {places.begin(), places.end()};
}

std::string heat_text(double value) {
  const std::string text = fmt::format("{:.{}f}", value, std::abs(value) < 0.9995 ? 3 : 2);
  return text.find_first_not_of("-0.") == std::string::npos ? "0" : text[0] == '-' ? "−" + text.substr(1) : text;
}

std::string in_words(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

std::vector<std::string> distinguishing_parts(const std::vector<std::string>& variants) {
  std::vector<std::vector<std::string>> parts;
  for (const std::string& variant : variants) parts.push_back(support::split(variant, ','));
  std::vector<std::string> names;
  std::map<std::string, std::string> named;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    // Parts correspond among variants with as many of them: trunks have fewer than their branches.
    std::vector<std::string> differing;
    bool all_correspond = true;
    for (const auto& other : parts) all_correspond = all_correspond && other.size() == parts[i].size();
    for (std::size_t k = 0; k < parts[i].size(); ++k) {
      const bool differs = std::any_of(parts.begin(), parts.end(), [&](const auto& other) {
        return other.size() == parts[i].size() && other[k] != parts[i][k];
      });
      if (differs) differing.push_back(parts[i][k]);
    }
    std::string name(support::trim(support::join(differing, ",")));
    if (name.empty() && !all_correspond) name = variants[i];
    if (named.emplace(name, variants[i]).first->second != variants[i]) return variants;
    names.push_back(std::move(name));
  }
  return names;
}

std::vector<std::string> row_names(const Results& results, const std::vector<const Arm*>& arms) {
  std::vector<std::string> variants, names;
  for (const Arm* arm : arms) variants.push_back(arm->variant);
  variants = distinguishing_parts(variants);
  for (std::size_t i = 0; i < arms.size(); ++i) {
    names.push_back(
        arm_name({.encoding = arms[i]->encoding, .variant = variants[i], .runs = {}}, has_variants(results)));
  }
  return names;
}

Cell mean_cell(const std::vector<double>& seeds) {
  const statistics::SeedSummary summary = statistics::summarise_seeds(seeds);
  Cell cell = Cell::of_number(summary.mean);
  if (cell.number && std::isfinite(summary.half_width))
    cell.half_width = summary.half_width;
  else if (cell.number && seeds.size() == 2)
    cell.parts = seeds;
  return cell;
}

Cell share_cell(const std::vector<double>& seeds) {
  Cell cell = Cell::of_number(statistics::median_of(seeds));
  if (cell.number && seeds.size() > 1) cell.parts = seeds;
  return cell;
}

namespace {

void add_seeds(Panel& panel, const Series& main, const std::vector<std::string>& seeds, const std::vector<double>& xs,
               const std::vector<std::vector<double>>& values, double (*transform)(double), Series::Role role) {
  if (values.size() < 2) return;
  for (std::size_t s = 0; s < values.size(); ++s) {
    Series thin{.name = main.name,
                .seed = seeds[s],
                .role = role,
                .look = main.look,
                .labelled = false,
                .variant = main.variant};
    for (std::size_t i = 0; i < xs.size(); ++i) thin.points.push_back({.x = xs[i], .y = transform(values[s][i])});
    panel.series.push_back(std::move(thin));
  }
}

std::vector<double> over_seeds(const std::vector<std::vector<double>>& values, std::size_t point) {
  std::vector<double> seeds;
  for (const auto& seed : values) seeds.push_back(seed[point]);
  return seeds;
}

}  // namespace

void add_arm_series(Panel& panel, const Arm& arm, const Look& look, const std::vector<std::string>& seeds,
                    const std::vector<double>& xs, const std::vector<std::vector<double>>& values,
                    double (*transform)(double), const std::string& end_note) {
  Series main{
      .name = arm.encoding, .role = Series::Role::kMain, .look = look, .end_note = end_note, .variant = arm.variant};
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const statistics::SeedSummary summary = statistics::summarise_seeds(over_seeds(values, i));
    Point point{.x = xs[i], .y = transform(summary.mean), .n = static_cast<double>(values.size())};
    if (std::isfinite(summary.half_width)) {
      point.low = transform(summary.mean - summary.half_width);
      point.high = transform(summary.mean + summary.half_width);
    }
    main.points.push_back(point);
  }
  add_seeds(panel, main, seeds, xs, values, transform, Series::Role::kSeed);
  panel.series.push_back(std::move(main));
}

void add_share_series(Panel& panel, const Arm& arm, const Look& look, const std::vector<std::string>& seeds,
                      const std::vector<double>& xs, const std::vector<std::vector<double>>& values) {
  Series main{.name = arm.encoding, .role = Series::Role::kMain, .look = look, .variant = arm.variant};
  for (std::size_t i = 0; i < xs.size(); ++i)
    main.points.push_back(
        {.x = xs[i], .y = statistics::median_of(over_seeds(values, i)), .n = static_cast<double>(values.size())});
  add_seeds(
      panel, main, seeds, xs, values, [](double share) { return share; }, Series::Role::kPoints);
  panel.series.push_back(std::move(main));
}

}  // namespace pe::report
