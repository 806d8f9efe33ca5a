#include "support/flag_value.h"

namespace pe::support {

bool takes_paths(const Field* field) {
  return field && (field->type == FieldType::kPath || field->type == FieldType::kPathList);
}

Node flag_value(const Field* field, std::string_view text, const std::string& flag) {
  const bool is_yaml = text.starts_with('[') || text.starts_with('"') || text.starts_with('\'');
  return takes_paths(field) && !is_yaml ? literal_node(std::string(text), flag) : parse_yaml_value(text, flag);
}

}  // namespace pe::support
