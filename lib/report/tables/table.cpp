#include "report/tables/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "report/text_escape.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

std::string with_minus(std::string digits) {
  if (!digits.empty() && digits[0] == '-') {
    // "-0.0000" is zero.
    if (digits.find_first_not_of("-0.") == std::string::npos) return digits.substr(1);
    digits.replace(0, 1, "−");
  }
  return digits;
}

// Decimals that a number of this style shows. Perplexities above 100 lose theirs; an interval gives them two of its
// digits.
int decimals_of(double value, NumberStyle style, double half_width) {
  switch (style) {
    case NumberStyle::kPerplexity: {
      const int own = std::abs(value) < 99.995 ? 2 : 0;
      return half_width > 0 ? std::clamp(1 - static_cast<int>(std::floor(std::log10(half_width))), own, 6) : own;
    }
    case NumberStyle::kNats:
    case NumberStyle::kSignedNats:
      return 4;
    case NumberStyle::kPercent:
    case NumberStyle::kSignedPercent:
      return 1;
    case NumberStyle::kProbability:
      return 3;
    case NumberStyle::kCount:
    case NumberStyle::kTokens:
      return 0;
  }
  return 4;
}

double shown_scale(NumberStyle style) {
  return style == NumberStyle::kPercent || style == NumberStyle::kSignedPercent ? 100 : 1;
}

// Three significant digits for large perplexities: 1234.5 is 1230.
double rounded_for(double value, NumberStyle style, double half_width) {
  if (style != NumberStyle::kPerplexity || std::abs(value) < 999.5) return value;
  const double last =
      std::isnan(half_width) ? std::floor(std::log10(std::abs(value))) - 2 : std::floor(std::log10(half_width)) - 1;
  if (last <= 0) return value;  // its decimals say it
  const double unit = std::pow(10, last);
  return std::round(value / unit) * unit;
}

bool has_groups(const Table& table) {
  return std::any_of(table.columns.begin(), table.columns.end(), [](const Column& c) { return !c.group.empty(); });
}

template <typename Member>
bool column_uses(const Table& table, std::size_t column, Member Cell::*member) {
  return std::any_of(table.rows.begin(), table.rows.end(),
                     [&](const Row& row) { return (row.cells[column].*member).has_value(); });
}

// Runs of neighbouring columns with one group: {group, first, count}.
struct Span {
  std::string group;
  std::size_t first;
  std::size_t count;
};
std::vector<Span> spans_of(const Table& table) {
  std::vector<Span> spans;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const std::string& group = table.columns[i].group;
    if (!spans.empty() && spans.back().group == group && !group.empty()) {
      ++spans.back().count;
    } else {
      spans.push_back({group, i, 1});
    }
  }
  return spans;
}

std::string number_csv(std::optional<double> number) {
  return number && std::isfinite(*number) ? support::shortest(*number) : "";
}

}  // namespace

std::size_t longest_text(const Table& table, std::size_t column) {
  std::size_t longest = 0;
  if (!table.columns[column].text) return longest;
  for (const Row& row : table.rows) longest = std::max(longest, support::display_width(row.cells[column].text));
  return longest;
}

bool is_long_text(const Table& table, std::size_t column) {
  constexpr std::size_t kLongText = 60;
  return longest_text(table, column) > kLongText;
}

std::string arrow_of(Direction direction) {
  if (direction == Direction::kLowerIsBetter) return " ↓";
  if (direction == Direction::kHigherIsBetter) return " ↑";
  return "";
}

Cell Cell::of_text(std::string text) {
  Cell cell;
  cell.text = std::move(text);
  return cell;
}

Cell Cell::of_number(double number) {
  if (std::isnan(number)) return missing("n/a", "not a number");
  if (std::isinf(number)) return missing("overflow", "not finite");
  Cell cell;
  cell.number = number;
  return cell;
}

Cell Cell::missing(std::string mark, std::string reason) {
  Cell cell;
  cell.text = std::move(mark);
  cell.reason = std::move(reason);
  return cell;
}

Cell Cell::of_known(double number, std::string reason) {
  return std::isfinite(number) ? of_number(number) : missing("–", std::move(reason));
}

std::string header_text(const Column& column) {
  return cat(column.header, arrow_of(column.direction), column.note.empty() ? "" : cat(" [", column.note, "]"));
}

std::string p_text(double p, int decimals) {
  constexpr double kLevel = 0.05;
  std::string text = fmt::format("{:.{}f}", p, decimals);
  for (; decimals < 12 && (std::stod(text) < kLevel) != (p < kLevel); text = fmt::format("{:.{}f}", p, decimals))
    ++decimals;
  return text;
}

std::string format_number(double value, NumberStyle style, double half_width) {
  if (!std::isfinite(value)) return std::isnan(value) ? "n/a" : "overflow";
  switch (style) {
    case NumberStyle::kCount:
      return with_minus(support::with_commas(std::llround(value)));
    case NumberStyle::kTokens:
      return with_minus(support::short_count(value));
    case NumberStyle::kProbability:
      return value < 0.001 ? "<0.001" : p_text(value, 3);
    case NumberStyle::kSignedNats:
    case NumberStyle::kSignedPercent: {
      const std::string digits =
          with_minus(fmt::format("{:.{}f}", value * shown_scale(style), decimals_of(value, style, half_width)));
      const bool zero = digits.find_first_not_of("0.") == std::string::npos;
      return value > 0 && !zero ? "+" + digits : digits;
    }
    default:
      return with_minus(fmt::format("{:.{}f}", rounded_for(value, style, half_width) * shown_scale(style),
                                    decimals_of(value, style, half_width)));
  }
}

double half_width_of(const Cell& cell) {
  if (cell.half_width) return *cell.half_width;
  if (cell.interval) return (cell.interval->high - cell.interval->low) / 2;
  if (cell.parts.size() < 2) return std::numeric_limits<double>::quiet_NaN();
  const auto [low, high] = std::minmax_element(cell.parts.begin(), cell.parts.end());
  return *high > *low ? (*high - *low) / 2 : std::numeric_limits<double>::quiet_NaN();
}

std::string parts_text(const Cell& cell, const Column& column) {
  constexpr std::size_t kShown = 5;
  std::vector<std::string> parts;
  for (const double part : cell.parts) parts.push_back(format_number(part, column.style, half_width_of(cell)));
  if (parts.size() <= kShown) return support::join(parts, ", ");
  const auto [low, high] = std::minmax_element(cell.parts.begin(), cell.parts.end());
  const double width = half_width_of(cell);
  return cat(parts.size(), " seeds, ", format_number(*low, column.style, width), " to ",
             format_number(*high, column.style, width));
}

std::string format_cell(const Cell& cell, const Column& column) {
  if (!cell.number) return cell.text;
  const double width = half_width_of(cell);
  std::string text = format_number(*cell.number, column.style, width);
  if (cell.few) text += "†";
  if (cell.half_width && std::isfinite(*cell.half_width)) {
    text += cat(" ± ", fmt::format("{:.{}f}", *cell.half_width * shown_scale(column.style),
                                   decimals_of(*cell.number, column.style, width)));
  }
  if (cell.interval) {
    text += cat(" [", format_number(cell.interval->low, column.style, width), ", ",
                format_number(cell.interval->high, column.style, width), "]");
  }
  if (!cell.parts.empty()) text += cat(" (", parts_text(cell, column), ")");
  return text;
}

std::vector<std::string> table_notes(const Table& table) {
  // Reasons in the order of their first cell, each with the cells that it explains.
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const Row& row : table.rows) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < row.cells.size() && i < 3; ++i) {
      if (table.columns[i].text && !row.cells[i].text.empty()) names.push_back(row.cells[i].text);
    }
    const std::string row_name = support::join(names, ", ");
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      const Cell& cell = row.cells[i];
      if (cell.reason.empty()) continue;
      const Column& column = table.columns[i];
      const std::string reason = cat(cell.text, ": ", cell.reason);
      const std::string where =
          cat(row_name, row_name.empty() ? "" : ", ", column.group, column.group.empty() ? "" : " ", column.header);
      auto found = std::find_if(reasons.begin(), reasons.end(), [&](const auto& r) { return r.first == reason; });
      if (found == reasons.end()) found = reasons.insert(reasons.end(), {reason, {}});
      // Rows that differ only in numbers count as one.
      if (found->second.empty() || found->second.back() != where) found->second.push_back(where);
    }
  }
  std::vector<std::string> notes;
  const bool few = std::any_of(table.rows.begin(), table.rows.end(), [](const Row& row) {
    return std::any_of(row.cells.begin(), row.cells.end(), [](const Cell& cell) { return cell.few && cell.number; });
  });
  if (few) notes.emplace_back("†: fewer than 30 documents or items, or too few for their skew; an interval is rough");
  for (auto& [reason, cells] : reasons) {
    const std::size_t count = cells.size();
    if (count > 6) cells.resize(6);
    notes.push_back(cat(reason, " — ", support::join(cells, "; "), count > 6 ? cat("; and ", count - 6, " more") : ""));
  }
  return notes;
}

std::string to_csv(const Table& table) {
  std::vector<std::string> header;
  std::vector<bool> halves, intervals;  // of each column: some cell has one
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const Column& column = table.columns[i];
    header.push_back(quote_csv(column.id));
    halves.push_back(!column.text && column_uses(table, i, &Cell::half_width));
    intervals.push_back(!column.text && column_uses(table, i, &Cell::interval));
    if (halves[i]) header.push_back(quote_csv(column.id + "_half_width"));
    if (intervals[i]) {
      header.push_back(quote_csv(column.id + "_low"));
      header.push_back(quote_csv(column.id + "_high"));
    }
  }
  header.push_back("missing");
  std::string text = support::join(header, ",") + "\r\n";
  for (const Row& row : table.rows) {
    std::vector<std::string> fields, missing;
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      const Column& column = table.columns[i];
      const Cell& cell = row.cells[i];
      if (!cell.reason.empty()) missing.push_back(cat(column.id, ": ", cell.text, " (", cell.reason, ")"));
      fields.push_back(column.text ? quote_csv(cell.text) : number_csv(cell.number));
      if (halves[i]) fields.push_back(number_csv(cell.half_width));
      if (intervals[i]) {
        fields.push_back(cell.interval ? number_csv(cell.interval->low) : "");
        fields.push_back(cell.interval ? number_csv(cell.interval->high) : "");
      }
    }
    fields.push_back(quote_csv(support::join(missing, "; ")));
    text += support::join(fields, ",") + "\r\n";
  }
  return text;
}

std::string title_sentence(const Table& table) {
  const bool ends = !table.title.empty() && std::string("?!.").find(table.title.back()) != std::string::npos;
  return table.title + (ends ? "" : ".");
}

Table with_protocol(Table table, const std::string& protocol, const std::vector<std::string>& protocols) {
  const auto is_other = [&](const std::string& name) {
    return name != protocol && std::find(protocols.begin(), protocols.end(), name) != protocols.end();
  };
  const auto has = [&](const Column& column) { return column.group == protocol; };
  if (std::any_of(table.columns.begin(), table.columns.end(), has)) {
    for (std::size_t c = table.columns.size(); c-- > 0;) {
      if (!is_other(table.columns[c].group)) continue;
      table.columns.erase(table.columns.begin() + static_cast<std::ptrdiff_t>(c));
      for (Row& row : table.rows) row.cells.erase(row.cells.begin() + static_cast<std::ptrdiff_t>(c));
    }
  }
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    const auto is_own = [&](const Row& row) { return row.cells[c].text == protocol; };
    if (table.columns[c].id == "protocol" && std::any_of(table.rows.begin(), table.rows.end(), is_own))
      std::erase_if(table.rows, [&](const Row& row) { return is_other(row.cells[c].text); });
  }
  return table;
}

std::string to_markdown(const Table& table) {
  std::string text = cat("**", escape_markdown(title_sentence(table)), "** ", escape_markdown(table.caption), "\n\n|");
  std::string rule = "|";
  for (const Column& column : table.columns) {
    text += cat(" ", escape_markdown(column.group), column.group.empty() ? "" : " ",
                escape_markdown(header_text(column)), " |");
    rule += column.text ? " --- |" : " ---: |";
  }
  text += "\n" + rule + "\n";
  for (const Row& row : table.rows) {
    text += "|";
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      const std::string shown = escape_markdown(format_cell(row.cells[i], table.columns[i]));
      text += row.cells[i].best ? cat(" **", shown, "** |") : cat(" ", shown, " |");
    }
    text += "\n";
  }
  const auto notes = table_notes(table);
  for (const std::string& note : notes) text += cat("\n- ", escape_markdown(note));
  if (!notes.empty()) text += "\n";
  return text;
}

namespace {

std::string html_header(const Table& table) {
  std::string text;
  if (has_groups(table)) {
    text += "<tr>";
    for (const Span& span : spans_of(table)) {
      text += span.group.empty()
                  ? "<td></td>"
                  : cat("<th scope=\"colgroup\" colspan=\"", span.count, "\">", escape_html(span.group), "</th>");
    }
    text += "</tr>\n";
  }
  text += "<tr>";
  for (const Column& column : table.columns) {
    text += cat("<th scope=\"col\" data-id=\"", escape_html(column.id), "\"", column.text ? "" : " class=\"n\"", ">",
                escape_html(column.header), arrow_of(column.direction),
                column.note.empty() ? "" : cat("<small>[", escape_html(column.note), "]</small>"), "</th>");
  }
  return text + "</tr>\n";
}

std::string html_cell(const Cell& cell, const Column& column, bool is_long) {
  std::string shown;
  if (cell.number) {
    const std::string number = format_number(*cell.number, column.style, half_width_of(cell)) + (cell.few ? "†" : "");
    shown = escape_html(number);
    if (cell.best) shown = "<b>" + shown + "</b>";
    const std::string rest = format_cell(cell, column).substr(number.size());
    if (!rest.empty()) shown += "<small>" + escape_html(rest) + "</small>";
  } else {
    shown = escape_html(cell.text);
  }
  const char* kind = is_long       ? " class=\"wide\""
                     : column.text ? ""
                     : cell.number ? " class=\"n\""
                                   : " class=\"n miss\"";
  const std::string value = cell.number ? cat(" data-v=\"", support::shortest(*cell.number), "\"") : "";
  return cat("<td", kind, value, cell.reason.empty() ? "" : cat(" title=\"", escape_html(cell.reason), "\""), ">",
             shown, "</td>");
}

// Whose row it is, for filters, and the results behind it, for readers who ask where a number comes from.
std::string html_source(const Table& table, const Row& row) {
  std::string text = row.variant.empty() ? "" : cat(" data-variant=\"", escape_html(row.variant), "\"");
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    for (const char* id : {"encoding", "variant", "seed"}) {
      if (table.columns[i].text && table.columns[i].id == id)
        text += cat(" data-", id, "=\"", escape_html(row.cells[i].text), "\"");
    }
  }
  const auto places = [](const std::vector<std::size_t>& list) {
    std::vector<std::string> words;
    for (const std::size_t place : list) words.push_back(cat(place));
    return support::join(words, " ");
  };
  if (row.runs) text += cat(" data-runs=\"", places(*row.runs), "\"");
  if (!row.trainings.empty()) text += cat(" data-trainings=\"", places(row.trainings), "\"");
  return text;
}

}  // namespace

std::string to_html(const Table& table) {
  std::vector<bool> is_long;
  for (std::size_t i = 0; i < table.columns.size(); ++i) is_long.push_back(is_long_text(table, i));
  std::string text =
      cat("<figure class=\"table\" id=\"table-", escape_html(table.id), "\">\n<figcaption><b>",
          escape_html(title_sentence(table)), "</b> ", escape_html(table.caption),
          "</figcaption>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"", escape_html(table.title),
          "\">\n<table style=\"--columns: ", table.columns.size(), "\">\n<thead>\n");
  text += html_header(table);
  text += "</thead>\n<tbody>\n";
  for (const Row& row : table.rows) {
    text += cat(row.rule_above ? "<tr class=\"rule\"" : "<tr", html_source(table, row), ">");
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      const Cell& cell = row.cells[i];
      const Column& column = table.columns[i];
      if (i == 0) {
        const std::string number = cell.number ? cat(" data-v=\"", support::shortest(*cell.number), "\"") : "";
        text += cat("<th scope=\"row\"", number, ">", escape_html(format_cell(cell, column)), "</th>");
        continue;
      }
      text += html_cell(cell, column, is_long[i]);
    }
    text += "</tr>\n";
  }
  text += "</tbody>\n</table>\n</div>\n";
  const auto notes = table_notes(table);
  if (!notes.empty()) {
    text += "<ul class=\"notes\">\n";
    for (const std::string& note : notes) text += "<li>" + escape_html(note) + "</li>\n";
    text += "</ul>\n";
  }
  return text + "</figure>\n";
}

Json to_json(const Table& table) {
  Json json{{"id", table.id},
            {"title", table.title},
            {"caption", table.caption},
            {"columns", Json::array()},
            {"rows", Json::array()}};
  for (const Column& column : table.columns) {
    json["columns"].push_back({{"id", column.id}, {"header", column.header}, {"group", column.group}});
  }
  for (const Row& row : table.rows) {
    Json cells = Json::array();
    for (const Cell& cell : row.cells) {
      if (!cell.number) {
        cells.push_back(cell.reason.empty() ? Json{{"text", cell.text}}
                                            : Json{{"text", cell.text}, {"missing", cell.reason}});
        continue;
      }
      Json value{{"value", *cell.number}};
      if (cell.half_width && std::isfinite(*cell.half_width)) value["half_width"] = *cell.half_width;
      if (cell.interval) value["interval"] = {cell.interval->low, cell.interval->high};
      if (!cell.parts.empty()) value["seeds"] = cell.parts;
      if (cell.best) value["best"] = true;
      cells.push_back(std::move(value));
    }
    json["rows"].push_back(std::move(cells));
  }
  return json;
}

}  // namespace pe::report
