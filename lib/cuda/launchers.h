/// @file
/// Which body of rows.h runs for which call of the plug-in's table. `On` runs them: on a GPU (kernels.cu), or on the CPU
/// in the tests. It has `rows(body, rows, stream)`, `cells(body, rows, columns, stream)`, both 0 on success, and `Half`.
#pragma once

#include "cuda/rows.h"

namespace pe::cuda {

template <typename On>
struct Launchers {
  using Half = typename On::Half;

  /// Calls with(fp32 or bf16 zero, values a pack holds): sixteen bytes at a time where rows allow it.
  template <typename With>
  static int typed(bool bf16, std::int64_t width, const With& with) {
    if (bf16) return width % 8 == 0 ? with.template operator()<Half, 8>() : with.template operator()<Half, 1>();
    return width % 4 == 0 ? with.template operator()<float, 4>() : with.template operator()<float, 1>();
  }

  template <typename Term>
  static int add_over_rows(const Term& term, float* gradient, float* scratch, std::int64_t rows, std::int64_t width, void* stream) {
    const std::int64_t parts = pe_cuda_parts(rows), step = (rows + parts - 1) / parts;
    if (const int status = On::cells(PartSums<Term>{term, scratch, rows, step, width}, parts, width, stream)) return status;
    return On::rows(FoldParts{scratch, gradient, parts, width}, width, stream);
  }

  static int rms_norm(const void* x, const void* delta, const float* weight, void* sum, void* y, float* rstd, std::int64_t rows,
                      std::int64_t width, float eps, bool bf16, void* stream) {
    return typed(bf16, width, [&]<typename Value, int n>() {
      return On::rows(NormForward<Value, n>{static_cast<const Value*>(x), static_cast<const Value*>(delta), weight,
                                            static_cast<Value*>(sum), static_cast<Value*>(y), rstd, width, eps},
                      rows, stream);
    });
  }

  static int rms_norm_backward(const void* dy, const void* x, const float* weight, const float* rstd, const void* add, void* dx,
                               float* dweight, float* scratch, std::int64_t rows, std::int64_t width, bool bf16, void* stream) {
    return typed(bf16, width, [&]<typename Value, int n>() {
      const auto *g = static_cast<const Value*>(dy), *in = static_cast<const Value*>(x);
      const NormBackward<Value, n> body{g, in, weight, rstd, static_cast<const Value*>(add), static_cast<Value*>(dx), width};
      // First: dx may lie where `add` does, but not where dy or x do.
      if (const int status = On::rows(body, rows, stream); status != 0 || dweight == nullptr) return status;
      return add_over_rows(NormWeightTerm<Value>{g, in, rstd, width}, dweight, scratch, rows, width, stream);
    });
  }

  static int split_heads(const void* packed, const float* weight, float eps, const PeCudaTurn* turn, void* out, float* rstd,
                         const PeCudaHeads* shape, std::int64_t tokens, bool bf16, void* stream) {
    const HeadRows rows{*shape, turn == nullptr ? PeCudaTurn{} : *turn};
    return typed(bf16, 1, [&]<typename Value, int>() {
      return On::rows(HeadsForward<Value>{rows, static_cast<const Value*>(packed), weight, static_cast<Value*>(out), rstd, eps},
                      tokens * shape->heads, stream);
    });
  }

  static int split_heads_backward(const void* dout, const void* packed, const float* weight, const float* rstd,
                                  const PeCudaTurn* turn, void* dpacked, float* dweight, float* scratch,
                                  const PeCudaHeads* shape, std::int64_t tokens, bool bf16, void* stream) {
    const HeadRows rows{*shape, turn == nullptr ? PeCudaTurn{} : *turn};
    return typed(bf16, 1, [&]<typename Value, int>() {
      const HeadsBackward<Value> body{rows, static_cast<const Value*>(dout), static_cast<const Value*>(packed), weight, rstd,
                                      static_cast<Value*>(dpacked)};
      const std::int64_t count = tokens * shape->heads;
      if (const int status = On::rows(body, count, stream); status != 0 || dweight == nullptr || weight == nullptr) return status;
      return add_over_rows(HeadsWeightTerm<Value>{body}, dweight, scratch, count, shape->width, stream);
    });
  }

  static int swiglu(const void* gate_up, void* a, std::int64_t rows, std::int64_t inner, bool bf16, void* stream) {
    return typed(bf16, inner, [&]<typename Value, int n>() {
      return On::cells(SwigluForward<Value, n>{static_cast<const Value*>(gate_up), static_cast<Value*>(a), inner}, rows, inner / n,
                       stream);
    });
  }

  static int swiglu_backward(const void* da, const void* gate_up, void* dgate_up, std::int64_t rows, std::int64_t inner, bool bf16,
                             void* stream) {
    return typed(bf16, inner, [&]<typename Value, int n>() {
      return On::cells(SwigluBackward<Value, n>{static_cast<const Value*>(da), static_cast<const Value*>(gate_up),
                                                static_cast<Value*>(dgate_up), inner},
                       rows, inner / n, stream);
    });
  }

  static int attention_products(const PeCudaAttention* of, const void* dout, const void* out, const float* dlse, float* delta,
                                void* stream) {
    return On::rows(RowProducts<Half>{*of, static_cast<const Half*>(dout), static_cast<const Half*>(out), dlse, delta},
                    of->batch * of->heads * of->queries, stream);
  }

  static int adam(const PeCudaAdam* with, void* stream) { return On::cells(AdamStep<Half>{*with}, 1, with->count, stream); }

  static void fill(PeCudaTable& table) {
    table.rms_norm = rms_norm;
    table.rms_norm_backward = rms_norm_backward;
    table.split_heads = split_heads;
    table.split_heads_backward = split_heads_backward;
    table.swiglu = swiglu;
    table.swiglu_backward = swiglu_backward;
    table.adam = adam;
    table.attention_products = attention_products;
  }
};

}  // namespace pe::cuda
