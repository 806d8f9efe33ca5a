// Keys of the built stages: a field that a description declares as hashed moves the key, one declared as not hashed
// does not. A value at its neutral one counts as absent.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <functional>

#include "pipeline/file/path_fields.h"
#include "support/config.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/test_data.h"

using namespace pe;  // NOLINT
namespace fs = std::filesystem;
using support::Field;
using support::FieldType;
using support::Schema;

namespace {

/// Another value of the same type; keys are asked nothing about ranges.
Json other(const Field& field, const Json& value) {
  switch (field.type) {
    case FieldType::kBool:
      return !(value.is_boolean() && value.get<bool>());
    case FieldType::kInteger:
      return value.is_number() ? Json(value.get<std::int64_t>() + 1) : Json(3);
    case FieldType::kReal:
      return value.is_number() ? Json(value.get<double>() + 0.25) : Json(0.75);
    case FieldType::kIntegerList:
      return Json::array({987});
    case FieldType::kRealList:
      return Json::array({9.875});
    case FieldType::kTextList:
    case FieldType::kPathList:
      return Json::array({"another"});
    case FieldType::kChoice:
      for (const std::string& choice : field.choices) {
        if (value != choice) return choice;
      }
      return "another";
    case FieldType::kVariant:
      for (const support::VariantKind& kind : field.kinds) {
        if (value.value("kind", "") == kind.name) continue;
        Json made = support::defaults(kind.fields);
        made["kind"] = kind.name;
        return made;
      }
      return {{"kind", "another"}};
    default:
      return "another";
  }
}

using Visit = std::function<void(const std::string& path, const Field& field, Json& value, bool hashed)>;

/// Every leaf of a config, options of a variant's present kind included.
void for_each_leaf(const Schema& schema, Json& config, const std::string& prefix, bool hashed, const Visit& visit) {
  for (const Field& field : schema) {
    const std::string path = prefix + field.name;
    Json& value = config[field.name];
    const bool in_key = hashed && field.options.hashed;
    if (field.type == FieldType::kGroup) {
      for_each_leaf(field.fields, value, path + ".", in_key, visit);
      continue;
    }
    visit(path, field, value, in_key);
    if (field.type != FieldType::kVariant) continue;
    for (const support::VariantKind& kind : field.kinds) {
      const Json before = value;
      value = support::defaults(kind.fields);
      value["kind"] = kind.name;
      for_each_leaf(kind.fields, value, path + "(" + kind.name + ").", in_key, visit);
      value = before;
    }
  }
}

std::vector<fs::path> descriptions() {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(test::build_root() / "stages", error)) {
    const std::string name = entry.path().filename().string();
    if (name.size() > 14 && name.compare(name.size() - 14, 14, ".describe.json") == 0) found.push_back(entry.path());
  }
  return found;
}

boost::test_tools::assertion_result stages_are_built(boost::unit_test::test_unit_id) {
  boost::test_tools::assertion_result result(!descriptions().empty());
  if (!result) result.message() << "no stage is built in " << test::build_root() / "stages";
  return result;
}

std::string key_of(const Schema& schema, const Json& config) {
  Json hashed = support::hashed_config(schema, config);
  pipeline::erase_paths(schema, hashed);
  return support::canonical_hash("t", hashed);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(stage_keys)

BOOST_AUTO_TEST_CASE(every_declared_key_of_every_stage_moves_its_key_unless_it_says_otherwise,
                     *boost::unit_test::precondition(stages_are_built)) {
  std::size_t moved = 0, held = 0;
  for (const fs::path& file : descriptions()) {
    const Json document = Json::parse(support::read_file(file));
    const Schema schema = support::schema_from_json(document.at("fields"));
    Json config = support::defaults(schema);
    for_each_leaf(schema, config, "", true, [&](const std::string& path, const Field& field, Json& value, bool hashed) {
      const std::string before = key_of(schema, config);
      const Json was = value;
      value = other(field, was);
      const bool path_field =
          field.type == FieldType::kPath || field.type == FieldType::kPathList;  // keys hold contents
      const bool moves = key_of(schema, config) != before;
      BOOST_TEST(moves == (hashed && !path_field), file.filename().string() + ": " + path);
      (moves ? moved : held) += 1;
      if (hashed && !path_field && field.options.neutral) {
        // At its neutral value it is as if this version had never brought the field.
        value = *field.options.neutral;
        const std::string neutral = key_of(schema, config);
        BOOST_TEST(!support::hashed_config(Schema{field}, Json{{field.name, value}}).contains(field.name), path);
        value = other(field, *field.options.neutral);
        BOOST_TEST(key_of(schema, config) != neutral, path);
      }
      value = was;
    });
  }
  BOOST_TEST(moved > 60u);
  BOOST_TEST(held > 3u);
}

BOOST_AUTO_TEST_CASE(paths_are_found_in_groups_variants_and_stacks) {
  Field table;
  table.name = "table";
  table.type = FieldType::kPath;
  Field encoding;
  encoding.name = "encoding";
  encoding.type = FieldType::kVariant;
  encoding.stackable = true;
  encoding.kinds = {{"plain", {}, "", {}, Json::object()}, {"learned", {}, "", {table}, Json::object()}};
  Field texts;
  texts.name = "texts";
  texts.type = FieldType::kPathList;
  Field logs;
  logs.name = "logs";
  logs.type = FieldType::kPath;
  logs.options.hashed = false;
  Field model;
  model.name = "model";
  model.type = FieldType::kGroup;
  model.fields = {encoding, logs};
  const Schema schema{model, texts};

  Json config{
      {"model",
       {{"encoding", {{"stack", {{{"kind", "plain"}}, {{"kind", "learned"}, {"table", "a.h5"}}}}}}, {"logs", "l"}}},
      {"texts", {"b", "c"}}};
  std::string seen;
  pipeline::for_each_path(schema, config, [&](const std::string& dotted, Json& value, bool hashed) {
    seen += dotted + "=" + value.dump() + (hashed ? " " : "(not hashed) ");
    value = "X";
  });
  BOOST_TEST(seen == "model.encoding.stack.1.table=\"a.h5\" model.logs=\"l\"(not hashed) texts=[\"b\",\"c\"] ");
  BOOST_TEST(config["model"]["encoding"]["stack"][1]["table"] == "X");
  pipeline::erase_paths(schema, config);
  BOOST_TEST(config.dump() == R"({"model":{"encoding":{"stack":[{"kind":"plain"},{"kind":"learned"}]}}})");
  config = {{"model", {{"encoding", {{"kind", "learned"}, {"table", "t"}}}}}};
  seen.clear();
  pipeline::for_each_path(schema, config, [&](const std::string& dotted, Json&, bool) { seen += dotted; });
  BOOST_TEST(seen == "model.encoding.table");
}

BOOST_AUTO_TEST_SUITE_END()
