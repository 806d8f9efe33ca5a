// Contents of an encoding: learned numbers, their places, and the tables that a pass leaves.
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>

#include "encodings/attention/positional_encoding.h"
#include "encodings/attention/token_reader.h"
#include "encodings/registry.h"
#include "evaluation/memory_meter.h"
#include "evaluation/probes/probe_texts.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

class Parameters final : public Task {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("table_lengths", lengths_, "Lengths of texts for which the size of tables is asked.",
            {.unit = "tokens", .min = 1, .neutral = Json(lengths_)});
  }

  void run(TaskContext& context) const override {
    const model::LanguageModel& model = probed_model(context);
    const std::int64_t own = model.encoding_parameter_count(), total = model.parameter_count();
    bool shared = false, layered = false;
    for (const encodings::Parameter& parameter : model.encoding().parameters()) {
      (parameter.layer < 0 ? shared : layered) = true;
    }
    const char* placement = shared && layered ? "both" : shared ? "shared" : layered ? "per layer" : "none";
    for (const std::int64_t length : lengths_) {
      context.results.add_row(schema::Parameters{.parameters = own,
                                                 .share = static_cast<double>(own) / static_cast<double>(total),
                                                 .total = total,
                                                 .placement = placement,
                                                 .length = length,
                                                 .table_bytes = table_bytes(model, length)});
    }
  }

 private:
  /// Bytes of tables of a fresh encoding of the same kind, in the dtype that the model computes in. Missing beyond its
  /// positions.
  static std::optional<std::int64_t> table_bytes(const model::LanguageModel& model, std::int64_t length) {
    const c10::InferenceMode inference;
    const auto encoding = encodings::make_encoding(model.config().encoding.json, model.encoding().shape());
    if (const auto limit = encoding->facts().max_positions; limit && length > *limit) return {};
    encodings::Span span = encodings::Span::whole(1, length);
    span.pe_len = length;
    span.device = model.device();
    const auto& shape = encoding->shape();
    const auto options = at::TensorOptions(model.compute_dtype()).device(model.device());
    const at::Tensor x = at::zeros({1, length, shape.width}, options);
    const at::Tensor q = at::zeros({1, encoding->projected_heads(), length, shape.head_width}, options);
    const at::Tensor k = at::zeros({1, shape.key_value_heads, length, shape.head_width}, options);
    std::optional<encodings::State> state;  // stays alive: memory that a pass shares between layers counts
    const MemoryUse use = memory_of(model.device(), [&] {
      state = encodings::begin_pass(*encoding, span);
      encodings::give_example_numbers(*encoding, *state);
      encodings::add_to_tokens(*encoding, x, *state);
      for (int layer = 0; layer < static_cast<int>(shape.layers); ++layer) {
        encodings::LayerContext context = encodings::layer_context(*encoding, *state, layer, x);
        encodings::Heads heads;
        heads.q = q;
        heads.k = k;
        heads.v = k;
        encoding->transform(context, heads);
      }
    });
    return use.kept;
  }

  std::vector<std::int64_t> lengths_ = {4096, 16384};
};

}  // namespace

TaskEntry parameters_task() {
  return {.name = "parameters",
          .summary = "Guide: parameters of the encoding, and the tables that it keeps.",
          .tables = {"parameters"},
          .make = make_task<Parameters>};
}

}  // namespace pe::evaluation
