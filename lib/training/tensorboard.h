/// @file
/// TensorBoard event files: `events.out.tfevents.<seconds>.<host>.<pid>.<counter>`, records of scalars that stock
/// TensorBoard, Aim and Trackio read. Framing and field numbers: TFRecord, and tensorflow/core/util/event.proto.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace pe::training {

struct Scalar {
  std::string_view tag;  ///< "train/loss"; slashes group
  double value = 0;      ///< stored as float32
};

/// One file, appended to. Readers skip a record that a killed writer left unfinished.
class EventFile {
 public:
  /// Begins a file in `folder`, which exists. @param time seconds since 1970
  EventFile(const std::filesystem::path& folder, double time);
  /// One event. @param step of the axis, whatever it counts
  void add(double time, std::int64_t step, std::span<const Scalar> scalars) const;
  /// Marks that training resumes here: events of other files in the folder with a step of at least `step` are void.
  void restart(double time, std::int64_t step) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// A payload as stored in the file: length, masked CRC-32C of the length, payload, masked CRC-32C of the payload.
std::string tensorboard_record(std::string_view payload);
/// The payload of the first event of a file.
std::string first_event(double time);

}  // namespace pe::training
