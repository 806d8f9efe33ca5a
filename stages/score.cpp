// pe-score: attention with an encoding on tensors out of an HDF5 file, to check us against other code. No stage: it
// takes any file with the right datasets.
#include "cli/run_program.h"
#include "cli/tool_table.h"
#include "encoding_docs/score_file.h"
#include "kernels/explain.h"

using pe::encodings::Route;

int main(int argc, char** argv) {
  const auto body = [&] {
    pe::cli::ToolValues flags;
    if (const auto code = pe::cli::parse_tool_flags(argc, argv, *pe::cli::find_tool("pe-score"), flags)) return *code;
    pe::encoding_docs::ScoreOrder order;
    order.encoding = pe::encoding_docs::read_encoding(flags.text("--encoding"), flags.all("--set"));
    order.in = flags.text("--in");
    order.out = flags.text("--out");
    const std::string& dtype = flags.text("--dtype");
    order.dtype = dtype == "float64" ? at::kDouble : dtype == "float32" ? at::kFloat : at::kBFloat16;
    const std::string& route = flags.text("--route");
    order.route = route == "reference" ? Route::kReference : route == "fused" ? Route::kFused : Route::kChunked;
    order.gradients = flags.is_set("--gradients");
    order.layer = flags.integer("--layer", 0, 1023);
    order.layers = flags.is_set("--layers") ? flags.integer("--layers", 1, 1024) : order.layer + 1;
    if (flags.is_set("--train-length")) order.train_length = flags.integer("--train-length", 1);
    if (flags.is_set("--pe-length")) order.pe_length = flags.integer("--pe-length", 1);
    pe::encoding_docs::score_file(order);
    return 0;
  };
  return pe::cli::run_program("pe-score", body,
                              [](const std::exception& error) { return pe::kernels::explain(error); });
}
