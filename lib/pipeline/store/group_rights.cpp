#include "pipeline/store/group_rights.h"

#include <sys/stat.h>

namespace pe::pipeline {

void share_with_group(const std::filesystem::path& store) {
  struct stat status {};
  // The rights of others than the group stay unchanged.
  if (::stat(store.c_str(), &status) == 0 && (status.st_mode & S_ISGID) != 0) ::umask(::umask(077) & 0707);
}

}  // namespace pe::pipeline
