/// @file
/// `$(…)` in the values of a stage: an axis's label, an axis's value, a var, a var indexed by an axis label.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "pipeline/file/pipeline_file.h"
#include "support/yaml.h"

namespace pe::pipeline {

/// An axis of an instance and the value it has there. The value outlives the scope.
struct Binding {
  std::string axis;
  const AxisValue* value = nullptr;
};

/// Meaning of names for one instance.
struct Scope {
  const std::vector<Binding>* bindings = nullptr;
  const support::Node* vars = nullptr;             ///< a map, or null
  const std::vector<std::string>* axes = nullptr;  ///< every axis of the pipeline, for messages
  std::string instance;                            ///< its name in messages, "stage 'trunk'"

  const AxisValue* find(const std::string& axis) const;
};

/// True when the text, or any scalar below the node, holds `$(` or `$$(`.
bool has_substitution(const std::string& text);
bool has_substitution(const support::Node& node);

/// The first names of all substitutions below a node, and the axes that index vars. `values` gets the axes whose value
/// is read: `$(axis.value)`.
void collect_names(const support::Node& node, std::set<std::string>& names, std::set<std::string>* values = nullptr);
void collect_names(const std::string& text, std::set<std::string>& names, std::set<std::string>* values = nullptr);

/// The node with every substitution done. A scalar that is nothing but one substitution becomes the value itself, which
/// may be a map; inside a longer text a value is rendered. Mistakes go to `diagnostics`; empty when there were some.
std::optional<support::Node> substitute(const support::Node& node, const Scope& scope,
                                        support::Diagnostics& diagnostics);

/// The same for a text whose result must be a text.
std::optional<std::string> substitute_text(const std::string& text, const support::Mark& mark, const Scope& scope,
                                           support::Diagnostics& diagnostics);

}  // namespace pe::pipeline
