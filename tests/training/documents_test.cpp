// Packed documents: where they begin, and that a model treats them as if they were alone.
#include <ATen/ops/empty.h>
#include <torch/types.h>
#include <boost/test/unit_test.hpp>
#include <set>

#include "encodings/attention/positional_encoding.h"
#include "encodings/fixture.h"
#include "encodings/registry.h"
#include "model/language_model.h"
#include "small_run.h"
#include "support/error.h"
#include "training/branch_decay.h"
#include "training/documents.h"
#include "watching.h"

namespace {

using namespace pe;
using namespace pe::test;
using at::Tensor;

model::LanguageModel double_model(const Json& encoding, std::int64_t length) {
  model::ModelConfig config;
  config.width = 16;
  config.layers = 2;
  config.heads = 2;
  config.init_std = 0.3;
  config.length = length;
  config.encoding.json = encoding;
  return model::LanguageModel::make(config, 23, 5, at::kCPU, at::kDouble);
}

Tensor ids_of(std::int64_t batch, std::int64_t length) {
  Tensor ids = at::empty({batch, length}, at::kLong);
  support::Xoshiro random(3);
  for (std::int64_t i = 0; i < ids.numel(); ++i)
    ids.data_ptr<std::int64_t>()[i] = static_cast<std::int64_t>(random.below(23));
  return ids;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(documents, *boost::unit_test::fixture<NoStop>())

BOOST_AUTO_TEST_CASE(starts_are_those_of_a_naive_walk) {
  const TempFolder folder;
  const data::TokenDataset dataset(write_shards(folder / "data"));
  for (const auto split : {artifact::Split::kTrain, artifact::Split::kValidation}) {
    for (const std::int64_t length : {1, 8, 61, 100, 200}) {
      for (std::uint64_t window = 0; window < dataset.windows(split, length); ++window) {
        const std::uint64_t first = window * static_cast<std::uint64_t>(length);
        std::vector<std::int64_t> starts(static_cast<std::size_t>(length)), naive(starts.size());
        training::document_starts(dataset, split, first, starts);
        for (std::uint64_t d = 0; d < dataset.documents(split); ++d) {
          const auto document = dataset.document(split, d);
          for (std::uint64_t at = document.first; at < document.first + document.tokens; ++at) {
            if (at < first || at >= first + starts.size()) continue;
            naive[at - first] = document.first <= first ? 0 : static_cast<std::int64_t>(document.first - first);
          }
        }
        BOOST_REQUIRE_EQUAL_COLLECTIONS(starts.begin(), starts.end(), naive.begin(), naive.end());
      }
    }
  }
}

// Documents of 3, 1 and 6 tokens in one row and of 10 in the other; every encoding that draws nothing.
BOOST_AUTO_TEST_CASE(a_packed_batch_equals_its_documents_one_by_one) {
  const std::vector<std::vector<std::int64_t>> sizes{{3, 1, 6}, {10}};
  const Tensor ids = ids_of(2, 10);
  Tensor starts = at::empty({2, 10}, at::kLong);
  for (std::size_t row = 0; row < 2; ++row) {
    std::int64_t at = 0;
    for (const std::int64_t size : sizes[row]) {
      for (std::int64_t i = 0; i < size; ++i)
        starts.data_ptr<std::int64_t>()[static_cast<std::int64_t>(row) * 10 + at + i] = at;
      at += size;
    }
  }
  const at::NoGradGuard guard;
  int compared = 0;
  for (const encodings::EncodingEntry& entry : encodings::encodings()) {
    const model::LanguageModel model = double_model(entry.name, 16);
    test::read_by_ids(model.encoding());
    const encodings::Facts facts = model.encoding().facts();
    if (facts.stochastic) continue;
    for (const bool restart : {true, false}) {
      const Tensor packed = model.forward(ids, {.pe_len = 10, .doc_start = starts, .restart_positions = restart});
      for (std::size_t row = 0; row < 2; ++row) {
        std::int64_t at = 0;
        for (const std::int64_t size : sizes[row]) {
          const Tensor alone =
              model.forward(ids.narrow(0, static_cast<std::int64_t>(row), 1).narrow(1, at, size).contiguous(),
                            {.position = restart ? 0 : at, .pe_len = 10});
          const Tensor part = packed.narrow(0, static_cast<std::int64_t>(row), 1).narrow(1, at, size);
          BOOST_TEST_CONTEXT(entry.name << (restart ? ", restarting" : "") << ", document at " << at) {
            BOOST_TEST((part - alone).abs().max().item<double>() <= 1e-10);
          }
          at += size;
        }
      }
      ++compared;
    }
  }
  BOOST_TEST(compared > 100);
}

BOOST_AUTO_TEST_CASE(gradients_of_a_packed_batch_are_those_of_its_documents) {
  const model::LanguageModel packed = double_model("rope", 10), alone = double_model("rope", 10);
  const Tensor ids = ids_of(1, 10), targets = ids_of(1, 10).flip(1).reshape({10}).contiguous();
  Tensor starts = at::empty({10}, at::kLong);
  for (std::int64_t i = 0; i < 10; ++i) starts.data_ptr<std::int64_t>()[i] = i < 4 ? 0 : 4;
  packed.zero_gradients();
  packed.loss_sum(packed.forward(ids, {.doc_start = starts, .restart_positions = true}).flatten(0, 1), targets)
      .backward();
  alone.zero_gradients();
  for (const auto& [begin, count] : {std::pair<std::int64_t, std::int64_t>{0, 4}, {4, 6}}) {
    alone
        .loss_sum(alone.forward(ids.narrow(1, begin, count).contiguous()).flatten(0, 1),
                  targets.narrow(0, begin, count).contiguous())
        .backward();
  }
  for (std::size_t i = 0; i < packed.parameters().size(); ++i) {
    BOOST_TEST_CONTEXT(packed.parameters()[i].name) {
      BOOST_TEST(
          (packed.parameters()[i].tensor.grad() - alone.parameters()[i].tensor.grad()).abs().max().item<double>() <=
          1e-10);
    }
  }
}

BOOST_AUTO_TEST_CASE(training_on_masked_documents_resumes_exactly_and_its_branches_go_on_so) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  std::set<std::string> results;
  for (const auto documents :
       {training::Documents::kJoined, training::Documents::kMasked, training::Documents::kRestarted}) {
    training::TrainConfig config = small_config();
    config.train.length = 32;
    config.train.tokens = 20 * 4 * 32;
    config.model.encoding.json = "learned";  // sees positions as such
    config.train.documents = documents;
    const std::filesystem::path at = folder / std::to_string(static_cast<int>(documents));
    artifact::Workspace whole = workspace_in(at / "whole", data, {{"s16", 16}}),
                        parts = workspace_in(at / "parts", data, {{"s16", 16}});
    training::train(config, whole);
    stop_after(7, parts, [&] { training::train(config, parts); });
    training::train(config, parts);
    BOOST_TEST((support::read_file(at / "parts/s16-model.h5") == support::read_file(at / "whole/s16-model.h5")));
    const std::vector<std::byte> weights = artifact::CheckpointReader(at / "whole/s16-model.h5").read("model/norm");
    results.insert(std::string(reinterpret_cast<const char*>(weights.data()), weights.size()));

    artifact::Workspace branch = workspace_in(at / "decay", data);
    branch.inputs["init"] = {{at / "whole/s16-model.h5", artifact::Kind::kCheckpoint, "", {}}};
    training::BranchDecayConfig decay;
    decay.decay.horizon_tokens = config.train.tokens;
    training::branch_decay(decay, branch);
    const Json kept = artifact::CheckpointReader(at / "decay/model.h5").meta().data;
    BOOST_TEST(kept.value("documents", "joined") == (documents == training::Documents::kJoined   ? "joined"
                                                     : documents == training::Documents::kMasked ? "masked"
                                                                                                 : "restarted"));
  }
  BOOST_TEST(results.size() == 3U);
}

BOOST_AUTO_TEST_SUITE_END()
