// Files that configs name: matches of paths, their contents, and whether these are unchanged.
#include "pipeline/plan/externals.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "pipeline/grid_fixture.h"
#include "support/error.h"
#include "support/files.h"
#include "support/make_old.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
using pe::test::GridFolder;
namespace fs = std::filesystem;

namespace {

/// One task that reads the files of `paths`.
Graph reader_of(const std::vector<std::string>& paths) {
  Graph graph;
  graph.tasks.emplace_back().externals.push_back({"path", paths, {}});
  return graph;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(externals)

BOOST_AUTO_TEST_CASE(folders_files_and_globs_are_listed_by_name) {
  const GridFolder folder;
  folder.write("data/fineweb-edu/z [1].txt", "");
  const auto names = [&](const std::vector<std::string>& paths) {
    std::string text;
    for (const auto& group : list_groups(paths).groups) {
      for (const auto& [name, path] : group) text += name + " ";
    }
    return text;
  };
  const std::string base = folder.path("data").string();
  BOOST_TEST(names({base}) == "fineweb-edu/a.txt fineweb-edu/deeper/b.txt fineweb-edu/z [1].txt ");
  BOOST_TEST(names({base + "/fineweb-edu/*.txt"}).find("a.txt ") == 0u);
  BOOST_TEST(names({base + "/*/a.txt"}) == "fineweb-edu/a.txt ");
  BOOST_TEST(names({base + "/fineweb-edu/z [1].txt"}) == "z [1].txt ");  // a name that looks like a pattern
  BOOST_TEST(list_groups({base + "/none*"}).missing == base + "/none*");
  fs::create_directory_symlink(folder.path("data"), folder.path("data/fineweb-edu/round"));
  BOOST_TEST(names({base}) == "fineweb-edu/a.txt fineweb-edu/deeper/b.txt fineweb-edu/z [1].txt ");
}

// glob(3) leaves out folders that it cannot read, and the key would name fewer files than there are.
BOOST_AUTO_TEST_CASE(a_pattern_never_leaves_out_what_cannot_be_read) {
  const GridFolder folder;
  for (const char* name : {"g/a/x1.txt", "g/b/x2.txt", "g/.hidden/x3.txt", "g/y1.txt"}) {
    fs::create_directories(folder.path(name).parent_path());
    folder.write(name, name);
  }
  const std::string base = folder.path("g").string();
  BOOST_REQUIRE_EQUAL(list_groups({base + "/*/x*.txt"}).groups.size(), 1u);
  BOOST_TEST(list_groups({base + "/*/x*.txt"}).groups[0].size() == 2u);  // not the hidden one, as in a shell
  BOOST_TEST(list_groups({base + "/[ab]/x1.txt"}).groups[0].size() == 1u);
  BOOST_TEST(list_groups({folder.path("*/none/*").string()}).missing == folder.path("*/none/*").string());
  fs::create_symlink("loop", folder.path("g/loop"));  // root, too, cannot enter it
  for (const char* pattern : {"/*/x*.txt", "/*/x1.txt", "/l*", "/loop/x*.txt"}) {
    BOOST_CHECK_EXCEPTION(list_groups({base + pattern}), support::IoError, [&](const support::IoError& error) {
      return error.diagnostics().front().message.find(base + "/loop") != std::string::npos;
    });
  }
  BOOST_CHECK_THROW(list_groups({base}), support::IoError);
  BOOST_CHECK_THROW(list_groups({base + "/loop"}), support::IoError);
}

// Opening a pipe waits for a writer, for ever.
BOOST_AUTO_TEST_CASE(what_is_no_regular_file_is_refused_at_once) {
  const GridFolder folder;
  const std::string pipe = folder.path("data/pipe").string();
  BOOST_REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const auto refusal = [](const std::string& path) {
    try {
      list_groups({path});
    } catch (const support::ConfigError& error) {
      return error.diagnostics().front().message;
    }
    return std::string();
  };
  const std::string expected = "input '" + pipe + "' is a pipe, expected a file or a folder";
  BOOST_TEST(refusal(pipe) == expected);
  BOOST_TEST(refusal(folder.path("data").string()) == expected);  // a stage that reads the folder would wait, too
  BOOST_TEST(refusal(folder.path("data/p*").string()) == expected);
  BOOST_TEST(refusal("/dev/null") == "input '/dev/null' is a device, expected a file or a folder");
  BOOST_REQUIRE(::unlink(pipe.c_str()) == 0);
  fs::create_symlink("nowhere", folder.path("data/lost"));
  // Left out, it would be a part of the text that is missing in silence.
  BOOST_TEST(refusal(folder.path("data").string()) == "input '" + folder.path("data/lost").string() +
                                                          "' is a link to a missing file, expected a file or a folder");
  BOOST_REQUIRE(fs::remove(folder.path("data/lost")));
  support::write_file_atomically(folder.path("data/caf\xe9.txt"), "", false);
  BOOST_TEST(refusal(folder.path("data").string()).find("is not UTF-8") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(each_path_is_a_group_in_the_order_given) {
  const GridFolder folder;
  for (const char* name : {"x/part-0.txt", "y/part-0.txt"}) {
    fs::create_directories(folder.path(name).parent_path());
    folder.write(name, name);
  }
  const std::string x = folder.path("x").string(), y = folder.path("y").string();
  const auto listed = list_groups({y, x});
  BOOST_REQUIRE_EQUAL(listed.groups.size(), 2u);
  BOOST_TEST(listed.groups[0].at(0).second == folder.path("y/part-0.txt"));
  BOOST_TEST(listed.groups[1].at(0).second == folder.path("x/part-0.txt"));
  BOOST_TEST(listed.groups[1].at(0).first == "part-0.txt");
}

BOOST_AUTO_TEST_CASE(a_second_look_finds_what_changed) {
  const GridFolder folder;
  test::make_old(folder.root());
  Graph graph = reader_of({folder.path("data").string()});
  StampMemo memo = StampMemo::of_inputs(folder.path("store"));
  hash_externals(graph, memo);
  const Task& task = graph.tasks.front();
  const fs::path file = folder.path("data/fineweb-edu/a.txt");
  const std::string text = support::read_file(file);
  BOOST_TEST(changed_external(task) == "");
  fs::last_write_time(file, fs::file_time_type::clock::now());  // touched: another stamp, the same bytes
  BOOST_TEST(changed_external(task) == "");
  folder.write("data/fineweb-edu/a.txt", text + "!");
  BOOST_TEST(changed_external(task) == file.string());
  folder.write("data/fineweb-edu/a.txt", text);
  BOOST_TEST(changed_external(task) == "");
  folder.write("data/fineweb-edu/aa.txt", "new");
  BOOST_TEST(changed_external(task) == folder.path("data/fineweb-edu/aa.txt").string());
  fs::remove(folder.path("data/fineweb-edu/aa.txt"));
  fs::remove(folder.path("data/fineweb-edu/deeper/b.txt"));
  BOOST_TEST(changed_external(task) == folder.path("data/fineweb-edu/deeper/b.txt").string());
  // A folder that cannot be seen says nothing of its files.
  fs::rename(folder.path("data"), folder.path("aside"));
  fs::create_symlink("data", folder.path("data"));
  BOOST_CHECK_THROW(changed_external(task), support::IoError);
  fs::remove(folder.path("data"));
  BOOST_TEST(changed_external(task) == folder.path("data").string());
}

BOOST_AUTO_TEST_CASE(a_second_look_finds_a_write_within_the_tick_of_the_first) {
  const GridFolder folder;
  const fs::path file = folder.path("data/fineweb-edu/a.txt");
  std::ofstream(file) << "young";
  Graph graph = reader_of({file.string()});
  StampMemo memo = StampMemo::of_inputs(folder.path("store"));
  hash_externals(graph, memo);
  std::fstream(file, std::ios::in | std::ios::out).write("Y", 1);
  BOOST_TEST(changed_external(graph.tasks.front()) == file.string());
}

BOOST_AUTO_TEST_CASE(hashing_tells_how_far_it_is) {
  const GridFolder folder;
  test::make_old(folder.root());
  Graph graph = reader_of({folder.path("data").string()});
  StampMemo memo = StampMemo::of_inputs(folder.path("store"));
  std::vector<HashingProgress> told;
  hash_externals(graph, memo, [&](const HashingProgress& progress) { told.push_back(progress); });
  BOOST_REQUIRE_EQUAL(told.size(), 2u);
  BOOST_TEST(told[0].file.filename() == "a.txt");
  BOOST_TEST(told[0].done_bytes == 0u);
  BOOST_TEST(told[1].done_bytes == fs::file_size(told[0].file));
  BOOST_TEST(told[1].total_bytes == fs::file_size(told[0].file) + fs::file_size(told[1].file));
  told.clear();
  hash_externals(graph, memo, [&](const HashingProgress& progress) { told.push_back(progress); });
  BOOST_TEST(told.empty());  // all of it is known now
}

BOOST_AUTO_TEST_SUITE_END()
