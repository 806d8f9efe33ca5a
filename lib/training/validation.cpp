#include "training/validation.h"

#include <algorithm>
#include <limits>
#include <numbers>
#include <vector>

#include "training/batch_reader.h"

namespace pe::training {

double bits_per_byte(double nats, std::int64_t bytes) {
  return bytes == 0 ? std::numeric_limits<double>::quiet_NaN() : nats / std::numbers::ln2 / static_cast<double>(bytes);
}

std::optional<ValidationRow> validate(const model::LanguageModel& model, const data::TokenDataset& dataset,
                                      std::int64_t windows, std::int64_t micro_batch, Documents documents,
                                      Communicator* communicator, std::int64_t length) {
  const at::NoGradGuard no_gradients;  // not inference mode: encodings may keep tables that training then uses
  if (length == 0) length = model.config().length;
  const std::int64_t count =
      std::min<std::int64_t>(windows, static_cast<std::int64_t>(dataset.windows(artifact::Split::kValidation, length)));
  if (count == 0) return std::nullopt;
  const BatchReader reader(dataset, artifact::Split::kValidation, length, model.device(), documents);
  double loss = 0;
  ValidationRow row;
  const std::int64_t rank = communicator ? communicator->rank() : 0, ranks = communicator ? communicator->count() : 1;
  for (std::int64_t first = rank * micro_batch; first < count; first += ranks * micro_batch) {
    const std::int64_t size = std::min(micro_batch, count - first);
    const Batch batch = reader.read(
        size, [&](std::int64_t i) { return static_cast<std::uint64_t>(first + i); }, true);
    model::ForwardOptions options;
    options.first_sample = first;
    options.doc_start = batch.doc_start;
    options.restart_positions = documents == Documents::kRestarted;
    const at::Tensor hidden = model.forward(batch.ids, options);
    loss += model.loss_sum(hidden.reshape({-1, hidden.size(-1)}), batch.targets).item<double>();
    row.bytes_scored += batch.bytes;
    row.tokens_scored += reader.targets(size, [&](std::int64_t i) { return static_cast<std::uint64_t>(first + i); });
  }
  if (ranks > 1) {
    const std::vector<double> all =
        communicator->sum({loss, static_cast<double>(row.bytes_scored), static_cast<double>(row.tokens_scored)});
    loss = all[0];
    row.bytes_scored = static_cast<std::int64_t>(all[1]);
    row.tokens_scored = static_cast<std::int64_t>(all[2]);
  }
  row.loss = loss / static_cast<double>(row.tokens_scored);
  row.bpb = bits_per_byte(loss, row.bytes_scored);
  return row;
}

}  // namespace pe::training
