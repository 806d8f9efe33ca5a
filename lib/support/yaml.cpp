#include "support/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <cmath>
#include <map>
#include <sstream>
#include <unordered_map>

#include "support/files.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::support {

namespace {

constexpr std::size_t kMaxBytes = 16u << 20;
constexpr std::size_t kMaxNodes = 500'000;
constexpr std::size_t kMaxCopied = 64u << 20;  ///< bytes of text that anchors and aliases repeat
constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMaxExcerpt = 200;

std::shared_ptr<const Source> make_source(std::string_view text, const std::string& name) {
  auto source = std::make_shared<Source>();
  source->name = name;
  source->lines = split(text, '\n');
  for (std::string& line : source->lines) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
  }
  return source;
}

/// Thrown through yaml-cpp to leave the parser early; the mistakes are in the diagnostics.
struct ParseStop {};

class Builder : public YAML::EventHandler {
 public:
  Builder(std::shared_ptr<const Source> source, Diagnostics& diagnostics)
      : source_(std::move(source)), diagnostics_(diagnostics) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Node node;
    node.mark = at(mark);
    place(std::move(node), anchor, mark);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_tag(mark, tag);
    Node node;
    node.kind = Node::Kind::kScalar;
    node.text = value;
    node.plain = tag == "?";
    node.mark = at(mark);
    node.mark.width = value.find('\n') == std::string::npos
                          ? std::max(1, static_cast<int>(display_width(value)) + (node.plain ? 0 : 2))
                          : 1;
    place(std::move(node), anchor, mark);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      diagnostics_.add("an alias to something that is not complete yet", at(mark).place());
      throw ParseStop{};
    }
    count(found->second, mark);
    Node copy = found->second;
    place(std::move(copy), 0, mark);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    open(Node::Kind::kList, mark, tag, anchor, style);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    open(Node::Kind::kMap, mark, tag, anchor, style);
  }
  void OnMapEnd() override { close(); }

  Node take() { return std::move(root_); }

  /// Where an unfinished flow collection began, for "end of file" messages.
  const Mark* innermost_flow() const {
    for (auto frame = stack_.rbegin(); frame != stack_.rend(); ++frame) {
      if (frame->flow) return &frame->node.mark;
    }
    return nullptr;
  }

  Mark at(const YAML::Mark& mark) const {
    return {source_, mark.is_null() ? 0 : mark.line + 1, mark.is_null() ? 0 : mark.column + 1, 1};
  }

 private:
  struct Frame {
    Node node;
    YAML::anchor_t anchor = 0;
    bool flow = false;
    bool has_key = false;
    bool drop = false;                           ///< the value of a repeated key
    std::unordered_map<std::string, int> lines;  ///< of the keys so far
    std::string key;
    Mark key_mark;
  };

  void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    diagnostics_.add("tag " + quote(tag) + " is not used here", at(mark).place(),
                     "leave the tag out; the field decides the type");
  }

  void count(const Node& node, const YAML::Mark& mark) {
    if (++nodes_ > kMaxNodes) {
      diagnostics_.add("the file holds more than 500,000 values, counting each use of an alias", at(mark).place());
      throw ParseStop{};
    }
    copied_ += node.text.size();
    for (const auto& member : node.members) copied_ += member.key.size();
    if (copied_ > kMaxCopied) {
      diagnostics_.add("the aliases of the file repeat more than 64 MiB of text", at(mark).place());
      throw ParseStop{};
    }
    for (const Node& item : node.items) count(item, mark);
    for (const auto& member : node.members) count(member.value, mark);
  }

  void open(Node::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            YAML::EmitterStyle::value style) {
    refuse_tag(mark, tag);
    if (stack_.size() >= kMaxDepth) {
      diagnostics_.add("nested deeper than 64 levels", at(mark).place());
      throw ParseStop{};
    }
    Frame frame;
    frame.node.kind = kind;
    frame.node.mark = at(mark);
    frame.anchor = anchor;
    frame.flow = style == YAML::EmitterStyle::Flow;
    stack_.push_back(std::move(frame));
  }

  void close() {
    Frame frame = std::move(stack_.back());
    stack_.pop_back();
    place(std::move(frame.node), frame.anchor, YAML::Mark());
  }

  void place(Node node, YAML::anchor_t anchor, const YAML::Mark& mark) {
    if (++nodes_ > kMaxNodes) {
      diagnostics_.add("the file holds more than 500,000 values", at(mark).place());
      throw ParseStop{};
    }
    if (anchor != 0) {
      count(node, mark);
      anchors_[anchor] = node;
    }
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& frame = stack_.back();
    if (frame.node.kind == Node::Kind::kList) {
      frame.node.items.push_back(std::move(node));
      return;
    }
    if (!frame.has_key) {
      take_key(frame, std::move(node));
      return;
    }
    frame.has_key = false;
    if (node.kind == Node::Kind::kNull && node.mark.line != frame.key_mark.line) node.mark = frame.key_mark;
    if (!frame.drop) frame.node.members.push_back({std::move(frame.key), std::move(frame.key_mark), std::move(node)});
  }

  void take_key(Frame& frame, Node node) {
    frame.has_key = true;
    frame.drop = true;
    if (node.kind != Node::Kind::kScalar) {
      const char* hint =
          node.is_map() || node.is_list() ? "braces and brackets have a meaning in YAML; quote the text" : "";
      diagnostics_.add("a key must be a plain word, found " + node.found(), node.place(), hint);
      return;
    }
    if (node.text == "<<" && node.plain) {
      diagnostics_.add("merge keys ('<<') are not read", node.place(),
                       "list several files under 'config: {file: [a.yml, b.yml]}'. Later ones override earlier ones");
      return;
    }
    const auto [first, fresh] = frame.lines.emplace(node.text, node.mark.line);
    if (!fresh) {
      diagnostics_.add("duplicate key " + quote(node.text) + ", first at line " + std::to_string(first->second),
                       node.place());
      return;
    }
    frame.drop = false;
    frame.key = std::move(node.text);
    frame.key_mark = node.mark;
  }

  std::shared_ptr<const Source> source_;
  Diagnostics& diagnostics_;
  std::vector<Frame> stack_;
  std::map<YAML::anchor_t, Node> anchors_;
  std::size_t nodes_ = 0, copied_ = 0;
  Node root_;
};

}  // namespace

Place Mark::place() const {
  Place place;
  if (!source) return place;
  place.file = source->name;
  place.line = line;
  place.column = column;
  place.width = width;
  if (line > 0 && static_cast<std::size_t>(line) <= source->lines.size()) {
    place.excerpt = source->lines[static_cast<std::size_t>(line) - 1];
    if (place.excerpt.size() > kMaxExcerpt) place.excerpt.clear();
  }
  return place;
}

const Node* Node::find(std::string_view key) const {
  const Member* member = find_member(key);
  return member ? &member->value : nullptr;
}

const Node::Member* Node::find_member(std::string_view key) const {
  for (const Member& member : members) {
    if (member.key == key) return &member;
  }
  return nullptr;
}

std::string Node::found() const {
  switch (kind) {
    case Kind::kNull:
      return "nothing";
    case Kind::kList:
      return "a list";
    case Kind::kMap:
      return "a map";
    case Kind::kScalar:
      break;
  }
  return quote(text.size() > 60 ? text.substr(0, 57) + "..." : text);
}

Node parse_yaml(std::string_view text, const std::string& name) {
  const auto source = make_source(text, name);
  Diagnostics diagnostics;
  if (text.size() > kMaxBytes) throw ConfigError("the file is larger than 16 MiB", {name, 0, 0, "", 1});
  const std::size_t invalid = find_invalid_utf8(text);
  if (invalid != std::string_view::npos) {
    const auto line =
        static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(invalid), '\n'));
    throw ConfigError("invalid UTF-8 on this line", {name, line + 1, 0, "", 1});
  }
  if (text.find('\0') != std::string_view::npos) throw ConfigError("the file holds a NUL byte", {name, 0, 0, "", 1});

  std::istringstream stream{std::string(text)};
  Builder builder(source, diagnostics);
  try {
    YAML::Parser parser(stream);
    if (parser.HandleNextDocument(builder)) {
      Diagnostics ignored;
      Builder second(source, ignored);
      if (parser.HandleNextDocument(second))
        diagnostics.add("the file holds more than one document ('---')", {name, 0, 0, "", 1});
    }
  } catch (const ParseStop&) {
  } catch (const YAML::Exception& error) {
    Mark mark = builder.at(error.mark);
    std::string message = error.msg;
    std::string hint;
    if (const Mark* flow = builder.innermost_flow()) {
      hint = "inside what opens at line " + std::to_string(flow->line) + ", column " + std::to_string(flow->column);
    }
    if (mark.line > static_cast<int>(source->lines.size())) mark.line = static_cast<int>(source->lines.size());
    diagnostics.add("not valid YAML: " + message, mark.place(), hint);
  }
  diagnostics.throw_if_any();
  Node root = builder.take();
  if (!root.mark.source) root.mark = {source, 1, 1, 1};  // an empty file
  return root;
}

Node read_yaml(const std::filesystem::path& path) {
  std::string text;
  try {
    text = read_file(path, kMaxBytes);
  } catch (const IoError& error) {
    throw ConfigError(error.diagnostics().front().message, {}, file_suggestion(path, {".yml", ".yaml"}));
  }
  return parse_yaml(text, path.string());
}

Node parse_yaml_value(std::string_view text, const std::string& flag) {
  const auto plain = [&](const std::string& message) { return ConfigError(message, {flag, 0, 0, "", 1}); };
  if (trim(text).empty()) return literal_node(std::string(text), flag);
  try {
    Node node = parse_yaml(text, flag);
    return node;
  } catch (const ConfigError& error) {
    throw plain(error.diagnostics().front().message + " in " + quote(text));
  }
}

Node literal_node(std::string text, const std::string& flag) {
  Node node;
  node.kind = Node::Kind::kScalar;
  node.plain = false;
  node.text = std::move(text);
  auto source = std::make_shared<Source>();
  source->name = flag;
  node.mark = {std::move(source), 0, 0, 1};
  return node;
}

Json to_json(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return nullptr;
    case Node::Kind::kList: {
      Json list = Json::array();
      for (const Node& item : node.items) list.push_back(to_json(item));
      return list;
    }
    case Node::Kind::kMap: {
      Json map = Json::object();
      for (const auto& member : node.members) map[member.key] = to_json(member.value);
      return map;
    }
    case Node::Kind::kScalar:
      break;
  }
  if (!node.plain) return node.text;
  if (node.text == "true" || node.text == "True" || node.text == "TRUE") return true;
  if (node.text == "false" || node.text == "False" || node.text == "FALSE") return false;
  const bool integer_like = node.text.find_first_not_of("+-0123456789") == std::string::npos;
  if (integer_like) {
    if (const auto integer = parse_integer(node.text)) return *integer;
  } else if (node.text.find('_') == std::string::npos) {
    if (const auto real = parse_real(node.text); real && std::isfinite(*real)) return *real;
  }
  return node.text;
}

Node from_json(const Json& json, const std::string& name) {
  auto source = std::make_shared<Source>();
  source->name = name;
  const std::function<Node(const Json&)> convert = [&](const Json& value) {
    Node node;
    node.mark = {source, 0, 0, 1};
    if (value.is_null()) return node;
    if (value.is_array()) {
      node.kind = Node::Kind::kList;
      for (const Json& item : value) node.items.push_back(convert(item));
    } else if (value.is_object()) {
      node.kind = Node::Kind::kMap;
      for (const auto& [key, item] : value.items()) node.members.push_back({key, node.mark, convert(item)});
    } else {
      node.kind = Node::Kind::kScalar;
      if (value.is_string()) {
        node.text = value.get<std::string>();
        node.plain = false;
      } else if (value.is_boolean()) {
        node.text = value.get<bool>() ? "true" : "false";
      } else if (value.is_number_float()) {
        const double real = value.get<double>();
        node.text = std::isnan(real) ? ".nan" : std::isinf(real) ? (real < 0 ? "-.inf" : ".inf") : shortest(real);
      } else {
        node.text = value.dump();
      }
    }
    return node;
  };
  return convert(json);
}

}  // namespace pe::support
