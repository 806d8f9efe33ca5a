#include "pipeline/file/substitution.h"

#include <algorithm>

#include "support/suggest.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::Diagnostics;
using support::Mark;
using support::Node;
using support::quote;

namespace {

/// One piece of a text: literal, or the inside of `$(…)`.
struct Piece {
  bool is_expression = false;
  std::string text;
};

/// Cuts a text at its substitutions; empty when one has no end.
std::optional<std::vector<Piece>> pieces_of(const std::string& text) {
  std::vector<Piece> pieces;
  std::string literal;
  std::size_t at = 0;
  while (at < text.size()) {
    if (text.compare(at, 3, "$$(") == 0) {
      literal += "$(";
      at += 3;
    } else if (text.compare(at, 2, "$(") == 0) {
      const std::size_t end = text.find(')', at);
      if (end == std::string::npos) return std::nullopt;
      if (!literal.empty()) pieces.push_back({false, std::move(literal)});
      literal.clear();
      pieces.push_back({true, text.substr(at + 2, end - at - 2)});
      at = end + 1;
    } else {
      literal += text[at++];
    }
  }
  if (!literal.empty()) pieces.push_back({false, std::move(literal)});
  return pieces;
}

std::vector<std::string> names_in_scope(const Scope& scope) {
  std::vector<std::string> names;
  for (const Binding& binding : *scope.bindings) names.push_back(binding.axis);
  if (scope.vars) {
    for (const auto& member : scope.vars->members) names.push_back(member.key);
  }
  return names;
}

std::vector<std::string> keys_of(const Node& map) {
  std::vector<std::string> keys;
  for (const auto& member : map.members) keys.push_back(member.key);
  return keys;
}

/// The value of one expression; null, with a message, when it has none.
std::optional<Node> evaluate(const std::string& expression, const Mark& mark, const Scope& scope,
                             Diagnostics& diagnostics) {
  const auto fail = [&](const std::string& message, const std::string& hint = {}) {
    diagnostics.add(cat(message, " in $(", expression, ")"), mark.place(), hint);
    return std::nullopt;
  };
  std::vector<std::string> parts = support::split(expression, '.');
  for (const std::string& part : parts) {
    if (part.empty()) return fail("a name is missing", "a substitution is $(name), $(map.key) or $(map.$axis)");
  }
  const auto lacks_axis = [&](const std::string& axis) {
    return fail(cat(scope.instance, " has no axis ", quote(axis)), cat("add ", quote(axis), " to its `over`"));
  };
  const std::string& name = parts.front();
  Node value;
  const Node* at = nullptr;
  std::size_t next = 1;
  std::string so_far = name;
  if (const AxisValue* bound = scope.find(name)) {
    if (parts.size() == 1) {
      value.kind = Node::Kind::kScalar;
      value.text = bound->label;
      value.plain = true;
      return value;
    }
    if (parts[1] != "value") {
      return fail(cat("an axis has no ", quote(parts[1])),
                  cat("$(", name, ") is the label, $(", name, ".value) the value"));
    }
    at = &bound->value;
    so_far += ".value";
    next = 2;
  } else if (const Node* var = scope.vars ? scope.vars->find(name) : nullptr) {
    at = var;
  } else if (std::find(scope.axes->begin(), scope.axes->end(), name) != scope.axes->end()) {
    return lacks_axis(name);
  } else {
    return fail(cat("unknown name ", quote(name)), support::suggestion(name, names_in_scope(scope)));
  }
  for (; next < parts.size(); ++next) {
    std::string key = parts[next];
    if (key.front() == '$') {
      const std::string axis = key.substr(1);
      const AxisValue* bound = scope.find(axis);
      if (!bound) {
        if (std::find(scope.axes->begin(), scope.axes->end(), axis) != scope.axes->end()) return lacks_axis(axis);
        return fail(cat("unknown axis ", quote(axis)), support::suggestion(axis, *scope.axes));
      }
      key = bound->label;
    }
    if (!at->is_map()) return fail(cat(quote(so_far), " is ", at->found(), " and has no ", quote(key)));
    const Node* found = at->find(key);
    if (!found) return fail(cat(quote(so_far), " has no ", quote(key)), support::suggestion(key, keys_of(*at)));
    at = found;
    so_far += cat(".", key);
  }
  value = *at;
  return value;
}

bool refuse_unterminated(const std::string& text, const Mark& mark, Diagnostics& diagnostics) {
  diagnostics.add(cat("'$(' without ')' in ", quote(text)), mark.place(), "a literal '$(' is written '$$('");
  return false;
}

/// Limit for the growth of one value: a long var that is used a thousand times makes a small file ask for gigabytes.
class Budget {
 public:
  bool take(const Node& value, const Mark& mark, Diagnostics& diagnostics) {
    const std::size_t bytes = weight(value);
    if (bytes <= left_) {
      left_ -= bytes;
      return true;
    }
    diagnostics.add("substitutions make this value larger than 4 MiB", mark.place(), "put it into a file");
    left_ = 0;
    return false;
  }

 private:
  static std::size_t weight(const Node& node) {
    std::size_t bytes = 64 + node.text.size();
    for (const Node& item : node.items) bytes += weight(item);
    for (const auto& member : node.members) bytes += member.key.size() + weight(member.value);
    return bytes;
  }
  std::size_t left_ = 4u << 20;
};

std::optional<std::string> substitute_text(const std::string& text, const Mark& mark, const Scope& scope,
                                           Diagnostics& diagnostics, Budget& budget);

std::optional<Node> substitute(const Node& node, const Scope& scope, Diagnostics& diagnostics, Budget& budget) {
  if (node.is_scalar()) {
    if (!has_substitution(node.text)) return node;
    const auto pieces = pieces_of(node.text);
    if (!pieces) {
      refuse_unterminated(node.text, node.mark, diagnostics);
      return std::nullopt;
    }
    if (pieces->size() == 1 && pieces->front().is_expression) {
      auto value = evaluate(pieces->front().text, node.mark, scope, diagnostics);
      if (value && !budget.take(*value, node.mark, diagnostics)) return std::nullopt;
      // A wrong value is shown where it is written: at the axis or var, or in the `--set`.
      if (value && !value->mark.source) value->mark = node.mark;
      return value;
    }
    auto text = substitute_text(node.text, node.mark, scope, diagnostics, budget);
    if (!text) return std::nullopt;
    Node result = node;
    result.text = std::move(*text);
    return result;
  }
  Node result = node;
  bool good = true;
  for (Node& item : result.items) {
    if (auto value = substitute(item, scope, diagnostics, budget))
      item = std::move(*value);
    else
      good = false;
  }
  for (auto& member : result.members) {
    if (auto value = substitute(member.value, scope, diagnostics, budget))
      member.value = std::move(*value);
    else
      good = false;
  }
  if (!good) return std::nullopt;
  return result;
}

std::optional<std::string> substitute_text(const std::string& text, const Mark& mark, const Scope& scope,
                                           Diagnostics& diagnostics, Budget& budget) {
  if (!has_substitution(text)) return text;
  const auto pieces = pieces_of(text);
  if (!pieces) {
    refuse_unterminated(text, mark, diagnostics);
    return std::nullopt;
  }
  std::string result;
  bool good = true;
  for (const Piece& piece : *pieces) {
    if (!piece.is_expression) {
      result += piece.text;
      continue;
    }
    const auto value = evaluate(piece.text, mark, scope, diagnostics);
    if (!value) {
      good = false;
    } else if (!budget.take(*value, mark, diagnostics)) {
      return std::nullopt;
    } else if (!value->is_scalar()) {
      diagnostics.add(cat("$(", piece.text, ") is ", value->found(), "; inside a longer text it must be a scalar"),
                      mark.place());
      good = false;
    } else {
      result += value->text;
    }
  }
  if (!good) return std::nullopt;
  return result;
}

}  // namespace

const AxisValue* Scope::find(const std::string& axis) const {
  for (const Binding& binding : *bindings) {
    if (binding.axis == axis) return binding.value;
  }
  return nullptr;
}

bool has_substitution(const std::string& text) { return text.find("$(") != std::string::npos; }

bool has_substitution(const Node& node) {
  if (node.is_scalar()) return has_substitution(node.text);
  for (const Node& item : node.items) {
    if (has_substitution(item)) return true;
  }
  for (const auto& member : node.members) {
    if (has_substitution(member.value)) return true;
  }
  return false;
}

void collect_names(const std::string& text, std::set<std::string>& names, std::set<std::string>* values) {
  if (!has_substitution(text)) return;
  const auto pieces = pieces_of(text);
  if (!pieces) return;
  for (const Piece& piece : *pieces) {
    if (!piece.is_expression) continue;
    const std::vector<std::string> parts = support::split(piece.text, '.');
    names.insert(parts.front());
    if (values && parts.size() > 1 && parts[1] == "value") values->insert(parts.front());
    for (std::size_t i = 1; i < parts.size(); ++i) {
      if (parts[i].size() > 1 && parts[i].front() == '$') names.insert(parts[i].substr(1));
    }
  }
}

void collect_names(const Node& node, std::set<std::string>& names, std::set<std::string>* values) {
  if (node.is_scalar()) collect_names(node.text, names, values);
  for (const Node& item : node.items) collect_names(item, names, values);
  for (const auto& member : node.members) collect_names(member.value, names, values);
}

std::optional<Node> substitute(const Node& node, const Scope& scope, Diagnostics& diagnostics) {
  Budget budget;
  return substitute(node, scope, diagnostics, budget);
}

std::optional<std::string> substitute_text(const std::string& text, const Mark& mark, const Scope& scope,
                                           Diagnostics& diagnostics) {
  Budget budget;
  return substitute_text(text, mark, scope, diagnostics, budget);
}

}  // namespace pe::pipeline
