#include "evaluation/eval_group.h"

#include <algorithm>

#include "data/algorithmic_task.h"
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

}  // namespace

EvalGroup::EvalGroup() {
  for (const TaskEntry& entry : evaluation::tasks()) all.push_back(entry.make());
}

void EvalGroup::describe(support::FieldVisitor& v) {
  v.field("tasks", tasks, "What to measure: " + support::join(task_names(), ", ") + ".");
  v.check(!tasks.empty(), "`tasks` names nothing to measure");
  const std::vector<std::string> names = task_names();
  for (const std::string& name : tasks) {
    v.check(std::find(names.begin(), names.end(), name) != names.end(),
            cat("unknown task ", support::quote(name), "; ", support::suggestion(name, names)));
  }
  v.choice("weights", weights, {{"model", Weights::kModel}, {"ema", Weights::kEma}},
           "Which weights of the checkpoint: as they are, or their moving average (train.ema).", {.neutral = Json("model")});
  settings.describe(v);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const TaskEntry& entry = evaluation::tasks()[i];
    v.group(entry.name, *all[i], entry.summary);
  }
}

std::string list_text() {
  std::string text = "tasks (eval.tasks)\n";
  const auto line = [&](const std::string& name, const std::string& meaning) {
    text += "  " + name + std::string(name.size() < 22 ? 22 - name.size() : 1, ' ') + meaning + "\n";
  };
  for (const TaskEntry& entry : tasks()) line(entry.name, entry.summary);
  text += "\nprotocols of perplexity (eval.perplexity.protocols)\n";
  for (const LmProtocol& protocol : lm_protocols()) line(protocol.name, protocol.meaning);
  text += "\nalgorithmic tasks (generate.task of pe-generate)\n";
  for (const data::TaskGenerator& generator : data::task_generators()) line(generator.name, generator.summary);
  return text;
}

void run_tasks(const EvalGroup& group, Scorer& scorer, const TextCodec& text, const DocumentSource& documents,
               Results& results, support::Progress& progress, const TaskExtras& extras) {
  TaskContext context{scorer, text, documents, group.settings,
                      group.settings.contexts(scorer.capabilities().train_length), results, progress, extras.variants, extras.fitting, extras.trained_task};
  for (std::size_t i = 0; i < group.all.size(); ++i) {
    const std::string& name = tasks()[i].name;
    if (std::find(group.tasks.begin(), group.tasks.end(), name) == group.tasks.end()) continue;
    support::with_context(cat("measuring ", name), [&] { group.all[i]->run(context); });
  }
}

}  // namespace pe::evaluation
