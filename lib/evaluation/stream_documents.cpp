#include "evaluation/stream_documents.h"

#include <algorithm>

namespace pe::evaluation {

StreamDocuments::StreamDocuments(const DocumentSource& source, std::vector<std::int32_t> joint,
                                 std::int64_t joint_bytes)
    : source_(source),
      joint_(std::move(joint)),
      joint_bytes_(joint_bytes),
      ids_(select_documents(source, 1, source.count())) {
  for (const std::int64_t id : ids_) {
    begins_.push_back(total_);
    total_ += static_cast<std::int64_t>(joint_.size()) + source.tokens(id);
  }
}

Document StreamDocuments::read(std::int64_t id, std::int64_t limit) const {
  Document piece;
  piece.id = id;
  piece.history = std::min(id * piece_, history_);
  const std::int64_t begin = id * piece_ - piece.history, end = id * piece_ + std::min(limit, piece_);
  auto at = static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), begin) - begins_.begin() - 1);
  for (; at < ids_.size() && begins_[at] < end; ++at) {
    const auto joint = static_cast<std::int64_t>(joint_.size());
    const std::int64_t first = begins_[at] + joint;
    const Document document = source_.read(ids_[at], std::max<std::int64_t>(0, end - first));
    const auto last = first + static_cast<std::int64_t>(document.ids.size());
    for (std::int64_t token = std::max(begin, begins_[at]); token < std::min(end, last); ++token) {
      const bool inside = token >= first;
      const auto index = static_cast<std::size_t>(inside ? token - first : token - begins_[at]);
      piece.ids.push_back(inside ? document.ids[index] : joint_[index]);
      // A joint's bytes belong to its first token.
      piece.bytes.push_back(inside ? document.bytes[index]
                                   : (index == 0 ? static_cast<std::int32_t>(joint_bytes_) : 0));
    }
  }
  return piece;
}

}  // namespace pe::evaluation
