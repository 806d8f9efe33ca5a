// Small files that ask for a lot end in an error, within a second of work and 200 MB. Each runs in a separate process
// with that much memory.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <string>

#include "pipeline/grid_fixture.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
using pe::test::GridFolder;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kLimited = false;  // AddressSanitizer maps more than that by itself
#else
constexpr bool kLimited = true;
#endif

namespace {

constexpr rlim_t kMemory = 200u << 20;

std::size_t mapped_bytes() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

/// The text of the refusal; "" when there was none; "out of memory", or "crashed" where it died or took 20 s of CPU.
std::string refused(const std::string& text) {
  const GridFolder folder;
  int ends[2];
  BOOST_REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (kLimited) {
      const rlimit limit{mapped_bytes() + kMemory, mapped_bytes() + kMemory};
      ::setrlimit(RLIMIT_AS, &limit);
    }
    const rlimit cpu{20, 20};
    ::setrlimit(RLIMIT_CPU, &cpu);
    std::string answer;
    try {
      answer = folder.refusal(text);
    } catch (const std::bad_alloc&) {
      answer = "out of memory";
    }
    answer.resize(std::min<std::size_t>(answer.size(), 4000));
    const ssize_t written = ::write(ends[1], answer.data(), answer.size());
    ::_exit(written == static_cast<ssize_t>(answer.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string answer;
  char buffer[4096];
  for (ssize_t count; (count = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    answer.append(buffer, static_cast<std::size_t>(count));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? answer : "crashed";
}

void check(const std::string& text, const std::string& says) {
  const std::string answer = refused(text);
  BOOST_TEST(answer.find(says) != std::string::npos, "expected '" << says << "', found: " << answer.substr(0, 600));
}

std::string written(const std::string& stages, const std::string& top = {}) {
  return "schema: pe-pipeline/1\nname: bomb\n" + top + "stages:\n" + stages;
}

std::string numbers(int count) {
  std::string text = "[";
  for (int i = 0; i < count; ++i) text += (i ? "," : "") + std::to_string(i);
  return text + "]";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(expand_bombs)

BOOST_AUTO_TEST_CASE(a_huge_product_of_axes_is_refused_before_it_is_made) {
  std::string axes = "axes: {", over;
  for (char name = 'a'; name <= 'h'; ++name) {
    axes += std::string(name > 'a' ? ", " : "") + "ax_" + name + ": " + numbers(200);
    over += std::string(name > 'a' ? ", " : "") + "ax_" + name;
  }
  check(written("  fetch: {run: pe-fetch, over: [" + over + "]}\n", axes + "}\n"),
        "more than 300,000 tasks: 200 ax_a x 200 ax_b");
}

BOOST_AUTO_TEST_CASE(instances_of_instances_of_instances_are_refused) {
  const std::string axes = "axes: {a: " + numbers(700) + ", b: " + numbers(700) + "}\n";
  check(written("  fetch: {run: pe-fetch}\n"
                "  tokenize: {run: pe-tokenize, needs: {raw: fetch}}\n"
                "  trunk: {run: pe-train, over: [a], needs: {data: tokenize}, config: {set: {train.seed: $(a)}}}\n"
                "  evaluate: {run: pe-evaluate, each: {model: trunk}, over: [b], needs: {data: tokenize}}\n",
                axes),
        "more than 300,000 tasks: 700 of `each` x 700 b");
}

BOOST_AUTO_TEST_CASE(everything_gathered_by_everybody_is_refused) {
  const std::string axes = "axes: {a: " + numbers(1500) + ", b: " + numbers(1500) + "}\n";
  check(written("  fetch: {run: pe-fetch}\n"
                "  tokenize: {run: pe-tokenize, needs: {raw: fetch}}\n"
                "  trunk: {run: pe-train, needs: {data: tokenize}}\n"
                "  evaluate: {run: pe-evaluate, over: [a], needs: {data: tokenize, model: trunk}}\n"
                "  report: {run: pe-report, over: [b], gather: {scores: evaluate}}\n",
                axes),
        "more than 600,000 edges");
}

BOOST_AUTO_TEST_CASE(deep_nesting_is_refused) {
  for (const int depth : {100, 20'000}) {
    check("schema: pe-pipeline/1\nname: deep\nvars: {a: " + std::string(static_cast<std::size_t>(depth), '[') + "\n",
          "nested deeper than 64 levels");
  }
}

BOOST_AUTO_TEST_CASE(a_billion_aliases_are_refused) {
  std::string text = "schema: pe-pipeline/1\nname: laughs\nvars:\n  a: &a [x,x,x,x,x,x,x,x,x]\n";
  for (char c = 'b'; c <= 'j'; ++c) {
    text += std::string("  ") + c + ": &" + c + " [";
    for (int i = 0; i < 9; ++i) text += std::string(i ? "," : "") + "*" + static_cast<char>(c - 1);
    text += "]\n";
  }
  check(text, "more than 500,000 values, counting each use of an alias");
}

BOOST_AUTO_TEST_CASE(a_long_var_used_a_thousand_times_is_refused) {
  std::string uses;
  for (int i = 0; i < 1000; ++i) uses += "$(long)";
  const std::string top = "vars: {long: " + std::string(1'000'000, 'x') + "}\n";
  check(written("  fetch: {run: pe-fetch, config: {set: {path: a" + uses + "}}}\n", top), "larger than 4 MiB");
}

BOOST_AUTO_TEST_CASE(thousands_of_stages_are_refused) {
  std::string stages;
  for (int i = 0; i < 5000; ++i) stages += "  s" + std::to_string(i) + ": {run: pe-fetch}\n";
  check(written(stages), "a pipeline may have 2000 stages, this one has 5000");
}

BOOST_AUTO_TEST_CASE(thousands_of_mistakes_are_told_shortly) {
  std::string labels = "wrong0";
  for (int i = 1; i < 20'000; ++i) labels += ", wrong" + std::to_string(i);
  check(written("  fetch: {run: pe-fetch, over: [a], exclude: [{a: [" + labels + "]}]}\n",
                "axes: {a: " + numbers(3000) + "}\n"),
        "has no label 'wrong0'");
}

BOOST_AUTO_TEST_SUITE_END()
