#include "interop/safetensors.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "support/error.h"
#include "support/escaped.h"
#include "support/files.h"
#include "support/half.h"
#include "support/json.h"
#include "support/parse_json.h"
#include "support/text.h"

namespace pe::interop {

using support::ArtifactError;
using support::bf16_of_float;
using support::cat;
using support::f16_of_float;
using support::float_of_bf16;
using support::float_of_f16;
using support::quote;

namespace {

static_assert(std::endian::native == std::endian::little);
constexpr std::uint64_t kLargestHeader = 100'000'000;  // as the reference reader has it
constexpr std::size_t kMostValues = 1u << 21;          // some 200,000 tensors
constexpr std::uint64_t kMostBytes = 1ULL << 46;

struct Dtype {
  std::string_view name;
  std::size_t bytes;
  int rank;  // the reference writer orders by it, the highest first
};
constexpr Dtype kDtypes[] = {{"BOOL", 1, 0}, {"U8", 1, 1},   {"I8", 1, 2},  {"I16", 2, 3}, {"U16", 2, 4},
                             {"F16", 2, 5},  {"BF16", 2, 6}, {"I32", 4, 7}, {"U32", 4, 8}, {"F32", 4, 9},
                             {"F64", 8, 10}, {"I64", 8, 11}, {"U64", 8, 12}};

const Dtype* find_dtype(std::string_view name) {
  const auto found =
      std::find_if(std::begin(kDtypes), std::end(kDtypes), [&](const Dtype& d) { return d.name == name; });
  return found == std::end(kDtypes) ? nullptr : &*found;
}

/// Reads the header's JSON and remembers names that occur twice in one object, which a tree of values would hide.
class HeaderJson {
 public:
  explicit HeaderJson(std::string_view text) {
    names_.emplace_back();
    json = support::parse_json(text, {.depth = 3, .values = kMostValues, .bytes = kLargestHeader},
                               [this](int, Json::parse_event_t event, Json& value) {
                                 if (event == Json::parse_event_t::object_start) names_.emplace_back();
                                 if (event == Json::parse_event_t::object_end) names_.pop_back();
                                 if (event == Json::parse_event_t::key) note(value.get_ref<const std::string&>());
                                 return true;
                               });
  }
  Json json;
  std::string twice;  ///< a name; empty: none

 private:
  void note(const std::string& name) {
    if (!names_.back().insert(name).second && twice.empty()) twice = name;
  }
  std::vector<std::set<std::string>> names_;
};

class Parser {
 public:
  Parser(std::string_view file, const std::string& where) : file_(file), where_(where) {}

  SafetensorsHeader parse() {
    if (file_.size() < 10)
      fail(cat("the file has ", file_.size(), " bytes, fewer than the header of a safetensors file"));
    std::uint64_t length = 0;
    std::memcpy(&length, file_.data(), 8);
    if (length > kLargestHeader) fail(cat("the header would have ", length, " bytes, more than ", kLargestHeader));
    if (length > file_.size() - 8)
      fail(cat("the header has ", length, " bytes, the file ", file_.size(), ": it is cut"));
    if (file_[8] != '{') fail("the header does not begin with '{', so this is no safetensors file");
    data_ = 8 + length;
    const std::string_view text = file_.substr(8, length);
    const HeaderJson header(text);
    if (header.json.is_discarded()) {
      fail(cat("the header ",
               support::json_problem(text, {.depth = 3, .values = kMostValues, .bytes = kLargestHeader})));
    }
    if (!header.twice.empty()) fail(cat("the header names ", support::escaped(header.twice, 100), " twice"));
    for (const auto& [name, value] : header.json.items()) {
      if (name == "__metadata__") {
        metadata(value);
      } else {
        tensor(name, value);
      }
    }
    check_coverage();
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw ArtifactError(cat(quote(where_), ": ", what)); }

  void metadata(const Json& value) {
    if (!value.is_object()) fail("__metadata__ is no object");
    for (const auto& [name, text] : value.items()) {
      if (!text.is_string()) fail(cat("__metadata__: ", support::escaped(name, 100), " is no text"));
      result_.metadata.emplace(name, text.get<std::string>());
    }
  }

  static std::optional<std::uint64_t> whole(const Json& value) {
    if (!value.is_number_integer() || (!value.is_number_unsigned() && value.get<std::int64_t>() < 0))
      return std::nullopt;
    const auto number = value.get<std::uint64_t>();
    return number <= kMostBytes ? std::optional(number) : std::nullopt;
  }

  void tensor(const std::string& name, const Json& value) {
    const std::string label = cat("tensor ", quote(support::escaped(name, 200)));
    if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
        !value.contains("data_offsets")) {
      fail(cat(label, ": expected dtype, shape and data_offsets"));
    }
    SafetensorsEntry entry{.name = name};
    if (value["dtype"].is_string()) entry.dtype = value["dtype"].get<std::string>();
    const Dtype* dtype = find_dtype(entry.dtype);
    if (dtype == nullptr)
      fail(cat(label, ": dtype ", support::escaped(value["dtype"].dump(), 40), " is not supported"));
    if (!value["shape"].is_array()) fail(cat(label, ": its shape is no list"));
    std::uint64_t bytes = dtype->bytes;
    for (const Json& size : value["shape"]) {
      const auto number = whole(size);
      if (!number) fail(cat(label, ": its shape holds ", support::escaped(size.dump(), 40)));
      if (*number != 0 && bytes > kMostBytes / *number) fail(cat(label, ": its shape is too large"));
      bytes *= *number;
      entry.shape.push_back(static_cast<std::int64_t>(*number));
    }
    const Json& offsets = value["data_offsets"];
    const auto begin = offsets.is_array() && offsets.size() == 2 ? whole(offsets[0]) : std::nullopt;
    const auto end = begin ? whole(offsets[1]) : std::nullopt;
    if (!end || *end < *begin) fail(cat(label, ": data_offsets is not a begin and an end"));
    if (*end - *begin != bytes) fail(cat(label, ": ", *end - *begin, " bytes, but its shape needs ", bytes));
    if (data_ + *end > file_.size()) {
      fail(cat(label, ": ends at byte ", data_ + *end, ", the file at ", file_.size(), ": it is cut"));
    }
    entry.begin = data_ + *begin;
    entry.end = data_ + *end;
    result_.tensors.push_back(std::move(entry));
  }

  void check_coverage() {
    std::sort(result_.tensors.begin(), result_.tensors.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
      return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    std::uint64_t at = data_;
    for (const SafetensorsEntry& entry : result_.tensors) {
      if (entry.begin != at) {
        fail(cat("tensor ", quote(support::escaped(entry.name, 200)), ": begins at byte ", entry.begin, ", expected ",
                 at, entry.begin < at ? ": tensors overlap" : ": there is a gap"));
      }
      at = entry.end;
    }
    if (at != file_.size()) fail(cat("the tensors end at byte ", at, ", the file at ", file_.size()));
  }

  std::string_view file_;
  const std::string& where_;
  std::uint64_t data_ = 0;
  SafetensorsHeader result_;
};

template <typename Number>
std::vector<float> cast(std::string_view bytes) {
  std::vector<float> values(bytes.size() / sizeof(Number));
  for (std::size_t i = 0; i < values.size(); ++i) {
    Number number;
    std::memcpy(&number, bytes.data() + i * sizeof(Number), sizeof number);
    values[i] = static_cast<float>(number);
  }
  return values;
}

std::vector<float> from_16_bits(std::string_view bytes, const auto& convert) {
  std::vector<float> values(bytes.size() / 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, bytes.data() + 2 * i, 2);
    values[i] = convert(bits);
  }
  return values;
}

}  // namespace

std::size_t safetensors_dtype_bytes(std::string_view dtype) {
  const Dtype* found = find_dtype(dtype);
  return found == nullptr ? 0 : found->bytes;
}

std::uint64_t SafetensorsEntry::count() const {
  std::uint64_t product = 1;
  for (const std::int64_t size : shape) product *= static_cast<std::uint64_t>(size);
  return product;
}

SafetensorsHeader parse_safetensors(std::string_view file, const std::string& where) {
  return Parser(file, where).parse();
}

std::vector<float> to_floats(std::string_view dtype, std::string_view bytes, const std::string& where) {
  if (dtype == "F32") return cast<float>(bytes);
  if (dtype == "F64") return cast<double>(bytes);
  if (dtype == "BF16") return from_16_bits(bytes, float_of_bf16);
  if (dtype == "F16") return from_16_bits(bytes, float_of_f16);
  throw ArtifactError(cat(where, ": weights of dtype ", dtype, " are no real numbers"),
                      "quantised models are not read; take the float weights");
}

std::string from_floats(std::string_view dtype, std::span<const float> values) {
  if (dtype == "F32") return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
  std::string bytes(2 * values.size(), '\0');
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t bits = dtype == "BF16" ? bf16_of_float(values[i]) : f16_of_float(values[i]);
    std::memcpy(bytes.data() + 2 * i, &bits, 2);
  }
  return bytes;
}

void write_bytes(int fd, std::string_view bytes, const std::filesystem::path& path) {
  if (!support::write_whole(fd, bytes)) support::throw_errno("write", path.string());
}

std::uint64_t write_tensor(int fd, const SafetensorsTensor& tensor, const std::filesystem::path& path) {
  std::uint64_t written = 0;
  tensor.bytes([&](std::string_view piece) {
    write_bytes(fd, piece, path);
    written += piece.size();
  });
  return written;
}

void write_safetensors(const std::filesystem::path& path, std::vector<SafetensorsTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
    const int left = find_dtype(a.dtype)->rank, right = find_dtype(b.dtype)->rank;
    return left != right ? left > right : a.name < b.name;
  });
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t at = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    std::uint64_t bytes = safetensors_dtype_bytes(tensor.dtype);
    for (const std::int64_t size : tensor.shape) bytes *= static_cast<std::uint64_t>(size);
    header[tensor.name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t length = text.size();
  const support::Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file) support::throw_errno("create", path.string(), /*creating=*/true);
  write_bytes(file.get(), {reinterpret_cast<const char*>(&length), 8}, path);
  write_bytes(file.get(), text, path);
  for (const SafetensorsTensor& tensor : tensors) write_tensor(file.get(), tensor, path);
  if (::fsync(file.get()) != 0) support::throw_errno("sync", path.string());
}

}  // namespace pe::interop
