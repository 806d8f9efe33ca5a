#include "evaluation/eval_group.h"

#include <algorithm>

#include "data/tasks/algorithmic_task.h"
#include "encodings/registry.h"
#include "evaluation/lm_protocols.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::evaluation {

using support::cat;

namespace {

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const TaskEntry& entry : tasks()) names.push_back(entry.name);
  return names;
}

std::vector<support::VariantKind> kinds_of_encoding() {
  std::vector<support::VariantKind> kinds = encodings::variant_kinds();
  kinds.insert(kinds.begin(), {.name = kTrained, .summary = "The encoding that the checkpoint was trained with."});
  return kinds;
}

}  // namespace

bool EvalGroup::replaces_encoding() const {
  return encoding.json != Json{{"kind", kTrained}} && encoding.json != kTrained;
}

EvalGroup::EvalGroup() {
  for (const TaskEntry& entry : evaluation::tasks()) all.push_back(entry.make());
}

void EvalGroup::describe(support::FieldVisitor& v) {
  v.field("tasks", tasks, "Tasks to measure: " + support::join(task_names(), ", ") + ".");
  v.check(!tasks.empty(), "`tasks` names nothing to measure");
  const std::vector<std::string> names = task_names();
  for (const std::string& name : tasks) {
    v.check(std::find(names.begin(), names.end(), name) != names.end(),
            cat("unknown task ", support::quote(name), "; ", support::suggestion(name, names)));
  }
  model::describe_weights(v, weights);
  v.variant(
      "encoding", encoding, kinds_of_encoding(),
      "Encoding that is laid over the trained weights, such as {kind: yarn, factor: 8}. It has to have the parameters "
      "that the checkpoint has. A rule for longer texts takes base, layout and `over` from the "
      "checkpoint. A factor of 1 becomes the longest context over the trained one, times the checkpoint's factor.",
      /*stackable=*/true, {.neutral = Json{{"kind", kTrained}}});
  settings.describe(v);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const TaskEntry& entry = evaluation::tasks()[i];
    v.group(entry.name, *all[i], entry.summary);
  }
}

const std::vector<Suite>& suites() {
  static const std::vector<Suite> suites = {
      {"2026", "look-up among keys, questions about a small world, a needle that the question does not name"},
      {"algorithmic", "the algorithmic task that a model was trained on"},
      {"copy", "in-context repetition"},
      {"extension", "one rotary checkpoint at longer contexts, untrained"},
      {"guide", "perplexity to 16 times the training length, context extension, parameters"},
      {"in_context", "algorithmic tasks for a language model, after solved examples"},
      {"interventions", "one rotary checkpoint with frequencies or layers taken away, untrained"},
      {"lm", "language modelling to 16 times the training length, with summaries of the curves"},
      {"passkey", "a number stated once in filler, by length and depth"},
      {"perplexity", "perplexity and bits per byte against context length"},
      {"probes", "what heads look at, where positions can be read, what the model relies on"},
      {"published", "perplexity as published sources measure it"},
      {"quick", "a small evaluation of a small model"},
      {"retrieval", "passkey, needle and a small RULER on the ladder of scores"},
      {"scaffold", "a dropped encoding: perplexity to 16 times the training length, passkey and needle"},
      {"smoke", "laid over quick: more documents, passkey at its full size"},
  };
  return suites;
}

std::string list_text() {
  std::string text = "tasks (eval.tasks)\n";
  const auto line = [&](const std::string& name, const std::string& meaning) {
    text += "  " + name + std::string(name.size() < 22 ? 22 - name.size() : 1, ' ') + meaning + "\n";
  };
  for (const TaskEntry& entry : tasks()) line(entry.name, entry.summary);
  text += "\nsuites (config: {file: configs/eval/NAME.yml})\n";
  for (const Suite& suite : suites()) line(suite.name, suite.meaning);
  text += "\nprotocols of perplexity (eval.perplexity.protocols)\n";
  for (const LmProtocol& protocol : lm_protocols()) line(protocol.name, protocol.meaning);
  text += "\nalgorithmic tasks (generate.task of pe-generate)\n";
  for (const data::TaskGenerator& generator : data::task_generators()) line(generator.name, generator.summary);
  return text;
}

void run_tasks(const EvalGroup& group, Scorer& scorer, const TextCodec& text, const DocumentSource& documents,
               Results& results, support::Progress& progress, const TaskExtras& extras) {
  TaskContext context{.scorer = scorer,
                      .text = text,
                      .documents = documents,
                      .settings = group.settings,
                      .lengths = group.settings.contexts(scorer.capabilities().train_length),
                      .results = results,
                      .progress = progress,
                      .variants = extras.variants,
                      .fitting = extras.fitting,
                      .model = extras.model,
                      .reference = extras.reference,
                      .reference_name = extras.reference_name,
                      .trained_task = extras.trained_task};
  for (std::size_t i = 0; i < group.all.size(); ++i) {
    const std::string& name = tasks()[i].name;
    if (std::find(group.tasks.begin(), group.tasks.end(), name) == group.tasks.end()) continue;
    support::with_context(cat("measuring ", name), [&] { group.all[i]->run(context); });
  }
}

}  // namespace pe::evaluation
