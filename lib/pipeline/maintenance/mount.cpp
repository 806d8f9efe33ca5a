#include "pipeline/maintenance/mount.h"

#include <algorithm>
#include <vector>

#include "support/text.h"

namespace pe::pipeline {

using support::cat;

namespace {

/// The kernel writes a space as "\040".
std::string unescaped(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool octal = text[i] == '\\' && i + 3 < text.size() && text.find_first_not_of("01234567", i + 1) > i + 3;
    if (octal) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool is_below(const std::string& path, const std::string& folder) {
  if (folder == "/") return true;
  return path.rfind(folder, 0) == 0 && (path.size() == folder.size() || path[folder.size()] == '/');
}

bool has_option(const Mount& mount, const std::string& name) {
  const auto all = support::split(mount.options, ',');
  return std::find(all.begin(), all.end(), name) != all.end();
}

bool begins(const std::string& text, std::string_view prefix) { return text.rfind(prefix, 0) == 0; }

constexpr const char* kEverywhere = "processes of all machines";
constexpr const char* kHere = "processes of this machine only";

}  // namespace

std::optional<Mount> mount_of(std::string_view mountinfo, const std::filesystem::path& path) {
  std::optional<Mount> found;
  std::size_t longest = 0;
  for (const std::string& line : support::split(std::string(mountinfo), '\n')) {
    // 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
    const std::vector<std::string> words = support::split(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 7 || words.end() - dash < 4) continue;
    const std::string folder = unescaped(words[4]);
    // Of two mounts on one folder the later one is seen.
    if (!is_below(path.string(), folder) || folder.size() < longest) continue;
    longest = folder.size();
    found = Mount{*(dash + 1), cat(words[5], ",", *(dash + 3))};
  }
  return found;
}

MountSharing sharing_of(const Mount& mount) {
  const std::string& type = mount.type;
  if (begins(type, "nfs")) {
    const bool local =
        has_option(mount, "nolock") || has_option(mount, "local_lock=all") || has_option(mount, "local_lock=flock");
    return {true, local ? kHere : kEverywhere,
            has_option(mount, "noac")
                ? ""
                : "another machine may see new names up to a minute late; jobs look again for two"};
  }
  if (type == "lustre")
    return {true,
            has_option(mount, "flock")        ? kEverywhere
            : has_option(mount, "localflock") ? kHere
                                              : "no process (mounted without flock)",
            ""};
  if (begins(type, "beegfs"))
    return {true, "processes of this machine only, unless tuneUseGlobalFileLocks is set",
            "BeeGFS rejects links from one folder to another, so every output is copied when it is published"};
  if (type == "cifs" || type == "smb3")
    return {true, has_option(mount, "nobrl") ? kHere : kEverywhere, "hard links need a server that offers them"};
  for (const char* whole : {"gpfs", "ceph", "gfs2", "ocfs2", "wekafs", "pvfs2", "afs", "panfs", "cvfs"}) {
    if (type == whole) return {true, kEverywhere, ""};
  }
  if (type == "9p" || type == "virtiofs") return {true, kHere, "it is the host's; other guests may use it, too"};
  for (const char* remote :
       {"fuse.sshfs", "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse", "fuse.mount-s3", "fuse.glusterfs"}) {
    if (type == remote) return {true, kHere, "use it from one machine at a time"};
  }
  return {};
}

bool hides_processes(const Mount& proc) {
  for (const std::string& option : support::split(proc.options, ',')) {
    if (begins(option, "hidepid=") && option != "hidepid=0" && option != "hidepid=off") return true;
  }
  return false;
}

}  // namespace pe::pipeline
