#include "encoding_docs/pages.h"

#include <algorithm>

#include "encoding_docs/example.h"
#include "encoding_docs/figures.h"
#include "encoding_docs/markdown.h"
#include "encoding_docs/pitfalls.h"
#include "encodings/attention/attend.h"
#include "report/figures/compact_svg.h"
#include "report/figures/gnuplot.h"
#include "support/files.h"
#include "support/text.h"

namespace pe::encoding_docs {
namespace {

using encodings::EncodingEntry;
using encodings::Family;
using support::cat;

namespace fs = std::filesystem;

constexpr const char* kGenerated =
    "<!-- Written by `pe-encodings pages`; change the entry of the encoding, not this page. -->\n";

std::string with_dots(std::string arithmetic) {
  for (auto at = arithmetic.find('*'); at != std::string::npos; at = arithmetic.find('*', at))
    arithmetic.replace(at, 1, "·");
  return arithmetic;
}

/// In a Markdown table a bar would end the cell.
std::string cell(std::string text) {
  for (auto at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) text.insert(at, "\\");
  return text;
}

/// "arXiv:2309.00071" becomes a link.
std::string linked(const std::string& reference) {
  std::string out;
  std::size_t from = 0;
  for (auto at = reference.find("arXiv:"); at != std::string::npos; at = reference.find("arXiv:", from)) {
    std::size_t end = at + 6;
    while (end < reference.size() &&
           (std::isdigit(static_cast<unsigned char>(reference[end])) || reference[end] == '.'))
      ++end;
    while (end > at + 6 && reference[end - 1] == '.') --end;
    const std::string id = reference.substr(at + 6, end - at - 6);
    out += reference.substr(from, at - from) + cat("[arXiv:", id, "](https://arxiv.org/abs/", id, ")");
    from = end;
  }
  return out + reference.substr(from);
}

encodings::Shape tiny() {
  return {.width = 512, .layers = 6, .query_heads = 8, .key_value_heads = 8, .head_width = 64, .train_length = 1024};
}

std::int64_t learned_numbers(const EncodingEntry& entry) {
  std::int64_t count = 0;
  const auto encoding = encodings::make_encoding(entry.name, tiny());
  for (const encodings::Parameter& parameter : encoding->parameters()) count += parameter.value.numel();
  return count;
}

std::string behaviour(const EncodingEntry& entry) {
  const encodings::Facts& facts = entry.facts;
  std::vector<std::string> words;
  switch (facts.shift_invariant) {
    case encodings::ShiftInvariance::kAlways:
      words.push_back("Relative: adding a constant to all positions leaves the logits unchanged.");
      break;
    case encodings::ShiftInvariance::kUntilEffectiveLength:
      words.push_back("Relative up to its effective length, absolute beyond it.");
      break;
    case encodings::ShiftInvariance::kNever:
      words.push_back("Absolute: adding a constant to all positions changes the logits.");
      break;
  }
  if (facts.content_dependent) words.push_back("The result depends on the content of the tokens.");
  if (facts.length_dependent) {
    words.push_back("It needs the length of the text (`pe_len`), which changes the logits of earlier tokens.");
  }
  if (facts.stochastic) words.push_back("Positions or values are random; results are means over draws.");
  if (facts.max_positions) words.push_back("It has a largest position; positions beyond it are an error.");
  return support::join(words, " ");
}

std::string type_text(const support::Field& field) {
  if (!field.choices.empty()) {
    std::vector<std::string> words;
    for (const std::string& choice : field.choices) words.push_back(cat("`", choice, "`"));
    return support::join(words, ", ");
  }
  std::string text(support::type_name(field.type));
  if (field.automatic) text += " or `auto`";
  if (!field.options.unit.empty()) text += cat(", ", field.options.unit);
  if (field.options.min && field.options.max) {
    text += cat(", ", support::shortest(*field.options.min), " to ", support::shortest(*field.options.max));
  } else if (field.options.min) {
    text += cat(", at least ", support::shortest(*field.options.min));
  }
  return text;
}

std::string route_text(const EncodingEntry& entry) {
  const auto encoding = encodings::make_encoding(entry.name, tiny());
  const encodings::Span span = encodings::Span::whole(1, 1024);
  const std::string training = encodings::route_name(*encoding, span, at::kFloat, true);
  const std::string evaluation = encodings::route_name(*encoding, span, at::kFloat, false);
  return training == evaluation ? cat("`", training, "`")
                                : cat("`", training, "` in training, `", evaluation, "` in evaluation");
}

}  // namespace

std::string encoding_page(const EncodingEntry& entry) {
  std::string out = cat(kGenerated, "# ", entry.name, "\n\n", entry.summary, "\n\n");
  if (!entry.aliases.empty()) {
    std::vector<std::string> names;
    for (const std::string& alias : entry.aliases) names.push_back(cat("`", alias, "`"));
    out += cat("Also called ", support::join(names, ", "), ".\n\n");
  }
  out += cat("```\n", entry.formula, "\n```\n\n");
  out += cat("![Score against distance](figures/", entry.name, ".svg)\n\n*", figure_caption(entry), "*\n\n");
  out += cat("**Known for.** ", entry.known_for, "\n\n");
  out += cat("**Behaviour.** ", behaviour(entry), "\n\n");
  out += "| | |\n|---|---|\n";
  out += cat("| kind | ", encodings::family_name(entry.family), " |\n");
  out += cat("| acts on | ", entry.acts_on, " |\n");
  const std::int64_t count = learned_numbers(entry);
  out += cat("| parameters | ",
             count == 0 ? "none"
                        : cat(with_dots(entry.parameters), " (", support::with_commas(count),
                              " in a model of the size tiny, 59M)"),
             " |\n");
  out += cat("| route on a CPU | ", route_text(entry), " |\n");
  out += cat("| reference | ", cell(linked(entry.reference)), " |\n\n");
  if (!entry.fields.empty()) {
    out += "## Options\n\n| option | default | type | meaning |\n|---|---|---|---|\n";
    for (const support::Field& field : entry.fields) {
      const std::string fallback =
          field.automatic && field.default_value.is_null() ? "auto" : support::display(field.default_value);
      out += cat("| `", field.name, "` | `", fallback, "` | ", cell(type_text(field)), " | ", cell(field.help), " |\n");
    }
    out += "\n";
  }
  if (!entry.errata.empty()) {
    out += "## Errata\n\n";
    for (const std::string& erratum : entry.errata) out += cat("- ", erratum, "\n");
    out += "\n";
  }
  const Json example = example_config(entry);
  const Json shown = example.contains("stack") ? example : (example.size() == 1 ? Json(entry.name) : example);
  const char* group = entry.name == "distance_map" ? "eval" : "model";  // no model is trained with it
  out += cat("## Use\n\n```yaml\n", group, ":\n  encoding: ", support::display(shown), "\n```\n");
  return wrapped_markdown(out);
}

std::string index_page() {
  std::string out =
      cat(kGenerated, "# Encodings\n\n",
          "Each encoding has a page with a figure, from the same entry as `pe-pipeline show encoding NAME`. "
          "[guide.md](guide.md) helps to choose one; [pitfalls.md](pitfalls.md) shows common errors.\n");
  for (int f = static_cast<int>(Family::kBaseline); f <= static_cast<int>(Family::kCombination); ++f) {
    const auto family = static_cast<Family>(f);
    std::string rows;
    for (const EncodingEntry& entry : encodings::encodings()) {
      if (entry.family != family) continue;
      rows += cat("| [", entry.name, "](", entry.name, ".md) | ", cell(entry.summary), " | ",
                  entry.parameters.empty() ? "0" : with_dots(entry.parameters), " |\n");
    }
    if (rows.empty()) continue;
    std::string title(encodings::family_name(family));
    title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
    out += cat("\n## ", title, "\n\n| name | effect | parameters |\n|---|---|---|\n", rows);
  }
  return wrapped_markdown(out);
}

std::map<std::string, std::string> generated_texts() {
  std::map<std::string, std::string> texts;
  texts["README.md"] = index_page();
  texts["pitfalls.md"] = pitfalls_page();
  for (const EncodingEntry& entry : encodings::encodings()) {
    texts[cat(entry.name, ".md")] = encoding_page(entry);
  }
  return texts;
}

bool is_same_figure(const std::string& a, const std::string& b) { return report::is_same_picture(a, b, 0.5); }

int write_pages(const fs::path& folder) {
  support::make_folders(folder / "figures");
  int changed = 0;
  const auto write = [&](const fs::path& file, const std::string& text, bool is_current) {
    if (is_current) return;
    support::write_file_atomically(file, text, /*durable=*/false);
    ++changed;
  };
  const auto old = [](const fs::path& file) { return fs::exists(file) ? support::read_file(file) : std::string(); };
  for (const auto& [name, text] : generated_texts()) write(folder / name, text, old(folder / name) == text);
  for (const EncodingEntry& entry : encodings::encodings()) {
    const fs::path file = folder / "figures" / (entry.name + ".svg");
    const std::string picture = report::render_svg(encoding_figure(entry));
    write(file, picture, is_same_figure(old(file), picture));
  }
  return changed;
}

}  // namespace pe::encoding_docs
