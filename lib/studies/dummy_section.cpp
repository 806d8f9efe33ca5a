// Structured rows (pe-dummy): losses over depth and epochs with exact floors and the published grid, and a map of each
// encoding. configs/claims/dummy.yml has the claims that the published grid supports.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>

#include "report/sections/section.h"
#include "schema/status.h"
#include "schema/structured_rows.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

// Of the rows: 71 of them, 64 targets each, of which 56 are padding. studies/dummy_rows.h derives them, and a test
// counts.
const double kBase = std::log(71.0), kPositionWise = 2 * kBase / 64, kCausal = kBase / 64;
constexpr double kMarginal = 0.846567;

/// Test losses in RanMo1990/PositionalEncodingExample, one seed, after 1, 4 and 16 epochs.
struct PublishedLosses {
  const char* encoding;
  std::int64_t depth;
  std::array<double, 3> losses;
};
constexpr PublishedLosses kPublished[] = {
    {"sinusoidal", 1, {.7871, .3949, .1488}},  {"sinusoidal", 4, {.6835, .3223, .1410}},
    {"sinusoidal", 16, {.6664, .4399, .4147}}, {"sininit", 1, {.7122, .3726, .1450}},
    {"sininit", 4, {.6249, .2809, .1414}},     {"sininit", 16, {.6069, .4416, .3922}},
    {"learned", 1, {.7194, .3298, .1471}},     {"learned", 4, {.6684, .3388, .1420}},
    {"learned", 16, {.5997, .4335, .3359}},    {"rope", 1, {.9259, .5937, .4204}},
    {"rope", 4, {1.1675, .5025, .5285}},       {"rope", 16, {.8959, .8496, .8483}},
    {"lrope", 1, {.8761, .5821, .2899}},       {"lrope", 4, {.9803, .5273, .4717}},
    {"lrope", 16, {.9537, .8506, .8494}}};

std::optional<double> published(const std::string& encoding, std::int64_t depth, std::int64_t epochs) {
  for (const PublishedLosses& row : kPublished) {
    if (row.encoding != encoding || row.depth != depth) continue;
    return epochs == 1    ? row.losses[0]
           : epochs == 4  ? row.losses[1]
           : epochs == 16 ? std::optional(row.losses[2])
                          : std::nullopt;
  }
  return std::nullopt;
}

/// An encoding in a network of some depth; lines are compared.
struct Line {
  std::string encoding, network;
  std::int64_t depth = 0;
  bool operator==(const Line&) const = default;
};

/// A row of a table of the study, of which run.
template <typename Table>
struct OfRun : Table {
  std::size_t run = 0;
  std::string seed_name() const { return this->seed ? cat(*this->seed) : ""; }
};
using Losses = OfRun<schema::DummyGrid>;
using TargetLoss = OfRun<schema::DummyTargets>;

class Grid {
 public:
  explicit Grid(const Results& results) : results_(results) {
    read(losses_);
    read(targets_);
  }

  bool empty() const { return losses_.empty(); }
  std::vector<std::string> modes() const {
    std::vector<std::string> found;
    for (const Losses& row : losses_) add(found, row.mode);
    return found;
  }
  std::vector<Line> lines(const std::string& mode) const {
    std::vector<Line> found;
    for (const Losses& row : losses_) {
      if (row.mode == mode) add(found, line_of(row));
    }
    std::stable_sort(found.begin(), found.end(), [](const Line& a, const Line& b) {
      return std::tie(a.network, a.depth) < std::tie(b.network, b.depth);
    });
    return found;
  }
  std::set<std::int64_t> epochs(const std::string& mode) const {
    std::set<std::int64_t> found;
    for (const Losses& row : losses_) {
      if (row.mode == mode) found.insert(row.epochs);
    }
    return found;
  }
  std::set<std::string> seeds() const {
    std::set<std::string> found;
    for (const Losses& row : losses_) found.insert(row.seed_name());
    return found;
  }
  /// One number a seed, in the order of the seeds' names.
  template <typename Of>
  std::map<std::string, double> by_seed(const std::string& mode, const Line& line, std::int64_t epochs,
                                        const Of& of) const {
    std::map<std::string, double> found;
    for (const Losses& row : losses_) {
      if (row.mode == mode && row.epochs == epochs && line_of(row) == line) found[row.seed_name()] = of(row);
    }
    return found;
  }
  std::map<std::string, double> target(const std::string& mode, const Line& line, std::int64_t epochs,
                                       const std::string& variant, const std::string& name, double TargetLoss::*of,
                                       std::string* status) const {
    std::map<std::string, double> found;
    for (const TargetLoss& row : targets_) {
      if (row.mode != mode || row.epochs != epochs || row.variant != variant || line_of(row) != line) continue;
      if (!row.status.empty() && row.status != schema::status::kOk) *status = row.status;
      if (row.target == name) found[row.seed_name()] = row.*of;
    }
    return found;
  }
  /// A row of a table with the runs of a line.
  Row row_of(const std::string& mode, const Line& line) const {
    std::set<std::size_t> runs;
    std::set<std::string> variants;
    for (const Losses& row : losses_) {
      if (row.mode != mode || line_of(row) != line) continue;
      runs.insert(row.run);
      variants.insert(results_.runs[row.run].variant);
    }
    return {.cells = {Cell::of_text(line.encoding), Cell::of_text(line.network),
                      Cell::of_number(static_cast<double>(line.depth))},
            .variant = variants.size() == 1 ? *variants.begin() : "",
            .runs = std::vector(runs.begin(), runs.end())};
  }
  std::vector<std::string> variants(const std::string& mode) const {
    std::vector<std::string> found;
    for (const TargetLoss& row : targets_) {
      if (row.mode == mode) add(found, row.variant);
    }
    return found;
  }
  /// The headline losses of a mode by network and encoding, then by depth and epochs.
  auto maps(const std::string& mode) const {
    std::map<std::pair<std::string, std::string>, std::map<std::pair<std::int64_t, std::int64_t>, std::vector<double>>>
        maps;
    for (const Losses& row : losses_) {
      if (row.mode == mode)
        maps[{row.network, results_.runs[row.run].encoding}][{row.depth, row.epochs}].push_back(row.loss_headline);
    }
    return maps;
  }

 private:
  template <typename Table>
  void read(std::vector<OfRun<Table>>& rows) {
    each_row<Table>(results_, [&](std::size_t run, const Table& row) { rows.push_back({row, run}); });
  }
  template <typename Row>
  Line line_of(const Row& row) const {
    return {results_.runs[row.run].encoding, row.network, row.depth};
  }
  template <typename T>
  static void add(std::vector<T>& list, const T& item) {
    if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
  }
  const Results& results_;
  std::vector<Losses> losses_;
  std::vector<TargetLoss> targets_;
};

std::vector<double> values_of(const std::map<std::string, double>& by_seed) {
  std::vector<double> values;
  for (const auto& [seed, value] : by_seed) values.push_back(value);
  return values;
}

Cell cell_of(const std::vector<double>& values, const std::string& status = "not_measured") {
  if (values.empty()) return Cell::missing(mark_of(status), reason_of(status));
  const statistics::SeedSummary summary = statistics::summarise_seeds(values);
  Cell cell = Cell::of_number(summary.mean);
  if (std::isfinite(summary.half_width))
    cell.half_width = summary.half_width;
  else if (values.size() == 2)
    cell.parts = values;
  return cell;
}

std::vector<Column> line_columns() {
  return {{.id = "encoding", .header = "Encoding", .text = true},
          {.id = "network", .header = "Network", .text = true},
          {.id = "depth", .header = "Layers", .style = NumberStyle::kCount}};
}

double headline(const Losses& row) { return row.loss_headline; }

bool is_hard(const std::string& mode) { return mode.rfind("hard", 0) == 0; }

std::string scored(const std::string& mode) {
  if (mode == "seed") return "all 64 targets of a row, padding and the wrap-around target among them, as published";
  if (is_hard(mode)) return "targets that earlier tokens determine, on progressions that training never shows";
  return "the targets of positions 1 to 6, which earlier tokens determine";
}

Table losses_table(const Grid& grid, const std::string& mode, const std::string& seeds) {
  Table table{.id = cat("dummy_", mode),
              .title = cat("Structured sequences, mode ", mode, ": loss over depth and epochs")};
  table.columns = line_columns();
  const auto epochs = grid.epochs(mode);
  for (const std::int64_t count : epochs) {
    table.columns.push_back({.id = cat("loss_", count),
                             .header = cat(count),
                             .group = "nats a target, after epochs",
                             .direction = Direction::kLowerIsBetter});
  }
  if (mode == "seed") {
    for (const std::int64_t count : epochs) {
      table.columns.push_back({.id = cat("published_", count), .header = cat(count), .group = "published (one seed)"});
    }
  }
  std::string network;
  for (const Line& line : grid.lines(mode)) {
    Row row = grid.row_of(mode, line);
    row.rule_above = !network.empty() && network != line.network;
    network = line.network;
    for (const std::int64_t count : epochs) {
      row.cells.push_back(cell_of(values_of(grid.by_seed(mode, line, count, headline))));
    }
    if (mode == "seed") {
      for (const std::int64_t count : epochs) {
        const auto number = published(line.encoding, line.depth, count);
        row.cells.push_back(number ? Cell::of_number(*number) : Cell::missing("–", "the source has no such cell"));
      }
    }
    table.rows.push_back(std::move(row));
  }
  table.caption = cat("Mean over ", scored(mode), ". ",
                      join_as_sentence({seeds, "± is the 95 % t interval over seeds, from three on"}));
  if (mode == "seed") {
    table.caption +=
        cat(" No predictor that sees one token at a time gets below ", format_number(kPositionWise, NumberStyle::kNats),
            ", causal attention not below ", format_number(kCausal, NumberStyle::kNats),
            "; token frequencies alone give ", format_number(kMarginal, NumberStyle::kNats), ".");
  }
  return table;
}

Table targets_table(const Grid& grid, const std::string& mode) {
  const std::int64_t last = *grid.epochs(mode).rbegin();
  Table table{.id = cat("dummy_targets_", mode),
              .title = cat("Structured sequences, mode ", mode, ": which targets are learned")};
  table.columns = line_columns();
  struct Measure {
    const char* id;
    const char* header;
    double (*of)(const Losses&);
  };
  const Measure measures[] = {{"start", "START → a", [](const Losses& c) { return c.loss_pos[0]; }},
                              {"middle", "MIDDLE → a+3", [](const Losses& c) { return c.loss_pos[4]; }},
                              {"determined", "positions 1–6", [](const Losses& c) { return c.det_loss; }},
                              {"all", "all", [](const Losses& c) { return c.loss_all; }},
                              {"wrap", "last → START", [](const Losses& c) { return c.loss_pos63; }}};
  for (const Measure& measure : measures) {
    if (mode != "seed" && std::string_view(measure.id) == "wrap") continue;
    table.columns.push_back({.id = measure.id, .header = measure.header, .direction = Direction::kLowerIsBetter});
  }
  for (const Line& line : grid.lines(mode)) {
    Row row = grid.row_of(mode, line);
    for (const Measure& measure : measures) {
      if (mode != "seed" && std::string_view(measure.id) == "wrap") continue;
      row.cells.push_back(cell_of(values_of(grid.by_seed(mode, line, last, measure.of))));
    }
    table.rows.push_back(std::move(row));
  }
  table.caption = cat("Nats after ", last,
                      " epochs. Nothing tells a after START: ln 71 = ", format_number(kBase, NumberStyle::kNats),
                      " is the floor there. After MIDDLE earlier tokens determine a+3, for a network that sees them.");
  return table;
}

/// Mode hard: the determined targets on unseen progressions: plain, moved along and longer; paired with the
/// baseline.
Table hard_table(const Grid& grid, const std::string& mode, const std::string& baseline) {
  const std::int64_t last = *grid.epochs(mode).rbegin();
  Table table{.id = cat("dummy_targets_", mode),
              .title = cat("Structured sequences, mode ", mode, ": unseen progressions")};
  table.columns = line_columns();
  const auto variants = grid.variants(mode);
  for (const std::string& variant : variants) {
    table.columns.push_back({.id = cat("det_", variant),
                             .header = variant,
                             .group = "determined targets, nats",
                             .direction = Direction::kLowerIsBetter});
  }
  table.columns.push_back({.id = "accuracy",
                           .header = "plain",
                           .group = "right, %",
                           .style = NumberStyle::kPercent,
                           .direction = Direction::kHigherIsBetter});
  table.columns.push_back({.id = "first", .header = "first", .group = "other targets, nats"});
  table.columns.push_back({.id = "step", .header = "step", .group = "other targets, nats"});
  table.columns.push_back({.id = "difference",
                           .header = cat("against ", baseline),
                           .group = "determined, plain",
                           .style = NumberStyle::kSignedNats});
  for (const Line& line : grid.lines(mode)) {
    Row row = grid.row_of(mode, line);
    const auto of = [&](const Line& of_line, const std::string& variant, const std::string& target,
                        double TargetLoss::*member) {
      std::string status = "not_measured";
      auto found = grid.target(mode, of_line, last, variant, target, member, &status);
      return std::pair(std::move(found), status);
    };
    for (const std::string& variant : variants) {
      const auto [found, status] = of(line, variant, "det", &TargetLoss::loss);
      row.cells.push_back(cell_of(values_of(found), status));
    }
    row.cells.push_back(cell_of(values_of(of(line, "plain", "det", &TargetLoss::acc).first)));
    for (const char* target : {"first", "step"}) {
      row.cells.push_back(cell_of(values_of(of(line, "plain", target, &TargetLoss::loss).first)));
    }
    std::vector<double> ours, theirs;
    const auto own = of(line, "plain", "det", &TargetLoss::loss).first;
    for (const auto& [seed, value] :
         of({baseline, line.network, line.depth}, "plain", "det", &TargetLoss::loss).first) {
      if (const auto same = own.find(seed); same != own.end()) {
        ours.push_back(same->second);
        theirs.push_back(value);
      }
    }
    const statistics::SeedPairs pairs = statistics::paired_seeds(ours, theirs);
    Cell difference = pairs.seeds == 0 || line.encoding == baseline
                          ? Cell::missing("–", line.encoding == baseline ? "it is the baseline" : "no seed has both")
                          : Cell::of_number(pairs.delta);
    if (difference.number && std::isfinite(pairs.interval.low)) difference.interval = pairs.interval;
    row.cells.push_back(std::move(difference));
    table.rows.push_back(std::move(row));
  }
  table.caption = cat(
      "After ", last,
      " epochs, on progressions that training never shows; shift_N: all positions moved along by N; long: ",
      "longer continuations than any in training. Floors: first ", format_number(std::log(100.0), NumberStyle::kNats),
      ", step ", format_number(std::log(5.0), NumberStyle::kNats), ", determined 0. Differences are paired by seed; ",
      "brackets: 95 % t interval, from three seeds on.");
  return table;
}

Figure losses_figure(const Grid& grid, const std::string& mode, Palette& palette) {
  Figure figure{.id = cat("dummy_", mode),
                .title = cat("Structured sequences, mode ", mode),
                .x = {.title = "Epochs", .scale = Scale::kLog2, .ticks = TickStyle::kCount},
                .y = {.title = "Loss, nats a target"}};
  figure.y.low = 0;
  std::vector<std::pair<std::string, std::int64_t>> panels;
  const auto lines = grid.lines(mode);
  for (const Line& line : lines) {
    const std::pair key(line.network, line.depth);
    if (std::find(panels.begin(), panels.end(), key) == panels.end()) panels.push_back(key);
  }
  for (const auto& [network, depth] : panels) {
    Panel panel{.title = cat(in_words(network), ", ", depth, depth == 1 ? " layer" : " layers")};
    if (mode == "seed") {
      panel.rules.push_back({false, kPositionWise, "no view of other tokens"});
      panel.rules.push_back({false, kMarginal, "frequencies alone"});
    }
    for (const Line& line : lines) {
      if (line.network != network || line.depth != depth) continue;
      std::vector<double> xs;
      std::set<std::string> seeds;
      for (const std::int64_t epochs : grid.epochs(mode)) {
        for (const auto& [seed, value] : grid.by_seed(mode, line, epochs, headline)) seeds.insert(seed);
      }
      std::vector<std::vector<double>> values(seeds.size());
      for (const std::int64_t epochs : grid.epochs(mode)) {
        const auto found = grid.by_seed(mode, line, epochs, headline);
        if (found.empty()) continue;
        xs.push_back(static_cast<double>(epochs));
        std::size_t s = 0;
        for (const std::string& seed : seeds) {
          const auto at = found.find(seed);
          values[s++].push_back(at == found.end() ? std::numeric_limits<double>::quiet_NaN() : at->second);
        }
      }
      if (xs.empty()) continue;
      add_arm_series(panel, Arm{line.encoding, "", {}}, palette.look(line.encoding), {seeds.begin(), seeds.end()}, xs,
                     values, [](double v) { return v; });
    }
    if (!panel.series.empty()) figure.panels.push_back(std::move(panel));
  }
  figure.caption =
      cat("Mean over ", scored(mode),
          ". Thick: mean over seeds; thin: single seeds; band: 95 % t interval, from three seeds on.",
          mode == "seed" ? " Lines across: the exact floors of predictors that see one token, or none." : "");
  figure.description =
      cat("Line charts of loss against epochs, one for each network and depth. The values are in the table.");
  return figure;
}

/// Loss by depth and epochs, a map for each encoding and network; without an id where there is one number.
Figure map_figure(const Grid& grid, const std::string& mode) {
  const auto maps = grid.maps(mode);
  std::set<std::int64_t> depths;
  const std::set<std::int64_t> epochs = grid.epochs(mode);
  for (const Line& line : grid.lines(mode)) depths.insert(line.depth);
  if (depths.size() < 2 && epochs.size() < 2) return {};  // one number is no map
  Figure figure{.id = cat("dummy_", mode, "_map"),
                .title = cat("Loss by depth and epochs, mode ", mode),
                .kind = Figure::Kind::kHeatMap,
                .x = {.title = "Epochs"},
                .y = {.title = "Layers"},
                .columns = 3};
  const std::vector<std::int64_t> columns(epochs.begin(), epochs.end()), rows(depths.begin(), depths.end());
  for (const std::int64_t count : columns) figure.x_names.push_back(cat(count));
  for (const std::int64_t depth : rows) figure.y_names.push_back(cat(depth));
  std::size_t fewest = 0, most = 0;
  double low = INFINITY, high = -INFINITY;
  for (const auto& [of, cells] : maps) {
    Panel panel{.title = maps.size() > 1 ? cat(of.second, ", ", in_words(of.first)) : of.second, .encoding = of.second};
    for (const auto& [at, losses] : cells) {
      const double mean = statistics::summarise_seeds(losses).mean;
      fewest = fewest == 0 ? losses.size() : std::min(fewest, losses.size());
      most = std::max(most, losses.size());
      HeatCell cell{.column = static_cast<int>(std::find(columns.begin(), columns.end(), at.second) - columns.begin()),
                    .row = static_cast<int>(std::find(rows.begin(), rows.end(), at.first) - rows.begin()),
                    .value = std::isfinite(mean) ? mean : kUnknown,
                    .text = std::isfinite(mean) ? heat_text(mean) : "n/a"};
      if (std::isfinite(mean)) {
        low = std::min(low, mean);
        high = std::max(high, mean);
      }
      panel.cells.push_back(std::move(cell));
    }
    figure.panels.push_back(std::move(panel));
  }
  figure.heat_low = std::isfinite(low) ? std::floor(10 * low) / 10 : 0;
  figure.heat_high = std::isfinite(high) ? std::max(figure.heat_low + 0.1, std::ceil(10 * high) / 10) : 1;
  figure.heat_title = "nats";
  figure.caption = cat("Test loss in nats per target, mean over ",
                       fewest == most ? cat(most, most == 1 ? " seed" : " seeds") : cat(fewest, " to ", most, " seeds"),
                       "; one colour scale for all panels. Panels of one network may be compared with each other.");
  figure.description =
      "Heat maps of loss by number of layers and of epochs, one for each encoding and network; the values are in the "
      "table.";
  return figure;
}

}  // namespace

Section dummy_section(const Results& results, Palette& palette) {
  Section section{.id = "dummy", .title = "Structured sequences"};
  const Grid grid(results);
  if (grid.empty()) return section;
  const std::set<std::string> seeds = grid.seeds();
  const std::string of_seeds = cat(seeds.size(), seeds.size() == 1 ? " seed (" : " seeds (",
                                   support::join(std::vector<std::string>(seeds.begin(), seeds.end()), ", "), ").");
  section.paragraphs.push_back(
      "START, a short progression, MIDDLE, its continuation, END. Networks that end in “over_batch” attend over the "
      "rows of a batch and "
      "never within a row; “bare” ones are attention without residual sums, norms and feed-forward. Compare encodings "
      "within a network only.");
  for (const std::string& mode : grid.modes()) {
    section.figures.push_back(losses_figure(grid, mode, palette));
    section.tables.push_back(losses_table(grid, mode, of_seeds));
    section.tables.push_back(is_hard(mode) ? hard_table(grid, mode, results.baseline) : targets_table(grid, mode));
  }
  for (const std::string& mode : grid.modes()) {
    if (Figure map = map_figure(grid, mode); !map.id.empty()) section.figures.push_back(std::move(map));
  }
  return section;
}

}  // namespace pe::report
