/// @file
/// The plug-in's kernels run on the CPU: the same bodies and the same choice among them as on a GPU, by loops in place
/// of warps, blocks and grids, attention by simt.h. Without a GPU only the loops of lib/cuda/kernels.cu and the
/// instructions of lib/cuda/attention.cu remain untested.
#pragma once

#include <c10/util/BFloat16.h>

#include <algorithm>
#include <vector>

#include "cuda/kernels.h"
#include "cuda/launchers.h"
#include "kernels/dispatch.h"

namespace pe::test {

struct OnHost {
  using Half = c10::BFloat16;

  /// How often a rotation went with the heads, and alone.
  static inline int rotated_with_heads = 0, rotated_alone = 0;

  template <typename Body>
  static int rows(const Body& body, std::int64_t rows, void*) {
    for (std::int64_t row = 0; row < rows; ++row) {
      float lanes[cuda::kLanes], next[cuda::kLanes];
      for (int lane = 0; lane < cuda::kLanes; ++lane) lanes[lane] = body.partial(row, lane);
      for (int half = cuda::kLanes / 2; half > 0; half /= 2) {  // as __shfl_xor_sync does
        for (int lane = 0; lane < cuda::kLanes; ++lane) next[lane] = lanes[lane] + lanes[lane ^ half];
        std::copy(std::begin(next), std::end(next), lanes);
      }
      for (int lane = 0; lane < cuda::kLanes; ++lane) body.finish(row, lane, lanes[lane]);
    }
    return 0;
  }

  template <typename Body>
  static int cells(const Body& body, std::int64_t rows, std::int64_t columns, void*) {
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t column = 0; column < columns; ++column) body(row, column);
    return 0;
  }

  template <typename Body>
  static int lines(const Body& body, std::int64_t rows, void*) {
    std::vector<typename Body::Own> own(Body::kThreads);
    std::vector<cuda::LogSum> sums(Body::kThreads), next(Body::kThreads);
    // As in a block: threads of a warp in pairs, then the warps' sums in pairs.
    const auto fold = [&](int begin, int step, int count) {
      for (int half = count / 2; half > 0; half /= 2) {
        for (int i = 0; i < count; ++i)
          next[begin + i * step] = merge(sums[begin + i * step], sums[begin + (i ^ half) * step]);
        for (int i = 0; i < count; ++i) sums[begin + i * step] = next[begin + i * step];
      }
    };
    for (std::int64_t row = 0; row < rows; ++row) {
      for (int thread = 0; thread < Body::kThreads; ++thread) sums[thread] = body.begin(row, thread, own[thread]);
      for (int warp = 0; warp < Body::kThreads; warp += cuda::kLanes) fold(warp, 1, cuda::kLanes);
      fold(0, cuda::kLanes, Body::kThreads / cuda::kLanes);
      const cuda::LogSum all = sums[0];
      for (int thread = 0; thread < Body::kThreads; ++thread) body.finish(row, thread, own[thread], all);
    }
    return 0;
  }

  template <typename Body>
  static int heads(const Body& body, std::int64_t tiles, void*) {
    const int lanes = static_cast<int>(body.at.lanes);
    rotated_with_heads += body.at.pairs > 0;
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      for (int part = 0; part < body.parts(); ++part) {
        std::vector<typename Body::Own> own(cuda::kLanes);
        float sums[cuda::kLanes], next[cuda::kLanes];
        for (auto& one : own) body.open(one);
        for (std::int64_t token = tile * body.per_tile; token < std::min(body.tokens, (tile + 1) * body.per_tile);
             ++token) {
          for (int lane = 0; lane < cuda::kLanes; ++lane) body.begin(token, part, lane, own[lane]);
          for (std::uint32_t slot = 0; slot < body.slots(part); ++slot) {
            for (int lane = 0; lane < cuda::kLanes; ++lane) sums[lane] = body.partial(part, slot, lane, own[lane]);
            for (int half = lanes / 2; half > 0; half /= 2) {
              for (int lane = 0; lane < cuda::kLanes; ++lane) next[lane] = sums[lane] + sums[lane ^ half];
              std::copy(std::begin(next), std::end(next), sums);
            }
            for (int lane = 0; lane < cuda::kLanes; ++lane) body.finish(part, slot, lane, own[lane], sums[lane]);
          }
        }
        if (part >= 2) continue;
        for (int i = 0; i < Body::kSums; ++i) {
          for (int half = lanes; half < cuda::kLanes; half *= 2) {
            for (int lane = 0; lane < cuda::kLanes; ++lane) next[lane] = own[lane].sums[i] + own[lane ^ half].sums[i];
            for (int lane = 0; lane < cuda::kLanes; ++lane) own[lane].sums[i] = next[lane];
          }
        }
        for (int lane = 0; lane < cuda::kLanes; ++lane) body.close(tile, part, lane, own[lane]);
      }
    }
    return 0;
  }

  template <typename Body>
  static int tiles(const cuda::TileParts<Body>& tiled, std::int64_t parts, void*) {
    for (std::int64_t part = 0; part < parts; ++part) {
      const std::int64_t first = part * tiled.step, end = std::min(tiled.rows, first + tiled.step);
      std::vector<float> columns(static_cast<std::size_t>(tiled.width), 0.0F);
      for (int team = 0; team < cuda::kTeams; ++team) {
        std::vector<typename Body::Own> own(cuda::kLanes);
        for (auto& one : own) std::fill(std::begin(one.sums), std::end(one.sums), 0.0F);
        for (std::int64_t row = first + team; row < end; row += cuda::kTeams) {
          float lanes[cuda::kLanes], next[cuda::kLanes];
          for (int lane = 0; lane < cuda::kLanes; ++lane) lanes[lane] = tiled.body.partial(row, lane, own[lane]);
          for (int half = cuda::kLanes / 2; half > 0; half /= 2) {
            for (int lane = 0; lane < cuda::kLanes; ++lane) next[lane] = lanes[lane] + lanes[lane ^ half];
            std::copy(std::begin(next), std::end(next), lanes);
          }
          for (int lane = 0; lane < cuda::kLanes; ++lane) tiled.body.finish(row, lane, own[lane], lanes[lane]);
        }
        for (int lane = 0; lane < cuda::kLanes; ++lane) {
          for (int i = 0; i < Body::kSums; ++i) {
            const std::int64_t column = tiled.body.column(lane, i);
            if (column < tiled.width) columns[static_cast<std::size_t>(column)] += own[lane].sums[i];
          }
        }
      }
      std::copy(columns.begin(), columns.end(), tiled.parts + part * tiled.width);
    }
    return 0;
  }
};

/// Enters attention, by simt.h (cuda_attention_test.cpp, which has compiled it anyway).
void fill_attention(PeCudaTable& table);

inline const PeCudaTable& host_plugin() {
  static const PeCudaTable table = [] {
    PeCudaTable made{};
    made.current_stream = [](int) -> void* { return nullptr; };
    cuda::Launchers<OnHost>::fill(made);
    fill_attention(made);
    cuda::fill_products(made);
    cuda::fill_cudnn_attention(made);
    made.rotate = [](const void* x, void* out, const PeCudaRotation* rotation, bool bf16, void* stream) {
      ++OnHost::rotated_alone;
      return cuda::Launchers<OnHost>::rotate(x, out, rotation, bf16, stream);
    };
    return made;
  }();
  return table;
}

/// While it lives, tensors on the CPU go to the plug-in's kernels.
class StandIn {
 public:
  StandIn() { kernels::stand_in_for_plugin(&host_plugin()); }
  ~StandIn() { kernels::stand_in_for_plugin(nullptr); }
  StandIn(const StandIn&) = delete;
};

}  // namespace pe::test
