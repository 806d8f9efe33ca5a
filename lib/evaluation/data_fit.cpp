#include "evaluation/data_fit.h"

#include "data/tokenizers/token_numbers.h"
#include "encodings/attention/token_reader.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::evaluation {

using support::ArtifactError;
using support::cat;

void require_fit(const artifact::CheckpointReader& model, const data::TokenDataset& dataset,
                 const std::filesystem::path& data, data::Split split, support::Progress& progress) {
  const artifact::CheckpointMeta& meta = model.meta();
  if (meta.tokenizer_digest != dataset.tokenizer_digest()) {
    throw ArtifactError(
        cat(model.path().string(), ": the model was trained with tokenizer ", meta.tokenizer_digest.substr(0, 12),
            ", but ", data.string(), " was made with ", dataset.tokenizer_digest().substr(0, 12)),
        "use token shards of the tokenizer that it was trained with");
  }
  if (split == data::Split::kTrain || meta.data_digest == dataset.content_digest()) return;
  const auto found = dataset.splits().documents[static_cast<std::size_t>(split)].overlap(meta.trained_on);
  if (found.common == 0) return;
  const std::string what = cat(data.string(), ": the model ", model.path().string(), " was trained on ", found.common,
                               " of ", found.compared, " sampled documents of split ", artifact::split_name(split));
  if (100 * found.common <= found.compared) return progress.warn(what);
  throw ArtifactError(
      cat(what, "; its own data was split into ", meta.split_rule.empty() ? "unknown splits" : meta.split_rule,
          "; this data into ", dataset.splits().rule),
      "measure it on data with its own split, or on other text");
}

void tell_tokens(const model::LanguageModel& model, const data::TokenDataset& dataset,
                 const std::filesystem::path& data) {
  encodings::ReadsTokens* reader = encodings::reader_of(model.encoding());
  if (reader != nullptr) reader->read_with(data::token_numbers(reader->reads(), dataset.tokenizer(), data.string()));
}

}  // namespace pe::evaluation
