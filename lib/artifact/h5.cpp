#include "artifact/h5.h"

#include <fcntl.h>
#include <hdf5.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <mutex>

#include "artifact/misuse.h"
#include "support/error.h"
#include "support/files.h"
#include "support/text.h"

static_assert(std::is_same_v<hid_t, std::int64_t>, "h5.h keeps identifiers as int64");

namespace pe::artifact::h5 {

using support::ArtifactError;
using support::cat;
using support::IoError;
using support::quote;

namespace {

constexpr std::size_t kLongestAttribute = 60'000;  // an object header message holds less than 64 KiB
constexpr std::size_t kWidestText = 1ULL << 31;

/// The library keeps global state, and only some builds of it have a lock.
std::recursive_mutex& hdf5_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

class Hdf5Lock {
 public:
  Hdf5Lock() : guard_(hdf5_mutex()) {
    static const bool opened = [] {
      // This library closes its files. A file that a full disk kept from closing would be tried again at exit, and
      // crash there.
      H5dont_atexit();
      H5open();
      return true;
    }();
    (void)opened;
    // In builds with a lock each thread has a separate error stack, and would print it.
    static thread_local const bool silenced = [] {
      H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
      return true;
    }();
    (void)silenced;
  }

 private:
  std::lock_guard<std::recursive_mutex> guard_;
};

/// The reason of an HDF5 error, innermost cause first, in one line.
std::string hdf5_reason() {
  struct Frames {
    std::vector<std::string> texts;
  } frames;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned, const H5E_error2_t* error, void* out) -> herr_t {
        auto& texts = static_cast<Frames*>(out)->texts;
        if (error->desc && *error->desc && texts.size() < 2) texts.emplace_back(error->desc);
        return 0;
      },
      &frames);
  H5Eclear2(H5E_DEFAULT);
  // The message of the operating system is worth more than the frames around it, with their pointers and times.
  for (const std::string& text : frames.texts) {
    const std::string mark = "error message = '";
    const std::size_t at = text.find(mark);
    const std::size_t end = at == std::string::npos ? at : text.find('\'', at + mark.size());
    if (end != std::string::npos) return text.substr(at + mark.size(), end - at - mark.size());
  }
  std::string reason = support::join(frames.texts, "; ");
  return reason.empty() ? "HDF5 gives no reason" : reason;
}

class Id {
 public:
  using Close = herr_t (*)(hid_t);
  Id(hid_t id, Close close) : id_(id), close_(close) {}
  Id(Id&& other) noexcept : id_(other.id_), close_(other.close_) { other.id_ = -1; }
  Id(const Id&) = delete;
  ~Id() {
    if (id_ < 0) return;
    const Hdf5Lock lock;
    // A file that was closed takes its objects with it.
    if (H5Iis_valid(id_) > 0) close_(id_);
  }
  hid_t get() const { return id_; }
  bool ok() const { return id_ >= 0; }
  operator hid_t() const { return id_; }

 private:
  hid_t id_;
  Close close_;
};

hid_t file_type(Type type) {
  switch (type) {
    case Type::kU8:
      return H5T_STD_U8LE;
    case Type::kI8:
      return H5T_STD_I8LE;
    case Type::kU16:
      return H5T_STD_U16LE;
    case Type::kI16:
      return H5T_STD_I16LE;
    case Type::kU32:
      return H5T_STD_U32LE;
    case Type::kI32:
      return H5T_STD_I32LE;
    case Type::kU64:
      return H5T_STD_U64LE;
    case Type::kI64:
      return H5T_STD_I64LE;
    case Type::kF32:
      return H5T_IEEE_F32LE;
    case Type::kF64:
      return H5T_IEEE_F64LE;
    case Type::kText:
      break;
  }
  return -1;
}

constexpr Type kNumberTypes[] = {Type::kU8,  Type::kI8,  Type::kU16, Type::kI16, Type::kU32,
                                 Type::kI32, Type::kU64, Type::kI64, Type::kF32, Type::kF64};

Id text_type(std::size_t width) {
  Id type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type, std::max<std::size_t>(width, 1));
  H5Tset_cset(type, H5T_CSET_UTF8);
  H5Tset_strpad(type, H5T_STR_NULLPAD);
  return type;
}

/// The type of ours that a stored type is, and the bytes of an element; nothing when it is none of ours.
std::optional<std::pair<Type, std::size_t>> classify(hid_t stored) {
  const H5T_class_t kind = H5Tget_class(stored);
  if (kind == H5T_STRING) {
    if (H5Tis_variable_str(stored) != 0) return std::nullopt;
    const std::size_t width = H5Tget_size(stored);
    if (width == 0 || width > kWidestText) return std::nullopt;
    return std::pair{Type::kText, width};
  }
  if (kind != H5T_INTEGER && kind != H5T_FLOAT) return std::nullopt;
  const std::size_t bytes = H5Tget_size(stored);
  for (const Type type : kNumberTypes) {
    if (type_bytes(type) == bytes && H5Tequal(stored, file_type(type)) > 0) return std::pair{type, bytes};
  }
  return std::nullopt;
}

std::string describe_stored(hid_t stored) {
  const std::size_t bytes = H5Tget_size(stored);
  switch (H5Tget_class(stored)) {
    case H5T_STRING:
      return H5Tis_variable_str(stored) > 0 ? "text of variable length" : cat("text of ", bytes, " bytes");
    case H5T_INTEGER:
    case H5T_FLOAT:
      return cat(H5Tget_class(stored) == H5T_FLOAT ? "a real of " : "an integer of ", bytes, " bytes",
                 H5Tget_order(stored) == H5T_ORDER_BE ? ", big-endian" : "");
    case H5T_COMPOUND:
      return "a compound type";
    default:
      return "another HDF5 type";
  }
}

Shape shape_of(hid_t space) {
  const int rank = H5Sget_simple_extent_ndims(space);
  Shape shape(rank > 0 ? static_cast<std::size_t>(rank) : 0);
  std::vector<hsize_t> dims(shape.size());
  if (rank > 0) H5Sget_simple_extent_dims(space, dims.data(), nullptr);
  std::copy(dims.begin(), dims.end(), shape.begin());
  return shape;
}

/// Elements of a shape read from a file; nothing when the product does not fit 63 bits.
std::optional<std::uint64_t> checked_count(const Shape& shape) {
  std::uint64_t count = 1;
  for (const std::uint64_t extent : shape) {
    if (extent == 0) return 0;
    if (count > (std::numeric_limits<std::uint64_t>::max() >> 1) / extent) return std::nullopt;
    count *= extent;
  }
  return count;
}

Id make_space(const Shape& shape) {
  if (shape.empty()) return Id(H5Screate(H5S_SCALAR), H5Sclose);
  std::vector<hsize_t> dims(shape.begin(), shape.end());
  return Id(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr), H5Sclose);
}

void check_name(const std::string& name) {
  if (name.empty() || name.front() == '/' || name.back() == '/' || name.find("//") != std::string::npos ||
      name.find('\0') != std::string::npos) {
    throw ArtifactError(cat("no HDF5 object can be named ", quote(name)));
  }
}

}  // namespace

struct FileState {
  std::filesystem::path path;
  hid_t id = -1;
  bool writing = false;
  std::uint64_t size = 0;
  support::Descriptor bytes;  // of a file that is read: elements are read at their offset.
  // The first datasets that were read stay open, since an open one is opened again in a fraction of the time. A
  // published file is checked and then hashed.
  std::vector<hid_t> held;

  ~FileState() {
    if (id < 0) return;
    const Hdf5Lock lock;
    for (const hid_t dataset : held) {
      if (H5Iis_valid(dataset) > 0) H5Idec_ref(dataset);
    }
    H5Fclose(id);
    H5Eclear2(H5E_DEFAULT);
  }
};

struct Object::Core {
  Core(std::shared_ptr<FileState> state, Id handle, std::string at)
      : file(std::move(state)), id(std::move(handle)), path(std::move(at)) {}
  std::shared_ptr<FileState> file;  // before the id: the object goes first
  Id id;
  std::string path;
  // Of datasets.
  Type type = Type::kU8;
  std::size_t element_bytes = 1;
  Shape shape;
  std::uint64_t count = 0;
  std::optional<std::uint64_t> offset;

  std::string where() const { return cat(quote(file->path.string()), ": ", path); }
  std::string child(const std::string& name) const { return path == "/" ? "/" + name : path + "/" + name; }

  [[noreturn]] void fail(const std::string& what) const { fail(what, hdf5_reason()); }
  /// For callers that had to ask for the reason earlier: every further HDF5 call, closing included, forgets it.
  [[noreturn]] void fail(const std::string& what, const std::string& reason) const {
    if (file->writing) throw IoError(cat(where(), ": ", what, " failed: ", reason));
    throw ArtifactError(cat(where(), ": ", what, " failed: ", reason), "the file is corrupt");
  }
};

std::string_view type_name(Type type) {
  switch (type) {
    case Type::kU8:
      return "uint8";
    case Type::kI8:
      return "int8";
    case Type::kU16:
      return "uint16";
    case Type::kI16:
      return "int16";
    case Type::kU32:
      return "uint32";
    case Type::kI32:
      return "int32";
    case Type::kU64:
      return "uint64";
    case Type::kI64:
      return "int64";
    case Type::kF32:
      return "float32";
    case Type::kF64:
      return "float64";
    case Type::kText:
      return "text";
  }
  return "?";
}

std::size_t type_bytes(Type type) {
  switch (type) {
    case Type::kU8:
    case Type::kI8:
      return 1;
    case Type::kU16:
    case Type::kI16:
      return 2;
    case Type::kU32:
    case Type::kI32:
    case Type::kF32:
      return 4;
    case Type::kU64:
    case Type::kI64:
    case Type::kF64:
      return 8;
    case Type::kText:
      return 0;
  }
  return 0;
}

std::uint64_t element_count(const Shape& shape) {
  std::uint64_t count = 1;
  for (const std::uint64_t extent : shape) count *= extent;
  return count;
}

// ---- objects and attributes

const std::string& Object::path() const { return core_->path; }
const std::filesystem::path& Object::file() const { return core_->file->path; }
std::string Object::where() const { return core_->where(); }

bool Object::has_attribute(const std::string& name) const {
  const Hdf5Lock lock;
  const htri_t found = H5Aexists(core_->id, name.c_str());
  if (found < 0) core_->fail(cat("looking for attribute ", quote(name)));
  return found > 0;
}

std::vector<std::string> Object::attribute_names() const {
  const Hdf5Lock lock;
  std::vector<std::string> names;
  hsize_t at = 0;
  const herr_t status = H5Aiterate2(
      core_->id, H5_INDEX_NAME, H5_ITER_NATIVE, &at,
      [](hid_t, const char* name, const H5A_info_t*, void* out) -> herr_t {
        static_cast<std::vector<std::string>*>(out)->emplace_back(name);
        return 0;
      },
      &names);
  if (status < 0) core_->fail("listing attributes");
  std::sort(names.begin(), names.end());
  return names;
}

namespace {

/// Returns why it failed, or nothing.
std::string write_attribute(hid_t object, const std::string& name, hid_t type, const void* value) {
  const Id space(H5Screate(H5S_SCALAR), H5Sclose);
  const Id attribute(H5Acreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  if (!attribute.ok() || H5Awrite(attribute, type, value) < 0) return hdf5_reason();
  return {};
}

}  // namespace

void Object::set_integer(const std::string& name, std::int64_t value) {
  const Hdf5Lock lock;
  const std::string reason = write_attribute(core_->id, name, H5T_STD_I64LE, &value);
  if (!reason.empty()) core_->fail(cat("writing attribute ", quote(name)), reason);
}

void Object::set_real(const std::string& name, double value) {
  const Hdf5Lock lock;
  const std::string reason = write_attribute(core_->id, name, H5T_IEEE_F64LE, &value);
  if (!reason.empty()) core_->fail(cat("writing attribute ", quote(name)), reason);
}

void Object::set_text(const std::string& name, std::string_view value) {
  const Hdf5Lock lock;
  if (value.size() > kLongestAttribute) {
    throw IoError(
        cat(where(), ": attribute ", quote(name), " has ", value.size(), " bytes, more than an attribute holds"));
  }
  std::string padded(value);
  if (padded.empty()) padded.push_back('\0');
  const std::string reason = write_attribute(core_->id, name, text_type(padded.size()), padded.data());
  if (!reason.empty()) core_->fail(cat("writing attribute ", quote(name)), reason);
}

Object::RawAttribute Object::raw_attribute(const std::string& name) const {
  const Hdf5Lock lock;
  const Id attribute(H5Aopen(core_->id, name.c_str(), H5P_DEFAULT), H5Aclose);
  if (!attribute.ok()) {
    const std::string reason = hdf5_reason();
    if (!has_attribute(name)) throw ArtifactError(cat(where(), ": attribute ", quote(name), " is missing"));
    core_->fail(cat("opening attribute ", quote(name)), reason);
  }
  const Id type(H5Aget_type(attribute), H5Tclose);
  const Id space(H5Aget_space(attribute), H5Sclose);
  const auto known = classify(type);
  if (!known) {
    throw ArtifactError(cat(where(), ": attribute ", quote(name), " is ", describe_stored(type),
                            "; expected an integer, a real or text of ours"));
  }
  if (H5Sget_simple_extent_type(space) == H5S_NULL)
    throw ArtifactError(cat(where(), ": attribute ", quote(name), " has no value"));
  RawAttribute raw;
  raw.shape = shape_of(space);
  const auto count = checked_count(raw.shape);
  if (!count || *count > (1U << 20) || known->second > (1U << 20) || *count * known->second > (1U << 20)) {
    throw ArtifactError(
        cat(where(), ": attribute ", quote(name), " claims shape ", support::bracketed(raw.shape), ", too large"));
  }
  raw.type = known->first == Type::kText ? cat("text", known->second) : std::string(type_name(known->first));
  raw.bytes.resize(static_cast<std::size_t>(*count) * known->second);
  if (*count > 0 && H5Aread(attribute, type, raw.bytes.data()) < 0) core_->fail(cat("reading attribute ", quote(name)));
  return raw;
}

namespace {

[[noreturn]] void wrong_attribute(const std::string& where, const std::string& name, std::string_view expected,
                                  const Object::RawAttribute& found) {
  throw ArtifactError(cat(where, ": attribute ", quote(name), ": expected ", expected, ", found ", found.type,
                          found.shape.empty() ? "" : " " + support::bracketed(found.shape)));
}

}  // namespace

std::int64_t Object::integer(const std::string& name) const {
  const RawAttribute raw = raw_attribute(name);
  if (raw.type != "int64" || !raw.shape.empty()) wrong_attribute(where(), name, "int64", raw);
  std::int64_t value = 0;
  std::memcpy(&value, raw.bytes.data(), sizeof value);
  return value;
}

double Object::real(const std::string& name) const {
  const RawAttribute raw = raw_attribute(name);
  if (raw.type != "float64" || !raw.shape.empty()) wrong_attribute(where(), name, "float64", raw);
  double value = 0;
  std::memcpy(&value, raw.bytes.data(), sizeof value);
  return value;
}

std::string Object::text(const std::string& name) const {
  RawAttribute raw = raw_attribute(name);
  if (!raw.type.starts_with("text") || !raw.shape.empty()) wrong_attribute(where(), name, "text", raw);
  while (!raw.bytes.empty() && raw.bytes.back() == '\0') raw.bytes.pop_back();
  return raw.bytes;
}

// ---- datasets

Type Dataset::type() const { return core_->type; }
const Shape& Dataset::shape() const { return core_->shape; }
std::uint64_t Dataset::count() const { return core_->count; }
std::size_t Dataset::element_bytes() const { return core_->element_bytes; }
std::optional<std::uint64_t> Dataset::file_offset() const { return core_->offset; }

void Dataset::require(Type type) const {
  if (type != core_->type) {
    throw ArtifactError(cat(where(), ": expected ", type_name(type), ", found ", type_name(core_->type), " ",
                            support::bracketed(core_->shape)));
  }
}

void Dataset::require(Type type, const Shape& shape) const {
  if (type != core_->type || shape != core_->shape) {
    throw ArtifactError(cat(where(), ": expected ", type_name(type), " ", support::bracketed(shape), ", found ",
                            type_name(core_->type), " ", support::bracketed(core_->shape)));
  }
}

void Dataset::require_rank(Type type, std::size_t rank) const {
  if (type != core_->type || rank != core_->shape.size()) {
    throw ArtifactError(cat(where(), ": expected ", type_name(type), " of rank ", rank, ", found ",
                            type_name(core_->type), " ", support::bracketed(core_->shape)));
  }
}

void Dataset::read_raw(void* out, std::uint64_t first, std::uint64_t count) const {
  if (count == 0) return;
  if (first > core_->count || count > core_->count - first) {
    throw ArtifactError(
        cat(where(), ": elements ", first, " to ", first + count, " were asked for, it has ", core_->count));
  }
  if (core_->file->writing) bug(cat(where(), ": is read while it is written"));
  // Datasets are contiguous, so elements are a range of bytes, whatever the rank.
  const support::Descriptor& fd = core_->file->bytes;
  auto* to = static_cast<char*>(out);
  std::uint64_t left = count * core_->element_bytes;
  std::uint64_t at = *core_->offset + first * core_->element_bytes;
  while (left > 0) {
    const ssize_t got = ::pread(fd.get(), to, std::min<std::uint64_t>(left, 1U << 30), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) support::throw_errno("read", core_->file->path.string());
    if (got == 0) throw ArtifactError(cat(where(), ": the file ends at byte ", at), "the file is corrupt");
    to += got;
    at += static_cast<std::uint64_t>(got);
    left -= static_cast<std::uint64_t>(got);
  }
}

std::vector<std::string> Dataset::read_texts() const {
  require_rank(Type::kText, 1);
  const std::size_t width = element_bytes();
  std::string padded(width * count(), '\0');
  read_raw(padded.data());
  std::vector<std::string> values;
  values.reserve(count());
  for (std::size_t i = 0; i < count(); ++i) {
    std::size_t length = width;
    while (length > 0 && padded[i * width + length - 1] == '\0') --length;
    values.emplace_back(padded, i * width, length);
  }
  return values;
}

// ---- groups

namespace {

[[noreturn]] void refuse_link(const std::string& where, const std::string& name) {
  throw ArtifactError(cat(where, ": ", quote(name), " is a link; artifacts hold none"));
}

}  // namespace

bool Group::has(const std::string& name) const {
  const Hdf5Lock lock;
  check_name(name);
  std::string at;
  for (const std::string& part : support::split(name, '/')) {
    at += at.empty() ? part : "/" + part;
    H5L_info_t info{};
    if (H5Lexists(core_->id, at.c_str(), H5P_DEFAULT) <= 0 ||
        H5Lget_info(core_->id, at.c_str(), &info, H5P_DEFAULT) < 0) {
      H5Eclear2(H5E_DEFAULT);
      return false;
    }
    // Asked for part by part: HDF5 would follow it, out of the file and into whatever it names.
    if (info.type != H5L_TYPE_HARD) refuse_link(where(), at);
  }
  return true;
}

bool Group::is_group(const std::string& name) const {
  const Hdf5Lock lock;
  if (!has(name)) throw ArtifactError(cat(quote(file().string()), ": ", core_->child(name), " is missing"));
  const Id object(H5Oopen(core_->id, name.c_str(), H5P_DEFAULT), H5Oclose);
  if (!object.ok()) core_->fail(cat("opening ", quote(name)));
  return H5Iget_type(object) == H5I_GROUP;
}

std::vector<std::string> Group::names() const {
  const Hdf5Lock lock;
  struct Walk {
    std::vector<std::string> names;
    std::string foreign;
  } walk;
  const herr_t status = H5Literate(
      core_->id, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr,
      [](hid_t, const char* name, const H5L_info_t* info, void* out) -> herr_t {
        auto& to = *static_cast<Walk*>(out);
        if (info->type != H5L_TYPE_HARD) to.foreign = name;
        to.names.emplace_back(name);
        return 0;
      },
      &walk);
  if (status < 0) core_->fail("listing");
  if (!walk.foreign.empty()) refuse_link(where(), walk.foreign);
  std::sort(walk.names.begin(), walk.names.end());
  return walk.names;
}

Group Group::create_group(const std::string& name) {
  const Hdf5Lock lock;
  check_name(name);
  Group at = *this;
  for (const std::string& part : support::split(name, '/')) {
    if (at.has(part)) {
      at = at.open_group(part);
      continue;
    }
    const Id creation(H5Pcreate(H5P_GROUP_CREATE), H5Pclose);
    H5Pset_obj_track_times(creation, false);
    Id id(H5Gcreate2(at.core_->id, part.c_str(), H5P_DEFAULT, creation, H5P_DEFAULT), H5Gclose);
    if (!id.ok()) core_->fail(cat("creating group ", quote(name)));
    at = Group(std::make_shared<Core>(core_->file, std::move(id), at.core_->child(part)));
  }
  return at;
}

Group Group::open_group(const std::string& name) const {
  const Hdf5Lock lock;
  if (!has(name)) throw ArtifactError(cat(quote(file().string()), ": group ", core_->child(name), " is missing"));
  Id id(H5Gopen2(core_->id, name.c_str(), H5P_DEFAULT), H5Gclose);
  if (!id.ok()) core_->fail(cat("opening group ", quote(name)));
  return Group(std::make_shared<Core>(core_->file, std::move(id), core_->child(name)));
}

namespace {

/// Writes one dataset under `parent`; returns its identifier, or -1 and why.
hid_t write_dataset(hid_t parent, const std::string& name, hid_t type, const Shape& shape, const void* data,
                    std::string& reason) {
  const Id creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation, false);
  H5Pset_layout(creation, H5D_CONTIGUOUS);
  H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER);
  const Id space = make_space(shape);
  Id id(H5Dcreate2(parent, name.c_str(), type, space, H5P_DEFAULT, creation, H5P_DEFAULT), H5Dclose);
  if (!id.ok() || (element_count(shape) > 0 && H5Dwrite(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0)) {
    reason = hdf5_reason();
    return -1;
  }
  H5Iinc_ref(id);  // the caller takes it over
  return id.get();
}

std::pair<std::string, std::string> split_parent(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  if (slash == std::string::npos) return {"", name};
  return {name.substr(0, slash), name.substr(slash + 1)};
}

}  // namespace

Dataset Group::write_raw(const std::string& name, Type type, const Shape& shape, const void* data) {
  const Hdf5Lock lock;
  check_name(name);
  const auto [folder, leaf] = split_parent(name);
  Group parent = folder.empty() ? *this : create_group(folder);
  std::string reason;
  const hid_t raw = write_dataset(parent.core_->id, leaf, file_type(type), shape, data, reason);
  if (raw < 0) core_->fail(cat("writing dataset ", quote(name)), reason);
  auto core = std::make_shared<Core>(core_->file, Id(raw, H5Dclose), core_->child(name));
  core->type = type;
  core->element_bytes = type_bytes(type);
  core->shape = shape;
  core->count = element_count(shape);
  return Dataset(core);
}

Dataset Group::write_text(const std::string& name, std::string_view value) {
  const Hdf5Lock lock;
  check_name(name);
  const auto [folder, leaf] = split_parent(name);
  Group parent = folder.empty() ? *this : create_group(folder);
  const std::string padded = value.empty() ? std::string(1, '\0') : std::string(value);
  const Id type = text_type(padded.size());
  std::string reason;
  const hid_t raw = write_dataset(parent.core_->id, leaf, type, {}, padded.data(), reason);
  if (raw < 0) core_->fail(cat("writing dataset ", quote(name)), reason);
  auto core = std::make_shared<Core>(core_->file, Id(raw, H5Dclose), core_->child(name));
  core->type = Type::kText;
  core->element_bytes = padded.size();
  core->count = 1;
  return Dataset(core);
}

Dataset Group::write_texts(const std::string& name, const std::vector<std::string>& values) {
  const Hdf5Lock lock;
  check_name(name);
  const auto [folder, leaf] = split_parent(name);
  Group parent = folder.empty() ? *this : create_group(folder);
  std::size_t width = 1;
  for (const std::string& value : values) width = std::max(width, value.size());
  std::string padded(width * values.size(), '\0');
  for (std::size_t i = 0; i < values.size(); ++i)
    std::copy(values[i].begin(), values[i].end(), padded.begin() + i * width);
  const Id type = text_type(width);
  std::string reason;
  const hid_t raw = write_dataset(parent.core_->id, leaf, type, {values.size()}, padded.data(), reason);
  if (raw < 0) core_->fail(cat("writing dataset ", quote(name)), reason);
  auto core = std::make_shared<Core>(core_->file, Id(raw, H5Dclose), core_->child(name));
  core->type = Type::kText;
  core->element_bytes = width;
  core->shape = {values.size()};
  core->count = values.size();
  return Dataset(core);
}

Dataset Group::open_dataset(const std::string& name) const {
  const Hdf5Lock lock;
  if (!has(name)) throw ArtifactError(cat(quote(file().string()), ": dataset ", core_->child(name), " is missing"));
  Id id(H5Dopen2(core_->id, name.c_str(), H5P_DEFAULT), H5Dclose);
  if (!id.ok()) core_->fail(cat("opening dataset ", quote(name)));
  auto core = std::make_shared<Core>(core_->file, std::move(id), core_->child(name));
  const Id type(H5Dget_type(core->id), H5Tclose);
  const Id space(H5Dget_space(core->id), H5Sclose);
  if (!type.ok() || !space.ok()) core->fail("reading its description");
  const auto known = classify(type);
  if (!known)
    throw ArtifactError(cat(core->where(), ": holds ", describe_stored(type), ", which no artifact of ours does"));
  core->type = known->first;
  core->element_bytes = known->second;
  core->shape = shape_of(space);
  const auto count = H5Sget_simple_extent_type(space) == H5S_NULL ? std::nullopt : checked_count(core->shape);
  if (!count)
    throw ArtifactError(cat(core->where(), ": claims shape ", support::bracketed(core->shape)), "the file is corrupt");
  core->count = *count;
  if (core->count == 0) return Dataset(core);

  const haddr_t offset = H5Dget_offset(core->id);  // only contiguous storage within the file has one
  if (offset == HADDR_UNDEF) {
    const Id creation(H5Dget_create_plist(core->id), H5Pclose);
    if (creation.ok() && (H5Pget_layout(creation) != H5D_CONTIGUOUS || H5Pget_external_count(creation) != 0)) {
      throw ArtifactError(cat(core->where(), ": expected contiguous storage, found chunked, compact or external"));
    }
  }
  const std::uint64_t room = core->file->size;
  if (offset == HADDR_UNDEF || offset > room || core->count > (room - offset) / core->element_bytes) {
    throw ArtifactError(cat(core->where(), ": claims ", type_name(core->type), " ", support::bracketed(core->shape),
                            ", more than the file of ", room, " bytes holds"),
                        "the file is corrupt or was cut short");
  }
  core->offset = offset;
  constexpr std::size_t kHeld = 64;
  if (!core->file->writing && core->file->held.size() < kHeld && H5Iinc_ref(core->id) > 0)
    core->file->held.push_back(core->id);
  return Dataset(core);
}

std::string Group::read_text(const std::string& name) const {
  const Dataset dataset = open_dataset(name);
  dataset.require_rank(Type::kText, 0);
  std::string value(dataset.element_bytes(), '\0');
  dataset.read_raw(value.data());
  while (!value.empty() && value.back() == '\0') value.pop_back();
  return value;
}

// ---- files

File File::create(const std::filesystem::path& path, const CreateOptions& options) {
  const Hdf5Lock lock;
  const Id access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  const Id creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V110);
  H5Pset_alignment(access, options.aligned_from, options.alignment);
  H5Pset_fclose_degree(access, H5F_CLOSE_STRONG);
  H5Pset_file_locking(access, false, true);  // network file systems; only this process writes a temporary name
  H5Pset_obj_track_times(creation, false);
  auto state = std::make_shared<FileState>();
  state->path = path;
  state->writing = true;
  errno = 0;
  state->id = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation, access);
  if (state->id < 0) {
    const int code = errno;
    const std::string reason = hdf5_reason();
    errno = code;
    if (code != 0)
      support::throw_errno("create", path.string(), true);  // a full disk is told from a name that cannot be
    throw IoError(cat("cannot create ", quote(path.string()), ": ", reason), true);
  }
  return File(state);
}

File File::open(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) support::throw_errno("look at", path.string());
    throw ArtifactError(cat(quote(path.string()), ": there is no such file"));
  }
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (!S_ISREG(status.st_mode)) {
    throw ArtifactError(
        cat(quote(path.string()), ": expected an HDF5 file, found something that is not a regular file"));
  }
  if (!looks_like_hdf5(path)) {
    throw ArtifactError(cat(quote(path.string()), ": expected an HDF5 file, found ",
                            size == 0 ? "an empty file" : cat("a file of ", size, " bytes without its signature")));
  }
  const Hdf5Lock lock;
  const Id access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_fclose_degree(access, H5F_CLOSE_STRONG);
  H5Pset_file_locking(access, false, true);
  auto state = std::make_shared<FileState>();
  state->path = path;
  state->size = size;
  state->bytes = support::open_regular(path);
  state->id = H5Fopen(path.c_str(), H5F_ACC_RDONLY, access);
  if (state->id < 0) {
    throw ArtifactError(cat(quote(path.string()), ": cannot be opened as HDF5: ", hdf5_reason()),
                        "the file is corrupt or was cut short");
  }
  return File(state);
}

Group File::root() const {
  const Hdf5Lock lock;
  Id id(H5Gopen2(state_->id, "/", H5P_DEFAULT), H5Gclose);
  if (!id.ok())
    throw ArtifactError(cat(quote(state_->path.string()), ": the root group cannot be opened: ", hdf5_reason()));
  return Group(std::make_shared<Object::Core>(state_, std::move(id), "/"));
}

const std::filesystem::path& File::path() const { return state_->path; }
std::uint64_t File::size() const { return state_->size; }

void File::start_writing_back() {
  const Hdf5Lock lock;
  void* handle = nullptr;
  if (H5Fget_vfd_handle(state_->id, H5P_DEFAULT, &handle) < 0 || handle == nullptr) return;
  ::sync_file_range(*static_cast<const int*>(handle), 0, 0,
                    SYNC_FILE_RANGE_WRITE);  // advice: a failure shows in the sync
}

void File::close(bool durable) {
  const Hdf5Lock lock;
  if (state_->id < 0) return;
  errno = 0;
  const herr_t status = H5Fclose(state_->id);
  const int code = errno;
  state_->id = -1;
  if (status < 0) {
    const std::string reason = hdf5_reason();
    throw IoError(
        cat(quote(state_->path.string()), ": ending the file failed: ", code ? std::strerror(code) : reason.c_str()));
  }
  if (state_->writing && durable) support::sync_path(state_->path);
}

bool looks_like_hdf5(const std::filesystem::path& path) {
  const support::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  char head[8] = {};
  return file && ::read(file.get(), head, sizeof head) == sizeof head &&
         std::memcmp(head, "\x89HDF\r\n\x1a\n", sizeof head) == 0;
}

}  // namespace pe::artifact::h5
