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

constexpr int kFormat = 1;

/// The number of documents in a member; everything that the header promises is checked.
std::uint64_t check_member(const h5::File& file) {
  require_kind(file, Kind::kRawText, kFormat);
  const h5::Group root = file.root();
  const h5::Dataset bytes = root.open_dataset("bytes");
  bytes.require_rank(h5::Type::kU8, 1);
  const h5::Dataset offsets = root.open_dataset("offsets");
  offsets.require_rank(h5::Type::kU64, 1);
  if (offsets.count() == 0) throw ArtifactError(cat(offsets.where(), ": expected at least one offset, found none"));
  const std::uint64_t documents = offsets.count() - 1;
  root.open_dataset("source").require(h5::Type::kU32, {documents});
  root.open_dataset("row").require(h5::Type::kU64, {documents});
  root.open_dataset("sources").require_rank(h5::Type::kText, 1);
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
  if (sources_.empty() || sources_.back() != source) sources_.push_back(source);
  text_.append(text);
  offsets_.push_back(text_.size());
  source_.push_back(static_cast<std::uint32_t>(sources_.size() - 1));
  row_.push_back(row);
  ++documents_;
  bytes_ += text.size();
}

void RawTextWriter::flush() {
  const std::filesystem::path path = collection_.add(fmt::format("documents-{:05}.h5", members_++));
  write_artifact(
      path, Kind::kRawText, kFormat, recipe_,
      [&](h5::Group& root) {
        root.write_raw("bytes", h5::Type::kU8, {text_.size()}, text_.data());
        root.write("offsets", offsets_);
        root.write("source", source_);
        root.write("row", row_);
        root.write_texts("sources", sources_);
      },
      {.alignment = 4096, .aligned_from = 4096});
  text_.clear();
  offsets_.assign(1, 0);
  source_.clear();
  row_.clear();
  sources_.clear();
}

Manifest RawTextWriter::finish() {
  if (documents_ == 0 || offsets_.size() > 1) flush();
  return collection_.finish();
}

RawTextReader::RawTextReader(const std::filesystem::path& folder) {
  const Collection collection(folder, Kind::kRawText);
  for (const Member& member : collection.members("documents-")) {
    const h5::File file = h5::File::open(collection.path(member));
    const std::uint64_t documents = check_member(file);
    members_.push_back({collection.path(member), documents});
    documents_ += documents;
    bytes_ += file.root().open_dataset("bytes").count();
  }
  if (members_.empty()) throw ArtifactError(cat(quote(folder.string()), ": the collection holds no documents-*.h5"));
}

void RawTextReader::rewind() {
  member_ = 0;
  map_.reset();
  offsets_.clear();
  at_ = 0;
  index_ = 0;
}

void RawTextReader::open_member(std::size_t number) {
  const h5::File file = h5::File::open(members_[number].path);
  check_member(file);
  const h5::Group root = file.root();
  const h5::Dataset bytes = root.open_dataset("bytes");
  offsets_ = root.read<std::uint64_t>("offsets");
  if (offsets_.front() != 0 || offsets_.back() != bytes.count() || !std::is_sorted(offsets_.begin(), offsets_.end())) {
    throw ArtifactError(cat(quote(file.path().string()), ": /offsets do not rise from 0 to the ", bytes.count(), " bytes of /bytes"),
                        "the file is damaged");
  }
  data_offset_ = bytes.file_offset().value_or(0);
  map_ = std::make_shared<support::MappedFile>(members_[number].path);
  if (bytes.count() > 0 && map_->size() < data_offset_ + bytes.count()) {
    throw ArtifactError(cat(quote(file.path().string()), ": the file became shorter while it was read"));
  }
  at_ = 0;
}

bool RawTextReader::next(Document& document) {
  while (!map_ || at_ + 1 >= offsets_.size()) {
    if (map_) ++member_;
    if (member_ >= members_.size()) return false;
    open_member(member_);
  }
  document.text = map_->view().substr(data_offset_ + offsets_[at_], offsets_[at_ + 1] - offsets_[at_]);
  document.owner = map_;
  document.index = index_++;
  ++at_;
  return true;
}

}  // namespace pe::artifact
