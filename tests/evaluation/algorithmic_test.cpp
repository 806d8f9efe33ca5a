// Algorithmic tasks as tests of models: by hand on models that know or guess, and through the stages on a small real
// one.
#include "data/tasks/algorithmic_task.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <set>
#include <sstream>

#include "artifact/checkpoint.h"
#include "artifact/eval_table.h"
#include "data/token_shards/generate.h"
#include "data/token_shards/token_dataset.h"
#include "data/tokenizers/symbol_tokenizer.h"
#include "evaluation/eval_group.h"
#include "evaluation/evaluate.h"
#include "evaluation/fakes.h"
#include "evaluation/model_scorer.h"
#include "model/checkpoint_io.h"
#include "support/files.h"
#include "support/temp_folder.h"
#include "training/train.h"
#include "training/validation.h"

using namespace pe;
using namespace pe::evaluation;
using namespace pe::evaluation::testing;

namespace {

struct EvalConfig {
  EvalGroup eval;
  void describe(support::FieldVisitor& v) { v.group("eval", eval, "What is measured."); }
};

Rows run(const Json& task, Scorer& scorer, const Json& options) {
  const auto config =
      support::make_config<EvalConfig>(Json{{"eval", {{"tasks", {"algorithmic"}}, {"algorithmic", options}}}});
  MemoryResults results;
  run_tasks(config.eval, scorer, ByteCodec(), FakeDocuments({}), results, support::silent_progress(),
            {.trained_task = task});
  return cells_of(results.rows);
}

std::int64_t vocabulary(const Json& task) { return data::choose_task(task).task->vocabulary(); }

}  // namespace

/// A model of text is asked `options`.
static Rows ask(Scorer& scorer, const Json& options, std::int64_t context) {
  const auto config = support::make_config<EvalConfig>(
      Json{{"eval", {{"tasks", {"algorithmic"}}, {"context", {context}}, {"algorithmic", options}}}});
  MemoryResults results;
  run_tasks(config.eval, scorer, ByteCodec(), FakeDocuments({}), results, support::silent_progress(), {});
  return cells_of(results.rows);
}

BOOST_AUTO_TEST_SUITE(algorithmic)

BOOST_AUTO_TEST_CASE(a_model_of_text_is_asked_in_its_own_tokens) {
  std::set<std::string> seen;
  FakeScorer recorder(
      [&](const std::vector<std::int32_t>& ids, std::int64_t) {
        BOOST_TEST(ids[0] == 256);
        std::string text;
        for (std::size_t i = 1; i < ids.size(); ++i) text += static_cast<char>(ids[i]);
        seen.insert(text);
        return FakeScorer::Answer{1, false};
      },
      {.vocabulary = 257, .train_length = 512});
  const Json options = {{"in_context", {"copy_repeat"}}, {"lengths", {3}}, {"shots", 2}, {"examples", 5}};
  const Rows rows = ask(recorder, options, 512);
  BOOST_TEST(seen.size() == 5u);
  for (const std::string& text : seen) {
    // Three blocks of `Input: s7 s7 s7\nOutput: s7 s7 s7\n`, the answers right in each.
    std::istringstream in(text);
    std::string input, output;
    int blocks = 0;
    while (std::getline(in, input) && std::getline(in, output)) {
      BOOST_TEST(input.rfind("Input: s", 0) == 0u);
      BOOST_TEST(output == "Output:" + input.substr(6));
      ++blocks;
    }
    BOOST_TEST(blocks == 3);
    BOOST_TEST(text.back() == '\n');
  }
  const Row row = rows_where(rows, "algo_summary", {{"task", "in_context_copy_repeat"}, {"length", "3"}}).at(0);
  BOOST_TEST(text(cell("algo_summary", row, "status")) == "ok");
  BOOST_TEST(value("algo_summary", row, "em") == 0);
  // Three symbols of 26 and the end, which is format.
  BOOST_TEST(std::abs(value("algo_summary", row, "chance_tok") - (3.0 / 26 + 1) / 4) < 1e-12);
  BOOST_TEST(value("algo_trial", rows.at("algo_trial").at(0), "token_total") == 4);
}

BOOST_AUTO_TEST_CASE(no_solved_example_is_the_item_that_is_asked) {
  int repeated = 0, asked = 0;
  FakeScorer recorder(
      [&](const std::vector<std::int32_t>& ids, std::int64_t target) {
        if (target + 1 < static_cast<std::int64_t>(ids.size())) return FakeScorer::Answer{1, false};
        std::string text;
        for (std::size_t i = 1; i < ids.size(); ++i) text += static_cast<char>(ids[i]);
        const std::string own = text.substr(text.rfind("Input:"));
        repeated += text.find(own) != text.rfind(own) ? 1 : 0;
        ++asked;
        return FakeScorer::Answer{1, false};
      },
      {.vocabulary = 257, .train_length = 512});
  // Of 26 symbols one is drawn, so a tenth of the items would have it in an example.
  ask(recorder, {{"in_context", {"copy_repeat"}}, {"lengths", {2}}, {"shots", 3}, {"examples", 100}}, 512);
  BOOST_TEST(asked >= 100);
  BOOST_TEST(repeated == 0);
}

BOOST_AUTO_TEST_CASE(in_context_a_symbol_is_right_when_all_its_tokens_are) {
  // Knows letters and ends of lines, and of digits the even ones: ` s13` is wrong, ` s24` right.
  FakeScorer knows(
      [](const std::vector<std::int32_t>& ids, std::int64_t target) {
        const std::int32_t id = ids[static_cast<std::size_t>(target)];
        return FakeScorer::Answer{0.5, id < '0' || id > '9' || id % 2 == 0};
      },
      {.vocabulary = 257, .train_length = 512});
  const Rows rows =
      ask(knows, {{"in_context", {"reverse", "dyck", "copy_repeat"}}, {"lengths", {4}}, {"examples", 40}}, 512);
  double exact = 0, symbols = 0;
  for (const Row& row : rows_where(rows, "algo_trial", {{"task", "in_context_copy_repeat"}})) {
    const double right = value("algo_trial", row, "token_correct");
    BOOST_TEST((right == 1 || right == 5));  // the end alone, or the one symbol four times
    BOOST_TEST(value("algo_trial", row, "em") == (right == 5 ? 1 : 0));
    exact += right == 5 ? 1 : 0;
    symbols += right;
  }
  BOOST_TEST(exact > 0);
  BOOST_TEST(exact < 40);
  const Row row = rows_where(rows, "algo_summary", {{"task", "in_context_copy_repeat"}}).at(0);
  BOOST_TEST(std::abs(value("algo_summary", row, "em") - exact / 40) < 1e-12);
  BOOST_TEST(std::abs(value("algo_summary", row, "token_acc") - symbols / 200) < 1e-12);
  // Brackets are asked all along, which is no question with an answer.
  BOOST_TEST(text(cell("algo_summary", rows_where(rows, "algo_summary", {{"task", "in_context_dyck"}}).at(0),
                       "status")) == "na_measure");
  const Rows tight = ask(knows, {{"in_context", {"reverse"}}, {"lengths", {4}}, {"examples", 4}}, 64);
  BOOST_TEST(text(cell("algo_summary", tight.at("algo_summary").at(0), "status")) == "na_length");
}

BOOST_AUTO_TEST_CASE(a_model_that_knows_up_to_a_length_reaches_that_far) {
  const Json task = {{"kind", "reverse_string"}};
  // Right as long as the input has at most 60 bits: BOS, input, SEP.
  FakeScorer knows(
      [](const std::vector<std::int32_t>& ids, std::int64_t) {
        std::size_t separator = 0;
        while (ids[separator] != data::kTaskSep) ++separator;
        const bool right = separator <= 61;
        return FakeScorer::Answer{right ? 0.0 : 3.0, right};
      },
      {.vocabulary = vocabulary(task), .train_length = 128});
  const Rows rows = run(task, knows, {{"lengths", {20, 40, 50, 60, 80}}, {"examples", 32}});
  for (const Row& row : rows.at("algo_summary")) {
    const bool right = value("algo_summary", row, "length") <= 60;
    BOOST_TEST(value("algo_summary", row, "em") == (right ? 1 : 0));
    BOOST_TEST(value("algo_summary", row, "nll_target") == (right ? 0 : 3));
    BOOST_TEST(value("algo_summary", row, "n") == 32);
  }
  const auto reach = [&](const char* measure) { return rows_where(rows, "algo_length", {{"measure", measure}}).at(0); };
  BOOST_TEST(value("algo_length", reach("len90"), "value") == 60);
  BOOST_TEST(value("algo_length", reach("ext_ratio"), "value") == 1.5);  // the source trains up to 40
  BOOST_TEST(std::abs(value("algo_length", reach("ood_mean_em"), "value") - 2.0 / 3) < 1e-12);
}

BOOST_AUTO_TEST_CASE(a_guesser_is_at_chance) {
  for (const char* name : {"parity_check", "bucket_sort", "lego", "mqar", "pp_back", "induction"}) {
    const data::ChosenTask chosen = data::choose_task(name);
    const auto answers = chosen.task->answers();
    support::Xoshiro random(7);
    FakeScorer guesser(
        [&](const std::vector<std::int32_t>& ids, std::int64_t target) {
          const std::int32_t wanted = ids[static_cast<std::size_t>(target)];
          const bool format = std::find(answers.begin(), answers.end(), wanted) == answers.end();
          const bool right = format || wanted == answers[random.below(answers.size())];
          return FakeScorer::Answer{std::log(static_cast<double>(answers.size())), right};
        },
        {.vocabulary = chosen.task->vocabulary(), .train_length = 128});
    const std::int64_t length = chosen.generator->train.high;
    const Row row = run(name, guesser, {{"lengths", {length}}, {"examples", 600}}).at("algo_summary").at(0);
    const double chance = value("algo_summary", row, "chance_tok");
    BOOST_TEST(std::abs(value("algo_summary", row, "token_acc") - chance) < 4 * std::sqrt(chance / 600) + 1e-9, name);
    const double exact = value("algo_summary", row, "chance_em");
    BOOST_TEST(std::abs(value("algo_summary", row, "em") - exact) < 4 * std::sqrt(exact / 600) + 1e-9, name);
  }
}

BOOST_AUTO_TEST_CASE(what_follows_a_terminator_does_not_spoil_an_answer) {
  const Json task = {{"kind", "stack_manip"}};
  // Wrong on every padding zero: an answer is 2, then zeros up to the end.
  FakeScorer careless(
      [](const std::vector<std::int32_t>& ids, std::int64_t target) {
        std::size_t separator = 0;
        while (ids[separator] != data::kTaskSep) ++separator;
        bool ended = false;
        for (std::size_t i = separator + 1; i < static_cast<std::size_t>(target); ++i)
          ended = ended || ids[i] == data::kFirstSymbol + 2;
        const bool padding = ended && ids[static_cast<std::size_t>(target)] == data::kFirstSymbol;
        return FakeScorer::Answer{padding ? 5.0 : 0.0, !padding};
      },
      {.vocabulary = vocabulary(task), .train_length = 128});
  const Row row = run(task, careless, {{"lengths", {20}}, {"examples", 50}}).at("algo_summary").at(0);
  BOOST_TEST(value("algo_summary", row, "em") == 1);
  BOOST_TEST(value("algo_summary", row, "token_acc") == 1);
}

BOOST_AUTO_TEST_CASE(lengths_without_positions_or_examples_and_models_of_text_say_so) {
  const Json task = {{"kind", "dyck"}};
  FakeScorer bounded(
      [](const auto&, std::int64_t) {
        return FakeScorer::Answer{1.0, false};
      },
      {.vocabulary = vocabulary(task), .train_length = 32, .max_positions = 32});
  const Rows rows = run(task, bounded, {{"lengths", {7, 30, 40}}, {"train", 30}, {"examples", 4}});
  const auto state = [&](const Rows& of, std::size_t row) {
    return text(cell("algo_summary", of.at("algo_summary").at(row), "status"));
  };
  BOOST_TEST(state(rows, 0) == "na_length");
  BOOST_TEST(state(rows, 1) == "ok");
  BOOST_TEST(state(rows, 2) == "na_positions");
  // By default the task's own lengths: brackets come in pairs.
  std::vector<double> lengths;
  const Rows by_default = run(task, bounded, {{"train", 30}, {"examples", 4}});
  for (const Row& row : by_default.at("algo_summary")) lengths.push_back(value("algo_summary", row, "length"));
  BOOST_TEST((lengths == std::vector<double>{30, 38, 46, 60, 120}));
  for (const std::size_t row : {0, 2})
    BOOST_TEST(std::isnan(value("algo_summary", rows.at("algo_summary").at(row), "em")));
  const Row mean = rows_where(rows, "algo_length", {{"measure", "ood_mean_em"}}).at(0);
  BOOST_TEST(std::isnan(value("algo_length", mean, "value")));  // no number where a length is missing
  BOOST_TEST(state(run(nullptr, bounded, Json::object()), 0) == "na_vocabulary");
}

BOOST_AUTO_TEST_CASE(brackets_count_by_the_distance_to_what_they_close) {
  const Json task = {{"kind", "dyck"}};
  std::set<std::size_t> distances;
  // Always right, and sure of it only where the bracket was opened at most five symbols before.
  FakeScorer forgetful(
      [&](const std::vector<std::int32_t>& ids, std::int64_t target) {
        const auto at = static_cast<std::size_t>(target);
        const auto closes = [&](std::size_t i) {
          return ids[i] >= data::kFirstSymbol + 8 && ids[i] < data::kFirstSymbol + 16;
        };
        if (at >= ids.size() || !closes(at)) return FakeScorer::Answer{0.1, true, 0};
        std::size_t open = at;
        int depth = 0;
        do {
          depth += closes(open) ? 1 : -1;
          --open;
        } while (depth != 0);
        distances.insert(at - open - 1);
        return FakeScorer::Answer{0.1, true, at - open - 1 <= 5 ? 0.81 : 0.79};
      },
      {.vocabulary = vocabulary(task), .train_length = 128});
  const Rows rows = run(task, forgetful, {{"lengths", {100}}, {"examples", 40}});
  BOOST_TEST(distances.size() > 10u);
  const Row row = rows_where(rows, "algo_length", {{"measure", "confident_100"}}).at(0);
  BOOST_TEST(value("algo_length", row, "value") == 3.0 / static_cast<double>(distances.size()),
             boost::test_tools::tolerance(1e-12));
  const Json other = {{"kind", "reverse_string"}};
  FakeScorer sure(
      [](const auto&, std::int64_t) {
        return FakeScorer::Answer{0.0, true};
      },
      {.vocabulary = vocabulary(other), .train_length = 128});
  const Rows others = run(other, sure, {{"lengths", {20}}, {"examples", 4}});
  BOOST_TEST(rows_where(others, "algo_length", {{"measure", "confident_20"}}).empty());
}

BOOST_AUTO_TEST_CASE(options_of_a_test_may_differ_from_those_of_training_but_not_the_symbols) {
  const Json task = {{"kind", "selcopy"}};
  std::set<std::size_t> lengths;
  FakeScorer recorder(
      [&](const std::vector<std::int32_t>& ids, std::int64_t) {
        std::size_t separator = 0;
        while (ids[separator] != data::kTaskSep) ++separator;
        lengths.insert(separator - 1);
        return FakeScorer::Answer{1.0, false};
      },
      {.vocabulary = vocabulary(task), .train_length = 128});
  run(task, recorder, {{"lengths", {32}}, {"examples", 4}, {"options", {"blanks=2"}}});
  BOOST_TEST((lengths == std::set<std::size_t>{96}));
  const Json copy = {{"kind", "copy_multi"}};
  FakeScorer other(
      [](const auto&, std::int64_t) {
        return FakeScorer::Answer{1.0, false};
      },
      {.vocabulary = vocabulary(copy), .train_length = 128});
  BOOST_CHECK_EXCEPTION(run(copy, other, {{"options", {"alphabet=7"}}}), support::ConfigError, [](const auto& error) {
    return std::string(error.what()).find("11 symbols") != std::string::npos;
  });
  BOOST_CHECK_THROW(run(copy, other, {{"options", {"alphabet"}}}), support::ConfigError);
}

/// A workspace in a folder that has the data and the model, for the stages that make and read them.
artifact::Workspace stage_in(const test::TempFolder& folder, const std::string& name) {
  artifact::Workspace place;
  place.inputs["data"] = {{folder / "data", artifact::Kind::kTokenShards, "", {}}};
  if (name != "train") place.inputs["model"] = {{folder / "model.h5", artifact::Kind::kCheckpoint, "", {}}};
  place.outputs = {{"data", folder / "data"},
                   {"model", folder / "model.h5"},
                   {"metrics", folder / "metrics.h5"},
                   {"scores", folder / "scores.h5"}};
  place.work = folder / name;
  support::make_folders(place.work);
  place.progress = &support::silent_progress();
  return place;
}

void generate_in(const test::TempFolder& folder, const Json& options) {
  auto place = stage_in(folder, "generate");
  data::generate(support::make_config<data::GenerateConfig>(Json{{"generate", options}}), place);
}

void train_in(const test::TempFolder& folder, const Json& config) {
  auto place = stage_in(folder, "train");
  training::train(support::make_config<training::TrainConfig>(config), place);
}

artifact::Table evaluate_in(const test::TempFolder& folder, const Json& options) {
  auto place = stage_in(folder, "evaluate");
  evaluate(support::make_config<EvaluateConfig>(Json{{"eval", options}}), place);
  return artifact::read_eval_tables(place.output("scores")).at("algo_summary");
}

BOOST_AUTO_TEST_CASE(a_small_model_learns_a_generated_task_and_is_tested_on_it) {
  const test::TempFolder folder;
  generate_in(folder, {{"task", {{"kind", "copy_repeat"}, {"alphabet", 5}}},
                       {"lengths", {2, 5}},
                       {"train", 2000},
                       {"validation", 40},
                       {"window", 16}});
  const data::TokenDataset dataset(folder / "data");

  // A training counts exactly the labels.
  model::ModelConfig shape;
  shape.width = 32;
  shape.layers = 2;
  shape.heads = 2;
  shape.length = 16;
  shape.encoding.json = "none";
  const model::LanguageModel model = model::LanguageModel::make(shape, dataset.vocabulary(), 3);
  const auto row = training::validate(model, dataset, 40, 8);
  std::vector<Sequence> sequences(40);
  for (std::size_t w = 0; w < 40; ++w) {
    std::vector<std::int64_t> ids(17), labels(16);
    dataset.window(data::Split::kValidation, 16, w, ids);
    dataset.read_labels(data::Split::kValidation, w * 16, labels);
    sequences[w].ids.assign(ids.begin(), ids.end() - 1);
    sequences[w].labels.assign(labels.begin(), labels.end());
  }
  double nll = 0, asked = 0;
  for (const MeanScore& score : score_all(*make_model_scorer(model, 64), sequences, 1)) {
    for (const double one : score.nll) nll += one;
    asked += static_cast<double>(score.nll.size());
  }
  BOOST_TEST(row->tokens_scored == static_cast<std::int64_t>(asked));
  BOOST_TEST(std::abs(row->loss - nll / asked) < 1e-4);

  train_in(folder, {{"model", {{"width", 32}, {"layers", 2}, {"heads", 2}, {"encoding", "none"}}},
                    {"train",
                     {{"length", 16},
                      {"batch", 32},
                      {"tokens", 16 * 32 * 220},
                      {"peak_lr", 0.01},
                      {"warmup_steps", 20},
                      {"validate_windows", 40},
                      {"validate_every", 0}}}});
  const artifact::Table summary =
      evaluate_in(folder, {{"tasks", {"algorithmic"}},
                           {"algorithmic", {{"lengths", {2, 4, 5}}, {"train", 5}, {"examples", 100}}}});
  BOOST_REQUIRE(summary.rows() == 3u);
  for (std::size_t at = 0; at < 3; ++at) {
    BOOST_TEST(summary.texts("task")[at] == "copy_repeat");
    BOOST_TEST(summary.reals("token_acc")[at] > summary.reals("chance_tok")[at] + 0.1);
  }
  BOOST_TEST(summary.reals("token_acc")[2] > 0.8);
  // A model of another length cannot read the windows.
  BOOST_CHECK_EXCEPTION(train_in(folder, {{"train", {{"length", 32}}}}), support::ArtifactError, [](const auto& error) {
    const std::string text = error.what();
    return text.find("examples of 16 tokens") != std::string::npos &&
           text.find("train.length is 32") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(a_model_that_sees_all_tokens_is_tested_on_answers_that_are_not_among_them) {
  const auto learns = [](const char* mode) {
    const test::TempFolder folder;
    generate_in(folder, {{"task", {{"kind", "bucket_sort"}, {"mode", mode}}},
                         {"lengths", {2, 6}},
                         {"train", 2000},
                         {"validation", 40},
                         {"window", 16},
                         {"padding", "apart"}});
    train_in(folder, {{"model",
                       {{"width", 32}, {"layers", 2}, {"heads", 2}, {"encoding", "rope"}, {"mask", "bidirectional"}}},
                      {"train",
                       {{"length", 16},
                        {"batch", 32},
                        {"tokens", 16 * 32 * 220},
                        {"documents", "masked"},
                        {"peak_lr", 0.01},
                        {"warmup_steps", 20},
                        {"validate_windows", 40},
                        {"validate_every", 0}}}});
    BOOST_CHECK_EXCEPTION(evaluate_in(folder, {{"tasks", {"perplexity", "algorithmic"}}}), support::ConfigError,
                          [](const auto& error) {
                            return std::string(error.what()).find("eval.tasks has 'perplexity'") != std::string::npos;
                          });
    return evaluate_in(folder, {{"tasks", {"algorithmic"}},
                                {"algorithmic", {{"lengths", {3, 6}}, {"train", 6}, {"examples", 100}}}});
  };
  // One answer, after the last token.
  {
    const test::TempFolder folder;
    generate_in(folder, {{"task", {{"kind", "even_pairs"}, {"mode", "parallel"}}},
                         {"lengths", {2, 6}},
                         {"train", 100},
                         {"validation", 10},
                         {"window", 16},
                         {"padding", "apart"}});
    train_in(folder, {{"model", {{"width", 16}, {"layers", 1}, {"heads", 1}, {"mask", "bidirectional"}}},
                      {"train",
                       {{"length", 16},
                        {"batch", 4},
                        {"tokens", 16 * 4 * 2},
                        {"documents", "masked"},
                        {"warmup_steps", 0},
                        {"validate_every", 0}}}});
    const artifact::Table scores = evaluate_in(
        folder, {{"tasks", {"algorithmic"}}, {"algorithmic", {{"lengths", {3, 6}}, {"train", 6}, {"examples", 10}}}});
    for (const std::string& status : scores.texts("status")) BOOST_TEST(status == "ok");
  }
  const artifact::Table summary = learns("parallel");
  BOOST_REQUIRE(summary.rows() == 2u);
  for (const double accuracy : summary.reals("token_acc")) BOOST_TEST(accuracy > 0.8);
  // Answers in the input would be copied.
  BOOST_CHECK_EXCEPTION(learns("sequence"), support::ConfigError, [](const auto& error) {
    return std::string(error.what()).find("sees the tokens that it is to predict") != std::string::npos;
  });
}

BOOST_AUTO_TEST_SUITE_END()
