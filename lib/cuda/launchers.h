/// @file
/// Which body of rows.h, heads.h and loss.h runs for which call of the plug-in's table. `On` runs them: on a GPU
/// (kernels.cu), or on the CPU in the tests. It has `rows(body, rows, stream)`, `cells(body, rows, columns, stream)`,
/// `lines(body, rows, stream)`, `heads(body, tiles, stream)` and `tiles(parts of a body, count, stream)`, all 0 on
/// success, and `Half`.
#pragma once

#include <utility>

#include "cuda/draws.h"
#include "cuda/heads.h"
#include "cuda/loss.h"

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
  static int add_over_rows(const Term& term, float* gradient, float* scratch, std::int64_t rows, std::int64_t width,
                           void* stream) {
    const std::int64_t parts = pe_cuda_parts(rows), step = (rows + parts - 1) / parts;
    if (const int status = On::cells(PartSums<Term>{term, scratch, rows, step, width}, parts, width, stream))
      return status;
    return On::rows(FoldParts{scratch, gradient, parts, width}, width, stream);
  }

  static int rms_norm(const void* x, const void* delta, const float* weight, void* sum, void* y, float* rstd,
                      std::int64_t rows, std::int64_t width, float eps, bool bf16, void* stream) {
    return typed(bf16, width, [&]<typename Value, int n>() {
      return On::rows(NormForward<Value, n>{static_cast<const Value*>(x), static_cast<const Value*>(delta), weight,
                                            static_cast<Value*>(sum), static_cast<Value*>(y), rstd, width, eps},
                      rows, stream);
    });
  }

  static int rms_norm_backward(const void* dy, const void* x, const float* weight, const float* rstd, const void* add,
                               void* dx, float* dweight, float* scratch, std::int64_t rows, std::int64_t width,
                               bool bf16, void* stream) {
    if (rows == 0) return 0;  // no kernel would write `scratch`
    return typed(bf16, width, [&]<typename Value, int n>() {
      const auto *g = static_cast<const Value*>(dy), *in = static_cast<const Value*>(x);
      const NormBackward<Value, n> body{g,    in, weight, rstd, static_cast<const Value*>(add), static_cast<Value*>(dx),
                                        width};
      if (dweight != nullptr && n > 1 && width <= 8 * kLanes * n) {
        const std::int64_t parts = pe_cuda_parts(rows), step = (rows + parts - 1) / parts,
                           packs = (width / n + kLanes - 1) / kLanes;
        const auto tiled = [&]<int kHeld>() {
          return On::tiles(TileParts<NormBackwardTile<Value, n, kHeld>>{{body}, scratch, rows, step, width}, parts,
                           stream);
        };
        const int status = packs <= 2   ? tiled.template operator()<2>()
                           : packs <= 3 ? tiled.template operator()<3>()
                           : packs <= 4 ? tiled.template operator()<4>()
                                        : tiled.template operator()<8>();
        return status != 0 ? status : On::rows(FoldParts{scratch, dweight, parts, width}, width, stream);
      }
      // First: dx may share memory with `add`, but not with dy or x.
      if (const int status = On::rows(body, rows, stream); status != 0 || dweight == nullptr) return status;
      return add_over_rows(NormWeightTerm<Value>{g, in, rstd, width}, dweight, scratch, rows, width, stream);
    });
  }

  /// Whether packs of n values, and of n cosines, can be read at their places.
  static bool aligned(const void* at, std::int64_t bytes) {
    return reinterpret_cast<std::uintptr_t>(at) % static_cast<std::uintptr_t>(bytes) == 0;
  }
  template <int n>
  static bool packs_of(const PeCudaTurn& turn, std::int64_t width) {
    if (turn.pairs % n != 0 || width % n != 0) return false;
    constexpr std::int64_t wide = n >= 4 ? 4 : n;
    return turn.pairs == 0 || (turn.by_sequence % wide == 0 && turn.by_row % wide == 0 && aligned(turn.cos, 4 * wide) &&
                               aligned(turn.sin, 4 * wide));
  }
  template <typename Value, int n>
  static bool packs_of(const PeCudaPart& part) {
    return part.heads == 0 ||
           (part.column % n == 0 && part.by_sequence % n == 0 && part.by_head % n == 0 && part.by_row % n == 0 &&
            aligned(part.values, sizeof(Value) * n) && aligned(part.weight, 4 * (n >= 4 ? 4 : n)));
  }

  /// The power of two that holds so many units with `units` of them in each lane.
  template <int n, int units>
  static HeadUnits<n> units_of(const PeCudaTurn& turn, std::int64_t width) {
    HeadUnits<n> at{static_cast<std::uint32_t>(width), static_cast<std::uint32_t>(turn.pairs), turn.half, 1};
    while (static_cast<std::int64_t>(at.lanes) * 2 * n * units < width) at.lanes *= 2;
    return at;
  }

  /// Calls with(value, values of a pack, packs of a lane), the largest packs that shape and places allow.
  template <typename With>
  static int typed_heads(const PeCudaSplit& of, const void* packed, const void* dpacked, bool bf16, const With& with) {
    if (of.width > 512) return 1;
    const auto fits = [&]<typename Value, int n>() {
      return packs_of<n>(of.turn, of.width) && of.packed_row % n == 0 && packs_of<Value, n>(of.q) &&
             packs_of<Value, n>(of.k) && packs_of<Value, n>(of.v) && aligned(packed, sizeof(Value) * n) &&
             aligned(dpacked, sizeof(Value) * n);
    };
    if (bf16) {
      // Half of the largest pack. A head has twice the lanes, so that all lanes of a team are in use with 12 heads of
      // 64, too. A lane has half the registers, so that more of them wait for memory together.
      constexpr int kPack = 4;
      if (of.width <= 2 * kPack * kLanes && fits.template operator()<Half, kPack>())
        return with.template operator()<Half, kPack, 1>();
      return fits.template operator()<Half, 8>() ? with.template operator()<Half, 8, 1>()
                                                 : with.template operator()<Half, 1, 8>();
    }
    return fits.template operator()<float, 4>() ? with.template operator()<float, 4, 2>()
                                                : with.template operator()<float, 1, 8>();
  }

  static int split_heads(const void* packed, const PeCudaSplit* split, bool bf16, void* stream) {
    PeCudaSplit of = *split;
    of.v = {};
    return typed_heads(of, packed, nullptr, bf16, [&]<typename Value, int n, int units>() {
      return On::heads(SplitHeads<Value, n, units, false>{of, units_of<n, units>(of.turn, of.width),
                                                          static_cast<const Value*>(packed), nullptr, nullptr,
                                                          of.tokens, 1, of.tokens},
                       of.tokens, stream);
    });
  }

  static int split_heads_backward(const void* packed, void* dpacked, const PeCudaSplit* split, float* scratch,
                                  bool bf16, void* stream) {
    const PeCudaSplit& of = *split;
    const std::int64_t per_tile = scratch == nullptr ? 1 : pe_cuda_head_tile,
                       tiles = (of.tokens + per_tile - 1) / per_tile;
    return typed_heads(of, packed, dpacked, bf16, [&]<typename Value, int n, int units>() {
      const SplitHeads<Value, n, units, true> body{of,
                                                   units_of<n, units>(of.turn, of.width),
                                                   static_cast<const Value*>(packed),
                                                   static_cast<Value*>(dpacked),
                                                   scratch,
                                                   of.tokens,
                                                   per_tile,
                                                   tiles};
      if (const int status = On::heads(body, tiles, stream); status != 0 || scratch == nullptr) return status;
      for (const auto& [part, partials] : {std::pair{&of.q, scratch}, std::pair{&of.k, scratch + tiles * of.width}}) {
        if (part->weight == nullptr || part->dweight == nullptr) continue;
        if (const int status = On::rows(FoldParts{partials, part->dweight, tiles, of.width}, of.width, stream))
          return status;
      }
      return 0;
    });
  }

  static int rotate(const void* x, void* out, const PeCudaRotation* rotation, bool bf16, void* stream) {
    const PeCudaRotation& of = *rotation;
    const auto fits = [&]<typename Value, int n>() {
      const auto strides = [](const PeCudaStrides& s) {
        return s.by_sequence % n == 0 && s.by_head % n == 0 && s.by_row % n == 0;
      };
      return packs_of<n>(of.turn, of.width) && of.by_group % (n >= 4 ? 4 : n) == 0 && strides(of.from) &&
             strides(of.to) && aligned(x, sizeof(Value) * n) && aligned(out, sizeof(Value) * n);
    };
    const auto run = [&]<typename Value, int n>() {
      const RotateHeads<Value, n> body{of, units_of<n, 1>(of.turn, of.width), static_cast<const Value*>(x),
                                       static_cast<Value*>(out)};
      return On::cells(body, of.batch * of.heads * of.length, (of.width + 2 * n - 1) / (2 * n), stream);
    };
    if (bf16)
      return fits.template operator()<Half, 8>() ? run.template operator()<Half, 8>()
                                                 : run.template operator()<Half, 1>();
    return fits.template operator()<float, 4>() ? run.template operator()<float, 4>()
                                                : run.template operator()<float, 1>();
  }

  static int cross_entropy(void* logits, bool logits_bf16, const std::int64_t* targets, float* loss, std::int64_t rows,
                           std::int64_t vocabulary, bool gradient, const PeCudaLogits* shape, void* stream) {
    return typed(logits_bf16, vocabulary, [&]<typename Value, int n>() {
      const auto run = [&]<int kHeld, bool kCapped, int kThreads>() {
        return On::lines(
            CrossEntropyLine<Value, n, kHeld, kCapped, kThreads>{static_cast<Value*>(logits), targets, loss, vocabulary,
                                                                 gradient, shape->softcap, shape->z_loss, shape->scale},
            rows, stream);
      };
      const auto held = [&]<int kHeld, int kThreads = 512>() {
        return shape->softcap > 0 ? run.template operator()<kHeld, true, kThreads>()
                                  : run.template operator()<kHeld, false, kThreads>();
      };
      // A small vocabulary would leave registers empty that keep other blocks off the multiprocessor.
      const std::int64_t packs = (vocabulary / n + 511) / 512;
      if constexpr (n == 1)
        return held.template operator()<4>();
      else if (packs > 8 && shape->threads == 1024)
        return held.template operator()<8, 1024>();
      else
        return packs <= 4   ? held.template operator()<4>()
               : packs <= 8 ? held.template operator()<8>()
                            : held.template operator()<16>();
    });
  }

  static int embedding_gradient(const std::int64_t* sorted, const std::int64_t* order, const void* rows, bool rows_bf16,
                                float* gradient, float* scratch, std::int64_t count, std::int64_t width, float scale,
                                void* stream) {
    return typed(rows_bf16, width, [&]<typename Value, int n>() {
      const std::int64_t pieces = (count + kEmbeddingPiece - 1) / kEmbeddingPiece;
      const EmbeddingPieces<Value, n> body{sorted, order, static_cast<const Value*>(rows), gradient, scratch, count,
                                           width,  scale};
      if (const int status = On::cells(body, pieces, width / n, stream)) return status;
      return On::cells(EmbeddingRuns{sorted, gradient, scratch, count, width, scale}, pieces, width, stream);
    });
  }

  static int dropout_mask(void* mask, const std::int64_t* keys, std::int64_t samples, std::int64_t count, double p,
                          bool bf16, void* stream) {
    const auto run = [&]<typename Value>() {
      const auto threshold = static_cast<std::uint32_t>(std::ceil(p * 0x1p24));  // a draw of 24 bits is below p
      return On::cells(
          DropoutMask<Value>{static_cast<Value*>(mask), keys, count, threshold, static_cast<float>(1 / (1 - p))},
          samples, (count + 3) / 4, stream);
    };
    return bf16 ? run.template operator()<Half>() : run.template operator()<float>();
  }

  static int gather_gradient(const void* gradient, const std::int64_t* index, void* to, std::int64_t rows,
                             std::int64_t keys, std::int64_t positions, bool bf16, void* stream) {
    const auto run = [&]<typename Value>() {
      return On::cells(
          GatherGradient<Value>{static_cast<const Value*>(gradient), index, static_cast<Value*>(to), keys, positions},
          rows, positions, stream);
    };
    return bf16 ? run.template operator()<Half>() : run.template operator()<float>();
  }

  static int swiglu(const void* gate_up, void* a, std::int64_t rows, std::int64_t inner, bool bf16, void* stream) {
    return typed(bf16, inner, [&]<typename Value, int n>() {
      return On::cells(SwigluForward<Value, n>{static_cast<const Value*>(gate_up), static_cast<Value*>(a), inner}, rows,
                       inner / n, stream);
    });
  }

  static int swiglu_backward(const void* da, const void* gate_up, void* dgate_up, std::int64_t rows, std::int64_t inner,
                             bool bf16, void* stream) {
    return typed(bf16, inner, [&]<typename Value, int n>() {
      return On::cells(SwigluBackward<Value, n>{static_cast<const Value*>(da), static_cast<const Value*>(gate_up),
                                                static_cast<Value*>(dgate_up), inner},
                       rows, inner / n, stream);
    });
  }

  static int attention_products(const PeCudaAttention* of, const void* dout, const void* out, const float* dlse,
                                float* delta, void* stream) {
    return On::cells(RowProducts<Half>{*of, static_cast<const Half*>(dout), static_cast<const Half*>(out), dlse, delta},
                     1, of->batch * of->heads * of->queries, stream);
  }

  static int adam(const PeCudaAdam* with, void* stream) {
    constexpr int n = 4;
    bool fits = with->count % n == 0 && aligned(with->shadow, sizeof(Half) * n);
    for (const void* at : {static_cast<const void*>(with->values), static_cast<const void*>(with->gradients),
                           static_cast<const void*>(with->first), static_cast<const void*>(with->second)}) {
      fits = fits && aligned(at, sizeof(float) * n);
    }
    if (fits) return On::cells(AdamStep<Half, n>{*with}, 1, with->count / n, stream);
    return On::cells(AdamStep<Half, 1>{*with}, 1, with->count, stream);
  }

  static void fill(PeCudaTable& table) {
    table.rms_norm = rms_norm;
    table.rms_norm_backward = rms_norm_backward;
    table.split_heads = split_heads;
    table.split_heads_backward = split_heads_backward;
    table.rotate = rotate;
    table.dropout_mask = dropout_mask;
    table.gather_gradient = gather_gradient;
    table.cross_entropy = cross_entropy;
    table.embedding_gradient = embedding_gradient;
    table.swiglu = swiglu;
    table.swiglu_backward = swiglu_backward;
    table.adam = adam;
    table.attention_products = attention_products;
  }
};

}  // namespace pe::cuda
