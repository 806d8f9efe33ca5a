// Models out of checkpoints: a file may claim any size, and no model of it is built before its tensors were looked at.
#include "model/checkpoint_io.h"

#include <boost/test/unit_test.hpp>
#include <string>

#include "artifact/checkpoint.h"
#include "model/language_model.h"
#include "support/error.h"
#include "support/temp_folder.h"

using namespace pe;  // NOLINT

namespace {

model::ModelConfig small() {
  model::ModelConfig config;
  config.width = 8;
  config.layers = 2;
  config.heads = 2;
  config.vocabulary = 16;
  config.length = 4;
  return config;
}

/// A checkpoint whose metadata have another value for one field of the model.
void write_checkpoint(const std::filesystem::path& path, const std::string& field, const Json& value,
                      const Json& data = Json::object()) {
  const model::LanguageModel made = model::LanguageModel::make(small(), 16, 42);
  artifact::CheckpointMeta meta;
  model::describe_model(made, meta);
  if (!field.empty()) meta.model[field] = value;
  meta.data = data;
  artifact::CheckpointWriter writer(path, {}, meta);
  model::write_weights(made, writer);
  writer.finish(false);
}

std::string refusal_of(const std::string& field, const Json& value, const Json& data = Json::object()) {
  const test::TempFolder folder;
  write_checkpoint(folder / "m.h5", field, value, data);
  try {
    model::load_model(artifact::CheckpointReader(folder / "m.h5"));
  } catch (const support::ArtifactError& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_SUITE(checkpoint_io)

BOOST_AUTO_TEST_CASE(sizes_are_those_of_the_tensors_before_a_model_is_built) {
  BOOST_TEST(refusal_of("", {}) == "");
  BOOST_TEST(has(refusal_of("layers", 1'000'000'000), "has 1000000000 for 'layers'; expected a number from 1 to 4096"));
  BOOST_TEST(has(refusal_of("layers", 4000), "has 4000 for 'layers', but the file holds "));
  BOOST_TEST(has(refusal_of("layers", 3), "'model/layers.2.attention.norm' is [8]; found no such tensor"));
  BOOST_TEST(has(refusal_of("vocabulary", 1 << 24), "'model/embedding' is [16777216, 8]; found [16, 8]"));
  BOOST_TEST(has(refusal_of("width", 1 << 20), "'model/embedding' is [16, 1048576]; found [16, 8]"));
  BOOST_TEST(
      has(refusal_of("feed_forward", 1 << 20), "'model/layers.0.feed_forward.gate' is [1048576, 8]; found [32, 8]"));
  BOOST_TEST(has(refusal_of("head_width", 1 << 20), "'model/layers.0.attention.query' is [2097152, 8]; found [8, 8]"));
  BOOST_TEST(has(refusal_of("heads", 4096), "'model/layers.0.attention."));
  for (const char* field :
       {"width", "heads", "key_value_heads", "head_width", "feed_forward", "vocabulary", "length"}) {
    BOOST_TEST(
        has(refusal_of(field, std::int64_t{1} << 40), std::string("for '") + field + "'; expected a number from 1"));
  }
}

BOOST_AUTO_TEST_CASE(the_length_is_that_of_the_training) {
  const Json trained{{"length", 4}, {"batch", 2}};
  BOOST_TEST(refusal_of("length", 4, trained) == "");
  BOOST_TEST(has(refusal_of("length", 16'000'000, trained),
                 "has 16000000 for 'length'; expected 4, with which it was trained"));
  BOOST_TEST(has(refusal_of("length", 4, {{"length", "four"}}), "expected \"four\""));
  BOOST_TEST(refusal_of("length", 8, {{"batch", 2}}) == "");  // a file without a training
}

BOOST_AUTO_TEST_SUITE_END()
