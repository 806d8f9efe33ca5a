/// @file
/// The gathered values by arm, protocol and length.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "report/results/results.h"

namespace pe::report {

/// The arm that a run belongs to.
std::size_t arm_of(const Results& results, std::size_t run);
/// The arms with a run among these: for example, the arms that were asked a task.
std::vector<const Arm*> arms_with(const Results& results, const std::set<std::size_t>& runs);
/// Mean of the finite values; NaN without any.
double mean_of_finite(const std::vector<double>& values);
std::vector<std::string> protocols_of(const Results& results);  ///< prefix, blocks, sliding, then others
std::vector<std::int64_t> lengths_of(const Results& results, const std::string& protocol);
bool has_variants(const Results& results);         ///< more than one variant
/// The digest of the data that a model was evaluated on; empty where its artifact does not say.
std::string data_of(const Run& run);
std::string reason_of(const std::string& status);  ///< a status in words
/// Tokens of a training window of an arm; 0 when unknown, or its runs differ.
std::int64_t train_length_of(const Results& results, const Arm& arm);
/// Training lengths of the arms of a variant, each once.
std::vector<std::int64_t> train_lengths_of(const Results& results, const std::string& variant);

}  // namespace pe::report
