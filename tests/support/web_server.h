/// @file
/// An HTTP server on the loopback interface that does as a test says, with every fault that a network has.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace pe::test {

struct WebRequest {
  std::string method, target;                  ///< "/api/datasets/a/b?recursive=true"
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string header(const std::string& name) const;
  /// First byte that `Range: bytes=N-` asks for, or 0.
  std::int64_t range() const;
};

struct WebAnswer {
  int status = 200;
  std::vector<std::string> headers;  ///< "Location: …"; Content-Length is added
  std::string body;
  std::int64_t cut_after = -1;  ///< bytes of the body, then the connection ends
  bool stall = false;           ///< after cut_after bytes nothing comes any more
  std::int64_t announced = -1;  ///< a wrong Content-Length
  bool unannounced = false;     ///< no Content-Length; the connection's end is the body's
  bool endless = false;         ///< The body again and again, with no Content-Length, until the client stops reading.
  int drip_ms = 0;              ///< between one byte and the next, of the head too
};

class WebServer {
 public:
  explicit WebServer(std::function<WebAnswer(const WebRequest&)> handler);
  ~WebServer();
  std::string url() const;                   ///< "http://127.0.0.1:34567"
  std::vector<WebRequest> requests() const;  ///< so far

 private:
  void serve(int connection);
  bool send_all(int connection, const std::string& text, int drip_ms);  ///< false when the client stopped reading
  std::function<WebAnswer(const WebRequest&)> handler_;
  int socket_ = -1, port_ = 0;
  std::atomic<bool> ended_ = false;
  mutable std::mutex mutex_;
  std::vector<WebRequest> requests_;
  std::list<std::thread> connections_;
  std::thread thread_;
};

/// The part of `body` that a request asks for: 206 with Content-Range, or 200 with all of it.
WebAnswer ranged(const WebRequest& request, const std::string& body);

}  // namespace pe::test
