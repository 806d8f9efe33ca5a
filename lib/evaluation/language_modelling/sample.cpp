#include "evaluation/language_modelling/sample.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "artifact/checkpoint.h"
#include "artifact/eval_table.h"
#include "artifact/table_text.h"
#include "encodings/attention/positional_encoding.h"
#include "evaluation/data_fit.h"
#include "evaluation/model_identity.h"
#include "evaluation/shard_documents.h"
#include "model/device.h"
#include "schema/tables.h"
#include "support/hash.h"
#include "support/random.h"
#include "support/text.h"

namespace pe::evaluation {

using support::ArtifactError;
using support::cat;
using support::ConfigError;

namespace {

struct Prompt {
  std::string name;               ///< "given 0", "test document 17"
  std::vector<std::int32_t> ids;  ///< with the separator, where the data has one
};

/// Makes text valid for a text cell and a page: bytes that are not UTF-8, and control characters, are marked.
std::string printable(const std::string& text) {
  std::string kept;
  for (const char c : support::replace_invalid_utf8(text)) {
    const bool control = (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7F;
    if (control) {
      kept += "\xEF\xBF\xBD";  // U+FFFD
    } else {
      kept += c;
    }
  }
  return kept;
}

/// The log of the sum of exponentials, in double.
double log_sum_exp(std::span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return largest + std::log(sum);
}

std::vector<Prompt> prompts_of(const SampleGroup& group, const data::Tokenizer& tokenizer,
                               const DocumentSource& documents, std::optional<std::int32_t> bos) {
  std::vector<Prompt> prompts;
  const auto begin = [&] { return bos ? std::vector<std::int32_t>{*bos} : std::vector<std::int32_t>(); };
  for (std::size_t i = 0; i < group.prompts.size(); ++i) {
    Prompt prompt{cat("given ", i), begin()};
    const std::vector<std::int32_t> ids = tokenizer.encode(group.prompts[i]);
    prompt.ids.insert(prompt.ids.end(), ids.begin(), ids.end());
    if (prompt.ids.empty()) {
      throw ConfigError(
          cat("sample.prompts: prompt ", i, " is empty, and the data has no separator that a text could begin with"));
    }
    prompts.push_back(std::move(prompt));
  }
  const std::vector<std::int64_t> chosen = select_documents(documents, group.prompt_tokens, group.documents);
  if (static_cast<std::int64_t>(chosen.size()) < group.documents) {
    throw ConfigError(cat("sample.documents: ", group.documents, " documents of at least ", group.prompt_tokens,
                          " tokens are asked for, and the ", documents.split(), " split has ", chosen.size()),
                      {}, "lower sample.documents or sample.prompt_tokens");
  }
  for (const std::int64_t id : chosen) {
    Prompt prompt{cat(documents.split(), " document ", id), begin()};
    const std::vector<std::int32_t> ids = documents.read(id, group.prompt_tokens).ids;
    prompt.ids.insert(prompt.ids.end(), ids.begin(), ids.end());
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

}  // namespace

void SampleGroup::describe(support::FieldVisitor& v) {
  v.field("prompts", prompts, "Texts to continue.");
  v.field("documents", documents, "Documents of the split whose beginnings are prompts, too.", {.min = 0, .max = 1e6});
  v.field("prompt_tokens", prompt_tokens, "Tokens of each of these beginnings.",
          {.unit = "tokens", .min = 1, .max = 1 << 24});
  split_field(v, split, "Where these documents are taken from.");
  v.field("texts", texts, "Texts that are written for each prompt.", {.min = 1, .max = 1e4});
  v.field("tokens", tokens, "Tokens of a text, at most: it ends with the separator of documents.",
          {.unit = "tokens", .min = 1, .max = 1 << 24});
  v.field("temperature", temperature, "Logits are divided by it before a token is drawn; 0: the likeliest token.",
          {.min = 0, .max = 100});
  v.field("top_k", top_k, "A token is one of the k likeliest; 0: any.", {.min = 0, .max = 1 << 24});
  v.field("context", context, "Tokens that the model sees at most, the last ones; 0: its training length.",
          {.unit = "tokens", .min = 0, .max = 1 << 24});
  v.field("seed", seed, "Of the numbers that tokens are drawn with: the same ones for every model.", {.min = 0});
  model::describe_weights(v, weights);
  v.check(documents > 0 || !prompts.empty(), "no prompt: `prompts` is empty, and `documents` is 0");
}

void SampleConfig::describe(support::FieldVisitor& v) {
  v.group("sample", sample, "Texts that are written.");
  v.group("compute", compute, "How it is computed.");
}

std::int64_t choose_token(std::span<const float> logits, double temperature, std::int64_t top_k, double uniform) {
  if (!std::all_of(logits.begin(), logits.end(), [](float logit) { return std::isfinite(logit); })) {
    throw ArtifactError(
        "the logits of the model are not finite: it has diverged, or its context is too long for its encoding");
  }
  const auto count = std::ssize(logits);
  const auto kept = temperature == 0 ? 1 : top_k == 0 ? count : std::min(top_k, count);
  std::vector<std::int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto logit = [&](std::int64_t id) { return static_cast<double>(logits[static_cast<std::size_t>(id)]); };
  if (kept < count) {
    std::partial_sort(order.begin(), order.begin() + kept, order.end(), [&](std::int64_t a, std::int64_t b) {
      return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
    });
    order.resize(static_cast<std::size_t>(kept));
  }
  if (kept == 1) return order.front();
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> sums;
  sums.reserve(order.size());
  double sum = 0;
  for (const std::int64_t id : order) sums.push_back(sum += std::exp((logit(id) - largest) / temperature));
  const auto at = std::upper_bound(sums.begin(), sums.end(), uniform * sum) - sums.begin();
  return order[static_cast<std::size_t>(std::min(at, kept - 1))];
}

std::vector<GeneratedSample> write_texts(const model::LanguageModel& model, const std::vector<std::int32_t>& prompt,
                                         std::int64_t count, const SampleGroup& group,
                                         std::span<const std::int64_t> ends, std::uint64_t key) {
  const c10::InferenceMode inference;
  const std::int64_t context = group.context > 0 ? group.context : model.config().length;
  std::vector<GeneratedSample> written(static_cast<std::size_t>(count));
  std::vector<support::Xoshiro> random;
  for (std::int64_t i = 0; i < count; ++i) random.emplace_back(support::make_key({key, static_cast<std::uint64_t>(i)}));
  std::vector<std::vector<std::int32_t>> rows(static_cast<std::size_t>(count), prompt);
  for (std::int64_t step = 0; step < group.tokens; ++step) {
    if (support::stop_requested()) throw support::StopRequest(false);
    std::vector<std::size_t> open;  // texts that have not ended
    for (std::size_t i = 0; i < written.size(); ++i) {
      if (!written[i].ended) open.push_back(i);
    }
    if (open.empty()) break;
    const auto length = std::min<std::int64_t>(context, std::ssize(prompt) + step);
    at::Tensor ids = at::empty({std::ssize(open), length}, at::kLong);
    auto* to = ids.mutable_data_ptr<std::int64_t>();
    for (const std::size_t i : open) to = std::copy(rows[i].end() - length, rows[i].end(), to);
    const at::Tensor hidden = model.forward(ids.to(model.device()));
    const at::Tensor logits = model.logits(hidden.select(1, length - 1)).to(at::kCPU).contiguous();
    const std::int64_t vocabulary = logits.size(1);
    const float* values = logits.const_data_ptr<float>();
    for (std::size_t n = 0; n < open.size(); ++n) {
      const std::span<const float> row(values + static_cast<std::int64_t>(n) * vocabulary,
                                       static_cast<std::size_t>(vocabulary));
      GeneratedSample& text = written[open[n]];
      const std::int64_t token = choose_token(row, group.temperature, group.top_k, random[open[n]].uniform());
      text.nll += log_sum_exp(row) - static_cast<double>(row[static_cast<std::size_t>(token)]);
      ++text.drawn;
      text.ended = std::find(ends.begin(), ends.end(), token) != ends.end();
      if (text.ended) continue;
      text.ids.push_back(static_cast<std::int32_t>(token));
      rows[open[n]].push_back(static_cast<std::int32_t>(token));
    }
  }
  return written;
}

double repeated_share(std::span<const std::int32_t> ids) {
  constexpr std::size_t kLength = 4;
  if (ids.size() <= kLength) return 0;
  std::set<std::array<std::int32_t, kLength>> seen;
  const std::size_t count = ids.size() - kLength + 1;
  for (std::size_t i = 0; i < count; ++i) {
    std::array<std::int32_t, kLength> sequence{};
    std::copy_n(ids.begin() + static_cast<std::ptrdiff_t>(i), kLength, sequence.begin());
    seen.insert(sequence);
  }
  return static_cast<double>(count - seen.size()) / static_cast<double>(count);
}

void sample(const SampleConfig& config, artifact::Workspace& workspace) {
  const SampleGroup& group = config.sample;
  support::Progress& progress = *workspace.progress;
  const artifact::Input& model_input = workspace.input("model");
  const artifact::Input& data_input = workspace.input("data");
  const artifact::CheckpointReader checkpoint(model_input.path);
  const data::TokenDataset dataset(data_input.path);
  require_fit(checkpoint, dataset, data_input.path, group.split, progress);
  const std::string weights = model::find_weights(checkpoint, group.weights).prefix;
  const model::ComputeConfig compute = model::resolve(config.compute);
  const model::LanguageModel model =
      model::load_model(checkpoint, model::open_device(compute), model::compute_type(compute), nullptr, weights);
  if (model.config().mask != model::Mask::kCausal || model.config().attend_over_batch) {
    throw ConfigError(
        "this model sees the tokens that it is to predict, or other texts of its batch: it cannot write text", {},
        "sample models that were trained with model.mask: causal");
  }
  tell_tokens(model, dataset, data_input.path);
  const std::int64_t context = group.context > 0 ? group.context : model.config().length;
  if (const auto positions = model.encoding().facts().max_positions; positions && *positions < context) {
    throw ConfigError(cat("sample.context: ", context, " tokens, but the encoding has ", *positions, " positions"), {},
                      cat("set sample.context to at most ", *positions));
  }

  const std::unique_ptr<data::Tokenizer> tokenizer =
      data::make_tokenizer(dataset.tokenizer(), data_input.path.string());
  const auto documents = make_shard_documents(dataset, *tokenizer, group.split);
  const std::optional<std::int32_t> bos = make_codec(*tokenizer, dataset.tokenizer().bos_before_documents)->bos();
  std::vector<std::int64_t> ends;
  if (bos) ends.push_back(*bos);
  if (tokenizer->eos_id() >= 0) ends.push_back(tokenizer->eos_id());
  const std::vector<Prompt> prompts = prompts_of(group, *tokenizer, *documents, bos);

  const auto text_of = [&](std::span<const std::int32_t> ids) { return printable(tokenizer->decode(ids)); };
  schema::Rows rows;
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    const std::vector<std::int32_t>& prompt = prompts[p].ids;
    const std::uint64_t key =
        support::make_key({static_cast<std::uint64_t>(group.seed), support::fnv1a64("sample"), p});
    const std::vector<GeneratedSample> written = write_texts(model, prompt, group.texts, group, ends, key);
    const std::string asked = text_of(std::span(prompt).subspan(bos ? 1 : 0));
    for (std::size_t i = 0; i < written.size(); ++i) {
      const GeneratedSample& text = written[i];
      rows.add(schema::Sample{.prompt_id = prompts[p].name,
                              .text_id = static_cast<std::int64_t>(i),
                              .temperature = group.temperature,
                              .top_k = group.top_k,
                              .prompt = asked,
                              .text = text_of(text.ids),
                              .tokens = std::ssize(text.ids),
                              .ended = text.ended ? 1 : 0,
                              .nll = text.nll / static_cast<double>(text.drawn),
                              .repeated = repeated_share(text.ids)});
    }
    progress.advance("sample", static_cast<std::int64_t>(p) + 1, std::ssize(prompts), Json());
  }

  ModelIdentity identity = identify(checkpoint, model_input, group.weights);
  artifact::Tables tables;
  tables.tables = schema::make_tables(rows, identity.identity);
  tables.facts = std::move(identity.facts);
  tables.facts.update({{"data_digest", dataset.content_digest()},
                       {"tokenizer_digest", dataset.tokenizer_digest()},
                       {"context", context}});
  artifact::write_eval_tables(workspace.output("texts"), workspace.recipe, tables);
}

std::string samples_text(const artifact::Workspace& workspace) {
  const artifact::Tables tables = artifact::read_eval_tables(workspace.output("texts"));
  return artifact::passages_text(tables.at(schema::Sample::kName));
}

}  // namespace pe::evaluation
