/// @file
/// The text of a JSON document that is too large for memory as a tree, written value by value.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/json.h"

namespace pe::support {

/// The text of a value at a depth of so many levels. @param indent  spaces for each level; -1: one line
std::string json_text(const Json& value, int indent, std::size_t levels);

/// Takes the next bytes of a text.
using TextSink = std::function<void(std::string_view)>;

/// The bytes equal `Json::dump`, if the members of each object are written in the order of their names.
class JsonText {
 public:
  /// @param sink    takes the text, some 32 KB at a time
  /// @param indent  spaces for each level; -1: everything on one line
  explicit JsonText(TextSink sink, int indent = -1) : sink_(std::move(sink)), indent_(indent) {}

  void open_object() { open('{'); }
  void close_object() { close('}'); }
  void open_array() { open('['); }
  void close_array() { close(']'); }
  /// The name of the member whose value comes next.
  void key(std::string_view name);
  /// Text that is no UTF-8 is replaced.
  void value(const Json& value);
  /// A value that is JSON text already, in pieces; it is not laid out again.
  void raw(const std::vector<std::string_view>& pieces);
  void member(std::string_view name, const Json& json) {
    key(name);
    value(json);
  }
  /// An object in which `instead` writes the value of the member `name`, which must be there.
  template <typename Write>
  void object_with(const Json& object, std::string_view name, const Write& instead) {
    open_object();
    for (auto member = object.begin(); member != object.end(); ++member) {
      key(member.key());
      if (member.key() == name)
        instead();
      else
        value(*member);
    }
    close_object();
  }

  /// Writes `behind` after the document, and ends the text.
  void finish(std::string_view behind = {});

 private:
  void open(char bracket);
  void close(char bracket);
  void begin_value();
  void new_line();

  void put(std::string_view text);

  TextSink sink_;
  int indent_;
  std::string text_;          // that the sink has not taken yet
  std::vector<bool> filled_;  // of each open object or array: whether it has a member
  bool after_key_ = false;
};

}  // namespace pe::support
