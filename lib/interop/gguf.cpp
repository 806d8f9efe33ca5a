#include "interop/gguf.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "support/error.h"
#include "support/escaped.h"
#include "support/text.h"

namespace pe::interop {

using support::ArtifactError;
using support::cat;
using support::quote;

namespace {

constexpr std::uint32_t kVersion = 3;
constexpr std::uint64_t kAlignment = 32;
constexpr std::uint64_t kMostDimensions = 4;
constexpr std::uint64_t kMostGgufBytes = 1ULL << 46;

/// Types of values, by their numbers in the file.
enum class Type : std::uint32_t {
  kUint8 = 0,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64
};

struct TensorType {
  std::string_view name;
  std::uint32_t number;
};
constexpr TensorType kTensorTypes[] = {{"F32", 0}, {"F16", 1}, {"BF16", 30}};

std::uint64_t aligned(std::uint64_t at, std::uint64_t alignment) {
  return (at + alignment - 1) / alignment * alignment;
}

// ---- out

class HeaderWriter {
 public:
  void number(auto value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void type(Type value) { number(static_cast<std::uint32_t>(value)); }
  void text(std::string_view value) {
    number(std::uint64_t{value.size()});
    bytes_ += value;
  }
  template <typename Element>
  void array(Type of, const std::vector<Element>& elements) {
    type(Type::kArray);
    type(of);
    number(std::uint64_t{elements.size()});
    for (const Element& element : elements) {
      if constexpr (std::is_same_v<Element, std::string>) {
        text(element);
      } else {
        number(element);
      }
    }
  }
  void operator()(std::monostate) const {
    throw support::Error(support::kExitBug, support::Diagnostic{"a value of a GGUF file has no type"});
  }
  void operator()(std::int64_t value) {
    if (value < 0 || value > std::numeric_limits<std::uint32_t>::max()) (*this)(std::monostate());
    type(Type::kUint32);
    number(static_cast<std::uint32_t>(value));
  }
  void operator()(double value) {
    type(Type::kFloat32);
    number(static_cast<float>(value));
  }
  void operator()(bool value) {
    type(Type::kBool);
    number(static_cast<std::uint8_t>(value));
  }
  void operator()(const std::string& value) {
    type(Type::kString);
    text(value);
  }
  void operator()(const std::vector<std::int32_t>& value) { array(Type::kInt32, value); }
  void operator()(const std::vector<float>& value) { array(Type::kFloat32, value); }
  void operator()(const std::vector<std::string>& value) { array(Type::kString, value); }

  void pad() { bytes_.resize(aligned(bytes_.size(), kAlignment)); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// ---- in

class GgufParser {
 public:
  GgufParser(std::string_view file, const std::string& where) : file_(file), where_(where) {}

  GgufHeader parse() {
    if (file_.substr(0, 4) != "GGUF") fail("the file does not begin with 'GGUF'");
    at_ = 4;
    if (const auto version = number<std::uint32_t>(); version != kVersion)
      fail(cat("version ", version, ", expected ", kVersion));
    const auto tensors = count(24), values = count(13);  // bytes of the smallest tensor and value
    for (std::uint64_t i = 0; i < values; ++i) {
      const std::string name = text();
      if (!result_.values.emplace(name, value(number<std::uint32_t>())).second)
        fail(cat(label(name), " is there twice"));
    }
    const auto alignment = result_.values.find("general.alignment");
    if (alignment != result_.values.end()) {
      const auto* stated = std::get_if<std::int64_t>(&alignment->second);
      if (stated == nullptr || *stated < 1 || *stated > 1 << 20)
        fail("general.alignment is no number from 1 to 1048576");
      alignment_ = static_cast<std::uint64_t>(*stated);
    }
    for (std::uint64_t i = 0; i < tensors; ++i) tensor();
    place_tensors();
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw ArtifactError(cat(quote(where_), ": ", what)); }
  static std::string label(const std::string& name) { return quote(support::escaped(name, 200)); }

  std::string_view take(std::uint64_t bytes) {
    if (bytes > file_.size() - at_) fail(cat("ends at byte ", file_.size(), " in the header: it is cut"));
    const std::string_view taken = file_.substr(at_, bytes);
    at_ += bytes;
    return taken;
  }
  template <typename Number>
  Number number() {
    Number value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  /// A count of things that take so many bytes at least, so that a lying count allocates nothing.
  std::uint64_t count(std::uint64_t bytes_each) {
    const auto stated = number<std::uint64_t>();
    if (stated > (file_.size() - at_) / bytes_each)
      fail(cat("states ", stated, " entries, more than its ", file_.size(), " bytes hold"));
    return stated;
  }
  std::string text() { return std::string(take(count(1))); }

  template <typename Number>
  GgufValue whole() {
    const auto value = number<Number>();
    if (std::is_same_v<Number, std::uint64_t> && static_cast<std::uint64_t>(value) > INT64_MAX)
      fail(cat("holds number ", value, ", which is too large"));
    return static_cast<std::int64_t>(value);
  }

  GgufValue value(std::uint32_t type) {
    switch (static_cast<Type>(type)) {
      case Type::kUint8:
        return whole<std::uint8_t>();
      case Type::kInt8:
        return whole<std::int8_t>();
      case Type::kUint16:
        return whole<std::uint16_t>();
      case Type::kInt16:
        return whole<std::int16_t>();
      case Type::kUint32:
        return whole<std::uint32_t>();
      case Type::kInt32:
        return whole<std::int32_t>();
      case Type::kUint64:
        return whole<std::uint64_t>();
      case Type::kInt64:
        return whole<std::int64_t>();
      case Type::kFloat32:
        return static_cast<double>(number<float>());
      case Type::kFloat64:
        return number<double>();
      case Type::kBool:
        return number<std::uint8_t>() != 0;
      case Type::kString:
        return text();
      case Type::kArray:
        return array();
    }
    fail(cat("has a value of type ", type, ", which is unknown"));
  }

  GgufValue array() {
    const auto type = static_cast<Type>(number<std::uint32_t>());
    const auto elements = [&]<typename Element>(std::uint64_t bytes, const auto& read, std::vector<Element> list) {
      for (std::uint64_t left = count(bytes); left > 0; --left) list.push_back(read());
      return list;
    };
    if (type == Type::kInt32)
      return elements(
          4, [&] { return number<std::int32_t>(); }, std::vector<std::int32_t>());
    if (type == Type::kFloat32)
      return elements(
          4, [&] { return number<float>(); }, std::vector<float>());
    if (type == Type::kString)
      return elements(
          8, [&] { return text(); }, std::vector<std::string>());
    static constexpr std::uint64_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    const auto index = static_cast<std::size_t>(type);
    if (index >= std::size(kBytes) || kBytes[index] == 0)
      fail(cat("has an array of type ", index, ", which is not supported"));
    take(count(kBytes[index]) * kBytes[index]);
    return std::monostate();
  }

  void tensor() {
    SafetensorsEntry entry{.name = text()};
    const std::string named = cat("tensor ", label(entry.name));
    const auto rank = number<std::uint32_t>();
    if (rank > kMostDimensions) fail(cat(named, " has ", rank, " dimensions, more than ", kMostDimensions));
    std::uint64_t numbers = 1;
    for (std::uint32_t i = 0; i < rank; ++i) {
      const auto size = number<std::uint64_t>();
      if (size == 0 || size > kMostGgufBytes / 4 / numbers) fail(cat(named, " has a dimension of ", size));
      numbers *= size;
      entry.shape.insert(entry.shape.begin(), static_cast<std::int64_t>(size));
    }
    const auto type = number<std::uint32_t>();
    const auto* found = std::find_if(std::begin(kTensorTypes), std::end(kTensorTypes),
                                     [&](const TensorType& t) { return t.number == type; });
    if (found == std::end(kTensorTypes))
      fail(cat(named, " has type ", type, "; only F32, F16 and BF16 are read, no quantised weights"));
    entry.dtype = found->name;
    entry.begin = number<std::uint64_t>();
    if (entry.begin > kMostGgufBytes || entry.begin % alignment_ != 0)
      fail(cat(named, " has offset ", entry.begin, ", expected a multiple of ", alignment_));
    entry.end = entry.begin + numbers * safetensors_dtype_bytes(entry.dtype);
    result_.tensors.push_back(std::move(entry));
  }

  void place_tensors() {
    const std::uint64_t data = aligned(at_, alignment_);
    std::vector<const SafetensorsEntry*> order;
    std::map<std::string_view, int> names;
    for (SafetensorsEntry& entry : result_.tensors) {
      entry.begin += data;
      entry.end += data;
      if (entry.end > file_.size()) {
        fail(cat("tensor ", label(entry.name), " ends at byte ", entry.end, ", the file at ", file_.size(),
                 ": it is cut"));
      }
      if (names[entry.name]++ > 0) fail(cat("tensor ", label(entry.name), " is there twice"));
      order.push_back(&entry);
    }
    std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->begin < b->begin; });
    for (std::size_t i = 1; i < order.size(); ++i) {
      if (order[i]->begin < order[i - 1]->end)
        fail(cat("tensors ", label(order[i - 1]->name), " and ", label(order[i]->name), " overlap"));
    }
  }

  std::string_view file_;
  const std::string& where_;
  std::uint64_t at_ = 0, alignment_ = kAlignment;
  GgufHeader result_;
};

}  // namespace

GgufHeader parse_gguf(std::string_view file, const std::string& where) { return GgufParser(file, where).parse(); }

void write_gguf(const std::filesystem::path& path, const GgufValues& values,
                const std::vector<SafetensorsTensor>& tensors) {
  HeaderWriter header;
  for (const char letter : {'G', 'G', 'U', 'F'}) header.number(letter);
  header.number(kVersion);
  header.number(std::uint64_t{tensors.size()});
  header.number(std::uint64_t{values.size()});
  for (const auto& [name, value] : values) {
    header.text(name);
    std::visit(header, value);
  }
  std::uint64_t at = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    const auto* type = std::find_if(std::begin(kTensorTypes), std::end(kTensorTypes),
                                    [&](const TensorType& t) { return t.name == tensor.dtype; });
    header.text(tensor.name);
    header.number(static_cast<std::uint32_t>(tensor.shape.size()));
    std::uint64_t bytes = safetensors_dtype_bytes(tensor.dtype);
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size) {
      header.number(static_cast<std::uint64_t>(*size));
      bytes *= static_cast<std::uint64_t>(*size);
    }
    header.number(type->number);
    header.number(at);
    at += aligned(bytes, kAlignment);
  }
  header.pad();
  const support::Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file) support::throw_errno("create", path.string(), /*creating=*/true);
  write_bytes(file.get(), header.bytes(), path);
  for (const SafetensorsTensor& tensor : tensors) {
    const std::uint64_t bytes = write_tensor(file.get(), tensor, path);
    write_bytes(file.get(), std::string(aligned(bytes, kAlignment) - bytes, '\0'), path);
  }
  if (::fsync(file.get()) != 0) support::throw_errno("sync", path.string());
}

}  // namespace pe::interop
