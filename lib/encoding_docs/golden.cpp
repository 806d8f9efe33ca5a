#include "encoding_docs/golden.h"

#include "encoding_docs/example.h"
#include "encodings/attention/attend.h"
#include "encodings/attention/frozen.h"
#include "encodings/attention/token_reader.h"
#include "support/text.h"

namespace pe::encoding_docs {
namespace {

using at::Tensor;
using encodings::EncodingEntry;
using encodings::PositionalEncoding;
using encodings::Shape;
using encodings::Span;

constexpr std::int64_t kGoldenHeads = 4, kGoldenHeadWidth = 8, kGoldenWidth = 32, kGoldenTokens = 7,
                       kGoldenTrainLength = 7, kGoldenLayers = 4, kGoldenLayer = 2;

/// sin(step·(n + 1) + phase), n counting all elements in row-major order.
Tensor waves(at::IntArrayRef sizes, double step, double phase) {
  Tensor t = at::empty(sizes, at::kDouble);
  double* values = t.mutable_data_ptr<double>();
  for (std::int64_t n = 0; n < t.numel(); ++n) values[n] = std::sin(step * static_cast<double>(n + 1) + phase);
  return t;
}

Json list_of(const Tensor& t) {
  if (t.dim() == 0) {
    const double value = t.item<double>();
    return std::isfinite(value) ? Json(value) : Json();
  }
  Json list = Json::array();
  for (std::int64_t i = 0; i < t.size(0); ++i) list.push_back(list_of(t[i]));
  return list;
}

/// Row i of each head holds the keys 0 .. i.
Json triangle(const Tensor& logits) {
  Json heads = Json::array();
  for (std::int64_t h = 0; h < logits.size(1); ++h) {
    Json rows = Json::array();
    for (std::int64_t i = 0; i < logits.size(2); ++i) rows.push_back(list_of(logits[0][h][i].narrow(0, 0, i + 1)));
    heads.push_back(std::move(rows));
  }
  return heads;
}

/// Away from initial values, many of which are 0 or 1 and would hide a mistake; then back into the encoding's bounds.
void set_parameters(PositionalEncoding& encoding) {
  at::NoGradGuard no_grad;
  for (const encodings::Parameter& parameter : encoding.parameters()) {
    Tensor value = parameter.value;
    value.add_(waves(value.sizes(), 0.7, 0), 0.1);
  }
  encoding.after_step();
}

}  // namespace

Json golden_case(const EncodingEntry& entry) {
  const Shape shape{.width = kGoldenWidth,
                    .layers = kGoldenLayers,
                    .query_heads = kGoldenHeads,
                    .key_value_heads = kGoldenHeads,
                    .head_width = kGoldenHeadWidth,
                    .train_length = kGoldenTrainLength,
                    .dtype = at::kDouble};
  Json config = example_config(entry);
  if (support::find_field(entry.fields, "rows") != nullptr)
    config["rows"] = 16;  // of a table: as many as these tokens need
  const auto encoding = encodings::make_encoding(config, shape);
  set_parameters(*encoding);
  at::NoGradGuard no_grad;
  Span span = Span::whole(1, kGoldenTokens);
  Json out = {{"name", entry.name}, {"encoding", config}};
  if (encoding->facts().length_dependent) {
    span.pe_len = 4 * kGoldenTrainLength;
    out["pe_len"] = *span.pe_len;
  }
  encodings::State state = example_pass(*encoding, span);
  if (encodings::reader_of(*encoding) != nullptr)
    out["token_positions"] = list_of(encodings::numbers_of(state)[0].to(at::kDouble));
  encodings::LayerContext context = encodings::layer_context(*encoding, state, static_cast<int>(kGoldenLayer),
                                                             waves({1, kGoldenTokens, kGoldenWidth}, 0.15, 0.5));
  out["positions"] = list_of(context.positions.to(at::kDouble));
  out["parameters"] = Json::object();
  for (const std::vector<encodings::Parameter>* some : {&encoding->parameters(), &encodings::frozen_of(*encoding)}) {
    for (const encodings::Parameter& parameter : *some) {
      if (parameter.layer < 0 || parameter.layer == kGoldenLayer)
        out["parameters"][parameter.name] = list_of(parameter.value);
    }
  }
  encodings::AttentionMatrices matrices;
  const Tensor output =
      encodings::attend(*encoding, context,
                        {.q = waves({1, encoding->projected_heads(), kGoldenTokens, kGoldenHeadWidth}, 0.1, 0),
                         .k = waves({1, kGoldenHeads, kGoldenTokens, kGoldenHeadWidth}, 0.2, 1.5),
                         .v = waves({1, kGoldenHeads, kGoldenTokens, kGoldenHeadWidth}, 0.3, 1),
                         .scale = 1 / std::sqrt(static_cast<double>(kGoldenHeadWidth))},
                        {.route = encodings::Route::kReference, .matrices = &matrices});
  if (encoding->traits(span).adds_to_tokens) {
    encodings::State fresh = example_pass(*encoding, span);
    out["embedding"] = list_of(
        encodings::add_to_tokens(*encoding, at::zeros({1, kGoldenTokens, kGoldenWidth}, at::kDouble), fresh)[0]);
  } else {
    out["logits"] = triangle(matrices.logits);
    out["weights"] = triangle(matrices.weights);
    out["output"] = list_of(output[0]);
  }
  return out;
}

std::string golden_vectors() {
  const Json header = {{"shape",
                        {{"d_model", kGoldenWidth},
                         {"layers", kGoldenLayers},
                         {"layer", kGoldenLayer},
                         {"heads", kGoldenHeads},
                         {"d_h", kGoldenHeadWidth},
                         {"tokens", kGoldenTokens},
                         {"train_length", kGoldenTrainLength}}},
                       {"q", "sin(0.1(n + 1)), n the row-major index in [heads, tokens, d_h]"},
                       {"k", "sin(0.2(n + 1) + 1.5), the same"},
                       {"v", "sin(0.3(n + 1) + 1), the same"},
                       {"x", "sin(0.15(n + 1) + 0.5), n in [tokens, d_model]: input of the attention"},
                       {"dtype", "float64"}};
  std::string text = support::cat("{\"schema\": \"pe-golden/1\",\n\"inputs\": ", header.dump(), ",\n\"cases\": [\n");
  bool first = true;
  for (const EncodingEntry& entry : encodings::encodings()) {
    text += support::cat(first ? "" : ",\n", golden_case(entry).dump());
    first = false;
  }
  return text + "\n]}\n";
}

}  // namespace pe::encoding_docs
