#include "support/plugin.h"

#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "support/error.h"
#include "support/files.h"
#include "support/plugin_layouts.h"
#include "support/process.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace fs = std::filesystem;
using namespace pe::support;

namespace {

PluginRequest mpi() {
  return {.folder = "mpi",
          .name = "pe-mpi",
          .symbol = "pe_mpi",
          .layout = PE_MPI_LAYOUT,
          .reason = "compute.ranks is 2",
          .if_absent = "build one",
          .if_unusable = "install MPI"};
}

/// The message and the way out.
std::string refusal(const PluginRequest& request) {
  try {
    load_plugin(request);
  } catch (const ConfigError& error) {
    return std::string(error.what()) + " | " + error.diagnostics().front().hint;
  }
  return "loaded";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(plugin)

BOOST_AUTO_TEST_CASE(a_build_without_a_plug_in_is_named_with_a_way_out) {
  PluginRequest request = mpi();
  request.name = "pe-there-is-none";
  const std::string text = refusal(request);
  BOOST_TEST(text.find("compute.ranks is 2, but this build has no pe-there-is-none.so") != std::string::npos, text);
  BOOST_TEST(text.find("| build one") != std::string::npos, text);
}

BOOST_AUTO_TEST_CASE(what_does_not_load_is_told_in_the_words_of_the_loader) {
  const pe::test::TempFolder folder;
  write_file_atomically(folder / "pe-broken.so", "no module", false);
  PluginRequest request = mpi();
  request.folder = fs::relative(folder.path(), pe::test::build_root() / "lib").string();
  request.name = "pe-broken";
  const std::string text = refusal(request);
  BOOST_TEST(text.find("pe-broken.so does not load: ") != std::string::npos, text);
  BOOST_TEST(text.find("file too short") != std::string::npos, text);  // dlerror's
  BOOST_TEST(text.find("| install MPI") != std::string::npos, text);
}

BOOST_AUTO_TEST_CASE(a_plug_in_with_another_table_is_refused_before_it_is_called) {
  if (find_plugin("mpi", "pe-mpi").empty()) {
    BOOST_TEST_MESSAGE("skipped: this build has no MPI plug-in");
    return;
  }
  BOOST_TEST(std::string(PE_MPI_LAYOUT).size() == 64U);
  BOOST_TEST(std::string(PE_MPI_LAYOUT) != PE_CUDA_LAYOUT);
  PluginRequest request = mpi();
  request.layout = std::string(64, '0');
  const std::string text = refusal(request);
  BOOST_TEST(text.find("is of another build: its interface is " + std::string(PE_MPI_LAYOUT).substr(0, 12) +
                       ", expected 000000000000") != std::string::npos,
             text);
  request = mpi();
  request.symbol = "pe_other";
  BOOST_TEST(refusal(request).find("its interface is none") != std::string::npos);
  BOOST_TEST(load_plugin(mpi()) != nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
