#include "pipeline/store/record.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "support/error.h"
#include "support/hash.h"
#include "support/json_fields.h"
#include "support/json_text.h"
#include "support/parse_json.h"
#include "support/sha256_text.h"
#include "support/text.h"

namespace pe::pipeline {

using support::ArtifactError;
using support::cat;

namespace {

constexpr const char* kRecordSchema = "pe-record/1";

constexpr const char* kCheck = "check";

Json output_to_json(const OutputRecord& output) {
  Json json{{"role", output.role},
            {"kind", output.kind},
            {"object", output.object},
            {"content", output.content},
            {"bytes", output.bytes}};
  if (output.collection) json["members"] = output.members;
  if (!output.member_bytes.empty()) json["member_bytes"] = output.member_bytes;
  if (output.is_volatile) json["volatile"] = true;
  if (output.absent) json["absent"] = true;
  return json;
}

/// Reads members of a JSON object and says which one is missing or wrong.
class Reader {
 public:
  Reader(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) fail("", "an object", json);
  }
  template <typename T>
  T required(const char* name) const {
    const auto found = json_.find(name);
    if (found == json_.end()) throw ArtifactError(cat(where_, ": '", name, "' is missing"));
    return value<T>(name, *found);
  }
  template <typename T>
  T optional(const char* name, T fallback) const {
    const auto found = json_.find(name);
    return found == json_.end() || found->is_null() ? fallback : value<T>(name, *found);
  }
  Json raw(const char* name) const {
    const auto found = json_.find(name);
    return found == json_.end() ? Json() : *found;
  }
  std::string digest(const char* name) const {
    std::string text = required<std::string>(name);
    if (!support::is_sha256(text))
      throw ArtifactError(cat(where_, ": '", name, "' is ", support::quote(text), ", expected 64 hex digits"));
    return text;
  }
  const std::string& where() const { return where_; }

 private:
  template <typename T>
  T value(const char* name, const Json& json) const {
    try {
      return json.get<T>();
    } catch (const Json::exception&) {
      fail(name, "another type", json);
    }
  }
  [[noreturn]] void fail(const char* name, const char* expected, const Json& json) const {
    throw ArtifactError(cat(where_, ": '", name, "' is ", json.type_name(), ", expected ", expected));
  }
  const Json& json_;
  std::string where_;
};

OutputRecord output_from_json(const Json& json, const std::string& where) {
  const Reader reader(json, where);
  OutputRecord output;
  output.role = reader.required<std::string>("role");
  output.kind = reader.required<std::string>("kind");
  output.object = reader.digest("object");
  output.content = reader.digest("content");
  output.bytes = reader.required<std::uint64_t>("bytes");
  output.collection = json.contains("members");
  output.is_volatile = reader.optional<bool>("volatile", false);
  output.absent = reader.optional<bool>("absent", false);
  output.members = reader.optional<std::vector<std::string>>("members", {});
  for (const std::string& member : output.members) {
    if (!support::is_sha256(member))
      throw ArtifactError(cat(where, ": 'members' holds ", support::quote(member), ", expected 64 hex digits"));
  }
  output.member_bytes = reader.optional<std::vector<std::uint64_t>>("member_bytes", {});
  if (!output.member_bytes.empty() && output.member_bytes.size() != output.members.size()) {
    throw ArtifactError(cat(where, ": 'member_bytes' holds ", output.member_bytes.size(), " numbers, expected ",
                            output.members.size(), ", one a member"));
  }
  return output;
}

const OutputRecord* find_output(const std::vector<OutputRecord>& outputs, std::string_view role) {
  for (const OutputRecord& output : outputs) {
    if (output.role == role) return &output;
  }
  return nullptr;
}

}  // namespace

std::optional<std::uint64_t> OutputRecord::object_bytes() const {
  if (!collection) return bytes;
  if (member_bytes.size() != members.size()) return std::nullopt;
  return bytes - std::accumulate(member_bytes.begin(), member_bytes.end(), std::uint64_t{0});
}

std::string ResultKey::short_name() const {
  std::string name = key.substr(0, 12);
  if (is_snapshot()) name += "@" + std::to_string(step);
  return name;
}

const OutputRecord* Record::output(std::string_view role) const { return find_output(outputs, role); }
const OutputRecord* Result::output(std::string_view role) const { return find_output(outputs, role); }

bool brings_more(const std::vector<OutputRecord>& known, const std::vector<OutputRecord>& outputs) {
  return std::any_of(known.begin(), known.end(), [&](const OutputRecord& output) {
    const OutputRecord* found = find_output(outputs, output.role);
    return output.absent && found && !found->absent;
  });
}

std::string_view status_name(ResultStatus status) { return status == ResultStatus::kDone ? "done" : "diverged"; }

namespace {

Json input_to_json(const InputRecord& input) {
  Json item{{"role", input.role}, {"digest", input.digest}, {"producer", input.producer}, {"labels", input.labels}};
  if (!input.missing.empty()) item["missing"] = input.missing;
  return item;
}

Json without_check(const Record& record) {
  Json inputs = Json::array(), outputs = Json::array();
  for (const InputRecord& input : record.inputs) inputs.push_back(input_to_json(input));
  for (const OutputRecord& output : record.outputs) outputs.push_back(output_to_json(output));
  Json json{{"schema", kRecordSchema},
            {"key", record.key.key},
            {"plan_key", record.plan_key},
            {"stage", record.stage},
            {"version", record.version},
            {"task", record.task},
            {"status", status_name(record.status)},
            {"outputs", std::move(outputs)},
            {"inputs", std::move(inputs)},
            {"preimage", record.preimage},
            {"config", record.config},
            {"occasion", record.occasion}};
  if (record.key.is_snapshot()) json["step"] = record.key.step;
  return json;
}

/// The CRC-32C of a record's other members.
std::string check_of(const Json& json) {
  const std::string text = support::json_text(json);
  return fmt::format("{:08x}", support::crc32c(text.data(), text.size()));
}

InputRecord input_from_json(const Json& item, const std::string& where) {
  const Reader fields(item, where);
  InputRecord input;
  input.role = fields.required<std::string>("role");
  input.digest = fields.required<std::string>("digest");
  input.producer = fields.optional<std::string>("producer", "");
  input.labels = fields.optional<std::map<std::string, std::string>>("labels", {});
  input.missing = fields.optional<std::string>("missing", "");
  return input;
}

}  // namespace

Json to_json(const Record& record) {
  Json json = without_check(record);
  json[kCheck] = check_of(json);
  return json;
}

std::string record_text(const Record& record) { return support::json_text(to_json(record), 1) + "\n"; }

Result to_result(const Record& record) {
  Result result;
  result.status = record.status;
  result.plan_key = record.plan_key;
  result.wall_s = support::field_or(record.occasion, "wall_s", 0.0);
  result.outputs = record.outputs;
  return result;
}

Record record_from_text(std::string_view text, const std::string& where) {
  Record record;
  Json json = support::parse_json(text);
  if (json.is_discarded()) throw ArtifactError(cat("'", where, "' is not JSON"));
  const Reader reader(json, where);
  const std::string check = reader.required<std::string>(kCheck);
  json.erase(kCheck);
  if (check != check_of(json))
    throw ArtifactError(cat(where, ": its checksum does not fit: it was changed or damaged"));
  const std::string schema = reader.required<std::string>("schema");
  if (schema != kRecordSchema) {
    throw ArtifactError(cat(where, ": schema is ", support::quote(schema), ", expected '", kRecordSchema, "'"));
  }
  record.key.key = reader.digest("key");
  record.key.step = reader.optional<std::int64_t>("step", -1);
  record.plan_key = reader.required<std::string>("plan_key");
  record.stage = reader.required<std::string>("stage");
  record.version = reader.required<int>("version");
  record.task = reader.required<std::string>("task");
  const std::string status = reader.required<std::string>("status");
  if (status != "done" && status != "diverged") {
    throw ArtifactError(cat(where, ": status is ", support::quote(status), ", expected 'done' or 'diverged'"));
  }
  record.status = status == "done" ? ResultStatus::kDone : ResultStatus::kDiverged;
  record.preimage = reader.raw("preimage");
  record.config = reader.raw("config");
  record.occasion = reader.raw("occasion");
  for (const Json& output : reader.required<std::vector<Json>>("outputs")) {
    record.outputs.push_back(output_from_json(output, where));
  }
  for (const Json& input : reader.optional<std::vector<Json>>("inputs", {})) {
    record.inputs.push_back(input_from_json(input, where));
  }
  return record;
}

std::string absent_outputs(const Result& result) {
  std::vector<std::string> names;
  for (const OutputRecord& output : result.outputs) {
    if (output.absent) names.push_back(cat(output.kind, " ", support::quote(output.role)));
  }
  return support::join(names, ", ");
}

std::string origin_of(const Record& record) {
  const Json& occasion = record.occasion;
  const auto text = [](const Json& json, const char* name) { return support::text_in(json, name); };
  std::string origin;
  if (!occasion.is_object()) return origin;
  if (const std::string run = text(occasion, "run"); !run.empty()) {
    const std::string host = text(occasion, "host");
    origin = cat("made by run ", run, host.empty() ? "" : cat(" on ", host));
  }
  const auto imported = occasion.find("imported");
  if (imported != occasion.end() && imported->is_object()) {
    const std::string at = text(*imported, "at"), file = text(*imported, "file");
    origin +=
        cat(origin.empty() ? "" : "; ", "imported from ", support::quote(file), at.empty() ? "" : cat(" on ", at));
  } else if (const std::string at = text(occasion, "kept_at"); !at.empty()) {
    origin += cat(origin.empty() ? "" : "; ", "copied from ", support::quote(at));
  }
  return origin;
}

std::string diverged_digest(const ResultKey& key) {
  return support::canonical_hash("pe/diverged/1", {{"key", key.key}, {"step", key.step}});
}

bool same_contents(const Record& a, const Record& b) {
  const auto contents = [](const Record& record) {
    std::vector<std::pair<std::string, std::string>> pairs;
    for (const OutputRecord& output : record.outputs) {
      if (!output.is_volatile) pairs.emplace_back(output.role, output.content);
    }
    std::sort(pairs.begin(), pairs.end());
    return pairs;
  };
  return a.status == b.status && contents(a) == contents(b);
}

}  // namespace pe::pipeline
