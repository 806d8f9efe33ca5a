#include "model/layout.h"

#include <cmath>

#include "support/text.h"

namespace pe::model {
namespace {

using support::cat;
using Start = PlannedParameter::Start;

/// Adds parameters to the list in the order in which they are asked for.
class Planner {
 public:
  explicit Planner(const ModelConfig& config) : config_(config) {}

  void embedding() {
    add({"embedding", {config_.vocabulary, config_.width}, false, Start::kNormal, config_.token_std()});
  }

  void norm(const std::string& name) {
    add({name, {config_.width}});
    if (config_.norm == NormKind::kLayer && config_.biases)
      add({name + ".bias", {config_.width}, false, Start::kZeros});
  }

  void ones(const std::string& name, std::int64_t size) { add({name, {size}}); }
  void zeros(const std::string& name, std::int64_t size) { add({name, {size}, false, Start::kZeros}); }

  /// Adjacent projections that read the same input: names, and rows of each.
  /// @param join_as_sentence whether Glorot's rule, where it is asked for, holds for them as one matrix
  void projections(const std::vector<std::pair<std::string, std::int64_t>>& rows, std::int64_t inputs, double std,
                   bool of_attention, bool join_as_sentence, bool biased) {
    std::int64_t all = 0;
    for (const auto& [name, count] : rows) all += count;
    const bool glorot = config_.init == Init::kGlorot && of_attention && join_as_sentence;
    const double bound =
        glorot ? std::sqrt(6.0 / static_cast<double>(inputs + all)) : 1 / std::sqrt(static_cast<double>(inputs));
    const bool normal = config_.init == Init::kNormal;
    const int together = rows.size() > 1 ? ++fused_ : 0;
    for (const auto& [name, count] : rows) {
      add({name, {count, inputs}, true, normal ? Start::kNormal : Start::kUniform, normal ? std : bound, together});
    }
    if (!biased) return;
    const bool zero = normal || (config_.init == Init::kGlorot && of_attention);
    const int biases_together = rows.size() > 1 ? ++fused_ : 0;
    for (const auto& [name, count] : rows) {
      add({name + ".bias",
           {count},
           false,
           zero ? Start::kZeros : Start::kUniform,
           zero ? 0.0 : bound,
           biases_together});
    }
  }

  /// Taps of a convolution of each channel, where the config asks for one at `where`.
  void canon(char where, const std::string& name, std::int64_t channels) {
    if (!config_.canon.has(where)) return;
    const double bound = 1 / std::sqrt(static_cast<double>(config_.canon.kernel));
    add({name, {channels, config_.canon.kernel}, false, Start::kUniform, bound});
    if (config_.canon.bias) zeros(name + ".bias", channels);
  }

  std::vector<PlannedParameter> take() { return std::move(all_); }

 private:
  void add(PlannedParameter parameter) { all_.push_back(std::move(parameter)); }

  const ModelConfig& config_;
  std::vector<PlannedParameter> all_;
  int fused_ = 0;
};

}  // namespace

std::int64_t PlannedParameter::count() const {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}

std::vector<PlannedParameter> plan_parameters(const ModelConfig& config) {
  const std::int64_t d = config.width, q = config.query_heads() * config.d_h(), kv = config.kv_heads() * config.d_h();
  const double std = config.init_std;
  const double residual = config.scale_residual_init ? std / std::sqrt(2.0 * static_cast<double>(config.layers)) : std;
  Planner plan(config);
  plan.embedding();
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string attention = cat("layers.", layer, ".attention."), inner = cat("layers.", layer, ".feed_forward.");
    if (!config.bare_attention) plan.norm(attention + "norm");
    plan.canon('A', attention + "canon_a", d);
    plan.projections({{attention + "query", q}, {attention + "key", kv}, {attention + "value", kv}}, d, std, true, true,
                     config.biases);
    if (config.qk_norm) {
      plan.ones(attention + "query_norm", config.query_norm_width());
      plan.ones(attention + "key_norm", config.key_norm_width());
    }
    plan.canon('B', attention + "canon_b", q + 2 * kv);
    if (config.gate != Gate::kNone) {
      const std::int64_t rows = config.gate == Gate::kHeadwise ? config.heads : config.heads * config.d_h();
      plan.projections({{attention + "gate", rows}}, d, std, true, false, false);
    }
    plan.projections({{attention + "output", d}}, config.heads * config.d_h(), residual, true, false, config.biases);
    if (config.bare_attention) continue;
    plan.norm(inner + "norm");
    plan.canon('C', inner + "canon_c", d);
    if (config.activation == Activation::kSwiglu) {
      plan.projections({{inner + "gate", config.d_ff()}, {inner + "up", config.d_ff()}}, d, std, false, false,
                       config.biases);
    } else {
      plan.projections({{inner + "up", config.d_ff()}}, d, std, false, false, config.biases);
    }
    plan.canon('D', inner + "canon_d", config.activation == Activation::kSwiglu ? 2 * config.d_ff() : config.d_ff());
    plan.projections({{inner + "down", d}}, config.d_ff(), residual, false, false, config.biases);
  }
  if (config.final_norm()) plan.norm("norm");
  if (!config.tied) {
    plan.projections({{"head", config.vocabulary}}, d, std, false, false, config.head_bias);
  } else if (config.head_bias) {
    plan.zeros("head.bias", config.vocabulary);
  }
  return plan.take();
}

}  // namespace pe::model
