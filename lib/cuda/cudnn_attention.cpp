// Plain causal attention as plugin.h promises it, over cuDNN's frontend. The tests build this file with stand-ins for
// the frontend and the CUDA runtime, and with other records.
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING  // cuDNN is LibTorch's, which the process has loaded
#include <cuda_runtime_api.h>
#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "cuda/exchange.h"
#include "cuda/kernels.h"
#include "cuda/place.h"

void* cudnn_frontend::cudnn_dlhandle = nullptr;

namespace pe::cuda {

namespace {

namespace fe = cudnn_frontend;
using fe::graph::Tensor_attributes;
using Matrix = std::shared_ptr<Tensor_attributes>;

/// Names of matrices in a graph.
enum : std::int64_t { kQ = 1, kK, kV, kOut, kLse, kDout, kDq, kDk, kDv };

bool finds_cudnn() {
  static const bool found = (fe::cudnn_dlhandle = dlopen("libcudnn.so.9", RTLD_NOW)) != nullptr;
  return found;
}

std::size_t version() { return finds_cudnn() ? fe::detail::get_backend_version() : 0; }

Tensor_attributes heads_of(std::int64_t name, const PeCudaAttention& of, std::int64_t heads,
                           const PeCudaStrides& strides) {
  return Tensor_attributes()
      .set_uid(name)
      .set_dim({of.batch, heads, of.queries, of.width})
      .set_stride({strides.by_sequence, strides.by_head, strides.by_row, 1})
      .set_data_type(fe::DataType_t::BFLOAT16);
}

Tensor_attributes lse_of(const PeCudaAttention& of) {
  return Tensor_attributes()
      .set_uid(kLse)
      .set_dim({of.batch, of.heads, of.queries, 1})
      .set_stride({of.heads * of.queries, of.queries, 1, 1})
      .set_data_type(fe::DataType_t::FLOAT);
}

void write_into(const Matrix& result, const Tensor_attributes& as) {
  result->set_output(true)
      .set_uid(as.get_uid())
      .set_dim(as.get_dim())
      .set_stride(as.get_stride())
      .set_data_type(as.get_data_type());
}

void add_forward(fe::graph::Graph& graph, const PeCudaAttention& of) {
  const Matrix q = graph.tensor(heads_of(kQ, of, of.heads, of.q)), k = graph.tensor(heads_of(kK, of, of.groups, of.k)),
               v = graph.tensor(heads_of(kV, of, of.groups, of.v));
  // Without gradients too, so that both give the same bytes.
  const auto [out, lse] = graph.sdpa(q, k, v,
                                     fe::graph::SDPA_attributes()
                                         .set_name("attention")
                                         .set_generate_stats(true)
                                         .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
                                         .set_diagonal_band_right_bound(0)
                                         .set_attn_scale(of.scale));
  write_into(out, heads_of(kOut, of, of.heads, of.out));
  write_into(lse, lse_of(of));
}

void add_backward(fe::graph::Graph& graph, const PeCudaAttention& of) {
  const Matrix q = graph.tensor(heads_of(kQ, of, of.heads, of.q)), k = graph.tensor(heads_of(kK, of, of.groups, of.k)),
               v = graph.tensor(heads_of(kV, of, of.groups, of.v)),
               out = graph.tensor(heads_of(kOut, of, of.heads, of.out)),
               dout = graph.tensor(heads_of(kDout, of, of.heads, of.dout)), lse = graph.tensor(lse_of(of));
  const auto [dq, dk, dv] = graph.sdpa_backward(q, k, v, out, dout, lse,
                                                fe::graph::SDPA_backward_attributes()
                                                    .set_name("attention_backward")
                                                    .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
                                                    .set_diagonal_band_right_bound(0)
                                                    .set_attn_scale(of.scale)
                                                    .set_deterministic_algorithm(true));
  write_into(dq, heads_of(kDq, of, of.heads, of.dq));
  write_into(dk, heads_of(kDk, of, of.groups, of.dk));
  write_into(dv, heads_of(kDv, of, of.groups, of.dv));
}

/// One direction with its plans, made once for a shape.
struct Pass {
  fe::graph::Graph graph;
  std::string problem;                     ///< why cuDNN has no plan; empty: it has some
  std::map<int, std::int64_t> workspaces;  ///< of plans that are ready
};

/// Why a step failed; empty: it did not.
template <typename Step>
std::string problem_of(const Step& step) {
  try {
    fe::error_t status = step();
    if (status.is_good()) return "";
    return status.get_message().empty() ? "cuDNN gives no reason" : status.get_message();
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// A step towards plans; nothing after a step that failed.
template <typename Step>
void go_on(Pass& pass, const Step& step) {
  if (pass.problem.empty()) pass.problem = problem_of([&] { return step(pass.graph); });
}

std::unique_ptr<Pass> describe(const PeCudaAttention& of, bool backward, int capability) {
  auto made = std::make_unique<Pass>();
  made->graph.set_io_data_type(fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT)
      .set_sm_version(capability);
  go_on(*made, [&](fe::graph::Graph& graph) {
    backward ? add_backward(graph, of) : add_forward(graph, of);
    return graph.validate();
  });
  return made;
}

/// Null: no handle, but properties of a device.
void find_plans(Pass& pass, cudnnHandle_t handle) {
  go_on(pass,
        [&](auto& graph) { return handle ? graph.build_operation_graph(handle) : graph.build_operation_graph(); });
  go_on(pass, [](auto& graph) { return graph.create_execution_plans({fe::HeurMode_t::A}); });
  go_on(pass, [](auto& graph) { return graph.check_support(); });
}

/// That plan and no other: a plan that another run took would give other bytes.
std::string make_ready(Pass& pass, int plan) {
  if (pass.workspaces.contains(plan)) return "";
  std::int64_t bytes = 0;
  std::string problem = problem_of([&] { return pass.graph.build_plan_at_index(plan); });
  if (problem.empty()) problem = problem_of([&] { return pass.graph.get_workspace_size_plan_at_index(plan, bytes); });
  if (problem.empty()) pass.workspaces[plan] = bytes;
  return problem;
}

using Key = std::array<std::int64_t, 32>;

Key key_of(int device, const PeCudaAttention& of, bool backward) {
  Key key{device, backward, of.batch, of.heads, of.groups, of.queries, of.width};
  auto* to = key.begin() + 7;
  for (const PeCudaStrides* strides : {&of.q, &of.k, &of.v, &of.out, &of.dout, &of.dq, &of.dk, &of.dv})
    for (const std::int64_t step : {strides->by_sequence, strides->by_head, strides->by_row}) *to++ = step;
  static_assert(sizeof of.scale == 4);
  std::memcpy(to, &of.scale, sizeof of.scale);
  return key;
}

/// Handles of devices, and plans; a process keeps them. cuDNN's handle has one stream, so that one thread calls it at a
/// time.
struct Kept {
  std::mutex mutex;
  std::map<int, cudnnHandle_t> handles;
  std::map<Key, std::unique_ptr<Pass>> passes;
};
Kept& kept() {
  static Kept& all = *new Kept;  // never destroyed: CUDA may have ended before
  return all;
}

/// Of the current device; null with a text. The caller holds the mutex.
cudnnHandle_t find_handle(int device, std::string& problem) {
  if (!finds_cudnn()) {
    problem = "libcudnn.so.9 was not found";
    return nullptr;
  }
  const auto [found, is_new] = kept().handles.try_emplace(device);
  if (is_new) {
    if (const auto status = fe::detail::create_handle(&found->second); status != CUDNN_STATUS_SUCCESS) {
      kept().handles.erase(found);
      problem = "cuDNN makes no handle: status " + std::to_string(static_cast<int>(status));
      return nullptr;
    }
  }
  return found->second;
}

/// Statuses of this file's functions.
enum : int { kNoPlan = 1, kFailed };

int fail(int status, const std::string& problem, char* text, std::size_t size) {
  say(problem.c_str(), text, size);
  return status;
}

/// Calls `use(handle, pass)` with the pass of the current device, one thread at a time. Not 0 with a text without one.
template <typename Use>
int with_pass(const PeCudaAttention& of, bool backward, char* problem, std::size_t size, const Use& use) {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return fail(kFailed, "there is no current device", problem, size);
  const std::lock_guard lock(kept().mutex);
  std::string missing;
  const cudnnHandle_t handle = find_handle(device, missing);
  if (handle == nullptr) return fail(kFailed, missing, problem, size);
  std::unique_ptr<Pass>& pass = kept().passes[key_of(device, of, backward)];
  if (pass == nullptr) {
    pass = describe(of, backward, current_place(0).capability);
    find_plans(*pass, handle);
  }
  return pass->problem.empty() ? use(handle, *pass) : fail(kNoPlan, pass->problem, problem, size);
}

int cudnn_attention_plans(const PeCudaAttention* of, bool backward, int* count, char* problem, std::size_t size) {
  return with_pass(*of, backward, problem, size, [&](cudnnHandle_t, const Pass& pass) {
    *count = static_cast<int>(pass.graph.get_execution_plan_count());
    return 0;
  });
}

int cudnn_attention_workspace(const PeCudaAttention* of, bool backward, int plan, std::uint64_t* bytes, char* problem,
                              std::size_t size) {
  return with_pass(*of, backward, problem, size, [&](cudnnHandle_t, Pass& pass) {
    if (const std::string why = make_ready(pass, plan); !why.empty()) return fail(kFailed, why, problem, size);
    *bytes = static_cast<std::uint64_t>(pass.workspaces[plan]);
    return 0;
  });
}

int cudnn_attention(const PeCudaAttention* of, bool backward, int plan, const PeCudaAttentionMemory* at, void* stream,
                    char* problem, std::size_t size) {
  const auto from = [](const void* values) { return const_cast<void*>(values); };
  std::unordered_map<std::int64_t, void*> places{
      {kQ, from(at->q)}, {kK, from(at->k)}, {kV, from(at->v)}, {kOut, at->out}, {kLse, at->lse}};
  if (backward) places.insert({{kDout, from(at->dout)}, {kDq, at->dq}, {kDk, at->dk}, {kDv, at->dv}});
  return with_pass(*of, backward, problem, size, [&](cudnnHandle_t handle, Pass& pass) {
    std::string why = make_ready(pass, plan);
    if (why.empty() && fe::detail::set_stream(handle, static_cast<cudaStream_t>(stream)) != CUDNN_STATUS_SUCCESS)
      why = "cuDNN does not take the stream";
    if (why.empty())
      why = problem_of([&] { return pass.graph.execute_plan_at_index(handle, places, at->workspace, plan); });
    return why.empty() ? 0 : fail(kFailed, why, problem, size);
  });
}

// ---- Records

struct Record {
  Place place;
  /// At most so many sequences: cuDNN's backward pass may need memory that grows with them and with length².
  std::int64_t batch = 0;
  std::int64_t heads = 0, groups = 0, length = 0, width = 0;
  PeCudaAttentionChoice choice;

  bool holds(const PeCudaAttention& of) const {
    return of.batch <= batch && of.heads == heads && of.groups == groups && of.queries == length && of.width == width;
  }
};
constexpr Record kRecords[] = {
#include "cuda/recorded_attention.inc"
    {}};

PeCudaAttentionChoice attention_choice(const PeCudaAttention* of) {
  const Record* end = std::end(kRecords) - 1;  // the last one is empty
  const auto holds = [&](const Record& record) { return record.holds(*of); };
  const Record* found = std::find_if(std::begin(kRecords), end, holds);
  if (found == end) return {};
  const Place here = current_place(version());
  found = std::find_if(found, end, [&](const Record& record) { return record.place == here && holds(record); });
  if (found == end) return {};
  const PeCudaAttentionChoice& choice = found->choice;
  for (const bool backward : {false, true}) {
    if (choice.by != PeCudaAttentionRoute::kCudnn) break;
    int count = 0;
    const int status = cudnn_attention_plans(of, backward, &count, nullptr, 0);
    // A device that fails is no reason for another route: the next call says so.
    if (status == kNoPlan || (status == 0 && (backward ? choice.backward_plan : choice.forward_plan) >= count))
      return {};
  }
  return choice;
}

void write_attention_record(const PeCudaAttention* of, const PeCudaAttentionChoice* by, char* line, std::size_t size) {
  const Place here = current_place(version());
  const auto long_of = [](std::int64_t value) { return static_cast<long long>(value); };
  const char* name = by->by == PeCudaAttentionRoute::kCudnn    ? "kCudnn"
                     : by->by == PeCudaAttentionRoute::kPlugin ? "kPlugin"
                                                               : "kLibTorch";
  std::snprintf(line, size, "{{%d, %d, %zu}, %lld, %lld, %lld, %lld, %lld, {PeCudaAttentionRoute::%s, %d, %d}},",
                here.capability, here.multiprocessors, here.version, long_of(of->batch), long_of(of->heads),
                long_of(of->groups), long_of(of->queries), long_of(of->width), name, by->forward_plan,
                by->backward_plan);
}

}  // namespace

int check_cudnn_attention(const PeCudaAttention& of, bool backward, int capability, const char* device, char* problem,
                          std::size_t size) {
  if (!finds_cudnn()) return -1;
  const std::unique_ptr<Pass> made = describe(of, backward, capability);
  if (device != nullptr) {
    const auto properties = std::make_shared<fe::DeviceProperties>();
    go_on(*made, [&](auto&) {
      return properties->deserialize(std::vector<std::uint8_t>(device, device + std::strlen(device)));
    });
    made->graph.set_device_properties(properties);
    find_plans(*made, nullptr);
  }
  return made->problem.empty() ? 0 : fail(kNoPlan, made->problem, problem, size);
}

void fill_cudnn_attention(PeCudaTable& table) {
  table.attention_choice = attention_choice;
  table.write_attention_record = write_attention_record;
  table.cudnn_attention_plans = cudnn_attention_plans;
  table.cudnn_attention_workspace = cudnn_attention_workspace;
  table.cudnn_attention = cudnn_attention;
}

}  // namespace pe::cuda
