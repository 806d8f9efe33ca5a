/// @file
/// The subjects of the battery: every registered encoding, options that lead to other code, and stacks.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "encodings/attention/positional_encoding.h"
#include "support/json.h"

namespace pe::encoding_docs::battery {

/// One encoding or stack under test.
struct Subject {
  std::string name;  ///< "alibi", "{kind: yarn, factor: 4}"
  Json config;
  /// Makes an encoding that is in no registry; empty: make_encoding(config, shape).
  std::function<std::unique_ptr<encodings::PositionalEncoding>(const encodings::Shape&)> make = {};
};

/// Every registered encoding with default options, those whose options lead to other code, and stacks.
std::vector<Subject> subjects();

/// Is it that encoding with some options, or a stack with it?
bool contains(const Subject& subject, const std::string& encoding);

/// Why a property is not asked of a subject: "training", "row by row", "shared keys", "moved rows"; null where it is.
const char* exemption(const Subject& subject, const std::string& property);

}  // namespace pe::encoding_docs::battery
