#include "encodings/bias/expression.h"

#include <charconv>

#include "support/error.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::encodings {

using support::cat;
using support::ConfigError;
using support::quote;

struct Expression::Node {
  enum class Kind { kNumber, kName, kNegative, kFunction, kOperator };
  Kind kind = Kind::kNumber;
  double number = 0;
  std::string name;  ///< of a name or function; the sign of an operator
  std::vector<std::shared_ptr<const Node>> arguments;
};

namespace {

using Node = Expression::Node;
using NodePointer = std::shared_ptr<const Node>;

Tensor constant(double value) { return at::scalar_tensor(value, at::TensorOptions(at::kDouble)); }

struct OneArgument {
  const char* name;
  Tensor (*apply)(const Tensor&);
};

const OneArgument kOneArgument[] = {
    {"exp", [](const Tensor& x) { return x.exp(); }},
    {"log", [](const Tensor& x) { return x.log(); }},
    {"log1p", [](const Tensor& x) { return x.log1p(); }},
    {"expm1", [](const Tensor& x) { return x.expm1(); }},
    {"sqrt", [](const Tensor& x) { return x.sqrt(); }},
    {"abs", [](const Tensor& x) { return x.abs(); }},
    {"sin", [](const Tensor& x) { return x.sin(); }},
    {"cos", [](const Tensor& x) { return x.cos(); }},
    {"tanh", [](const Tensor& x) { return x.tanh(); }},
    {"sigmoid", [](const Tensor& x) { return x.sigmoid(); }},
    {"softplus", [](const Tensor& x) { return x.clamp_min(0) + (-x.abs()).exp().log1p(); }},
    {"relu", [](const Tensor& x) { return x.clamp_min(0); }},
    {"floor", [](const Tensor& x) { return x.floor(); }},
    {"step", [](const Tensor& x) { return x.ge(0).to(at::kDouble); }},  // 1 from 0 on
};

struct TwoArguments {
  const char* name;
  Tensor (*apply)(const Tensor&, const Tensor&);
};

const TwoArguments kTwoArguments[] = {
    {"min", [](const Tensor& a, const Tensor& b) { return at::minimum(a, b); }},
    {"max", [](const Tensor& a, const Tensor& b) { return at::maximum(a, b); }},
    {"+", [](const Tensor& a, const Tensor& b) { return a + b; }},
    {"-", [](const Tensor& a, const Tensor& b) { return a - b; }},
    {"*", [](const Tensor& a, const Tensor& b) { return a * b; }},
    {"/", [](const Tensor& a, const Tensor& b) { return a / b; }},
    {"^", [](const Tensor& a, const Tensor& b) { return a.pow(b); }},
};

template <typename Table>
const auto* find_function(const Table& table, const std::string& name) {
  const auto found =
      std::find_if(std::begin(table), std::end(table), [&](const auto& entry) { return entry.name == name; });
  return found == std::end(table) ? nullptr : &*found;
}

const std::map<std::string, double>& constants() {
  static const std::map<std::string, double> all = {{"pi", M_PI}, {"e", M_E}};
  return all;
}

/// How many arguments a function takes; 0: there is none of that name.
std::size_t arguments_of(const std::string& name) {
  if (find_function(kOneArgument, name) != nullptr) return 1;
  return find_function(kTwoArguments, name) != nullptr ? 2 : 0;
}

bool begins_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool continues_name(char c) { return begins_name(c) || (c >= '0' && c <= '9'); }

/// Recursive descent; every error names its column.
class Parser {
 public:
  Parser(const std::string& text, const FormulaNames& names, std::string where, std::set<std::string>& used)
      : text_(text), names_(names), where_(std::move(where)), used_(used) {}

  NodePointer run() {
    if (text_.size() > Expression::kLongest) {
      fail(0, cat("the formula has ", text_.size(), " characters, and at most ", Expression::kLongest, " are read"));
    }
    NodePointer root = sum();
    skip();
    if (at_ < text_.size()) fail(at_, cat("expected an operator or the end, found ", quote(text_.substr(at_, 1))));
    return root;
  }

 private:
  [[noreturn]] void fail(std::size_t at, const std::string& message, const std::string& hint = {},
                         std::size_t width = 1) const {
    throw ConfigError(cat("encoding 'formula': ", message),
                      {where_, 1, static_cast<int>(at) + 1, text_, static_cast<int>(std::max<std::size_t>(1, width))},
                      hint);
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char wanted) {
    skip();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  void require(char wanted, const char* what) {
    if (take(wanted)) return;
    fail(at_, cat("expected '", std::string(1, wanted), "' ", what, ", found ",
                  at_ < text_.size() ? quote(text_.substr(at_, 1)) : "the end"));
  }
  static NodePointer node(Node::Kind kind, std::string name, std::vector<NodePointer> arguments) {
    return std::make_shared<const Node>(Node{kind, 0, std::move(name), std::move(arguments)});
  }

  NodePointer sum() {
    if (++depth_ > Expression::kDeepest)
      fail(at_, cat("brackets are nested more than ", Expression::kDeepest, " deep"));
    NodePointer value = product();
    while (true) {
      if (take('+'))
        value = node(Node::Kind::kOperator, "+", {value, product()});
      else if (take('-'))
        value = node(Node::Kind::kOperator, "-", {value, product()});
      else
        break;
    }
    --depth_;
    return value;
  }
  NodePointer product() {
    NodePointer value = sign();
    while (true) {
      if (take('*'))
        value = node(Node::Kind::kOperator, "*", {value, sign()});
      else if (take('/'))
        value = node(Node::Kind::kOperator, "/", {value, sign()});
      else
        break;
    }
    return value;
  }
  NodePointer sign() {
    if (++depth_ > Expression::kDeepest)
      fail(at_, cat("signs and brackets are nested more than ", Expression::kDeepest, " deep"));
    NodePointer value = take('-') ? node(Node::Kind::kNegative, "", {sign()}) : power();
    --depth_;
    return value;
  }
  NodePointer power() {
    NodePointer base = atom();
    return take('^') ? node(Node::Kind::kOperator, "^", {base, sign()}) : base;
  }

  NodePointer atom() {
    skip();
    if (at_ >= text_.size()) fail(at_, "expected a number, a name or a bracket, found the end");
    if (take('(')) {
      NodePointer inner = sum();
      require(')', "that closes the bracket");
      return inner;
    }
    if ((text_[at_] >= '0' && text_[at_] <= '9') || text_[at_] == '.') return number();
    if (!begins_name(text_[at_]))
      fail(at_, cat("expected a number, a name or a bracket, found ", quote(text_.substr(at_, 1))));
    const std::size_t begin = at_;
    while (at_ < text_.size() && continues_name(text_[at_])) ++at_;
    const std::string name = text_.substr(begin, at_ - begin);
    if (const std::size_t count = arguments_of(name); count > 0) return function(name, begin, count);
    return named(name, begin);
  }

  NodePointer number() {
    double value = 0;
    const auto result = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (result.ec != std::errc{}) fail(at_, "this is no number");
    at_ = static_cast<std::size_t>(result.ptr - text_.data());
    return std::make_shared<const Node>(Node{Node::Kind::kNumber, value, {}, {}});
  }

  NodePointer function(const std::string& name, std::size_t begin, std::size_t count) {
    require('(', cat("behind the function ", name).c_str());
    std::vector<NodePointer> arguments{sum()};
    while (take(',')) arguments.push_back(sum());
    require(')', cat("behind the arguments of ", name).c_str());
    if (arguments.size() != count) {
      fail(begin, cat(name, " takes ", count, count == 1 ? " argument" : " arguments", ", found ", arguments.size()),
           {}, name.size());
    }
    return node(Node::Kind::kFunction, name, std::move(arguments));
  }

  NodePointer named(const std::string& name, std::size_t begin) {
    if (const auto found = constants().find(name); found != constants().end()) {
      return std::make_shared<const Node>(Node{Node::Kind::kNumber, found->second, {}, {}});
    }
    const auto known = names_.find(name);
    if (known == names_.end()) {
      std::vector<std::string> words;
      for (const auto& [word, indices] : names_) words.push_back(word);
      for (const auto& entry : kOneArgument) words.push_back(entry.name);
      words.insert(words.end(), {"min", "max", "pi", "e"});
      fail(begin, cat("unknown name ", quote(name)), support::suggestion(name, words), name.size());
    }
    const std::string wanted = known->second.empty() ? name : cat(name, "[", support::join(known->second, ","), "]");
    std::vector<std::string> indices;
    if (take('[')) {
      do {
        skip();
        const std::size_t first = at_;
        while (at_ < text_.size() && continues_name(text_[at_])) ++at_;
        indices.push_back(text_.substr(first, at_ - first));
      } while (take(','));
      require(']', "behind the indices");
    }
    if (indices != known->second)
      fail(begin, cat(quote(name), " has other indices"), cat("write ", wanted), at_ - begin);
    used_.insert(name);
    return node(Node::Kind::kName, name, {});
  }

  const std::string& text_;
  const FormulaNames& names_;
  std::string where_;
  std::set<std::string>& used_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

Tensor value_of(const Node& node, const std::map<std::string, Tensor>& values) {
  switch (node.kind) {
    case Node::Kind::kNumber:
      return constant(node.number);
    case Node::Kind::kName:
      return values.at(node.name);
    case Node::Kind::kNegative:
      return -value_of(*node.arguments[0], values);
    case Node::Kind::kFunction:
    case Node::Kind::kOperator:
      break;
  }
  const Tensor first = value_of(*node.arguments[0], values);
  if (node.arguments.size() == 1) return find_function(kOneArgument, node.name)->apply(first);
  return find_function(kTwoArguments, node.name)->apply(first, value_of(*node.arguments[1], values));
}

}  // namespace

Expression::Expression(const std::string& text, const FormulaNames& names, const std::string& where)
    : root_(Parser(text, names, where, names_).run()) {}

Tensor Expression::evaluate(const std::map<std::string, Tensor>& values) const { return value_of(*root_, values); }

bool is_formula_name(const std::string& text) {
  return !text.empty() && begins_name(text.front()) && std::all_of(text.begin(), text.end(), continues_name) &&
         arguments_of(text) == 0 && constants().count(text) == 0;
}

}  // namespace pe::encodings
