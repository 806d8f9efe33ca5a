#include "encodings/extension/clex.h"

#include <torch/csrc/autograd/custom_function.h>

namespace pe::encodings {
namespace {

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

  /// Adds what `gradient` of the value means for both matrices; `back` gets what it means for z.
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

}  // namespace

Tensor clex_log_frequencies(const ClexEquation& equation, const Tensor& up, const Tensor& down, double t) {
  return EquationFunction::apply(up, down, c10::make_intrusive<ClexJob>(equation), t);
}

}  // namespace pe::encodings
