#include "support/web_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

namespace pe::test {

std::string WebRequest::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string() : found->second;
}

std::int64_t WebRequest::range() const {
  const std::string text = header("range");
  return text.starts_with("bytes=") ? std::stoll(text.substr(6)) : 0;
}

WebAnswer ranged(const WebRequest& request, const std::string& body) {
  const auto from = static_cast<std::size_t>(request.range());
  if (from == 0) return {.body = body};
  if (from >= body.size()) return {.status = 416, .headers = {"Content-Range: bytes */" + std::to_string(body.size())}};
  return {.status = 206,
          .headers = {"Content-Range: bytes " + std::to_string(from) + "-" + std::to_string(body.size() - 1) + "/" +
                      std::to_string(body.size())},
          .body = body.substr(from)};
}

WebServer::WebServer(std::function<WebAnswer(const WebRequest&)> handler) : handler_(std::move(handler)) {
  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (socket_ < 0 || ::bind(socket_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(socket_, 64) != 0 ||
      ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("no socket for a test server");
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] {
    while (!ended_) {
      const int connection = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) continue;
      if (ended_) {
        ::close(connection);
        break;
      }
      const std::lock_guard lock(mutex_);
      connections_.emplace_back([this, connection] { serve(connection); });
    }
  });
}

WebServer::~WebServer() {
  ended_ = true;
  ::shutdown(socket_, SHUT_RDWR);
  thread_.join();
  for (std::thread& connection : connections_) connection.join();
  ::close(socket_);
}

std::string WebServer::url() const { return "http://127.0.0.1:" + std::to_string(port_); }

std::vector<WebRequest> WebServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

bool WebServer::send_all(int connection, const std::string& text, int drip_ms) {
  for (std::size_t sent = 0; sent < text.size();) {
    if (ended_) return false;
    const ssize_t count = ::send(connection, text.data() + sent, drip_ms > 0 ? 1 : text.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) return false;
    sent += static_cast<std::size_t>(count);
    if (drip_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(drip_ms));
  }
  return true;
}

void WebServer::serve(int connection) {
  std::string text;
  char piece[4096];
  while (text.find("\r\n\r\n") == std::string::npos) {
    const ssize_t got = ::recv(connection, piece, sizeof piece, 0);
    if (got <= 0) {
      ::close(connection);
      return;
    }
    text.append(piece, static_cast<std::size_t>(got));
  }
  WebRequest request;
  std::size_t at = 0;
  for (std::size_t end = text.find("\r\n"); end != at && end != std::string::npos;
       at = end + 2, end = text.find("\r\n", at)) {
    const std::string line = text.substr(at, end - at);
    if (at == 0) {
      const std::size_t space = line.find(' ');
      request.method = line.substr(0, space);
      request.target = line.substr(space + 1, line.rfind(' ') - space - 1);
    } else if (const std::size_t colon = line.find(':'); colon != std::string::npos) {
      std::string name = line.substr(0, colon);
      std::transform(name.begin(), name.end(), name.begin(), ::tolower);
      request.headers[name] = line.substr(std::min(line.size(), colon + 2));
    }
  }
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
  }
  const WebAnswer answer = handler_(request);
  std::string out = "HTTP/1.1 " + std::to_string(answer.status) + " Test\r\nConnection: close\r\n";
  if (!answer.unannounced && !answer.endless) {
    out += "Content-Length: " +
           std::to_string(answer.announced >= 0 ? answer.announced : static_cast<std::int64_t>(answer.body.size())) +
           "\r\n";
  }
  for (const std::string& header : answer.headers) out += header + "\r\n";
  out += "\r\n";
  if (request.method != "HEAD")
    out += answer.cut_after < 0 ? answer.body : answer.body.substr(0, static_cast<std::size_t>(answer.cut_after));
  for (bool open = send_all(connection, out, answer.drip_ms); open && answer.endless;)
    open = send_all(connection, answer.body, answer.drip_ms);
  while (answer.stall && !ended_) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ::shutdown(connection, SHUT_WR);
  ::close(connection);
}

}  // namespace pe::test
