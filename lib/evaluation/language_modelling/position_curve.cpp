#include "evaluation/language_modelling/position_curve.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "evaluation/language_modelling/length_numbers.h"
#include "schema/status.h"

namespace pe::evaluation {

namespace status = schema::status;

namespace {

/// Rows that only the journal sees. Sums over some documents of the mean losses in a bin of positions, and of their
/// squares.
struct BinSums {
  static constexpr const char* kName = "perplexity.positions";
  std::string bins;
  std::int64_t bin_lo = 0, bin_hi = 0;
  std::int64_t documents = 0;
  double sum = 0, squares = 0;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("bins", row.bins, "", "log or linear");
    column("bin_lo", row.bin_lo, "tokens", "first position");
    column("bin_hi", row.bin_hi, "tokens", "first position beyond");
    column("documents", row.documents, "", "documents");
    column("sum", row.sum, "nats", "of the documents' means");
    column("squares", row.squares, "nats²", "of these");
  }
};

/// The loss of one document in a bin of a quarter of the training length.
struct QuarterLoss {
  static constexpr const char* kName = "perplexity.quarters";
  std::int64_t begin = 0, tokens = 0;
  double nll = 0;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("begin", row.begin, "tokens", "first position");
    column("tokens", row.tokens, "tokens", "scored ones");
    column("nll", row.nll, "nats", "sum over these");
  }
};

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

/// Losses of whole bins, as a curve over their beginnings.
LengthCurve quarter_curve(const std::vector<schema::Rows>& items) {
  std::map<std::int64_t, std::size_t> place;
  LengthCurve curve;
  for (const schema::Rows& rows : items) {
    for (const QuarterLoss& row : rows.of<QuarterLoss>()) {  // documents in order, bins within
      const auto [at, fresh] = place.try_emplace(row.begin, curve.lengths.size());
      if (fresh) {
        curve.lengths.push_back(row.begin);
        curve.nll.emplace_back();
        curve.tokens.emplace_back();
      }
      curve.nll[at->second].push_back(row.nll);
      curve.tokens[at->second].push_back(static_cast<double>(row.tokens));
    }
  }
  return curve;
}

}  // namespace

schema::Rows position_items(const std::vector<std::vector<double>>& losses, std::int64_t train_length) {
  schema::Rows rows;
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
    rows.add(BinSums{bin.spacing, bin.begin, bin.end, std::ssize(losses), sum, squares});
  }
  const std::int64_t width = blowup_bin(train_length);
  for (const auto& of : losses) {
    for (std::int64_t begin = 0; begin + width <= end; begin += width) {
      rows.add(QuarterLoss{begin, begin == 0 ? width - 1 : width, sum_of(of, begin, begin + width)});
    }
  }
  return rows;
}

schema::Rows position_tables(const std::string& corpus, const std::vector<schema::Rows>& items,
                             std::int64_t train_length) {
  std::vector<BinSums> bins;
  std::map<std::tuple<std::string, std::int64_t, std::int64_t>, std::size_t> place;
  for (const schema::Rows& part : items) {
    for (const BinSums& row : part.of<BinSums>()) {
      const auto [at, fresh] = place.try_emplace({row.bins, row.bin_lo, row.bin_hi}, bins.size());
      if (fresh) {
        bins.push_back(row);
        continue;
      }
      BinSums& bin = bins[at->second];
      bin.documents += row.documents;
      bin.sum += row.sum;
      bin.squares += row.squares;
    }
  }
  schema::Rows rows;
  for (const BinSums& bin : bins) {
    const auto documents = static_cast<double>(bin.documents);
    const double mean = bin.sum / documents;
    const double variance = std::max(0.0, bin.squares - documents * mean * mean) / (documents - 1);
    rows.add(schema::LmPosition{.corpus = corpus,
                                .bins = bin.bins,
                                .bin_lo = bin.bin_lo,
                                .bin_hi = bin.bin_hi,
                                .n = bin.documents,
                                .nll_mean = mean,
                                .se = bin.documents < 2 ? schema::kMissing : std::sqrt(variance / documents)});
  }

  const LengthCurve curve = quarter_curve(items);
  const auto documents = static_cast<std::int64_t>(curve.nll.empty() ? 0 : curve.nll[0].size());
  const std::vector<WithInterval> values = with_intervals(
      curve,
      {[train_length](const auto& begins, const auto& losses) { return blowup_position(begins, losses, train_length); },
       [train_length](const auto& begins, const auto& losses) { return gain_at_four(begins, losses, train_length); }});
  const bool beyond = !curve.lengths.empty() && curve.lengths.back() >= train_length;
  const auto add = [&](const char* measure, const WithInterval& value, const char* state) {
    schema::LmLength row{
        .corpus = corpus, .protocol = "position", .measure = measure, .n_docs = documents, .status = state};
    if (row.status == status::kOk) {
      row.value = value.value;
      row.ci_lo = value.low;
      row.ci_hi = value.high;
    }
    rows.add(std::move(row));
  };
  // A rise that one resample in forty does not show is none: the last bin of a flat curve exceeds by chance.
  const WithInterval& blowup = values[0];
  const bool none = !std::isfinite(blowup.value) || (documents > 1 && !std::isfinite(blowup.high));
  add("blowup_position", blowup,
      !beyond || std::isnan(blowup.value) ? status::kUncovered
      : none                              ? status::kNone
                                          : status::kOk);
  add("gain_4x", values[1], std::isnan(values[1].value) ? status::kUncovered : status::kOk);
  return rows;
}

}  // namespace pe::evaluation
