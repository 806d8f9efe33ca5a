#include "support/real_slurm.h"

#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>

#include "support/capture_within.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/ranks.h"
#include "support/temp_folder.h"
#include "support/text.h"

namespace pe::test {

namespace fs = std::filesystem;
using support::cat;

namespace {

constexpr const char* kDaemons[] = {"munged", "slurmctld", "slurmd"};

/// Daemons are in folders that the PATH of users does not always have.
std::string program(const std::string& name) {
  if (const auto found = support::find_program(name)) return found->string();
  for (const char* folder : {"/usr/sbin/", "/sbin/", "/usr/local/sbin/"}) {
    if (::access((folder + name).c_str(), X_OK) == 0) return folder + name;
  }
  return "";
}

support::TimedCapture call(const std::vector<std::string>& words, double limit_s = 20) {
  return support::capture_within(words, {.timeout_s = limit_s});
}

std::string own_name() {
  const passwd* user = ::getpwuid(::geteuid());
  return user ? user->pw_name : "root";
}

/// Starts a daemon in a separate session, and waits until the program has left for the background.
void start(std::vector<std::string> words) {
  words.insert(words.begin(), "setsid");
  support::SpawnOptions options;
  options.arguments = words;
  const support::Descriptor none(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  options.stdout_fd = options.stderr_fd = none.get();
  const auto status = support::wait_for(support::spawn(options));
  if (status.code != 0) throw std::runtime_error(cat(words[1], " ended with ", status.code));
}

std::string random_bytes(std::size_t words) {
  std::random_device chance;
  std::string bytes;
  for (std::size_t i = 0; i < words; ++i) {
    const unsigned word = chance();
    bytes.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  return bytes;
}

bool make_gpu(const fs::path& path) { return ::mknod(path.c_str(), S_IFCHR | 0666, ::makedev(1, 3)) == 0; }

std::string host() {
  char name[256] = "localhost";
  ::gethostname(name, sizeof name - 1);
  return std::string(name).substr(0, std::string(name).find('.'));
}

}  // namespace

std::string RealSlurm::lacks() {
  for (const char* name : kDaemons) {
    if (program(name).empty()) return cat(name, " was not found (Debian: slurm-wlm, munge)");
  }
  for (const char* name : {"sbatch", "squeue", "scontrol", "scancel", "srun", "setsid"}) {
    if (!support::find_program(name)) return cat(name, " was not found");
  }
  return "";
}

std::string RealSlurm::lacks_accounting() {
  for (const char* name : {"slurmdbd", "mariadbd", "mariadb-install-db"}) {
    if (program(name).empty()) return cat(name, " was not found (Debian: slurmdbd, mariadb-server)");
  }
  for (const char* name : {"sacct", "sacctmgr"}) {
    if (!support::find_program(name)) return cat(name, " was not found");
  }
  return lacks();
}

std::string RealSlurm::lacks_gpus() {
  const TempFolder folder;
  return make_gpu(folder / "gpu0") ? lacks() : "this user cannot make character devices to stand in for GPUs";
}

RealSlurm::RealSlurm(const RealSlurmOptions& options) {
  if (const char* conf = ::getenv("SLURM_CONF")) conf_before_ = conf;
  std::string name = (fs::temp_directory_path() / "pe-slurm-XXXXXX").string();
  folder_ = ::mkdtemp(name.data());
  fs::permissions(folder_, fs::perms(0755));
  for (const char* part : {"state", "log", "run", "munge"}) fs::create_directories(folder_ / part);
  fs::permissions(folder_ / "munge", fs::perms(0700));
  support::write_file_atomically(folder_ / "munge/key", random_bytes(256), false);
  fs::permissions(folder_ / "munge/key", fs::perms(0400));
  const std::string d = folder_.string(), h = host(), user = own_name();
  for (int i = 1; i <= options.nodes; ++i) nodes_.push_back(options.nodes == 1 ? h : cat("n", i));
  bool gpus = true;
  for (const char* gpu : {"gpu0", "gpu1"}) gpus = gpus && make_gpu(folder_ / gpu);
  support::write_file_atomically(folder_ / "cgroup.conf", "CgroupAutomount=no\n", false);
  std::string gres = "AutoDetect=off\n";
  for (const std::string& node : nodes_) {
    gres += cat("NodeName=", node, " Name=gpu File=", d, "/gpu[0-1]\n");
    // Apart, since steps of several nodes leave sockets of the same names there.
    for (const char* part : {"spool-", "tmp-"}) fs::create_directories(folder_ / (part + node));
  }
  if (gpus) support::write_file_atomically(folder_ / "gres.conf", gres, false);
  std::set<int> ports;
  while (ports.size() < nodes_.size() + 3) ports.insert(support::free_port());
  auto next_port = ports.begin();
  const int port = *next_port++, accounting_port = *next_port++, database_port = *next_port++;
  std::string conf;
  for (const auto& [text, value] : std::vector<std::pair<std::string, std::string>>{
           {"ClusterName", "pe-test"},
           {"SlurmctldHost", h + "(127.0.0.1)"},
           {"SlurmUser", user},
           {"SlurmdUser", user},
           {"SlurmctldPort", std::to_string(port)},
           {"AuthType", "auth/munge"},
           {"CredType", "cred/munge"},
           // A job that is queued again waits until its credential is out of date: by default 120 s.
           {"AuthInfo", cat("socket=", d, "/run/munge.sock,cred_expire=5")},
           {"StateSaveLocation", d + "/state"},
           {"SlurmdSpoolDir", d + "/spool-%n"},
           {"SlurmctldPidFile", d + "/run/slurmctld.pid"},
           {"SlurmdPidFile", d + "/run/slurmd-%n.pid"},
           {"SlurmctldLogFile", d + "/log/slurmctld.log"},
           {"SlurmdLogFile", d + "/log/slurmd-%n.log"},
           {"TmpFS", d + "/tmp-%n"},
           // How long a client waits for a controller that does not answer.
           {"MessageTimeout", "5"},
           {"ProctrackType", "proctrack/linuxproc"},
           {"TaskPlugin", "task/none"},
           {"SwitchType", "switch/none"},
           {"MpiDefault", "none"},
           {"JobAcctGatherType", "jobacct_gather/none"},
           {"AccountingStorageType", options.accounting ? "accounting_storage/slurmdbd" : "accounting_storage/none"},
           {"JobCompType", "jobcomp/none"},
           {"SelectType", "select/cons_tres"},
           {"SelectTypeParameters", "CR_CPU_Memory"},
           {"DefMemPerCPU", "100"},
           {"SchedulerType", "sched/backfill"},
           {"SchedulerParameters", "sched_interval=1,sched_min_interval=50000,bf_interval=1,batch_sched_delay=0"},
           {"PriorityType", "priority/basic"},
           {"PreemptType", "preempt/partition_prio"},
           {"PreemptMode", "REQUEUE"},
           {"SlurmctldParameters", "preempt_send_user_signal"},
           {"ReturnToService", "2"},
           {"KillWait", "5"},
           {"MinJobAge", "300"},
           {"MaxArraySize", "101"},
           {"MaxJobCount", "50000"},
           {"SlurmdParameters", "config_overrides"}}) {
    conf += text + "=" + value + "\n";
  }
  if (options.accounting) {
    conf += cat("AccountingStorageHost=127.0.0.1\nAccountingStoragePort=", accounting_port,
                "\nAccountingStoragePass=", d, "/run/munge.sock\n");
  }
  conf += options.more;
  if (gpus) conf += "GresTypes=gpu\n";
  for (const std::string& node : nodes_) {
    conf += cat("NodeName=", node, " NodeHostname=", h, " NodeAddr=127.0.0.1 Port=", *next_port++,
                " CPUs=8 RealMemory=16000", gpus ? " Gres=gpu:2" : "", " Feature=avx2 State=UNKNOWN\n");
  }
  const std::string gentle = " MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=10\n";
  conf += cat("PartitionName=main Nodes=", nodes_.front(), " Default=YES", gentle);
  if (nodes_.size() > 1) conf += cat("PartitionName=all Nodes=", support::join(nodes_, ","), gentle);
  conf += cat("PartitionName=urgent Nodes=", nodes_.front(),
              " MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF\n");
  support::write_file_atomically(folder_ / "slurm.conf", conf, false);
  ::setenv("SLURM_CONF", (folder_ / "slurm.conf").c_str(), 1);
  start({program("munged"), "--key-file=" + d + "/munge/key", "--socket=" + d + "/run/munge.sock",
         "--pid-file=" + d + "/run/munged.pid", "--log-file=" + d + "/munge/log", "--seed-file=" + d + "/munge/seed"});
  if (options.accounting) start_accounting(database_port, accounting_port);
  start({program("slurmctld"), "-i"});
  for (const std::string& node : nodes_) start_node(node);
  if (!idle(20)) throw std::runtime_error("the nodes of the test's Slurm are not idle within 20 s:\n" + log());
}

bool RealSlurm::idle(double seconds) const {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < until) {
    const std::string states = call({"sinfo", "--noheader", "--Node", "--format=%T"}, 5).out;
    const auto words = support::split(std::string(support::trim(states)), '\n');
    if (!words.empty() &&
        std::all_of(words.begin(), words.end(), [](const std::string& word) { return word == "idle"; }))
      return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

void RealSlurm::start_accounting(int database_port, int port) const {
  const std::string d = folder_.string(), user = own_name();
  const std::string password = support::sha256_hex(random_bytes(8));
  const auto installed = call({program("mariadb-install-db"), "--no-defaults", "--datadir=" + d + "/database",
                               "--user=" + user, "--auth-root-authentication-method=normal", "--skip-test-db"},
                              120);
  if (installed.status.code != 0) throw std::runtime_error("mariadb-install-db: " + installed.out + installed.err);
  support::write_file_atomically(folder_ / "run/users.sql",
                                 cat("CREATE USER 'slurm'@'127.0.0.1' IDENTIFIED BY '", password,
                                     "';\nGRANT ALL ON *.* TO 'slurm'@'127.0.0.1';\n"),
                                 false);
  // It stays in the foreground, so setsid leaves it behind.
  start({"--fork", program("mariadbd"), "--no-defaults", "--datadir=" + d + "/database", "--user=" + user,
         "--socket=" + d + "/run/database.sock", "--pid-file=" + d + "/run/mariadbd.pid", "--bind-address=127.0.0.1",
         cat("--port=", database_port), "--skip-name-resolve", "--init-file=" + d + "/run/users.sql",
         "--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0", "--innodb-fast-shutdown=2",
         "--log-error=" + d + "/log/mariadbd.log"});
  const auto wait = [&](const char* what, const std::function<bool()>& ready) {
    for (int i = 0; i < 300; ++i) {
      if (ready()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    throw std::runtime_error(cat(what, " of the test's Slurm is not ready within 30 s:\n", log()));
  };
  const fs::path database_log = folder_ / "log/mariadbd.log";
  wait("the database", [&] {
    return fs::exists(database_log) &&
           support::read_file(database_log).find("ready for connections") != std::string::npos;
  });
  support::write_file_atomically(
      folder_ / "slurmdbd.conf",
      cat("AuthType=auth/munge\nAuthInfo=socket=", d, "/run/munge.sock\nDbdHost=localhost\nDbdAddr=127.0.0.1\nDbdPort=",
          port, "\nSlurmUser=", user, "\nLogFile=", d, "/log/slurmdbd.log\nPidFile=", d,
          "/run/slurmdbd.pid\nStorageType=accounting_storage/mysql\nStorageHost=127.0.0.1\nStoragePort=", database_port,
          "\nStorageUser=slurm\nStoragePass=", password, "\nStorageLoc=slurm_accounts\n"),
      false);
  fs::permissions(folder_ / "slurmdbd.conf", fs::perms(0600));  // or it refuses
  start({program("slurmdbd")});
  wait("slurmdbd", [] { return call({"sacctmgr", "--noheader", "list", "cluster"}, 5).status.code == 0; });
}

void RealSlurm::start_controller() const { start({program("slurmctld")}); }

void RealSlurm::start_node(const std::string& node) const { start({program("slurmd"), "-N", node}); }

void RealSlurm::reconfigure(const std::string& from, const std::string& to) const {
  std::string conf = support::read_file(folder_ / "slurm.conf");
  const auto at = conf.find(from);
  if (at == std::string::npos) throw std::runtime_error(cat("slurm.conf has no '", from, "'"));
  support::write_file_atomically(folder_ / "slurm.conf", conf.replace(at, from.size(), to), false);
  const auto answer = call({"scontrol", "reconfigure"});
  if (answer.status.code != 0) throw std::runtime_error("scontrol reconfigure: " + answer.err);
}

pid_t RealSlurm::pid_of(const std::string& daemon) const {
  std::ifstream file(folder_ / "run" / (daemon + ".pid"));
  pid_t pid = 0;
  return file >> pid && pid > 1 && ::kill(pid, 0) == 0 ? pid : 0;
}

void RealSlurm::signal(const std::string& daemon, int signal) const {
  const pid_t pid = pid_of(daemon);
  if (pid == 0) throw std::runtime_error(daemon + " does not run");
  ::kill(pid, signal);
}

void RealSlurm::stop(const std::string& daemon) const {
  const pid_t pid = pid_of(daemon);
  if (pid == 0) return;
  ::kill(pid, SIGCONT);
  ::kill(pid, SIGTERM);
  for (int i = 0; i < 100 && ::kill(pid, 0) == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  if (::kill(pid, 0) == 0) ::kill(pid, SIGKILL);
}

RealSlurm::~RealSlurm() {
  try {
    call({"scancel", "--me"}, 5);
    call({"scancel", "--me", "--signal=KILL", "--full"}, 5);
    drain(10);
    for (const std::string& node : nodes_) stop("slurmd-" + node);
    for (const char* daemon : {"slurmctld", "slurmdbd", "mariadbd", "munged"}) stop(daemon);
  } catch (...) {
    // A test that failed has said so; the folder stays when a daemon still writes there.
  }
  if (conf_before_)
    ::setenv("SLURM_CONF", conf_before_->c_str(), 1);
  else
    ::unsetenv("SLURM_CONF");
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

bool RealSlurm::drain(double seconds) const {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < until) {
    const auto answer =
        call({"squeue", "--noheader", "--states=PENDING,RUNNING,COMPLETING,CONFIGURING,SUSPENDED", "--format=%i"}, 5);
    if (answer.status.code == 0 && support::trim(answer.out).empty()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return false;
}

std::string RealSlurm::queue(const std::string& format) const {
  return call({"squeue", "--noheader", "--array", "--states=all", "--format=" + format}).out;
}

std::string RealSlurm::jobs() const { return queue("%i %T %r %j %E"); }

std::string RealSlurm::log() const {
  std::string text;
  std::vector<std::string> names{"mariadbd.log", "slurmdbd.log", "slurmctld.log"};
  for (const std::string& node : nodes_) names.push_back(cat("slurmd-", node, ".log"));
  for (const std::string& name : names) {
    const fs::path path = folder_ / "log" / name;
    if (fs::exists(path)) text += support::read_file(path);
  }
  return text.size() > 6000 ? text.substr(text.size() - 6000) : text;
}

}  // namespace pe::test
