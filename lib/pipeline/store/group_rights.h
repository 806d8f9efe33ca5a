/// @file
/// The store of a group.
#pragma once

#include <filesystem>

namespace pe::pipeline {

/// Where the folder of a store has the set-group-id bit, what this process and its stages make from now on is writable
/// for the group. To be called before anything is written there, caches included; nothing happens where there is no
/// store.
void share_with_group(const std::filesystem::path& store);

}  // namespace pe::pipeline
