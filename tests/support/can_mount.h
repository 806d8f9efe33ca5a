/// @file
/// A precondition: real small file systems, to fill them up.
#pragma once

#include <sys/mount.h>
#include <unistd.h>
#include <boost/test/unit_test.hpp>

#include "support/temp_folder.h"

namespace pe::test {

struct CanMount {
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
    const TempFolder folder;
    boost::test_tools::assertion_result result(::geteuid() == 0 &&
                                               ::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=64k") == 0);
    if (!result) {
      result.message() << "a small file system can be mounted only by root";
      return result;
    }
    ::umount(folder.path().c_str());
    return result;
  }
};

}  // namespace pe::test
