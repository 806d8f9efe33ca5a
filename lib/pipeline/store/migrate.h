/// @file
/// Older stores, brought up to the format of this program.
#pragma once

#include <filesystem>

namespace pe::pipeline {

/// Does what lies between format `from` and kStoreVersion, and writes VERSION last: when it is stopped on the way, the
/// next try begins again, and what was done already is left alone. Two processes at once wait for each other.
///
///     1 → 2   every record gets a checksum of itself (record.h)
///
/// @throws IoError
void migrate_store(const std::filesystem::path& root, int from, bool durable);

}  // namespace pe::pipeline
