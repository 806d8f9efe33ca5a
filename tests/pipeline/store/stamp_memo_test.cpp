// Contents of files by their stat; a file that may have changed is read again, and damage costs time alone.
#include "pipeline/store/stamp_memo.h"

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "pipeline/grid_fixture.h"
#include "support/error.h"
#include "support/files.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
using pe::test::GridFolder;
namespace fs = std::filesystem;

namespace {

/// As if no file had changed for an hour, so that stats can be trusted.
void age(const fs::path& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) fs::last_write_time(entry, fs::file_time_type::clock::now() - std::chrono::hours(1));
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(stamp_memo)

BOOST_AUTO_TEST_CASE(a_file_that_stands_still_is_read_once) {
  const GridFolder folder;
  age(folder.root());
  const fs::path file = folder.path("data/fineweb-edu/a.txt");
  StampMemo first = StampMemo::of_inputs(folder.path("store"));
  BOOST_TEST(!first.known(file));
  const std::string digest = first.digest(file).sha256;
  BOOST_TEST(digest == support::sha256_file(file));
  first.save();
  const StampMemo second = StampMemo::of_inputs(folder.path("store"));
  BOOST_REQUIRE(second.known(file));
  BOOST_TEST(second.known(file)->sha256 == digest);
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(1));
  BOOST_TEST(!second.known(file));
}

BOOST_AUTO_TEST_CASE(several_processes_keep_what_each_has_read) {
  const GridFolder folder;
  folder.write("data/one.txt", "1");
  folder.write("data/two.txt", "2");
  age(folder.root());
  {
    StampMemo a = StampMemo::of_inputs(folder.path("store")), b = StampMemo::of_inputs(folder.path("store"));
    BOOST_TEST(!a.known(folder.path("data/one.txt")));  // both have looked into the file by now
    BOOST_TEST(!b.known(folder.path("data/two.txt")));
    a.digest(folder.path("data/one.txt"));
    b.digest(folder.path("data/two.txt"));
  }
  const StampMemo next = StampMemo::of_inputs(folder.path("store"));
  BOOST_TEST(next.known(folder.path("data/one.txt")).has_value());
  BOOST_TEST(next.known(folder.path("data/two.txt")).has_value());
}

BOOST_AUTO_TEST_CASE(a_write_whose_time_was_set_back_is_seen) {  // rsync --inplace -t, tar, cp -p
  const GridFolder folder;
  age(folder.root());
  const fs::path file = folder.path("data/fineweb-edu/a.txt");
  StampMemo memo = StampMemo::of_inputs(folder.path("store"));
  const std::string digest = memo.digest(file).sha256;
  BOOST_REQUIRE(memo.known(file));
  const auto time = fs::last_write_time(file);
  // The time of a status change moves in ticks of some milliseconds.
  const auto before = support::stamp_of(file);
  do {
    std::fstream(file, std::ios::in | std::ios::out).write("X", 1);
    fs::last_write_time(file, time);
  } while (support::stamp_of(file).ctime_ns == before.ctime_ns);
  BOOST_TEST(support::stamp_of(file).mtime_ns == before.mtime_ns);
  BOOST_TEST(support::stamp_of(file).size == before.size);
  BOOST_TEST(memo.digest(file).sha256 != digest);
}

BOOST_AUTO_TEST_CASE(a_young_file_is_hashed_again) {
  const GridFolder folder;
  const fs::path file = folder.path("data/fineweb-edu/a.txt");
  std::fstream(file, std::ios::in | std::ios::out).write("Y", 1);
  StampMemo memo = StampMemo::of_inputs(folder.path("store"));
  const std::string digest = memo.digest(file).sha256;
  BOOST_TEST(!memo.known(file));
  std::fstream(file, std::ios::in | std::ios::out).write("X", 1);
  BOOST_TEST(memo.digest(file).sha256 != digest);
}

BOOST_AUTO_TEST_CASE(what_holds_no_longer_can_be_dropped) {
  const GridFolder folder;
  folder.write("data/a/gone.txt", "1");
  folder.write("data/a/changed.txt", "2");
  folder.write("data/a/kept.txt", "3");
  folder.write("data/unmounted/far.txt", "4");
  age(folder.root());
  StampMemo memo = StampMemo::of_inputs(folder.path("store"));
  const char* const names[] = {"a/gone.txt", "a/changed.txt", "a/kept.txt", "unmounted/far.txt"};
  for (const char* name : names) memo.digest(folder.path("data") / name);
  memo.save();
  const auto before = fs::file_size(folder.path("store/memo/content"));
  fs::remove(folder.path("data/a/gone.txt"));
  folder.write("data/a/changed.txt", "5");
  fs::rename(folder.path("data/unmounted"), folder.path("data/elsewhere"));
  memo.drop_stale();
  memo.save();
  const auto after = fs::file_size(folder.path("store/memo/content"));
  BOOST_TEST(after < before);
  fs::rename(folder.path("data/elsewhere"), folder.path("data/unmounted"));
  const StampMemo next = StampMemo::of_inputs(folder.path("store"));
  BOOST_TEST(next.known(folder.path("data/a/kept.txt")).has_value());
  BOOST_TEST(next.known(folder.path("data/unmounted/far.txt")).has_value());  // it came back as it was
  BOOST_TEST(!next.known(folder.path("data/a/changed.txt")));
}

BOOST_AUTO_TEST_CASE(a_file_that_cannot_be_read_is_an_error) {
  const GridFolder folder;
  StampMemo memo = StampMemo::of_inputs(folder.path("store"));
  BOOST_CHECK_THROW(memo.digest(folder.path("none")), support::IoError);
}

BOOST_AUTO_TEST_CASE(a_damaged_memo_is_an_empty_one) {
  const GridFolder folder;
  age(folder.root());
  const fs::path file = folder.path("data/fineweb-edu/a.txt");
  std::string digest;
  {
    StampMemo memo = StampMemo::of_inputs(folder.path("store"));
    digest = memo.digest(file).sha256;
    memo.save();
  }
  const std::string whole = support::read_file(folder.path("store/memo/content"));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    folder.write("store/memo/content", whole.substr(0, size));
    StampMemo memo = StampMemo::of_inputs(folder.path("store"));
    BOOST_TEST(memo.digest(file).sha256 == digest);
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << (at % 8)));
    folder.write("store/memo/content", flipped);
    StampMemo memo = StampMemo::of_inputs(folder.path("store"));
    BOOST_TEST(memo.digest(file).sha256 == digest);
  }
}

BOOST_AUTO_TEST_SUITE_END()
