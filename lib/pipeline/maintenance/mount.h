/// @file
/// The kind of file system under a path, and its meaning for a store that several machines share.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace pe::pipeline {

struct Mount {
  std::string type;     ///< as the kernel names it: "ext4", "nfs4", "lustre", "fuse.sshfs"
  std::string options;  ///< of the mount and of the file system, between commas
};

/// The mount that `path`, absolute and without links, is below, from the text of /proc/self/mountinfo; nothing when the
/// text names none.
std::optional<Mount> mount_of(std::string_view mountinfo, const std::filesystem::path& path);

struct MountSharing {
  bool network = false;  ///< several machines may share it
  std::string locks;     ///< whom a lock excludes: "processes of all machines"; of a network file system only
  std::string advice;    ///< may be empty
};
MountSharing sharing_of(const Mount& mount);

/// Whether processes of other users are hidden by the /proc of this mount (hidepid).
bool hides_processes(const Mount& proc);

}  // namespace pe::pipeline
