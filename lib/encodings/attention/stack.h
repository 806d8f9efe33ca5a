/// @file
/// Several encodings in one model, as {stack: [rope, {kind: ssmax}]} asks for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "encodings/attention/positional_encoding.h"

namespace pe::encodings {

struct StackMember {
  std::string name;  ///< for messages
  std::unique_ptr<PositionalEncoding> encoding;
};

/// S1 to S3 chain, rotations before temperatures; biases add; channels are concatenated. A member that maps positions
/// maps them for all members.
/// @throws ConfigError when two members rotate, map positions, or define the same stage: the product (S6), the
/// rewriting of logits (S7) or the normaliser (S8).
std::unique_ptr<PositionalEncoding> make_stack(std::vector<StackMember> members, const Shape& shape);

}  // namespace pe::encodings
