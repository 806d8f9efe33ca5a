// The stage's body on real artifacts: token shards of bytes and an untrained model.
#include "evaluation/evaluate.h"
#include "evaluation/measure.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "artifact/artifact_check.h"
#include "artifact/checkpoint.h"
#include "artifact/eval_table.h"
#include "artifact/raw_text.h"
#include "data/sources/stories.h"
#include "data/token_shards/tokenize.h"
#include "data/tokenizers/tokenizer.h"
#include "evaluation/bench.h"
#include "evaluation/data_fit.h"
#include "evaluation/shard_documents.h"
#include "model/checkpoint_io.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/random.h"
#include "support/temp_folder.h"
#include "support/text.h"

using namespace pe;
using namespace pe::evaluation;
using test::Bench;

BOOST_AUTO_TEST_SUITE(evaluate_stage)

BOOST_AUTO_TEST_CASE(averages_and_the_best_weights_are_measured_where_that_is_asked_for) {
  // Also where a table grows, and under rules that replace the encoding.
  const std::vector<std::pair<Json, Json>> cases = {
      {"rope",
       Json{{"tasks", {"perplexity", "extension"}}, {"extension", {{"variants", {"plain", "pi", "logit_scale"}}}}}},
      {"learned", Json{{"tasks", {"perplexity"}}, {"beyond", "untrained"}}}};
  for (const auto& [encoding, options] : cases) {
    const Bench bench(encoding, {}, /*averages=*/true);
    const auto losses = [&](const std::string& name, const char* file, Json more) {
      artifact::Workspace workspace = bench.workspace(name);
      workspace.inputs["model"] = {{bench.folder / file, artifact::Kind::kCheckpoint, "", {}}};
      more.update(options);
      workspace.work = bench.folder / ("work of " + name);  // whose journal knows the config that a test leaves out
      support::make_folders(workspace.work);
      evaluate(Bench::config(more), workspace);
      return artifact::read_eval_tables(workspace.output("scores"));
    };
    const artifact::Tables own = losses("own", "model.h5", Json::object()),
                           averaged = losses("ema", "model.h5", {{"weights", "ema"}}),
                           best = losses("best", "model.h5", {{"weights", "best"}}),
                           alone = losses("alone", "averages.h5", Json::object());
    int compared = 0;
    for (const artifact::Table& table : alone.tables) {
      const std::string& name = table.name();
      if (!table.find_column("ppl")) continue;
      const auto text = [&](const artifact::Tables& tables) {  // a missing cell is NaN
        std::string all;
        for (const double value : tables.at(name).reals("ppl")) all += support::shortest(value) + " ";
        return all;
      };
      BOOST_TEST(text(averaged) == text(alone), name);
      BOOST_TEST(text(best) == text(alone), name);
      BOOST_TEST(best.at(name).integers("step").front() == 9);
      BOOST_TEST(own.at(name).integers("step").front() == 17);
      BOOST_TEST(text(own) != text(alone), name);
      ++compared;
    }
    BOOST_TEST(compared > 0);
    BOOST_TEST(averaged.facts["weights"] == "ema");
    BOOST_TEST(best.facts["weights"] == "best");
    BOOST_TEST(best.facts["step"] == 9);
    BOOST_TEST(best.facts["tokens_seen"] == 900);
    BOOST_TEST(!own.facts.contains("weights"));
  }
  const Bench without;
  artifact::Workspace workspace = without.workspace("scores");
  BOOST_CHECK_EXCEPTION(
      evaluate(Bench::config({{"weights", "ema"}}), workspace), support::ArtifactError, [](const auto& error) {
        const std::string text = error.what();
        return text.find("model.h5: holds no averages of its weights, since train.ema was 0") != std::string::npos &&
               text.find("set weights: model, or train with train.ema above 0") != std::string::npos;
      });
  BOOST_CHECK_EXCEPTION(
      evaluate(Bench::config({{"weights", "best"}}), workspace), support::ArtifactError, [](const auto& error) {
        const std::string text = error.what();
        return text.find("model.h5: holds no weights of its best validation, since train.best was false") !=
                   std::string::npos &&
               text.find("train with train.best: true") != std::string::npos;
      });
}

namespace {

artifact::Tables scores_of(const Bench& bench, const std::string& name, Json more) {
  artifact::Workspace workspace = bench.workspace(name);
  workspace.work = bench.folder / ("work of " + name);  // whose journal knows the config that a test leaves out
  support::make_folders(workspace.work);
  more.update({{"tasks", {"perplexity"}}});
  evaluate(Bench::config(more), workspace);
  return artifact::read_eval_tables(workspace.output("scores"));
}

std::string perplexities(const artifact::Tables& tables) {
  std::string all;
  for (const double value : tables.at("lm_summary").reals("ppl")) all += support::shortest(value) + " ";
  return all;
}

std::string refusal_to_lay(const Bench& bench, const Json& encoding) {
  try {
    scores_of(bench, "refused", {{"encoding", encoding}});
  } catch (const support::ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

/// Weights are the same for the same seed, so a model that was made with the rule has the expected result.
BOOST_AUTO_TEST_CASE(an_encoding_laid_over_a_checkpoint_measures_as_a_model_that_has_it) {
  const Json yarn = {{"kind", "yarn"}, {"factor", 4.0}, {"base", 500.0}};
  const Bench rope(Json{{"kind", "rope"}, {"base", 500.0}}), made(yarn);
  const artifact::Tables plain = scores_of(rope, "plain", {}), own = scores_of(made, "own", {}),
                         laid = scores_of(rope, "laid", {{"encoding", {{"kind", "yarn"}, {"factor", 4.0}}}});
  BOOST_TEST(perplexities(laid) == perplexities(own));
  BOOST_TEST(perplexities(laid) != perplexities(plain));
  BOOST_TEST(perplexities(scores_of(rope, "said", {{"encoding", "trained"}})) == perplexities(plain));
  BOOST_TEST(perplexities(scores_of(rope, "itself", {{"encoding", {{"kind", "rope"}, {"base", 500.0}}}})) ==
             perplexities(plain));
  // A factor that is not given follows the longest context; base and layout come from the checkpoint.
  BOOST_TEST(perplexities(scores_of(rope, "factor", {{"encoding", "yarn"}})) == perplexities(own));
  // Tables distinguish the two, and name the encoding and the weights that it was laid over.
  const std::string run = plain.facts["run_id"];
  BOOST_TEST(laid.at("lm_summary").texts("run_id")[0].find(run + "-yarn-") == 0u);
  BOOST_TEST(laid.at("lm_summary").texts("pe")[0] == "yarn");
  BOOST_TEST(laid.facts["encoding"]["base"] == 500.0);
  BOOST_TEST(laid.facts["trained_encoding"]["kind"] == "rope");
  BOOST_TEST(!plain.facts.contains("trained_encoding"));
  // The rotating member of a stack is replaced, and its other members keep their parameters.
  const Bench stack(Json::parse(R"({"stack": ["rope", "ssmax"]})")),
      stacked(Json::parse(R"({"stack": [{"kind": "yarn", "factor": 4.0}, "ssmax"]})"));
  BOOST_TEST(perplexities(scores_of(stack, "laid", {{"encoding", {{"kind", "yarn"}, {"factor", 4.0}}}})) ==
             perplexities(scores_of(stacked, "own", {})));
}

BOOST_AUTO_TEST_CASE(an_encoding_whose_parameters_the_checkpoint_lacks_is_refused) {
  const auto says = [](const std::string& text, const std::vector<std::string>& parts) {
    for (const std::string& part : parts)
      BOOST_TEST(text.find(part) != std::string::npos, "'" << part << "' is missing in: " << text);
  };
  const Bench rope, fire("fire"), t5("t5");
  says(refusal_to_lay(rope, "fire"),
       {"eval.encoding: 'fire' cannot be laid over", "model.h5, which was trained with 'rope'",
        "the checkpoint has no parameter 'encoding.fire.0.", "pe-extend"});
  says(refusal_to_lay(fire, "alibi"),
       {"'alibi' cannot be laid over", "it has no parameter 'encoding.fire.0.", "which was trained"});
  says(refusal_to_lay(t5, {{"kind", "t5"}, {"buckets", 16}}),
       {"parameter 'encoding.t5.table' is [32, 2] there, and [16, 2] is needed"});
  says(refusal_to_lay(rope, "rope_pp"), {"several attention heads"});
  says(refusal_to_lay(rope, "yran"), {"'encoding' cannot be 'yran'", "did you mean 'yarn'?"});
  BOOST_TEST(refusal_to_lay(t5, "t5") == "accepted");
}

/// Results from before the option stay valid: a config that does not use it has the document that it had.
BOOST_AUTO_TEST_CASE(an_evaluation_as_trained_has_no_encoding_in_its_key) {
  const support::Schema schema = support::schema_of<EvaluateConfig>();
  Json config = support::defaults(schema);
  BOOST_TEST(!support::hashed_config(schema, config)["eval"].contains("encoding"));
  config["eval"]["encoding"] = {{"kind", "rope"}};
  BOOST_TEST(support::hashed_config(schema, config)["eval"]["encoding"]["kind"] == "rope");
}

BOOST_AUTO_TEST_CASE(every_row_tells_run_encoding_seed_and_step) {
  const Bench bench;
  artifact::Workspace workspace = bench.workspace("scores");
  evaluate(Bench::config(), workspace);
  const artifact::Tables tables = artifact::read_eval_tables(workspace.output("scores"));
  const std::string run = artifact::artifact_content_digest(bench.folder / "model.h5").substr(0, 12);
  for (const char* name :
       {"lm_doc", "lm_summary", "retrieval_trial", "retrieval_summary", "algo_trial", "algo_summary"}) {
    const artifact::Table& table = tables.at(name);
    BOOST_TEST(table.rows() > 0);
    for (std::size_t row = 0; row < table.rows(); ++row) {
      BOOST_TEST(table.texts("run_id")[row] == run);
      BOOST_TEST(table.texts("pe")[row] == "rope");
      BOOST_TEST(table.integers("seed")[row] == 42);
      BOOST_TEST(table.integers("step")[row] == 17);
    }
  }
  BOOST_TEST(tables.at("lm_summary").rows() == 9);
  BOOST_TEST(tables.at("lm_doc").rows() == 72);
  BOOST_TEST(tables.facts["train_length"] == 32);
  // Letters drawn evenly, an untrained model of 258 ids: the perplexity is about its vocabulary.
  for (const double perplexity : tables.at("lm_summary").reals("ppl")) {
    BOOST_TEST(perplexity > 200);
    BOOST_TEST(perplexity < 330);
  }
}

// L tokens are fed and L are predicted there, so the last target is no token of the input.
BOOST_AUTO_TEST_CASE(windows_that_predict_the_token_after_them_are_measured) {
  const Bench bench;
  for (const char* protocol : {"alibi", "alibi_stride_1", "harness"}) {
    const artifact::Tables scores = scores_of(bench, protocol, {{"perplexity", {{"protocols", {protocol}}}}});
    BOOST_TEST_CONTEXT(protocol) { BOOST_TEST(scores.at("lm_doc").rows() > 0u); }
  }
}

BOOST_AUTO_TEST_CASE(a_killed_evaluation_goes_on_to_the_same_bytes) {
  const Bench bench;
  artifact::Workspace first = bench.workspace("first");
  evaluate(Bench::config(), first);
  const std::filesystem::path journal = first.work / "evaluation.jsonl";
  const std::string whole = support::read_file(journal);
  // Killed in the middle of writing an item.
  support::write_file_atomically(journal, whole.substr(0, whole.size() / 2), false);
  artifact::Workspace second = bench.workspace("second");
  second.resume = second.work;
  evaluate(Bench::config(), second);
  BOOST_TEST(support::read_file(first.output("scores")) == support::read_file(second.output("scores")));
  BOOST_TEST(support::read_file(journal) == whole);
}

BOOST_AUTO_TEST_CASE(lengths_beyond_a_learned_table_are_na_or_follow_the_policy) {
  const Bench bench("learned");
  for (const char* policy : {"report_na", "clamp", "untrained", "interpolate"}) {
    artifact::Workspace workspace = bench.workspace(policy);
    evaluate(Bench::config({{"beyond", policy}}), workspace);
    const artifact::Tables tables = artifact::read_eval_tables(workspace.output("scores"));
    const artifact::Table& summary = tables.at("lm_summary");
    for (std::size_t row = 0; row < summary.rows(); ++row) {
      const bool beyond = summary.integers("L")[row] > 32;
      const bool na = beyond && policy == std::string("report_na");
      BOOST_TEST(summary.texts("status")[row] == (na ? "na_positions" : "ok"));
      BOOST_TEST(summary.missing(row, summary.column("ppl")) == na);
    }
  }
}

BOOST_AUTO_TEST_CASE(probes_of_a_checkpoint_fill_their_tables_and_go_on_after_a_kill) {
  const Bench bench;
  const Json options = {{"tasks",
                         {"attention", "circuits", "frequencies", "logit_drift", "parameters", "pattern_similarity",
                          "position_loss", "position_probe", "reliance", "sinks"}},
                        {"attention", {{"sequences", 4}}},
                        {"circuits", {{"sequences", 4}}},
                        {"frequencies", {{"sequences", 4}, {"pairs", 8}}},
                        {"logit_drift", {{"sequences", 4}, {"pairs", 16}}},
                        {"pattern_similarity", {{"sequences", 4}}},
                        {"position_loss", {{"documents", 4}}},
                        {"position_probe", {{"sequences", 6}, {"steps", 3}}},
                        {"reliance", {{"sequences", 4}}},
                        {"sinks", {{"sequences", 4}}}};
  artifact::Workspace first = bench.workspace("first");
  first.inputs["reference"] = first.inputs["model"];
  evaluate(Bench::config(options), first);
  const artifact::Tables tables = artifact::read_eval_tables(first.output("scores"));
  for (const TaskEntry& task : evaluation::tasks()) {
    if (std::find(options["tasks"].begin(), options["tasks"].end(), Json(task.name)) == options["tasks"].end())
      continue;
    for (const std::string& name : task.tables) {
      BOOST_TEST_CONTEXT(name) {
        const artifact::Table& table = tables.at(name);
        BOOST_TEST(table.rows() > 0);
        if (!table.find_column("status")) continue;
        for (const std::string& status : table.texts("status")) BOOST_TEST(status == "ok");
      }
    }
  }
  // A model is like itself.
  const artifact::Table& similar = tables.at("probe_similarity");
  for (const double divergence : similar.reals("divergence")) BOOST_TEST(std::abs(divergence) < 1e-9);
  BOOST_TEST(similar.texts("reference")[0].rfind("rope ", 0) == 0u);

  const std::filesystem::path journal = first.work / "evaluation.jsonl";
  const std::string whole = support::read_file(journal);
  support::write_file_atomically(journal, whole.substr(0, whole.size() / 2), false);
  artifact::Workspace second = bench.workspace("second");
  second.inputs["reference"] = second.inputs["model"];
  second.resume = second.work;
  evaluate(Bench::config(options), second);
  BOOST_TEST(support::read_file(first.output("scores")) == support::read_file(second.output("scores")));
}

BOOST_AUTO_TEST_CASE(words_end_where_white_space_or_nothing_follows) {
  const test::TempFolder folder;
  const auto bytes = data::make_byte_tokenizer();
  artifact::TokenizerRecord record = bytes->record();
  record.bos_before_documents = true;
  artifact::TokenShardsWriter shards(folder / "bytes", {}, record, 1 << 20);
  std::vector<std::int32_t> ids = {static_cast<std::int32_t>(bytes->bos_id())};
  for (const char c : std::string("ab  cd\nef")) ids.push_back(c);
  shards.add(artifact::Split::kTest, ids.data(), ids.size(), 9, 0);
  artifact::DatasetTotals totals;
  shards.finish(totals);
  const data::TokenDataset dataset(folder / "bytes");
  const auto documents = make_shard_documents(dataset, *bytes, data::Split::kTest);
  const auto check = [&](std::int64_t limit, const std::vector<std::int32_t>& expected) {
    BOOST_TEST(documents->words(0, limit) == expected, boost::test_tools::per_element());
  };
  check(9, {0, 1, 0, 0, 0, 1, 0, 0, 1});
  check(5, {0, 1, 0, 0, 0});  // c is no word: d follows
  check(6, {0, 1, 0, 0, 0, 1});
  check(100, {0, 1, 0, 0, 0, 1, 0, 0, 1});

  // Pieces with spaces in front of them, and a space that is no byte of the text.
  std::vector<std::string> texts;
  artifact::RawTextWriter raw(folder / "raw", {}, 100'000);
  for (std::uint64_t i = 0; i < 40; ++i) {
    texts.push_back(data::make_story(3, i, 50, 400).text);
    raw.add(texts.back(), "texts", i);
  }
  raw.finish();
  data::TokenizeConfig config;
  config.vocabulary = 500;
  config.split = {.train = 1, .validation = 0, .test = 0};
  artifact::Workspace workspace;
  workspace.inputs["raw"] = {{folder / "raw", artifact::Kind::kRawText, "", {}}};
  workspace.outputs["data"] = folder / "pieces";
  workspace.progress = &support::silent_progress();
  data::tokenize(config, workspace);
  const data::TokenDataset pieces(folder / "pieces");
  const auto tokenizer = data::make_tokenizer(pieces.tokenizer(), "pieces");
  const auto stories = make_shard_documents(pieces, *tokenizer, data::Split::kTrain);
  BOOST_REQUIRE(stories->count() == 40);
  for (std::int64_t id = 0; id < 40; ++id) {
    std::istringstream in(texts[pieces.document(data::Split::kTrain, static_cast<std::uint64_t>(id)).index]);
    std::int64_t expected = 0, found = 0;
    for (std::string word; in >> word;) ++expected;
    for (const std::int32_t ends : stories->words(id, stories->tokens(id))) found += ends;
    BOOST_TEST(found == expected);
  }
}

BOOST_AUTO_TEST_CASE(cost_is_measured_both_ways_and_says_where) {
  const Bench bench;
  artifact::Workspace workspace = bench.workspace("unused");
  workspace.inputs.erase("data");
  workspace.outputs["cost"] = bench.folder / "cost.h5";
  measure(support::make_config<MeasureConfig>(
              Json{{"measure", {{"lengths", {48}}, {"warmup", 1}, {"repetitions", 3}, {"training_step", true}}}}),
          workspace);
  const artifact::Tables measured = artifact::read_eval_tables(workspace.output("cost"));
  const artifact::Table& cost = measured.at("cost");
  BOOST_TEST(cost.rows() == 10u);  // two paths of four components, and two of a training step
  std::set<std::string> seen;
  for (std::size_t row = 0; row < cost.rows(); ++row) {
    const std::string component = cost.texts("component")[row];
    seen.insert(cost.texts("path")[row] + " " + component);
    BOOST_TEST(cost.integers("T")[row] == 48);
    BOOST_TEST(cost.integers("reps")[row] == 3);
    BOOST_TEST(!cost.texts("device")[row].empty());
    BOOST_TEST(cost.texts("dtype")[row] == "fp32");
    BOOST_TEST(cost.reals("p25_ms")[row] <= cost.reals("median_ms")[row]);
    BOOST_TEST(cost.reals("median_ms")[row] <= cost.reals("p75_ms")[row]);
    if (component != "encode") {  // a difference, which may be anything
      BOOST_TEST(cost.reals("p25_ms")[row] > 0);
      BOOST_TEST(cost.integers("peak_bytes")[row] > 0);
    }
  }
  for (const char* path : {"unfused", "best"}) {
    for (const char* component : {"encode", "attention", "forward", "forward_none"})
      BOOST_TEST(seen.count(std::string(path) + " " + component) == 1u);
  }
  const Bench bounded("learned");
  artifact::Workspace beyond = bounded.workspace("unused");
  beyond.outputs["cost"] = bounded.folder / "cost.h5";
  measure(support::make_config<MeasureConfig>(Json{{"measure", {{"lengths", {48}}}}}), beyond);
  const artifact::Tables unmeasured = artifact::read_eval_tables(beyond.output("cost"));
  const artifact::Table& none = unmeasured.at("cost");
  BOOST_TEST(none.texts("status")[0] == "na_positions");
  BOOST_TEST(none.missing(0, none.column("median_ms")));
}

BOOST_AUTO_TEST_CASE(a_model_of_another_tokenizer_is_refused) {
  const Bench bench("none", "0123456789abcdef");
  artifact::Workspace workspace = bench.workspace("scores");
  BOOST_CHECK_EXCEPTION(evaluate(Bench::config(), workspace), support::ArtifactError, [](const auto& error) {
    return std::string(error.what()).find("0123456789ab") != std::string::npos;
  });
  BOOST_TEST(!std::filesystem::exists(workspace.output("scores")));
}

BOOST_AUTO_TEST_CASE(documents_that_the_model_was_trained_on_are_refused_with_both_splits) {
  const Bench bench;
  const artifact::TokenizerRecord record = data::make_byte_tokenizer()->record();
  // 400 documents for testing, of which the model has seen some.
  const auto shards = [&](const std::string& name, const std::string& rule) {
    artifact::TokenShardsWriter writer(bench.folder / name, {}, record, 1 << 20);
    artifact::SplitRecord splits{.rule = rule, .documents = {}};
    for (std::uint64_t i = 0; i < 400; ++i) {
      const std::int32_t id = static_cast<std::int32_t>('a' + i % 26);
      writer.add(artifact::Split::kTest, &id, 1, 1, i);
      splits.documents[2].add(support::fnv1a64(std::to_string(i)));
    }
    writer.set_splits(std::move(splits));
    artifact::DatasetTotals totals;
    writer.finish(totals);
    return data::TokenDataset(bench.folder / name);
  };
  const auto model = [&](const std::string& name, std::uint64_t seen, const std::string& data_digest) {
    artifact::CheckpointMeta meta;
    meta.tokenizer_digest = record.digest();
    meta.data_digest = data_digest;
    meta.split_rule = "train 0.99, validation 0.01, test 0 by hash";
    for (std::uint64_t i = 0; i < 1000; ++i)
      meta.trained_on.add(support::fnv1a64(std::to_string(i < seen ? i : 1000 + i)));
    artifact::CheckpointWriter(bench.folder / name, {}, meta).finish();
    return artifact::CheckpointReader(bench.folder / name);
  };
  struct Lines : support::Progress {
    std::string all;
    void note(std::string_view) override {}
    void warn(std::string_view line) override { all += line; }
    void advance(std::string_view, std::int64_t, std::int64_t, const Json&) override {}
    void event(const Json&) override {}
  } lines;
  const data::TokenDataset dataset = shards("seen", "train 0, validation 0, test 1 by hash");
  const auto fit = [&](const artifact::CheckpointReader& of, data::Split split = data::Split::kTest) {
    lines.all.clear();
    require_fit(of, dataset, "seen", split, lines);
    return lines.all;
  };
  BOOST_TEST(fit(model("none.h5", 0, "x")).empty());
  BOOST_TEST(fit(model("few.h5", 4, "x")).find("was trained on 4 of 400 sampled documents of split test") !=
             std::string::npos);
  BOOST_TEST(fit(model("own.h5", 400, dataset.content_digest())).empty());
  BOOST_TEST(fit(model("train.h5", 400, "x"), data::Split::kTrain).empty());
  const auto says_both = [](const auto& error) {
    const std::string text = error.what();
    return text.find(
               "was trained on 40 of 400 sampled documents of split test; its own data was split into train 0.99, "
               "validation 0.01, test 0 by hash; "
               "this data into train 0, validation 0, test 1 by hash") != std::string::npos;
  };
  BOOST_CHECK_EXCEPTION(fit(model("many.h5", 40, "x")), support::ArtifactError, says_both);
  artifact::Workspace workspace = bench.workspace("scores");
  workspace.inputs["model"] = {{bench.folder / "many.h5", artifact::Kind::kCheckpoint, "", {}}};
  workspace.inputs["data"] = {{bench.folder / "seen", artifact::Kind::kTokenShards, "", {}}};
  BOOST_CHECK_EXCEPTION(evaluate(Bench::config(), workspace), support::ArtifactError, says_both);
}

BOOST_AUTO_TEST_CASE(one_checkpoint_is_measured_under_every_static_rule) {
  const Bench bench;
  artifact::Workspace workspace = bench.workspace("extension");
  evaluate(Bench::config({{"tasks", {"extension"}}, {"extension", {{"scales", {0, 0.5}}}}}), workspace);
  const artifact::Tables tables = artifact::read_eval_tables(workspace.output("scores"));
  const artifact::Table& table = tables.at("lm_extension");
  std::map<std::string, std::map<std::int64_t, double>> loss;
  std::map<std::string, std::set<std::string>> states;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const std::string variant = table.texts("variant")[row];
    states[variant].insert(table.texts("status")[row]);
    loss[variant][table.integers("L")[row]] = table.reals("nll_mean")[row];
  }
  BOOST_TEST(loss.size() == 12u);
  for (const char* rule : {"pi", "ntk", "dyn_ntk", "ntk_parts", "llama3", "yarn", "longrope"}) {
    BOOST_TEST((states[rule] == std::set<std::string>{"ok"}), rule);
    // A factor of 1 is the plain encoding; beyond, frequencies differ and so do losses.
    BOOST_TEST(loss[rule][32] == loss["plain"][32], rule);
    BOOST_TEST(loss[rule][128] != loss["plain"][128], rule);
  }
  // Cropped, more context is no other context.
  BOOST_TEST(loss["crop"][64] == loss["crop"][32]);
  BOOST_TEST(loss["crop"][128] == loss["plain"][32]);
  BOOST_TEST(loss["plain"][128] != loss["plain"][32]);
  BOOST_TEST((states["logit_scale"] == std::set<std::string>{"ok"}));
  BOOST_TEST(loss["logit_scale"][32] == loss["plain"][32]);
  const Bench none("none");
  artifact::Workspace other = none.workspace("extension");
  evaluate(Bench::config({{"tasks", {"extension"}}, {"extension", {{"variants", {"yarn", "crop"}}}}}), other);
  const artifact::Tables found = artifact::read_eval_tables(other.output("scores"));
  const artifact::Table& without = found.at("lm_extension");
  for (std::size_t row = 0; row < without.rows(); ++row) {
    const bool rule = without.texts("variant")[row] == "yarn";
    BOOST_TEST(without.texts("status")[row] == (rule ? "na_encoding" : "ok"));
    BOOST_TEST(without.missing(row, without.column("ppl")) == rule);
  }
}

/// Loss of each variant at 32 (the training length) and 64 tokens, of the same weights.
std::map<std::string, std::map<std::int64_t, double>> losses(const Json& encoding, const Json& extension) {
  const Bench bench(encoding, {}, false, /*layers=*/2);
  artifact::Workspace workspace = bench.workspace("extension");
  evaluate(Bench::config({{"tasks", {"extension"}}, {"lengths", {1, 2}}, {"extension", extension}}), workspace);
  const artifact::Tables tables = artifact::read_eval_tables(workspace.output("scores"));
  const artifact::Table& table = tables.at("lm_extension");
  std::map<std::string, std::map<std::int64_t, double>> loss;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    BOOST_TEST(table.texts("status")[row] == "ok", table.texts("variant")[row]);
    loss[table.texts("variant")[row]][table.integers("L")[row]] = table.reals("nll_mean")[row];
  }
  return loss;
}

BOOST_AUTO_TEST_CASE(rules_extend_an_extended_checkpoint_from_its_factor) {
  const auto yarn = [](double factor) { return Json{{"kind", "yarn"}, {"factor", factor}, {"train_length", 16}}; };
  const auto twice = losses(yarn(2), {{"variants", {"plain", "yarn", "pi"}}});
  BOOST_TEST(twice.at("yarn").at(32) == twice.at("plain").at(32));
  BOOST_TEST(twice.at("yarn").at(64) == losses(yarn(4), {{"variants", {"plain"}}}).at("plain").at(64));
  BOOST_TEST(twice.at("pi").at(64) ==
             losses({{"kind", "pi"}, {"factor", 4}}, {{"variants", {"plain"}}}).at("plain").at(64));
}

BOOST_AUTO_TEST_CASE(dynamic_ntk_takes_its_factor_from_the_text_once) {
  const auto rope = losses("rope", {{"variants", {"plain", "dyn_ntk"}}});
  const auto trained = losses("dyn_ntk", {{"variants", {"plain"}}});
  BOOST_TEST(rope.at("dyn_ntk").at(64) == trained.at("plain").at(64));
  BOOST_TEST(rope.at("dyn_ntk").at(64) != rope.at("plain").at(64));
}

BOOST_AUTO_TEST_CASE(a_variant_that_an_encoding_cannot_take_has_no_number) {
  const auto states = [](const Json& encoding, const Json& evaluation, const char* table, const char* name) {
    const Bench bench(encoding);
    artifact::Workspace workspace = bench.workspace("scores");
    evaluate(Bench::config(evaluation), workspace);
    const artifact::Tables tables = artifact::read_eval_tables(workspace.output("scores"));
    std::map<std::string, std::string> found;
    for (std::size_t row = 0; row < tables.at(table).rows(); ++row)
      found[tables.at(table).texts(name)[row]] = tables.at(table).texts("status")[row];
    return found;
  };
  const Json rules = {{"tasks", {"extension"}},
                      {"extension", {{"variants", {"plain", "resonance", "logit_scale"}}, {"scales", {0, 0.5}}}}};
  const auto trained = states("lrope", rules, "lm_extension", "variant");
  BOOST_TEST(trained.at("plain") == "ok");
  BOOST_TEST(trained.at("resonance") == "na_encoding");
  BOOST_TEST(states("tapa", rules, "lm_extension", "variant").at("logit_scale") == "na_encoding");
  const auto reliance = states("rope_pp", {{"tasks", {"reliance"}}}, "probe_reliance", "test");
  BOOST_TEST(reliance.at("without_encoding") == "na_encoding");
  BOOST_TEST(reliance.at("translation") == "ok");
  // A table that is stretched to the text has no row for moved positions.
  const auto stretched = states("learned", {{"tasks", {"reliance", "position_loss"}}, {"beyond", "interpolate"}},
                                "probe_reliance", "test");
  BOOST_TEST(stretched.at("translation") == "na_positions");
  BOOST_TEST(stretched.at("constant_position") == "ok");
}

BOOST_AUTO_TEST_CASE(frequencies_and_layers_are_changed_one_at_a_time) {
  const auto one_band = losses("rope", {{"variants", {"plain", "pi", "base", "p_rope", "zeroed", "frozen", "layer"}},
                                        {"bands", 1},
                                        {"bases", {10000, 500000}},
                                        {"fractions", {1, 0.5, 0}}});
  const auto& plain = one_band.at("plain");
  // Interventions without effect give the same number, and equivalent routes agree.
  BOOST_TEST((one_band.at("base_10000") == plain));
  BOOST_TEST(std::abs(one_band.at("frozen_1").at(32) - plain.at(32)) < 1e-6);
  for (const std::int64_t length : {32, 64}) {
    BOOST_TEST(std::abs(one_band.at("p_rope_1").at(length) - plain.at(length)) < 1e-6);
    BOOST_TEST(std::abs(one_band.at("zeroed_1").at(length) - one_band.at("p_rope_0").at(length)) < 1e-6);
    BOOST_TEST(std::abs(one_band.at("frozen_1").at(length) - one_band.at("pi").at(length)) < 1e-6);
    for (const char* other : {"base_500000", "p_rope_0.5", "zeroed_1", "layer_0", "layer_1"}) {
      BOOST_TEST(std::abs(one_band.at(other).at(length) - plain.at(length)) > 1e-7, other);
    }
  }
  // Rotated in the first layer alone: inope with two layers of which the last is spared, and the same weights.
  const auto spared = losses({{"kind", "inope"}, {"interval", 2}}, {{"variants", {"plain"}}});
  const auto two_bands =
      losses("rope", {{"variants", {"zeroed", "layer", "p_rope"}}, {"bands", 2}, {"fractions", {0.5}}});
  for (const std::int64_t length : {32, 64}) {
    BOOST_TEST(std::abs(one_band.at("layer_1").at(length) - spared.at("plain").at(length)) < 1e-6);
    BOOST_TEST(std::abs(two_bands.at("zeroed_2").at(length) - two_bands.at("p_rope_0.5").at(length)) < 1e-6);
    BOOST_TEST(std::abs(two_bands.at("zeroed_1").at(length) - two_bands.at("zeroed_2").at(length)) > 1e-7);
  }

  const Bench alibi("alibi");
  artifact::Workspace workspace = alibi.workspace("extension");
  evaluate(Bench::config({{"tasks", {"extension"}},
                          {"extension", {{"variants", {"base", "zeroed", "layer"}}, {"bands", 1}, {"bases", {5e5}}}}}),
           workspace);
  const artifact::Tables tables = artifact::read_eval_tables(workspace.output("scores"));
  for (const std::string& status : tables.at("lm_extension").texts("status")) BOOST_TEST(status == "na_encoding");
}

BOOST_AUTO_TEST_SUITE_END()
