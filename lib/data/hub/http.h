/// @file
/// HTTP by libcurl, which is used in the source alone. It makes one request at a time and follows redirects itself, so
/// that a token never reaches another host than the one it is for.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace pe::data {

struct HttpRequest {
  std::string url;
  std::string token;                 ///< bearer token for this URL's scheme, host and port; empty: none
  std::vector<std::string> headers;  ///< "Range: bytes=10-"
};

struct HttpAnswer {
  int status = 0;        ///< 0: No answer; `problem` says why.
  std::string problem;   ///< Error of the transport: refused, reset, stalled, certificate.
  bool lasting = false;  ///< The problem is in the answer itself: the same request would have it again.
  std::map<std::string, std::string> headers;  ///< Names in lower case; of the last answer in a chain of redirects.
  std::string body;                            ///< Bytes that no sink took, up to a bound.
  std::string host;                            ///< that answered last: "host:port"
  bool redirected = false;                     ///< to another host
  bool stopped = false;                        ///< by the sink
  std::string header(const std::string& name) const;
};

struct HttpOptions {
  std::string proxy;    ///< empty: the usual variables
  std::string ca_file;  ///< certificates; empty: the system's
  long connect_seconds = 10;
  long stall_seconds = 30;    ///< without a byte for so long it counts as failed
  long answer_seconds = 300;  ///< for the head of an answer and for a body that no sink takes, however it trickles
};

/// One connection's worth of state; one a thread.
class Http {
 public:
  explicit Http(const HttpOptions& options = {});
  ~Http();
  /// Takes received bytes of a body, or leaves them; false ends the transfer.
  using Sink = std::function<bool(const HttpAnswer& head, std::string& bytes)>;
  /// Bodies of answers 200 and 206 go to `sink`, as many bytes at a time as the socket had. Of other bodies the first
  /// 64 KiB are kept, and the rest is not read. Without a sink every body is kept, up to `most_bytes`; a longer one is
  /// a lasting problem.
  HttpAnswer get(const HttpRequest& request, const Sink& sink = {}, std::size_t most_bytes = 64 << 20);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// "https://host:port" of a URL, the port always there; empty when it is no http or https URL.
std::string origin_of(const std::string& url);
/// The part of an address that may be shown: without user, query and fragment, which may contain signatures and
/// passwords.
std::string shown_url(const std::string& url);
/// Percent-encodes all but unreserved characters, and '/' too unless `keep_slash`.
std::string percent_encoded(std::string_view text, bool keep_slash);

}  // namespace pe::data
