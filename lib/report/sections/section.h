/// @file
/// A report is a list of sections, each a file in `sections/` and a line in `meson.build`. A section looks at the
/// results and says what it can: sentences, figures, tables. One that has nothing to show stays empty and is left out.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "report/figures/figure.h"
#include "report/figures/palette.h"
#include "report/results/arms.h"
#include "report/results/cost_settings.h"
#include "report/results/results.h"
#include "report/results/rows.h"
#include "report/tables/table.h"
#include "schema/models.h"
#include "statistics/estimates.h"

namespace pe::report {

struct Section {
  std::string id;
  std::string title;
  std::vector<std::string> paragraphs;  ///< how to read what follows
  std::vector<std::string> findings;    ///< sentences for the top of the page
  std::vector<std::string> lines;       ///< the most important ones for the end of a run
  std::vector<Figure> figures;
  std::vector<Table> tables;
  bool empty() const { return paragraphs.empty() && figures.empty() && tables.empty(); }
};

inline constexpr std::size_t kLineColumns = 78;  ///< of Section::lines: a terminal's 80, less an indent

/// A file whose section has the id of the one before adds figures and tables to it.
struct SectionEntry {
  const char* name;
  Section (*make)(const Results& results, Palette& palette);
};

/// All sections, in the order of the page.
const std::vector<SectionEntry>& section_table();

// Helpers of all sections.

/// Sentences as one: "A; b; c."
std::string join_as_sentence(const std::vector<std::string>& sentences);
/// Adds `tail` to a line of Section::lines unless it becomes too long.
void append_if_fits(std::string& line, const std::string& tail);

/// A protocol and a length that some model was measured at: a column of numbers.
struct LmPlace {
  std::string protocol;
  std::int64_t length = 0;
};
std::vector<LmPlace> lm_places(const Results& results);  ///< by protocol, then length
/// Words that follow a setting: where the times of others are. Empty where there is one setting.
std::string other_settings_note(const std::vector<CostSetting>& settings);

std::string mark_of(const std::string& status);                          ///< "overflow", "n/a", "–"
std::string length_header(const Results& results, std::int64_t length);  ///< "512 (4×)"
std::string tokens_header(const Results& results, std::int64_t length);  ///< "512 tokens (4×)"
/// A line at the training length of a variant's arms; where they differ one for each, with its number.
void add_training_rules(Panel& panel, const Results& results, const std::string& variant);
std::string training_sentence(const Results& results);  ///< "Training length: 128 tokens. …", notes too
std::string seeds_sentence(const Results& results);     ///< "2 seeds each (42, 43)."
/// Size, steps, seeds and text, below every figure: "392k parameters · 293 steps · 3 seeds · generated stories".
/// Unknown parts are left out.
std::string setting_words(const Results& results);
/// Columns "Encoding" and, where there are several, "Variant"; and their cells.
std::vector<Column> arm_columns(const Results& results);
std::vector<Column> arm_columns(bool with_variant);
std::vector<Cell> arm_cells(const Results& results, const Arm& arm);
std::vector<Cell> arm_cells(const std::string& encoding, const std::string& variant, bool with_variant);
/// The places of trainings in Results::curves, for Row::trainings.
std::vector<std::size_t> places_of(const Results& results, const std::vector<const Curve*>& curves);
/// A number in a cell of a heat map: two decimals, below 1 three.
std::string heat_text(double value);
/// A name of a network or a task without its underscores: "post norm over batch".
std::string in_words(std::string name);
/// Variants without the parts ("drop" of "scaffold, drop, d50") that are the same in all of them.
std::vector<std::string> distinguishing_parts(const std::vector<std::string>& variants);
/// Names of a figure's rows: arm_name without the parts of the variant that are the same in all of these arms, so that
/// what tells them apart is not cut off. The names stay distinct.
std::vector<std::string> row_names(const Results& results, const std::vector<const Arm*>& arms);
/// The mean over seeds with its 95 % t interval from three seeds on; of two seeds both values.
Cell mean_cell(const std::vector<double>& seeds);
/// The level of a share such as exact match: its median over seeds, and each seed. Seeds often learn a task or do not,
/// and an interval that takes them for a bell misses such a level.
Cell share_cell(const std::vector<double>& seeds);
/// Adds main, seeds and band of an arm; `values` [seed][point]; `transform` maps them to the axis.
void add_arm_series(Panel& panel, const Arm& arm, const Look& look, const std::vector<std::string>& seeds,
                    const std::vector<double>& xs, const std::vector<std::vector<double>>& values,
                    double (*transform)(double), const std::string& end_note = {});
/// The same of shares: the median, with each seed as a point and no band.
void add_share_series(Panel& panel, const Arm& arm, const Look& look, const std::vector<std::string>& seeds,
                      const std::vector<double>& xs, const std::vector<std::vector<double>>& values);
}  // namespace pe::report
