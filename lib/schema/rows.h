/// @file
/// Rows of any number of tables, by their structs. Tasks of an evaluation return them, and its journal keeps them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "schema/row.h"
#include "support/json.h"

namespace pe::schema {

namespace detail {

Json to_json(const artifact::Cell& cell);
artifact::Cell cell_from(const Json& json);

/// Rows of one type.
class AnyList {
 public:
  virtual ~AnyList() = default;
  virtual std::unique_ptr<AnyList> empty() const = 0;
  /// Of the same type. @{
  virtual void append(const AnyList& other) = 0;
  virtual void append(const Json& rows) = 0;
  /// @}
  virtual Json to_json() const = 0;
};

template <typename T>
class List final : public AnyList {
 public:
  std::vector<T> rows;

  std::unique_ptr<AnyList> empty() const override { return std::make_unique<List>(); }
  void append(const AnyList& other) override {
    const auto& more = static_cast<const List&>(other).rows;
    rows.insert(rows.end(), more.begin(), more.end());
  }
  void append(const Json& more) override {
    for (const Json& cells : more) {
      const auto cell_at = [&](std::size_t column) {
        return cells.is_array() && column < cells.size() ? cell_from(cells[column]) : artifact::Cell();
      };
      rows.push_back(row_from<T>(cell_at, T::kName, rows.size()));
    }
  }
  Json to_json() const override {
    Json all = Json::array();
    std::vector<artifact::Cell> cells;
    for (const T& row : rows) {
      cells.clear();
      append_cells(row, cells);
      Json line = Json::array();
      for (const artifact::Cell& cell : cells) line.push_back(detail::to_json(cell));
      all.push_back(std::move(line));
    }
    return all;
  }
};

}  // namespace detail

class Rows {
 public:
  Rows() = default;
  Rows(const Rows& other) { *this = other; }
  Rows(Rows&&) = default;
  Rows& operator=(const Rows& other);
  Rows& operator=(Rows&&) = default;

  template <typename T>
  void add(T row) {
    list<T>().rows.push_back(std::move(row));
  }
  /// Rows of a table, in the order in which they were added. Not thread-safe: rows of a journal are parsed when first
  /// asked for.
  template <typename T>
  const std::vector<T>& of() const {
    static const std::vector<T> none;
    return lists_.count(T::kName) != 0 ? list<T>().rows : none;
  }
  void append(const Rows& other);

  /// Cells by table. Integers and texts are themselves, reals texts in a list, since JSON has no inf.
  Json to_json() const;
  /// @param json of `to_json`; else rows lack, or their cells do.
  static Rows from_json(const Json& json);

 private:
  /// Rows of a table; as JSON until their type is known.
  struct TableRows {
    std::unique_ptr<detail::AnyList> typed;
    Json pending = Json::array();
  };

  template <typename T>
  detail::List<T>& list() const {
    TableRows& held = lists_[T::kName];
    if (!held.typed) {
      held.typed = std::make_unique<detail::List<T>>();
      held.typed->append(held.pending);
      held.pending = Json::array();
    }
    return static_cast<detail::List<T>&>(*held.typed);
  }

  mutable std::map<std::string, TableRows> lists_;
};

}  // namespace pe::schema
