// Ids made wider, compared with a trivial loop.
#include "data/token_shards/widen.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "artifact/token_shards.h"
#include "data/token_shards/token_dataset.h"
#include "data/tokenizers/tokenizer.h"
#include "support/error.h"
#include "support/random.h"
#include "support/temp_folder.h"

using namespace pe;

BOOST_AUTO_TEST_SUITE(widen)

namespace {

template <typename Stored, typename T>
void check_every_length() {
  support::Xoshiro random(3);
  for (std::size_t count = 0; count <= 70; ++count) {
    for (std::size_t shift = 0; shift < 3; ++shift) {  // shards need not be aligned
      std::vector<Stored> ids(count);
      for (Stored& id : ids) id = static_cast<Stored>(random.next());
      // The largest in each place in turn, its highest bit set.
      if (count > 0) ids[(count * 7 + shift) % count] = std::numeric_limits<Stored>::max() - static_cast<Stored>(shift);
      std::vector<std::byte> bytes(shift + count * sizeof(Stored));
      std::memcpy(bytes.data() + shift, ids.data(), count * sizeof(Stored));
      std::vector<T> out(count + 1, -7);
      std::uint32_t largest = 0;
      for (const Stored id : ids) largest = std::max<std::uint32_t>(largest, id);
      BOOST_TEST(data::widen<Stored>(bytes.data() + shift, count, out.data()) == largest);
      for (std::size_t i = 0; i < count; ++i) BOOST_REQUIRE(out[i] == static_cast<T>(ids[i]));
      BOOST_TEST(out[count] == -7);  // and no further
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_length_and_alignment_reads_as_a_plain_loop) {
  check_every_length<std::uint16_t, std::int64_t>();
  check_every_length<std::uint16_t, std::int32_t>();
  check_every_length<std::uint32_t, std::int64_t>();
  check_every_length<std::uint32_t, std::int32_t>();
}

BOOST_AUTO_TEST_CASE(the_largest_is_found_in_every_place) {
  for (std::size_t at = 0; at < 41; ++at) {
    std::vector<std::uint16_t> narrow(41, 5);
    std::vector<std::uint32_t> wide(41, 5);
    narrow[at] = 40'000, wide[at] = 3'000'000'000;
    std::vector<std::int64_t> out(41);
    BOOST_TEST(data::widen<std::uint16_t>(reinterpret_cast<const std::byte*>(narrow.data()), 41, out.data()) ==
               40'000u);
    BOOST_TEST(data::widen<std::uint32_t>(reinterpret_cast<const std::byte*>(wide.data()), 41, out.data()) ==
               3'000'000'000u);
  }
}

/// Windows over borders of shards, announced or not.
BOOST_AUTO_TEST_CASE(windows_are_the_tokens_that_were_written) {
  const test::TempFolder folder;
  std::vector<std::int64_t> all;
  {
    artifact::TokenShardsWriter writer(folder / "data", {}, data::make_byte_tokenizer()->record(), 1000);
    support::Xoshiro random(1);
    for (std::uint64_t document = 0; document < 40; ++document) {
      std::vector<std::int32_t> ids(37 + random.below(120));
      for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random.below(258));
      all.insert(all.end(), ids.begin(), ids.end());
      writer.add(artifact::Split::kTrain, ids.data(), ids.size(), 1, document);
    }
    artifact::DatasetTotals totals;
    writer.finish(totals);
  }
  const data::TokenDataset dataset(folder / "data");
  for (const std::int64_t length : {1, 7, 64, 1500}) {
    std::vector<std::int64_t> window(static_cast<std::size_t>(length) + 1);
    for (std::uint64_t w = 0; w < dataset.windows(artifact::Split::kTrain, length); ++w) {
      dataset.expect_window(artifact::Split::kTrain, length, w);
      dataset.window(artifact::Split::kTrain, length, w, window);
      const auto from = all.begin() + static_cast<std::ptrdiff_t>(w) * length;
      BOOST_REQUIRE(std::equal(window.begin(), window.end(), from));
    }
  }
  BOOST_CHECK_THROW(dataset.expect_window(artifact::Split::kTrain, 64, dataset.windows(artifact::Split::kTrain, 64)),
                    support::Error);
}

BOOST_AUTO_TEST_SUITE_END()
