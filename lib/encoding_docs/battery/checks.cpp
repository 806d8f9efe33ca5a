#include "encoding_docs/battery/checks.h"

#include <c10/core/InferenceMode.h>

#include <ATen/Parallel.h>

#include <algorithm>
#include <utility>

#include "encoding_docs/battery/check_functions.h"
#include "encoding_docs/battery/toy.h"
#include "support/arithmetic.h"
#include "support/clock.h"
#include "support/error.h"

namespace pe::encoding_docs::battery {

using namespace encodings;
using support::cat;

void Findings::expect_near(double difference, double allowed, std::string_view what) {
  expect(difference <= allowed, what, ": the difference is ", difference, ", and ", allowed, " is allowed");
}

std::string Findings::text() const {
  return failed_ > 1 ? cat(first_, " (and ", failed_ - 1, " more of this kind)") : first_;
}

const std::vector<Check>& checks() {
  static const std::vector<Check> all = {
      {"table", "the bias of a distance is the same in tables of any length", check_table},
      {"repetition", "the same pass gives the same bytes twice", check_repetition},
      {"causality", "no token is seen before it comes", check_causality},
      {"routes", "all routes agree on outputs and gradients with the definition, with shared keys too", check_routes},
      {"gradients", "gradients equal finite differences in float64", check_gradients},
      {"row_by_row", "decoding row by row gives what one pass gives", check_row_by_row},
      {"shift", "a common shift of positions does what the facts say", check_shift},
      {"given_positions", "given positions have the effect of counted ones", check_given_positions},
      {"far", "four times the training length is finite or rejected", check_far},
      {"packed", "packed documents are as if they stood alone", check_packed},
      {"facts", "draws, lengths and prefixes do what the facts say", check_facts},
      {"pairs", "pairs rotate by the angles that the encoding names", check_pairs},
      {"row_hook", "probes see what the definition computes", check_row_hook},
      {"inference", "training continues after an evaluation in inference mode", check_inference},
      {"seed", "initial values come from the seed and the name alone", check_seed},
      {"frozen", "a frozen model still trains its encoding", check_frozen},
      {"float32", "routes agree in float32", check_float32},
      {"bfloat16", "bfloat16 stays near float32", check_bfloat16},
      {"far_bfloat16", "far positions are exact in bfloat16", check_far_bfloat16},
  };
  return all;
}

Findings run_check(const Check& check, const Subject& subject) {
  Findings findings;
  try {
    check.run(subject, findings);
  } catch (const std::exception& error) {
    findings.expect(false, "it throws: ", error.what());
  }
  return findings;
}

namespace {

void check_count(const EncodingEntry& entry, const Shape& shape, Findings& findings) {
  Json known = {{"width", shape.width},           {"layers", shape.layers},
                {"heads", shape.query_heads},     {"kv_heads", shape.key_value_heads},
                {"head_width", shape.head_width}, {"train_length", shape.train_length}};
  known.update(support::defaults(entry.fields));
  const std::string expression = entry.parameters.empty() ? "0" : entry.parameters;
  const std::optional<double> said =
      support::evaluate_arithmetic(expression, [&](std::string_view name) -> std::optional<double> {
        const auto found = known.find(std::string(name));
        return found != known.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
      });
  findings.expect(said.has_value(), ".parameters '", expression,
                  "' is no arithmetic over width, layers, heads, kv_heads, head_width, "
                  "train_length and the integer options");
  std::int64_t count = 0;
  const auto encoding = make_encoding(entry.name, shape);
  for (const Parameter& parameter : encoding->parameters()) count += parameter.value.numel();
  if (said)
    findings.expect(static_cast<double>(count) == *said, ".parameters '", expression, "' is ", *said,
                    ", and a model has ", count);
}

}  // namespace

void check_entry(const EncodingEntry& entry, Findings& findings) {
  const auto sentence = [&](const char* field, const std::string& text) {
    findings.expect(!text.empty(), "the entry has no .", field, " (encodings/registry.h says what belongs there)");
    findings.expect(text.empty() || text.back() == '.', ".", field, " ends in a full stop");
  };
  sentence("summary", entry.summary);
  sentence("known_for", entry.known_for);
  findings.expect(!entry.reference.empty(), "the entry has no .reference");
  findings.expect(!family_name(entry.family).empty(), "the entry has no .family");
  findings.expect(!entry.acts_on.empty(), "the entry has no .acts_on");
  findings.expect(!entry.formula.empty(), "the entry has no .formula");
  for (const std::string& erratum : entry.errata) sentence("errata", erratum);
  for (const support::Field& field : entry.fields)
    findings.expect(!field.help.empty(), "option '", field.name, "' has no help");

  const auto encoding = make_encoding(entry.name, wide_shape());
  Json claimed = entry.facts.to_json(), made = encoding->facts().to_json();
  if (entry.facts.max_positions == 0) made["max_positions"] = claimed["max_positions"];
  findings.expect(claimed == made, ".facts of the entry are ", claimed.dump(), ", and the encoding has ", made.dump());

  const Traits traits = encoding->traits(Span::whole(1, 8));
  const auto acts_on = [&](bool does, const char* what) {
    findings.expect(!does || entry.acts_on.find(what) != std::string::npos, ".acts_on '", entry.acts_on, "' lacks '",
                    what, "'");
  };
  acts_on(traits.adds_to_tokens, "token embeddings");
  acts_on(traits.bias != BiasKind::kNone || traits.rewrites_logits, "logits");
  acts_on(traits.normalises, "weights");
  acts_on(traits.maps_positions, "positions");
  acts_on(entry.facts.rotates, "q and k");
  findings.expect(traits.adds_to_tokens || entry.acts_on.find("token embeddings") == std::string::npos,
                  ".acts_on names token embeddings, and nothing is added to them");
  findings.expect(!traits.own_logits || entry.acts_on.find("logits") != std::string::npos ||
                      entry.acts_on.find("product of q and k") != std::string::npos,
                  ".acts_on '", entry.acts_on, "' lacks 'product of q and k'");
  check_count(entry,
              {.width = 32, .layers = 6, .query_heads = 4, .key_value_heads = 4, .head_width = 8, .train_length = 40},
              findings);
  check_count(entry,
              {.width = 48, .layers = 3, .query_heads = 6, .key_value_heads = 6, .head_width = 8, .train_length = 24},
              findings);
}

namespace {

/// The encoding itself; for a kind with default options all subjects of the battery that contain it.
std::vector<Subject> subjects_of(const Json& encoding, const EncodingEntry* entry) {
  if (entry == nullptr) return {{encoding_name(encoding), encoding}};
  std::vector<Subject> own = subjects();
  std::erase_if(own, [&](const Subject& subject) { return !contains(subject, entry->name); });
  return own;
}

/// Entry of an encoding with default options; null for others and for stacks.
const EncodingEntry* plain_entry(const Json& encoding) {
  const EncodingEntry* entry =
      encoding.is_object() && encoding.contains("kind") ? find_encoding(encoding["kind"].get<std::string>()) : nullptr;
  if (entry == nullptr) return nullptr;
  Json options = encoding;
  options.erase("kind");
  return options == support::defaults(entry->fields) ? entry : nullptr;
}

/// Gathers lines and the first failure.
class Reporter {
 public:
  void conclude(const std::string& check, const char* meaning, const Findings& findings, const std::string& where) {
    const double now = support::steady_s(), took_s = now - std::exchange(started_, now);
    lines_ += fmt::format("{:<4}  {:<16} {:>6.2f} s  {}\n", findings.clean() ? "ok" : "FAIL", check, took_s, meaning);
    if (findings.clean()) return;
    if (first_.empty())
      first_ = cat(where, ", ", check, ": ", findings.text());
    else
      also_.push_back(check);
  }
  CheckReport report(const std::string& name, std::size_t configurations) const {
    CheckReport report{.text = lines_, .passed = first_.empty()};
    report.text += cat("\n", name, ": ", configurations, configurations == 1 ? " configuration" : " configurations",
                       report.passed ? ", all checks passed\n" : ", a check failed\n");
    if (!first_.empty()) report.text += cat("  ", first_, "\n");
    if (!also_.empty())
      report.text += cat("  Also failed, perhaps for the same reason: ", support::join(also_, ", "), ".\n");
    return report;
  }

 private:
  double started_ = support::steady_s();
  std::string lines_, first_;
  std::vector<std::string> also_;
};

}  // namespace

CheckReport check_encoding(const Json& encoding) {
  at::set_num_threads(1);  // tensors of a few numbers: other threads would only be waited for
  const EncodingEntry* entry = plain_entry(encoding);
  if (entry == nullptr) make_encoding(encoding, small_shape());  // a mistake in the config is no failure of a check
  const std::vector<Subject> own = subjects_of(encoding, entry);
  Reporter reporter;
  if (entry != nullptr) {
    Findings findings;
    try {
      check_entry(*entry, findings);
    } catch (const std::exception& error) {
      findings.expect(false, "it throws: ", error.what());
    }
    reporter.conclude("entry", "facts, texts and the count of parameters match the encoding", findings, entry->name);
  }
  for (const Check& check : checks()) {
    Findings first;
    std::string where = encoding_name(encoding);
    for (const Subject& subject : own) {
      if (!first.clean()) break;
      first = run_check(check, subject);
      where = subject.name;
    }
    reporter.conclude(check.name, check.meaning, first, where);
  }
  return reporter.report(encoding_name(encoding), own.size());
}

}  // namespace pe::encoding_docs::battery
