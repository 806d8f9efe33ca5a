// Probes: the figures of attention that can be worked out by hand, readers of positions, angles, and models whose heads
// are set so that one knows what they look at.
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <numbers>

#include "encodings/attention/attend.h"
#include "encodings/registry.h"
#include "evaluation/eval_group.h"
#include "evaluation/fakes.h"
#include "evaluation/memory_meter.h"
#include "evaluation/model_scorer.h"
#include "evaluation/probes/attention_statistics.h"
#include "evaluation/probes/position_reader.h"
#include "evaluation/probes/probe_texts.h"
#include "evaluation/probes/rotated_angles.h"
#include "model/language_model.h"
#include "support/random.h"
#include "support/recording_progress.h"

using namespace pe;
using namespace pe::evaluation;
using namespace pe::evaluation::testing;
using model::LanguageModel;

namespace {

LanguageModel small_model(const Json& encoding, std::int64_t length = 64, std::int64_t layers = 2,
                          std::uint64_t seed = 7) {
  model::ModelConfig config;
  config.width = 32;
  config.layers = layers;
  config.heads = 2;
  config.init_std = 0.3;  // so that positions matter without training
  config.length = length;
  config.encoding.json = encoding;
  return LanguageModel::make(config, 257, seed);
}

/// Every query is zero, so each head weighs all keys alike.
void forget_content(const LanguageModel& model) {
  const at::NoGradGuard no_gradients;
  for (const model::Parameter& parameter : model.parameters()) {
    if (parameter.name.find("attention.query") != std::string::npos) at::Tensor(parameter.tensor).zero_();
  }
}

std::vector<TokenIds> keyed_texts(std::int64_t count, std::int64_t length, std::uint64_t key = 1) {
  std::vector<TokenIds> texts;
  for (std::int64_t t = 0; t < count; ++t) {
    support::Xoshiro random(support::make_key({key, static_cast<std::uint64_t>(t)}));
    TokenIds ids;
    for (std::int64_t i = 0; i < length; ++i) ids.push_back(static_cast<std::int32_t>(random.below(256)));
    texts.push_back(std::move(ids));
  }
  return texts;
}

/// The largest change of a text's mean loss when all of it is moved by `offset` positions, nats per token.
double moved_by(const LanguageModel& model, std::int64_t offset, std::int64_t length = 64) {
  const auto texts = keyed_texts(4, length);
  model::ForwardOptions options;
  options.position = offset;
  const auto here = summed_losses(model, texts, 1, length, 4096),
             there = summed_losses(model, texts, 1, length, 4096, options);
  double largest = 0;
  for (std::size_t i = 0; i < here.size(); ++i) {
    largest = std::max(largest, std::abs(here[i] - there[i]) / static_cast<double>(length - 1));
  }
  return largest;
}

/// Independent normals, [rows, columns] float32.
at::Tensor noise(std::uint64_t key, std::int64_t rows, std::int64_t columns) {
  at::Tensor made = at::empty({rows, columns}, at::kDouble);
  support::philox_normal(key, made.mutable_data_ptr<double>(), static_cast<std::size_t>(made.numel()));
  return made.to(at::kFloat);
}

PositionedVectors placed(std::uint64_t key, std::int64_t texts, std::int64_t length, bool tells) {
  PositionedVectors made{noise(key, texts * length, 16), at::arange(length, at::kDouble).repeat({texts})};
  if (tells) made.x.select(1, 5).copy_(made.position / static_cast<double>(length));
  return made;
}

/// Runs one task on a model.
Rows run(const std::string& task, const LanguageModel& model, Json options, const DocumentSource& documents,
         const TextCodec& text = ByteCodec(), const LanguageModel* reference = nullptr,
         support::Progress& progress = support::silent_progress()) {
  options["tasks"] = Json::array({task});
  const auto group = support::make_config<EvalGroup>(options);
  MemoryResults results;
  const auto scorer = make_model_scorer(model, 4096);
  TaskExtras extras{.model = &model, .reference = reference, .reference_name = "other"};
  run_tasks(group, *scorer, text, documents, results, progress, extras);
  return cells_of(results.rows);
}

FakeDocuments long_documents(std::int64_t count = 40, std::int64_t tokens = 400) {
  return FakeDocuments(std::vector<std::int64_t>(static_cast<std::size_t>(count), tokens));
}

const Json kSmall = {{"context", {32, 64}}, {"min_documents", 8}};

}  // namespace

BOOST_AUTO_TEST_SUITE(probes)

BOOST_AUTO_TEST_CASE(item_21_uniform_and_identity_attention_have_the_figures_worked_out_by_hand) {
  constexpr std::int64_t kLength = 64;
  const at::Tensor rows = at::arange(1, kLength + 1, at::kDouble).unsqueeze(1);
  const at::Tensor uniform = (at::ones({kLength, kLength}, at::kDouble).tril() / rows).view({1, 1, kLength, kLength});
  for (const std::int64_t chunk : {64, 24}) {  // whatever ranges the rows come in
    AttentionStatistics statistics(1, kLength);
    KeyShares shares(kLength);
    for (std::int64_t begin = 0; begin < kLength; begin += chunk) {
      const std::int64_t end = std::min(kLength, begin + chunk);
      const at::Tensor part = uniform.narrow(2, begin, end - begin).narrow(3, 0, end);
      statistics.add(part, begin);
      shares.add(part);
    }
    for (std::int64_t i = 0; i < kLength; ++i) {
      BOOST_TEST(std::abs(statistics.figures(0, i, i + 1).distance - static_cast<double>(i) / 2) < 1e-9);
    }
    const AttentionFigures all = statistics.figures(0, 0, kLength);
    BOOST_TEST(std::abs(all.distance_share - 0.5) < 1e-9);
    BOOST_TEST(std::abs(all.entropy_share - 1) < 1e-9);
    BOOST_TEST(std::abs(all.mass - 1) < 1e-9);
    const at::Tensor alpha = shares.take();
    BOOST_TEST(std::abs(alpha[0][0][0].item<double>() - 0.07412) < 5e-6);  // H_64 / 64
    BOOST_TEST(alpha[0][0].argmax().item<std::int64_t>() == 0);
  }
  AttentionStatistics identity(1, kLength);
  identity.add(at::eye(kLength, at::kDouble).view({1, 1, kLength, kLength}), 0);
  const AttentionFigures own = identity.figures(0, 0, kLength);
  BOOST_TEST(own.distance == 0);
  BOOST_TEST(own.entropy == 0);
  BOOST_TEST(identity.peaks(0).front() == 1);

  const at::Tensor here = at::zeros({1, 8}, at::kDouble), there = at::zeros({1, 8}, at::kDouble);
  at::Tensor(here).select(1, 2).fill_(1);
  at::Tensor(there).select(1, 5).fill_(1);
  BOOST_TEST(std::abs(jensen_shannon(here, there).item<double>() - std::numbers::ln2) < 1e-12);
  BOOST_TEST(jensen_shannon(here, here).item<double>() == 0);
}

/// Uniform attention: query i gives each of its i + 1 keys the same.
BOOST_AUTO_TEST_CASE(a_map_holds_the_shares_of_its_cells) {
  const LanguageModel model = small_model("none");
  forget_content(model);
  Json options = kSmall;
  options["maps"] = {{"layers", {1}}, {"size", 5}, {"texts", 3}, {"lengths", {0.5, 1}}};
  const Rows rows = run("maps", model, options, long_documents());
  for (const std::int64_t length : {32, 64}) {
    const auto found = rows_where(rows, "probe_map", {{"L", std::to_string(length)}, {"status", "ok"}});
    BOOST_TEST(found.size() == 2u * 15u);  // heads, cells on and below the diagonal
    for (const Row& row : found) {
      const auto at = [&](const char* column) { return static_cast<std::int64_t>(value("probe_map", row, column)); };
      double expected = 0;
      for (std::int64_t i = at("query_lo"); i < at("query_hi"); ++i) {
        const std::int64_t seen = std::min(i + 1, at("key_hi")) - at("key_lo");
        expected += static_cast<double>(std::max<std::int64_t>(0, seen)) / static_cast<double>(i + 1);
      }
      expected /= static_cast<double>(at("query_hi") - at("query_lo"));
      BOOST_TEST(std::abs(value("probe_map", row, "share") - expected) < 1e-6);
      BOOST_TEST(at("layer") == 1);
      BOOST_TEST(at("n") == 3);
    }
  }
  options["maps"]["layers"] = {2};
  BOOST_CHECK_EXCEPTION(run("maps", model, options, long_documents()), support::ConfigError, [](const auto& error) {
    return std::string(error.what()).find("eval.maps.layers: no layer 2; the model has layers 0 to 1") !=
           std::string::npos;
  });
  // Without options the document of an evaluation is the same as before there were maps.
  const support::Schema schema = support::schema_of<EvalGroup>();
  BOOST_TEST(!support::hashed_config(schema, support::defaults(schema)).contains("maps"));
}

BOOST_AUTO_TEST_CASE(a_model_whose_queries_are_zero_looks_everywhere_alike) {
  const LanguageModel model = small_model("none");
  forget_content(model);
  const Rows rows = run("attention", model, kSmall, long_documents());
  for (const std::int64_t length : {32, 64}) {
    const auto found = rows_where(rows, "probe_attention", {{"L", std::to_string(length)}, {"status", "ok"}});
    BOOST_TEST(found.size() == 4u);
    for (const Row& row : found) {
      BOOST_TEST(std::abs(value("probe_attention", row, "distance") - static_cast<double>(length - 1) / 4) < 1e-5);
      BOOST_TEST(std::abs(value("probe_attention", row, "entropy_share") - 1) < 1e-6);
    }
  }
  const Rows sinks = run("sinks", model, kSmall, long_documents());
  for (const char* separator : {"first", "none"}) {
    const Row row = rows_where(sinks, "probe_sink_summary", {{"separator", separator}}).at(0);
    BOOST_TEST(std::abs(value("probe_sink_summary", row, "alpha_first") - 0.07412) < 1e-5);
    BOOST_TEST(value("probe_sink_summary", row, "rate") == 0);
  }
}

BOOST_AUTO_TEST_CASE(item_22_relative_encodings_do_not_feel_a_common_offset_and_fire_does) {
  for (const char* name : {"rope", "alibi", "t5", "kerple_log", "kerple_power", "pope", "none"}) {
    const LanguageModel model = small_model(name);
    for (const std::int64_t offset : {1, 64, 1024}) {
      BOOST_TEST_CONTEXT(name << " moved by " << offset) BOOST_TEST(moved_by(model, offset) <= 1e-3);
    }
  }
  // Negative controls: an absolute encoding, and FIRE once texts are longer than the length within which it is
  // relative.
  BOOST_TEST(moved_by(small_model("sinusoidal"), 64) > 1e-2);
  BOOST_TEST(moved_by(small_model(Json{{"kind", "fire"}, {"initial_length", 32}}), 64) > 1e-3);
}

BOOST_AUTO_TEST_CASE(item_23_a_position_in_one_channel_is_read_and_noise_is_not) {
  constexpr std::int64_t kLength = 256;
  const ReaderScore told =
      read_by_ridge(placed(1, 8, kLength, true), placed(2, 8, kLength, true), placed(3, 8, kLength, true), kLength);
  BOOST_TEST(told.mad < 0.5);
  BOOST_TEST(told.r2 > 0.9999);
  const ReaderScore deaf = read_by_ridge(placed(1, 20, kLength, false), placed(2, 20, kLength, false),
                                         placed(3, 20, kLength, false), kLength);
  BOOST_TEST(std::abs(deaf.mad / (kLength / 4.0) - 1) < 0.05);
  BOOST_TEST(std::abs(deaf.r2) < 0.02);
  // The same of the classifier, after a few of its steps.
  const ClassifierOptions few{.steps = 300, .batch = 512};
  const ReaderScore binned =
      read_by_classifier(placed(1, 8, kLength, true), placed(3, 8, kLength, true), kLength, few, 1);
  BOOST_TEST(binned.mad < 12);
  const ReaderScore lost = read_by_classifier(placed(1, 20, kLength, false), placed(3, 20, kLength, false), kLength,
                                              {.steps = 60, .batch = 512}, 1);
  BOOST_TEST(lost.mad > 0.9 * kLength / 4.0);
  BOOST_TEST(std::isnan(binned.lambda));
}

BOOST_AUTO_TEST_CASE(a_reader_without_data_has_no_score) {
  const PositionedVectors some = placed(1, 2, 16, true), none = some.between(100, 200);
  BOOST_TEST(none.x.size(0) == 0);
  BOOST_TEST(std::isnan(read_by_ridge(some, some, none, 16).mad));
  BOOST_TEST(std::isnan(read_by_ridge(none, some, some, 16).r2));
  BOOST_TEST(std::isnan(read_by_classifier(none, some, 16, {}, 1).mad));
}

// Sinusoids are read off the embeddings of trained and random networks alike; without an encoding the embeddings say
// nothing.
BOOST_AUTO_TEST_CASE(positions_are_read_where_an_encoding_puts_them) {
  const Json options = {
      {"context", {64}}, {"min_documents", 8}, {"position_probe", {{"sequences", 36}, {"methods", {"ridge"}}}}};
  const auto r2 = [&](const Rows& rows, const char* place, const char* network) {
    return value("probe_position",
                 rows_where(rows, "probe_position", {{"place", place}, {"network", network}, {"tested", "all"}}).at(0),
                 "r2");
  };
  const Rows absolute = run("position_probe", small_model("sinusoidal"), options, long_documents());
  BOOST_TEST(r2(absolute, "0", "trained") > 0.9);
  BOOST_TEST(r2(absolute, "0", "random") > 0.9);
  BOOST_TEST(r2(absolute, "0", "shuffled") > 0.9);
  const Rows none = run("position_probe", small_model("none"), options, long_documents());
  BOOST_TEST(r2(none, "0", "trained") < 0.2);
  for (const Row& row : none.at("probe_position")) {
    BOOST_TEST(value("probe_position", row, "mad_centre") == 16);
    BOOST_TEST(text(cell("probe_position", row, "status")) == "ok");
  }
  BOOST_TEST(none.at("probe_position").size() == 3u * 3u * 2u);  // networks, places, all and second_half
}

// Heads whose target is set by a bias that only they have.
BOOST_AUTO_TEST_CASE(circuits_are_found_where_they_are) {
  // ALiBi's first head with a slope of 1/16 looks near; made steep, it looks at its own token, which no score counts.
  // Without content all scores equal uniform attention's.
  const LanguageModel blind = small_model("none");
  forget_content(blind);
  const Rows rows = run("circuits", blind, {{"context", {32}}, {"circuits", {{"sequences", 8}}}}, long_documents());
  double expected = 0;
  for (int i = 16; i < 32; ++i) expected += 1.0 / (i + 1) / 16;
  for (const Row& row : rows.at("probe_circuit")) {
    for (const char* score : {"previous", "duplicate", "induction"}) {
      BOOST_TEST(std::abs(value("probe_circuit", row, score) - expected) < 1e-6);
    }
  }
  // Keys that are queries: a token looks at itself and at its double, half each, and at nothing else.
  const LanguageModel doubles = small_model("none", 64, 1);
  {
    const at::NoGradGuard no_gradients;
    for (const model::Parameter& parameter : doubles.parameters()) {
      at::Tensor tensor = parameter.tensor;
      if (parameter.name == "layers.0.attention.query" || parameter.name == "layers.0.attention.key")
        tensor.copy_(at::eye(32));
      if (parameter.name == "layers.0.attention.query_norm" || parameter.name == "layers.0.attention.key_norm")
        tensor.fill_(12);
    }
    doubles.after_step();
  }
  const Rows found = run("circuits", doubles, {{"context", {32}}, {"circuits", {{"sequences", 8}}}}, long_documents());
  const Row best = rows_where(found, "probe_circuit_summary", {{"measure", "duplicate"}}).at(0);
  BOOST_TEST(std::abs(value("probe_circuit_summary", best, "value") - 0.5) < 0.01);
  BOOST_TEST(value("probe_circuit_summary",
                   rows_where(found, "probe_circuit_summary", {{"measure", "induction"}}).at(0), "value") < 0.05);
  BOOST_TEST(rows_where(found, "probe_circuit_summary", {{"measure", "in_context_gain"}}).size() == 1u);
}

BOOST_AUTO_TEST_CASE(reliance_says_what_an_encoding_is_worth) {
  const Json options = {
      {"context", {64}},
      {"min_documents", 8},
      {"reliance", {{"sequences", 12}, {"tests", {"constant_position", "shuffled_prefix", "translation", "gap"}}}}};
  const auto delta = [&](const Rows& rows, const char* test, const char* amount) {
    return value("probe_reliance", rows_where(rows, "probe_reliance", {{"test", test}, {"amount", amount}}).at(0),
                 "delta");
  };
  const Rows none = run("reliance", small_model("none"), options, long_documents());
  for (const char* test : {"constant_position", "translation", "gap"}) {
    for (const Row& row : rows_where(none, "probe_reliance", {{"test", test}})) {
      BOOST_TEST(std::abs(value("probe_reliance", row, "delta")) < 1e-6);
      BOOST_TEST(text(cell("probe_reliance", row, "status")) == "ok");
    }
  }
  const Rows rope = run("reliance", small_model("rope"), options, long_documents());
  BOOST_TEST(std::abs(delta(rope, "constant_position", "0")) > 1e-3);
  BOOST_TEST(std::abs(delta(rope, "translation", "64")) < 1e-3);
  BOOST_TEST(std::abs(delta(rope, "gap", "64")) > 1e-4);
  BOOST_TEST(rows_where(rope, "probe_reliance", {{"test", "shuffled_prefix"}}).size() == 3u);
  // Positions that an encoding draws do not move.
  const Rows drawn = run("reliance", small_model({{"stack", {"randomised", "rope"}}}), options, long_documents());
  for (const char* test : {"constant_position", "translation", "gap"}) {
    for (const Row& row : rows_where(drawn, "probe_reliance", {{"test", test}}))
      BOOST_TEST(text(cell("probe_reliance", row, "status")) == "na_encoding", test);
  }
  BOOST_TEST(rows_where(drawn, "probe_reliance", {{"test", "shuffled_prefix"}, {"status", "ok"}}).size() == 3u);
  // A learned table ends where training did.
  const Rows learned = run("reliance", small_model("learned"), options, long_documents());
  const Row beyond = rows_where(learned, "probe_reliance", {{"test", "translation"}, {"amount", "1"}}).at(0);
  BOOST_TEST(text(cell("probe_reliance", beyond, "status")) == "na_positions");
  BOOST_TEST(cell("probe_reliance", beyond, "delta").missing());
}

BOOST_AUTO_TEST_CASE(position_and_context_are_told_apart) {
  const Json options = {{"context", {32, 64, 128}}, {"min_documents", 8}, {"position_loss", {{"documents", 10}}}};
  const Rows rope = run("position_loss", small_model("rope"), options, long_documents());
  BOOST_TEST(rope.at("probe_position_loss").size() == 6u);
  for (const Row& row : rope.at("probe_position_loss")) {
    BOOST_TEST(std::abs(value("probe_position_loss", row, "delta")) <
               1e-3);  // relative: position alone changes nothing
  }
  const Rows sinusoidal = run("position_loss", small_model("sinusoidal"), options, long_documents());
  const Row far = rows_where(sinusoidal, "probe_position_loss", {{"context", "32"}, {"last", "128"}}).at(0);
  BOOST_TEST(value("probe_position_loss", far, "offset") == 96);
  BOOST_TEST(std::abs(value("probe_position_loss", far, "delta")) > 1e-2);
  const Rows learned = run("position_loss", small_model("learned"), options, long_documents());
  BOOST_TEST(rows_where(learned, "probe_position_loss", {{"status", "na_positions"}}).size() == 3u);
  const Rows drawn = run("position_loss", small_model({{"stack", {"randomised", "rope"}}}), options, long_documents());
  BOOST_TEST(rows_where(drawn, "probe_position_loss", {{"status", "na_encoding"}}).size() == 3u);
  BOOST_TEST(rows_where(drawn, "probe_position_loss", {{"status", "ok"}}).size() == 3u);
}

BOOST_AUTO_TEST_CASE(attention_that_is_not_finite_overflows) {
  const LanguageModel broken = small_model("rope");
  for (const model::Parameter& parameter : broken.parameters()) {
    const at::NoGradGuard no_gradients;
    if (parameter.name.find("attention.query") != std::string::npos) at::Tensor(parameter.tensor).fill_(NAN);
  }
  const Json options = {{"context", {32}}, {"min_documents", 8}, {"sinks", {{"length", 32}}}};
  const LanguageModel other = small_model("rope", 64, 2, 8);
  for (const auto& [task, table] : {std::pair("attention", "probe_attention"), std::pair("sinks", "probe_sink_summary"),
                                    std::pair("pattern_similarity", "probe_similarity")}) {
    const Rows rows = run(task, broken, options, long_documents(), ByteCodec(), &other);
    BOOST_TEST(!rows.at(table).empty());
    BOOST_TEST(rows_where(rows, table, {{"status", "overflow"}}).size() == rows.at(table).size(), task);
  }
}

BOOST_AUTO_TEST_CASE(angles_beyond_training_are_unseen_until_a_pair_goes_round) {
  constexpr double kTurn = 2 * std::numbers::pi;
  BOOST_TEST(pair_angles(1.0, 64, 1.0, 256).unseen == 0);  // ten turns in training
  BOOST_TEST(pair_angles(0, 64, 0, 256).unseen == 0);      // not rotated
  const PairAngles slow = pair_angles(kTurn / 1000, 101, kTurn / 1000, 401);
  BOOST_TEST(std::abs(slow.trained_turns - 0.1) < 1e-12);
  BOOST_TEST(std::abs(slow.turns - 0.4) < 1e-12);
  BOOST_TEST(std::abs(slow.unseen - 300.0 / 401) < 1e-12);                    // distances 101 to 400
  BOOST_TEST(pair_angles(kTurn / 1000, 101, kTurn / 4000, 401).unseen == 0);  // slowed by four: interpolation
  // 0.75 turns in training, two in the test: a quarter of each turn is new.
  BOOST_TEST(std::abs(pair_angles(kTurn / 400, 301, kTurn / 400, 801).unseen - 0.25) < 0.01);
}

BOOST_AUTO_TEST_CASE(pairs_share_the_logits_among_them) {
  const Json options = {
      {"context", {32, 64}}, {"min_documents", 8}, {"frequencies", {{"sequences", 6}, {"pairs", 16}}}};
  for (const Json& encoding : {Json("rope"), Json("pope"), Json("multiscale_rope"), Json("partial")}) {
    const Rows rows = run("frequencies", small_model(encoding), options, long_documents());
    for (const char* head : {"0", "1"}) {
      double sum = 0;
      for (const Row& row : rows_where(rows, "probe_frequency", {{"L", "64"}, {"layer", "1"}, {"head", head}})) {
        sum += value("probe_frequency", row, "logit_share");
      }
      BOOST_TEST_CONTEXT(encoding.dump()) BOOST_TEST(std::abs(sum - 1) < 1e-9);
    }
  }
  const Rows rope = run("frequencies", small_model("rope"), options, long_documents());
  const auto pairs = rows_where(rope, "probe_frequency", {{"L", "64"}, {"layer", "0"}, {"head", "0"}});
  BOOST_TEST(pairs.size() == 8u);  // heads of 16 channels
  BOOST_TEST(value("probe_frequency", pairs[0], "theta") == 1);
  // QK-norm: the norms of all pairs together equal the head's norm, √16 before its weight, which is 1.
  double square = 0;
  for (const Row& row : pairs) square += std::pow(value("probe_frequency", row, "q_norm"), 2);
  BOOST_TEST(square <= 16.001);
  BOOST_TEST(square > 8);
  const Row slowest = rows_where(rope, "probe_angle", {{"L", "64"}, {"layer", "0"}, {"pair", "7"}}).at(0);
  BOOST_TEST(value("probe_angle", slowest, "unseen") == 0);  // at the training length nothing is new
  const Rows none = run("frequencies", small_model("alibi"), options, long_documents());
  BOOST_TEST(text(cell("probe_frequency", none.at("probe_frequency").at(0), "status")) == "na_encoding");
  BOOST_TEST(none.count("probe_angle") == 0u);
}

BOOST_AUTO_TEST_CASE(logits_drift_as_the_bias_says) {
  const Json options = {{"context", {64}}, {"min_documents", 8}, {"logit_drift", {{"pairs", 50}, {"sequences", 8}}}};
  const auto mean = [&](const Rows& rows, const char* head, const char* distance, const char* network = "trained") {
    return value(
        "probe_logit",
        rows_where(rows, "probe_logit", {{"network", network}, {"layer", "0"}, {"head", head}, {"distance", distance}})
            .at(0),
        "mean");
  };
  const Rows alibi = run("logit_drift", small_model("alibi"), options, long_documents());
  // Two heads: slopes 2^-4 and 2^-8.
  BOOST_TEST(std::abs(mean(alibi, "0", "0") - mean(alibi, "0", "256") - 16) < 1e-3);
  BOOST_TEST(std::abs(mean(alibi, "1", "0") - mean(alibi, "1", "256") - 1) < 1e-3);
  const Rows none = run("logit_drift", small_model("none"), options, long_documents());
  BOOST_TEST(mean(none, "0", "0") == mean(none, "0", "256"));
  // A model that was never trained equals its state before training; one whose weights changed does not.
  const LanguageModel fresh = small_model("rope");
  const Rows same = run("logit_drift", fresh, options, long_documents());
  BOOST_TEST(mean(same, "0", "8") == mean(same, "0", "8", "initial"));
  forget_content(fresh);  // every logit is 0
  const Rows moved = run("logit_drift", fresh, options, long_documents());
  BOOST_TEST(mean(moved, "0", "8", "initial") == mean(same, "0", "8"));
  BOOST_TEST(mean(moved, "0", "8") == 0);
  BOOST_TEST(mean(same, "0", "8") != 0);
  for (const char* other : {"sinusoidal", "cope", "path"}) {
    const Rows rows = run("logit_drift", small_model(other), options, long_documents());
    BOOST_TEST(text(cell("probe_logit", rows.at("probe_logit").at(0), "status")) == "na_encoding");
  }
}

BOOST_AUTO_TEST_CASE(a_model_is_like_itself_and_unlike_another) {
  const Json options = {{"context", {200}}, {"min_documents", 8}, {"pattern_similarity", {{"sequences", 4}}}};
  const LanguageModel one = small_model("rope", 200), other = small_model("rope", 200, 2, 8),
                      near = small_model("alibi", 200);
  const auto divergence = [&](const LanguageModel& a, const LanguageModel& b) {
    const Rows rows = run("pattern_similarity", a, options, long_documents(), ByteCodec(), &b);
    BOOST_TEST(rows.at("probe_similarity").size() == 3u);  // two layers and their mean
    return value("probe_similarity", rows.at("probe_similarity").back(), "divergence");
  };
  BOOST_TEST(std::abs(divergence(one, one)) < 1e-9);
  BOOST_TEST(divergence(one, other) > 0.01);
  BOOST_TEST(divergence(one, other) < std::numbers::ln2);
  BOOST_TEST(divergence(one, near) > 0.001);
  const Rows alone = run("pattern_similarity", one, options, long_documents());
  BOOST_TEST(text(cell("probe_similarity", alone.at("probe_similarity").at(0), "status")) == "na_reference");
}

BOOST_AUTO_TEST_CASE(texts_that_are_too_short_and_tables_that_end_are_said_and_never_zero) {
  const LanguageModel learned = small_model("learned", 32);
  const Json options = {{"context", {32, 64, 800, 900}}, {"min_documents", 8}};
  test::RecordingProgress progress;
  const Rows rows = run("attention", learned, options, long_documents(), ByteCodec(), nullptr, progress);
  BOOST_TEST(progress.lines ==
             "warning: probes: too few test documents are long enough, and eval.min_documents asks for 8; left out: "
             "800 tokens (0 documents), 900 (0). Lower eval.lengths, or use longer documents\n"
             "attention: 32 tokens are done\n");
  const auto one = [&](const char* length) { return rows_where(rows, "probe_attention", {{"L", length}}).at(0); };
  BOOST_TEST(text(cell("probe_attention", one("32"), "status")) == "ok");
  BOOST_TEST(text(cell("probe_attention", one("64"), "status")) == "na_positions");
  BOOST_TEST(text(cell("probe_attention", one("800"), "status")) == "skipped_docs");
  BOOST_TEST(cell("probe_attention", one("64"), "entropy").missing());
}

BOOST_AUTO_TEST_CASE(memory_is_what_tensors_take) {
  at::Tensor kept;
  const auto work = [&] {
    kept = at::zeros({1000}, at::kFloat);
    const at::Tensor gone = at::zeros({4000}, at::kFloat);
  };
  const MemoryUse use = memory_of(at::kCPU, work);
  BOOST_TEST(use.kept >= 4000);
  BOOST_TEST(use.kept < 5000);
  BOOST_TEST(use.peak >= 20000);
  BOOST_TEST(use.peak < 22000);
  BOOST_TEST(memory_of(at::kCUDA, work).peak == 0);  // of a GPU: nothing
}

BOOST_AUTO_TEST_SUITE_END()

// 5.2: exact counts of instantiated models.
BOOST_AUTO_TEST_SUITE(guide_parameters)

BOOST_AUTO_TEST_CASE(every_encoding_has_as_many_numbers_as_its_formula_says) {
  constexpr std::int64_t kWidth = 32, kLayers = 2, kHeads = 2, kHead = 16, kLength = 64;
  const auto count = [&](const Json& encoding) { return small_model(encoding, kLength).encoding_parameter_count(); };
  for (const char* name : {"none", "sinusoidal", "rope", "alibi", "ntk", "pi", "yarn", "resonance"}) {
    BOOST_TEST_CONTEXT(name) BOOST_TEST(count(name) == 0);
  }
  BOOST_TEST(count("learned") == kLength * kWidth);
  BOOST_TEST(count("pope") == kLayers * kHeads * kHead);
  BOOST_TEST(count("lerope") == kHead / 2);
  BOOST_TEST(count("lrope") == kLayers * kHead / 2);
  BOOST_TEST(count(Json{{"kind", "lrope"}, {"per_head", true}}) == kLayers * kHeads * kHead / 2);
  BOOST_TEST(count("kerple_log") == 2 * kHeads);  // one for all layers
  BOOST_TEST(count("t5") % kHeads == 0);
  BOOST_TEST(count("clex") > 0);
}

BOOST_AUTO_TEST_CASE(the_table_says_counts_shares_and_tables) {
  const LanguageModel learned = small_model("learned"), rope = small_model("rope");
  const Json options = {{"context", {64}}, {"parameters", {{"table_lengths", {64, 128}}}}};
  const Rows rows = run("parameters", learned, options, long_documents());
  BOOST_TEST(rows.at("parameters").size() == 2u);
  const Row row = rows.at("parameters")[0];
  BOOST_TEST(value("parameters", row, "parameters") == 64 * 32);
  BOOST_TEST(value("parameters", row, "total") == static_cast<double>(learned.parameter_count()));
  BOOST_TEST(std::abs(value("parameters", row, "share") - 2048.0 / static_cast<double>(learned.parameter_count())) <
             1e-12);
  BOOST_TEST(text(cell("parameters", row, "placement")) == "shared");
  BOOST_TEST(cell("parameters", rows.at("parameters")[1], "table_bytes").missing());  // beyond its table
  const Rows turned = run("parameters", rope, options, long_documents());
  BOOST_TEST(value("parameters", turned.at("parameters")[0], "parameters") == 0);
  // Cosines and sines of eight pairs, float32, 128 positions.
  BOOST_TEST(value("parameters", turned.at("parameters")[1], "table_bytes") >= 2 * 8 * 4 * 128);
  BOOST_TEST(value("parameters", turned.at("parameters")[1], "table_bytes") < 2 * 2 * 8 * 4 * 128);
}

BOOST_AUTO_TEST_SUITE_END()
