#include "pipeline/run/failure.h"

#include <signal.h>
#include <boost/test/unit_test.hpp>

using namespace pe::pipeline;  // NOLINT

namespace {

Outcome of_code(int code) {
  RunnerEvent event;
  event.code = code;
  return classify(event, false);
}

Outcome of_signal(int signal, bool oom = false, bool asked = false) {
  RunnerEvent event;
  event.code = 128 + signal;
  event.signal = signal;
  event.out_of_memory = oom;
  return classify(event, asked);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(failure)

BOOST_AUTO_TEST_CASE(exit_codes_mean_what_the_table_says) {
  BOOST_TEST((of_code(0) == Outcome::kDone));
  BOOST_TEST((of_code(3) == Outcome::kInput));
  BOOST_TEST((of_code(69) == Outcome::kNetwork));
  BOOST_TEST((of_code(74) == Outcome::kIo));
  BOOST_TEST((of_code(75) == Outcome::kCheckpointed));
  BOOST_TEST((of_code(76) == Outcome::kDiverged));
  BOOST_TEST((of_code(130) == Outcome::kInterrupted));
  for (const int code : {2, 64, 65, 66, 67, 68, 70, 71, 72, 73, 78}) BOOST_TEST((of_code(code) == Outcome::kPermanent));
  for (const int code : {1, 4, 63, 79, 127, 255}) BOOST_TEST((of_code(code) == Outcome::kTransient));
  BOOST_TEST((of_signal(SIGKILL) == Outcome::kTransient));
  BOOST_TEST((of_signal(SIGKILL, true) == Outcome::kOutOfMemory));
  BOOST_TEST((of_signal(SIGKILL, true, true) == Outcome::kInterrupted));
  BOOST_TEST((of_signal(SIGSEGV) == Outcome::kTransient));
}

// A stage that could not get memory ends so, and a launcher of ranks with the code of the rank that was killed.
BOOST_AUTO_TEST_CASE(a_stage_that_ends_with_137_is_out_of_memory_whoever_counts) {
  RunnerEvent event;
  event.code = 128 + SIGKILL;
  BOOST_TEST((classify(event, false) == Outcome::kOutOfMemory));
  BOOST_TEST(describe_exit(event) == "exit code 137, out of memory");
  event.out_of_memory = true;
  BOOST_TEST((classify(event, false) == Outcome::kOutOfMemory));
  BOOST_TEST(describe_exit(event) == "exit code 137, one of its processes was killed for memory");
  event.code = 79;  // a GPU failed
  BOOST_TEST((classify(event, false) == Outcome::kTransient));
  event.code = 1;  // another one was killed meanwhile, somewhere on this machine
  BOOST_TEST((classify(event, false) == Outcome::kTransient));
}

BOOST_AUTO_TEST_CASE(a_mistake_of_a_python_program_is_met_again) {
  const auto ends = [](const std::string& last) {
    return is_python_mistake({"working", "Traceback (most recent call last):",
                              "  File \"/p/stage.py\", line 3, in <module>", "    import x", last, ""});
  };
  BOOST_TEST(ends("ModuleNotFoundError: No module named 'x'"));
  BOOST_TEST(ends("KeyError: 'a'"));
  BOOST_TEST(ends("AssertionError"));
  BOOST_TEST(
      is_python_mistake({"  File \"/p/stage.py\", line 1", "    x = = 2", "        ^", "SyntaxError: invalid syntax"}));
  // Of the machine, of a library, or of no program at all.
  BOOST_TEST(!ends("OSError: [Errno 5] Input/output error"));
  BOOST_TEST(!ends("requests.exceptions.ConnectionError: refused"));
  BOOST_TEST(!ends("MemoryError"));
  BOOST_TEST(!is_python_mistake({"KeyError: as another program says it"}));
  BOOST_TEST(!is_python_mistake({}));
}

BOOST_AUTO_TEST_CASE(retries_follow_the_policy) {
  using Kind = Decision::Kind;
  RetryPolicy policy;
  policy.max = 3;
  policy.backoff_s = 30;
  RetryCounts tries;
  BOOST_TEST((decide(Outcome::kTransient, policy, tries, false).kind == Kind::kRetry));
  BOOST_TEST((decide(Outcome::kBroken, policy, tries, false).kind == Kind::kFail));
  BOOST_TEST((decide(Outcome::kPermanent, policy, tries, true).kind == Kind::kFail));
  BOOST_TEST((decide(Outcome::kIo, policy, tries, true).kind == Kind::kFail));
  BOOST_TEST(decide(Outcome::kOutOfMemory, policy, tries, false).mem_factor == 1.5);
  tries.failed = 1;
  for (const Outcome outcome : {Outcome::kTransient, Outcome::kNetwork, Outcome::kOutOfMemory}) {
    BOOST_TEST((decide(outcome, policy, tries, false).kind == Kind::kRetry));
    BOOST_TEST(decide(outcome, policy, tries, false).delay_s == 60.0);
  }
  BOOST_TEST((decide(Outcome::kTransient, RetryPolicy(), tries, false).kind == Kind::kFail));  // one by default
  tries.failed = 3;
  BOOST_TEST((decide(Outcome::kNetwork, policy, tries, false).kind == Kind::kFail));
  BOOST_TEST((decide(Outcome::kTransient, policy, tries, false).kind == Kind::kFail));
  policy.on = {"oom"};
  BOOST_TEST((decide(Outcome::kTransient, policy, {}, false).kind == Kind::kFail));
}

BOOST_AUTO_TEST_CASE(what_cannot_start_is_tried_for_fifteen_seconds) {
  using Kind = Decision::Kind;
  RetryPolicy policy;
  RetryCounts tries;
  tries.failed = 1;  // which ran, and is counted apart
  std::vector<double> delays;
  for (; decide(Outcome::kNode, policy, tries, false).kind == Kind::kRetry; ++tries.unstarted)
    delays.push_back(decide(Outcome::kNode, policy, tries, false).delay_s);
  BOOST_TEST((delays == std::vector<double>{1, 2, 4, 8}));
  policy.max = 0;
  BOOST_TEST((decide(Outcome::kNode, policy, {}, false).kind == Kind::kFail));
}

BOOST_AUTO_TEST_CASE(an_exit_is_described_for_people) {
  RunnerEvent event;
  event.code = 70;
  BOOST_TEST(describe_exit(event) == "exit code 70");
  event.signal = SIGKILL;
  event.out_of_memory = true;
  BOOST_TEST(describe_exit(event) == "killed by signal 9 (Killed), out of memory");
}

BOOST_AUTO_TEST_SUITE_END()
