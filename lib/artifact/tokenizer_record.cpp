#include "artifact/tokenizer_record.h"

#include "artifact/header.h"
#include "support/error.h"
#include "support/hash.h"
#include "support/text.h"

namespace pe::artifact {

using support::ArtifactError;
using support::cat;

namespace {

constexpr std::int64_t kLargestVocabulary = 1LL << 24;

}  // namespace

std::string TokenizerRecord::digest() const {
  return support::canonical_hash("pe/tokenizer/1", {{"kind", kind},
                                                    {"content", content_hash},
                                                    {"vocabulary", vocabulary},
                                                    {"bos_id", bos_id},
                                                    {"eos_id", eos_id},
                                                    {"pad_id", pad_id},
                                                    {"unk_id", unk_id},
                                                    {"bos_before_documents", bos_before_documents},
                                                    {"dummy_prefix", dummy_prefix}});
}

void write_tokenizer_group(h5::Group& root, const TokenizerRecord& record) {
  h5::Group group = root.create_group("tokenizer");
  group.set_text("kind", record.kind);
  group.set_integer("vocabulary", record.vocabulary);
  group.set_integer("bos_id", record.bos_id);
  group.set_integer("eos_id", record.eos_id);
  group.set_integer("pad_id", record.pad_id);
  group.set_integer("unk_id", record.unk_id);
  group.set_integer("bos_before_documents", record.bos_before_documents ? 1 : 0);
  group.set_integer("dummy_prefix", record.dummy_prefix ? 1 : 0);
  group.set_text("content_hash", record.content_hash);
  group.set_text("digest", record.digest());
  group.write_raw("model", h5::Type::kU8, {record.model.size()}, record.model.data());
  group.write("token_bytes", record.token_bytes);
  // Another release that gives the same ids makes the same artifact, so this is no content.
  root.open_group("pe").write_text("made_by_library", record.library);
}

TokenizerRecord read_tokenizer_group(const h5::File& file) {
  const h5::Group group = file.root().open_group("tokenizer");
  TokenizerRecord record;
  record.kind = group.text("kind");
  record.vocabulary = group.integer("vocabulary");
  if (record.vocabulary < 1 || record.vocabulary > kLargestVocabulary) {
    throw ArtifactError(cat(group.where(), ": invalid vocabulary size ", record.vocabulary));
  }
  record.bos_id = group.integer("bos_id");
  record.eos_id = group.integer("eos_id");
  record.pad_id = group.integer("pad_id");
  record.unk_id = group.integer("unk_id");
  for (const std::int64_t id : {record.bos_id, record.eos_id, record.pad_id, record.unk_id}) {
    if (id < -1 || id >= record.vocabulary) {
      throw ArtifactError(cat(group.where(), ": id ", id, " is outside the vocabulary of ", record.vocabulary));
    }
  }
  record.bos_before_documents = group.integer("bos_before_documents") != 0;
  record.dummy_prefix = group.integer("dummy_prefix") != 0;
  record.content_hash = group.text("content_hash");
  const h5::Group pe = file.root().open_group("pe");
  record.library =
      pe.has("made_by_library") ? pe.read_text("made_by_library") : group.text("library");  // as older files have it
  const h5::Dataset model = group.open_dataset("model");
  model.require_rank(h5::Type::kU8, 1);
  record.model.resize(model.count());
  model.read_raw(record.model.data());
  const h5::Dataset bytes = group.open_dataset("token_bytes");
  bytes.require(h5::Type::kU16, {static_cast<std::uint64_t>(record.vocabulary)});
  record.token_bytes = bytes.read<std::uint16_t>();
  if (const std::string stated = group.text("digest"); stated != record.digest()) {
    throw ArtifactError(cat(group.where(), ": expected tokenizer digest ", stated, ", found ", record.digest()),
                        "the file is corrupt");
  }
  return record;
}

void write_tokenizer(const std::filesystem::path& path, const Recipe& recipe, const TokenizerRecord& record) {
  write_artifact(path, Kind::kTokenizer, kTokenizerFormat, recipe,
                 [&](h5::Group& root) { write_tokenizer_group(root, record); });
}

TokenizerRecord read_tokenizer(const std::filesystem::path& path, Kind kind, int newest) {
  const h5::File file = h5::File::open(path);
  require_kind(file, kind, newest);
  return read_tokenizer_group(file);
}

}  // namespace pe::artifact
