// Conclusions of doctor from a store.
#include "pipeline/maintenance/health.h"
#include "pipeline/maintenance/mount.h"

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

BOOST_FIXTURE_TEST_CASE(a_record_that_only_cannot_be_read_is_bad_and_stays, test::SmallRun) {
  const auto a = add("a");
  BOOST_REQUIRE(run().exit_code == 0);
  const fs::path record = store->record_path({*store->hint(task(a).plan_key), -1});
  fs::rename(record, folder / "aside");
  fs::create_symlink(record.filename(), record);  // to itself
  HealthOptions fix;
  fix.fix = true;
  bool bad = false;
  for (const Finding& finding : examine(folder / "store", fix))
    bad = bad || (finding.level == Finding::Level::kBad && finding.text.find(record.string()) != std::string::npos);
  BOOST_TEST(bad);
  BOOST_TEST(fs::is_symlink(record));
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

BOOST_AUTO_TEST_CASE(the_kind_of_a_file_system_says_what_several_machines_may_rely_on) {
  const std::string table =
      "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
      "23 22 0:21 / /proc rw,nosuid - proc proc rw,hidepid=invisible\n"
      "40 22 0:50 / /home rw,noatime shared:1 master:2 - nfs4 server:/home rw,vers=4.2,local_lock=none\n"
      "41 22 0:51 / /home/with\\040space rw - lustre mds:/fs rw,localflock\n"
      "42 22 0:52 / /scratch rw - beegfs beegfs_nodev rw\n"
      "half a line\n";
  const auto type = [&](const char* path) { return mount_of(table, path).value_or(Mount{"none", ""}).type; };
  BOOST_TEST(type("/var/x") == "ext4");
  BOOST_TEST(type("/home/ann/store") == "nfs4");
  BOOST_TEST(type("/homes") == "ext4");
  BOOST_TEST(type("/home/with space/store") == "lustre");
  BOOST_TEST(!mount_of("", "/x").has_value());
  BOOST_TEST(!sharing_of(*mount_of(table, "/var")).network);
  BOOST_TEST(sharing_of(*mount_of(table, "/home")).locks == "processes of all machines");
  BOOST_TEST(sharing_of(*mount_of(table, "/home/with space")).locks == "processes of this machine only");
  BOOST_TEST(sharing_of({"nfs", "rw,nolock"}).locks == "processes of this machine only");
  BOOST_TEST(sharing_of(*mount_of(table, "/scratch")).advice.find("rejects links from one folder to another") !=
             std::string::npos);
  BOOST_TEST(hides_processes(*mount_of(table, "/proc")));
  BOOST_TEST(!hides_processes({"proc", "rw,hidepid=off"}));
}

BOOST_AUTO_TEST_SUITE_END()
