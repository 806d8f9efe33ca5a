/// @file
/// Which documents a set holds, as a small sample by which two sets can be compared: are documents of an evaluation
/// also in the training data? A sample keeps the smallest hashes of all documents. Two samples of overlapping sets have
/// common hashes, whatever the files, their order, or the rule that made the sets.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace pe::artifact {

class DocumentSample {
 public:
  static constexpr std::size_t kMost = 4096;

  /// `hash` is evenly distributed over 64 bits and depends on the document's text alone.
  void add(std::uint64_t hash);
  /// Afterwards this is the sample of both sets together.
  void add(const DocumentSample& other);
  bool empty() const { return hashes_.empty(); }
  std::vector<std::uint64_t> hashes() const { return {hashes_.begin(), hashes_.end()}; }  ///< rising
  /// @throws ArtifactError that names `where` unless the hashes rise and are few enough.
  static DocumentSample from_hashes(const std::vector<std::uint64_t>& hashes, const std::string& where);

  struct Overlap {
    std::uint64_t compared = 0;  ///< documents of this set that would be in `other` if its set had them
    std::uint64_t common = 0;    ///< how many of them are
  };
  Overlap overlap(const DocumentSample& other) const;

 private:
  std::set<std::uint64_t> hashes_;
};

}  // namespace pe::artifact
