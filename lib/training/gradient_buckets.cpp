#include "training/gradient_buckets.h"

#include <algorithm>
#include <utility>

#include "support/hash.h"
#include "support/text.h"

namespace pe::training {
namespace {

struct Range {
  std::int64_t begin = -1, end = -1;
};

/// Ranges of the parameters of each layer in a group.
std::vector<Range> layer_ranges(const model::LanguageModel& model, std::size_t group) {
  std::vector<Range> ranges(static_cast<std::size_t>(model.config().layers));
  for (std::size_t layer = 0; layer < ranges.size(); ++layer) {
    const std::string prefix = support::cat("layers.", layer, ".");
    for (std::size_t i = 0; i < model.parameters().size(); ++i) {
      const model::Parameter& parameter = model.parameters()[i];
      const auto& at = model.locations()[i];
      if (at.group != group || parameter.name.rfind(prefix, 0) != 0) continue;
      Range& range = ranges[layer];
      const std::int64_t end = at.offset + parameter.tensor.numel();
      range.begin = range.begin < 0 ? at.offset : std::min(range.begin, at.offset);
      range.end = std::max(range.end, end);
    }
  }
  return ranges;
}

bool ascends(const std::vector<Range>& ranges) {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].begin < 0 || (i > 0 && ranges[i].begin < ranges[i - 1].end)) return false;
  }
  return !ranges.empty();
}

}  // namespace

GradientBuckets::GradientBuckets(model::LanguageModel model, Communicator& communicator, std::int64_t first_bytes,
                                 std::int64_t bytes)
    : model_(std::move(model)), communicator_(communicator) {
  constexpr std::size_t kMatrices = 0;
  const auto size_of = [&](std::size_t group) { return model_.groups()[group].values.numel(); };
  std::vector<Bucket> tail;
  const std::vector<Range> layers = layer_ranges(model_, kMatrices);
  if (ascends(layers)) {
    std::int64_t end = layers.back().end;
    if (end < size_of(kMatrices)) tail.push_back({kMatrices, end, size_of(kMatrices)});
    for (std::int64_t layer = std::ssize(layers) - 1; layer >= 0; --layer) {
      const std::int64_t begin = layers[static_cast<std::size_t>(layer)].begin;
      const std::int64_t wanted = buckets_.empty() ? first_bytes : bytes;
      if ((end - begin) * 4 < wanted && layer > 0) continue;
      buckets_.push_back({kMatrices, begin, end, layer});
      end = begin;  // padding before a layer goes with the one below
    }
    if (end > 0) tail.push_back({kMatrices, 0, end});
  } else {
    tail.push_back({kMatrices, 0, size_of(kMatrices)});
  }
  for (std::size_t group = 0; group < model_.groups().size(); ++group) {
    if (group != kMatrices) tail.push_back({group, 0, size_of(group)});
  }
  for (const Bucket& bucket : tail) {
    if (bucket.end > bucket.begin) buckets_.push_back(bucket);
  }
}

void GradientBuckets::start_until(std::int64_t layer) {
  for (; next_ < buckets_.size(); ++next_) {
    const Bucket& bucket = buckets_[next_];
    if (bucket.after_layer < layer) break;
    communicator_.start_sum(model_.groups()[bucket.group].gradients.narrow(0, bucket.begin, bucket.end - bucket.begin));
  }
}

void GradientBuckets::left_layer(std::int64_t layer) {
  start_until(layer);
  communicator_.advance();
}

void GradientBuckets::finish() {
  start_until(-1);
  communicator_.finish();
}

double parameter_hash(const model::LanguageModel& model) {
  std::uint32_t crc = 0;
  for (const model::FlatGroup& group : model.groups()) {
    const at::Tensor host = group.values.is_cpu() ? group.values : group.values.cpu();
    crc = support::crc32c(host.data_ptr(), host.nbytes(), crc);
  }
  return crc;
}

}  // namespace pe::training
