#include "artifact/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <future>
#include <numeric>
#include <set>
#include <thread>

#include "artifact/header.h"
#include "artifact/misuse.h"
#include "support/error.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/parse_json.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::artifact {

using support::ArtifactError;
using support::cat;
using support::quote;

namespace {

constexpr int kCheckpointFormat = 1;
constexpr h5::CreateOptions kLayout{.alignment = 64, .aligned_from = 64};

h5::Type stored_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return h5::Type::kF32;
    case Dtype::kF64:
      return h5::Type::kF64;
    case Dtype::kBF16:
    case Dtype::kF16:
      return h5::Type::kU16;
    case Dtype::kI64:
      return h5::Type::kI64;
    case Dtype::kI32:
      return h5::Type::kI32;
    case Dtype::kU8:
      return h5::Type::kU8;
  }
  return h5::Type::kU8;
}

std::string describe(const TensorInfo& info) {
  h5::Shape shape(info.shape.begin(), info.shape.end());
  return cat(dtype_name(info.dtype), " ", support::bracketed(shape));
}

Json read_json(const h5::Group& group, const std::string& name) {
  const std::string text = group.read_text(name);
  const Json json = support::parse_json(text);
  if (json.is_discarded())
    throw ArtifactError(cat(group.where(), "/", name, ": the text ", support::json_problem(text)));
  return json;
}

/// Every dataset below `group`, except the header and the metadata.
void list_tensors(const h5::Group& group, const std::string& prefix, int depth, std::vector<TensorInfo>& out,
                  std::uint64_t& groups) {
  constexpr std::uint64_t kMostGroups = 1'000'000;  // a group may be linked many times
  if (depth > 32 || ++groups > kMostGroups)
    throw ArtifactError(cat(group.where(), ": groups are nested too deeply, or there are too many"));
  for (const std::string& name : group.names()) {
    if (prefix.empty() && (name == "pe" || name == "meta")) continue;
    const std::string path = prefix + name;
    if (group.is_group(name)) {
      list_tensors(group.open_group(name), path + "/", depth + 1, out, groups);
      continue;
    }
    const h5::Dataset dataset = group.open_dataset(name);
    const std::string word = dataset.text("dtype");
    const std::optional<Dtype> dtype = find_dtype(word);
    if (!dtype) throw ArtifactError(cat(dataset.where(), ": unknown dtype ", quote(word)));
    dataset.require(stored_type(*dtype));
    dataset.integer("crc32c");  // a file without it would be found damaged by its reader
    TensorInfo info{path, *dtype, {}};
    for (const std::uint64_t extent : dataset.shape()) info.shape.push_back(static_cast<std::int64_t>(extent));
    out.push_back(std::move(info));
  }
}

/// The bytes of one tensor in the file. HDF5 does one thing at a time; these are read past it.
struct Stretch {
  std::string where;
  std::uint64_t offset = 0, bytes = 0;
  std::int64_t crc = 0;
  std::byte* to = nullptr;  ///< null: only checked
};

Stretch stretch_of(const h5::Dataset& dataset, std::byte* to) {
  const std::optional<std::uint64_t> offset = dataset.file_offset();
  if (!offset && dataset.bytes() > 0)
    throw ArtifactError(cat(dataset.where(), ": was never written"), "the file is corrupt");
  return {dataset.where(), offset.value_or(0), dataset.bytes(), dataset.integer("crc32c"), to};
}

/// Block by block, so that the sum reads what the cache still holds.
void read_stretch(int fd, const std::filesystem::path& path, const Stretch& stretch, std::vector<std::byte>& scratch) {
  std::uint32_t crc = 0;
  for (std::uint64_t done = 0; done < stretch.bytes;) {
    const std::uint64_t size = std::min<std::uint64_t>(scratch.size(), stretch.bytes - done);
    std::byte* to = stretch.to == nullptr ? scratch.data() : stretch.to + done;
    for (std::uint64_t got = 0; got < size;) {
      const ssize_t count = ::pread(fd, to + got, size - got, static_cast<off_t>(stretch.offset + done + got));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) support::throw_errno("read", path.string());
      if (count == 0) {
        throw ArtifactError(cat(stretch.where, ": the file ends at byte ", stretch.offset + done + got),
                            "the file is corrupt");
      }
      got += static_cast<std::uint64_t>(count);
    }
    crc = support::crc32c(to, size, crc);
    done += size;
  }
  if (stretch.crc != static_cast<std::int64_t>(crc)) {
    throw ArtifactError(cat(stretch.where, ": expected CRC-32C ", stretch.crc, ", found ", crc), "the file is corrupt");
  }
}

void read_stretches(const std::filesystem::path& path, const std::vector<Stretch>& stretches, int threads) {
  std::vector<support::Descriptor> files;  // one per thread, since the system keeps its read-ahead window per open file
  for (int i = 0; i < std::max(1, threads); ++i) {
    files.push_back(support::open_regular(path));
  }
  std::vector<std::size_t> order(stretches.size());  // the largest first, so that threads end together
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return stretches[a].bytes > stretches[b].bytes; });
  std::vector<std::exception_ptr> problems(stretches.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&](const support::Descriptor& fd) {
    std::vector<std::byte> scratch(std::size_t{256} << 10);
    for (std::size_t i = next++; i < order.size(); i = next++) {
      try {
        read_stretch(fd.get(), path, stretches[order[i]], scratch);
      } catch (...) {
        problems[order[i]] = std::current_exception();
      }
    }
  };
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < files.size(); ++i) others.emplace_back([&, i] { work(files[i]); });
  work(files[0]);
  others.clear();  // joins
  for (const std::exception_ptr& problem : problems) {
    if (problem) std::rethrow_exception(problem);
  }
}

}  // namespace

std::string_view dtype_name(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return "f32";
    case Dtype::kF64:
      return "f64";
    case Dtype::kBF16:
      return "bf16";
    case Dtype::kF16:
      return "f16";
    case Dtype::kI64:
      return "i64";
    case Dtype::kI32:
      return "i32";
    case Dtype::kU8:
      return "u8";
  }
  return "?";
}

std::optional<Dtype> find_dtype(std::string_view name) {
  for (const Dtype dtype :
       {Dtype::kF32, Dtype::kF64, Dtype::kBF16, Dtype::kF16, Dtype::kI64, Dtype::kI32, Dtype::kU8}) {
    if (dtype_name(dtype) == name) return dtype;
  }
  return std::nullopt;
}

std::size_t dtype_bytes(Dtype dtype) { return h5::type_bytes(stored_type(dtype)); }

std::uint64_t TensorInfo::bytes() const {
  std::uint64_t count = dtype_bytes(dtype);
  for (const std::int64_t extent : shape) count *= static_cast<std::uint64_t>(extent);
  return count;
}

struct CheckpointWriter::State {
  std::filesystem::path path, temporary;
  std::optional<h5::File> file;
  std::set<std::string> names;
};

CheckpointWriter::CheckpointWriter(std::filesystem::path path, const Recipe& recipe, const CheckpointMeta& meta)
    : state_(std::make_unique<State>()) {
  state_->path = std::move(path);
  state_->temporary = support::unique_sibling(state_->path);
  state_->file = h5::File::create(state_->temporary, kLayout);
  try {
    write_header(*state_->file, Kind::kCheckpoint, kCheckpointFormat, recipe);
    h5::Group group = state_->file->root().create_group("meta");
    group.set_text("status", meta.status == TrainingStatus::kOk ? "ok" : "diverged");
    group.set_integer("step", meta.step);
    group.set_integer("tokens_seen", meta.tokens_seen);
    group.set_integer("next_sample", meta.next_sample);
    group.set_text("tokenizer_digest", meta.tokenizer_digest);
    group.set_text("data_digest", meta.data_digest);
    if (!meta.split_rule.empty()) group.set_text("split_rule", meta.split_rule);
    if (!meta.trained_on.empty()) group.write("trained_on", meta.trained_on.hashes());
    group.write_text("parents", Json(meta.parents).dump());
    group.write_text("model", meta.model.dump());
    group.write_text("encoding", meta.encoding.dump());
    group.write_text("optimizer", meta.optimizer.dump());
    group.write_text("data", meta.data.dump());
    group.write_text("extra", meta.extra.dump());
    group.write_text("fingerprint", meta.fingerprint.dump());
  } catch (...) {
    state_->file.reset();
    std::error_code ignored;
    std::filesystem::remove(state_->temporary, ignored);
    throw;
  }
}

CheckpointWriter::~CheckpointWriter() {
  if (!state_->file) return;
  state_->file.reset();
  std::error_code ignored;
  std::filesystem::remove(state_->temporary, ignored);
}

void CheckpointWriter::add(const TensorInfo& info, std::span<const std::byte> data) {
  if (info.name.starts_with("pe/") || info.name.starts_with("meta/") || info.name == "pe" || info.name == "meta") {
    bug(cat("a tensor cannot be named ", quote(info.name)));
  }
  if (!state_->names.insert(info.name).second) bug(cat("tensor ", quote(info.name), " was written twice"));
  if (data.size() != info.bytes()) {
    bug(cat("tensor ", quote(info.name), ": ", describe(info), " needs ", info.bytes(), " bytes, was given ",
            data.size()));
  }
  const h5::Shape shape(info.shape.begin(), info.shape.end());
  // Sums take a third of the time of writing, so a thread sums large ones meanwhile; and the disk begins before the
  // file ends.
  constexpr std::size_t kLarge = 1 << 20;
  std::future<std::uint32_t> sum = std::async(data.size() < kLarge ? std::launch::deferred : std::launch::async,
                                              [data] { return support::crc32c(data.data(), data.size()); });
  h5::Dataset dataset = state_->file->root().write_raw(info.name, stored_type(info.dtype), shape, data.data());
  dataset.set_text("dtype", dtype_name(info.dtype));
  dataset.set_integer("crc32c", sum.get());
  if (data.size() >= kLarge) state_->file->start_writing_back();
}

void CheckpointWriter::finish(bool durable) {
  state_->file->close(durable);
  support::rename_durably(state_->temporary, state_->path, durable);
  state_->file.reset();
}

struct CheckpointReader::State {
  explicit State(const std::filesystem::path& path) : file(h5::File::open(path)), root(file.root()) {}
  h5::File file;
  h5::Group root;
  CheckpointMeta meta;
  std::vector<TensorInfo> tensors;
  std::set<std::string, std::less<>> checked;  ///< names of tensors whose CRC was found right

  const TensorInfo& at(std::string_view name, const CheckpointReader& reader) const {
    if (const TensorInfo* info = reader.find(name)) return *info;
    std::vector<std::string> names;
    for (const TensorInfo& tensor : tensors) names.push_back(tensor.name);
    throw ArtifactError(cat(quote(file.path().string()), ": tensor ", quote(name), " is missing"),
                        support::suggestion(name, names));
  }
};

CheckpointReader::CheckpointReader(const std::filesystem::path& path) : state_(std::make_unique<State>(path)) {
  require_kind(state_->file, Kind::kCheckpoint, kCheckpointFormat);
  const h5::Group group = state_->root.open_group("meta");
  CheckpointMeta& meta = state_->meta;
  const std::string status = group.text("status");
  if (status != "ok" && status != "diverged") {
    throw ArtifactError(cat(group.where(), ": expected status ok or diverged, found ", quote(status)));
  }
  meta.status = status == "ok" ? TrainingStatus::kOk : TrainingStatus::kDiverged;
  meta.step = group.integer("step");
  meta.tokens_seen = group.integer("tokens_seen");
  meta.next_sample = group.integer("next_sample");
  if (meta.step < 0 || meta.tokens_seen < 0 || meta.next_sample < 0) {
    throw ArtifactError(cat(group.where(), ": step, tokens_seen or next_sample is negative"));
  }
  meta.tokenizer_digest = group.text("tokenizer_digest");
  meta.data_digest = group.text("data_digest");
  if (group.has_attribute("split_rule")) meta.split_rule = group.text("split_rule");
  if (group.has("trained_on")) {
    const h5::Dataset hashes = group.open_dataset("trained_on");
    hashes.require_rank(h5::Type::kU64, 1);
    meta.trained_on = DocumentSample::from_hashes(hashes.read<std::uint64_t>(), hashes.where());
    if (meta.trained_on.empty()) {
      throw ArtifactError(cat(hashes.where(), ": is empty; expected hashes of documents"), "the file is corrupt");
    }
  }
  const Json parents = read_json(group, "parents");
  for (const Json& parent : parents) {
    if (!parent.is_string()) throw ArtifactError(cat(group.where(), "/parents: expected a list of digests"));
    meta.parents.push_back(parent.get<std::string>());
  }
  meta.model = read_json(group, "model");
  meta.encoding = read_json(group, "encoding");
  meta.optimizer = read_json(group, "optimizer");
  meta.data = read_json(group, "data");
  meta.extra = read_json(group, "extra");
  meta.fingerprint = read_json(group, "fingerprint");
  std::uint64_t groups = 0;
  list_tensors(state_->root, "", 0, state_->tensors, groups);
  std::sort(state_->tensors.begin(), state_->tensors.end(),
            [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
}

CheckpointReader::~CheckpointReader() = default;
CheckpointReader::CheckpointReader(CheckpointReader&&) noexcept = default;

const std::filesystem::path& CheckpointReader::path() const { return state_->file.path(); }
const CheckpointMeta& CheckpointReader::meta() const { return state_->meta; }
const std::vector<TensorInfo>& CheckpointReader::tensors() const { return state_->tensors; }

const TensorInfo* CheckpointReader::find(std::string_view name) const {
  const auto at = std::lower_bound(state_->tensors.begin(), state_->tensors.end(), name,
                                   [](const TensorInfo& info, std::string_view wanted) { return info.name < wanted; });
  return at != state_->tensors.end() && at->name == name ? &*at : nullptr;
}

void CheckpointReader::read(std::string_view name, std::span<std::byte> out) const {
  const TensorInfo& info = state_->at(name, *this);
  if (out.size() != info.bytes()) {
    throw ArtifactError(cat(quote(path().string()), ": tensor ", quote(name), ": expected ", out.size(),
                            " bytes, found ", info.bytes(), " (", describe(info), ")"));
  }
  const h5::Dataset dataset = state_->root.open_dataset(info.name);
  dataset.read_raw(out.data());
  const std::int64_t stated = dataset.integer("crc32c");
  const std::uint32_t found = support::crc32c(out.data(), out.size());
  if (stated != static_cast<std::int64_t>(found)) {
    throw ArtifactError(cat(dataset.where(), ": expected CRC-32C ", stated, ", found ", found), "the file is corrupt");
  }
  state_->checked.insert(info.name);
}

void CheckpointReader::require(const TensorInfo& expected) const {
  const TensorInfo& found = state_->at(expected.name, *this);
  if (found.dtype != expected.dtype || found.shape != expected.shape) {
    throw ArtifactError(cat(quote(path().string()), ": tensor ", quote(expected.name), ": expected ",
                            describe(expected), ", found ", describe(found)),
                        "this is a checkpoint of another model");
  }
}

void CheckpointReader::read(const TensorInfo& expected, std::span<std::byte> out) const {
  require(expected);
  read(expected.name, out);
}

void CheckpointReader::read(std::span<const Destination> destinations, int threads) const {
  std::vector<Stretch> stretches;
  for (const Destination& to : destinations) {
    require(to.expected);
    if (to.out.size() != to.expected.bytes()) {
      bug(cat("tensor ", quote(to.expected.name), " needs ", to.expected.bytes(), " bytes, was given ", to.out.size()));
    }
    stretches.push_back(stretch_of(state_->root.open_dataset(to.expected.name), to.out.data()));
  }
  read_stretches(path(), stretches, threads);
  for (const Destination& to : destinations) state_->checked.insert(to.expected.name);
}

std::vector<std::byte> CheckpointReader::read(std::string_view name) const {
  std::vector<std::byte> data(static_cast<std::size_t>(state_->at(name, *this).bytes()));
  read(name, data);
  return data;
}

void CheckpointReader::verify(int threads) const {
  std::vector<Stretch> stretches;
  for (const TensorInfo& info : state_->tensors) {
    if (!state_->checked.contains(info.name))
      stretches.push_back(stretch_of(state_->root.open_dataset(info.name), nullptr));
  }
  read_stretches(path(), stretches, threads);
  for (const TensorInfo& info : state_->tensors) state_->checked.insert(info.name);
}

}  // namespace pe::artifact
