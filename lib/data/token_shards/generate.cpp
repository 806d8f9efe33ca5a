#include "data/token_shards/generate.h"

#include <algorithm>
#include <numeric>

#include "artifact/token_shards.h"
#include "data/tasks/algorithmic_task.h"
#include "data/tokenizers/symbol_tokenizer.h"
#include "support/text.h"

namespace pe::data {

using support::cat;
using support::ConfigError;

void GenerateConfig::Generate::describe(support::FieldVisitor& v) {
  v.variant("task", task, task_kinds(), "Task to generate; `pe-generate --help tasks` lists all.");
  v.field("lengths", lengths,
          "Shortest and longest example, in the task's own terms; empty: as in the source's training.",
          {.min = 1, .max = 1 << 20});
  v.field("train", train,
          "Examples to train on. None comes twice by design, but short lengths have few different ones.",
          {.unit = "examples", .min = 1, .max = 1e9});
  v.field("validation", validation, "Examples to validate on, of the same lengths.",
          {.unit = "examples", .min = 0, .max = 1e8});
  v.field("window", window, "Tokens of an example with its padding: train.length of the training.",
          {.unit = "tokens", .min = 2, .max = 1 << 20});
  v.field("seed", seed, "Seed of the examples.", {.min = 0});
  v.choice("padding", padding, {{"joined", Padding::kJoined}, {"apart", Padding::kApart}},
           "joined: the padding belongs to its example; apart: it is a document that `train.documents: masked` hides, "
           "as a bidirectional model needs.",
           {.neutral = Json("joined")});
  v.check(lengths.empty() || (lengths.size() == 2 && lengths[0] <= lengths[1]),
          "generate.lengths holds two numbers, the shortest and the longest");
}

void GenerateConfig::describe(support::FieldVisitor& v) { v.group("generate", generate, "Examples of a task."); }

namespace {

/// How many examples each length gets: by weight, exactly `total`, the rest to the lengths with the largest remainders.
std::vector<std::int64_t> shares(const std::vector<double>& weights, std::int64_t total) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::int64_t> counts;
  std::vector<std::pair<double, std::size_t>> rest;
  std::int64_t given = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double exact = weights[i] / sum * static_cast<double>(total);
    counts.push_back(static_cast<std::int64_t>(exact));
    rest.emplace_back(static_cast<double>(counts.back()) - exact, i);
    given += counts.back();
  }
  std::sort(rest.begin(), rest.end());
  for (std::size_t i = 0; given < total; ++i, ++given) ++counts[rest[i % rest.size()].second];
  return counts;
}

}  // namespace

void generate(const GenerateConfig& config, artifact::Workspace& workspace) {
  const GenerateConfig::Generate& wanted = config.generate;
  const ChosenTask chosen = choose_task(wanted.task.json);
  const LengthRange range =
      wanted.lengths.empty() ? chosen.generator->train : LengthRange{wanted.lengths[0], wanted.lengths[1]};
  std::vector<std::int64_t> lengths;
  std::vector<double> weights;
  for (std::int64_t length = range.low; length <= range.high; ++length) {
    if (const double weight = chosen.task->weight(length); weight > 0) {
      lengths.push_back(length);
      weights.push_back(weight);
    }
  }
  if (lengths.empty()) {
    throw ConfigError(cat("task '", chosen.name, "' has no example of ", range.low, " to ", range.high, " ",
                          chosen.generator->length),
                      {},
                      cat("its source trains on ", chosen.generator->train.low, " to ", chosen.generator->train.high));
  }
  const artifact::TokenizerRecord tokenizer = symbol_tokenizer_record(wanted.task.json);
  artifact::TokenShardsWriter writer(workspace.output("data"), workspace.recipe, tokenizer, 1 << 26);
  writer.set_window(static_cast<std::uint64_t>(wanted.window));
  support::Progress& progress = workspace.progress == nullptr ? support::silent_progress() : *workspace.progress;
  const auto window = static_cast<std::size_t>(wanted.window);
  const std::int64_t all = wanted.train + wanted.validation;
  std::int64_t done = 0;
  std::uint64_t scored = 0;
  for (const auto& [split, count] : {std::pair{Split::kTrain, wanted.train}, {Split::kValidation, wanted.validation}}) {
    // Order of the lengths: shuffled, so that any part of the data has them all.
    std::vector<std::size_t> order;
    const std::vector<std::int64_t> counts = shares(weights, count);
    for (std::size_t i = 0; i < counts.size(); ++i) order.insert(order.end(), static_cast<std::size_t>(counts[i]), i);
    support::Xoshiro random(
        support::make_key({static_cast<std::uint64_t>(wanted.seed), 0, static_cast<std::uint64_t>(split)}));
    random.shuffle(order);
    std::vector<std::int64_t> index(lengths.size(), 0);
    for (const std::size_t at : order) {
      if (done % 4096 == 0) {
        if (support::stop_requested()) throw support::StopRequest(false);
        progress.advance("generate: examples", done, all);
      }
      TaskExample example = make_example(*chosen.task, chosen.name, static_cast<std::uint64_t>(wanted.seed), split,
                                         lengths[at], index[at]++);
      if (example.ids.size() > window) {
        throw ConfigError(cat("an example of ", lengths[at], " ", chosen.generator->length, " has ", example.ids.size(),
                              " tokens, but generate.window is ", window),
                          {}, "raise generate.window, and train.length with it, or lower generate.lengths");
      }
      for (const std::int32_t label : example.labels) scored += label != kUnlabelled ? 1 : 0;
      const std::size_t own = wanted.padding == GenerateConfig::Generate::Padding::kApart ? example.ids.size() : window;
      example.ids.resize(window, kTaskPad);
      example.labels.resize(window, kUnlabelled);
      const auto number = static_cast<std::uint64_t>(done++);
      writer.add(split, example.ids.data(), own, 0, number, example.labels.data());
      if (own < window) writer.add(split, &example.ids[own], window - own, 0, number, &example.labels[own]);
    }
    // A window takes one token more than it is long.
    if (count > 0) writer.add(split, &kTaskPad, 1, 0, static_cast<std::uint64_t>(done), &kUnlabelled);
  }
  artifact::DatasetTotals totals;
  totals.read = static_cast<std::uint64_t>(all);
  writer.finish(totals);
  progress.note(cat(support::with_commas(all), " examples of ", chosen.name, ", ", tokenizer.vocabulary, " symbols, ",
                    support::with_commas(static_cast<std::int64_t>(scored)), " labels in windows of ", window,
                    " tokens"));
}

}  // namespace pe::data
