// The Python module pe_pipeline reads the files of our writers; the code of doc/python.md runs, its figures included.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "artifact/checkpoint.h"
#include "artifact/eval_table.h"
#include "artifact/header.h"
#include "artifact/metrics.h"
#include "artifact/token_shards.h"
#include "report/figures/figure.h"
#include "support/files.h"
#include "support/installed.h"
#include "support/json.h"
#include "support/markdown.h"
#include "support/process.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace fs = std::filesystem;
using namespace pe;
using artifact::ColumnType;
using artifact::Dtype;
using artifact::Table;
using boost::unit_test::precondition;

namespace {

const artifact::Recipe kRecipe{
    .stage = "pe-test", .version = 3, .task_key = "", .config = {{"seed", 42}}, .inputs = Json::object()};

/// Hashes of documents, as a checkpoint of a training on text has them.
const std::vector<std::uint64_t> kTrainedOn{3, std::uint64_t{1} << 63};

/// Runs a script that can import pe_pipeline, in `folder`; modules in `before` come before modules of the machine.
support::CapturedOutput run_python(const fs::path& folder, const std::vector<std::string>& arguments,
                                   const std::string& input = {}, const fs::path& before = {}) {
  const std::string modules = (before.empty() ? "" : before.string() + ":") + (test::source_root() / "tools").string();
  std::vector<std::string> command{"env",
                                   "PYTHONPATH=" + modules,
                                   "PYTHONDONTWRITEBYTECODE=1",
                                   "MPLBACKEND=Agg",
                                   "MPLCONFIGDIR=" + folder.string(),
                                   "/usr/bin/python3"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return support::capture(command, input, 64u << 20, folder);
}

void write_scores(const fs::path& path) {
  Table documents("documents", {{"name", ColumnType::kText, ""},
                                {"L", ColumnType::kInteger, "tokens"},
                                {"nll", ColumnType::kReal, "nats"},
                                {"row", ColumnType::kInteger, ""}});
  documents.add_row({"abc", 128, 3.25, 0});
  documents.add_row({"naïve", std::nullopt, std::numeric_limits<double>::quiet_NaN(), 1});
  documents.add_row({std::nullopt, 0, std::nullopt, 2});
  documents.add_row({"", -5, -std::numeric_limits<double>::infinity(), 3});
  documents.attributes["stride"] = "64";
  const Table empty("empty", {{"ppl", ColumnType::kReal, ""}, {"status", ColumnType::kText, ""}});
  artifact::write_eval_tables(path, kRecipe, {{documents, empty}, {{"labels", {{"seed", "42"}}}}});
}

void write_model(const fs::path& path) {
  artifact::CheckpointMeta meta;
  meta.step = 12;
  meta.tokens_seen = 4096;
  meta.tokenizer_digest = "aa";
  meta.parents = {"11", "22"};
  meta.model = {{"width", 4}};
  meta.encoding = {{"kind", "rope"}, {"base", 10000.0}};
  for (const std::uint64_t hash : kTrainedOn) meta.trained_on.add(hash);
  artifact::CheckpointWriter writer(path, kRecipe, meta);
  const std::vector<float> weights{0.5f, -1.5f, 2.5f, 3.5f, 4.5f, 5.5f};
  writer.add({"model/embedding", Dtype::kF32, {3, 2}}, std::as_bytes(std::span(weights)));
  const std::vector<std::uint16_t> bf16{0x3f80, 0xc040}, f16{0x3c00, 0xc200};  // 1 and -3 in either
  writer.add({"model/bf16", Dtype::kBF16, {2}}, std::as_bytes(std::span(bf16)));
  writer.add({"model/f16", Dtype::kF16, {2}}, std::as_bytes(std::span(f16)));
  const std::int64_t step = 12;
  writer.add({"optim/step", Dtype::kI64, {}}, std::as_bytes(std::span(&step, 1)));
  writer.finish(false);
}

void write_shards(const fs::path& folder) {
  artifact::TokenizerRecord tokenizer;
  tokenizer.kind = "bytes";
  tokenizer.vocabulary = 9;
  tokenizer.bos_id = 8;
  tokenizer.token_bytes = {1, 1, 1, 1, 1, 1, 1, 1, 0};
  artifact::TokenShardsWriter writer(folder, kRecipe, tokenizer,
                                     5);  // five tokens a shard: the third document begins a second
  const std::vector<std::vector<std::int32_t>> documents{{8, 1, 2}, {8, 3}, {8, 4, 5, 6}};
  for (std::size_t i = 0; i < documents.size(); ++i) {
    writer.add(artifact::Split::kTrain, documents[i].data(), documents[i].size(), 10 + static_cast<std::uint32_t>(i),
               7 * i);
  }
  const std::vector<std::int32_t> held_out{8, 7};
  writer.add(artifact::Split::kTest, held_out.data(), held_out.size(), 1, 3);
  artifact::DatasetTotals totals;
  writer.finish(totals);
}

report::Figure curves(const std::string& id) {
  using Role = report::Series::Role;
  report::Figure figure{.id = id, .title = "Loss"};
  report::Panel panel{.title = "sliding, scored beyond the first window"};
  for (const char* name : {"rope", "none"}) {
    panel.series.push_back(
        {.name = name, .role = Role::kMain, .look = {}, .points = {{128, 20, 19, 21, 3}, {256, NAN}, {512, INFINITY}}});
    panel.series.push_back({.name = name, .seed = "042", .role = Role::kSeed, .look = {}, .points = {{128, 20.5}}});
  }
  figure.panels = {panel};
  return figure;
}

void write_text(const fs::path& path, const std::string& text) {
  support::make_folders(path.parent_path());
  support::write_file_atomically(path, text, false);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(python_reader)

BOOST_AUTO_TEST_CASE(what_our_writers_write_is_what_python_reads, *precondition(test::PythonHas{"h5py, pandas"})) {
  const test::TempFolder folder;
  write_scores(folder / "scores.h5");
  write_model(folder / "model.h5");
  write_shards(folder / "shards");
  write_shards(folder / "damaged");
  fs::copy_file(folder / "damaged/dataset.h5", folder / "damaged/train-00000.h5", fs::copy_options::overwrite_existing);
  write_text(folder / "report/data/figure_loss.csv", report::figure_csv(curves("loss")));
  write_text(folder / "plain.txt", "no HDF5\n");
  artifact::write_artifact(folder / "newer.h5", artifact::Kind::kMetrics, 99, kRecipe, [](artifact::h5::Group&) {});
  const support::CapturedOutput ran =
      run_python(folder.path(), {(test::source_root() / "tests/python/read_back.py").string(), folder.path().string()});
  BOOST_REQUIRE_MESSAGE(ran.status.code == 0, ran.err);
  const Json read = Json::parse(ran.out);

  BOOST_TEST(read.at("tables") == Json({"documents", "empty"}));
  BOOST_TEST(read.at("facts") == Json::parse(R"({"labels": {"seed": "42"}})"));
  BOOST_TEST(read.at("columns").at("name") == Json({"abc", "naïve", "NA", ""}));
  BOOST_TEST(read.at("columns").at("L") == Json({128, "NA", 0, -5}));
  BOOST_TEST(read.at("columns").at("nll") == Json({3.25, "nan", "NA", "-inf"}));
  BOOST_TEST(read.at("columns").at("row") == Json({0, 1, 2, 3}));
  BOOST_TEST(read.at("types") == Json::parse(R"({"name": "string", "L": "Int64", "nll": "Float64", "row": "int64"})"));
  BOOST_TEST(read.at("plotted") == Json({3.25, "nan", "nan", "-inf"}));
  BOOST_TEST(read.at("attrs").at("units").at("L") == "tokens");
  BOOST_TEST(read.at("attrs").at("attributes") == Json::parse(R"({"stride": "64"})"));
  BOOST_TEST(read.at("empty") == 0);
  BOOST_TEST(read.at("stage") == "pe-test");

  const Json& meta = read.at("meta");
  BOOST_TEST(meta.at("step") == 12);
  BOOST_TEST(meta.at("status") == "ok");
  BOOST_TEST(meta.at("parents") == Json({"11", "22"}));
  BOOST_TEST(meta.at("encoding").at("base") == 10000.0);
  BOOST_TEST(meta.at("trained_on") == Json(kTrainedOn));
  BOOST_TEST(read.at("tensors") ==
             Json::parse(R"({"model/bf16": ["bf16", [2], 2], "model/embedding": ["f32", [3, 2], 6],
                                                   "model/f16": ["f16", [2], 2], "optim/step": ["i64", [], 1]})"));
  BOOST_TEST(read.at("values") == Json::parse(R"({"model/bf16": [1.0, -3.0], "model/f16": [1.0, -3.0], "optim/step": 12,
                                                  "model/embedding": [[0.5, -1.5], [2.5, 3.5], [4.5, 5.5]]})"));
  BOOST_TEST(read.at("kinds").at("model/bf16") == "float32");

  BOOST_TEST(read.at("tokens") ==
             Json::parse(R"({"train": [8, 1, 2, 8, 3, 8, 4, 5, 6], "validation": [], "test": [8, 7]})"));
  BOOST_TEST(read.at("documents") == Json::parse("[[8, 1, 2], [8, 3], [8, 4, 5, 6]]"));
  BOOST_TEST(read.at("document_table") ==
             Json::parse(R"({"tokens": [3, 2, 4], "bytes": [10, 11, 12], "index": [0, 7, 14]})"));
  BOOST_TEST(read.at("tokenizer") == Json::parse(R"({"kind": "bytes", "vocabulary": 9, "bos_id": 8})"));
  BOOST_TEST(read.at("token_bytes") == Json({1, 1, 1, 1, 1, 1, 1, 1, 0}));
  BOOST_TEST(read.at("totals") == Json::parse(R"({"documents": 3, "tokens": 9, "bytes": 33})"));

  BOOST_TEST(read.at("curves").at("seed") == Json({"", "", "", "042", "", "", "", "042"}));
  BOOST_TEST(read.at("curves").at("y") == Json({20.0, "nan", "inf", 20.5, 20.0, "nan", "inf", 20.5}));
  BOOST_TEST(read.at("curves").at("series").at(4) == "none");  // the name of an encoding, and no missing value

  const std::vector<std::string> errors{"expected kind metrics or eval-table, found checkpoint",
                                        "no such file",
                                        "not a readable HDF5 file",
                                        "has no table 'document'; it has documents, empty",
                                        "has no tensor 'embedding'; did you mean model/embedding?",
                                        "found no manifest.json in it",
                                        "no split 'dev'; there are train, validation, test",
                                        "has no figure 'lost'; it has loss",
                                        "format 99 of metrics is newer than this reader, which knows up to 1",
                                        "train-00000.h5': damaged: ",
                                        "train-00000.h5': damaged: ",
                                        "train-00000.h5': damaged: "};
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const std::string found = read.at("errors").at(i);
    BOOST_TEST(found.find(errors[i]) != std::string::npos, found << " lacks: " << errors[i]);
  }
}

namespace {

/// True for code of doc/python.md that starts no run: runs_test.py has the rest.
bool reads_artifacts(const test::CodeBlock& block) {
  return block.language == "python" && block.text.find("pe_pipeline.run(") == std::string::npos;
}

/// The files that doc/python.md names, as a run of the quickstart leaves them.
void imitate_quickstart(const fs::path& root) {
  for (const char* encoding : {"none", "rope"}) {
    const std::string cell = support::cat("encoding=", encoding, ",seed=42");
    const fs::path train_folder = root / "out/quickstart/train", evaluate = root / "out/quickstart/evaluate";
    support::make_folders(train_folder);
    support::make_folders(evaluate);
    Table train("train", artifact::train_columns());
    for (int step = 1; step <= 20; ++step) train.add_row({step, step * 1024, 5.0 / step, 2.0 / step, 1e-3, 0.5, 0});
    artifact::write_metrics(train_folder / (cell + ".metrics.h5"), kRecipe, {{train}, Json::object()});
    write_model(train_folder / (cell + ".model.h5"));
    Table summary("lm_summary", {{"protocol", ColumnType::kText, ""},
                                 {"L", ColumnType::kInteger, "tokens"},
                                 {"ppl", ColumnType::kReal, ""},
                                 {"status", ColumnType::kText, ""}});
    for (const int length : {128, 256, 512}) summary.add_row({"sliding", length, 30.0 + length / 64, "ok"});
    summary.add_row({"sliding", 1024, std::nullopt, "na_positions"});
    artifact::write_eval_tables(evaluate / support::cat("from=train,encoding=", encoding, ",seed=42.h5"), kRecipe,
                                {{summary}, {{"labels", {{"encoding", encoding}}}}});
  }
  write_shards(root / "out/quickstart/tokenize/tokenize");
  write_text(root / "reports/quickstart/latest/data/figure_perplexity_length.csv",
             report::figure_csv(curves("perplexity_length")));
}

}  // namespace

BOOST_AUTO_TEST_CASE(weights_and_tokens_are_read_without_pandas, *precondition(test::PythonHas{"h5py"})) {
  const std::string page = support::read_file(test::source_root() / "doc/python.md");
  const test::TempFolder folder;
  imitate_quickstart(folder.path());
  write_text(folder / "hidden/pandas.py", "raise ImportError('hidden')\n");
  int ran_blocks = 0, refused_blocks = 0;
  for (const test::CodeBlock& block : test::code_blocks(page)) {
    if (!reads_artifacts(block) || block.text.find("matplotlib") != std::string::npos) continue;
    const support::CapturedOutput ran = run_python(folder.path(), {"-"}, block.text, folder / "hidden");
    bool makes_frames = false;
    for (const char* call : {"read_tables", ".tensors", ".table("})
      makes_frames = makes_frames || block.text.find(call) != std::string::npos;
    ++(makes_frames ? refused_blocks : ran_blocks);
    BOOST_TEST((ran.status.code == 0) == !makes_frames, "doc/python.md:" << block.line << ": " << ran.err);
    if (makes_frames) BOOST_TEST(ran.err.find("this Python has no pandas") != std::string::npos, ran.err);
  }
  BOOST_TEST(ran_blocks >= 2);
  BOOST_TEST(refused_blocks >= 2);
}

BOOST_AUTO_TEST_CASE(the_code_of_the_document_runs_as_it_stands_there,
                     *precondition(test::PythonHas{"h5py, pandas, matplotlib"})) {
  const std::string page = support::read_file(test::source_root() / "doc/python.md");
  const test::TempFolder folder;
  imitate_quickstart(folder.path());
  int ran_blocks = 0;
  for (const test::CodeBlock& block : test::code_blocks(page)) {
    if (!reads_artifacts(block)) continue;
    ++ran_blocks;
    const support::CapturedOutput ran = run_python(folder.path(), {"-W", "error::UserWarning", "-"}, block.text);
    BOOST_TEST(ran.status.code == 0, "doc/python.md:" << block.line << ": " << ran.err);
    BOOST_TEST((block.text.find("print(") == std::string::npos) == ran.out.empty(),
               "doc/python.md:" << block.line << " printed: " << ran.out);
  }
  BOOST_TEST(ran_blocks >= 6);
  for (const char* name : {"loss.pdf", "perplexity.pdf"}) {
    BOOST_REQUIRE_MESSAGE(fs::exists(folder / name), name << " was not drawn");
    BOOST_TEST(support::read_file(folder / name).substr(0, 5) == "%PDF-");
    BOOST_TEST(fs::file_size(folder / name) > 3000u);
  }
}

BOOST_AUTO_TEST_SUITE_END()
