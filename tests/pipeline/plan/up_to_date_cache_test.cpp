// Plans are remembered with the state of all their inputs at reading; damage costs time only.
#include "pipeline/plan/up_to_date_cache.h"

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "pipeline/grid_fixture.h"
#include "pipeline/plan/frozen_graph.h"
#include "pipeline/store/store_folder.h"
#include "support/files.h"
#include "support/make_old.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
using pe::test::FakeStore;
using pe::test::few;
using pe::test::GridFolder;
using pe::test::kGrid;
namespace fs = std::filesystem;

namespace {

/// A plan, made and carried out; a file edited before `remember` is edited while the run is at work.
struct Ran {
  GridFolder folder;
  fs::path file = folder.path("pipelines/grid.yml");
  fs::path store_path = folder.path("store");
  FakeStore store;
  StageCatalog catalog = test::stage_catalog();
  Graph graph;

  Ran() {
    folder.write("pipelines/grid.yml", kGrid);
    test::make_old(folder.root());
    graph = expand(read_pipeline_file(file), catalog, few());
    StampMemo memo = StampMemo::of_inputs(store_path);
    hash_externals(graph, memo);
    compute_plan_keys(graph);
    store.run(graph);
  }
  void remember() { UpToDateCache::remember(store_path, file, few(), graph, make_plan(graph, store), catalog); }
  /// An edit with a trusted stat; everything else stays unchanged.
  void edit(const std::string& name, const std::string& text) const {
    folder.write(name, text);
    fs::last_write_time(folder.path(name), fs::file_time_type::clock::now() - std::chrono::hours(2));
  }
  bool found(const ExpandOptions& options = few()) const {
    return UpToDateCache::find(store_path, file, options).has_value();
  }
};

struct Remembered : Ran {
  Remembered() { remember(); }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(up_to_date_cache)

BOOST_FIXTURE_TEST_CASE(a_plan_is_found_again_while_nothing_changed, Remembered) {
  const auto memo = UpToDateCache::find(store_path, file, few());
  BOOST_REQUIRE(memo.has_value());
  BOOST_TEST(memo->pipeline_name() == "fineweb_grid");
  BOOST_TEST(memo->task_count() == 37u);
  BOOST_TEST(memo->results().size() == 35u + 2u * 5u);
  BOOST_TEST((memo->results()[0] == ResultKey{make_plan(graph, store).tasks[0].task_key, -1}));
  BOOST_TEST(memo->everything_present(store));
  store.objects.begin()->second = false;
  BOOST_TEST(!memo->everything_present(store));
}

/// The fake store's objects and records, as files.
struct OnDisk : Remembered {
  fs::path some_object;

  OnDisk() {
    for (const auto& [digest, there] : store.objects) {
      some_object = store_path / "objects" / digest.substr(0, 2) / digest;
      put(some_object, "");
    }
    put(store_path / "tasks/ab/abcd.json", "a record");
    put(store_path / "tracks/ab/1.json", "a record");
    settle(1);
  }
  static void put(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  /// As if the folders of records had changed some hours ago.
  void settle(int hours) const {
    for (const char* name : {"tasks/ab", "tracks/ab"})
      fs::last_write_time(store_path / name, fs::file_time_type::clock::now() - std::chrono::hours(hours));
  }
  bool stands() const { return UpToDateCache::find(store_path, file, few())->objects_stand(); }
  void renew() const { UpToDateCache::find(store_path, file, few())->renew(); }
};

BOOST_FIXTURE_TEST_CASE(objects_are_stated_without_the_records_until_these_change, OnDisk) {
  BOOST_TEST(!stands());  // no record has been looked at yet
  renew();
  BOOST_TEST(stands());
  put(some_object, "another size");
  BOOST_TEST(!stands());
  fs::remove(some_object);
  BOOST_TEST(!stands());
  put(some_object, "");
  BOOST_TEST(stands());
  for (const char* name : {"tasks/ab", "tracks/ab"}) {
    for (const bool comes : {true, false}) {
      if (comes)
        put(store_path / name / "other.json", "of another process");
      else
        fs::remove(store_path / name / "other.json");
      BOOST_TEST(!stands());
      renew();
      BOOST_TEST(!stands());  // the next change may leave the same time
      settle(comes ? 3 : 2);
      BOOST_TEST(!stands());
      renew();
      BOOST_TEST(stands());
    }
  }
  put(store_path / "tasks/cd/cdef.json", "a record");
  BOOST_TEST(!stands());
  fs::remove_all(store_path / "tasks");
  BOOST_TEST(!stands());
}

BOOST_FIXTURE_TEST_CASE(a_record_that_is_written_to_in_place_is_looked_at, OnDisk) {
  const ResultKey key = UpToDateCache::find(store_path, file, few())->results().front();
  const fs::path record = record_path(store_path, key);
  put(record, "a record");
  fs::last_write_time(record.parent_path(), fs::file_time_type::clock::now() - std::chrono::hours(1));
  renew();
  BOOST_TEST(stands());
  fs::resize_file(record, 3);
  BOOST_TEST(!stands());
}

BOOST_FIXTURE_TEST_CASE(a_mark_of_records_that_changed_while_they_were_looked_at_is_of_no_use, OnDisk) {
  const auto memo = UpToDateCache::find(store_path, file, few());
  BOOST_TEST(!memo->objects_stand());
  fs::remove(store_path / "tasks/ab/abcd.json");  // by another process
  settle(2);
  memo->renew();  // the earlier look was before `objects_stand` answered
  BOOST_TEST(!stands());
}

BOOST_FIXTURE_TEST_CASE(a_touched_file_keeps_the_memo_and_an_edited_one_ends_it, Remembered) {
  BOOST_TEST(found());
  fs::last_write_time(file, fs::file_time_type::clock::now());
  BOOST_TEST(found());
  folder.write("configs/model/tiny.yml", "model.width: 513\n");
  BOOST_TEST(!found());
}

BOOST_FIXTURE_TEST_CASE(a_config_edited_while_the_run_works_ends_the_memo, Ran) {
  const std::string before = support::read_file(folder.path("configs/model/tiny.yml"));
  edit("configs/model/tiny.yml", "model.width: 513\n");
  remember();
  BOOST_TEST(!found());
  edit("configs/model/tiny.yml", before);  // and taken back: what was remembered holds again
  BOOST_TEST(found());
}

BOOST_FIXTURE_TEST_CASE(a_pipeline_file_edited_while_the_run_works_ends_the_memo, Ran) {
  edit("pipelines/grid.yml", std::string(kGrid) + "# the next experiment\n");
  remember();
  BOOST_TEST(!found());
  edit("pipelines/grid.yml", kGrid);
  BOOST_TEST(found());
}

BOOST_FIXTURE_TEST_CASE(an_input_edited_while_the_run_works_ends_the_memo, Ran) {
  remember();
  BOOST_TEST(found());
  edit("data/fineweb-edu/a.txt", "another text");
  remember();
  BOOST_TEST(!found());
}

BOOST_FIXTURE_TEST_CASE(a_stage_rebuilt_while_the_run_works_ends_the_memo, GridFolder) {
  // A stage of the folder itself, which the catalog finds as it finds any program.
  const auto build = [&](int version) {
    Json described = test::stage_documents().front();
    described["version"] = version;
    write("own/pe-own", "#!/bin/sh\ncat <<'END'\n" + described.dump() + "\nEND\n");
    fs::permissions(path("own/pe-own"), fs::perms::owner_all);
  };
  build(1);
  test::make_old(root());
  StageCatalog catalog({path("own")});
  const auto described = catalog.find("pe-own", root(), {});
  BOOST_TEST(described->version == 1);
  BOOST_REQUIRE_EQUAL(catalog.files().size(), 2u);
  const support::FileRead& program = catalog.files().front();
  BOOST_TEST(program.path == path("own/pe-own").string());
  BOOST_TEST((support::stamp_of(program.path.c_str()) == program.stamp));
  build(2);
  test::make_old(root());
  BOOST_TEST(!(support::stamp_of(program.path.c_str()) == program.stamp));
  BOOST_TEST(!(support::stamp_of(program.path.c_str()) == catalog.files().front().stamp));
}

BOOST_FIXTURE_TEST_CASE(a_config_that_was_young_when_it_was_read_is_hashed_next_time, Ran) {
  const auto now = fs::file_time_type::clock::now();
  fs::last_write_time(folder.path("configs/model/tiny.yml"), now);
  graph = expand(read_pipeline_file(file), catalog, few());
  StampMemo memo = StampMemo::of_inputs(store_path);
  hash_externals(graph, memo);
  compute_plan_keys(graph);
  remember();
  BOOST_TEST(found());
  folder.write("configs/model/tiny.yml", "model.width: 513\n");
  fs::last_write_time(folder.path("configs/model/tiny.yml"), now);
  BOOST_TEST(!found());
}

BOOST_FIXTURE_TEST_CASE(an_own_config_in_the_place_of_a_shipped_one_ends_the_memo, Ran) {
  Json report = test::stage_documents().back();
  report["fields"].push_back({{"name", "baseline"}, {"type", "text"}, {"default", ""}, {"help", "x"}});
  catalog.add(parse_description(report, "pe-report"));
  fs::remove(folder.path("configs/report.yml"));  // the installation has one of that name
  graph = expand(read_pipeline_file(file), catalog, few());
  StampMemo memo = StampMemo::of_inputs(store_path);
  hash_externals(graph, memo);
  compute_plan_keys(graph);
  graph = thaw(freeze(graph));
  store.run(graph);
  remember();
  BOOST_TEST(found());
  edit("configs/report.yml", "style: plain\n");
  BOOST_TEST(!found());
}

BOOST_FIXTURE_TEST_CASE(other_flags_have_other_memos, Remembered) {
  ExpandOptions options = few();
  options.set = {"trunk.train.lr=1"};
  BOOST_TEST(!found(options));
  options = few();
  options.isa = "avx512";
  BOOST_TEST(!found(options));
}

BOOST_FIXTURE_TEST_CASE(a_new_input_file_ends_the_memo, Remembered) {
  BOOST_TEST(found());
  folder.write("data/fineweb-edu/new.txt", "new");
  BOOST_TEST(!found());
}

BOOST_FIXTURE_TEST_CASE(a_cut_memo_is_none, Remembered) {
  fs::path path;
  for (const auto& entry : fs::directory_iterator(store_path / "memo")) {
    if (entry.path().filename().string().rfind("noop-", 0) == 0) path = entry.path();
  }
  const std::string whole = support::read_file(path);
  for (std::size_t size = 0; size < whole.size(); size += 97) {
    std::ofstream(path, std::ios::binary) << whole.substr(0, size);
    BOOST_TEST(!found());
  }
  std::ofstream(path, std::ios::binary) << whole;
  BOOST_TEST(found());
}

BOOST_FIXTURE_TEST_CASE(an_unfinished_plan_is_not_remembered, Remembered) {
  StageCatalog catalog = test::stage_catalog();
  ExpandOptions options = few();
  options.set = {"report.style=fancy"};
  Graph other = expand(read_pipeline_file(file), catalog, options);
  StampMemo contents = StampMemo::of_inputs(store_path);
  hash_externals(other, contents);
  compute_plan_keys(other);
  UpToDateCache::remember(store_path, file, options, other, make_plan(other, store), catalog);
  BOOST_TEST(!found(options));
}

BOOST_AUTO_TEST_SUITE_END()
