// pe-dummy: what its networks can see (item 20 of the specification's acceptance list), what its tables say, what it
// refuses.
#include "studies/dummy.h"

#include <ATen/core/grad_mode.h>
#include <torch/types.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <set>

#include "artifact/content_digest.h"
#include "artifact/eval_table.h"
#include "support/error.h"
#include "support/files.h"
#include "support/temp_folder.h"
#include "support/test_data.h"
#include "support/yaml.h"

using namespace pe;
using studies::DummyConfig;

namespace {

/// The config of a stage that takes configs/dummy/<network>.yml and these values over it.
DummyConfig config_with(const std::string& network, const Json& values) {
  const auto schema = support::schema_of<DummyConfig>();
  Json config = support::defaults(schema);
  support::Diagnostics diagnostics;
  support::overlay(schema, support::read_yaml(test::source_root() / "configs/dummy" / (network + ".yml")), config,
                   nullptr, diagnostics);
  diagnostics.throw_if_any();
  const test::TempFolder folder;
  support::write_file_atomically(folder / "values.yml", values.dump(), false);  // JSON is YAML
  support::overlay(schema, support::read_yaml(folder / "values.yml"), config, nullptr, diagnostics);
  diagnostics.throw_if_any();
  return support::make_config<DummyConfig>(config);
}

artifact::Tables run(const DummyConfig& config, const test::TempFolder& folder, const std::string& name = "scores.h5",
                     support::Progress& progress = support::silent_progress()) {
  artifact::Workspace workspace;
  workspace.outputs = {{"scores", folder / name}, {"timing", folder / ("timing-" + name)}};
  workspace.work = folder / ("work of " + name);
  support::make_folders(workspace.work);
  workspace.recipe.config = Json::object();
  workspace.progress = &progress;
  studies::dummy(config, workspace);
  return artifact::read_eval_tables(folder / name);
}

std::string refused(const Json& values) {
  try {
    support::make_config<DummyConfig>(values);
  } catch (const support::ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

/// Asks for a stop at some epochs, and keeps the messages.
struct Watch final : support::Progress {
  std::set<std::int64_t> stop_at;
  std::string said;
  std::int64_t epochs = 0;  // that were trained
  void note(std::string_view line) override { said += std::string(line) + "\n"; }
  void warn(std::string_view line) override { note(line); }
  void advance(std::string_view, std::int64_t done, std::int64_t, const Json&) override {
    ++epochs;
    if (stop_at.erase(done) > 0) support::request_stop(15);
  }
  void event(const Json&) override {}
};

/// Rows of a table where the columns hold these texts.
std::vector<std::size_t> rows_where(const artifact::Table& table, const std::map<std::string, std::string>& texts) {
  std::vector<std::size_t> found;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    bool all = true;
    for (const auto& [column, text] : texts) all = all && table.texts(column)[row] == text;
    if (all) found.push_back(row);
  }
  return found;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(dummy_stage)

BOOST_AUTO_TEST_CASE(in_mode_seed_tokens_of_a_row_never_meet_and_in_mode_fixed_rows_never_do) {
  for (const auto& [network, mode] : {std::pair{"over_batch", "seed"}, {"pre_norm", "fixed"}, {"post_norm", "fixed"}}) {
    DummyConfig config =
        config_with(network, {{"dummy", {{"mode", mode}}}, {"model", {{"layers", 2}, {"encoding", "sinusoidal"}}}});
    config.model.length = 64;
    const studies::DummyData data(config.dummy.options(), 42);
    const auto model = model::LanguageModel::make(config.model, data.vocabulary(), 42);
    const at::NoGradGuard guard;
    at::Tensor ids = at::empty({8, 64}, at::kLong);
    for (std::int64_t b = 0; b < 8; ++b) {
      const auto row = data.row(artifact::Split::kTest, b);
      for (std::int64_t t = 0; t < 64; ++t) ids[b][t] = row.ids[static_cast<std::size_t>(t)];
    }
    const at::Tensor before = model.logits(model.forward(ids));
    ids[2][3] = 90;
    const at::Tensor after = model.logits(model.forward(ids));
    for (std::int64_t b = 0; b < 8; ++b) {
      for (std::int64_t t = 0; t < 64; ++t) {
        const bool same = before[b][t].equal(after[b][t]);
        if (mode == std::string("seed"))
          BOOST_TEST(same == (t != 3), network << ": row " << b << ", position " << t);
        else
          BOOST_TEST(same == (b != 2 || t < 3), network << ": row " << b << ", position " << t);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_networks_are_those_of_the_notebook) {
  const auto parameters = [](const char* network, const Json& encoding) {
    DummyConfig config = config_with(network, {{"model", {{"layers", 1}, {"encoding", encoding}}}});
    config.model.length = 64;
    return std::pair(model::LanguageModel::make(config.model, 100, 42).parameter_count(),
                     studies::network_name(config.model));
  };
  const std::int64_t embedding_and_head = 100 * 64 + 100 * 64 + 100, projections = 4 * (64 * 64 + 64);
  const auto [layer, over_batch] =
      parameters("over_batch", "none");  // a framework's encoder layer has 33,472 parameters
  BOOST_TEST(layer == embedding_and_head + 33472);
  BOOST_TEST(over_batch == "post_norm_over_batch");
  BOOST_TEST(parameters("over_batch", "learned").first == embedding_and_head + 33472 + 64 * 64);
  BOOST_TEST(parameters("bare", "rope").first == embedding_and_head + projections);
  BOOST_TEST(parameters("bare", "lrope").first ==
             embedding_and_head + projections + 32);  // one factor a frequency and layer
  BOOST_TEST(parameters("bare", "rope").second == "bare_bidirectional");
  BOOST_TEST(parameters("post_norm", "none") == std::pair(layer, std::string("post_norm_causal")));
  BOOST_TEST(parameters("pre_norm", "none").second == "pre_norm_causal");
}

BOOST_AUTO_TEST_CASE(a_small_run_fills_the_tables_and_gives_the_same_bytes_again) {
  const test::TempFolder folder;
  const DummyConfig config =
      config_with("over_batch", {{"dummy", {{"epochs", {1, 2}}, {"train_rows", 96}, {"test_rows", 40}}},
                                 {"model", {{"layers", 1}, {"encoding", "sininit"}}}});
  const artifact::Tables tables = run(config, folder);
  const artifact::Table& grid = tables.at("dummy_grid");
  std::vector<std::string> columns;
  for (const auto& column : grid.columns()) columns.push_back(column.name);
  const std::vector<std::string> expected = {"mode",      "network",       "pe",        "depth",      "epochs",
                                             "seed",      "loss_headline", "loss_all",  "det_loss",   "det_acc",
                                             "loss_pos0", "loss_pos1",     "loss_pos2", "loss_pos3",  "loss_pos4",
                                             "loss_pos5", "loss_pos6",     "loss_pos7", "loss_pos63", "seconds"};
  BOOST_TEST(columns == expected, boost::test_tools::per_element());
  BOOST_REQUIRE(grid.rows() == 2u);
  BOOST_TEST(grid.texts("mode")[0] == "seed");
  BOOST_TEST(grid.texts("pe")[0] == "sininit");
  BOOST_TEST(grid.integers("epochs")[1] == 2);
  BOOST_TEST(grid.missing(0, grid.column("seconds")));  // measured: not in a result that is the same every time
  const auto headline = grid.reals("loss_headline");
  BOOST_TEST(headline[1] < headline[0]);
  BOOST_TEST(headline[0] > 2 * studies::DummyFloors::base() / 64);
  BOOST_TEST(headline[0] == grid.reals("loss_all")[0]);
  // Positions 1 to 6 alone make the determined loss, and with the others the whole.
  double determined = 0;
  for (const char* name : {"loss_pos1", "loss_pos2", "loss_pos3", "loss_pos4", "loss_pos5", "loss_pos6"})
    determined += grid.reals(name)[1] / 6;
  BOOST_TEST(std::abs(determined - grid.reals("det_loss")[1]) <= 1e-9);
  const artifact::Table& targets = tables.at("dummy_targets");
  double sum = 0, count = 0;
  for (const std::size_t row : rows_where(targets, {{"variant", "plain"}})) {
    if (targets.integers("epochs")[row] != 2 || targets.texts("target")[row] == "all" ||
        targets.texts("target")[row] == "middle")
      continue;
    sum += targets.reals("loss")[row] * static_cast<double>(targets.integers("n")[row]);
    count += static_cast<double>(targets.integers("n")[row]);
  }
  BOOST_TEST(count == 40 * 64.0);
  BOOST_TEST(std::abs(sum / count - headline[1]) <= 1e-9);
  run(config, folder, "again.h5");
  BOOST_TEST(artifact::content_digest(folder / "scores.h5") == artifact::content_digest(folder / "again.h5"));
  const artifact::Tables timing = artifact::read_eval_tables(folder / "timing-scores.h5");
  BOOST_TEST(timing.at("dummy_seconds").reals("seconds")[1] >= timing.at("dummy_seconds").reals("seconds")[0]);
}

BOOST_AUTO_TEST_CASE(fewer_epochs_are_a_point_of_the_longer_run) {
  const test::TempFolder folder;
  const Json base = {{"train_rows", 70}, {"test_rows", 32}, {"mode", "fixed"}};
  Json longer = base, shorter = base;
  longer["epochs"] = {1, 3};
  shorter["epochs"] = {1};
  const Json model = {{"layers", 1}, {"encoding", "rope"}};
  const auto all = run(config_with("post_norm", {{"dummy", longer}, {"model", model}}), folder);
  const auto one = run(config_with("post_norm", {{"dummy", shorter}, {"model", model}}), folder);
  for (const char* name : {"loss_headline", "loss_all", "loss_pos4"}) {
    BOOST_TEST(all.at("dummy_grid").reals(name)[0] == one.at("dummy_grid").reals(name)[0], name);
  }
  BOOST_TEST(one.at("dummy_grid").missing(0, one.at("dummy_grid").column("loss_pos63")));  // nothing is asked of it
  BOOST_TEST(one.at("dummy_grid").reals("loss_headline")[0] == one.at("dummy_grid").reals("det_loss")[0]);
}

BOOST_AUTO_TEST_CASE(a_killed_run_goes_on_after_its_last_saved_epoch_to_the_same_bytes) {
  const test::TempFolder folder;
  for (const bool chooses : {false, true}) {
    Json options = {{"epochs", {1, 3, 5}}, {"train_rows", 96}, {"test_rows", 32}};
    if (chooses) options.update({{"mode", "hard"}, {"rates", {1e-3, 3e-3}}, {"shifts", {8}}, {"save_every", 0}});
    const DummyConfig config = config_with(
        "pre_norm",
        {{"dummy", options},
         {"model", {{"layers", 1}, {"dropout", 0.1}, {"encoding", {{"kind", "lrope"}, {"layout", "interleaved"}}}}}});
    const std::string name = chooses ? "hard" : "seed";
    run(config, folder, name + "-whole.h5");
    Watch watch;
    watch.stop_at = {1, 2, 4};  // where it is measured, and where it is not
    for (int stops = 0; stops < 3; ++stops) {
      BOOST_CHECK_EXCEPTION(run(config, folder, name + ".h5", watch), support::StopRequest,
                            [](const auto& stopped) { return stopped.resumable(); });
      support::request_stop(0);
    }
    const artifact::Tables tables = run(config, folder, name + ".h5", watch);
    BOOST_TEST(watch.epochs == 5);  // none twice
    BOOST_TEST(watch.said.find("continuing after epoch 4") != std::string::npos, watch.said);
    BOOST_TEST(artifact::content_digest(folder / (name + ".h5")) ==
               artifact::content_digest(folder / (name + "-whole.h5")));
    BOOST_TEST(tables.at("dummy_grid").rows() == 3u);

    // The damaged state of an earlier attempt is of no use: it is reported, and training starts from the beginning.
    const std::filesystem::path state = folder / ("work of " + name + ".h5") / "dummy.h5";
    std::string bytes = support::read_file(state);
    bytes[bytes.size() / 2] ^= 1;
    support::write_file_atomically(state, bytes, false);
    watch.epochs = 0;
    run(config, folder, name + ".h5", watch);
    BOOST_TEST(watch.epochs == 5);
    BOOST_TEST(watch.said.find("dummy.h5") != std::string::npos, watch.said);
    BOOST_TEST(artifact::content_digest(folder / (name + ".h5")) ==
               artifact::content_digest(folder / (name + "-whole.h5")));
  }
}

// Relative encodings do not notice that positions are moved along; a table that ends says so, and nothing becomes 0.
BOOST_AUTO_TEST_CASE(mode_hard_splits_targets_and_tests_shifts_and_long_rows) {
  const test::TempFolder folder;
  const auto result_of = [&](const Json& encoding) {
    return run(config_with("pre_norm", {{"dummy",
                                         {{"mode", "hard"},
                                          {"batch", 64},
                                          {"epochs", {1}},
                                          {"train_rows", 256},
                                          {"test_rows", 64},
                                          {"shifts", {8, 64}},
                                          {"long_rows", true},
                                          {"rates", {1e-3, 3e-3}}}},
                                        {"model", {{"layers", 1}, {"encoding", encoding}}}}),
               folder);
  };
  const auto loss = [](const artifact::Tables& tables, const char* variant, const char* target) {
    const artifact::Table& table = tables.at("dummy_targets");
    const auto rows = rows_where(table, {{"variant", variant}, {"target", target}});
    BOOST_REQUIRE(rows.size() == 1u);
    return table.reals("loss")[rows[0]];
  };
  const artifact::Tables rope = result_of("rope");
  for (const char* target : {"first", "step", "det", "len", "all"}) {
    BOOST_TEST(std::abs(loss(rope, "plain", target) - loss(rope, "shift_64", target)) <= 1e-3, target);
    BOOST_TEST(loss(rope, "plain", target) > 1, target);
  }
  BOOST_TEST(loss(rope, "long", "len") != loss(rope, "plain", "len"));
  BOOST_TEST(rope.at("dummy_grid").missing(0, rope.at("dummy_grid").column("loss_pos63")));
  const artifact::Tables learned = result_of({{"kind", "learned"}, {"init_std", 1.0}});  // 32 positions
  const artifact::Table& table = learned.at("dummy_targets");
  const auto beyond = rows_where(table, {{"variant", "shift_8"}});
  BOOST_REQUIRE(beyond.size() == 1u);
  BOOST_TEST(table.texts("status")[beyond[0]] == "na_positions");
  BOOST_TEST(table.missing(beyond[0], table.column("loss")));
  const artifact::Tables room = result_of({{"kind", "learned"}, {"init_std", 1.0}, {"max_positions", 96}});
  BOOST_TEST(std::abs(loss(room, "plain", "all") - loss(room, "shift_64", "all")) >
             1e-3);  // rows that training never met
}

BOOST_AUTO_TEST_CASE(final_factors_of_trained_frequencies_are_told) {
  const test::TempFolder folder;
  const auto tables = run(
      config_with("bare", {{"dummy", {{"epochs", {1}}, {"train_rows", 64}, {"test_rows", 32}}},
                           {"model", {{"layers", 2}, {"encoding", {{"kind", "lrope"}, {"layout", "interleaved"}}}}}}),
      folder);
  const artifact::Table& scales = tables.at("dummy_scales");
  BOOST_TEST(scales.rows() == 64u);  // 32 frequencies in each of two layers
  double moved = 0;
  for (const double value : scales.reals("value")) moved = std::max(moved, std::abs(value - 1));
  BOOST_TEST(moved > 1e-5);
  BOOST_TEST(moved < 0.1);
}

BOOST_AUTO_TEST_CASE(a_rate_that_is_too_high_is_a_result_without_numbers) {
  const test::TempFolder folder;
  // Sixteen layers of weights of ten: no finite value results.
  const auto tables =
      run(config_with("bare", {{"dummy", {{"epochs", {1}}, {"train_rows", 96}, {"test_rows", 32}, {"rates", {10.0}}}},
                               {"model", {{"layers", 16}, {"encoding", "rope"}}}}),
          folder);
  const artifact::Table& targets = tables.at("dummy_targets");
  const artifact::Table& grid = tables.at("dummy_grid");
  BOOST_TEST(targets.texts("status")[0] == "overflow");
  BOOST_TEST(targets.missing(0, targets.column("loss")));
  BOOST_TEST(grid.missing(0, grid.column("loss_headline")));
}

BOOST_AUTO_TEST_CASE(what_does_not_go_together_is_told) {
  const auto has = [](const std::string& text, const char* part) {
    BOOST_TEST(text.find(part) != std::string::npos, text);
  };
  has(refused({{"dummy", {{"rates", {1e-3, 3e-3}}}}}),
      "dummy.rates holds several learning rates, and only dummy.mode: hard has rows to choose among them by");
  has(refused({{"dummy", {{"epochs", {4, 1}}}}}),
      "dummy.epochs holds at least one number, each larger than the one before");
  has(refused({{"dummy", {{"split", "base"}}}}), "dummy.split: base belongs to dummy.mode: fixed");
  has(refused({{"dummy", {{"echo", true}}}}), "dummy.long_rows and dummy.echo belong to dummy.mode: hard");
  has(refused({{"dummy", {{"mode", "hard"}, {"echo", true}, {"long_rows", true}}}}), "do not go together");
  has(refused({{"compute", {{"micro_batch", 8}}}}),
      "compute.micro_batch is 8, and a step of 32 rows is one piece here");
}

BOOST_AUTO_TEST_SUITE_END()
