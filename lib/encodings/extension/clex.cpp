// CLEX's differential equation: how frequencies change as a text gets longer.
#include <torch/csrc/autograd/custom_function.h>
#include <cstdint>
#include <vector>

#include "encodings/attention/positional_encoding.h"
#include "encodings/rotary/learned_frequencies.h"
#include "support/random.h"

namespace pe::encodings {
namespace {

enum class ClexActivation { kTanh, kSilu };

struct ClexEquation {
  std::vector<double> start;  ///< z(1), logarithms of the frequencies, n
  std::vector<double> omega;  ///< logarithms of the frequencies that the network reads, n
  ClexActivation activation = ClexActivation::kTanh;
  double step = 0.01;  ///< of the fourth-order Runge–Kutta method, at most
};

/// z(t) of dz/dt = act((z + ω(t))·up)·down + dω/dt, ω_i(t) = omega_i − 2i/(2n − 2)·ln(2t − 1). The two matrices get the
/// gradients of the steps taken.
/// @param up [n,m] @param down [m,n] @return [n] float64 on the CPU
Tensor clex_log_frequencies(const ClexEquation& equation, const Tensor& up, const Tensor& down, double t);

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The right-hand side and its transposed derivative, in plain loops: the steps are many and the matrices small.
class ClexField {
 public:
  ClexField(const ClexEquation& equation, const double* up, const double* down, std::size_t hidden)
      : equation_(equation), up_(up), down_(down), n_(equation.start.size()), m_(hidden), input_(n_), u_(m_), a_(m_) {}

  void value(double t, const std::vector<double>& z, std::vector<double>& out) {
    hidden(t, z);
    for (std::size_t i = 0; i < n_; ++i) out[i] = -2 * slope(i) / stretch(t);
    for (std::size_t m = 0; m < m_; ++m) {
      for (std::size_t i = 0; i < n_; ++i) out[i] += a_[m] * down_[m * n_ + i];
    }
  }

  /// Adds the gradients by both matrices that follow from `gradient` of the value; `back` gets the gradient by z.
  void transposed(double t, const std::vector<double>& z, const std::vector<double>& gradient,
                  std::vector<double>& back, double* up_gradient, double* down_gradient) {
    hidden(t, z);
    std::fill(back.begin(), back.end(), 0.0);
    for (std::size_t m = 0; m < m_; ++m) {
      double to_a = 0;
      for (std::size_t i = 0; i < n_; ++i) {
        to_a += down_[m * n_ + i] * gradient[i];
        down_gradient[m * n_ + i] += a_[m] * gradient[i];
      }
      u_[m] = to_a * derivative(u_[m], a_[m]);
    }
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t m = 0; m < m_; ++m) {
        up_gradient[i * m_ + m] += input_[i] * u_[m];
        back[i] += up_[i * m_ + m] * u_[m];
      }
    }
  }

 private:
  static double stretch(double t) { return t < 1 ? 1 : 2 * t - 1; }
  double slope(std::size_t i) const { return n_ < 2 ? 0 : static_cast<double>(i) / static_cast<double>(n_ - 1); }

  void hidden(double t, const std::vector<double>& z) {
    const double log_stretch = std::log(stretch(t));
    for (std::size_t i = 0; i < n_; ++i) input_[i] = z[i] + equation_.omega[i] - slope(i) * log_stretch;
    std::fill(u_.begin(), u_.end(), 0.0);
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t m = 0; m < m_; ++m) u_[m] += input_[i] * up_[i * m_ + m];
    }
    for (std::size_t m = 0; m < m_; ++m) {
      a_[m] = equation_.activation == ClexActivation::kTanh ? std::tanh(u_[m]) : u_[m] / (1 + std::exp(-u_[m]));
    }
  }
  double derivative(double u, double a) const {
    if (equation_.activation == ClexActivation::kTanh) return 1 - a * a;
    const double s = 1 / (1 + std::exp(-u));
    return s * (1 + u * (1 - s));
  }

  const ClexEquation& equation_;
  const double *up_, *down_;
  std::size_t n_, m_;
  std::vector<double> input_, u_, a_;
};

/// Four stages of one classic Runge–Kutta step: the points and the slopes of the field there.
struct ClexStages {
  explicit ClexStages(std::size_t n) : at(4, std::vector<double>(n)), slope(4, std::vector<double>(n)) {}
  void run(ClexField& field, double t, double h, const std::vector<double>& z) {
    static constexpr double kAlong[] = {0, 0.5, 0.5, 1};
    for (int s = 0; s < 4; ++s) {
      for (std::size_t i = 0; i < z.size(); ++i) at[s][i] = z[i] + (s == 0 ? 0 : h * kAlong[s] * slope[s - 1][i]);
      field.value(t + h * kAlong[s], at[s], slope[s]);
    }
  }
  std::vector<std::vector<double>> at, slope;
};

struct ClexJob : torch::CustomClassHolder {
  explicit ClexJob(ClexEquation of) : equation(std::move(of)) {}
  ClexEquation equation;
  double h = 0;
  std::vector<std::vector<double>> path;  // z before each step
};

class EquationFunction : public torch::autograd::Function<EquationFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& up, const Tensor& down,
                        const c10::intrusive_ptr<ClexJob>& job, double t) {
    const Tensor u = up.to(at::kCPU, at::kDouble).contiguous(), d = down.to(at::kCPU, at::kDouble).contiguous();
    const std::size_t n = job->equation.start.size();
    ClexField field(job->equation, u.const_data_ptr<double>(), d.const_data_ptr<double>(),
                    static_cast<std::size_t>(u.size(1)));
    const auto steps = static_cast<std::int64_t>(std::ceil((t - 1) / job->equation.step - 1e-9));
    job->h = steps > 0 ? (t - 1) / static_cast<double>(steps) : 0;
    std::vector<double> z = job->equation.start;
    ClexStages stages(n);
    for (std::int64_t k = 0; k < steps; ++k) {
      job->path.push_back(z);
      stages.run(field, 1 + static_cast<double>(k) * job->h, job->h, z);
      for (std::size_t i = 0; i < n; ++i) {
        z[i] +=
            job->h / 6 * (stages.slope[0][i] + 2 * stages.slope[1][i] + 2 * stages.slope[2][i] + stages.slope[3][i]);
      }
    }
    context->save_for_backward({u, d});
    context->saved_data["job"] = c10::IValue::make_capsule(job);
    context->saved_data["device"] = up.device();
    context->saved_data["dtype"] = static_cast<std::int64_t>(up.scalar_type());
    return at::tensor(z, at::TensorOptions(at::kDouble));
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto job = c10::static_intrusive_pointer_cast<ClexJob>(context->saved_data["job"].toCapsule());
    const Tensor &up = saved[0], &down = saved[1];
    Tensor up_gradient = at::zeros_like(up), down_gradient = at::zeros_like(down);
    const std::size_t n = job->equation.start.size();
    ClexField field(job->equation, up.const_data_ptr<double>(), down.const_data_ptr<double>(),
                    static_cast<std::size_t>(up.size(1)));
    const Tensor incoming = gradients[0].to(at::kDouble).contiguous();
    std::vector<double> z(incoming.const_data_ptr<double>(), incoming.const_data_ptr<double>() + n);
    std::vector<double> to_slope(n), back(n), sum(n);
    ClexStages stages(n);
    static constexpr double kWeight[] = {1.0 / 6, 1.0 / 3, 1.0 / 3, 1.0 / 6};
    static constexpr double kAlong[] = {0, 0.5, 0.5, 1};
    for (std::int64_t k = static_cast<std::int64_t>(job->path.size()) - 1; k >= 0; --k) {
      const double t = 1 + static_cast<double>(k) * job->h, h = job->h;
      stages.run(field, t, h, job->path[static_cast<std::size_t>(k)]);
      sum = z;
      for (int s = 3; s >= 0; --s) {
        // The slope of a stage counts in the step, and in where the next stage looks.
        for (std::size_t i = 0; i < n; ++i) {
          to_slope[i] = h * kWeight[s] * z[i] + (s == 3 ? 0 : h * kAlong[s + 1] * back[i]);
        }
        field.transposed(t + h * kAlong[s], stages.at[s], to_slope, back, up_gradient.mutable_data_ptr<double>(),
                         down_gradient.mutable_data_ptr<double>());
        for (std::size_t i = 0; i < n; ++i) sum[i] += back[i];
      }
      z = sum;
    }
    const at::TensorOptions like = at::TensorOptions(static_cast<at::ScalarType>(context->saved_data["dtype"].toInt()))
                                       .device(context->saved_data["device"].toDevice());
    return {up_gradient.to(like), down_gradient.to(like), Tensor(), Tensor()};
  }
};

Tensor clex_log_frequencies(const ClexEquation& equation, const Tensor& up, const Tensor& down, double t) {
  return EquationFunction::apply(up, down, c10::make_intrusive<ClexJob>(equation), t);
}

enum class OmegaBase { kModel, kTenThousand };

struct ClexOptions : RotaryOptions {
  std::int64_t max_factor = 16;
  std::int64_t param_factor = 1;
  ClexActivation act = ClexActivation::kTanh;
  double dt = 0.01;
  OmegaBase omega_base = OmegaBase::kModel;
  std::optional<std::int64_t> train_length;
  std::optional<std::int64_t> pe_len;
  void describe(support::FieldVisitor& v) {
    RotaryOptions::describe(v);
    v.field("max_factor", max_factor, "Largest multiple of the training length that is trained and used.",
            {.min = 1, .max = 4096});
    v.field("param_factor", param_factor, "Hidden width of the network, as a multiple of the head width.",
            {.min = 1, .max = 64});
    v.choice("act", act, {{"tanh", ClexActivation::kTanh}, {"silu", ClexActivation::kSilu}},
             "Form of the network: as in the released code, or as in the paper.");
    v.field("dt", dt, "Step of the integration; the relative error of frequencies at 0.1 is about 4e-6.",
            {.min = 1e-4, .max = 1});
    v.choice("omega_base", omega_base, {{"model", OmegaBase::kModel}, {"10000", OmegaBase::kTenThousand}},
             "Base of the frequencies that the network receives; the released code has 10000 for every model.");
    v.field("train_length", train_length, "Training length of the extended model; auto: from the model.",
            {.unit = "tokens", .min = 1});
    v.field("pe_len", pe_len, "Length of the text; auto: from the pass.", {.unit = "tokens", .min = 1});
  }
};

/// CLEX: frequencies follow a learned differential equation from the training length to any multiple of it. Training
/// draws a multiple for each step and spreads the positions over that many times the length.
class Clex : public Rotary {
 public:
  Clex(const ClexOptions& options, const Shape& shape)
      : Rotary("clex", shape, options),
        clex_(options),
        train_length_(extended_length("clex", options.train_length, shape)) {
    const std::int64_t pairs = shape.head_width / 2, hidden = options.param_factor * shape.head_width;
    const double bound = 1 / std::sqrt(static_cast<double>(hidden));
    up_ = add_uniform("clex", "up", {pairs, hidden}, -bound, bound, /*weight_decay=*/true);
    down_ = add_constant("clex", "down", {hidden, pairs}, 0, /*weight_decay=*/true);
    const auto logarithms = [](std::vector<double> values) {
      for (double& x : values) x = std::log(x);
      return values;
    };
    equation_.start = logarithms(schedule().theta);
    equation_.omega = logarithms(
        geometric_frequencies(options.omega_base == OmegaBase::kModel ? options.base : 10000, shape.head_width));
    equation_.activation = options.act;
    equation_.step = options.dt;
  }

  Traits traits(const Span& span) const override { return {.maps_positions = span.training}; }

  Tensor positions(int layer, const Span& span) const override {
    if (!span.training) return default_positions(span);
    const std::int64_t n = span.keys, t = factor(span), c = std::max<std::int64_t>(1, n / train_length_);
    Tensor ids = at::zeros({n}, at::kLong);
    std::int64_t* out = ids.mutable_data_ptr<std::int64_t>();
    if (n > 2) {
      support::Xoshiro draw(key(span, "clex.positions"));
      std::vector<std::uint64_t> some =
          draw.sample(static_cast<std::uint64_t>(n * t - 2), static_cast<std::uint64_t>(n - 2));
      std::sort(some.begin(), some.end());
      for (std::int64_t r = 1; r + 1 < n; ++r) out[r] = (static_cast<std::int64_t>(some[r - 1]) + 1) / c;
    }
    if (n > 1) out[n - 1] = n * t / c - 1;
    ids = ids.to(span.device);
    if (span.restart_positions && span.doc_start.defined()) {
      ids = ids - ids.index_select(0, span.doc_start.flatten()).view(span.doc_start.sizes());
    }
    return ids + span.first_position;
  }

  void begin(State& state) override {
    state.tensors["clex.theta"] = frequencies_for(state.span).to(state.span.device);
    state.tensors.erase("clex.cos");
  }

  bool only_rotates() const override { return false; }
  void transform(LayerContext& context, Heads& heads) override {
    const at::ScalarType type = table_type(heads.q.scalar_type());
    Tensor &cos = context.state.tensors["clex.cos"], &sin = context.state.tensors["clex.sin"];
    // Alone it maps positions for all layers alike; another member of a stack may give each layer its own.
    const bool shared = context.contiguous || context.span.training;
    if (!shared || !cos.defined() || cos.scalar_type() != type) {
      RotaryCache::Values made = learned_angles(context.positions, context.state.tensors.at("clex.theta"), type);
      cos = made.cos;
      sin = made.sin;
    }
    rotate_heads(heads, context.span, {cos, sin});
  }

  std::optional<RotatedPairs> rotated_pairs(int layer, const Span& span) const override {
    at::NoGradGuard no_gradients;
    const Tensor theta = frequencies_for(span).to(at::kCPU).contiguous();
    const double* first = theta.const_data_ptr<double>();
    return laid_out({first, first + theta.numel()}, static_cast<std::size_t>(theta.numel()));
  }

 protected:
  Facts own_facts() const override { return {.rotates = true, .learned = true, .length_dependent = true}; }

 private:
  Tensor frequencies_for(const Span& span) const {
    const std::int64_t t = factor(span);
    Tensor log_theta = at::tensor(equation_.start, at::TensorOptions(at::kDouble));
    if (t > 1) log_theta = clex_log_frequencies(equation_, up_, down_, static_cast<double>(t));
    return log_theta.exp();
  }

  std::uint64_t key(const Span& span, const char* purpose) const {
    return draw_key(shape_.seed, purpose, span.step, 0, 0);
  }

  /// t, how many times the training length: drawn for each step of a training, else the need of the current length.
  std::int64_t factor(const Span& span) const {
    if (span.training) {
      return 1 + static_cast<std::int64_t>(
                     support::Xoshiro(key(span, "clex")).below(static_cast<std::uint64_t>(clex_.max_factor)));
    }
    const std::int64_t length = working_length("clex", clex_.pe_len, span);
    return std::clamp<std::int64_t>((length + train_length_ - 1) / train_length_, 1, clex_.max_factor);
  }

  ClexOptions clex_;
  std::int64_t train_length_;
  ClexEquation equation_;
  Tensor up_, down_;  // [d_h/2, n], [n, d_h/2]
};

}  // namespace

EncodingEntry clex_entry() {
  return with_options<Clex, ClexOptions>(
      {.name = "clex",
       .summary = "RoPE for longer texts: frequencies follow a trained differential equation over the length.",
       .reference = "Chen et al. 2023, arXiv:2310.16450",
       .facts = {.rotates = true, .learned = true, .length_dependent = true},
       .family = Family::kExtension,
       .acts_on = "q and k",
       .parameters = "param_factor*head_width*head_width",
       .formula = "θ(t) = exp z(t), t = ⌈pe_len/L⌉ ≤ max_factor, z(1) = ln θ\n"
                  "dz/dt = act((z + ω(t))·W_up)·W_down + dω/dt, ω_c(t) = ln θ_c − (2c/(d_h − 2))·ln(2t − 1)\n"
                  "training: t drawn from 1 .. max_factor for each step, positions 0 < … < T·t − 1 drawn in order",
       .known_for = "Extends a model to many lengths after some training. With W_down = 0, as at the start, it is "
                    "ntk with factor 2t − 1. Up to the training length it is rope.",
       .errata = {"A guide cites arXiv:2401.04695, and its code takes Euler steps on a softplus scale. The paper is "
                  "2310.16450 and integrates logarithms of frequencies.",
                  "The released network receives frequencies of base 10000 for every model; see omega_base."}});
}

}  // namespace pe::encodings
