/// @file
/// Older stores, brought up to the format of this program.
#pragma once

#include <filesystem>

namespace pe::pipeline {

/// Migrates from format `from` to kStoreVersion, and writes VERSION last: when it is stopped on the way, the next try
/// begins again and skips finished parts. Two concurrent processes wait for each other.
///
///     1 → 2   every record gets a checksum of itself (record.h)
///
/// @throws IoError
void migrate_store(const std::filesystem::path& root, int from, bool durable);

}  // namespace pe::pipeline
