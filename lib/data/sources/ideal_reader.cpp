#include "data/sources/ideal_reader.h"

#include "artifact/collection.h"
#include "artifact/eval_table.h"
#include "data/sources/fetch.h"
#include "data/sources/stories.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::data {
namespace {

using support::cat;

/// Contexts and positions are powers of two, from 2^kFirst to 2^(kFirst + kCount - 1) bytes: some 16 to 32,000 tokens.
constexpr int kFirst = 6, kCount = 12;

std::int64_t bytes_of(int index) { return std::int64_t{1} << (kFirst + index); }

FetchConfig::GeneratedText generator_of(const artifact::Input& raw) {
  const Json config = artifact::Manifest::read(raw.path).recipe.config;
  if (config.value("source", "") != "generated") {
    throw support::ArtifactError(
        cat(raw.path.string(), ": expected text of pe-fetch with source: generated, found source '",
            config.value("source", "unknown"), "'"),
        "what the context of other text is worth is not known");
  }
  return support::make_config<FetchConfig>(config).generated;
}

/// By position in the text, then by context.
struct Losses {
  double nats[kCount][kCount] = {};
  double bytes[kCount] = {};

  void add(const Story& story) {
    const auto size = static_cast<std::int64_t>(story.text.size());
    for (int position = 0; position < kCount && bytes_of(position) < size; ++position) {
      bytes[position] += static_cast<double>(size - bytes_of(position));
      for (const Recall& recall : story.recalls) {
        if (recall.at < bytes_of(position)) continue;
        for (int context = 0; context <= position && bytes_of(context) < recall.distance; ++context)
          nats[position][context] += recall.nats;
      }
    }
  }
};

}  // namespace

void IdealReaderConfig::describe(support::FieldVisitor& v) {
  v.field("words", words, "How many words of the supply are read.", {.unit = "words", .min = 1000, .max = 1e10});
}

void ideal_reader(const IdealReaderConfig& config, artifact::Workspace& workspace) {
  const FetchConfig::GeneratedText told = generator_of(workspace.input("raw"));
  Losses losses;
  std::int64_t words = 0;
  for (std::uint64_t index = 0; words < std::min(config.words, told.words); ++index) {
    const Story story = make_story(static_cast<std::uint64_t>(told.seed), index, told.min_words, told.max_words);
    losses.add(story);
    words += story.words;
    if (index % 256 == 0) workspace.progress->advance("words", words, std::min(config.words, told.words));
  }
  using enum artifact::ColumnType;
  artifact::Table table("ideal_reader", {{"position", kInteger, "bytes"},
                                         {"context", kInteger, "bytes"},
                                         {"nats_per_byte", kReal, "nats"},
                                         {"bytes", kInteger, "bytes"}});
  for (int position = 0; position < kCount; ++position) {
    if (losses.bytes[position] == 0) continue;
    for (int context = 0; context <= position; ++context) {
      table.add_row({bytes_of(position), bytes_of(context), losses.nats[position][context] / losses.bytes[position],
                     static_cast<std::int64_t>(losses.bytes[position])});
    }
  }
  artifact::Tables tables;
  tables.tables.push_back(std::move(table));
  tables.facts = {{"source", "generated"},
                  {"seed", told.seed},
                  {"min_words", told.min_words},
                  {"max_words", told.max_words},
                  {"words", words}};
  artifact::write_eval_tables(workspace.output("scores"), workspace.recipe, tables);
}

}  // namespace pe::data
