/// @file
/// Can a position be read off a vector? Two readers that are trained on some texts and tested on others: a ridge
/// regression in closed form, and a small classifier over bins of positions.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace pe::evaluation {

/// Vectors with their positions. x [n, d] float32 on the CPU, position [n] float64 in tokens.
struct PositionedVectors {
  at::Tensor x;
  at::Tensor position;
  /// Those with begin <= position < end.
  PositionedVectors between(double begin, double end) const;
};

struct ReaderScore {
  double r2 = 0;      ///< share of the variance of positions that is explained, on the test
  double mad = 0;     ///< mean absolute distance between said and true position, tokens
  double lambda = 0;  ///< of the ridge; NaN for the classifier
  std::int64_t tested = 0;
};

/// Ridge regression of position / length on centred features of unit variance, λ of 10⁻³ … 10³ by the squared error on
/// `validation`. NaN where a part is empty.
ReaderScore read_by_ridge(const PositionedVectors& train, const PositionedVectors& validation,
                          const PositionedVectors& test, std::int64_t length);

/// ReLU network with one hidden layer, softmax over bins of equal width, the expectation over their middles. Adam.
struct ClassifierOptions {
  std::int64_t hidden = 256;
  std::int64_t bins = 64;
  std::int64_t steps = 2000;
  std::int64_t batch = 4096;
  double rate = 2e-3;
};
/// Weights and batches follow from `key`.
ReaderScore read_by_classifier(const PositionedVectors& train, const PositionedVectors& test, std::int64_t length,
                               const ClassifierOptions& options, std::uint64_t key);

}  // namespace pe::evaluation
