#include "report/results/arms.h"

#include <algorithm>
#include <cmath>

#include "report/results/rows.h"
#include "support/error.h"
#include "support/missing.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::kMissing;

}  // namespace

std::size_t arm_of(const Results& results, std::size_t run) {
  for (std::size_t arm = 0; arm < results.arms.size(); ++arm) {
    const auto& runs = results.arms[arm].runs;
    if (std::find(runs.begin(), runs.end(), run) != runs.end()) return arm;
  }
  return results.arms.size();
}

std::vector<const Arm*> arms_with(const Results& results, const std::set<std::size_t>& runs) {
  std::vector<const Arm*> arms;
  for (const Arm& arm : results.arms) {
    if (std::any_of(arm.runs.begin(), arm.runs.end(), [&](std::size_t run) { return runs.count(run) != 0; }))
      arms.push_back(&arm);
  }
  return arms;
}

double mean_of_finite(const std::vector<double>& values) {
  double sum = 0, count = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    sum += value;
    ++count;
  }
  return count > 0 ? sum / count : kMissing;
}

std::vector<std::string> protocols_of(const Results& results) {
  std::vector<std::string> found;
  for (const char* known : {"prefix", "blocks", "sliding"}) {
    if (std::any_of(results.lm.begin(), results.lm.end(), [&](const LmCell& cell) { return cell.protocol == known; }))
      found.push_back(known);
  }
  for (const LmCell& cell : results.lm) {
    if (std::find(found.begin(), found.end(), cell.protocol) == found.end()) found.push_back(cell.protocol);
  }
  return found;
}

std::vector<std::int64_t> lengths_of(const Results& results, const std::string& protocol) {
  std::set<std::int64_t> lengths;
  for (const LmCell& cell : results.lm) {
    if (cell.protocol == protocol) lengths.insert(cell.length);
  }
  return {lengths.begin(), lengths.end()};
}

bool has_variants(const Results& results) { return results.variants.size() > 1; }

std::int64_t place_in_model(const Results& results, std::size_t run, const char* table, const char* column,
                            std::int64_t value) {
  constexpr std::int64_t kMost = 4096;  // far beyond any model; a picture of more would never end
  if (value >= 0 && value < kMost) return value;
  throw support::ArtifactError(support::cat(results.runs[run].file, ", table '", table, "': column '", column,
                                            "' holds ", value, ", expected 0 to ", kMost - 1));
}

std::string reason_of(const std::string& status) {
  if (status == "na_positions") return "the length is beyond the positions that the encoding has";
  if (status == "overflow") return "perplexity above 10,000 or not finite";
  if (status == "skipped_docs") return "too few documents are long enough";
  if (status == "na_length") return "the length cannot hold the shortest item";
  if (status == "na_vocabulary") return "the tokenizer has too few distinct pieces";
  if (status == "na_encoding") return "the encoding has nothing of the kind";
  if (status == "na_separator") return "the data has no separator";
  if (status == "na_reference") return "no other model was given";
  if (status == "na_uncovered") return "lengths that the number needs were not tested";
  if (status == "none") return "there is no such length";
  if (status == "not_acquired") return "below one half at the training length";
  if (status == "not_measured") return "not measured";
  return status;
}

std::string data_of(const Run& run) {
  const auto found = run.facts.find("data_digest");
  return found != run.facts.end() && found->is_string() ? found->get<std::string>() : "";
}

std::int64_t train_length_of(const Results& results, const Arm& arm) {
  std::int64_t length = -1;
  for (const std::size_t run : arm.runs) {
    const std::int64_t own = results.runs[run].train_length > 0 ? results.runs[run].train_length : results.train_length;
    if (length >= 0 && own != length) return 0;
    length = own;
  }
  return std::max<std::int64_t>(length, 0);
}

std::vector<std::int64_t> train_lengths_of(const Results& results, const std::string& variant) {
  std::set<std::int64_t> lengths;
  for (const Arm& arm : results.arms) {
    if (arm.variant == variant) lengths.insert(train_length_of(results, arm));
  }
  lengths.erase(0);
  return {lengths.begin(), lengths.end()};
}

}  // namespace pe::report
