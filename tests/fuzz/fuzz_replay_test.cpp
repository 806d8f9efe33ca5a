// The fuzz targets on built-in seeds, whole, cut at every byte and with single bytes changed.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <vector>

#include "fuzz/targets.h"
#include "pipeline/grid_fixture.h"
#include "support/files.h"
#include "support/random.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace {

using Target = void (*)(std::string_view);

/// `cuts` prefixes, evenly spread, and as many copies with one byte changed; the same ones in every run.
void replay(Target target, const std::string& seed, std::size_t cuts) {
  target(seed);
  const std::size_t step = std::max<std::size_t>(1, seed.size() / cuts);
  for (std::size_t size = 0; size < seed.size(); size += step) target(std::string_view(seed).substr(0, size));
  pe::support::Xoshiro random(pe::support::make_key({1, seed.size()}));
  for (std::size_t i = 0; i < cuts && !seed.empty(); ++i) {
    std::string changed = seed;
    changed[random.below(seed.size())] = static_cast<char>(random.below(256));
    target(changed);
  }
}

std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(pe::test::source_root() / folder)) {
    if (entry.path().extension() == ".yml") texts.push_back(pe::support::read_file(entry.path()));
  }
  return texts;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(fuzz_replay)

BOOST_AUTO_TEST_CASE(yaml_ends_in_a_value_or_a_message) {
  const auto texts = files_below("configs");
  BOOST_REQUIRE(texts.size() > 5u);
  for (const std::string& text : texts) replay(pe::fuzz::read_yaml, text, 300);
  replay(pe::fuzz::read_yaml, "a: &x [1, {b: *x}, \"q\\u00e9\", 'it''s', |\n  block\n  , >-\n  folded\n  ]\n? k\n: v\n",
         400);
}

BOOST_AUTO_TEST_CASE(pipeline_files_end_in_a_value_or_a_message) {
  const auto texts = files_below("pipelines");
  BOOST_REQUIRE(texts.size() >= 4u);
  for (const std::string& text : texts) replay(pe::fuzz::read_pipeline_file, text, 250);
}

BOOST_AUTO_TEST_CASE(answers_of_slurm_end_in_a_value) {
  replay(pe::fuzz::read_slurm_answer,
         "2|3|0|RUNNING|None|vm|0:02|365-00:00:00|name\n2_0|CANCELLED by 0|0:15|trunk\nMaxArraySize = 101\n"
         "PartitionName=main GraceTime=10\n12;cluster\n1-02:03:04\nsbatch: error: Socket timed out\n",
         400);
}

BOOST_AUTO_TEST_CASE(expansion_ends_in_a_graph_or_a_message) {
  replay(pe::fuzz::expand_pipeline, pe::test::kGrid, 40);
  const std::string small =
      "schema: pe-pipeline/1\nname: s\naxes: {a: [x, y], b: {p: 1, q: {kind: none}}}\nvars: {v: {x: 1, y: "
      "2}}\nstages:\n"
      "  fetch: {run: pe-fetch}\n  tokenize: {run: pe-tokenize, needs: {raw: fetch}}\n"
      "  t: {run: pe-train, over: [a], exclude: [{a: x}], needs: {data: tokenize}, snapshots: {h: 0.5, e: {step: 3}},\n"
      "      config: {set: {train.seed: $(v.$a), train.tokens: 10M}}}\n"
      "  e: {run: pe-evaluate, each: {model: t@h}, over: [b], needs: {data: tokenize}, config: {set: {eval.task: "
      "$(b)}}}\n"
      "  r: {run: pe-report, gather: {scores: ['e[b=p]', e], curves: t.metrics@e}}\n";
  replay(pe::fuzz::expand_pipeline, small, 400);
}

/// Inputs that libFuzzer found worth keeping, one folder a target: tests/fuzz/corpus/<target>/.
BOOST_AUTO_TEST_CASE(the_corpus_ends_in_values_or_messages) {
  const std::pair<const char*, Target> targets[] = {{"read_yaml", pe::fuzz::read_yaml},
                                                    {"read_pipeline_file", pe::fuzz::read_pipeline_file},
                                                    {"expand_pipeline", pe::fuzz::expand_pipeline},
                                                    {"read_manifest", pe::fuzz::read_manifest},
                                                    {"read_artifact", pe::fuzz::read_artifact},
                                                    {"read_results_file", pe::fuzz::read_results_file},
                                                    {"read_task", pe::fuzz::read_task},
                                                    {"read_json_lines", pe::fuzz::read_json_lines},
                                                    {"read_text_file", pe::fuzz::read_text_file},
                                                    {"read_gzip", pe::fuzz::read_gzip},
                                                    {"read_zstd", pe::fuzz::read_zstd},
                                                    {"read_parquet", pe::fuzz::read_parquet},
                                                    {"read_sentencepiece", pe::fuzz::read_sentencepiece},
                                                    {"read_byte_level", pe::fuzz::read_byte_level},
                                                    {"read_hub_answer", pe::fuzz::read_hub_answer},
                                                    {"read_gguf", pe::fuzz::read_gguf},
                                                    {"read_safetensors", pe::fuzz::read_safetensors},
                                                    {"read_tokenizer_json", pe::fuzz::read_tokenizer_json},
                                                    {"read_rope_parameters", pe::fuzz::read_rope_parameters},
                                                    {"read_slurm_answer", pe::fuzz::read_slurm_answer},
                                                    {"read_stage_events", pe::fuzz::read_stage_events}};
  std::size_t replayed = 0;
  for (const auto& [name, target] : targets) {
    const auto folder = pe::test::source_root() / "tests/fuzz/corpus" / name;
    if (!std::filesystem::exists(folder)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      replay(target, pe::support::read_file(entry.path()), 40);
      ++replayed;
    }
  }
  BOOST_TEST(replayed > 0u);
}

BOOST_AUTO_TEST_CASE(manifests_end_in_a_value_or_a_message) {
  replay(pe::fuzz::read_manifest,
         R"({"schema": "pe-collection/1", "kind": "raw-text", "content_digest": "00", "made_by": {}, "members": [)"
         R"({"name": "a.h5", "file_digest": "00", "content_digest": "00", "bytes": 12}]})",
         400);
}

BOOST_AUTO_TEST_CASE(documents_end_in_a_value_or_a_message) {
  const std::string lines =
      "{\"text\": \"one \\u00e9\\n\", \"n\": 3.5, \"x\": [1, {\"text\": null}]}\n[]\n{\"n\": -1, \"text\": "
      "\"two\"}\r\n\n{\"text\": 5}\n";
  replay(pe::fuzz::read_json_lines, lines, 400);
  replay(pe::fuzz::read_text_file, "one\n\ntwo two\n--\r\nthree" + std::string(90, 'x') + "\n--\n\n\nfour\n", 200);
  const std::pair<const char*, Target> files[] = {{"fineweb/web-100.jsonl.gz", pe::fuzz::read_gzip},
                                                  {"fineweb/web-100b.jsonl.zst", pe::fuzz::read_zstd},
                                                  {"parquet-matrix/codec-zstd.parquet", pe::fuzz::read_parquet},
                                                  {"parquet-matrix/v2page-snappy.parquet", pe::fuzz::read_parquet},
                                                  {"parquet-matrix/delta-byte-array.parquet", pe::fuzz::read_parquet}};
  for (const auto& [file, target] : files) {
    if (const auto path = pe::test::test_data(file)) replay(target, pe::support::read_file(*path), 40);
  }
}

BOOST_AUTO_TEST_CASE(tokenizers_end_in_a_value_or_a_message) {
  if (const auto path = pe::test::test_data("models/spm-test-unigram-1000.model")) {
    replay(pe::fuzz::read_sentencepiece, pe::support::read_file(*path).substr(0, 4000), 400);
  }
  std::string vocab = "{";
  int further = 256, id = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    vocab += (id > 0 ? ",\"\\u" : "\"\\u");
    char digits[5];
    std::snprintf(digits, sizeof digits, "%04x", printable ? byte : further++);
    vocab += std::string(digits) + "\":" + std::to_string(id++);
  }
  replay(pe::fuzz::read_byte_level, vocab + ",\"ab\":256,\"abc\":257}\n--\na b\nab c\n", 200);
}

BOOST_AUTO_TEST_CASE(answers_of_a_hub_end_in_a_value_or_a_message) {
  const std::string digest(64, 'a'), commit(40, 'b');
  replay(pe::fuzz::read_hub_answer,
         R"([{"type":"directory","path":"d"},{"type":"file","path":"d/a.parquet","size":12,"lfs":{"oid":")" + digest +
             R"("}}])",
         300);
  replay(pe::fuzz::read_hub_answer,
         R"({"schema":"pe-fetch-lock/1","repository":"a/b","commit":")" + commit +
             R"(","files":[{"path":"x/y","bytes":3,"sha256":")" + digest + R"("}]})",
         300);
  replay(pe::fuzz::read_hub_answer, digest + "  https://h.example:8/a/b.txt?x=1\n", 200);
  replay(pe::fuzz::read_hub_answer, "\"api\";r=0;t=17", 50);
  replay(pe::fuzz::read_hub_answer, "<https://h.example/x?cursor=1>; rel=\"next\"", 50);
}

BOOST_AUTO_TEST_CASE(artifacts_end_in_a_value_or_a_message) {
  // Random bytes behind HDF5's signature reach its parsers of superblocks.
  std::string bytes = "\x89HDF\r\n\x1a\n";
  pe::support::Xoshiro random(7);
  for (int i = 0; i < 2000; ++i) bytes += static_cast<char>(random.below(i % 3 ? 4 : 256));
  replay(pe::fuzz::read_artifact, bytes, 200);
}

BOOST_AUTO_TEST_SUITE_END()
