/// @file
/// Text of the user's inside documents of other grammars. Every label goes through one of these; ill-formed UTF-8 and
/// control characters become U+FFFD first.
#pragma once

#include <string>
#include <string_view>

namespace pe::report {

std::string clean_text(std::string_view text);       ///< one line of well-formed UTF-8 without control characters
std::string escape_html(std::string_view text);      ///< for element content and quoted attributes
std::string escape_markdown(std::string_view text);  ///< for a table cell or a paragraph
std::string escape_latex(std::string_view text);     ///< for running text
std::string quote_csv(std::string_view text);        ///< RFC 4180: quoted only when it must be
std::string quote_gnuplot(std::string_view text);    ///< single-quoted: no escapes, no command substitution
/// JSON for a `<script>` element: no '<' is left that could end it.
std::string escape_json_script(std::string_view json);

}  // namespace pe::report
