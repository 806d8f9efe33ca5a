/// @file
/// Times of earlier tasks of one kind of stage, and estimates of another task from them. Nothing is carried over to
/// another device or arithmetic, or to a model of a very different size.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pipeline/file/stage_description.h"
#include "pipeline/plan/plan.h"
#include "support/json.h"

namespace pe::pipeline {

/// Models may differ by this factor in parameters, and other tasks in each number of their config.
inline constexpr double kNear = 4;
bool near(double a, double b);

/// The median; the upper one of the two in the middle. At least one value.
double middle_of(std::vector<double> values);

/// Facts about a task before it runs.
struct Work {
  std::optional<double> tokens;             ///< to train on
  std::optional<double> parameters, flops;  ///< of its model; for a token
  std::string encoding;                     ///< see `encoding_of` (cost.h)
  std::string_view config;                  ///< the hashed part, as `KeyMaker::config`
  std::int64_t gpus = 0;                    ///< a share counts as one
  std::string device;                       ///< name of its device; empty: not known
};

class Rates {
 public:
  Rates(const StageDescription& stage, const std::vector<PastTask>& past);

  struct Rate {
    double seconds = 0;
    double bytes = 0;    ///< of the outputs of one artifact
    std::string source;  ///< "train on NVIDIA H100 80GB HBM3"
  };
  /// From the same instance where it ran before, else from its stage label, else from its kind of stage: of those, what
  /// is near. Empty when nothing is. `any_encoding`: the encoding of its model may differ.
  std::optional<Rate> find(const std::string& id, const std::string& label, const Work& work,
                           bool any_encoding = false);

  std::vector<double> errors;  ///< of past estimates, as logarithms

 private:
  /// Earlier tasks that differ in nothing that counts.
  struct Alike {
    std::int64_t gpus = 0;
    std::string_view device, encoding;
    std::string arithmetic;  ///< precision and instruction set: CPUs of one name may differ in it; empty: not known
    double parameters = 0, flops = 0;  ///< 0: not known
    std::string_view config;           ///< where that is compared
    Json values;                       ///< `config`, read when it is first compared
    std::string_view newest;           ///< when the last of them ended
    std::vector<double> seconds, bytes, per_token;
  };
  bool fits(Alike& alike, const Work& work, bool any_encoding);
  bool similar(Alike& alike, const Work& work);
  const Json& config_of(const Work& work);

  std::string stage_;
  bool has_model_ = false;                             ///< the stage says how many parameters its model has
  std::map<std::string, std::vector<Alike>> by_name_;  ///< by id, by label and '[', and all under ""
  std::map<std::pair<const Alike*, const char*>, bool> similar_;
  std::unordered_map<std::string_view, Json> configs_;
};

}  // namespace pe::pipeline
