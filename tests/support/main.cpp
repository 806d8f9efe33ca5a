// The entry of every test executable; suites come from the *_test.cpp files.
#define BOOST_TEST_MODULE pe - pipeline
#include <boost/test/unit_test.hpp>
