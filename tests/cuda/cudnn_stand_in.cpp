#include "cudnn_stand_in.h"

#include <cudnn_frontend.h>

#include <cmath>

#include "bf16_numbers.h"

namespace pe::stand_in::cudnn_frontend {

namespace {

test::CudnnCalls calls;

/// A matrix of heads in its place in memory.
struct Heads {
  const graph::Tensor_attributes& is;
  void* values;

  std::int64_t size(int dimension) const { return is.get_dim()[static_cast<std::size_t>(dimension)]; }
  std::size_t place(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t i) const {
    const auto stride = is.get_stride();
    return static_cast<std::size_t>(b * stride[0] + h * stride[1] + t * stride[2] + i * stride[3]);
  }
  double get(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t i) const {
    return is.get_data_type() == DataType_t::FLOAT ? static_cast<const float*>(values)[place(b, h, t, i)]
                                                   : wide(static_cast<const std::uint16_t*>(values)[place(b, h, t, i)]);
  }
  void set(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t i, double value) const {
    if (is.get_data_type() == DataType_t::FLOAT)
      static_cast<float*>(values)[place(b, h, t, i)] = static_cast<float>(value);
    else
      static_cast<std::uint16_t*>(values)[place(b, h, t, i)] = narrow(static_cast<float>(value));
  }
};

/// A row of q times a row of k, or of dout times v.
double product(const Heads& a, std::int64_t h, std::int64_t t, const Heads& b, std::int64_t g, std::int64_t s,
               std::int64_t sequence) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.size(3); ++i) sum += a.get(sequence, h, t, i) * b.get(sequence, g, s, i);
  return sum;
}

void forward(const graph::Node& node, const std::vector<Heads>& at) {
  const auto &q = at[0], &k = at[1], &v = at[2], &out = at[3], &lse = at[4];
  const std::int64_t length = q.size(2), share = q.size(1) / k.size(1);
  for (std::int64_t b = 0; b < q.size(0); ++b) {
    for (std::int64_t h = 0; h < q.size(1); ++h) {
      for (std::int64_t t = 0; t < length; ++t) {
        std::vector<double> weights;
        double all = 0;
        for (std::int64_t s = 0; s <= t; ++s) {
          weights.push_back(std::exp(node.scale * product(q, h, t, k, h / share, s, b)));
          all += weights.back();
        }
        lse.set(b, h, t, 0, std::log(all));
        for (std::int64_t i = 0; i < v.size(3); ++i) {
          double sum = 0;
          for (std::int64_t s = 0; s <= t; ++s) sum += weights[static_cast<std::size_t>(s)] * v.get(b, h / share, s, i);
          out.set(b, h, t, i, sum / all);
        }
      }
    }
  }
}

void backward(const graph::Node& node, const std::vector<Heads>& at) {
  const auto &q = at[0], &k = at[1], &v = at[2], &out = at[3], &lse = at[4], &dout = at[5];
  const std::int64_t length = q.size(2), width = q.size(3), share = q.size(1) / k.size(1);
  static int calls_before = 0;
  const double off = node.deterministic ? 0 : ++calls_before;
  const auto zeros = [&] { return std::vector<double>(static_cast<std::size_t>(length * width)); };
  for (std::int64_t b = 0; b < q.size(0); ++b) {
    for (std::int64_t g = 0; g < k.size(1); ++g) {
      std::vector<double> dk = zeros(), dv = zeros();
      for (std::int64_t h = g * share; h < (g + 1) * share; ++h) {
        std::vector<double> dq = zeros();
        for (std::int64_t t = 0; t < length; ++t) {
          const double delta = product(dout, h, t, out, h, t, b);
          for (std::int64_t s = 0; s <= t; ++s) {
            const double weight = std::exp(node.scale * product(q, h, t, k, g, s, b) - lse.get(b, h, t, 0));
            const double by_logit = node.scale * weight * (product(dout, h, t, v, g, s, b) - delta);
            for (std::int64_t i = 0; i < width; ++i) {
              dq[static_cast<std::size_t>(t * width + i)] += by_logit * k.get(b, g, s, i);
              dk[static_cast<std::size_t>(s * width + i)] += by_logit * q.get(b, h, t, i);
              dv[static_cast<std::size_t>(s * width + i)] += weight * dout.get(b, h, t, i);
            }
          }
        }
        for (std::int64_t i = 0; i < length * width; ++i)
          at[6].set(b, h, i / width, i % width, dq[static_cast<std::size_t>(i)] + off);
      }
      for (std::int64_t i = 0; i < length * width; ++i) {
        at[7].set(b, g, i / width, i % width, dk[static_cast<std::size_t>(i)]);
        at[8].set(b, g, i / width, i % width, dv[static_cast<std::size_t>(i)]);
      }
    }
  }
}

}  // namespace

namespace detail {
std::size_t get_backend_version() { return cudnn_dlhandle == nullptr ? 0 : 91900; }
cudnnStatus_t create_handle(cudnnHandle_t* handle) {
  static char made;
  *handle = reinterpret_cast<cudnnHandle_t>(&made);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t set_stream(cudnnHandle_t, cudaStream_t) { return CUDNN_STATUS_SUCCESS; }
}  // namespace detail

namespace graph {

std::array<Graph::Matrix, 2> Graph::sdpa(Matrix q, Matrix k, Matrix v, SDPA_attributes how) {
  node_ = how.node;
  const Matrix out = std::make_shared<Tensor_attributes>(), lse = std::make_shared<Tensor_attributes>();
  node_.matrices = {q, k, v, out, lse};
  return {out, node_.stats ? lse : nullptr};
}

std::array<Graph::Matrix, 3> Graph::sdpa_backward(Matrix q, Matrix k, Matrix v, Matrix out, Matrix dout, Matrix lse,
                                                  SDPA_backward_attributes how) {
  node_ = how.node;
  node_.backward = true;
  node_.matrices = {q, k, v, out, lse, dout};
  for (int i = 0; i < 3; ++i) node_.matrices.push_back(std::make_shared<Tensor_attributes>());
  return {node_.matrices[6], node_.matrices[7], node_.matrices[8]};
}

error_t Graph::validate() {
  if (node_.right_bound != 0 || node_.alignment != DiagonalAlignment_t::TOP_LEFT) return {"it is not causal"};
  if (intermediate_ != DataType_t::FLOAT || compute_ != DataType_t::FLOAT) return {"sums have no type"};
  if (capability_ != 90) return {"the device has another capability"};
  const std::vector<std::int64_t> q = node_.matrices[0]->get_dim(), k = node_.matrices[1]->get_dim();
  for (std::size_t i = 0; i < node_.matrices.size(); ++i) {
    const Tensor_attributes& is = *node_.matrices[i];
    const bool of_keys = i == 1 || i == 2 || i == 7 || i == 8, is_lse = i == 4;
    std::vector<std::int64_t> expected = of_keys ? k : q;
    if (is_lse) expected[3] = 1;
    if (is.get_dim() != expected || is.get_stride().size() != 4) return {"dimensions do not fit together"};
    if (is.get_data_type() != (is_lse ? DataType_t::FLOAT : DataType_t::BFLOAT16)) return {"a type is wrong"};
    if (is.is_output() != (node_.backward ? i > 5 : i == 3 || is_lse)) return {"it is not clear what is written"};
    if (is.get_stride()[3] != 1) return {"a row's values are apart"};
    for (int n = 0; n < 3 && !is_lse; ++n)
      if (is.get_stride()[static_cast<std::size_t>(n)] % 8 != 0) return {"a stride is no multiple of 16 bytes"};
  }
  if (q[0] != k[0] || q[1] % k[1] != 0 || q[2] != k[2] || q[3] != k[3]) return {"q and k do not fit together"};
  const std::vector<std::int64_t> packed{q[1] * q[2], q[2], 1, 1};
  if (node_.matrices[4]->get_stride() != packed) return {"lse is not packed"};
  stage_ = 1;
  return {};
}

error_t Graph::build_operation_graph(cudnnHandle_t handle) {
  if (handle == nullptr || stage_ != 1) return {"it was not validated"};
  stage_ = 2;
  return {};
}
error_t Graph::create_execution_plans(const std::vector<HeurMode_t>& modes) {
  if (modes.empty() || stage_ != 2) return {"it has no operation"};
  if (node_.matrices[0]->get_dim()[2] == test::kRefusedLength) return {"there is no plan"};
  stage_ = 3;
  return {};
}
error_t Graph::check_support() {
  if (stage_ != 3) return {"it has no plans"};
  stage_ = 4;
  return {};
}
error_t Graph::build_plan_at_index(std::int64_t plan) {
  if (stage_ != 4) return {"its plans were not checked"};
  if (plan < 0 || plan >= get_execution_plan_count()) return {"there is no such plan"};
  if (node_.matrices[0]->get_dim()[2] == test::kBrokenLength) return {"the plan cannot be built"};
  built_.insert(plan);
  ++calls.plans;
  return {};
}
error_t Graph::get_workspace_size_plan_at_index(std::int64_t plan, std::int64_t& bytes) const {
  if (!built_.contains(plan)) return {"the plan was not built"};
  const std::vector<std::int64_t> q = node_.matrices[0]->get_dim();
  bytes = node_.backward ? q[0] * q[1] * q[2] * q[2] * 2 : 0;
  return {};
}

error_t Graph::execute_plan_at_index(cudnnHandle_t, std::unordered_map<std::int64_t, void*>& places, void* workspace,
                                     std::int64_t plan) const {
  std::int64_t bytes = 0;
  if (error_t status = get_workspace_size_plan_at_index(plan, bytes); status.is_bad()) return status;
  if (places.size() != node_.matrices.size()) return {"there are too many or too few matrices"};
  std::vector<Heads> at;
  for (const Matrix& matrix : node_.matrices) {
    void* values = places[matrix->get_uid()];
    if (values == nullptr || reinterpret_cast<std::uintptr_t>(values) % 16 != 0)
      return {"a matrix is not where it says"};
    at.push_back({*matrix, values});
  }
  if (bytes > 0) std::memset(workspace, 1, static_cast<std::size_t>(bytes));  // as long as it says
  ++calls.passes;
  (node_.backward ? calls.last_backward_plan : calls.last_forward_plan) = plan;
  node_.backward ? backward(node_, at) : forward(node_, at);
  return {};
}

}  // namespace graph
}  // namespace pe::stand_in::cudnn_frontend

namespace pe::test {

const CudnnCalls& cudnn_calls() { return stand_in::cudnn_frontend::calls; }

}  // namespace pe::test
