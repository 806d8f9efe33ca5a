/// @file
/// A bias by a small network over the logits of all heads, which the CUDA plug-in computes with all gradients.
#pragma once

#include "encodings/attention/positional_encoding.h"

namespace pe::encodings {

/// f of a pair of a query and a key: a layer of 32 units, a leaky rectifier, and a layer with an output for each head.
/// Inputs are the logits of all heads and the base's numbers, 0 where the mask hides the key. With three taps both
/// layers read neighbouring keys, too.
struct PairNetwork {
  Tensor first, first_bias;    ///< [32,C,taps], [32]; C = 2·H with a base, else H
  Tensor second, second_bias;  ///< [H,32,taps], [H]
  Tensor base;                 ///< [H,n] at distances 0 .. n − 1, as many as keys at least; undefined: none
  double slope = 0;            ///< of the rectifier below 0
};

/// Has the plug-in a kernel for such networks?
/// @param channels C of PairNetwork.
bool has_pair_network(at::Device device, std::int64_t heads, std::int64_t channels, std::int64_t taps);

/// The base's bias plus f for rows whose positions count keys, fp32 [B,H,rows,keys]. Values of hidden pairs are
/// undefined.
Tensor bias_of_network(const Rows& rows, const PairNetwork& network);

}  // namespace pe::encodings
