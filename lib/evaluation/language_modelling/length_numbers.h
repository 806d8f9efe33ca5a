/// @file
/// Numbers that a curve of loss against context length is condensed to, with intervals over documents. Missing stays
/// NaN.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "statistics/estimates.h"

namespace pe::evaluation {

/// Losses of the same documents at several lengths.
struct LengthCurve {
  std::vector<std::int64_t> lengths;        ///< tokens, ascending
  std::vector<std::vector<double>> nll;     ///< [length][document], nats
  std::vector<std::vector<double>> tokens;  ///< [length][document], tokens scored
};

/// Mean loss at each length: Σ nll / Σ tokens, nats per token. With `counts`, of that resample of the documents.
std::vector<double> mean_losses(const LengthCurve& curve, const std::uint16_t* counts = nullptr);

/// The largest tested length L from train_length on such that ppl(L') ≤ (1 + tolerance)·ppl(train_length) for every
/// tested L' of train_length to L. Shorter lengths are worse for lack of context, and show nothing about usable
/// context. NaN when train_length was not tested, or its loss is not finite.
double usable_context(const std::vector<std::int64_t>& lengths, const std::vector<double>& losses,
                      std::int64_t train_length, double tolerance);

/// The shortest tested length whose loss is within `margin` nats of the best of all lengths.
double effective_context(const std::vector<std::int64_t>& lengths, const std::vector<double>& losses, double margin);

/// Mean of max(0, loss(L) − loss(train_length)) over the tested L > train_length, which a suite spaces by doubling. NaN
/// when train_length was not tested or nothing is beyond it.
double degradation(const std::vector<std::int64_t>& lengths, const std::vector<double>& losses,
                   std::int64_t train_length);

/// exp(loss(L) − loss(train_length)) where `at` names L's place in the curve.
double perplexity_ratio(const std::vector<std::int64_t>& lengths, const std::vector<double>& losses,
                        std::int64_t train_length, std::size_t at);

/// A number of the curve with the percentile interval (95 %) of its values on resampled documents.
struct WithInterval {
  double value = std::numeric_limits<double>::quiet_NaN();
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();
};
using LengthNumber = std::function<double(const std::vector<std::int64_t>&, const std::vector<double>&)>;

/// Each number on the documents and on `resamples` resamples of them, the same for all. Below two documents, or where a
/// resample has no value, there is no interval.
std::vector<WithInterval> with_intervals(const LengthCurve& curve, const std::vector<LengthNumber>& numbers,
                                         int resamples = 10000);

/// Width of the bins of positions for the two numbers below: a quarter of the training length, at least 1. Narrower
/// ones hold too few tokens to distinguish a rise from noise.
std::int64_t blowup_bin(std::int64_t train_length);

/// The beginning of the first bin at or beyond train_length from which on the loss of every bin is high. High means 0.1
/// nats above the loss on the window [train/2, train).
/// @param begins of bins of `blowup_bin` tokens, ascending. @param losses their means, nats per token.
/// @return infinite when there is none; NaN when the bins cover no window, or nothing from train_length on.
double blowup_position(const std::vector<std::int64_t>& begins, const std::vector<double>& losses,
                       std::int64_t train_length);

/// Loss on [train/2, train) minus loss on [2·train, 4·train), from the same bins. NaN when a range is not covered.
double gain_at_four(const std::vector<std::int64_t>& begins, const std::vector<double>& losses,
                    std::int64_t train_length);

}  // namespace pe::evaluation
