/// @file
/// A real Slurm for tests: a controller, a node or several on this machine, and munge, started here and stopped here.
/// Everything is in a separate folder and on free ports. It needs the programs of Debian's slurm-wlm and munge, and no
/// rights but this user's; root gets two GPUs that are none. With accounting it starts slurmdbd and MariaDB, too. Other
/// installations of these on this machine are not touched.
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
  std::string more;         ///< lines of slurm.conf, after ours
  int nodes = 1;            ///< the first alone has the partitions `main` and `urgent`; of several, `all` has every one
  bool accounting = false;  ///< with a slurmdbd over a MariaDB: ten seconds more
};

class RealSlurm {
 public:
  explicit RealSlurm(const RealSlurmOptions& options = {});
  /// Cancels remaining jobs and stops the daemons.
  ~RealSlurm();
  RealSlurm(const RealSlurm&) = delete;
  RealSlurm& operator=(const RealSlurm&) = delete;

  /// Why there can be none here; empty when there can.
  static std::string lacks();
  /// The same of one with accounting, and of one with GPUs.
  static std::string lacks_accounting();
  static std::string lacks_gpus();
  /// Waits until no job but held ones is in the queue. False after `seconds`.
  bool drain(double seconds) const;
  /// Output of squeue for all jobs, also ended ones.
  std::string jobs() const;
  /// The same of one format, without header.
  std::string queue(const std::string& format) const;
  const std::filesystem::path& folder() const { return folder_; }
  std::string log() const;

  /// Of "slurmctld", "munged", "slurmdbd", "mariadbd", or "slurmd-" and the name of a node; 0 when it does not run.
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
  void start_accounting(int database_port, int port) const;

  std::filesystem::path folder_;
  std::vector<std::string> nodes_;
  std::optional<std::string> conf_before_;  // SLURM_CONF of this process before: of another Slurm
};

/// For BOOST_AUTO_TEST_CASE: the test is left out, saying so, where no Slurm can be started.
template <std::string (*kLacks)()>
struct CanStart {
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
    const std::string why = kLacks();
    boost::test_tools::assertion_result result(why.empty());
    result.message() << why;
    return result;
  }
};
using CanStartSlurm = CanStart<RealSlurm::lacks>;
using CanStartAccounting = CanStart<RealSlurm::lacks_accounting>;
using CanStartGpus = CanStart<RealSlurm::lacks_gpus>;

}  // namespace pe::test
