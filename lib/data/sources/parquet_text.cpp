#include "data/sources/parquet_text.h"

#include <arrow/io/file.h>
#include <arrow/memory_pool.h>
#include <parquet/column_reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/schema.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "support/error.h"
#include "support/escaped.h"
#include "support/files.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::data {

namespace fs = std::filesystem;
using support::ArtifactError;
using support::cat;
using support::quote;

namespace {

constexpr std::int64_t kBatchRows = 512;

/// Arrow's texts end with a newline or repeat themselves, and quote bytes of the file; one line is enough.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return support::escaped(support::trim(text), 300);
}

/// Size and magic words at both ends, before Arrow sees the file: it looks at the tail alone.
std::uint64_t check_magic(const fs::path& path) {
  const auto fail = [&](const std::string& what) -> void {
    throw ArtifactError(cat(quote(path.string()), ": expected a Parquet file, found ", what));
  };
  const support::Descriptor file = support::open_regular(path);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) support::throw_errno("read", path.string());
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size == 0) fail("an empty file");
  char head[4] = {}, tail[4] = {};
  if (::pread(file.get(), head, sizeof head, 0) < 0) support::throw_errno("read", path.string());
  if (size >= 4 && ::pread(file.get(), tail, sizeof tail, status.st_size - 4) < 0)
    support::throw_errno("read", path.string());
  const auto is = [](const char* bytes, const char* magic) { return std::memcmp(bytes, magic, 4) == 0; };
  if (is(tail, "PARE") || is(head, "PARE")) fail("an encrypted one, which cannot be read");
  if (!is(head, "PAR1")) fail("a file that does not begin with PAR1");
  if (!is(tail, "PAR1")) fail("one that does not end with PAR1: it was cut short");
  if (size < 12) fail(cat("only ", size, " bytes"));
  return size;
}

/// Walks over one flat column of all row groups.
class ColumnWalk {
 public:
  ColumnWalk(parquet::ParquetFileReader& file, int column)
      : file_(file),
        column_(column),
        max_definition_(file.metadata()->schema()->Column(column)->max_definition_level()) {}
  virtual ~ColumnWalk() = default;
  int row_group() const { return row_group_; }
  const std::string& name() const { return file_.metadata()->schema()->Column(column_)->name(); }

  /// The next row; `present` false for a null. False at the end of the file.
  bool advance(bool& present) {
    if (!fill()) return false;
    present = max_definition_ == 0 || definitions_[static_cast<std::size_t>(level_at_)] == max_definition_;
    ++level_at_;
    if (present && ++value_at_ > values_read_)
      throw parquet::ParquetException("it has fewer values than its levels say");
    return true;
  }

 protected:
  virtual std::int64_t read_batch(parquet::ColumnReader& reader, std::int16_t* definitions,
                                  std::int64_t* values_read) = 0;
  /// Index of the value that `advance` stepped over.
  std::size_t value_index() const { return static_cast<std::size_t>(value_at_ - 1); }

 private:
  /// Reads on until there is a level to look at.
  bool fill() {
    while (level_at_ >= levels_read_) {
      if (!reader_ || !reader_->HasNext()) {
        if (reader_ && group_read_ != group_rows_) {
          throw parquet::ParquetException(cat("it claims ", group_rows_, " rows and holds ", group_read_));
        }
        if (++row_group_ >= file_.metadata()->num_row_groups()) return false;
        group_ = file_.RowGroup(row_group_);
        group_rows_ = group_->metadata()->num_rows();
        group_read_ = 0;
        reader_ = group_->Column(column_);
        continue;
      }
      values_read_ = 0;
      levels_read_ = read_batch(*reader_, definitions_.data(), &values_read_);
      level_at_ = value_at_ = 0;
      if (max_definition_ == 0) levels_read_ = values_read_;
      if (levels_read_ == 0 && reader_->HasNext()) throw parquet::ParquetException("a page yields no rows");
      group_read_ += levels_read_;
      if (group_read_ > group_rows_)
        throw parquet::ParquetException(cat("it claims ", group_rows_, " rows and holds more"));
    }
    return true;
  }

  parquet::ParquetFileReader& file_;
  int column_;
  std::int16_t max_definition_;
  int row_group_ = -1;
  std::shared_ptr<parquet::RowGroupReader> group_;
  std::shared_ptr<parquet::ColumnReader> reader_;
  std::int64_t group_rows_ = 0, group_read_ = 0;
  std::array<std::int16_t, kBatchRows> definitions_{};
  std::int64_t levels_read_ = 0, level_at_ = 0, value_at_ = 0, values_read_ = 0;
};

template <typename Type>
class TypedWalk : public ColumnWalk {
 public:
  using ColumnWalk::ColumnWalk;
  const typename Type::c_type& value() const { return values_[value_index()]; }

 protected:
  std::int64_t read_batch(parquet::ColumnReader& reader, std::int16_t* definitions,
                          std::int64_t* values_read) override {
    return static_cast<parquet::TypedColumnReader<Type>&>(reader).ReadBatch(kBatchRows, definitions, nullptr,
                                                                            values_.data(), values_read);
  }

 private:
  std::array<typename Type::c_type, kBatchRows> values_{};
};

std::string_view view(const parquet::ByteArray& value) { return {reinterpret_cast<const char*>(value.ptr), value.len}; }

/// A condition and the column that it looks at.
struct ConditionWalk {
  Condition condition;
  std::unique_ptr<ColumnWalk> walk;
  Scalar (*value)(const ColumnWalk&);
};

/// The file keeps unsigned numbers in signed types.
Scalar unsigned_number(std::int32_t value) { return std::int64_t{static_cast<std::uint32_t>(value)}; }
Scalar unsigned_number(std::int64_t value) {
  if (value < 0) return static_cast<double>(static_cast<std::uint64_t>(value));
  return value;
}

template <typename Type, bool kUnsigned = false>
void walk_as(ConditionWalk& to, parquet::ParquetFileReader& file, int column) {
  to.walk = std::make_unique<TypedWalk<Type>>(file, column);
  to.value = [](const ColumnWalk& walk) -> Scalar {
    const auto& value = static_cast<const TypedWalk<Type>&>(walk).value();
    if constexpr (std::is_same_v<Type, parquet::ByteArrayType>) {
      return std::string(view(value));
    } else if constexpr (std::is_same_v<Type, parquet::BooleanType>) {
      return value;
    } else if constexpr (kUnsigned) {
      return unsigned_number(value);
    } else if constexpr (std::is_floating_point_v<typename Type::c_type>) {
      return static_cast<double>(value);
    } else {
      return std::int64_t{value};
    }
  };
}

bool is_plain_text(const parquet::ColumnDescriptor& column) {
  const auto& logical = column.logical_type();
  return column.physical_type() == parquet::Type::BYTE_ARRAY &&
         (!logical || logical->is_none() || logical->is_string() || logical->is_JSON() || logical->is_enum());
}

}  // namespace

struct ParquetText::State {
  fs::path path;
  std::unique_ptr<arrow::CappedMemoryPool> pool;
  std::unique_ptr<parquet::ParquetFileReader> file;
  std::unique_ptr<TypedWalk<parquet::ByteArrayType>> texts;
  std::vector<ConditionWalk> conditions;
  const ColumnWalk* reading = nullptr;  // for messages
  bool kept = true;

  template <typename Body>
  auto guarded(Body&& body) {
    try {
      return body();
    } catch (const support::Error&) {
      throw;
    } catch (const std::exception& error) {
      throw ArtifactError(cat(quote(path.string()), ": ", place(), ": ", one_line(error.what())),
                          "the file is corrupt");
    }
  }

  std::string place() const {
    if (reading == nullptr || reading->row_group() < 0) return "reading the footer";
    return cat("reading column ", quote(reading->name()), ", row group ", reading->row_group());
  }

  void open(const std::string& column, const RowFilter& filter) {
    const std::uint64_t size = check_magic(path);
    guarded([&] {
      // Limit for a sane file: a page of a tiny file does not unpack to a gigabyte.
      const auto cap = static_cast<std::int64_t>(std::min<std::uint64_t>((64ULL << 20) + 64 * size, 2ULL << 30));
      pool = std::make_unique<arrow::CappedMemoryPool>(arrow::default_memory_pool(), cap);
      parquet::ReaderProperties properties(pool.get());
      properties.enable_buffered_stream();
      properties.set_buffer_size(1 << 20);
      properties.set_page_checksum_verification(true);
      properties.set_thrift_string_size_limit(static_cast<std::int32_t>(std::min<std::uint64_t>(size, 100 << 20)));
      properties.set_thrift_container_size_limit(static_cast<std::int32_t>(std::min<std::uint64_t>(size, 10'000'000)));
      auto source = arrow::io::ReadableFile::Open(path.string(), pool.get());
      if (!source.ok())
        throw support::IoError(cat("cannot read ", quote(path.string()), ": ", one_line(source.status().ToString())));
      file = parquet::ParquetFileReader::Open(*source, properties);
      open_text(column);
      for (const Condition& condition : filter.conditions()) open_condition(condition);
      const std::int64_t claimed = file->metadata()->num_rows();
      if (claimed < 0) throw parquet::ParquetException(cat("the footer claims ", claimed, " rows"));
    });
  }

  int find_column(const std::string& column, const char* hint) const {
    const parquet::SchemaDescriptor* schema = file->metadata()->schema();
    std::vector<std::string> names;
    for (int i = 0; i < schema->num_columns(); ++i) {
      const std::string name = schema->Column(i)->path()->ToDotString();
      if (name == column) return i;
      names.push_back(support::escaped(name, 100));
    }
    if (names.size() > 100) names.resize(100);
    throw ArtifactError(
        cat(quote(path.string()), ": there is no column ", quote(column), "; it has ", support::join(names, ", ")),
        cat(hint, "; ", support::suggestion(column, names)));
  }

  void open_text(const std::string& column) {
    const int index = find_column(column, "name the text's column with text.column");
    const parquet::ColumnDescriptor* found = file->metadata()->schema()->Column(index);
    if (!is_plain_text(*found) || found->max_repetition_level() != 0) {
      throw ArtifactError(cat(quote(path.string()), ": column ", quote(column), ": expected text, found ",
                              found->max_repetition_level() != 0 ? "a list of " : "",
                              parquet::TypeToString(found->physical_type())));
    }
    texts = std::make_unique<TypedWalk<parquet::ByteArrayType>>(*file, index);
  }

  void open_condition(const Condition& condition) {
    const int index = find_column(condition.column, "text.filter names a column");
    const parquet::ColumnDescriptor* found = file->metadata()->schema()->Column(index);
    const auto& logical = found->logical_type();
    const bool plain = found->max_repetition_level() == 0 &&
                       (!logical || logical->is_none() || logical->is_int() || is_plain_text(*found));
    const bool is_unsigned =
        logical && logical->is_int() && !static_cast<const parquet::IntLogicalType&>(*logical).is_signed();
    ConditionWalk walk{condition, nullptr, nullptr};
    std::string_view type = "a number";
    switch (plain ? found->physical_type() : parquet::Type::UNDEFINED) {
      case parquet::Type::BOOLEAN:
        walk_as<parquet::BooleanType>(walk, *file, index);
        type = "a truth value";
        break;
      case parquet::Type::INT32:
        (is_unsigned ? walk_as<parquet::Int32Type, true> : walk_as<parquet::Int32Type>)(walk, *file, index);
        break;
      case parquet::Type::INT64:
        (is_unsigned ? walk_as<parquet::Int64Type, true> : walk_as<parquet::Int64Type>)(walk, *file, index);
        break;
      case parquet::Type::FLOAT:
        // As the column has numbers: 0.1 in float32 is another number than in float64.
        if (const double* value = std::get_if<double>(&walk.condition.value))
          walk.condition.value = static_cast<double>(static_cast<float>(*value));
        walk_as<parquet::FloatType>(walk, *file, index);
        break;
      case parquet::Type::DOUBLE:
        walk_as<parquet::DoubleType>(walk, *file, index);
        break;
      case parquet::Type::BYTE_ARRAY:
        walk_as<parquet::ByteArrayType>(walk, *file, index);
        type = "text";
        break;
      default:
        throw ArtifactError(cat(quote(path.string()), ": column ", quote(condition.column),
                                ": a filter needs a number, a truth value or a text, found ",
                                parquet::TypeToString(found->physical_type()),
                                found->max_repetition_level() != 0 ? " in a list" : ""));
    }
    if (type != scalar_type(condition.value)) {
      throw ArtifactError(cat(quote(path.string()), ": column ", quote(condition.column), ": filter ",
                              quote(condition.text), " compares with ", scalar_type(condition.value),
                              ", the column holds ", type));
    }
    conditions.push_back(std::move(walk));
  }

  bool next(std::optional<std::string_view>& text) {
    bool present = false;
    reading = texts.get();
    if (!texts->advance(present)) return false;
    text = present ? std::optional(view(texts->value())) : std::nullopt;
    kept = true;
    for (ConditionWalk& at : conditions) {
      reading = at.walk.get();
      if (!at.walk->advance(present)) throw parquet::ParquetException("it has fewer rows than the text's column");
      bool comparable = true;
      kept = at.condition.holds(present ? at.value(*at.walk) : Scalar(), comparable) && kept;
    }
    return true;
  }
};

ParquetText::ParquetText(const fs::path& path, const std::string& column, const RowFilter& filter)
    : state_(std::make_unique<State>()) {
  state_->path = path;
  state_->open(column, filter);
}

ParquetText::~ParquetText() = default;

bool ParquetText::kept() const { return state_->kept; }

bool ParquetText::next(std::optional<std::string_view>& text) {
  return state_->guarded([&] { return state_->next(text); });
}

}  // namespace pe::data
