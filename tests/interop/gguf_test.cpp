// Files of llama.cpp: written files are read, and any fault is one clear error.
#include "interop/gguf.h"

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <functional>

#include "data/tokenizers/tokenizer.h"
#include "interop/gguf_tokenizer.h"
#include "support/error.h"
#include "support/files.h"
#include "support/temp_folder.h"

using namespace pe;
using interop::GgufValue;

namespace {

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const support::Error& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const interop::GgufValues kValues = {{"a.text", "llama"},
                                     {"b.number", std::int64_t{4000000000}},
                                     {"c.real", 0.5},
                                     {"d.truth", true},
                                     {"e.types", std::vector<std::int32_t>{1, -3}},
                                     {"f.scores", std::vector<float>{0.25f}},
                                     {"g.texts", std::vector<std::string>{"", "\xE2\x96\x81the"}},
                                     {"h.nothing", std::vector<std::string>{}}};

std::string written() {
  const test::TempFolder folder;
  const std::vector<float> a{1, 2, 3, 4, 5, 6}, b{0.5f};
  interop::write_gguf(folder / "a.gguf", kValues,
                      {{"matrix", "BF16", {3, 2}, [&](const auto& sink) { sink(interop::from_floats("BF16", a)); }},
                       {"vector", "F32", {1}, [&](const auto& sink) { sink(interop::from_floats("F32", b)); }}});
  return support::read_file(folder / "a.gguf");
}

template <typename Number>
std::string with(std::string bytes, std::size_t at, Number number) {
  std::memcpy(bytes.data() + at, &number, sizeof number);
  return bytes;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(gguf)

BOOST_AUTO_TEST_CASE(values_and_tensors_come_back) {
  const std::string bytes = written();
  const interop::GgufHeader header = interop::parse_gguf(bytes, "a.gguf");
  BOOST_TEST((header.values == kValues));
  BOOST_TEST_REQUIRE(header.tensors.size() == 2u);
  const auto& [matrix, vector] = std::tie(header.tensors[0], header.tensors[1]);
  BOOST_TEST(matrix.shape == (std::vector<std::int64_t>{3, 2}));
  BOOST_TEST(matrix.begin % 32 == 0u);
  BOOST_TEST(vector.begin == matrix.begin + 32);
  BOOST_TEST(bytes.size() == vector.begin + 32);
  BOOST_TEST(interop::to_floats("BF16", bytes.substr(matrix.begin, 12), "a") == (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

BOOST_AUTO_TEST_CASE(damage_is_one_clear_error) {
  const std::string bytes = written();
  const auto refused = [](const std::string& file, const std::string& part) {
    const std::string found = refusal([&] { interop::parse_gguf(file, "a.gguf"); });
    BOOST_TEST(has(found, part), found << " is not about: " << part);
  };
  refused("", "does not begin with 'GGUF'");
  refused(bytes.substr(0, 20), "entries, more than its 20 bytes hold");
  refused(bytes.substr(0, bytes.size() - 32), "tensor 'vector' ends at byte");
  refused(with(bytes, 4, std::uint32_t{2}), "version 2, expected 3");
  refused(with(bytes, 8, UINT64_MAX), "states 18446744073709551615 entries, more than its");
  refused(with(bytes, 16, std::uint64_t{1} << 40), "entries, more than its");
  refused(with(bytes, bytes.find("a.text") + 10, UINT64_MAX), "entries, more than its");
  refused(with(bytes, bytes.find("a.text") + 6, std::uint32_t{77}), "a value of type 77");
  refused(with(bytes, bytes.find("e.types") + 11, std::uint32_t{9}), "an array of type 9, which is not supported");
  std::string twice = bytes;
  twice.replace(twice.find("c.real"), 6, "a.text");
  refused(twice, "'a.text' is there twice");
}

BOOST_AUTO_TEST_CASE(tensors_that_lie_are_refused) {
  const std::string bytes = written();
  const auto refused = [](const std::string& file, const std::string& part) {
    const std::string found = refusal([&] { interop::parse_gguf(file, "a.gguf"); });
    BOOST_TEST(has(found, part), found << " is not about: " << part);
  };
  const std::size_t matrix = bytes.find("matrix") + 6, vector = bytes.find("vector") + 6;
  refused(with(bytes, matrix, std::uint32_t{5}), "tensor 'matrix' has 5 dimensions, more than 4");
  refused(with(bytes, matrix + 4, std::uint64_t{1} << 60), "has a dimension of");
  refused(with(bytes, matrix + 4, std::uint64_t{0}), "has a dimension of 0");
  refused(with(bytes, matrix + 20, std::uint32_t{12}), "no quantised weights");
  refused(with(bytes, matrix + 24, std::uint64_t{8}), "has offset 8, expected a multiple of 32");
  refused(with(bytes, vector + 16, std::uint64_t{0}), "overlap");
  std::string twice = bytes;
  twice.replace(vector - 6, 6, "matrix");
  refused(twice, "tensor 'matrix' is there twice");
}

BOOST_AUTO_TEST_CASE(tokenizers_have_the_types_of_llama_cpp) {
  const artifact::TokenizerRecord bytes = data::make_byte_tokenizer()->record();
  const auto values = interop::gguf_tokenizer(bytes, bytes.vocabulary + 2, "t");
  const auto& tokens = std::get<std::vector<std::string>>(values.at("tokenizer.ggml.tokens"));
  const auto& types = std::get<std::vector<std::int32_t>>(values.at("tokenizer.ggml.token_type"));
  BOOST_TEST((values.at("tokenizer.ggml.model") == GgufValue("gpt2")));
  BOOST_TEST(std::get<std::vector<std::string>>(values.at("tokenizer.ggml.merges")).empty());
  BOOST_TEST(static_cast<std::int64_t>(tokens.size()) == bytes.vocabulary + 2);
  BOOST_TEST(tokens[' '] == "\u0120");
  BOOST_TEST(types[' '] == 1);
  BOOST_TEST(types[static_cast<std::size_t>(bytes.eos_id)] == 3);
  BOOST_TEST(types.back() == 5);
  artifact::TokenizerRecord endless = bytes;
  endless.eos_id = -1;
  BOOST_TEST(has(refusal([&] { interop::gguf_tokenizer(endless, 0, "t"); }), "has no end token"));
  endless.kind = "symbols";
  BOOST_TEST(has(refusal([&] { interop::gguf_tokenizer(endless, 0, "t"); }), "its kind is 'symbols'"));
}

BOOST_AUTO_TEST_SUITE_END()
