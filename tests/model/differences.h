#pragma once

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <functional>
#include <string>

#include "model/language_model.h"

namespace pe::test {

/// The gradients of `loss` are those of differences, at three places of each parameter. `name` is of the model.
inline void check_gradients(const model::LanguageModel& model, const std::function<at::Tensor()>& loss,
                            const std::string& name) {
  model.zero_gradients();
  loss().backward();
  const at::NoGradGuard guard;
  for (const auto& parameter : model.parameters()) {
    at::Tensor values = parameter.tensor.detach().view({-1});
    const at::Tensor gradient = parameter.tensor.grad().reshape({-1});
    for (const std::int64_t at : {std::int64_t{0}, values.numel() / 3, values.numel() - 1}) {
      double* value = values.data_ptr<double>() + at;
      const double kept = *value;
      *value = kept + 1e-5;
      const double up = loss().item<double>();
      *value = kept - 1e-5;
      const double down = loss().item<double>();
      *value = kept;
      const double found = gradient[at].item<double>(), expected = (up - down) / 2e-5;
      BOOST_TEST(std::abs(found - expected) <= 1e-6 * (1 + std::abs(expected)),
                 name << ": " << parameter.name << " " << at << ": " << found << " and " << expected);
    }
  }
}

}  // namespace pe::test
