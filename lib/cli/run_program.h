#pragma once

#include <functional>
#include <string>

#include "support/explain.h"

namespace pe::cli {

/// Runs a program that is no stage. An error that leaves `body` is printed on standard error.
/// @param program  its name, "pe-data"
/// @returns the exit code of `body` or of the error
int run_program(const std::string& program, const std::function<int()>& body, const support::Explain& explain = {});

/// Prints an error on standard error as "<program>: …"; of a mistake of ours also that we want to hear of it.
void print_error(const std::string& program, const support::Error& error);

}  // namespace pe::cli
