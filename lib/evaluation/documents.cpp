#include "evaluation/documents.h"

#include <algorithm>
#include <utility>

namespace pe::evaluation {

std::vector<std::int64_t> select_documents(const DocumentSource& source, std::int64_t min_tokens, std::int64_t count) {
  std::vector<std::pair<std::uint64_t, std::int64_t>> order;
  for (std::int64_t id = 0; id < source.count(); ++id) {
    if (source.tokens(id) >= min_tokens) order.emplace_back(source.hash(id), id);
  }
  std::sort(order.begin(), order.end());
  if (static_cast<std::int64_t>(order.size()) > count) order.resize(static_cast<std::size_t>(count));
  std::vector<std::int64_t> ids;
  for (const auto& [hash, id] : order) ids.push_back(id);
  return ids;
}

std::int64_t count_documents(const DocumentSource& source, std::int64_t min_tokens) {
  std::int64_t found = 0;
  for (std::int64_t id = 0; id < source.count(); ++id) found += source.tokens(id) >= min_tokens ? 1 : 0;
  return found;
}

}  // namespace pe::evaluation
