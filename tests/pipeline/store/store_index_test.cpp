#include "pipeline/store/index.h"

#include <boost/test/unit_test.hpp>

#include "support/hash.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT

namespace {

Result sample(int i) {
  Result result;
  result.status = i % 2 ? ResultStatus::kDiverged : ResultStatus::kDone;
  result.plan_key = i % 3 ? support::sha256_hex("plan" + std::to_string(i)) : "";
  result.wall_s = i * 0.5;
  for (int k = 0; k < i % 3; ++k) {
    OutputRecord output;
    output.role = "out" + std::to_string(k);
    output.kind = "metrics";
    output.object = support::sha256_hex("o" + std::to_string(i * 10 + k));
    output.content = support::sha256_hex("c" + std::to_string(i * 10 + k));
    output.bytes = 1u << i;
    output.collection = k == 1;
    if (output.collection) output.members = {output.object, output.content};
    output.is_volatile = i % 2;
    result.outputs.push_back(output);
  }
  return result;
}

ResultKey key(int i) { return {support::sha256_hex(std::to_string(i)), i % 4 == 0 ? i : -1}; }

bool equal(const Result& a, const Result& b) {
  return a.status == b.status && a.plan_key == b.plan_key && a.wall_s == b.wall_s && a.outputs == b.outputs;
}

/// A result and a hint as versions before 24 November 2026 wrote them.
const std::string kEarlierResult =
    "ad000000d3d9f6ba0141606365ada3bf79e21e9a8610ced40fe4ac2bc00b16b59181e713f5ee063a25ffffffffffffffff00"
    "df74354f991b045e9d711b9858e4a5733677cea9002d09208e2664d67787fc21fa7e6abc7493683f0100036f7574076d6574"
    "72696373a5cd520bbee8cd0f7dd72d86020bfbd5734d108d86e55c890c6194066a50172573247d1e0ce7c5cea4ed50ecd63f"
    "8f9343b93ef587d584e0848fd2c4b1cb36ee37120000000000000000000000";
const std::string kEarlierHint =
    "41000000922561fd02df74354f991b045e9d711b9858e4a5733677cea9002d09208e2664d67787fc2141606365ada3bf79e2"
    "1e9a8610ced40fe4ac2bc00b16b59181e713f5ee063a25";

std::string bytes_of(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(store_index)

BOOST_AUTO_TEST_CASE(a_file_of_an_earlier_version_is_read_and_written_the_same) {
  const std::string bytes = index_header() + bytes_of(kEarlierResult) + bytes_of(kEarlierHint);
  IndexContent content;
  BOOST_TEST(load_index(bytes, content));
  BOOST_REQUIRE(content.results.size() == 1u);
  const auto& [key, packed] = *content.results.begin();
  const Result result = packed.unpack();
  BOOST_TEST(key.unpack().short_name() == "41606365ada3");
  BOOST_TEST(result.plan_key.substr(0, 12) == "df74354f991b");
  BOOST_REQUIRE(result.outputs.size() == 1u);
  BOOST_TEST(result.outputs[0].role == "out");
  BOOST_TEST(result.outputs[0].kind == "metrics");
  BOOST_TEST(result.outputs[0].object.substr(0, 12) == "a5cd520bbee8");
  BOOST_TEST(result.outputs[0].content.substr(0, 12) == "73247d1e0ce7");
  BOOST_TEST(result.outputs[0].bytes == 4663u);
  BOOST_TEST(content.hints.at(PackedDigest(result.plan_key)).hex() == key.unpack().key);
  BOOST_TEST(render_index(content) == bytes);
}

BOOST_AUTO_TEST_CASE(what_is_written_is_read_back) {
  std::string bytes = index_header();
  for (int i = 0; i < 12; ++i) bytes += encode_result(PackedKey(key(i)), PackedResult(sample(i)));
  bytes += encode_hint(PackedDigest(support::sha256_hex("p")), PackedDigest(support::sha256_hex("t")));
  bytes += encode_forgotten(PackedKey(key(5)));
  IndexContent content;
  BOOST_TEST(load_index(bytes, content));
  BOOST_TEST(content.results.size() == 11u);
  for (int i = 0; i < 12; ++i) {
    if (i != 5) BOOST_TEST(equal(content.results.at(PackedKey(key(i))).unpack(), sample(i)));
  }
  BOOST_TEST(content.hints.at(PackedDigest(support::sha256_hex("p"))).hex() == support::sha256_hex("t"));
  IndexContent again;
  BOOST_TEST(load_index(render_index(content), again));
  BOOST_TEST(again.results.size() == 11u);
}

BOOST_AUTO_TEST_CASE(a_packed_result_is_unpacked_as_it_was_and_no_other_bytes_are_one) {
  for (int i = 0; i < 12; ++i) {
    const PackedResult packed(sample(i));
    BOOST_TEST(equal(packed.unpack(), sample(i)));
    BOOST_TEST(PackedKey(key(i)).unpack().short_name() == key(i).short_name());
    const std::string bytes(packed.bytes());
    BOOST_TEST(PackedResult::of_bytes(bytes)->bytes() == bytes);
    for (std::size_t length = 0; length < bytes.size(); ++length)
      BOOST_REQUIRE(!PackedResult::of_bytes(bytes.substr(0, length)));
    BOOST_TEST(!PackedResult::of_bytes(bytes + '\0'));
  }
  BOOST_TEST(!PackedResult());
}

BOOST_AUTO_TEST_CASE(a_result_may_have_more_outputs_than_sixteen_bits_count) {
  for (const std::size_t count : {std::size_t{65'534}, std::size_t{65'535}, std::size_t{65'536}, std::size_t{70'001}}) {
    Result many = sample(0);
    many.outputs.assign(count, sample(1).outputs.at(0));
    many.outputs.back().role = "last";
    IndexContent content;
    BOOST_TEST(load_index(index_header() + encode_result(PackedKey(key(0)), PackedResult(many)) +
                              encode_result(PackedKey(key(1)), PackedResult(sample(1))),
                          content));
    BOOST_TEST(content.results.size() == 2u);
    BOOST_TEST(equal(content.results.at(PackedKey(key(0))).unpack(), many));
  }
}

BOOST_AUTO_TEST_CASE(an_index_cut_at_any_byte_keeps_every_whole_entry) {
  std::vector<std::size_t> ends;
  std::string bytes = index_header();
  for (int i = 0; i < 6; ++i) {
    bytes += encode_result(PackedKey(key(i)), PackedResult(sample(i)));
    ends.push_back(bytes.size());
  }
  for (std::size_t length = 0; length <= bytes.size(); ++length) {
    IndexContent content;
    const bool whole = load_index(std::string_view(bytes).substr(0, length), content);
    std::size_t expected = 0;
    while (expected < ends.size() && ends[expected] <= length) ++expected;
    BOOST_REQUIRE(content.results.size() == expected);
    const bool at_border = length == index_header().size() || std::find(ends.begin(), ends.end(), length) != ends.end();
    BOOST_REQUIRE(whole == at_border);
  }
}

BOOST_AUTO_TEST_CASE(a_flipped_bit_loses_at_most_what_it_hits_and_never_lies) {
  std::string bytes = index_header();
  for (int i = 0; i < 6; ++i) bytes += encode_result(PackedKey(key(i)), PackedResult(sample(i)));
  for (std::size_t at = index_header().size(); at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    IndexContent content;
    BOOST_REQUIRE(!load_index(damaged, content));
    for (const auto& [found, result] : content.results) {
      bool known = false;
      for (int i = 0; i < 6; ++i) known = known || (found.unpack() == key(i) && equal(result.unpack(), sample(i)));
      BOOST_REQUIRE(known);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
