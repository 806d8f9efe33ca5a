#include "artifact/h5.h"

#include <hdf5.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "artifact/content_digest.h"
#include "artifact/header.h"
#include "support/can_mount.h"
#include "support/error.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/installed.h"
#include "support/random.h"
#include "support/temp_folder.h"
#include "support/text.h"

using namespace pe;
namespace h5 = artifact::h5;
using support::ArtifactError;

BOOST_AUTO_TEST_SUITE(h5_file)

BOOST_AUTO_TEST_CASE(a_full_disk_is_told_from_a_name_that_cannot_be_made,
                     *boost::unit_test::precondition(pe::test::CanMount{})) {
  const test::TempFolder folder;
  const auto code_of = [](const std::filesystem::path& path) {
    try {
      h5::File::create(path);
    } catch (const support::IoError& error) {
      BOOST_TEST(std::string(error.what()).find("cannot create '" + path.string() + "': ") == 0u, error.what());
      return error.exit_code();
    }
    return 0;
  };
  BOOST_TEST(code_of(folder / "no folder/x.h5") == support::kExitCannotCreate);
  BOOST_REQUIRE(::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "nr_inodes=1") == 0);
  const int full = code_of(folder / "x.h5");
  ::umount(folder.path().c_str());
  BOOST_TEST(full == support::kExitIo);
}

namespace {

artifact::Recipe recipe_of(const std::string& key) {
  artifact::Recipe recipe;
  recipe.stage = "train";
  recipe.version = 3;
  recipe.task_key = key;
  recipe.config = {{"lr", 0.001}};
  recipe.inputs = {{"data", {"abc"}}};
  return recipe;
}

void write_sample(const std::filesystem::path& path, const std::string& key = "k", float third = 3.5f) {
  artifact::write_artifact(path, artifact::Kind::kMetrics, 1, recipe_of(key), [&](h5::Group& root) {
    root.write("numbers", std::vector<std::uint16_t>{1, 2, 65535});
    root.write("deep/inside/reals", std::vector<float>{1.5f, -2.f, third}).set_text("unit", "nats");
    root.write<std::int64_t>("grid", std::vector<std::int64_t>{1, 2, 3, 4, 5, 6}, {2, 3});
    root.write_text("note", "naïve “text” – ünïcödé");
    root.write_texts("names", {"a", "", "longer name"});
    root.write("none", std::vector<double>{});
    root.set_integer("answer", -42);
    root.set_real("pi", 3.14159);
  });
}

bool says(const ArtifactError& error, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (std::string(error.what()).find(word) == std::string::npos) {
      BOOST_TEST_MESSAGE("missing '" << word << "' in: " << error.what());
      return false;
    }
  }
  return true;
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_written_comes_back) {
  const test::TempFolder folder;
  const auto path = folder / "a file's name\nwith \"all\" $(sorts).h5";
  write_sample(path);
  const auto file = h5::File::open(path);
  const auto root = file.root();
  BOOST_TEST(root.read<std::uint16_t>("numbers") == (std::vector<std::uint16_t>{1, 2, 65535}));
  BOOST_TEST(root.read<float>("deep/inside/reals") == (std::vector<float>{1.5f, -2.f, 3.5f}));
  BOOST_TEST(root.open_dataset("deep/inside/reals").text("unit") == "nats");
  BOOST_TEST(root.open_dataset("grid").shape() == (h5::Shape{2, 3}));
  std::int64_t middle[2];
  root.open_dataset("grid").read_raw(middle, 3, 2);
  BOOST_TEST(middle[0] == 4);
  BOOST_TEST(middle[1] == 5);
  BOOST_TEST(root.read_text("note") == "naïve “text” – ünïcödé");
  BOOST_TEST(root.open_dataset("names").read_texts() == (std::vector<std::string>{"a", "", "longer name"}));
  BOOST_TEST(root.read<double>("none").empty());
  BOOST_TEST(root.integer("answer") == -42);
  BOOST_TEST(root.real("pi") == 3.14159);
  BOOST_TEST(artifact::read_recipe(file).config == Json({{"lr", 0.001}}));
}

BOOST_AUTO_TEST_CASE(files_written_a_second_apart_are_the_same_bytes) {
  const test::TempFolder folder;
  write_sample(folder / "one.h5");
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  write_sample(folder / "two.h5");
  BOOST_TEST(support::sha256_file(folder / "one.h5") == support::sha256_file(folder / "two.h5"));
}

BOOST_AUTO_TEST_CASE(the_content_digest_leaves_the_recipe_out_and_nothing_else) {
  const test::TempFolder folder;
  write_sample(folder / "one.h5", "first key");
  write_sample(folder / "two.h5", "another and longer key");
  write_sample(folder / "three.h5", "first key", 3.25f);
  BOOST_TEST(support::sha256_file(folder / "one.h5") != support::sha256_file(folder / "two.h5"));
  BOOST_TEST(artifact::content_digest(folder / "one.h5") == artifact::content_digest(folder / "two.h5"));
  BOOST_TEST(artifact::content_digest(folder / "one.h5") != artifact::content_digest(folder / "three.h5"));
  std::ofstream(folder / "text.md") << "no HDF5";
  BOOST_TEST(artifact::content_digest(folder / "text.md") == support::sha256_file(folder / "text.md"));
}

BOOST_AUTO_TEST_CASE(a_mismatch_names_file_dataset_expected_and_found) {
  const test::TempFolder folder;
  write_sample(folder / "a.h5");
  const auto root = h5::File::open(folder / "a.h5").root();
  BOOST_CHECK_EXCEPTION(root.read<std::uint32_t>("numbers"), ArtifactError, [](const auto& e) {
    return says(e, {"a.h5", "/numbers", "expected uint32", "found uint16 [3]"});
  });
  BOOST_CHECK_EXCEPTION(root.open_dataset("grid").require(h5::Type::kI64, {3, 2}), ArtifactError, [](const auto& e) {
    return says(e, {"/grid", "int64 [3, 2]", "int64 [2, 3]"});
  });
  BOOST_CHECK_EXCEPTION(root.open_dataset("nothing"), ArtifactError, [](const auto& e) {
    return says(e, {"/nothing", "missing"});
  });
  BOOST_CHECK_EXCEPTION(root.text("answer"), ArtifactError, [](const auto& e) {
    return says(e, {"answer", "expected text", "int64"});
  });
}

BOOST_AUTO_TEST_CASE(what_is_no_hdf5_is_said_to_be_none) {
  const test::TempFolder folder;
  std::ofstream(folder / "empty.h5");
  std::ofstream(folder / "page.h5") << "<html>503 Service Unavailable</html>";
  BOOST_CHECK_EXCEPTION(h5::File::open(folder / "gone.h5"), ArtifactError, [](const auto& e) {
    return says(e, {"gone.h5", "no such file"});
  });
  BOOST_CHECK_EXCEPTION(h5::File::open(folder / "empty.h5"), ArtifactError,
                        [](const auto& e) { return says(e, {"an empty file"}); });
  BOOST_CHECK_EXCEPTION(h5::File::open(folder / "page.h5"), ArtifactError,
                        [](const auto& e) { return says(e, {"without its signature"}); });
  BOOST_CHECK_THROW(h5::File::open(folder.path()), ArtifactError);
}

BOOST_AUTO_TEST_CASE(links_are_refused_and_never_followed) {
  const test::TempFolder folder;
  const auto path = folder / "linked.h5", fifo = folder / "fifo";
  BOOST_REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  write_sample(folder / "other.h5");
  write_sample(path);
  const hid_t id = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  BOOST_REQUIRE(id >= 0);
  BOOST_TEST(H5Lcreate_soft("/numbers", id, "soft", H5P_DEFAULT, H5P_DEFAULT) >= 0);
  BOOST_TEST(H5Lcreate_soft("/nowhere", id, "dangling", H5P_DEFAULT, H5P_DEFAULT) >= 0);
  BOOST_TEST(H5Lcreate_external("other.h5", "/", id, "external", H5P_DEFAULT, H5P_DEFAULT) >= 0);
  BOOST_TEST(H5Lcreate_external(fifo.c_str(), "/", id, "waits", H5P_DEFAULT, H5P_DEFAULT) >= 0);
  H5Fclose(id);
  ::alarm(20);  // a FIFO that is opened waits for its other end
  const auto file = h5::File::open(path);
  const auto root = file.root();
  BOOST_TEST(root.has("numbers"));
  for (const std::string name : {"soft", "dangling", "external", "waits", "external/numbers", "waits/numbers"}) {
    const std::string link = "'" + name.substr(0, name.find('/')) + "' is a link";
    const auto refused = [&](const ArtifactError& error) { return says(error, {link}); };
    BOOST_CHECK_EXCEPTION(root.open_dataset(name), ArtifactError, refused);
    BOOST_CHECK_EXCEPTION(root.open_group(name), ArtifactError, refused);
    BOOST_CHECK_EXCEPTION(root.has(name), ArtifactError, refused);
    BOOST_CHECK_EXCEPTION(root.is_group(name), ArtifactError, refused);
  }
  ::alarm(0);
}

BOOST_AUTO_TEST_CASE(a_file_cut_short_anywhere_is_an_artifact_error) {
  const test::TempFolder folder;
  write_sample(folder / "whole.h5");
  const std::string whole = support::read_file(folder / "whole.h5");
  for (std::size_t bytes = 0; bytes < whole.size(); bytes += 1 + whole.size() / 97) {
    std::ofstream(folder / "cut.h5", std::ios::binary) << whole.substr(0, bytes);
    BOOST_CHECK_THROW(artifact::content_digest(h5::File::open(folder / "cut.h5")), ArtifactError);
  }
}

BOOST_AUTO_TEST_CASE(a_flipped_bit_is_an_error_or_changes_the_content_digest) {
  const test::TempFolder folder;
  write_sample(folder / "whole.h5");
  const std::string whole = support::read_file(folder / "whole.h5");
  const std::string expected = artifact::content_digest(folder / "whole.h5");
  support::Xoshiro random(7);
  int noticed = 0, unused = 0;
  for (int i = 0; i < 300; ++i) {
    std::string flipped = whole;
    flipped[random.below(whole.size())] ^= static_cast<char>(1 << random.below(8));
    std::ofstream(folder / "flipped.h5", std::ios::binary) << flipped;
    try {
      const std::string found = artifact::content_digest(folder / "flipped.h5");
      found == expected ? ++unused : ++noticed;  // the recipe and gaps are no content
    } catch (const support::Error&) {
      ++noticed;
    }
  }
  BOOST_TEST_MESSAGE("noticed " << noticed << " of 300 flips, " << unused << " lay outside the content");
  BOOST_TEST(noticed > 0);
}

BOOST_AUTO_TEST_CASE(another_kind_or_a_newer_format_is_refused_with_both_values) {
  const test::TempFolder folder;
  write_sample(folder / "a.h5");
  const auto file = h5::File::open(folder / "a.h5");
  BOOST_CHECK_EXCEPTION(artifact::require_kind(file, artifact::Kind::kCheckpoint, 1), ArtifactError, [](const auto& e) {
    return says(e, {"expected kind checkpoint", "found metrics"});
  });
  artifact::write_artifact(folder / "new.h5", artifact::Kind::kMetrics, 9, {}, [](h5::Group&) {});
  const auto newer = h5::File::open(folder / "new.h5");
  BOOST_CHECK_EXCEPTION(artifact::require_kind(newer, artifact::Kind::kMetrics, 1), ArtifactError, [](const auto& e) {
    return says(e, {"format 9", "newer than 1"});
  });
}

BOOST_AUTO_TEST_CASE(a_failed_body_leaves_nothing_behind) {
  const test::TempFolder folder;
  const auto fail = [](h5::Group&) { throw support::IoError("the disk is full"); };
  BOOST_CHECK_THROW(artifact::write_artifact(folder / "a.h5", artifact::Kind::kMetrics, 1, {}, fail), support::IoError);
  BOOST_TEST(std::filesystem::is_empty(folder.path()));
  BOOST_CHECK_THROW(write_sample(folder / "no such folder" / "a.h5"), support::IoError);
}

BOOST_AUTO_TEST_CASE(a_disk_that_takes_no_more_is_an_io_error_with_its_reason) {
  const test::TempFolder folder;
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit tight = before;
  tight.rlim_cur = 100'000;
  ::setrlimit(RLIMIT_FSIZE, &tight);
  std::string message;
  try {
    artifact::write_artifact(folder / "a.h5", artifact::Kind::kMetrics, 1, {},
                             [](h5::Group& root) { root.write("big", std::vector<double>(100'000, 1.0)); });
  } catch (const support::IoError& error) {
    message = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, SIG_DFL);
  BOOST_TEST(message.find("File too large") != std::string::npos, message);
  BOOST_TEST(std::filesystem::is_empty(folder.path()));
}

BOOST_AUTO_TEST_CASE(h5py_reads_what_we_write, *boost::unit_test::precondition(pe::test::PythonHas{"h5py"})) {
  const test::TempFolder folder;
  write_sample(folder / "a.h5");
  std::ofstream(folder / "check.py") << R"(
import h5py, json, os
f = h5py.File(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'a.h5'), 'r')
assert f['numbers'][()].tolist() == [1, 2, 65535] and f['numbers'].dtype == '<u2'
assert f['deep/inside/reals'][()].tolist() == [1.5, -2.0, 3.5]
assert f['deep/inside/reals'].attrs['unit'].decode() == 'nats'
assert f['grid'].shape == (2, 3) and f['grid'][1, 2] == 6
assert f['note'][()].decode() == 'naïve “text” – ünïcödé'
assert [x.decode() for x in f['names'][()]] == ['a', '', 'longer name']
assert f.attrs['answer'] == -42 and f['pe'].attrs['kind'].decode() == 'metrics'
assert json.loads(f['pe/made_by'][()].decode())['config'] == {'lr': 0.001}
assert f['numbers'].chunks is None and f['numbers'].id.get_offset() is not None
)";
  BOOST_TEST(std::system(("/usr/bin/python3 \"" + (folder / "check.py").string() + "\"").c_str()) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
