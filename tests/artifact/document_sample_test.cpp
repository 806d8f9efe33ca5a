#include "artifact/document_sample.h"

#include <boost/test/unit_test.hpp>

#include "support/error.h"
#include "support/hash.h"
#include "support/text.h"

using namespace pe;
using artifact::DocumentSample;

BOOST_AUTO_TEST_SUITE(document_sample)

namespace {

/// Evenly distributed, as the hashes of texts are.
std::uint64_t hash_of(int document) {
  const auto digest = [&] {
    support::Sha256 hash;
    hash.update(std::to_string(document));
    return hash.digest();
  }();
  std::uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = value << 8 | digest[static_cast<std::size_t>(i)];
  return value;
}

DocumentSample sample(int first, int last) {
  DocumentSample made;
  for (int i = first; i < last; ++i) made.add(hash_of(i));
  return made;
}

}  // namespace

BOOST_AUTO_TEST_CASE(common_documents_are_found_in_sets_of_any_size) {
  const DocumentSample all = sample(0, 50'000), part = sample(49'000, 50'000), half_known = sample(49'500, 50'500),
                       other = sample(60'000, 70'000);
  BOOST_TEST(all.hashes().size() == DocumentSample::kMost);
  BOOST_TEST(part.hashes().size() == 1000u);
  const auto within = part.overlap(all);
  BOOST_TEST(within.compared > 40u);  // 1,000 * 4,096 / 50,000 = 82 are expected
  BOOST_TEST(within.compared < 140u);
  BOOST_TEST(within.common == within.compared);
  const auto half = half_known.overlap(all);
  BOOST_TEST(half.common > half.compared / 4);
  BOOST_TEST(half.common < 3 * half.compared / 4);
  BOOST_TEST(other.overlap(all).common == 0u);
  BOOST_TEST(other.overlap(all).compared > 400u);
  BOOST_TEST(part.overlap({}).compared == 0u);
  // Small sets are compared whole.
  BOOST_TEST(part.overlap(half_known).compared == 1000u);
  BOOST_TEST(part.overlap(half_known).common == 500u);
}

BOOST_AUTO_TEST_CASE(a_joined_sample_is_the_sample_of_both_sets) {
  DocumentSample joined = sample(0, 6000);
  joined.add(sample(3000, 9000));
  BOOST_TEST(joined.hashes() == sample(0, 9000).hashes());
}

BOOST_AUTO_TEST_CASE(what_is_no_sample_is_refused) {
  const auto hashes = sample(0, 9000).hashes();
  BOOST_TEST(DocumentSample::from_hashes(hashes, "x").hashes() == hashes);
  BOOST_CHECK_THROW(DocumentSample::from_hashes({2, 2}, "x"), support::ArtifactError);
  BOOST_CHECK_THROW(DocumentSample::from_hashes({2, 1}, "x"), support::ArtifactError);
  std::vector<std::uint64_t> many(DocumentSample::kMost + 1);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = i;
  BOOST_CHECK_THROW(DocumentSample::from_hashes(many, "x"), support::ArtifactError);
}

BOOST_AUTO_TEST_SUITE_END()
