#include <ATen/ops/index_select.h>

#include "model/node.h"

namespace pe::model {
namespace {

Tensor embed_forward(const Tensor& ids, const Tensor& table, double scale) {
  Tensor x = at::index_select(table, 0, ids.reshape({-1}));
  if (scale != 1.0) x.mul_(scale);
  return x.view({ids.size(0), ids.size(1), table.size(1)});
}

class Embed : public Function<Embed> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& ids, const Tensor& leaf, const Weight& weight,
                        double scale) {
    context->save_for_backward({ids});
    context->saved_data["gradient"] = weight.gradient;
    context->saved_data["scale"] = scale;
    return embed_forward(ids, weight.value, scale);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Tensor gradient = context->saved_data["gradient"].toTensor();
    const double scale = context->saved_data["scale"].toDouble();
    const Tensor ids = context->get_saved_variables()[0];
    if (gradient.defined()) operations_for(gradients[0]).add_embedding_gradient(gradients[0], ids, gradient, scale);
    return {{}, {}, {}, {}};
  }
};

}  // namespace

Tensor embed(const Tensor& ids, const Tensor& table, const Weight& weight, double scale) {
  if (!at::GradMode::is_enabled()) return embed_forward(ids, weight.value, scale);
  return Embed::apply(ids, table, weight, scale);
}

}  // namespace pe::model
