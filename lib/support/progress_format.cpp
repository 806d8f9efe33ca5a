#include "support/progress_format.h"

#include <algorithm>
#include <cmath>

#include "support/json_text.h"
#include "support/text.h"

namespace pe::support {
namespace {

std::string number_text(const Json& value) {
  if (value.is_number_float()) {
    const double real = value.get<double>();
    return std::abs(real) >= 1000 ? short_count(real) : fmt::format("{:.4g}", real);
  }
  if (value.is_number_integer()) return short_count(value.get<double>());
  return value.is_string() ? value.get<std::string>() : support::json_text(value);
}

std::string_view without(std::string_view name, std::string_view end) {
  return name.size() > end.size() && name.substr(name.size() - end.size()) == end
             ? name.substr(0, name.size() - end.size())
             : std::string_view();
}

int rank(const std::string& name) {
  if (name == "loss") return 0;
  return without(name, "_per_second").empty() ? 2 : 1;
}

}  // namespace

std::string format_metric(std::string_view name, const Json& value) {
  if (const auto what = without(name, "_per_second"); !what.empty()) return cat(number_text(value), " ", what, "/s");
  if (const auto what = without(name, "_bytes"); !what.empty() && value.is_number()) {
    return cat(what, " ", short_bytes(value.get<double>()));
  }
  if (name == "mfu" && value.is_number()) return fmt::format("mfu {:.1f}%", 100 * value.get<double>());
  return cat(name, " ", number_text(value));
}

std::vector<std::pair<std::string, Json>> figures_in_order(const Json& detail) {
  std::vector<std::pair<std::string, Json>> result;
  if (!detail.is_object()) return result;
  for (const auto& [name, value] : detail.items()) {
    if (value != "n/a") result.emplace_back(name, value);  // the journal says so; it tells people nothing
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const auto& a, const auto& b) { return rank(a.first) < rank(b.first); });
  return result;
}

}  // namespace pe::support
