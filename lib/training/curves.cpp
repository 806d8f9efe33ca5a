#include "training/curves.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "support/error.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/parse_json.h"
#include "support/text.h"

namespace pe::training {
namespace {

using artifact::Dtype;

constexpr std::int64_t kTrainColumns = 7;
constexpr std::int64_t kValidationColumns = 6;
constexpr std::int64_t kStepColumns = 2;
constexpr std::int64_t kLogitColumns = 2;

/// Records after the checkpoint that an attempt continued from are in "metrics.attempt-<n>.jsonl".
constexpr std::string_view kMoved = "metrics.attempt-", kLog = ".jsonl";

/// The largest n of them; 0 without one.
std::int64_t last_moved(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::int64_t last = 0;
  if (!std::filesystem::is_directory(folder, ignored)) return last;
  for (const std::string& name : support::list_folder(folder)) {
    if (!name.starts_with(kMoved) || !name.ends_with(kLog)) continue;
    const std::string number = name.substr(kMoved.size(), name.size() - kMoved.size() - kLog.size());
    last = std::max(last, support::parse_integer(number).value_or(0));
  }
  return last;
}

/// Integers go through float64, which holds them exactly below 2⁵³.
std::vector<double> flatten(const std::vector<TrainRow>& rows) {
  std::vector<double> flat;
  for (const TrainRow& row : rows) {
    flat.insert(flat.end(), {static_cast<double>(row.step), static_cast<double>(row.tokens), row.loss, row.bpb, row.lr,
                             row.grad_norm, row.clipped ? 1.0 : 0.0});
  }
  return flat;
}

std::vector<double> flatten(const std::vector<ValidationRow>& rows) {
  std::vector<double> flat;
  for (const ValidationRow& row : rows) {
    flat.insert(flat.end(), {static_cast<double>(row.step), static_cast<double>(row.tokens), row.loss, row.bpb,
                             static_cast<double>(row.tokens_scored), static_cast<double>(row.bytes_scored)});
  }
  return flat;
}

std::vector<double> flatten(const std::vector<StepFact>& rows) {
  std::vector<double> flat;
  for (const StepFact& row : rows) flat.insert(flat.end(), {row.loss, row.grad_norm});
  return flat;
}

std::vector<double> flatten(const std::vector<LogitSample>& rows) {
  std::vector<double> flat;
  for (const LogitSample& row : rows) flat.insert(flat.end(), {static_cast<double>(row.step), row.largest});
  return flat;
}

void add_rows(artifact::CheckpointWriter& writer, const std::string& name, const std::vector<double>& flat,
              std::int64_t columns) {
  writer.add({name, Dtype::kF64, {static_cast<std::int64_t>(flat.size()) / columns, columns}},
             std::as_bytes(std::span(flat)));
}

std::vector<double> read_rows(const artifact::CheckpointReader& checkpoint, const std::string& name,
                              std::int64_t columns) {
  const artifact::TensorInfo* info = checkpoint.find(name);
  if (info == nullptr || info->dtype != Dtype::kF64 || info->shape.size() != 2 || info->shape[1] != columns) {
    throw support::ArtifactError(
        support::cat(checkpoint.path().string(), ": '", name, "' is missing or not f64 [rows, ", columns, "]"));
  }
  std::vector<double> flat(static_cast<std::size_t>(info->bytes() / sizeof(double)));
  checkpoint.read(name, std::as_writable_bytes(std::span(flat)));
  return flat;
}

std::int64_t integer(double value) { return static_cast<std::int64_t>(value); }

}  // namespace

std::optional<ValidationRow> Curves::best() const {
  const ValidationRow* best = nullptr;
  for (const ValidationRow& row : validation) {
    if (std::isfinite(row.loss) && (best == nullptr || row.loss < best->loss)) best = &row;
  }
  return best == nullptr ? std::nullopt : std::optional(*best);
}

artifact::Tables Curves::tables(const Json& facts) const {
  artifact::Table rows("train", artifact::train_columns());
  for (const TrainRow& row : train) {
    rows.add_row({row.step, row.tokens, row.loss, row.bpb, row.lr, row.grad_norm, row.clipped ? 1 : 0});
  }
  artifact::Table checks("validation", artifact::validation_columns());
  for (const ValidationRow& row : validation) {
    checks.add_row({row.step, row.tokens, row.loss, row.bpb, row.tokens_scored, row.bytes_scored});
  }
  artifact::Table each("steps", artifact::step_columns());
  for (const StepFact& step : steps) each.add_row({step.loss, step.grad_norm});
  artifact::Table attention("attention", artifact::attention_columns());
  for (const LogitSample& sample : logits) attention.add_row({sample.step, sample.largest});
  artifact::Tables result;
  result.tables = {std::move(rows), std::move(checks), std::move(each), std::move(attention)};
  result.facts = facts;
  return result;
}

Curves Curves::from_tables(const artifact::Tables& tables) {
  Curves curves;
  const artifact::Table& rows = tables.at("train");
  {
    const auto &step = rows.integers("step"), &tokens = rows.integers("tokens"), &clipped = rows.integers("clipped");
    const auto loss = rows.reals("loss"), bpb = rows.reals("bpb"), lr = rows.reals("lr"),
               norm = rows.reals("grad_norm");
    for (std::size_t i = 0; i < rows.rows(); ++i) {
      curves.train.push_back({step[i], tokens[i], loss[i], bpb[i], lr[i], norm[i], clipped[i] != 0});
    }
  }
  const artifact::Table& checks = tables.at("validation");
  {
    const auto &step = checks.integers("step"), &tokens = checks.integers("tokens");
    const auto &scored = checks.integers("tokens_scored"), &bytes = checks.integers("bytes_scored");
    const auto loss = checks.reals("loss"), bpb = checks.reals("bpb");
    for (std::size_t i = 0; i < checks.rows(); ++i) {
      curves.validation.push_back({step[i], tokens[i], loss[i], bpb[i], scored[i], bytes[i]});
    }
  }
  const artifact::Table& each = tables.at("steps");
  const auto loss = each.reals("loss"), norm = each.reals("grad_norm");
  for (std::size_t i = 0; i < each.rows(); ++i) curves.steps.push_back({loss[i], norm[i]});
  const artifact::Table& attention = tables.at("attention");
  const auto largest = attention.reals("largest_logit");
  const auto& step = attention.integers("step");
  for (std::size_t i = 0; i < attention.rows(); ++i) curves.logits.push_back({step[i], largest[i]});
  return curves;
}

void Curves::write(artifact::CheckpointWriter& writer) const {
  add_rows(writer, "curves/train", flatten(train), kTrainColumns);
  add_rows(writer, "curves/validation", flatten(validation), kValidationColumns);
  add_rows(writer, "curves/steps", flatten(steps), kStepColumns);
  add_rows(writer, "curves/logits", flatten(logits), kLogitColumns);
}

Curves Curves::read(const artifact::CheckpointReader& checkpoint) {
  Curves curves;
  const std::vector<double> train = read_rows(checkpoint, "curves/train", kTrainColumns);
  for (std::size_t i = 0; i < train.size(); i += kTrainColumns) {
    curves.train.push_back({integer(train[i]), integer(train[i + 1]), train[i + 2], train[i + 3], train[i + 4],
                            train[i + 5], train[i + 6] != 0});
  }
  const std::vector<double> validation = read_rows(checkpoint, "curves/validation", kValidationColumns);
  for (std::size_t i = 0; i < validation.size(); i += kValidationColumns) {
    curves.validation.push_back({integer(validation[i]), integer(validation[i + 1]), validation[i + 2],
                                 validation[i + 3], integer(validation[i + 4]), integer(validation[i + 5])});
  }
  const std::vector<double> steps = read_rows(checkpoint, "curves/steps", kStepColumns);
  for (std::size_t i = 0; i < steps.size(); i += kStepColumns) curves.steps.push_back({steps[i], steps[i + 1]});
  const std::vector<double> logits = read_rows(checkpoint, "curves/logits", kLogitColumns);
  for (std::size_t i = 0; i < logits.size(); i += kLogitColumns)
    curves.logits.push_back({integer(logits[i]), logits[i + 1]});
  return curves;
}

Json json_number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

MetricsLog::MetricsLog(const std::filesystem::path& work, const std::filesystem::path& resume, std::int64_t step)
    : file_(work / "metrics.jsonl") {
  const std::filesystem::path earlier = resume.empty() ? file_ : resume / "metrics.jsonl";
  std::error_code ignored;
  if (!std::filesystem::exists(earlier, ignored)) {
    if (std::filesystem::exists(file_, ignored)) support::write_file_atomically(file_, "", false);
    return;
  }
  std::string kept, tail;
  std::int64_t last_attempt = 0;
  for (const std::string& line : support::split(support::read_file(earlier), '\n')) {
    const Json record = support::parse_json(line);
    if (!record.is_object()) continue;  // a line that a killed writer left unfinished
    last_attempt = std::max<std::int64_t>(last_attempt, record.value("attempt", std::int64_t{0}));
    // A sample of attention at the checkpoint's step came after it.
    const std::int64_t of = record.value("step", std::int64_t{0});
    const bool keep = of < step || (of == step && record.value("phase", "") != "attention");
    if (keep && record.contains("wall_s") && record["wall_s"].is_number()) wall_s_ = record["wall_s"].get<double>();
    std::string& to = keep ? kept : tail;
    to += line;
    to += '\n';
  }
  // An attempt that was killed before its first record may have moved the records of another one.
  attempt_ = std::max({last_attempt, last_moved(work), last_moved(resume)}) + 1;
  if (!tail.empty()) {
    support::write_file_atomically(work / support::cat(kMoved, last_attempt, kLog), tail, false);
  }
  support::write_file_atomically(file_, kept, false);
}

void MetricsLog::add(Json record) {
  record["attempt"] = attempt_;
  support::append_file(file_, record.dump() + "\n");
}

}  // namespace pe::training
