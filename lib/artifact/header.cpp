#include "artifact/header.h"

#include "support/error.h"
#include "support/files.h"
#include "support/json_text.h"
#include "support/parse_json.h"
#include "support/text.h"

namespace pe::artifact {

using support::ArtifactError;
using support::cat;
using support::quote;

namespace {

constexpr std::string_view kArtifactSchema = "pe-artifact/1";

template <typename T>
T member_or(const Json& json, const char* name, T otherwise) {
  const auto found = json.find(name);
  if (found == json.end()) return otherwise;
  try {
    return found->get<T>();
  } catch (const Json::exception&) {
    return otherwise;
  }
}

}  // namespace

Json recipe_to_json(const Recipe& recipe) {
  return {{"stage", recipe.stage},
          {"version", recipe.version},
          {"task_key", recipe.task_key},
          {"config", recipe.config},
          {"inputs", recipe.inputs}};
}

Recipe recipe_from_json(const Json& json) {
  Recipe recipe;
  if (!json.is_object()) return recipe;
  recipe.stage = member_or<std::string>(json, "stage", "");
  recipe.version = member_or<int>(json, "version", 0);
  recipe.task_key = member_or<std::string>(json, "task_key", "");
  recipe.config = json.value("config", Json());
  recipe.inputs = json.value("inputs", Json());
  return recipe;
}

void write_header(h5::File& file, Kind kind, int format, const Recipe& recipe) {
  h5::Group group = file.root().create_group("pe");
  group.set_text("schema", kArtifactSchema);
  group.set_text("kind", kind_name(kind));
  group.set_integer("format", format);
  group.write_text("made_by", support::json_text(recipe_to_json(recipe)));
}

Header read_header(const h5::File& file) {
  const h5::Group root = file.root();
  if (!root.has("pe")) {
    throw ArtifactError(
        cat(quote(file.path().string()), ": group /pe is missing, so this is not an artifact of pe-pipeline"));
  }
  const h5::Group group = root.open_group("pe");
  if (const std::string schema = group.text("schema"); schema != kArtifactSchema) {
    throw ArtifactError(cat(group.where(), ": expected schema ", quote(kArtifactSchema), ", found ", quote(schema)));
  }
  const std::string name = group.text("kind");
  const std::optional<Kind> kind = find_kind(name);
  if (!kind) throw ArtifactError(cat(group.where(), ": unknown kind ", quote(name)));
  const std::int64_t format = group.integer("format");
  if (format < 1 || format > 1'000'000) throw ArtifactError(cat(group.where(), ": invalid format number ", format));
  return {*kind, static_cast<int>(format)};
}

Recipe read_recipe(const h5::File& file) {
  const h5::Group root = file.root();
  const std::string text = root.read_text("pe/made_by");
  const Json json = support::parse_json(text);
  if (json.is_discarded())
    throw ArtifactError(cat(quote(file.path().string()), ": /pe/made_by ", support::json_problem(text)));
  return recipe_from_json(json);
}

void require_kind(const h5::File& file, Kind kind, int newest) {
  const Header header = read_header(file);
  if (header.kind != kind) {
    throw ArtifactError(
        cat(quote(file.path().string()), ": expected kind ", kind_name(kind), ", found ", kind_name(header.kind)));
  }
  if (header.format > newest) {
    throw ArtifactError(cat(quote(file.path().string()), ": format ", header.format, " of kind ", kind_name(kind),
                            " is newer than ", newest, ", which this program knows"),
                        "use the newer program");
  }
}

void write_artifact(const std::filesystem::path& path, Kind kind, int format, const Recipe& recipe,
                    const std::function<void(h5::Group& root)>& body, const h5::CreateOptions& options, bool durable) {
  const std::filesystem::path temporary = support::unique_sibling(path);
  try {
    h5::File file = h5::File::create(temporary, options);
    write_header(file, kind, format, recipe);
    {
      h5::Group root = file.root();
      body(root);
    }
    file.close(durable);
    support::rename_durably(temporary, path, durable);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    throw;
  }
}

}  // namespace pe::artifact
