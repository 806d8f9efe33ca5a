/// @file
/// Attention in tiles after FlashAttention-2 (Dao 2023, arXiv:2307.08691): scores never leave the registers, and the
/// backward pass computes them again from their logsumexp. A body is the work of a warp of a block; attention.cu runs
/// bodies on a GPU, the tests run the same bodies on the CPU.
///
/// A Mod (attention/mods) defines the term that is added to the products of queries and keys. OfQueries has the state
/// of a lane if rows are queries, OfKeys if rows are keys. `fetch` copies the data of a tile into a stage of shared
/// memory. `add` makes logits times log2(e) from scores. `take` sums gradients in registers from the slopes of the
/// logits, and `write` stores them. A Mod with kScans needs the keys of a row in order (attention/scan.h); one without
/// kSoftmax makes weights of logits itself. Each sum has one owner and one order.
///
/// No sum depends on who comes first: two runs give the same bits.
#pragma once

#include <type_traits>

#include "cuda/attention/forward.h"
#include "cuda/attention/key_gradients.h"
#include "cuda/attention/mods/bent_distance.h"
#include "cuda/attention/mods/by_distance.h"
#include "cuda/attention/mods/counts.h"
#include "cuda/attention/mods/edges.h"
#include "cuda/attention/mods/gated_distance.h"
#include "cuda/attention/mods/pair_bias.h"
#include "cuda/attention/mods/plain.h"
#include "cuda/attention/mods/stick.h"
#include "cuda/attention/pair_gradients.h"
#include "cuda/attention/query_gradients.h"

namespace pe::cuda {

/// `On::blocks(body, stream)` runs body.blocks() blocks of kWarps warps, 0 on success.
template <typename On>
struct AttentionLaunchers {
  static constexpr int kRefused = 1;  ///< cudaErrorInvalidValue

  static bool takes(const PeCudaAttention& of) {
    for (const PeCudaStrides* strides : {&of.q, &of.k, &of.v, &of.out, &of.dout, &of.dq, &of.dk, &of.dv}) {
      if (strides->by_sequence % 8 != 0 || strides->by_head % 8 != 0 || strides->by_row % 8 != 0) return false;
    }
    return pe_cuda_attends(of.width) && of.groups > 0 && of.heads % of.groups == 0 && of.queries <= of.keys;
  }
  /// Of shared memory that a block needs, in bytes.
  static int shared_for(std::int64_t width) {
    PeCudaAttention of;
    of.width = width;
    return sized(of, [&]<int width_of>() {
      constexpr int kStrips = width_of <= 64 ? 2 : 1, kPart = width_of <= 64 ? 64 : 32;
      constexpr int kNeeds[] = {AttentionForward<width_of, kStrips, ByDistance>::kShared,
                                AttentionForward<width_of, kStrips, GatedDistance>::kShared,
                                AttentionForward<width_of, kStrips, BentDistance>::kShared,
                                AttentionForward<width_of, kStrips, Edges>::kShared,  // more than Counts and Stick
                                AttentionKeyGradients<width_of, kPart, GatedDistance>::kShared,
                                AttentionKeyGradients<width_of, kPart, BentDistance>::kShared,
                                AttentionKeyGradients<width_of, 32, Edges>::kShared,
                                AttentionPairGradients<width_of>::kShared,
                                AttentionQueryGradients<width_of, 32, ByDistance, true>::kShared,
                                AttentionQueryGradients<width_of, kPart, GatedDistance, false>::kShared};
      int most = 0;
      for (const int bytes : kNeeds) most = bytes > most ? bytes : most;
      return most;
    });
  }
  static bool is_empty(const PeCudaAttention& of) { return of.batch == 0 || of.heads == 0 || of.queries == 0; }

  /// Calls with.operator()<width>().
  template <typename With>
  static int sized(const PeCudaAttention& of, const With& with) {
    if (of.width == 32) return with.template operator()<32>();
    if (of.width == 64) return with.template operator()<64>();
    return with.template operator()<128>();
  }

  /// Calls with.operator()<Mod>().
  template <typename With>
  static int modified(const PeCudaAttention& of, const With& with) {
    if (of.stick.breaks) return with.template operator()<Stick>();
    if (of.counts.logits != nullptr) return with.template operator()<Counts>();
    if (of.edges.queries != nullptr) return with.template operator()<Edges>();
    if (of.pairs.bias != nullptr) return with.template operator()<PairBias>();
    if (of.bent.measure != nullptr) return with.template operator()<BentDistance>();
    if (of.places != nullptr) return with.template operator()<GatedDistance>();
    if (of.table != nullptr) return with.template operator()<ByDistance>();
    return with.template operator()<Plain>();
  }

  static int attention(const PeCudaAttention* of, const void* q, const void* k, const void* v, void* out, float* lse,
                       void* stream) {
    if (!takes(*of)) return kRefused;
    if (is_empty(*of)) return 0;
    return sized(*of, [&]<int width>() {
      constexpr int kStrips = width <= 64 ? 2 : 1;
      return modified(*of, [&]<typename Mod>() {
        return On::blocks(AttentionForward<width, kStrips, Mod>{*of, q, k, v, out, lse}, stream);
      });
    });
  }

  static int attention_backward(const PeCudaAttention* of, const void* q, const void* k, const void* v,
                                const void* dout, const float* lse, const float* delta, void* dq, void* dk, void* dv,
                                float* dtable, float* scratch, const PeCudaBiasGradients* dbias, void* stream) {
    return backward(of, q, k, v, dout, lse, delta, dq, dk, dv, dtable, scratch, pe_cuda_attention_scratch(*of), dbias,
                    stream);
  }

  /// @param floats  of scratch memory; where all partial sums need more, they come in slices
  static int backward(const PeCudaAttention* of, const void* q, const void* k, const void* v, const void* dout,
                      const float* lse, const float* delta, void* dq, void* dk, void* dv, float* dtable, float* scratch,
                      std::int64_t floats, const PeCudaBiasGradients* dbias, void* stream) {
    const bool counts = of->counts.logits != nullptr, edges = of->edges.queries != nullptr,
               scans = of->stick.breaks || counts || edges;
    const bool sums_bias = of->places != nullptr || of->bent.measure != nullptr || of->pairs.bias != nullptr;
    if (!takes(*of) || (dtable != nullptr && of->table == nullptr) || (sums_bias && dbias == nullptr)) return kRefused;
    if (scans && (of->scan.nearer == nullptr || of->scan.farther == nullptr || of->table != nullptr || sums_bias))
      return kRefused;
    if (of->stick.breaks + counts + edges > 1) return kRefused;
    if (counts && (dbias == nullptr || dbias->counts == nullptr)) return kRefused;
    if (edges && (dbias == nullptr || dbias->edges.queries == nullptr || dbias->edges.keys == nullptr)) return kRefused;
    if (is_empty(*of)) return 0;
    return sized(*of, [&]<int width>() {
      constexpr int kPart = width <= 64 ? 64 : 32;
      const PeCudaBiasGradients bias = dbias != nullptr ? *dbias : PeCudaBiasGradients{};
      const auto by_query = [&]<typename Mod, bool summed>(std::int64_t first, std::int64_t count) {
        constexpr int kFewer =
            summed || std::is_same_v<Mod, BentDistance> || Mod::kScans ? 32 : kPart;  // leaves registers for sums
        return On::blocks(AttentionQueryGradients<width, kFewer, Mod, summed>{*of, q, k, v, dout, lse, delta, dq,
                                                                              scratch, first, count, bias},
                          stream);
      };
      const std::int64_t rows = of->batch * of->heads * tiles(of->queries);
      const auto by_key = [&]<typename Mod>() {
        constexpr int kFewer = Mod::kScans ? 32 : kPart;
        return On::blocks(AttentionKeyGradients<width, kFewer, Mod>{*of, q, k, v, dout, lse, delta, dk, dv, bias},
                          stream);
      };
      if (scans) {  // keys read what queries write
        const int failed = of->stick.breaks ? by_query.template operator()<Stick, false>(0, rows)
                           : counts         ? by_query.template operator()<Counts, false>(0, rows)
                                            : by_query.template operator()<Edges, false>(0, rows);
        return failed != 0 ? failed : modified(*of, by_key);
      }
      if (const int status = modified(*of, by_key)) return status;
      if (bias.pairs != nullptr) {
        const AttentionPairGradients<width> pairs{*of, q, k, v, dout, lse, delta, bias.pairs};
        if (const int failed = On::blocks(pairs, stream)) return failed;
      }
      if (dtable == nullptr || sums_bias) {
        return modified(*of, [&]<typename Mod>() { return by_query.template operator()<Mod, false>(0, rows); });
      }
      const std::int64_t at_once = floats / of->keys;
      for (std::int64_t first = 0; first < rows; first += at_once) {
        const std::int64_t count = at_once < rows - first ? at_once : rows - first;
        if (const int failed = by_query.template operator()<ByDistance, true>(first, count)) return failed;
        if (const int failed = On::blocks(FoldDistances{*of, scratch, dtable, first, count}, stream)) return failed;
      }
      return 0;
    });
  }

  static void fill(PeCudaTable& table) {
    table.attention = attention;
    table.attention_backward = attention_backward;
  }
};

}  // namespace pe::cuda
