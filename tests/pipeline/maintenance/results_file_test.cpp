// Packed files of results: the same results are unpacked, and bad bytes do no harm.
#include "pipeline/maintenance/results_file.h"

#include <boost/test/unit_test.hpp>

#include <sys/stat.h>

#include <filesystem>

#include "fuzz/targets.h"
#include "pipeline/maintenance/inventory.h"
#include "pipeline/maintenance/verify.h"
#include "pipeline/run/run_fixture.h"
#include "support/error.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/test_data.h"
#include "support/text.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
namespace fs = std::filesystem;

namespace {

StoreOptions quick() {
  StoreOptions options;
  options.durable = false;
  return options;
}

PackOptions pack_options() {
  PackOptions options;
  options.made_by = "pe-pipeline test";
  options.pipeline = "small";
  options.pipeline_text = "name: small\n";
  options.durable = false;
  return options;
}

struct Packed : test::SmallRun {
  std::size_t a = add("a"), b = add("b", {a});
  fs::path file = folder / "results.tar.zst";

  Packed() {
    BOOST_REQUIRE(run().exit_code == 0);
    open();
    pack(file);
  }
  PackReport pack(const fs::path& to) {
    const Inventory inventory = read_inventory(*store);
    return pack_results(*store, inventory, {0, 1}, to, pack_options());
  }
  std::string bytes() const { return support::read_file(file); }
};

/// Why a file is refused; empty when it is not.
std::string refused(const fs::path& file) {
  const test::TempFolder scratch;
  Store into(scratch / "store", quick());
  try {
    unpack_results(file, into);
    return "";
  } catch (const support::Error& error) {
    return error.what();
  }
}

/// Names and bytes of all members.
std::string members(const fs::path& file) {
  ArchiveReader reader(file);
  std::string all;
  while (const auto member = reader.next()) all += support::cat(member->name, "\n", reader.text(), "\n");
  return all;
}

/// The same archive with other members: `change` sees each and may change it; an empty name leaves it out.
void rewrite(const fs::path& from, const fs::path& to,
             const std::function<void(std::string& name, std::string& bytes)>& change) {
  ArchiveReader reader(from);
  ArchiveWriter writer(to);
  while (const auto member = reader.next()) {
    std::string name = member->name, bytes = reader.text();
    change(name, bytes);
    if (!name.empty()) writer.add(name, bytes);
  }
  writer.close(false);
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_SUITE(results_file)

BOOST_FIXTURE_TEST_CASE(what_is_packed_comes_out_whole, Packed) {
  const test::TempFolder scratch;
  Store into(scratch / "store", quick());
  const UnpackReport report = unpack_results(file, into);
  BOOST_TEST(report.keys.size() == 2u);
  BOOST_TEST(report.pipeline == "small");
  BOOST_TEST(report.pipeline_text == "name: small\n");
  for (const ResultKey& key : report.keys) {
    const Record there = *store->read(key), here = *into.read(key);
    BOOST_TEST(same_contents(there, here));
    BOOST_TEST(into.complete(to_result(here)));
    BOOST_TEST(Verifier(into).check(here).empty());
    BOOST_TEST(!here.occasion.contains("work"));  // a path of the machine that made it
  }
}

BOOST_FIXTURE_TEST_CASE(the_same_results_give_the_same_bytes, Packed) {
  pack(folder / "again.tar.zst");
  BOOST_TEST(support::read_file(folder / "again.tar.zst") == bytes());
}

BOOST_FIXTURE_TEST_CASE(kinds_that_stay_are_known_in_the_file, Packed) {
  Record model = *store->read({*store->hint(graph.tasks[a].plan_key), -1});
  store->forget(model.key);
  model.outputs.front().kind = "checkpoint";
  store->commit(model);
  open();
  const PackReport report = pack(folder / "fewer.tar.zst");
  BOOST_TEST(report.results == 2u);
  BOOST_TEST(report.known == 1u);
  BOOST_TEST(report.objects == 1u);
  const test::TempFolder scratch;
  Store into(scratch / "store", quick());
  unpack_results(folder / "fewer.tar.zst", into);
  BOOST_TEST(into.read(model.key)->outputs.front().absent);
}

BOOST_FIXTURE_TEST_CASE(an_object_that_is_gone_or_damaged_stops_the_packing_and_leaves_the_earlier_file, Packed) {
  const std::string before = bytes();
  const fs::path object =
      store->object_path(store->read({*store->hint(graph.tasks[b].plan_key), -1})->outputs.front().object);
  const std::string whole = support::read_file(object);
  std::string flipped = whole;
  flipped[flipped.size() / 2] ^= 1;
  fs::remove(object);
  support::write_file_atomically(object, flipped, false);
  BOOST_CHECK_THROW(pack(file), support::ArtifactError);
  fs::remove(object);
  BOOST_CHECK_THROW(pack(file), support::ArtifactError);
  BOOST_TEST(bytes() == before);
  for (const auto& entry : fs::directory_iterator(folder.path()))
    BOOST_TEST(!has(entry.path().filename().string(), ".tmp."));
}

BOOST_FIXTURE_TEST_CASE(every_cut_is_refused_and_no_flipped_byte_changes_a_result, Packed) {
  const std::string whole = bytes();
  const fs::path bad = folder / "bad.tar.zst";
  const std::string contents = members(file);
  const std::size_t step = std::max<std::size_t>(1, whole.size() / 150);
  for (std::size_t at = 0; at < whole.size(); at += step) {
    support::write_file_atomically(bad, whole.substr(0, at), false);
    BOOST_TEST(!refused(bad).empty(), "cut at " << at);
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x41);
    support::write_file_atomically(bad, changed, false);
    // A few bits of a frame have no effect, and its checksum is of the contents.
    BOOST_TEST((!refused(bad).empty() || members(bad) == contents), "flipped at " << at);
  }
  support::write_file_atomically(bad, whole + "x", false);
  BOOST_TEST(has(refused(bad), "it has bytes behind its end"));
  support::write_file_atomically(bad, "", false);
  BOOST_TEST(has(refused(bad), "it is cut short"));
}

BOOST_FIXTURE_TEST_CASE(edited_members_are_refused_by_name, Packed) {
  const fs::path bad = folder / "bad.tar.zst";
  const auto why = [&](const auto& change) {
    rewrite(file, bad, change);
    return refused(bad);
  };
  BOOST_TEST(why([](std::string&, std::string&) {}).empty());
  BOOST_TEST(has(why([](std::string& name, std::string& bytes) {
                   if (name.rfind("objects/", 0) == 0) bytes[100] ^= 1;
                 }),
                 "has other bytes than its name says"));
  BOOST_TEST(has(why([](std::string& name, std::string& bytes) {
                   if (name.rfind("records/", 0) == 0) bytes += " ";
                 }),
                 "bytes, and its list says"));
  BOOST_TEST(has(why([](std::string& name, std::string&) {
                   if (name.rfind("objects/", 0) == 0) name = "../../etc/passwd";
                 }),
                 "expected member 'objects/"));
  BOOST_TEST(has(why([](std::string& name, std::string&) {
                   if (name.rfind("objects/", 0) == 0) name.clear();
                 }),
                 "found its end"));
  BOOST_TEST(has(why([](std::string& name, std::string& bytes) {
                   if (name == "results.json") bytes = R"({"schema":"pe-results/9","results":[],"objects":[]})";
                 }),
                 "schema is 'pe-results/9', expected 'pe-results/1'"));
  BOOST_TEST(has(why([](std::string& name, std::string& bytes) {
                   if (name == "results.json") bytes = "[";
                 }),
                 "schema is ''"));
}

/// A forged record with a matching list and checksum still does not give its key.
BOOST_FIXTURE_TEST_CASE(a_record_that_was_edited_with_its_list_does_not_give_its_key, Packed) {
  const fs::path bad = folder / "bad.tar.zst";
  const auto with_record = [&](const std::function<void(Record&)>& edit) {
    std::map<std::string, std::string> texts;
    rewrite(file, folder / "unused.tar.zst", [&](std::string& name, std::string& bytes) {
      if (name.rfind("records/", 0) != 0) return;
      Record record = record_from_text(bytes, name);
      edit(record);
      texts[name] = record_text(record);
    });
    rewrite(file, bad, [&](std::string& name, std::string& bytes) {
      if (texts.count(name) != 0) bytes = texts[name];
      if (name != "results.json") return;
      Json index = Json::parse(bytes);
      for (Json& item : index["results"]) {
        const std::string& text = texts["records/" + item["key"].get<std::string>() + ".json"];
        item["sha256"] = support::sha256_hex(text);
        item["bytes"] = text.size();
      }
      bytes = index.dump();
    });
    return refused(bad);
  };
  BOOST_TEST(with_record([](Record&) {}).empty());
  BOOST_TEST(
      has(with_record([](Record& record) { record.preimage["version"] = 99; }), "preimage does not give its key"));
  BOOST_TEST(
      has(with_record([](Record& record) { record.outputs.front().content = std::string(64, 'a'); }), "has content"));
  BOOST_TEST(has(with_record([](Record& record) { record.outputs.front().object = std::string(64, 'a'); }),
                 "which is not in it"));
  BOOST_TEST(has(with_record([](Record& record) { record.outputs.front().role = "../out"; }),
                 "an output with the name '../out'"));
  BOOST_TEST(
      has(with_record([](Record& record) { record.outputs.front().kind = "program"; }), "unknown kind 'program'"));
  BOOST_TEST(has(with_record([](Record& record) { record.plan_key = "../../plan"; }), "'plan_key' is no digest"));
  for (const char* odd : {R"({"in": [{"digest": 5}]})", R"({"in": {"digest": "x"}})", R"({"in": [5]})", "5"}) {
    BOOST_TEST(has(with_record([&](Record& record) { record.preimage["inputs"] = Json::parse(odd); }),
                   "'inputs' of its preimage are no lists of objects with a text 'digest'"));
  }
  BOOST_TEST(has(with_record([](Record& record) { record.version = 9; }), "another result than its list says"));
  BOOST_TEST(with_record([](Record& record) { record.occasion["wall_s"] = "an hour"; }).empty());
  // Programs are looked for by name: no file chooses which one runs here.
  BOOST_TEST(with_record([](Record& record) { record.occasion["executable"] = "/tmp/evil/pe-fake"; }).empty());
  const test::TempFolder scratch;
  Store into(scratch / "store", quick());
  const auto keys = unpack_results(bad, into).keys;
  BOOST_TEST(into.read(keys.front())->occasion.at("executable") == "pe-fake");
}

BOOST_FIXTURE_TEST_CASE(absurd_sizes_folders_and_devices_are_refused, Packed) {
  const fs::path bad = folder / "bad.tar.zst";
  {
    ArchiveWriter writer(bad);
    const std::string zeros(64u << 20, '\0');
    writer.add("results.json", R"({"schema":"pe-results/1","results":[],"objects":[]})");
    for (int i = 0; i < 40; ++i) writer.add("objects/" + std::to_string(i), zeros);
    writer.close(false);
  }
  BOOST_TEST(fs::file_size(bad) < (4u << 20));
  BOOST_TEST(has(refused(bad), "it has members that its list does not name"));
  BOOST_TEST(has(refused("/dev/zero"), "found a device"));
  BOOST_TEST(has(refused(folder.path()), "found a folder"));
  BOOST_REQUIRE(::mkfifo((folder / "pipe.tar.zst").c_str(), 0600) == 0);
  BOOST_TEST(has(refused(folder / "pipe.tar.zst"), "found a FIFO"));
  BOOST_CHECK_THROW(ArchiveWriter("/dev/null"), support::IoError);
}

BOOST_FIXTURE_TEST_CASE(the_fuzz_target_ends_in_a_value_or_a_message, Packed) {
  const std::string whole = bytes();
  fuzz::read_results_file(whole);
  for (std::size_t size = 0; size < whole.size(); size += std::max<std::size_t>(1, whole.size() / 40))
    fuzz::read_results_file(std::string_view(whole).substr(0, size));
}

/// Published files are readable and whole. Their result versions may be earlier ones.
BOOST_AUTO_TEST_CASE(published_files_are_whole) {
  const fs::path published = test::source_root() / "reports/published";
  for (const auto& entry : fs::recursive_directory_iterator(published)) {
    if (entry.path().extension() != ".zst") continue;
    BOOST_TEST_CONTEXT(entry.path().string()) {
      BOOST_TEST(fs::file_size(entry.path()) <= (2u << 20));
      BOOST_TEST(refused(entry.path()) == "");
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
