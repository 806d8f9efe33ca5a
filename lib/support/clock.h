/// @file
/// The time of day, and how it is written, and a clock for durations.
#pragma once

#include <filesystem>
#include <string>

namespace pe::support {

/// Seconds of a clock that never jumps; only differences have a meaning.
double steady_s();
/// Seconds since 1970, UTC.
double unix_time();
/// The time that a file made in `folder` gets now, by the clock of its server. Times of files are compared with it,
/// since clocks of hosts differ. `unix_time()` where no file can be made there.
double file_time(const std::filesystem::path& folder);
/// "2026-11-21T19:45:12Z", or "2026-11-21T19:45:12.345Z" where the order of quick events counts.
std::string utc_text(double unix_seconds, bool milliseconds = false);
/// "2026-11-21"
std::string utc_date(double unix_seconds);

}  // namespace pe::support
