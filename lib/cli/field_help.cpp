#include "cli/field_help.h"

#include <algorithm>

#include "cli/layout.h"
#include "support/error.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::cli {

namespace {

using support::cat;
using support::Field;
using support::FieldType;
using support::Schema;
using support::VariantKind;

std::size_t count_values(const Schema& schema) {
  std::size_t count = 0;
  for (const Field& field : schema) count += field.type == FieldType::kGroup ? count_values(field.fields) : 1;
  return count;
}

std::string plural(const Field& field) { return field.name.back() == 's' ? field.name : field.name + "s"; }

/// A short list of kinds reads best in place; of a long one the help says where it is.
constexpr std::size_t kMostKindsInPlace = 4;

bool kinds_elsewhere(const Field& field) { return field.kinds.size() > kMostKindsInPlace; }

Schema without_long_lists(Schema schema) {
  for (Field& field : schema) {
    field.fields = without_long_lists(std::move(field.fields));
    if (!kinds_elsewhere(field)) continue;
    field.help += cat(" ", field.kinds.size(), " kinds: --help ", plural(field), ".");
    field.kinds.clear();
  }
  return schema;
}

std::string list_of_kinds(const Field& field, const std::string& path, int columns) {
  std::string text = cat(path, ": ", field.help, "\n\n");
  std::size_t widest = 0;
  for (const VariantKind& kind : field.kinds) widest = std::max(widest, kind.name.size());
  for (const VariantKind& kind : field.kinds) {
    text += entry("  " + kind.name, kind.summary, static_cast<int>(std::min<std::size_t>(widest, 24)) + 4, columns);
  }
  return text + "\n" +
         wrapped(cat("--help NAME shows the options of one, such as --help ", field.kinds.back().name, "."), columns,
                 0);
}

std::string one_kind(const Field& field, const VariantKind& kind, const std::string& path, int columns) {
  std::string text = wrapped(cat(kind.name, ", a value of ", path, ": ", kind.summary), columns, 0);
  if (!kind.aliases.empty()) text += cat("Also called ", support::join(kind.aliases, ", "), ".\n");
  text += kind.fields.empty() ? cat("It has no options.\n\n  ", path, ": ", kind.name, "\n")
                              : cat("\n", support::render_fields(without_long_lists(kind.fields), columns), "\n  ",
                                    path, ": {kind: ", kind.name, ", ", kind.fields.front().name, ": …}\n");
  if (field.stackable) text += cat("  ", path, ": {stack: [", kind.name, ", …]}\n");
  return text;
}

/// Everything in the schema with the name `topic`, in order.
void collect(const Schema& schema, const std::string& prefix, const std::string& topic, int columns,
             std::string& text) {
  for (const Field& field : schema) {
    const std::string path = cat(prefix, prefix.empty() ? "" : ".", field.name);
    if (path == topic || field.name == topic) {
      Field shown = field;
      shown.name = path;
      text += support::render_fields(without_long_lists({shown}), columns);
    } else if (kinds_elsewhere(field) && plural(field) == topic) {
      text += list_of_kinds(field, path, columns);
    }
    for (const VariantKind& kind : field.kinds) {
      if (kind.name == topic || std::find(kind.aliases.begin(), kind.aliases.end(), topic) != kind.aliases.end()) {
        text += cat(text.empty() ? "" : "\n", one_kind(field, kind, path, columns));
      }
    }
    if (path != topic && field.name != topic) collect(field.fields, path, topic, columns, text);
  }
}

void collect_topics(const Schema& schema, const std::string& prefix, std::vector<HelpTopic>& topics) {
  for (const Field& field : schema) {
    const std::string path = cat(prefix, prefix.empty() ? "" : ".", field.name);
    topics.push_back({path, field.help});
    if (kinds_elsewhere(field)) topics.push_back({plural(field), cat("the ", field.kinds.size(), " kinds of ", path)});
    for (const VariantKind& kind : field.kinds) topics.push_back({kind.name, kind.summary});
    collect_topics(field.fields, path, topics);
  }
}

}  // namespace

std::string field_outline(const Schema& schema, int columns) {
  std::size_t widest = 0;
  for (const Field& field : schema) widest = std::max(widest, field.name.size());
  std::string text;
  for (const Field& field : schema) {
    std::string help = field.help;
    if (field.type == FieldType::kGroup) {
      const std::size_t values = count_values(field.fields);
      help += cat(" ", values, values == 1 ? " value." : " values.");
      for (const Field& inner : field.fields) {
        if (kinds_elsewhere(inner))
          help += cat(" ", inner.kinds.size(), " ", plural(inner), ": --help ", plural(inner), ".");
      }
    }
    const std::string told =
        entry("  " + field.name, help, static_cast<int>(std::min<std::size_t>(widest, 20)) + 4, columns - 2);
    // The rest of a field's help is a separate topic.
    const bool cut = field.type != FieldType::kGroup && told.find('\n') + 1 < told.size();
    text += cut ? told.substr(0, told.find('\n')) + " …\n" : told;
  }
  return text;
}

std::vector<HelpTopic> help_topics(const Schema& schema) {
  std::vector<HelpTopic> topics{{"all", "every field"}};
  collect_topics(schema, "", topics);
  return topics;
}

std::string field_topic(const Schema& schema, const std::string& program, const std::string& topic, int columns) {
  if (topic == "all") return support::render_fields(schema, columns);
  std::string text;
  collect(schema, "", topic, columns, text);
  if (!text.empty()) return text.substr(text.find_first_not_of('\n'));
  std::vector<std::string> topics;
  for (const HelpTopic& known : help_topics(schema)) topics.push_back(known.name);
  throw support::ConfigError(cat("no help on ", support::quote(topic)), {program + " --help", 0, 0, "", 1},
                             support::suggestion(topic, topics));
}

}  // namespace pe::cli
