#include "pipeline/store/record_inputs.h"

#include <cstdint>
#include <cstring>

#include "support/sha256_text.h"

namespace pe::pipeline {

namespace {

// A digest takes half its digits; every other text stands as it is, behind its length.
constexpr std::uint32_t kDigest = 0xffffffff;

void put_count(std::string& bytes, std::uint32_t number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void put_text(std::string& bytes, std::string_view text) {
  if (support::is_sha256(text)) {
    put_count(bytes, kDigest);
    support::append_sha256(bytes, text);
    return;
  }
  put_count(bytes, static_cast<std::uint32_t>(text.size()));
  bytes.append(text);
}

std::uint32_t take_count(std::string_view& rest) {
  std::uint32_t number = 0;
  std::memcpy(&number, rest.data(), sizeof number);
  rest.remove_prefix(sizeof number);
  return number;
}

std::string take_text(std::string_view& rest) {
  const std::uint32_t length = take_count(rest);
  std::string text;
  if (length == kDigest) {
    text.resize(64);
    support::write_hex(rest.data(), 32, text.data());
    rest.remove_prefix(32);
    return text;
  }
  text = rest.substr(0, length);
  rest.remove_prefix(length);
  return text;
}

}  // namespace

void RecordInputs::push_back(const InputRecord& input) {
  for (const std::string* text : {&input.role, &input.digest, &input.producer, &input.missing}) put_text(bytes_, *text);
  put_count(bytes_, static_cast<std::uint32_t>(input.labels.size()));
  for (const auto& [axis, label] : input.labels) {
    put_text(bytes_, axis);
    put_text(bytes_, label);
  }
  ++count_;
}

void RecordInputs::Iterator::unpack() {
  if (rest_.empty()) return;
  std::string_view rest = rest_;
  for (std::string* text : {&input_.role, &input_.digest, &input_.producer, &input_.missing}) *text = take_text(rest);
  input_.labels.clear();
  for (std::uint32_t labels = take_count(rest); labels > 0; --labels) {
    std::string axis = take_text(rest);
    input_.labels.emplace_hint(input_.labels.end(), std::move(axis), take_text(rest));
  }
  size_ = rest_.size() - rest.size();
}

RecordInputs::Iterator& RecordInputs::Iterator::operator++() {
  rest_.remove_prefix(size_);
  unpack();
  return *this;
}

}  // namespace pe::pipeline
