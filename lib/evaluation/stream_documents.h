/// @file
/// Held-out documents joined into one stream and cut into pieces of one length: the "documents" of stream protocols.
/// The documents come in the order of their hashes, each with the joint before it.
#pragma once

#include <cstdint>
#include <vector>

#include "evaluation/documents.h"

namespace pe::evaluation {

class StreamDocuments final : public DocumentSource {
 public:
  /// @param source outlives it. @param joint ids before each document. @param joint_bytes bytes of their text.
  StreamDocuments(const DocumentSource& source, std::vector<std::int32_t> joint, std::int64_t joint_bytes);

  /// Pieces that there are of that length; the remainder is dropped.
  std::int64_t pieces(std::int64_t tokens) const { return total_ / tokens; }
  /// @param history tokens of the stream that `read` puts before each piece, as far as there are
  void cut_at(std::int64_t tokens, std::int64_t history = 0) {
    piece_ = tokens;
    history_ = history;
  }

  std::string split() const override { return source_.split(); }
  std::int64_t count() const override { return pieces(piece_); }
  std::int64_t tokens(std::int64_t) const override { return piece_; }
  std::uint64_t hash(std::int64_t id) const override { return static_cast<std::uint64_t>(id); }
  Document read(std::int64_t id, std::int64_t limit) const override;

 private:
  const DocumentSource& source_;
  std::vector<std::int32_t> joint_;
  std::int64_t joint_bytes_;
  std::vector<std::int64_t> ids_;     ///< documents in the order of the stream
  std::vector<std::int64_t> begins_;  ///< position of each one's joint
  std::int64_t total_ = 0;
  std::int64_t piece_ = 1;
  std::int64_t history_ = 0;
};

}  // namespace pe::evaluation
