/// @file
/// Correct behaviour of a pipeline of toys, in the simplest form: no keys, no hashes, no index; text compared with
/// text. A random pipeline is described by these structs, written as a pipeline file, and run by the real planner,
/// store and loop. The naive model says which tasks had to run and gives the contents of every result.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace pe::test {

/// Chance, with a seed that a failure prints.
class Chance {
 public:
  explicit Chance(std::uint64_t seed) : engine_(seed) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(n)); }
  bool one_in(int n) { return below(n) == 0; }
  template <class T>
  T& of(std::vector<T>& list) {
    return list[static_cast<std::size_t>(below(static_cast<int>(list.size())))];
  }

 private:
  std::mt19937_64 engine_;
};

/// A reference to another stage: all instances that agree on the axes that both have.
struct ModelReference {
  std::size_t stage = 0;  ///< index into ModelPipeline::stages
  std::string snapshot;   ///< or empty
};

struct ModelStage {
  std::string label;
  std::string kind = "toy";       ///< "toy" or "kit": two programs, whose versions move apart
  std::vector<std::string> axes;  ///< in `over` order
  int value = 0;                  ///< contents depend on value / 2, so 4 and 5 give the same: early cutoff
  int workers = 1;                ///< not hashed
  bool fails = false;             ///< not hashed
  int extra = 0;                  ///< neutral at 0
  std::string file;               ///< an input file in the root, or empty
  int tokens = 0;                 ///< horizon of a stage with snapshots, one token per step; else 0
  std::vector<std::pair<std::string, double>> snapshots;
  std::optional<ModelReference> init;
  std::vector<ModelReference> in;
};

struct ModelPipeline {
  std::vector<std::pair<std::string, std::vector<std::string>>> axes;
  std::vector<ModelStage> stages;            ///< producers first
  std::map<std::string, std::string> files;  ///< name → content
  std::map<std::string, int> versions{{"toy", 1}, {"kit", 1}};
  std::uint64_t style = 0;  ///< how the file is written; means nothing

  static ModelPipeline random(Chance& chance);
  ModelStage random_stage(Chance& chance, std::size_t number) const;
  /// The pipeline file.
  std::string yaml() const;
};

/// One instance, with everything spelled out.
struct ModelTask {
  struct Input {
    std::string role;
    std::size_t task = 0;
    int step = -1;
  };
  std::string id;
  std::size_t stage = 0;
  std::vector<Input> inputs;
  std::vector<int> steps;  ///< of its snapshots, ascending
};

/// A result: the recipe that made it, and at which step.
using ModelResult = std::pair<std::string, int>;

/// The recipe of a task as plain text; equal recipes are the same work. `inputs` are the contents that it reads.
std::string recipe_text(const std::string& kind, int version, int value, int extra, const std::string& text,
                        const std::string& file, bool trajectory, const std::vector<std::string>& inputs);
/// Output of such a task, at a step or (-1) at its end.
std::string content_text(const std::string& kind, int version, int value, const std::string& text,
                         const std::string& file, const std::vector<std::string>& inputs, int step);

/// The expected contents of the store, and the expected effect of a run.
class NaiveModel {
 public:
  enum class Held { kWhole, kObjectGone, kDamaged };
  std::map<ModelResult, Held> held;

  struct Outcome {
    std::multiset<std::string> executed;  ///< recipes that were carried out to their end
    std::set<std::string> failed;         ///< recipes
    std::set<std::size_t> blocked;        ///< tasks
  };

  /// The effect of a run of the selected tasks; changes `held` accordingly.
  Outcome run(const ModelPipeline& pipeline, const std::vector<ModelTask>& tasks, const std::vector<bool>& selected,
              bool force);

  /// Every instance, producers first, in the order of the file.
  static std::vector<ModelTask> expand(const ModelPipeline& pipeline);
  /// Recipe of a task if no input had to be looked up: contents follow from the pipeline alone.
  static std::string recipe(const ModelPipeline& pipeline, const std::vector<ModelTask>& tasks, std::size_t task);
  static std::string content(const ModelPipeline& pipeline, const std::vector<ModelTask>& tasks, std::size_t task,
                             int step);
};

}  // namespace pe::test
