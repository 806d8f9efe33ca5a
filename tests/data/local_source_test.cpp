#include <arrow/io/file.h>
#include <parquet/column_writer.h>
#include <parquet/file_reader.h>
#include <parquet/file_writer.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>
#include <parquet/schema.h>
#include <time.h>
#include <zlib.h>
#include <zstd.h>

#include <boost/test/unit_test.hpp>

#include <fstream>
#include <set>

#include "data/sources/byte_stream.h"
#include "data/sources/document_source.h"
#include "data/sources/parquet_text.h"
#include "support/error.h"
#include "support/file_listing.h"
#include "support/files.h"
#include "support/json.h"
#include "support/peak_memory.h"
#include "support/random.h"
#include "support/temp_folder.h"
#include "support/test_data.h"
#include "support/text.h"

using namespace pe;
using data::DocumentSource;
using support::ArtifactError;
using Outcome = DocumentSource::Outcome;
using test::HasData;
namespace fs = std::filesystem;

BOOST_AUTO_TEST_SUITE(local_source)

namespace {

void put(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

struct Read {
  std::vector<std::string> texts, sources, problems;
  std::vector<std::uint64_t> rows;
  int nulls = 0, filtered = 0;
};

Read read_all(const std::vector<std::string>& paths, const data::TextOptions& options = {}) {
  const auto source = data::make_local_source(paths, options, support::silent_progress());
  Read read;
  DocumentSource::Item item;
  while (true) {
    switch (source->next(item)) {
      case Outcome::kEnd:
        return read;
      case Outcome::kNull:
        ++read.nulls;
        break;
      case Outcome::kFiltered:
        ++read.filtered;
        break;
      case Outcome::kBad:
        read.problems.push_back(item.problem);
        break;
      case Outcome::kDocument:
        read.texts.push_back(item.text);
        read.sources.push_back(item.source);
        read.rows.push_back(item.row);
    }
  }
}

std::string gzip(const std::string& text) {
  z_stream z{};
  deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(text.size() + 1000, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

std::shared_ptr<parquet::schema::GroupNode> text_schema() {
  const auto column = parquet::schema::PrimitiveNode::Make("text", parquet::Repetition::REQUIRED,
                                                           parquet::LogicalType::String(), parquet::Type::BYTE_ARRAY);
  return std::static_pointer_cast<parquet::schema::GroupNode>(
      parquet::schema::GroupNode::Make("schema", parquet::Repetition::REQUIRED, {column}));
}

/// A column `text`, a page a document.
void write_parquet(const fs::path& path, const std::vector<std::string>& texts, parquet::Compression::type codec) {
  const auto out = arrow::io::FileOutputStream::Open(path.string()).ValueOrDie();
  const auto properties = parquet::WriterProperties::Builder()
                              .compression(codec)
                              ->disable_dictionary()
                              ->data_pagesize(1000)
                              ->write_batch_size(1)
                              ->build();
  const auto file = parquet::ParquetFileWriter::Open(out, text_schema(), properties);
  auto* writer = static_cast<parquet::ByteArrayWriter*>(file->AppendRowGroup()->NextColumn());
  for (const std::string& text : texts) {
    const parquet::ByteArray value(text);
    writer->WriteBatch(1, nullptr, nullptr, &value);
  }
  file->Close();
}

/// The processor's time of this thread, which other work on the machine does not count against.
double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Cost {
  std::string problem;  ///< of the first document, or why there is none
  double seconds = 0;
  std::int64_t bytes = 0;
};

/// Cost of reporting the first mistake in a file, which ends a stage under `on_bad: error`.
Cost cost_of_refusal(const fs::path& path) {
  Cost cost;
  const double started = cpu_seconds();
  cost.bytes = test::peak_growth([&] {
    try {
      DocumentSource::Item item;
      const auto source = data::make_file_source({{path, path.filename().string()}}, {});
      Outcome outcome = source->next(item);
      for (; outcome == Outcome::kDocument || outcome == Outcome::kNull; outcome = source->next(item)) {
      }
      if (outcome == Outcome::kBad) cost.problem = item.problem;
    } catch (const ArtifactError& error) {
      cost.problem = error.what();
    }
  });
  cost.seconds = cpu_seconds() - started;
  return cost;
}

void check_refused_cheaply(const fs::path& path) {
  const Cost cost = cost_of_refusal(path);
  BOOST_TEST(!cost.problem.empty(), path);
  BOOST_TEST(cost.problem.size() < 1000u, path);
  BOOST_TEST(cost.seconds < 1.0, path << " took " << cost.seconds << " s");
  BOOST_TEST(cost.bytes < 100 << 20, path << " took " << cost.bytes << " bytes");
}

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const support::Error& error) {
    return error.what();
  }
  return "no error";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string joined(const std::vector<std::string>& parts) { return support::join(parts, ""); }

}  // namespace

BOOST_AUTO_TEST_CASE(a_folder_is_read_recursively_in_order_and_says_what_it_left_out) {
  const test::TempFolder folder;
  put(folder / "b.txt", "bee");
  put(folder / "a dir's \"$(x)\"\n/z.TXT", "zed");
  put(folder / "c.jsonl", "{\"text\": \"sea\"}\n");
  put(folder / "picture.png", "x");
  put(folder / "README", "x");
  put(folder / ".hidden/d.txt", "x");
  const Read read = read_all({folder.path().string()});
  BOOST_TEST(read.texts == (std::vector<std::string>{"zed", "bee", "sea"}));
  BOOST_TEST(read.sources[0] == "a dir's \"$(x)\"\n/z.TXT");
  const auto found = data::find_local_files({folder.path().string()});
  BOOST_REQUIRE(found.notes.size() == 1u);
  BOOST_TEST(has(found.notes[0], "2 files of other kinds were left out (no extension 1, .png 1)"));
}

BOOST_AUTO_TEST_CASE(globs_lists_and_odd_names_are_taken_as_they_are) {
  const test::TempFolder folder;
  put(folder / "x1.txt", "1");
  put(folder / "x2.txt", "2");
  put(folder / "[x].txt", "3");
  put(folder / "y.dat", "4");
  BOOST_TEST(joined(read_all({(folder / "x*.txt").string()}).texts) == "12");
  BOOST_TEST(
      joined(read_all({(folder / "[x].txt").string(), (folder / "x2.txt").string(), (folder / "x?.txt").string()})
                 .texts) == "321");
  BOOST_TEST(has(message_of([&] { read_all({(folder / "y.dat").string()}); }), "known are .txt, .jsonl"));
  BOOST_TEST(has(message_of([&] { read_all({(folder / "nowhere").string()}); }), "there is no such file or folder"));
  BOOST_TEST(has(message_of([&] { read_all({(folder / "q*.txt").string()}); }), "nothing matches"));
  fs::create_directories(folder / "empty");
  BOOST_TEST(has(message_of([&] { read_all({(folder / "empty").string()}); }), "holds no text"));
}

BOOST_AUTO_TEST_CASE(files_of_one_name_get_their_folders) {
  const test::TempFolder folder;
  const auto at = [&](const char* name) { return (folder / name).string(); };
  for (const char* name : {"x/pa/data.jsonl", "x/pb/data.jsonl", "x/pb/other.jsonl", "x/pa/b/data.jsonl"})
    put(folder / name, "{\"text\": \"" + std::string(name) + "\"}\n");
  using Names = std::vector<std::string>;
  const auto sources = [](const std::vector<std::string>& paths) { return read_all(paths).sources; };
  BOOST_TEST(sources({at("x/pb")}) == (Names{"data.jsonl", "other.jsonl"}));
  BOOST_TEST(sources({at("x/pa/data.jsonl"), at("x/pb")}) == (Names{"pa/data.jsonl", "pb/data.jsonl", "other.jsonl"}));
  BOOST_TEST(sources({at("x/pa/data.jsonl"), at("x/pa/b/data.jsonl")}) == (Names{"data.jsonl", "b/data.jsonl"}));
  // The name that tells two apart may be that of a third.
  put(folder / "y/b/data.jsonl", "{\"text\": \"third\"}\n");
  BOOST_TEST(has(message_of([&] {
                   read_all({at("x/pa/data.jsonl"), at("x/pa/b/data.jsonl"), at("y")});
                 }),
                 "would both be named 'b/data.jsonl' in the raw text"));
}

BOOST_AUTO_TEST_CASE(kinds_are_known_before_the_first_file_is_read) {
  const test::TempFolder folder;
  put(folder / "a.jsonl", "{\"text\": \"a\"}\n");
  put(folder / "b.txt", "b");
  const auto source = [&](const std::string& name, const std::vector<std::string>& filter = {}) {
    return message_of([&] {
      data::make_file_source({{folder / "a.jsonl", "a.jsonl"}, {folder / "b.txt", name}}, {.filter = filter});
    });
  };
  BOOST_TEST(source("b.txt") == "no error");
  BOOST_TEST(has(source("b.csv"), "'b.csv': unknown kind of file"));
  BOOST_TEST(has(source("b.txt", {"score > 1"}), "b.txt': a .txt has no columns, so filter 'score > 1'"));
}

static std::string json_line(const std::string& escaped) { return "{\"text\": \"" + escaped + "\"}\n"; }

BOOST_AUTO_TEST_CASE(an_escaped_backslash_is_one_escape) {
  const test::TempFolder folder;
  const std::size_t longest = 1'000'000;
  put(folder / "d.jsonl", json_line(std::string(2 * longest, '\\')) + json_line(std::string(8 * longest, '\\')));
  const Read read = read_all({(folder / "d.jsonl").string()}, {.longest_document = static_cast<std::int64_t>(longest)});
  BOOST_REQUIRE(read.texts.size() == 1u);
  BOOST_TEST((read.texts[0] == std::string(longest, '\\')));
  BOOST_REQUIRE(read.problems.size() == 1u);
  BOOST_TEST(has(read.problems[0], ":2: the line is longer than"), read.problems[0]);
}

BOOST_AUTO_TEST_CASE(escapes_do_not_make_a_document_too_long) {
  const test::TempFolder folder;
  const auto escaped = [](std::size_t letters) {
    std::string text;
    while (letters-- > 0) text += "\\u0041";
    return text;
  };
  const std::size_t longest = 3'000'000;
  put(folder / "d.jsonl", json_line(escaped(longest)) + json_line(escaped(longest + 1)) +
                              json_line(escaped(10 * longest)) + json_line("last"));
  const Read read = read_all({(folder / "d.jsonl").string()}, {.longest_document = static_cast<std::int64_t>(longest)});
  BOOST_REQUIRE(read.texts.size() == 2u);
  BOOST_TEST((read.texts[0] == std::string(longest, 'A')));
  BOOST_TEST(read.texts[1] == "last");
  BOOST_REQUIRE(read.problems.size() == 2u);
  BOOST_TEST(has(read.problems[0], "d.jsonl:2: a document is longer than"), read.problems[0]);
  BOOST_TEST(has(read.problems[1], "d.jsonl:3: the line is longer than"), read.problems[1]);
  BOOST_TEST(has(read.problems[1], "without its escapes (text.longest_document and 1 MiB)"), read.problems[1]);
}

BOOST_AUTO_TEST_CASE(texts_of_json_lines_may_be_no_utf8_where_that_is_asked) {
  const test::TempFolder folder;
  put(folder / "d.jsonl", "{\"text\": \"a\xff\\nb\", \"b\": \"\xfe\"}\n{\"text\": \xff}\n");
  Read read = read_all({(folder / "d.jsonl").string()});
  BOOST_TEST(read.texts.empty());
  BOOST_REQUIRE(read.problems.size() == 2u);
  BOOST_TEST(has(read.problems[0], "byte 0xff is not UTF-8"));
  read = read_all({(folder / "d.jsonl").string()}, {.any_bytes = true});
  BOOST_TEST(read.texts == (std::vector<std::string>{"a\xff\nb"}));
  BOOST_REQUIRE(read.problems.size() == 1u);
  BOOST_TEST(has(read.problems[0], "d.jsonl:2:10: invalid JSON: expected a value"), read.problems[0]);
}

BOOST_AUTO_TEST_CASE(a_separator_line_parts_documents) {
  const test::TempFolder folder;
  put(folder / "s.txt", "<|end|>\none\ntwo\n<|end|>\nthree <|end|>\n\n<|end|>\r\nfour\r\n<|end|>\n<|end|>\nlast\n");
  const Read read = read_all({(folder / "s.txt").string()}, {.separator = "<|end|>"});
  BOOST_TEST(read.texts == (std::vector<std::string>{"one\ntwo", "three <|end|>\n", "four", "last\n"}));
  BOOST_TEST(read.rows == (std::vector<std::uint64_t>{0, 1, 2, 3}));
}

BOOST_AUTO_TEST_CASE(a_byte_order_mark_is_no_text) {
  const test::TempFolder folder;
  put(folder / "s.txt", "\xef\xbb\xbf---\none\n---\n\xef\xbb\xbftwo\n");
  BOOST_TEST(read_all({(folder / "s.txt").string()}, {.separator = "---"}).texts ==
             (std::vector<std::string>{"one", "\xef\xbb\xbftwo\n"}));
  BOOST_TEST(read_all({(folder / "s.txt").string()}, {.lines = true}).texts.front() == "---");
}

BOOST_AUTO_TEST_CASE(cutting_at_blank_lines_loses_no_byte_and_keeps_paragraphs_whole) {
  const test::TempFolder folder;
  std::string text;
  for (int i = 0; i < 200; ++i)
    text += std::string(static_cast<std::size_t>(10 + i * 37 % 300), 'x') + (i % 3 ? "\n" : "\r\n\r\n\n");
  put(folder / "t.txt", text);
  for (const std::int64_t limit : {1, 50, 700, 100'000}) {
    const Read read = read_all({(folder / "t.txt").string()}, {.document_bytes = limit});
    BOOST_TEST(joined(read.texts) == text);
    if (limit == 700) {
      for (const std::string& part : read.texts) BOOST_TEST((part.size() <= 700 || !has(part, "\r\n\r\n\nx")));
    }
    if (limit == 100'000) BOOST_TEST(read.texts.size() == 1u);
  }
}

BOOST_AUTO_TEST_CASE(compressed_files_may_have_several_members_and_damage_is_noticed) {
  const test::TempFolder folder;
  const std::string lines = "{\"text\": \"one\"}\n{\"text\": \"two\"}\n";
  put(folder / "a.jsonl.gz", gzip(lines) + gzip("{\"text\": \"three\"}"));
  BOOST_TEST(joined(read_all({(folder / "a.jsonl.gz").string()}).texts) == "onetwothree");
  put(folder / "tape.jsonl.gz", gzip(lines) + std::string(512, '\0'));
  BOOST_TEST(joined(read_all({(folder / "tape.jsonl.gz").string()}).texts) == "onetwo");
  const std::string whole = gzip(std::string(100'000, 'a') + "b");
  for (const std::size_t cut : {0ul, 5ul, 40ul, whole.size() - 1}) {
    put(folder / "b.txt.gz", whole.substr(0, cut));
    BOOST_CHECK_THROW(read_all({(folder / "b.txt.gz").string()}), ArtifactError);
  }
  put(folder / "c.txt.gz", "not gzip at all");
  BOOST_TEST(has(message_of([&] { read_all({(folder / "c.txt.gz").string()}); }), "expected gzip data"));
  put(folder / "d.txt.zst", "not zstd at all");
  BOOST_TEST(has(message_of([&] { read_all({(folder / "d.txt.zst").string()}); }), "expected zstd data"));
}

BOOST_AUTO_TEST_CASE(real_gzip_and_zstd_lines_are_read,
                     *boost::unit_test::precondition(HasData{"fineweb/web-100.jsonl.gz"})) {
  BOOST_TEST(read_all({test::test_data("fineweb/web-100.jsonl.gz")->string()}).texts.size() == 100u);
  BOOST_TEST(read_all({test::test_data("fineweb/web-100b.jsonl.zst")->string()}).texts.size() == 100u);
}

BOOST_AUTO_TEST_CASE(json_lines_of_every_kind_are_classified,
                     *boost::unit_test::precondition(HasData{"text/edge.jsonl"})) {
  const Json expected = Json::parse(support::read_file(*test::test_data("text/edge-expected.json")));
  const Read read = read_all({test::test_data("text/edge.jsonl")->string()});
  std::map<std::uint64_t, std::string> texts;
  std::set<std::uint64_t> bad;
  for (std::size_t i = 0; i < read.texts.size(); ++i) texts[read.rows[i] + 1] = read.texts[i];
  for (const std::string& problem : read.problems) {
    const std::size_t at = problem.find("edge.jsonl:") + 11;
    bad.insert(std::stoul(problem.substr(at)));
  }
  int nulls = 0;
  for (const Json& item : expected) {
    const std::uint64_t line = item["line"];
    const std::string kind = item["class"];
    if (kind == "ok") BOOST_TEST(texts[line] == item["text"].get<std::string>(), "line " << line);
    if (kind == "either") BOOST_TEST(texts.count(line) == 1u);
    if (kind == "error" || kind == "no-text" || kind == "error-or-replaced")
      BOOST_TEST(bad.count(line) == 1u, "line " << line);
    if (kind == "blank") BOOST_TEST((texts.count(line) == 0 && bad.count(line) == 0));
    nulls += kind == "null";
  }
  BOOST_TEST(read.nulls == nulls);
}

BOOST_AUTO_TEST_CASE(parquet_files_of_every_writer_hold_the_same_rows,
                     *boost::unit_test::precondition(HasData{"parquet-matrix"})) {
  std::vector<std::optional<std::string>> expected;
  std::ifstream in(*test::test_data("parquet-matrix/expected.jsonl"));
  for (std::string line; std::getline(in, line);) {
    const Json text = Json::parse(line)["text"];
    expected.push_back(text.is_null() ? std::nullopt : std::optional(text.get<std::string>()));
  }
  BOOST_TEST(expected.size() == 81u);
  int files = 0;
  for (const auto& entry : fs::directory_iterator(*test::test_data("parquet-matrix"))) {
    const std::string name = entry.path().stem().string();
    if (entry.path().extension() != ".parquet") continue;
    if (name == "no-text-column") {
      BOOST_TEST(
          has(message_of([&] { data::ParquetText(entry.path(), "text"); }), "there is no column 'text'; it has"));
      continue;
    }
    if (name == "text-is-int") {
      BOOST_TEST(has(message_of([&] { data::ParquetText(entry.path(), "text"); }), "expected text, found INT"));
      continue;
    }
    auto wanted = expected;
    if (name == "required-not-null") std::erase_if(wanted, [](const auto& text) { return !text; });
    if (name == "all-null") wanted.assign(40, std::nullopt);
    if (name == "zero-rows" || name == "zero-rowgroups") wanted.clear();
    data::ParquetText file(entry.path(), name == "column-name-content" ? "content" : "text");
    std::vector<std::optional<std::string>> found;
    for (std::optional<std::string_view> text; file.next(text);) found.emplace_back(text);
    BOOST_TEST((found == wanted), name << ": " << found.size() << " rows");
    ++files;
  }
  BOOST_TEST(files > 25);
}

// A dictionary belongs to its row group: a reader that keeps it has other strings from the next group on.
BOOST_AUTO_TEST_CASE(dictionaries_end_with_their_row_group) {
  constexpr int kGroups = 20, kRows = 50;
  const test::TempFolder folder;
  for (const std::int64_t limit :
       {200, 1 << 20}) {  // each group falls back to plain pages after its first; and none does
    const fs::path path = folder / "d.parquet";
    const auto out = arrow::io::FileOutputStream::Open(path.string()).ValueOrDie();
    const auto properties = parquet::WriterProperties::Builder()
                                .enable_dictionary()
                                ->dictionary_pagesize_limit(limit)
                                ->data_pagesize(64)
                                ->write_batch_size(5)
                                ->build();
    const auto file = parquet::ParquetFileWriter::Open(out, text_schema(), properties);
    std::vector<std::string> expected;
    for (int group = 0; group < kGroups; ++group) {
      auto* writer = static_cast<parquet::ByteArrayWriter*>(file->AppendRowGroup()->NextColumn());
      for (int row = 0; row < kRows; ++row) {
        expected.push_back(support::cat("group ", group, ", value ", (row * 7 + group) % 23));
        const parquet::ByteArray value(expected.back());
        writer->WriteBatch(1, nullptr, nullptr, &value);
      }
    }
    file->Close();
    const auto reader = parquet::ParquetFileReader::OpenFile(path.string());
    BOOST_TEST_REQUIRE(reader->metadata()->num_row_groups() == kGroups);
    for (int group = 0; group < kGroups; ++group)
      BOOST_TEST(reader->metadata()->RowGroup(group)->ColumnChunk(0)->has_dictionary_page());
    BOOST_TEST(read_all({path.string()}).texts == expected, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(malformed_parquet_ends_in_a_message_within_a_second_and_100_mb,
                     *boost::unit_test::precondition(HasData{"parquet-matrix/malformed"})) {
  std::vector<fs::path> paths;
  for (const char* folder : {"parquet-matrix/malformed", "parquet-testing/bad_data", "parquet-testing"}) {
    for (const auto& entry : fs::directory_iterator(*test::test_data(folder))) {
      if (entry.is_regular_file() && entry.path().string().find(".parquet") != std::string::npos)
        paths.push_back(entry.path());
    }
  }
  for (const fs::path& path : paths) {
    const bool malformed = path.string().find("/malformed/") != std::string::npos;
    const double started = cpu_seconds();
    std::string message;
    std::uint64_t broken = 0;
    const std::int64_t grown = test::peak_growth([&] {
      // Any column of the file; of the malformed ones all, since other columns are not read.
      for (const char* column : {"text", "id", "a", "binary_col", "_1", "string_col"}) {
        try {
          data::ParquetText file(path, column);
          for (std::optional<std::string_view> text; file.next(text);)
            broken += text && support::find_invalid_utf8(*text) != std::string::npos;
        } catch (const ArtifactError& error) {
          message = error.what();
          BOOST_TEST(has(message, path.filename().string()));
        }
        if (malformed && (broken > 0 || !message.empty())) break;
      }
    });
    const double seconds = cpu_seconds() - started;
    BOOST_TEST(seconds < 1.0, path << " took " << seconds << " s");
    BOOST_TEST(grown < 100 << 20, path << " took " << grown << " bytes");
    if (malformed) BOOST_TEST((!message.empty() || broken > 0), path);
  }
  BOOST_TEST(paths.size() > 40u);
}

/// The finding: folders that are linked were hashed into the key, and not read.
BOOST_AUTO_TEST_CASE(what_is_hashed_is_what_is_read) {
  const test::TempFolder folder;
  put(folder / "elsewhere/deep/b.txt", "two");
  put(folder / "corpus/a.txt", "one");
  put(folder / "corpus/.cache/huggingface/a.txt", "cached");
  put(folder / "corpus/.a.txt.swp", "edited");
  fs::create_directory_symlink(folder / "elsewhere", folder / "corpus/linked");
  fs::create_directory_symlink(folder / "corpus", folder / "corpus/linked/round");
  fs::create_symlink(folder / "elsewhere/deep/b.txt", folder / "corpus/z.txt");
  const std::string corpus = (folder / "corpus").string();
  const Read read = read_all({corpus});
  BOOST_TEST(read.texts == (std::vector<std::string>{"one", "two"}));  // z.txt is b.txt again
  std::vector<std::string> hashed;
  for (const auto& [name, path] : support::list_files({corpus}).files) hashed.push_back(name);
  BOOST_TEST(hashed == (std::vector<std::string>{"a.txt", "linked/deep/b.txt", "z.txt"}));
  // Relative patterns, with a folder in front and without.
  BOOST_TEST(read_all({corpus + "/*/deep"}).sources == (std::vector<std::string>{"linked/deep/b.txt"}));
}

BOOST_AUTO_TEST_CASE(every_line_may_be_a_document) {
  const test::TempFolder folder;
  put(folder / "l.txt", "one\n\ntwo\r\nthree");
  const Read read = read_all({(folder / "l.txt").string()}, {.lines = true, .longest_document = 5});
  BOOST_TEST(read.texts == (std::vector<std::string>{"one", "", "two", "three"}));
  BOOST_TEST(read.rows == (std::vector<std::uint64_t>{0, 1, 2, 3}));
  put(folder / "l.txt", "12345\n123456\n123456789012345\r\n12345\r\n");
  const Read cut = read_all({(folder / "l.txt").string()}, {.lines = true, .longest_document = 5});
  BOOST_TEST(cut.texts == (std::vector<std::string>{"12345", "12345"}));
  BOOST_REQUIRE(cut.problems.size() == 2u);
  BOOST_TEST(has(cut.problems[0], "l.txt:2: a document is longer than"));
  BOOST_TEST(has(cut.problems[1], "l.txt:3: "));
  BOOST_TEST(cut.rows == (std::vector<std::uint64_t>{0, 3}));
}

BOOST_AUTO_TEST_CASE(documents_over_the_limit_are_bad_and_the_next_is_read) {
  const test::TempFolder folder;
  const std::string path = (folder / "d.txt").string();
  put(path, "one\n<|end|>\n" + std::string(50, 'x') + "\n<|end|>\ntwo\n" + std::string(9, 'y') + "\n" +
                std::string(9, 'y') + "\n<|end|>\nlast\n");
  Read read = read_all({path}, {.separator = "<|end|>", .longest_document = 15});
  BOOST_TEST(read.texts == (std::vector<std::string>{"one", "last\n"}));
  BOOST_TEST(read.rows == (std::vector<std::uint64_t>{0, 3}));
  BOOST_REQUIRE(read.problems.size() == 2u);
  BOOST_TEST(has(read.problems[0], "d.txt:3: a document is longer than 15 B"));
  // The rest of a long line is no separator, whatever it says.
  put(path, std::string(16, 'x') + "<|end|>\nrest\n<|end|>\nlast");
  read = read_all({path}, {.separator = "<|end|>", .longest_document = 15});
  BOOST_TEST(read.texts == (std::vector<std::string>{"last"}));
  // Cut at blank lines: only the paragraph that is too long goes.
  put(path, "a\n\n" + std::string(40, 'x') + "\n\nb\n\nc\n");
  read = read_all({path}, {.document_bytes = 10, .longest_document = 15});
  BOOST_TEST(read.problems.size() == 1u);
  BOOST_TEST(joined(read.texts) == "a\n\nb\n\nc\n");
  put(folder / "d.jsonl", "{\"text\": \"" + std::string(20, 'x') + "\"}\n{\"text\": \"good\"}\n{\"a\": \"" +
                              std::string(2 << 20, 'x') + "\"}\n{\"text\": \"better\"}\n");
  read = read_all({(folder / "d.jsonl").string()}, {.longest_document = 15});
  BOOST_TEST(read.texts == (std::vector<std::string>{"good", "better"}));
  BOOST_REQUIRE(read.problems.size() == 2u);
  BOOST_TEST(has(read.problems[0], "d.jsonl:1: a document is longer"));
  BOOST_TEST(has(read.problems[1], "d.jsonl:3: the line is longer than"));
}

BOOST_AUTO_TEST_CASE(a_document_of_a_gigabyte_costs_no_more_than_twice_the_limit) {
  const test::TempFolder folder;
  // 1 GB of zeros without room on the disk, and behind it a document.
  const std::string path = (folder / "big.txt").string();
  put(path, "");
  fs::resize_file(path, 1 << 30);
  std::ofstream(path, std::ios::app | std::ios::binary) << "\n<|end|>\nsmall";
  Read read;
  const std::int64_t grown = test::peak_growth([&] { read = read_all({path}, {.separator = "<|end|>"}); });
  BOOST_TEST(read.texts == (std::vector<std::string>{"small"}));
  BOOST_TEST(read.problems.size() == 1u);
  BOOST_TEST(grown < 2 * data::TextOptions().longest_document + (8 << 20));
}

BOOST_AUTO_TEST_CASE(bombs_in_json_end_in_a_message_within_a_second_and_100_mb) {
  const test::TempFolder folder;
  const std::size_t long_line = 31 << 20;
  std::string ones = "{\"x\": [1";
  while (ones.size() < long_line) ones += ",1";
  for (const auto& [name, text] : {std::pair{"deep", "{\"text\": " + std::string(long_line, '[')},
                                   std::pair{"objects",
                                             [&] {
                                               std::string t;
                                               while (t.size() < long_line) t += "{\"a\":";
                                               return t;
                                             }()},
                                   std::pair{"wide", ones + "], \"text\": 5}"},
                                   std::pair{"endless", "{\"text\": " + std::string(200 << 20, '[')}}) {
    const std::string path = (folder / (std::string(name) + ".jsonl.gz")).string();
    put(path, gzip(text));
    BOOST_TEST(fs::file_size(path) < 1u << 20);
    check_refused_cheaply(path);
    const Read read = read_all({path});
    BOOST_TEST(read.texts.empty());
    BOOST_REQUIRE(read.problems.size() == 1u);
  }
}

/// Bytes that unpack to a thousand times as many, of each compression and each way to divide a file.
BOOST_AUTO_TEST_CASE(compression_bombs_end_in_a_message_within_a_second_and_100_mb) {
  const test::TempFolder folder;
  const std::string zeros(256 << 20, '\0');
  const std::string packed[] = {gzip(zeros), zstd(zeros)};
  const char* const endings[] = {".gz", ".zst"};
  for (int i = 0; i < 2; ++i) {
    BOOST_TEST(packed[i].size() < 1u << 20);
    for (const char* name : {"bomb.txt", "bomb.jsonl"}) {
      const fs::path path = folder / (std::string(name) + endings[i]);
      put(path, packed[i]);
      check_refused_cheaply(path);
    }
    const std::string text = (folder / (std::string("bomb.txt") + endings[i])).string();
    BOOST_TEST(read_all({text}, {.lines = true}).problems.size() == 1u);
  }
  // A window of 2 GiB is more than the library promises memory for: a frame header with window log 31, and a raw block.
  put(folder / "window.txt.zst", std::string("\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00", 9));
  check_refused_cheaply(folder / "window.txt.zst");
  BOOST_TEST(has(message_of([&] { read_all({(folder / "window.txt.zst").string()}); }), "more than 128 MiB"));
}

/// A name says one thing and the content another: a page of an error, a picture, another format, nothing.
BOOST_AUTO_TEST_CASE(foreign_and_truncated_files_are_refused_by_every_reader) {
  const test::TempFolder folder;
  const std::string foreign[] = {"<!DOCTYPE html>\n<html><body>404</body></html>\n",
                                 std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16),
                                 std::string("\x89HDF\r\n\x1a\n\0\0\0\0\0\x08\x08\0", 16),
                                 "version https://git-lfs.github.com/spec/v1\n", std::string(5000, '\xff')};
  for (const char* name : {"f.jsonl", "f.jsonl.gz", "f.jsonl.zst", "f.txt.gz", "f.txt.zst", "f.parquet"}) {
    for (const std::string& content : foreign) {
      put(folder / name, content);
      check_refused_cheaply(folder / name);
    }
    BOOST_TEST_CONTEXT(name) {
      put(folder / name, "");
      if (std::string(name) != "f.jsonl") check_refused_cheaply(folder / name);  // no lines are no mistake
    }
  }
  std::string lines;
  for (int i = 0; i < 200; ++i) lines += "{\"text\": \"line " + std::to_string(i * i * 7919) + "\"}\n";
  const std::pair<const char*, std::string> whole[] = {{"t.jsonl.gz", gzip(lines)}, {"t.jsonl.zst", zstd(lines)}};
  for (const auto& [name, bytes] : whole) {
    for (std::size_t cut = 0; cut < bytes.size(); cut += 1 + bytes.size() / 23) {
      put(folder / name, bytes.substr(0, cut));
      check_refused_cheaply(folder / name);
    }
    put(folder / name, bytes);
    BOOST_TEST(read_all({(folder / name).string()}).texts.size() == 200u);
  }
}

BOOST_AUTO_TEST_CASE(truncated_parquet_is_refused_at_every_length,
                     *boost::unit_test::precondition(HasData{"parquet-matrix"})) {
  const test::TempFolder folder;
  const std::string whole = support::read_file(*test::test_data("parquet-matrix/codec-zstd.parquet"));
  for (std::size_t cut = 0; cut < whole.size(); cut += 1 + whole.size() / 37) {
    put(folder / "cut.parquet", whole.substr(0, cut));
    check_refused_cheaply(folder / "cut.parquet");
    // And with the end that a reader looks at first.
    put(folder / "hole.parquet", whole.substr(0, cut / 2) + whole.substr(whole.size() - cut / 2));
    check_refused_cheaply(folder / "hole.parquet");
  }
}

/// A document just below the limit costs at most twice the limit, one above it no more.
BOOST_AUTO_TEST_CASE(long_documents_stay_within_twice_the_limit) {
  const test::TempFolder folder;
  const std::int64_t limit = data::TextOptions().longest_document;
  for (const std::int64_t bytes : {limit - 10, 4 * limit}) {
    const std::string word(static_cast<std::size_t>(bytes), 'x');
    put(folder / "d.txt", word);
    put(folder / "d.txt.gz", gzip(word));
    put(folder / "d.txt.zst", zstd(word));
    const std::string line = "{\"id\": 1, \"text\": \"\\u0078" + word.substr(1) + "\", \"n\": 2}\n";
    put(folder / "d.jsonl", line + line);  // two, so that the first is still held when the second is read
    put(folder / "d.jsonl.zst", zstd(line + line));
    for (const char* name : {"d.txt", "d.txt.gz", "d.txt.zst", "d.jsonl", "d.jsonl.zst"}) {
      const auto source = data::make_file_source({{folder / name, name}}, {});
      Outcome first = Outcome::kEnd;
      const std::int64_t grown = test::peak_growth([&] {
        DocumentSource::Item item;
        first = source->next(item);
        while (source->next(item) != Outcome::kEnd) {
        }
      });
      BOOST_TEST((first == (bytes < limit ? Outcome::kDocument : Outcome::kBad)), name);
      BOOST_TEST(grown < 2 * limit + (8 << 20), name << " with " << bytes << " bytes took " << grown);
    }
  }
}

/// Pages of a document each. One above the limit costs its page, which is unpacked whole.
BOOST_AUTO_TEST_CASE(long_documents_of_parquet_stay_within_twice_the_limit) {
  const test::TempFolder folder;
  const std::int64_t limit = data::TextOptions().longest_document;
  std::string word(static_cast<std::size_t>(limit) - 10, 'x');
  support::Xoshiro random(1);
  for (char& byte : word) byte = static_cast<char>('a' + random.below(26));  // so that compression saves little
  for (const auto codec :
       {parquet::Compression::UNCOMPRESSED, parquet::Compression::SNAPPY, parquet::Compression::ZSTD}) {
    const fs::path path = folder / "d.parquet";
    write_parquet(path, {word, "short", word}, codec);
    std::uint64_t documents = 0;
    const std::int64_t grown = test::peak_growth([&] {
      const auto source = data::make_file_source({{path, "d.parquet"}}, {});
      DocumentSource::Item item;
      while (source->next(item) == Outcome::kDocument) ++documents;
    });
    BOOST_TEST(documents == 3u);
    BOOST_TEST(grown < 2 * limit + (16 << 20), "codec " << codec << " took " << grown);
  }
}

BOOST_AUTO_TEST_CASE(filters_keep_rows_of_json_lines) {
  const test::TempFolder folder;
  put(folder / "f.jsonl", R"({"text": "a", "int_score": 3, "language": "en"})"
                          "\n"
                          R"({"int_score": 2, "text": "b", "language": "en", "deep": {"int_score": 9, "text": "no"}})"
                          "\n"
                          R"({"text": "c", "int_score": 4.5, "language": "de"})"
                          "\n"
                          R"({"text": "d", "int_score": null, "language": "en"})"
                          "\n"
                          R"({"text": "e", "language": "en"})"
                          "\n"
                          R"({"text": "f", "int_score": "3", "language": "en"})"
                          "\n"
                          R"({"text": "g", "int_score": 1, "int_score": 5, "language": "en"})"
                          "\n");
  const std::string path = (folder / "f.jsonl").string();
  const Read read = read_all({path}, {.filter = {"int_score >= 3", "language == en"}});
  BOOST_TEST(joined(read.texts) == "ag");
  BOOST_TEST(read.filtered == 4);
  BOOST_REQUIRE(read.problems.size() == 1u);
  BOOST_TEST(
      has(read.problems[0], "f.jsonl:6: key 'int_score': filter 'int_score >= 3' compares with a number, found text"));
  BOOST_TEST(joined(read_all({path}, {.filter = {"language != \"en\""}}).texts) == "c");
  BOOST_TEST(joined(read_all({path}, {.filter = {"text == c"}}).texts) == "c");  // the text itself may be asked
  const auto refused = [&](const std::string& filter) {
    return message_of([&] { read_all({path}, {.filter = {filter}}); });
  };
  BOOST_TEST(has(refused("int_score"), "there is no comparison"));
  BOOST_TEST(has(refused(">= 3"), "no column is named"));
  BOOST_TEST(has(refused("a >="), "nothing to compare"));
  BOOST_TEST(has(refused("a = 3"), "unknown comparison '='"));
  put(folder / "t.txt", "x");
  BOOST_TEST(
      has(message_of([&] { read_all({(folder / "t.txt").string()}, {.filter = {"a > 1"}}); }), "has no columns"));
}

BOOST_AUTO_TEST_CASE(filters_read_unsigned_columns_of_parquet) {
  const test::TempFolder folder;
  const std::string path = (folder / "u.parquet").string();
  using parquet::LogicalType;
  using parquet::Repetition;
  using parquet::schema::PrimitiveNode;
  const parquet::schema::NodeVector columns = {
      PrimitiveNode::Make("text", Repetition::REQUIRED, LogicalType::String(), parquet::Type::BYTE_ARRAY),
      PrimitiveNode::Make("small", Repetition::REQUIRED, LogicalType::Int(32, false), parquet::Type::INT32),
      PrimitiveNode::Make("large", Repetition::REQUIRED, LogicalType::Int(64, false), parquet::Type::INT64)};
  const auto schema = std::static_pointer_cast<parquet::schema::GroupNode>(
      parquet::schema::GroupNode::Make("schema", Repetition::REQUIRED, columns));
  const auto file = parquet::ParquetFileWriter::Open(arrow::io::FileOutputStream::Open(path).ValueOrDie(), schema);
  auto* group = file->AppendRowGroup();
  const parquet::ByteArray texts[] = {parquet::ByteArray("a"), parquet::ByteArray("b")};
  const std::int32_t small[] = {3, -1};  // the bits of 4,294,967,295
  const std::int64_t large[] = {3, -1};  // and of 2^64 - 1
  static_cast<parquet::ByteArrayWriter*>(group->NextColumn())->WriteBatch(2, nullptr, nullptr, texts);
  static_cast<parquet::Int32Writer*>(group->NextColumn())->WriteBatch(2, nullptr, nullptr, small);
  static_cast<parquet::Int64Writer*>(group->NextColumn())->WriteBatch(2, nullptr, nullptr, large);
  file->Close();
  for (const char* filter : {"small == 4294967295", "large > 18e18"})
    BOOST_TEST(joined(read_all({path}, {.filter = {filter}}).texts) == "b", filter);
  for (const char* filter : {"small < 4", "large < 4"})
    BOOST_TEST(joined(read_all({path}, {.filter = {filter}}).texts) == "a", filter);
}

BOOST_AUTO_TEST_CASE(filters_compare_float32_columns_as_they_are) {
  const test::TempFolder folder;
  const std::string path = (folder / "f.parquet").string();
  using parquet::Repetition;
  using parquet::schema::PrimitiveNode;
  const parquet::schema::NodeVector columns = {
      PrimitiveNode::Make("text", Repetition::REQUIRED, parquet::LogicalType::String(), parquet::Type::BYTE_ARRAY),
      PrimitiveNode::Make("score", Repetition::REQUIRED, parquet::LogicalType::None(), parquet::Type::FLOAT)};
  const auto schema = std::static_pointer_cast<parquet::schema::GroupNode>(
      parquet::schema::GroupNode::Make("schema", Repetition::REQUIRED, columns));
  const auto file = parquet::ParquetFileWriter::Open(arrow::io::FileOutputStream::Open(path).ValueOrDie(), schema);
  auto* group = file->AppendRowGroup();
  const parquet::ByteArray texts[] = {parquet::ByteArray("a"), parquet::ByteArray("b")};
  const float scores[] = {0.65F, 0.1F};  // below 0.65, above 0.1
  static_cast<parquet::ByteArrayWriter*>(group->NextColumn())->WriteBatch(2, nullptr, nullptr, texts);
  static_cast<parquet::FloatWriter*>(group->NextColumn())->WriteBatch(2, nullptr, nullptr, scores);
  file->Close();
  for (const char* filter : {"score >= 0.65", "score == 0.65", "score > 0.1"})
    BOOST_TEST(joined(read_all({path}, {.filter = {filter}}).texts) == "a", filter);
  BOOST_TEST(joined(read_all({path}, {.filter = {"score <= 0.1"}}).texts) == "b");
}

BOOST_AUTO_TEST_CASE(filters_keep_rows_of_parquet, *boost::unit_test::precondition(HasData{"parquet-matrix"})) {
  // n is the length of the text; every codec and writer, nulls included.
  std::vector<std::string> expected;
  std::ifstream in(*test::test_data("parquet-matrix/expected.jsonl"));
  for (std::string line; std::getline(in, line);) {
    const Json text = Json::parse(line)["text"];
    if (text.is_string() && text.get_ref<const std::string&>().size() >= 500) expected.push_back(text);
  }
  BOOST_REQUIRE(expected.size() > 5u);
  for (const char* name : {"codec-snappy", "rowgroups-16", "small-pages", "v2page-zstd", "writer-duckdb-zstd"}) {
    const std::string path = test::test_data("parquet-matrix")->string() + "/" + name + ".parquet";
    Read read = read_all({path}, {.filter = {"n >= 500"}});
    BOOST_TEST((read.texts == expected), name << ": " << read.texts.size() << " of " << expected.size());
    BOOST_TEST(read.filtered > 0);
    BOOST_TEST(has(message_of([&] { read_all({path}, {.filter = {"n == many"}}); }),
                   "compares with text, the column holds a number"));
    BOOST_TEST(has(message_of([&] { read_all({path}, {.filter = {"m == 1"}}); }), "there is no column 'm'; it has"));
    read = read_all({path}, {.longest_document = 1000});
    BOOST_TEST(read.problems.size() > 0u);
    BOOST_TEST(has(read.problems[0], "a document has"));
  }
}

BOOST_AUTO_TEST_CASE(unreadable_is_not_damaged_and_bytes_are_escaped) {
  const test::TempFolder folder;
  put(folder / "p.parquet/inside", "x");  // a folder cannot be read as a file
  BOOST_CHECK_THROW(data::ParquetText(folder / "p.parquet", "text"), support::IoError);
  BOOST_CHECK_THROW(data::ParquetText(folder / "vanished.parquet", "text"), support::IoError);
  put(folder / "b.jsonl", "{\"text\": \x1b[31m\xff\"}\n[1]\n");
  const Read read = read_all({(folder / "b.jsonl").string()});
  BOOST_REQUIRE(read.problems.size() == 2u);
  for (const std::string& problem : read.problems) {
    BOOST_TEST(problem.find('\x1b') == std::string::npos);
    BOOST_TEST(support::find_invalid_utf8(problem) == std::string::npos);
  }
  BOOST_TEST(has(read.problems[1], "b.jsonl:2: expected a JSON object, found an array"));
}

BOOST_AUTO_TEST_SUITE_END()
