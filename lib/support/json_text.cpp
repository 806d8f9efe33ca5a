#include "support/json_text.h"

#include <utility>

namespace pe::support {

namespace {

constexpr std::size_t kPiece = 32768;

std::string dumped(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string json_text(const Json& value, int indent, std::size_t levels) {
  const std::string text = dumped(value, indent);
  if (indent < 0 || levels == 0) return text;
  // A line break within a string is escaped, so each one here ends a line of the layout.
  const std::string margin(levels * static_cast<std::size_t>(indent), ' ');
  std::string laid_out;
  for (const char c : text) {
    laid_out += c;
    if (c == '\n') laid_out += margin;
  }
  return laid_out;
}

void JsonText::put(std::string_view text) {
  text_ += text;
  if (text_.size() < kPiece) return;
  sink_(text_);
  text_.clear();
}

void JsonText::finish(std::string_view behind) {
  text_ += behind;
  sink_(text_);
  text_.clear();
}

void JsonText::new_line() {
  if (indent_ < 0) return;
  put("\n");
  put(std::string(filled_.size() * static_cast<std::size_t>(indent_), ' '));
}

/// Writes the text between the value before and this one.
void JsonText::begin_value() {
  if (std::exchange(after_key_, false) || filled_.empty()) return;
  if (filled_.back()) put(",");
  filled_.back() = true;
  new_line();
}

void JsonText::open(char bracket) {
  begin_value();
  put({&bracket, 1});
  filled_.push_back(false);
}

void JsonText::close(char bracket) {
  const bool filled = filled_.back();
  filled_.pop_back();
  if (filled) new_line();
  put({&bracket, 1});
}

void JsonText::key(std::string_view name) {
  begin_value();
  put(dumped(name, -1));
  put(indent_ < 0 ? ":" : ": ");
  after_key_ = true;
}

void JsonText::raw(const std::vector<std::string_view>& pieces) {
  begin_value();
  for (const std::string_view piece : pieces) put(piece);
}

void JsonText::value(const Json& value) {
  begin_value();
  put(json_text(value, indent_, filled_.size()));
}

}  // namespace pe::support
