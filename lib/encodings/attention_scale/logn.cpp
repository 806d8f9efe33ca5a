// A temperature without parameters that grows with the logarithm of the number of visible keys: the control for
// learned ones.
#include "encodings/attention/temperature.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

enum class LognForm { kMean, kClipped };

struct LognOptions {
  LognForm form = LognForm::kMean;
  std::optional<std::int64_t> train_length;
  void describe(support::FieldVisitor& v) {
    v.choice("form", form, {{"mean", LognForm::kMean}, {"clipped", LognForm::kClipped}},
             "Form of the factor: ln n over its mean up to the training length, for training and evaluation; or max(1, "
             "ln n / ln L), for models trained without it.");
    v.field("train_length", train_length, "Length L to which the factor refers; auto: the training length.",
            {.unit = "tokens", .min = 2});
  }
};

class Logn : public Temperature {
 public:
  Logn(const LognOptions& options, const Shape& shape) : Temperature(shape), form_(options.form) {
    const std::int64_t length = options.train_length.value_or(shape.train_length);
    if (length < 2) throw support::ConfigError("encoding 'logn' needs a training length of at least 2");
    divisor_ = form_ == LognForm::kMean ? mean_log_count(length) : std::log(static_cast<double>(length));
  }

  Facts facts() const override { return {.shift_invariant = ShiftInvariance::kNever}; }

 protected:
  Tensor factor(const LayerContext& context) override {
    const Tensor tau = visible_counts(context).log() / divisor_;
    return form_ == LognForm::kMean ? tau : tau.clamp_min(1);
  }

 private:
  LognForm form_;
  double divisor_;
};

}  // namespace

EncodingEntry logn_entry() {
  return with_options<Logn, LognOptions>(
      {.name = "logn",
       .summary = "Multiplies logits by the logarithm of the number of visible keys over its mean in training.",
       .reference = "Su 2021, kexue.fm/archives/8823; the mean form is this project's neutral control",
       .facts = {.shift_invariant = ShiftInvariance::kNever},
       .family = Family::kTemperature,
       .acts_on = "q",
       .formula = "logit(i,j) × ln n_i/mean ln n (mean), or × max(1, ln n_i/ln L) (clipped)",
       .known_for = "The control for trained temperatures: the same growth without parameters. The clipped form "
                    "repairs part of the loss of a trained model beyond its training length."});
}

}  // namespace pe::encodings
