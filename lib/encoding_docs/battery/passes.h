/// @file
/// Passes of the battery: an encoding whose parameters are not at their initial values, over texts of a few tokens.
#pragma once

#include <memory>
#include <string>

#include "encoding_docs/battery/subjects.h"
#include "encoding_docs/battery/toy.h"

namespace pe::encoding_docs::battery {

inline const encodings::AttendOptions kReference{.route = encodings::Route::kReference};
inline const encodings::AttendOptions kChunked{.route = encodings::Route::kChunked, .chunk_rows = 3};

inline std::unique_ptr<encodings::PositionalEncoding> made(const Subject& subject, const encodings::Shape& shape) {
  return subject.make ? subject.make(shape) : encodings::make_encoding(subject.config, shape);
}

inline std::unique_ptr<encodings::PositionalEncoding> stirred(const Subject& subject, const encodings::Shape& shape) {
  auto encoding = made(subject, shape);
  stir(*encoding);
  return encoding;
}

/// Told its length.
inline encodings::Span whole(std::int64_t batch, std::int64_t length) {
  encodings::Span span = encodings::Span::whole(batch, length);
  span.pe_len = length;
  return span;
}

/// Name of gradient number `i` of Evaluated.
inline std::string input_name(const encodings::PositionalEncoding& encoding, std::size_t i) {
  static const char* const kInputs[] = {"x", "q", "k", "v"};
  return i < 4 ? kInputs[i] : encoding.parameters().at(i - 4).name;
}

}  // namespace pe::encoding_docs::battery
