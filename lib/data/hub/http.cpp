#include "data/hub/http.h"

#include <curl/curl.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include "support/error.h"
#include "support/escaped.h"
#include "support/progress.h"
#include "support/text.h"
#include "support/version.h"

namespace pe::data {

using support::cat;

namespace {

constexpr int kMostRedirects = 10;
constexpr std::size_t kMostHeaders = 256 << 10;
constexpr std::size_t kMostErrorBody = 64 << 10;
constexpr std::size_t kReceived = 512 << 10;  // bytes that curl asks the socket for per call

struct UrlDeleter {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using Url = std::unique_ptr<CURLU, UrlDeleter>;

Url parse(const std::string& text) {
  Url url(curl_url());
  if (!url || curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) return nullptr;
  return url;
}

std::string part(const Url& url, CURLUPart which, unsigned flags = 0) {
  char* text = nullptr;
  if (!url || curl_url_get(url.get(), which, &text, flags) != CURLUE_OK) return {};
  std::string value(text);
  curl_free(text);
  return value;
}

void initialise() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0) throw support::IoError("libcurl cannot be initialised");
  });
}

}  // namespace

std::string origin_of(const std::string& url) {
  const Url parsed = parse(url);
  const std::string scheme = part(parsed, CURLUPART_SCHEME), host = part(parsed, CURLUPART_HOST);
  if ((scheme != "http" && scheme != "https") || host.empty()) return {};
  return cat(scheme, "://", host, ":", part(parsed, CURLUPART_PORT, CURLU_DEFAULT_PORT));
}

std::string shown_url(const std::string& url) {
  Url parsed = parse(url);
  if (!parsed) return support::escaped(url.substr(0, url.find_first_of("?#@")), 200);
  for (const CURLUPart hidden : {CURLUPART_QUERY, CURLUPART_FRAGMENT, CURLUPART_USER, CURLUPART_PASSWORD}) {
    curl_url_set(parsed.get(), hidden, nullptr, 0);
  }
  return support::escaped(part(parsed, CURLUPART_URL), 300);
}

std::string percent_encoded(std::string_view text, bool keep_slash) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain =
        (byte < 0x80 && std::isalnum(byte)) || c == '-' || c == '_' || c == '.' || c == '~' || (keep_slash && c == '/');
    if (plain)
      out += c;
    else
      out += fmt::format("%{:02X}", byte);
  }
  return out;
}

std::string HttpAnswer::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string() : found->second;
}

struct Http::State {
  CURL* curl = nullptr;
  HttpOptions options;
  char error[CURL_ERROR_SIZE] = {};

  // State of the request under way.
  HttpAnswer answer;
  const Sink* sink = nullptr;
  std::size_t most_bytes = 0, header_bytes = 0;
  bool too_much = false, enough = false, late = false;
  bool streams = false;  // the sink has begun to get the body
  std::chrono::steady_clock::time_point begun;
  std::string held;  // curl delivers at most 16 KiB per call; the sink gets the data of one look at the socket
  std::exception_ptr failure;  // of the sink

  static std::size_t on_header(char* data, std::size_t, std::size_t count, void* self) {
    State& s = *static_cast<State*>(self);
    const std::string_view line = support::trim(std::string_view(data, count));
    s.header_bytes += count;
    if (s.header_bytes > kMostHeaders) return s.too_much = true, 0;
    if (line.starts_with("HTTP/")) {  // a further answer: 100, or behind a proxy
      s.answer.headers.clear();
      const std::size_t space = line.find(' ');
      const auto status = support::parse_integer(space == std::string_view::npos ? "" : line.substr(space + 1, 3));
      s.answer.status = status ? static_cast<int>(*status) : 0;
    } else if (const std::size_t colon = line.find(':'); colon != std::string_view::npos) {
      std::string name(line.substr(0, colon));
      std::transform(name.begin(), name.end(), name.begin(),
                     [](unsigned char c) { return c < 128 ? std::tolower(c) : c; });
      s.answer.headers[name] = support::trim(line.substr(colon + 1));
    }
    return count;
  }

  static std::size_t on_body(char* data, std::size_t, std::size_t count, void* self) {
    State& s = *static_cast<State*>(self);
    if (s.good() && *s.sink) {
      s.streams = true;
      s.held.append(data, count);
      return s.held.size() < kReceived || s.give() ? count : 0;
    }
    const std::size_t most = s.good() ? s.most_bytes : kMostErrorBody;
    const std::size_t room = most - std::min(most, s.answer.body.size());
    s.answer.body.append(data, std::min(room, count));
    if (count <= room) return count;
    (s.good() ? s.too_much : s.enough) = true;
    return 0;
  }

  /// Called after each look at the socket, and every second without one.
  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    State& s = *static_cast<State*>(self);
    s.late = !s.streams && std::chrono::steady_clock::now() - s.begun > std::chrono::seconds(s.options.answer_seconds);
    return s.late || support::stop_requested() || !s.give() ? 1 : 0;
  }

  bool good() const { return answer.status == 200 || answer.status == 206; }

  /// To the sink what it has not got yet; false when it wants no more.
  bool give() {
    try {
      if (!held.empty() && !answer.stopped) answer.stopped = !(*sink)(answer, held);
    } catch (...) {  // not through libcurl, which would not know of it
      failure = std::current_exception();
      answer.stopped = true;
    }
    held.clear();
    return !answer.stopped;
  }

  /// One request, no redirect.
  void once(const HttpRequest& request, const std::string& url, bool with_token) {
    curl_easy_reset(curl);
    answer = {};
    header_bytes = 0;
    too_much = enough = late = streams = false;
    begun = std::chrono::steady_clock::now();
    held.clear();
    error[0] = '\0';
    const auto set = [&](auto option, auto value) { curl_easy_setopt(curl, option, value); };
    set(CURLOPT_ERRORBUFFER, error);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_FOLLOWLOCATION, 0L);
    set(CURLOPT_USERAGENT, "pe-pipeline/" PE_VERSION);
    set(CURLOPT_CONNECTTIMEOUT, options.connect_seconds);
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, options.stall_seconds);
    set(CURLOPT_TCP_KEEPALIVE, 1L);
    set(CURLOPT_BUFFERSIZE, static_cast<long>(kReceived));
    if (!options.proxy.empty()) set(CURLOPT_PROXY, options.proxy.c_str());
    if (!options.ca_file.empty()) set(CURLOPT_CAINFO, options.ca_file.c_str());
    set(CURLOPT_HEADERFUNCTION, &State::on_header);
    set(CURLOPT_HEADERDATA, this);
    set(CURLOPT_WRITEFUNCTION, &State::on_body);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_XFERINFOFUNCTION, &State::on_progress);
    set(CURLOPT_XFERINFODATA, this);
    set(CURLOPT_NOPROGRESS, 0L);
    curl_slist* list =
        curl_slist_append(nullptr, "Accept-Encoding: identity");  // else sizes and ranges are of something else
    for (const std::string& header : request.headers) list = curl_slist_append(list, header.c_str());
    if (with_token) list = curl_slist_append(list, cat("Authorization: Bearer ", request.token).c_str());
    set(CURLOPT_HTTPHEADER, list);
    const CURLcode code = curl_easy_perform(curl);
    curl_slist_free_all(list);
    give();
    if (failure) std::rethrow_exception(std::exchange(failure, nullptr));
    // The words of a refusal may have no end; its head says enough.
    if (code == CURLE_OK || answer.stopped || enough || (late && answer.status >= 300)) return;
    answer.problem = support::escaped(error[0] != '\0' ? error : curl_easy_strerror(code), 200);
    if (code == CURLE_OPERATION_TIMEDOUT)
      answer.problem = cat("no data for ", options.stall_seconds, " s: ", answer.problem);
    if (late) answer.problem = cat("the answer was not complete after ", options.answer_seconds, " s");
    if (too_much) set_lasting("the answer is longer than expected");
  }

  void set_lasting(const std::string& problem) {
    answer.problem = problem;
    answer.lasting = true;
  }
};

Http::Http(const HttpOptions& options) : state_(std::make_unique<State>()) {
  initialise();
  state_->options = options;
  state_->curl = curl_easy_init();
  if (state_->curl == nullptr) throw support::IoError("libcurl has no memory");
}

Http::~Http() { curl_easy_cleanup(state_->curl); }

HttpAnswer Http::get(const HttpRequest& request, const Sink& sink, std::size_t most_bytes) {
  State& s = *state_;
  s.sink = &sink;
  s.most_bytes = most_bytes;
  const std::string origin = origin_of(request.url);
  if (origin.empty()) {
    HttpAnswer answer;
    answer.problem = cat("no http or https URL: ", shown_url(request.url));
    answer.lasting = true;
    return answer;
  }
  std::string url = request.url;
  bool redirected = false;
  for (int step = 0; step <= kMostRedirects; ++step) {
    const bool home = origin_of(url) == origin;
    redirected = redirected || !home;
    // Once elsewhere the token stays away, even when the way leads back.
    s.once(request, url, !redirected && !request.token.empty());
    s.answer.host = origin_of(url).substr(origin_of(url).find("//") + 2);
    s.answer.redirected = redirected;
    const int status = s.answer.status;
    if (!s.answer.problem.empty() ||
        (status != 301 && status != 302 && status != 303 && status != 307 && status != 308))
      return std::move(s.answer);
    Url next = parse(url);
    const bool was_https = part(next, CURLUPART_SCHEME) == "https";
    const std::string location = s.answer.header("location");
    if (location.empty() || curl_url_set(next.get(), CURLUPART_URL, location.c_str(), 0) != CURLUE_OK ||
        origin_of(part(next, CURLUPART_URL)).empty()) {
      s.set_lasting(location.empty()
                        ? "it redirects without an address"
                        : cat("it redirects to something other than an http or https address: ", shown_url(location)));
      return std::move(s.answer);
    }
    if (was_https && part(next, CURLUPART_SCHEME) == "http") {
      s.set_lasting(cat("it redirects to an address without encryption: ", shown_url(part(next, CURLUPART_URL))));
      return std::move(s.answer);
    }
    url = part(next, CURLUPART_URL);
  }
  s.set_lasting(cat("more than ", kMostRedirects, " redirects"));
  return std::move(s.answer);
}

}  // namespace pe::data
