#include "encodings/extension/longrope_search.h"

#include <algorithm>
#include <set>

#include "encodings/extension/longrope.h"
#include "encodings/extension/yarn.h"
#include "support/hash.h"
#include "support/random.h"

namespace pe::encodings {
namespace {

constexpr double kGrid = 100;  // steps of 0.01
constexpr std::int64_t kProtected[] = {0, 1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 64, 128, 256};
constexpr int kTries = 20;  // for a child that is new and never falls

/// A candidate of the search: divisors in hundredths, so that equal ones are equal.
struct Genome {
  std::vector<std::int64_t> divisors;
  std::int64_t protected_positions = 0;
  std::int64_t critical = 0;  // of LongRoPE2: pairs before it follow from it
  auto operator<=>(const Genome&) const =
      default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 sees a pointer in its 0
};

struct ScoredGenome {
  Genome genome;
  double score;
};

std::int64_t hundredths(double divisor) { return std::llround(divisor * kGrid); }

/// The parts of the search in which the two papers differ.
class Space {
 public:
  virtual ~Space() = default;
  virtual std::vector<Genome> first(support::Xoshiro& random) const = 0;
  virtual Genome mutant(const Genome& of, support::Xoshiro& random) const = 0;
  virtual Genome child(const Genome& a, const Genome& b, support::Xoshiro& random) const = 0;
  virtual RescaleFactors factors(const Genome& genome) const = 0;
};

bool never_falls(const Genome& genome) { return std::is_sorted(genome.divisors.begin(), genome.divisors.end()); }

FactorSearchResult evolve(const Space& space, const FactorSearchOptions& options, const FactorScore& score,
                          const FactorProgress& progress, const char* purpose) {
  support::Xoshiro random(support::make_key({options.seed, support::fnv1a64(purpose)}));
  FactorSearchResult result;
  std::vector<ScoredGenome> living;
  std::set<Genome> seen;
  const auto add = [&](const Genome& genome) {
    seen.insert(genome);
    double value = score(space.factors(genome));
    if (!std::isfinite(value)) value = std::numeric_limits<double>::infinity();
    living.push_back({genome, value});
    ++result.evaluated;
  };
  const auto is_new = [&](const Genome& genome) { return never_falls(genome) && seen.count(genome) == 0; };
  const auto sort_living = [&] {
    std::stable_sort(living.begin(), living.end(),
                     [](const ScoredGenome& a, const ScoredGenome& b) { return a.score < b.score; });
  };
  const auto pick = [&](std::size_t among) { return living[random.below(among)].genome; };
  const auto add_mutant = [&](const Genome& of) {
    for (int tries = 0; tries < kTries; ++tries) {
      const Genome genome = space.mutant(of, random);
      if (is_new(genome)) return add(genome);
    }
  };
  const auto report = [&](std::int64_t generation) {
    sort_living();
    result.best_of_generation.push_back(living.front().score);
    if (progress) progress(generation, living.front().score);
  };

  const std::vector<Genome> seeds = space.first(random);
  for (const Genome& genome : seeds) {
    if (seen.count(genome) == 0) add(genome);
  }
  while (static_cast<std::int64_t>(living.size()) < options.population) {
    const std::size_t before = living.size();
    add_mutant(seeds[random.below(seeds.size())]);
    if (living.size() == before) break;  // a space so small that nothing new is found
  }
  report(0);
  const auto parents = static_cast<std::size_t>(std::max<std::int64_t>(1, options.population / 2));
  for (std::int64_t generation = 1; generation <= options.generations; ++generation) {
    if (living.size() > parents) living.resize(parents);  // the best so far are always among them
    const std::size_t among = living.size();
    for (std::int64_t m = 0; m < options.mutations; ++m) add_mutant(pick(among));
    for (std::int64_t c = 0; c < options.crossovers; ++c) {
      const Genome a = pick(among), b = pick(among);
      bool born = false;
      for (int tries = 0; tries < kTries && !born; ++tries) {
        const Genome genome = space.child(a, b, random);
        if (!is_new(genome)) continue;
        add(genome);
        born = true;
      }
      if (!born) add_mutant(a);
    }
    report(generation);
  }
  result.best = space.factors(living.front().genome);
  result.score = living.front().score;
  return result;
}

/// Draws each entry again with some probability, between its neighbours.
void mutate(std::vector<std::int64_t>& divisors, std::size_t from, std::int64_t least, std::int64_t most,
            double probability, support::Xoshiro& random) {
  for (std::size_t i = from; i < divisors.size(); ++i) {
    if (random.uniform() >= probability) continue;
    const std::int64_t low = i == from ? least : divisors[i - 1];
    const std::int64_t high = i + 1 == divisors.size() ? most : divisors[i + 1];
    if (high >= low)
      divisors[i] = low + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(high - low + 1)));
  }
}

class LongRopeSpace : public Space {
 public:
  LongRopeSpace(const FrequencySchedule& of, std::int64_t train_length, double factor,
                const FactorSearchOptions& options)
      : of_(of), train_length_(train_length), factor_(factor), most_(hundredths(1.25 * factor)), options_(options) {}

  std::vector<Genome> first(support::Xoshiro& random) const override {
    const std::size_t pairs = of_.theta.size();
    const RotaryFrequencies yarn = yarn_frequencies(of_, factor_, train_length_);
    Genome pi, ntk, by_yarn;
    for (std::size_t i = 0; i < pairs; ++i) {
      pi.divisors.push_back(hundredths(factor_));
      ntk.divisors.push_back(hundredths(ntk_divisor(factor_, i, of_.width)));
      by_yarn.divisors.push_back(of_.theta[i] == 0 ? hundredths(factor_) : hundredths(of_.theta[i] / yarn.theta[i]));
    }
    return {pi, ntk, by_yarn};
  }
  Genome mutant(const Genome& of, support::Xoshiro& random) const override {
    Genome genome = of;
    mutate(genome.divisors, 0, hundredths(1), most_, options_.mutation_probability, random);
    if (options_.search_protected && random.uniform() < options_.mutation_probability) {
      genome.protected_positions = kProtected[random.below(std::size(kProtected))];
    }
    return genome;
  }
  Genome child(const Genome& a, const Genome& b, support::Xoshiro& random) const override {
    Genome genome = a;
    for (std::size_t i = 0; i < genome.divisors.size(); ++i) {
      if (random.uniform() < options_.crossover_probability) genome.divisors[i] = b.divisors[i];
    }
    if (random.uniform() < options_.crossover_probability) genome.protected_positions = b.protected_positions;
    return genome;
  }
  RescaleFactors factors(const Genome& genome) const override {
    RescaleFactors made{.protected_positions = genome.protected_positions};
    for (const std::int64_t d : genome.divisors) made.divisors.push_back(static_cast<double>(d) / kGrid);
    return made;
  }

 private:
  FrequencySchedule of_;
  std::int64_t train_length_;
  double factor_;
  std::int64_t most_;
  FactorSearchOptions options_;
};

class LongRope2Space : public Space {
 public:
  LongRope2Space(const FrequencySchedule& of, std::int64_t train_length, double factor,
                 const FactorSearchOptions& options)
      : of_(of), least_(hundredths(factor)), most_(hundredths(2 * factor)), options_(options) {
    const auto last = static_cast<std::int64_t>(of.theta.size()) - 1;
    earliest_ = std::min(critical_pair(of, train_length, 10), last);
    latest_ = std::min(critical_pair(of, train_length, 1), last);
  }

  std::vector<Genome> first(support::Xoshiro& random) const override {
    std::vector<Genome> all;
    for (std::int64_t n = 0; n < std::max<std::int64_t>(2, options_.population / 2); ++n) {
      Genome genome;
      genome.critical = between(earliest_, latest_, random);
      genome.divisors.assign(of_.theta.size() - static_cast<std::size_t>(genome.critical),
                             between(least_, most_, random));
      all.push_back(genome);
    }
    all.front().critical = latest_;  // theory's own answer takes part
    all.front().divisors.assign(of_.theta.size() - static_cast<std::size_t>(latest_), least_);
    return all;
  }
  Genome mutant(const Genome& of, support::Xoshiro& random) const override {
    Genome genome = of;
    mutate(genome.divisors, 0, least_, most_, options_.mutation_probability, random);
    return genome;
  }
  /// Counted from the slow end, where both have entries.
  Genome child(const Genome& a, const Genome& b, support::Xoshiro& random) const override {
    Genome genome = a;
    const std::size_t n = genome.divisors.size(), common = std::min(n, b.divisors.size());
    for (std::size_t i = 1; i <= common; ++i) {
      if (random.uniform() < options_.crossover_probability) genome.divisors[n - i] = b.divisors[b.divisors.size() - i];
    }
    return genome;
  }
  RescaleFactors factors(const Genome& genome) const override {
    const double at_critical = static_cast<double>(genome.divisors.front()) / kGrid;
    RescaleFactors made{.divisors = critical_divisors(of_, genome.critical, at_critical)};
    for (std::size_t i = 0; i < genome.divisors.size(); ++i) {
      made.divisors[static_cast<std::size_t>(genome.critical) + i] = static_cast<double>(genome.divisors[i]) / kGrid;
    }
    return made;
  }

 private:
  static std::int64_t between(std::int64_t low, std::int64_t high, support::Xoshiro& random) {
    return low + static_cast<std::int64_t>(
                     random.below(static_cast<std::uint64_t>(std::max<std::int64_t>(0, high - low) + 1)));
  }

  FrequencySchedule of_;
  std::int64_t least_, most_, earliest_ = 0, latest_ = 0;
  FactorSearchOptions options_;
};

void check_search(const FrequencySchedule& of, double factor) {
  if (factor > 1 && !of.theta.empty()) return;
  throw support::ConfigError("a search for divisors needs a factor above 1 and an encoding that rotates pairs");
}

}  // namespace

void FactorSearchOptions::describe(support::FieldVisitor& v) {
  v.field("population", population, "Sets of divisors in the first generation; half of them are parents of the next.",
          {.min = 2, .max = 65536});
  v.field("mutations", mutations, "New sets by mutation in each generation.", {.min = 0, .max = 65536});
  v.field("crossovers", crossovers, "New sets by crossover of two parents in each generation.",
          {.min = 0, .max = 65536});
  v.field("generations", generations, "Number of generations after the first.", {.min = 0, .max = 65536});
  v.field("mutation_probability", mutation_probability, "Probability that a mutation changes a divisor.",
          {.min = 0, .max = 1});
  v.field("crossover_probability", crossover_probability,
          "Probability that a crossover takes a divisor from the second parent.", {.min = 0, .max = 1});
  v.field("search_protected", search_protected, "Search the number of protected positions too (longrope).");
  v.check(mutations + crossovers > 0 || generations == 0, "a generation needs mutations or crossovers");
}

FactorSearchResult search_longrope(const FrequencySchedule& of, std::int64_t train_length, double factor,
                                   const FactorSearchOptions& options, const FactorScore& score,
                                   const FactorProgress& progress) {
  check_search(of, factor);
  return evolve(LongRopeSpace(of, train_length, factor, options), options, score, progress, "longrope.search");
}

FactorSearchResult search_longrope2(const FrequencySchedule& of, std::int64_t train_length, double factor,
                                    const FactorSearchOptions& options, const FactorScore& score,
                                    const FactorProgress& progress) {
  check_search(of, factor);
  return evolve(LongRope2Space(of, train_length, factor, options), options, score, progress, "longrope2.search");
}

RescalingPointer longrope_rescaling(const RescaleFactors& factors, std::int64_t train_length, double factor) {
  LongRopeOptions options;
  options.factor = factor;
  options.train_length = train_length;
  options.long_factors = options.short_factors = factors.divisors;
  options.protected_positions = factors.protected_positions;
  return std::make_shared<LongRopeRule>(options, Shape{.train_length = train_length});
}

}  // namespace pe::encodings
