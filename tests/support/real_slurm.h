/// @file
/// A real Slurm for tests: a controller, a node or several on this machine, and munge, started here and stopped here,
/// with everything in a folder of its own and on free ports. It needs the programs of Debian's slurm-wlm and munge, and
/// no rights but this user's; root gets two GPUs that are none. What this machine has of Slurm otherwise is not
/// touched.
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

struct RealSlurmOptions {
  std::string more;       ///< lines of slurm.conf, after ours
  int nodes = 1;          ///< the first alone has the partitions `main` and `urgent`; of several, `all` has every one
};

class RealSlurm {
 public:
  explicit RealSlurm(const RealSlurmOptions& options = {});
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

  /// Of "slurmctld", "munged", or "slurmd-" and the name of a node; 0 when it does not run.
  pid_t pid_of(const std::string& daemon) const;
  void signal(const std::string& daemon, int signal) const;
  /// Asks it to end, and waits until it has.
  void stop(const std::string& daemon) const;
  /// After a stop, or a crash.
  void start_controller() const;
  void start_node(const std::string& node) const;
  const std::vector<std::string>& nodes() const { return nodes_; }
  /// Replaces text of slurm.conf, which all daemons then read again.
  void reconfigure(const std::string& from, const std::string& to) const;
  /// Waits until all nodes are idle, and no job runs there. False after `seconds`.
  bool idle(double seconds) const;

 private:
  std::filesystem::path folder_;
  std::vector<std::string> nodes_;
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
