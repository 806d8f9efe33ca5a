#include "support/error.h"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <new>
#include <stdexcept>

#include "support/explain.h"

using namespace pe::support;

BOOST_AUTO_TEST_SUITE(error)

BOOST_AUTO_TEST_CASE(a_mistake_shows_its_line_with_a_caret) {
  Diagnostic diagnostic{"unknown key 'warmup_step' in 'schedule'",
                        {"pipelines/smoke.yml", 14, 5, "    warmup_step: 500", 11},
                        "did you mean 'warmup_steps'?",
                        {"while reading stage 'trunk' (pipelines/smoke.yml:9:3)"}};
  BOOST_TEST(diagnostic.render() ==
             "pipelines/smoke.yml:14:5: unknown key 'warmup_step' in 'schedule'\n"
             "   14 |     warmup_step: 500\n"
             "      |     ^^^^^^^^^^^ did you mean 'warmup_steps'?\n"
             "  while reading stage 'trunk' (pipelines/smoke.yml:9:3)");
}

BOOST_AUTO_TEST_CASE(of_many_mistakes_the_first_hundred_are_told) {
  Diagnostics some, many;
  for (std::size_t i = 0; i < 100'000; ++i) {
    if (i < 3) some.add("mistake");
    many.add("mistake");
  }
  BOOST_TEST(!some.full());
  BOOST_TEST(many.full());
  BOOST_TEST(many.size() == 100'000u);
  BOOST_TEST(many.items().size() == 100u);
  try {
    many.throw_if_any();
    BOOST_FAIL("nothing was thrown");
  } catch (const ConfigError& error) {
    BOOST_TEST(error.diagnostics().size() == 101u);
    BOOST_TEST(error.diagnostics().back().message == "these are the first 100 mistakes; there may be more");
  }
}

BOOST_AUTO_TEST_CASE(context_is_added_on_the_way_up) {
  try {
    with_context("reading 'a.h5'", [] { throw ArtifactError("it is empty"); });
    BOOST_FAIL("nothing was thrown");
  } catch (const Error& error) {
    BOOST_TEST(error.exit_code() == kExitArtifact);
    BOOST_TEST(std::string(error.what()) == "it is empty\n  while reading 'a.h5'");
  }
}

BOOST_AUTO_TEST_CASE(a_full_disk_is_told_from_a_place_that_cannot_be_written) {
  errno = ENOSPC;
  try {
    throw_errno("create", "x", true);
  } catch (const Error& error) {
    BOOST_TEST(error.exit_code() == kExitIo);
  }
  errno = EACCES;
  try {
    throw_errno("create", "x", true);
  } catch (const Error& error) {
    BOOST_TEST(error.exit_code() == kExitCannotCreate);
  }
}

BOOST_AUTO_TEST_CASE(exceptions_of_the_language_have_exit_codes) {
  const auto error_of = [](const auto& body) {
    try {
      body();
    } catch (const std::exception& error) {
      return as_error(error);
    }
    return Error(kExitDone, Diagnostic{"nothing was thrown", {}, {}, {}});
  };
  const Error of_files = error_of([] { std::filesystem::resize_file("/nowhere/at all", 1); });
  BOOST_TEST(of_files.exit_code() == kExitIo);
  BOOST_TEST(std::string(of_files.what()) == "cannot use '/nowhere/at all': No such file or directory");
  BOOST_TEST(error_of([] { std::filesystem::create_directory("/dev/null/x"); }).exit_code() == kExitIo);
  BOOST_TEST(error_of([] { throw std::bad_alloc(); }).exit_code() == kExitOutOfMemory);
  BOOST_TEST(error_of([] { throw std::logic_error("mistake"); }).exit_code() == kExitBug);
  BOOST_TEST(error_of([] { throw ConfigError("ours"); }).exit_code() == kExitConfig);
}

BOOST_AUTO_TEST_SUITE_END()
