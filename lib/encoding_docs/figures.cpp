#include "encoding_docs/figures.h"

#include <array>

#include "encoding_docs/example.h"
#include "encodings/attention/attend.h"
#include "support/text.h"

namespace pe::encoding_docs {
namespace {

using at::Tensor;
using encodings::EncodingEntry;
using encodings::Family;
using encodings::PositionalEncoding;
using encodings::Shape;
using encodings::Span;
using report::Panel;
using report::Point;
using report::Series;
using support::cat;

constexpr std::int64_t kHeads = 4, kHeadWidth = 64, kWidth = kHeads * kHeadWidth, kTrainLength = 128, kText = 512;
constexpr std::int64_t kLayers = 3, kLayer = 2;

/// Subject of a figure of an encoding.
enum class Subject { kEmbedding, kPositions, kWeights, kLogits };

Subject subject_of(const EncodingEntry& entry, PositionalEncoding& encoding) {
  const encodings::Traits traits = encoding.traits(Span::whole(1, kTrainLength));
  if (traits.adds_to_tokens) return Subject::kEmbedding;
  if (entry.family == Family::kPositionMap) return Subject::kPositions;
  return traits.normalises ? Subject::kWeights : Subject::kLogits;
}

report::Look look(std::size_t n) {
  static const std::array<report::Look, 4> looks = {{{.colour = "#0072B2"},
                                                     {.colour = "#D55E00", .dash = report::Dash::kDashed},
                                                     {.colour = "#009E73", .dash = report::Dash::kDashDotted},
                                                     {.colour = "#CC79A7", .dash = report::Dash::kDotted}}};
  return looks[n % looks.size()];
}

/// 1, 2, 3, … then about `count` places, evenly on a logarithmic scale, up to `last`.
std::vector<std::int64_t> places(std::int64_t last, int count) {
  std::vector<std::int64_t> out;
  for (int n = 0; n <= count; ++n) {
    const double at = std::exp(std::log(static_cast<double>(last)) * n / count);
    const std::int64_t place = std::llround(at);
    if (out.empty() || place > out.back()) out.push_back(place);
  }
  return out;
}

struct Scene {
  std::unique_ptr<PositionalEncoding> encoding;
  Span span;
  std::int64_t length = kText;
};

Scene scene_of(const EncodingEntry& entry, const Json& config) {
  const Shape shape{.width = kWidth,
                    .layers = kLayers,
                    .query_heads = kHeads,
                    .key_value_heads = kHeads,
                    .head_width = kHeadWidth,
                    .train_length = kTrainLength,
                    .dtype = at::kDouble};
  Scene scene{.encoding = encodings::make_encoding(config, shape)};
  const encodings::Facts facts = scene.encoding->facts();
  if (facts.max_positions) scene.length = std::min(kText, *facts.max_positions);
  scene.span = Span::whole(1, scene.length);
  if (facts.length_dependent) scene.span.pe_len = scene.length;
  return scene;
}

/// [H,T,T]: logits, or weights.
Tensor scores(Scene& scene, bool weights) {
  at::NoGradGuard no_grad;
  encodings::State state = example_pass(*scene.encoding, scene.span);
  encodings::LayerContext context = encodings::layer_context(
      *scene.encoding, state, static_cast<int>(kLayer), named_normals("handbook.x", {1, scene.length, kWidth}));
  const double one = 1 / std::sqrt(std::sqrt(static_cast<double>(kHeadWidth)));  // one²·d_h/√d_h = 1
  const Tensor k = at::full({1, kHeads, scene.length, kHeadWidth}, one, at::kDouble);
  const Tensor q = k.narrow(1, 0, scene.encoding->projected_heads());
  encodings::AttentionMatrices matrices;
  encodings::attend(*scene.encoding, context,
                    {.q = q, .k = k, .v = k, .scale = 1 / std::sqrt(static_cast<double>(kHeadWidth))},
                    {.route = encodings::Route::kReference, .matrices = &matrices});
  return (weights ? matrices.weights : matrices.logits)[0].contiguous();
}

/// [1,T,T]: product of two position vectors over their mean square.
Tensor embedding_products(Scene& scene) {
  at::NoGradGuard no_grad;
  encodings::State state = example_pass(*scene.encoding, scene.span);
  const Tensor pe =
      encodings::add_to_tokens(*scene.encoding, at::zeros({1, scene.length, kWidth}, at::kDouble), state)[0];
  const Tensor products = at::matmul(pe, pe.t());
  const double mean = products.diagonal().mean().item<double>();
  return (products / (mean > 0 ? mean : 1.0)).unsqueeze(0).contiguous();
}

double at3(const Tensor& t, std::int64_t h, std::int64_t i, std::int64_t j) {
  return t.const_data_ptr<double>()[(h * t.size(1) + i) * t.size(2) + j];
}

/// Heads whose scores differ from the scores of every earlier head.
std::vector<std::int64_t> different_heads(const Tensor& scores) {
  std::vector<std::int64_t> out;
  const Tensor shown = scores.masked_fill(scores.isinf(), 0.0);
  for (std::int64_t h = 0; h < scores.size(0); ++h) {
    bool seen = false;
    for (const std::int64_t other : out) seen = seen || at::allclose(shown[h], shown[other], 1e-9, 1e-12);
    if (!seen) out.push_back(h);
  }
  return out;
}

/// Four digits: the last bits differ from machine to machine.
double rounded(double value) {
  if (!std::isfinite(value)) return report::kUnknown;
  if (std::abs(value) < 1e-12) return 0;
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return std::strtod(text, nullptr);
}

Series line(std::string name, std::size_t n, std::vector<Point> points) {
  return {.name = std::move(name), .role = Series::Role::kLine, .look = look(n), .points = std::move(points)};
}

void add_distance_lines(Panel& panel, const Tensor& scores, const std::vector<std::int64_t>& heads, bool by_head) {
  const std::int64_t last = scores.size(1) - 1;
  for (std::size_t n = 0; n < heads.size(); ++n) {
    std::vector<Point> points;
    for (const std::int64_t d : places(last, 120)) {
      const double y = rounded(at3(scores, heads[n], last, last - d));
      points.push_back({.x = static_cast<double>(d), .y = y});
    }
    panel.series.push_back(line(by_head ? cat("head ", heads[n] + 1) : "", n, std::move(points)));
    panel.series.back().labelled = by_head;
  }
}

/// Score of keys at fixed distances, by the query's place.
std::optional<Panel> place_panel(const Tensor& scores, std::int64_t head) {
  Panel panel{.title = "the same distance at other places"};
  double spread = 0, largest = 0;
  std::size_t n = 0;
  for (const std::int64_t d : {1, 16, 64}) {
    std::vector<Point> points;
    double low = 1e300, high = -1e300;
    for (const std::int64_t i : places(scores.size(1) - 1, 120)) {
      if (i < d) continue;
      const double y = at3(scores, head, i, i - d);
      if (!std::isfinite(y)) continue;
      low = std::min(low, y);
      high = std::max(high, y);
      points.push_back({.x = static_cast<double>(i), .y = rounded(y)});
    }
    if (points.size() < 2) continue;
    spread = std::max(spread, high - low);
    largest = std::max({largest, std::abs(low), std::abs(high)});
    panel.series.push_back(line(cat("distance ", d), n++, std::move(points)));
  }
  if (spread <= 1e-6 * std::max(largest, 1e-9)) return std::nullopt;
  return panel;
}

void finish(report::Figure& figure) {
  for (Panel& panel : figure.panels)
    panel.rules.push_back({.at = static_cast<double>(kTrainLength), .label = "training length"});
}

}  // namespace

std::string figure_caption(const EncodingEntry& entry) {
  Scene scene = scene_of(entry, example_config(entry));
  const std::string note = example_note(entry);
  const std::string setting =
      cat("At initial values", note.empty() ? "" : cat(", ", note), ", training length ", kTrainLength, ". ");
  switch (subject_of(entry, *scene.encoding)) {
    case Subject::kEmbedding:
      return cat(setting,
                 "Product of the vectors of two positions, over the mean square of a vector. Left: for the last "
                 "position of a text of ",
                 scene.length, " tokens, against distance. Right: at fixed distances, against the later position.");
    case Subject::kPositions:
      return cat(setting,
                 "Left: how far apart in position two tokens are that stand so many tokens apart. Right: the "
                 "position of each token.");
    case Subject::kWeights:
      return cat(setting, "Weight of each key for the last token of a text of ", scene.length,
                 " tokens, where all logits "
                 "would be 1 without the encoding.");
    case Subject::kLogits:
      return cat(setting, "Logit that the last token of a text of ", scene.length,
                 " tokens gives a key so many tokens "
                 "back, where all logits would be 1 without the encoding.");
  }
  return "";
}

report::Figure encoding_figure(const EncodingEntry& entry) {
  report::Figure figure{
      .id = entry.name,
      .title = entry.name,
      .caption = figure_caption(entry),
      .description = cat("Scores with encoding ", entry.name, " at initial values. ", figure_caption(entry))};
  Scene scene = scene_of(entry, example_config(entry));
  const Subject subject = subject_of(entry, *scene.encoding);
  figure.x = {.title = "distance, tokens", .scale = report::Scale::kLog2, .ticks = report::TickStyle::kCount};
  figure.y = {.title = subject == Subject::kWeights     ? "weight"
                       : subject == Subject::kPositions ? "positions"
                                                        : "logit"};
  if (subject == Subject::kPositions) {
    encodings::Span span = scene.span;
    span.training = !scene.encoding->traits(span).maps_positions;  // some draw in training alone
    encodings::State state = example_pass(*scene.encoding, span);
    Tensor p = encodings::layer_context(*scene.encoding, state, static_cast<int>(kLayer))
                   .positions.to(at::kDouble)
                   .contiguous();
    if (p.dim() == 2) p = p[0];
    const double* values = p.const_data_ptr<double>();
    const std::int64_t last = scene.length - 1;
    std::vector<Point> apart, place;
    for (const std::int64_t d : places(last, 120)) {
      apart.push_back({.x = static_cast<double>(d), .y = values[last] - values[last - d]});
      place.push_back({.x = static_cast<double>(d), .y = values[d]});
    }
    figure.panels = {{.title = "distance in positions"}, {.title = "position by token"}};
    figure.panels[0].series.push_back(line("", 0, std::move(apart)));
    figure.panels[1].series.push_back(line("", 0, std::move(place)));
    for (Panel& panel : figure.panels) panel.series.back().labelled = false;
    finish(figure);
    return figure;
  }
  const Tensor all =
      subject == Subject::kEmbedding ? embedding_products(scene) : scores(scene, subject == Subject::kWeights);
  const std::vector<std::int64_t> heads = different_heads(all);
  figure.panels.push_back({.title = "score against distance"});
  Panel& panel = figure.panels.back();
  if (entry.family == Family::kExtension) {
    Scene plain = scene_of(*encodings::find_encoding("rope"), "rope");
    const Tensor rope = scores(plain, false);
    add_distance_lines(panel, rope, {0}, false);
    panel.series.back().name = "rope";
    panel.series.back().labelled = true;
    panel.series.back().role = Series::Role::kContext;
    add_distance_lines(panel, all, heads, heads.size() > 1);
    if (heads.size() == 1) {
      panel.series.back().name = entry.name;
      panel.series.back().labelled = true;
    }
  } else {
    add_distance_lines(panel, all, heads, heads.size() > 1);
  }
  // Where content moves scores, a panel over places would show the content that happens to be there.
  if (!scene.encoding->facts().content_dependent && subject != Subject::kWeights) {
    if (auto places_panel = place_panel(all, heads.front())) figure.panels.push_back(std::move(*places_panel));
  }
  finish(figure);
  return figure;
}

}  // namespace pe::encoding_docs
