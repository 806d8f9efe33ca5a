#include "training/state_copy.h"

#include "model/flat_zeros.h"

namespace pe::training {

std::vector<StatePart> state_of(const model::LanguageModel& model, const Optimizer& optimizer) {
  std::vector<StatePart> state(1);
  state.front().name = "model/";
  for (const model::FlatGroup& group : model.groups()) state.front().flat.push_back(group.values);
  for (StatePart& part : optimizer.state()) state.push_back(std::move(part));
  return state;
}

StateCopy::~StateCopy() {
  if (allocating_.valid()) allocating_.wait();
}

/// Pinned where a GPU copies into or out of it, and 0 where the model's buffers are padded, since checkpoints do not
/// hold the padding.
std::vector<StatePart> host_zeros_like(const std::vector<StatePart>& state) {
  std::vector<StatePart> made;
  for (const StatePart& part : state) {
    StatePart copy{.name = part.name, .flat = {}, .absent = part.absent};
    for (const at::Tensor& flat : part.flat) {
      copy.flat.push_back(
          model::flat_zeros(flat.numel(), at::TensorOptions(flat.scalar_type()).pinned_memory(flat.is_cuda())));
    }
    made.push_back(std::move(copy));
  }
  return made;
}

void StateCopy::prepare(const std::vector<StatePart>& state) {
  if (allocating_.valid() || !copy_.empty()) return;
  allocating_ = std::async(std::launch::async, [this, state] {
    copy_ = host_zeros_like(state);
    constexpr std::int64_t kPage = 4096;
    for (const StatePart& part : copy_) {
      for (const at::Tensor& flat : part.flat) {
        auto* bytes = static_cast<volatile char*>(flat.mutable_data_ptr());
        for (std::int64_t at = 0; at < static_cast<std::int64_t>(flat.nbytes()); at += kPage) bytes[at] = 0;
      }
    }
  });
}

const std::vector<StatePart>& StateCopy::take(const std::vector<StatePart>& state) {
  const at::NoGradGuard no_gradients;
  if (allocating_.valid()) allocating_.get();
  if (copy_.empty()) copy_ = host_zeros_like(state);
  for (std::size_t i = 0; i < state.size(); ++i) {
    for (std::size_t j = 0; j < state[i].flat.size(); ++j) copy_[i].flat[j].copy_(state[i].flat[j]);
  }
  return copy_;
}

}  // namespace pe::training
