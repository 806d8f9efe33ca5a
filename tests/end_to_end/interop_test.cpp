// Models leave by pe-export and enter by pe-import: the real programs, compared with transformers where a Python on
// this machine has it.
#include <stdlib.h>

#include <boost/test/unit_test.hpp>
#include <sstream>

#include "artifact/checkpoint.h"
#include "artifact/table.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/installed.h"
#include "support/json.h"
#include "support/process.h"
#include "support/temp_folder.h"
#include "support/test_data.h"
#include "support/text.h"

using namespace pe;
using boost::unit_test::precondition;
using test::chosen_python;
using test::PythonHas;
namespace fs = std::filesystem;

namespace {

std::string program(const std::string& name) { return (test::build_root() / "stages" / name).string(); }

/// A folder with token shards of a small text, which all cases share.
class Bench {
 public:
  static Bench& shared() {
    static Bench instance;
    return instance;
  }
  fs::path path(const std::string& name) const { return folder_.path() / name; }

  support::CapturedOutput call(std::vector<std::string> words) const {
    words[0] = program(words[0]);
    return support::capture(words, "", 64u << 20, folder_.path());
  }
  void must(const std::vector<std::string>& words) const {
    const support::CapturedOutput ran = call(words);
    BOOST_TEST_REQUIRE(ran.status.code == 0, words[0] << ": " << ran.err);
  }

  /// A model of two steps with large weights, so that every part matters; named by its folder of the export.
  void train(const std::string& name, const std::vector<std::string>& settings) const {
    std::vector<std::string> words{"pe-train",
                                   "--input",
                                   "data=data",
                                   "--output",
                                   "model=" + name + ".h5",
                                   "--output",
                                   "metrics=" + name + ".metrics.h5"};
    for (const char* set :
         {"model.width=32", "model.layers=4", "model.heads=4", "model.feed_forward=48", "model.init_std=0.3",
          "model.scale_residual_init=false", "train.length=64", "train.batch=2", "train.tokens=256",
          "train.warmup_steps=0", "train.validate_windows=2", "train.peak_lr=0.02", "compute.threads=1"}) {
      words.insert(words.end(), {"--set", set});
    }
    for (const std::string& set : settings) words.insert(words.end(), {"--set", set});
    must(words);
  }
  void export_model(const std::string& name, const std::vector<std::string>& flags = {}) const {
    std::vector<std::string> words{"pe-export", "--model", name + ".h5", "--tokenizer", "data", "--out", name};
    words.insert(words.end(), flags.begin(), flags.end());
    must(words);
  }
  Json python(const std::vector<std::string>& words, const std::string& oracle = "models_oracle.py") const {
    std::vector<std::string> command{"env",
                                     "HF_HOME=" + path("hub").string(),
                                     "HF_HUB_OFFLINE=1",
                                     "OMP_NUM_THREADS=1",
                                     chosen_python(),
                                     (test::source_root() / "tests/interop/oracles" / oracle).string()};
    command.insert(command.end(), words.begin(), words.end());
    const support::CapturedOutput ran = support::capture(command, "", 64u << 20, folder_.path());
    BOOST_TEST_REQUIRE(ran.status.code == 0, ran.err);
    return ran.out.empty() ? Json() : Json::parse(ran.out);
  }

 private:
  Bench() {
    std::string text;
    for (int i = 0; i < 400; ++i) {
      for (int hour = 0; hour < 4; ++hour) {
        text += "On day " + std::to_string(i) + " the boat left the harbour at " + std::to_string((i + 5 * hour) % 24) +
                ":05.\n  Nobody answered;  the wind came from the south, and the light burned.\n\n";
      }
      text += "--\n";
    }
    support::write_file_atomically(path("text.txt"), text, false);
    must({"pe-fetch", "--set", "source=local", "--set", "path=text.txt", "--set", "text.separator=--", "--output",
          "raw=raw"});
    must({"pe-tokenize", "--set", "vocabulary=330", "--input", "raw=raw", "--output", "data=data"});
  }

  test::TempFolder folder_;
};

Json read_json(const fs::path& path) { return Json::parse(support::read_file(path)); }

struct Model {
  const char* name;
  const char* architecture;
  std::vector<std::string> settings;
};

/// Trains, exports and verifies each, and has transformers compute the same.
void compare_all(const std::vector<Model>& models) {
  const Bench& bench = Bench::shared();
  std::vector<std::string> words{"compare"};
  for (const Model& model : models) {
    bench.train(model.name, model.settings);
    bench.export_model(model.name);
    bench.must({"pe-export", "--verify", model.name});
    words.emplace_back(model.name);
  }
  const Json answers = bench.python(words);
  for (const Model& model : models) {
    const Json& answer = answers.at(model.name);
    BOOST_TEST(answer.at("class") == model.architecture, model.name);
    BOOST_TEST(answer.at("worst").get<double>() <= 1e-4, model.name << ": " << answer.dump());
    BOOST_TEST(answer.at("greedy") == true, model.name);
    BOOST_TEST(answer.at("ids") == true, model.name);
    BOOST_TEST(answer.at("lengths").size() == 3u, model.name);
  }
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_SUITE(interop)

BOOST_AUTO_TEST_CASE(stock_classes_compute_the_same, *precondition(PythonHas{"torch, transformers", chosen_python()})) {
  const std::string plain = "model.qk_norm=false", grouped = "model.key_value_heads=2";
  compare_all({
      {"qwen3", "Qwen3ForCausalLM", {}},
      {"qwen3_untied",
       "Qwen3ForCausalLM",
       {grouped, "model.tied=false", "model.encoding={kind: rope, layout: interleaved}"}},
      {"qwen3_wide_heads", "Qwen3ForCausalLM", {"model.head_width=12", "model.encoding={kind: p_rope, fraction: 0.5}"}},
      {"qwen3_none", "Qwen3ForCausalLM", {"model.encoding=none"}},
      {"qwen3_yarn", "Qwen3ForCausalLM", {"model.encoding={kind: yarn, factor: 4}"}},
      {"llama", "LlamaForCausalLM", {plain, grouped}},
      {"llama_interleaved",
       "LlamaForCausalLM",
       {plain, "model.tied=false", "model.encoding={kind: rope, layout: interleaved, base: 500}"}},
      {"llama_biases", "LlamaForCausalLM", {plain, grouped, "model.biases=true"}},
      {"llama_scaled", "LlamaForCausalLM", {plain, "model.embed_scale=3", "model.encoding={kind: pi, factor: 2}"}},
      {"llama_llama3", "LlamaForCausalLM", {plain, "model.encoding={kind: llama3, factor: 8}"}},
      {"llama_partial",
       "LlamaForCausalLM",
       {plain, "model.encoding={kind: partial, fraction: 0.5, layout: interleaved}"}},
      {"llama_ntk", "LlamaForCausalLM", {plain, "model.encoding={kind: ntk, factor: 4}"}},
      {"smollm3_none", "SmolLM3ForCausalLM", {plain, grouped, "model.encoding=none"}},
      {"smollm3_odd_width", "SmolLM3ForCausalLM", {plain, "model.heads=3", "model.head_width=8"}},
      {"smollm3_local",
       "SmolLM3ForCausalLM",
       {plain, grouped, "model.encoding={kind: local_global, interval: 2, size: 12}"}},
      {"smollm3_mixed",
       "SmolLM3ForCausalLM",
       {plain, "model.encoding={kind: local_global, interval: 4, phase: 1, size: 0}"}},
  });
}

BOOST_AUTO_TEST_CASE(shipped_code_computes_the_same, *precondition(PythonHas{"torch, transformers", chosen_python()})) {
  const char* const code = "PePipelineForCausalLM";
  const std::string grouped = "model.key_value_heads=2";
  const auto with = [](const std::string& encoding) { return "model.encoding=" + encoding; };
  compare_all({
      {"alibi", code, {with("alibi"), grouped}},
      {"nape", code, {with("nape")}},
      {"t5", code, {with("{kind: t5, buckets: 8, max_distance: 24}")}},
      {"fire", code, {with("{kind: fire, initial_length: 20}"), grouped}},
      {"kerple_log", code, {with("kerple_log")}},
      {"kerple_power", code, {with("{kind: kerple_power, shared: false}")}},
      {"sandwich", code, {with("sandwich")}},
      {"cope", code, {with("{kind: cope, positions: 8}"), grouped}},
      {"sinusoidal", code, {with("sinusoidal")}},
      {"learned", code, {with("{kind: learned, pe_scale: learned}")}},
      {"fox", code, {with("fox"), grouped}},
      {"fox_fixed", code, {with("{kind: fox, gate: fixed}")}},
      {"pope", code, {with("{kind: pope, delta_init: uniform}"), grouped}},
      {"inkling", code, {with("{kind: inkling, profiles: 4, extent: 10, floor_scale: 16}")}},
      {"shaw", code, {with("{kind: shaw, max_distance: 6}"), grouped}},
      {"local_global", code, {with("{kind: local_global, interval: 2, size: 12}")}},
      {"multiscale", code, {with("multiscale_rope"), grouped}},
      {"lrope", code, {with("lrope")}},
      {"rope_ssmax", code, {with("{stack: [rope, {kind: ssmax}]}"), grouped}},
      {"rope_logn_sink", code, {with("{stack: [rope, {kind: logn}, sink_logit]}")}},
      {"window_alibi", code, {with("{stack: [alibi, {kind: window, size: 10, interval: 2}]}")}},
      {"dropped", code, {with("{stack: [none, {kind: length_scale, train_length: 16}]}"), "model.qk_norm_over=width"}},
      {"gpt",
       code,
       {with("learned"), "model.norm=layer", "model.activation=gelu", "model.biases=true", "model.qk_norm=false"}},
      {"post", code, {with("rope"), "model.norm_placement=post", "model.activation=relu", "model.logit_softcap=5"}},
      {"gated", code, {with("rope"), "model.gate=elementwise", "model.tied=false", "model.head_bias=true"}},
  });
}

BOOST_AUTO_TEST_CASE(models_of_transformers_compute_the_same_here,
                     *precondition(PythonHas{"torch, transformers, tokenizers", chosen_python()})) {
  const Bench& bench = Bench::shared();
  const std::vector<std::string> kinds = {"llama",        "llama_untied", "llama3",  "longrope",       "mistral",
                                          "qwen2",        "qwen3",        "smollm3", "smollm3_window", "smollm3_list",
                                          "smollm3_nope", "gpt2",         "gpt2_new"};
  std::vector<std::string> make{"make"}, against{"against"};
  for (const std::string& kind : kinds) make.insert(make.end(), {kind, "hf_" + kind});
  bench.python(make);
  for (const std::string& kind : kinds) {
    for (const std::string layout : {"half", "interleaved"}) {
      const std::string name = kind + "_" + layout;
      const bool turns = !kind.starts_with("gpt2") && kind != "smollm3_nope";
      if (!turns && layout == "interleaved") continue;
      bench.must({"pe-import", "--set", "import.model=hf_" + kind, "--set", "import.layout=" + layout, "--output",
                  "model=" + name + ".h5", "--output", "tokenizer=" + name + ".tokenizer.h5"});
      bench.must({"pe-export", "--model", name + ".h5", "--tokenizer", name + ".tokenizer.h5", "--out", "out_" + name});
      bench.must({"pe-export", "--verify", "out_" + name});
      if (layout == "half") against.insert(against.end(), {"hf_" + kind, "out_" + name + "/pe_pipeline_manifest.json"});
      const Json golden = read_json(bench.path("out_" + name + "/pe_pipeline_manifest.json")).at("golden");
      const Json half = read_json(bench.path("out_" + kind + "_half/pe_pipeline_manifest.json")).at("golden");
      BOOST_TEST(golden[0].at("ids") == half[0].at("ids"));
      const double first = golden[2].at("log_probabilities").back(), second = half[2].at("log_probabilities").back();
      BOOST_TEST(std::abs(first - second) < 1e-4, name);
    }
  }
  const Json answers = bench.python(against);
  for (const std::string& kind : kinds) {
    const Json& answer = answers.at("hf_" + kind);
    BOOST_TEST(answer.at("worst").get<double>() <= 1e-4, kind << ": " << answer.dump());
    BOOST_TEST(answer.at("greedy") == true, kind);
    BOOST_TEST(answer.at("ids") == true, kind);
  }
}

struct GgufCase {
  const char* name;
  const char* architecture;
  bool divisors;
  const char* scaling;  ///< empty: none
  std::vector<std::string> settings;
};

constexpr const char* kPlain = "model.qk_norm=false";
constexpr const char* kGrouped = "model.key_value_heads=2";
const GgufCase kGgufCases[] = {
    {"g_llama", "llama", false, "", {kPlain, kGrouped}},
    {"g_interleaved",
     "llama",
     false,
     "",
     {kPlain, "model.tied=false", "model.encoding={kind: rope, layout: interleaved}"}},
    {"g_biases", "llama", false, "", {kPlain, kGrouped, "model.biases=true", "model.head_width=12"}},
    {"g_scaled", "llama", false, "linear", {kPlain, "model.embed_scale=3", "model.encoding={kind: pi, factor: 2}"}},
    {"g_none", "llama", false, "linear", {kPlain, kGrouped, "model.encoding=none"}},
    {"g_ntk", "llama", false, "", {kPlain, "model.encoding={kind: ntk, factor: 4}"}},
    {"g_llama3", "llama", true, "", {kPlain, "model.encoding={kind: llama3, factor: 8}"}},
    {"g_yarn", "llama", true, "", {kPlain, "model.encoding={kind: yarn, factor: 4, beta_fast: 8, truncate: false}"}},
    {"g_partial", "llama", true, "", {kPlain, "model.encoding={kind: partial, fraction: 0.5, layout: interleaved}"}},
    {"g_qwen3", "qwen3", false, "", {kGrouped, "model.tied=false", "model.encoding={kind: rope, layout: interleaved}"}},
    {"g_qwen3_pi", "qwen3", false, "linear", {"model.encoding={kind: pi, factor: 3}", "model.head_width=12"}},
    {"g_qwen3_yarn", "qwen3", false, "yarn", {"model.encoding={kind: yarn, factor: 4}"}},
    {"g_qwen3_none", "qwen3", false, "linear", {"model.encoding=none"}},
};

/// Writes NAME.gguf of the trained NAME.h5 and verifies it. @return the file's name
std::string gguf_file(const std::string& name, const std::string& tokenizer, const std::string& dtype = "float32") {
  const Bench& bench = Bench::shared();
  const std::string file = name + (dtype == "float32" ? "" : "_" + dtype) + ".gguf";
  if (fs::exists(bench.path(file))) return file;
  bench.must({"pe-export", "--model", name + ".h5", "--tokenizer", tokenizer, "--dtype", dtype, "--out", file});
  bench.must({"pe-export", "--verify", file});
  return file;
}

std::string gguf_file(const GgufCase& one) {
  if (!fs::exists(Bench::shared().path(one.name + std::string(".h5")))) Bench::shared().train(one.name, one.settings);
  return gguf_file(one.name, "data");
}

bool has_transformers() {
  static const bool there = bool(PythonHas{"torch, transformers, tokenizers", chosen_python()}({}));
  return there;
}

/// A random model of transformers comes in and leaves as GGUF.
std::string gguf_of_transformers(const std::string& kind) {
  const Bench& bench = Bench::shared();
  const std::string name = "through_" + kind;
  if (!fs::exists(bench.path(name + ".h5"))) {
    bench.python({"make", kind, "hf_" + name});
    bench.must({"pe-import", "--set", "import.model=hf_" + name, "--output", "model=" + name + ".h5", "--output",
                "tokenizer=" + name + ".tokenizer.h5"});
  }
  return gguf_file(name, name + ".tokenizer.h5");
}

void same_as_golden(const Json& answers, const std::string& file, double most = 1e-4) {
  const Json& answer = answers.at(file);
  BOOST_TEST(answer.at("worst").get<double>() <= most, file << ": " << answer.dump());
  BOOST_TEST(answer.at("greedy") == true, file);
  BOOST_TEST(answer.at("ids") == true, file);
  BOOST_TEST(answer.at("lengths") == 3, file);
}

BOOST_AUTO_TEST_CASE(gguf_files_compute_the_same, *precondition(PythonHas{"gguf, numpy, regex", chosen_python()})) {
  const Bench& bench = Bench::shared();
  std::vector<std::string> words{"compare"};
  for (const GgufCase& one : kGgufCases) words.push_back(gguf_file(one));
  for (const std::string dtype : {"bfloat16", "float16"}) words.push_back(gguf_file("g_llama", "data", dtype));
  if (has_transformers()) words.push_back(gguf_of_transformers("llama"));  // merges, and words cut at digits
  const Json answers = bench.python(words, "gguf_oracle.py");
  for (std::size_t i = 1; i < words.size(); ++i) same_as_golden(answers, words[i]);
  for (const GgufCase& one : kGgufCases) {
    const Json& answer = answers.at(one.name + std::string(".gguf"));
    BOOST_TEST(answer.at("arch") == one.architecture, one.name);
    BOOST_TEST(answer.at("divisors") == one.divisors, one.name);
    BOOST_TEST((answer.at("scaling").is_null() ? "" : answer.at("scaling").get<std::string>()) == one.scaling,
               one.name);
    BOOST_TEST(answer.at("vocabulary") == 330, one.name);
  }
  for (const auto& [dtype, type] : {std::pair{"bfloat16", 32}, {"float16", 1}})
    BOOST_TEST(answers.at(std::string("g_llama_") + dtype + ".gguf").at("file_type") == type, dtype);
}

BOOST_AUTO_TEST_CASE(llama_cpp_computes_the_same, *precondition(PythonHas{"cyllama, numpy", chosen_python()})) {
  std::vector<std::string> words{"compare"};
  for (const GgufCase& one : kGgufCases) words.push_back(gguf_file(one));
  if (has_transformers()) {
    for (const char* kind : {"llama", "llama_untied", "llama3", "longrope", "qwen3", "smollm3_nope"})
      words.push_back(gguf_of_transformers(kind));
  } else {
    BOOST_TEST_MESSAGE(chosen_python() << " has no transformers, so none of its models was converted");
  }
  const std::vector<std::string> rounded{gguf_file("g_llama", "data", "bfloat16"),
                                         gguf_file("g_llama", "data", "float16")};
  std::vector<std::string> all = words;
  all.insert(all.end(), rounded.begin(), rounded.end());
  const Json answers = Bench::shared().python(all, "llama_cpp_oracle.py");
  BOOST_TEST_MESSAGE("ggml of llama.cpp: " << answers.at("version"));
  for (std::size_t i = 1; i < words.size(); ++i) same_as_golden(answers, words[i]);
  // llama.cpp also rounds the factors of rounded weights. These weights are ten times larger than in real models.
  for (const std::string& file : rounded) same_as_golden(answers, file, 0.2);
}

BOOST_AUTO_TEST_CASE(gguf_that_would_lie_is_refused_and_a_damaged_file_is_found) {
  const Bench& bench = Bench::shared();
  const auto refused = [&](const std::vector<std::string>& words, const std::string& part, int code) {
    const support::CapturedOutput ran = bench.call(words);
    BOOST_TEST(ran.status.code == code, ran.err);
    BOOST_TEST(has(ran.err, part), ran.err);
  };
  const auto no_form = [&](const std::string& name, const std::vector<std::string>& settings, const std::string& part) {
    bench.train(name, settings);
    refused({"pe-export", "--model", name + ".h5", "--tokenizer", "data", "--out", name + ".gguf"}, part, 2);
    BOOST_TEST(!fs::exists(bench.path(name + ".gguf")), name);
  };
  no_form("n_p_rope", {"model.encoding={kind: p_rope, fraction: 0.5}"}, "by plain, linear or YaRN angles alone");
  no_form("n_yarn", {"model.encoding={kind: yarn, factor: 4, beta_fast: 8}"}, "by plain, linear or YaRN angles alone");
  no_form("n_partial_yarn",
          {"model.qk_norm=false", "model.encoding={kind: yarn, factor: 4, over: {kind: partial, fraction: 0.5}}"},
          "rotates some channels and scales these alone");
  no_form("n_alibi", {"model.encoding=alibi"}, "no form in llama.cpp: encoding 'alibi'");
  no_form("n_mixed", {"model.qk_norm=false", "model.encoding={kind: local_global, interval: 2, size: 12}"},
          "layers with other positions");

  bench.train("damaged", {});
  bench.must({"pe-export", "--model", "damaged.h5", "--tokenizer", "data", "--out", "damaged.gguf"});
  refused({"pe-export", "--model", "damaged.h5", "--tokenizer", "data", "--out", "damaged.gguf"}, "is there already",
          73);
  const std::string whole = support::read_file(bench.path("damaged.gguf"));
  const auto damaged = [&](std::string bytes, const std::string& part) {
    support::write_file_atomically(bench.path("damaged.gguf"), bytes, false);
    refused({"pe-export", "--verify", "damaged.gguf"}, part, 3);
  };
  damaged(whole.substr(0, whole.size() - 4096), "it is cut");
  damaged(whole.substr(0, 100), "states 46 entries, more than its 100 bytes hold");
  std::string other = whole;
  other[other.size() - 1001] ^= 0x01;  // an exponent: four times as much, or a quarter
  damaged(other, "log-probabilities differ by");
  other[other.size() - 1001] ^= 0x40;
  damaged(other, "numbers that are not finite");
  other = whole;
  other[8 + 6] = 1;  // 2^48 tensors more
  damaged(other, "entries, more than its");
  damaged("GGUF", "it is cut");
  for (const std::string& name : support::list_folder(bench.path("."))) BOOST_TEST(!has(name, ".tmp."), name);
}

/// Old versions of transformers, which no test runs, reject or read otherwise what is avoided here.
BOOST_AUTO_TEST_CASE(folders_say_what_every_version_reads_alike) {
  const Bench& bench = Bench::shared();
  const auto config = [&](const std::string& name) { return read_json(bench.path(name + "/config.json")); };
  bench.train("v_yarn", {"model.encoding={kind: yarn, factor: 4}"});
  bench.export_model("v_yarn");
  BOOST_TEST(config("v_yarn").at("rope_scaling").at("rope_type") == "longrope");
  bench.must({"pe-export", "--verify", "v_yarn"});
  bench.must({"pe-export", "--model", "v_yarn.h5", "--tokenizer", "data", "--length", "256", "--out", "v_yarn_256"});
  BOOST_TEST(config("v_yarn_256").at("rope_scaling").at("rope_type") == "yarn");
  bench.must({"pe-export", "--model", "v_yarn.h5", "--tokenizer", "data", "--out", "v_yarn.gguf"});

  const std::vector<std::string> odd{"model.qk_norm=false", "model.heads=3", "model.key_value_heads=3",
                                     "model.head_width=8"};
  bench.train("v_odd", odd);
  bench.export_model("v_odd");
  BOOST_TEST(config("v_odd").at("model_type") == "smollm3");
  bench.must({"pe-export", "--verify", "v_odd"});
  std::vector<std::string> biased = odd;
  biased.push_back("model.biases=true");
  bench.train("v_odd_biased", biased);
  bench.export_model("v_odd_biased");
  BOOST_TEST(config("v_odd_biased").at("model_type") == "pe_pipeline");
  bench.must({"pe-export", "--model", "v_odd_biased.h5", "--tokenizer", "data", "--out", "v_odd_biased.gguf"});
  bench.must({"pe-export", "--verify", "v_odd_biased.gguf"});
}

BOOST_AUTO_TEST_CASE(exports_are_whole_or_not_there) {
  const Bench& bench = Bench::shared();
  bench.train("plain", {});
  bench.export_model("plain", {"--dtype", "bfloat16", "--length", "128"});
  const fs::path folder = bench.path("plain");
  for (const char* file : {"model.safetensors", "config.json", "generation_config.json", "tokenizer.json",
                           "tokenizer_config.json", "special_tokens_map.json", "tokenizer.model", "README.md",
                           "pe_pipeline_manifest.json", "compare_in_transformers.py"}) {
    BOOST_TEST(fs::exists(folder / file), file);
  }
  BOOST_TEST(!fs::exists(folder / "modeling_pe_pipeline.py"));
  BOOST_TEST(read_json(folder / "config.json").at("max_position_embeddings") == 128);
  BOOST_TEST(has(bench.call({"pe-export", "--verify", "plain"}).out, "files are as they were written"));

  const auto refused = [&](const std::vector<std::string>& words, const std::string& part, int code) {
    const support::CapturedOutput ran = bench.call(words);
    BOOST_TEST(ran.status.code == code, ran.err);
    BOOST_TEST(has(ran.err, part), ran.err);
  };
  refused({"pe-export", "--model", "plain.h5", "--tokenizer", "data", "--out", "plain"}, "is there already", 73);
  refused({"pe-export", "--model", "plain.h5", "--out", "x"}, "--tokenizer is missing", 2);
  bench.must({"pe-make-tokenizer", "--set", "tokenizer=bytes", "--output", "tokenizer=bytes.h5"});
  refused({"pe-export", "--model", "plain.h5", "--tokenizer", "bytes.h5", "--out", "x"}, "trained with tokenizer", 3);
  bench.train("path", {"model.encoding=path"});
  refused({"pe-export", "--model", "path.h5", "--tokenizer", "data", "--out", "x"},
          "encoding 'path' has no code that is shipped", 2);
  bench.train("canon", {"model.canon.set=A"});
  refused({"pe-export", "--model", "canon.h5", "--tokenizer", "data", "--out", "x"},
          "no form in transformers: model.canon", 2);
  BOOST_TEST(!fs::exists(bench.path("x")));

  std::string weights = support::read_file(folder / "model.safetensors");
  weights[weights.size() - 3] ^= 1;
  support::write_file_atomically(folder / "model.safetensors", weights, false);
  refused({"pe-export", "--verify", "plain"}, "model.safetensors': expected SHA-256", 3);
  for (const std::string& name : support::list_folder(bench.path("."))) BOOST_TEST(!has(name, ".tmp."), name);
}

BOOST_AUTO_TEST_CASE(models_that_are_not_understood_are_refused_and_nothing_is_written) {
  const Bench& bench = Bench::shared();
  bench.train("source", {"model.qk_norm=false"});
  bench.export_model("source");
  std::string source = "source";
  std::vector<std::string> settings;
  int code = 3;
  const auto refused = [&](const std::string& what, const auto& change, const std::string& part) {
    const fs::path folder = bench.path("bad_" + what);
    fs::copy(bench.path(source), folder);
    change(folder);
    std::vector<std::string> words{"pe-import",    "--set",    "import.model=bad_" + what,  "--output",
                                   "model=bad.h5", "--output", "tokenizer=bad.tokenizer.h5"};
    words.insert(words.end(), settings.begin(), settings.end());
    const support::CapturedOutput ran = bench.call(words);
    BOOST_TEST(ran.status.code == code, what << ": " << ran.err);
    BOOST_TEST(has(ran.err, part), what << ": " << ran.err);
    BOOST_TEST(!fs::exists(bench.path("bad.h5")), what);
    BOOST_TEST(!fs::exists(bench.path("bad.tokenizer.h5")), what);
  };
  const auto with = [](const char* key, const Json& value) {
    return [key, value](const fs::path& folder) {
      Json config = read_json(folder / "config.json");
      config[key] = value;
      support::write_file_atomically(folder / "config.json", config.dump(), false);
    };
  };
  refused("class", with("model_type", "lama"), "did you mean 'llama'?");
  refused("layers", with("num_hidden_layers", 5), "has no tensor 'model.layers.4.input_layernorm.weight'");
  refused("many_layers", with("num_hidden_layers", 4000), "it describes 4000 layers, and there are");
  refused("fewer_layers", with("num_hidden_layers", 3), "has no place in the model that config.json describes");
  refused("width", with("hidden_size", 64), "by the config it is [");
  refused("heads", with("num_attention_heads", 3), "num_key_value_heads does not divide num_attention_heads");
  refused("act", with("hidden_act", "gelu"), "hidden_act is \"gelu\"; only \"silu\" is supported");
  refused("rope", with("rope_parameters", {{"rope_type", "spiral"}, {"rope_theta", 10000.0}}),
          "rope_type 'spiral' is not supported");
  refused("quantised", with("quantization_config", {{"bits", 4}}), "quantization_config is");
  refused("head", with("tie_word_embeddings", false), "has no tensor 'lm_head.weight'");
  refused("window", with("model_type", "mistral"), "sliding_window is absent, so the class has 4096");
  refused(
      "text", [](const fs::path& folder) { support::write_file_atomically(folder / "config.json", "{", false); },
      "is not JSON");
  refused(
      "cut", [](const fs::path& folder) { fs::resize_file(folder / "model.safetensors", 5000); }, "it is cut");
  refused(
      "pickle", [](const fs::path& folder) { fs::rename(folder / "model.safetensors", folder / "pytorch_model.bin"); },
      "pickle files run code when they are read");
  refused("norm", with("rms_norm_eps", -1.0), "rms_norm_eps is -1, expected 0 or more");
  // Weights that are not finite: the header's length and the header come first, then the numbers.
  refused(
      "nan",
      [](const fs::path& folder) {
        std::string weights = support::read_file(folder / "model.safetensors");
        const std::size_t header = static_cast<std::size_t>(static_cast<unsigned char>(weights[0])) +
                                   256 * static_cast<std::size_t>(static_cast<unsigned char>(weights[1]));
        const Json names = Json::parse(weights.substr(8, header));
        const auto begin = names.at("model.norm.weight").at("data_offsets")[0].get<std::size_t>();
        weights.replace(8 + header + begin, 4, "\xff\xff\xff\xff");
        support::write_file_atomically(folder / "model.safetensors", weights, false);
      },
      "tensor 'norm' holds numbers that are not finite");
  refused(
      "no_tokenizer", [](const fs::path& folder) { fs::remove(folder / "tokenizer.model"); },
      "put its tokenizer.model into the folder");
  // A part has biases in all layers or in none.
  source = "biased";
  bench.train(source, {"model.qk_norm=false", "model.biases=true"});
  bench.export_model(source);
  const std::string missing = "model.layers.1.mlp.up_proj.bias";
  refused(
      "bias",
      [&](const fs::path& folder) {
        std::string weights = support::read_file(folder / "model.safetensors");
        weights.replace(weights.find(missing), missing.size(), "model.layers.1.mlp.up_proj.bios");
        support::write_file_atomically(folder / "model.safetensors", weights, false);
      },
      "has no tensor '" + missing + "'");
  // Biases are those that the class has.
  const std::string says = "is false, so the class leaves out tensor 'model.layers.";
  refused("attention_biases", with("attention_bias", false), "attention_bias " + says);
  refused("feed_forward_biases", with("mlp_bias", false), "mlp_bias " + says);
  refused("biases_of_qwen2", with("model_type", "qwen2"), "its class has no bias for tensor 'model.layers.");
  // An export of this project states the length.
  source = "own";
  bench.train(source, {"model.encoding=alibi"});
  bench.export_model(source);
  settings = {"--set", "import.length=128"};
  code = 2;
  refused(
      "length", [](const fs::path&) {}, "import.length is 128, and the model of 'bad_length' was trained at 64");
  source = "source";
  settings.clear();
  code = 3;
  if (const auto mistral = test::test_data("models/mistral-v1-32000.model")) {
    refused(
        "other_tokenizer",
        [&](const fs::path& folder) {
          fs::copy_file(*mistral, folder / "tokenizer.model", fs::copy_options::overwrite_existing);
        },
        "the tokenizer has 32000 pieces, the embedding 330 rows");
  }
}

BOOST_AUTO_TEST_CASE(stages_go_on_from_an_imported_model) {
  const Bench& bench = Bench::shared();
  bench.train("origin", {"model.qk_norm=false"});
  bench.export_model("origin");
  bench.must({"pe-import", "--set", "import.model=origin", "--output", "model=in.h5", "--output",
              "tokenizer=in.tokenizer.h5"});
  const std::vector<std::string> quick{"--set", "compute.threads=1"};
  const auto go = [&](std::vector<std::string> words, const std::string& name) {
    words.insert(words.end(), {"--input", "data=data", "--input", "init=in.h5", "--output", "model=" + name + ".h5",
                               "--output", "metrics=" + name + ".metrics.h5", "--set", "compute.threads=1"});
    return bench.call(words);
  };
  const support::CapturedOutput dropped = go({"pe-drop-pe", "--set", "drop.horizon_tokens=512", "--set", "drop.batch=4",
                                              "--set", "drop.length=32", "--set", "drop.validate_windows=2"},
                                             "dropped");
  BOOST_TEST(dropped.status.code == 0, dropped.err);
  const artifact::CheckpointReader after(bench.path("dropped.h5"));
  BOOST_TEST(after.meta().encoding.at("kind") == "none");
  BOOST_TEST(after.meta().model.at("length") == 32);
  BOOST_TEST(after.meta().step == 4);
  const support::CapturedOutput kept =
      go({"pe-drop-pe", "--set", "drop.horizon_tokens=512", "--set", "drop.optimizer=keep"}, "kept");
  BOOST_TEST(kept.status.code == 3);
  BOOST_TEST(has(kept.err, "an imported model has no optimizer state"), kept.err);
  const support::CapturedOutput extended =
      go({"pe-extend", "--set", "extend.length=128", "--set", "extend.tokens=512", "--set", "extend.batch=2", "--set",
          "extend.encoding=yarn", "--set", "extend.warmup_steps=1", "--set", "extend.validate_windows=2"},
         "extended");
  BOOST_TEST(extended.status.code == 0, extended.err);
  const support::CapturedOutput own =
      bench.call({"pe-drop-pe", "--set", "drop.horizon_tokens=512", "--set", "drop.batch=4", "--input", "data=data",
                  "--input", "init=origin.h5", "--output", "model=own.h5", "--output", "metrics=own.metrics.h5"});
  BOOST_TEST(own.status.code == 2);
  BOOST_TEST(has(own.err, "drop.batch is for imported models"), own.err);
  bench.must({"pe-evaluate", "--input", "model=in.h5", "--input", "data=data", "--output", "scores=scores.h5", "--set",
              "eval.tasks=[perplexity]", "--set", "eval.lengths=[1]", "--set", "eval.documents=4", "--set",
              "eval.min_documents=1", "--set", "compute.threads=1"});
}

/// The shipped pipelines from the first task to the last, on a small model and with small evaluations.
BOOST_AUTO_TEST_CASE(pipelines_drop_and_extend_an_imported_model_and_it_leaves_again) {
  const Bench& bench = Bench::shared();
  bench.train("published", {"model.qk_norm=false", "train.length=32"});
  bench.export_model("published");
  std::string texts;
  for (int i = 0; i < 150; ++i) {
    std::string text = "Day " + std::to_string(i) + ".";
    for (int hour = 0; hour < 8; ++hour)
      text += "\nThe boat left the harbour at " + std::to_string((i + 5 * hour) % 24) + ":05.";
    texts += Json{{"text", text}}.dump() + "\n";
  }
  support::write_file_atomically(bench.path("texts.jsonl"), texts, false);
  fs::copy(test::source_root() / "configs", bench.path("configs"), fs::copy_options::recursive);
  support::write_file_atomically(bench.path("configs/eval/scaffold.yml"),
                                 "eval: {tasks: [perplexity], perplexity: {protocols: [anchored]}, min_documents: 1}\n",
                                 false);
  fs::create_directory(bench.path("pipelines"));
  const auto run = [&](const std::string& name, const std::vector<std::string>& vars) {
    fs::copy(test::source_root() / "pipelines" / (name + ".yml"), bench.path("pipelines"));
    std::vector<std::string> words{"pe-pipeline",  "run",        "pipelines/" + name + ".yml",
                                   "--durability", "off",        "--store",
                                   "store",        "--progress", "none"};
    for (const char* var :
         {"folder=published", "path=texts.jsonl", "length=32", "batch=2", "documents=8", "lengths=[1, 2]"}) {
      words.insert(words.end(), {"--set", std::string("vars.") + var});
    }
    words.insert(words.end(), vars.begin(), vars.end());
    bench.must(words);
  };
  run("drope_smollm", {"--set", "vars.tokens=512"});
  run("extend_pretrained", {"--set", "vars.extended=64", "--set", "vars.tokens=4096"});
  std::vector<std::string> compare{"compare"};
  for (const auto& [model, architecture] : {std::pair{"drope_smollm/drop/arm=drop", "SmolLM3ForCausalLM"},
                                            {"drope_smollm/drop/arm=nodrop", "LlamaForCausalLM"},
                                            {"extend_pretrained/extend/rule=pi", "LlamaForCausalLM"},
                                            {"extend_pretrained/extend/rule=ntk", "LlamaForCausalLM"},
                                            {"extend_pretrained/extend/rule=yarn", "LlamaForCausalLM"}}) {
    const std::string name = support::split(model, '=').back();
    bench.must({"pe-export", "--model", std::string("out/") + model + ".model.h5", "--tokenizer",
                "out/drope_smollm/import/import.tokenizer.h5", "--out", "back_" + name});
    bench.must({"pe-export", "--verify", "back_" + name});
    BOOST_TEST(read_json(bench.path("back_" + name) / "config.json").at("architectures")[0] == architecture, name);
    compare.push_back("back_" + name);
  }
  if (!has_transformers()) return;
  const Json answers = bench.python(compare);
  for (std::size_t i = 1; i < compare.size(); ++i)
    BOOST_TEST(answers.at(compare[i]).at("worst").get<double>() <= 1e-4, compare[i]);
}

/// The document's task and command, and the same texts here.
BOOST_AUTO_TEST_CASE(lm_evaluation_harness_measures_the_same,
                     *precondition(PythonHas{"torch, transformers, lm_eval, datasets, accelerate", chosen_python()})) {
  const Bench& bench = Bench::shared();
  bench.train("measured", {"model.key_value_heads=2"});
  bench.export_model("measured");
  fs::create_directory(bench.path("harness"));
  fs::rename(bench.path("measured"), bench.path("harness/exported"));
  std::string texts;
  for (int i = 0; i < 40; ++i) {
    std::string text = "Day " + std::to_string(i) + ".";
    for (int hour = 0; hour < 5 + i % 7; ++hour)
      text += "\nThe boat left the harbour at " + std::to_string((i + 5 * hour) % 24) + ":05;  the wind was high.";
    texts += Json{{"text", text}}.dump() + "\n";
  }
  support::write_file_atomically(bench.path("harness/texts.jsonl"), texts, false);

  const std::string document = support::read_file(test::source_root() / "doc/interop.md");
  const std::size_t task = document.find("```yaml\n") + 8, command = document.find("\nlm-eval run") + 9;
  fs::create_directory(bench.path("harness/tasks"));
  support::write_file_atomically(bench.path("harness/tasks/texts.yaml"),
                                 document.substr(task, document.find("```", task) - task), false);
  std::vector<std::string> words{
      "env",    "HF_HOME=" + bench.path("hub").string(), "HF_HUB_OFFLINE=1", "OMP_NUM_THREADS=1", chosen_python(), "-m",
      "lm_eval"};
  std::istringstream rest(document.substr(command, document.find("```", command) - command));
  for (std::string word; rest >> word;) {
    if (word != "\\") words.push_back(word);
  }
  const support::CapturedOutput ran = support::capture(words, "", 64u << 20, bench.path("harness"));
  BOOST_TEST_REQUIRE(ran.status.code == 0, ran.err);
  double theirs = 0;
  for (const auto& entry : fs::directory_iterator(bench.path("harness/harness/exported")))
    theirs = read_json(entry.path()).at("results").at("texts").at("bits_per_byte,none");

  bench.must({"pe-import", "--set", "import.model=harness/exported", "--output", "model=measured_in.h5", "--output",
              "tokenizer=measured_in.tokenizer.h5"});
  bench.must(
      {"pe-fetch", "--set", "source=local", "--set", "path=harness/texts.jsonl", "--output", "raw=measured_raw"});
  bench.must({"pe-tokenize", "--set", "tokenizer=input", "--set", "split={train: 0, validation: 0, test: 1}", "--input",
              "raw=measured_raw", "--input", "tokenizer=measured_in.tokenizer.h5", "--output", "data=measured_data"});
  bench.must({"pe-evaluate", "--input", "model=measured_in.h5", "--input", "data=measured_data", "--output",
              "scores=measured_scores.h5", "--set", "eval.context=[64]", "--set", "eval.documents=1000", "--set",
              "eval.min_documents=1", "--set", "eval.perplexity.protocols=[harness]", "--set", "compute.threads=1"});
  const artifact::Tables scores = artifact::read_tables(bench.path("measured_scores.h5"), artifact::Kind::kEvalTable);
  const double ours = scores.at("lm_summary").reals("bpb").at(0);
  BOOST_TEST(ours > 1);
  BOOST_TEST(std::abs(ours - theirs) < 1e-5, ours << " here, " << theirs << " there");
}

BOOST_AUTO_TEST_CASE(the_commands_of_the_document_run) {
  const Bench& bench = Bench::shared();
  bench.train("model", {});
  std::size_t ran = 0;
  for (const std::string& line : support::split(support::read_file(test::source_root() / "doc/interop.md"), '\n')) {
    if (!line.starts_with("pe-")) continue;
    bench.must(support::split(line, ' '));
    ++ran;
  }
  BOOST_TEST(ran >= 4u);
  BOOST_TEST(fs::exists(bench.path("data_in/manifest.json")));
}

BOOST_AUTO_TEST_SUITE_END()
