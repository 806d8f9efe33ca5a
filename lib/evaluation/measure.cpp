#include "evaluation/measure.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "artifact/checkpoint.h"
#include "artifact/eval_table.h"
#include "encodings/attention/attend.h"
#include "encodings/attention/token_reader.h"
#include "encodings/registry.h"
#include "evaluation/items.h"
#include "evaluation/memory_meter.h"
#include "evaluation/model_identity.h"
#include "model/checkpoint_io.h"
#include "model/device.h"
#include "model/language_model.h"
#include "schema/status.h"
#include "schema/tables.h"
#include "support/clock.h"
#include "support/progress.h"
#include "support/text.h"

namespace pe::evaluation {

using support::cat;

namespace {

void wait_for(at::Device device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

double milliseconds(at::Device device, const std::function<void()>& work) {
  wait_for(device);
  const double begin = support::steady_s();
  work();
  wait_for(device);
  return 1e3 * (support::steady_s() - begin);
}

/// Linear between order statistics.
double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

at::Tensor normals(const std::string& name, at::IntArrayRef sizes, const at::TensorOptions& options) {
  at::Tensor made = at::empty(sizes, at::kDouble);
  support::philox_normal(probe_key("measure." + name, 0, 0), made.mutable_data_ptr<double>(),
                         static_cast<std::size_t>(made.numel()));
  return made.to(options);
}

/// Both models at one length: the encoding's own, and the same without one.
class Bench {
 public:
  Bench(const model::LanguageModel& model, const model::LanguageModel& none, std::int64_t batch, std::int64_t length)
      : model_(model), none_(none), batch_(batch), length_(length) {
    const auto& config = model.config();
    const auto options = at::TensorOptions(model.compute_dtype()).device(model.device());
    x_ = normals("x", {batch, length, config.width}, options);
    for (const bool with : {false, true})
      q_[with] = normals("q", {batch, (with ? model : none).config().query_heads(), length, config.d_h()}, options);
    k_ = normals("k", {batch, config.kv_heads(), length, config.d_h()}, options);
    v_ = normals("v", {batch, config.kv_heads(), length, config.d_h()}, options);
    at::Tensor ids = at::empty({batch, length}, at::kLong);
    support::Xoshiro random(probe_key("measure.ids", length, 0));
    auto* to = ids.mutable_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < ids.numel(); ++i) {
      to[i] = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(config.vocabulary)));
    }
    ids_ = ids.to(model.device());
  }

  /// The attention of all layers, from adding to the embeddings on.
  void attend(bool with_encoding, bool best) const {
    const c10::InferenceMode inference;
    const model::LanguageModel& of = with_encoding ? model_ : none_;
    encodings::PositionalEncoding& encoding = of.encoding();
    encodings::Span span = encodings::Span::whole(batch_, length_);
    span.pe_len = length_;
    span.device = of.device();
    span.causal = of.config().mask == model::Mask::kCausal;
    encodings::State state = encodings::begin_pass(encoding, span);
    encodings::give_example_numbers(encoding, state);
    encodings::add_to_tokens(encoding, x_, state);
    encodings::AttendOptions options;
    options.route = best ? encodings::Route::kAuto : encodings::Route::kChunked;
    for (int layer = 0; layer < static_cast<int>(of.config().layers); ++layer) {
      encodings::LayerContext context = encodings::layer_context(encoding, state, layer, x_);
      encodings::Heads heads;
      heads.q = q_[with_encoding];
      heads.k = k_;
      heads.v = v_;
      heads.scale = 1 / std::sqrt(static_cast<double>(of.config().d_h()));
      encodings::attend(encoding, context, std::move(heads), options);
      encoding.after_feed_forward(context, x_);
    }
  }

  void forward(bool with_encoding, bool best) const {
    const c10::InferenceMode inference;
    model::ForwardOptions options;
    model::Hooks hooks;
    hooks.rows = [](std::int64_t, const encodings::AttentionRows&) {};  // asks for the definition, range by range
    if (!best) options.hooks = &hooks;
    (with_encoding ? model_ : none_).forward(ids_, options);
  }

  void train(bool with_encoding) const {
    const model::LanguageModel& of = with_encoding ? model_ : none_;
    of.zero_gradients();
    model::ForwardOptions options;
    options.training = true;
    const at::Tensor hidden = of.forward(ids_, options).narrow(1, 0, length_ - 1);
    of.loss_sum(hidden.reshape({-1, hidden.size(-1)}), ids_.narrow(1, 1, length_ - 1).reshape({-1})).backward();
  }

 private:
  const model::LanguageModel &model_, &none_;
  std::int64_t batch_, length_;
  at::Tensor x_, k_, v_, ids_;
  std::array<at::Tensor, 2> q_;  ///< without and with the encoding, which may make several heads of a query
};

struct Timings {
  std::vector<double> with, without;
};

/// Measures with and without the encoding alternately, since the speed of a machine changes with time.
struct Turns {
  at::Device device;
  std::int64_t warmup, repetitions;

  /// @throws support::Stopped when the stage is asked to stop
  Timings take(const std::function<void(bool)>& work) const {
    Timings timings;
    for (std::int64_t i = -warmup; i < repetitions; ++i) {
      if (support::stop_requested()) throw support::StopRequest(/*resumable=*/false);
      const double without = milliseconds(device, [&] { work(false); });
      const double with = milliseconds(device, [&] { work(true); });
      if (i < 0) continue;
      timings.without.push_back(without);
      timings.with.push_back(with);
    }
    return timings;
  }
};

class CostRows {
 public:
  CostRows(std::string device, std::string dtype, std::int64_t batch)
      : device_(std::move(device)), dtype_(std::move(dtype)), batch_(batch) {}

  void add(const char* path, std::int64_t length, const char* component, const std::vector<double>& times,
           std::int64_t peak) {
    rows_.add(schema::Cost{.device = device_,
                           .dtype = dtype_,
                           .path = path,
                           .batch = batch_,
                           .length = length,
                           .component = component,
                           .reps = std::ssize(times),
                           .median_ms = quantile(times, 0.5),
                           .p25_ms = quantile(times, 0.25),
                           .p75_ms = quantile(times, 0.75),
                           .peak_bytes = peak,
                           .status = schema::status::kOk});
  }

  /// For a length that the model has no positions for.
  void add_without_positions(std::int64_t length) {
    for (const char* path : {"unfused", "best"}) {
      rows_.add(schema::Cost{.device = device_,
                             .dtype = dtype_,
                             .path = path,
                             .batch = batch_,
                             .length = length,
                             .component = "forward",
                             .status = schema::status::kPositions});
    }
  }

  const schema::Rows& rows() const { return rows_; }

 private:
  std::string device_, dtype_;
  std::int64_t batch_;
  schema::Rows rows_;
};

void measure_passes(const Bench& bench, bool best, std::int64_t length, const Turns& turns, CostRows& rows,
                    support::Progress& progress) {
  const char* path = best ? "best" : "unfused";
  const Timings attention = turns.take([&](bool with) { bench.attend(with, best); });
  std::vector<double> encode;
  for (std::size_t i = 0; i < attention.with.size(); ++i) encode.push_back(attention.with[i] - attention.without[i]);
  const auto peak = [&](bool with) { return memory_of(turns.device, [&] { bench.attend(with, best); }).peak; };
  const std::int64_t without = peak(false);
  rows.add(path, length, "encode", encode, peak(true) - without);
  rows.add(path, length, "attention", attention.without, peak(false));
  const Timings forward = turns.take([&](bool with) { bench.forward(with, best); });
  rows.add(path, length, "forward", forward.with, memory_of(turns.device, [&] { bench.forward(true, best); }).peak);
  rows.add(path, length, "forward_none", forward.without,
           memory_of(turns.device, [&] { bench.forward(false, best); }).peak);
  const auto shown = [](const std::vector<double>& times) {
    return support::shortest(std::round(100 * quantile(times, 0.5)) / 100);
  };
  progress.note(
      cat(length, " tokens, ", path, ": encode ", shown(encode), " ms, forward ", shown(forward.with), " ms"));
}

}  // namespace

void MeasureGroup::describe(support::FieldVisitor& v) {
  v.field("lengths", lengths, "Lengths of the texts.", {.unit = "tokens", .min = 2, .max = 1 << 20});
  v.field("batch", batch, "Texts per pass.", {.min = 1, .max = 1 << 16});
  v.field("warmup", warmup, "Repetitions that do not count; auto: 5 on a CPU, 10 on a GPU.", {.min = 0, .max = 10000});
  v.field("repetitions", repetitions, "Repetitions that do; auto: 20 on a CPU, 50 on a GPU.", {.min = 1, .max = 10000});
  v.field("training_step", training_step, "Measure forward and backward passes, too.");
  v.check(!lengths.empty(), "measure.lengths names no length");
}

void MeasureConfig::describe(support::FieldVisitor& v) {
  v.group("measure", measure, "Texts and repetitions of the measurement.");
  v.group("compute", compute, "How it is computed.");
}

void measure(const MeasureConfig& config, artifact::Workspace& workspace) {
  const MeasureGroup& group = config.measure;
  support::Progress& progress = *workspace.progress;
  const artifact::Input& input = workspace.input("model");
  const artifact::CheckpointReader checkpoint(input.path);
  const model::ComputeConfig compute = model::resolve(config.compute);
  const at::Device device = model::open_device(compute);
  const at::ScalarType dtype = model::compute_type(compute);
  const model::LanguageModel model = model::load_model(checkpoint, device, dtype);
  encodings::read_examples(model.encoding());  // ids are drawn: they say nothing
  model::ModelConfig without = model.config();
  without.encoding = {"none"};
  const model::LanguageModel none =
      encodings::heads_per_query(model.config().encoding.json) == 1
          ? model::load_model(checkpoint, device, dtype, Json("none"))
          : model::LanguageModel::make(without, without.vocabulary, /*seed=*/1, device, dtype);  // of other weights
  const Turns turns{device, group.warmup.value_or(device.is_cpu() ? 5 : 10),
                    group.repetitions.value_or(device.is_cpu() ? 20 : 50)};
  const std::string on = model::device_summary(compute, device);
  progress.note(cat("measuring on ", on));

  CostRows rows(on, dtype == at::kBFloat16 ? "bf16" : "fp32", group.batch);
  const auto limit = model.encoding().facts().max_positions;
  for (const std::int64_t length : group.lengths) {
    if (limit && length > *limit) {
      rows.add_without_positions(length);
      continue;
    }
    const Bench bench(model, none, group.batch, length);
    for (const bool best : {false, true}) measure_passes(bench, best, length, turns, rows, progress);
    if (group.training_step) {
      const Timings step = turns.take([&](bool with) { bench.train(with); });
      rows.add("best", length, "training_step", step.with, memory_of(device, [&] { bench.train(true); }).peak);
      rows.add("best", length, "training_step_none", step.without, memory_of(device, [&] { bench.train(false); }).peak);
    }
  }

  ModelIdentity identity = identify(checkpoint, input);
  artifact::Tables tables;
  tables.tables = schema::make_tables(rows.rows(), identity.identity);
  tables.facts = std::move(identity.facts);
  artifact::write_eval_tables(workspace.output("cost"), workspace.recipe, tables);
}

}  // namespace pe::evaluation
