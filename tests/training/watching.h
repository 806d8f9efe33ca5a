/// @file
/// Who watches a training in tests, stops it, and reads its errors.
#pragma once

#include <boost/test/unit_test.hpp>

#include <functional>
#include <string>
#include <vector>

#include "artifact/workspace.h"
#include "kernels/product_bf16.h"
#include "support/progress.h"

namespace pe::test {

/// Asks for a stop after so many steps, and keeps its messages.
class Watching : public support::Progress {
 public:
  explicit Watching(std::int64_t steps) : steps_(steps) {}
  void note(std::string_view) override {}
  void warn(std::string_view line) override { warnings.emplace_back(line); }
  void advance(std::string_view, std::int64_t done, std::int64_t, const Json&) override {
    if (++advances == steps_) support::request_stop(15);
    last = done;
  }
  void event(const Json& event) override { events.push_back(event); }
  std::vector<std::string> warnings;
  std::vector<Json> events;
  std::int64_t last = 0, advances = 0;

 private:
  std::int64_t steps_;
};

/// Runs `train` on the workspace until it stops after so many steps; the next training there continues.
inline void stop_after(std::int64_t steps, artifact::Workspace& workspace, const std::function<void()>& train) {
  Watching stop(steps);
  workspace.progress = &stop;
  BOOST_CHECK_THROW(train(), support::StopRequest);
  support::request_stop(0);
  workspace.progress = &support::silent_progress();
}

/// A test may multiply in bf16; afterwards nothing does.
struct NoBf16After {
  ~NoBf16After() { kernels::multiply_in_bf16(kernels::Bf16Unit::kNone); }
};

/// Undoes a request to stop when a test ends.
struct NoStop {
  NoStop() { support::request_stop(0); }
  ~NoStop() { support::request_stop(0); }
};

inline bool says(const std::exception& error, const std::vector<std::string>& parts) {
  const std::string text = error.what();
  for (const std::string& part : parts) {
    if (text.find(part) == std::string::npos) {
      BOOST_TEST_MESSAGE("'" << part << "' is not in: " << text);
      return false;
    }
  }
  return true;
}

}  // namespace pe::test
