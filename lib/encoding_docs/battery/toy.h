/// @file
/// The model of the battery: tensors drawn by name, and a model of one attention layer in which every stage of an
/// encoding takes part.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "encodings/attention/attend.h"
#include "encodings/registry.h"

namespace pe::encoding_docs::battery {

using at::Tensor;

/// Standard normals, float64, the same for the same name.
Tensor normals(const std::string& name, at::IntArrayRef sizes);
/// A float64 tensor from a flat list.
Tensor numbers(std::vector<double> values, at::IntArrayRef sizes);
double largest_difference(const Tensor& a, const Tensor& b);
/// ‖a − b‖ / ‖b‖
double relative_difference(const Tensor& a, const Tensor& b);
double value(const Tensor& scalar);
double* element(const Tensor& flat, std::int64_t index);  ///< of a contiguous float64 tensor
bool all_finite(const Tensor& t);
bool all_equal(const Tensor& t);  ///< to its first element

/// float64 shape: width 8, 2 layers, `heads` query heads of width 4, training length 16.
encodings::Shape small_shape(std::int64_t heads = 2, std::int64_t groups = 2);

/// As wide as the default options of every encoding need it.
encodings::Shape wide_shape();

/// Moves parameters away from their initial values, which are zero where an encoding starts as another.
void stir(encodings::PositionalEncoding& encoding);

/// x + PE, three projections, attention of layer 1. Encodings with state between layers also get layer 0 before, with a
/// feed-forward in between. Inputs are leaves where gradients are wanted.
struct Toy {
  explicit Toy(const encodings::Shape& shape, std::int64_t batch, std::int64_t length,
               at::ScalarType dtype = at::kDouble);
  Tensor run(encodings::PositionalEncoding& encoding, const encodings::Span& span,
             const encodings::AttendOptions& options = {}) const;
  /// The token rows begin .. begin + count − 1 of all inputs.
  Toy part(std::int64_t begin, std::int64_t count) const;
  Toy to(at::ScalarType dtype) const;
  Toy on(at::Device device) const;
  void require_gradients();
  std::vector<Tensor> inputs() const { return {x, q, k, v}; }

  encodings::Shape shape;
  Tensor x;           ///< [B,T,d_m]
  Tensor q, k, v;     ///< added to the projections, [B,H or G,T,d_h]
  Tensor wq, wk, wv;  ///< [d_m, heads·d_h]
};

/// Gives a pass numbers where its encoding reads them off the tokens. They depend on each token, so that parts of a
/// text have the numbers of the whole, and are shifted where positions are. @param x [B,S,d_m].
void say_numbers(encodings::PositionalEncoding& encoding, const Tensor& x, encodings::State& state);

/// out [B,H,T,d_h] and gradients of sum(out·G) for the toy's inputs and the encoding's parameters.
struct ToyGradients {
  Tensor out;
  std::vector<Tensor> gradients;
};
ToyGradients evaluate(encodings::PositionalEncoding& encoding, const Toy& toy, const encodings::Span& span,
                      const encodings::AttendOptions& options);

}  // namespace pe::encoding_docs::battery
