#include "interop/hf_export.h"

#include <algorithm>
#include <cmath>

#include "data/token_shards/inspect.h"
#include "data/tokenizers/tokenizer.h"
#include "encodings/registry.h"
#include "interop/hf_export_plan.h"
#include "interop/hf_folder.h"
#include "interop/safetensors.h"
#include "interop/tokenizer_json.h"
#include "support/error.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/hash.h"
#include "support/text.h"
#include "support/version.h"

namespace pe::interop {

namespace fs = std::filesystem;
using support::ArtifactError;
using support::cat;
using support::quote;

namespace {

constexpr double kTolerance = 1e-4;  // nats, float32 against float32
constexpr double kRoundedTolerance = 0.05;
constexpr const char* kSchema = "pe-export/1";

constexpr char kModelingCode[] =
#include "modeling_pe_pipeline.py.inc"
    ;
constexpr char kCompareCode[] =
#include "compare_in_transformers.py.inc"
    ;

/// A text of the build begins behind the newline of its raw literal.
std::string_view embedded(std::string_view text) { return text.starts_with('\n') ? text.substr(1) : text; }

/// Rounds float32 weights to the export's dtype, so that golden numbers belong to the exported weights.
void round_weights(const model::LanguageModel& model, const std::string& dtype) {
  if (dtype == "F32") return;
  for (const model::Parameter& parameter : model.parameters()) {
    const at::Tensor flat = parameter.tensor.detach().view({-1});
    float* values = flat.mutable_data_ptr<float>();
    const std::span<const float> all(values, static_cast<std::size_t>(flat.numel()));
    const std::vector<float> rounded = to_floats(dtype, from_floats(dtype, all), parameter.name);
    std::copy(rounded.begin(), rounded.end(), values);
  }
  model.after_step();
}

std::vector<float> values_of(const model::LanguageModel& model, const std::string& name) {
  for (const model::Parameter& parameter : model.parameters()) {
    if (parameter.name != name) continue;
    const at::Tensor flat = parameter.tensor.detach().contiguous();
    const float* values = flat.const_data_ptr<float>();
    return {values, values + flat.numel()};
  }
  throw support::Error(support::kExitBug, support::Diagnostic{cat("the model has no parameter ", name)});
}

void write_weight_file(const fs::path& path, const model::LanguageModel& model, const ExportPlan& plan,
                       const std::string& dtype, const std::map<std::string, std::string>& metadata) {
  std::vector<SafetensorsTensor> tensors;
  for (const ExportTensor& tensor : plan.tensors) {
    tensors.push_back({tensor.name, dtype, tensor.shape, [&model, &tensor, dtype] {
                         return from_floats(dtype, exported_values(tensor, values_of(model, tensor.source)));
                       }});
  }
  write_safetensors(path, std::move(tensors), metadata);
}

void put_json(const fs::path& path, const Json& json) { support::write_file_atomically(path, json.dump(2) + "\n"); }

const char* torch_dtype(const std::string& dtype) {
  return dtype == "BF16" ? "bfloat16" : dtype == "F16" ? "float16" : "float32";
}

void set_tokens(Json& config, const artifact::TokenizerRecord& tokenizer) {
  for (const auto& [name, id] : {std::pair{"bos_token_id", tokenizer.bos_id},
                                 {"eos_token_id", tokenizer.eos_id},
                                 {"pad_token_id", tokenizer.pad_id}}) {
    config[name] = id >= 0 ? Json(id) : Json();
  }
}

void write_tokenizer_files(const fs::path& folder, const artifact::TokenizerRecord& record, const Json& tokenizer,
                           std::int64_t longest, const std::string& where) {
  put_json(folder / "tokenizer.json", tokenizer);
  put_json(folder / "tokenizer_config.json", tokenizer_config_json(record, longest, where));
  put_json(folder / "special_tokens_map.json", Json(control_tokens(record, where)));
  if (record.kind == "sentencepiece") support::write_file_atomically(folder / "tokenizer.model", record.model);
}

struct Opened {
  artifact::CheckpointReader checkpoint;
  artifact::TokenizerRecord tokenizer;
  model::LanguageModel model;
  model::StoredWeights weights;
};

Opened open_order(const ExportOrder& order) {
  artifact::CheckpointReader checkpoint(order.model);
  artifact::TokenizerRecord tokenizer = data::tokenizer_of(order.tokenizer);
  if (const std::string& trained = checkpoint.meta().tokenizer_digest; trained != tokenizer.digest()) {
    throw ArtifactError(cat(quote(order.model.string()), ": trained with tokenizer ", trained, ", but ",
                            quote(order.tokenizer.string()), " is ", tokenizer.digest()),
                        "take the token shards that the model was trained on, or their tokenizer");
  }
  const model::StoredWeights weights = model::find_weights(checkpoint, order.weights);
  model::LanguageModel loaded = model::load_model(checkpoint, at::kCPU, at::kFloat, nullptr, weights.prefix);
  round_weights(loaded, order.dtype);
  return {std::move(checkpoint), std::move(tokenizer), std::move(loaded), weights};
}

std::vector<std::int64_t> golden_ids(const artifact::TokenizerRecord& record, const std::string& where) {
  const auto tokenizer = data::make_tokenizer(record, where);
  std::vector<std::int64_t> ids;
  if (record.bos_before_documents) ids.push_back(record.bos_id);
  for (const std::int32_t id : tokenizer->encode(golden_text())) ids.push_back(id);
  return ids;
}

/// Three lengths, the last one as far as text and model allow.
std::vector<std::size_t> golden_lengths(const model::LanguageModel& model, std::size_t ids, std::int64_t longest) {
  std::int64_t most = std::max(model.config().length, longest);
  if (const auto bound = model.encoding().facts().max_positions) most = std::min(most, *bound);
  const std::size_t last = std::min({ids, static_cast<std::size_t>(most), std::size_t{192}});
  std::vector<std::size_t> lengths{std::min<std::size_t>(8, last), std::min<std::size_t>(40, last), last};
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  return lengths;
}

/// Scaled embeddings are rounded once more.
double tolerance_of(const ExportPlan& plan, const ExportOrder& order) {
  const bool scaled =
      std::any_of(plan.tensors.begin(), plan.tensors.end(), [](const ExportTensor& t) { return t.scale != 1; });
  return order.dtype != "F32" && scaled ? kRoundedTolerance : kTolerance;
}

Json manifest_of(const Opened& opened, const ExportPlan& plan, const ExportOrder& order) {
  const artifact::CheckpointMeta& meta = opened.checkpoint.meta();
  Json golden = Json::array();
  const auto ids = golden_ids(opened.tokenizer, order.tokenizer.string());
  for (const GoldenRun& run : golden_runs(opened.model, ids, golden_lengths(opened.model, ids.size(), order.longest))) {
    golden.push_back(to_json(run));
  }
  return {{"schema", kSchema},
          {"version", PE_VERSION},
          {"weights",
           {{"of", model::weights_name(order.weights)},
            {"dtype", order.dtype},
            {"step", opened.weights.step},
            {"tokens", opened.weights.tokens}}},
          {"model", model::to_json(opened.model.config())},
          {"trained_on",
           {{"data_digest", meta.data_digest}, {"tokenizer_digest", meta.tokenizer_digest}, {"parents", meta.parents}}},
          {"realised", plan.positions},
          {"needs_code", plan.needs_code},
          {"text", golden_text()},
          {"golden", golden},
          {"tolerance", tolerance_of(plan, order)}};
}

std::string parameter_text(const Opened& opened) {
  return cat(support::with_commas(opened.model.parameter_count()), " parameters, of which ",
             support::with_commas(opened.model.encoding_parameter_count()), " belong to the positional encoding");
}

std::string model_card(const Opened& opened, const ExportPlan& plan, const ExportOrder& order, const Json& manifest) {
  const model::ModelConfig& c = opened.model.config();
  const std::string encoding = encodings::encoding_name(c.encoding.json);
  std::string text =
      "---\nlibrary_name: transformers\npipeline_tag: text-generation\ntags:\n- positional-encoding\n- "
      "pe-pipeline\n---\n\n";
  text += cat("# A language model with encoding '", encoding, "'\n\n");
  text += cat("Trained by pe-pipeline ", PE_VERSION, " and exported as ",
              plan.config.at("architectures")[0].get<std::string>(), ".\n\n");
  if (plan.needs_code) {
    text += cat("It needs `trust_remote_code=True`: no stock class computes the same (", plan.why_code, ").\n\n");
  }
  text += "| | |\n|---|---|\n";
  const auto row = [&](const char* name, const std::string& value) { text += cat("| ", name, " | ", value, " |\n"); };
  row("size", parameter_text(opened));
  row("shape", cat(c.layers, " layers, width ", c.width, ", ", c.heads, " heads, ", c.kv_heads(),
                   " key/value heads of ", c.d_h()));
  row("training context", cat(c.length, " tokens"));
  row("positional encoding", cat("`", c.encoding.json.dump(), "`"));
  row("weights", cat(model::weights_name(order.weights), " at step ", opened.weights.step, ", after ",
                     support::with_commas(opened.weights.tokens), " tokens, as ", torch_dtype(order.dtype)));
  row("tokenizer", cat(opened.tokenizer.kind, ", ", support::with_commas(opened.tokenizer.vocabulary), " tokens"));
  if (!manifest.at("golden").empty()) {
    const GoldenRun last = golden_from_json(manifest.at("golden").back(), c.vocabulary, "the manifest");
    row("loss on the text of the manifest",
        fmt::format("{:.4f} nats per token over {} tokens", last.mean_loss(), last.log_probabilities.size()));
  }
  text += "\n```python\nfrom transformers import AutoModelForCausalLM, AutoTokenizer\n\n";
  text += cat("model = AutoModelForCausalLM.from_pretrained(\".\"", plan.needs_code ? ", trust_remote_code=True" : "",
              ")\n");
  text += "tokenizer = AutoTokenizer.from_pretrained(\".\")\n```\n\n";
  text += cat("`", kManifestFile,
              "` holds log-probabilities of a fixed text. `python compare_in_transformers.py` computes them in\n"
              "transformers and compares; `pe-export --verify .` does so in pe-pipeline.\n");
  return text;
}

void write_hf_folder(const fs::path& folder, const Opened& opened, ExportPlan& plan, const ExportOrder& order,
                     const Json& tokenizer) {
  const std::string where = order.tokenizer.string();
  plan.config["torch_dtype"] = plan.config["dtype"] = torch_dtype(order.dtype);
  set_tokens(plan.config, opened.tokenizer);
  Json generation = {{"_from_model_config", true}, {"use_cache", plan.config.at("use_cache")}};
  set_tokens(generation, opened.tokenizer);
  write_weight_file(folder / "model.safetensors", opened.model, plan, order.dtype,
                    {{"format", "pt"}, {"made_by", cat("pe-pipeline ", PE_VERSION)}});
  put_json(folder / "config.json", plan.config);
  put_json(folder / "generation_config.json", generation);
  write_tokenizer_files(folder, opened.tokenizer, tokenizer, plan.config.at("max_position_embeddings"), where);
  if (plan.needs_code) support::write_file_atomically(folder / "modeling_pe_pipeline.py", embedded(kModelingCode));
  support::write_file_atomically(folder / "compare_in_transformers.py", embedded(kCompareCode));
  Json manifest = manifest_of(opened, plan, order);
  support::write_file_atomically(folder / "README.md", model_card(opened, plan, order, manifest));
  Json files = Json::object();
  for (const std::string& name : support::list_folder(folder)) files[name] = support::sha256_file(folder / name);
  manifest["files"] = files;
  put_json(folder / kManifestFile, manifest);
}

/// Largest difference of two lists of one size.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    most = std::isnan(difference) ? INFINITY : std::max(most, difference);
  }
  return most;
}

}  // namespace

std::string export_to_hf(const ExportOrder& order) {
  if (support::is_there(order.out)) {
    throw support::IoError(cat(quote(order.out.string()), ": is there already; an export replaces nothing"),
                           /*creating=*/true);
  }
  const Opened opened = open_order(order);
  ExportPlan plan = plan_export(opened.model, order.longest);
  const Json tokenizer = tokenizer_json(opened.tokenizer, order.tokenizer.string());
  support::ScratchFolder folder(support::unique_sibling(order.out));
  write_hf_folder(folder.path(), opened, plan, order, tokenizer);
  support::rename_durably(folder.path(), order.out);
  folder.keep();
  std::string text = cat("wrote ", order.out.string(), ": ", plan.config.at("architectures")[0].get<std::string>(),
                         ", ", plan.tensors.size(), " tensors, ", parameter_text(opened), "\n");
  if (plan.needs_code)
    text += cat("it needs trust_remote_code=True, since no stock class computes the same: ", plan.why_code, "\n");
  return text;
}

std::string verify_export(const fs::path& folder) {
  const fs::path file = folder / kManifestFile;
  const std::string where = file.string();
  const Json manifest = read_hf_json(file);
  if (!manifest.is_object() || manifest.value("schema", Json()) != kSchema ||
      !manifest.value("files", Json()).is_object() || !manifest.value("golden", Json()).is_array() ||
      !manifest.value("tolerance", Json()).is_number()) {
    throw ArtifactError(cat(quote(where), ": expected a manifest of pe-export, found something else"));
  }
  for (const auto& [name, digest] : manifest["files"].items()) {
    if (name.find('/') != std::string::npos || name.starts_with('.'))
      throw ArtifactError(cat(quote(where), ": invalid file name ", quote(name)));
    if (!support::is_there(folder / name))
      throw ArtifactError(cat(quote((folder / name).string()), ": there is no such file"));
    const std::string found = support::sha256_file(folder / name);
    if (digest != found)
      throw ArtifactError(
          cat(quote((folder / name).string()), ": expected SHA-256 ", digest.dump(), ", found ", found));
  }
  const HfModel read = read_hf_model(folder);
  const double tolerance = manifest["tolerance"].get<double>();
  double most = 0;
  for (const Json& json : manifest["golden"]) {
    const GoldenRun expected = golden_from_json(json, read.model.config().vocabulary, where);
    const auto found = golden_runs(read.model, expected.ids, {expected.ids.size()});
    most = std::max(most, largest_difference(expected.log_probabilities, found.at(0).log_probabilities));
    if (most > tolerance) {
      throw ArtifactError(cat(quote(folder.string()), ": log-probabilities differ by ", support::shortest(most),
                              ", more than ", support::shortest(tolerance)));
    }
  }
  return cat(folder.string(), ": ", manifest["files"].size(), " files are as they were written; log-probabilities of ",
             manifest["golden"].size(), " texts differ by at most ", fmt::format("{:.1e}", most), "\n");
}

}  // namespace pe::interop
