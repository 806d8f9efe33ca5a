/// @file
/// Properties of every encoding. `pe-encodings check NAME` and the battery of the tests run these checks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "encoding_docs/battery/subjects.h"
#include "encodings/registry.h"
#include "support/text.h"

namespace pe::encoding_docs::battery {

/// The result of a check: the first property that does not hold, in words, and the number of failures.
class Findings {
 public:
  template <typename... Parts>
  void expect(bool holds, const Parts&... otherwise) {
    if (holds) return;
    if (failed_++ == 0) first_ = support::cat(otherwise...);
  }
  /// The difference of two numbers, or of two tensors, is at most `allowed`.
  void expect_near(double difference, double allowed, std::string_view what);
  bool clean() const { return failed_ == 0; }
  std::size_t failed() const { return failed_; }
  std::string text() const;  ///< the first one, and how many more of its kind

 private:
  std::string first_;
  std::size_t failed_ = 0;
};

struct Check {
  const char* name;     ///< "causality"
  const char* meaning;  ///< "no token is seen before it comes"
  void (*run)(const Subject& subject, Findings& findings);
};

/// Ordered so that a mistake shows first where it is easiest to understand.
const std::vector<Check>& checks();

/// Runs a check; an error that the encoding throws is a finding, too.
Findings run_check(const Check& check, const Subject& subject);

/// Compares facts, texts and counts of a registry entry with its encoding.
void check_entry(const encodings::EncodingEntry& entry, Findings& findings);

struct CheckReport {
  std::string text;  ///< a line a check, then the first failure
  bool passed = false;
};

/// All checks of an encoding, as a config holds it. With default options it is checked with the options and in the
/// stacks, too, that the battery has for it.
/// @throws ConfigError for a config that the encoding refuses
CheckReport check_encoding(const Json& encoding);

}  // namespace pe::encoding_docs::battery
