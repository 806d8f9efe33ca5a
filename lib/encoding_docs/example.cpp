#include "encoding_docs/example.h"

#include "encodings/attention/token_reader.h"
#include "support/hash.h"
#include "support/random.h"
#include "support/text.h"

namespace pe::encoding_docs {

using encodings::EncodingEntry;

namespace {

/// The factor of a context extension, which is 1 (nothing) by default.
bool has_idle_factor(const EncodingEntry& entry) {
  const support::Field* field = support::find_field(entry.fields, "factor");
  return field != nullptr && entry.family == encodings::Family::kExtension && field->default_value.is_number() &&
         field->default_value.get<double>() == 1;
}

}  // namespace

Json example_config(const EncodingEntry& entry) {
  Json config = {{"kind", entry.name}};
  if (has_idle_factor(entry)) config["factor"] = 4.0;
  if (support::find_field(entry.fields, "turns") != nullptr) config["train_length"] = 64;  // turns need room
  if (entry.family == encodings::Family::kPositionMap) return {{"stack", {config, "rope"}}};
  return config;
}

std::string example_note(const EncodingEntry& entry) {
  if (has_idle_factor(entry)) return "factor 4";
  if (entry.family == encodings::Family::kPositionMap) return "over rope";
  return "";
}

encodings::State example_pass(encodings::PositionalEncoding& encoding, const encodings::Span& span) {
  encodings::State state = encodings::begin_pass(encoding, span);
  encodings::give_example_numbers(encoding, state);
  return state;
}

at::Tensor named_normals(const std::string& name, at::IntArrayRef sizes) {
  at::Tensor t = at::empty(sizes, at::kDouble);
  support::philox_normal(support::make_key({1, support::fnv1a64(name)}), t.mutable_data_ptr<double>(),
                         static_cast<std::size_t>(t.numel()));
  return t;
}

}  // namespace pe::encoding_docs
