// Attention compared with other packages: entmax, DeepSeek-V4, SmolLM3, Cohere 2 and Wav2Vec2-BERT of transformers,
// x-transformers. Their answers were recorded with the versions that the file names, and are computed again where a
// Python has the packages. Loops over a definition need no package.
#include <torch/csrc/autograd/autograd.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <set>

#include "fixture.h"
#include "support/files.h"
#include "support/installed.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

using namespace pe;
using namespace pe::encodings;
using namespace pe::test;

namespace {

Tensor tensor_of(const Json& json) {
  std::vector<std::int64_t> sizes;
  for (const Json* level = &json; level->is_array(); level = &level->at(0))
    sizes.push_back(static_cast<std::int64_t>(level->size()));
  std::vector<double> flat;
  const std::function<void(const Json&)> walk = [&](const Json& part) {
    if (part.is_array()) {
      for (const Json& inner : part) walk(inner);
    } else {
      flat.push_back(part.get<double>());
    }
  };
  walk(json);
  return numbers(flat, sizes);
}

void compare(const Json& one) {
  const std::string name = one.at("package").get<std::string>() + " " + one.at("version").get<std::string>() + ", " +
                           one.at("encoding").dump() + ", layer " + one.at("shape").at("layer").dump();
  BOOST_TEST_CONTEXT(name) {
    const Json& of = one.at("shape");
    const std::int64_t heads = of.at("heads"), width = of.at("head_width");
    const Shape shape{.width = of.at("width"),
                      .layers = of.at("layers"),
                      .query_heads = heads,
                      .key_value_heads = of.value("groups", heads),
                      .head_width = width,
                      .train_length = of.at("train_length"),
                      .dtype = at::kDouble};
    const int layer = of.at("layer");
    const auto encoding = make_encoding(one.at("encoding"), shape);
    std::set<std::string> given;
    {
      at::NoGradGuard no_grad;
      for (const Parameter& parameter : encoding->parameters()) {
        if (!one.at("parameters").contains(parameter.short_name) || (parameter.layer >= 0 && parameter.layer != layer))
          continue;
        Tensor value = parameter.value;
        value.copy_(tensor_of(one.at("parameters").at(parameter.short_name)));
        given.insert(parameter.short_name);
      }
    }
    BOOST_TEST(given.size() == one.at("parameters").size());
    const auto read = [&](const char* part) {
      return tensor_of(one.at(part)).unsqueeze(0).requires_grad_(one.contains("gradient"));
    };
    const Tensor q = read("q"), k = read("k"), v = read("v");
    const std::int64_t length = q.size(2);
    const Tensor x =
        one.contains("x") ? tensor_of(one.at("x")).unsqueeze(0) : at::zeros({1, length, shape.width}, at::kDouble);
    const Tensor expected = tensor_of(one.at("output")).unsqueeze(0);
    const double within = one.at("within");
    for (const Route route : {Route::kReference, Route::kAuto}) {
      Span span = Span::whole(1, length);
      State state = begin_pass(*encoding, span);
      LayerContext context = layer_context(*encoding, state, layer, x);
      const Tensor out =
          attend(*encoding, context,
                 {.q = q, .k = k, .v = v, .scale = of.value("scale", 1 / std::sqrt(static_cast<double>(width)))},
                 {.route = route});
      BOOST_TEST(largest_difference(out, expected) <= within);
      if (!one.contains("gradient")) continue;
      const Json& theirs = one.at("gradient");
      const std::vector<Tensor> found =
          torch::autograd::grad({(out * tensor_of(theirs.at("direction")).unsqueeze(0)).sum()}, {q, k, v});
      for (const auto& [n, part] : {std::pair(0, "q"), std::pair(1, "k"), std::pair(2, "v")}) {
        BOOST_TEST(largest_difference(found[static_cast<std::size_t>(n)][0], tensor_of(theirs.at(part))) <= within,
                   part);
      }
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(package_oracle)

BOOST_AUTO_TEST_CASE(attention_is_what_packages_gave_when_it_was_recorded) {
  const Json cases = Json::parse(support::read_file(source_root() / "tests/encodings/oracles/packages_2026.json"));
  std::set<std::string> kinds, packages;
  for (const Json& one : cases) {
    kinds.insert(one.at("encoding").at("kind").get<std::string>());
    packages.insert(one.at("package").get<std::string>());
    compare(one);
  }
  BOOST_TEST(packages == (std::set<std::string>{"entmax", "transformers", "x-transformers"}),
             boost::test_tools::per_element());
  for (const char* kind :
       {"entmax", "rove", "inope", "local_global", "shaw", "transformer_xl", "alibi", "selective", "pope"}) {
    BOOST_TEST(kinds.count(kind) == 1u, kind);
  }
}

BOOST_AUTO_TEST_CASE(attention_is_what_packages_give_here,
                     *boost::unit_test::precondition(PythonHas{"torch", chosen_python()}) *
                         boost::unit_test::precondition(PythonHasOneOf{{"entmax", "transformers", "x_transformers"}})) {
  const TempFolder folder;
  const std::string command = chosen_python() + " \"" +
                              (source_root() / "tests/encodings/oracles/packages_2026.py").string() + "\" > \"" +
                              (folder / "cases.json").string() + "\" 2> \"" + (folder / "log").string() + "\"";
  const int status = std::system(command.c_str());
  const std::string log = support::read_file(folder / "log");
  BOOST_TEST_REQUIRE(status == 0, log);
  if (!log.empty()) BOOST_TEST_MESSAGE("left out: " << log);
  for (const Json& one : Json::parse(support::read_file(folder / "cases.json"))) compare(one);
}

BOOST_AUTO_TEST_CASE(inkling_is_what_its_definition_gives) {
  const auto oracles = source_root() / "tests/encodings/oracles";
  const std::string recorded = support::read_file(oracles / "inkling.json");
  for (const Json& one : Json::parse(recorded)) compare(one);
  const TempFolder folder;
  const std::string command =
      "python3 \"" + (oracles / "inkling.py").string() + "\" > \"" + (folder / "cases.json").string() + "\"";
  BOOST_TEST_REQUIRE(std::system(command.c_str()) == 0);
  BOOST_TEST(Json::parse(support::read_file(folder / "cases.json")).size() == Json::parse(recorded).size());
  for (const Json& one : Json::parse(support::read_file(folder / "cases.json"))) compare(one);
}

BOOST_AUTO_TEST_SUITE_END()
