#include "pipeline/store/store.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <thread>

#include "artifact/collection.h"
#include "artifact/metrics.h"
#include "artifact/workspace.h"
#include "pipeline/store/stamp_memo.h"
#include "support/as_plain_user.h"
#include "support/boot_id.h"
#include "support/bytes_read.h"
#include "support/can_mount.h"
#include "support/error.h"
#include "support/fake_runner.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/hash.h"
#include "support/make_old.h"
#include "support/process.h"
#include "support/temp_folder.h"
#include "support/text.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
namespace fs = std::filesystem;

namespace {

struct OneStore {
  test::TempFolder folder;
  StoreOptions options;
  OneStore() { options.durable = false; }
  Store open() const { return Store(folder / "store", options); }

  /// A file that a stage has closed.
  fs::path file(const std::string& state) const {
    const fs::path path = support::unique_sibling(folder / "out");
    test::write_fake_output(path, state);
    return path;
  }
  fs::path collection(const std::string& text) const {
    const fs::path path = support::unique_sibling(folder / "collection");
    artifact::CollectionWriter writer(path, artifact::Kind::kReport, {});
    support::write_file_atomically(writer.add("report.md"), text, false);
    support::write_file_atomically(writer.add("data/a b.txt"), "same", false);
    writer.finish(false);
    return path;
  }
  static Record record(const std::string& name, std::vector<OutputRecord> outputs, std::int64_t step = -1) {
    Record record;
    record.key = {support::sha256_hex(name), step};
    record.plan_key = support::sha256_hex("plan " + name);
    record.stage = "fake";
    record.task = name;
    record.outputs = std::move(outputs);
    record.preimage = {{"stage", "fake"}};
    record.config = Json::object();
    return record;
  }
};

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const support::Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(store)

BOOST_FIXTURE_TEST_CASE(an_object_is_named_by_its_bytes_and_cannot_be_written, OneStore) {
  Store store = open();
  const fs::path path = file("x");
  const std::string digest = support::sha256_file(path);
  const OutputRecord output = store.publish_output({"out", artifact::Kind::kMetrics, false, path});
  BOOST_TEST(output.object == digest);
  BOOST_TEST(output.content != digest);
  struct stat status {};
  BOOST_TEST(::stat(store.object_path(digest).c_str(), &status) == 0);
  BOOST_TEST((status.st_mode & 0777) == 0444u);
  // The same bytes again: fine.
  BOOST_TEST(store.publish_output({"out", artifact::Kind::kMetrics, false, path}).object == digest);
}

BOOST_FIXTURE_TEST_CASE(a_young_object_is_verified_as_before, OneStore) {
  Store store = open();
  const OutputRecord output = store.publish_output({"out", artifact::Kind::kMetrics, false, file("x")});
  BOOST_TEST(store.is_verified(output));
  test::make_old(folder / "store");
  const auto before = fs::last_write_time(store.object_path(output.object));
  const OutputRecord again = store.publish_output({"out", artifact::Kind::kMetrics, false, file("x")});
  BOOST_TEST(store.is_verified(again));
  BOOST_TEST(store.make_young(output.object));
  BOOST_TEST((fs::last_write_time(store.object_path(output.object)) > before));
  BOOST_TEST(store.is_verified(output));
  fs::remove(store.object_path(output.object));
  BOOST_TEST(!store.make_young(output.object));
}

BOOST_FIXTURE_TEST_CASE(a_file_with_other_names_or_that_somebody_still_writes_is_copied, OneStore) {
  Store store = open();
  const auto publish = [&](const fs::path& path) {
    return store.publish_output({"out", artifact::Kind::kMetrics, false, path});
  };
  const auto mode = [](const fs::path& path) {
    struct stat status {};
    BOOST_REQUIRE(::stat(path.c_str(), &status) == 0);
    return status.st_mode & 0777;
  };
  // The user's own file, which a stage linked into its output.
  const fs::path users = file("x"), linked = folder / "linked.h5";
  const auto before = mode(users);
  fs::create_hard_link(users, linked);
  OutputRecord output = publish(linked);
  BOOST_TEST(mode(users) == before);
  std::ofstream(users, std::ios::app) << "edited";
  BOOST_TEST(store.damaged(output).empty());
  BOOST_TEST(mode(store.object_path(output.object)) == 0444u);
  // A process that left its stage's group still holds the file open.
  const fs::path open_file = file("y");
  const support::Descriptor writer(::open(open_file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  output = publish(open_file);
  BOOST_REQUIRE(::write(writer.get(), "late", 4) == 4);
  BOOST_TEST(store.damaged(output).empty());
  // A link to a file is followed.
  const fs::path target = file("z");
  fs::create_symlink(target, folder / "link.h5");
  output = publish(folder / "link.h5");
  BOOST_TEST(!fs::is_symlink(store.object_path(output.object)));
  std::ofstream(target, std::ios::app) << "edited";
  BOOST_TEST(store.damaged(output).empty());
}

BOOST_FIXTURE_TEST_CASE(an_output_of_another_user_is_copied, OneStore) {
  open();
  const fs::path path = file("x");
  const auto publish = [&] {
    const OutputRecord output = open().publish_output({"out", artifact::Kind::kMetrics, false, path});
    struct stat status {};
    const bool good = ::stat(open().object_path(output.object).c_str(), &status) == 0 && open().damaged(output).empty();
    return good && status.st_uid == ::geteuid() && (status.st_mode & 0777) == 0444 ? 7 : 1;
  };
  BOOST_TEST(test::as_plain_user(folder.path(), publish, {path}) == 7);
}

BOOST_FIXTURE_TEST_CASE(outputs_on_another_file_system_are_copied, OneStore,
                        *boost::unit_test::precondition(test::CanMount{})) {
  const fs::path work = folder / "store/work";
  fs::create_directories(work);
  support::write_file_atomically(folder / "store/VERSION", "2\n", false);
  BOOST_REQUIRE(::mount("tmpfs", work.c_str(), "tmpfs", 0, "size=4m") == 0);
  {
    Store store = open();
    const auto warnings = store.take_warnings();
    BOOST_REQUIRE(warnings.size() == 1u);
    BOOST_TEST(warnings[0].find("another file system") != std::string::npos, warnings[0]);
    test::write_fake_output(work / "out.h5", "x");
    const OutputRecord output = store.publish_output({"out", artifact::Kind::kMetrics, false, work / "out.h5"});
    BOOST_TEST(store.damaged(output).empty());
    BOOST_TEST(store.publish_output({"out", artifact::Kind::kMetrics, false, work / "out.h5"}).object == output.object);
    // Leftovers get to the trash too.
    fs::create_directories(work / "folder/inner");
    support::write_file_atomically(work / "folder/inner/file", "text", false);
    const fs::path moved = store.move_to_trash(work / "folder");
    BOOST_TEST(support::read_file(moved / "inner/file") == "text");
    BOOST_TEST(!fs::exists(work / "folder"));
  }
  ::umount(work.c_str());
}

BOOST_FIXTURE_TEST_CASE(a_member_that_was_cut_is_seen_by_a_look_at_its_size, OneStore) {
  Store store = open();
  const OutputRecord output = store.publish_output({"out", artifact::Kind::kReport, false, collection("hello")});
  BOOST_TEST((output.member_bytes == std::vector<std::uint64_t>{4, 5}));
  store.commit(record("r", {output}));
  const ResultKey key = record("r", {}).key;
  const std::string manifest = support::read_file(store.object_path(output.object));
  BOOST_TEST(*output.object_bytes() == manifest.size());
  BOOST_TEST((open().find(key)->outputs.at(0) == output));
  open().refresh_cache();
  BOOST_TEST((open().find(key)->outputs.at(0) == output));  // by the cache
  BOOST_TEST((open().read(key)->outputs.at(0) == output));
  for (const std::string& object : {output.members[1], output.object}) {
    const fs::path path = store.object_path(object);
    BOOST_TEST(open().complete(*open().find(key)));
    fs::permissions(path, fs::perms::owner_write, fs::perm_options::add);
    const std::string whole = support::read_file(path);
    fs::resize_file(path, 0);
    BOOST_TEST(!open().complete(*open().find(key)));
    BOOST_CHECK_THROW(store.export_object(object, support::unique_sibling(folder / "copy")), support::ArtifactError);
    support::write_file_atomically(path, whole, false);
  }
  // A record of an earlier version does not know the sizes.
  OutputRecord old = output;
  old.member_bytes.clear();
  BOOST_TEST(!old.object_bytes());
  BOOST_TEST(open().complete({.outputs = {old}}));
}

BOOST_FIXTURE_TEST_CASE(what_cannot_be_seen_is_not_missing, OneStore) {
  const OutputRecord output = open().publish_output({"out", artifact::Kind::kMetrics, false, file("x")});
  const Record made = record("r", {output});
  {
    Store store = open();
    store.commit(made);
  }
  const auto hide = [&](const fs::path& path) {  // a link to itself, which cannot be followed
    fs::rename(path, path.string() + ".aside");
    fs::create_symlink(path.filename(), path);
  };
  const auto bring_back = [&](const fs::path& path) {
    fs::remove(path);
    fs::rename(path.string() + ".aside", path);
  };
  for (const fs::path& path : {open().record_path(made.key).parent_path(), open().record_path(made.key)}) {
    for (const bool cached : {true, false}) {
      open().refresh_cache();
      if (!cached) fs::remove(folder / "store/memo/records");
      Store store = open();
      hide(path);
      BOOST_CHECK_THROW(store.find(made.key, true), support::IoError);
      BOOST_TEST(!store.find(made.key));
      BOOST_TEST(store.take_warnings().size() == 1u);
      BOOST_CHECK_THROW(store.commit(made), support::IoError);  // nothing is written over it
      bring_back(path);
    }
  }
  hide(open().object_path(output.object));
  Store store = open();
  BOOST_CHECK_THROW(store.complete(*store.find(made.key), true), support::IoError);
  BOOST_TEST(!store.complete(*store.find(made.key)));
  BOOST_CHECK_THROW(store.damaged(output), support::IoError);
  BOOST_CHECK_THROW(store.commit(made), support::IoError);
  bring_back(store.object_path(output.object));
  for (const char* part : {"tasks", "tracks"}) {
    hide(folder / "store" / part);
    BOOST_CHECK_THROW(store.keys(), support::IoError);
    bring_back(folder / "store" / part);
  }
  BOOST_TEST(store.keys().size() == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_file_that_is_no_artifact_is_refused, OneStore) {
  Store store = open();
  support::write_file_atomically(folder / "bad", "text", false);
  BOOST_CHECK_THROW(store.publish_output({"out", artifact::Kind::kMetrics, false, folder / "bad"}),
                    support::ArtifactError);
  BOOST_CHECK_THROW(store.publish_output({"out", artifact::Kind::kEvalTable, false, file("x")}),
                    support::ArtifactError);
}

BOOST_FIXTURE_TEST_CASE(a_collection_is_an_object_a_member_and_a_manifest_of_them, OneStore) {
  Store store = open();
  const OutputRecord output = store.publish_output({"out", artifact::Kind::kReport, false, collection("hello")});
  BOOST_TEST(output.collection);
  BOOST_TEST(output.members.size() == 2u);
  const fs::path at = store.materialise(output, folder / "links");
  BOOST_TEST(support::read_file(at / "report.md") == "hello");
  BOOST_TEST(fs::is_symlink(at / "data/a b.txt"));
  BOOST_TEST(artifact::Collection(at, artifact::Kind::kReport).manifest().members.size() == 2u);
  // Two collections share equal members.
  const OutputRecord other = store.publish_output({"out", artifact::Kind::kReport, false, collection("other")});
  BOOST_TEST(other.members[0] == output.members[0]);
}

BOOST_FIXTURE_TEST_CASE(a_member_that_changed_after_its_manifest_is_refused, OneStore) {
  Store store = open();
  const fs::path path = collection("hello");
  support::write_file_atomically(path / "report.md", "hullo", false);
  BOOST_CHECK_THROW(store.publish_output({"out", artifact::Kind::kReport, false, path}), support::ArtifactError);
}

/// Digests of members are taken when they are closed; only members that may have been written since are hashed again.
BOOST_FIXTURE_TEST_CASE(a_member_is_hashed_again_only_when_it_may_have_been_written, OneStore) {
  Store store = open();
  constexpr std::int64_t kBytes = 4 << 20;
  const auto closed = [&](char letter, std::chrono::milliseconds earlier) {
    const fs::path path = support::unique_sibling(folder / "closed");
    artifact::Recipe recipe;
    recipe.task_key = support::sha256_hex("t");
    artifact::CollectionWriter writer(path, artifact::Kind::kReport, recipe);
    support::write_file_atomically(writer.add("report.md"), std::string(kBytes, letter), false);
    std::this_thread::sleep_for(earlier);
    writer.finish(false);
    return path;
  };
  const auto read_by_publishing = [&](const fs::path& path) {
    const std::int64_t before = test::bytes_read();
    const OutputRecord output = store.publish_output({"out", artifact::Kind::kReport, false, path});
    BOOST_TEST(output.members.at(0) == support::sha256_file(path / "report.md"));
    return test::bytes_read() - before - kBytes;  // this test's own look
  };
  constexpr std::chrono::milliseconds kEarlier{100};
  BOOST_TEST(read_by_publishing(closed('a', kEarlier)) < kBytes / 4);
  // Just written, so that a further write might leave the same stamp; on a machine that is busy the moment may be over.
  const auto began = std::chrono::steady_clock::now();
  const fs::path fresh = closed('b', std::chrono::milliseconds(0));
  const bool at_once = std::chrono::steady_clock::now() - began < std::chrono::milliseconds(40);
  BOOST_TEST((read_by_publishing(fresh) >= kBytes || !at_once));

  // One that puts the time of the last write back.
  const fs::path written = closed('c', kEarlier);
  struct stat status {};
  BOOST_REQUIRE(::stat((written / "report.md").c_str(), &status) == 0);
  std::fstream(written / "report.md", std::ios::in | std::ios::out | std::ios::binary) << "d";
  const timespec times[] = {status.st_atim, status.st_mtim};
  BOOST_REQUIRE(::utimensat(AT_FDCWD, (written / "report.md").c_str(), times, 0) == 0);
  BOOST_TEST(error_of([&] {
               store.publish_output({"out", artifact::Kind::kReport, false, written});
             }).find("changed after it was closed") != std::string::npos);

  // Notes that are missing, damaged, or of another start of the machine.
  const auto note_of = [](const fs::path& path) { return fs::path(path) += ".closed"; };
  const fs::path missing = closed('e', kEarlier), damaged = closed('f', kEarlier), other = closed('g', kEarlier);
  fs::remove(note_of(missing));
  std::string text = support::read_file(note_of(damaged));
  support::write_file_atomically(note_of(damaged), text.substr(0, text.size() / 2), false);
  text = support::read_file(note_of(other));
  const std::size_t boot = text.find(support::boot_id());
  BOOST_REQUIRE((!support::boot_id().empty() && boot != std::string::npos));
  support::write_file_atomically(note_of(other), text.replace(boot, 4, "0000"), false);
  for (const fs::path& path : {missing, damaged, other}) BOOST_TEST(read_by_publishing(path) >= kBytes, path);
  // By hand no note is left next to a collection.
  BOOST_TEST(!fs::exists(note_of(collection("hello"))));
}

BOOST_FIXTURE_TEST_CASE(a_record_is_the_commit_point_and_is_found_after_reopening, OneStore) {
  const Record made = [&] {
    Store store = open();
    Record record = this->record("t", {store.publish_output({"out", artifact::Kind::kMetrics, false, file("x")})});
    BOOST_TEST(!store.find(record.key));
    const PublishResult published = store.commit(record);
    BOOST_TEST(!published.existed);
    return record;
  }();
  for (const bool with_cache : {true, false}) {
    open().refresh_cache();
    if (!with_cache) fs::remove(folder / "store/memo/records");
    const Store store = open();
    const auto found = store.find(made.key);
    BOOST_REQUIRE(found.has_value());
    BOOST_TEST((found->outputs == made.outputs));
    BOOST_TEST(store.complete(*found));
    BOOST_TEST(store.hint(made.plan_key).value() == made.key.key);
    BOOST_TEST(store.read(made.key)->task == "t");
  }
}

BOOST_FIXTURE_TEST_CASE(other_contents_under_one_key_are_kept_as_a_conflict, OneStore) {
  Store store = open();
  const Record first = record("t", {store.publish_output({"out", artifact::Kind::kMetrics, false, file("x")})});
  store.commit(first);
  BOOST_TEST(store.commit(first).existed);
  const Record second = record("t", {store.publish_output({"out", artifact::Kind::kMetrics, false, file("y")})});
  const Record third = record("t", {store.publish_output({"out", artifact::Kind::kMetrics, false, file("z")})});
  // The same contents again are the same conflict.
  for (const auto& [other, n] : {std::pair(second, "1"), {second, "1"}, {third, "2"}, {second, "1"}, {third, "2"}}) {
    const PublishResult published = store.commit(other);
    BOOST_TEST(published.conflict);
    BOOST_TEST(published.conflict_file.filename().string() == first.key.key + ".conflict." + n + ".json");
    BOOST_TEST((published.result.outputs == first.outputs));
  }
  BOOST_TEST(support::list_folder(store.record_path(first.key).parent_path()).size() == 3u);
  BOOST_TEST((store.find(first.key)->outputs == first.outputs));
  BOOST_TEST(store.keys().size() == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_volatile_output_makes_no_conflict, OneStore) {
  Store store = open();
  const auto out = store.publish_output({"out", artifact::Kind::kMetrics, false, file("x")});
  store.commit(record("t", {out, store.publish_output({"times", artifact::Kind::kMetrics, true, file("1 s")})}));
  BOOST_TEST(
      store.commit(record("t", {out, store.publish_output({"times", artifact::Kind::kMetrics, true, file("2 s")})}))
          .existed);
}

BOOST_FIXTURE_TEST_CASE(a_record_whose_object_is_gone_counts_as_missing_and_is_replaced, OneStore) {
  Store store = open();
  const Record made = record("t", {store.publish_output({"out", artifact::Kind::kMetrics, false, file("x")})});
  store.commit(made);
  fs::remove(store.object_path(made.outputs[0].object));
  BOOST_TEST(!store.complete(*store.find(made.key)));
  const Record again = record("t", {store.publish_output({"out", artifact::Kind::kMetrics, false, file("y")})});
  BOOST_TEST(!store.commit(again).conflict);
  BOOST_TEST((store.find(made.key)->outputs == again.outputs));
}

BOOST_FIXTURE_TEST_CASE(a_truncated_object_is_seen_by_its_size, OneStore) {
  Store store = open();
  const Record made = record("t", {store.publish_output({"out", artifact::Kind::kMetrics, false, file("x")})});
  store.commit(made);
  const fs::path object = store.object_path(made.outputs[0].object);
  fs::permissions(object, fs::perms::owner_write, fs::perm_options::add);
  fs::resize_file(object, 100);
  BOOST_TEST(!store.complete(*store.find(made.key)));
  BOOST_TEST(store.damaged(made.outputs[0]).size() == 1u);
  // Publishing the same bytes again repairs it.
  store.publish_output({"out", artifact::Kind::kMetrics, false, file("x")});
  BOOST_TEST(store.complete(*store.find(made.key)));
}

BOOST_FIXTURE_TEST_CASE(a_record_cut_at_any_byte_counts_as_missing, OneStore) {
  const Record made = [&] {
    Store store = open();
    Record record = this->record("t", {store.publish_output({"out", artifact::Kind::kMetrics, false, file("x")})});
    store.commit(record);
    return record;
  }();
  const fs::path path = folder / ("store/tasks/" + made.key.key.substr(0, 2) + "/" + made.key.key + ".json");
  const std::string whole = support::read_file(path);
  for (std::size_t length = 0; length + 2 < whole.size(); ++length) {
    support::write_file_atomically(path, whole.substr(0, length), false);
    const Store store = open();
    BOOST_REQUIRE(!store.find(made.key));
    BOOST_REQUIRE(store.take_warnings().size() == 1u);
  }
  Store store = open();
  store.commit(made);  // takes the damaged one's place
  BOOST_TEST(support::read_file(path) == whole);
}

BOOST_FIXTURE_TEST_CASE(forgetting_drops_the_record_and_not_the_object, OneStore) {
  ResultKey key;
  OutputRecord output;
  {
    Store store = open();
    const Record made = record("t", {store.publish_output({"out", artifact::Kind::kMetrics, false, file("x")})}, 20);
    key = made.key;
    output = made.outputs[0];
    store.commit(made);
    BOOST_TEST((store.steps(key.key) == std::vector<std::int64_t>{20}));
    BOOST_TEST(store.forget(key));
    BOOST_TEST(!store.forget(key));
  }
  const Store store = open();
  BOOST_TEST(!store.find(key));
  BOOST_TEST(store.has_object(output.object));
}

BOOST_FIXTURE_TEST_CASE(another_format_and_a_foreign_folder_are_refused, OneStore) {
  open();
  for (const char* version : {"1", "3"}) {
    support::write_file_atomically(folder / "store/VERSION", support::cat(version, "\n"), false);
    BOOST_TEST(error_of([&] {
                 open();
               }).find(support::cat("has format ", version, "; this pe-pipeline knows format 2")) != std::string::npos);
  }
  support::write_file_atomically(folder / "store/VERSION", "x\n", false);
  BOOST_TEST(error_of([&] { open(); }).find("expected the number of a store format") != std::string::npos);
  fs::create_directories(folder / "home");
  support::write_file_atomically(folder / "home/thesis.tex", "", false);
  BOOST_TEST(error_of([&] { Store(folder / "home", options); }).find("is not a store: it holds 'thesis.tex'") !=
             std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(reading_a_store_that_is_not_there_makes_nothing, OneStore) {
  options.create = false;
  const Store store = open();
  BOOST_TEST(!store.find({std::string(64, 'a'), -1}));
  BOOST_TEST(store.keys().empty());
  BOOST_TEST(!fs::exists(folder / "store"));
}

BOOST_FIXTURE_TEST_CASE(records_are_found_by_the_beginning_of_key_plan_key_and_digests, OneStore) {
  Store store = open();
  const Record made = record("t", {store.publish_output({"out", artifact::Kind::kMetrics, false, file("x")})});
  store.commit(made);
  for (const std::string& whole : {made.key.key, made.plan_key, made.outputs[0].object, made.outputs[0].content}) {
    BOOST_TEST((store.matching(whole.substr(0, 8)) == std::vector<ResultKey>{made.key}));
  }
  BOOST_TEST(store.matching("abc").empty());
  BOOST_TEST(store.matching("not hex").empty());
}

BOOST_FIXTURE_TEST_CASE(what_is_forgotten_stays_forgotten_whoever_began_to_write_first, OneStore) {
  const auto outputs = [&](Store& store, const std::string& state) {
    return std::vector<OutputRecord>{store.publish_output({"out", artifact::Kind::kMetrics, false, file(state)})};
  };
  for (const bool forgetter_first : {true, false}) {
    const std::string name = forgetter_first ? "first" : "second";
    Store a = open(), b = open();
    Store& writer = forgetter_first ? b : a;
    Store& forgetter = forgetter_first ? a : b;
    const Record made = record(name, outputs(writer, name));
    writer.commit(made);
    BOOST_TEST(forgetter.forget(made.key));
    BOOST_TEST(!open().find(made.key).has_value());
    // Made again by a process that still has it as present.
    writer.commit(made);
    BOOST_TEST(open().find(made.key).has_value());
  }
}

BOOST_FIXTURE_TEST_CASE(publishing_good_bytes_over_an_object_that_lost_a_bit_mends_it, OneStore) {
  Store store = open();
  const fs::path path = file("x");
  const OutputRecord output = store.publish_output({"out", artifact::Kind::kMetrics, false, path});
  const fs::path object = store.object_path(output.object);
  fs::remove(path);  // it is the same file
  BOOST_TEST(store.damaged(output, Reread::kUnknown).empty());
  fs::permissions(object, fs::perms::owner_write, fs::perm_options::add);
  std::fstream(object, std::ios::in | std::ios::out | std::ios::binary).seekp(600).put('?');
  BOOST_TEST(store.damaged(output, Reread::kUnknown).size() == 1u);
  BOOST_TEST(store.damaged(output).size() == 1u);
  store.publish_output({"out", artifact::Kind::kMetrics, false, file("x")});
  BOOST_TEST(store.damaged(output).empty());
  BOOST_TEST(store.damaged(output, Reread::kUnknown).empty());
}

BOOST_FIXTURE_TEST_CASE(an_output_of_another_version_or_key_is_refused, OneStore) {
  Store store = open();
  artifact::Recipe recipe;
  recipe.stage = "train";
  recipe.version = 2;
  recipe.task_key = std::string(64, 'a');
  recipe.config = recipe.inputs = Json::object();
  const fs::path path = folder / "made.h5";
  artifact::Table table("fake", {{"x", artifact::ColumnType::kInteger, ""}});
  table.add_row({1});
  artifact::Tables tables;
  tables.tables.push_back(std::move(table));
  artifact::write_metrics(path, recipe, tables);
  const StageOutput produced{"out", artifact::Kind::kMetrics, false, path};
  artifact::Recipe expected = recipe;
  BOOST_CHECK_NO_THROW(store.publish_output(produced, &expected));
  expected.version = 1;
  BOOST_TEST(error_of([&] {
               store.publish_output(produced, &expected);
             }).find("made by result version 2 of 'train', expected version 1") != std::string::npos);
  expected = recipe;
  expected.task_key = std::string(64, 'b');
  BOOST_TEST(error_of([&] { store.publish_output(produced, &expected); }).find("made for key aaaaaaaaaaaa") !=
             std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(what_was_seen_to_be_whole_is_read_once_by_all_processes, OneStore) {
  fs::create_directories(folder / "store");
  const fs::path object = folder / "object";
  std::ofstream(object) << std::string(2 << 20, 'x');
  fs::last_write_time(object, fs::file_time_type::clock::now() - std::chrono::hours(1));
  const std::string digest = support::sha256_file(object);
  {
    StampMemo memo = StampMemo::of_objects(folder / "store");
    BOOST_TEST(!memo.known(object));
    memo.note_read({object.string(), support::stamp_of(object), digest});
    BOOST_TEST(memo.known(object)->sha256 == digest);
  }
  StampMemo next = StampMemo::of_objects(folder / "store");
  BOOST_TEST(next.known(object)->sha256 == digest);
  BOOST_TEST(!next.known(folder / "another"));
  next.forget(object);
  BOOST_TEST(!next.known(object));
  for (const std::string& damage : {std::string(), std::string("pe-content-memo/2\n???")}) {
    const std::string whole = support::read_file(folder / "store/memo/objects");
    support::write_file_atomically(folder / "store/memo/objects", damage, false);
    BOOST_TEST(!StampMemo::of_objects(folder / "store").known(object));
    support::write_file_atomically(folder / "store/memo/objects", whole, false);
    BOOST_TEST(StampMemo::of_objects(folder / "store").known(object).has_value());
  }
  // Any change of its stamp makes the next look read it again.
  std::fstream(object, std::ios::in | std::ios::out).seekp(100).put('y');
  BOOST_TEST(!StampMemo::of_objects(folder / "store").known(object));
  const auto before = fs::file_size(folder / "store/memo/objects");
  StampMemo::of_objects(folder / "store").drop_stale();
  BOOST_TEST(fs::file_size(folder / "store/memo/objects") < before);
}

BOOST_FIXTURE_TEST_CASE(a_store_that_fills_makes_all_its_folders_at_once_and_a_small_one_does_not, OneStore) {
  options.durable = true;
  Store store = open();
  const auto folders = [&](const char* part) { return support::list_folder(folder / "store" / part).size(); };
  for (int i = 0; i < 2; ++i) {
    const std::string name = support::cat("task ", i);
    store.commit(record(name, {store.publish_output({"out", artifact::Kind::kMetrics, false, file(name)})}));
  }
  BOOST_TEST(folders("objects") <= 2u);
  BOOST_TEST(folders("tasks") <= 2u);
  for (int i = 2; i < 12; ++i) {
    const std::string name = support::cat("task ", i);
    store.commit(record(name, {store.publish_output({"out", artifact::Kind::kMetrics, false, file(name)})}));
    BOOST_TEST(store.find({support::sha256_hex(name), -1}).has_value());
  }
  BOOST_TEST(folders("objects") == 256u);
  BOOST_TEST(folders("tasks") == 256u);
}

BOOST_FIXTURE_TEST_CASE(a_full_disk_leaves_no_record_and_no_damaged_object, OneStore,
                        *boost::unit_test::precondition(test::CanMount{})) {
  const fs::path tiny = folder / "tiny";
  fs::create_directories(tiny);
  BOOST_REQUIRE(::mount("tmpfs", tiny.c_str(), "tmpfs", 0, "size=256k") == 0);
  {
    Store store(tiny / "store", options);
    bool full = false;
    int published = 0;
    for (int i = 0; i < 400 && !full; ++i) {
      try {
        const fs::path path = support::unique_sibling(tiny / "out");
        test::write_fake_output(path, "state " + std::to_string(i));
        store.commit(
            record("t" + std::to_string(i), {store.publish_output({"out", artifact::Kind::kMetrics, false, path})}));
        ++published;
        ::unlink(path.c_str());
      } catch (const support::IoError& error) {
        full = true;
        BOOST_TEST(std::string(error.what()).find("No space left") != std::string::npos);
      }
    }
    BOOST_TEST(full);
    const Store again(tiny / "store", [&] {
      StoreOptions o = options;
      o.create = false;
      return o;
    }());
    BOOST_TEST(static_cast<int>(again.keys().size()) == published);
    for (const auto& key : again.keys()) {
      BOOST_TEST(again.complete(*again.find(key)));
      BOOST_TEST(again.damaged(again.find(key)->outputs[0]).empty());
    }
  }
  ::umount(tiny.c_str());
}

BOOST_AUTO_TEST_SUITE_END()
