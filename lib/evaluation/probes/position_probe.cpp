// Where in a network can a token's position be read, and how precisely? Each place of the residual stream is read by a
// ridge regression and by a classifier. Controls are a random network, and the trained one on shuffled texts.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "encodings/attention/token_reader.h"
#include "evaluation/items.h"
#include "evaluation/probes/position_reader.h"
#include "evaluation/probes/probe_texts.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

using support::cat;

const std::vector<std::string>& networks() {
  static const std::vector<std::string> names = {"trained", "random", "shuffled"};
  return names;
}
const std::vector<std::string>& methods() {
  static const std::vector<std::string> names = {"ridge", "classifier"};
  return names;
}

class PositionProbe final : public Task {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("sequences", sequences_,
            "Held-out texts of the training length; a third each for training, for choosing λ, and for the test.",
            {.min = 3, .max = 100000, .neutral = Json(64)});
    v.field("rows", rows_, "Positions of a text that are used, drawn for each text; all where there are fewer.",
            {.unit = "tokens", .min = 8, .neutral = Json(256)});
    v.field("networks", networks_,
            "trained; random, with the same encoding and initial weights of another seed; shuffled, the trained one on "
            "texts "
            "whose tokens are in another order.",
            {.neutral = Json(networks())});
    v.field("methods", methods_, "ridge is regression in closed form; classifier is a network over 64 bins.",
            {.neutral = Json(methods())});
    v.field("steps", steps_, "Steps of the classifier.", {.min = 1, .max = 1e7, .neutral = Json(2000)});
    v.field("batch", batch_, "Tokens of a step of the classifier.", {.min = 1, .max = 1 << 20, .neutral = Json(4096)});
    for (const std::string& name : networks_) {
      v.check(std::find(networks().begin(), networks().end(), name) != networks().end(),
              cat("unknown network ", support::quote(name), "; ", support::suggestion(name, networks())));
    }
    for (const std::string& name : methods_) {
      v.check(std::find(methods().begin(), methods().end(), name) != methods().end(),
              cat("unknown method ", support::quote(name), "; ", support::suggestion(name, methods())));
    }
  }

  void run(TaskContext& context) const override {
    const model::LanguageModel& model = probed_model(context);
    const std::int64_t length = model.config().length;
    const ProbeLengths lengths = probe_lengths(context, {length}, sequences_, [&](std::int64_t, const char* why) {
      context.results.add_row(
          schema::ProbePosition{.corpus = context.documents.split(), .length = length, .status = why});
    });
    if (lengths.live.empty()) return;
    const auto texts = probe_texts(context.documents, length, length, sequences_, context.text.bos());
    if (texts.size() < 3) {
      context.results.add_row(
          schema::ProbePosition{.corpus = context.documents.split(), .length = length, .status = status::kSkipped});
      return;
    }
    for (const std::string& network : networks_) {
      std::optional<model::LanguageModel> other;  // made where it is needed
      const auto places = static_cast<std::size_t>(model.config().layers) + 1;
      std::vector<std::vector<at::Tensor>> kept;  // [place][text]: [rows, d]
      std::vector<std::vector<std::int64_t>> positions;
      for (std::size_t place = 0; place < places; ++place) {
        context.results.item(cat("position_probe/", network, "/", place), [&] {
          if (kept.empty()) {
            if (network == "random") {
              other =
                  model::LanguageModel::make(model.config(), model.config().vocabulary,
                                             model.seed() ^ 0x9E3779B97F4A7C15U, model.device(), model.compute_dtype());
              encodings::read_alike(other->encoding(), model.encoding());
            }
            read_places(context, other ? *other : model, shuffled(texts, network), kept, positions);
          }
          return at_place(context, network, place, length, kept[place], positions);
        });
      }
      context.progress.note(cat("position_probe: ", network, " is done"));
    }
  }

 private:
  static std::vector<TokenIds> shuffled(std::vector<TokenIds> texts, const std::string& network) {
    if (network != "shuffled") return texts;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      support::Xoshiro random(probe_key("position_probe.shuffled", static_cast<std::int64_t>(texts[i].size()),
                                        static_cast<std::int64_t>(i)));
      random.shuffle(texts[i]);
    }
    return texts;
  }

  /// The residual stream of each text at the positions that are drawn for it.
  void read_places(TaskContext& context, const model::LanguageModel& model, const std::vector<TokenIds>& texts,
                   std::vector<std::vector<at::Tensor>>& kept,
                   std::vector<std::vector<std::int64_t>>& positions) const {
    const auto length = static_cast<std::int64_t>(texts.front().size());
    std::vector<at::Tensor> drawn;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      support::Xoshiro random(probe_key("position_probe.rows", length, static_cast<std::int64_t>(i)));
      std::vector<std::int64_t> rows;
      for (const std::uint64_t row :
           random.sample(static_cast<std::uint64_t>(length), static_cast<std::uint64_t>(std::min(rows_, length)))) {
        rows.push_back(static_cast<std::int64_t>(row));
      }
      std::sort(rows.begin(), rows.end());
      at::Tensor index = at::empty({static_cast<std::int64_t>(rows.size())}, at::kLong);
      std::copy(rows.begin(), rows.end(), index.mutable_data_ptr<std::int64_t>());
      drawn.push_back(index.to(model.device()));
      positions.push_back(std::move(rows));
    }
    kept.assign(static_cast<std::size_t>(model.config().layers) + 1, {});
    std::int64_t begins = 0;
    model::Hooks hooks;
    hooks.residual = [&](std::int64_t place, const at::Tensor& x) {
      for (std::int64_t b = 0; b < x.size(0); ++b) {
        kept[static_cast<std::size_t>(place)].push_back(
            x[b].index_select(0, drawn[static_cast<std::size_t>(begins + b)]).to(at::kFloat).to(at::kCPU));
      }
    };
    in_batches(model, texts, context.settings.batch_tokens, [&](std::int64_t first, const at::Tensor& ids) {
      begins = first;
      forward_with_hooks(model, ids, first, hooks);
    });
  }

  schema::Rows at_place(TaskContext& context, const std::string& network, std::size_t place, std::int64_t length,
                        const std::vector<at::Tensor>& texts,
                        const std::vector<std::vector<std::int64_t>>& positions) const {
    const std::size_t third = texts.size() / 3;
    const auto part = [&](std::size_t begin, std::size_t end) {
      PositionedVectors of;
      std::vector<std::int64_t> all;
      for (std::size_t i = begin; i < end; ++i) all.insert(all.end(), positions[i].begin(), positions[i].end());
      of.x = at::cat(std::vector<at::Tensor>(texts.begin() + static_cast<std::ptrdiff_t>(begin),
                                             texts.begin() + static_cast<std::ptrdiff_t>(end)));
      of.position = at::empty({static_cast<std::int64_t>(all.size())}, at::kDouble);
      std::copy(all.begin(), all.end(), of.position.mutable_data_ptr<double>());
      return of;
    };
    const PositionedVectors test = part(0, third), validation = part(third, 2 * third),
                            train = part(2 * third, texts.size());
    const double half = static_cast<double>(length) / 2, whole = static_cast<double>(length);
    schema::Rows rows;
    const auto add = [&](const std::string& method, const char* range, std::int64_t trained, const ReaderScore& score) {
      const bool fine = std::isfinite(score.r2) && std::isfinite(score.mad);
      // A constant guess of the middle of all positions misses them by a quarter of the length.
      rows.add(schema::ProbePosition{.corpus = context.documents.split(),
                                     .length = length,
                                     .place = static_cast<std::int64_t>(place),
                                     .network = network,
                                     .method = method,
                                     .tested = range,
                                     .n_train = trained,
                                     .n_test = score.tested,
                                     .lambda = score.lambda,
                                     .r2 = score.r2,
                                     .mad = score.mad,
                                     .mad_centre = whole / 4,
                                     .status = fine ? status::kOk : status::kOverflow});
    };
    for (const std::string& method : methods_) {
      if (method == "ridge") {
        add(method, "all", train.x.size(0), read_by_ridge(train, validation, test, length));
        const PositionedVectors near = train.between(0, half);
        add(method, "second_half", near.x.size(0),
            read_by_ridge(near, validation.between(0, half), test.between(half, whole), length));
      } else {
        const ClassifierOptions options{.steps = steps_, .batch = batch_};
        const std::uint64_t key = probe_key("position_probe.classifier", length, static_cast<std::int64_t>(place));
        add(method, "all", train.x.size(0), read_by_classifier(train, test, length, options, key));
      }
    }
    return rows;
  }

  std::int64_t sequences_ = 64;
  std::int64_t rows_ = 256;
  std::vector<std::string> networks_ = networks();
  std::vector<std::string> methods_ = methods();
  std::int64_t steps_ = 2000;
  std::int64_t batch_ = 4096;
};

}  // namespace

TaskEntry position_probe_task() {
  return {.name = "position_probe",
          .summary =
              "Probe: where in the network positions can be read, compared with a random network and "
              "shuffled texts.",
          .tables = {"probe_position"},
          .make = make_task<PositionProbe>};
}

}  // namespace pe::evaluation
