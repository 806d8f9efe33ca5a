/// @file
/// Help on the config of a stage, a topic at a time: an outline that fits a screen, then details. They are a group, a
/// field, the kinds of a variant such as the encodings, or one of these kinds.
#pragma once

#include <string>
#include <vector>

#include "support/config.h"

namespace pe::cli {

/// A line or two for each group and field at the top.
std::string field_outline(const support::Schema& schema, int columns);

/// A topic after `--help`, with its subject.
struct HelpTopic {
  std::string name, about;
};
std::vector<HelpTopic> help_topics(const support::Schema& schema);

/// Text of `--help TOPIC`. A topic is `all`, a dotted key or its last part (`train`, `peak_lr`), or a kind (`rope`: its
/// options). The plural of a variant is a topic, too (`encodings`: its kinds, a line each).
/// @throws ConfigError with the nearest topic when there is none of that name.
std::string field_topic(const support::Schema& schema, const std::string& program, const std::string& topic,
                        int columns);

}  // namespace pe::cli
