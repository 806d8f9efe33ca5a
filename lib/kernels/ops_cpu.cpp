// By the kernels of cpu.h: rows are split among threads, sums over rows in a fixed number of parts.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <vector>

#include "kernels/dispatch.h"
#include "kernels/ops.h"

namespace pe::kernels {
namespace {

/// Runs body(first, last, part) over rows in a fixed number of parts, so that sums over parts do not depend on threads.
constexpr std::int64_t kParts = 16;
void over_parts(std::int64_t rows, const auto& body) {
  const std::int64_t step = (rows + kParts - 1) / kParts;
  at::parallel_for(0, kParts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      const std::int64_t first = std::min(rows, part * step), last = std::min(rows, first + step);
      if (first < last) body(first, last, part);
    }
  });
}

/// @param work of a row, in units of which a thread should have thousands
void over_rows(std::int64_t rows, std::int64_t work, const auto& body) {
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, work));
  at::parallel_for(0, rows, grain, body);
}

std::vector<float> parts_of(std::int64_t width) {
  return std::vector<float>(static_cast<std::size_t>(kParts * width), 0.0F);
}

void add_parts(const Tensor& gradient, const std::vector<float>& parts, std::int64_t width) {
  if (!gradient.defined()) return;
  float* to = gradient.data_ptr<float>();
  for (std::int64_t part = 0; part < kParts; ++part) {
    for (std::int64_t i = 0; i < width; ++i) to[i] += parts[static_cast<std::size_t>(part * width + i)];
  }
}

float* floats_of(const Tensor& x) { return x.defined() ? x.data_ptr<float>() : nullptr; }

HeadStrides strides_of(const Tensor& heads) { return {heads.stride(0), heads.stride(1), heads.stride(2)}; }

NormResult rms_norm(const Tensor& x, const Tensor& weight, double eps, const Tensor& delta) {
  const Tensor in = delta.defined() ? x + delta : x.contiguous();
  const std::int64_t width = in.size(-1), rows = in.numel() / width;
  Tensor y = at::empty_like(in, at::MemoryFormat::Contiguous), rstd = at::empty({rows}, in.options());
  const float *from = in.data_ptr<float>(), *w = weight.data_ptr<float>();
  float *to = y.data_ptr<float>(), *scale = rstd.data_ptr<float>();
  over_rows(rows, width, [&](std::int64_t first, std::int64_t last) {
    cpu_table().rms_norm(from + first * width, w, to + first * width, scale + first, last - first, width,
                         static_cast<float>(eps));
  });
  return {y, rstd, in};
}

Tensor rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& rstd, const Tensor& add,
                         const Tensor& weight_gradient) {
  const std::int64_t width = x.size(-1), rows = x.numel() / width;
  const Tensor g = dy.contiguous(), residual = add.defined() ? add.contiguous() : add;
  Tensor dx = at::empty_like(x, at::MemoryFormat::Contiguous);
  std::vector<float> parts = parts_of(width);
  const float *pg = g.data_ptr<float>(), *px = x.data_ptr<float>(), *pw = weight.data_ptr<float>();
  const float *pr = rstd.data_ptr<float>(), *pa = floats_of(residual);
  float* to = dx.data_ptr<float>();
  over_parts(rows, [&](std::int64_t first, std::int64_t last, std::int64_t part) {
    cpu_table().rms_norm_backward(pg + first * width, px + first * width, pw, pr + first,
                                  pa == nullptr ? nullptr : pa + first * width, to + first * width,
                                  parts.data() + part * width, last - first, width);
  });
  add_parts(weight_gradient, parts, width);
  return dx;
}

HeadRotation rotation_of(const Rotation& tables, std::int64_t batch) {
  if (!tables.cos.defined()) return {};
  const Tensor& cos = tables.cos;
  const bool by_sequence = cos.dim() == 3 && cos.size(0) > 1 && batch > 1;
  return {cos.data_ptr<float>(), tables.sin.data_ptr<float>(),
          cos.size(-1),          by_sequence ? cos.stride(0) : 0,
          cos.stride(-2),        tables.half};
}

NormResult split_part(const SplitPart& part, double eps, const Rotation& tables) {
  const auto& [from, weight] = part;
  const Tensor& packed = from.packed;
  Tensor out = at::empty({from.batch, from.heads, from.length(), from.width}, packed.options());
  Tensor rstd = weight.defined() ? at::empty({from.rows(), from.heads}, packed.options()) : Tensor();
  const float *w = floats_of(weight), *rows = packed.data_ptr<float>() + from.column;
  float *scale = floats_of(rstd), *to = out.data_ptr<float>();
  const HeadShape layout{from.length(), from.heads, from.width, packed.size(1)};
  const HeadRotation rotation = rotation_of(tables, from.batch);
  over_rows(from.rows(), from.heads * from.width, [&](std::int64_t first, std::int64_t last) {
    cpu_table().split_heads(rows, w, static_cast<float>(eps), to, strides_of(out), scale, layout, rotation, first,
                            last);
  });
  return {out, rstd, {}};
}

std::array<NormResult, 2> split_heads(const SplitPart& q, const SplitPart& k, double eps, const Rotation& rotation) {
  return {split_part(q, eps, rotation), split_part(k, eps, rotation)};
}

void split_part_backward(const SplitGradient& of, const Rotation& tables, const Tensor& dpacked) {
  const auto& [from, dout, weight, rstd, weight_gradient] = of;
  if (from.heads == 0) return;
  if (!dout.defined()) {
    from.columns_of(dpacked).zero_();
    return;
  }
  const Tensor g = dout.stride(3) == 1 ? dout : dout.contiguous();
  std::vector<float> parts = parts_of(from.width);
  const float *pg = g.data_ptr<float>(), *pp = from.packed.data_ptr<float>() + from.column;
  const float *pw = floats_of(weight), *pr = weight.defined() ? rstd.data_ptr<float>() : nullptr;
  float* to = dpacked.data_ptr<float>() + from.column;
  const HeadShape layout{from.length(), from.heads, from.width, from.packed.size(1)};
  const std::int64_t width = from.width;
  const HeadRotation rotation = rotation_of(tables, from.batch);
  over_parts(from.rows(), [&](std::int64_t first, std::int64_t last, std::int64_t part) {
    cpu_table().split_heads_backward(pg, strides_of(g), pp, pw, pr, to, parts.data() + part * width, layout, rotation,
                                     first, last);
  });
  if (weight.defined()) add_parts(weight_gradient, parts, width);
}

void split_heads_backward(const SplitGradient& q, const SplitGradient& k, const SplitGradient& v,
                          const Rotation& rotation, const Tensor& dpacked) {
  split_part_backward(q, rotation, dpacked);
  split_part_backward(k, rotation, dpacked);
  split_part_backward(v, {}, dpacked);
}

Tensor swiglu(const Tensor& gate_up) {
  const std::int64_t rows = gate_up.size(0), inner = gate_up.size(1) / 2;
  Tensor a = at::empty({rows, inner}, gate_up.options());
  const float* from = gate_up.data_ptr<float>();
  float* to = a.data_ptr<float>();
  over_rows(rows, 8 * inner, [&](std::int64_t first, std::int64_t last) {
    cpu_table().swiglu(from + first * 2 * inner, to + first * inner, last - first, inner);
  });
  return a;
}

Tensor swiglu_backward(const Tensor& da, const Tensor& gate_up) {
  const std::int64_t rows = gate_up.size(0), inner = gate_up.size(1) / 2;
  Tensor d = at::empty_like(gate_up);
  const float *pd = da.data_ptr<float>(), *from = gate_up.data_ptr<float>();
  float* to = d.data_ptr<float>();
  over_rows(rows, 8 * inner, [&](std::int64_t first, std::int64_t last) {
    cpu_table().swiglu_backward(pd + first * inner, from + first * 2 * inner, to + first * 2 * inner, last - first,
                                inner);
  });
  return d;
}

/// In the order of the tokens, on one thread: a sum whose order is fixed. A few microseconds a thousand tokens.
void add_embedding_gradient(const Tensor& g, const Tensor& ids, const Tensor& gradient, double scale) {
  const Tensor values = g.contiguous(), index = ids.contiguous();
  const std::int64_t width = gradient.size(1), count = index.numel();
  const std::int64_t* row = index.data_ptr<std::int64_t>();
  const float* from = values.data_ptr<float>();
  float* table = gradient.data_ptr<float>();
  const auto factor = static_cast<float>(scale);
  for (std::int64_t i = 0; i < count; ++i) {
    float* to = table + row[i] * width;
    for (std::int64_t j = 0; j < width; ++j) to[j] += factor * from[i * width + j];
  }
}

double sum_of_squares(const Tensor& x) {
  double parts[kParts] = {};
  const float* values = x.data_ptr<float>();
  over_parts(x.numel(), [&](std::int64_t first, std::int64_t last, std::int64_t part) {
    parts[part] = cpu_table().sum_of_squares(values + first, last - first);
  });
  return std::accumulate(std::begin(parts), std::end(parts), 0.0);
}

void bare_cross_entropy(Tensor& logits, const Tensor& targets, const Tensor& losses, bool gradient) {
  const std::int64_t rows = logits.size(0), vocabulary = logits.size(1);
  float *values = logits.data_ptr<float>(), *loss = losses.data_ptr<float>();
  const std::int64_t* target = targets.data_ptr<std::int64_t>();
  over_rows(rows, 4 * vocabulary, [&](std::int64_t first, std::int64_t last) {
    cpu_table().cross_entropy(values + first * vocabulary, target + first, loss + first, last - first, vocabulary,
                              gradient);
  });
}

void cross_entropy(Tensor& logits, const Tensor& targets, const Tensor& losses, bool gradient,
                   const LogitShape& shape) {
  shaped_cross_entropy(logits, targets, losses, gradient, shape, bare_cross_entropy);
}

}  // namespace

const Operations kCpuOperations = {.name = "cpu",
                                   .rotates_heads = true,
                                   .rms_norm = rms_norm,
                                   .rms_norm_backward = rms_norm_backward,
                                   .split_heads = split_heads,
                                   .split_heads_backward = split_heads_backward,
                                   .swiglu = swiglu,
                                   .swiglu_backward = swiglu_backward,
                                   .add_embedding_gradient = add_embedding_gradient,
                                   .cross_entropy = cross_entropy,
                                   .sum_of_squares = sum_of_squares};

}  // namespace pe::kernels
