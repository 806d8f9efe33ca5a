#include <boost/test/unit_test.hpp>

#include "model/language_model.h"
#include "model/model_config.h"
#include "support/config.h"
#include "support/error.h"
#include "support/files.h"
#include "support/test_data.h"
#include "support/yaml.h"
#include "training/train_config.h"

namespace {

using pe::model::ModelConfig;

struct Size {
  const char* name;
  std::int64_t width, layers, heads;
  std::int64_t count;  // with a vocabulary of 65,536
  double printed;      // millions, as people call it
};

ModelConfig read_size(const std::string& name) {
  const auto schema = pe::support::schema_of<pe::training::TrainConfig>();
  pe::Json config = pe::support::defaults(schema);
  pe::support::Diagnostics diagnostics;
  const auto path = pe::test::source_root() / "configs" / "model" / (name + ".yml");
  pe::support::overlay(schema, pe::support::read_yaml(path), config, nullptr, diagnostics);
  diagnostics.throw_if_any();
  return pe::support::make_config<ModelConfig>(config["model"], name);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(model_config)

// V·d + L·(4d² + 12d² + 2d + 2·64) + d, worked out by hand for each.
BOOST_AUTO_TEST_CASE(the_named_sizes_have_their_exact_parameter_counts) {
  for (const Size& size :
       {Size{"tiny", 512, 6, 8, 58'727'680, 58.7}, Size{"small", 768, 12, 12, 163'598'592, 163.6},
        Size{"medium", 1024, 24, 16, 469'815'296, 469.8}, Size{"large", 2048, 16, 32, 1'208'029'184, 1208.0}}) {
    ModelConfig config = read_size(size.name);
    config.vocabulary = 65'536;
    BOOST_TEST_CONTEXT(size.name) {
      BOOST_TEST(config.width == size.width);
      BOOST_TEST(config.layers == size.layers);
      BOOST_TEST(config.heads == size.heads);
      BOOST_TEST(config.d_h() == 64);
      BOOST_TEST(pe::model::parameter_count(config) == size.count);
      BOOST_TEST(static_cast<double>(size.count) / 1e6 == size.printed, boost::test_tools::tolerance(0.001));
    }
  }
}

// V·d (twice when untied) + L·(d·d_h·(2H + 2G) + 3·d·d_ff + 2·d) + d, worked out by hand for each.
BOOST_AUTO_TEST_CASE(the_shapes_of_published_models_have_their_exact_parameter_counts) {
  for (const auto& [name, count, length] : {std::tuple{"llama_28m", std::int64_t{28'355'328}, 256},
                                            {"smollm_360m", std::int64_t{361'821'120}, 1024},
                                            {"drope_494m", std::int64_t{494'005'120}, 1024}}) {
    const ModelConfig config = read_size(name);
    BOOST_TEST_CONTEXT(name) {
      BOOST_TEST(pe::model::parameter_count(config) == count);
      BOOST_TEST(config.d_h() == 64);
      BOOST_TEST(!config.qk_norm);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_quick_size_is_64_wide_with_4_heads_of_16) {
  const ModelConfig config = read_size("quick");
  BOOST_TEST(config.width == 64);
  BOOST_TEST(config.layers == 4);
  BOOST_TEST(config.heads == 4);
  BOOST_TEST(config.d_h() == 16);
}

BOOST_AUTO_TEST_CASE(the_formula_counts_what_a_model_holds) {
  for (const bool tied : {true, false}) {
    for (const auto& [qk_norm, over] : {std::pair{true, pe::model::QkNormOver::kHead},
                                        {true, pe::model::QkNormOver::kWidth},
                                        {false, pe::model::QkNormOver::kHead}}) {
      ModelConfig config;
      config.qk_norm_over = over;
      config.width = 24;
      config.layers = 2;
      config.heads = 4;
      config.key_value_heads = 2;
      config.head_width = 8;
      config.feed_forward = 20;
      config.tied = tied;
      config.qk_norm = qk_norm;
      config.length = 8;
      config.encoding.json = "none";
      const auto model = pe::model::LanguageModel::make(config, 37, 1);
      std::int64_t held = 0;
      for (const auto& parameter : model.parameters()) held += parameter.tensor.numel();
      BOOST_TEST(held == model.parameter_count());
      BOOST_TEST(held == pe::model::parameter_count(model.config()));
      BOOST_TEST(model.encoding_parameter_count() == 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(attention_heads_that_share_a_query_have_one_projection) {
  const auto count = [](const char* encoding, std::int64_t heads) {
    ModelConfig config;
    config.width = 32;
    config.layers = 3;
    config.heads = heads;
    config.head_width = 8;
    config.length = 8;
    config.encoding.json = encoding;
    const auto model = pe::model::LanguageModel::make(config, 37, 1);
    BOOST_TEST(model.forward(at::zeros({2, 8}, at::kLong)).defined());
    std::int64_t held = 0;
    for (const auto& parameter : model.parameters()) held += parameter.tensor.numel();
    BOOST_TEST(held == pe::model::parameter_count(model.config()));
    return held;
  };
  const std::int64_t projection = 3 * 32 * 8;                                // of one head, all layers
  BOOST_TEST(count("rope_pp", 4) == count("rope", 4) - 3 * 2 * projection);  // two heads of q, k and v less each
  BOOST_TEST(count("rope_pp", 8) ==
             count("rope", 4) + 4 * projection);  // twice the heads: the output reads twice as many
}

BOOST_AUTO_TEST_CASE(a_config_survives_an_artifact) {
  ModelConfig config;
  config.width = 96;
  config.heads = 6;
  config.vocabulary = 100;
  config.length = 32;
  config.encoding.json = {{"kind", "alibi"}};
  BOOST_TEST((pe::model::config_from_json(pe::model::to_json(config), "x.h5") == config));
  pe::Json json = pe::model::to_json(config);
  json.erase("layers");
  BOOST_CHECK_EXCEPTION(pe::model::config_from_json(json, "x.h5"), pe::support::ArtifactError, [](const auto& error) {
    const std::string text = error.what();
    return text.find("x.h5") != std::string::npos && text.find("'layers'") != std::string::npos;
  });
  json = pe::model::to_json(config);
  json["width"] = -3;
  BOOST_CHECK_THROW(pe::model::config_from_json(json, "x.h5"), pe::support::ArtifactError);
}

BOOST_AUTO_TEST_CASE(heads_that_do_not_divide_are_a_config_error) {
  const auto says = [](const std::string& part) {
    return [part](const std::exception& error) { return std::string(error.what()).find(part) != std::string::npos; };
  };
  BOOST_CHECK_EXCEPTION(pe::support::make_config<ModelConfig>({{"width", 64}, {"heads", 6}}), pe::support::ConfigError,
                        says("heads must divide width, found 6 and 64, or head_width must be given"));
  BOOST_CHECK_EXCEPTION(pe::support::make_config<ModelConfig>({{"width", 64}, {"heads", 4}, {"key_value_heads", 3}}),
                        pe::support::ConfigError, says("key_value_heads must divide heads, found 3 and 4"));
}

BOOST_AUTO_TEST_SUITE_END()
