/// @file
/// Many small pieces of work on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace pe::support {

/// Calls `work(begin, end)` for parts of [0, count), each of at most `part` pieces. It uses as many threads as the
/// machine has and there are parts for, including this one. Parts are taken in order but end in any. Returns when all
/// have ended. If one fails, parts that have not begun are left out, and the exception of the first is thrown.
void parallel_chunks(std::size_t count, std::size_t part,
                     const std::function<void(std::size_t begin, std::size_t end)>& work);

}  // namespace pe::support
