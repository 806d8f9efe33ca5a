/// @file
/// The inputs that a record names, packed: a report may gather a hundred thousand, each with a handful of short texts.
#pragma once

#include <cstddef>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "support/chunked_text.h"

namespace pe::pipeline {

/// One artifact that was read. `digest` is empty when the producer failed and the reader allows partial input.
struct InputRecord {
  std::string role;
  std::string digest;                         ///< content digest
  std::string producer;                       ///< id of the producing task, "trunk[seed=42]@b25"
  std::map<std::string, std::string> labels;  ///< axis → label, and "stage"
  std::string missing;                        ///< why it is absent
};

/// A list that grows at its end and is read from the front; each input is unpacked when it is looked at.
class RecordInputs {
 public:
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = InputRecord;
    using difference_type = std::ptrdiff_t;
    using pointer = const InputRecord*;
    using reference = const InputRecord&;

    Iterator(const std::vector<std::string>& chunks, std::size_t chunk) : chunks_(&chunks), chunk_(chunk) {
      enter_chunk();
    }
    reference operator*() const { return input_; }
    pointer operator->() const { return &input_; }
    Iterator& operator++();
    bool operator==(const Iterator& other) const {
      return chunk_ == other.chunk_ && rest_.size() == other.rest_.size();
    }

   private:
    void enter_chunk();
    void unpack();

    const std::vector<std::string>* chunks_;
    std::size_t chunk_;
    std::string_view rest_;  // of the chunk, from this input on
    std::size_t size_ = 0;   // of this input's bytes
    InputRecord input_;
  };

  void push_back(const InputRecord& input);
  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  Iterator begin() const { return {text_.chunks(), 0}; }
  Iterator end() const { return {text_.chunks(), text_.chunks().size()}; }

 private:
  support::ChunkedText text_;
  std::size_t count_ = 0;
};

}  // namespace pe::pipeline
