#include "report/figures/compact_svg.h"

#include <cmath>
#include <cstdlib>
#include <string_view>

#include "support/text.h"

namespace pe::report {

using support::cat;

namespace {

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

/// Runs of spaces become one, and none is left between two elements. Spaces inside <text> are part of the picture.
std::string without_spaces(const std::string& svg) {
  std::string out;
  out.reserve(svg.size());
  bool in_text = false;
  for (std::size_t at = 0; at < svg.size(); ++at) {
    if (svg.compare(at, 6, "<text>") == 0) in_text = true;
    if (svg.compare(at, 7, "</text>") == 0) in_text = false;
    if (!in_text && is_space(svg[at])) {
      while (at + 1 < svg.size() && is_space(svg[at + 1])) ++at;
      const char next = at + 1 < svg.size() ? svg[at + 1] : '\0';
      const char before = out.empty() ? '>' : out.back();
      if ((before == '>' && (next == '<' || next == '\0')) || next == '>') continue;
      out += ' ';
    } else {
      out += svg[at];
    }
  }
  return out;
}

/// Removes elements without content, until none is left: a removed group may leave an empty parent.
std::string without_empty_groups(std::string svg) {
  constexpr std::string_view kEnd = "</g>";
  for (std::size_t end = svg.find(kEnd); end != std::string::npos; end = svg.find(kEnd, end)) {
    const std::size_t open = svg.rfind('<', end - 1);
    const bool is_empty = open != std::string::npos && svg.compare(open, 2, "<g") == 0 && svg[end - 1] == '>';
    if (!is_empty) {
      end += kEnd.size();
      continue;
    }
    svg.erase(open, end + kEnd.size() - open);
    end = open > kEnd.size() ? open - kEnd.size() : 0;
  }
  return svg;
}

/// Removes the markers that no element refers to. One marker may refer to another, so the search repeats.
std::string without_unused_markers(std::string svg) {
  const auto remove_one = [&svg] {
    const std::size_t end = svg.find("</defs>");
    for (std::size_t at = svg.find("<defs>"); at < end && (at = svg.find('<', at + 1)) < end;) {
      const std::size_t close = svg.find("/>", at), name = svg.find(" id='", at);
      if (close == std::string::npos || close > end || name > close) continue;
      const std::size_t first = name + 5, last = svg.find('\'', first);
      const std::string id = svg.substr(first, last - first);
      if (svg.find(cat('#', id, '\'')) != std::string::npos || svg.find(cat('#', id, ')')) != std::string::npos)
        continue;
      svg.erase(at, close + 2 - at);
      return true;
    }
    return false;
  };
  while (remove_one()) {
  }
  if (const std::size_t at = svg.find("<defs></defs>"); at != std::string::npos) svg.erase(at, 13);
  return svg;
}

std::string with_line_ends(std::string svg) {
  for (std::size_t at = 0; (at = svg.find("<g><title>", at)) != std::string::npos; at += 11) svg.insert(at, "\n");
  return svg + "\n";
}

}  // namespace

std::string compact_svg(const std::string& svg) {
  return with_line_ends(without_empty_groups(without_unused_markers(without_spaces(svg))));
}

bool is_same_picture(const std::string& a, const std::string& b, double tolerance) {
  const char *p = a.c_str(), *q = b.c_str();
  const auto begins_number = [](const char* at) { return (*at >= '0' && *at <= '9') || *at == '-'; };
  while (*p != '\0' && *q != '\0') {
    if (begins_number(p) && begins_number(q)) {
      char *after_p = nullptr, *after_q = nullptr;
      const double x = std::strtod(p, &after_p), y = std::strtod(q, &after_q);
      if (after_p != p && after_q != q) {
        if (!(std::abs(x - y) <= tolerance)) return false;
        p = after_p;
        q = after_q;
        continue;
      }
    }
    if (*p != *q) return false;
    ++p;
    ++q;
  }
  return *p == *q;
}

}  // namespace pe::report
