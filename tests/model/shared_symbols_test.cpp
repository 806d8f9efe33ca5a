// Libraries of one process must not write into each other: libsentencepiece and libc10 both export FLAGS_minloglevel.
#include <ATen/ops/empty.h>
#include <dlfcn.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include "data/tokenizers/tokenizer.h"
#include "data/tokenizers/tokenizer_training.h"
#include "support/process.h"
#include "support/temp_folder.h"

using namespace pe;

namespace {

/// Loads the sentencepiece plug-in and uses it.
void use_sentencepiece() {
  int left = 200;
  const std::string model = data::train_bpe({.vocabulary = 295}, [&](std::string& text) {
    text = "the cat sat on the mat " + std::to_string(left);
    return left-- > 0;
  });
  const auto tokenizer = data::make_sentencepiece(model, "trained here");
  BOOST_TEST(tokenizer->decode(tokenizer->encode("the cat")) == "the cat");
}

/// Strong data symbols that a library defines for others.
std::set<std::string> data_of(const std::string& library) {
  std::set<std::string> names;
  const auto listed = support::capture({"nm", "-D", "--defined-only", library});
  static const std::regex line(R"([0-9a-f]+ [BDR] ([^@\s]+).*)");
  std::istringstream lines(listed.out);
  for (std::string text; std::getline(lines, text);) {
    std::smatch match;
    if (!std::regex_match(text, match, line)) continue;
    // Type information, tables of virtual functions and the static variables of inline functions are one thing in every
    // library that compiles the same header.
    const std::string kind = match[1].str().substr(0, 3);
    if (kind != "_ZT" && kind != "_ZZ" && kind != "_ZG") names.insert(match[1]);
  }
  return names;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(shared_symbols)

BOOST_AUTO_TEST_CASE(sentencepiece_leaves_the_memory_of_libtorch_alone) {
  use_sentencepiece();
  const auto* fatal = static_cast<const bool*>(dlsym(RTLD_DEFAULT, "FLAGS_caffe2_use_fatal_for_enforce"));
  BOOST_REQUIRE(fatal != nullptr);
  BOOST_TEST(*reinterpret_cast<const unsigned char*>(fatal) == 0);
  const auto* level = static_cast<const int*>(dlsym(RTLD_DEFAULT, "FLAGS_minloglevel"));
  BOOST_REQUIRE(level != nullptr);
  BOOST_TEST((*level >= 0 && *level <= 3));
  // With a flag overwritten this ends the process.
  BOOST_CHECK_THROW(at::empty({std::int64_t{1} << 50}), std::exception);
}

// The loader's own report: no library that defines data of a name may use another library's data of that name.
BOOST_AUTO_TEST_CASE(no_two_libraries_bind_each_others_data) {
  const test::TempFolder folder;
  const auto ran =
      support::capture({"/usr/bin/env", "LD_DEBUG=bindings", "LD_DEBUG_OUTPUT=" + (folder / "bindings").string(),
                        support::own_executable().string(),
                        "--run_test=shared_symbols/sentencepiece_leaves_the_memory_of_libtorch_alone"});
  BOOST_REQUIRE(ran.status.code == 0);
  std::map<std::string, std::set<std::string>> defined;
  std::set<std::string> libraries;
  std::size_t bindings = 0;
  const std::string program = support::own_executable().string();
  static const std::regex line(R"(.*binding file (\S+) \[\d+\] to (\S+) \[\d+\]: \S+ symbol `([^']+)'.*)");
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    std::ifstream report(entry.path());
    for (std::string text; std::getline(report, text);) {
      std::smatch match;
      if (!std::regex_match(text, match, line)) continue;
      ++bindings;
      const std::string user = match[1], owner = match[2], name = match[3];
      libraries.insert(user);
      // The program holds copies of the libraries' data that it names; every library uses these copies.
      if (user == owner || user == program || owner == program || user[0] != '/') continue;
      const auto known =
          defined.find(user) != defined.end() ? defined.find(user) : defined.emplace(user, data_of(user)).first;
      BOOST_TEST(!known->second.count(name), user << " uses " << name << " of " << owner << " in place of its own");
    }
  }
  BOOST_TEST(bindings > 1000);
  bool seen = false;
  for (const std::string& library : libraries) seen = seen || library.find("libsentencepiece.so") != std::string::npos;
  BOOST_TEST(seen, "the report does not name libsentencepiece");
}

BOOST_AUTO_TEST_SUITE_END()
