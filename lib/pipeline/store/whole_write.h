/// @file
/// Writing files of the store: leases, journals, the index, records, notes of an attempt.
#pragma once

#include <filesystem>
#include <string_view>
#include <utility>

#include "support/files.h"

namespace pe::pipeline {

/// Makes a file that is not read, or counts as missing, before it is whole: without the second name and the rename of
/// `support::write_file_atomically`. Synced when `durable`; its name is not. After a failure no file remains.
/// @throws IoError; also when there is a file already.
void write_new_file(const std::filesystem::path& path, std::string_view bytes, bool durable);
/// The same under a unique name in the folder of `path`, which it returns.
std::filesystem::path write_sibling(const std::filesystem::path& path, std::string_view bytes, bool durable);

/// An empty file that no other process has, in the folder of `path`. @throws IoError
std::pair<std::filesystem::path, support::Descriptor> create_sibling(const std::filesystem::path& path);

}  // namespace pe::pipeline
