#include "artifact/document_sample.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "support/error.h"
#include "support/text.h"

namespace pe::artifact {

void DocumentSample::add(std::uint64_t hash) {
  if (hashes_.size() >= kMost) {
    if (hash >= *hashes_.rbegin()) return;
    if (hashes_.insert(hash).second) hashes_.erase(std::prev(hashes_.end()));
    return;
  }
  hashes_.insert(hash);
}

void DocumentSample::add(const DocumentSample& other) {
  for (const std::uint64_t hash : other.hashes_) add(hash);
}

DocumentSample DocumentSample::from_hashes(const std::vector<std::uint64_t>& hashes, const std::string& where) {
  const auto fail = [&](const std::string& what) {
    throw support::ArtifactError(support::cat(where, ": ", what), "the file is corrupt");
  };
  if (hashes.size() > kMost) fail(support::cat("a sample of ", hashes.size(), " documents, expected at most ", kMost));
  for (std::size_t i = 1; i < hashes.size(); ++i) {
    if (hashes[i - 1] >= hashes[i]) fail("the hashes of the sampled documents do not rise");
  }
  DocumentSample sample;
  sample.hashes_ = {hashes.begin(), hashes.end()};
  return sample;
}

DocumentSample::Overlap DocumentSample::overlap(const DocumentSample& other) const {
  // Beyond the largest hash of a full sample nothing is known of its set.
  std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
  for (const DocumentSample* of : {this, &other}) {
    if (of->hashes_.size() >= kMost) last = std::min(last, *of->hashes_.rbegin());
  }
  Overlap found;
  if (other.empty()) return found;
  for (const std::uint64_t hash : hashes_) {
    if (hash > last) break;
    ++found.compared;
    found.common += other.hashes_.count(hash);
  }
  return found;
}

}  // namespace pe::artifact
