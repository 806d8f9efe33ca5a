#include "interop/weight_files.h"

#include <set>

#include "support/error.h"
#include "support/escaped.h"
#include "support/folders.h"
#include "support/json.h"
#include "support/parse_json.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::interop {

namespace fs = std::filesystem;
using support::ArtifactError;
using support::cat;
using support::quote;

namespace {

constexpr std::uint64_t kLargestIndex = 64u << 20;

bool is_plain_name(const std::string& name) {
  return !name.empty() && name.find('/') == std::string::npos && name.find('\0') == std::string::npos &&
         name.find('\\') == std::string::npos && name[0] != '.' && name.ends_with(".safetensors");
}

/// A file of the folder that Python's pickle wrote; empty when there is none.
std::string pickle_in(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string ending = entry.path().extension().string();
    if (ending == ".bin" || ending == ".pt" || ending == ".pth" || ending == ".ckpt" || ending == ".pkl") {
      return entry.path().filename().string();
    }
  }
  return {};
}

}  // namespace

std::map<std::string, std::string> parse_weight_index(std::string_view text, const std::string& where) {
  const Json json = support::parse_json(text, {.depth = 4, .values = 1u << 20, .bytes = kLargestIndex});
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
    throw ArtifactError(cat(quote(where), ": expected an object with 'weight_map', found something else"));
  }
  std::map<std::string, std::string> files;
  for (const auto& [name, file] : json["weight_map"].items()) {
    if (!file.is_string() || !is_plain_name(file.get<std::string>())) {
      throw ArtifactError(cat(quote(where), ": tensor ", quote(support::escaped(name, 200)), " is in ",
                              support::escaped(file.dump(), 200),
                              "; expected the name of a .safetensors file in the same folder"));
    }
    files.emplace(name, file.get<std::string>());
  }
  if (files.empty()) throw ArtifactError(cat(quote(where), ": 'weight_map' is empty"));
  return files;
}

WeightFiles::WeightFiles(const fs::path& folder) : where_(folder.string()) {
  if (!support::is_there(folder) || !fs::is_directory(folder)) {
    throw ArtifactError(cat(quote(where_), ": expected a folder with config.json and model.safetensors"));
  }
  const fs::path index = folder / "model.safetensors.index.json", single = folder / "model.safetensors";
  // transformers looks for it first, and leaves an older index where it is.
  if (support::is_there(single)) {
    add_file(single);
    return;
  }
  if (!support::is_there(index)) {
    const std::string pickle = pickle_in(folder);
    if (pickle.empty())
      throw ArtifactError(cat(quote(where_), ": has no model.safetensors and no model.safetensors.index.json"));
    throw ArtifactError(
        cat(quote((folder / pickle).string()), ": pickle files run code when they are read, so they are not read"),
        "save the model again with safe_serialization=True");
  }
  const auto listed = parse_weight_index(support::read_file(index, kLargestIndex), index.string());
  std::set<std::string> names;
  for (const auto& [tensor, file] : listed) names.insert(file);
  for (const std::string& name : names) add_file(folder / name);
  for (const auto& [tensor, file] : listed) {
    if (!tensors_.contains(tensor)) {
      throw ArtifactError(
          cat(quote(index.string()), ": tensor ", quote(support::escaped(tensor, 200)), " is not in ", file));
    }
  }
  for (const auto& [tensor, place] : tensors_) {
    if (!listed.contains(tensor)) {
      throw ArtifactError(cat(quote(index.string()), ": does not list tensor ", quote(support::escaped(tensor, 200))));
    }
  }
}

WeightFiles::WeightFiles(support::MappedFile file, std::vector<SafetensorsEntry> tensors, std::string where)
    : where_(std::move(where)) {
  for (SafetensorsEntry& entry : tensors) {
    std::string name = entry.name;
    tensors_.emplace(std::move(name), Place{0, std::move(entry)});
  }
  files_.push_back(std::move(file));
}

void WeightFiles::add_file(const fs::path& path) {
  if (!support::is_there(path)) throw ArtifactError(cat(quote(path.string()), ": there is no such file"));
  support::MappedFile file(path);
  SafetensorsHeader header = parse_safetensors(file.view(), path.string());
  for (SafetensorsEntry& entry : header.tensors) {
    const std::string name = entry.name;
    if (!tensors_.emplace(name, Place{files_.size(), std::move(entry)}).second) {
      throw ArtifactError(
          cat(quote(path.string()), ": tensor ", quote(support::escaped(name, 200)), " is in another file, too"));
    }
  }
  files_.push_back(std::move(file));
}

const SafetensorsEntry* WeightFiles::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second.entry;
}

std::vector<std::string> WeightFiles::names() const {
  std::vector<std::string> all;
  for (const auto& [name, place] : tensors_) all.push_back(name);
  return all;
}

std::vector<float> WeightFiles::read(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw ArtifactError(cat(quote(where_), ": has no tensor ", quote(name)));
  const auto& [file, entry] = found->second;
  const std::string_view bytes = files_[file].view().substr(entry.begin, entry.end - entry.begin);
  return to_floats(entry.dtype, bytes, cat(quote(where_), ": tensor ", quote(name)));
}

}  // namespace pe::interop
