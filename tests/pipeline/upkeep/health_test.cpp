// What doctor concludes from a store.
#include "pipeline/upkeep/health.h"

#include <sys/mount.h>
#include <unistd.h>
#include <boost/test/unit_test.hpp>

#include "pipeline/run/run_fixture.h"
#include "pipeline/store/lease.h"
#include "support/can_mount.h"
#include "support/files.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
namespace fs = std::filesystem;

namespace {

/// The texts of the findings of a topic.
std::string told(const fs::path& store, const std::string& topic) {
  std::string text;
  for (const Finding& finding : examine(store, {})) {
    if (finding.topic == topic) text += finding.text + "\n";
  }
  return text;
}

/// A lease of this host as a process with another start would have written it.
std::string lease_of(std::uint64_t process_start) {
  LeaseOwner owner;
  owner.where = this_host();
  owner.pid = ::getpid();
  owner.process_start = process_start;
  owner.run = "20260101-000000-0001";
  return "0000000000000001 0000000000 00000000000000000000\n" + to_json(owner).dump() + "\n";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(health)

BOOST_FIXTURE_TEST_CASE(leases_of_processes_that_are_gone_are_counted, test::SmallRun) {
  add("a");
  BOOST_REQUIRE(run().exit_code == 0);
  BOOST_TEST(told(folder / "store", "leases") == "none is held\n");
  const fs::path leases = folder / "store/leases";
  fs::create_directories(leases);
  support::write_file_atomically(leases / std::string(64, 'a'), lease_of(process_start(::getpid())), false);
  BOOST_TEST(told(folder / "store", "leases") == "1 held\n");
  support::write_file_atomically(leases / std::string(64, 'b'), lease_of(1), false);
  support::write_file_atomically(leases / std::string(64, 'c'), "{\"host\": \"x\"}", false);
  BOOST_TEST(told(folder / "store", "leases") == "1 lease cannot be read\n3 held, 1 by processes that are gone\n");
}

BOOST_FIXTURE_TEST_CASE(a_store_that_cannot_be_listed_is_bad_and_the_rest_is_looked_at, test::SmallRun) {
  add("a");
  BOOST_REQUIRE(run().exit_code == 0);
  const fs::path tasks = folder / "store/tasks";
  fs::rename(tasks, folder / "aside");
  fs::create_symlink("tasks", tasks);  // to itself
  BOOST_TEST(told(folder / "store", "store").find("cannot list '" + tasks.string()) == 0u);
  BOOST_TEST(!told(folder / "store", "space").empty());
  fs::remove(tasks);
  fs::rename(folder / "aside", tasks);
}

BOOST_FIXTURE_TEST_CASE(a_work_folder_on_another_file_system_is_told, test::SmallRun,
                        *boost::unit_test::precondition(test::CanMount{})) {
  add("a");
  BOOST_REQUIRE(run().exit_code == 0);
  BOOST_TEST(told(folder / "store", "file system").find("link between them") == std::string::npos);
  const fs::path work = folder / "store/work";
  fs::remove_all(work);
  fs::create_directories(work);
  BOOST_REQUIRE(::mount("tmpfs", work.c_str(), "tmpfs", 0, "size=1m") == 0);
  BOOST_TEST(told(folder / "store", "file system").find("link between them") != std::string::npos);
  ::umount(work.c_str());
}

BOOST_AUTO_TEST_SUITE_END()
