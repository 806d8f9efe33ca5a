/// @file
/// Work that cannot be interrupted, such as one long call of a library: a separate process does it, and a stop ends
/// that.
#pragma once

#include <functional>
#include <string>

namespace pe::support {

/// The result of `body`, called in a copy of this process; its other changes are lost. Its exceptions are thrown here.
/// @param what names the work: "training the tokenizer". @param hint of the error when a signal ends it.
/// @throws Stopped when a stop is requested meanwhile. Error, with 128 and the signal where one ended it. It is a bug
/// where the process ended itself: it would do so again
std::string in_child(const std::string& what, const std::string& hint, const std::function<std::string()>& body);

}  // namespace pe::support
