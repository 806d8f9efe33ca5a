#include "artifact/collection.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include <fstream>

#include "artifact/artifact_check.h"
#include "artifact/raw_text.h"
#include "artifact/token_shards.h"
#include "support/error.h"
#include "support/files.h"
#include "support/replace_text.h"
#include "support/temp_folder.h"

using namespace pe;
using artifact::Collection;
using artifact::Kind;
using artifact::Manifest;
using support::ArtifactError;

BOOST_AUTO_TEST_SUITE(collection)

namespace {

void put(const std::filesystem::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

Manifest write_report(const std::filesystem::path& folder, const std::string& key, const std::string& page = "<html>") {
  artifact::Recipe recipe;
  recipe.task_key = key;
  artifact::CollectionWriter writer(folder, Kind::kReport, recipe);
  put(writer.add("z/figure \"1\"\n.svg"), "<svg/>");
  put(writer.add("index.html"), page);
  return writer.finish(false);
}

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const ArtifactError& error) {
    return error.what();
  }
  return "no error";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(members_are_sorted_and_the_digest_is_of_content_alone) {
  const test::TempFolder folder;
  const Manifest one = write_report(folder / "one", "a");
  const Manifest two = write_report(folder / "two", "b");
  const Manifest other = write_report(folder / "three", "a", "<html> ");
  BOOST_TEST(one.members.front().name == "index.html");
  BOOST_TEST(one.content_digest() == two.content_digest());
  BOOST_TEST(one.content_digest() != other.content_digest());
  const Manifest read = Manifest::read(folder / "one");
  BOOST_TEST(read.content_digest() == one.content_digest());
  BOOST_TEST(read.recipe.task_key == "a");
  BOOST_TEST(artifact::artifact_content_digest(folder / "one") == one.content_digest());
  Collection(folder / "one", Kind::kReport).verify();
  artifact::check_artifact(folder / "one", Kind::kReport);
}

BOOST_AUTO_TEST_CASE(a_folder_without_a_manifest_is_unfinished) {
  const test::TempFolder folder;
  std::filesystem::create_directories(folder / "half");
  put(folder / "half" / "index.html", "x");
  BOOST_TEST(has(message_of([&] { Collection(folder / "half", Kind::kReport); }), "unfinished"));
  BOOST_CHECK_THROW(artifact::CollectionWriter(folder / "half", Kind::kReport, {}), support::IoError);
}

BOOST_AUTO_TEST_CASE(a_manifest_that_is_no_file_is_refused_and_not_waited_for) {
  const test::TempFolder folder;
  std::filesystem::create_directories(folder / "a/manifest.json");
  BOOST_TEST(has(message_of([&] { Collection(folder / "a", Kind::kReport); }), "expected a manifest, found a folder"));
  std::filesystem::create_directories(folder / "b");
  BOOST_REQUIRE(::mkfifo((folder / "b/manifest.json").c_str(), 0600) == 0);
  ::alarm(20);
  BOOST_TEST(has(message_of([&] { Collection(folder / "b", Kind::kReport); }), "expected a manifest, found a FIFO"));
  ::alarm(0);
}

BOOST_AUTO_TEST_CASE(what_is_not_finished_leaves_nothing_behind) {
  const test::TempFolder folder;
  {
    artifact::CollectionWriter writer(folder / "new", Kind::kReport, {});
    put(writer.add("index.html"), "x");
    BOOST_TEST(!std::filesystem::exists(folder / "new"));
  }
  BOOST_TEST(std::filesystem::is_empty(folder.path()));
}

BOOST_AUTO_TEST_CASE(members_that_miss_or_change_are_noticed) {
  const test::TempFolder folder;
  write_report(folder / "a", "k");
  put(folder / "a" / "index.html", "<htmm>");
  BOOST_TEST(has(message_of([&] { Collection(folder / "a", Kind::kReport).verify(); }), "file digest"));
  put(folder / "a" / "index.html", "<ht>");
  BOOST_TEST(has(message_of([&] { Collection(folder / "a", Kind::kReport); }), "expected 6 bytes, found 4"));
  std::filesystem::remove(folder / "a" / "index.html");
  BOOST_TEST(has(message_of([&] { Collection(folder / "a", Kind::kReport); }), "missing"));
  write_report(folder / "b", "k");
  put(folder / "b" / "extra.txt", "who put this here?");
  BOOST_TEST(has(message_of([&] { Collection(folder / "b", Kind::kReport).verify(); }), "does not name this file"));
  BOOST_TEST(
      has(message_of([&] { Collection(folder / "b", Kind::kRawText); }), "expected kind raw-text, found report"));
}

BOOST_AUTO_TEST_CASE(manifests_that_lie_are_refused) {
  const test::TempFolder folder;
  const std::string good = write_report(folder / "a", "k").to_json().dump();
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    BOOST_REQUIRE(at != std::string::npos);
    return message_of([&] { Manifest::parse(text.replace(at, from.size(), to), "m"); });
  };
  BOOST_TEST(has(with("index.html", "../escape"), "invalid member name"));
  BOOST_TEST(has(with("index.html", "/etc/passwd"), "invalid member name"));
  BOOST_TEST(has(with("index.html", "zz.html"), "out of order"));
  BOOST_TEST(has(with("index.html", "indey.html"), "content digest"));
  BOOST_TEST(has(with("pe-collection/1", "pe-collection/7"), "schema"));
  BOOST_TEST(has(with("\"report\"", "\"novel\""), "unknown kind"));
  BOOST_TEST(has(with("\"bytes\":6", "\"bytes\":\"six\""), "not of schema"));
  BOOST_TEST(has(message_of([] { Manifest::parse("[1, 2", "m"); }), "the manifest is not JSON"));
  BOOST_TEST(has(message_of([] { Manifest::parse("[1, 2]", "m"); }), "expected a manifest"));
  const std::string deep = "\"made_by\":" + test::deep_json(300'000) + ",\"x\":";
  BOOST_TEST(has(with("\"made_by\":", deep), "is nested deeper than 128 levels"));
  for (const char* name : {"", "a//b", "a/../b", "./a", "/a", "a/", "manifest.json", "\xff"}) {
    BOOST_TEST(!artifact::valid_member_name(name), name);
  }
}

BOOST_AUTO_TEST_CASE(raw_text_comes_back_in_order_over_several_members) {
  const test::TempFolder folder;
  artifact::RawTextWriter writer(folder / "raw", {}, 100);
  std::vector<std::string> texts;
  for (int i = 0; i < 20; ++i)
    texts.push_back(std::string(static_cast<std::size_t>(1 + 7 * i % 40), static_cast<char>('a' + i)));
  texts[3] = std::string("nul \0 inside", 12);
  for (std::size_t i = 0; i < texts.size(); ++i) writer.add(texts[i], i < 9 ? "x.txt" : "y z's.txt", i);
  writer.finish();
  artifact::RawTextReader reader(folder / "raw");
  BOOST_TEST(reader.documents() == 20u);
  for (int round = 0; round < 2; ++round) {
    artifact::RawTextReader::Document document;
    std::size_t count = 0;
    while (reader.next(document)) {
      BOOST_TEST(document.index == count);
      BOOST_TEST(document.text == texts[count]);
      ++count;
    }
    BOOST_TEST(count == texts.size());
    reader.rewind();
  }
  artifact::check_artifact(folder / "raw", Kind::kRawText);
  BOOST_TEST(Collection(folder / "raw", Kind::kRawText).members("documents-").size() > 3u);
  artifact::RawTextWriter tight(folder / "tight", {}, 10);
  BOOST_CHECK_THROW(tight.add("more than ten bytes", "x", 0), support::ConfigError);
}

BOOST_AUTO_TEST_CASE(a_split_with_documents_has_a_sample_of_them) {
  const test::TempFolder folder;
  artifact::TokenizerRecord tokenizer;
  tokenizer.kind = "bytes";
  tokenizer.vocabulary = 9;
  tokenizer.token_bytes.assign(9, 1);
  const auto write = [&](const std::string& name, bool sampled) {
    artifact::TokenShardsWriter writer(folder / name, {}, tokenizer, 100);
    const std::vector<std::int32_t> document{1, 2, 3};
    writer.add(artifact::Split::kTrain, document.data(), document.size(), 3, 0);
    artifact::SplitRecord splits{.rule = "all train", .documents = {}};
    if (sampled) splits.documents[static_cast<std::size_t>(artifact::Split::kTrain)].add(7);
    writer.set_splits(splits);
    artifact::DatasetTotals totals;
    writer.finish(totals);
    return folder / name / "dataset.h5";
  };
  BOOST_TEST(artifact::read_split_record(write("sampled", true)).rule == "all train");
  const auto damaged = write("empty", false);
  BOOST_TEST(has(message_of([&] { artifact::read_split_record(damaged); }),
                 "/splits/train: is empty; expected hashes of 1 documents"));
}

BOOST_AUTO_TEST_CASE(a_truncated_member_is_an_artifact_error) {
  const test::TempFolder folder;
  artifact::RawTextWriter writer(folder / "raw", {});
  writer.add(std::string(5000, 'x'), "x.txt", 0);
  writer.finish();
  const auto member = folder / "raw" / "documents-00000.h5";
  std::filesystem::resize_file(member, std::filesystem::file_size(member) / 2);
  BOOST_CHECK_THROW(artifact::RawTextReader(folder / "raw"), ArtifactError);
}

BOOST_AUTO_TEST_SUITE_END()
