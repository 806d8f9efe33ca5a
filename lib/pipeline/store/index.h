/// @file
/// The index: what a start needs to know of thousands of records without opening them. A cache; the records are the
/// truth. One append-only file per process, merged when read; a record with a bad checksum is skipped, a torn tail
/// ignored.
///
/// File: 8 bytes "PEINDEX1", then entries: u32 length of the body, u32 CRC-32C of the body, body. All little-endian.
/// Body: u8 type, then for
///   1 result     key[32] i64 step u8 status plan_key[32] f64 wall_s u16 outputs, each: u8+role u8+kind object[32]
///                content[32] u64 bytes u8 flags(1 collection, 2 volatile, 4 sizes of members
///                follow, 8 absent) u32 members, each [32]
///   2 hint       plan_key[32] key[32]
///   3 forgotten  key[32] i64 step
/// A plan key that is absent is 32 zero bytes.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "pipeline/store/packed_result.h"

namespace pe::pipeline {

/// The merged content of all index files.
struct IndexContent {
  std::unordered_map<PackedKey, PackedResult, PackedHash> results;
  std::unordered_map<PackedDigest, PackedDigest, PackedHash> hints;
  std::unordered_set<PackedKey, PackedHash> forgotten;  ///< and not recorded again since
  std::size_t entries = 0;                              ///< read, superseded ones included
  std::size_t damaged = 0;                              ///< files with a torn tail or a bad checksum
};

std::string index_header();
std::string encode_result(const PackedKey& key, const PackedResult& result);
std::string encode_hint(const PackedDigest& plan_key, const PackedDigest& key);
std::string encode_forgotten(const PackedKey& key);

/// Reads one file's bytes into `content`; later entries win. False when something was skipped.
bool load_index(std::string_view bytes, IndexContent& content);

/// The same of a file by name; one that cannot be read counts as damaged.
bool read_index_file(const std::filesystem::path& file, IndexContent& content);

/// Reads every file of the folder, in name order. A folder that is not there is an empty index. Files may be merged by
/// another process while it reads.
IndexContent read_index(const std::filesystem::path& folder);

/// Every live entry as one file's bytes; `with_forgotten` where files that stay are read before it.
std::string render_index(const IndexContent& content, bool with_forgotten = false);

/// Adjacent runs of files, in reading order, that have no writer any more and that may become one: the first of all
/// files or several. Files in use split them, so that forgotten entries never come before recorded ones.
std::vector<std::vector<std::string>> mergeable(const std::vector<std::string>& names,
                                                const std::function<bool(const std::string&)>& in_use);

/// A mark of the store's index and its folders of records. Every record that is added or dropped, by a program or by
/// hand, makes an index file longer or changes a folder's time. Equal and not empty: the same records. Empty: unknown.
std::string index_mark(const std::filesystem::path& store);

}  // namespace pe::pipeline
