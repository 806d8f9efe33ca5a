#include "schema/tables.h"

namespace pe::schema {

namespace {

template <typename... Types>
std::vector<Layout> layouts_of(TypeList<Types...>) {
  return {layout_of<Types>()...};
}

template <typename... Types>
std::vector<artifact::Table> tables_of(TypeList<Types...>, const Rows& rows, const Identity& identity) {
  std::vector<artifact::Table> tables;
  const auto add = [&](const auto& list) {
    if (!list.empty()) tables.push_back(table_of(list, identity));
  };
  (add(rows.of<Types>()), ...);
  return tables;
}

}  // namespace

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all = layouts_of(EvaluationTables());
  return all;
}

std::vector<artifact::Table> make_tables(const Rows& rows, const Identity& identity) {
  return tables_of(EvaluationTables(), rows, identity);
}

}  // namespace pe::schema
