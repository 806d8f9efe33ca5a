#include "interop/rope_parameters.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "support/error.h"
#include "support/escaped.h"
#include "support/text.h"

namespace pe::interop {

using support::ArtifactError;
using support::cat;
using support::quote;

namespace {

/// A pair that is not turned: its angle is below 1e-20 at any position, in float32 as well.
constexpr double kNever = 1e-30;

class RopeReader {
 public:
  RopeReader(const Json& parameters, const std::string& where) : json_(parameters), where_(where) {}

  [[noreturn]] void fail(const std::string& what, const std::string& hint = {}) const {
    throw ArtifactError(cat(quote(where_), ": rope_parameters: ", what), hint);
  }
  std::optional<double> find(const char* name) const {
    const auto found = json_.find(name);
    if (found == json_.end() || found->is_null()) return std::nullopt;
    if (!found->is_number()) fail(cat(name, " is ", support::escaped(found->dump(), 60), ", expected a number"));
    const double value = found->get<double>();
    if (!std::isfinite(value)) fail(cat(name, " is not finite"));
    return value;
  }
  double need(const char* name) const {
    const auto found = find(name);
    if (!found) fail(cat(name, " is missing for rope_type '", type(), "'"));
    return *found;
  }
  double above(const char* name, double least) const {
    const double value = need(name);
    if (value <= least) fail(cat(name, " is ", value, ", expected more than ", least));
    return value;
  }
  std::vector<double> list(const char* name) const {
    const auto found = json_.find(name);
    if (found == json_.end() || !found->is_array()) fail(cat(name, " is no list"));
    std::vector<double> numbers;
    for (const Json& item : *found) {
      if (!item.is_number() || !(item.get<double>() > 0)) fail(cat(name, " holds ", support::escaped(item.dump(), 40)));
      numbers.push_back(item.get<double>());
    }
    return numbers;
  }
  std::string type() const { return json_.at("rope_type").get<std::string>(); }
  double original(std::int64_t most) const {
    return find("original_max_position_embeddings").value_or(static_cast<double>(most));
  }
  /// Of YaRN. transformers reads 0 as a missing key.
  std::optional<double> turns(const char* name) const {
    const auto given = find(name);
    return given == 0.0 ? std::nullopt : given;
  }
  /// Of YaRN. transformers tests its truth: null and 0 are false, and an absent key is true.
  bool truncates() const {
    const auto given = json_.find("truncate");
    if (given == json_.end()) return true;
    if (!given->is_boolean() && !given->is_null() && *given != 0 && *given != 1)
      fail(cat("truncate is ", support::escaped(given->dump(), 40), ", expected true or false"));
    return *given == true || *given == 1;
  }

 private:
  const Json& json_;
  const std::string& where_;
};

double yarn_scale(double factor, double weight) { return factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1; }

double yarn_attention_factor(const RopeReader& in, double factor) {
  if (const auto given = in.find("attention_factor")) return *given;
  const double mscale = in.find("mscale").value_or(0), all = in.find("mscale_all_dim").value_or(0);
  return mscale != 0 && all != 0 ? yarn_scale(factor, mscale) / yarn_scale(factor, all) : yarn_scale(factor, 1);
}

void apply_yarn(const RopeReader& in, double base, double original, double width, RopeFrequencies& made) {
  const double factor = in.above("factor", 0);
  const auto pair_of = [&](double turns) {
    return width * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(base));
  };
  double low = pair_of(in.turns("beta_fast").value_or(32)), high = pair_of(in.turns("beta_slow").value_or(1));
  if (in.truncates()) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, width - 1);
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < made.theta.size(); ++i) {
    const double stretched = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    made.theta[i] *= stretched / factor + (1 - stretched);
  }
  made.attention_factor = yarn_attention_factor(in, factor);
}

void apply_llama3(const RopeReader& in, double original, RopeFrequencies& made) {
  const double factor = in.above("factor", 0), low = in.need("low_freq_factor"), high = in.need("high_freq_factor");
  if (!(high > low)) in.fail("high_freq_factor is not above low_freq_factor");
  for (double& theta : made.theta) {
    const double turns = original * theta / (2 * std::numbers::pi);
    const double kept = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    theta *= (1 - kept) / factor + kept;
  }
}

/// How many times the length of the texts that the model was first trained on.
double longrope_factor(const RopeReader& in, double original, std::int64_t most) {
  return in.find("factor").value_or(static_cast<double>(most) / original);
}

double longrope_attention_factor(const RopeReader& in, double original, std::int64_t most) {
  const double factor = longrope_factor(in, original, most);
  const double rule = factor <= 1 || original <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(original));
  return in.find("attention_factor").value_or(rule);
}

void apply_longrope(const RopeReader& in, double original, std::int64_t most, RopeFrequencies& made) {
  const std::vector<double> divisors = in.list("short_factor");
  if (divisors != in.list("long_factor")) {
    in.fail("short_factor and long_factor differ, so the frequencies depend on the text's length");
  }
  if (divisors.size() != made.theta.size()) {
    in.fail(cat("short_factor holds ", divisors.size(), " numbers, and a head has ", made.theta.size(), " pairs"));
  }
  for (std::size_t i = 0; i < divisors.size(); ++i) made.theta[i] /= divisors[i];
  made.attention_factor = longrope_attention_factor(in, original, most);
}

}  // namespace

Json rope_parameters_of(const Json& config, const std::string& where) {
  const auto object = [&](const char* name) -> Json {
    const auto found = config.find(name);
    if (found == config.end() || found->is_null()) return Json::object();
    if (!found->is_object()) throw ArtifactError(cat(quote(where), ": ", name, " is no object"));
    return *found;
  };
  Json made = object("rope_parameters");
  const Json scaling = object("rope_scaling");
  if (!scaling.empty()) made = scaling;  // version 5 takes one or the other, too
  if (!made.contains("rope_type")) made["rope_type"] = made.value("type", Json("default"));
  made.erase("type");
  if (!made["rope_type"].is_string()) throw ArtifactError(cat(quote(where), ": rope_type is no text"));
  const double usual = config.value("model_type", Json()) == "smollm3" ? 2e6 : 1e4;  // of the class
  if (!made.contains("rope_theta")) made["rope_theta"] = config.value("rope_theta", Json(usual));
  if (!made.contains("original_max_position_embeddings") && config.contains("original_max_position_embeddings")) {
    made["original_max_position_embeddings"] = config["original_max_position_embeddings"];
  }
  if (config.value("rope_interleaved", Json(false)) == true) {
    throw ArtifactError(cat(quote(where), ": rope_interleaved is true: rows of such models are in another order"));
  }
  for (const Json* from : {&config, static_cast<const Json*>(&made)}) {
    const Json partial = from->value("partial_rotary_factor", Json());
    if (!partial.is_null() && partial != 1) {
      throw ArtifactError(cat(quote(where), ": partial_rotary_factor ", support::escaped(partial.dump(), 40),
                              " is not supported, only 1"));
    }
  }
  return made;
}

RopeFrequencies rope_frequencies(const Json& parameters, std::int64_t head_width, std::int64_t most_positions,
                                 const std::string& where) {
  const RopeReader in(parameters, where);
  const double base = in.above("rope_theta", 1), width = static_cast<double>(head_width);
  const std::string type = in.type();
  RopeFrequencies made;
  for (std::int64_t i = 0; i < head_width / 2; ++i)
    made.theta.push_back(std::pow(base, -2.0 * static_cast<double>(i) / width));
  const double original = in.original(most_positions);
  if (!(original >= 1)) in.fail("original_max_position_embeddings is below 1");
  if (type == "default") return made;
  if (type == "linear") {
    const double factor = in.above("factor", 0);
    for (double& theta : made.theta) theta /= factor;
  } else if (type == "llama3") {
    apply_llama3(in, original, made);
  } else if (type == "yarn") {
    apply_yarn(in, base, original, width, made);
  } else if (type == "longrope") {
    apply_longrope(in, original, most_positions, made);
  } else {
    in.fail(cat("rope_type '", support::escaped(type, 40), "' is not supported"),
            "known are default, linear, llama3, yarn and longrope");
  }
  return made;
}

Json encoding_of_rope(const Json& parameters, std::int64_t most_positions, const std::string& where) {
  const RopeReader in(parameters, where);
  const std::string type = in.type();
  const double base = in.above("rope_theta", 1);
  if (type == "default") return {{"kind", "rope"}, {"base", base}};
  const double stated = in.original(most_positions);
  if (!(stated >= 1 && stated <= 1 << 24)) in.fail(cat("original_max_position_embeddings is ", stated));
  const auto original = static_cast<std::int64_t>(stated);
  Json made = {{"base", base}, {"factor", in.find("factor").value_or(1)}};
  if (type == "linear") {
    made["kind"] = "pi";
    return made;
  }
  made["train_length"] = original;
  if (type == "llama3") {
    made["kind"] = "llama3";
    made["low_freq_factor"] = in.need("low_freq_factor");
    made["high_freq_factor"] = in.need("high_freq_factor");
  } else if (type == "yarn") {
    made["kind"] = "yarn";
    for (const char* name : {"beta_fast", "beta_slow"}) {
      if (const auto given = in.turns(name)) made[name] = *given;
    }
    made["truncate"] = in.truncates();
    made["attention_factor"] = yarn_attention_factor(in, in.need("factor"));
  } else {
    made["kind"] = "longrope";
    made["long_factors"] = in.list("long_factor");
    made["short_factors"] = in.list("short_factor");
    made["factor"] = std::max(1.0, longrope_factor(in, stated, most_positions));
    made["attention_factor"] = longrope_attention_factor(in, stated, most_positions);
  }
  return made;
}

bool same_frequencies(const RopeFrequencies& a, const RopeFrequencies& b) {
  constexpr double kRounding = 1e-6;
  if (a.theta.size() != b.theta.size()) return false;
  if (std::abs(a.attention_factor - b.attention_factor) > kRounding * std::abs(a.attention_factor)) return false;
  for (std::size_t i = 0; i < a.theta.size(); ++i) {
    if (std::abs(a.theta[i] - b.theta[i]) > kRounding * std::abs(a.theta[i]) + 1e-20) return false;
  }
  return true;
}

Json rope_parameters_for(const RopeFrequencies& wanted, double base, std::int64_t positions, const Json& hint) {
  const auto width = static_cast<std::int64_t>(2 * wanted.theta.size());
  const auto fits = [&](const Json& parameters) {
    return same_frequencies(wanted, rope_frequencies(parameters, width, positions, "the export"));
  };
  const Json plain = {{"rope_type", "default"}, {"rope_theta", base}};
  if (fits(plain)) return plain;
  if (!wanted.theta.empty() && wanted.theta[0] > 0 && wanted.theta[0] <= 1) {
    const Json linear = {{"rope_type", "linear"}, {"rope_theta", base}, {"factor", 1 / wanted.theta[0]}};
    if (fits(linear)) return linear;
  }
  if (hint.is_object() && fits(hint)) return hint;
  std::vector<double> divisors;
  for (std::size_t i = 0; i < wanted.theta.size(); ++i) {
    const double turns = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(width));
    const double divisor = wanted.theta[i] > kNever * turns ? turns / wanted.theta[i] : 1 / kNever;
    divisors.push_back(std::abs(divisor - 1) < 1e-12 ? 1 : divisor);
  }
  return {{"rope_type", "longrope"},
          {"rope_theta", base},
          {"factor", 1.0},
          {"attention_factor", wanted.attention_factor},
          {"original_max_position_embeddings", positions},
          {"short_factor", divisors},
          {"long_factor", divisors}};
}

}  // namespace pe::interop
