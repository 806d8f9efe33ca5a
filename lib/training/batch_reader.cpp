#include "training/batch_reader.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "training/documents.h"

namespace pe::training {

BatchReader::BatchReader(const data::TokenDataset& dataset, artifact::Split split, std::int64_t length,
                         at::Device device, Documents documents)
    : dataset_(dataset), split_(split), length_(length), device_(device), documents_(documents) {}

Batch BatchReader::read(std::int64_t count, const WindowOf& window_of, bool count_bytes) const {
  return sent(read_on_host(count, window_of, count_bytes));
}

Batch BatchReader::sent(Batch batch) const {
  if (!device_.is_cuda()) return batch;
  for (at::Tensor* tensor : {&batch.ids, &batch.targets, &batch.doc_start})
    if (tensor->defined()) *tensor = tensor->to(device_, at::kLong, /*non_blocking=*/true);
  return batch;
}

Batch BatchReader::read_on_host(std::int64_t count, const WindowOf& window_of, bool count_bytes) const {
  const auto options = at::TensorOptions(at::kLong).pinned_memory(device_.is_cuda());
  Batch batch{at::empty({count, length_}, options), at::empty({count * length_}, options), {}, 0};
  if (documents_ != Documents::kJoined) batch.doc_start = at::empty({count, length_}, options);
  auto* ids = batch.ids.data_ptr<std::int64_t>();
  auto* targets = batch.targets.data_ptr<std::int64_t>();
  const auto length = static_cast<std::size_t>(length_);
  std::vector<std::int64_t> tokens(length + 1);
  std::uint64_t next = count > 0 ? window_of(0) : 0;
  for (std::int64_t row = 0; row < count; ++row) {
    const std::uint64_t window = next, first = window * static_cast<std::uint64_t>(length_);
    if (row + 1 < count) {
      next = window_of(row + 1);
      dataset_.expect_window(split_, length_, next);
    }
    dataset_.window(split_, length_, window, tokens);
    if (batch.doc_start.defined()) {
      document_starts(dataset_, split_, first, {batch.doc_start.data_ptr<std::int64_t>() + row * length_, length});
    }
    std::copy(tokens.begin(), tokens.end() - 1, ids + row * length_);
    if (dataset_.has_labels())
      dataset_.read_labels(split_, first, std::span(targets + row * length_, length));
    else
      std::copy(tokens.begin() + 1, tokens.end(), targets + row * length_);
    if (count_bytes) batch.bytes += static_cast<std::int64_t>(dataset_.text_bytes(tokens, 1));
  }
  return batch;
}

std::int64_t BatchReader::targets(std::int64_t count, const WindowOf& window_of) const {
  if (!dataset_.has_labels()) return count * length_;
  std::vector<std::int64_t> labels(static_cast<std::size_t>(length_));
  std::int64_t asked = 0;
  for (std::int64_t row = 0; row < count; ++row) {
    dataset_.read_labels(split_, window_of(row) * static_cast<std::uint64_t>(length_), labels);
    asked += std::count_if(labels.begin(), labels.end(), [](std::int64_t label) { return label >= 0; });
  }
  return asked;
}

Samples find_share(std::int64_t step, std::int64_t batch, std::int64_t rank, std::int64_t ranks) {
  const std::int64_t part = batch / ranks;
  return {.first = step * batch + rank * part, .count = part};
}

SampleReader::~SampleReader() {
  if (ahead_.valid()) ahead_.wait();  // it reads by this object
}

Batch SampleReader::read_on_host(const Samples& samples) const {
  return reader_.read_on_host(
      samples.count, [&](std::int64_t row) { return order_(static_cast<std::uint64_t>(samples.first + row)); },
      samples.count_bytes);
}

Batch SampleReader::take(const Samples& samples) {
  if (!ahead_.valid()) return read(samples);
  Batch batch = ahead_.get();
  return announced_ == samples ? reader_.sent(std::move(batch)) : read(samples);
}

void SampleReader::announce(const Samples& samples) {
  if (ahead_.valid()) ahead_.wait();
  announced_ = samples;
  ahead_ = std::async(std::launch::async, [this, samples] { return read_on_host(samples); });
}

std::int64_t SampleReader::targets(std::int64_t first, std::int64_t count) const {
  return reader_.targets(count, [&](std::int64_t row) { return order_(static_cast<std::uint64_t>(first + row)); });
}

}  // namespace pe::training
