/// @file
/// A config is a plain struct with defaults and one `describe` function that names its fields:
///
///     struct ScheduleConfig {
///       double peak_lr = 3e-3;
///       std::int64_t warmup_steps = 500;
///       Decay decay = Decay::kInverseSqrt;
///       void describe(support::FieldVisitor& v) {
///         v.field("peak_lr", peak_lr, "Learning rate reached at the end of warm-up.", {.min = 0, .max = 1});
///         v.field("warmup_steps", warmup_steps, "Linear warm-up.", {.unit = "steps", .min = 0});
///         v.choice("decay", decay, {{"linear", Decay::kLinear}, {"inverse_sqrt", Decay::kInverseSqrt}}, "Shape …");
///         v.check(peak_lr > 0 || warmup_steps == 0, "a warm-up needs a positive peak_lr");
///       }
///     };
///
/// From that come the schema (which `pe-pipeline` reads from a stage's description, without linking the stage), YAML
/// reading with places, flags, help, the canonical document that is hashed, and the filled struct.
///
/// A config in flight is a Json object that holds every field: reading starts from `defaults`, lays files and flags
/// over it with `overlay`, and ends with `make_config`.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "support/error.h"
#include "support/json.h"
#include "support/yaml.h"

namespace pe::support {

enum class FieldType {
  kBool,
  kInteger,
  kReal,
  kText,
  kPath,
  kPathList,
  kIntegerList,
  kRealList,
  kTextList,
  kChoice,
  kGroup,
  kVariant
};

std::string_view type_name(FieldType type);  ///< "integer", "list of reals", …, as in `--describe` and help

/// Options of a field in addition to name and meaning.
struct FieldOptions {
  /// "tokens", "steps", "words", … accept k, M, B, T; "bytes" accepts K, M, G, T (binary); "s" accepts ms, s, m, h, d.
  std::string unit;
  std::optional<double> min;
  std::optional<double> max;
  bool hashed = true;            ///< False: cannot change results (log level, workers); in no key.
  std::optional<Json> neutral;   ///< A value equal to this one is left out of the hashed document.
  int since = 1;                 ///< The stage's result version that brought the field.
  bool allow_nonfinite = false;  ///< .inf and .nan are legal
};

struct Field;
using Schema = std::vector<Field>;

/// One kind of a variant, such as one encoding: its name, its own fields, and facts for reports.
struct VariantKind {
  std::string name;
  std::vector<std::string> aliases;
  std::string summary;
  Schema fields;
  Json facts = Json::object();
};

struct Field {
  std::string name;
  FieldType type = FieldType::kText;
  std::string help;
  FieldOptions options;
  Json default_value;
  bool automatic = false;            ///< `auto` is legal; it reads as null
  std::vector<std::string> choices;  ///< of a choice
  Schema fields;                     ///< of a group
  std::vector<VariantKind> kinds;    ///< of a variant
  bool stackable = false;            ///< a variant may be {stack: […]}
};

Json schema_to_json(const Schema& schema);
Schema schema_from_json(const Json& json);  ///< @throws ArtifactError when the document is no schema

/// A value out of a set of kinds, each with its own options. Text forms: `rope`; `{kind: yarn, factor: 4}`;
/// `{stack: [rope, {kind: ssmax}]}`. Canonical form: {"kind": …, every option} or {"stack": [canonical, …]}.
struct VariantValue {
  Json json;
};

/// Where the value of a field is.
using FieldValue = std::variant<bool*, std::int64_t*, double*, std::string*, std::optional<std::int64_t>*,
                                std::vector<std::int64_t>*, std::vector<double>*, std::vector<std::string>*>;
inline constexpr FieldType kFieldTypes[] = {FieldType::kBool,     FieldType::kInteger, FieldType::kReal,
                                            FieldType::kText,     FieldType::kInteger, FieldType::kIntegerList,
                                            FieldType::kRealList, FieldType::kTextList};

class FieldVisitor {
 public:
  virtual ~FieldVisitor() = default;

  /// A field of one of the types of `FieldValue`. An empty optional is written `auto`: the program, or the planner,
  /// decides.
  template <typename T>
  void field(std::string_view name, T& value, std::string_view help, FieldOptions options = {}) {
    const FieldValue at = &value;
    any_field(name, kFieldTypes[at.index()], at, help, std::move(options));
  }
  /// Files whose content is an input: keys hold their digests, never their names.
  void path(std::string_view name, std::string& value, std::string_view help, FieldOptions options = {}) {
    any_field(name, FieldType::kPath, &value, help, std::move(options));
  }
  /// One path or a list of them: files, folders, globs.
  void paths(std::string_view name, std::vector<std::string>& value, std::string_view help, FieldOptions options = {}) {
    any_field(name, FieldType::kPathList, &value, help, std::move(options));
  }
  /// `kinds` lists the allowed kinds; `value.json` holds the canonical form, and the default before binding
  /// (a plain name is enough: value.json = "rope").
  virtual void variant(std::string_view name, VariantValue& value, const std::vector<VariantKind>& kinds,
                       std::string_view help, bool stackable = false, FieldOptions options = {}) = 0;
  /// States how fields depend on each other; checked after the fields named before it are filled.
  virtual void check(bool holds, std::string_view why) = 0;

  /// An enum with its words. With `automatic` the value may be `auto` and `value` is an optional.
  template <typename Enum>
  void choice(std::string_view name, Enum& value, std::initializer_list<std::pair<const char*, Enum>> words,
              std::string_view help, FieldOptions options = {}) {
    std::vector<std::string> names;
    int index = -1, at = 0;
    for (const auto& [word, enumerator] : words) {
      if (enumerator == value) index = at;
      names.emplace_back(word);
      ++at;
    }
    choice_index(name, index, names, help, std::move(options));
    if (index >= 0) value = (words.begin() + index)->second;
  }

  /// A nested struct with a separate `describe`.
  template <typename Group>
  void group(std::string_view name, Group& group, std::string_view help) {
    begin_group(name, help);
    group.describe(*this);
    end_group();
  }

 protected:
  virtual void any_field(std::string_view name, FieldType type, const FieldValue& value, std::string_view help,
                         FieldOptions options) = 0;
  virtual void choice_index(std::string_view name, int& index, const std::vector<std::string>& words,
                            std::string_view help, FieldOptions options) = 0;
  virtual void begin_group(std::string_view name, std::string_view help) = 0;
  virtual void end_group() = 0;
};

using DescribeFunction = std::function<void(FieldVisitor&)>;

/// The schema of whatever `describe` names, with the struct's present values as defaults.
Schema schema_of(const DescribeFunction& describe);

/// Fills the struct behind `describe` from a complete config and evaluates its checks.
/// @throws ConfigError with every check that does not hold; `name` says whose config it is.
void bind_config(const DescribeFunction& describe, const Json& config, const std::string& name);

template <typename Config>
Schema schema_of() {
  Config config;
  return schema_of([&](FieldVisitor& v) { config.describe(v); });
}

/// A filled struct. `config` may hold only some fields; the others keep their defaults.
template <typename Config>
Config make_config(const Json& config, const std::string& name = "config") {
  Config value;
  bind_config([&](FieldVisitor& v) { value.describe(v); }, config, name);
  return value;
}

/// Every field at its default.
Json defaults(const Schema& schema);

/// The field that a dotted path names, groups included; null when there is none.
const Field* find_field(const Schema& schema, std::string_view dotted);

/// Every dotted path of a leaf, in declared order.
std::vector<std::string> field_paths(const Schema& schema);

/// Where each value of a config came from: dotted path → place ("configs/train.yml:14"). Absent means default.
using Origins = std::map<std::string, Place>;

struct OverlayOptions {
  /// Asked for a key that the schema lacks (dotted path): true skips it in silence.
  std::function<bool(const std::string& dotted)> foreign;
  /// Name of the config's owner in messages, such as "stage 'trunk' (pe-train)".
  std::string owner;
};

/// Lays a map of values over `config`, in place. Keys may be dotted. Maps merge; lists and scalars replace; a variant
/// of another kind replaces. The order of keys means nothing, and a key that is set twice is a mistake. Every value is
/// typed, range-checked and made canonical by the schema. Mistakes go to `diagnostics`; a wrong value leaves the old
/// one.
void overlay(const Schema& schema, const Node& values, Json& config, Origins* origins, Diagnostics& diagnostics,
             const OverlayOptions& options = {});

/// The part of a complete config that is hashed: without unhashed fields, and without fields at their neutral value.
Json hashed_config(const Schema& schema, const Json& config);

/// The dotted paths at which two complete configs differ, with both values.
struct Difference {
  std::string path;
  Json before;  ///< null when the field was not there
  Json after;
};
std::vector<Difference> differences(const Json& before, const Json& after);

/// A value as people read it: `0.001`, `rope`, `[1, 2]`, `{kind: yarn, factor: 4}`.
std::string display(const Json& value);

/// The fields as help shows them: path, type, default, unit, range, meaning; wrapped to `width` columns.
std::string render_fields(const Schema& schema, int width);

}  // namespace pe::support
