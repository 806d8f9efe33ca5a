#include "artifact/checkpoint.h"

#include <hdf5.h>

#include <boost/test/unit_test.hpp>

#include <fstream>
#include <numeric>

#include "artifact/artifact_check.h"
#include "artifact/content_digest.h"
#include "support/error.h"
#include "support/files.h"
#include "support/replace_text.h"
#include "support/temp_folder.h"

using namespace pe;
using artifact::CheckpointMeta;
using artifact::CheckpointReader;
using artifact::CheckpointWriter;
using artifact::Dtype;
using support::ArtifactError;

BOOST_AUTO_TEST_SUITE(checkpoint)

namespace {

CheckpointMeta sample_meta() {
  CheckpointMeta meta;
  meta.step = 12;
  meta.tokens_seen = 4096;
  meta.next_sample = 96;
  meta.tokenizer_digest = "aa";
  meta.split_rule = "train 0.9, validation 0.1, test 0 by hash";
  for (const std::uint64_t hash : {7, 1, 5}) meta.trained_on.add(hash);
  meta.parents = {"11", "22"};
  meta.model = {{"width", 64}, {"layers", 4}};
  meta.encoding = {{"kind", "rope"}, {"base", 10000.0}};
  meta.optimizer = {{"lr", 0.003}};
  return meta;
}

std::vector<float> values(std::size_t count) {
  std::vector<float> v(count);
  std::iota(v.begin(), v.end(), 0.5f);
  return v;
}

void write_sample(const std::filesystem::path& path, const CheckpointMeta& meta = sample_meta()) {
  CheckpointWriter writer(path, {}, meta);
  const auto weights = values(6 * 4);
  writer.add({"model/embedding", Dtype::kF32, {6, 4}}, std::as_bytes(std::span(weights)));
  writer.add({"optim/m/embedding", Dtype::kF32, {6, 4}}, std::as_bytes(std::span(weights)));
  const std::vector<std::uint16_t> half{0x3f80, 0x4000};
  writer.add({"model/half", Dtype::kBF16, {2}}, std::as_bytes(std::span(half)));
  const std::int64_t step = 12;
  writer.add({"optim/step", Dtype::kI64, {}}, std::as_bytes(std::span(&step, 1)));
  writer.add({"model/none", Dtype::kF32, {0, 3}}, {});
  writer.finish(false);
}

}  // namespace

BOOST_AUTO_TEST_CASE(tensors_and_metadata_come_back) {
  const test::TempFolder folder;
  write_sample(folder / "c.h5");
  const CheckpointReader reader(folder / "c.h5");
  const CheckpointMeta& meta = reader.meta();
  BOOST_TEST(meta.step == 12);
  BOOST_TEST(meta.next_sample == 96);
  BOOST_TEST(meta.parents == (std::vector<std::string>{"11", "22"}));
  BOOST_TEST(meta.split_rule == sample_meta().split_rule);
  BOOST_TEST(meta.trained_on.hashes() == (std::vector<std::uint64_t>{1, 5, 7}));
  BOOST_TEST(meta.encoding == sample_meta().encoding);
  BOOST_TEST((meta.status == artifact::TrainingStatus::kOk));
  BOOST_TEST(reader.tensors().size() == 5u);
  BOOST_TEST(reader.tensors().front().name == "model/embedding");
  std::vector<float> weights(24);
  reader.read({"model/embedding", Dtype::kF32, {6, 4}}, std::as_writable_bytes(std::span(weights)));
  BOOST_TEST(weights == values(24));
  BOOST_TEST((reader.find("model/half")->dtype == Dtype::kBF16));
  BOOST_TEST(reader.find("optim/step")->shape.empty());
  BOOST_TEST(reader.read("model/none").empty());
  reader.verify();
  artifact::check_artifact(folder / "c.h5", artifact::Kind::kCheckpoint);
}

// Larger than a block of the reader, and not a multiple of one.
BOOST_AUTO_TEST_CASE(many_tensors_are_read_by_several_threads_and_the_first_damaged_one_is_named) {
  const test::TempFolder folder;
  const auto weights = values(300'001);
  {
    CheckpointWriter writer(folder / "c.h5", {}, sample_meta());
    for (const char* name : {"model/a", "model/b", "model/c"}) {
      writer.add({name, Dtype::kF32, {300'001}}, std::as_bytes(std::span(weights)));
    }
    writer.add({"model/none", Dtype::kF32, {0}}, {});
    writer.finish(false);
  }
  std::vector<std::vector<float>> out(3, std::vector<float>(300'001));
  std::vector<CheckpointReader::Destination> destinations;
  for (std::size_t i = 0; i < 3; ++i) {
    destinations.push_back(
        {{std::string("model/") + "abc" [i], Dtype::kF32, { 300'001 }}, std::as_writable_bytes(std::span(out[i]))});
  }
  destinations.push_back({{"model/none", Dtype::kF32, {0}}, {}});
  for (const int threads : {1, 2, 7}) {
    for (auto& tensor : out) std::fill(tensor.begin(), tensor.end(), 0.0f);
    const CheckpointReader reader(folder / "c.h5");
    reader.read(destinations, threads);
    for (const auto& tensor : out) BOOST_TEST((tensor == weights));
    reader.verify(threads);
  }
  destinations[1].expected.shape = {1, 300'001};
  BOOST_CHECK_EXCEPTION(CheckpointReader(folder / "c.h5").read(destinations, 2), ArtifactError,
                        [](const auto& e) { return std::string(e.what()).find("model/b") != std::string::npos; });
  destinations[1].expected.shape = {300'001};

  std::string bytes = support::read_file(folder / "c.h5");
  const std::string needle(reinterpret_cast<const char*>(weights.data() + 299'000), 64);
  const std::size_t first = bytes.find(needle), second = bytes.find(needle, first + 1),
                    third = bytes.find(needle, second + 1);
  BOOST_REQUIRE(third != std::string::npos);
  for (const std::size_t at : {second, third}) bytes[at] ^= 1;
  std::ofstream(folder / "bad.h5", std::ios::binary) << bytes;
  for (const int threads : {1, 2, 7}) {
    BOOST_CHECK_EXCEPTION(CheckpointReader(folder / "bad.h5").read(destinations, threads), ArtifactError,
                          [](const auto& e) {
                            const std::string text = e.what();
                            return text.find("/model/b: expected CRC-32C") != std::string::npos;
                          });
  }
}

BOOST_AUTO_TEST_CASE(verifying_covers_what_was_not_read) {
  const test::TempFolder folder;
  const auto read = values(5000), unread = values(6000);
  {
    CheckpointWriter writer(folder / "c.h5", {}, sample_meta());
    writer.add({"model/read", Dtype::kF32, {5000}}, std::as_bytes(std::span(read)));
    writer.add({"model/unread", Dtype::kF32, {6000}}, std::as_bytes(std::span(unread)));
    writer.finish(false);
  }
  std::string bytes = support::read_file(folder / "c.h5");
  const std::size_t at = bytes.find(std::string(reinterpret_cast<const char*>(unread.data() + 5500), 64));
  BOOST_REQUIRE(at != std::string::npos);
  bytes[at] ^= 1;
  std::ofstream(folder / "bad.h5", std::ios::binary) << bytes;
  const auto names_it = [](const ArtifactError& e) {
    return std::string(e.what()).find("/model/unread: expected CRC-32C") != std::string::npos;
  };
  std::vector<float> out(5000);
  const std::vector<CheckpointReader::Destination> destinations{
      {{"model/read", Dtype::kF32, {5000}}, std::as_writable_bytes(std::span(out))}};
  for (const bool at_once : {false, true}) {
    const CheckpointReader reader(folder / "bad.h5");
    if (at_once)
      reader.read(destinations, 2);
    else
      reader.read(destinations[0].expected, destinations[0].out);
    BOOST_TEST((out == read));
    for (int i = 0; i < 2; ++i) BOOST_CHECK_EXCEPTION(reader.verify(2), ArtifactError, names_it);
  }
}

BOOST_AUTO_TEST_CASE(a_checkpoint_of_another_model_names_both_shapes) {
  const test::TempFolder folder;
  write_sample(folder / "c.h5");
  const CheckpointReader reader(folder / "c.h5");
  std::vector<std::byte> out(6 * 8 * 4);
  const auto says = [](const char* a, const char* b) {
    return [a, b](const ArtifactError& e) {
      const std::string text = e.what();
      return text.find(a) != std::string::npos && text.find(b) != std::string::npos;
    };
  };
  BOOST_CHECK_EXCEPTION(reader.read({"model/embedding", Dtype::kF32, {6, 8}}, out), ArtifactError,
                        says("f32 [6, 8]", "f32 [6, 4]"));
  BOOST_CHECK_EXCEPTION(reader.read("model/embeding"), ArtifactError, says("missing", "model/embedding"));
}

BOOST_AUTO_TEST_CASE(a_sample_of_documents_is_a_list_with_entries) {
  const test::TempFolder folder;
  for (const std::vector<hsize_t>& shape : {std::vector<hsize_t>{0}, std::vector<hsize_t>(32, 1)}) {
    write_sample(folder / "m.h5");
    const hid_t file = H5Fopen((folder / "m.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    BOOST_REQUIRE(H5Ldelete(file, "meta/trained_on", H5P_DEFAULT) >= 0);
    const hid_t space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
    const hid_t data = H5Dcreate2(file, "meta/trained_on", H5T_STD_U64LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    const std::uint64_t hash = 7;
    if (shape.size() > 1) H5Dwrite(data, H5T_STD_U64LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, &hash);
    H5Dclose(data);
    H5Sclose(space);
    H5Fclose(file);
    BOOST_CHECK_EXCEPTION(CheckpointReader(folder / "m.h5"), ArtifactError, [](const ArtifactError& error) {
      return std::string(error.what()).find("/meta/trained_on: ") != std::string::npos;
    });
  }
}

BOOST_AUTO_TEST_CASE(metadata_that_are_nested_without_end_are_refused) {
  const test::TempFolder folder;
  for (const std::string name : {"model", "encoding", "optimizer", "data", "extra", "fingerprint", "parents"}) {
    write_sample(folder / "m.h5");
    BOOST_TEST_REQUIRE(test::replace_text(folder / "m.h5", "meta/" + name, test::deep_json(300'000)));
    BOOST_CHECK_EXCEPTION(CheckpointReader(folder / "m.h5"), ArtifactError, [&](const ArtifactError& error) {
      return std::string(error.what()).find("/meta/" + name + ": ") != std::string::npos;
    });
  }
}

BOOST_AUTO_TEST_CASE(a_damaged_tensor_is_caught_when_it_is_read) {
  const test::TempFolder folder;
  write_sample(folder / "c.h5");
  std::string bytes = support::read_file(folder / "c.h5");
  const auto weights = values(24);
  const std::string needle(reinterpret_cast<const char*>(weights.data()), 96);
  const std::size_t at = bytes.find(needle);
  BOOST_REQUIRE(at != std::string::npos);
  BOOST_TEST(at % 64 == 0u);
  bytes[at + 10] ^= 4;
  std::ofstream(folder / "bad.h5", std::ios::binary) << bytes;
  const CheckpointReader reader(folder / "bad.h5");
  BOOST_CHECK_EXCEPTION(reader.verify(), ArtifactError,
                        [](const auto& e) { return std::string(e.what()).find("CRC-32C") != std::string::npos; });
}

BOOST_AUTO_TEST_CASE(a_file_cut_short_anywhere_is_an_artifact_error) {
  const test::TempFolder folder;
  write_sample(folder / "c.h5");
  const std::string whole = support::read_file(folder / "c.h5");
  for (std::size_t bytes = 0; bytes < whole.size(); bytes += 1 + whole.size() / 61) {
    std::ofstream(folder / "cut.h5", std::ios::binary) << whole.substr(0, bytes);
    BOOST_CHECK_THROW(CheckpointReader(folder / "cut.h5").verify(), ArtifactError);
  }
}

BOOST_AUTO_TEST_CASE(nothing_half_done_stays_under_any_name) {
  const test::TempFolder folder;
  {
    CheckpointWriter writer(folder / "c.h5", {}, sample_meta());
    const auto weights = values(4);
    writer.add({"model/w", Dtype::kF32, {4}}, std::as_bytes(std::span(weights)));
    BOOST_CHECK_THROW(writer.add({"model/w", Dtype::kF32, {4}}, std::as_bytes(std::span(weights))), support::Error);
    BOOST_CHECK_THROW(writer.add({"model/v", Dtype::kF32, {5}}, std::as_bytes(std::span(weights))), support::Error);
    BOOST_CHECK_THROW(writer.add({"pe/v", Dtype::kF32, {4}}, std::as_bytes(std::span(weights))), support::Error);
  }
  BOOST_TEST(std::filesystem::is_empty(folder.path()));
}

BOOST_AUTO_TEST_CASE(the_same_state_gives_the_same_bytes_and_status_is_content) {
  const test::TempFolder folder;
  write_sample(folder / "a.h5");
  write_sample(folder / "b.h5");
  CheckpointMeta diverged = sample_meta();
  diverged.status = artifact::TrainingStatus::kDiverged;
  write_sample(folder / "c.h5", diverged);
  BOOST_TEST(support::read_file(folder / "a.h5") == support::read_file(folder / "b.h5"));
  BOOST_TEST(artifact::content_digest(folder / "a.h5") != artifact::content_digest(folder / "c.h5"));
  BOOST_TEST((CheckpointReader(folder / "c.h5").meta().status == artifact::TrainingStatus::kDiverged));
}

BOOST_AUTO_TEST_SUITE_END()
