// The schema as data: how it is made from a `describe` function, written to JSON and read back.
#include <array>
#include <cmath>

#include "support/config.h"
#include "support/text.h"

namespace pe::support {

namespace {

struct TypeName {
  FieldType type;
  const char* name;
};
constexpr std::array<TypeName, 12> kTypeNames = {{
    {FieldType::kBool, "bool"},
    {FieldType::kInteger, "integer"},
    {FieldType::kReal, "real"},
    {FieldType::kText, "text"},
    {FieldType::kPath, "path"},
    {FieldType::kPathList, "list of paths"},
    {FieldType::kIntegerList, "list of integers"},
    {FieldType::kRealList, "list of reals"},
    {FieldType::kTextList, "list of texts"},
    {FieldType::kChoice, "choice"},
    {FieldType::kGroup, "group"},
    {FieldType::kVariant, "variant"},
}};

/// Builds a schema; values are only read, as defaults.
class SchemaBuilder : public FieldVisitor {
 public:
  Schema take() { return std::move(stack_.front()); }

  void variant(std::string_view name, VariantValue& value, const std::vector<VariantKind>& kinds, std::string_view help,
               bool stackable, FieldOptions options) override {
    Field& field = add(name, FieldType::kVariant, nullptr, help, std::move(options));
    field.kinds = kinds;
    field.stackable = stackable;
    // A default may be a plain name; the canonical form holds every option of it.
    Schema one{field};
    Json config = Json::object({{std::string(name), nullptr}});
    Diagnostics diagnostics;
    Node map = from_json(Json::object({{std::string(name), value.json}}), "default of " + std::string(name));
    overlay(one, map, config, nullptr, diagnostics);
    diagnostics.throw_if_any();
    field.default_value = config.at(std::string(name));
  }
  void check(bool, std::string_view) override {}

 protected:
  void any_field(std::string_view name, FieldType type, const FieldValue& value, std::string_view help,
                 FieldOptions options) override {
    Field& field = add(name, type, nullptr, help, std::move(options));
    const auto take = [&](const auto* at) {
      if constexpr (requires { at->has_value(); }) {
        field.automatic = true;
        if (*at) field.default_value = **at;
      } else {
        field.default_value = *at;
      }
    };
    std::visit(take, value);
  }
  void choice_index(std::string_view name, int& index, const std::vector<std::string>& words, std::string_view help,
                    FieldOptions options) override {
    const Json value = index >= 0 ? Json(words[static_cast<std::size_t>(index)]) : Json(nullptr);
    add(name, FieldType::kChoice, value, help, std::move(options)).choices = words;
  }
  void begin_group(std::string_view name, std::string_view help) override {
    add(name, FieldType::kGroup, nullptr, help, {});
    stack_.emplace_back();
  }
  void end_group() override {
    Schema fields = std::move(stack_.back());
    stack_.pop_back();
    stack_.back().back().fields = std::move(fields);
  }

 private:
  Field& add(std::string_view name, FieldType type, Json value, std::string_view help, FieldOptions options) {
    Field field;
    field.name = name;
    field.type = type;
    field.help = help;
    field.options = std::move(options);
    field.default_value = std::move(value);
    stack_.back().push_back(std::move(field));
    return stack_.back().back();
  }

  std::vector<Schema> stack_{Schema{}};
};

/// JSON has no infinity; a default that holds one is written as text and read back here.
Json encode_default(const Json& value) {
  if (value.is_number_float() && !std::isfinite(value.get<double>())) return Json::object({{"real", shortest(value)}});
  return value;
}
Json decode_default(const Json& value, FieldType type) {
  if (type == FieldType::kReal && value.is_object()) {
    const auto text = value.value("real", "nan");
    return text == "inf" ? HUGE_VAL : text == "-inf" ? -HUGE_VAL : std::nan("");
  }
  return value;
}

}  // namespace

std::string_view type_name(FieldType type) {
  for (const TypeName& row : kTypeNames) {
    if (row.type == type) return row.name;
  }
  return "";
}

Schema schema_of(const DescribeFunction& describe) {
  SchemaBuilder builder;
  describe(builder);
  return builder.take();
}

Json schema_to_json(const Schema& schema) {
  Json list = Json::array();
  for (const Field& field : schema) {
    Json row = {{"name", field.name}, {"type", type_name(field.type)}, {"help", field.help}};
    if (field.type == FieldType::kGroup) {
      row["fields"] = schema_to_json(field.fields);
    } else {
      row["default"] = encode_default(field.default_value);
    }
    const FieldOptions& options = field.options;
    if (!options.unit.empty()) row["unit"] = options.unit;
    if (options.min) row["min"] = *options.min;
    if (options.max) row["max"] = *options.max;
    if (!options.hashed) row["hashed"] = false;
    if (options.neutral) row["neutral"] = *options.neutral;
    if (options.since != 1) row["since"] = options.since;
    if (options.allow_nonfinite) row["allow_nonfinite"] = true;
    if (field.automatic) row["auto"] = true;
    if (!field.choices.empty()) row["choices"] = field.choices;
    if (field.type == FieldType::kVariant) {
      row["stackable"] = field.stackable;
      row["kinds"] = Json::array();
      for (const VariantKind& kind : field.kinds) {
        Json entry = {{"name", kind.name}, {"summary", kind.summary}, {"fields", schema_to_json(kind.fields)}};
        if (!kind.aliases.empty()) entry["aliases"] = kind.aliases;
        if (!kind.facts.empty()) entry["facts"] = kind.facts;
        row["kinds"].push_back(std::move(entry));
      }
    }
    list.push_back(std::move(row));
  }
  return list;
}

Schema schema_from_json(const Json& json) {
  try {
    Schema schema;
    for (const Json& row : json) {
      Field field;
      field.name = row.at("name");
      field.help = row.at("help");
      const std::string type = row.at("type");
      bool known = false;
      for (const TypeName& candidate : kTypeNames) {
        if (type == candidate.name) {
          field.type = candidate.type;
          known = true;
        }
      }
      if (!known) {
        std::string names;
        for (const TypeName& candidate : kTypeNames) names += cat(names.empty() ? "" : ", ", candidate.name);
        throw ArtifactError(cat("field ", quote(field.name), " has the unknown type ", quote(type)),
                            cat("types are ", names));
      }
      if (field.type == FieldType::kGroup)
        field.fields = schema_from_json(row.at("fields"));
      else
        field.default_value = decode_default(row.at("default"), field.type);
      field.options.unit = row.value("unit", "");
      if (row.contains("min")) field.options.min = row.at("min").get<double>();
      if (row.contains("max")) field.options.max = row.at("max").get<double>();
      field.options.hashed = row.value("hashed", true);
      if (row.contains("neutral")) field.options.neutral = row.at("neutral");
      field.options.since = row.value("since", 1);
      field.options.allow_nonfinite = row.value("allow_nonfinite", false);
      field.automatic = row.value("auto", false);
      if (row.contains("choices")) field.choices = row.at("choices").get<std::vector<std::string>>();
      field.stackable = row.value("stackable", false);
      if (row.contains("kinds")) {
        for (const Json& entry : row.at("kinds")) {
          VariantKind kind;
          kind.name = entry.at("name");
          kind.summary = entry.at("summary");
          kind.fields = schema_from_json(entry.at("fields"));
          if (entry.contains("aliases")) kind.aliases = entry.at("aliases").get<std::vector<std::string>>();
          if (entry.contains("facts")) kind.facts = entry.at("facts");
          field.kinds.push_back(std::move(kind));
        }
      }
      schema.push_back(std::move(field));
    }
    return schema;
  } catch (const Json::exception& error) {
    throw ArtifactError(std::string("a description of fields is not as expected: ") + error.what());
  }
}

}  // namespace pe::support
