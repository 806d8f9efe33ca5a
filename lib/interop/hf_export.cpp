#include "interop/hf_export.h"

#include <algorithm>

#include "data/token_shards/inspect.h"
#include "data/tokenizers/tokenizer.h"
#include "encodings/registry.h"
#include "interop/export_source.h"
#include "interop/hf_files.h"
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

constexpr char kModelingCode[] =
#include "modeling_pe_pipeline.py.inc"
    ;
constexpr char kCompareCode[] =
#include "compare_in_transformers.py.inc"
    ;

/// A text of the build begins behind the newline of its raw literal.
std::string_view embedded(std::string_view text) { return text.starts_with('\n') ? text.substr(1) : text; }

void write_weight_file(const fs::path& path, const model::LanguageModel& model, const ExportPlan& plan,
                       const std::string& dtype, const std::map<std::string, std::string>& metadata) {
  std::vector<SafetensorsTensor> tensors;
  for (const ExportTensor& tensor : plan.tensors) {
    tensors.push_back(export_tensor(tensor, model, dtype));
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

std::string model_card(const ExportSource& source, const ExportPlan& plan, const ExportOrder& order,
                       const Json& manifest) {
  const model::ModelConfig& c = source.model.config();
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
  row("size", parameter_text(source.model));
  row("shape", cat(c.layers, " layers, width ", c.width, ", ", c.heads, " heads, ", c.kv_heads(),
                   " key/value heads of ", c.d_h()));
  row("training context", cat(c.length, " tokens"));
  row("positional encoding", cat("`", c.encoding.json.dump(), "`"));
  row("weights", cat(model::weights_name(order.weights), " at step ", source.weights.step, ", after ",
                     support::with_commas(source.weights.tokens), " tokens, as ", torch_dtype(order.dtype)));
  row("tokenizer", cat(source.tokenizer.kind, ", ", support::with_commas(source.tokenizer.vocabulary), " tokens"));
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

void write_hf_folder(const fs::path& folder, const ExportSource& source, ExportPlan& plan, const ExportOrder& order,
                     const Json& tokenizer) {
  const std::string where = order.tokenizer.string();
  plan.config["torch_dtype"] = plan.config["dtype"] = torch_dtype(order.dtype);
  set_tokens(plan.config, source.tokenizer);
  Json generation = {{"_from_model_config", true}, {"use_cache", plan.config.at("use_cache")}};
  set_tokens(generation, source.tokenizer);
  write_weight_file(folder / "model.safetensors", source.model, plan, order.dtype,
                    {{"format", "pt"}, {"made_by", cat("pe-pipeline ", PE_VERSION)}});
  put_json(folder / "config.json", plan.config);
  put_json(folder / "generation_config.json", generation);
  write_tokenizer_files(folder, source.tokenizer, tokenizer, plan.config.at("max_position_embeddings"), where);
  if (plan.needs_code) support::write_file_atomically(folder / "modeling_pe_pipeline.py", embedded(kModelingCode));
  support::write_file_atomically(folder / "compare_in_transformers.py", embedded(kCompareCode));
  Json manifest = manifest_of(source, plan, order);
  support::write_file_atomically(folder / "README.md", model_card(source, plan, order, manifest));
  Json files = Json::object();
  for (const std::string& name : support::list_folder(folder)) files[name] = support::sha256_file(folder / name);
  manifest["files"] = files;
  put_json(folder / kManifestFile, manifest);
}

}  // namespace

std::string export_to_hf(const ExportOrder& order) {
  const ExportSource source = open_export(order, /*round_vectors=*/true);
  ExportPlan plan = plan_export(source.model, order.longest, ExportForm::kFolder);
  const Json tokenizer = tokenizer_json(source.tokenizer, order.tokenizer.string());
  support::ScratchFolder folder(support::unique_sibling(order.out));
  write_hf_folder(folder.path(), source, plan, order, tokenizer);
  support::rename_durably(folder.path(), order.out);
  folder.keep();
  std::string text = cat("wrote ", order.out.string(), ": ", plan.config.at("architectures")[0].get<std::string>(),
                         ", ", plan.tensors.size(), " tensors, ", parameter_text(source.model), "\n");
  if (plan.needs_code)
    text += cat("it needs trust_remote_code=True, since no stock class computes the same: ", plan.why_code, "\n");
  return text;
}

std::string verify_export(const fs::path& folder) {
  const fs::path file = folder / kManifestFile;
  const std::string where = file.string();
  const Json manifest = read_hf_json(file);
  require_manifest(manifest, where);
  if (!manifest.value("files", Json()).is_object())
    throw ArtifactError(cat(quote(where), ": expected a list of files, found something else"));
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
  const double most = compare_golden(manifest, read_hf_model(folder).model, folder.string());
  return cat(folder.string(), ": ", manifest["files"].size(), " files are as they were written; log-probabilities of ",
             manifest["golden"].size(), " texts differ by at most ", fmt::format("{:.1e}", most), "\n");
}

}  // namespace pe::interop
