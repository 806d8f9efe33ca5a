/// @file
/// Which answers are asked for again, and when: waits grow, and a server that says how long is believed.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "data/hub/http.h"

namespace pe::data {

struct RetryOptions {
  int attempts = 6;                            ///< without progress between them
  std::chrono::milliseconds first_wait{1000};  ///< doubles, up to `longest_wait`; a random part of it is added
  std::chrono::milliseconds longest_wait{30'000};
  std::chrono::seconds longest_asked{600};  ///< a server that asks for more ends the try
};

/// A problem of the transport that is not lasting, 408, 425, 429, 5xx.
bool worth_a_retry(const HttpAnswer& answer);

/// How long to wait before attempt `next` (from 1). `RateLimit: "api";r=0;t=20` and `Retry-After` (seconds, or a date)
/// are followed; negative when the server asks for more than `longest_asked`.
std::chrono::milliseconds wait_before(const HttpAnswer& answer, int next, const RetryOptions& options);

/// Sleeps in short parts. @throws Stopped when a stop is requested.
void wait_for(std::chrono::milliseconds time);

/// Takes a line for people; may be called by several threads.
using Say = std::function<void(const std::string&)>;

/// Says "<fault>; repeated in 12 s (attempt 3 of 6)" and waits. @param next the number of the attempt that follows,
/// from 2
/// @throws Stopped
void wait_to_repeat(const std::string& fault, std::chrono::milliseconds wait, int next, const RetryOptions& options,
                    const Say& say);

/// "status 404 from host:port", "host:port: connection reset": with the hub's own words, if it sent some, and the wait
/// that it asks for.
std::string describe(const HttpAnswer& answer);

}  // namespace pe::data
