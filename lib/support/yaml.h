/// @file
/// Strict YAML 1.2 (core): a tree of nodes with their places. Scalars stay text until a schema types them, so `1e-3`,
/// `017` and `no` mean what the field says and never what a reader guessed.
///
/// Rejected, with place and a way out: duplicate keys, merge keys (`<<`), keys that are not scalars, tags, several
/// documents. Also: nesting beyond 64 levels, aliases that blow up, bytes that are not UTF-8, files beyond 16 MiB.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "support/error.h"
#include "support/json.h"

namespace pe::support {

/// A text that nodes point into: its name for messages and its lines for excerpts.
struct Source {
  std::string name;
  std::vector<std::string> lines;
};

struct Mark {
  std::shared_ptr<const Source> source;
  int line = 0;  ///< from 1; 0 when unknown
  int column = 0;
  int width = 1;

  Place place() const;
};

struct Node {
  enum class Kind { kNull, kScalar, kList, kMap };
  struct Member;

  Kind kind = Kind::kNull;
  std::string text;   ///< of a scalar, as written (quotes and escapes resolved)
  bool plain = true;  ///< a scalar without quotes; only such may be a bool, a number or null
  Mark mark;
  std::vector<Node> items;      ///< of a list
  std::vector<Member> members;  ///< of a map, in the order written

  const Node* find(std::string_view key) const;
  const Member* find_member(std::string_view key) const;
  bool is_null() const { return kind == Kind::kNull; }
  bool is_scalar() const { return kind == Kind::kScalar; }
  bool is_list() const { return kind == Kind::kList; }
  bool is_map() const { return kind == Kind::kMap; }
  Place place() const { return mark.place(); }
  /// "a list", "a map", "nothing", "text 'abc'": what was found, for messages.
  std::string found() const;
};

struct Node::Member {
  std::string key;
  Mark key_mark;
  Node value;
};

/// Reads one document. `name` is its name in messages.
/// @throws ConfigError with every mistake that can be separated.
Node parse_yaml(std::string_view text, const std::string& name);

/// Reads a file. @throws ConfigError when it is missing or unreadable, else as parse_yaml.
Node read_yaml(const std::filesystem::path& path);

/// A node for a value given on a command line: parsed as YAML, placed at `flag` ("--set trunk.train.tokens").
Node parse_yaml_value(std::string_view text, const std::string& flag);

/// A quoted scalar that is never parsed, for paths given on a command line.
Node literal_node(std::string text, const std::string& flag);

/// A tree without a schema: null, bool, integer, real by the YAML 1.2 core rules, else text. For free-form maps.
Json to_json(const Node& node);

/// A tree from JSON, so that a complete config and a YAML file take one road. Marks carry `name` alone.
Node from_json(const Json& json, const std::string& name);

}  // namespace pe::support
