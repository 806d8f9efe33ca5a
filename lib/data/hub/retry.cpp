#include "data/hub/retry.h"

#include <curl/curl.h>

#include <algorithm>
#include <ctime>
#include <optional>
#include <random>
#include <thread>

#include "support/escaped.h"
#include "support/json.h"
#include "support/parse_json.h"
#include "support/progress.h"
#include "support/text.h"

namespace pe::data {

using std::chrono::milliseconds;
using support::cat;

namespace {

/// The number behind "t=" in `"api";r=0;t=20`.
std::optional<std::int64_t> parameter(const std::string& header, std::string_view name) {
  for (const std::string& part : support::split(header, ';')) {
    const std::string_view text = support::trim(part);
    if (text.starts_with(name) && text.size() > name.size() && text[name.size()] == '=')
      return support::parse_integer(text.substr(name.size() + 1));
  }
  return std::nullopt;
}

std::optional<std::int64_t> seconds_asked(const HttpAnswer& answer) {
  const std::string limit = answer.header("ratelimit");
  if (answer.status == 429 && parameter(limit, "r") == 0) {
    if (const auto left = parameter(limit, "t")) return std::clamp<std::int64_t>(*left, 0, 1LL << 40) + 1;
  }
  const std::string after = answer.header("retry-after");
  if (after.empty()) return std::nullopt;
  if (const auto seconds = support::parse_integer(after)) return std::max<std::int64_t>(0, *seconds);
  const std::time_t at = curl_getdate(after.c_str(), nullptr);
  return at < 0 ? std::nullopt : std::optional<std::int64_t>(std::max<std::int64_t>(0, at - std::time(nullptr)));
}

}  // namespace

bool worth_a_retry(const HttpAnswer& answer) {
  if (!answer.problem.empty() || answer.status == 0) return !answer.lasting;
  return answer.status == 408 || answer.status == 425 || answer.status == 429 || answer.status >= 500;
}

milliseconds wait_before(const HttpAnswer& answer, int next, const RetryOptions& options) {
  if (const auto asked = seconds_asked(answer)) {
    return *asked > options.longest_asked.count() ? milliseconds(-1) : std::chrono::seconds(*asked);
  }
  milliseconds wait = options.first_wait;
  for (int i = 1; i < next && wait < options.longest_wait; ++i) wait *= 2;
  wait = std::min(wait, options.longest_wait);
  // Many jobs that failed together should not come back together.
  static thread_local std::minstd_rand random(std::random_device{}());
  return wait / 2 +
         milliseconds(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(wait.count() / 2 + 1)));
}

void wait_for(milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
    if (support::stop_requested()) throw support::StopRequest(true);
    std::this_thread::sleep_for(
        std::min<std::chrono::nanoseconds>(milliseconds(100), end - std::chrono::steady_clock::now()));
  }
}

void wait_to_repeat(const std::string& fault, milliseconds wait, int next, const RetryOptions& options,
                    const Say& say) {
  const double seconds = std::chrono::duration<double>(wait).count();
  say(cat(fault, "; repeated in ", support::short_duration(seconds), " (attempt ", next, " of ", options.attempts,
          ")"));
  wait_for(wait);
}

std::string describe(const HttpAnswer& answer) {
  if (!answer.problem.empty()) return cat(answer.host, answer.host.empty() ? "" : ": ", answer.problem);
  std::string text = cat("status ", answer.status, " from ", answer.host);
  std::string words = answer.header("x-error-message");
  if (words.empty() && answer.header("content-type").starts_with("application/json")) {
    const Json body = support::parse_json(answer.body, support::kForeignJson);
    if (body.is_object() && body.contains("error") && body["error"].is_string()) words = body["error"];
  }
  if (!words.empty()) text += cat(": ", support::escaped(words, 200));
  const auto asked = worth_a_retry(answer) ? seconds_asked(answer) : std::nullopt;
  if (asked) text += cat(", which asks for a wait of ", support::short_duration(static_cast<double>(*asked)));
  return text;
}

}  // namespace pe::data
