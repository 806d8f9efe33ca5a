/// @file
/// Common code of the tests of encodings and the battery (encoding_docs/battery/), and cases that are named like their
/// subject.
#pragma once

#include <boost/test/unit_test.hpp>
#include <functional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "encoding_docs/battery/subjects.h"
#include "encoding_docs/battery/toy.h"
#include "encodings/attention/token_reader.h"

namespace pe::encoding_docs::battery {

inline std::ostream& operator<<(std::ostream& out, const Subject& subject) { return out << subject.name; }

}  // namespace pe::encoding_docs::battery

namespace pe::test {

using namespace encoding_docs::battery;

/// A model's encoding reads such numbers off the ids as `say_numbers` gives to a pass.
inline void read_by_ids(encodings::PositionalEncoding& encoding) {
  encodings::ReadsTokens* reader = encodings::reader_of(encoding);
  if (reader == nullptr) return;
  reader->read_with([](std::span<const std::int64_t> ids) {
    std::vector<std::int64_t> numbers;
    for (const std::int64_t id : ids) {
      numbers.push_back(1 + id % 3);
      numbers.push_back(id % 2);
    }
    return numbers;
  });
}

/// Is a subject left out of a property? Prints the reason where it is.
inline bool exempt(const Subject& subject, const std::string& property) {
  const char* reason = exemption(subject, property);
  if (reason != nullptr) BOOST_TEST_MESSAGE(subject.name << " is exempt from '" << property << "': " << reason);
  return reason != nullptr;
}

/// The message that refuses an encoding.
inline std::string refusal_of(const Json& config, const encodings::Shape& shape = small_shape()) {
  try {
    encodings::make_encoding(config, shape);
  } catch (const support::ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

inline void check_says(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    BOOST_TEST(message.find(part) != std::string::npos, "'" << part << "' is missing in: " << message);
}

/// Adds a suite to the one at hand, with a case for each subject that has the subject's name:
/// `--run_test=SUITE/*/alibi`.
struct SubjectCases {
  SubjectCases(const char* suite, const std::vector<Subject>& subjects, const std::function<void(const Subject&)>& run,
               const char* file, std::size_t line) {
    namespace unit_test = boost::unit_test;
    auto* cases = new unit_test::test_suite(suite, file, line);
    for (const Subject& subject : subjects) {
      cases->add(unit_test::make_test_case([run, subject] { run(subject); }, subject.name, file, line));
    }
    unit_test::framework::current_auto_test_suite().add(cases);
  }
};

}  // namespace pe::test

/// A test case for each of `list`, in a suite called `name`; the body sees `subject`.
#define SUBJECT_TEST_CASE(name, list)                                                        \
  static void name(const ::pe::test::Subject& subject);                                      \
  static const ::pe::test::SubjectCases name##_cases(#name, list, name, __FILE__, __LINE__); \
  static void name([[maybe_unused]] const ::pe::test::Subject& subject)
