// Which of several processes this one is, and how rank 0 reaches the others.
#include "support/ranks.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <map>
#include <thread>

#include "support/error.h"
#include "support/files.h"

using namespace pe::support;

namespace {

Ranks from(const std::map<std::string, std::string>& variables) {
  return ranks_from([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

template <typename Thrown = ConfigError, typename Body>
std::string message(const Body& body) {
  try {
    body();
  } catch (const Thrown& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(ranks)

BOOST_AUTO_TEST_CASE(without_a_word_in_the_environment_a_process_is_alone) {
  const Ranks alone = from({});
  BOOST_TEST(alone.rank == 0);
  BOOST_TEST(alone.count == 1);
  BOOST_TEST(alone.is_first());
}

BOOST_AUTO_TEST_CASE(each_launcher_has_its_names) {
  const Ranks torchrun = from(
      {{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "node7"}, {"MASTER_PORT", "1234"}});
  BOOST_TEST(torchrun.rank == 5);
  BOOST_TEST(torchrun.count == 8);
  BOOST_TEST(torchrun.local == 1);
  BOOST_TEST(torchrun.host == "node7");
  BOOST_TEST(torchrun.port == 1234);
  const Ranks mpirun =
      from({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}});
  BOOST_TEST(mpirun.rank == 1);
  BOOST_TEST(mpirun.count == 2);
  BOOST_TEST(mpirun.host == "");
  const Ranks srun = from({{"SLURM_STEP_ID", "0"},
                           {"SLURM_STEP_NUM_TASKS", "16"},
                           {"SLURM_PROCID", "9"},
                           {"SLURM_LOCALID", "1"},
                           {"SLURM_JOB_ID", "4711"},
                           {"SLURM_STEP_NODELIST", "gpu[04-05],login"},
                           {"SLURM_NTASKS", "16"}});
  BOOST_TEST(srun.rank == 9);
  BOOST_TEST(srun.count == 16);
  BOOST_TEST(srun.local == 1);
  BOOST_TEST(srun.host == "gpu04");
  BOOST_TEST(srun.port == 29500 + 4711 % 3000);
  BOOST_TEST(srun.start == "4711.0.0");
}

BOOST_AUTO_TEST_CASE(torchrun_goes_before_mpirun_and_mpirun_before_srun) {
  std::map<std::string, std::string> all{
      {"SLURM_STEP_ID", "0"},        {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "3"},
      {"SLURM_LOCALID", "3"},        {"SLURM_JOB_ID", "1"},         {"SLURM_STEP_NODELIST", "a"},
      {"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "2"}};
  BOOST_TEST(from(all).rank == 2);
  all.insert({{"RANK", "1"}, {"WORLD_SIZE", "4"}});
  BOOST_TEST(from(all).rank == 1);
}

BOOST_AUTO_TEST_CASE(what_a_batch_script_starts_is_no_rank_of_its_job) {
  BOOST_TEST(
      from({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}, {"SLURM_JOB_NODELIST", "n[1-2]"}})
          .count == 1);
  BOOST_TEST(from({{"SLURM_STEP_ID", "batch"}, {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_PROCID", "0"}}).count == 1);
}

BOOST_AUTO_TEST_CASE(a_word_that_is_missing_or_no_number_is_named) {
  BOOST_TEST(message([] {
               from({{"RANK", "x"}, {"WORLD_SIZE", "2"}});
             }) == "RANK is 'x', which is not the number of a process");
  BOOST_TEST(message([] { from({{"RANK", "2"}, {"WORLD_SIZE", "2"}}); }) == "RANK is 2, but WORLD_SIZE is 2");
  BOOST_TEST(message([] {
               from({{"OMPI_COMM_WORLD_SIZE", "2"}});
             }) == "this process is one of several, but OMPI_COMM_WORLD_RANK is not set");
}

BOOST_AUTO_TEST_CASE(lists_of_machines_are_expanded_as_slurm_writes_them) {
  const auto expect = [](const std::string& list, const std::vector<std::string>& hosts) {
    BOOST_TEST(expand_hosts(list) == hosts, boost::test_tools::per_element());
  };
  expect("node1", {"node1"});
  expect("a,b", {"a", "b"});
  expect("node[08-10,12],login", {"node08", "node09", "node10", "node12", "login"});
  expect("rack[1-2]n[5,7]-ib", {"rack1n5-ib", "rack1n7-ib", "rack2n5-ib", "rack2n7-ib"});
  expect("n[098-101]", {"n098", "n099", "n100", "n101"});
  expect("", {});
  BOOST_TEST(message([] { expand_hosts("n[1-2"); }) == "the list of machines 'n[1-2' cannot be read: '[' without ']'");
  BOOST_TEST(message([] { expand_hosts("n1]"); }) == "the list of machines 'n1]' cannot be read: ']' without '['");
  BOOST_TEST(message([] { expand_hosts("n[3-1]"); }) ==
             "the list of machines 'n[3-1]' cannot be read: '3-1' is not a range of numbers");
  BOOST_TEST(message([] { expand_hosts("n[1-9999999]"); }).find("is not a range of numbers") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(rank_0_hands_its_word_to_all_whoever_knocks) {
  const int port = free_port();
  std::string id(128, '\0');
  for (std::size_t i = 0; i < id.size(); ++i) id[i] = static_cast<char>(i * 37);
  const auto rank = [&](std::int64_t number) {
    Ranks own;
    own.rank = number;
    own.count = 3;
    own.host = "127.0.0.1";
    own.port = port;
    return own;
  };
  std::string second, third;
  std::thread early([&] { second = broadcast_text(rank(1), "mine", 20); });  // before there is anyone to ask
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  std::string first;
  std::thread zero([&] { first = broadcast_text(rank(0), id, 20); });
  {  // a stranger that says the wrong thing
    Descriptor fd;
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    for (int i = 0; i < 100; ++i) {
      fd = Descriptor(::socket(AF_INET, SOCK_STREAM, 0));
      if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    BOOST_TEST(::send(fd.get(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL) == 18);
  }
  third = broadcast_text(rank(2), "mine", 20);
  early.join();
  zero.join();
  BOOST_TEST((first == id));
  BOOST_TEST((second == id));
  BOOST_TEST((third == id));
}

BOOST_AUTO_TEST_CASE(a_rank_of_another_start_of_the_job_is_turned_away) {
  Ranks own;
  own.count = 2;
  own.host = "127.0.0.1";
  own.port = free_port();
  own.start = "12.0.1";
  std::string first;
  std::thread zero([&] { first = broadcast_text(own, "word", 20); });
  Ranks other = own;
  other.rank = 1;
  other.start = "12.0.0";  // before it was queued again
  BOOST_TEST(message<Error>([&] { broadcast_text(other, "mine", 0.5); }).find("has not reached rank 0") !=
             std::string::npos);
  other.start = own.start;
  BOOST_TEST(broadcast_text(other, "mine", 20) == "word");
  zero.join();
  BOOST_TEST(first == "word");
}

BOOST_AUTO_TEST_CASE(who_does_not_come_is_named_after_the_time_allowed) {
  Ranks own;
  own.count = 3;
  own.host = "127.0.0.1";
  own.port = free_port();
  const std::string port = std::to_string(own.port);
  BOOST_TEST(message<Error>([&] {
               broadcast_text(own, "x", 0.1);
             }).find("rank 0 has waited 0.1 s on port " + port + " of 127.0.0.1 for rank 1, 2") != std::string::npos);
  own.rank = 2;
  BOOST_CHECK_EXCEPTION(broadcast_text(own, "x", 0.1), Error, [&](const Error& error) {
    return error.exit_code() == kExitUnavailable && std::string(error.what())
                                                            .find("rank 2 has not reached rank 0 at 127.0.0.1, port " +
                                                                  port + ", within 0.1 s") != std::string::npos;
  });
}

BOOST_AUTO_TEST_SUITE_END()
