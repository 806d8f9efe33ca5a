// Copies into and out of a store where the file system can share blocks between files. This program is such a
// file system: it replaces the system's ioctl.
#include <fcntl.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <boost/test/unit_test.hpp>

#include <string>

#include "pipeline/store/store.h"
#include "support/error.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/hash.h"
#include "support/interposed.h"
#include "support/temp_folder.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT

namespace {

enum class Sharing { kNone, kGood, kOtherBytes };
Sharing sharing = Sharing::kNone;
int shared_copies = 0;

int clone_file(int to, int from) {
  if (sharing == Sharing::kNone) return test::refuse(EOPNOTSUPP);
  ++shared_copies;
  if (sharing == Sharing::kOtherBytes) return ::write(to, "others", 6) == 6 ? 0 : -1;
  struct stat status {};
  if (::fstat(from, &status) != 0) return -1;
  off_t at = 0;
  return ::sendfile(to, from, &at, static_cast<std::size_t>(status.st_size)) == status.st_size ? 0 : -1;
}

}  // namespace

extern "C" int ioctl(int fd, unsigned long request, ...) noexcept {
  static const auto real = test::next<int (*)(int, unsigned long, void*)>("ioctl");
  va_list list;
  va_start(list, request);
  void* const argument = va_arg(list, void*);
  va_end(list);
  return request == FICLONE ? clone_file(fd, static_cast<int>(reinterpret_cast<std::intptr_t>(argument)))
                            : real(fd, request, argument);
}

namespace {

struct Fixture {
  explicit Fixture(Sharing how = Sharing::kNone) {
    support::write_file_atomically(folder / "from", bytes, false);
    sharing = how;
    shared_copies = 0;
  }
  ~Fixture() { sharing = Sharing::kNone; }

  test::TempFolder folder;
  Store store{folder / "store"};
  std::string bytes = std::string(3'000'000, 'b') + "end";
  std::string digest = support::sha256_hex(bytes);
};

}  // namespace

BOOST_AUTO_TEST_SUITE(copies)

BOOST_AUTO_TEST_CASE(objects_come_in_and_go_out_whole_whether_blocks_are_shared_or_not) {
  for (const Sharing how : {Sharing::kNone, Sharing::kGood}) {
    Fixture fixture(how);
    fixture.store.import_object(fixture.folder / "from", fixture.digest);
    BOOST_TEST(fixture.store.has_object(fixture.digest));
    BOOST_TEST((support::read_file(fixture.store.object_path(fixture.digest)) == fixture.bytes));
    struct stat status {};
    BOOST_REQUIRE(::stat(fixture.store.object_path(fixture.digest).c_str(), &status) == 0);
    BOOST_TEST((status.st_mode & 0777) == 0444u);
    fixture.store.export_object(fixture.digest, fixture.folder / "to");
    BOOST_TEST((support::read_file(fixture.folder / "to") == fixture.bytes));
    BOOST_TEST(shared_copies == (how == Sharing::kGood ? 2 : 0));
  }
}

BOOST_AUTO_TEST_CASE(shared_blocks_are_hashed_and_other_bytes_leave_nothing) {
  Fixture fixture(Sharing::kOtherBytes);
  BOOST_CHECK_THROW(fixture.store.import_object(fixture.folder / "from", fixture.digest), support::ArtifactError);
  BOOST_TEST(shared_copies == 1);
  BOOST_TEST(!fixture.store.has_object(fixture.digest));
  BOOST_TEST(support::list_folder(fixture.store.object_path(fixture.digest).parent_path()).empty());
}

BOOST_AUTO_TEST_SUITE_END()
