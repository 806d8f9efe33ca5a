#include "model/flat_zeros.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <sys/mman.h>

namespace pe::model {
namespace {

constexpr std::size_t kLargePage = std::size_t{2} << 20;

}  // namespace

at::Tensor flat_zeros(std::int64_t count, const at::TensorOptions& options) {
  const std::size_t bytes = static_cast<std::size_t>(count) * options.dtype().itemsize();
  if (!options.device().is_cpu() || options.pinned_memory() || bytes < 2 * kLargePage)
    return at::zeros({count}, options);
  // One page more than is needed, so that the buffer can begin where a large page does.
  const std::size_t mapped = bytes + kLargePage;
  void* const base = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return at::zeros({count}, options);  // an error has LibTorch's text
  const std::size_t past = reinterpret_cast<std::uintptr_t>(base) % kLargePage;
  char* const begin = static_cast<char*>(base) + (past == 0 ? 0 : kLargePage - past);
  ::madvise(begin, bytes, MADV_HUGEPAGE);  // a wish: without it the pages are small ones
  return at::from_blob(
      begin, {count}, [base, mapped](void*) { ::munmap(base, mapped); }, options);
}

void move_contents(const at::Tensor& from, const at::Tensor& to) {
  TORCH_INTERNAL_ASSERT(from.is_cpu() && from.scalar_type() == to.scalar_type() && from.numel() == to.numel());
  if (!to.is_cpu() || to.numel() == 0) {
    to.copy_(from);
    return;
  }
  const c10::Storage &source = from.storage(), &target = to.storage();
  TORCH_INTERNAL_ASSERT(to.storage_offset() == 0 && from.storage_offset() == 0 && source.nbytes() == target.nbytes());
  target.set_data_ptr_noswap(source.set_data_ptr(at::DataPtr()));
}

}  // namespace pe::model
