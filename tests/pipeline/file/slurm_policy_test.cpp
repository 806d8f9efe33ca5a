// The blocks `slurm` of a file and of its stages.
#include "pipeline/file/slurm_policy.h"
#include "pipeline/file/policy.h"

#include <boost/test/unit_test.hpp>

#include "support/error.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT

namespace {

PipelineFile file_of(const std::string& slurm, const std::string& of_stage = "") {
  return parse_pipeline_file("schema: pe-pipeline/1\nname: a\n" + slurm +
                                 "stages:\n  one: {run: pe-toy}\n  two:\n    run: pe-toy\n" + of_stage,
                             "a.yml", "/");
}

std::string mistakes(const PipelineFile& file) {
  support::Diagnostics diagnostics;
  slurm_policies(file, diagnostics);
  try {
    diagnostics.throw_if_any();
  } catch (const support::ConfigError& error) {
    return error.what();
  }
  return "";
}

SlurmPolicies policies(const PipelineFile& file) {
  support::Diagnostics diagnostics;
  const SlurmPolicies found = slurm_policies(file, diagnostics);
  diagnostics.throw_if_any();
  return found;
}

void check_has(const std::string& text, const std::string& part) {
  BOOST_TEST(text.find(part) != std::string::npos, "expected '" << part << "' in:\n" << text);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(slurm_policy)

BOOST_AUTO_TEST_CASE(a_stage_lays_its_block_over_the_files) {
  const auto found = policies(
      file_of("resources: {net: {cpus: 1}}\nslurm: {partition: {net: transfer, default: gpu}, account: a, signal_lead: "
              "5m, max_in_queue: 2000, mode: lane, setup: [module load cuda]}\n",
              "    slurm: {partition: debug, account: b, run_on: here, memory: none, environment: clear, nodes: 2}\n"));
  const SlurmPolicy& one = found.at("one");
  BOOST_TEST(one.partition("net") == "transfer");
  BOOST_TEST(one.partition("anything") == "gpu");
  BOOST_TEST(one.signal_lead_s == 300);
  BOOST_TEST(one.mode == "lane");
  BOOST_TEST(!one.here);
  BOOST_TEST(one.keep_environment);
  BOOST_TEST(one.nodes == 1);
  const SlurmPolicy& two = found.at("two");
  BOOST_TEST(two.partition("net") == "debug");
  BOOST_TEST(two.account == "b");
  BOOST_TEST(two.here);
  BOOST_TEST(two.nodes == 2);
  BOOST_TEST(two.memory == "none");
  BOOST_TEST(!two.keep_environment);
  BOOST_TEST(two.setup == std::vector<std::string>{"module load cuda"});
  BOOST_TEST(policies(file_of("")).at("one").partition("x") == "");
}

BOOST_AUTO_TEST_CASE(a_setting_replaces_what_the_file_says) {
  PipelineFile file = file_of("slurm: {partition: gpu}\n");
  set_slurm(file, "partition", support::parse_yaml_value("other", "--set slurm.partition"));
  set_slurm(file, "max_running", support::parse_yaml_value("4", "--set slurm.max_running"));
  BOOST_TEST(policies(file).at("two").partition("") == "other");
  BOOST_TEST(policies(file).at("two").max_running == 4);
  // Names in older files.
  const SlurmPolicy older = policies(file_of("slurm: {where: here, at_once: 3}\n")).at("one");
  BOOST_TEST(older.here);
  BOOST_TEST(older.max_running == 3);
  PipelineFile none = file_of("");
  set_slurm(none, "mode", support::parse_yaml_value("lane", "--set slurm.mode"));
  BOOST_TEST(policies(none).at("one").mode == "lane");
}

BOOST_AUTO_TEST_CASE(mistakes_are_told_with_their_places) {
  check_has(mistakes(file_of("slurm: {partitions: gpu}\n")), "a.yml:3:9: unknown key 'partitions' in 'slurm'");
  check_has(mistakes(file_of("slurm: {partitions: gpu}\n")), "did you mean 'partition'?");
  check_has(mistakes(file_of("slurm: {mode: lanes}\n")), "did you mean 'lane'?");
  check_has(mistakes(file_of("slurm: {memory: [a]}\n")), "'memory' of 'slurm' cannot be a list");
  check_has(mistakes(file_of("slurm: {options: [exclude=node7]}\n")), "one option of sbatch, found 'exclude=node7'");
  check_has(mistakes(file_of("slurm: {max_running: -1}\n")), "'max_running' must be an integer from 1");
  check_has(mistakes(file_of("slurm: {at_once: 0}\n")), "'at_once' must be an integer from 1, found '0'");
  check_has(mistakes(file_of("slurm: {time: 0m}\n")), "'time' leaves no time, found '0m'");
  const std::string map = "resources: {big: {cpus: 8}}\nslurm: {partition: {bog: gpu, default: cpu}}\n";
  check_has(mistakes(file_of(map)), "a.yml:4:21: no resources 'bog', which 'partition' of 'slurm' names");
  check_has(mistakes(file_of(map)), "did you mean 'big'?");
  check_has(mistakes(file_of("slurm: {account: \"a\\nb\"}\n")), "expected a text for 'account'");
  check_has(mistakes(file_of("slurm: {account: $(project)}\n")),
            "'account' of 'slurm' is no place for $(…), found '$(project)'");
  check_has(mistakes(file_of("slurm: {partition: {default: $(name)}}\n")), "'default' of 'slurm' is no place for $(…)");
  check_has(mistakes(file_of("slurm: {options: [--exclude=$(node)]}\n")), "'options' of 'slurm' is no place for $(…)");
  check_has(mistakes(file_of("", "    slurm: {mode: lane}\n")),
            "'mode' belongs to the file's block 'slurm', not to a stage's");
}

BOOST_AUTO_TEST_CASE(options_by_which_jobs_would_be_lost_are_refused_with_the_way_out) {
  const auto refused = [](const std::string& option) {
    return mistakes(file_of("slurm: {options: ['" + option + "']}\n"));
  };
  for (const char* option : {"--job-name=evil", "--job=evil", "--array=1-3", "--dependency=singleton",
                             "--output=/dev/null", "--err=x", "--wrap=ls", "--clusters=b", "--cluster=b", "--chdir=/",
                             "--signal=B:USR1@9", "--no-requeue", "--wait", "--test-only", "--uid=bob"})
    check_has(refused(option), "'options' of 'slurm' cannot hold --");
  check_has(refused("--job=evil"), "cannot hold --job-name, found '--job=evil'");
  check_has(refused("--job=evil"), "finds its jobs again by it");
  check_has(refused("--wrap=ls"), "`slurm.setup`");
  for (const char* option : {"--exclude=node7", "--hold", "--nice=1", "--mail-type=END", "--wait-all-nodes=1",
                             "--comment=ours", "--export=ALL,A=1", "--gres-flags=enforce-binding", "--nodelist=n1"})
    BOOST_TEST(refused(option) == "", option);
}

BOOST_AUTO_TEST_CASE(options_that_would_replace_resources_are_refused_with_the_key_that_sets_them) {
  const auto refused = [](const std::string& option) {
    return mistakes(file_of("slurm: {options: ['" + option + "']}\n"));
  };
  for (const auto& [option, key] : {std::pair{"--time=1:00:00", "`resources.time`"},
                                    {"--tim=5", "`resources.time`"},
                                    {"--mem=1G", "`resources.mem`"},
                                    {"--mem-per-cpu=1G", "`resources.mem`"},
                                    {"--mem-per-gpu=1G", "`resources.mem`"},
                                    {"--cpus-per-task=1", "`resources.cpus`"},
                                    {"--cpus-per-gpu=2", "`resources.cpus`"},
                                    {"--ntasks=4", "one task on each of its nodes"},
                                    {"--nodes=2", "`slurm.nodes`"},
                                    {"--gpus=1", "`resources.gpus`"},
                                    {"--gpus-per-node=1", "`resources.gpus`"},
                                    {"--gres=gpu:4", "`resources.gpus`"},
                                    {"--gres=nvme:1,gpu:4", "`resources.gpus`"},
                                    {"--partition=p", "`slurm.partition`"},
                                    {"--account=a", "`slurm.account`"},
                                    {"--qos=q", "`slurm.qos`"},
                                    {"--constraint=c", "`slurm.constraint`"},
                                    {"--reservation=r", "`slurm.reservation`"}}) {
    check_has(refused(option), "'options' of 'slurm' cannot ");
    check_has(refused(option), std::string("found '") + option + "'");
    check_has(refused(option), key);
  }
  for (const char* option :
       {"--time-min=1:00:00", "--mem-bind=local", "--exclusive", "--cpu-freq=high", "--gpu-bind=closest",
        "--gres=nvme:1", "--nodefile=f", "--ntasks-per-core=1", "--contiguous", "--reboot"})
    BOOST_TEST(refused(option) == "", option);
}

BOOST_AUTO_TEST_CASE(times_and_sizes_need_a_unit) {
  const auto refusal = [](const std::string& text) {
    support::Diagnostics diagnostics;
    Resources resources;
    read_resources(support::parse_yaml(text, "a.yml"), resources, diagnostics);
    return diagnostics.empty() ? std::string() : diagnostics.items().front().render();
  };
  check_has(refusal("{time: 90}"), "a.yml:1:8: 'time' must be a time with a unit, found '90'");
  check_has(refusal("{time: 90}"), "a time needs a unit: 90s, 90m or 90h");
  check_has(refusal("{time: 1.5 hours}"), "did you mean 1.5h?");
  check_has(refusal("{time: 2 min}"), "did you mean 2m?");
  check_has(refusal("{mem: 4096}"), "'mem' must be a size with a unit, found '4096'");
  check_has(refusal("{mem: 4096}"), "a size needs a unit: 4096M or 4096G");
  check_has(refusal("{mem: 4e9}"), "a size needs a unit: 4e9M or 4e9G");
  check_has(refusal("{time: 1e3}"), "a time needs a unit: 1e3s, 1e3m or 1e3h");
  check_has(refusal("{mem: 4GB}"), "did you mean 4G?");
  check_has(refusal("{mem: 512MiB}"), "did you mean 512M?");
  check_has(refusal("{mem: 4g}"), "did you mean 4G?");
  check_has(refusal("{mem: 4X}"), "'mem' must be an integer from 1");
  check_has(refusal("{time: 12:00:00}"), "'time' must be a time from 0, found '12:00:00'");
  check_has(refusal("{time: 0}"), "'time' leaves no time");
  for (const char* good : {"{time: 90s}", "{time: 1.5h}", "{mem: 4G}", "{mem: 512M}", "{time: 2d, mem: 1T}"})
    BOOST_TEST(refusal(good) == "");
}

BOOST_AUTO_TEST_SUITE_END()
