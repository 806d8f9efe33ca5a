/// @file
/// Rows that an evaluation has finished, as JSON lines in its work folder, so that a killed one continues from there.
#pragma once

#include <filesystem>
#include <string>

#include "evaluation/task.h"

namespace pe::evaluation {

class Journal final : public Results {
 public:
  /// Reads the rows of `path` if it belongs to `identity`, a hash of config and inputs; else starts a new file. A last
  /// line that was cut short is dropped.
  Journal(std::filesystem::path path, std::string identity);

  const schema::Rows& item(const std::string& name, const std::function<schema::Rows()>& work) override;
  void add(const schema::Rows& rows) override { rows_.append(rows); }

  /// Everything so far: items in the order of the requests, and added rows.
  const schema::Rows& rows() const { return rows_; }
  /// Items that an earlier attempt had done.
  std::size_t recovered() const { return recovered_; }

 private:
  std::filesystem::path path_;
  std::map<std::string, schema::Rows> items_;
  schema::Rows rows_;
  std::size_t recovered_ = 0;
};

}  // namespace pe::evaluation
