#pragma once

#include <cstdint>
#include <vector>

namespace pe::evaluation {

inline void append(std::vector<std::int32_t>& ids, const std::vector<std::int32_t>& part) {
  ids.insert(ids.end(), part.begin(), part.end());
}

inline std::int64_t count(const std::vector<std::int32_t>& ids) { return static_cast<std::int64_t>(ids.size()); }

}  // namespace pe::evaluation
