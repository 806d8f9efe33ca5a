#include "interop/gguf_export.h"

#include "encodings/registry.h"
#include "interop/export_source.h"
#include "interop/gguf_model.h"
#include "interop/gguf_plan.h"
#include "interop/gguf_tokenizer.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/text.h"
#include "support/version.h"

namespace pe::interop {

using support::cat;

namespace {

std::int64_t file_type(const std::string& dtype) { return dtype == "F32" ? 0 : dtype == "F16" ? 1 : 32; }

std::vector<SafetensorsTensor> tensors_of(const GgufPlan& plan, const model::LanguageModel& model,
                                          const std::string& dtype) {
  std::vector<SafetensorsTensor> tensors;
  if (!plan.divisors.empty()) {
    tensors.push_back(
        {"rope_freqs.weight", "F32", {static_cast<std::int64_t>(plan.divisors.size())}, [&plan](const ByteSink& sink) {
           sink(from_floats("F32", plan.divisors));
         }});
  }
  for (const ExportTensor& tensor : plan.tensors) {
    const std::string own = tensor.shape.size() < 2 ? "F32" : dtype;  // llama.cpp adds float32 vectors alone
    tensors.push_back(export_tensor(tensor, model, own));
  }
  return tensors;
}

}  // namespace

std::string export_to_gguf(const ExportOrder& order) {
  const ExportSource source = open_export(order, /*round_vectors=*/false);
  const ExportPlan whole = plan_export(source.model, order.longest, ExportForm::kGguf);
  GgufPlan plan = plan_gguf(whole);
  const model::ModelConfig& c = source.model.config();
  plan.values.merge(gguf_tokenizer(source.tokenizer, c.vocabulary, order.tokenizer.string()));
  plan.values["general.name"] = order.out.stem().string();
  plan.values["general.description"] =
      cat("positional encoding ", encodings::encoding_name(c.encoding.json), ", by pe-pipeline ", PE_VERSION);
  plan.values["general.file_type"] = file_type(order.dtype);
  plan.values[kGgufManifest] = manifest_of(source, whole, order).dump();
  support::ScratchFolder folder(support::unique_sibling(order.out));
  const std::filesystem::path file = folder.path() / "model.gguf";
  write_gguf(file, plan.values, tensors_of(plan, source.model, order.dtype));
  support::rename_durably(file, order.out);
  return cat("wrote ", order.out.string(), ": architecture ", plan.architecture, ", ", plan.tensors.size(),
             " tensors, ", parameter_text(source.model), "\n");
}

std::string verify_gguf(const std::filesystem::path& path) {
  const GgufModel read = read_gguf_model(path);
  const double most = compare_golden(read.manifest, read.model, path.string());
  return cat(path.string(), ": log-probabilities of ", read.manifest["golden"].size(), " texts differ by at most ",
             fmt::format("{:.1e}", most), "\n");
}

}  // namespace pe::interop
