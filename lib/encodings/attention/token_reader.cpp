#include "encodings/attention/token_reader.h"

#include <algorithm>

#include "support/text.h"

namespace pe::encodings {
namespace {

constexpr const char* kNumbers = "token numbers";

Tensor to_tensor(const std::vector<std::int64_t>& numbers, at::IntArrayRef sizes) {
  Tensor t = at::empty({static_cast<std::int64_t>(numbers.size())}, at::kLong);
  std::copy(numbers.begin(), numbers.end(), t.mutable_data_ptr<std::int64_t>());
  return t.view(sizes);
}

}  // namespace

Tensor ReadsTokens::read(const Tensor& ids, const Tensor& doc_start) const {
  if (!numbers_) {
    throw support::ConfigError(
        "the encoding of this model reads numbers of the tokens, and this program has only their ids", {},
        support::cat("it reads ", reads().dump()));
  }
  const Tensor rows = ids.to(at::kCPU, at::kLong).contiguous();
  const std::int64_t batch = rows.size(0), length = rows.size(1);
  const Tensor starts =
      doc_start.defined() ? doc_start.to(at::kCPU, at::kLong).expand({batch, length}).contiguous() : Tensor();
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
  return to_tensor(all, {batch, length, -1}).to(ids.device());
}

ReadsTokens* reader_of(PositionalEncoding& encoding) {
  auto* reader = dynamic_cast<ReadsTokens*>(&encoding);
  return reader == nullptr || reader->reads().is_null() ? nullptr : reader;
}

void read_alike(PositionalEncoding& encoding, PositionalEncoding& as) {
  ReadsTokens* reader = reader_of(encoding);
  const ReadsTokens* other = reader_of(as);
  if (reader != nullptr && other != nullptr) reader->read_with(other->reads_with());
}

void give_numbers(State& state, const Tensor& numbers) {
  if (numbers.dim() != 3 || numbers.size(1) != state.span.keys || numbers.scalar_type() != at::kLong) {
    throw ShapeError(support::cat("numbers of tokens: expected [B, ", state.span.keys,
                                  ", channels] (B S c) int64, found ", numbers.dim(), " dimensions, the second of ",
                                  numbers.dim() > 1 ? numbers.size(1) : 0));
  }
  state.tensors[kNumbers] = numbers;
}

const Tensor& numbers_of(const State& state) {
  const auto found = state.tensors.find(kNumbers);
  if (found != state.tensors.end()) return found->second;
  throw support::ConfigError("this encoding reads numbers of the tokens, and the pass has none");
}

std::vector<std::int64_t> example_numbers(const ReadsTokens& reader, std::int64_t tokens) {
  const auto reads = reader.reads().at("reads").get<std::string>();
  const std::int64_t sentence = std::max<std::int64_t>(3, tokens / 16),
                     half = std::min<std::int64_t>((tokens + 1) / 2, 256);
  std::vector<std::int64_t> numbers;
  for (std::int64_t t = 0; t < tokens; ++t) {
    if (reads == "digits") {
      numbers.push_back(t % 5 == 4 ? 0 : t % 5 + 1);  // numbers of four digits
    } else if (reads == "segments") {
      numbers.push_back(t % sentence);
      numbers.push_back(t / sentence);
    } else {
      numbers.push_back(1 + t % half);  // the numbers repeat
    }
  }
  return numbers;
}

void give_example_numbers(PositionalEncoding& encoding, State& state) {
  const ReadsTokens* reader = reader_of(encoding);
  if (reader == nullptr) return;
  give_numbers(state,
               to_tensor(example_numbers(*reader, state.span.keys), {1, state.span.keys, -1}).to(state.span.device));
}

void read_examples(PositionalEncoding& encoding) {
  ReadsTokens* reader = reader_of(encoding);
  if (reader == nullptr) return;
  reader->read_with([reader](std::span<const std::int64_t> ids) {
    return example_numbers(*reader, static_cast<std::int64_t>(ids.size()));
  });
}

}  // namespace pe::encodings
