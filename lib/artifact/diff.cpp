#include "artifact/diff.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <set>

#include "artifact/collection.h"
#include "support/config.h"
#include "support/error.h"
#include "support/half.h"
#include "support/parse_json.h"
#include "support/text.h"

namespace pe::artifact {

namespace fs = std::filesystem;
using support::ArtifactError;
using support::cat;
using support::quote;

namespace {

constexpr std::uint64_t kComparedBytes = 4ULL << 20;
constexpr int kDeepestCompared = 64;
constexpr std::uint64_t kMostCompared = 1'000'000;  // groups: one may be linked many times

/// Steps of representable numbers: the order of sign-and-magnitude bits, made the order of integers.
template <typename Signed>
std::uint64_t steps_between(Signed a, Signed b) {
  const auto place = [](Signed bits) -> std::int64_t {
    const std::int64_t value = bits;
    constexpr std::int64_t kLowest = std::numeric_limits<Signed>::min();
    return value < 0
               ? static_cast<std::int64_t>(static_cast<std::uint64_t>(kLowest) - static_cast<std::uint64_t>(value))
               : value;
  };
  const std::int64_t x = place(a), y = place(b);
  return x > y ? static_cast<std::uint64_t>(x) - static_cast<std::uint64_t>(y)
               : static_cast<std::uint64_t>(y) - static_cast<std::uint64_t>(x);
}

template <typename Real, typename Signed>
std::uint64_t distance(Real a, Real b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b) ? 0 : Difference::kFar;
  return steps_between(std::bit_cast<Signed>(a), std::bit_cast<Signed>(b));
}

/// Type of the bytes of a dataset: a checkpoint names the type that its uint16 represents.
enum class Numbers { kF32, kF64, kBF16, kF16, kOther };

Numbers numbers_of(const h5::Dataset& dataset) {
  switch (dataset.type()) {
    case h5::Type::kF32:
      return Numbers::kF32;
    case h5::Type::kF64:
      return Numbers::kF64;
    case h5::Type::kU16:
      if (dataset.has_attribute("dtype")) {
        const std::string dtype = dataset.text("dtype");
        if (dtype == "bf16") return Numbers::kBF16;
        if (dtype == "f16") return Numbers::kF16;
      }
      return Numbers::kOther;
    default:
      return Numbers::kOther;
  }
}

template <typename T>
T load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

double real_at(Numbers numbers, const char* at) {
  switch (numbers) {
    case Numbers::kF32:
      return load<float>(at);
    case Numbers::kF64:
      return load<double>(at);
    case Numbers::kBF16:
      return support::float_of_bf16(load<std::uint16_t>(at));
    case Numbers::kF16:
      return support::float_of_f16(load<std::uint16_t>(at));
    case Numbers::kOther:
      break;
  }
  return 0;
}

std::uint64_t ulp_at(Numbers numbers, const char* a, const char* b) {
  switch (numbers) {
    case Numbers::kF32:
      return ulp_distance(load<float>(a), load<float>(b));
    case Numbers::kF64:
      return ulp_distance(load<double>(a), load<double>(b));
    case Numbers::kBF16:
      return ulp_distance_16(load<std::uint16_t>(a), load<std::uint16_t>(b), true);
    case Numbers::kF16:
      return ulp_distance_16(load<std::uint16_t>(a), load<std::uint16_t>(b), false);
    case Numbers::kOther:
      break;
  }
  return Difference::kFar;
}

std::string value_text(h5::Type type, Numbers numbers, const char* at, std::size_t width) {
  switch (numbers) {
    case Numbers::kF32:
      return fmt::format("{}", load<float>(at));
    case Numbers::kOther:
      break;
    default:
      return support::shortest(real_at(numbers, at));
  }
  switch (type) {
    case h5::Type::kU8:
      return std::to_string(load<std::uint8_t>(at));
    case h5::Type::kI8:
      return std::to_string(load<std::int8_t>(at));
    case h5::Type::kU16:
      return std::to_string(load<std::uint16_t>(at));
    case h5::Type::kI16:
      return std::to_string(load<std::int16_t>(at));
    case h5::Type::kU32:
      return std::to_string(load<std::uint32_t>(at));
    case h5::Type::kI32:
      return std::to_string(load<std::int32_t>(at));
    case h5::Type::kU64:
      return std::to_string(load<std::uint64_t>(at));
    case h5::Type::kI64:
      return std::to_string(load<std::int64_t>(at));
    default: {
      return quote(support::replace_invalid_utf8(std::string(at, ::strnlen(at, width))));
    }
  }
}

std::string type_text(const h5::Dataset& dataset) {
  return cat(h5::type_name(dataset.type()), " ", support::bracketed(dataset.shape()));
}

class Comparison {
 public:
  Comparison(const DiffOptions& options, std::string prefix, ArtifactDiff& out)
      : options_(options), prefix_(std::move(prefix)), out_(out) {}

  void groups(const h5::Group& a, const h5::Group& b, int depth) {
    if (depth > kDeepestCompared || ++visited_ > kMostCompared)
      throw ArtifactError(cat(a.where(), ": groups are nested too deeply, or there are too many"));
    if (wanted(a.path())) attributes(a, b, false);
    std::set<std::string> names;
    for (const std::string& name : a.names()) names.insert(name);
    for (const std::string& name : b.names()) names.insert(name);
    for (const std::string& name : names) {
      if (a.path() == "/pe" && name.starts_with("made_by")) continue;  // no contents, as in content digests
      const std::string path = a.path() == "/" ? "/" + name : a.path() + "/" + name;
      if (!leads_to_wanted(path)) continue;
      if (!a.has(name) || !b.has(name)) {
        if (wanted(path)) {
          const h5::Group& there = a.has(name) ? a : b;
          add(a.has(name) ? Difference::What::kOnlyInFirst : Difference::What::kOnlyInSecond, path,
              a.has(name) ? thing(there, name) : "", a.has(name) ? "" : thing(there, name));
        }
        continue;
      }
      const bool group = a.is_group(name);
      if (group != b.is_group(name)) {
        if (wanted(path)) add(Difference::What::kType, path, thing(a, name), thing(b, name));
      } else if (group) {
        groups(a.open_group(name), b.open_group(name), depth + 1);
      } else if (wanted(path)) {
        datasets(a.open_dataset(name), b.open_dataset(name));
      }
    }
  }

 private:
  static std::string thing(const h5::Group& group, const std::string& name) {
    return group.is_group(name) ? "group" : type_text(group.open_dataset(name));
  }

  bool wanted(const std::string& path) const {
    return options_.only.empty() ||
           std::any_of(options_.only.begin(), options_.only.end(), [&](const std::string& only) {
             return only == "/" || path == only || (path.rfind(only, 0) == 0 && path[only.size()] == '/');
           });
  }
  bool leads_to_wanted(const std::string& path) const {
    return wanted(path) || std::any_of(options_.only.begin(), options_.only.end(),
                                       [&](const std::string& only) { return only.rfind(path + "/", 0) == 0; });
  }

  Difference& add(Difference::What what, const std::string& path, std::string first, std::string second) {
    Difference difference;
    difference.what = what;
    difference.path = prefix_ + path;
    difference.first = std::move(first);
    difference.second = std::move(second);
    out_.differences.push_back(std::move(difference));
    return out_.differences.back();
  }

  static std::string attribute_text(const h5::Object& object, const std::string& name) {
    if (!object.has_attribute(name)) return "";
    const auto raw = object.raw_attribute(name);
    if (raw.type == "int64") return std::to_string(object.integer(name));
    if (raw.type == "float64") return support::shortest(object.real(name));
    if (raw.type.rfind("text", 0) == 0) {
      const std::string text = object.text(name);
      return quote(text.size() > 60 ? text.substr(0, 60) + "…" : text);
    }
    return raw.type;
  }

  void attributes(const h5::Object& a, const h5::Object& b, bool values_differ) {
    std::set<std::string> names;
    for (const std::string& name : a.attribute_names()) names.insert(name);
    for (const std::string& name : b.attribute_names()) names.insert(name);
    for (const std::string& name : names) {
      // A checksum of values that differ says nothing new.
      if (values_differ && name == "crc32c") continue;
      if (a.has_attribute(name) && b.has_attribute(name)) {
        const auto x = a.raw_attribute(name), y = b.raw_attribute(name);
        if (x.type == y.type && x.shape == y.shape && x.bytes == y.bytes) continue;
      }
      add(Difference::What::kAttribute, cat(a.path(), "@", name), attribute_text(a, name), attribute_text(b, name));
    }
  }

  void datasets(const h5::Dataset& a, const h5::Dataset& b) {
    ++out_.compared;
    bool bits_differ = false;
    const Numbers numbers = numbers_of(a);
    if (a.type() != b.type() || numbers != numbers_of(b)) {
      add(Difference::What::kType, a.path(), type_text(a), type_text(b));
      bits_differ = true;
    } else if (a.shape() != b.shape()) {
      add(Difference::What::kShape, a.path(), type_text(a), type_text(b));
      bits_differ = true;
    } else if (a.element_bytes() != b.element_bytes()) {
      bits_differ = true;
      columns_of_text(a, b);
    } else {
      bits_differ = values(a, b, numbers);
    }
    attributes(a, b, bits_differ);
  }

  /// Texts of unequal width: what they say, and the width itself only where they say the same.
  void columns_of_text(const h5::Dataset& a, const h5::Dataset& b) {
    Difference found;
    std::vector<char> x(a.element_bytes() + 1), y(b.element_bytes() + 1);
    for (std::uint64_t i = 0; i < a.count(); ++i) {
      a.read_raw(x.data(), i, 1);
      b.read_raw(y.data(), i, 1);
      if (std::strcmp(x.data(), y.data()) == 0) continue;
      if (found.differing++ == 0) {
        found.where = i;
        texts(x.data(), x.size(), y.data(), y.size(), found);
      }
    }
    if (found.differing == 0) {
      // The content digest counts the width.
      add(Difference::What::kType, a.path(), cat("text", a.element_bytes()), cat("text", b.element_bytes()));
      return;
    }
    found.path = prefix_ + a.path();
    found.elements = a.count();
    out_.differences.push_back(std::move(found));
  }

  /// True when any bit differs.
  bool values(const h5::Dataset& a, const h5::Dataset& b, Numbers numbers) {
    const std::size_t width = std::max<std::size_t>(1, a.element_bytes());
    const std::uint64_t per_piece = std::max<std::uint64_t>(1, kComparedBytes / width);
    Difference found;
    bool bits_differ = false;
    std::vector<char> x, y;
    for (std::uint64_t from = 0; from < a.count(); from += per_piece) {
      const std::uint64_t count = std::min(per_piece, a.count() - from);
      x.resize(static_cast<std::size_t>(count * width));
      y.resize(x.size());
      a.read_raw(x.data(), from, count);
      b.read_raw(y.data(), from, count);
      if (std::memcmp(x.data(), y.data(), x.size()) == 0) continue;
      bits_differ = true;
      for (std::uint64_t i = 0; i < count; ++i) {
        const char* p = x.data() + i * width;
        const char* q = y.data() + i * width;
        if (std::memcmp(p, q, width) == 0) continue;
        if (numbers != Numbers::kOther) {
          // Other bits of the same number (-0, another NaN) are a difference too, of distance 0.
          const std::uint64_t ulp = ulp_at(numbers, p, q);
          if (options_.ulp > 0 && ulp <= options_.ulp) continue;
          found.largest_ulp = std::max(found.largest_ulp, ulp);
          const double apart = std::abs(real_at(numbers, p) - real_at(numbers, q));
          if (apart > found.largest_absolute) found.largest_absolute = apart;
        } else if (a.type() != h5::Type::kText) {
          const double apart = integer_distance(a.type(), p, q);
          if (apart > found.largest_absolute) found.largest_absolute = apart;
        }
        if (found.differing++ == 0) {
          found.where = from + i;
          if (a.type() == h5::Type::kText) {
            texts(p, width, q, width, found);
          } else {
            found.first = value_text(a.type(), numbers, p, width);
            found.second = value_text(a.type(), numbers, q, width);
          }
        }
      }
    }
    if (found.differing > 0) {
      found.path = prefix_ + a.path();
      found.elements = a.count();
      out_.differences.push_back(std::move(found));
    }
    return bits_differ;
  }

  /// Of two texts only the differing parts: members of JSON documents, else the text around the first difference.
  static void texts(const char* p, std::size_t p_width, const char* q, std::size_t q_width, Difference& found) {
    const std::string x(p, ::strnlen(p, p_width)), y(q, ::strnlen(q, q_width));
    const Json first = support::parse_json(x), second = support::parse_json(y);
    if (first.is_object() && second.is_object()) {
      const auto differences = support::differences(first, second);
      if (!differences.empty()) {
        const auto& one = differences.front();
        const auto shown = [](const Json& value) {
          return value.is_null() ? std::string("(none)") : shortened(support::display(value), 0);
        };
        found.first = cat(one.path, ": ", shown(one.before));
        found.second = shown(one.after);
        if (differences.size() > 1) found.second += cat(" and ", differences.size() - 1, " more");
        return;
      }
    }
    const auto [at, other] = std::mismatch(x.begin(), x.end(), y.begin(), y.end());
    const auto place = static_cast<std::size_t>(at - x.begin());
    found.first = quote(shortened(x, place));
    found.second = quote(shortened(y, place));
  }

  /// At most 60 bytes around a place.
  static std::string shortened(const std::string& text, std::size_t place) {
    const std::size_t from = place > 20 && text.size() > 60 ? place - 20 : 0;
    std::string part = support::replace_invalid_utf8(text.substr(from, 60));
    if (from > 0) part = "…" + part;
    if (from + 60 < text.size()) part += "…";
    return part;
  }

  static double integer_distance(h5::Type type, const char* p, const char* q) {
    const auto apart = [&]<typename T>(T) {
      return std::abs(static_cast<double>(load<T>(p)) - static_cast<double>(load<T>(q)));
    };
    switch (type) {
      case h5::Type::kU8:
        return apart(std::uint8_t{});
      case h5::Type::kI8:
        return apart(std::int8_t{});
      case h5::Type::kU16:
        return apart(std::uint16_t{});
      case h5::Type::kI16:
        return apart(std::int16_t{});
      case h5::Type::kU32:
        return apart(std::uint32_t{});
      case h5::Type::kI32:
        return apart(std::int32_t{});
      case h5::Type::kU64:
        return apart(std::uint64_t{});
      case h5::Type::kI64:
        return apart(std::int64_t{});
      default:
        return 0;
    }
  }

  const DiffOptions& options_;
  std::string prefix_;
  ArtifactDiff& out_;
  std::uint64_t visited_ = 0;  // groups
};

/// Bytes of two files that are no HDF5, at `name` in a collection.
void compare_bytes(const fs::path& first, const fs::path& second, const std::string& name, ArtifactDiff& out) {
  ++out.compared;
  std::ifstream a(first, std::ios::binary), b(second, std::ios::binary);
  if (!a || !b) throw ArtifactError(cat("cannot read ", quote((a ? second : first).string())));
  Difference found;
  found.what = Difference::What::kBytes;
  found.path = name;
  const std::uint64_t x_size = fs::file_size(first), y_size = fs::file_size(second);
  found.elements = std::max(x_size, y_size);
  std::vector<char> x(kComparedBytes), y(kComparedBytes);
  std::uint64_t at = 0;
  std::uint64_t line = 1;
  while (true) {
    a.read(x.data(), static_cast<std::streamsize>(x.size()));
    b.read(y.data(), static_cast<std::streamsize>(y.size()));
    if (a.bad() || b.bad()) throw support::IoError(cat("cannot read ", quote((a.bad() ? first : second).string())));
    const auto m = static_cast<std::size_t>(a.gcount()), n = static_cast<std::size_t>(b.gcount());
    const std::size_t both = std::min(m, n);
    if (found.differing == 0 || std::memcmp(x.data(), y.data(), both) != 0) {
      for (std::size_t i = 0; i < both; ++i) {
        if (x[i] == y[i]) {
          if (found.differing == 0 && x[i] == '\n') ++line;
          continue;
        }
        if (found.differing++ == 0) found.where = at + i;
      }
    }
    at += both;
    if (m < x.size() || n < y.size()) break;
  }
  if (x_size != y_size) {
    if (found.differing == 0) found.where = std::min(x_size, y_size);
    found.differing += std::max(x_size, y_size) - std::min(x_size, y_size);
  }
  if (found.differing == 0) return;
  found.first = cat(support::with_commas(static_cast<std::int64_t>(x_size)), " bytes, first difference in line ", line);
  found.second = cat(support::with_commas(static_cast<std::int64_t>(y_size)), " bytes");
  out.differences.push_back(std::move(found));
}

void compare_files(const fs::path& first, const fs::path& second, const std::string& name, const DiffOptions& options,
                   ArtifactDiff& out) {
  const bool x = h5::looks_like_hdf5(first), y = h5::looks_like_hdf5(second);
  if (!x || !y) {
    compare_bytes(first, second, name.empty() ? first.filename().string() : name, out);
    return;
  }
  const h5::File a = h5::File::open(first), b = h5::File::open(second);
  Comparison(options, name.empty() ? "" : name + ":", out).groups(a.root(), b.root(), 0);
}

bool is_collection_path(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

void compare_collections(const fs::path& first, const fs::path& second, const DiffOptions& options, ArtifactDiff& out) {
  const Manifest a = Manifest::read(first), b = Manifest::read(second);
  if (a.kind != b.kind) {
    Difference difference;
    difference.what = Difference::What::kType;
    difference.path = std::string(kManifestName);
    difference.first = kind_name(a.kind);
    difference.second = kind_name(b.kind);
    out.differences.push_back(std::move(difference));
  }
  std::set<std::string> names;
  for (const Member& member : a.members) names.insert(member.name);
  for (const Member& member : b.members) names.insert(member.name);
  for (const std::string& name : names) {
    // "--only member:/path" narrows that member; "--only member" takes all of it.
    DiffOptions inside = options;
    inside.only.clear();
    bool taken = options.only.empty();
    for (const std::string& only : options.only) {
      if (only == name || (name.rfind(only, 0) == 0 && name[only.size()] == '/'))
        taken = true;
      else if (only.rfind(name + ":", 0) == 0)
        inside.only.push_back(only.substr(name.size() + 1));
    }
    if (taken)
      inside.only.clear();
    else if (inside.only.empty())
      continue;
    const Member* x = a.find(name);
    const Member* y = b.find(name);
    if (!x || !y) {
      Difference difference;
      difference.what = x ? Difference::What::kOnlyInFirst : Difference::What::kOnlyInSecond;
      difference.path = name;
      (x ? difference.first : difference.second) = cat("file of ", (x ? x : y)->bytes, " bytes");
      out.differences.push_back(std::move(difference));
    } else if (x->content_digest == y->content_digest) {
      ++out.compared;
    } else {
      compare_files(first / name, second / name, name, inside, out);
    }
  }
}

}  // namespace

std::string_view what_name(Difference::What what) {
  switch (what) {
    case Difference::What::kOnlyInFirst:
      return "only in the first";
    case Difference::What::kOnlyInSecond:
      return "only in the second";
    case Difference::What::kType:
      return "type";
    case Difference::What::kShape:
      return "shape";
    case Difference::What::kAttribute:
      return "attribute";
    case Difference::What::kValues:
      return "values";
    case Difference::What::kBytes:
      return "bytes";
  }
  return "";
}

ArtifactDiff diff_artifacts(const fs::path& first, const fs::path& second, const DiffOptions& options) {
  for (const fs::path* path : {&first, &second}) {
    std::error_code ignored;
    if (!fs::exists(*path, ignored)) throw ArtifactError(cat("there is no artifact ", quote(path->string())));
  }
  const bool folder = is_collection_path(first);
  if (folder != is_collection_path(second)) {
    throw ArtifactError(
        cat("cannot compare a collection with a file: ", quote(first.string()), " and ", quote(second.string())));
  }
  ArtifactDiff out;
  if (folder)
    compare_collections(first, second, options, out);
  else
    compare_files(first, second, "", options, out);
  return out;
}

std::uint64_t ulp_distance(float a, float b) { return distance<float, std::int32_t>(a, b); }
std::uint64_t ulp_distance(double a, double b) { return distance<double, std::int64_t>(a, b); }

std::uint64_t ulp_distance_16(std::uint16_t a, std::uint16_t b, bool bfloat) {
  const int exponent = bfloat ? 0x7f80 : 0x7c00;
  const auto is_nan = [&](std::uint16_t bits) { return (bits & 0x7fff) > exponent; };
  if (is_nan(a) || is_nan(b)) return is_nan(a) && is_nan(b) ? 0 : Difference::kFar;
  return steps_between(static_cast<std::int16_t>(a), static_cast<std::int16_t>(b));
}

}  // namespace pe::artifact
