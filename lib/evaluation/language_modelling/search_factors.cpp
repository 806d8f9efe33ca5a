#include "evaluation/language_modelling/search_factors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "artifact/artifact_check.h"
#include "artifact/checkpoint.h"
#include "evaluation/data_fit.h"
#include "evaluation/shard_documents.h"
#include "model/checkpoint_io.h"
#include "model/device.h"
#include "support/hash.h"
#include "support/random.h"
#include "support/text.h"

namespace pe::evaluation {

using support::cat;
using support::ConfigError;

namespace {

/// `count` texts of `tokens` tokens: long documents first, then shorter ones joined, each after the separator.
std::vector<std::vector<std::int32_t>> long_texts(const DocumentSource& source, const TextCodec& text,
                                                  std::int64_t tokens, std::int64_t count) {
  const std::optional<std::int32_t> bos = text.bos();
  std::vector<std::vector<std::int32_t>> texts;
  const auto begin = [&] { return bos ? std::vector<std::int32_t>{*bos} : std::vector<std::int32_t>(); };
  const auto append = [](std::vector<std::int32_t>& to, const std::vector<std::int32_t>& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  const std::vector<std::int64_t> whole = select_documents(source, tokens, count);
  for (const std::int64_t id : whole) {
    texts.push_back(begin());
    append(texts.back(), source.read(id, tokens).ids);
    texts.back().resize(static_cast<std::size_t>(tokens));
  }
  std::vector<std::int32_t> open = begin();
  for (const std::int64_t id : select_documents(source, 1, source.count())) {
    if (static_cast<std::int64_t>(texts.size()) >= count) break;
    if (std::find(whole.begin(), whole.end(), id) != whole.end()) continue;
    if (bos && open.size() > 1) open.push_back(*bos);
    append(open, source.read(id, tokens).ids);
    if (static_cast<std::int64_t>(open.size()) < tokens) continue;
    open.resize(static_cast<std::size_t>(tokens));
    texts.push_back(std::exchange(open, begin()));
  }
  if (static_cast<std::int64_t>(texts.size()) < count) {
    throw ConfigError(cat("the ", source.split(), " split fills ", texts.size(), " texts of ", tokens, " tokens, and ",
                          count, " are asked for (search.documents)"),
                      {}, "lower search.documents or search.factor, or use more held-out data");
  }
  return texts;
}

}  // namespace

void FactorSearchGroup::describe(support::FieldVisitor& v) {
  v.choice("method", config.method,
           {{"longrope", model::FactorMethod::kLongRope}, {"longrope2", model::FactorMethod::kLongRope2}},
           "longrope searches all divisors and the protected positions by perplexity. longrope2 searches from a "
           "critical pair on, by the perplexity of needles' answers.");
  v.field("factor", config.factor, "Length to reach divided by the training length.", {.min = 1});
  v.check(config.factor > 1, "search.factor must be above 1");
  split_field(v, split, "The texts that candidates are scored on. Later tests use other texts.");
  v.field("documents", documents, "Texts that a candidate is scored on (longrope2's paper: 10, longrope's: 5).",
          {.min = 1});
  v.field("depth", depth, "Place of needles, as a share of the text (longrope2).", {.min = 0, .max = 0.9});
  config.options.describe(v);
}

void SearchFactorsConfig::describe(support::FieldVisitor& v) {
  v.group("search", search, "Method and texts of the search.");
  v.group("compute", compute, "How it is computed.");
}

model::SearchTexts search_texts(const DocumentSource& documents, const TextCodec& text, std::int64_t length,
                                const FactorSearchGroup& group) {
  const std::int64_t count = group.documents;
  std::vector<std::vector<std::int32_t>> texts = long_texts(documents, text, length + 1, count);
  model::SearchTexts made{.ids = at::empty({count, length + 1}, at::kLong)};
  if (group.config.method == model::FactorMethod::kLongRope2) {
    made.counted = at::zeros({count, length}, at::kBool);
    support::Xoshiro random(support::make_key({group.seed, support::fnv1a64("search.needles")}));
    for (std::int64_t n = 0; n < count; ++n) {
      const std::string key = std::to_string(10000 + random.below(90000));
      const std::vector<std::int32_t> fact = text.encode_inside(cat("Code ", key, ".\n")),
                                      question = text.encode_inside("Code"), answer = text.encode_inside(cat(" ", key));
      std::vector<std::int32_t>& ids = texts[static_cast<std::size_t>(n)];
      const std::size_t needed = fact.size() + question.size() + answer.size();
      if (ids.size() < needed + 2) {
        throw ConfigError(cat("a needle takes ", needed, " tokens, and a text has ", ids.size()), {},
                          "raise search.factor, or search with method: longrope");
      }
      ids.resize(ids.size() - needed);
      const auto place = static_cast<std::ptrdiff_t>(1 + group.depth * static_cast<double>(ids.size() - 1));
      ids.insert(ids.begin() + place, fact.begin(), fact.end());
      ids.insert(ids.end(), question.begin(), question.end());
      ids.insert(ids.end(), answer.begin(), answer.end());
      const auto answers = static_cast<std::int64_t>(answer.size());
      made.counted.select(0, n).narrow(0, length - answers, answers).fill_(true);
    }
  }
  for (std::int64_t n = 0; n < count; ++n) {
    const auto& ids = texts[static_cast<std::size_t>(n)];
    std::copy(ids.begin(), ids.end(), made.ids.mutable_data_ptr<std::int64_t>() + n * (length + 1));
  }
  return made;
}

void search_factors(const SearchFactorsConfig& config, artifact::Workspace& workspace) {
  support::Progress& progress = *workspace.progress;
  const artifact::Input& model_input = workspace.input("model");
  const artifact::Input& data_input = workspace.input("data");
  const artifact::CheckpointReader checkpoint(model_input.path);
  const data::TokenDataset dataset(data_input.path);
  artifact::CheckpointMeta meta = checkpoint.meta();
  require_fit(checkpoint, dataset, data_input.path, config.search.split, progress);
  const model::ComputeConfig compute = model::resolve(config.compute);
  const at::Device device = model::open_device(compute);
  const model::LanguageModel model = model::load_model(checkpoint, device, model::compute_type(compute));

  FactorSearchGroup group = config.search;
  group.seed = group.config.options.seed = model.seed();
  const std::unique_ptr<data::Tokenizer> tokenizer =
      data::make_tokenizer(dataset.tokenizer(), data_input.path.string());
  const auto documents = make_shard_documents(dataset, *tokenizer, group.split);
  const auto codec = make_codec(*tokenizer, dataset.tokenizer().bos_before_documents);
  const auto length = static_cast<std::int64_t>(group.config.factor * static_cast<double>(model.config().length));
  const model::SearchTexts texts = search_texts(*documents, *codec, length, group);
  const model::FoundFactors found =
      model::search_factors(model, texts, group.config, [&](std::int64_t generation, double best) {
        progress.advance("search", generation, group.config.options.generations, {{"perplexity", best}});
        if (support::stop_requested()) throw support::StopRequest(false);
      });
  progress.note(cat("divisors: perplexity ", found.search.best_of_generation.front(), " at the start, ",
                    found.search.score, " after ", found.search.evaluated, " candidates"));

  const model::LanguageModel made = model::load_model(checkpoint, at::kCPU, at::kFloat, found.encoding);
  {  // learned values of the encoding below stay
    const at::NoGradGuard no_gradients;
    for (const model::Parameter& to : made.parameters()) {
      for (const model::Parameter& from : model.parameters()) {
        if (to.name == from.name && to.name.rfind("encoding.", 0) == 0) at::Tensor(to.tensor).copy_(from.tensor);
      }
    }
  }
  meta.parents.push_back(model_input.digest.empty() ? artifact::artifact_content_digest(model_input.path)
                                                    : model_input.digest);
  meta.extra["search"] = {{"encoding_before", meta.encoding},
                          {"score", found.search.score},
                          {"evaluated", found.search.evaluated},
                          {"best_of_generation", found.search.best_of_generation}};
  model::describe_model(made, meta);
  meta.fingerprint = Json::object();
  artifact::CheckpointWriter writer(workspace.output("extended"), workspace.recipe, meta);
  model::write_weights(made, writer);
  writer.finish();
}

}  // namespace pe::evaluation
