/// @file
/// A real Slurm for tests: a controller, one node and munge, started here and stopped here, with everything in a folder of
/// its own and on free ports. It needs the programs of Debian's slurm-wlm and munge, and no rights but this user's; root
/// gets two GPUs that are none. What this machine has of Slurm otherwise is not touched.
#pragma once

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "support/process.h"

namespace pe::test {

class RealSlurm {
 public:
  /// @param more  lines of slurm.conf, after ours
  explicit RealSlurm(const std::string& more = "");
  /// Cancels what is left and stops the daemons.
  ~RealSlurm();
  RealSlurm(const RealSlurm&) = delete;
  RealSlurm& operator=(const RealSlurm&) = delete;

  /// Why there can be none here; empty when there can.
  static std::string lacks();
  /// Waits until no job but held ones is in the queue. False after `seconds`.
  bool drain(double seconds) const;
  /// What squeue prints of all jobs, also those that are over.
  std::string jobs() const;
  /// The same of one format, without header.
  std::string queue(const std::string& format) const;
  const std::filesystem::path& folder() const { return folder_; }
  std::string log() const;

 private:
  void stop(const std::string& daemon) const;
  std::filesystem::path folder_;
};

/// For BOOST_AUTO_TEST_CASE: the test is left out, saying so, where no Slurm can be started.
struct CanStartSlurm {
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
    const std::string why = RealSlurm::lacks();
    boost::test_tools::assertion_result result(why.empty());
    result.message() << why;
    return result;
  }
};

}  // namespace pe::test
