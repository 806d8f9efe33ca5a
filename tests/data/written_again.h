#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "artifact/collection.h"
#include "artifact/h5.h"
#include "artifact/header.h"

namespace pe::test {

/// Writes the present sizes of the members.
inline void mend_manifest(const std::filesystem::path& data) {
  artifact::Manifest manifest = artifact::Manifest::read(data);
  for (artifact::Member& member : manifest.members) member.bytes = std::filesystem::file_size(data / member.name);
  std::ofstream(data / "manifest.json") << manifest.to_json().dump();
}

/// Writes the first shard of training data again, with other texts and what `columns` makes of the tokens; the manifest
/// fits it, as after a careless repair by hand.
inline void rewrite_shard(const std::filesystem::path& data, const std::map<std::string, std::string>& others,
                          const std::function<void(artifact::h5::Group&, const std::vector<std::uint16_t>&)>& columns) {
  const std::filesystem::path path = data / "train-00000.h5";
  std::map<std::string, std::string> texts = others;
  std::map<std::string, std::int64_t> integers;
  std::vector<std::uint16_t> tokens;
  std::vector<std::uint64_t> offsets, index;
  std::vector<std::uint32_t> bytes;
  {
    const artifact::h5::Group root = artifact::h5::File::open(path).root();
    for (const char* name : {"split", "tokenizer_digest"}) texts.emplace(name, root.text(name));
    for (const char* name : {"shard", "vocabulary", "bos_id", "bos_before_documents"})
      integers[name] = root.integer(name);
    tokens = root.read<std::uint16_t>("tokens");
    offsets = root.read<std::uint64_t>("doc_offsets");
    bytes = root.read<std::uint32_t>("doc_bytes");
    index = root.read<std::uint64_t>("doc_index");
  }
  artifact::write_artifact(path, artifact::Kind::kTokenShards, 1, {}, [&](artifact::h5::Group& root) {
    for (const auto& [name, text] : texts) root.set_text(name, text);
    for (const auto& [name, value] : integers) root.set_integer(name, value);
    columns(root, tokens);
    root.write("doc_offsets", offsets);
    root.write("doc_bytes", bytes);
    root.write("doc_index", index);
  });
  mend_manifest(data);
}

}  // namespace pe::test
