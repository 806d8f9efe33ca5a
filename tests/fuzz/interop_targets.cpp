// Readers of other people's models.
#include <stdexcept>

#include "data/tokenizers/byte_level_bpe.h"
#include "fuzz/answers.h"
#include "fuzz/targets.h"
#include "interop/gguf.h"
#include "interop/rope_parameters.h"
#include "interop/safetensors.h"
#include "interop/tokenizer_json.h"
#include "interop/weight_files.h"
#include "support/parse_json.h"

namespace pe::fuzz {

namespace {

void read_tensors(const std::vector<interop::SafetensorsEntry>& tensors, std::string_view bytes) {
  std::uint64_t sum = 0;
  for (const auto& tensor : tensors) {
    if (tensor.begin > tensor.end || tensor.end > bytes.size())
      throw std::logic_error("a tensor lies outside the file");
    sum += tensor.end - tensor.begin;
    expect_answer(
        [&] { interop::to_floats(tensor.dtype, bytes.substr(tensor.begin, tensor.end - tensor.begin), "fuzz"); });
  }
  if (sum > bytes.size()) throw std::logic_error("tensors overlap");
}

}  // namespace

void read_gguf(std::string_view bytes) {
  expect_answer([&] { read_tensors(interop::parse_gguf(bytes, "fuzz").tensors, bytes); });
}

void read_safetensors(std::string_view bytes) {
  expect_answer([&] { read_tensors(interop::parse_safetensors(bytes, "fuzz").tensors, bytes); });
  expect_answer([&] { interop::parse_weight_index(bytes, "fuzz"); });
}

void read_tokenizer_json(std::string_view bytes) {
  expect_answer([&] {
    std::string note;
    const auto tokenizer = data::make_byte_level(interop::byte_level_from_json(bytes, {}, "fuzz", note), "fuzz");
    if (tokenizer->decode(tokenizer->encode(bytes)) != bytes) throw std::logic_error("text did not come back");
  });
}

void read_rope_parameters(std::string_view bytes) {
  expect_answer([&] {
    const Json config = support::parse_json(bytes, support::kForeignJson);
    if (!config.is_object()) return;
    const Json parameters = interop::rope_parameters_of(config, "fuzz");
    interop::rope_frequencies(parameters, 16, 2048, "fuzz");
    interop::encoding_of_rope(parameters, 2048, "fuzz");
  });
}

}  // namespace pe::fuzz
