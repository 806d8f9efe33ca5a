#include "fuzz/targets.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "artifact/artifact_check.h"
#include "artifact/collection.h"
#include "data/byte_level_bpe.h"
#include "data/hub/hub.h"
#include "data/reading/document_source.h"
#include "data/sentencepiece_model.h"
#include "pipeline/cluster/slurm_answers.h"
#include "pipeline/expand/expand.h"
#include "pipeline/file/pipeline_file.h"
#include "pipeline/grid_fixture.h"
#include "pipeline/plan/key.h"
#include "support/error.h"
#include "support/text.h"
#include "support/yaml.h"

namespace pe::fuzz {

namespace {

/// An Error is an answer; anything else that leaves a reader is a mistake and ends the fuzzer.
template <typename Body>
void expect_answer(Body&& body) {
  try {
    body();
  } catch (const support::Error& error) {
    if (error.exit_code() == support::kExitBug) throw;
  }
}

/// A file of this process with such an ending.
std::string put(std::string_view bytes, const std::string& ending) {
  const std::string path = (std::filesystem::temp_directory_path() / ("pe-fuzz-" + std::to_string(::getpid()) + ending)).string();
  std::ofstream(path, std::ios::binary | std::ios::trunc).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

void read_documents(std::string_view bytes, const std::string& ending, const data::TextOptions& options) {
  const std::string path = put(bytes, ending);
  expect_answer([&] {
    const auto source = data::make_file_source({{path, "fuzz" + ending}}, options);
    data::DocumentSource::Item item;
    for (auto outcome = source->next(item); outcome != data::DocumentSource::Outcome::kEnd; outcome = source->next(item)) {
      if (outcome != data::DocumentSource::Outcome::kDocument) continue;
      if (item.text.size() > static_cast<std::size_t>(options.longest_document)) throw std::logic_error("a document is too long");
    }
  });
  ::unlink(path.c_str());
}

void visit(const support::Node& node) {
  node.place().str();
  node.found();
  for (const auto& item : node.items) visit(item);
  for (const auto& member : node.members) visit(member.value);
}

}  // namespace

void read_yaml(std::string_view bytes) {
  expect_answer([&] {
    const support::Node root = support::parse_yaml(bytes, "fuzz.yml");
    visit(root);
    support::to_json(root);
  });
  support::parse_integer(bytes, support::Suffixes::kCount);
  support::parse_real(bytes, support::Suffixes::kSeconds);
}

void read_pipeline_file(std::string_view bytes) {
  expect_answer([&] { pipeline::parse_pipeline_file(bytes, "fuzz.yml", "/nonexistent"); });
}

void expand_pipeline(std::string_view bytes) {
  static const test::GridFolder folder;
  static pipeline::StageCatalog catalog = test::stage_catalog();
  expect_answer([&] {
    auto graph = pipeline::expand(pipeline::parse_pipeline_file(bytes, "fuzz.yml", folder.root()), catalog,
                                  test::GridFolder::plain_options());
    if (graph.tasks.size() > 5000) return;   // more would only be slow
    pipeline::compute_plan_keys(graph);
  });
}

void read_manifest(std::string_view bytes) {
  expect_answer([&] { artifact::Manifest::parse(bytes, "manifest.json"); });
}

void read_artifact(std::string_view bytes) {
  const std::string path = put(bytes, ".h5");
  for (const artifact::Kind kind : artifact::all_kinds()) {
    if (!artifact::is_collection(kind)) expect_answer([&] { artifact::check_artifact(path, kind); });
  }
  ::unlink(path.c_str());
}

void read_json_lines(std::string_view bytes) { read_documents(bytes, ".jsonl", {.filter = {"n >= 3"}, .longest_document = 1000}); }

void read_text_file(std::string_view bytes) {
  read_documents(bytes, ".txt", {.separator = "--", .longest_document = 60});
  read_documents(bytes, ".txt", {.document_bytes = 20, .longest_document = 60});
  read_documents(bytes, ".txt", {.lines = true, .longest_document = 10});
}

void read_gzip(std::string_view bytes) { read_documents(bytes, ".jsonl.gz", {}); }
void read_zstd(std::string_view bytes) { read_documents(bytes, ".jsonl.zst", {}); }

void read_parquet(std::string_view bytes) {
  read_documents(bytes, ".parquet", {});
  read_documents(bytes, ".parquet", {.filter = {"n >= 3"}});
}

void read_sentencepiece(std::string_view bytes) {
  expect_answer([&] { data::content_hash(data::parse_model(bytes, "fuzz.model")); });
}

void read_byte_level(std::string_view bytes) {
  const std::size_t half = std::min(bytes.find("\n--\n"), bytes.size());
  expect_answer([&] {
    const std::string model = data::pack_byte_level({std::string(bytes.substr(0, half)), std::string(bytes.substr(std::min(bytes.size(), half + 4)))}, "fuzz");
    const auto tokenizer = data::make_byte_level(model, "fuzz");
    if (tokenizer->decode(tokenizer->encode(bytes)) != bytes) throw std::logic_error("text did not come back");
  });
}

void read_hub_answer(std::string_view bytes) {
  expect_answer([&] { data::parse_listing(bytes, "fuzz"); });
  expect_answer([&] {
    const data::FetchLock lock = data::FetchLock::parse(bytes, "fuzz.lock");
    if (data::FetchLock::parse(lock.render(), "again").render() != lock.render()) throw std::logic_error("a lock did not come back");
  });
  expect_answer([&] { data::parse_url_list(bytes, "fuzz.txt"); });
  data::next_page(std::string(bytes));
  data::HttpAnswer answer;
  answer.status = 429;
  answer.headers = {{"ratelimit", std::string(bytes)}, {"retry-after", std::string(bytes)}, {"x-error-message", std::string(bytes)}};
  data::wait_before(answer, 1, {});
  data::describe(answer);
}

void read_slurm_answer(std::string_view bytes) {
  for (const pipeline::JobRow& row : pipeline::parse_queue(bytes).rows) pipeline::is_final(row.state);
  pipeline::parse_accounts(bytes);
  pipeline::parse_submitted(bytes);
  pipeline::parse_config(bytes);
  pipeline::parse_records(bytes);
  pipeline::parse_elapsed(bytes);
  pipeline::classify_refusal(bytes);
}

}  // namespace pe::fuzz
