#include "support/hash.h"

#include <boost/crc.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <fstream>

#include "support/error.h"
#include "support/temp_folder.h"

using namespace pe::support;
using pe::Json;

BOOST_AUTO_TEST_SUITE(hash)

BOOST_AUTO_TEST_CASE(sha256_and_crc32c_have_their_published_check_values) {
  BOOST_TEST(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  BOOST_TEST(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  BOOST_TEST(crc32c("123456789", 9) == 0xe3069283u);
  const std::string zeros(32, '\0');
  BOOST_TEST(crc32c(zeros.data(), 32) == 0x8a9136aau);  // RFC 3720, B.4
}

BOOST_AUTO_TEST_CASE(a_checksum_can_be_continued) {
  const std::string text = "the quick brown fox jumps over the lazy dog, twice";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    BOOST_TEST(crc32c(text.data() + cut, text.size() - cut, crc32c(text.data(), cut)) ==
               crc32c(text.data(), text.size()));
  }
}

// Long enough for three stretches side by side, cut so that they begin anywhere.
BOOST_AUTO_TEST_CASE(a_long_checksum_is_the_one_of_byte_after_byte) {
  std::string text(40'001, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i >> 3);
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> slow;
  slow.process_bytes(text.data(), text.size());
  for (const std::size_t cut : {0, 1, 7, 4096, 12'287, 12'288, 12'289, 27'000, 40'001}) {
    BOOST_TEST(crc32c(text.data() + cut, text.size() - cut, crc32c(text.data(), cut)) == slow.checksum(), cut);
  }
}

BOOST_AUTO_TEST_CASE(a_file_has_the_digest_of_its_bytes) {
  pe::test::TempFolder folder;
  const std::string content(3'000'001, 'x');
  std::ofstream(folder / "f") << content;
  BOOST_TEST(sha256_file(folder / "f") == sha256_hex(content));
  BOOST_CHECK_THROW(sha256_file(folder / "absent"), IoError);
}

std::string hex(const Json& value) {
  const std::string bytes = canonical_cbor(value);
  return to_hex(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

BOOST_AUTO_TEST_CASE(cbor_follows_the_examples_of_rfc_8949) {
  BOOST_TEST(hex(0) == "00");
  BOOST_TEST(hex(23) == "17");
  BOOST_TEST(hex(24) == "1818");
  BOOST_TEST(hex(1000) == "1903e8");
  BOOST_TEST(hex(1000000000000) == "1b000000e8d4a51000");
  BOOST_TEST(hex(18446744073709551615ULL) == "1bffffffffffffffff");
  BOOST_TEST(hex(-1) == "20");
  BOOST_TEST(hex(-1000) == "3903e7");
  BOOST_TEST(hex(INT64_MIN) == "3b7fffffffffffffff");
  BOOST_TEST(hex(1.1) == "fb3ff199999999999a");
  BOOST_TEST(hex(Json::parse("[1,[2,3],true,null,\"\\u00fc\"]")) == "8501820203f5f662c3bc");
}

BOOST_AUTO_TEST_CASE(map_keys_are_sorted_by_their_encoded_bytes) {
  // RFC 8949, 4.2.1: the length is part of the encoding, so "z" is before "aa".
}

BOOST_AUTO_TEST_CASE(minus_zero_is_zero_and_nan_is_refused) {
  BOOST_TEST(hex(-0.0) == hex(0.0));
  BOOST_CHECK_THROW(canonical_cbor(std::nan("")), Error);
}

BOOST_AUTO_TEST_CASE(a_hash_depends_on_its_type_and_not_on_the_order_of_keys) {
  const Json one = Json::parse(R"({"a": 1, "b": [true, 0.5]})"), other = Json::parse(R"({"b": [true, 0.5], "a": 1})");
  BOOST_TEST(canonical_hash("pe/task/1", one) == canonical_hash("pe/task/1", other));
  BOOST_TEST(canonical_hash("pe/task/1", one) != canonical_hash("pe/plan/1", one));
  BOOST_TEST(canonical_hash("pe/task/1", {{"a", 1}}) != canonical_hash("pe/task/1", {{"a", 1.0}}));
}

BOOST_AUTO_TEST_SUITE_END()
