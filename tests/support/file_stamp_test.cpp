// Stamps on file systems that answer stat from memory. This program is one of them: it replaces the system's stat.
#include "support/file_stamp.h"

#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>
#include <boost/test/unit_test.hpp>

#include <string>
#include <thread>

#include "support/files.h"
#include "support/interposed.h"
#include "support/temp_folder.h"

using namespace pe;  // NOLINT

namespace {

/// A file of which stat remembers an earlier state, and the kind of its file system.
struct Lie {
  std::string path;
  struct stat remembered {};
  std::uint32_t magic = 0;  ///< 0: none
};
Lie lie;

}  // namespace

extern "C" {

int stat(const char* path, struct stat* status) noexcept {
  static const auto real = test::next<int (*)(const char*, struct stat*)>("stat64");
  if (lie.path.empty() || lie.path != path) return real(path, status);
  *status = lie.remembered;
  return 0;
}

int statfs(const char* path, struct statfs* system) noexcept {
  static const auto real = test::next<int (*)(const char*, struct statfs*)>("statfs64");
  const int result = real(path, system);
  if (lie.magic != 0 && lie.path == path) system->f_type = static_cast<decltype(system->f_type)>(lie.magic);
  return result;
}

}  // extern "C"

namespace {

/// The size in the stamp of a file that had 3 bytes when stat looked, and has 5.
std::uint64_t size_on(std::uint32_t magic) {
  const test::TempFolder folder;
  support::write_file_atomically(folder / "file", "one", false);
  const std::string path = (folder / "file").string();
  struct stat before {};
  BOOST_REQUIRE(::stat(path.c_str(), &before) == 0);
  support::write_file_atomically(folder / "file", "other", false);
  std::uint64_t size = 0;
  // The kind of a file system is remembered in each thread.
  std::thread([&] {
    lie = {path, before, magic};
    size = support::stamp_of(path.c_str()).size;
    lie = {};
  }).join();
  return size;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(file_stamp)

BOOST_AUTO_TEST_CASE(where_stat_answers_from_memory_the_file_is_opened) {
  constexpr std::uint32_t kNfs = 0x6969, kCifs = 0xFF534D42, kSmb2 = 0xFE534D42, kExt4 = 0xEF53;
  for (const std::uint32_t magic : {kNfs, kCifs, kSmb2}) BOOST_TEST(size_on(magic) == 5u, magic);
  BOOST_TEST(size_on(kExt4) == 3u);  // so the lie reaches it
}

BOOST_AUTO_TEST_CASE(a_file_that_cannot_be_opened_keeps_what_stat_said) {
  const test::TempFolder folder;
  const std::string path = (folder / "nowhere").string();
  struct stat remembered {};
  remembered.st_mode = S_IFREG | 0644;
  remembered.st_size = 7;
  support::FileStamp stamp;
  std::thread([&] {
    lie = {path, remembered, 0x6969};
    stamp = support::stamp_of(path.c_str());
    lie = {};
  }).join();
  BOOST_TEST(stamp.exists);
  BOOST_TEST(stamp.size == 7u);
}

BOOST_AUTO_TEST_CASE(a_mapped_file_on_a_network_outlives_its_bytes) {
  const test::TempFolder folder;
  const std::string path = (folder / "file").string(), text(1 << 20, 'x');
  support::write_file_atomically(path, text, false);
  struct stat now {};
  BOOST_REQUIRE(::stat(path.c_str(), &now) == 0);
  std::string seen;
  std::thread([&] {
    lie = {path, now, 0x6969};
    const support::MappedFile mapped(path);
    lie = {};
    BOOST_REQUIRE(::truncate(path.c_str(), 0) == 0);  // as another host's replacement: pages of the file are gone
    seen = mapped.view();
  }).join();
  BOOST_TEST((seen == text));
}

BOOST_AUTO_TEST_SUITE_END()
