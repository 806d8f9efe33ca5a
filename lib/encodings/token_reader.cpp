#include "encodings/token_reader.h"

#include "support/text.h"

namespace pe::encodings {
namespace {

constexpr const char* kNumbers = "token numbers";

}  // namespace

Tensor ReadsTokens::read(const Tensor& ids, const Tensor& doc_start) const {
  if (!numbers_) {
    throw support::ConfigError("the encoding of this model reads numbers off the tokens, and this program knows ids alone", {},
                               support::cat("what it reads is ", reads().dump()));
  }
  const Tensor rows = ids.to(at::kCPU, at::kLong).contiguous();
  const std::int64_t batch = rows.size(0), length = rows.size(1);
  const Tensor starts = doc_start.defined() ? doc_start.to(at::kCPU, at::kLong).expand({batch, length}).contiguous() : Tensor();
  std::vector<std::int64_t> all;
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t* row = rows.const_data_ptr<std::int64_t>() + b * length;
    const std::int64_t* start = starts.defined() ? starts.const_data_ptr<std::int64_t>() + b * length : nullptr;
    for (std::int64_t begin = 0; begin < length;) {
      std::int64_t end = start == nullptr ? length : begin + 1;
      while (end < length && start[end] == start[begin]) ++end;
      const std::vector<std::int64_t> of_document = numbers_({row + begin, row + end});
      all.insert(all.end(), of_document.begin(), of_document.end());
      begin = end;
    }
  }
  return at::tensor(all, at::kLong).view({batch, length, -1}).to(ids.device());
}

ReadsTokens* reader_of(PositionalEncoding& encoding) {
  auto* reader = dynamic_cast<ReadsTokens*>(&encoding);
  return reader == nullptr || reader->reads().is_null() ? nullptr : reader;
}

void give_numbers(State& state, const Tensor& numbers) {
  if (numbers.dim() != 3 || numbers.size(1) != state.span.keys || numbers.scalar_type() != at::kLong) {
    throw ShapeError(support::cat("numbers of tokens: expected [B, ", state.span.keys, ", channels] (B S c) int64, found ", numbers.dim(),
                                  " dimensions, the second of ", numbers.dim() > 1 ? numbers.size(1) : 0));
  }
  state.tensors[kNumbers] = numbers;
}

const Tensor& numbers_of(const State& state) {
  const auto found = state.tensors.find(kNumbers);
  if (found != state.tensors.end()) return found->second;
  throw support::ConfigError("this encoding reads numbers off the tokens, and the pass has none");
}

}  // namespace pe::encodings
