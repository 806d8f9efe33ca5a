/// @file
/// DAPE: a small network over all heads reads the logits A and a base bias B and adds to them, A + B + f([A; B]).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "encodings/attention/positional_encoding.h"
#include "support/config.h"

namespace pe::encodings {

struct DapeOptions {
  enum class Base { kKerpleLog, kAlibi, kFire, kNone };
  Base bias = Base::kKerpleLog;
  void describe(support::FieldVisitor& v);
};

/// Zheng et al. 2024, arXiv:2405.14722 (one pair at a time: taps 1) and arXiv:2410.04798 (a convolution along the keys:
/// taps 3).
class Dape : public PositionalEncoding {
 public:
  Facts facts() const override;
  Traits traits(const Span& span) const override;
  void begin(State& state) override;
  std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads) override;
  Tensor rewrite(const Rows& rows, const Tensor& s) override;
  void after_step() override;

 protected:
  Dape(const std::string& kind, const DapeOptions& options, const Shape& shape, std::int64_t taps);

 private:
  struct Layer {
    Tensor map1_w, map1_b, map2_w, map2_b;
  };
  std::int64_t taps_;
  std::unique_ptr<PositionalEncoding> base_;  // null: f reads the logits alone
  std::vector<Layer> layers_;
};

}  // namespace pe::encodings
