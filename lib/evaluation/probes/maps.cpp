// Maps of attention: queries by keys, pooled to a picture, for chosen layers and a few texts.
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include <set>

#include "encodings/attention/attend.h"
#include "evaluation/probes/probe_texts.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

using support::cat;

/// Sums of weights by bins of queries and keys, one layer, over any number of texts of one length.
class PooledMap {
 public:
  PooledMap(std::int64_t heads, std::int64_t length, std::int64_t bins)
      : length_(length), bins_(bins), sums_(at::zeros({heads, bins, bins}, at::kDouble)) {}

  /// @param weights [B,H,rows,keys], query rows `first` .. `first` + rows − 1.
  void add(const at::Tensor& weights, std::int64_t first) {
    const at::Tensor all = weights.to(at::kDouble).sum(0).to(at::kCPU);
    const at::Tensor of_queries = members(first, all.size(1)).t(), of_keys = members(0, all.size(2));
    sums_ += at::matmul(of_queries, at::matmul(all, of_keys));
  }

  /// [H, bins, bins]: the share of its attention that a query of a row gives to the keys of a column, mean over queries
  /// and texts.
  at::Tensor shares(std::int64_t texts) const {
    return sums_ / (members(0, length_).sum(0) * static_cast<double>(texts)).unsqueeze(1);
  }
  /// First token of a bin.
  std::int64_t begin(std::int64_t bin) const { return (bin * length_ + bins_ - 1) / bins_; }

 private:
  /// [count, bins]: 1 where the bin contains token `first` + row.
  at::Tensor members(std::int64_t first, std::int64_t count) const {
    const at::Tensor bin = at::arange(first, first + count, at::kLong).mul(bins_).div(length_, "floor");
    return bin.unsqueeze(1).eq(at::arange(bins_, at::kLong)).to(at::kDouble);
  }

  std::int64_t length_, bins_;
  at::Tensor sums_;  // [H, bins, bins]
};

class Maps final : public Task {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("layers", layers_, "Layers, from 0. By default: the first, the middle and the last one.",
            {.min = 0, .neutral = Json::array()});
    v.field("texts", texts_, "Held-out texts; a map is their mean.", {.min = 1, .max = 1000, .neutral = Json(4)});
    v.field("size", size_, "Rows and columns of a map. Longer texts are pooled.",
            {.min = 2, .max = 512, .neutral = Json(32)});
    v.field("lengths", lengths_, "Lengths of the texts, as multiples of the training length.",
            {.min = 0.01, .max = 1024, .neutral = Json::array({1.0, 2.0})});
  }

  void run(TaskContext& context) const override {
    const model::LanguageModel& model = probed_model(context);
    const std::vector<std::int64_t> layers = chosen_layers(model.config().layers);
    std::set<std::int64_t> wanted;
    for (const double multiple : lengths_) {
      wanted.insert(std::max<std::int64_t>(
          2, std::llround(multiple * static_cast<double>(context.scorer.capabilities().train_length))));
    }
    const ProbeLengths lengths =
        probe_lengths(context, {wanted.begin(), wanted.end()}, texts_, [&](std::int64_t length, const char* why) {
          context.results.add_row(
              schema::ProbeMap{.corpus = context.documents.split(), .length = length, .status = why});
        });
    for (const std::int64_t length : lengths.live) {
      context.results.item(cat("maps/", length),
                           [&] { return at_length(context, model, layers, lengths.longest, length); });
      context.progress.note(cat("maps: ", length, " tokens are done"));
    }
  }

 private:
  std::vector<std::int64_t> chosen_layers(std::int64_t count) const {
    for (const std::int64_t layer : layers_) {
      if (layer >= count) {
        throw support::ConfigError(
            cat("eval.maps.layers: no layer ", layer, "; the model has layers 0 to ", count - 1));
      }
    }
    const std::set<std::int64_t> usual{0, count / 2, count - 1};
    return layers_.empty() ? std::vector<std::int64_t>(usual.begin(), usual.end()) : layers_;
  }

  schema::Rows at_length(TaskContext& context, const model::LanguageModel& model,
                         const std::vector<std::int64_t>& layers, std::int64_t longest, std::int64_t length) const {
    const std::int64_t heads = model.config().heads, bins = std::min(size_, length);
    std::map<std::int64_t, PooledMap> maps;
    for (const std::int64_t layer : layers) maps.try_emplace(layer, heads, length, bins);
    model::Hooks hooks;
    hooks.rows = [&](std::int64_t layer, const encodings::AttentionRows& seen) {
      if (const auto map = maps.find(layer); map != maps.end()) map->second.add(seen.weights, seen.rows.begin);
    };
    const auto texts = probe_texts(context.documents, longest, length, texts_, context.text.bos());
    in_batches(model, texts, context.settings.batch_tokens,
               [&](std::int64_t first, const at::Tensor& ids) { forward_with_hooks(model, ids, first, hooks); });
    schema::Rows rows;
    const std::string corpus = context.documents.split();
    for (const auto& [layer, map] : maps) {
      const at::Tensor shares = map.shares(std::ssize(texts));
      const auto share = shares.accessor<double, 3>();
      for (std::int64_t head = 0; head < heads; ++head) {
        for (std::int64_t row = 0; row < bins; ++row) {
          for (std::int64_t column = 0; column <= row; ++column) {
            rows.add(schema::ProbeMap{.corpus = corpus,
                                      .length = length,
                                      .layer = layer,
                                      .head = head,
                                      .query_lo = map.begin(row),
                                      .query_hi = map.begin(row + 1),
                                      .key_lo = map.begin(column),
                                      .key_hi = map.begin(column + 1),
                                      .n = std::ssize(texts),
                                      .share = share[head][row][column],
                                      .status = status::kOk});
          }
        }
      }
    }
    return rows;
  }

  std::vector<std::int64_t> layers_;
  std::int64_t texts_ = 4;
  std::int64_t size_ = 32;
  std::vector<double> lengths_ = {1, 2};
};

}  // namespace

TaskEntry maps_task() {
  return {.name = "maps",
          .summary = "Probe: maps of attention, queries by keys, of chosen layers and a few texts.",
          .tables = {"probe_map"},
          .make = make_task<Maps>};
}

}  // namespace pe::evaluation
