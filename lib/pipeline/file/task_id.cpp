#include "pipeline/file/task_id.h"

#include <algorithm>

#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::quote;

std::string task_id(const std::string& label, const AxisLabels& axes) {
  std::string id = label;
  char before = '[';
  for (const auto& [axis, value] : axes) {
    id += before;
    id += axis;
    id += '=';
    id += value;
    before = ',';
  }
  if (!axes.empty()) id += ']';
  return id;
}

std::optional<TaskName> parse_task_id(std::string_view text, std::string* why) {
  const auto fail = [&](std::string what) {
    if (why) *why = std::move(what);
    return std::nullopt;
  };
  TaskName name;
  const std::size_t open = text.find('[');
  name.label = std::string(text.substr(0, open));
  if (open == std::string_view::npos) return name;
  if (text.back() != ']') return fail("']' is missing at the end");
  if (support::trim(text.substr(open)) == "[*]") return name;  // as `plan` writes all instances of a stage
  for (const std::string& part : support::split(text.substr(open + 1, text.size() - open - 2), ',')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos) return fail(cat("expected axis=label, found ", quote(part)));
    const std::string axis(support::trim(std::string_view(part).substr(0, equals)));
    const std::string label(support::trim(std::string_view(part).substr(equals + 1)));
    if (axis.empty() || label.empty()) return fail(cat("expected axis=label, found ", quote(part)));
    name.axes.emplace_back(axis, label);
  }
  return name;
}

/// Whether a pattern names a text; each '*' matches any characters, also none.
bool fits_text(std::string_view pattern, std::string_view text) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (std::size_t at = star; at <= text.size(); ++at) {
    if (fits_text(rest, text.substr(at))) return true;
  }
  return false;
}

bool fits(const TaskName& pattern, std::string_view label, const AxisLabels& axes) {
  if (!pattern.label.empty() && !fits_text(pattern.label, label)) return false;
  return std::all_of(pattern.axes.begin(), pattern.axes.end(), [&](const auto& wanted) {
    const auto own =
        std::find_if(axes.begin(), axes.end(), [&](const auto& each) { return each.first == wanted.first; });
    if (own == axes.end()) return false;
    return std::any_of(pattern.axes.begin(), pattern.axes.end(), [&](const auto& each) {
      return each.first == wanted.first && fits_text(each.second, own->second);
    });
  });
}

}  // namespace pe::pipeline
