#include "pipeline/store/record_inputs.h"

#include <cstdint>
#include <utility>

#include "pipeline/store/packed_result.h"
#include "pipeline/store/packing.h"

namespace pe::pipeline {

namespace {

// Replaces a length. A digest takes half the bytes of its digits; every other text is stored unchanged.
constexpr std::uint32_t kDigest = 0xffffffff;

void put_text(std::string& bytes, std::string_view text) {
  if (const PackedDigest digest(text); digest != PackedDigest()) {
    put_bytes(bytes, kDigest);
    put_bytes(bytes, digest);
    return;
  }
  put_bytes(bytes, static_cast<std::uint32_t>(text.size()));
  bytes.append(text);
}

std::string take_text(ByteCursor& cursor) {
  const auto length = cursor.take<std::uint32_t>();
  if (length == kDigest) return cursor.take<PackedDigest>().hex();
  return std::string(cursor.take_bytes(length));
}

}  // namespace

void RecordInputs::push_back(const InputRecord& input) {
  std::string& bytes = text_.end();
  for (const std::string* text : {&input.role, &input.digest, &input.producer, &input.missing}) put_text(bytes, *text);
  put_bytes(bytes, static_cast<std::uint32_t>(input.labels.size()));
  for (const auto& [axis, label] : input.labels) {
    put_text(bytes, axis);
    put_text(bytes, label);
  }
  ++count_;
}

void RecordInputs::Iterator::enter_chunk() {
  if (chunk_ == chunks_->size()) return;
  rest_ = (*chunks_)[chunk_];
  unpack();
}

void RecordInputs::Iterator::unpack() {
  ByteCursor cursor{rest_};
  for (std::string* text : {&input_.role, &input_.digest, &input_.producer, &input_.missing}) *text = take_text(cursor);
  input_.labels.clear();
  for (auto labels = cursor.take<std::uint32_t>(); labels > 0; --labels) {
    std::string axis = take_text(cursor);
    input_.labels.emplace_hint(input_.labels.end(), std::move(axis), take_text(cursor));
  }
  size_ = rest_.size() - cursor.rest.size();
}

RecordInputs::Iterator& RecordInputs::Iterator::operator++() {
  rest_.remove_prefix(size_);
  if (!rest_.empty()) {
    unpack();
  } else {
    ++chunk_;
    enter_chunk();
  }
  return *this;
}

}  // namespace pe::pipeline
