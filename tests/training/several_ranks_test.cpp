// Several ranks as threads of one process, each with a separate model, over memory and over a stand-in for NCCL.
// Checked are their final states, and that gradients are exchanged when they are complete.
// tests/end_to_end/ranks_test.cpp has real processes over MPI.
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>

#include <barrier>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>
#include <thread>

#include "cuda/nccl_stand_in.h"
#include "encodings/fixture.h"
#include "encodings/registry.h"
#include "small_run.h"
#include "support/error.h"
#include "training/gradient_buckets.h"
#include "training/run.h"
#include "watching.h"

using namespace pe;        // NOLINT
using namespace pe::test;  // NOLINT
using training::Communicator;
using training::GradientBuckets;
using training::TrainConfig;

namespace {

/// Common state of the ranks of one test.
struct Room {
  explicit Room(std::int64_t ranks) : count(ranks), meeting(ranks), slots(static_cast<std::size_t>(ranks)) {}
  std::int64_t count;
  std::barrier<> meeting;
  std::vector<at::Tensor> slots;
};

/// Sums in the order of the ranks, so that all get the same bits.
class InThreads final : public Communicator {
 public:
  InThreads(Room& room, std::int64_t rank, bool drifts)
      : Communicator(rank, room.count), room_(room), drifts_(drifts) {}
  void start_sum(const at::Tensor& data) override {
    const std::vector<at::Tensor> all = meet(data.clone());
    at::Tensor total = all[0].clone();
    for (std::size_t i = 1; i < all.size(); ++i) total.add_(all[i]);
    if (drifts_) total.mul_(1 + 1e-6);
    at::Tensor(data).copy_(total);
  }
  void finish() override {}
  void broadcast(const at::Tensor& data) override {
    const std::vector<at::Tensor> all = meet(data.clone());
    at::Tensor(data).copy_(all[0]);
  }
  std::vector<double> sum(std::vector<double> values) override {
    const std::vector<at::Tensor> all = meet(at::tensor(values, at::kDouble));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = 0;
      for (const at::Tensor& tensor : all) values[i] += tensor[static_cast<std::int64_t>(i)].item<double>();
    }
    return values;
  }

 private:
  std::vector<at::Tensor> meet(const at::Tensor& mine) {
    room_.slots[static_cast<std::size_t>(rank())] = mine;
    room_.meeting.arrive_and_wait();
    std::vector<at::Tensor> all = room_.slots;
    room_.meeting.arrive_and_wait();
    return all;
  }
  Room& room_;
  bool drifts_;  ///< its sums are a little wrong
};

training::Run run_of(const TrainConfig& config, std::int64_t ranks) {
  model::ModelConfig shape = config.model;
  shape.length = config.train.length;
  const training::Schedule schedule = training::schedule_of(config.train);
  model::ComputeConfig compute = config.compute;
  compute.ranks = ranks;
  return {.model = model::LanguageModel::make(shape, kVocabulary, 42),
          .optimizer = config.train.optimizer,
          .schedule = schedule,
          .last_step = schedule.end,
          .batch = config.train.batch,
          .data_seed = config.train.seed,
          .watch = {1, 5, 6},
          .compute = model::resolve(compute, config.train.batch),
          .checkpoint = config.checkpoint};
}

struct Ended {
  std::vector<model::LanguageModel> models;  ///< by rank
  std::vector<std::string> thrown;
};

std::string nccl_id() {
  std::string id(128, '\0');
  BOOST_TEST_REQUIRE(nccl_stand_in().nccl_unique_id(id.data()) == 0);
  return id;
}

enum class Over { kMemory, kNccl };

/// Trains with so many ranks; `change` may make them differ.
Ended train_with(std::int64_t ranks, const TrainConfig& config, const std::filesystem::path& folder,
                 const std::filesystem::path& data,
                 const std::function<void(std::int64_t, training::Run&)>& change = {}, std::int64_t drifts = -1,
                 Over over = Over::kMemory) {
  const std::string id = nccl_id();
  Room room(ranks);
  Ended ended;
  ended.thrown.resize(static_cast<std::size_t>(ranks));
  std::vector<training::Run> runs;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    runs.push_back(run_of(config, ranks));
    if (change) change(rank, runs.back());
    ended.models.push_back(runs.back().model);
  }
  const auto body = [&](std::int64_t rank) {
    const data::TokenDataset dataset(data);
    artifact::Workspace workspace = workspace_in(folder / ("rank" + std::to_string(rank)), data);
    workspace.resume = workspace.work;
    training::Run& run = runs[static_cast<std::size_t>(rank)];
    try {
      const std::unique_ptr<Communicator> communicator =
          over == Over::kNccl ? training::open_nccl(nccl_stand_in(), id, rank, ranks, at::kCPU, 60)
                              : std::make_unique<InThreads>(room, rank, rank == drifts);
      run.communicator = communicator.get();
      training::execute(run, dataset, workspace);
    } catch (const std::exception& error) {
      ended.thrown[static_cast<std::size_t>(rank)] = error.what();
    }
  };
  std::vector<std::thread> threads;
  for (std::int64_t rank = 0; rank < ranks; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
  return ended;
}

double distance(const model::LanguageModel& a, const model::LanguageModel& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.groups().size(); ++i) {
    most = std::max(most, (a.groups()[i].values - b.groups()[i].values).abs().max().item<double>());
  }
  return most;
}

bool same_bits(const model::LanguageModel& a, const model::LanguageModel& b) {
  return training::parameter_hash(a) == training::parameter_hash(b) && distance(a, b) == 0;
}

/// A short run whose updates are no steeper than lr / eps in the gradients, so that rounding in sums stays rounding.
TrainConfig smooth_config() {
  TrainConfig config = small_config();
  config.train.batch = 8;
  config.train.tokens = 10 * 8 * 8;
  config.train.optimizer.eps = 1e-2;
  config.train.optimizer.clip = 0;
  return config;
}

/// Of gradients: sums of n = 64 tokens' terms of at most 1 in any order differ by 2 · n · 2^-24. Of weights, after k =
/// 10 updates of lr · m / (sqrt(v) + eps): k · lr / eps times that, and a factor of 10 for feedback through the model.
constexpr double kGradientRounding = 2.0 * 64 / (1 << 24);
constexpr double kWeightRounding = 10 * 1e-2 / 1e-2 * kGradientRounding * 10;

/// Claims to be one of two, keeps its inputs, and adds nothing.
class Keeping final : public Communicator {
 public:
  Keeping() : Communicator(0, 2) {}
  void start_sum(const at::Tensor& data) override {
    handed.push_back(data);
    as_handed.push_back(data.clone());
    if (in_pass) ++begun_in_pass;
  }
  void finish() override {}
  void broadcast(const at::Tensor&) override {}
  std::vector<double> sum(std::vector<double> values) override { return values; }
  std::vector<at::Tensor> handed, as_handed;
  bool in_pass = false;
  int begun_in_pass = 0;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(several_ranks, NoStop)

BOOST_AUTO_TEST_CASE(every_rank_ends_with_the_bits_of_rank_0_which_alone_writes) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  for (const std::int64_t ranks : {2, 4}) {
    const auto place = folder / std::to_string(ranks);
    // Ranks that begin with other weights take rank 0's.
    const Ended ended = train_with(ranks, smooth_config(), place, data, [](std::int64_t rank, training::Run& run) {
      for (const auto& group : run.model.groups()) group.values.add_(static_cast<double>(rank));
    });
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      BOOST_TEST(ended.thrown[static_cast<std::size_t>(rank)] == "");
      BOOST_TEST(same_bits(ended.models[0], ended.models[static_cast<std::size_t>(rank)]));
      const auto files = place / ("rank" + std::to_string(rank));
      BOOST_TEST(std::filesystem::exists(files / "model.h5") == (rank == 0));
      BOOST_TEST(std::filesystem::exists(files / "metrics.h5") == (rank == 0));
      BOOST_TEST(std::filesystem::exists(files / "work/metrics.jsonl") == (rank == 0));
    }
  }
}

BOOST_AUTO_TEST_CASE(several_ranks_do_what_one_does_with_the_whole_batch) {
  struct Kind {
    const char* name;
    std::function<void(TrainConfig&)> change;
  };
  const std::vector<Kind> kinds = {
      {"plain", [](TrainConfig&) {}},
      {"accumulated", [](TrainConfig& c) { c.compute.micro_batch = 2; }},
      {"dropout and positions drawn by sample",
       [](TrainConfig& c) {
         c.model.dropout = 0.2;
         c.model.encoding.json =
             Json::parse(R"({"kind": "randomised", "max_random_position": 64, "per_sample": true})");
       }},
      {"documents apart", [](TrainConfig& c) { c.train.documents = training::Documents::kRestarted; }},
  };
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  for (const Kind& kind : kinds) {
    BOOST_TEST_CONTEXT(kind.name) {
      TrainConfig config = smooth_config();
      kind.change(config);
      const auto documents = [&](std::int64_t, training::Run& run) { run.documents = config.train.documents; };
      const auto place = folder / kind.name;
      const Ended one = train_with(1, config, place / "1", data, documents),
                  two = train_with(2, config, place / "2", data, documents),
                  four = train_with(4, config, place / "4", data, documents);
      BOOST_TEST(distance(one.models[0], two.models[0]) < kWeightRounding);
      BOOST_TEST(distance(one.models[0], four.models[0]) < kWeightRounding);
      const auto curve = [&](const char* ranks, const char* table, const char* column) {
        return artifact::read_metrics(place / ranks / "rank0/metrics.h5").at(table).reals(column);
      };
      for (const auto& [table, column] : {std::pair("train", "loss"), {"train", "grad_norm"}, {"validation", "loss"}}) {
        const auto alone = curve("1", table, column), shared = curve("2", table, column);
        BOOST_TEST_REQUIRE(alone.size() == shared.size());
        for (std::size_t i = 0; i < alone.size(); ++i)
          BOOST_TEST(std::abs(alone[i] - shared[i]) < 1e-4 * std::abs(alone[i]));
      }
      // Another order of the same data is far away.
      TrainConfig other = config;
      other.train.seed = 43;
      BOOST_TEST(distance(train_with(2, other, place / "other", data, documents).models[0], two.models[0]) >
                 10 * kWeightRounding);
    }
  }
}

// As real runs start: weights without values yet, which rank 0 alone draws or resumes, and products that read
// copies of them in another type. With copies of nothing, a rank's first loss is ln V exactly.
BOOST_AUTO_TEST_CASE(losses_of_the_first_steps_are_those_of_one_rank_in_fp32_and_bf16_fresh_and_resumed) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  TrainConfig config = smooth_config();
  config.train.tokens = 20 * 8 * 8;
  config.checkpoint.pin_every = 8;
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    // A weight's gradient in bf16 is rounded once for each rank, to one part in 2^9.
    const double first = type == at::kFloat ? 1e-6 : 1e-4, later = type == at::kFloat ? 1e-5 : 2e-3;
    std::map<std::int64_t, std::vector<double>> losses;
    for (const std::int64_t ranks : {1, 2, 4}) {
      const auto place = folder / (std::string(c10::toString(type)) + std::to_string(ranks));
      const auto run = [&] {
        const Ended ended = train_with(ranks, config, place, data, [&](std::int64_t, training::Run& one) {
          one.model =
              model::LanguageModel::make(one.model.config(), kVocabulary, 42, at::kCPU, type, model::Weights::kLater);
        });
        for (const std::string& text : ended.thrown) BOOST_TEST(text == "");
        return artifact::read_metrics(place / "rank0/metrics.h5").at("steps").reals("loss");
      };
      losses[ranks] = run();
      const std::string fresh = support::read_file(place / "rank0/model.h5");
      std::filesystem::remove(place / "rank0/model.h5");
      const auto resumed = run();  // from step 16
      BOOST_TEST(resumed == losses[ranks], boost::test_tools::per_element());
      BOOST_TEST((support::read_file(place / "rank0/model.h5") == fresh), ranks << " ranks, resumed");
      BOOST_TEST_REQUIRE(losses[ranks].size() == 20U);
      for (std::size_t step = 0; step < 20; ++step) {
        const double alone = losses[1][step], apart = std::abs(losses[ranks][step] / alone - 1);
        BOOST_TEST(apart <= (step == 0 ? first : later), c10::toString(type)
                                                             << ", " << ranks << " ranks, step " << step << ": "
                                                             << losses[ranks][step] << " and " << alone);
      }
    }
    BOOST_TEST(std::abs(losses[1][0] - std::log(kVocabulary)) > 1e-3);
  }
}

// The plug-in's exchange, which works during the backward pass.
BOOST_AUTO_TEST_CASE(over_nccl_ranks_end_with_the_bytes_that_they_have_over_memory) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const std::int64_t ranks : {2, 4}) {
      BOOST_TEST_CONTEXT(c10::toString(type) << ", " << ranks << " ranks") {
        const auto run = [&](const char* name, Over over) {
          const auto place = folder / (c10::toString(type) + std::to_string(ranks) + name);
          const Ended ended = train_with(
              ranks, smooth_config(), place, data,
              [&](std::int64_t, training::Run& one) {
                one.model = model::LanguageModel::make(one.model.config(), kVocabulary, 42, at::kCPU, type,
                                                       model::Weights::kLater);
              },
              -1, over);
          for (const std::string& text : ended.thrown) BOOST_TEST(text == "");
          for (const auto& model : ended.models) BOOST_TEST(same_bits(model, ended.models[0]));
          return support::read_file(place / "rank0/model.h5") + support::read_file(place / "rank0/metrics.h5");
        };
        BOOST_TEST((run("nccl", Over::kNccl) == run("memory", Over::kMemory)));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(over_nccl_a_rank_that_fails_hangs_or_never_comes_ends_the_others_with_a_word) {
  enum class Rank3 { kFails, kHangs, kNeverComes };
  for (const auto& [how, expected] :
       {std::pair(Rank3::kFails, "NCCL: remote process exited"),
        std::pair(Rank3::kHangs, "the other ranks have not answered for 0.5 s (compute.rank_timeout)"),
        std::pair(Rank3::kNeverComes,
                  "NCCL does not start: the other ranks did not come within compute.rank_timeout")}) {
    BOOST_TEST_CONTEXT(expected) {
      const std::string id = nccl_id();
      const double timeout_s = how == Rank3::kFails ? 60 : 0.5;
      std::vector<std::string> thrown(4);
      std::barrier<> others_are_done(4);
      const auto body = [&, how = how](std::int64_t rank) {
        try {
          if (rank == 3 && how == Rank3::kNeverComes) throw std::runtime_error("not here");
          const auto communicator = training::open_nccl(nccl_stand_in(), id, rank, 4, at::kCPU, timeout_s);
          communicator->barrier();
          if (rank == 3 && how == Rank3::kFails) throw std::runtime_error("a failure");
          if (rank == 3) others_are_done.arrive_and_wait();
          communicator->barrier();
        } catch (const std::exception& error) {
          thrown[static_cast<std::size_t>(rank)] = error.what();
        }
        if (rank != 3 || how != Rank3::kHangs) (void)others_are_done.arrive();
      };
      std::vector<std::thread> threads;
      for (std::int64_t rank = 0; rank < 4; ++rank) threads.emplace_back(body, rank);
      for (std::thread& thread : threads) thread.join();
      // The first that gives up ends the exchange of the others.
      const std::string ended = "remote process exited";
      bool said = false;
      for (std::size_t rank = 0; rank < 3; ++rank) {
        BOOST_TEST(thrown[rank].find("rank " + std::to_string(rank) + " of 4: ") != std::string::npos, thrown[rank]);
        const bool says_it = thrown[rank].find(expected) != std::string::npos;
        BOOST_TEST((says_it || thrown[rank].find(ended) != std::string::npos), thrown[rank]);
        said = said || says_it;
      }
      BOOST_TEST(said);
    }
  }
}

BOOST_AUTO_TEST_CASE(gradients_are_handed_over_when_they_are_complete_in_one_order_each_once) {
  int early = 0, trained = 0;
  for (const encodings::EncodingEntry& entry : encodings::encodings()) {
    if (entry.name == "distance_map") continue;  // trains none
    ++trained;
    BOOST_TEST_CONTEXT(entry.name) {
      model::ModelConfig shape = small_config().model;
      shape.layers = 3;
      shape.length = 16;
      shape.encoding.json = std::string(entry.name);
      const auto model = model::LanguageModel::make(shape, kVocabulary, 7);
      test::read_by_ids(model.encoding());
      Keeping keeping;
      GradientBuckets buckets(model, keeping, /*first_bytes=*/1, /*bytes=*/1);
      model.zero_gradients();
      buckets.begin();
      model::ForwardOptions options;
      options.training = true;
      std::vector<std::int64_t> left;
      options.left_layer = [&](std::int64_t layer) {
        left.push_back(layer);
        buckets.left_layer(layer);
      };
      const at::Tensor ids = at::arange(16, at::kLong).remainder(kVocabulary).view({2, 8});
      const at::Tensor hidden = model.forward(ids, options);
      const at::Tensor loss =
          model.loss_sum(hidden.reshape({-1, hidden.size(-1)}), ids.reshape({-1}).add(1).remainder(kVocabulary));
      keeping.in_pass = true;
      loss.backward();
      keeping.in_pass = false;
      early += keeping.begun_in_pass;
      buckets.finish();
      BOOST_TEST(left == (std::vector<std::int64_t>{2, 1, 0}), boost::test_tools::per_element());
      std::int64_t handed = 0, all = 0;
      for (const model::FlatGroup& group : model.groups()) all += group.gradients.numel();
      BOOST_TEST_REQUIRE(keeping.handed.size() == buckets.buckets().size());
      for (std::size_t i = 0; i < keeping.handed.size(); ++i) {
        handed += keeping.handed[i].numel();
        BOOST_TEST(at::equal(keeping.handed[i], keeping.as_handed[i]), "bucket " << i << " was handed over too early");
      }
      BOOST_TEST(handed == all);
    }
  }
  BOOST_TEST(early == 3 * trained);
}

BOOST_AUTO_TEST_CASE(buckets_are_small_at_first_and_then_large) {
  model::ModelConfig shape = small_config().model;
  shape.layers = 8;
  shape.length = 8;
  const auto model = model::LanguageModel::make(shape, kVocabulary, 7);
  Keeping keeping;
  const std::int64_t layer = model.locations()[0].group == 1 ? (model.groups()[0].values.numel() / 8) * 4 : 0;
  BOOST_TEST_REQUIRE(layer > 0);
  const GradientBuckets buckets(model, keeping, layer, 3 * layer);
  std::vector<std::int64_t> after;
  for (const auto& bucket : buckets.buckets()) after.push_back(bucket.after_layer);
  BOOST_TEST(after == (std::vector<std::int64_t>{7, 4, 1, 0, -1}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(ranks_that_have_come_apart_end_with_a_word_before_anything_is_written) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  const TrainConfig config = smooth_config();
  const Ended ended = train_with(4, config, folder / "run", data, {}, /*drifts=*/2);
  for (const std::string& text : ended.thrown) {
    BOOST_TEST(text.find("after step 10 the parameters of rank 2 and of rank 0 differ") != std::string::npos, text);
  }
  BOOST_TEST(!std::filesystem::exists(folder / "run/rank0/model.h5"));
}

BOOST_AUTO_TEST_CASE(ranks_of_another_config_or_data_are_named_before_the_first_step) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  const Ended ended = train_with(4, smooth_config(), folder / "run", data, [](std::int64_t rank, training::Run& run) {
    if (rank == 1) run.data_seed = 99;
  });
  for (const std::string& text : ended.thrown) {
    BOOST_TEST(text.find("rank 1 was started with another config, or on other data, than rank 0") != std::string::npos,
               text);
  }
}

BOOST_AUTO_TEST_CASE(a_stop_that_one_rank_hears_stops_all_at_one_step_and_all_resume_to_the_same_bytes) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  const TrainConfig config = smooth_config();
  const auto whole = train_with(2, config, folder / "whole", data);
  // The request is one flag of the process; threads come to look at it at different times.
  std::thread later([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
    support::request_stop(15);
  });
  int stops = 0;
  for (;;) {
    const Ended ended = train_with(2, config, folder / "parts", data);
    if (later.joinable()) later.join();
    support::request_stop(0);
    BOOST_TEST(ended.thrown[0] == ended.thrown[1]);
    if (ended.thrown[0].empty()) {
      BOOST_TEST(same_bits(ended.models[0], whole.models[0]));
      BOOST_TEST(same_bits(ended.models[1], whole.models[0]));
      break;
    }
    BOOST_TEST(ended.thrown[0] == "stopped on request");
    BOOST_TEST_REQUIRE(++stops < 5);
    if (stops == 1) {  // and before the first step, or between two
      later = std::thread([] { support::request_stop(15); });
      later.join();
    }
  }
  BOOST_TEST(
      (support::read_file(folder / "parts/rank0/model.h5") == support::read_file(folder / "whole/rank0/model.h5")));
  BOOST_TEST(
      (support::read_file(folder / "parts/rank0/metrics.h5") == support::read_file(folder / "whole/rank0/metrics.h5")));
}

BOOST_AUTO_TEST_CASE(a_batch_that_ranks_do_not_divide_is_told_with_one_that_they_do) {
  model::ComputeConfig compute;
  compute.ranks = 4;
  BOOST_CHECK_EXCEPTION(model::resolve(compute, 6), support::ConfigError, [](const auto& error) {
    return says(error, {"the batch of 6 sequences does not divide among 4 ranks (compute.ranks); it does among 3"});
  });
  compute.micro_batch = 3;
  BOOST_CHECK_EXCEPTION(model::resolve(compute, 32), support::ConfigError, [](const auto& error) {
    return says(error, {"compute.micro_batch is 3, which does not divide a rank's 8 sequences of the batch of 32"});
  });
  compute.micro_batch = 64;
  BOOST_TEST(*model::resolve(compute, 32).micro_batch == 8);
  compute.micro_batch = {};
  BOOST_TEST(*model::resolve(compute, 32).micro_batch == 8);
}

BOOST_AUTO_TEST_CASE(a_training_that_is_no_rank_cannot_be_one_of_two) {
  const TempFolder folder;
  artifact::Workspace workspace = workspace_in(folder / "run", write_shards(folder / "data"));
  TrainConfig config = small_config();
  config.compute.ranks = 2;
  BOOST_CHECK_EXCEPTION(training::train(config, workspace), support::ConfigError, [](const auto& error) {
    return says(error, {"compute.ranks is 2, but 1 process was started"});
  });
}

BOOST_AUTO_TEST_SUITE_END()
