// `list encodings` and `show encoding NAME`: what pe-train's description says of its encodings. Their code links
// LibTorch, and pe-pipeline does not.
#include "commands/encodings_command.h"

#include <algorithm>
#include <array>

#include "cli/layout.h"
#include "cli/terminal.h"
#include "commands/session.h"
#include "pipeline/orchestrator.h"
#include "support/config.h"
#include "support/error.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::commands {
namespace {

using support::cat;
using support::ConfigError;
using support::VariantKind;

// The order in which people meet them; a family that is not named here comes last.
constexpr std::array<std::string_view, 10> kFamilies = {
    "baseline", "absolute",    "rotary", "context extension", "position map",
    "bias",     "temperature", "sink",   "content",           "combination"};

std::size_t rank(const VariantKind& kind) {
  const std::string family = kind.facts.value("family", "");
  return static_cast<std::size_t>(std::find(kFamilies.begin(), kFamilies.end(), family) - kFamilies.begin());
}

/// The encodings of pe-train, in the order of families and names.
std::vector<VariantKind> known_encodings() {
  pipeline::StageCatalog catalog = stage_catalog();
  const auto stage = catalog.find("pe-train", fs::current_path(), {});
  const support::Field* field = support::find_field(stage->fields, "model.encoding");
  if (field == nullptr)
    throw ConfigError("pe-train describes no encodings", {}, "install pe-pipeline and pe-train of one release");
  std::vector<VariantKind> kinds = field->kinds;
  std::stable_sort(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) {
    return rank(a) != rank(b) ? rank(a) < rank(b) : a.name < b.name;
  });
  return kinds;
}

std::string fact(const VariantKind& kind, const char* name) { return kind.facts.value(name, ""); }

std::string as_written(std::string arithmetic) {
  for (auto at = arithmetic.find('*'); at != std::string::npos; at = arithmetic.find('*', at)) {
    arithmetic.replace(at, 1, "·");
  }
  return arithmetic;
}

/// "layers·(33·heads + 66)", or "none".
std::string learned(const VariantKind& kind) {
  const std::string arithmetic = fact(kind, "parameters");
  return arithmetic.empty() ? "none" : as_written(arithmetic);
}

/// In the smallest of the three usual models.
std::optional<double> learned_in_tiny(const VariantKind& kind) {
  const std::string arithmetic = fact(kind, "parameters");
  if (arithmetic.empty()) return 0;
  Json known = {{"width", 512},  {"layers", 6},      {"heads", 8},
                {"kv_heads", 8}, {"head_width", 64}, {"train_length", 1024}};
  known.update(support::defaults(kind.fields));
  return pipeline::evaluate_expression(arithmetic, known);
}

Json encoding_json(const VariantKind& kind) {
  Json json = {{"name", kind.name}, {"aliases", kind.aliases}, {"summary", kind.summary}};
  json.update(kind.facts);
  const auto count = learned_in_tiny(kind);
  json["parameters_in_tiny"] = count ? Json(static_cast<std::int64_t>(*count)) : Json();
  json["options"] = support::schema_to_json(kind.fields);
  return json;
}

std::string facts_text(const VariantKind& kind) {
  std::vector<std::string> words;
  const std::string shift = fact(kind, "shift_invariant");
  if (shift == "always") words.push_back("sees distances only");
  if (shift == "never") words.push_back("sees absolute places");
  if (shift == "until_effective_length") words.push_back("sees distances only, up to its effective length");
  const auto says = [&](const char* name) { return kind.facts.contains(name) && kind.facts[name] == true; };
  if (says("content_dependent")) words.push_back("depends on content");
  if (says("length_dependent")) words.push_back("needs the length (pe_len)");
  if (says("stochastic")) words.push_back("draws at random");
  if (kind.facts.contains("max_positions") && !kind.facts["max_positions"].is_null()) {
    words.push_back("ends at a largest position");
  }
  return support::join(words, "; ");
}

}  // namespace

std::vector<std::string> encoding_names() {
  std::vector<std::string> names;
  for (const VariantKind& kind : known_encodings()) names.push_back(kind.name);
  return names;
}

int list_encodings(const cli::CommandLine& line) {
  const std::vector<VariantKind> kinds = known_encodings();
  if (line.json) {
    Json json{{"schema", "pe-list-encodings/1"}, {"schema_version", 1}, {"encodings", Json::array()}};
    for (const VariantKind& kind : kinds) json["encodings"].push_back(encoding_json(kind));
    print_json(json);
    return pipeline::kRunDone;
  }
  const cli::Style style = out_style(line);
  std::vector<std::vector<std::string>> rows{{"name", "kind", "acts on", "learned", "reference"}};
  for (const VariantKind& kind : kinds) {
    rows.push_back({kind.name, fact(kind, "family"), fact(kind, "acts_on"), learned(kind), fact(kind, "reference")});
  }
  std::string out;
  const bool terminal = cli::can_draw(1);  // a pipe gets whole lines
  // In a narrow terminal the longest column goes first; names, kinds and sources stay.
  for (const std::ptrdiff_t column : {3, 2}) {
    const std::string shown = table(rows);
    if (!terminal || static_cast<int>(support::display_width(shown.substr(0, shown.find('\n')))) + 24 <=
                         cli::terminal_size(1).columns)
      break;
    for (auto& row : rows) row.erase(row.begin() + column);
  }
  bool first = true;
  for (const std::string& row : support::split(table(rows), '\n')) {
    if (row.empty()) continue;
    const std::string fitted = terminal ? cli::fit(row, cli::terminal_size(1).columns) : row;
    out += (first ? style.bold(fitted) : fitted) + "\n";
    first = false;
  }
  print(out);
  say(cat(counted(kinds.size(), "encoding"), "; `pe-pipeline show encoding NAME` says more\n"));
  return pipeline::kRunDone;
}

int show_encoding(const cli::CommandLine& line, const std::string& name) {
  const std::vector<VariantKind> kinds = known_encodings();
  std::vector<std::string> names;
  const VariantKind* found = nullptr;
  for (const VariantKind& kind : kinds) {
    names.push_back(kind.name);
    names.insert(names.end(), kind.aliases.begin(), kind.aliases.end());
    const bool is_alias = std::find(kind.aliases.begin(), kind.aliases.end(), name) != kind.aliases.end();
    if (kind.name == name || is_alias) found = &kind;
  }
  if (found == nullptr) {
    throw ConfigError(cat("unknown encoding ", support::quote(name)), {"pe-pipeline show encoding", 0, 0, "", 1},
                      support::suggestion(name, names));
  }
  const VariantKind& kind = *found;
  if (line.json) {
    Json json{{"schema", "pe-show-encoding/1"}, {"schema_version", 1}};
    json.update(encoding_json(kind));
    print_json(json);
    return pipeline::kRunDone;
  }
  const cli::Style style = out_style(line);
  const int width = std::clamp(cli::terminal_size(1).columns, 40, 100);
  std::string text =
      cat(style.bold(kind.name), kind.aliases.empty() ? "" : cat(" (", support::join(kind.aliases, ", "), ")"), "  ",
          fact(kind, "family"), "\n", cli::wrapped(kind.summary, width, 2), "\n");
  text += cat(style.bold("formula"), "\n", cli::wrapped(fact(kind, "formula"), width, 2, 2), "\n");
  text += cat(style.bold("known for"), "\n", cli::wrapped(fact(kind, "known_for"), width, 2), "\n");
  if (kind.facts.contains("errata") && !kind.facts["errata"].empty()) {
    text += cat(style.bold("errata"), "\n");
    for (const Json& erratum : kind.facts["errata"])
      text += cli::wrapped(cat("- ", erratum.get<std::string>()), width, 2, 2);
    text += "\n";
  }
  std::vector<std::vector<std::string>> rows = {{"  acts on", fact(kind, "acts_on")}};
  std::string count = learned(kind);
  if (const auto tiny = learned_in_tiny(kind); tiny && *tiny > 0) {
    count += cat(" (", support::with_commas(static_cast<std::int64_t>(*tiny)), " in a model of the size tiny)");
  }
  rows.push_back({"  parameters", count});
  if (const std::string facts = facts_text(kind); !facts.empty()) rows.push_back({"  behaviour", facts});
  rows.push_back({"  reference", fact(kind, "reference")});
  text += table(rows);
  if (!kind.fields.empty()) {
    text += cat("\n", style.bold("options"), "\n", support::render_fields(kind.fields, width));
  }
  print(text);
  return pipeline::kRunDone;
}

}  // namespace pe::commands
