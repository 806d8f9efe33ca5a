#include "encodings/attention/frozen.h"

namespace pe::encodings {

const std::vector<Parameter>& frozen_of(const PositionalEncoding& encoding) {
  static const std::vector<Parameter> none;
  const auto* holder = dynamic_cast<const FrozenTables*>(&encoding);
  return holder == nullptr ? none : holder->frozen();
}

}  // namespace pe::encodings
