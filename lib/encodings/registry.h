/// @file
/// The list of encodings: the entries of the source files that this folder's meson.build names.
///
///     auto encoding = make_encoding(config.encoding.json, shape);    // {"kind": "yarn", "factor": 4, …}
///
/// In a config: v.variant("encoding", encoding, encodings::variant_kinds(), "…", /*stackable=*/true).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "encodings/attention/positional_encoding.h"
#include "support/config.h"

namespace pe::encodings {

/// Kind of encoding; lists and pages are ordered by it.
enum class Family {
  kUnnamed,      ///< not set; a test rejects it
  kBaseline,     ///< no positions
  kAbsolute,     ///< Added to token embeddings.
  kRotary,       ///< Rotates q and k.
  kExtension,    ///< A rotary encoding made for longer texts.
  kPositionMap,  ///< Gives tokens other positions, for the rest of a stack.
  kBias,         ///< Added to logits, from positions alone.
  kTemperature,  ///< multiplies logits
  kSink,         ///< Lets a row of attention weights sum to less than one.
  kContent,      ///< Positions or decays that depend on the content of tokens.
  kCombination,  ///< Combines encodings listed here in another way than a plain stack.
};

std::string_view family_name(Family family);  ///< "absolute", "context extension", …

struct EncodingEntry {
  std::string name;
  std::vector<std::string> aliases;
  std::string summary;
  std::string reference;  ///< paper
  Facts facts;            ///< with default options
  Family family = Family::kUnnamed;
  /// Where it acts, in words: "token embeddings", "q and k", "q", "logits", "product of q and k", "weights",
  /// "positions", "values", or several of them with commas.
  std::string acts_on;
  /// Learned numbers of a whole model with default options, as arithmetic over width, layers, heads, kv_heads,
  /// head_width, train_length and the encoding's integer options: "layers*(33*heads + 66)". Empty: none.
  std::string parameters;
  /// Written as on a blackboard: i and j are the positions of query and key, d = i − j, h the head. n is the number of
  /// visible keys. Each part has a separate line.
  std::string formula;
  /// Uses and results, in one to three sentences; only claims that its papers or this project support.
  std::string known_for;
  /// Points where the paper, its code, or common copies are wrong or disagree, and the rule here. May be empty.
  std::vector<std::string> errata;
  support::Schema fields;  ///< options
  /// @param options values by name; absent ones have their defaults.
  std::function<std::unique_ptr<PositionalEncoding>(const Json& options, const Shape& shape)> make;
};

/// Sorted by name.
const std::vector<EncodingEntry>& encodings();

/// By name or alias; null when there is none.
const EncodingEntry* find_encoding(std::string_view name);

/// For a config's variant field.
std::vector<support::VariantKind> variant_kinds();

/// Builds an encoding, or a stack of them, from the value in a config: "rope", {"kind": "yarn", "factor": 4}, {"stack":
/// ["rope", {"kind": "ssmax"}]}. Absent options have their defaults.
/// @throws ConfigError for an unknown kind or option, a value that does not fit the shape, or members of a stack that
/// exclude each other.
std::unique_ptr<PositionalEncoding> make_encoding(const Json& value, const Shape& shape);

/// "rope", "rope+ssmax": the column `pe` of tables. Takes the same values as make_encoding.
std::string encoding_name(const Json& value);

/// Facts::heads_per_query of the encoding that make_encoding would make, without making it; 1 where it would throw.
int heads_per_query(const Json& value);

/// An entry's `fields` and `make` from an options struct and a class whose constructor is (first..., Options, Shape).
template <typename Encoding, typename Options, typename... First>
EncodingEntry with_options(EncodingEntry entry, First... first) {
  entry.fields = support::schema_of<Options>();
  entry.make = [=, name = entry.name](const Json& options, const Shape& shape) -> std::unique_ptr<PositionalEncoding> {
    return std::make_unique<Encoding>(first..., support::make_config<Options>(options, "encoding '" + name + "'"),
                                      shape);
  };
  return entry;
}

/// For encodings without options: the constructor is (first..., Shape).
template <typename Encoding, typename... First>
EncodingEntry without_options(EncodingEntry entry, First... first) {
  entry.make = [=](const Json&, const Shape& shape) -> std::unique_ptr<PositionalEncoding> {
    return std::make_unique<Encoding>(first..., shape);
  };
  return entry;
}

}  // namespace pe::encodings
