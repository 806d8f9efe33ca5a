#include "encodings/attention/pair_network.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "cuda/plugin.h"
#include "encodings/attention/attend_rows.h"
#include "kernels/dispatch.h"

namespace pe::encodings {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Inputs without a gradient.
struct NetworkConstants {
  Tensor starts, documents;  // [S] or [B,S], or undefined
  double scale = 1, slope = 0;
};

/// The logits q·k before their scale, the first layer and its bias, the second layer, the offset and, if there is one,
/// the base: all contiguous fp32.
PeCudaPairNetwork network_of(const variable_list& tensors, const NetworkConstants& fixed) {
  const auto floats = [&](std::size_t i) { return tensors.size() > i ? tensors[i].data_ptr<float>() : nullptr; };
  const auto rows = [](const Tensor& t) { return t.defined() ? t.data_ptr<std::int64_t>() : nullptr; };
  const auto by_sequence = [](const Tensor& t) {
    return t.defined() && t.dim() == 2 && t.size(0) > 1 ? t.stride(0) : 0;
  };
  const Tensor& logits = tensors[0];
  return {.batch = logits.size(0),
          .heads = logits.size(1),
          .queries = logits.size(2),
          .keys = logits.size(3),
          .taps = tensors[1].size(2),
          .logits = floats(0),
          .base = floats(5),
          .offset = floats(4),
          .first = floats(1),
          .first_bias = floats(2),
          .second = floats(3),
          .scale = static_cast<float>(fixed.scale),
          .slope = static_cast<float>(fixed.slope),
          .starts = rows(fixed.starts),
          .documents = rows(fixed.documents),
          .starts_by_sequence = by_sequence(fixed.starts),
          .documents_by_sequence = by_sequence(fixed.documents)};
}

class NetworkFunction : public torch::autograd::Function<NetworkFunction> {
 public:
  static Tensor forward(AutogradContext* context, at::TensorList tensors, const NetworkConstants& fixed) {
    variable_list kept;
    for (const Tensor& tensor : tensors) kept.push_back(tensor.contiguous());
    const PeCudaTable* plugin = kernels::plugin_for(kept[0]);
    const PeCudaPairNetwork of = network_of(kept, fixed);
    Tensor pairs = at::empty_like(kept[0]);
    kernels::require_launched(plugin->pair_network(&of, pairs.data_ptr<float>(), kernels::stream_of(plugin, pairs)),
                              "pair_network");
    context->save_for_backward(kept);
    context->saved_data["starts"] = fixed.starts;
    context->saved_data["documents"] = fixed.documents;
    context->saved_data["scale"] = fixed.scale;
    context->saved_data["slope"] = fixed.slope;
    return pairs;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list kept = context->get_saved_variables();
    const NetworkConstants fixed{context->saved_data["starts"].toTensor(), context->saved_data["documents"].toTensor(),
                                 context->saved_data["scale"].toDouble(), context->saved_data["slope"].toDouble()};
    const PeCudaPairNetwork of = network_of(kept, fixed);
    const Tensor above = gradients[0].contiguous();
    const Tensor logits = at::zeros_like(kept[0]);
    const std::int64_t channels = pe_cuda_network_channels(of), based = channels - of.heads;
    const Tensor by_distance = at::empty({of.batch * pe_cuda_network_strips(of), channels, of.keys}, kept[0].options());
    const Tensor parameters =
        at::empty({pe_cuda_network_blocks(of), pe_cuda_network_parameters(of)}, kept[0].options());
    const PeCudaPairNetworkGradients to{logits.data_ptr<float>(), by_distance.data_ptr<float>(),
                                        parameters.data_ptr<float>()};
    const PeCudaTable* plugin = kernels::plugin_for(kept[0]);
    kernels::require_launched(
        plugin->pair_network_backward(&of, above.data_ptr<float>(), &to, kernels::stream_of(plugin, above)),
        "pair_network_backward");
    const Tensor distances = by_distance.sum(0);
    const variable_list parts = parameters.sum(0).split_with_sizes({kept[1].numel(), kept[3].numel(), kept[2].numel()});
    variable_list found{logits, parts[0].view_as(kept[1]), parts[2], parts[1].view_as(kept[3]),
                        distances.narrow(0, based, of.heads)};
    if (kept.size() > 5) found.push_back(distances.narrow(0, 0, based));
    found.emplace_back();  // the fixed inputs
    return found;
  }
};

Tensor of_keys(const Tensor& by_row, std::int64_t keys) {
  return by_row.defined() ? by_row.narrow(-1, 0, keys).contiguous() : by_row;
}

}  // namespace

bool has_pair_network(at::Device device, std::int64_t heads, std::int64_t channels, std::int64_t taps) {
  const PeCudaTable* plugin = kernels::plugin_for(device, at::kFloat);
  if (plugin == nullptr) return false;
  const float some = 0;  // is never read
  const PeCudaPairNetwork of{.heads = heads, .taps = taps, .base = channels > heads ? &some : nullptr, .offset = &some};
  return plugin->takes_pair_network(device.is_cuda() ? device.index() : 0, &of);
}

Tensor bias_of_network(const Rows& rows, const PairNetwork& network) {
  const Tensor last = network.second_bias.to(at::kFloat).unsqueeze(1);
  variable_list tensors{products(rows.q, rows.k), network.first.to(at::kFloat), network.first_bias.to(at::kFloat),
                        network.second.to(at::kFloat)};
  if (network.base.defined()) {
    Tensor base = network.base.to(at::kFloat);
    if (base.size(1) != rows.keys) base = base.narrow(1, 0, rows.keys);
    tensors.insert(tensors.end(), {base + last, base});
  } else {
    tensors.push_back(last.expand({last.size(0), rows.keys}));
  }
  return NetworkFunction::apply(
      at::TensorList(tensors),
      NetworkConstants{of_keys(first_keys(rows.context), rows.keys), of_keys(rows.context.span.doc_start, rows.keys),
                       rows.scale, network.slope});
}

}  // namespace pe::encodings
