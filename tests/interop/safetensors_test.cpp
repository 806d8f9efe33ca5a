// Files of safetensors: written files are read, and any fault is one clear error.
#include "interop/safetensors.h"

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <limits>

#include "interop/weight_files.h"
#include "support/error.h"
#include "support/files.h"
#include "support/half.h"
#include "support/installed.h"
#include "support/json.h"
#include "support/process.h"
#include "support/temp_folder.h"

using namespace pe;
using interop::parse_safetensors;

namespace {

std::string file_of(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape, int begin, int end) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":[" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

std::string refusal(const std::string& file) {
  try {
    parse_safetensors(file, "m.safetensors");
  } catch (const support::ArtifactError& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

void write_two(const std::filesystem::path& path) {
  const std::vector<float> a{1.5f, -2, 3, 4, 5, 6}, b{0.1f, 70000, -1e-8f, 1};
  interop::write_safetensors(
      path,
      {{"b.f16", "F16", {4}, [&](const auto& sink) { sink(interop::from_floats("F16", b)); }},
       {"a", "F32", {2, 3}, [&](const auto& sink) { sink(interop::from_floats("F32", a)); }},
       {"b.bf16", "BF16", {2, 2}, [&](const auto& sink) { sink(interop::from_floats("BF16", b)); }},
       {"none", "F32", {0, 7}, [](const auto&) {}},
       {"scalar", "F32", {}, [&](const auto& sink) { sink(interop::from_floats("F32", std::vector<float>{9})); }}},
      {{"format", "pt"}});
}

std::string refusal_of_folder(const std::filesystem::path& folder) {
  try {
    const interop::WeightFiles files(folder);
  } catch (const support::ArtifactError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(safetensors)

BOOST_AUTO_TEST_CASE(what_is_written_is_read) {
  const test::TempFolder folder;
  write_two(folder / "model.safetensors");
  const std::string bytes = support::read_file(folder / "model.safetensors");
  const auto header = parse_safetensors(bytes, "m");
  BOOST_TEST(header.metadata.at("format") == "pt");
  BOOST_TEST_REQUIRE(header.tensors.size() == 5u);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  BOOST_TEST(length % 8 == 0u);
  const interop::WeightFiles files(folder.path());
  BOOST_TEST(files.read("a") == (std::vector<float>{1.5f, -2, 3, 4, 5, 6}));
  BOOST_TEST(files.read("scalar") == std::vector<float>{9});
  BOOST_TEST(files.read("none").empty());
  BOOST_TEST(files.find("b.f16")->shape == std::vector<std::int64_t>{4});
  const auto half = files.read("b.f16"), brain = files.read("b.bf16");
  BOOST_TEST(half[0] == 0.0999755859375f);
  BOOST_TEST(half[1] == std::numeric_limits<float>::infinity());
  BOOST_TEST(brain[0] == 0.10009765625f);
  BOOST_TEST(brain[1] == 70144.0f);
  BOOST_CHECK_THROW(files.read("missing"), support::ArtifactError);
}

BOOST_AUTO_TEST_CASE(every_half_comes_back) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto b = static_cast<std::uint16_t>(bits);
    const float half = support::float_of_f16(b), brain = support::float_of_bf16(b);
    if (half == half && support::f16_of_float(half) != b) BOOST_ERROR("f16 " << bits);
    if (brain == brain && support::bf16_of_float(brain) != b) BOOST_ERROR("bf16 " << bits);
  }
  BOOST_TEST(support::f16_of_float(65519.0f) == 0x7BFF);
  BOOST_TEST(support::f16_of_float(65520.0f) == 0x7C00);
  BOOST_TEST(support::f16_of_float(1.0f + 0x1p-11f) == 0x3C00);  // half way: to even
  BOOST_TEST(support::f16_of_float(1.0f + 3 * 0x1p-11f) == 0x3C02);
  BOOST_TEST(support::f16_of_float(0x1p-25f) == 0);
  BOOST_TEST(support::f16_of_float(1.5f * 0x1p-24f) == 2);
}

BOOST_AUTO_TEST_CASE(damage_is_named) {
  const std::string a = entry("a", "F32", "[2]", 0, 8), data(8, '\0');
  BOOST_TEST(refusal(file_of("{" + a + "}", data)) == "");
  BOOST_TEST(has(refusal("short"), "'m.safetensors': the file has 5 bytes"));
  BOOST_TEST(has(refusal(file_of("{" + a + "}", "1234567")), "ends at byte"));
  BOOST_TEST(has(refusal(file_of("{" + a + "}", data + "x")), "the tensors end at byte"));
  BOOST_TEST(has(refusal(file_of("[1]", data)), "does not begin with '{'"));
  BOOST_TEST(has(refusal(file_of("{" + a + ",}", data)), "the header is not JSON"));
  BOOST_TEST(has(refusal(file_of("{" + a + "," + a + "}", data)), "names a twice"));
  BOOST_TEST(has(refusal(file_of("{\"__metadata__\":{\"x\":1}," + a + "}", data)), "__metadata__: x is no text"));
  BOOST_TEST(has(refusal(file_of("{" + entry("a", "F33", "[2]", 0, 8) + "}", data)), "dtype \"F33\" is not supported"));
  BOOST_TEST(
      has(refusal(file_of("{" + entry("a", "F32", "[3]", 0, 8) + "}", data)), "8 bytes, but its shape needs 12"));
  BOOST_TEST(has(refusal(file_of("{" + entry("a", "F32", "[-2]", 0, 8) + "}", data)), "its shape holds -2"));
  BOOST_TEST(
      has(refusal(file_of("{" + entry("a", "F32", "[4294967296,4294967296,16]", 0, 8) + "}", data)), "too large"));
  BOOST_TEST(has(refusal(file_of("{" + entry("a", "F32", "[2]", 8, 0) + "}", data)), "data_offsets"));
  BOOST_TEST(has(refusal(file_of("{" + a + "," + entry("b", "F32", "[2]", 4, 12) + "}", data + "1234")), "overlap"));
  BOOST_TEST(
      has(refusal(file_of("{" + a + "," + entry("b", "U8", "[1]", 9, 10) + "}", data + "12")), "there is a gap"));
  const std::uint64_t absurd[] = {1ULL << 63, 100'000'001, 3000};
  for (const std::uint64_t length : absurd) {
    const std::string file = std::string(reinterpret_cast<const char*>(&length), 8) + "{}      ";
    BOOST_TEST(has(refusal(file), "the header"));
  }
  std::string deep = "{\"a\":";
  for (int i = 0; i < 100000; ++i) deep += "[";
  BOOST_TEST(has(refusal(file_of(deep, "")), "the header"));
}

BOOST_AUTO_TEST_CASE(folders_of_weights_are_checked_whole) {
  const test::TempFolder folder;
  BOOST_TEST(has(refusal_of_folder(folder.path()), "has no model.safetensors"));
  support::write_file_atomically(folder / "pytorch_model.bin", "PK", false);
  BOOST_TEST(has(refusal_of_folder(folder.path()), "pytorch_model.bin': pickle files run code when they are read"));
  write_two(folder / "part.safetensors");
  const auto index = [&](const Json& map) {
    support::write_file_atomically(folder / "model.safetensors.index.json", Json{{"weight_map", map}}.dump(), false);
    return refusal_of_folder(folder.path());
  };
  Json map;
  for (const char* name : {"a", "b.f16", "b.bf16", "none", "scalar"}) map[name] = "part.safetensors";
  BOOST_TEST(index(map) == "");
  for (const char* path :
       {"../part.safetensors", "/etc/part.safetensors", "x/part.safetensors", ".part.safetensors", "part.bin", ""}) {
    Json changed = map;
    changed["a"] = path;
    BOOST_TEST(has(index(changed), "expected the name of a .safetensors file in the same folder"), path);
  }
  Json more = map, fewer = map, elsewhere = map;
  more["c"] = "part.safetensors";
  fewer.erase("a");
  elsewhere["a"] = "other.safetensors";
  BOOST_TEST(has(index(more), "tensor 'c' is not in part.safetensors"));
  BOOST_TEST(has(index(fewer), "does not list tensor 'a'"));
  BOOST_TEST(has(index(elsewhere), "other.safetensors': there is no such file"));
  write_two(folder / "other.safetensors");
  BOOST_TEST(has(index(elsewhere), "is in another file, too"));
  BOOST_TEST(has(index(Json::array()), "expected an object with 'weight_map'"));
}

BOOST_AUTO_TEST_CASE(the_package_reads_what_we_write,
                     *boost::unit_test::precondition(test::PythonHas{"safetensors, numpy", test::chosen_python()})) {
  const test::TempFolder folder;
  write_two(folder / "model.safetensors");
  const auto ran =
      support::capture({test::chosen_python(), "-c",
                        "import sys, json\nfrom safetensors import safe_open\n"
                        "with safe_open(sys.argv[1], 'np') as f:\n"
                        "  print(json.dumps({k: f.get_tensor(k).tolist() for k in ('a', 'scalar', 'none')}))\n",
                        (folder / "model.safetensors").string()});
  BOOST_TEST_REQUIRE(ran.status.code == 0, ran.err);
  BOOST_TEST(Json::parse(ran.out) ==
             Json::parse(R"({"a": [[1.5, -2.0, 3.0], [4.0, 5.0, 6.0]], "scalar": 9.0, "none": []})"));
}

BOOST_AUTO_TEST_CASE(a_file_that_is_there_is_not_written_again) {
  const test::TempFolder folder;
  const auto path = folder / "model.safetensors";
  write_two(path);
  const std::string expected = "cannot create '" + path.string() + "': File exists";
  BOOST_CHECK_EXCEPTION(write_two(path), support::IoError, [&](const support::IoError& error) {
    BOOST_TEST(error.what() == expected);
    return error.exit_code() == support::kExitCannotCreate;
  });
}

BOOST_AUTO_TEST_SUITE_END()
