// Memos: contents by stat, plans by everything they were made from; damage costs time and nothing else.
#include "pipeline/plan/memo.h"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "pipeline/grid_fixture.h"
#include "support/files.h"

using namespace pe;             // NOLINT
using namespace pe::pipeline;   // NOLINT
using pe::test::FakeStore;
using pe::test::GridFolder;
using pe::test::kGrid;
namespace fs = std::filesystem;

namespace {

/// As if nobody had touched anything for an hour, so that stats can be believed.
void age(const fs::path& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) fs::last_write_time(entry, fs::file_time_type::clock::now() - std::chrono::hours(1));
  }
}

ExpandOptions few() {
  ExpandOptions options = GridFolder::plain_options();
  options.axis = {"encoding=none,rope", "size=tiny", "seed=42"};
  return options;
}

struct Remembered {
  GridFolder folder;
  fs::path file = folder.path("pipelines/grid.yml");
  fs::path store_path = folder.path("store");
  FakeStore store;
  Graph graph;

  Remembered() {
    folder.write("pipelines/grid.yml", kGrid);
    age(folder.root());
    StageCatalog catalog = test::stage_catalog();
    graph = expand(read_pipeline_file(file), catalog, few());
    ContentMemo memo(store_path);
    hash_externals(graph, memo);
    compute_plan_keys(graph);
    store.run(graph);
    PlanMemo::remember(store_path, file, few(), graph, make_plan(graph, store), catalog);
  }
  bool found(const ExpandOptions& options = few()) const { return PlanMemo::find(store_path, file, options).has_value(); }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(memo)

BOOST_AUTO_TEST_CASE(contents_are_remembered_by_stat) {
  const GridFolder folder;
  age(folder.root());
  const fs::path file = folder.path("data/fineweb-edu/a.txt");
  ContentMemo first(folder.path("store"));
  const std::string digest = first.digest(file);
  first.save();
  // Another content under the same stat would not be seen: that is what being remembered means.
  const auto time = fs::last_write_time(file);
  std::fstream(file, std::ios::in | std::ios::out).write("X", 1);
  fs::last_write_time(file, time);
  ContentMemo second(folder.path("store"));
  BOOST_TEST(second.digest(file) == digest);
  fs::last_write_time(file, time + std::chrono::seconds(1));
  BOOST_TEST(second.digest(file) != digest);
}

BOOST_AUTO_TEST_CASE(a_young_file_is_hashed_again) {
  const GridFolder folder;
  const fs::path file = folder.path("data/fineweb-edu/a.txt");
  ContentMemo memo(folder.path("store"));
  const std::string digest = memo.digest(file);
  const auto time = fs::last_write_time(file);
  std::fstream(file, std::ios::in | std::ios::out).write("X", 1);
  fs::last_write_time(file, time);
  BOOST_TEST(memo.digest(file) != digest);
}

BOOST_AUTO_TEST_CASE(a_damaged_memo_is_an_empty_one) {
  const GridFolder folder;
  age(folder.root());
  const fs::path file = folder.path("data/fineweb-edu/a.txt");
  std::string digest;
  {
    ContentMemo memo(folder.path("store"));
    digest = memo.digest(file);
    memo.save();
  }
  const std::string whole = support::read_file(folder.path("store/memo/content"));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    folder.write("store/memo/content", whole.substr(0, size));
    ContentMemo memo(folder.path("store"));
    BOOST_TEST(memo.digest(file) == digest);
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << (at % 8)));
    folder.write("store/memo/content", flipped);
    ContentMemo memo(folder.path("store"));
    BOOST_TEST(memo.digest(file) == digest);
  }
}

BOOST_AUTO_TEST_CASE(folders_files_and_globs_are_listed_by_name) {
  const GridFolder folder;
  folder.write("data/fineweb-edu/z [1].txt", "");
  const auto names = [&](const std::vector<std::string>& paths) {
    std::string text;
    for (const auto& [name, path] : list_files(paths).files) text += name + " ";
    return text;
  };
  const std::string base = folder.path("data").string();
  BOOST_TEST(names({base}) == "fineweb-edu/a.txt fineweb-edu/deeper/b.txt fineweb-edu/z [1].txt ");
  BOOST_TEST(names({base + "/fineweb-edu/*.txt"}).find("a.txt ") == 0u);
  BOOST_TEST(names({base + "/*/a.txt"}) == "fineweb-edu/a.txt ");
  BOOST_TEST(names({base + "/fineweb-edu/z [1].txt"}) == "z [1].txt ");   // a name that looks like a pattern
  BOOST_TEST(list_files({base + "/none*"}).missing == base + "/none*");
  fs::create_directory_symlink(folder.path("data"), folder.path("data/fineweb-edu/round"));
  BOOST_TEST(names({base}) == "fineweb-edu/a.txt fineweb-edu/deeper/b.txt fineweb-edu/z [1].txt ");
}

BOOST_FIXTURE_TEST_CASE(a_plan_is_found_again_while_nothing_changed, Remembered) {
  const auto memo = PlanMemo::find(store_path, file, few());
  BOOST_REQUIRE(memo.has_value());
  BOOST_TEST(memo->pipeline_name() == "fineweb_grid");
  BOOST_TEST(memo->task_count() == 37u);
  BOOST_TEST(memo->entries().size() == 35u + 2u * 5u);
  BOOST_TEST(memo->entries()[0].id == "fetch");
  BOOST_TEST(memo->entries()[0].plan_key == graph.tasks[0].plan_key);
  BOOST_TEST(memo->everything_present(store));
  store.objects.begin()->second = false;
  BOOST_TEST(!memo->everything_present(store));
}

BOOST_FIXTURE_TEST_CASE(objects_are_stated_without_the_index_until_it_changes, Remembered) {
  // The fake store's objects and index, as files.
  const auto write = [&](const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  };
  fs::path some_object;
  for (const auto& [digest, there] : store.objects) {
    some_object = store_path / "objects" / digest.substr(0, 2) / digest;
    write(some_object, "");
  }
  write(store_path / "index/1.log", "PEINDEX1");
  const auto stands = [&] { return PlanMemo::find(store_path, file, few())->objects_stand(); };
  BOOST_TEST(!stands());   // nobody has looked into the index yet
  PlanMemo::find(store_path, file, few())->renew();
  BOOST_TEST(stands());
  write(some_object, "another size");
  BOOST_TEST(!stands());
  fs::remove(some_object);
  BOOST_TEST(!stands());
  write(some_object, "");
  BOOST_TEST(stands());
  std::ofstream(store_path / "index/1.log", std::ios::app) << "forgotten";
  BOOST_TEST(!stands());
  PlanMemo::find(store_path, file, few())->renew();
  BOOST_TEST(stands());
  write(store_path / "tasks/ab/abcd.json", "a record");
  PlanMemo::find(store_path, file, few())->renew();
  BOOST_TEST(stands());
  ::usleep(20'000);   // a folder's time moves in ticks of some milliseconds
  fs::remove(store_path / "tasks/ab/abcd.json");   // by hand, behind the index's back
  BOOST_TEST(!stands());
  PlanMemo::find(store_path, file, few())->renew();
  BOOST_TEST(stands());
  write(store_path / "index/2.log", "another process");
  BOOST_TEST(!stands());
  fs::remove_all(store_path / "index");
  BOOST_TEST(!stands());
}

BOOST_FIXTURE_TEST_CASE(a_mark_of_an_index_that_changed_while_it_was_looked_at_is_of_no_use, Remembered) {
  fs::create_directories(store_path / "index");
  std::ofstream(store_path / "index/1.log") << "a";
  const auto memo = PlanMemo::find(store_path, file, few());
  std::ofstream(store_path / "index/1.log", std::ios::app) << "dropped by another process";
  memo->renew();   // what was looked at is what it was when the memo was found
  BOOST_TEST(!PlanMemo::find(store_path, file, few())->objects_stand());
}

BOOST_FIXTURE_TEST_CASE(a_touched_file_keeps_the_memo_and_an_edited_one_ends_it, Remembered) {
  BOOST_TEST(found());
  fs::last_write_time(file, fs::file_time_type::clock::now());
  BOOST_TEST(found());
  folder.write("configs/model/tiny.yml", "model.width: 513\n");
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
    if (entry.path().filename().string().rfind("plan-", 0) == 0) path = entry.path();
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
  ContentMemo contents(store_path);
  hash_externals(other, contents);
  compute_plan_keys(other);
  PlanMemo::remember(store_path, file, options, other, make_plan(other, store), catalog);
  BOOST_TEST(!found(options));
}

BOOST_AUTO_TEST_SUITE_END()
