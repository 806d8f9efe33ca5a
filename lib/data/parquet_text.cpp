#include "data/parquet_text.h"

#include <arrow/io/file.h>
#include <arrow/memory_pool.h>
#include <parquet/column_reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/schema.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <vector>

#include "support/error.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::data {

namespace fs = std::filesystem;
using support::ArtifactError;
using support::cat;
using support::quote;

namespace {

constexpr std::int64_t kBatchRows = 512;

/// Arrow's texts end with a newline or repeat themselves; one line is enough.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (text.size() > 300) text = text.substr(0, 300) + "…";
  return std::string(support::trim(text));
}

/// Magic words at both ends, before Arrow sees the file: it looks at the tail alone.
void check_magic(const fs::path& path, std::uint64_t size) {
  const auto fail = [&](const std::string& what) -> void {
    throw ArtifactError(cat(quote(path.string()), ": expected a Parquet file, found ", what));
  };
  if (size == 0) fail("an empty file");
  char head[4] = {}, tail[4] = {};
  std::ifstream in(path, std::ios::binary);
  in.read(head, sizeof head);
  if (size >= 4) {
    in.clear();
    in.seekg(-4, std::ios::end);
    in.read(tail, sizeof tail);
  }
  const auto is = [](const char* bytes, const char* magic) { return std::memcmp(bytes, magic, 4) == 0; };
  if (is(tail, "PARE") || is(head, "PARE")) fail("an encrypted one, which cannot be read");
  if (!is(head, "PAR1")) fail("a file that does not begin with PAR1");
  if (!is(tail, "PAR1")) fail("one that does not end with PAR1: it was cut short");
  if (size < 12) fail(cat("only ", size, " bytes"));
}

}  // namespace

struct ParquetText::State {
  fs::path path;
  std::string column;
  std::unique_ptr<arrow::CappedMemoryPool> pool;
  std::unique_ptr<parquet::ParquetFileReader> file;
  int column_index = -1;
  std::int16_t max_definition = 0;
  std::uint64_t rows = 0;

  int row_group = -1;
  std::shared_ptr<parquet::RowGroupReader> group;
  std::shared_ptr<parquet::ColumnReader> reader;
  std::int64_t group_rows = 0, group_read = 0;

  std::array<std::int16_t, kBatchRows> definitions{};
  std::array<parquet::ByteArray, kBatchRows> values{};
  std::int64_t levels_read = 0, level_at = 0, value_at = 0, values_read = 0;

  template <typename Body>
  auto guarded(Body&& body) {
    try {
      return body();
    } catch (const support::Error&) {
      throw;
    } catch (const std::exception& error) {
      throw ArtifactError(cat(quote(path.string()), ": ", place(), ": ", one_line(error.what())), "the file is damaged");
    }
  }

  std::string place() const {
    return row_group < 0 ? "reading the footer" : cat("reading column ", quote(column), ", row group ", row_group);
  }

  void open() {
    const std::uint64_t size = fs::file_size(path);
    check_magic(path, size);
    guarded([&] {
      // What a sane file asks for, and no more: a page of a tiny file does not unpack to a gigabyte.
      const auto cap = static_cast<std::int64_t>(std::min<std::uint64_t>((64ULL << 20) + 64 * size, 2ULL << 30));
      pool = std::make_unique<arrow::CappedMemoryPool>(arrow::default_memory_pool(), cap);
      parquet::ReaderProperties properties(pool.get());
      properties.enable_buffered_stream();
      properties.set_buffer_size(1 << 20);
      properties.set_page_checksum_verification(true);
      properties.set_thrift_string_size_limit(static_cast<std::int32_t>(std::min<std::uint64_t>(size, 100 << 20)));
      properties.set_thrift_container_size_limit(static_cast<std::int32_t>(std::min<std::uint64_t>(size, 10'000'000)));
      auto source = arrow::io::ReadableFile::Open(path.string(), pool.get());
      if (!source.ok()) throw parquet::ParquetException(source.status().ToString());
      file = parquet::ParquetFileReader::Open(*source, properties);
      find_column();
      const std::int64_t claimed = file->metadata()->num_rows();
      if (claimed < 0) throw parquet::ParquetException(cat("the footer claims ", claimed, " rows"));
      rows = static_cast<std::uint64_t>(claimed);
    });
  }

  void find_column() {
    const parquet::SchemaDescriptor* schema = file->metadata()->schema();
    std::vector<std::string> names;
    for (int i = 0; i < schema->num_columns(); ++i) {
      const std::string name = schema->Column(i)->path()->ToDotString();
      if (name == column) column_index = i;
      names.push_back(name);
    }
    if (column_index < 0) {
      throw ArtifactError(cat(quote(path.string()), ": there is no column ", quote(column), "; it has ",
                              support::join(names, ", ")),
                          cat("name the text's column with text.column; ", support::suggestion(column, names)));
    }
    const parquet::ColumnDescriptor* found = schema->Column(column_index);
    const auto& logical = found->logical_type();
    const bool text = found->physical_type() == parquet::Type::BYTE_ARRAY &&
                      (!logical || logical->is_none() || logical->is_string() || logical->is_JSON() || logical->is_enum());
    if (!text || found->max_repetition_level() != 0) {
      throw ArtifactError(cat(quote(path.string()), ": column ", quote(column), ": expected text, found ",
                              found->max_repetition_level() != 0 ? "a list of " : "",
                              parquet::TypeToString(found->physical_type())));
    }
    max_definition = found->max_definition_level();
  }

  /// Reads on until there is a level to look at; false at the end of the file.
  bool fill() {
    while (level_at >= levels_read) {
      if (!reader || !reader->HasNext()) {
        if (reader && group_read != group_rows) {
          throw parquet::ParquetException(cat("it claims ", group_rows, " rows and holds ", group_read));
        }
        if (++row_group >= file->metadata()->num_row_groups()) return false;
        group = file->RowGroup(row_group);
        group_rows = group->metadata()->num_rows();
        group_read = 0;
        reader = group->Column(column_index);
        continue;
      }
      auto* texts = static_cast<parquet::ByteArrayReader*>(reader.get());
      values_read = 0;
      levels_read = texts->ReadBatch(kBatchRows, definitions.data(), nullptr, values.data(), &values_read);
      level_at = value_at = 0;
      if (max_definition == 0) levels_read = values_read;
      if (levels_read == 0 && reader->HasNext()) throw parquet::ParquetException("a page yields no rows");
      group_read += levels_read;
      if (group_read > group_rows) {
        throw parquet::ParquetException(cat("it claims ", group_rows, " rows and holds more"));
      }
    }
    return true;
  }
};

ParquetText::ParquetText(const fs::path& path, const std::string& column) : state_(std::make_unique<State>()) {
  state_->path = path;
  state_->column = column;
  state_->open();
}

ParquetText::~ParquetText() = default;

std::uint64_t ParquetText::rows() const { return state_->rows; }

bool ParquetText::next(std::optional<std::string_view>& text) {
  State& state = *state_;
  return state.guarded([&] {
    if (!state.fill()) return false;
    const bool present = state.max_definition == 0 || state.definitions[static_cast<std::size_t>(state.level_at)] == state.max_definition;
    ++state.level_at;
    if (!present) {
      text.reset();
      return true;
    }
    if (state.value_at >= state.values_read) throw parquet::ParquetException("it has fewer values than its levels say");
    const parquet::ByteArray& value = state.values[static_cast<std::size_t>(state.value_at++)];
    text = std::string_view(reinterpret_cast<const char*>(value.ptr), value.len);
    return true;
  });
}

}  // namespace pe::data
