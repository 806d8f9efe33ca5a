#include "report/results/results.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "artifact/eval_table.h"
#include "artifact/h5.h"
#include "artifact/header.h"
#include "artifact/metrics.h"
#include "artifact/missing_input.h"
#include "report/results/arms.h"
#include "report/results/drops.h"
#include "report/results/evaluations.h"
#include "report/results/rows.h"
#include "report/results/training_curves.h"
#include "report/text_escape.h"
#include "schema/algorithmic.h"
#include "schema/ideal_reader.h"
#include "schema/metrics.h"
#include "schema/retrieval.h"
#include "schema/status.h"
#include "schema/structured_rows.h"
#include "schema/tables.h"
#include "statistics/estimates.h"
#include "support/error.h"
#include "support/missing.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;
using support::kMissing;

std::string label_of(const Labels& labels, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const auto found = labels.find(name); found != labels.end()) return found->second;
  }
  return "";
}

// The axes, besides encoding and seed, that tell these runs apart, in a fixed order: who made it first.
std::vector<std::string> telling_axes(const std::vector<const Labels*>& all, const std::vector<std::string>& chosen) {
  std::map<std::string, std::set<std::string>> values;
  for (const Labels* labels : all) {
    for (const auto& [axis, label] : *labels) values[axis].insert(label);
  }
  std::vector<std::string> axes;
  for (const auto& [axis, labels] : values) {
    if (axis == "encoding" || axis == "pe" || axis == "seed") continue;
    if (std::find(chosen.begin(), chosen.end(), axis) != chosen.end()) continue;
    bool everywhere = true;
    for (const Labels* own : all) everywhere = everywhere && own->count(axis) != 0;
    if (labels.size() > 1 || !everywhere) axes.push_back(axis);
  }
  const auto rank = [](const std::string& axis) { return axis == "stage" ? 0 : axis == "from" ? 1 : 2; };
  std::stable_sort(axes.begin(), axes.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return axes;
}

std::string variant_of(const Labels& labels, const std::vector<std::string>& axes) {
  std::vector<std::string> parts;
  for (const std::string& axis : axes) {
    if (const auto found = labels.find(axis); found != labels.end()) parts.push_back(label_text(axis, found->second));
  }
  return support::join(parts, ", ");
}

void append_unique(std::vector<std::string>& list, const std::string& item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

// Tables of one name from several artifacts as one CSV, with the artifacts' labels in front. Rows become text when they
// are added, since tables take many times the memory. Labels and columns that only later artifacts have are added where
// the file is rendered.
class DataFiles {
 public:
  void add(const std::string& name, const artifact::Table& table, const Labels& labels) {
    const auto [at, fresh] = files_.try_emplace(name);
    if (fresh) order_.push_back(name);
    File& file = at->second;
    for (const auto& [axis, label] : labels) append_unique(file.axes, axis);
    for (const artifact::ColumnSpec& column : table.columns()) append_unique(file.columns, column.name);
    Part part{.labels = labels, .columns = file.columns.size()};
    std::vector<std::optional<std::size_t>> places;
    for (const std::string& column : file.columns) places.push_back(table.find_column(column));
    for (std::size_t row = 0; row < table.rows(); ++row) {
      for (std::size_t i = 0; i < places.size(); ++i) {
        part.rows += i ? "," : "";
        if (!places[i] || table.missing(row, *places[i])) continue;
        const artifact::Cell cell = table.cell(row, *places[i]);
        if (const auto* whole = std::get_if<std::int64_t>(&cell.value())) part.rows += std::to_string(*whole);
        if (const auto* real = std::get_if<double>(&cell.value())) part.rows += support::shortest(*real);
        if (const auto* words = std::get_if<std::string>(&cell.value())) part.rows += quote_csv(*words);
      }
      part.ends.push_back(part.rows.size());
    }
    part.rows.shrink_to_fit();
    file.parts.push_back(std::move(part));
  }

  /// Takes the files.
  std::vector<std::pair<std::string, std::string>> render() && {
    std::vector<std::pair<std::string, std::string>> result;
    for (const std::string& name : order_) {
      const File file = std::move(files_.at(name));
      std::vector<std::string> header;
      for (const std::string& axis : file.axes) header.push_back(quote_csv("label_" + axis));
      for (const std::string& column : file.columns) header.push_back(quote_csv(column));
      std::string text = support::join(header, ",") + "\r\n";
      std::vector<std::string> fronts;
      std::size_t size = text.size();
      for (const Part& part : file.parts) {
        fronts.emplace_back();
        for (const std::string& axis : file.axes)
          fronts.back() += quote_csv(label_of(part.labels, {axis.c_str()})) + ",";
        size += part.rows.size() + part.ends.size() * (fronts.back().size() + file.columns.size() - part.columns + 2);
      }
      text.reserve(size);
      for (std::size_t p = 0; p < file.parts.size(); ++p) {
        const Part& part = file.parts[p];
        std::size_t begin = 0;
        for (const std::size_t end : part.ends) {
          text += fronts[p];
          text.append(part.rows, begin, end - begin);
          text.append(file.columns.size() - part.columns, ',');
          text += "\r\n";
          begin = end;
        }
      }
      result.emplace_back(name + ".csv", std::move(text));
    }
    return result;
  }

 private:
  struct Part {
    Labels labels;
    std::size_t columns = 0;  ///< that the file had when it came
    std::string rows;         ///< one after the other, without what ends them
    std::vector<std::size_t> ends = {};
  };
  struct File {
    std::vector<std::string> axes, columns;
    std::vector<Part> parts;
  };
  std::map<std::string, File> files_;
  std::vector<std::string> order_;
};

std::string pe_of(const Json& facts) {
  if (const auto found = facts.find("pe"); found != facts.end() && found->is_string()) return found->get<std::string>();
  const auto encoding = facts.find("encoding");
  if (encoding == facts.end() || !encoding->is_object()) return "";
  const auto kind = encoding->find("kind");
  return kind != encoding->end() && kind->is_string() ? kind->get<std::string>() : "";
}

/// Tables whose rows are cells and trials of the results: only claims, which name any table, read them again.
const std::set<std::string> kHeldOtherwise{"lm_summary", "lm_doc", "retrieval_trial", "retrieval_summary",
                                           "algo_summary"};

template <typename T, typename Use>
void each_row(const artifact::Tables& tables, const std::string& where, const Use& use) {
  const artifact::Table* table = tables.find(T::kName);
  if (table == nullptr) return;
  const schema::Reader<T> reader(*table, cat(where, ": ", T::kName));
  for (std::size_t row = 0; row < reader.rows(); ++row) use(reader.row(row));
}

std::string status_of(const std::string& status) { return status.empty() ? schema::status::kOk : status; }

void read_lm(const artifact::Tables& tables, const std::string& where, std::size_t run, Results& results) {
  std::map<std::tuple<std::string, std::string, std::int64_t>, std::size_t> cells;
  const auto cell_of = [&](const auto& row) -> LmCell& {
    const auto [at, fresh] = cells.try_emplace({row.corpus, row.protocol, row.length}, results.lm.size());
    if (fresh)
      results.lm.push_back({.run = run,
                            .corpus = row.corpus,
                            .protocol = row.protocol,
                            .length = row.length,
                            .nll = kMissing,
                            .bpb = kMissing});
    return results.lm[at->second];
  };
  each_row<schema::LmSummary>(tables, where, [&](const schema::LmSummary& row) {
    LmCell& cell = cell_of(row);
    cell.stride = row.stride;
    cell.status = status_of(row.status);
    cell.nll = row.nll_mean;
    cell.bpb = row.bpb;
    cell.documents = schema::real_of(row.n_docs);
    cell.context = row.mean_context;
  });
  each_row<schema::LmDocument>(tables, where,
                               [&](const schema::LmDocument& row) { cell_of(row).scores.push_back(row.score); });
  for (const auto& [key, index] : cells) {
    LmCell& cell = results.lm[index];
    std::sort(cell.scores.begin(), cell.scores.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
    if (std::isnan(cell.nll) && cell.status == "ok" && !cell.scores.empty()) {
      std::vector<double> nll, tokens;
      for (const schema::DocumentScore& score : cell.scores) {
        nll.push_back(score.nll);
        tokens.push_back(static_cast<double>(score.tokens));
      }
      cell.nll = statistics::ratio_of_sums(nll, tokens).value;
      cell.documents = static_cast<double>(cell.scores.size());
      if (std::isnan(cell.nll)) cell.status = "overflow";
    }
    if (cell.status == "ok" && !(cell.nll <= std::log(statistics::kOverflowPerplexity)))
      cell.status = std::isnan(cell.nll) ? "not_measured" : "overflow";
    if (cell.status == "overflow") cell.nll = std::numeric_limits<double>::infinity();
    if (cell.status != "ok" && cell.status != "overflow") cell.nll = kMissing;
  }
}

void read_tasks(const artifact::Tables& tables, const std::string& where, std::size_t run, Results& results) {
  each_row<schema::RetrievalTrial>(tables, where, [&](const schema::RetrievalTrial& row) {
    const std::string depth = std::isnan(row.depth) ? "" : support::shortest(row.depth);
    results.trials.push_back({.run = run,
                              .task = row.task,
                              .length = row.length,
                              .depth = row.depth,
                              .item = cat(row.variant, " ", depth, " ", row.trial),
                              .exact = row.em,
                              .digits = static_cast<double>(row.digit_total),
                              .nll = row.nll_key,
                              .nll_control = row.nll_key_control});
  });
  each_row<schema::RetrievalSummary>(tables, where, [&](const schema::RetrievalSummary& row) {
    if (row.depth != "all") return;
    results.retrieval.push_back({.run = run,
                                 .task = row.task,
                                 .length = row.length,
                                 .n = static_cast<double>(row.n),
                                 .status = status_of(row.status)});
  });
  each_row<schema::AlgoSummary>(tables, where, [&](const schema::AlgoSummary& row) {
    results.tasks.push_back({.run = run,
                             .task = row.task,
                             .length = row.length,
                             .n = static_cast<double>(row.n),
                             .exact = row.em,
                             .token_accuracy = row.token_acc,
                             .nll = row.nll_target,
                             .chance = row.chance_tok,
                             .status = status_of(row.status)});
  });
}

template <typename T>
std::vector<CurvePoint> read_points(const artifact::Tables& tables, const std::string& where,
                                    double* peak_rate = nullptr) {
  std::vector<CurvePoint> points;
  each_row<T>(tables, where, [&](const T& row) {
    points.push_back({row.step, row.tokens, row.loss, row.bpb});
    if constexpr (std::is_same_v<T, schema::TrainingPoint>) {
      if (peak_rate != nullptr && std::isfinite(row.lr) && !(row.lr <= *peak_rate)) *peak_rate = row.lr;
    }
  });
  std::stable_sort(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return points;
}

// The longest training length of an algorithmic task, from the config of an evaluation; 0 where it has none.
std::int64_t told_longest(const artifact::h5::File& file) {
  const Json config = artifact::read_recipe(file).config;
  const Json* at = &config;
  for (const char* key : {"eval", "algorithmic", "train"}) {
    if (!at->is_object() || !at->contains(key)) return 0;
    at = &(*at)[key];
  }
  return at->is_number_integer() ? at->get<std::int64_t>() : 0;
}

// How it was trained, from the artifact's own account of its making. Where and by how many processes is no part of
// that.
void read_training(const artifact::h5::File& file, Curve& curve) {
  const artifact::Recipe recipe = artifact::read_recipe(file);
  if (recipe.config.is_object() && !recipe.config.empty()) {
    curve.config = recipe.config;
    for (const char* elsewhere : {"compute", "log", "checkpoint"}) curve.config.erase(elsewhere);
  }
  if (!recipe.inputs.is_object()) return;
  const auto data = recipe.inputs.find("data"), init = recipe.inputs.find("init");
  if (data != recipe.inputs.end() && data->is_array()) curve.data = data->dump();
  if (init != recipe.inputs.end() && init->is_array() && init->size() == 1 && init->front().is_string())
    curve.parent = init->front().get<std::string>();
}

std::string labels_text(const std::string& role, const Labels& labels) {
  std::vector<std::string> parts;
  for (const auto& [axis, label] : labels) parts.push_back(cat(axis, "=", label));
  return cat(role, " ", support::join(parts, ","));
}

// Why the artifact with these labels was not made.
std::string reason_of(const std::vector<artifact::MissingInput>& missing, const Labels& labels) {
  for (const artifact::MissingInput& input : missing) {
    if (input.labels == labels && !input.reason.empty()) return input.reason;
  }
  return "it was not made";
}

// Labels of a role's artifacts. The config's list, part of the report's key, names all that were asked for, in order.
// In a partial gather, the labels that no input carries are missing.
std::vector<Labels> labels_of(const ReportConfig& config, const artifact::Workspace& workspace, const std::string& role,
                              std::vector<std::string>& missing) {
  std::vector<Labels> labels;
  for (const std::string& text : config.labels) {
    auto [own_role, own] = parse_labels(text);
    if (own_role == role) labels.push_back(std::move(own));
  }
  const auto& inputs = workspace.all_inputs(role);
  std::vector<Labels> carried;
  for (const artifact::Input& input : inputs) carried.push_back(input.labels);
  if (labels.empty()) return carried;
  if (labels.size() == inputs.size()) return labels;
  const auto lacking = artifact::missing_inputs(workspace.work)[role];
  std::size_t found = 0;
  for (const Labels& own : labels) {
    if (std::find(carried.begin(), carried.end(), own) != carried.end()) {
      ++found;
      continue;
    }
    missing.push_back(cat(labels_text(role, own), ": ", reason_of(lacking, own)));
  }
  if (found != inputs.size()) {
    throw support::ConfigError(cat("'labels' names ", labels.size(), " artifacts of the role '", role, "', but ",
                                   inputs.size(), " were given"),
                               {}, "leave 'labels' empty to take the labels of the inputs");
  }
  return carried;
}

}  // namespace

/// A study should not train for a claim that does not exist. @throws ConfigError
static void check_claim(const std::string& id, const std::string& file) {
  if (file.empty()) throw support::ConfigError("sequential.claim needs a file of claims: 'claims'");
  std::vector<std::string> known;
  for (const ClaimSpec& claim : read_claims(file)) known.push_back(claim.id);
  if (std::find(known.begin(), known.end(), id) == known.end())
    throw support::ConfigError(cat("sequential.claim: no claim ", support::quote(id), " in ", file), {},
                               support::suggestion(id, known));
}

void ReportConfig::describe(support::FieldVisitor& v) {
  v.field("title", title, "Title of the report; pe-pipeline fills in its own.");
  v.field(
      "labels", labels,
      "Labels of the gathered artifacts in their order, each 'role axis=label,axis=label'; written by pe-pipeline.");
  v.field("missing", missing,
          "More artifacts to list as missing, each with the reason; pe-pipeline names its own in task.json.");
  v.field("left_out", left_out,
          "Labels of the pipeline's axes that --axis or a scale leaves out, each 'axis=label'; written by pe-pipeline.",
          {.neutral = Json::array()});
  v.field("baseline", baseline,
          "Encoding that paired differences are taken against; the first one when it is not among them.");
  v.field("train_length", train_length, "Training length to mark; 0: as the artifacts say.",
          {.unit = "tokens", .min = 0, .max = 1e12});
  v.field("palette", palette, "Looks that differ from the built-in ones, each 'encoding #RRGGBB shape dash'.");
  v.field("select", select,
          "Axes that are tuned: for each encoding the value with the lowest validation loss is taken, and the others "
          "are not compared.",
          {.neutral = Json::array({"lr"})});
  v.field("select_seeds", select_seeds,
          "Seeds on which 'select' chooses; their trainings are not compared. Empty: it chooses on the seeds that are "
          "compared, which "
          "favours encodings whose seeds vary much.",
          {.neutral = Json::array()});
  v.field("highlight", highlight,
          "Encodings in colour where a figure has more than 8; the others are grey there. Empty: the baseline and "
          "the encodings that end best.",
          {.neutral = Json::array()});
  v.field(
      "primary", primary,
      "The endpoint that was to decide, declared before the run: \"anchored ratio at 4 times the training length\".",
      {.neutral = Json("")});
  v.field("rankings", rankings,
          "Also say how far the ranking of the encodings depends on the protocol, and on the seed.",
          {.neutral = Json(false)});
  v.field("latex_protocol", latex_protocol,
          "The protocol whose columns and rows tables/*.tex have, such as anchored; empty: all protocols.",
          {.neutral = Json("")});
  v.choice("x_unit", x_unit, {{"tokens", "tokens"}, {"steps", "steps"}, {"flops", "flops"}, {"hours", "hours"}},
           "The x axis of curves over a training; tokens if the trainings differ in tokens per step. The page offers "
           "the other units.",
           {.neutral = Json("tokens")});
  v.field("figures", figures,
          "Figures of tables that the report does not know, each 'table=NAME x=COLUMN y=COLUMN', and perhaps "
          "'series=COLUMN' and "
          "'facet=COLUMN'; 'encoding' and 'variant' are columns, too.",
          {.neutral = Json::array()});
  v.field("data_names", data_names,
          "Names of the data that models were trained on, each 'DIGITS=words', with the first digits of its content "
          "digest.",
          {.neutral = Json::array()});
  v.field("notes", notes, "Sentences that captions of results repeat, such as how absolute encodings were scaled.");
  v.path("claims", claims,
         "A file of claims to test (doc/claims.md); --check-claims ends with 1 when a verdict is worse than expected.",
         {.neutral = Json("")});
  v.group("sequential", sequential, "Seeds are added until a claim is decided.");
  // Mistakes in a file of claims are found before anything is trained. A missing file is a missing input.
  std::error_code error;
  if (!claims.empty() && std::filesystem::exists(claims, error)) check_names(read_claims(claims), labels, left_out);
  if (!sequential.claim.empty()) check_claim(sequential.claim, claims);
}

void SequentialConfig::describe(support::FieldVisitor& v) {
  v.field("claim", claim, "Its id. Empty: the number of seeds is fixed.", {.neutral = Json("")});
  v.field("from", from, "Seeds of the first look.", {.min = 3, .max = 1000, .neutral = Json(3)});
  v.field("most", most, "Seeds of the last look.", {.min = 3, .max = 1000, .neutral = Json(3)});
  v.field("alpha", alpha, "Error of all looks together.", {.min = 1e-6, .max = 0.5, .neutral = Json(0.05)});
  v.check(from <= most, "sequential.from must not be above sequential.most");
}

bool is_known_table(const std::string& name) {
  static const std::set<std::string> known = [] {
    std::set<std::string> names{schema::DummyGrid::kName, schema::DummyTargets::kName, schema::DummyScale::kName,
                                schema::DummySeconds::kName};
    for (const schema::Layout& layout : schema::layouts()) names.insert(layout.name);
    return names;
  }();
  return known.count(name) != 0;
}

template <typename Item, typename Name>
const std::vector<std::size_t>* Results::places(const std::vector<Item>& items, Name name,
                                                std::pair<std::size_t, Index>& index, const Place& place) {
  if (index.first != items.size()) {
    index.second.clear();
    std::vector<std::size_t>* own = nullptr;  // neighbours are often of one place
    for (std::size_t i = 0; i < items.size(); ++i) {
      const bool same = own && items[i].run == items[i - 1].run && items[i].length == items[i - 1].length &&
                        items[i].*name == items[i - 1].*name;
      if (!same) own = &index.second[{items[i].run, items[i].*name, items[i].length}];
      own->push_back(i);
    }
    index.first = items.size();
  }
  const auto found = index.second.find(place);
  return found == index.second.end() ? nullptr : &found->second;
}

const LmCell* Results::find_lm(std::size_t run, const std::string& protocol, std::int64_t length) const {
  const auto* found = places(lm, &LmCell::protocol, lm_index_, {run, protocol, length});
  return found ? &lm[found->front()] : nullptr;
}

const TaskCell* Results::find_task(std::size_t run, const std::string& task, std::int64_t length) const {
  const auto* found = places(tasks, &TaskCell::task, task_index_, {run, task, length});
  return found ? &tasks[found->back()] : nullptr;
}

const TaskCell* Results::find_retrieval(std::size_t run, const std::string& task, std::int64_t length) const {
  const auto* found = places(retrieval, &TaskCell::task, retrieval_index_, {run, task, length});
  return found ? &retrieval[found->back()] : nullptr;
}

std::vector<const Trial*> Results::find_trials(std::size_t run, const std::string& task, std::int64_t length) const {
  std::vector<const Trial*> found;
  if (const auto* at = places(trials, &Trial::task, trial_index_, {run, task, length})) {
    for (const std::size_t i : *at) found.push_back(&trials[i]);
  }
  return found;
}

bool labels_agree(const Labels& a, const Labels& b) {
  return std::all_of(a.begin(), a.end(), [&](const auto& label) {
    const auto other = b.find(label.first);
    return label.first == "stage" || label.first == "from" || other == b.end() || other->second == label.second;
  });
}

std::pair<std::string, Labels> parse_labels(const std::string& text) {
  const auto space = text.find(' ');
  const std::string role = text.substr(0, space);
  Labels labels;
  if (space != std::string::npos) {
    for (const std::string& part : support::split(text.substr(space + 1), ',')) {
      if (support::trim(part).empty()) continue;
      const auto equals = part.find('=');
      if (equals == std::string::npos || equals == 0) {
        throw support::ConfigError(
            cat("expected 'axis=label' in 'labels', but found ", support::quote(part), " in ", support::quote(text)));
      }
      labels[std::string(support::trim(part.substr(0, equals)))] = part.substr(equals + 1);
    }
  }
  if (role.empty())
    throw support::ConfigError(cat("expected 'role axis=label,…' in 'labels', but found ", support::quote(text)));
  return {role, labels};
}

namespace {

std::string copy_text(const std::string& encoding, const std::string& seed, const std::string& first) {
  return cat(encoding, " with seed ", seed, " is the model of seed ", first);
}

/// Reads scores into results, file by file.
class ScoreReader {
 public:
  ScoreReader(const ReportConfig& config, Results& results, DataFiles& data)
      : config_(config), results_(results), data_(data) {}

  void read(const artifact::Input& input, const Labels& labels) {
    const auto file = artifact::h5::File::open(input.path);
    // Read first: GCC 12 destroys members twice if the value of a later one throws.
    artifact::Tables tables = artifact::read_eval_tables(file);
    Scores scores{.run = {}, .where = input.path.string(), .tables = std::move(tables)};
    if (const artifact::Table* ideal = scores.tables.find("ideal_reader")) {  // of a text, and of no model
      each_row<schema::IdealReaderPoint>(scores.tables, scores.where, [&](const schema::IdealReaderPoint& row) {
        results_.ideal.push_back({labels, row.position, row.context, row.nats_per_byte});
      });
      return data_.add(ideal->name(), *ideal, labels);
    }
    scores.run = run_of(input, labels, file, scores);
    for (const artifact::Table& table : scores.tables.tables) data_.add(table.name(), table, scores.run.labels);
    if (scores.run.train_length > 0) lengths_.insert(scores.run.train_length);
    const bool own_alone = std::all_of(scores.tables.tables.begin(), scores.tables.tables.end(),
                                       [](const artifact::Table& table) { return !is_known_table(table.name()); });
    if (own_alone && scores.run.run_id.empty()) return own_.push_back(std::move(scores));
    // Several evaluations of one model are one run; the axes that tell them apart say nothing about the model.
    std::size_t index = results_.runs.size();
    if (!scores.run.run_id.empty()) count_once(scores);
    const Run& run = scores.run;
    if (!run.run_id.empty()) {
      std::vector<Evaluated>& known = models_[{run.run_id, run.encoding, run.seed}];
      std::vector<EvaluatedRows::Places> places;  // of each table; most models have one evaluation, and need none
      if (!known.empty()) {
        for (const artifact::Table& table : scores.tables.tables) places.push_back(EvaluatedRows::places_of(table));
      }
      Evaluated& same = evaluated_with(known, scores, places);
      index = same.run;
      if (index == results_.runs.size())
        same.unread = input.path;
      else
        leave_out_known(rows_of(same), scores.tables.tables, std::move(places));
    }
    add(index, std::move(scores));
  }

  /// After all files: a user's table that does not name its model belongs to the run with the same labels.
  /// @return the runs that have no other table
  std::set<std::size_t> finish() {
    std::set<std::size_t> unmeasured;
    for (Scores& scores : own_) {
      if (copies_.count(of_copy(scores.run)) != 0) continue;  // the same of the first seed says it
      const std::size_t index = same_labels(scores.run);
      if (index == results_.runs.size()) unmeasured.insert(index);
      add(index, std::move(scores));
    }
    others_.resize(results_.runs.size());
    kept_ = axes_of_one_model();
    for (std::size_t run = 0; run < results_.runs.size(); ++run) {
      for (const auto& [axis, more] : others_[run]) results_.runs[run].labels.emplace(axis, more.front());
    }
    return unmeasured;
  }

  /// After `finish`, and after drops have their names: encodings that a drop seems to have tell no models apart.
  void settle(const std::set<std::size_t>& unmeasured) { settle_labels(results_.runs, others_, kept_, unmeasured); }

  const std::set<std::int64_t>& lengths() const { return lengths_; }  ///< of training

 private:
  struct Scores {
    Run run;
    std::string where;
    artifact::Tables tables;
  };

  using Copy = std::tuple<std::string, std::string, Labels>;  ///< encoding, seed and the other labels of a model
  static Copy of_copy(const Run& run) {
    Labels labels = run.labels;
    for (const char* axis : {"seed", "stage", "from"}) labels.erase(axis);
    return {run.encoding, run.seed, std::move(labels)};
  }

  /// A model with the same rows under several labels of a seed is one seed: copies would pass for independent
  /// trainings.
  void count_once(Scores& scores) {
    Run& run = scores.run;
    const std::string& first = seeds_.try_emplace({run.run_id, run.encoding}, run.seed).first->second;
    if (first == run.seed || first.empty() || run.seed.empty()) return;
    std::vector<Evaluated>& known = models_[{run.run_id, run.encoding, first}];
    std::vector<EvaluatedRows::Places> places;
    for (const artifact::Table& table : scores.tables.tables) places.push_back(EvaluatedRows::places_of(table));
    const auto same =
        std::find_if(known.begin(), known.end(), [&](Evaluated& one) { return fits(one, scores, places); });
    if (same == known.end()) return;  // its evaluations draw something else for each seed
    std::erase_if(scores.tables.tables, [&](const artifact::Table& table) {
      return EvaluatedRows::always_fits(table.name()) && same->texts.count(table.name()) != 0;
    });
    if (copies_.insert(of_copy(run)).second) results_.copies.push_back(copy_text(run.encoding, run.seed, first));
    run.seed = first;
    if (const auto label = run.labels.find("seed"); label != run.labels.end()) label->second = first;
  }

  Run run_of(const artifact::Input& input, const Labels& labels, const artifact::h5::File& file,
             const Scores& scores) const {
    Run run{.labels = labels,
            .encoding = label_of(labels, {"encoding", "pe"}),
            .seed = label_of(labels, {"seed"}),
            .file = input.path.string(),
            .facts = scores.tables.facts};
    if (!input.digest.empty()) run.digests.push_back(input.digest);
    if (const std::int64_t longest = told_longest(file); longest > 0) run.facts["task_longest"] = longest;
    for (const artifact::Table& table : scores.tables.tables) {
      if (table.rows() == 0) continue;
      const schema::Identity own = schema::Reader<schema::Identity>(table, scores.where).row(0);
      if (run.encoding.empty()) run.encoding = own.pe;
      if (run.seed.empty() && own.seed) run.seed = cat(*own.seed);
      if (run.run_id.empty()) run.run_id = own.run_id;
      if (run.step < 0 && own.step) run.step = *own.step;
    }
    if (run.encoding.empty()) run.encoding = pe_of(run.facts);
    if (run.encoding.empty()) run.encoding = cat("model ", results_.runs.size() + own_.size() + 1);
    if (run.facts.contains("tokens_seen") && run.facts["tokens_seen"].is_number())
      run.tokens_seen = run.facts["tokens_seen"].get<double>();
    if (config_.train_length > 0) {
      run.train_length = config_.train_length;
    } else if (run.facts.contains("train_length") && run.facts["train_length"].is_number_integer()) {
      run.train_length = run.facts["train_length"].get<std::int64_t>();
    }
    return run;
  }

  /// Evaluations of a model that are one run.
  struct Evaluated {
    std::size_t run = 0;
    std::map<std::string, std::string> texts;  ///< table → the text that it was measured on
    std::filesystem::path unread;              ///< the first file, until another evaluation of the model comes
    EvaluatedRows rows;
  };

  static EvaluatedRows& rows_of(Evaluated& one) {
    if (!one.unread.empty()) {
      const auto file = artifact::h5::File::open(std::exchange(one.unread, {}));
      artifact::Tables first = artifact::read_eval_tables(file);
      for (artifact::Table& table : first.tables) {
        EvaluatedRows::Places places = EvaluatedRows::places_of(table);
        one.rows.add(std::move(table), std::move(places));
      }
    }
    return one.rows;
  }

  static void leave_out_known(EvaluatedRows& rows, std::vector<artifact::Table>& tables,
                              std::vector<EvaluatedRows::Places> places) {
    std::vector<artifact::Table> fresh;
    for (std::size_t i = 0; i < tables.size(); ++i) {
      const bool had_rows = tables[i].rows() > 0;
      artifact::Table added = rows.add(std::move(tables[i]), std::move(places[i]));
      if (added.rows() > 0 || !had_rows) fresh.push_back(std::move(added));
    }
    tables = std::move(fresh);
  }

  /// Whether an evaluation may join a run. The same table of another text, or with other settings, is another run: its
  /// rows must not be joined.
  bool fits(Evaluated& one, const Scores& scores, const std::vector<EvaluatedRows::Places>& places) const {
    const std::string digest = data_of(scores.run);
    const std::vector<artifact::Table>& tables = scores.tables.tables;
    for (std::size_t i = 0; i < tables.size(); ++i) {
      const auto own = one.texts.find(tables[i].name());
      const bool same = own == one.texts.end() || own->second.empty() || digest.empty() || own->second == digest;
      if (!same || !rows_of(one).fit(tables[i].name(), places[i])) return false;
    }
    return true;
  }

  /// The run that an evaluation joins.
  Evaluated& evaluated_with(std::vector<Evaluated>& known, const Scores& scores,
                            const std::vector<EvaluatedRows::Places>& places) const {
    const std::string digest = data_of(scores.run);
    const std::vector<artifact::Table>& tables = scores.tables.tables;
    const auto fit = [&](Evaluated& one) { return fits(one, scores, places); };
    const auto is_like = [&](Evaluated& one) {
      return labels_agree(results_.runs[one.run].labels, scores.run.labels) && fit(one);
    };
    auto run = std::find_if(known.begin(), known.end(), is_like);
    if (run == known.end()) run = std::find_if(known.begin(), known.end(), fit);
    if (run == known.end()) run = known.insert(run, Evaluated{results_.runs.size(), {}, {}, {}});
    for (const artifact::Table& table : tables) run->texts.emplace(table.name(), digest);
    return *run;
  }

  /// Axes of labels that distinguish two runs of one model, such as a text. They stay.
  std::set<std::string> axes_of_one_model() const {
    std::set<std::string> axes;
    for (const auto& [model, runs] : models_) {
      for (const Evaluated& one : runs) {
        for (const auto& [axis, label] : results_.runs[one.run].labels) {
          const bool same =
              std::all_of(runs.begin(), runs.end(), [&, &axis = axis, &label = label](const Evaluated& other) {
                return label_of(results_.runs[other.run].labels, {axis.c_str()}) == label;
              });
          if (!same) axes.insert(axis);
        }
      }
    }
    return axes;
  }

  /// The only run whose labels differ in the stage alone; a new one where there is none, or several.
  std::size_t same_labels(const Run& run) const {
    const auto of_model = [](Labels labels) {
      labels.erase("stage");
      return labels;
    };
    std::size_t found = results_.runs.size();
    for (std::size_t i = 0; i < results_.runs.size(); ++i) {
      if (run.labels.size() < 2 || of_model(results_.runs[i].labels) != of_model(run.labels)) continue;
      if (found < results_.runs.size()) return results_.runs.size();
      found = i;
    }
    return found;
  }

  void add(std::size_t index, Scores scores) {
    if (index == results_.runs.size()) {
      results_.runs.push_back(std::move(scores.run));
    } else {
      Run& same = results_.runs[index];
      others_.resize(results_.runs.size());
      for (const auto& [axis, label] : scores.run.labels) {
        if (label_of(same.labels, {axis.c_str()}) != label) append_unique(others_[index][axis], label);
      }
      same.file += cat(", ", scores.run.file);
      same.digests.insert(same.digests.end(), scores.run.digests.begin(), scores.run.digests.end());
    }
    support::with_context(cat("reading ", scores.where), [&] {
      read_lm(scores.tables, scores.where, index, results_);
      read_tasks(scores.tables, scores.where, index, results_);
      for (artifact::Table& table : scores.tables.tables) {
        const std::string name = table.name();
        if (results_.claims.empty() && kHeldOtherwise.count(name) != 0) continue;
        results_.tables[name].push_back({index, cat(scores.where, ": ", name), std::move(table)});
      }
    });
  }

  const ReportConfig& config_;
  Results& results_;
  DataFiles& data_;
  /// run_id, encoding and seed → runs
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<Evaluated>> models_;
  std::map<std::pair<std::string, std::string>, std::string> seeds_;  ///< run_id and encoding → the first seed
  std::set<Copy> copies_;
  std::vector<Scores> own_;
  std::vector<OtherLabels> others_;  // by run
  std::set<std::string> kept_;       // axes that distinguish runs of one model
  std::set<std::int64_t> lengths_;
};

Curve read_curve(const artifact::Input& input, const Labels& labels, std::size_t number, DataFiles& data) {
  const auto file = artifact::h5::File::open(input.path);
  const artifact::Tables tables = artifact::read_metrics(file);
  const std::string where = input.path.string();
  Curve curve;
  curve.run = {.labels = labels,
               .encoding = label_of(labels, {"encoding", "pe"}),
               .seed = label_of(labels, {"seed"}),
               .file = input.path.string(),
               .facts = tables.facts};
  if (!input.digest.empty()) curve.run.digests.push_back(input.digest);
  read_training(file, curve);
  if (curve.run.encoding.empty()) curve.run.encoding = pe_of(tables.facts);
  if (curve.run.encoding.empty()) curve.run.encoding = cat("model ", number);
  support::with_context(cat("reading ", where), [&] {
    curve.train = read_points<schema::TrainingPoint>(tables, where, &curve.peak_rate);
    curve.validation = read_points<schema::ValidationPoint>(tables, where);
  });
  if (curve.run.seed.empty() && tables.facts.contains("seed")) curve.run.seed = tables.facts["seed"].dump();
  if (tables.facts.contains("first_step") && tables.facts["first_step"].is_number())
    curve.first_step = tables.facts["first_step"].get<double>();
  curve.diverged = tables.facts.contains("status") && tables.facts["status"] == "diverged";
  if (tables.facts.contains("length") && tables.facts["length"].is_number_integer())
    curve.run.train_length = tables.facts["length"].get<std::int64_t>();
  for (const artifact::Table& table : tables.tables) {
    // Rows of steps only serve to continue a training, and would be most of the report.
    if (table.name() != "steps") data.add("curve_" + table.name(), table, curve.run.labels);
  }
  return curve;
}

[[noreturn]] void refuse_same_seed(const Results& results, const std::vector<std::size_t>& runs) {
  const Run& first = results.runs[runs.front()];
  std::vector<std::string> files;
  for (const std::size_t run : runs) files.push_back(results.runs[run].file);
  throw support::ConfigError(
      cat(runs.size(), " runs of ", arm_name({first.encoding, first.variant, {}}, true), " have ",
          first.seed.empty() ? "no seed" : cat("the seed ", support::quote(first.seed)),
          " and no label that tells them apart, so they are no further seeds: ", support::join(files, "; ")),
      {}, "give each a label in 'labels', such as 'scores encoding=rope,seed=42,text=web', or leave one out");
}

/// A seed that comes several times in an arm is no further seed. Snapshots of one training become variants by their
/// step, in all arms of the variant. @throws ConfigError where nothing tells such runs apart
void tell_snapshots_apart(const std::set<std::size_t>& unmeasured, Results& results) {
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<std::size_t>> same;
  for (std::size_t i = 0; i < results.runs.size(); ++i) {
    const Run& run = results.runs[i];
    if (run.selected && unmeasured.count(i) == 0) same[{run.variant, run.encoding, run.seed}].push_back(i);
  }
  std::set<std::string> by_step;
  for (const auto& [arm, runs] : same) {
    if (runs.size() < 2) continue;
    std::set<std::int64_t> steps;
    for (const std::size_t run : runs) steps.insert(results.runs[run].step);
    if (steps.size() < runs.size() || *steps.begin() < 0) refuse_same_seed(results, runs);
    by_step.insert(std::get<0>(arm));
  }
  for (Run& run : results.runs) {
    if (by_step.count(run.variant) == 0 || run.step < 0) continue;
    run.variant += cat(run.variant.empty() ? "" : ", ", "step ", run.step);
  }
}

/// Variants, encodings in order, and arms, from the labels of runs and curves. Runs that only have a user's tables
/// would be rows of dashes, so they are no arms unless all are.
void make_arms(const std::vector<std::string>& chosen, std::set<std::size_t> unmeasured, Results& results) {
  if (unmeasured.size() == results.runs.size()) unmeasured.clear();
  std::vector<const Labels*> of_runs, of_curves;
  for (std::size_t i = 0; i < results.runs.size(); ++i) {
    if (unmeasured.count(i) == 0) of_runs.push_back(&results.runs[i].labels);
  }
  for (const Curve& curve : results.curves) of_curves.push_back(&curve.run.labels);
  const auto run_axes = telling_axes(of_runs, chosen), curve_axes = telling_axes(of_curves, chosen);
  for (std::size_t i = 0; i < results.runs.size(); ++i) {
    Run& run = results.runs[i];
    append_unique(results.encodings, run.encoding);
    if (unmeasured.count(i) != 0) continue;
    run.variant = variant_of(run.labels, run_axes);
  }
  tell_snapshots_apart(unmeasured, results);
  for (std::size_t i = 0; i < results.runs.size(); ++i) {
    if (unmeasured.count(i) == 0) append_unique(results.variants, results.runs[i].variant);
  }
  for (std::vector<Curve>* curves : {&results.curves, &results.unselected_curves}) {
    for (Curve& curve : *curves) {
      curve.run.variant = variant_of(curve.run.labels, curve_axes);
      append_unique(results.encodings, curve.run.encoding);
    }
  }
  std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> runs_of;  // variant, encoding
  for (std::size_t i = 0; i < results.runs.size(); ++i) {
    if (results.runs[i].selected && unmeasured.count(i) == 0)
      runs_of[{results.runs[i].variant, results.runs[i].encoding}].push_back(i);
  }
  for (const std::string& variant : results.variants) {
    for (const std::string& encoding : results.encodings) {
      if (const auto own = runs_of.find({variant, encoding}); own != runs_of.end())
        results.arms.push_back({encoding, variant, std::move(own->second)});
    }
  }
}

}  // namespace

namespace {

void keep_judged_text(std::vector<LmCell>& cells) {
  std::set<std::string> texts;
  for (const LmCell& cell : cells) texts.insert(cell.corpus);
  const std::set<std::string> unjudged = unjudged_of(texts);
  std::erase_if(cells, [&](const LmCell& cell) { return unjudged.count(cell.corpus) != 0; });
}

}  // namespace

Results read_results(const ReportConfig& config, const artifact::Workspace& workspace) {
  Results results;
  results.title = config.title.empty() ? "Comparison of positional encodings" : config.title;
  if (!config.claims.empty()) results.claims = read_claims(config.claims);
  results.sequential = config.sequential;
  results.missing = config.missing;
  results.left_out = config.left_out;
  results.notes = config.notes;
  results.primary = config.primary;
  results.highlight = config.highlight;
  results.rankings = config.rankings;
  results.x_unit = config.x_unit;
  results.palette = config.palette;
  results.figures = config.figures;
  results.data_names = config.data_names;
  DataFiles data;
  ScoreReader scores(config, results, data);
  const auto score_labels = labels_of(config, workspace, "scores", results.missing);
  for (std::size_t i = 0; i < score_labels.size(); ++i) scores.read(workspace.all_inputs("scores")[i], score_labels[i]);
  const std::set<std::size_t> unmeasured = scores.finish();
  keep_judged_text(results.lm);
  const auto curve_labels = labels_of(config, workspace, "curves", results.missing);
  std::map<std::pair<std::string, std::string>, std::string> trainings;  // digest and encoding → the first seed
  for (std::size_t i = 0; i < curve_labels.size(); ++i) {
    Curve curve = read_curve(workspace.all_inputs("curves")[i], curve_labels[i], i + 1, data);
    const std::string digest = curve.run.digests.empty() ? "" : curve.run.digests.front();
    const std::string& first = trainings.try_emplace({digest, curve.run.encoding}, curve.run.seed).first->second;
    if (digest.empty() || first == curve.run.seed || first.empty() || curve.run.seed.empty())
      results.curves.push_back(std::move(curve));
    else if (const std::string copy = copy_text(curve.run.encoding, curve.run.seed, first);
             std::find(results.copies.begin(), results.copies.end(), copy) == results.copies.end())
      results.copies.push_back(copy);
  }

  name_drops(results);
  scores.settle(unmeasured);
  inherit_settings(results.curves);
  make_arms(select_values(config.select, results, config.select_seeds), unmeasured, results);
  const bool known = std::any_of(results.arms.begin(), results.arms.end(),
                                 [&](const Arm& arm) { return arm.encoding == config.baseline; });
  results.baseline = known || results.arms.empty() ? config.baseline : results.arms.front().encoding;
  std::set<std::int64_t> lengths = scores.lengths();
  // Logs speak where no evaluation does: trunks of trained branches may have been trained at another length.
  if (lengths.empty()) {
    for (const Curve& curve : results.curves) {
      if (curve.run.train_length > 0) lengths.insert(curve.run.train_length);
    }
  }
  results.train_length = config.train_length > 0 ? config.train_length : lengths.size() == 1 ? *lengths.begin() : 0;
  results.data = std::move(data).render();
  return results;
}

std::string label_text(const std::string& axis, const std::string& label) {
  return support::parse_real(label) ? cat(axis, " ", label) : label;
}

std::string arm_name(const Arm& arm, bool with_variant) {
  return with_variant && !arm.variant.empty() ? cat(arm.encoding, ", ", arm.variant) : arm.encoding;
}

}  // namespace pe::report
