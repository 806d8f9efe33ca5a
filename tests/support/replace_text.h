/// @file
/// Artifacts as others could have made them: a text of an HDF5 file is replaced.
#pragma once

#include <hdf5.h>

#include <filesystem>
#include <string>

namespace pe::test {

/// JSON that is nested so many levels deep, around a value that is no JSON object or array.
inline std::string deep_json(std::size_t levels) {
  std::string text;
  for (std::size_t i = 0; i < levels; ++i) text += "{\"a\":";
  return text + "1" + std::string(levels, '}');
}

/// Replaces a scalar text. False when HDF5 refuses.
inline bool replace_text(const std::filesystem::path& file, const std::string& name, const std::string& text) {
  const hid_t id = H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  if (id < 0 || H5Ldelete(id, name.c_str(), H5P_DEFAULT) < 0) return false;
  const hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
  H5Tset_size(type, text.size());
  H5Tset_cset(type, H5T_CSET_UTF8);
  H5Tset_strpad(type, H5T_STR_NULLPAD);
  const hid_t data = H5Dcreate2(id, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const bool written = H5Dwrite(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()) >= 0;
  H5Dclose(data);
  H5Sclose(space);
  H5Tclose(type);
  return H5Fclose(id) >= 0 && written;
}

}  // namespace pe::test
