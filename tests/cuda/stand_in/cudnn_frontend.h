/// @file
/// The part of cuDNN's frontend that lib/cuda/cudnn_attention.cpp calls, on host memory (cudnn_stand_in.h). The names
/// are in a namespace, so that they never replace names of a loaded CUDA library.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace pe::stand_in {

using cudnnHandle_t = struct Cudnn*;
enum cudnnStatus_t { CUDNN_STATUS_SUCCESS = 0 };

namespace cudnn_frontend {

extern void* cudnn_dlhandle;

enum class DataType_t { NOT_SET, FLOAT, BFLOAT16 };
enum class HeurMode_t { A };
enum class DiagonalAlignment_t { TOP_LEFT, BOTTOM_RIGHT };

struct error_t {
  std::string message;  ///< empty: good
  bool is_bad() const { return !message.empty(); }
  bool is_good() const { return message.empty(); }
  std::string get_message() { return message; }
};

/// A device that is not there.
struct DeviceProperties {
  error_t deserialize(const std::vector<std::uint8_t>&) { return {"the stand-in knows no device"}; }
};

namespace detail {
std::size_t get_backend_version();
cudnnStatus_t create_handle(cudnnHandle_t* handle);
cudnnStatus_t set_stream(cudnnHandle_t handle, cudaStream_t stream);
}  // namespace detail

namespace graph {

class Tensor_attributes {
 public:
  Tensor_attributes& set_uid(std::int64_t uid) { return uid_ = uid, *this; }
  Tensor_attributes& set_dim(const std::vector<std::int64_t>& dim) { return dim_ = dim, *this; }
  Tensor_attributes& set_stride(const std::vector<std::int64_t>& stride) { return stride_ = stride, *this; }
  Tensor_attributes& set_data_type(DataType_t type) { return type_ = type, *this; }
  Tensor_attributes& set_output(bool is_output) { return is_output_ = is_output, *this; }
  std::int64_t get_uid() const { return uid_; }
  std::vector<std::int64_t> get_dim() const { return dim_; }
  std::vector<std::int64_t> get_stride() const { return stride_; }
  DataType_t get_data_type() const { return type_; }
  bool is_output() const { return is_output_; }

 private:
  std::int64_t uid_ = 0;
  std::vector<std::int64_t> dim_, stride_;
  DataType_t type_ = DataType_t::NOT_SET;
  bool is_output_ = false;
};

/// The operation of a node, for both directions.
struct Node {
  bool backward = false, stats = false, deterministic = false;
  std::optional<DiagonalAlignment_t> alignment;
  std::optional<int> right_bound;
  double scale = 0;
  /// q, k, v, out, lse; of a backward pass dout, dq, dk and dv too.
  std::vector<std::shared_ptr<Tensor_attributes>> matrices;
};

template <typename Self>
class NodeAttributes {
 public:
  Self& set_name(const std::string&) { return self(); }
  Self& set_diagonal_alignment(DiagonalAlignment_t alignment) { return node.alignment = alignment, self(); }
  Self& set_diagonal_band_right_bound(int bound) { return node.right_bound = bound, self(); }
  Self& set_attn_scale(float scale) { return node.scale = scale, self(); }

  Node node;

 protected:
  Self& self() { return static_cast<Self&>(*this); }
};
class SDPA_attributes : public NodeAttributes<SDPA_attributes> {
 public:
  SDPA_attributes& set_generate_stats(bool stats) { return node.stats = stats, *this; }
};
class SDPA_backward_attributes : public NodeAttributes<SDPA_backward_attributes> {
 public:
  SDPA_backward_attributes& set_deterministic_algorithm(bool is) { return node.deterministic = is, *this; }
};

class Graph {
 public:
  using Matrix = std::shared_ptr<Tensor_attributes>;

  Graph& set_io_data_type(DataType_t) { return *this; }
  Graph& set_intermediate_data_type(DataType_t type) { return intermediate_ = type, *this; }
  Graph& set_compute_data_type(DataType_t type) { return compute_ = type, *this; }
  Graph& set_sm_version(int capability) { return capability_ = capability, *this; }
  Graph& set_device_properties(std::shared_ptr<const DeviceProperties>) { return *this; }

  Matrix tensor(const Tensor_attributes& as) { return std::make_shared<Tensor_attributes>(as); }
  std::array<Matrix, 2> sdpa(Matrix q, Matrix k, Matrix v, SDPA_attributes how);
  std::array<Matrix, 3> sdpa_backward(Matrix q, Matrix k, Matrix v, Matrix out, Matrix dout, Matrix lse,
                                      SDPA_backward_attributes how);

  error_t validate();
  error_t build_operation_graph() { return {"the stand-in knows no device"}; }
  error_t build_operation_graph(cudnnHandle_t handle);
  error_t create_execution_plans(const std::vector<HeurMode_t>& modes);
  error_t check_support();
  std::int64_t get_execution_plan_count() const { return node_.backward ? 3 : 2; }
  error_t build_plan_at_index(std::int64_t plan);
  error_t get_workspace_size_plan_at_index(std::int64_t plan, std::int64_t& bytes) const;
  error_t execute_plan_at_index(cudnnHandle_t handle, std::unordered_map<std::int64_t, void*>& places, void* workspace,
                                std::int64_t plan) const;

 private:
  DataType_t intermediate_ = DataType_t::NOT_SET, compute_ = DataType_t::NOT_SET;
  int capability_ = 0, stage_ = 0;
  std::set<std::int64_t> built_;
  Node node_;
};

}  // namespace graph
}  // namespace cudnn_frontend
}  // namespace pe::stand_in

using namespace pe::stand_in;  // NOLINT
