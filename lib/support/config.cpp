// Reading configs by schema: defaults, overlays with places, the hashed part, filling structs, help.
#include "support/config.h"

#include <algorithm>
#include <cmath>

#include "support/suggest.h"
#include "support/text.h"

namespace pe::support {

namespace {

Suffixes suffixes_of(const std::string& unit) {
  if (unit.empty() || unit == "%" || unit == "nats") return Suffixes::kNone;
  if (unit == "bytes") return Suffixes::kBytes;
  if (unit == "s") return Suffixes::kSeconds;
  return Suffixes::kCount;
}

std::vector<std::string> names_of(const Schema& schema) {
  std::vector<std::string> names;
  for (const Field& field : schema) names.push_back(field.name);
  return names;
}

const Field* find_here(const Schema& schema, std::string_view name) {
  for (const Field& field : schema) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

const VariantKind* find_kind(const Field& field, std::string_view name) {
  for (const VariantKind& kind : field.kinds) {
    if (kind.name == name) return &kind;
    for (const std::string& alias : kind.aliases) {
      if (alias == name) return &kind;
    }
  }
  return nullptr;
}

std::string range_text(const FieldOptions& options) {
  if (options.min && options.max) return "from " + shortest(*options.min) + " to " + shortest(*options.max);
  if (options.min) return "at least " + shortest(*options.min);
  if (options.max) return "at most " + shortest(*options.max);
  return "";
}

/// Types values by a schema and lays them over a config; collects every mistake.
class Overlay {
 public:
  Overlay(Origins* origins, Diagnostics& diagnostics, const OverlayOptions& options)
      : origins_(origins), diagnostics_(diagnostics), options_(options) {}

  /// One layer. The order of its keys means nothing: options of a variant follow the variant, and no key comes twice.
  void layer(const Schema& schema, const Node& node, Json& config) {
    map(schema, node, config, "");
    const auto depth = [](const Options& of) { return std::ranges::count(of.node.members.front().key, '.'); };
    std::ranges::stable_sort(options_of_variants_, {}, depth);
    for (const Options& each : options_of_variants_) options_below(each);
  }

 private:
  /// Dotted keys below a variant: `model.encoding.base: 1000`.
  struct Options {
    const Field* field;
    Node node;
    Json* config;
    std::string path;
  };

  void options_below(const Options& of) {
    if (!is_fresh(of.path + "." + of.node.members.front().key, of.node)) return;
    if (of.config->is_object() && of.config->contains("kind")) {
      variant_options(*of.field, of.node, *of.config, of.path);
    } else {
      diagnostics_.add(quote(of.path) + " is " + article(*of.field) + " and has no key below it",
                       of.node.members.front().key_mark.place());
    }
  }

  bool is_fresh(const std::string& path, const Node& node) {
    const auto [at, fresh] = given_.try_emplace(path, node.place());
    if (!fresh) mistake(node, quote(path) + " is set twice, first at " + at->second.str());
    return fresh;
  }

  void map(const Schema& schema, const Node& node, Json& config, const std::string& prefix) {
    if (node.is_null()) return;  // `train:` with nothing below it says nothing
    if (!node.is_map()) {
      mistake(node, prefix.empty() ? "a config must be a map of keys" : quote(prefix) + " is a group and needs a map",
              "found " + node.found());
      return;
    }
    for (const auto& member : node.members) {
      if (diagnostics_.full()) return;
      const auto dot = member.key.find('.');
      const std::string head = member.key.substr(0, dot);
      const Field* field = find_here(schema, head);
      const std::string path = prefix + (prefix.empty() ? "" : ".") + head;
      if (!field) {
        unknown(schema, member, prefix);
        continue;
      }
      if (dot == std::string::npos) {
        one(*field, member.value, config[field->name], path);
      } else {
        dotted(*field, member, dot + 1, config[field->name], path);
      }
    }
  }

  /// The rest of a dotted key below a group, or an option of a variant.
  void dotted(const Field& field, const Node::Member& member, std::size_t rest_at, Json& config,
              const std::string& path) {
    Node inner;
    inner.kind = Node::Kind::kMap;
    inner.mark = member.value.mark;
    inner.members.push_back({member.key.substr(rest_at), member.key_mark, member.value});
    if (field.type == FieldType::kGroup) {
      map(field.fields, inner, config, path);
    } else if (field.type == FieldType::kVariant) {
      options_of_variants_.push_back({&field, std::move(inner), &config, path});
    } else {
      diagnostics_.add(quote(path) + " is " + article(field) + " and has no key below it", member.key_mark.place());
    }
  }

  static std::string article(const Field& field) {
    const std::string name(type_name(field.type));
    return (std::string("aeiou").find(name[0]) != std::string::npos ? "an " : "a ") + name;
  }

  void unknown(const Schema& schema, const Node::Member& member, const std::string& prefix) {
    const std::string path = prefix + (prefix.empty() ? "" : ".") + member.key;
    if (options_.foreign) {
      if (options_.foreign(path)) return;
      // A group of another stage: each of its keys is asked for by its own name.
      if (member.value.is_map() && !member.value.members.empty()) {
        bool all = true;
        for (const auto& inner : member.value.members) {
          const std::string deep = path + "." + inner.key;
          if (!options_.foreign(deep)) all = false;
        }
        if (all) return;
      }
    }
    std::string message = "unknown key " + quote(member.key);
    if (!prefix.empty()) message += " in " + quote(prefix);
    if (!options_.owner.empty()) message += " of " + options_.owner;
    const std::string hint =
        suggestion(member.key, prefix.empty() && member.key.find('.') != std::string::npos ? field_paths(schema)
                                                                                           : candidates(schema));
    diagnostics_.add(message, member.key_mark.place(), hint);
  }

  static std::vector<std::string> candidates(const Schema& schema) {
    std::vector<std::string> names = names_of(schema);
    for (std::string& path : field_paths(schema)) {
      if (path.find('.') != std::string::npos) names.push_back(std::move(path));
    }
    return names;
  }

  void mistake(const Node& node, std::string message, std::string hint = {}) {
    if (!options_.owner.empty()) message += " (" + options_.owner + ")";
    diagnostics_.add(std::move(message), node.place(), std::move(hint));
  }

  void wrong_type(const Field& field, const Node& node, const std::string& path, const std::string& why = {}) {
    std::string expected(type_name(field.type));
    if (!field.options.unit.empty()) expected += " (" + field.options.unit + ")";
    std::string hint;
    switch (suffixes_of(field.options.unit)) {
      case Suffixes::kCount:
        hint = "such as 300M, 2.4e9 or 1_000_000";
        break;
      case Suffixes::kBytes:
        hint = "such as 4096, 8K or 2G";
        break;
      case Suffixes::kSeconds:
        hint = "such as 30s, 10m or 2h";
        break;
      case Suffixes::kNone:
        break;
    }
    if (field.automatic) hint += (hint.empty() ? "" : "; ") + std::string("'auto' is allowed");
    if (field.type == FieldType::kBool) hint = "write true or false";
    mistake(node,
            quote(path) + " must be " + (std::string("aeiou").find(expected[0]) != std::string::npos ? "an " : "a ") +
                expected + ", found " + node.found() + (why.empty() ? "" : ", which " + why),
            hint);
  }

  void store(Json& into, Json value, const Node& node, const std::string& path) {
    into = std::move(value);
    if (origins_) {
      // A value replaces the values below its path, and so do the origins.
      for (auto it = origins_->lower_bound(path + "."); it != origins_->end() && it->first.rfind(path + ".", 0) == 0;) {
        it = origins_->erase(it);
      }
      (*origins_)[path] = node.place();
    }
  }

  bool in_range(const Field& field, double value, const Node& node, const std::string& path) {
    const FieldOptions& options = field.options;
    if (!std::isfinite(value)) {
      if (options.allow_nonfinite) return true;
      mistake(node, quote(path) + " must be finite, found " + node.found());
      return false;
    }
    if ((options.min && value < *options.min) || (options.max && value > *options.max)) {
      mistake(node, quote(path) + " must be " + range_text(options) + ", found " + node.found());
      return false;
    }
    return true;
  }

  /// Why a number in quotes is none; empty for other values.
  static std::string quoted_number(const Node& node, const Field& field) {
    const bool quoted = node.is_scalar() && !node.plain && parse_real(node.text, suffixes_of(field.options.unit));
    return quoted ? "is text: leave the quotes out" : "";
  }

  std::optional<Json> integer(const Field& field, const Node& node, const std::string& path) {
    std::string why;
    if (!node.is_scalar() || !node.plain) {
      wrong_type(field, node, path, quoted_number(node, field));
      return std::nullopt;
    }
    const auto value = parse_integer(node.text, suffixes_of(field.options.unit), &why);
    if (!value) {
      wrong_type(field, node, path, why);
      return std::nullopt;
    }
    if (!in_range(field, static_cast<double>(*value), node, path)) return std::nullopt;
    return *value;
  }

  std::optional<Json> real(const Field& field, const Node& node, const std::string& path) {
    const auto value =
        node.is_scalar() && node.plain ? parse_real(node.text, suffixes_of(field.options.unit)) : std::nullopt;
    if (!value) {
      wrong_type(field, node, path, quoted_number(node, field));
      return std::nullopt;
    }
    if (!in_range(field, *value, node, path)) return std::nullopt;
    return *value;
  }

  std::optional<Json> text(const Field& field, const Node& node, const std::string& path) {
    if (!node.is_scalar()) {
      wrong_type(field, node, path);
      return std::nullopt;
    }
    return node.text;
  }

  template <typename One>
  void list(const Field& field, const Node& node, Json& config, const std::string& path, One&& read_one) {
    Json values = Json::array();
    bool good = true;
    const auto add = [&](const Node& item) {
      if (auto value = read_one(field, item, path))
        values.push_back(std::move(*value));
      else
        good = false;
    };
    if (node.is_list()) {
      for (const Node& item : node.items) add(item);
    } else if (node.is_scalar()) {
      add(node);  // one item may be written without brackets
    } else {
      wrong_type(field, node, path);
      good = false;
    }
    if (good) store(config, std::move(values), node, path);
  }

  void one(const Field& field, const Node& node, Json& config, const std::string& path) {
    if (field.type != FieldType::kGroup && !is_fresh(path, node)) return;
    if (field.automatic && (node.is_null() || (node.is_scalar() && node.plain && node.text == "auto"))) {
      store(config, nullptr, node, path);
      return;
    }
    const auto keep = [&](std::optional<Json> value) {
      if (value) store(config, std::move(*value), node, path);
    };
    switch (field.type) {
      case FieldType::kBool:
        if (node.is_scalar() && node.plain && (node.text == "true" || node.text == "false")) {
          store(config, node.text == "true", node, path);
        } else {
          wrong_type(field, node, path);
        }
        return;
      case FieldType::kInteger:
        keep(integer(field, node, path));
        return;
      case FieldType::kReal:
        keep(real(field, node, path));
        return;
      case FieldType::kText:
      case FieldType::kPath:
        keep(text(field, node, path));
        return;
      case FieldType::kIntegerList:
        list(field, node, config, path, [this](auto& f, auto& n, auto& p) { return integer(f, n, p); });
        return;
      case FieldType::kRealList:
        list(field, node, config, path, [this](auto& f, auto& n, auto& p) { return real(f, n, p); });
        return;
      case FieldType::kTextList:
      case FieldType::kPathList:
        if (field.type == FieldType::kPathList && node.is_scalar() && node.text.empty()) {
          store(config, Json::array(), node, path);  // no path, as where nothing is given
          return;
        }
        list(field, node, config, path, [this](auto& f, auto& n, auto& p) { return text(f, n, p); });
        return;
      case FieldType::kChoice:
        if (!node.is_scalar()) {
          wrong_type(field, node, path);
        } else if (std::find(field.choices.begin(), field.choices.end(), node.text) == field.choices.end()) {
          mistake(node, quote(path) + " cannot be " + node.found(), suggestion(node.text, field.choices));
        } else {
          store(config, node.text, node, path);
        }
        return;
      case FieldType::kGroup:
        map(field.fields, node, config, path);
        return;
      case FieldType::kVariant:
        variant(field, node, config, path);
        return;
    }
  }

  void variant(const Field& field, const Node& node, Json& config, const std::string& path) {
    for (const auto& member : node.members) {
      if (!is_fresh(path + "." + member.key, member.value)) return;
    }
    if (node.is_map() && node.find("stack")) {
      stack(field, node, config, path);
      return;
    }
    if (node.is_map() && !node.find("kind")) {
      const Node::Member* named = node.members.size() == 1 ? &node.members.front() : nullptr;
      if (named && named->value.is_map() && find_kind(field, named->key)) {
        mistake(node, quote(path) + " has the key " + quote(named->key) + ", which is a kind",
                "write {kind: " + named->key + ", …}, with its options in place of …");
        return;
      }
      if (config.is_object() && config.contains("kind")) {
        variant_options(field, node, config, path);  // options of the present kind
      } else {
        mistake(node, quote(path) + " needs a 'kind'");
      }
      return;
    }
    if (auto value = member_of(field, node, path, config)) store(config, std::move(*value), node, path);
  }

  /// One kind with its options: `rope` or `{kind: yarn, factor: 4}`; options of the same kind in `before` stay.
  std::optional<Json> member_of(const Field& field, const Node& node, const std::string& path, const Json& before) {
    const Node* name = node.is_map() ? node.find("kind") : &node;
    if (!name || !name->is_scalar()) {
      mistake(node, quote(path) + " must be a name or a map with 'kind', found " + node.found());
      return std::nullopt;
    }
    const VariantKind* kind = find_kind(field, name->text);
    if (!kind) {
      std::vector<std::string> names;
      for (const VariantKind& candidate : field.kinds) {
        names.push_back(candidate.name);
        names.insert(names.end(), candidate.aliases.begin(), candidate.aliases.end());
      }
      mistake(*name, quote(path) + " cannot be " + name->found(), suggestion(name->text, names));
      return std::nullopt;
    }
    Json value = defaults(kind->fields);
    const bool same = before.is_object() && before.value("kind", "") == kind->name;
    if (same && node.is_map()) value = before;
    value["kind"] = kind->name;
    if (node.is_map()) {
      Node options = node;
      std::erase_if(options.members, [](const auto& member) { return member.key == "kind"; });
      const std::size_t mistakes = diagnostics_.size();
      const OverlayOptions named{nullptr, quote(kind->name)};
      Overlay(nullptr, diagnostics_, named).layer(kind->fields, options, value);
      if (diagnostics_.size() != mistakes) return std::nullopt;
    }
    return value;
  }

  void variant_options(const Field& field, const Node& node, Json& config, const std::string& path) {
    const VariantKind* kind = find_kind(field, config.at("kind").get<std::string>());
    if (!kind) return;
    const OverlayOptions named{nullptr, quote(kind->name)};
    Json value = config;
    Overlay(nullptr, diagnostics_, named).layer(kind->fields, node, value);
    store(config, std::move(value), node, path);
  }

  void stack(const Field& field, const Node& node, Json& config, const std::string& path) {
    if (!field.stackable) {
      mistake(node, quote(path) + " cannot be a stack");
      return;
    }
    for (const auto& member : node.members) {
      if (member.key != "stack") {
        diagnostics_.add("unknown key " + quote(member.key) + " beside 'stack'", member.key_mark.place(),
                         "options belong to a member: {stack: [{kind: yarn, factor: 4}, ssmax]}");
        return;
      }
    }
    const Node& members = *node.find("stack");
    if (!members.is_list() || members.items.empty()) {
      mistake(members, quote(path) + ".stack must be a list of one or more, found " + members.found());
      return;
    }
    Json list = Json::array();
    std::map<std::string, std::string> claimed;  // what only one member may do → who does
    for (const Node& item : members.items) {
      auto value = member_of(field, item, path, nullptr);
      if (!value) return;
      const VariantKind* kind = find_kind(field, value->at("kind").get<std::string>());
      const Json exclusive = kind->facts.is_object() ? kind->facts.value("exclusive", Json::array()) : Json::array();
      for (const Json& what : exclusive) {
        const auto [first, is_new] = claimed.emplace(what.get<std::string>(), kind->name);
        if (is_new) continue;
        mistake(item, quote(first->second) + " and " + quote(kind->name) + " of a stack both " + first->first,
                "leave one of them out");
        return;
      }
      list.push_back(std::move(*value));
    }
    if (list.size() == 1)
      store(config, list.front(), node, path);  // a stack of one is that one
    else
      store(config, Json::object({{"stack", std::move(list)}}), node, path);
  }

  Origins* origins_;
  Diagnostics& diagnostics_;
  const OverlayOptions& options_;
  std::vector<Options> options_of_variants_;
  std::map<std::string, Place> given_;  // what this layer has set
};

void collect_paths(const Schema& schema, const std::string& prefix, std::vector<std::string>& out) {
  for (const Field& field : schema) {
    const std::string path = prefix.empty() ? field.name : prefix + "." + field.name;
    if (field.type == FieldType::kGroup)
      collect_paths(field.fields, path, out);
    else
      out.push_back(path);
  }
}

Json hashed_variant(const Field& field, const Json& value) {
  if (!value.is_object()) return value;
  if (value.contains("stack")) {
    Json list = Json::array();
    for (const Json& item : value.at("stack")) list.push_back(hashed_variant(field, item));
    return Json::object({{"stack", std::move(list)}});
  }
  const VariantKind* kind = find_kind(field, value.value("kind", ""));
  if (!kind) return value;
  Json out = hashed_config(kind->fields, value);
  out["kind"] = kind->name;
  return out;
}

/// Fills a struct from a config; fields that the config lacks keep their defaults.
class Binder : public FieldVisitor {
 public:
  Binder(const Json& config, std::string name) : name_(std::move(name)) { stack_.push_back(&config); }

  void finish() { diagnostics_.throw_if_any(); }

  void variant(std::string_view name, VariantValue& value, const std::vector<VariantKind>& kinds, std::string_view help,
               bool stackable, FieldOptions options) override {
    // A default, or a short form in a hand-made config, becomes canonical here.
    Field field;
    field.name = name;
    field.type = FieldType::kVariant;
    field.kinds = kinds;
    field.stackable = stackable;
    Json config = Json::object({{field.name, nullptr}});
    const Json* json = find(name);
    overlay({field}, from_json(Json::object({{field.name, json ? *json : value.json}}), name_), config, nullptr,
            diagnostics_);
    value.json = config.at(field.name);
  }
  void check(bool holds, std::string_view why) override {
    if (!holds) diagnostics_.add(name_ + ": " + prefix() + std::string(why));
  }

 protected:
  void any_field(std::string_view name, FieldType, const FieldValue& value, std::string_view, FieldOptions) override {
    if (const Json* json = find(name)) std::visit([&](auto* at) { get(name, *json, *at); }, value);
  }
  void choice_index(std::string_view name, int& index, const std::vector<std::string>& words, std::string_view,
                    FieldOptions) override {
    const Json* json = find(name);
    if (!json) return;
    const std::string word = json->is_string() ? json->get<std::string>() : json->dump();
    const auto found = std::find(words.begin(), words.end(), word);
    if (found == words.end()) {
      diagnostics_.add(name_ + ": " + quote(full(name)) + " cannot be " + quote(word), {}, suggestion(word, words));
    } else {
      index = static_cast<int>(found - words.begin());
    }
  }
  void begin_group(std::string_view name, std::string_view) override {
    stack_.push_back(find(name));
    names_.emplace_back(name);
  }
  void end_group() override {
    stack_.pop_back();
    names_.pop_back();
  }

 private:
  std::string prefix() const { return names_.empty() ? "" : "in '" + join(names_, ".") + "': "; }
  std::string full(std::string_view name) const {
    return names_.empty() ? std::string(name) : join(names_, ".") + "." + std::string(name);
  }
  const Json* find(std::string_view name) const {
    const Json* at = stack_.back();
    if (!at || !at->is_object()) return nullptr;
    const auto found = at->find(std::string(name));
    return found == at->end() ? nullptr : &*found;
  }
  template <typename T>
  void get(std::string_view name, const Json& json, T& value) {
    try {
      json.get_to(value);
    } catch (const Json::exception&) {
      diagnostics_.add(name_ + ": " + quote(full(name)) + " has a value of another type: " + display(json));
    }
  }
  void get(std::string_view name, const Json& json, std::optional<std::int64_t>& value) {
    if (json.is_null())
      value.reset();
    else
      get(name, json, value.emplace());
  }

  std::string name_;
  std::vector<const Json*> stack_;
  std::vector<std::string> names_;
  Diagnostics diagnostics_;
};

void collect_differences(const Json& before, const Json& after, const std::string& path, std::vector<Difference>& out) {
  if (before.is_object() && after.is_object()) {
    for (const auto& [key, value] : before.items()) {
      const std::string deeper = path.empty() ? key : path + "." + key;
      const auto found = after.find(key);
      if (found == after.end())
        out.push_back({deeper, value, nullptr});
      else
        collect_differences(value, *found, deeper, out);
    }
    for (const auto& [key, value] : after.items()) {
      if (!before.contains(key)) out.push_back({path.empty() ? key : path + "." + key, nullptr, value});
    }
    return;
  }
  if (before != after) out.push_back({path, before, after});
}

void wrap_into(std::string& out, std::string_view text, std::size_t indent, std::size_t width) {
  std::size_t column = indent;
  out.append(indent, ' ');
  for (const std::string& word : split(text, ' ')) {
    const std::size_t size = display_width(word);
    if (column > indent && column + 1 + size > width) {
      out += '\n';
      out.append(indent, ' ');
      column = indent;
    }
    if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += size;
  }
  out += '\n';
}

void render_into(std::string& out, const Schema& schema, const std::string& prefix, std::size_t width) {
  for (const Field& field : schema) {
    const std::string path = prefix.empty() ? field.name : prefix + "." + field.name;
    if (field.type == FieldType::kGroup) {
      out += "\n" + path + "\n";
      wrap_into(out, field.help, 2, width);
      render_into(out, field.fields, path, width);
      continue;
    }
    std::string head = "  " + path + "  ";
    std::string kind(type_name(field.type));
    if (field.type == FieldType::kChoice) kind = join(field.choices, " | ");
    if (field.automatic) kind += " or auto";
    if (!field.options.unit.empty()) kind += ", " + field.options.unit;
    const std::string range = range_text(field.options);
    if (!range.empty()) kind += ", " + range;
    const std::string value = field.default_value.is_null() ? "auto" : display(field.default_value);
    wrap_into(out, path + "  (" + kind + "; default " + (value.empty() ? "none" : value) + ")", 2, width);
    wrap_into(out, field.help + (field.options.hashed ? "" : " Does not change results."), 6, width);
    for (const VariantKind& variant : field.kinds) {
      wrap_into(out, variant.name + ": " + variant.summary, 6, width);
      for (const Field& option : variant.fields) {
        wrap_into(out,
                  option.name + " (default " +
                      (option.default_value.is_null() ? "auto" : display(option.default_value)) + "): " + option.help,
                  10, width);
      }
    }
  }
}

}  // namespace

Json defaults(const Schema& schema) {
  Json config = Json::object();
  for (const Field& field : schema) {
    config[field.name] = field.type == FieldType::kGroup ? defaults(field.fields) : field.default_value;
  }
  return config;
}

const Field* find_field(const Schema& schema, std::string_view dotted) {
  const auto dot = dotted.find('.');
  const Field* field = find_here(schema, dotted.substr(0, dot));
  if (!field || dot == std::string_view::npos) return field;
  return field->type == FieldType::kGroup ? find_field(field->fields, dotted.substr(dot + 1)) : nullptr;
}

std::vector<std::string> field_paths(const Schema& schema) {
  std::vector<std::string> out;
  collect_paths(schema, "", out);
  return out;
}

void overlay(const Schema& schema, const Node& values, Json& config, Origins* origins, Diagnostics& diagnostics,
             const OverlayOptions& options) {
  Overlay(origins, diagnostics, options).layer(schema, values, config);
}

Json hashed_config(const Schema& schema, const Json& config) {
  Json out = Json::object();
  for (const Field& field : schema) {
    const auto found = config.find(field.name);
    if (found == config.end() || !field.options.hashed) continue;
    if (field.type == FieldType::kGroup) {
      Json group = hashed_config(field.fields, *found);
      if (!group.empty()) out[field.name] = std::move(group);
      continue;
    }
    if (field.options.neutral && *found == *field.options.neutral) continue;
    out[field.name] = field.type == FieldType::kVariant ? hashed_variant(field, *found) : *found;
  }
  return out;
}

Schema schema_of(const DescribeFunction& describe);

void bind_config(const DescribeFunction& describe, const Json& config, const std::string& name) {
  Binder binder(config, name);
  describe(binder);
  binder.finish();
}

std::vector<Difference> differences(const Json& before, const Json& after) {
  std::vector<Difference> out;
  collect_differences(before, after, "", out);
  return out;
}

std::string display(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "auto";
    case Json::value_t::string: {
      std::string text = value.get<std::string>();
      return text.find('\n') == std::string::npos ? text : value.dump();  // it stays on its line
    }
    case Json::value_t::number_float:
      return shortest(value.get<double>());
    case Json::value_t::array: {
      std::vector<std::string> parts;
      for (const Json& item : value) parts.push_back(display(item));
      return "[" + join(parts, ", ") + "]";
    }
    case Json::value_t::object: {
      std::vector<std::string> parts;
      if (value.contains("kind")) parts.push_back("kind: " + display(value.at("kind")));
      for (const auto& [key, item] : value.items()) {
        if (key != "kind") parts.push_back(key + ": " + display(item));
      }
      if (value.contains("kind") && value.size() == 1) return display(value.at("kind"));
      return "{" + join(parts, ", ") + "}";
    }
    default:
      return value.dump();
  }
}

std::string render_fields(const Schema& schema, int width) {
  std::string out;
  render_into(out, schema, "", static_cast<std::size_t>(std::max(width, 40)));
  return out;
}

}  // namespace pe::support
