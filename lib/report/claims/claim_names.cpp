#include <algorithm>
#include <set>

#include "report/claims/claim_items.h"
#include "report/claims/claims.h"
#include "report/results/results.h"
#include "schema/tables.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;
using support::quote;

using Words = std::vector<std::string>;

bool is_encoding_axis(const std::string& axis) { return axis == "encoding" || axis == "pe"; }

/// Names that the results of a report will have.
class Names {
 public:
  /// @param labels  of the gathered artifacts, as in ReportConfig
  explicit Names(const std::vector<std::string>& labels) {
    for (const std::string& text : labels) {
      const auto [role, own] = parse_labels(text);
      if (role != "scores") continue;
      ++runs_;
      bool named = false;
      for (const auto& [axis, label] : own) {
        add(axis, label);
        named = named || is_encoding_axis(axis);
      }
      if (named) ++named_;
    }
  }

  /// Arms of runs without such a label are called after the encoding in their tables, which is not known yet.
  bool are_known() const { return runs_ > 0 && named_ == runs_; }

  void check(const ClaimTest& test, support::Diagnostics& diagnostics) const {
    for (const auto& [axis, label] : test.quantity.runs) {
      const auto own = labels_.find(axis);
      if (own == labels_.end()) {
        Words axes;
        for (const auto& [name, values] : labels_) axes.push_back(name);
        diagnostics.add(cat("'runs': no result has a label ", quote(axis)), test.place,
                        support::suggestion(axis, axes));
      } else if ((axis == "stage" || axis == "from") &&
                 std::none_of(own->second.begin(), own->second.end(),
                              [&label = label](const std::string& one) { return same_value(one, label); })) {
        diagnostics.add(cat("'runs': no result has the ", axis, " ", quote(label)), test.place,
                        support::suggestion(label, {own->second.begin(), own->second.end()}));
      }
    }
    if (!test.quantity.by.empty()) return;  // a column of the table names its arms
    for (const std::string& arm : test.arms()) {
      bool first = true;
      for (const std::string& part : support::split(arm, ',')) {
        const std::string word(support::trim(part));
        const std::set<std::string>& known = first ? encodings_ : others_;
        if (known.count(word) == 0) {
          diagnostics.add(cat(first ? "no result has the encoding " : "no result has the label ", quote(word)),
                          test.place, support::suggestion(word, {known.begin(), known.end()}));
        }
        first = false;
      }
    }
  }

 private:
  void add(const std::string& axis, const std::string& label) {
    labels_[axis].insert(label);
    if (is_encoding_axis(axis))
      encodings_.insert(label);
    else
      others_.insert(label_text(axis, label));
  }

  std::map<std::string, std::set<std::string>> labels_;  ///< by axis
  std::set<std::string> encodings_, others_;             ///< words in the names of arms
  std::size_t runs_ = 0, named_ = 0;
};

/// Columns of a table that evaluations write. Other tables are known when they are gathered.
void check_columns(const ClaimTest& test, support::Diagnostics& diagnostics) {
  const Quantity& quantity = test.quantity;
  const auto& layouts = schema::layouts();
  const auto layout = std::find_if(layouts.begin(), layouts.end(),
                                   [&](const schema::Layout& one) { return one.name == quantity.table; });
  if (layout == layouts.end()) return;
  Words known;
  schema::Identity identity;
  const auto add = [&](const char* name, const auto&...) { known.emplace_back(name); };
  schema::Identity::columns(identity, add);
  for (const schema::Column& column : layout->columns) known.push_back(column.name);
  std::set<std::string> named{quantity.measure, quantity.per, quantity.by, quantity.seed_by};
  for (const auto& [name, values] : quantity.where) named.insert(name);
  for (const auto& [name, values] : quantity.minus.value_or(RowFilter())) named.insert(name);
  named.erase("");
  for (const std::string& name : named) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    diagnostics.add(cat("table ", quote(quantity.table), " has no column ", quote(name)), test.place,
                    support::suggestion(name, known));
  }
}

}  // namespace

void check_names(const std::vector<ClaimSpec>& claims, const std::vector<std::string>& labels,
                 const std::vector<std::string>& left_out) {
  support::Diagnostics diagnostics;
  for (const ClaimSpec& claim : claims) {
    for (const ClaimTest& test : claim.control) check_columns(test, diagnostics);
    for (const ClaimTest& test : claim.tests) check_columns(test, diagnostics);
  }
  diagnostics.throw_if_any();
  // Without a label of an axis, stages and labels of other axes may be gone, too.
  const bool is_whole = std::all_of(left_out.begin(), left_out.end(),
                                    [](const std::string& label) { return label.starts_with("seed="); });
  const Names names(labels);
  if (!is_whole || !names.are_known()) return;
  for (const ClaimSpec& claim : claims) {
    for (const ClaimTest& test : claim.control) names.check(test, diagnostics);
    for (const ClaimTest& test : claim.tests) names.check(test, diagnostics);
  }
  diagnostics.throw_if_any();
}

}  // namespace pe::report
