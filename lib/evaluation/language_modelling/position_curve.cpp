#include "evaluation/language_modelling/position_curve.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "evaluation/language_modelling/length_numbers.h"

namespace pe::evaluation {

namespace {

using artifact::Cell;

/// Rows that only the journal sees.
constexpr const char* kBins = "perplexity.positions";
constexpr const char* kQuarters = "perplexity.quarters";

struct Bin {
  const char* spacing;
  std::int64_t begin, end;
};

/// Edges at powers of two, and bins of a width of train_length / 32, of positions 1 to `end`.
std::vector<Bin> bins_of(std::int64_t end, std::int64_t train_length) {
  std::vector<Bin> bins;
  for (std::int64_t edge = 1; edge < end; edge *= 2) bins.push_back({"log", edge, std::min(2 * edge, end)});
  const std::int64_t width = std::max<std::int64_t>(1, train_length / 32);
  for (std::int64_t edge = 0; edge < end; edge += width) {
    if (std::min(edge + width, end) > 1) bins.push_back({"linear", edge, std::min(edge + width, end)});
  }
  return bins;
}

double sum_of(const std::vector<double>& losses, std::int64_t begin, std::int64_t end) {
  double sum = 0;
  for (std::int64_t at = std::max<std::int64_t>(begin, 1); at < end; ++at) sum += losses[static_cast<std::size_t>(at)];
  return sum;
}

std::int64_t whole(const Cell& cell) { return static_cast<std::int64_t>(number(cell)); }

/// Losses of whole bins, as a curve over their beginnings.
LengthCurve quarter_curve(const std::vector<Rows>& items) {
  std::map<std::int64_t, std::size_t> place;
  LengthCurve curve;
  for (const Rows& rows : items) {
    const auto found = rows.find(kQuarters);
    if (found == rows.end()) continue;
    for (const Row& row : found->second) {   // documents in order, bins within
      const auto [at, fresh] = place.try_emplace(whole(row[0]), curve.lengths.size());
      if (fresh) {
        curve.lengths.push_back(whole(row[0]));
        curve.nll.emplace_back();
        curve.tokens.emplace_back();
      }
      curve.nll[at->second].push_back(number(row[2]));
      curve.tokens[at->second].push_back(number(row[1]));
    }
  }
  return curve;
}

}  // namespace

Rows position_items(const std::vector<std::vector<double>>& losses, std::int64_t train_length) {
  Rows rows;
  if (losses.empty() || losses[0].empty()) return rows;
  const auto end = static_cast<std::int64_t>(losses[0].size());
  for (const Bin& bin : bins_of(end, train_length)) {
    const auto tokens = static_cast<double>(bin.end - std::max<std::int64_t>(bin.begin, 1));
    double sum = 0, squares = 0;
    for (const auto& of : losses) {
      const double mean = sum_of(of, bin.begin, bin.end) / tokens;
      sum += mean;
      squares += mean * mean;
    }
    rows[kBins].push_back({bin.spacing, bin.begin, bin.end, losses.size(), sum, squares});
  }
  const std::int64_t width = blowup_bin(train_length);
  for (const auto& of : losses) {
    for (std::int64_t begin = 0; begin + width <= end; begin += width) {
      rows[kQuarters].push_back({begin, begin == 0 ? width - 1 : width, sum_of(of, begin, begin + width)});
    }
  }
  return rows;
}

Rows position_tables(const std::string& corpus, const std::vector<Rows>& items, std::int64_t train_length) {
  struct Sum {
    double documents = 0, sum = 0, squares = 0;
  };
  std::vector<Row> order;
  std::map<std::tuple<std::string, std::int64_t, std::int64_t>, Sum> bins;
  for (const Rows& part : items) {
    const auto found = part.find(kBins);
    if (found == part.end()) continue;
    for (const Row& row : found->second) {
      const std::string spacing = std::get<std::string>(row[0].value());
      const auto [at, fresh] = bins.try_emplace({spacing, whole(row[1]), whole(row[2])});
      if (fresh) order.push_back({spacing, whole(row[1]), whole(row[2])});
      at->second.documents += number(row[3]);
      at->second.sum += number(row[4]);
      at->second.squares += number(row[5]);
    }
  }
  Rows rows;
  for (const Row& row : order) {
    const Sum& bin = bins.at({std::get<std::string>(row[0].value()), whole(row[1]), whole(row[2])});
    const double mean = bin.sum / bin.documents;
    const double variance = std::max(0.0, bin.squares - bin.documents * mean * mean) / (bin.documents - 1);
    rows["lm_position"].push_back({corpus, row[0], row[1], row[2], static_cast<std::int64_t>(bin.documents), mean,
                                   bin.documents < 2 ? Cell() : Cell(std::sqrt(variance / bin.documents))});
  }

  const LengthCurve curve = quarter_curve(items);
  const auto documents = static_cast<std::int64_t>(curve.nll.empty() ? 0 : curve.nll[0].size());
  const std::vector<WithInterval> values = with_intervals(
      curve, {[train_length](const auto& begins, const auto& losses) { return blowup_position(begins, losses, train_length); },
              [train_length](const auto& begins, const auto& losses) { return gain_at_four(begins, losses, train_length); }});
  const bool beyond = !curve.lengths.empty() && curve.lengths.back() >= train_length;
  const auto add = [&](const char* measure, const WithInterval& value, const char* state) {
    const bool there = std::string(state) == status::kOk;
    const auto cell = [&](double number) { return there ? Cell(number) : Cell(); };
    rows["lm_length"].push_back({corpus, "position", measure, Cell(), documents, cell(value.value), cell(value.low),
                                 cell(value.high), state});
  };
  // A rise that one resample in forty does not show is none: the last bin of a flat curve exceeds by chance.
  const WithInterval& blowup = values[0];
  const bool none = !std::isfinite(blowup.value) || (documents > 1 && !std::isfinite(blowup.high));
  add("blowup_position", blowup, !beyond || std::isnan(blowup.value) ? status::kUncovered : none ? status::kNone : status::kOk);
  add("gain_4x", values[1], std::isnan(values[1].value) ? status::kUncovered : status::kOk);
  return rows;
}

}  // namespace pe::evaluation
