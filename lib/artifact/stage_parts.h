/// @file
/// The parts of a stage's description, which a stage writes (stage/stage_main.h) and `pe-pipeline` reads
/// (pipeline/file/stage_description.h), with their JSON form.
#pragma once

#include <string>
#include <vector>

#include "artifact/kind.h"
#include "support/json.h"

namespace pe::artifact {

struct InputRole {
  std::string name;
  Kind kind;
  bool many = false;  ///< takes any number of artifacts (`gather`)
  bool optional = false;
};

struct OutputRole {
  std::string name;
  Kind kind;
  bool is_volatile = false;  ///< measured quantities: outside early cutoff, conflicts and verify
};

/// How a training moves along a trajectory whose points can be asked for as snapshots.
struct Trajectory {
  std::string horizon;                       ///< Config key of the horizon in tokens, "train.tokens".
  std::vector<std::string> tokens_per_step;  ///< Config keys whose product is the tokens of a step.
  /// Config keys and values, or lists of values, under which the horizon does not shape the steps before it, such as
  /// {"train.schedule": "wsd"}. With other values the horizon is part of the trajectory.
  Json free_when = Json::object();
};

/// The config keys that say where a stage ends which continues a training from a snapshot. `pe-pipeline` fills them
/// from `budgets`.
struct Branch {
  std::string horizon;  ///< of the training in tokens, "decay.horizon_tokens"
  std::string end;      ///< a share of the horizon
  std::string share;    ///< of `end` that the branch takes
};

/// A change of contents that only some configs have met. The number enters their keys; all other results stay valid.
struct Revision {
  std::string name;  ///< Of the number in a key's config, such as "compute.bf16_on_cpu"; differs from names of fields.
  /// Config key → value, or list of values: where all hold, contents have changed. null: any value but the default; []:
  /// the default of a field that is `neutral`.
  Json when;
  int number = 2;  ///< Raised with every such change.
};

/// @throws ConfigError: the description cannot be used. The message lacks the name of the document.
[[noreturn]] void refuse_description(const std::string& why);
/// A member of a document. @throws ConfigError, as `refuse_description`, when it is missing
const Json& member(const Json& object, const char* key);
/// @throws ConfigError, as `member`, also when it is no string
std::string text_member(const Json& object, const char* key);
/// A flag that may be missing: false.
bool flag_member(const Json& object, const char* key);
/// Strings that may be missing: an empty list. @throws ConfigError when it is anything but a list of strings
std::vector<std::string> texts_member(const Json& object, const char* key);
/// @throws ConfigError when it is missing or not a list of maps
const Json& list_member(const Json& object, const char* key);

// ---- JSON; reading throws ConfigError as `refuse_description`
void to_json(Json& json, const InputRole& role);
void from_json(const Json& json, InputRole& role);
void to_json(Json& json, const OutputRole& role);
void from_json(const Json& json, OutputRole& role);
void to_json(Json& json, const Trajectory& trajectory);
void from_json(const Json& json, Trajectory& trajectory);
void to_json(Json& json, const Branch& branch);
void from_json(const Json& json, Branch& branch);
void to_json(Json& json, const Revision& revision);
void from_json(const Json& json, Revision& revision);

}  // namespace pe::artifact
