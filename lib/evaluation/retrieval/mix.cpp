#include "evaluation/retrieval/mix.h"

#include <algorithm>
#include <limits>

#include "artifact/token_shards.h"
#include "data/token_shards/token_dataset.h"
#include "data/tokenizers/tokenizer.h"
#include "evaluation/retrieval/haystack.h"
#include "evaluation/retrieval/kv_prompt.h"
#include "evaluation/retrieval/passkey_prompt.h"
#include "evaluation/retrieval/small_world.h"
#include "evaluation/retrieval/word_pairs.h"
#include "evaluation/shard_documents.h"
#include "support/hash.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::evaluation {

using support::cat;
using support::ConfigError;

namespace {

const std::vector<std::string>& mix_tasks() {
  static const std::vector<std::string> names = {"passkey", "needle", "kv_json", "babi", "needle_assoc"};
  return names;
}

/// The prompts of a mix by number.
class Prompts {
 public:
  Prompts(const TextCodec& codec, const MixGroup& group)
      : codec_(codec),
        group_(group),
        passkey_(codec, false, group.passkey),
        numbers_(codec, static_cast<int>(group.passkey.digits)),
        five_(codec, 5),
        seven_(codec, 7),
        filler_(codec, filler_unit()),
        keys_(codec) {
    for (const std::string& task : group.tasks) {
      const std::int64_t least = std::max(group.shortest, least_tokens(task));
      if (least > group.length) {
        throw ConfigError(cat("a prompt of ", task, " takes ", least, " tokens with this tokenizer, but mix.length is ",
                              group.length),
                          {}, "raise mix.length, and train.length with it");
      }
      least_.push_back(least);
    }
  }

  /// Start of window `index`: a prompt with its answer, or nothing. Depends on seed and index alone.
  std::vector<std::int32_t> operator()(std::uint64_t index) const {
    support::Xoshiro random(support::make_key({static_cast<std::uint64_t>(group_.seed), support::fnv1a64("mix"),
                                               static_cast<std::uint64_t>(Split::kTrain), index}));
    if (random.uniform() >= group_.share) return {};
    const std::size_t task = random.below(group_.tasks.size());
    const std::int64_t least = least_[task];
    for (;;) {  // words or numbers that this tokenizer cuts into more tokens than usual may not fit: others do
      const auto length =
          least + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(group_.length - least + 1)));
      const double depth = random.uniform();
      if (group_.tasks[task] == "passkey") {
        const bool fits = passkey_.minimum(PasskeyForm::kLong) <= length;
        const auto prompt =
            passkey_.build(fits ? PasskeyForm::kLong : PasskeyForm::kShort, length, depth, number(random));
        if (prompt) return prompt->ids;
        continue;
      }
      if (group_.tasks[task] == "kv_json") {
        if (const auto made = keys_.build(length, depth, 1, random)) return made->prompt.ids;
        continue;
      }
      if (const auto prompt =
              build_prompt(codec_, filler_, question(group_.tasks[task], depth, random), length, random))
        return prompt->ids;
    }
  }

 private:
  std::string number(support::Xoshiro& random) const {
    return group_.passkey.upto > 0 ? passkey_.draw(random) : numbers_.draw(random);
  }

  /// Question of a task that hides lines in filler.
  Question question(const std::string& task, double depth, support::Xoshiro& random) const {
    if (task == "babi")
      return world_question(draw_story(1 + static_cast<int>(random.below(kWorldTasks)), random), random);
    if (task == "needle_assoc") {
      const WordPair& pair = trained_pairs()[random.below(trained_pairs().size())];
      return association_question(pair, five_, depth, /*told=*/true, 1, random);
    }
    const std::string thing = adjectives()[random.below(64)] + " " + nouns()[random.below(64)];
    return needle(thing, seven_.draw(random), depth);
  }

  static Question needle(const std::string& thing, const std::string& number, double depth) {
    return {.head = "",
            .facts = {{cat("The ", thing, " code is ", number, ".\n"), depth}},
            .question = cat("What is the ", thing, " code? The ", thing, " code is"),
            .answers = {" " + number},
            .others = {}};
  }

  /// Tokens of a short prompt of a task. Some take more; they are drawn for longer prompts.
  std::int64_t least_tokens(const std::string& task) const {
    // Texts that were given are not exchanged for the short wording.
    if (task == "passkey") return passkey_.minimum(group_.passkey.is_ours() ? PasskeyForm::kShort : PasskeyForm::kLong);
    if (task == "kv_json") return least_keys();
    if (task == "babi" || task == "needle_assoc") return longest_of(task);
    return fixed_tokens(codec_, needle(adjectives()[0] + " " + nouns()[0], "8888888", 0));
  }

  /// With one line.
  std::int64_t least_keys() const {
    for (std::int64_t length = 1;; ++length) {
      support::Xoshiro random(0);
      if (keys_.build(length, 0, 1, random)) return length;
    }
  }

  /// A length that nearly all of its questions fit into, so that a mix has all kinds of them.
  std::int64_t longest_of(const std::string& task) const {
    constexpr int kProbes = 256;
    support::Xoshiro random(0);
    std::int64_t most = 0;
    for (int i = 0; i < kProbes; ++i) most = std::max(most, fixed_tokens(codec_, question(task, 0, random)));
    return most;
  }

  const TextCodec& codec_;
  const MixGroup& group_;
  PasskeyBuilder passkey_;
  NumberSource numbers_, five_, seven_;
  UnitHaystack filler_;
  KvPrompts keys_;
  std::vector<std::int64_t> least_;
};

}  // namespace

void MixGroup::describe(support::FieldVisitor& v) {
  v.field("tasks", tasks,
          "Prompts that are mixed in, in equal parts: " + support::join(mix_tasks(), ", ") +
              ". needle_assoc tells 24 of the 32 pairs of words, which its mode `trained` asks for.");
  v.field("share", share, "Share of the windows that begin with a prompt; 1: all, for tuning.", {.min = 0, .max = 1});
  v.field("length", length, "Tokens of a window: train.length of the training.",
          {.unit = "tokens", .min = 8, .max = 1 << 20});
  v.field("shortest", shortest,
          "Shortest prompt; they are as long as that up to a whole window. 0: the shortest that there is.",
          {.unit = "tokens", .min = 0});
  v.field("windows", windows, "Windows to write; 0: until the text is used up.", {.min = 0, .max = 1e9});
  v.group("passkey", passkey, "Wording of long passkey prompts, as in eval.passkey.text.");
  v.field("seed", seed, "Seed of the prompts, and of which windows have one.", {.min = 0});
  v.check(!tasks.empty(), "mix.tasks names nothing to mix in");
  for (const std::string& name : tasks) {
    v.check(std::find(mix_tasks().begin(), mix_tasks().end(), name) != mix_tasks().end(),
            cat("nothing called ", support::quote(name), " can be mixed in; ", support::suggestion(name, mix_tasks())));
  }
  v.check(shortest <= length, "mix.shortest is not above mix.length");
  v.check(share < 1 || windows > 0,
          "with mix.share: 1 no text is used up: mix.windows says how many windows there are");
}

void MixConfig::describe(support::FieldVisitor& v) { v.group("mix", mix, "Prompts among training windows."); }

void mix(const MixConfig& config, artifact::Workspace& workspace) {
  const MixGroup& group = config.mix;
  const artifact::Input& input = workspace.input("data");
  const data::TokenDataset dataset(input.path);
  if (dataset.has_labels()) {
    throw support::ArtifactError(cat(input.path.string(), ": holds examples of a task, not text"),
                                 "mix prompts into the shards of pe-tokenize");
  }
  const auto tokenizer = data::make_tokenizer(dataset.tokenizer(), input.path.string());
  const auto codec = make_codec(*tokenizer, dataset.tokenizer().bos_before_documents);
  const Prompts prompts_of(*codec, group);
  support::Progress& progress = *workspace.progress;
  artifact::TokenShardsWriter writer(workspace.output("mixed"), workspace.recipe, dataset.tokenizer(), 1 << 26);
  writer.set_window(static_cast<std::uint64_t>(group.length));

  const std::uint64_t tokens = dataset.tokens(data::Split::kTrain);
  const auto length = static_cast<std::uint64_t>(group.length);
  std::uint64_t used = 0, windows = 0, prompts = 0;
  const auto end =
      group.windows > 0 ? static_cast<std::uint64_t>(group.windows) : std::numeric_limits<std::uint64_t>::max();
  std::vector<std::int32_t> window;
  std::int32_t last = 0;
  while (windows < end) {
    if (windows % 256 == 0) {
      if (support::stop_requested()) throw support::StopRequest(false);
      progress.advance("mix: tokens of text", static_cast<std::int64_t>(used), static_cast<std::int64_t>(tokens));
    }
    window = prompts_of(windows);
    const std::uint64_t text = length - window.size();
    if (used + text > tokens) break;
    prompts += window.empty() ? 0 : 1;
    const std::size_t first = window.size();
    window.resize(length);
    dataset.read(data::Split::kTrain, used, std::span(window).subspan(first));
    used += text;
    const std::vector<std::int64_t> wide(window.begin(), window.end());
    writer.add(data::Split::kTrain, window.data(), window.size(),
               static_cast<std::uint32_t>(dataset.text_bytes(wide, 0)), windows);
    last = window.back();
    ++windows;
  }
  if (windows == 0) {
    throw support::ArtifactError(
        cat(input.path.string(), ": the train split has ", tokens, " tokens, too few for one window of ", length),
        "give it more text, or lower mix.length");
  }
  if (group.windows > 0 && windows < end) {
    throw ConfigError(cat("the text ends after ", windows, " windows, but mix.windows is ", end), {},
                      "lower mix.windows, or give it more text");
  }
  // A window takes one token more than it is long.
  writer.add(data::Split::kTrain, &last, 1, 0, windows);
  for (const data::Split split : {data::Split::kValidation, data::Split::kTest}) {
    for (std::uint64_t number = 0; number < dataset.documents(split); ++number) {
      const auto document = dataset.document(split, number);
      window.resize(document.tokens);
      dataset.read(split, document.first, std::span(window));
      writer.add(split, window.data(), window.size(), static_cast<std::uint32_t>(document.bytes), document.index);
    }
  }
  writer.set_splits(dataset.splits());
  artifact::DatasetTotals totals = dataset.totals();
  writer.finish(totals);
  progress.note(cat(support::with_commas(static_cast<std::int64_t>(prompts)), " of ",
                    support::with_commas(static_cast<std::int64_t>(windows)), " windows begin with a prompt"));
}

}  // namespace pe::evaluation
