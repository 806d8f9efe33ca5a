// Values for `auto` in the group `compute`.
#include "pipeline/expand/compute_auto.h"

#include <array>
#include <boost/test/unit_test.hpp>

#include "pipeline/grid_fixture.h"
#include "support/cpu.h"
#include "support/ranks.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT

namespace {

Json resolved(const Resources& resources, const std::string& isa = "avx2", Json compute = Json::object(),
              std::size_t which = 2, std::int64_t batch = 512, std::int64_t length = 1024) {
  const StageDescription stage = parse_description(test::stage_documents().at(which), "x");
  Json config = support::defaults(stage.fields);
  config["compute"].update(compute);
  if (config.contains("train")) config["train"].update({{"batch", batch}, {"length", length}});
  resolve_compute(stage, resources, {isa, isa}, config);
  return config["compute"];
}

}  // namespace

BOOST_AUTO_TEST_SUITE(compute_auto)

BOOST_AUTO_TEST_CASE(without_gpus_it_is_the_cpu_with_its_slot) {
  Resources resources;
  resources.cpus = 3;
  BOOST_TEST(
      resolved(resources) ==
      Json(
          {{"device", "cpu"}, {"isa", "avx2"}, {"dtype", "fp32"}, {"threads", 3}, {"ranks", 1}, {"micro_batch", 512}}));
}

BOOST_AUTO_TEST_CASE(with_gpus_it_is_cuda_in_bf16) {
  Resources resources;
  resources.cpus = 8;
  resources.gpus = 2;
  BOOST_TEST(resolved(resources, "avx512") == Json({{"device", "cuda"},
                                                    {"isa", "avx512"},
                                                    {"dtype", "bf16"},
                                                    {"threads", 4},
                                                    {"ranks", 2},
                                                    {"micro_batch", 32}}));
  BOOST_TEST(resolved(resources, "avx2", Json::object(), 2, 96)["micro_batch"] == 24);  // the largest divisor up to 32
  BOOST_TEST(resolved(resources, "avx2", Json::object(), 2, 192)["micro_batch"] == 32);
  BOOST_TEST(resolved(resources, "avx2", Json::object(), 2, 24)["micro_batch"] == 12);  // a rank's half
}

// Memory goes by tokens: 32,768 of them at a time, whatever the length.
BOOST_AUTO_TEST_CASE(micro_batches_of_a_gpu_count_tokens) {
  Resources resources;
  resources.gpus = 1;
  const auto of = [&](std::int64_t batch, std::int64_t length) {
    return resolved(resources, "avx2", Json::object(), 2, batch, length)["micro_batch"].get<std::int64_t>();
  };
  for (const auto& [batch, length, expected] : {std::array<std::int64_t, 3>{512, 1024, 32},
                                                {128, 4096, 8},
                                                {32, 8192, 4},
                                                {48, 4096, 8},
                                                {4, 65'536, 1},
                                                {512, 256, 128},
                                                {64, 16, 64},
                                                {7, 4096, 7},
                                                {11, 4096, 1}}) {
    BOOST_TEST_CONTEXT(batch << " x " << length) {
      BOOST_TEST(of(batch, length) == expected);
      BOOST_TEST(support::gpu_micro_batch(batch, length) == expected);  // as for a stage by hand
      BOOST_TEST((expected == 1 || expected * length <= 32'768));
    }
  }
  BOOST_TEST(
      resolved(resources, "avx2", Json::object(), 3)["micro_batch"].is_null());  // by the model that it continues
}

BOOST_AUTO_TEST_CASE(a_share_of_a_gpu_is_cuda_with_one_rank) {
  Resources resources;
  resources.cpus = 2;
  resources.gpus = 0.25;
  const Json compute = resolved(resources);
  BOOST_TEST(compute["device"] == "cuda");
  BOOST_TEST(compute["dtype"] == "bf16");
  BOOST_TEST(compute["ranks"] == 1);
  BOOST_TEST(compute["threads"] == 2);
  BOOST_TEST(compute["micro_batch"] == 32);
}

BOOST_AUTO_TEST_CASE(ranks_that_are_asked_for_share_cpus_and_batch) {
  Resources resources;
  resources.cpus = 5;
  const Json compute = resolved(resources, "avx2", {{"ranks", 2}});
  BOOST_TEST(compute["ranks"] == 2);
  BOOST_TEST(compute["threads"] == 2);
  BOOST_TEST(compute["micro_batch"] == 256);
  resources.cpus = 1;
  BOOST_TEST(resolved(resources, "avx2", {{"ranks", 2}})["threads"] == 1);
}

BOOST_AUTO_TEST_CASE(what_is_set_stays) {
  Resources resources;
  resources.gpus = 1;
  const Json compute = resolved(resources, "avx2", {{"device", "cpu"}, {"threads", 5}, {"isa", "portable"}});
  BOOST_TEST(compute["device"] == "cpu");
  BOOST_TEST(compute["dtype"] == "fp32");
  BOOST_TEST(compute["threads"] == 5);
  BOOST_TEST(compute["isa"] == "portable");
}

BOOST_AUTO_TEST_CASE(a_stage_that_continues_a_model_leaves_the_micro_batch_to_it) {
  BOOST_TEST(resolved({}, "avx2", Json::object(), 3)["micro_batch"].is_null());
  BOOST_TEST(resolved({}, "avx2", Json::object(), 3)["threads"] == 1);
}

BOOST_AUTO_TEST_CASE(the_instruction_set_falls_to_one_that_the_field_accepts) {
  Json document = test::stage_documents().at(2);
  for (Json& field : document["fields"]) {
    if (field["name"] != "compute") continue;
    for (Json& inner : field["fields"]) {
      if (inner["name"] == "isa") inner["choices"] = {"auto", "avx2", "portable"};
    }
  }
  const StageDescription stage = parse_description(document, "x");
  Json config = support::defaults(stage.fields);
  resolve_compute(stage, {}, {"avx512", "avx512"}, config);
  BOOST_TEST(config["compute"]["isa"] == "avx2");
}

BOOST_AUTO_TEST_CASE(what_can_be_deterministic_is_unless_told_otherwise) {
  Json document = test::stage_documents().at(2);
  for (Json& field : document["fields"]) {
    if (field["name"] != "compute") continue;
    Json row =
        *std::find_if(field["fields"].begin(), field["fields"].end(), [](const Json& f) { return f["name"] == "isa"; });
    row["name"] = "deterministic";
    row["choices"] = {"auto", "on", "off"};
    row["neutral"] = "on";
    field["fields"].push_back(row);
  }
  const StageDescription stage = parse_description(document, "x");
  const auto of = [&](const char* word) {
    Json config = support::defaults(stage.fields);
    config["compute"]["deterministic"] = word;
    Resources resources;
    resources.gpus = 1;
    resolve_compute(stage, resources, {"avx512", "avx512"}, config);
    return std::pair(config["compute"]["deterministic"], support::hashed_config(stage.fields, config)["compute"]);
  };
  BOOST_TEST(of("auto").first == "on");
  BOOST_TEST(!of("auto").second.contains("deterministic"));  // keys from before this field stay
  BOOST_TEST(of("off").second["deterministic"] == "off");
}

BOOST_AUTO_TEST_CASE(amx_is_in_keys_of_bf16_on_a_cpu_alone) {
  Json document = test::stage_documents().at(2);
  for (Json& field : document["fields"]) {
    if (field["name"] != "compute") continue;
    for (Json& inner : field["fields"]) {
      if (inner["name"] == "isa") inner["choices"] = {"auto", "amx", "avx512", "avx2", "portable"};
    }
  }
  const StageDescription stage = parse_description(document, "x");
  InstructionSets isa{"amx", "amx"};
  const auto of = [&](double gpus, const char* dtype) {
    Json config = support::defaults(stage.fields);
    config["compute"]["dtype"] = dtype;
    Resources resources;
    resources.gpus = gpus;
    resolve_compute(stage, resources, isa, config);
    return config["compute"]["isa"];
  };
  BOOST_TEST(of(0, "bf16") == "amx");
  BOOST_TEST(of(0, "auto") == "avx512");
  BOOST_TEST(of(0, "fp32") == "avx512");
  BOOST_TEST(of(1, "bf16") == "avx512");
  BOOST_TEST(resolved({}, "amx", {{"dtype", "bf16"}})["isa"] == "avx512");  // the widest that this stage takes
  isa = {"avx512", "avx2"};                                                 // AVX-512 without products in bf16
  BOOST_TEST(of(0, "bf16") == "avx2");
  BOOST_TEST(of(0, "fp32") == "avx512");
  BOOST_TEST(of(1, "bf16") == "avx512");
}

BOOST_AUTO_TEST_CASE(the_machine_has_one_of_four) {
  const std::string isa = support::widest_instruction_set();
  BOOST_TEST((isa == "amx" || isa == "avx512" || isa == "avx2" || isa == "portable"));
}

BOOST_AUTO_TEST_CASE(where_the_file_names_the_machines_that_run_it_the_planning_machine_is_in_no_key) {
  const test::GridFolder folder;
  const auto with = [](const std::string& line) {
    std::string text = test::kGrid;
    return line.empty() ? text : text.replace(text.find("\nslurm:\n"), 8, "\nslurm:\n  " + line + "\n");
  };
  const auto keys = [&](const std::string& line, const std::string& isa) {
    ExpandOptions options = test::GridFolder::plain_options();
    options.axis = {"encoding=rope", "size=tiny", "seed=42"};
    options.isa = isa;
    std::vector<std::string> all;
    for (const Task& task : folder.keyed(with(line), options).tasks) all.push_back(task.plan_key);
    return all;
  };
  const auto avx2 = keys("isa: avx2", "avx512");
  BOOST_TEST((avx2 == keys("isa: avx2", "portable")));  // a login node and a compute node
  BOOST_TEST((avx2 == keys("", "avx2")));
  BOOST_TEST((avx2 != keys("isa: portable", "avx2")));
  const std::string refused = folder.refusal(with("isa: avx"));
  BOOST_TEST(refused.find("expected one of amx, avx512, avx2, portable as slurm.isa, found 'avx'") != std::string::npos,
             refused);
}

BOOST_AUTO_TEST_SUITE_END()
