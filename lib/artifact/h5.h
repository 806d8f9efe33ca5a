/// @file
/// Checked wrappers over the HDF5 C API, for the small part of it that our artifacts use: groups, contiguous datasets
/// of fixed little-endian types, fixed-length UTF-8 text, scalar attributes.
///
/// Writing: object times are off on files, groups and datasets, format bounds are 1.8 to 1.10, nothing is chunked or
/// filtered. The same calls in the same order therefore give the same bytes. Reading: type, shape and extent are
/// checked against the real contents of the file before anything is allocated. A mismatch is an ArtifactError that
/// names file, dataset, expected and found. HDF5's own error stack is silenced and folded into our message.
///
/// The library is not thread-safe; these wrappers hold one lock. They are safe as long as no other code calls HDF5.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace pe::artifact::h5 {

enum class Type { kU8, kI8, kU16, kI16, kU32, kI32, kU64, kI64, kF32, kF64, kText };

std::string_view type_name(Type type);  ///< "uint16", "float32", "text", …
std::size_t type_bytes(Type type);      ///< of one element; 0 for text, whose width is the dataset's own

template <typename T>
constexpr Type type_of() {
  if constexpr (std::is_same_v<T, float>)
    return Type::kF32;
  else if constexpr (std::is_same_v<T, double>)
    return Type::kF64;
  else {
    static_assert(std::is_integral_v<T> && !std::is_same_v<T, bool>, "this type has no HDF5 type");
    constexpr bool s = std::is_signed_v<T>;
    if constexpr (sizeof(T) == 1)
      return s ? Type::kI8 : Type::kU8;
    else if constexpr (sizeof(T) == 2)
      return s ? Type::kI16 : Type::kU16;
    else if constexpr (sizeof(T) == 4)
      return s ? Type::kI32 : Type::kU32;
    else
      return s ? Type::kI64 : Type::kU64;
  }
}

using Shape = std::vector<std::uint64_t>;  ///< empty for a scalar

std::uint64_t element_count(const Shape& shape);

struct FileState;

/// Anything with a path and attributes: a group or a dataset. Copies share the underlying object.
class Object {
 public:
  const std::string& path() const;  ///< inside the file: "/pe"
  const std::filesystem::path& file() const;
  std::string where() const;  ///< "'shards/a.h5': /pe", for messages

  bool has_attribute(const std::string& name) const;
  std::vector<std::string> attribute_names() const;  ///< sorted
  void set_integer(const std::string& name, std::int64_t value);
  void set_real(const std::string& name, double value);
  void set_text(const std::string& name, std::string_view value);  ///< at most 60,000 bytes
  /// @throws ArtifactError when the attribute is missing or of another type.
  std::int64_t integer(const std::string& name) const;
  double real(const std::string& name) const;
  std::string text(const std::string& name) const;
  /// The attribute's type, shape and little-endian bytes, for digests.
  struct RawAttribute {
    std::string type;
    std::vector<std::uint64_t> shape;
    std::string bytes;
  };
  RawAttribute raw_attribute(const std::string& name) const;

 protected:
  struct Core;
  explicit Object(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  std::shared_ptr<Core> core_;
  friend class File;
};

class Dataset : public Object {
 public:
  Type type() const;
  const Shape& shape() const;
  std::uint64_t count() const;        ///< elements
  std::size_t element_bytes() const;  ///< of one element; a text dataset's width
  std::uint64_t bytes() const { return count() * element_bytes(); }
  /// Offset of its bytes in the file, to map them; empty when it holds none.
  std::optional<std::uint64_t> file_offset() const;

  /// @throws ArtifactError naming expected and found.
  void require(Type type) const;
  void require(Type type, const Shape& shape) const;
  /// As above with any extent in the first dimension.
  void require_rank(Type type, std::size_t rank) const;

  /// Elements [first, first + count) in row-major order, with the bytes of the file. `out` holds count · element_bytes.
  void read_raw(void* out, std::uint64_t first, std::uint64_t count) const;
  void read_raw(void* out) const { read_raw(out, 0, count()); }

  /// All elements; the type must be T's.
  template <typename T>
  std::vector<T> read() const {
    require(type_of<T>());
    std::vector<T> values(count());
    read_raw(values.data());
    return values;
  }
  /// All texts of a list of them.
  std::vector<std::string> read_texts() const;

 private:
  explicit Dataset(std::shared_ptr<Core> core) : Object(std::move(core)) {}
  friend class Group;
};

class Group : public Object {
 public:
  /// "a/b" makes groups on the way. Names hold no NUL and are not ".".
  Group create_group(const std::string& name);
  /// Rejects links wherever a name is looked up: artifacts hold none, and a link may lead out of the file.
  /// @throws ArtifactError when the group is missing. Also when a part of its name is a soft or external link.
  Group open_group(const std::string& name) const;
  bool has(const std::string& name) const;  ///< @throws ArtifactError on a link
  bool is_group(const std::string& name) const;
  std::vector<std::string> names() const;  ///< members, sorted bytewise. @throws ArtifactError on a link

  /// Writes a dataset whole. `name` may hold slashes; groups on the way are made.
  Dataset write_raw(const std::string& name, Type type, const Shape& shape, const void* data);
  template <typename T>
  Dataset write(const std::string& name, std::span<const T> values, const Shape& shape) {
    return write_raw(name, type_of<T>(), shape, values.data());
  }
  template <typename T>
  Dataset write(const std::string& name, const std::vector<T>& values) {
    return write_raw(name, type_of<T>(), {values.size()}, values.data());
  }
  /// A scalar text of any length, such as JSON.
  Dataset write_text(const std::string& name, std::string_view value);
  /// A column of texts, padded with NUL to the longest.
  Dataset write_texts(const std::string& name, const std::vector<std::string>& values);

  /// @throws ArtifactError as `open_group`, and when it is of a type or layout that no artifact has.
  Dataset open_dataset(const std::string& name) const;
  template <typename T>
  std::vector<T> read(const std::string& name) const {
    return open_dataset(name).read<T>();
  }
  std::string read_text(const std::string& name) const;

 private:
  explicit Group(std::shared_ptr<Core> core) : Object(std::move(core)) {}
  friend class File;
};

struct CreateOptions {
  /// Datasets of at least `aligned_from` bytes start at a multiple of `alignment`, so that they can be mapped.
  std::uint64_t alignment = 64;
  std::uint64_t aligned_from = 512;
};

class File {
 public:
  /// A new file; one that exists is replaced. @throws IoError
  static File create(const std::filesystem::path& path, const CreateOptions& options = {});
  /// For reading. @throws ArtifactError when it is missing, truncated, or no HDF5.
  static File open(const std::filesystem::path& path);

  Group root() const;
  const std::filesystem::path& path() const;
  std::uint64_t size() const;  ///< bytes on disk when it was opened

  /// Starts to write finished data to the disk without waiting for it, so that a later sync has less to do.
  void start_writing_back();

  /// Writes buffered data, syncs when `durable`, and ends the file. @throws IoError, such as when the disk is full.
  /// Without it the destructor closes a file being written and keeps quiet about failures.
  void close(bool durable = true);

 private:
  explicit File(std::shared_ptr<FileState> state) : state_(std::move(state)) {}
  std::shared_ptr<FileState> state_;
};

/// True when the first bytes are HDF5's signature.
bool looks_like_hdf5(const std::filesystem::path& path);

}  // namespace pe::artifact::h5
