#include "model/functions.h"

#include <ATen/Parallel.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cuda/plugin.h"
#include "kernels/forms.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

using kernels::plugin_for;
using kernels::require_launched;
using kernels::stream_of;

bool uses_kernels(const Tensor& x) { return kernels::cpu_for(x) != nullptr; }

bool is_bf16(const Tensor& x) { return x.scalar_type() == at::kBFloat16; }

const void* bytes_of(const Tensor& x) { return x.defined() ? x.data_ptr() : nullptr; }
float* floats_of(const Tensor& x) { return x.defined() ? x.data_ptr<float>() : nullptr; }

/// For sums over `rows` rows of `width` columns.
Tensor scratch_for(std::int64_t rows, std::int64_t width, const Tensor& like) {
  return at::empty({pe_cuda_parts(rows) * width}, like.options().dtype(at::kFloat));
}

/// What is computed at least in fp32.
at::ScalarType wide(const Tensor& x) { return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

/// Runs body(first, last, slot) over rows in a fixed number of parts, so that sums over parts do not depend on threads.
constexpr std::int64_t kParts = 16;
template <typename Body>
void over_parts(std::int64_t rows, const Body& body) {
  const std::int64_t step = (rows + kParts - 1) / kParts;
  at::parallel_for(0, kParts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      const std::int64_t first = std::min(rows, part * step), last = std::min(rows, first + step);
      if (first < last) body(first, last, part);
    }
  });
}

template <typename Body>
void over_rows(std::int64_t rows, std::int64_t work, const Body& body) {
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, work));
  at::parallel_for(0, rows, grain, body);
}

void add_parts(const Tensor& gradient, const std::vector<float>& parts, std::int64_t width) {
  float* to = gradient.data_ptr<float>();
  for (std::int64_t part = 0; part < kParts; ++part) {
    for (std::int64_t i = 0; i < width; ++i) to[i] += parts[static_cast<std::size_t>(part * width + i)];
  }
}

/// c (+)= a · b by our kernel where that is the faster one: a [m, k] and b [k, n] with any strides, c row-major.
/// The choice depends on the shapes alone. @return false when it is not.
bool kernel_product(const Tensor& a, const Tensor& b, const Tensor& c, bool accumulate) {
  const auto gemm = kernels::cpu_table().gemm;
  if (gemm == nullptr || !uses_kernels(a) || !uses_kernels(b) || !uses_kernels(c)) return false;
  const std::int64_t rows = a.size(0), depth = a.size(1), columns = b.size(1);
  if (std::min({rows, depth, columns}) > 256 || rows < 8 || c.stride(1) != 1) return false;
  const float *pa = a.data_ptr<float>(), *pb = b.data_ptr<float>();
  float* pc = c.data_ptr<float>();
  // Every thread packs the part of b that it reads, so threads share the longer side.
  const bool by_columns = columns > rows;
  const std::int64_t side = by_columns ? columns : rows, unit = by_columns ? 64 : 8;
  const std::int64_t grain = std::max<std::int64_t>(1, (std::int64_t{1} << 19) / (unit * depth * (by_columns ? rows : columns)));
  at::parallel_for(0, (side + unit - 1) / unit, grain, [&](std::int64_t first, std::int64_t last) {
    thread_local std::vector<float> scratch(static_cast<std::size_t>(kernels::kGemmScratch));
    const std::int64_t begin = first * unit, count = std::min(side, last * unit) - begin;
    if (by_columns) {
      gemm({rows, count, depth, a.stride(0), a.stride(1), b.stride(0), b.stride(1), c.stride(0)}, pa, pb + begin * b.stride(1),
           pc + begin, scratch.data(), accumulate);
    } else {
      gemm({count, columns, depth, a.stride(0), a.stride(1), b.stride(0), b.stride(1), c.stride(0)}, pa + begin * a.stride(0), pb,
           pc + begin * c.stride(0), scratch.data(), accumulate);
    }
  });
  return true;
}

/// a · b into `to`.
void product_into(Tensor& to, const Tensor& a, const Tensor& b) {
  if (!kernel_product(a, b, to, false)) at::mm_out(to, a, b);
}

Tensor product(const Tensor& a, const Tensor& b) {
  Tensor result = at::empty({a.size(0), b.size(1)}, a.options());
  product_into(result, a, b);
  return result;
}

/// gradient += aᵀ · b.
void add_product(const Tensor& gradient, const Tensor& a, const Tensor& b) {
  if (!gradient.defined()) return;
  if (gradient.scalar_type() != a.scalar_type()) gradient.add_(at::mm(a.t(), b));
  else if (!kernel_product(a.t(), b, gradient, true)) gradient.addmm_(a.t(), b);
}

Tensor rows_of(const Tensor& x) { return x.reshape({-1, x.size(-1)}); }

// ---- RMSNorm ------------------------------------------------------------------------------------------------------

struct Normed {
  Tensor y;
  Tensor rstd;    ///< [rows]
  Tensor input;   ///< what was normed
};

/// Of x, or of x + `delta` where that is defined.
Normed norm_forward(const Tensor& x, const Tensor& weight, double eps, const Tensor& delta = {}) {
  const std::int64_t width = x.size(-1), rows = x.numel() / width;
  if (const PeCudaTable* plugin = plugin_for(x)) {
    const Tensor in = x.contiguous(), more = delta.defined() ? delta.to(x.scalar_type()).contiguous() : delta;
    const Tensor sum = more.defined() ? at::empty_like(in) : in;
    Tensor y = at::empty_like(in), rstd = at::empty({rows}, in.options().dtype(at::kFloat));
    require_launched(plugin->rms_norm(in.data_ptr(), bytes_of(more), weight.data_ptr<float>(), sum.data_ptr(), y.data_ptr(),
                                      rstd.data_ptr<float>(), rows, width, static_cast<float>(eps), is_bf16(x),
                                      stream_of(plugin, x)),
                     "rms_norm");
    return {y, rstd, sum};
  }
  if (delta.defined()) return norm_forward(x + delta, weight, eps);
  if (uses_kernels(x)) {
    Tensor y = at::empty_like(x, at::MemoryFormat::Contiguous), rstd = at::empty({rows}, x.options());
    const float *from = x.data_ptr<float>(), *w = weight.data_ptr<float>();
    float *to = y.data_ptr<float>(), *scale = rstd.data_ptr<float>();
    over_rows(rows, width, [&](std::int64_t first, std::int64_t last) {
      kernels::cpu_table().rms_norm(from + first * width, w, to + first * width, scale + first, last - first, width,
                              static_cast<float>(eps));
    });
    return {y, rstd, x};
  }
  const Tensor values = x.to(wide(x));
  const Tensor rstd = at::rsqrt((values * values).mean(-1, true) + eps);
  return {(values * rstd * weight).to(x.scalar_type()), rstd.reshape({rows}), x};
}

/// The gradient by x, plus `add` where defined; adds the weight's own.
Tensor norm_backward(const Tensor& dy, const Tensor& x, const Weight& weight, const Tensor& rstd, const Tensor& add) {
  const std::int64_t width = x.size(-1), rows = x.numel() / width;
  if (const PeCudaTable* plugin = plugin_for(x)) {
    const Tensor g = dy.to(x.scalar_type()).contiguous(), in = x.contiguous();
    const Tensor residual = add.defined() ? add.to(x.scalar_type()).contiguous() : add;
    Tensor dx = at::empty_like(in);
    const Tensor scratch = weight.gradient.defined() ? scratch_for(rows, width, x) : Tensor();
    require_launched(plugin->rms_norm_backward(g.data_ptr(), in.data_ptr(), weight.value.data_ptr<float>(),
                                               rstd.data_ptr<float>(), bytes_of(residual), dx.data_ptr(),
                                               floats_of(weight.gradient), floats_of(scratch), rows, width, is_bf16(x),
                                               stream_of(plugin, x)),
                     "rms_norm_backward");
    return dx;
  }
  if (uses_kernels(x)) {
    const Tensor g = dy.contiguous(), residual = add.defined() ? add.contiguous() : add;
    Tensor dx = at::empty_like(x, at::MemoryFormat::Contiguous);
    std::vector<float> parts(static_cast<std::size_t>(kParts * width), 0.0F);
    const float *pg = g.data_ptr<float>(), *px = x.data_ptr<float>(), *pw = weight.value.data_ptr<float>();
    const float *pr = rstd.data_ptr<float>(), *pa = residual.defined() ? residual.data_ptr<float>() : nullptr;
    float* to = dx.data_ptr<float>();
    over_parts(rows, [&](std::int64_t first, std::int64_t last, std::int64_t part) {
      kernels::cpu_table().rms_norm_backward(pg + first * width, px + first * width, pw, pr + first,
                                       pa == nullptr ? nullptr : pa + first * width, to + first * width,
                                       parts.data() + part * width, last - first, width);
    });
    if (weight.gradient.defined()) add_parts(weight.gradient, parts, width);
    return dx;
  }
  const Tensor g = dy.to(wide(x)), values = x.to(wide(x));
  std::vector<std::int64_t> row_shape = x.sizes().vec();
  row_shape.back() = 1;
  const Tensor r = rstd.reshape(row_shape);
  if (weight.gradient.defined()) weight.gradient.add_((g * values * r).reshape({rows, width}).sum(0));
  const Tensor gw = g * weight.value;
  Tensor dx = gw * r - values * r.pow(3) * ((gw * values).sum(-1, true) / static_cast<double>(width));
  if (add.defined()) dx = dx + add;
  return dx.to(x.scalar_type());
}

class RmsNorm : public Function<RmsNorm> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Weight& weight, double eps) {
    const Normed normed = norm_forward(x, weight.value, eps);
    context->save_for_backward({x, normed.rstd, weight.value});
    context->saved_data["gradient"] = weight.gradient;
    return normed.y;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const Weight weight{saved[2], context->saved_data["gradient"].toTensor()};
    return {norm_backward(gradients[0], saved[0], weight, saved[1], {}), {}, {}};
  }
};

class AddRmsNorm : public Function<AddRmsNorm> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& delta, const Weight& weight, double eps) {
    const Normed normed = norm_forward(x, weight.value, eps, delta);
    context->save_for_backward({normed.input, normed.rstd, weight.value});
    context->saved_data["gradient"] = weight.gradient;
    return normed.y;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const Weight weight{saved[2], context->saved_data["gradient"].toTensor()};
    const Tensor d = norm_backward(gradients[0], saved[0], weight, saved[1], {});
    return {d, d, {}, {}};
  }
};

// ---- LayerNorm and projections of other structures -----------------------------------------------------------------

void add_bias(const Tensor& to, const Tensor& bias) {
  if (bias.defined()) to.add_(bias.to(to.scalar_type()));
}

/// gradient += the sum of g over its rows.
void add_column_sums(const Tensor& gradient, const Tensor& g) {
  if (gradient.defined()) gradient.add_(g.sum(0, false, gradient.scalar_type()));
}

class LayerNorm : public Function<LayerNorm> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Weight& weight, const Weight& bias, double eps) {
    const Tensor values = x.to(wide(x));
    const std::int64_t width = x.size(-1);
    auto [y, mean, rstd] = at::native_layer_norm(values, width, weight.value, bias.value, eps);
    if (context != nullptr) {
      context->save_for_backward({values, mean, rstd});
      context->saved_data["weight"] = weight.value;
      context->saved_data["bias"] = bias.value;
      context->saved_data["weight_gradient"] = weight.gradient;
      context->saved_data["bias_gradient"] = bias.gradient;
      context->saved_data["type"] = x.scalar_type();
    }
    return y.to(x.scalar_type());
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    auto& data = context->saved_data;
    const Tensor weight_gradient = data["weight_gradient"].toTensor(), bias_gradient = data["bias_gradient"].toTensor();
    auto [dx, dweight, dbias] = at::native_layer_norm_backward(
        gradients[0].to(saved[0].scalar_type()), saved[0], saved[0].size(-1), saved[1], saved[2], data["weight"].toTensor(),
        data["bias"].toTensor(), {true, weight_gradient.defined(), bias_gradient.defined()});
    if (weight_gradient.defined()) weight_gradient.add_(dweight);
    if (bias_gradient.defined()) bias_gradient.add_(dbias);
    return {dx.to(data["type"].toScalarType()), {}, {}, {}};
  }
};

class Linear : public Function<Linear> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Weight& weight, const Weight& bias) {
    std::vector<std::int64_t> shape = x.sizes().vec();
    shape.back() = weight.value.size(0);
    const Tensor y = product(rows_of(x), weight.value.t());
    add_bias(y, bias.value);
    if (context != nullptr) {
      context->save_for_backward({x});
      context->saved_data["weight"] = weight.value;
      context->saved_data["weight_gradient"] = weight.gradient;
      context->saved_data["bias_gradient"] = bias.gradient;
    }
    return y.view(shape);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Tensor x = context->get_saved_variables()[0], g = rows_of(gradients[0]);
    auto& data = context->saved_data;
    add_product(data["weight_gradient"].toTensor(), g, rows_of(x));
    add_column_sums(data["bias_gradient"].toTensor(), g);
    return {product(g, data["weight"].toTensor()).view(x.sizes()), {}, {}};
  }
};

// ---- Embedding ----------------------------------------------------------------------------------------------------

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
    if (gradient.defined()) {
      if (uses_kernels(gradients[0])) {
        // In the order of the tokens, on one thread: a sum whose order is fixed. A few microseconds a thousand tokens.
        const Tensor g = gradients[0].contiguous(), index = ids.contiguous();
        const std::int64_t width = gradient.size(1), count = index.numel();
        const std::int64_t* row = index.data_ptr<std::int64_t>();
        const float* from = g.data_ptr<float>();
        float* table = gradient.data_ptr<float>();
        const auto factor = static_cast<float>(scale);
        for (std::int64_t i = 0; i < count; ++i) {
          float* to = table + row[i] * width;
          for (std::int64_t j = 0; j < width; ++j) to[j] += factor * from[i * width + j];
        }
      } else if (const PeCudaTable* plugin = plugin_for(gradients[0]);
                 plugin != nullptr && gradient.scalar_type() == at::kFloat) {
        const Tensor g = gradients[0].contiguous(), index = ids.reshape({-1}).contiguous();
        const Tensor order = at::argsort(index, /*stable=*/true, 0, false);
        require_launched(plugin->embedding_gradient(index.data_ptr<std::int64_t>(), order.data_ptr<std::int64_t>(),
                                                    g.data_ptr(), g.scalar_type() == at::kBFloat16,
                                                    gradient.data_ptr<float>(), index.numel(), gradient.size(1),
                                                    static_cast<float>(scale), stream_of(plugin, g)),
                         "embedding_gradient");
      } else {
        const Tensor wide_gradient = gradients[0].to(gradient.scalar_type()).reshape({-1, gradient.size(1)});
        gradient.add_(at::embedding_dense_backward(wide_gradient, ids.reshape({-1}), gradient.size(0), -1, false), scale);
      }
    }
    return {{}, {}, {}, {}};
  }
};

// ---- Attention's input --------------------------------------------------------------------------------------------

kernels::HeadStrides strides_of(const Tensor& heads) {
  return {heads.stride(0), heads.stride(1), heads.stride(2)};
}

PeCudaHeads plugin_heads(const Tensor& heads, const Tensor& packed) {
  return {heads.size(2), heads.size(1), heads.size(3), packed.size(1), heads.stride(0), heads.stride(1), heads.stride(2)};
}

/// Of no pairs where nothing turns.
PeCudaTurn plugin_turn(const Turn& turn) {
  if (!turn.cos.defined()) return {};
  return {turn.cos.data_ptr<float>(), turn.sin.data_ptr<float>(), turn.cos.dim() == 3 && turn.cos.size(0) > 1 ? turn.cos.stride(0) : 0,
          turn.cos.stride(-2), turn.cos.size(-1), turn.half};
}

const void* column_of(const Tensor& packed, std::int64_t column) {
  return static_cast<const char*>(packed.data_ptr()) + column * static_cast<std::int64_t>(packed.element_size());
}

bool over_width(const Tensor& weight, std::int64_t head_width) { return weight.defined() && weight.numel() != head_width; }

/// `turn` only where turns_with_heads() says so.
Normed split(const Tensor& packed, std::int64_t column, std::int64_t batch, std::int64_t heads, const Tensor& weight,
             const AttentionShape& shape, const Turn& turn = {}) {
  const std::int64_t rows = packed.size(0), length = rows / batch, d = shape.head_width;
  if (over_width(weight, d)) {
    const Normed normed = norm_forward(packed.narrow(1, column, heads * d).contiguous(), weight, shape.eps);
    return {normed.y.view({batch, length, heads, d}).transpose(1, 2).contiguous(), normed.rstd, {}};
  }
  if (const PeCudaTable* plugin = plugin_for(packed)) {
    const Tensor out = at::empty({batch, heads, length, d}, packed.options());
    const Tensor rstd = weight.defined() ? at::empty({rows, heads}, packed.options().dtype(at::kFloat)) : Tensor();
    const PeCudaHeads layout = plugin_heads(out, packed);
    const PeCudaTurn turned = plugin_turn(turn);
    require_launched(plugin->split_heads(column_of(packed, column), floats_of(weight), static_cast<float>(shape.eps), &turned,
                                         out.data_ptr(), floats_of(rstd), &layout, rows, is_bf16(packed),
                                         stream_of(plugin, packed)),
                     "split_heads");
    return {out, rstd, {}};
  }
  if (uses_kernels(packed)) {
    Tensor out = at::empty({batch, heads, length, d}, packed.options());
    Tensor rstd = weight.defined() ? at::empty({rows, heads}, packed.options()) : Tensor();
    const float* w = weight.defined() ? weight.data_ptr<float>() : nullptr;
    float* scale = rstd.defined() ? rstd.data_ptr<float>() : nullptr;
    const float* from = packed.data_ptr<float>() + column;
    float* to = out.data_ptr<float>();
    const kernels::HeadShape layout{length, heads, d, packed.size(1)};
    over_rows(rows, heads * d, [&](std::int64_t first, std::int64_t last) {
      kernels::cpu_table().split_heads(from, w, static_cast<float>(shape.eps), to, strides_of(out), scale, layout, first, last);
    });
    return {out, rstd, {}};
  }
  const Tensor part = packed.narrow(1, column, heads * d).reshape({batch, length, heads, d});
  if (!weight.defined()) return {part.transpose(1, 2).contiguous(), {}, {}};
  const Normed normed = norm_forward(part, weight, shape.eps);
  return {normed.y.transpose(1, 2).contiguous(), normed.rstd, {}};
}

void split_backward(const Tensor& dout, const Tensor& packed, const Tensor& rstd, std::int64_t column,
                    std::int64_t batch, std::int64_t heads, const Weight& weight, const AttentionShape& shape,
                    const Tensor& dpacked, const Turn& turn = {}) {
  const std::int64_t rows = packed.size(0), length = rows / batch, d = shape.head_width;
  if (!dout.defined()) {
    dpacked.narrow(1, column, heads * d).zero_();
    return;
  }
  if (over_width(weight.value, d)) {
    const Tensor part = packed.narrow(1, column, heads * d).contiguous();
    dpacked.narrow(1, column, heads * d)
        .copy_(norm_backward(dout.transpose(1, 2).reshape({rows, heads * d}), part, weight, rstd, {}));
    return;
  }
  if (const PeCudaTable* plugin = plugin_for(packed)) {
    const Tensor typed = dout.to(packed.scalar_type()), g = typed.stride(3) == 1 ? typed : typed.contiguous();
    const PeCudaHeads layout = plugin_heads(g, packed);
    const PeCudaTurn turned = plugin_turn(turn);
    const Tensor scratch = weight.gradient.defined() ? scratch_for(rows * heads, d, packed) : Tensor();
    require_launched(plugin->split_heads_backward(g.data_ptr(), column_of(packed, column), floats_of(weight.value), floats_of(rstd),
                                                  &turned, const_cast<void*>(column_of(dpacked, column)),
                                                  floats_of(weight.gradient), floats_of(scratch), &layout, rows, is_bf16(packed),
                                                  stream_of(plugin, packed)),
                     "split_heads_backward");
    return;
  }
  if (uses_kernels(packed)) {
    const Tensor g = dout.stride(3) == 1 ? dout : dout.contiguous();
    const bool normed = weight.value.defined();
    std::vector<float> parts(static_cast<std::size_t>(kParts * d), 0.0F);
    const float *pg = g.data_ptr<float>(), *pp = packed.data_ptr<float>() + column;
    const float *pw = normed ? weight.value.data_ptr<float>() : nullptr, *pr = normed ? rstd.data_ptr<float>() : nullptr;
    float* to = dpacked.data_ptr<float>() + column;
    const kernels::HeadShape layout{length, heads, d, packed.size(1)};
    over_parts(rows, [&](std::int64_t first, std::int64_t last, std::int64_t part) {
      kernels::cpu_table().split_heads_backward(pg, strides_of(g), pp, pw, pr, to, parts.data() + part * d, layout, first, last);
    });
    if (normed && weight.gradient.defined()) add_parts(weight.gradient, parts, d);
    return;
  }
  Tensor gradient = dout.transpose(1, 2);
  if (weight.value.defined()) {
    const Tensor part = packed.narrow(1, column, heads * d).reshape({batch, length, heads, d});
    gradient = norm_backward(gradient, part, weight, rstd, {});
  }
  dpacked.narrow(1, column, heads * d).copy_(gradient.reshape({rows, heads * d}));
}

class NormProject : public Function<NormProject> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& x, const Weight& norm, const Weight& packed,
                               const Weight& query_norm, const Weight& key_norm, const AttentionShape& shape,
                               const Turn& turn) {
    const std::int64_t batch = x.size(0), q_width = shape.heads * shape.head_width;
    const std::int64_t kv_width = shape.kv_heads * shape.head_width;
    const Normed normed = norm_forward(x, norm.value, shape.eps);
    const Tensor projected = product(rows_of(normed.y), packed.value.t());
    const Normed q = split(projected, 0, batch, shape.heads, query_norm.value, shape, turn);
    const Normed k = split(projected, q_width, batch, shape.kv_heads, key_norm.value, shape, turn);
    const Normed v = split(projected, q_width + kv_width, batch, shape.kv_heads, {}, shape);
    if (context != nullptr) {
      context->save_for_backward({x, normed.rstd, normed.y, projected, q.rstd, k.rstd});
      // Weights are held as they are, not as saved variables: the optimizer writes them in place after backward.
      auto& data = context->saved_data;
      data["weights"] = std::vector<Tensor>{norm.value, packed.value};
      data["norm_gradient"] = norm.gradient;
      data["packed_gradient"] = packed.gradient;
      data["query_norm"] = query_norm.value;
      data["query_gradient"] = query_norm.gradient;
      data["key_norm"] = key_norm.value;
      data["key_gradient"] = key_norm.gradient;
      data["shape"] = std::vector<std::int64_t>{shape.heads, shape.kv_heads, shape.head_width};
      data["eps"] = shape.eps;
      data["turn"] = std::vector<Tensor>{turn.cos, turn.sin};
      data["turn_half"] = turn.half;
    }
    return {normed.y, q.y, k.y, v.y};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    auto& data = context->saved_data;
    const auto weights = data["weights"].toTensorVector();
    const auto sizes = data["shape"].toIntVector();
    const AttentionShape shape{sizes[0], sizes[1], sizes[2], data["eps"].toDouble()};
    const Weight norm{weights[0], data["norm_gradient"].toTensor()};
    const Weight query_norm{data["query_norm"].toTensor(), data["query_gradient"].toTensor()};
    const Weight key_norm{data["key_norm"].toTensor(), data["key_gradient"].toTensor()};
    const Tensor &x = saved[0], &normed = saved[2], &projected = saved[3];
    const std::int64_t batch = x.size(0), q_width = shape.heads * shape.head_width;
    const std::int64_t kv_width = shape.kv_heads * shape.head_width;

    const auto tables = data["turn"].toTensorVector();
    const Turn turn{tables[0], tables[1], data["turn_half"].toBool()};
    const Tensor dprojected = at::empty_like(projected);
    split_backward(gradients[1], projected, saved[4], 0, batch, shape.heads, query_norm, shape, dprojected, turn);
    split_backward(gradients[2], projected, saved[5], q_width, batch, shape.kv_heads, key_norm, shape, dprojected, turn);
    split_backward(gradients[3], projected, {}, q_width + kv_width, batch, shape.kv_heads, {}, shape, dprojected);
    add_product(data["packed_gradient"].toTensor(), dprojected, rows_of(normed));
    Tensor dnormed = product(dprojected, weights[1]).view(x.sizes());
    if (gradients[0].defined()) dnormed = dnormed + gradients[0];
    return {norm_backward(dnormed, x, norm, saved[1], {}), {}, {}, {}, {}, {}, {}};
  }
};

// ---- Attention's output -------------------------------------------------------------------------------------------

Tensor merge_heads(const Tensor& heads) {
  return heads.transpose(1, 2).reshape({heads.size(0) * heads.size(2), heads.size(1) * heads.size(3)});
}

Tensor project_forward(const Tensor& x, const Tensor& merged, const Tensor& weight) {
  const Tensor rows = rows_of(x);
  Tensor sum = rows.clone();
  if (kernel_product(merged, weight.t(), sum, true)) return sum.view(x.sizes());
  return at::addmm(rows, merged, weight.t()).view(x.sizes());
}

class ProjectResidual : public Function<ProjectResidual> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& heads, const Weight& output) {
    const Tensor merged = merge_heads(heads);
    context->save_for_backward({merged});
    context->saved_data["weight"] = output.value;
    context->saved_data["gradient"] = output.gradient;
    context->saved_data["shape"] = heads.sizes().vec();
    return project_forward(x, merged, output.value);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto shape = context->saved_data["shape"].toIntVector();
    const Tensor g = rows_of(gradients[0]);
    add_product(context->saved_data["gradient"].toTensor(), g, context->get_saved_variables()[0]);
    const Tensor dheads = product(g, context->saved_data["weight"].toTensor())
                              .view({shape[0], shape[2], shape[1], shape[3]})
                              .transpose(1, 2);
    return {gradients[0], dheads, {}};
  }
};

// ---- Feed-forward -------------------------------------------------------------------------------------------------

Tensor swiglu(const Tensor& gate_up) {
  const std::int64_t rows = gate_up.size(0), inner = gate_up.size(1) / 2;
  if (const PeCudaTable* plugin = plugin_for(gate_up)) {
    Tensor a = at::empty({rows, inner}, gate_up.options());
    require_launched(plugin->swiglu(gate_up.data_ptr(), a.data_ptr(), rows, inner, is_bf16(gate_up), stream_of(plugin, gate_up)),
                     "swiglu");
    return a;
  }
  if (uses_kernels(gate_up)) {
    Tensor a = at::empty({rows, inner}, gate_up.options());
    const float* from = gate_up.data_ptr<float>();
    float* to = a.data_ptr<float>();
    over_rows(rows, 8 * inner, [&](std::int64_t first, std::int64_t last) {
      kernels::cpu_table().swiglu(from + first * 2 * inner, to + first * inner, last - first, inner);
    });
    return a;
  }
  const Tensor gate = gate_up.narrow(1, 0, inner).to(wide(gate_up)), up = gate_up.narrow(1, inner, inner);
  return (gate * at::sigmoid(gate) * up).to(gate_up.scalar_type());
}

Tensor swiglu_backward(const Tensor& da, const Tensor& gate_up) {
  const std::int64_t rows = gate_up.size(0), inner = gate_up.size(1) / 2;
  Tensor d = at::empty_like(gate_up);
  if (const PeCudaTable* plugin = plugin_for(gate_up)) {
    const Tensor g = da.to(gate_up.scalar_type()).contiguous();
    require_launched(plugin->swiglu_backward(g.data_ptr(), gate_up.data_ptr(), d.data_ptr(), rows, inner, is_bf16(gate_up),
                                             stream_of(plugin, gate_up)),
                     "swiglu_backward");
    return d;
  }
  if (uses_kernels(gate_up)) {
    const float *pd = da.data_ptr<float>(), *from = gate_up.data_ptr<float>();
    float* to = d.data_ptr<float>();
    over_rows(rows, 8 * inner, [&](std::int64_t first, std::int64_t last) {
      kernels::cpu_table().swiglu_backward(pd + first * inner, from + first * 2 * inner, to + first * 2 * inner, last - first,
                                     inner);
    });
    return d;
  }
  const Tensor gate = gate_up.narrow(1, 0, inner).to(wide(gate_up)), up = gate_up.narrow(1, inner, inner);
  const Tensor s = at::sigmoid(gate);
  d.narrow(1, 0, inner).copy_(da * up * s * (1 + gate * (1 - s)));
  d.narrow(1, inner, inner).copy_(da * gate * s);
  return d;
}

class FeedForward : public Function<FeedForward> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& x, const Weight& norm, const Weight& gate_up,
                               const Weight& down, double eps) {
    const Normed normed = norm_forward(x, norm.value, eps);
    const Tensor inner = product(rows_of(normed.y), gate_up.value.t());
    const Tensor a = swiglu(inner);
    const Tensor y = product(a, down.value.t()).view(x.sizes());
    if (context != nullptr) {
      context->save_for_backward({x, normed.rstd, normed.y, inner, a});
      context->saved_data["weights"] = std::vector<Tensor>{norm.value, gate_up.value, down.value};
      context->saved_data["norm_gradient"] = norm.gradient;
      context->saved_data["gate_up_gradient"] = gate_up.gradient;
      context->saved_data["down_gradient"] = down.gradient;
    }
    return {x + y, y};
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    auto& data = context->saved_data;
    const auto weights = data["weights"].toTensorVector();
    Tensor g = gradients[0].defined() ? gradients[0] : at::zeros_like(saved[0]);
    const Tensor residual = g;
    if (gradients[1].defined()) g = g + gradients[1];
    g = rows_of(g);
    add_product(data["down_gradient"].toTensor(), g, saved[4]);
    const Tensor dinner = swiglu_backward(product(g, weights[2]), saved[3]);
    add_product(data["gate_up_gradient"].toTensor(), dinner, rows_of(saved[2]));
    const Tensor dnormed = product(dinner, weights[1]).view(saved[0].sizes());
    const Weight norm{weights[0], data["norm_gradient"].toTensor()};
    return {norm_backward(dnormed, saved[0], norm, saved[1], residual), {}, {}, {}, {}};
  }
};

// ---- Cross entropy ------------------------------------------------------------------------------------------------

/// Rows at a time: on the CPU about a million logits, which a cache keeps, but of a large vocabulary enough rows that reading
/// the head's weights three times for each of them is not what takes the time; more on a GPU.
std::int64_t chunk_rows(const Tensor& hidden, std::int64_t vocabulary) {
  const std::int64_t logits = hidden.is_cpu() ? std::int64_t{1} << 20 : std::int64_t{1} << 28;
  constexpr std::int64_t kLeast = 256;
  return std::clamp<std::int64_t>(logits / vocabulary, kLeast, std::max(kLeast, hidden.size(0)));
}

/// Losses of a chunk; with `gradient`, `logits` (fp32, or bf16 where the plug-in takes it) becomes softmax − one-hot.
void chunk_losses(Tensor& logits, const Tensor& targets, const Tensor& losses, bool gradient) {
  const std::int64_t rows = logits.size(0), vocabulary = logits.size(1);
  if (uses_kernels(logits)) {
    float *values = logits.data_ptr<float>(), *loss = losses.data_ptr<float>();
    const std::int64_t* target = targets.data_ptr<std::int64_t>();
    over_rows(rows, 4 * vocabulary, [&](std::int64_t first, std::int64_t last) {
      kernels::cpu_table().cross_entropy(values + first * vocabulary, target + first, loss + first, last - first, vocabulary,
                                   gradient);
    });
    return;
  }
  if (const PeCudaTable* plugin = plugin_for(logits)) {
    require_launched(plugin->cross_entropy(logits.data_ptr(), logits.scalar_type() == at::kBFloat16,
                                           targets.data_ptr<std::int64_t>(), losses.data_ptr<float>(), rows, vocabulary,
                                           gradient, stream_of(plugin, logits)),
                     "cross_entropy");
    return;
  }
  const Tensor counted = targets.ge(0), index = targets.clamp_min(0).unsqueeze(1);
  const Tensor log_probabilities = at::log_softmax(logits, 1);
  losses.copy_(log_probabilities.gather(1, index).squeeze(1).neg().mul(counted));
  if (!gradient) return;
  logits = log_probabilities.exp();
  logits.scatter_add_(1, index, at::zeros_like(logits.narrow(1, 0, 1)).sub_(1));
  logits.mul_(counted.unsqueeze(1));
}

struct CrossEntropy {
  Tensor losses;     ///< [N]
  Tensor dhidden;    ///< of the sum; undefined without gradients
  Tensor dhead, dbias;
};

/// The same with a cap and a z-loss, around chunk_losses: more passes over the chunk, paid only by those who ask.
void shaped_chunk_losses(Tensor& logits, const Tensor& targets, const Tensor& losses, bool gradient,
                         const LogitOptions& options) {
  const Tensor index = targets.clamp_min(0).unsqueeze(1);
  Tensor slope, of_target;
  if (options.softcap > 0) {
    cap_logits(logits, options.softcap);
    if (gradient) slope = (logits / options.softcap).square_().neg_().add_(1);
  }
  if (gradient && options.z_loss > 0) of_target = logits.gather(1, index);
  chunk_losses(logits, targets, losses, gradient);
  if (!gradient) return;
  if (options.z_loss > 0) {
    // logits hold p − one-hot, and the z-loss has the gradient 2·z·lse·p.
    const Tensor counted = targets.ge(0).unsqueeze(1);
    const Tensor factor = (losses.unsqueeze(1) + of_target).mul_(2 * options.z_loss).mul_(counted);
    logits.mul_(factor + 1);
    logits.scatter_add_(1, index, factor);
  }
  if (slope.defined()) logits.mul_(slope);
}

CrossEntropy cross_entropy(const Tensor& hidden, const Tensor& targets, const Tensor& head, const Tensor& bias, bool gradient,
                           bool head_gradient, const LogitOptions& options) {
  const bool shaped = options.softcap > 0 || options.z_loss > 0;
  const std::int64_t rows = hidden.size(0), step = chunk_rows(hidden, head.size(0));
  const auto precise = hidden.options().dtype(wide(hidden));
  CrossEntropy result;
  result.losses = at::empty({rows}, precise);
  if (gradient) result.dhidden = at::empty_like(hidden, at::MemoryFormat::Contiguous);
  if (gradient && head_gradient) {
    result.dhead = at::zeros(head.sizes(), precise);
    if (bias.defined()) result.dbias = at::zeros(bias.sizes(), precise);
  }
  const Tensor index = targets.contiguous();
  for (std::int64_t first = 0; first < rows; first += step) {
    const std::int64_t count = std::min(step, rows - first);
    const Tensor part = hidden.narrow(0, first, count);
    Tensor logits = product(part, head.t());
    add_bias(logits, bias);
    if (shaped || plugin_for(logits) == nullptr) logits = logits.to(precise.dtype());
    const Tensor losses = result.losses.narrow(0, first, count);
    if (shaped) shaped_chunk_losses(logits, index.narrow(0, first, count), losses, gradient, options);
    else chunk_losses(logits, index.narrow(0, first, count), losses, gradient);
    if (!gradient) continue;
    const Tensor dlogits = logits.to(hidden.scalar_type());
    Tensor to = result.dhidden.narrow(0, first, count);
    product_into(to, dlogits, head);
    if (head_gradient) add_product(result.dhead, dlogits, part);
    if (result.dbias.defined()) add_column_sums(result.dbias, dlogits);
  }
  return result;
}

class LinearCrossEntropy : public Function<LinearCrossEntropy> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& hidden, const Tensor& targets, const Weight& head,
                        const LogitOptions& options, const Weight& bias) {
    const CrossEntropy result = cross_entropy(hidden, targets, head.value, bias.value, true, head.gradient.defined(), options);
    context->save_for_backward({result.dhidden, result.dhead, result.dbias});
    context->saved_data["gradient"] = head.gradient;
    context->saved_data["bias_gradient"] = bias.gradient;
    return result.losses.sum(at::kDouble);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor head_gradient = context->saved_data["gradient"].toTensor();
    const Tensor scale = gradients[0].to(wide(saved[0]));
    const Tensor bias_gradient = context->saved_data["bias_gradient"].toTensor();
    if (head_gradient.defined()) head_gradient.addcmul_(saved[1], scale);
    if (bias_gradient.defined()) bias_gradient.addcmul_(saved[2], scale);
    return {(saved[0] * scale).to(saved[0].scalar_type()), {}, {}, {}, {}};
  }
};

}  // namespace

Tensor embed(const Tensor& ids, const Tensor& table, const Weight& weight, double scale) {
  if (!at::GradMode::is_enabled()) return embed_forward(ids, weight.value, scale);
  return Embed::apply(ids, table, weight, scale);
}

Tensor rms_norm(const Tensor& x, const Weight& weight, double eps) {
  if (!at::GradMode::is_enabled()) return norm_forward(x, weight.value, eps).y;
  return RmsNorm::apply(x, weight, eps);
}

Tensor add_rms_norm(const Tensor& x, const Tensor& delta, const Weight& weight, double eps) {
  if (!at::GradMode::is_enabled()) return norm_forward(x, weight.value, eps, delta).y;
  return AddRmsNorm::apply(x, delta, weight, eps);
}

Tensor layer_norm(const Tensor& x, const Weight& weight, const Weight& bias, double eps) {
  if (!at::GradMode::is_enabled()) return LayerNorm::forward(nullptr, x, weight, bias, eps);
  return LayerNorm::apply(x, weight, bias, eps);
}

Tensor linear(const Tensor& x, const Weight& weight, const Weight& bias) {
  if (!at::GradMode::is_enabled()) return Linear::forward(nullptr, x, weight, bias);
  return Linear::apply(x, weight, bias);
}

bool turns_with_heads(const Tensor& x, const Weight& query_norm, const Weight& key_norm, const AttentionShape& shape) {
  return plugin_for(x) != nullptr && !over_width(query_norm.value, shape.head_width) && !over_width(key_norm.value, shape.head_width);
}

Projected norm_project(const Tensor& x, const Weight& norm, const Weight& packed, const Weight& query_norm,
                       const Weight& key_norm, const AttentionShape& shape, const Turn& turn) {
  const variable_list out = at::GradMode::is_enabled()
                                ? NormProject::apply(x, norm, packed, query_norm, key_norm, shape, turn)
                                : NormProject::forward(nullptr, x, norm, packed, query_norm, key_norm, shape, turn);
  return {out[0], out[1], out[2], out[3]};
}

Tensor project_residual(const Tensor& x, const Tensor& heads, const Weight& output) {
  if (!at::GradMode::is_enabled()) return project_forward(x, merge_heads(heads), output.value);
  return ProjectResidual::apply(x, heads, output);
}

FeedForwardResult feed_forward(const Tensor& x, const Weight& norm, const Weight& gate_up, const Weight& down, double eps) {
  const variable_list out = at::GradMode::is_enabled() ? FeedForward::apply(x, norm, gate_up, down, eps)
                                                       : FeedForward::forward(nullptr, x, norm, gate_up, down, eps);
  return {out[0], out[1]};
}

Tensor linear_cross_entropy(const Tensor& hidden, const Tensor& targets, const Weight& head, const LogitOptions& options,
                            const Weight& bias) {
  if (!at::GradMode::is_enabled()) return row_losses(hidden, targets, head.value, options, bias.value).sum(at::kDouble);
  return LinearCrossEntropy::apply(hidden, targets, head, options, bias);
}

Tensor row_losses(const Tensor& hidden, const Tensor& targets, const Tensor& head, const LogitOptions& options,
                  const Tensor& bias) {
  return cross_entropy(hidden.contiguous(), targets, head, bias, false, false, options).losses;
}

bool adam_step(const AdamBuffers& buffers, const AdamRates& rates) {
  const PeCudaTable* plugin = buffers.values.scalar_type() == at::kFloat ? plugin_for(buffers.values) : nullptr;
  if (plugin == nullptr) return false;
  const auto t = static_cast<double>(rates.step);
  PeCudaAdam with;
  with.values = buffers.values.data_ptr<float>();
  with.gradients = buffers.gradients.data_ptr<float>();
  with.first = buffers.first.data_ptr<float>();
  with.second = buffers.second.data_ptr<float>();
  with.shadow = buffers.shadow.defined() ? buffers.shadow.data_ptr() : nullptr;
  with.count = buffers.values.numel();
  with.lr = static_cast<float>(rates.lr);
  with.beta1 = static_cast<float>(rates.beta1);
  with.beta2 = static_cast<float>(rates.beta2);
  with.decay = static_cast<float>(rates.decay);
  with.eps = static_cast<float>(rates.eps);
  with.correction1 = static_cast<float>(1 - std::pow(rates.beta1, t));
  with.correction2 = static_cast<float>(1 - std::pow(rates.beta2, t));
  with.divisor = static_cast<float>(rates.divisor);
  with.coupled = rates.coupled;
  require_launched(plugin->adam(&with, stream_of(plugin, buffers.values)), "adam");
  return true;
}

void cap_logits(const Tensor& logits, double cap) { logits.div_(cap).tanh_().mul_(cap); }

}  // namespace pe::model
