#include "artifact/raw_text.h"

#include <algorithm>

#include "artifact/header.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::artifact {

using support::ArtifactError;
using support::cat;
using support::quote;

namespace {

constexpr int kRawTextFormat = 2;

/// The number of documents in a member; everything that the header promises is checked.
std::uint64_t check_member(const h5::File& file) {
  require_kind(file, Kind::kRawText, kRawTextFormat);
  const h5::Group root = file.root();
  const h5::Dataset bytes = root.open_dataset("bytes");
  bytes.require_rank(h5::Type::kU8, 1);
  const h5::Dataset offsets = root.open_dataset("offsets");
  offsets.require_rank(h5::Type::kU64, 1);
  if (offsets.count() == 0) throw ArtifactError(cat(offsets.where(), ": expected at least one offset, found none"));
  const std::uint64_t documents = offsets.count() - 1;
  root.open_dataset("source").require(h5::Type::kU32, {documents});
  root.open_dataset("row").require(h5::Type::kU64, {documents});
  root.open_dataset("source_names").require_rank(h5::Type::kU8, 1);
  root.open_dataset("source_offsets").require_rank(h5::Type::kU64, 1);
  return documents;
}

}  // namespace

RawTextWriter::RawTextWriter(std::filesystem::path folder, const Recipe& recipe, std::uint64_t member_bytes)
    : recipe_(recipe), collection_(std::move(folder), Kind::kRawText, recipe), member_bytes_(member_bytes) {}

void RawTextWriter::add(std::string_view text, const std::string& source, std::uint64_t row) {
  if (text.size() > member_bytes_) {
    throw support::ConfigError(
        cat("document ", row, " of ", quote(source), " has ", support::short_bytes(static_cast<double>(text.size())),
            "; a document may have at most ", support::short_bytes(static_cast<double>(member_bytes_))),
        {}, "cut it with text.separator or text.document_bytes");
  }
  if (!text_.empty() && text_.size() + text.size() > member_bytes_) flush();
  const std::size_t sources = source_offsets_.size() - 1;
  if (sources == 0 || std::string_view(source_names_).substr(source_offsets_[sources - 1]) != source) {
    source_names_ += source;
    source_offsets_.push_back(source_names_.size());
  }
  text_.append(text);
  offsets_.push_back(text_.size());
  source_.push_back(static_cast<std::uint32_t>(source_offsets_.size() - 2));
  row_.push_back(row);
  ++documents_;
  bytes_ += text.size();
}

void RawTextWriter::flush() {
  const std::filesystem::path path = collection_.add(fmt::format("documents-{:05}.h5", members_++));
  write_artifact(path, Kind::kRawText, kRawTextFormat, recipe_,
                 [&](h5::Group& root) {
                   root.write_raw("bytes", h5::Type::kU8, {text_.size()}, text_.data());
                   root.write("offsets", offsets_);
                   root.write("source", source_);
                   root.write("row", row_);
                   root.write_raw("source_names", h5::Type::kU8, {source_names_.size()}, source_names_.data());
                   root.write("source_offsets", source_offsets_);
                 },
                 {.alignment = 4096, .aligned_from = 4096});
  text_.clear();
  offsets_.assign(1, 0);
  source_.clear();
  row_.clear();
  source_names_.clear();
  source_offsets_.assign(1, 0);
}

Manifest RawTextWriter::finish() {
  if (documents_ == 0 || offsets_.size() > 1) flush();
  return collection_.finish();
}

RawTextReader::RawTextReader(const std::filesystem::path& folder) {
  const Collection collection(folder, Kind::kRawText);
  for (const Member& member : collection.members("documents-")) {
    const h5::File file = h5::File::open(collection.path(member));
    documents_ += check_member(file);
    members_.push_back(collection.path(member));
    bytes_ += file.root().open_dataset("bytes").count();
  }
  if (members_.empty()) throw ArtifactError(cat(quote(folder.string()), ": the collection holds no documents-*.h5"));
}

void RawTextReader::rewind() {
  member_ = 0;
  map_.reset();
  offsets_.clear();
  source_offsets_.clear();
  source_.clear();
  at_ = 0;
  index_ = 0;
}

void RawTextReader::open_member(std::size_t number) {
  const h5::File file = h5::File::open(members_[number]);
  check_member(file);
  const h5::Group root = file.root();
  const h5::Dataset bytes = root.open_dataset("bytes");
  offsets_ = root.read<std::uint64_t>("offsets");
  if (offsets_.front() != 0 || offsets_.back() != bytes.count() || !std::is_sorted(offsets_.begin(), offsets_.end())) {
    throw ArtifactError(
        cat(quote(file.path().string()), ": /offsets do not rise from 0 to the ", bytes.count(), " bytes of /bytes"),
        "the file is corrupt");
  }
  const h5::Dataset names = root.open_dataset("source_names");
  source_offsets_ = root.read<std::uint64_t>("source_offsets");
  source_ = root.read<std::uint32_t>("source");
  if (source_offsets_.empty() || source_offsets_.front() != 0 || source_offsets_.back() != names.count() ||
      !std::is_sorted(source_offsets_.begin(), source_offsets_.end())) {
    throw ArtifactError(cat(quote(file.path().string()), ": /source_offsets do not rise from 0 to the ", names.count(),
                            " bytes of /source_names"),
                        "the file is corrupt");
  }
  for (const std::uint32_t source : source_) {
    if (source + 1ULL < source_offsets_.size()) continue;
    throw ArtifactError(
        cat(quote(file.path().string()), ": /source names source ", source, ", there are ", source_offsets_.size() - 1),
        "the file is corrupt");
  }
  data_offset_ = bytes.file_offset().value_or(0);
  names_offset_ = names.file_offset().value_or(0);
  map_ = std::make_shared<support::MappedFile>(members_[number]);
  if ((bytes.count() > 0 && map_->size() < data_offset_ + bytes.count()) ||
      (names.count() > 0 && map_->size() < names_offset_ + names.count())) {
    throw ArtifactError(cat(quote(file.path().string()), ": the file became shorter while it was read"));
  }
  at_ = 0;
}

std::string_view RawTextReader::source_of(std::uint64_t document) const {
  const std::uint32_t source = source_[document];
  return map_->view().substr(names_offset_ + source_offsets_[source],
                             source_offsets_[source + 1] - source_offsets_[source]);
}

bool RawTextReader::next(Document& document) {
  while (!map_ || at_ + 1 >= offsets_.size()) {
    if (map_) ++member_;
    if (member_ >= members_.size()) return false;
    open_member(member_);
  }
  document.text = map_->view().substr(data_offset_ + offsets_[at_], offsets_[at_ + 1] - offsets_[at_]);
  document.source = source_of(at_);
  document.owner = map_;
  document.index = index_++;
  ++at_;
  return true;
}

}  // namespace pe::artifact
