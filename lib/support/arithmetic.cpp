#include "support/arithmetic.h"

#include <cctype>
#include <charconv>

namespace pe::support {

namespace {

/// Recursive descent over choices, sums, products and atoms. Once the text is wrong, `good_` stays false; `known_` says
/// whether every value that counts is there.
class Evaluator {
 public:
  Evaluator(std::string_view text, const ValueOf& value_of) : text_(text), value_of_(value_of) {}

  std::optional<double> run() {
    const double value = choice();
    skip();
    return good_ && known_ && at_ == text_.size() ? std::optional(value) : std::nullopt;
  }

 private:
  static constexpr int kDeepest = 64;

  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char wanted) {
    skip();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  double choice() {
    double value = sum();
    while (good_ && take('|')) {
      const bool decided = known_ && value != 0;
      const double other = sum();
      if (decided)
        known_ = true;
      else
        value = other;
    }
    return value;
  }
  double sum() {
    double value = product();
    while (good_) {
      if (take('+'))
        value += product();
      else if (take('-'))
        value -= product();
      else
        break;
    }
    return value;
  }
  double product() {
    double value = atom();
    while (good_) {
      if (take('*'))
        value *= atom();
      else if (take('/'))
        value /= atom();
      else
        break;
    }
    return value;
  }
  double atom() {
    skip();
    if (take('(')) {
      if (++depth_ > kDeepest) good_ = false;
      const double value = good_ ? choice() : 0;
      --depth_;
      if (!take(')')) good_ = false;
      return value;
    }
    std::size_t end = at_;
    if (end < text_.size() && std::isdigit(static_cast<unsigned char>(text_[end]))) {
      double value = 0;
      const auto result = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
      good_ = good_ && result.ec == std::errc{};
      at_ = static_cast<std::size_t>(result.ptr - text_.data());
      return value;
    }
    while (end < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[end])) || text_[end] == '_' || text_[end] == '.'))
      ++end;
    if (end == at_) {
      good_ = false;
      return 0;
    }
    const std::optional<double> value = value_of_(text_.substr(at_, end - at_));
    at_ = end;
    known_ = known_ && value.has_value();
    return value.value_or(0);
  }

  std::string_view text_;
  const ValueOf& value_of_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool good_ = true, known_ = true;
};

}  // namespace

std::optional<double> evaluate_arithmetic(std::string_view expression, const ValueOf& value_of) {
  return Evaluator(expression, value_of).run();
}

}  // namespace pe::support
