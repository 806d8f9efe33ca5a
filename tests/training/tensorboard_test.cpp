#include "training/tensorboard.h"

#include <array>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>

#include "small_run.h"
#include "support/hash.h"
#include "support/installed.h"
#include "support/test_data.h"
#include "watching.h"

using namespace pe;
using namespace pe::test;
using training::EventFile;
using training::Scalar;
namespace fs = std::filesystem;

namespace {

std::uint32_t word_at(const std::string& bytes, std::size_t at) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// Tag → (step, value) in the order of the file, by an independent reader; CRCs are checked bit by bit.
using Chart = std::map<std::string, std::vector<std::pair<std::int64_t, float>>>;

std::uint32_t slow_masked_crc(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

std::uint64_t varint(std::string_view& from) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    BOOST_REQUIRE(!from.empty());
    const auto byte = static_cast<unsigned char>(from.front());
    from.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 127) << shift;
    if (byte < 128) return value;
  }
}

/// The fields of one message: number → raw values.
std::multimap<int, std::string> fields(std::string_view from) {
  std::multimap<int, std::string> out;
  while (!from.empty()) {
    const std::uint64_t key = varint(from);
    std::size_t size = 0;
    switch (key & 7) {
      case 0:
        out.emplace(static_cast<int>(key >> 3), std::to_string(varint(from)));
        continue;
      case 1:
        size = 8;
        break;
      case 2:
        size = varint(from);
        break;
      case 5:
        size = 4;
        break;
      default:
        BOOST_FAIL("wire type " << (key & 7));
    }
    BOOST_REQUIRE(size <= from.size());
    out.emplace(static_cast<int>(key >> 3), std::string(from.substr(0, size)));
    from.remove_prefix(size);
  }
  return out;
}

std::vector<std::string> payloads(const fs::path& file) {
  const std::string bytes = support::read_file(file);
  std::vector<std::string> result;
  for (std::size_t at = 0; at < bytes.size();) {
    std::uint64_t size = 0;
    std::memcpy(&size, bytes.data() + at, 8);
    BOOST_REQUIRE(at + size + 16 <= bytes.size());
    BOOST_TEST(word_at(bytes, at + 8) == slow_masked_crc({bytes.data() + at, 8}));
    BOOST_TEST(word_at(bytes, at + 12 + size) == slow_masked_crc({bytes.data() + at + 12, size}));
    result.push_back(bytes.substr(at + 12, size));
    at += size + 16;
  }
  return result;
}

Chart chart_of(const fs::path& file) {
  Chart chart;
  for (const std::string& payload : payloads(file)) {
    const auto event = fields(payload);
    const auto step = event.find(2);
    for (auto [summary, end] = event.equal_range(5); summary != end; ++summary) {
      const auto values = fields(summary->second);
      for (auto [value, last] = values.equal_range(1); value != last; ++value) {
        const auto parts = fields(value->second);
        float number = 0;
        std::memcpy(&number, parts.find(2)->second.data(), 4);
        chart[parts.find(1)->second].emplace_back(step == event.end() ? 0 : std::stoll(step->second), number);
      }
    }
  }
  return chart;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tensorboard)

// reports-and-interop: the 24-byte first event of wall time 1 gives 224b7fa3 for its length and 7a57bf86 for its
// payload.
BOOST_AUTO_TEST_CASE(the_first_record_is_the_published_one) {
  const std::string payload = training::first_event(1.0);
  BOOST_TEST_REQUIRE(payload.size() == 24U);
  const std::string record = training::tensorboard_record(payload);
  BOOST_TEST_REQUIRE(record.size() == 40U);
  BOOST_TEST(word_at(record, 8) == 0x224b7fa3U);
  BOOST_TEST(word_at(record, 36) == 0x7a57bf86U);
}

BOOST_AUTO_TEST_CASE(scalars_come_back_from_a_reader_of_its_own) {
  const TempFolder folder;
  const EventFile file(folder.path(), 1.0);
  BOOST_TEST(file.path().filename().string().rfind("events.out.tfevents.0000000001.", 0) == 0U);
  file.add(2.0, 1, std::array{Scalar{"train/loss", 3.25}, Scalar{"train/lr", 1e-3}});
  file.add(3.0, std::int64_t{1} << 40, std::array{Scalar{"train/loss", -1.5}});
  const Chart chart = chart_of(file.path());
  BOOST_TEST_REQUIRE(chart.at("train/loss").size() == 2U);
  BOOST_TEST(chart.at("train/loss")[0].first == 1);
  BOOST_TEST(chart.at("train/loss")[0].second == 3.25f);
  BOOST_TEST(chart.at("train/loss")[1].first == std::int64_t{1} << 40);
  BOOST_TEST(chart.at("train/loss")[1].second == -1.5f);
  BOOST_TEST(chart.at("train/lr")[0].second == 1e-3f);
}

// Stopped after the checkpoint, so that the second attempt repeats steps that the first had charted.
BOOST_AUTO_TEST_CASE(the_tensorboard_package_reads_a_resumed_run,
                     *boost::unit_test::precondition(PythonHas{"tensorboard.backend.event_processing.event_accumulator",
                                                               chosen_python()}) *
                         boost::unit_test::fixture<NoStop>()) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  training::TrainConfig config = small_config();
  config.watch.tensorboard = training::WatchFiles::Axis::kTokens;
  artifact::Workspace first = workspace_in(folder / "1", data), second = workspace_in(folder / "2", data);
  stop_after(9, first, [&] { training::train(config, first); });
  const fs::path charts = first.work / "tensorboard";
  BOOST_TEST_REQUIRE(std::distance(fs::directory_iterator(charts), {}) == 1);
  // As if it had gone on to step 12 before it was killed: steps of another future.
  const auto now = static_cast<double>(::time(nullptr));
  const EventFile lost(charts, now);
  lost.add(now, 10 * 32, std::array{Scalar{"train/loss", 99}});
  lost.add(now, 12 * 32, std::array{Scalar{"train/loss", 99}});
  second.resume = first.work;
  training::train(config, second);

  const artifact::Tables metrics = artifact::read_metrics(folder / "2/metrics.h5");
  const auto tokens = metrics.at("train").integers("tokens");
  const auto losses = metrics.at("train").reals("loss");
  const std::string command = chosen_python() + " \"" +
                              (source_root() / "tests/training/oracles/read_events.py").string() + "\" \"" +
                              (second.work / "tensorboard").string() + "\" > \"" + (folder / "read.json").string() +
                              "\" 2> \"" + (folder / "log").string() + "\"";
  const int status = std::system(command.c_str());
  BOOST_TEST_REQUIRE(status == 0, support::read_file(folder / "log"));
  const Json read = Json::parse(support::read_file(folder / "read.json"));
  const Json& loss = read.at("train/loss");
  BOOST_TEST_REQUIRE(loss.size() == tokens.size(), loss.dump());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    BOOST_TEST(loss[i][0] == tokens[i]);
    BOOST_TEST(loss[i][1].get<float>() == static_cast<float>(losses[i]));
  }
  BOOST_TEST(read.at("validation/loss").size() == 4U);
  BOOST_TEST(read.contains("stability/largest_logit"));
}

BOOST_AUTO_TEST_SUITE_END()
