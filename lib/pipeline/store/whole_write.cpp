#include "pipeline/store/whole_write.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "support/error.h"

namespace pe::pipeline {

namespace fs = std::filesystem;
using support::Descriptor;
using support::throw_errno;

namespace {

Descriptor create(const fs::path& path) {
  return Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
}

void fill(Descriptor file, const fs::path& path, std::string_view bytes, bool durable) {
  try {
    if (!support::write_whole(file.get(), bytes)) throw_errno("write", path.string());
    if (durable && ::fsync(file.get()) != 0) throw_errno("sync", path.string());
    if (::close(file.release()) != 0) throw_errno("close", path.string());
  } catch (...) {
    ::unlink(path.c_str());
    throw;
  }
}

}  // namespace

void write_new_file(const fs::path& path, std::string_view bytes, bool durable) {
  Descriptor file = create(path);
  if (!file) throw_errno("create", path.string(), true);
  fill(std::move(file), path, bytes, durable);
}

std::pair<fs::path, Descriptor> create_sibling(const fs::path& path) {
  for (int tries = 0;; ++tries) {  // an existing file has another owner, whatever its name
    fs::path sibling = support::unique_sibling(path);
    Descriptor file = create(sibling);
    if (file) return {std::move(sibling), std::move(file)};
    if (errno != EEXIST || tries == 100) throw_errno("create", path.string(), true);
  }
}

fs::path write_sibling(const fs::path& path, std::string_view bytes, bool durable) {
  auto [sibling, file] = create_sibling(path);
  fill(std::move(file), sibling, bytes, durable);
  return sibling;
}

}  // namespace pe::pipeline
