// pe-export: a model and its tokenizer as files of Hugging Face transformers or llama.cpp. No stage: its result is for
// others.
#include "cli/print.h"
#include "cli/run_program.h"
#include "cli/tool_table.h"
#include "interop/gguf_export.h"
#include "interop/hf_export.h"
#include "kernels/explain.h"
#include "support/error.h"

namespace {

const std::string& needed(const pe::cli::ToolValues& flags, const char* flag) {
  if (!flags.is_set(flag)) {
    throw pe::support::ConfigError(std::string(flag) + " is missing", {"pe-export", 0, 0, "", 1},
                                   "give --model, --tokenizer and --out, or --verify PATH");
  }
  return flags.text(flag);
}

bool is_gguf(const std::filesystem::path& path) { return path.extension() == ".gguf"; }

}  // namespace

int main(int argc, char** argv) {
  const auto body = [&] {
    pe::cli::ToolValues flags;
    if (const auto code = pe::cli::parse_tool_flags(argc, argv, *pe::cli::find_tool("pe-export"), flags)) return *code;
    if (flags.is_set("--verify")) {
      const std::filesystem::path path = flags.text("--verify");
      pe::cli::print(is_gguf(path) ? pe::interop::verify_gguf(path) : pe::interop::verify_export(path));
      return 0;
    }
    pe::interop::ExportOrder order;
    order.model = needed(flags, "--model");
    order.tokenizer = needed(flags, "--tokenizer");
    order.out = needed(flags, "--out");
    if (!order.out.has_filename()) order.out = order.out.parent_path();  // folder/
    const std::string& dtype = flags.text("--dtype");
    order.dtype = dtype == "bfloat16" ? "BF16" : dtype == "float16" ? "F16" : "F32";
    const std::string& weights = flags.text("--weights");
    using pe::model::WeightsOf;
    order.weights = weights == "ema" ? WeightsOf::kEma : weights == "best" ? WeightsOf::kBest : WeightsOf::kModel;
    if (flags.is_set("--length")) order.longest = flags.integer("--length", 1);
    pe::cli::print(is_gguf(order.out) ? pe::interop::export_to_gguf(order) : pe::interop::export_to_hf(order));
    return 0;
  };
  return pe::cli::run_program("pe-export", body,
                              [](const std::exception& error) { return pe::kernels::explain(error); });
}
