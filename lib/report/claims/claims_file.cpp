#include "report/claims/claims.h"

#include <algorithm>
#include <cmath>

#include "support/hash.h"
#include "support/suggest.h"
#include "support/text.h"
#include "support/yaml.h"

namespace pe::report {
namespace {

using support::cat;
using support::Node;
using support::quote;

using Words = std::vector<std::string>;

/// Keys that tests may take over from their claim.
const Words kShared = {"table", "measure", "per", "by", "seed_by", "runs", "noise", "absolute"};
const Words kComparisons = {"above", "at_least", "at_most", "near"};

class ClaimReader {
 public:
  std::vector<ClaimSpec> read(const Node& root) {
    std::vector<ClaimSpec> claims;
    if (!known_keys(root, "a file of claims", {"claims"})) diagnostics_.throw_if_any();
    const Node* list = root.find("claims");
    if (!list || !list->is_map() || list->members.empty()) {
      diagnostics_.add(cat("expected a map of claims under 'claims', found ", list ? list->found() : "nothing"),
                       root.place());
    } else {
      for (const Node::Member& member : list->members) claims.push_back(claim(member));
    }
    diagnostics_.throw_if_any();
    return claims;
  }

 private:
  ClaimSpec claim(const Node::Member& member) {
    ClaimSpec claim;
    claim.id = member.key;
    claim.hash = support::sha256_hex(support::to_json(member.value).dump()).substr(0, 12);
    Words keys = {"says", "source", "published", "expected", "control", "tests"};
    keys.insert(keys.end(), kShared.begin(), kShared.end());
    if (!known_keys(member.value, cat("claim ", quote(claim.id)), keys)) return claim;
    claim.says = text(member.value, "says", true);
    claim.source = text(member.value, "source");
    claim.published = text(member.value, "published");
    if (const Node* expected = member.value.find("expected")) claim.expected = verdict(*expected);
    ClaimTest shared;
    read_shared(member.value, shared);
    const auto tests = [&](const char* key, std::vector<ClaimTest>& to, bool needed) {
      const Node* list = member.value.find(key);
      if (!list && !needed) return;
      if (!list || !list->is_list() || list->items.empty()) {
        diagnostics_.add(cat("claim ", quote(claim.id), ": expected a list of tests under '", key, "', found ",
                             list ? list->found() : "nothing"),
                         list ? list->place() : member.key_mark.place());
        return;
      }
      for (const Node& item : list->items) to.push_back(test(item, shared));
    };
    tests("control", claim.control, false);
    tests("tests", claim.tests, true);
    return claim;
  }

  ClaimTest test(const Node& node, const ClaimTest& shared) {
    ClaimTest test = shared;
    test.place = node.place();
    Words keys = {"where", "minus", "of", "margin", "within", "published", "band"};
    keys.insert(keys.end(), kShared.begin(), kShared.end());
    keys.insert(keys.end(), kComparisons.begin(), kComparisons.end());
    if (!known_keys(node, "a test", keys)) return test;
    read_shared(node, test);
    if (const Node* where = node.find("where")) test.quantity.where = filter(*where);
    if (const Node* minus = node.find("minus")) {
      // Columns that 'minus' does not repeat keep their values of 'where'.
      RowFilter elsewhere = test.quantity.where;
      for (auto& [column, values] : filter(*minus)) elsewhere[column] = values;
      test.quantity.minus = std::move(elsewhere);
    }
    test.of = words(node, "of");
    if (node.find("published")) test.published = number(node, "published", 0);
    if (const Node* band = node.find("band")) test.band = interval(*band);
    for (const char* needed : {"table", "measure"}) {
      if ((needed == std::string("table") ? test.quantity.table : test.quantity.measure).empty()) {
        diagnostics_.add(cat("a test needs a ", needed), node.place(),
                         cat("give '", needed, "' here or for the whole claim"));
      }
    }
    if (test.of.empty())
      diagnostics_.add("a test needs arms to be about", node.place(), "give 'of': one encoding or a list");
    Words found;
    for (const std::string& key : kComparisons) {
      if (node.find(key)) found.push_back(key);
    }
    if (found.size() != 1) {
      diagnostics_.add(cat("a test says one of above, at_least, at_most and near; found ",
                           found.empty() ? "none" : support::join(found, " and ")),
                       node.place());
      return test;
    }
    if (found[0] == "above") {
      test.kind = ClaimTest::Kind::kAbove;
      test.others = words(node, "above");
      refuse_itself(node, test);
      test.value = number(node, "margin", 0);
    } else {
      test.kind = found[0] == "at_least"  ? ClaimTest::Kind::kAtLeast
                  : found[0] == "at_most" ? ClaimTest::Kind::kAtMost
                                          : ClaimTest::Kind::kNear;
      test.value = number(node, found[0].c_str(), 0);
      if (node.find("margin")) diagnostics_.add("'margin' belongs to 'above'", node.find("margin")->place());
    }
    if (test.kind == ClaimTest::Kind::kNear) {
      test.within = number(node, "within", -1);
      if (test.within < 0) diagnostics_.add("'near' needs 'within', at least 0", node.place());
    } else if (const Node* within = node.find("within")) {
      diagnostics_.add("'within' belongs to 'near'", within->place());
    }
    return test;
  }

  void refuse_itself(const Node& node, const ClaimTest& test) {
    for (const std::string& arm : test.of) {
      if (std::find(test.others.begin(), test.others.end(), arm) == test.others.end()) continue;
      diagnostics_.add(cat("'of' and 'above' both name ", quote(arm), ", and no encoding exceeds itself"),
                       node.find("above")->place(), cat("leave ", quote(arm), " out of one of them"));
    }
  }

  void read_shared(const Node& node, ClaimTest& test) {
    Quantity& quantity = test.quantity;
    for (const auto& [key, to] : {std::pair<const char*, std::string*>{"table", &quantity.table},
                                  {"measure", &quantity.measure},
                                  {"per", &quantity.per},
                                  {"by", &quantity.by},
                                  {"seed_by", &quantity.seed_by}}) {
      if (node.find(key)) *to = text(node, key);
    }
    if (const Node* runs = node.find("runs")) {
      for (const auto& [label, values] : filter(*runs)) {
        quantity.runs[label] = values.front();
        if (values.size() > 1)
          diagnostics_.add(cat("'runs' takes one value of ", quote(label), ", found ", values.size()), runs->place());
      }
    }
    if (const Node* noise = node.find("noise")) {
      const std::string word = text(node, "noise");
      if (word != "items" && word != "none") {
        diagnostics_.add(cat("'noise' is 'items' or 'none', found ", quote(word)), noise->place());
      }
      test.noise = word != "none";
    }
    if (const Node* absolute = node.find("absolute")) {
      quantity.absolute = absolute->is_scalar() && absolute->text == "true";
      if (!quantity.absolute && !(absolute->is_scalar() && absolute->text == "false")) {
        diagnostics_.add(cat("'absolute' is true or false, found ", absolute->found()), absolute->place());
      }
    }
  }

  bool known_keys(const Node& node, const std::string& what, const Words& keys) {
    if (!node.is_map()) {
      diagnostics_.add(cat(what, " is a map, found ", node.found()), node.place());
      return false;
    }
    for (const Node::Member& member : node.members) {
      if (std::find(keys.begin(), keys.end(), member.key) == keys.end()) {
        diagnostics_.add(cat(what, " has no key ", quote(member.key)), member.key_mark.place(),
                         support::suggestion(member.key, keys));
      }
    }
    return true;
  }

  std::string text(const Node& node, const char* key, bool needed = false) {
    const Node* value = node.find(key);
    if (!value) {
      if (needed) diagnostics_.add(cat("'", key, "' is missing"), node.place());
      return "";
    }
    if (!value->is_scalar() || value->text.empty()) {
      diagnostics_.add(cat("'", key, "' is a text, found ", value->found()), value->place());
      return "";
    }
    return value->text;
  }

  double number(const Node& node, const char* key, double fallback) {
    const Node* value = node.find(key);
    if (!value) return fallback;
    const auto parsed = value->is_scalar() ? support::parse_real(value->text) : std::nullopt;
    if (!parsed || !std::isfinite(*parsed)) {
      diagnostics_.add(cat("'", key, "' is a number, found ", value->found()), value->place());
      return fallback;
    }
    return *parsed;
  }

  /// "[0.9, 1]"
  std::optional<statistics::Interval> interval(const Node& node) {
    std::vector<double> bounds;
    if (node.is_list()) {
      for (const Node& item : node.items) {
        if (const auto bound = item.is_scalar() ? support::parse_real(item.text) : std::nullopt)
          bounds.push_back(*bound);
      }
    }
    if (bounds.size() == 2 && node.items.size() == 2 && bounds[0] <= bounds[1])
      return statistics::Interval{bounds[0], bounds[1]};
    diagnostics_.add(cat("'band' is two numbers, the lower first, found ", node.found()), node.place(),
                     "such as band: [0.9, 1]");
    return std::nullopt;
  }

  Verdict verdict(const Node& node) {
    Words names;
    for (const Verdict verdict :
         {Verdict::kReproduced, Verdict::kInconclusive, Verdict::kNotTestable, Verdict::kRefuted}) {
      if (node.is_scalar() && node.text == verdict_name(verdict)) return verdict;
      names.emplace_back(verdict_name(verdict));
    }
    diagnostics_.add(cat("'expected' is a verdict (", support::join(names, ", "), "), found ", node.found()),
                     node.place(), node.is_scalar() ? support::suggestion(node.text, names) : "");
    return Verdict::kReproduced;
  }

  Words words(const Node& node, const char* key) {
    const Node* value = node.find(key);
    return value ? word_list(*value, key) : Words{};
  }
  Words word_list(const Node& value, const std::string& key) {
    Words found;
    if (value.is_scalar()) found.push_back(value.text);
    if (value.is_list()) {
      for (const Node& item : value.items) {
        if (item.is_scalar())
          found.push_back(item.text);
        else
          diagnostics_.add(cat("'", key, "' lists words, found ", item.found()), item.place());
      }
    }
    if (found.empty())
      diagnostics_.add(cat("'", key, "' is a word or a list of them, found ", value.found()), value.place());
    return found;
  }

  RowFilter filter(const Node& node) {
    RowFilter filter;
    if (!node.is_map()) {
      diagnostics_.add(cat("expected a map of columns to values, found ", node.found()), node.place());
      return filter;
    }
    for (const Node::Member& member : node.members) {
      const Words values = word_list(member.value, member.key);
      if (!values.empty()) filter[member.key] = values;
    }
    return filter;
  }

  support::Diagnostics diagnostics_;
};

}  // namespace

std::vector<ClaimSpec> read_claims(const std::filesystem::path& file) {
  return ClaimReader().read(support::read_yaml(file));
}

}  // namespace pe::report
