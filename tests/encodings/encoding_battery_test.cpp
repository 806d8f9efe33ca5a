// Invariants of every encoding, run over the registry: a new encoding is under test once it is listed.
// `pe-encodings check NAME` runs the same checks (encoding_docs/battery/checks.h) for one encoding.
#include <ATen/ops/arange.h>

#include <boost/test/unit_test.hpp>
#include <tuple>

#include "encoding_docs/battery/checks.h"
#include "fixture.h"

using namespace pe;
using namespace pe::test;

BOOST_AUTO_TEST_SUITE(encoding_battery)

namespace {

/// A suite for each check, with a case for each encoding: encoding_battery/gradients/alibi.
struct BatteryCases {
  BatteryCases() {
    for (const Check& check : checks()) {
      const auto run = [&check](const Subject& subject) {
        const Findings findings = run_check(check, subject);
        BOOST_TEST(findings.clean(), subject.name << ", " << check.name << ": " << findings.text());
      };
      SubjectCases(check.name, subjects(), run, __FILE__, __LINE__);
    }
  }
} const battery_cases;

/// A bias by distance with a mistake in it.
class Mistaken : public encodings::PositionalEncoding {
 public:
  enum class Mistake { kNone, kTableOfLength, kNoGradient, kSeesAhead, kCounts, kShifts };
  Mistaken(Mistake mistake, const encodings::Shape& shape) : PositionalEncoding(shape), mistake_(mistake) {
    slope_ = add_constant("mistaken", "slope", {shape.query_heads}, 0.5, false);
  }
  encodings::Facts facts() const override { return {.learned = true}; }
  encodings::Traits traits(const encodings::Span&) const override {
    return {.bias = encodings::BiasKind::kToeplitz, .bias_needs_grad = true};
  }
  Tensor table(encodings::LayerContext&, std::int64_t n) override {
    const Tensor slope = mistake_ == Mistake::kNoGradient ? slope_.detach() + 0 * slope_ : slope_;
    const Tensor table = slope.unsqueeze(1) * at::arange(n, slope_.options().requires_grad(false)) * -1;
    return mistake_ == Mistake::kTableOfLength ? table / static_cast<double>(n) : table;
  }
  void transform(encodings::LayerContext& context, encodings::Heads& heads) override {
    if (mistake_ == Mistake::kSeesAhead) heads.q = heads.q + context.x.mean().to(heads.q.scalar_type());
    if (mistake_ == Mistake::kCounts) heads.q = heads.q * (1 + 1e-6 * static_cast<double>(++passes_));
    if (mistake_ == Mistake::kShifts) {
      const std::int64_t queries = context.span.queries;
      const Tensor p = context.positions.narrow(-1, context.span.keys - queries, queries).to(heads.q.scalar_type());
      heads.q = heads.q * (1 + p.unsqueeze(-1));
    }
  }

 private:
  Mistake mistake_;
  Tensor slope_;
  int passes_ = 0;
};

std::string findings_of(const char* check, Mistaken::Mistake mistake) {
  const Subject subject{"mistaken", "none", [mistake](const encodings::Shape& shape) {
                          return std::make_unique<Mistaken>(mistake, shape);
                        }};
  for (const Check& one : checks()) {
    if (std::string(one.name) == check) return run_check(one, subject).text();
  }
  return "there is no such check";
}

}  // namespace

/// A check that cannot fail checks nothing: each finds the mistake that it is for, and none in the encoding without
/// one.
BOOST_AUTO_TEST_CASE(planted_mistakes_are_found) {
  using Mistake = Mistaken::Mistake;
  const std::vector<std::tuple<const char*, Mistake, const char*>> planted = {
      {"table", Mistake::kTableOfLength, "table(5) against the first 5 distances of table(12)"},
      {"row_by_row", Mistake::kTableOfLength, "by itself"},
      {"gradients", Mistake::kNoGradient, "gradient of mistaken.slope, element 0: finite differences give "},
      {"frozen", Mistake::kNoGradient, "no parameter has a gradient"},
      {"causality", Mistake::kSeesAhead, "is seen before it comes"},
      {"repetition", Mistake::kCounts, "the output differs again"},
      {"shift", Mistake::kShifts, "output at a shift of 1"},
  };
  for (const auto& [check, mistake, words] : planted) {
    const std::string found = findings_of(check, mistake);
    BOOST_TEST(found.find(words) != std::string::npos, check << " says: " << found);
    BOOST_TEST(findings_of(check, Mistake::kNone).empty(), check << " says: " << findings_of(check, Mistake::kNone));
  }
}

// As `pe-encodings check` asks for them: none of these is in the list of the battery.
BOOST_AUTO_TEST_CASE(stacks_of_users_are_judged_by_their_members) {
  for (const char* stack : {R"({"stack": ["randomised", "rope"]})", R"({"stack": ["rfs", "alibi"]})",
                            R"({"stack": ["rope", "ssmax", "window"]})", R"({"stack": ["path", "rope"]})",
                            R"({"stack": ["path_fox", "rope"]})", R"({"stack": ["wall", "rope"]})"}) {
    const Subject subject{"of a user", Json::parse(stack)};
    for (const Check& check : checks()) {
      if (std::string(check.name) != "facts" && std::string(check.name) != "shift") continue;
      const Findings findings = run_check(check, subject);
      BOOST_TEST(findings.clean(), stack << ", " << check.name << ": " << findings.text());
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
