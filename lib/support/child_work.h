/// @file
/// Work that cannot be interrupted, such as one long call of a library: a process of its own does it, and a stop ends that.
#pragma once

#include <functional>
#include <string>

namespace pe::support {

/// What `body` returns, called in a copy of this process; whatever else it changes is lost. What it throws is thrown
/// here.
/// @param what names the work: "training the tokenizer". @param hint of the error when a signal ends it.
/// @throws Stopped when a stop is requested meanwhile; Error, with 128 and the signal where one ended it, and as a bug
/// where the process ended itself: it would do so again
std::string in_child(const std::string& what, const std::string& hint, const std::function<std::string()>& body);

}  // namespace pe::support
