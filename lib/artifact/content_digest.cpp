#include "artifact/content_digest.h"

#include <algorithm>
#include <future>

#include "support/error.h"
#include "support/hash.h"
#include "support/text.h"

namespace pe::artifact {

using support::ArtifactError;
using support::cat;
using support::quote;
using support::Sha256;

namespace {

constexpr int kDeepestHashed = 64;
constexpr std::uint64_t kMostObjects = 1'000'000;
constexpr std::uint64_t kHashedBytes = 4ULL << 20;

class Walk {
 public:
  explicit Walk(const h5::File& file) : file_(file.path().string()) {}

  void group(const h5::Group& group, int depth) {
    if (depth > kDeepestHashed || ++objects_ > kMostObjects) {
      throw ArtifactError(cat(quote(file_), ": groups are nested too deeply, or there are too many"));
    }
    put("group");
    put(group.path());
    attributes(group);
    for (const std::string& name : group.names()) {
      if (group.path() == "/pe" && name.starts_with("made_by")) continue;
      if (group.is_group(name)) {
        this->group(group.open_group(name), depth + 1);
      } else {
        dataset(group.open_dataset(name));
      }
    }
  }

  std::string hex() { return hash_.hex(); }

 private:
  // Lengths come before what they measure, so that no two walks give the same bytes.
  void put(std::string_view text) {
    number(text.size());
    hash_.update(text);
  }
  void number(std::uint64_t value) {
    std::uint8_t bytes[8];
    for (int i = 0; i < 8; ++i) bytes[i] = static_cast<std::uint8_t>(value >> (8 * i));
    hash_.update(bytes, sizeof bytes);
  }
  void shape(const std::vector<std::uint64_t>& extents) {
    number(extents.size());
    for (const std::uint64_t extent : extents) number(extent);
  }

  void attributes(const h5::Object& object) {
    for (const std::string& name : object.attribute_names()) {
      const h5::Object::RawAttribute raw = object.raw_attribute(name);
      put("attribute");
      put(name);
      put(raw.type);
      shape(raw.shape);
      put(raw.bytes);
    }
  }

  void dataset(const h5::Dataset& dataset) {
    if (++objects_ > kMostObjects) throw ArtifactError(cat(quote(file_), ": there are too many datasets"));
    put("dataset");
    put(dataset.path());
    put(dataset.type() == h5::Type::kText ? cat("text", dataset.element_bytes())
                                          : std::string(h5::type_name(dataset.type())));
    shape(dataset.shape());
    attributes(dataset);
    number(dataset.bytes());
    const std::uint64_t per_piece = std::max<std::uint64_t>(1, kHashedBytes / dataset.element_bytes());
    for (std::uint64_t first = 0; first < dataset.count(); first += per_piece) {
      const std::uint64_t count = std::min(per_piece, dataset.count() - first);
      piece_.resize(static_cast<std::size_t>(count * dataset.element_bytes()));
      dataset.read_raw(piece_.data(), first, count);
      hash_.update(piece_.data(), piece_.size());
    }
  }

  std::string file_;
  Sha256 hash_;
  std::vector<char> piece_;
  std::uint64_t objects_ = 0;
};

}  // namespace

std::string content_digest(const h5::File& file) {
  Walk walk(file);
  walk.group(file.root(), 0);
  return walk.hex();
}

FileDigests digests_of(const std::filesystem::path& path) {
  if (!h5::looks_like_hdf5(path)) {
    const std::string digest = support::sha256_file(path);
    return {digest, digest};
  }
  // HDF5 is for one thread; a second thread hashes the plain bytes, while they are in memory anyway.
  constexpr std::uintmax_t kLarge = 1 << 20;
  std::future<std::string> file =
      std::async(std::filesystem::file_size(path) < kLarge ? std::launch::deferred : std::launch::async,
                 [path] { return support::sha256_file(path); });
  std::string content = content_digest(h5::File::open(path));
  return {file.get(), std::move(content)};
}

std::string content_digest(const std::filesystem::path& path) {
  if (!h5::looks_like_hdf5(path)) return support::sha256_file(path);
  return content_digest(h5::File::open(path));
}

}  // namespace pe::artifact
