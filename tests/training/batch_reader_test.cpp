// Batches are the same whether they were read ahead or not.
#include <boost/test/unit_test.hpp>

#include <set>

#include "data/token_shards/token_dataset.h"
#include "small_run.h"
#include "training/batch_reader.h"

using namespace pe;
using namespace pe::test;
using training::Samples;

namespace {

training::SampleReader reader_of(const data::TokenDataset& dataset, training::Documents documents) {
  return {{dataset, artifact::Split::kTrain, 8, at::kCPU, documents}, 7, dataset.windows(artifact::Split::kTrain, 8)};
}

bool alike(const training::Batch& a, const training::Batch& b) {
  const bool starts = a.doc_start.defined() ? a.doc_start.equal(b.doc_start) : !b.doc_start.defined();
  return a.ids.equal(b.ids) && a.targets.equal(b.targets) && starts && a.bytes == b.bytes;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(batch_reader)

BOOST_AUTO_TEST_CASE(what_is_announced_is_what_is_taken) {
  const TempFolder folder;
  const data::TokenDataset dataset(write_shards(folder / "data"));
  for (const training::Documents documents : {training::Documents::kJoined, training::Documents::kMasked}) {
    training::SampleReader ahead = reader_of(dataset, documents), plain = reader_of(dataset, documents);
    for (std::int64_t first = 0; first < 40; first += 4) {
      const Samples samples{first, 4, first % 8 == 0};
      const training::Batch expected = plain.take(samples);
      BOOST_TEST(expected.ids.sizes() == at::IntArrayRef({4, 8}), boost::test_tools::per_element());
      BOOST_TEST((expected.bytes > 0) == samples.count_bytes);
      BOOST_TEST(alike(ahead.take(samples), expected));
      // Reads in between, and unused announcements, change nothing.
      ahead.announce({first == 20 ? 0 : first + 4, 4, (first + 4) % 8 == 0});
      BOOST_TEST(alike(ahead.read({0, 1, false}), plain.read({0, 1, false})));
    }
  }
}

BOOST_AUTO_TEST_CASE(samples_follow_the_order_of_the_seed) {
  const TempFolder folder;
  const data::TokenDataset dataset(write_shards(folder / "data"));
  training::SampleReader reader = reader_of(dataset, training::Documents::kJoined);
  std::vector<std::int64_t> window(9);
  for (std::int64_t sample = 0; sample < 10; ++sample) {
    dataset.window(artifact::Split::kTrain, 8, reader.order()(static_cast<std::uint64_t>(sample)), window);
    const training::Batch batch = reader.take({sample, 1, false});
    for (std::int64_t i = 0; i < 8; ++i) {
      BOOST_TEST(batch.ids.data_ptr<std::int64_t>()[i] == window[static_cast<std::size_t>(i)]);
      BOOST_TEST(batch.targets.data_ptr<std::int64_t>()[i] == window[static_cast<std::size_t>(i) + 1]);
    }
  }
}

// Tokens at the ends of shards fall to some window, and the windows of an epoch do not depend on who reads them.
BOOST_AUTO_TEST_CASE(an_epoch_has_the_same_windows_for_one_two_and_three_ranks) {
  constexpr std::int64_t kLength = 8, kBatch = 6;
  const TempFolder folder;
  std::vector<std::int32_t> stream;
  const data::TokenDataset dataset(
      write_shards(folder / "data", 40, 1, "test", "every eighth for validation", 101, &stream));
  BOOST_TEST_REQUIRE(std::filesystem::exists(folder / "data/train-00010.h5"));
  const auto windows = static_cast<std::int64_t>(dataset.windows(artifact::Split::kTrain, kLength));
  const std::int64_t steps = windows / kBatch;
  BOOST_TEST_REQUIRE(windows % kBatch != 0);
  std::vector<std::vector<std::int64_t>> one;  // rows of the epoch, in the order of their samples
  for (const std::int64_t ranks : {1, 2, 3}) {
    std::vector<std::vector<std::int64_t>> rows(static_cast<std::size_t>(steps * kBatch));
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      training::SampleReader reader = reader_of(dataset, training::Documents::kJoined);
      for (std::int64_t step = 0; step < steps; ++step) {
        const Samples share = training::find_share(step, kBatch, rank, ranks);
        BOOST_TEST(share.count == kBatch / ranks);
        const training::Batch batch = reader.take(share);
        for (std::int64_t row = 0; row < share.count; ++row) {
          auto& found = rows.at(static_cast<std::size_t>(share.first + row));
          BOOST_TEST(found.empty());  // each sample falls to one rank
          const std::int64_t* ids = batch.ids.data_ptr<std::int64_t>() + row * kLength;
          found.assign(ids, ids + kLength);
        }
      }
    }
    if (ranks == 1) one = rows;
    BOOST_TEST((rows == one));
  }
  // Together they are the text, but for the windows that this epoch leaves to the next and a rest below a window.
  std::vector<std::int64_t> window(kLength + 1), text;
  std::multiset<std::vector<std::int64_t>> all;
  for (std::int64_t at = 0; at < windows; ++at) {
    dataset.window(artifact::Split::kTrain, kLength, static_cast<std::uint64_t>(at), window);
    all.insert({window.begin(), window.end() - 1});
    text.insert(text.end(), window.begin(), window.end() - 1);
  }
  for (const auto& row : one) {
    const auto found = all.find(row);
    BOOST_TEST_REQUIRE((found != all.end()));
    all.erase(found);
  }
  BOOST_TEST(std::ssize(all) == windows % kBatch);
  BOOST_TEST(std::ssize(stream) - std::ssize(text) <= kLength);
  BOOST_TEST(std::equal(text.begin(), text.end(), stream.begin()));
}

BOOST_AUTO_TEST_SUITE_END()
