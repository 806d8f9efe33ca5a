#include "report/page/report.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "artifact/collection.h"
#include "report/figures/gnuplot.h"
#include "report/page/html.h"
#include "report/results/drops.h"
#include "report/text_escape.h"
#include "support/error.h"
#include "support/files.h"
#include "support/json_text.h"
#include "support/parallel_chunks.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

constexpr std::size_t kPanelsOnPage = 12;  // a figure's, so that a page with ten runs stays below 2 MB

bool is_known(const Results& results, const std::string& encoding) {
  return std::find(results.encodings.begin(), results.encodings.end(), encoding) != results.encodings.end();
}

/// Why no arm has an encoding. Without a choice of a tuned value, its models are left out.
std::string absence_of(const Results& results, const std::string& encoding, const std::string& shown) {
  return is_known(results, encoding) ? cat("no model of ", shown, " is compared")
                                     : cat("no model here is called ", shown);
}

/// @param wanted the baseline that the config names
std::string lead_of(const Results& results, const std::string& wanted) {
  std::set<std::string> seeds;
  for (const Run& run : results.runs) seeds.insert(run.seed);
  std::vector<std::string> names;
  for (const std::string& encoding : results.encodings) names.push_back(encoding);
  std::string text = cat(results.runs.size(), " evaluated ", results.runs.size() == 1 ? "run" : "runs", ", ",
                         results.curves.size(), " training ", results.curves.size() == 1 ? "log" : "logs");
  if (const std::string setting = setting_words(results); !setting.empty()) text += cat(". ", setting);
  if (!names.empty()) text += cat(". Encodings: ", support::join(names, ", "));
  if (has_variants(results)) text += cat(". Variants: ", support::join(results.variants, "; "));
  if (results.baseline != wanted)
    text += cat(". Differences are from ", results.baseline, ", since ", absence_of(results, wanted, wanted));
  if (!results.left_out.empty()) text += cat(". Left out of this run: ", support::join(results.left_out, ", "));
  return text + ".";
}

// Ids come from task names in artifacts, and become file names.
std::string file_name(const std::string& id) {
  std::string name;
  for (const char c : id)
    name +=
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ? c : '_';
  return name.empty() ? "unnamed" : name.substr(0, 80);
}

Json flat(const Json& config, const std::string& front = "") {
  Json settings = Json::object();
  for (const auto& [key, value] : config.items()) {
    if (value.is_object() && key != "encoding")
      settings.update(flat(value, front + key + "."));
    else
      settings[front + key] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  return settings;
}

/// Labels that name models, without encoding and seed.
Labels model_labels(Labels labels) {
  for (const char* own : {"encoding", "pe", "seed"}) labels.erase(own);
  return labels;
}

/// Whether the labels of an evaluation say that it read this training: it has all of the training's labels, and further
/// ones of its settings. Their stages have other names.
bool may_have_made(const Curve& curve, const Run& run) {
  if (curve.run.encoding != run.encoding || curve.run.seed != run.seed) return false;
  const auto from = run.labels.find("from"), stage = curve.run.labels.find("stage");
  if (from != run.labels.end() && stage != curve.run.labels.end() && from->second != stage->second) return false;
  const Labels labels = model_labels(without_makers(curve.run.labels));
  return std::all_of(labels.begin(), labels.end(), [&](const auto& label) {
    const auto own = run.labels.find(label.first);
    return own != run.labels.end() && own->second == label.second;
  });
}

double last_step(const Curve& curve) {
  double step = -1;
  for (const auto* points : {&curve.train, &curve.validation}) {
    if (!points->empty()) step = std::max(step, points->back().step);
  }
  return step;
}

/// The place of the training that made a model. Of several by its labels it is the one that ended at the model's step.
std::optional<std::size_t> training_of(const Results& results, const Run& run) {
  std::vector<std::size_t> fitting;
  for (std::size_t i = 0; i < results.curves.size(); ++i) {
    if (results.curves[i].config.is_object() && may_have_made(results.curves[i], run)) fitting.push_back(i);
  }
  if (fitting.size() > 1)
    std::erase_if(fitting,
                  [&](std::size_t i) { return last_step(results.curves[i]) != static_cast<double>(run.step); });
  return fitting.size() == 1 ? std::optional(fitting.front()) : std::nullopt;
}

void append_once(std::vector<std::string>& list, const std::string& name) {
  if (!name.empty() && std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
}

/// Labels of each variant that all of its models have.
Json labels_of_variants(const Results& results) {
  std::map<std::string, std::map<std::string, std::set<std::string>>> variants;
  const auto add = [&](const Run& run) {
    if (!run.selected || run.variant.empty()) return;
    for (const auto& [axis, label] : model_labels(run.labels)) variants[run.variant][axis].insert(label);
  };
  for (const Run& run : results.runs) add(run);
  std::set<std::string> evaluated;
  for (const auto& [variant, axes] : variants) evaluated.insert(variant);
  for (const Curve& curve : results.curves) {
    if (evaluated.count(curve.run.variant) == 0) add(curve.run);
  }
  Json json = Json::object();
  for (const auto& [variant, axes] : variants) {
    for (const auto& [axis, labels] : axes) {
      if (labels.size() == 1) json[variant][axis] = *labels.begin();
    }
  }
  return json;
}

/// The data of the page's filters and of its drawer of numbers: runs, trainings, and each config once. Rows of tables
/// name runs by their place in the list, and trainings by `log`.
Json study_of(const Results& results) {
  Json study{{"baseline", results.baseline},
             {"encodings", results.encodings},
             {"seeds", Json::array()},
             {"axes", Json::object()},
             {"variants", labels_of_variants(results)},
             {"runs", Json::array()},
             {"trainings", Json::array()},
             {"configs", Json::array()}};
  std::vector<std::string> seeds;
  std::map<std::string, std::vector<std::string>> axes;
  for (const Run& run : results.runs) {
    Json entry{{"encoding", run.encoding}, {"variant", run.variant}, {"seed", run.seed},
               {"run_id", run.run_id},     {"step", run.step},       {"results", run.digests}};
    if (!run.selected) entry["selected"] = false;  // a rate that was not chosen
    if (const auto training = training_of(results, run)) entry["training"] = *training;
    study["runs"].push_back(std::move(entry));
    if (!run.selected) continue;
    append_once(seeds, run.seed);
    for (const auto& [axis, label] : model_labels(run.labels)) append_once(axes[axis], label);
  }
  std::map<std::string, std::size_t> configs;
  for (std::size_t i = 0; i < results.curves.size(); ++i) {
    const Curve& curve = results.curves[i];
    append_once(seeds, curve.run.seed);
    Json training{{"log", i},
                  {"encoding", curve.run.encoding},
                  {"variant", curve.run.variant},
                  {"seed", curve.run.seed},
                  {"step", last_step(curve)},
                  {"labels", curve.run.labels},
                  {"results", curve.run.digests}};
    if (curve.config.is_object()) {
      Json settings = flat(curve.config);
      settings.erase("train.seed");
      const auto [at, fresh] = configs.emplace(settings.dump(), configs.size());
      if (fresh) study["configs"].push_back(std::move(settings));
      training["config"] = at->second;
    }
    study["trainings"].push_back(std::move(training));
  }
  study["seeds"] = seeds;
  for (const auto& [axis, labels] : axes) {
    if (labels.size() > 1) study["axes"][axis] = labels;
  }
  return study;
}

/// Of the panel with the most.
std::size_t others_in_grey(const Figure& figure) {
  std::size_t most = 0;
  for (const Panel& panel : figure.panels) {
    std::set<std::string> names;
    for (const Series& series : panel.series) {
      if (series.role == Series::Role::kContext) names.insert(series.name);
    }
    most = std::max(most, names.size());
  }
  return most;
}

}  // namespace

std::vector<Section> make_sections(const Results& results) {
  std::vector<Section> sections;
  Palette palette(results.palette);
  palette.tell_apart(results.encodings);
  const std::string setting = setting_words(results);
  std::set<std::string> ids;
  const auto unique = [&](std::string& id, const char* kind) {
    id = file_name(id);
    std::string name = id;
    for (int k = 2; !ids.insert(kind + name).second; ++k) name = cat(id, "_", k);
    id = name;
  };
  for (const SectionEntry& entry : section_table()) {
    Section section = entry.make(results, palette);
    if (section.empty()) continue;
    for (std::size_t i = 0; i < section.figures.size(); ++i) {
      Figure& figure = section.figures[i];
      if (figure.kind != Figure::Kind::kLines || names_of(figure).size() <= kNamesInColour) continue;
      Figure each = small_multiples(figure);
      std::vector<std::string> chosen = results.highlight;
      const std::vector<std::string> names = names_of(figure);
      std::erase_if(chosen, [&](const std::string& name) { return std::count(names.begin(), names.end(), name) == 0; });
      if (chosen.empty()) chosen = leading_names(figure, results.baseline);
      figure = with_others_in_grey(std::move(figure), chosen, kNamesInColour);
      const std::size_t others = others_in_grey(figure);
      if (others == 0) continue;  // no panel holds too many
      if (!figure.caption.empty() && figure.caption.back() == '.') figure.caption.pop_back();
      figure.caption +=
          cat("; grey: ", others, others == 1 ? " other" : " others", ", each in its panel in the next figure.");
      each.title += ", each";
      section.figures.insert(section.figures.begin() + static_cast<std::ptrdiff_t>(++i), std::move(each));
    }
    for (Figure& figure : section.figures) {
      unique(figure.id, "figure ");
      if (figure.setting.empty()) figure.setting = setting;
      if (cuts_intervals(figure)) figure.caption += " Arrow head: the interval reaches beyond the axis.";
      if (has_outlines(figure))
        figure.caption += cat(" Bands are outlines, since there are ", kBandsAsOutlines, " or more.");
    }
    for (Table& table : section.tables) unique(table.id, "table ");
    if (!sections.empty() && sections.back().id == section.id) {
      Section& before = sections.back();
      const auto append = [](auto& to, auto& from) {
        to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
      };
      append(before.paragraphs, section.paragraphs);
      append(before.findings, section.findings);
      append(before.lines, section.lines);
      append(before.figures, section.figures);
      append(before.tables, section.tables);
      continue;
    }
    sections.push_back(std::move(section));
  }
  return sections;
}

namespace {

/// A figure, drawn.
struct FigureFiles {
  Pictures pictures;
  std::string png;
};

/// The approximate cost of drawing a figure: its points, and the frames of its panels.
std::size_t size_of(const Figure& figure) {
  std::size_t points = 0;
  for (const Panel& panel : figure.panels) {
    points += 100 + panel.cells.size();
    for (const Series& series : panel.series) points += series.points.size();
  }
  return points;
}

/// Every figure of the report. Programs do the work, so several run concurrently, and the largest start first.
std::map<const Figure*, FigureFiles> draw(const std::vector<Section>& sections, support::Progress& progress) {
  std::map<const Figure*, FigureFiles> drawn;
  std::vector<const Figure*> figures;
  for (const Section& section : sections) {
    for (const Figure& figure : section.figures) figures.push_back(&figure);
  }
  std::stable_sort(figures.begin(), figures.end(),
                   [](const Figure* a, const Figure* b) { return size_of(*a) > size_of(*b); });
  std::vector<std::function<void()>> jobs;
  for (const Figure* figure : figures) {
    FigureFiles& own = drawn[figure];  // its own place: maps do not move their values
    jobs.push_back([figure, &own] {
      own.pictures = render(*figure, std::min(figure->panels.size(), kPanelsOnPage), figure->id);
      own.png = render_png(own.pictures.svg);
    });
  }
  std::mutex mutex;
  std::size_t done = 0;
  support::parallel_chunks(jobs.size(), 1, [&](std::size_t job, std::size_t) {
    jobs[job]();
    const std::lock_guard lock(mutex);
    progress.advance("pictures", static_cast<std::int64_t>(++done), static_cast<std::int64_t>(jobs.size()));
  });
  return drawn;
}

std::vector<std::string> failed_claims(const Results& results) {
  std::vector<std::string> fallen;
  for (const ClaimResult& result : judge(results.claims, results)) {
    const Verdict expected = result.claim->expected.value_or(Verdict::kReproduced);
    if (result.verdict > expected)
      fallen.push_back(cat(result.claim->id, ": ", verdict_name(result.verdict), ", expected ", verdict_name(expected),
                           result.reason.empty() ? "" : cat(" (", result.reason, ")")));
  }
  return fallen;
}

/// @throws ArtifactError when a report would show nothing but its inventory
void require_rows(const std::vector<Section>& sections, const artifact::Workspace& workspace) {
  const bool shows =
      std::any_of(sections.begin(), sections.end(), [](const Section& section) { return section.id != "inventory"; });
  if (!shows) {
    const auto& inputs = workspace.all_inputs(workspace.all_inputs("scores").empty() ? "curves" : "scores");
    throw support::ArtifactError(cat(inputs.front().path.string(),
                                     inputs.size() > 1 ? cat(" and ", inputs.size() - 1, " more") : std::string(),
                                     ": found no rows that a report can show; expected lm_summary, lm_doc, "
                                     "retrieval_trial, algo_summary, dummy_grid, train or validation"));
  }
}

}  // namespace

std::string result_text(const std::vector<Section>& sections) {
  std::string text;
  int lines = 0;
  for (const Section& section : sections) {
    for (const std::string& line : section.lines) {
      if (lines++ < 2) text += clean_text(line) + "\n";
    }
  }
  return text;
}

/// @throws ConfigError unless the protocol of LaTeX tables is one of the report's, or not given
void require_protocol(const std::string& only, const std::vector<std::string>& protocols) {
  if (only.empty() || protocols.empty() || std::find(protocols.begin(), protocols.end(), only) != protocols.end())
    return;
  throw support::ConfigError(cat("latex_protocol: no model was evaluated by ", support::quote(only)), {},
                             support::suggestion(only, protocols));
}

/// Names of the config that no model has. They are no errors: `--axis` may have left the model out.
void warn_of_absent_names(const Results& results, const std::string& baseline, support::Progress& progress) {
  const auto warn = [&](const char* key, const std::string& name, const std::string& effect) {
    const std::string hint = is_known(results, name) ? "" : support::suggestion(name, results.encodings);
    progress.warn(
        cat(absence_of(results, name, support::quote(name)), " (", key, "): ", effect, hint.empty() ? "" : "; ", hint));
  };
  if (results.baseline != baseline)
    warn("baseline", baseline, cat("differences are from ", support::quote(results.baseline)));
  for (const std::string& name : results.highlight) {
    if (!is_known(results, name)) warn("highlight", name, "nothing is highlighted for it");
  }
}

std::vector<std::string> write_report(const ReportConfig& config, artifact::Workspace& workspace) {
  require_plot_programs();
  if (workspace.all_inputs("scores").empty() && workspace.all_inputs("curves").empty()) {
    throw support::ArtifactError("nothing was gathered: a report needs 'scores' (eval-table) or 'curves' (metrics)");
  }
  const Results results = read_results(config, workspace);
  warn_of_absent_names(results, config.baseline, *workspace.progress);
  const std::vector<Section> sections = make_sections(results);
  require_rows(sections, workspace);
  const std::vector<std::string> protocols = protocols_of(results);
  const std::string& only = config.latex_protocol;
  require_protocol(only, protocols);
  const auto for_papers = [&](const Table& table) {
    return only.empty() ? table : with_protocol(table, only, protocols);
  };

  artifact::CollectionWriter out(workspace.output("report"), artifact::Kind::kReport, workspace.recipe);
  const auto put = [&](const std::string& name, const std::string& content) {
    support::write_file_atomically(out.add(name), content, false);
  };

  Page page{.title = clean_text(results.title),
            .lead = lead_of(results, config.baseline),
            .study = study_of(results),
            .sections = {}};
  Json json{{"schema", "pe-report/1"},
            {"title", clean_text(results.title)},
            {"baseline", results.baseline},
            {"train_length", results.train_length},
            {"encodings", results.encodings},
            {"missing", results.missing},
            {"study", page.study},
            {"sections", Json::array()}};
  if (const auto look = sequential_state(results, judge(results.claims, results))) json["sequential"] = to_json(*look);
  std::map<const Figure*, FigureFiles> drawn = draw(sections, *workspace.progress);
  for (const Section& section : sections) {
    PageSection shown{.section = &section, .figures = {}};
    Json entry{{"id", section.id},
               {"title", section.title},
               {"findings", section.findings},
               {"figures", Json::array()},
               {"tables", Json::array()}};
    for (const Figure& figure : section.figures) {
      FigureFiles& own = drawn.at(&figure);
      put(cat("figures/", figure.id, ".svg"), own.pictures.svg);
      put(cat("figures/", figure.id, ".pdf"), own.pictures.pdf);
      put(cat("figures/", figure.id, ".png"), own.png);
      put(cat("data/figure_", figure.id, ".csv"), figure_csv(figure));
      shown.figures.push_back({.figure = &figure, .panels = std::move(own.pictures.panels)});
      entry["figures"].push_back({{"id", figure.id}, {"title", figure.title}, {"caption", figure.caption}});
    }
    for (const Table& table : section.tables) {
      put(cat("tables/", table.id, ".csv"), to_csv(table));
      put(cat("tables/", table.id, ".md"), to_markdown(table));
      put(cat("tables/", table.id, ".tex"), to_latex(for_papers(table)));
      entry["tables"].push_back(to_json(table));
    }
    page.sections.push_back(std::move(shown));
    json["sections"].push_back(std::move(entry));
  }
  for (const auto& [name, text] : results.data)
    put(cat("data/", file_name(name.substr(0, name.size() - 4)), ".csv"), text);
  put("report.json", support::json_text(json, 1) + "\n");
  put("report.html", render_page(page));
  if (const std::string result = result_text(sections); !result.empty()) put("result.txt", result);
  out.finish();
  // The note does not name the folder: within a pipeline it is a temporary one.
  workspace.progress->note(cat("report: ", sections.size(), " sections, ", drawn.size(), " figures"));
  return failed_claims(results);
}

}  // namespace pe::report
