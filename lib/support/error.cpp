#include "support/error.h"

#include <cerrno>
#include <cstring>

namespace pe::support {

namespace {

/// A tab before the caret must stay a tab, or the caret misses its word.
std::string caret_padding(const std::string& excerpt, int column) {
  std::string padding;
  for (int i = 0; i + 1 < column; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (at < excerpt.size() && (static_cast<unsigned char>(excerpt[at]) & 0xC0) == 0x80) continue;
    padding += at < excerpt.size() && excerpt[at] == '\t' ? '\t' : ' ';
  }
  return padding;
}

}  // namespace

std::string Place::str() const {
  std::string text = file;
  if (line > 0) {
    text += ":" + std::to_string(line);
    if (column > 0) text += ":" + std::to_string(column);
  }
  return text;
}

std::string Diagnostic::render() const {
  std::string text = place.str();
  if (!text.empty()) text += ": ";
  text += message;
  if (!place.excerpt.empty() && place.column > 0) {
    const std::string number = place.line > 0 ? std::to_string(place.line) : "";
    const std::string gutter = std::string(number.size() < 5 ? 5 - number.size() : 0, ' ');
    text += "\n" + gutter + number + " | " + place.excerpt;
    text += "\n" + std::string(5, ' ') + " | " + caret_padding(place.excerpt, place.column) +
            std::string(static_cast<std::size_t>(place.width > 0 ? place.width : 1), '^');
    if (!hint.empty()) text += " " + hint;
  } else if (!hint.empty()) {
    text += "\n  " + hint;
  }
  for (const std::string& line : context) text += "\n  " + line;
  return text;
}

Error::Error(int exit_code, Diagnostic diagnostic) : Error(exit_code, std::vector<Diagnostic>{std::move(diagnostic)}) {}

Error::Error(int exit_code, std::vector<Diagnostic> diagnostics)
    : exit_code_(exit_code), diagnostics_(std::move(diagnostics)) {
  for (const Diagnostic& diagnostic : diagnostics_) {
    if (!rendered_.empty()) rendered_ += "\n";
    rendered_ += diagnostic.render();
  }
}

void Error::add_context(const std::string& context) {
  rendered_.clear();
  for (Diagnostic& diagnostic : diagnostics_) {
    diagnostic.context.push_back(context);
    if (!rendered_.empty()) rendered_ += "\n";
    rendered_ += diagnostic.render();
  }
}

ConfigError::ConfigError(std::string message, Place place, std::string hint)
    : Error(kExitConfig, Diagnostic{std::move(message), std::move(place), std::move(hint), {}}) {}

ConfigError::ConfigError(std::vector<Diagnostic> diagnostics) : Error(kExitConfig, std::move(diagnostics)) {}

ArtifactError::ArtifactError(std::string message, std::string hint)
    : Error(kExitArtifact, Diagnostic{std::move(message), {}, std::move(hint), {}}) {}

IoError::IoError(std::string message, bool creating, int system_error)
    : Error(creating ? kExitCannotCreate : kExitIo, Diagnostic{std::move(message), {}, {}, {}}),
      system_error_(system_error) {}

void throw_errno(std::string_view doing, std::string_view path, bool creating) {
  const int error = errno;
  std::string message = "cannot " + std::string(doing);
  if (!path.empty()) message += " '" + std::string(path) + "'";
  message += ": ";
  message += std::strerror(error);
  // A full disk is a failure of the medium, wherever in the life of the file it shows.
  const bool full = error == ENOSPC || error == EDQUOT || error == EIO || error == EFBIG;
  if (error == EFBIG) message += " (ulimit -f limits the size of files)";
  if (error == EMFILE) message += " (ulimit -n limits their number)";
  throw IoError(std::move(message), creating && !full, error);
}

void Diagnostics::add(std::string message, Place place, std::string hint) {
  if (full()) {
    ++left_out_;
    return;
  }
  items_.push_back({std::move(message), std::move(place), std::move(hint), {}});
}

void Diagnostics::add_context(const std::string& context, std::size_t from) {
  for (std::size_t i = from; i < items_.size(); ++i) items_[i].context.push_back(context);
}

void Diagnostics::throw_if_any() {
  if (full())
    items_.push_back({"these are the first " + std::to_string(kMost) + " mistakes; there may be more", {}, {}, {}});
  if (!items_.empty()) throw ConfigError(std::move(items_));
}

}  // namespace pe::support
