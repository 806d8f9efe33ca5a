// The hub by a test server that has every fault: the fetched files, the repeated requests, and the receivers of the
// token.
#include "data/hub/hub.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <ctime>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "artifact/raw_text.h"
#include "data/hub/downloads.h"
#include "data/hub/hub_tool.h"
#include "data/sources/fetch.h"
#include "support/error.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/peak_memory.h"
#include "support/recording_progress.h"
#include "support/temp_folder.h"
#include "support/test_data.h"
#include "support/text.h"
#include "support/web_server.h"

using namespace pe;
using support::cat;
using test::WebAnswer;
using test::WebRequest;
using test::WebServer;
namespace fs = std::filesystem;

BOOST_AUTO_TEST_SUITE(hub)

namespace {

const std::string kCommit = "0123456789abcdef0123456789abcdef01234567";

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string content(int seed, std::size_t bytes) {
  std::string text;
  for (std::uint32_t x = static_cast<std::uint32_t>(seed) + 1; text.size() < bytes;) {
    x = x * 1664525 + 1013904223;
    text += static_cast<char>('a' + x % 26);
  }
  return text;
}

data::DownloadOptions options_for(const std::string& endpoint, const fs::path& folder) {
  data::DownloadOptions options;
  options.folder = folder;
  options.hub.endpoint = endpoint;
  options.hub.token = "hf_secret";
  options.hub.retry.attempts = 3;
  options.hub.retry.first_wait = std::chrono::milliseconds(1);
  options.hub.http.stall_seconds = 1;
  return options;
}

data::FetchLock lock_of(const std::vector<std::pair<std::string, std::string>>& files) {
  data::FetchLock lock{"owner/name", "main", kCommit, {}};
  for (const auto& [path, text] : files)
    lock.files.push_back({path, static_cast<std::int64_t>(text.size()), support::sha256_hex(text), ""});
  return lock;
}

std::vector<fs::path> download(const data::FetchLock& lock, const data::DownloadOptions& options) {
  return data::download_all(lock, options, support::silent_progress());
}

data::FetchLock lock_by(const data::HubOptions& options, const data::HubRequest& request,
                        const data::Hub::Limits& limits = {},
                        support::Progress& progress = support::silent_progress()) {
  return data::Hub(options, progress).lock(request, limits);
}

struct Failure {
  int code = 0;
  std::string text;
};
Failure failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const support::Error& error) {
    return {error.exit_code(), error.what()};
  }
  return {0, "no error"};
}

/// One file that comes as `answer` says; the handler sees how often it was asked.
struct OneFile {
  test::TempFolder folder;
  std::string body = content(1, 300'000);
  data::FetchLock lock = lock_of({{"a.txt", body}});
  int asked = 0;
  std::function<WebAnswer(const WebRequest&, int)> handler;
  WebServer server{[this](const WebRequest& request) { return handler(request, ++asked); }};
  data::DownloadOptions options = options_for(server.url(), folder / "downloads");

  std::string fetched() { return support::read_file(download(lock, options).at(0)); }
  Failure failure() {
    return failure_of([&] { download(lock, options); });
  }
  fs::path part() const {
    return folder / "downloads" / lock.files[0].sha256.substr(0, 2) / (lock.files[0].sha256 + ".part");
  }
  bool nothing_complete() const {
    return !fs::exists(folder / "downloads" / lock.files[0].sha256.substr(0, 2) / lock.files[0].sha256);
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(names_of_data_sets_are_aliases_or_repositories) {
  BOOST_TEST(data::parse_hub_name("fineweb-edu").repository == "HuggingFaceFW/fineweb-edu");
  BOOST_TEST(data::parse_hub_name("fineweb@v1.0").revision == "v1.0");
  BOOST_TEST(data::parse_hub_name("tinystories").patterns.at(0) == "data/*.parquet");
  BOOST_TEST(data::parse_hub_name("a-b/c.d").repository == "a-b/c.d");
  for (const char* bad : {"finweb", "a/b/c", "a/..", "/a", "a/", "a b/c", "fineweb@"})
    BOOST_CHECK_THROW(data::parse_hub_name(bad), support::ConfigError);
  BOOST_TEST(has(failure_of([] { data::parse_hub_name("finweb"); }).text, "fineweb"));
}

BOOST_AUTO_TEST_CASE(a_lock_pins_the_commit_follows_pages_and_keeps_limits) {
  const std::string small = "a small file";
  std::string base;
  const auto entry = [](const std::string& path, std::int64_t bytes, bool large) {
    Json json = {{"type", "file"}, {"path", path}, {"size", bytes}, {"oid", "aa"}, {"xetHash", "zz"}};
    if (large) json["lfs"] = {{"oid", support::sha256_hex(path)}, {"size", bytes}, {"pointerSize", 135}};
    return json;
  };
  WebServer server([&](const WebRequest& request) -> WebAnswer {
    if (request.target == "/api/datasets/owner/name/revision/refs%2Fconvert%2Fparquet")
      return {.body = R"({"sha": ")" + kCommit + R"("})"};
    if (request.target.starts_with("/api/datasets/owner/name/tree/" + kCommit + "/sample%2F10BT?recursive=true")) {
      const bool second = has(request.target, "cursor=x");
      Json list = second
                      ? Json::array({entry("sample/10BT/002.parquet", 300, true),
                                     entry("sample/10BT/deeper/003.parquet", 1, true)})
                      : Json::array({{{"type", "directory"}, {"path", "sample/10BT/deeper"}, {"oid", "x"}},
                                     entry("sample/10BT/001.parquet", 200, true),
                                     entry("sample/10BT/000.parquet", static_cast<std::int64_t>(small.size()), false),
                                     entry("sample/10BT/README.md", 5, false)});
      WebAnswer answer{.body = list.dump()};
      if (!second) answer.headers.push_back("Link: <" + base + request.target + "&cursor=x>; rel=\"next\"");
      return answer;
    }
    if (request.target == "/datasets/owner/name/resolve/" + kCommit + "/sample/10BT/000.parquet")
      return {.body = small};
    return {.status = 404, .headers = {"X-Error-Code: EntryNotFound"}};
  });
  base = server.url();
  const auto options = options_for(server.url(), "unused").hub;
  data::HubRequest request{"owner/name", "refs/convert/parquet", {"sample/10BT/*.parquet"}};
  data::FetchLock lock = lock_by(options, request);
  BOOST_REQUIRE(lock.files.size() == 3u);
  BOOST_TEST(lock.commit == kCommit);
  BOOST_TEST(lock.files[0].sha256 == support::sha256_hex(small));
  BOOST_TEST(lock.files[2].path == "sample/10BT/002.parquet");
  BOOST_TEST(data::FetchLock::parse(lock.render(), "x").render() == lock.render());
  BOOST_TEST(!has(lock.render(), "secret"));
  BOOST_TEST(lock_by(options, request, {.files = 2, .bytes = {}}).files.size() == 2u);
  BOOST_TEST(lock_by(options, request, {.files = {}, .bytes = 250}).files.size() == 2u);
  request.patterns = {"nothing/*.parquet"};
  const Failure nothing = failure_of([&] { lock_by(options, request); });
  BOOST_TEST(nothing.code == 3);
}

BOOST_AUTO_TEST_CASE(locks_and_lists_of_addresses_say_what_is_wrong) {
  const std::string digest(64, 'a');
  const data::FetchLock lock = data::parse_url_list(
      "# two\n" + digest + "  https://h.example/x/b.txt?sig=1\n\n" + digest + "\thttp://h.example/a.txt\n", "list");
  BOOST_REQUIRE(lock.files.size() == 2u);
  BOOST_TEST(lock.files[0].path == "a.txt");
  BOOST_TEST(lock.files[1].path == "x/b.txt");
  // Two hosts may have files of one name.
  const data::FetchLock twice =
      data::parse_url_list(digest + "  http://one.example/a.txt\n" + digest + "  http://two.example/a.txt\n", "list");
  BOOST_TEST(twice.files[0].path == "one.example/a.txt");
  BOOST_TEST(twice.files[1].path == "two.example/a.txt");
  const auto refused = [](const std::string& text, const char* part) {
    const Failure failure = failure_of([&] { data::parse_url_list(text, "list"); });
    BOOST_TEST(failure.code == 2);
    BOOST_TEST(has(failure.text, part), failure.text);
  };
  refused("# one\nabc  http://h/a\n", "'list':2: 'abc' is not a SHA-256");
  refused(digest + "  http://h.example\n", "'list':1: the URL 'http://h.example' names no file");
  refused("some text without a digest\n", "is not a SHA-256");
  const auto says = [](const std::string& text, const char* part) {
    const Failure failure = failure_of([&] { data::FetchLock::parse(text, "x.lock"); });
    BOOST_TEST(failure.code == 2);
    BOOST_TEST(has(failure.text, part), failure.text);
  };
  says("", "expected a fetch lock");
  says("[]", "expected a fetch lock");
  says(R"({"schema": "pe-fetch-lock/9", "files": []})", "expected schema");
  says(R"({"schema": "pe-fetch-lock/1", "files": []})", "names no files");
  says(R"({"schema": "pe-fetch-lock/1", "files": [{"path": "../a", "sha256": ""}]})", "invalid file name");
  says(R"({"schema": "pe-fetch-lock/1", "files": [{"path": "a", "sha256": "12"}]})", "is not a SHA-256");
  says(R"({"schema": "pe-fetch-lock/1", "files": [{"path": "a", "sha256": ")" + digest + R"("}]})", "no url");
  for (const char* bytes : {"18446744073709551615", "1.5", "-1", "true", "null",
                            "1152921504606846977"}) {  // a size that is none is not "unknown"
    says(cat(R"({"schema": "pe-fetch-lock/1", "files": [{"path": "a", "sha256": ")", digest,
             R"(", "url": "http://h/", "bytes": )", bytes, "}]}"),
         "expected bytes from 0 to 2^60, found");
  }
  says(R"({"schema": "pe-fetch-lock/1", "files": [{"path": "a", "sha256": ")" + digest +
           R"(", "url": "file:///etc/passwd"}]})",
       "expected an http");
  const std::string large =
      R"({"bytes": 1000000000000000000, "commit": "", "url": "http://h/", "sha256": ")" + digest + R"(", "path": ")";
  says(R"({"schema": "pe-fetch-lock/1", "files": [)" + large + R"(a"}, )" + large + R"(b"}]})",
       "more than 2^60 bytes together");
  BOOST_CHECK_THROW(data::parse_url_list("abc", "list"), support::ConfigError);
  BOOST_CHECK_THROW(data::parse_url_list(digest + "  http://h/a?\xff\n", "list"),
                    support::ConfigError);  // a lock holds UTF-8
}

BOOST_AUTO_TEST_CASE(listings_that_are_bombs_end_in_a_message_within_a_second_and_100_mb) {
  std::string wide = "[";
  while (wide.size() < 8'000'000) wide += "1,";
  for (const std::string& bomb : {std::string(8'000'000, '['), wide + "1]",
                                  R"([{"type": "file", "size": 1, "path": )" + std::string(8'000'000, '[')}) {
    const std::clock_t started = std::clock();  // of the processor: other work on it does not count
    Failure failed;
    const std::int64_t memory =
        test::peak_growth([&] { failed = failure_of([&] { data::parse_listing(bomb, "files of owner/name"); }); });
    BOOST_TEST(failed.code == 3);
    BOOST_TEST(memory < 100 << 20);
    BOOST_TEST(static_cast<double>(std::clock() - started) / CLOCKS_PER_SEC < 1);
  }
  // An answer that no hub gives is not read to its end.
  const std::string endless(9 << 20, ' ');
  WebServer server([&](const WebRequest&) -> WebAnswer { return {.body = endless}; });
  const Failure failed = failure_of([&] {
    lock_by(options_for(server.url(), "unused").hub, {"owner/name", "main", {"*"}});
  });
  BOOST_TEST(failed.code == 3);
  BOOST_TEST(server.requests().size() == 1u);  // another try would be as long
  BOOST_TEST(has(failed.text, "longer than expected"), failed.text);
}

BOOST_AUTO_TEST_CASE(locks_beside_the_pipelines_are_whole) {
  int locks = 0;
  for (const auto& entry : fs::directory_iterator(test::source_root() / "pipelines")) {
    if (entry.path().extension() != ".lock") continue;
    ++locks;
    const data::FetchLock lock = data::FetchLock::read(entry.path());
    BOOST_TEST(lock.render() == support::read_file(entry.path()), entry.path());
    for (const data::LockedFile& file : lock.files) BOOST_TEST(file.bytes > 0);
  }
  BOOST_TEST(locks > 0);
}

BOOST_AUTO_TEST_CASE(the_token_stays_with_the_hub) {
  test::TempFolder folder;
  const std::string body = content(2, 1000);
  WebServer storage([&](const WebRequest& request) { return ranged(request, body); });
  WebServer hub([&](const WebRequest&) -> WebAnswer {
    return {.status = 302, .headers = {"Location: " + storage.url() + "/signed?X-Signature=abc"}};
  });
  const auto paths = download(lock_of({{"a.txt", body}}), options_for(hub.url(), folder / "d"));
  BOOST_TEST(support::read_file(paths[0]) == body);
  BOOST_REQUIRE(hub.requests().size() == 1u);
  BOOST_TEST(hub.requests()[0].header("authorization") == "Bearer hf_secret");
  BOOST_REQUIRE(storage.requests().size() == 1u);
  BOOST_TEST(storage.requests()[0].header("authorization") == "");
  // Nor to the addresses of a list, nor into messages.
  data::FetchLock list = lock_of({{"b.txt", content(3, 10)}});
  list.files[0].url = storage.url() + "/b.txt?key=hf_other";
  const Failure failure = failure_of([&] { download(list, options_for(hub.url(), folder / "e")); });
  BOOST_TEST(storage.requests().back().header("authorization") == "");
  BOOST_TEST(failure.code != 0);
  BOOST_TEST(!has(failure.text, "hf_"), failure.text);
}

BOOST_FIXTURE_TEST_CASE(a_cut_connection_goes_on_where_it_stopped, OneFile) {
  handler = [&](const WebRequest& request, int) {
    WebAnswer answer = ranged(request, body);
    answer.cut_after = std::min<std::int64_t>(100'000, static_cast<std::int64_t>(answer.body.size()));
    if (answer.cut_after == static_cast<std::int64_t>(answer.body.size())) answer.cut_after = -1;
    return answer;
  };
  BOOST_TEST(fetched() == body);
  const auto requests = server.requests();
  BOOST_REQUIRE(requests.size() >= 3u);
  BOOST_TEST(requests[0].range() == 0);
  BOOST_TEST(requests[1].range() > 0);
  BOOST_TEST(requests[2].range() > requests[1].range());
  // Complete files are not asked for again, offline neither.
  options.hub.offline = true;
  BOOST_TEST(fetched() == body);
  BOOST_TEST(server.requests().size() == requests.size());
}

BOOST_AUTO_TEST_CASE(progress_says_how_far_each_file_is) {
  struct Steps : support::Progress {
    std::vector<std::string> now;
    std::int64_t last = 0, total = 0;
    bool rises = true;
    void note(std::string_view) override {}
    void warn(std::string_view) override {}
    void advance(std::string_view, std::int64_t done, std::int64_t all, const Json& detail) override {
      rises = rises && done >= last && all >= done;
      last = done;
      total = all;
      now.push_back(detail.value("now", ""));
    }
    void event(const Json&) override {}
  } steps;
  test::TempFolder folder;
  const std::string one = content(1, 200'000), two = content(2, 400'000);
  std::atomic<int> waiting = 0;
  WebServer server([&](const WebRequest& request) {
    WebAnswer answer = ranged(request, has(request.target, "/a.txt") ? one : two);
    if (request.range() == 0) {  // half of each comes, and then nothing for a second
      answer.cut_after = static_cast<std::int64_t>(answer.body.size() / 2);
      answer.stall = true;
      ++waiting;
    }
    return answer;
  });
  data::download_all(lock_of({{"x/a.txt", one}, {"x/b.txt", two}}), options_for(server.url(), folder / "d"), steps);
  BOOST_TEST(waiting == 2);
  BOOST_TEST(steps.rises);
  BOOST_TEST(std::count(steps.now.begin(), steps.now.end(), "a.txt 50%, b.txt 50%") > 0);
  BOOST_TEST(steps.total == 600'000);
}

BOOST_FIXTURE_TEST_CASE(a_killed_program_leaves_a_part_that_the_next_one_takes, OneFile) {
  handler = [&](const WebRequest& request, int) {
    WebAnswer answer = ranged(request, body);
    if (request.range() == 0) answer.cut_after = 200'000, answer.stall = true;
    return answer;
  };
  const pid_t child = ::fork();
  if (child == 0) {
    options.hub.http.stall_seconds = 60;
    try {
      download(lock, options);
    } catch (...) {
    }
    ::_exit(0);
  }
  for (int i = 0; i < 500 && !(fs::exists(part()) && fs::file_size(part()) >= 200'000); ++i) ::usleep(10'000);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  BOOST_TEST(nothing_complete());
  BOOST_REQUIRE(fs::file_size(part()) == 200'000u);
  BOOST_TEST(fetched() == body);
  BOOST_TEST(server.requests().back().range() == 200'000);
  BOOST_TEST(!fs::exists(part()));
}

BOOST_FIXTURE_TEST_CASE(a_disk_that_takes_no_more_is_said_and_the_part_goes_on_later, OneFile) {
  handler = [&](const WebRequest& request, int) { return ranged(request, body); };
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit tight = before;
  tight.rlim_cur = 100'000;
  ::setrlimit(RLIMIT_FSIZE, &tight);
  const Failure failed = failure();
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, SIG_DFL);
  BOOST_TEST(has(failed.text, "File too large"), failed.text);
  BOOST_TEST(nothing_complete());
  BOOST_TEST(fetched() == body);
  BOOST_TEST(server.requests().back().range() == 100'000);
}

BOOST_FIXTURE_TEST_CASE(a_server_without_ranges_begins_anew, OneFile) {
  handler = [&](const WebRequest&, int n) -> WebAnswer { return {.body = body, .cut_after = n == 1 ? 1000 : -1}; };
  BOOST_TEST(fetched() == body);
}

BOOST_FIXTURE_TEST_CASE(wrong_bytes_are_tried_once_more_and_then_refused_with_both_digests, OneFile) {
  const std::string wrong = content(9, body.size());
  handler = [&](const WebRequest& request, int n) { return ranged(request, n == 1 ? wrong : body); };
  BOOST_TEST(fetched() == body);
  fs::remove_all(folder / "downloads");
  handler = [&](const WebRequest& request, int) { return ranged(request, wrong); };
  const Failure failed = failure();
  BOOST_TEST(failed.code == 3);
  BOOST_TEST((has(failed.text, support::sha256_hex(body)) && has(failed.text, support::sha256_hex(wrong))),
             failed.text);
  BOOST_TEST(nothing_complete());
}

BOOST_FIXTURE_TEST_CASE(rate_limits_and_busy_servers_are_waited_for, OneFile) {
  handler = [&](const WebRequest& request, int n) -> WebAnswer {
    if (n == 1) return {.status = 429, .headers = {"RateLimit: \"resolvers\";r=0;t=0"}};
    if (n == 2) return {.status = 503, .headers = {"Retry-After: 1"}};
    return ranged(request, body);
  };
  BOOST_TEST(data::wait_before({.status = 429, .headers = {{"ratelimit", "\"api\";r=0;t=9223372036854775807"}}}, 1, {})
                 .count() == -1);
  const auto started = std::chrono::steady_clock::now();
  BOOST_TEST(fetched() == body);
  BOOST_TEST(std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count() > 1.9);  // t + 1, and 1
  fs::remove_all(folder / "downloads");
  handler = [&](const WebRequest&, int) -> WebAnswer { return {.status = 429, .headers = {"Retry-After: 86400"}}; };
  const Failure day = failure();  // too long to wait: reported immediately
  BOOST_TEST(day.code == support::kExitUnavailable);
  BOOST_TEST(has(day.text, "asks for a wait of 24 h 0 min"), day.text);
  asked = 0;
  handler = [&](const WebRequest&, int) -> WebAnswer { return {.status = 500}; };
  BOOST_TEST(failure().code == support::kExitUnavailable);
  BOOST_TEST(asked == 3);
}

BOOST_AUTO_TEST_CASE(an_expired_signature_is_asked_for_again) {
  test::TempFolder folder;
  const std::string body = content(4, 50'000);
  std::atomic<int> signatures = 0, refused = 0;
  WebServer storage([&](const WebRequest& request) -> WebAnswer {
    // Each signature is good for one request, and the first is cut.
    if (!has(request.target, cat("sig=", signatures.load()))) return {.status = 403};
    if (signatures == 2 && refused++ == 0) return {.status = 403, .body = "<Error>Request has expired</Error>"};
    WebAnswer answer = ranged(request, body);
    if (signatures == 1) answer.cut_after = 20'000;
    return answer;
  });
  WebServer hub([&](const WebRequest&) -> WebAnswer {
    return {.status = 302, .headers = {cat("Location: ", storage.url(), "/f?sig=", ++signatures)}};
  });
  const auto paths = download(lock_of({{"a.txt", body}}), options_for(hub.url(), folder / "d"));
  BOOST_TEST(support::read_file(paths[0]) == body);
  BOOST_TEST(signatures >= 3);
  BOOST_TEST(storage.requests().back().range() > 0);
}

BOOST_FIXTURE_TEST_CASE(a_page_of_a_proxy_leaves_the_part_alone, OneFile) {
  fs::create_directories(part().parent_path());
  std::ofstream(part()) << body.substr(0, 200'000);
  std::int64_t from = 0;
  const WebAnswer page{.headers = {"Content-Type: text/html"}, .body = "<html>log in</html>"};
  handler = [&](const WebRequest&, int) { return page; };
  BOOST_TEST(has(failure().text, "web page"));
  BOOST_TEST(asked == 2);
  BOOST_TEST(fs::file_size(part()) == 200'000u);
  handler = [&](const WebRequest& request, int n) {
    from = request.range();
    return n == 3 ? page : ranged(request, body);
  };
  BOOST_TEST(fetched() == body);
  BOOST_TEST(asked == 4);
  BOOST_TEST(from == 200'000);
}

BOOST_FIXTURE_TEST_CASE(a_server_with_other_ranges_is_asked_for_the_whole_file, OneFile) {
  fs::create_directories(part().parent_path());
  std::ofstream(part()) << body.substr(0, 200'000);
  handler = [&](const WebRequest& request, int) -> WebAnswer {
    if (request.range() <= 0) return {.body = body};
    return {.status = 206, .headers = {"Content-Range: bytes 7-299999/300000"}, .body = body.substr(7)};
  };
  BOOST_TEST(fetched() == body);
  BOOST_TEST(asked == 3);
}

BOOST_FIXTURE_TEST_CASE(what_is_not_the_file_is_refused_before_it_is_written, OneFile) {
  handler = [&](const WebRequest&, int) -> WebAnswer {
    return {.headers = {"Content-Type: text/html"}, .body = "<html>log in</html>"};
  };
  BOOST_TEST(has(failure().text, "web page"));
  handler = [&](const WebRequest&, int) -> WebAnswer { return {.body = body.substr(7)}; };
  BOOST_TEST(has(failure().text, "it announces 299993"));
  handler = [&](const WebRequest&, int) -> WebAnswer {
    return {.status = 404, .headers = {"X-Error-Code: EntryNotFound", "X-Error-Message: no such entry"}};
  };
  Failure failed = failure();
  BOOST_TEST(failed.code == 3);
  BOOST_TEST(has(failed.text, "no such entry"));
  BOOST_TEST(asked == 5);  // not asked again
  handler = [&](const WebRequest&, int) -> WebAnswer {
    return {.status = 403, .headers = {"X-Error-Code: GatedRepo"}};
  };
  BOOST_TEST(has(failure().text, "HF_TOKEN"));
  handler = [&](const WebRequest&, int) -> WebAnswer { return {.body = body, .cut_after = 10, .stall = true}; };
  failed = failure();
  BOOST_TEST(failed.code == support::kExitUnavailable);
  BOOST_TEST(nothing_complete());
}

BOOST_FIXTURE_TEST_CASE(a_server_that_asks_for_another_range_is_not_believed, OneFile) {
  handler = [&](const WebRequest& request, int n) -> WebAnswer {
    if (n == 1) return {.body = body, .cut_after = 5000};
    WebAnswer answer = ranged(request, body);
    if (n == 2) answer.headers = {"Content-Range: bytes 0-299999/300000"};
    return answer;
  };
  BOOST_TEST(fetched() == body);
}

BOOST_FIXTURE_TEST_CASE(offline_says_what_is_missing_and_the_hugging_face_cache_is_used, OneFile) {
  handler = [&](const WebRequest& request, int) { return ranged(request, body); };
  options.hub.offline = true;
  const Failure failed = failure();
  BOOST_TEST(failed.code == support::kExitUnavailable);
  BOOST_TEST(has(failed.text, "'a.txt'"));
  BOOST_TEST(asked == 0);
  const fs::path blobs = folder / "hf/datasets--owner--name/blobs";
  fs::create_directories(blobs);
  std::ofstream(blobs / lock.files[0].sha256) << body;
  options.other = {blobs};
  BOOST_TEST(download(lock, options).at(0) == blobs / lock.files[0].sha256);
  // A blob whose contents differ from its name is not taken.
  std::ofstream(blobs / lock.files[0].sha256) << content(5, body.size());
  const Failure differs = failure();
  BOOST_TEST(differs.code == support::kExitUnavailable);
  BOOST_TEST(has(differs.text, "differs from the digest of the lock"));
  BOOST_TEST(asked == 0);
  options.hub.offline = false;
  BOOST_TEST(fetched() == body);
  BOOST_TEST(asked == 1);
}

BOOST_AUTO_TEST_CASE(the_stage_reads_what_the_lock_names_in_order) {
  test::TempFolder folder;
  const std::string one = "{\"text\": \"first\", \"score\": 3}\n{\"text\": \"weak\", \"score\": 1}\n",
                    two = "{\"text\": \"second\", \"score\": 4}\n";
  WebServer server(
      [&](const WebRequest& request) { return ranged(request, has(request.target, "/b.jsonl") ? two : one); });
  std::ofstream(folder / "fetch.lock") << lock_of({{"data/a.jsonl", one}, {"data/b.jsonl", two}}).render();
  ::setenv("HF_ENDPOINT", server.url().c_str(), 1);
  ::setenv("PE_DOWNLOADS", (folder / "downloads").c_str(), 1);
  data::FetchConfig config;
  config.source = data::FetchConfig::Source::kHub;
  config.lock = (folder / "fetch.lock").string();
  config.text.filter = {"score >= 3"};
  artifact::Workspace workspace;
  workspace.outputs["raw"] = folder / "raw";
  struct Last : test::RecordingProgress {
    std::string what;
    std::int64_t done = 0, total = 0;
    void advance(std::string_view about, std::int64_t at, std::int64_t all, const Json&) override {
      what = about, done = at, total = all;
    }
  } progress;
  workspace.progress = &progress;
  // A kind that cannot be read is found before any request.
  std::ofstream(folder / "bad.lock") << lock_of({{"data/a.jsonl", one}, {"data/b.csv", two}}).render();
  config.lock = (folder / "bad.lock").string();
  const Failure unknown = failure_of([&] { data::fetch(config, workspace); });
  BOOST_TEST(has(unknown.text, "'data/b.csv': unknown kind of file"), unknown.text);
  BOOST_TEST(server.requests().empty());
  config.lock = (folder / "fetch.lock").string();
  data::fetch(config, workspace);
  // A download that was changed since is fetched again.
  for (const auto& entry : fs::recursive_directory_iterator(folder / "downloads")) {
    if (entry.is_regular_file() && entry.file_size() == one.size())
      std::ofstream(entry.path()) << std::string(one.size(), 'x');
  }
  workspace.outputs["raw"] = folder / "again";
  data::fetch(config, workspace);
  BOOST_TEST(server.requests().size() == 3u);
  // The last line of progress has the text of the notes.
  BOOST_TEST(progress.has("fetched 2 documents"), progress.lines);
  BOOST_TEST(progress.what == "documents");
  BOOST_TEST(progress.done == 2);
  BOOST_TEST(progress.total == 2);
  // A limit below the first document is the cause, and not an empty source.
  config.max_bytes = 3;
  workspace.outputs["raw"] = folder / "none";
  const Failure small = failure_of([&] { data::fetch(config, workspace); });
  BOOST_TEST(small.code == support::kExitConfig);
  BOOST_TEST(has(small.text, "max_bytes is 3, and the first document has 5 bytes: data/a.jsonl"), small.text);
  // Flags that choose files belong to the writing of a lock.
  data::HubOrder order;
  order.lock = config.lock;
  order.max_files = 1;
  const Failure chosen = failure_of([&] { data::fetch_lock(order, progress); });
  BOOST_TEST(chosen.code == support::kExitConfig);
  BOOST_TEST(has(chosen.text, "--max-shards has no effect on a lock"), chosen.text);
  ::unsetenv("HF_ENDPOINT");
  ::unsetenv("PE_DOWNLOADS");
  artifact::RawTextReader reader(folder / "raw");
  artifact::RawTextReader::Document document;
  BOOST_REQUIRE(reader.next(document));
  BOOST_TEST(document.text == "first");
  BOOST_TEST(document.source == "data/a.jsonl");
  BOOST_REQUIRE(reader.next(document));
  BOOST_TEST(document.text == "second");
  BOOST_TEST(document.source == "data/b.jsonl");
  BOOST_TEST(!reader.next(document));
}

namespace {

/// A hub with one repository of whose listing and files a test decides.
struct OneRepository {
  std::string commit = kCommit;
  std::function<WebAnswer(const WebRequest&)> listing, file;
  WebServer server{[this](const WebRequest& request) -> WebAnswer {
    if (has(request.target, "/revision/")) return {.body = Json{{"sha", commit}}.dump()};
    return has(request.target, "/tree/") ? listing(request) : file(request);
  }};
  data::HubOptions options = options_for(server.url(), "unused").hub;
  test::RecordingProgress progress;

  void list(const Json& entries) {
    listing = [body = entries.dump()](const WebRequest&) -> WebAnswer { return {.body = body}; };
  }
  data::FetchLock locked() { return lock_by(options, {"owner/name", "main", {"*", "*/*"}}, {}, progress); }
  Failure failure() {
    return failure_of([&] { locked(); });
  }
};

Json large_file(const std::string& path, const Json& size = 7, const std::string& oid = std::string(64, 'a')) {
  return {{"type", "file"}, {"path", path}, {"size", size}, {"lfs", {{"oid", oid}}}};
}

/// Sets a variable of the environment, or takes it away, for as long as it lives.
class Variable {
 public:
  Variable(const char* name, const char* value)
      : name_(name), before_(::getenv(name) ? std::optional<std::string>(::getenv(name)) : std::nullopt) {
    set(value);
  }
  ~Variable() { set(before_ ? before_->c_str() : nullptr); }

 private:
  void set(const char* value) { value != nullptr ? ::setenv(name_, value, 1) : ::unsetenv(name_); }
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(an_endless_refusal_is_a_refusal, OneFile) {
  const std::string words(10'000, 'x');
  handler = [&](const WebRequest&, int) -> WebAnswer { return {.status = 503, .body = words, .endless = true}; };
  const Failure busy = failure();
  BOOST_TEST(busy.code == support::kExitUnavailable);
  BOOST_TEST(has(busy.text, "status 503"), busy.text);
  BOOST_TEST(asked == 3);
  handler = [&](const WebRequest& request, int) -> WebAnswer {
    if (has(request.target, "/there")) return ranged(request, body);
    return {.status = 302, .headers = {"Location: /there"}, .body = words, .endless = true};
  };
  BOOST_TEST(fetched() == body);
}

BOOST_FIXTURE_TEST_CASE(answers_that_trickle_have_an_end, OneFile) {
  options.hub.http.answer_seconds = 1;
  options.hub.http.stall_seconds = 30;
  options.hub.retry.attempts = 2;
  handler = [&](const WebRequest& request, int) {
    WebAnswer answer = ranged(request, body);
    answer.headers.push_back("X-Long: " + std::string(1000, 'x'));
    answer.drip_ms = 50;
    return answer;
  };
  Failure failed = failure();
  BOOST_TEST(failed.code == support::kExitUnavailable);
  BOOST_TEST(has(failed.text, "the answer was not complete after 1 s"), failed.text);
  BOOST_TEST(asked == 2);
  handler = [&](const WebRequest&, int) -> WebAnswer {
    return {.status = 404, .body = std::string(1000, 'x'), .drip_ms = 5};
  };
  failed = failure();
  BOOST_TEST(has(failed.text, "status 404"), failed.text);
  // An answer of the hub's API as well, however regular; but not a file, whose bytes are counted on arrival.
  handler = [&](const WebRequest&, int) -> WebAnswer { return {.body = std::string(1000, ' '), .drip_ms = 5}; };
  failed = failure_of([&] { lock_by(options.hub, {"owner/name", "main", {"*"}}); });
  BOOST_TEST(failed.code == support::kExitUnavailable);
  BOOST_TEST(has(failed.text, "the answer was not complete after 1 s"), failed.text);
  lock = lock_of({{"a.txt", body.substr(0, 400)}});
  handler = [&](const WebRequest&, int) -> WebAnswer { return {.body = body.substr(0, 400), .drip_ms = 3}; };
  BOOST_TEST(fetched() == body.substr(0, 400));
}

BOOST_FIXTURE_TEST_CASE(pages_that_repeat_end_a_listing, OneRepository) {
  const auto pages = [&](const Json& entries, const std::string& suffix) {
    listing = [this, entries, suffix](const WebRequest& request) -> WebAnswer {
      return {.headers = {"Link: <" + server.url() + request.target + suffix + ">; rel=\"next\""},
              .body = entries.dump()};
    };
  };
  pages(Json::array({{{"type", "directory"}, {"path", "folder"}}}), "");
  Failure failed = failure();
  BOOST_TEST(failed.code == 3);
  BOOST_TEST(has(failed.text, "a page names an earlier page as its next"), failed.text);
  pages(Json::array({large_file("a.txt")}), "&again");  // another address each time, and nothing new
  failed = failure();
  BOOST_TEST(failed.code == 3);
  BOOST_TEST(has(failed.text, "file 'a.txt' is listed twice"), failed.text);
  BOOST_TEST(server.requests().size() < 10u);
}

BOOST_FIXTURE_TEST_CASE(forty_thousand_files_are_locked_in_a_time_that_grows_with_them, OneRepository) {
  constexpr int kFiles = 40'000, kOnPage = 5000;
  listing = [&](const WebRequest& request) {
    const std::size_t at = request.target.find("&from=");
    const int from = at == std::string::npos ? 0 : std::stoi(request.target.substr(at + 6));
    std::string body;
    for (int i = from; i < from + kOnPage; ++i) {
      body += cat(i == from ? "[" : ",", R"({"type":"file","path":"a/)", i, R"(.parquet","size":7,"lfs":{"oid":")",
                  kCommit, std::string(24, '0'), R"("}})");
    }
    WebAnswer answer{.body = body + "]"};
    if (from + kOnPage < kFiles)
      answer.headers = {
          cat("Link: <", server.url(), request.target.substr(0, at), "&from=", from + kOnPage, ">; rel=\"next\"")};
    return answer;
  };
  const std::clock_t started = std::clock();
  BOOST_TEST(locked().files.size() == static_cast<std::size_t>(kFiles));
  BOOST_TEST(static_cast<double>(std::clock() - started) / CLOCKS_PER_SEC < 6);
  BOOST_TEST(server.requests().size() == 1u + kFiles / kOnPage);  // the commit, and one listing for both patterns
}

BOOST_FIXTURE_TEST_CASE(small_files_are_asked_for_again_and_a_stop_ends_the_waiting, OneRepository) {
  list(Json::array({{{"type", "file"}, {"path", "a.txt"}, {"size", 5}}}));
  std::atomic<int> asked = 0;
  file = [&](const WebRequest&) -> WebAnswer {
    return ++asked == 1 ? WebAnswer{.status = 503} : WebAnswer{.body = "small"};
  };
  BOOST_TEST(locked().files[0].sha256 == support::sha256_hex("small"));
  BOOST_TEST(progress.has("file 'a.txt' of owner/name: status 503"), progress.lines);
  BOOST_TEST(progress.has("(attempt 2 of 3)"), progress.lines);
  file = [&](const WebRequest&) -> WebAnswer {
    support::request_stop(SIGTERM);
    return {.body = "small", .drip_ms = 200};
  };
  BOOST_CHECK_THROW(locked(), support::StopRequest);
  support::request_stop(0);
  file = [&](const WebRequest&) -> WebAnswer { return {.status = 503, .headers = {"Retry-After: 60"}}; };
  std::thread stopper([] {
    ::usleep(300'000);
    support::request_stop(SIGTERM);
  });
  BOOST_CHECK_THROW(locked(), support::StopRequest);
  stopper.join();
  support::request_stop(0);
}

BOOST_FIXTURE_TEST_CASE(faults_of_the_hub_are_not_faults_of_the_config, OneRepository) {
  const auto says = [&](const std::string& part) {
    const Failure failed = failure();
    BOOST_TEST(failed.code == 3, failed.text);
    BOOST_TEST(has(failed.text, part), failed.text);
    BOOST_TEST(!has(failed.text, "pe-hub lock writes such files"), failed.text);
  };
  for (const char* path : {"/etc", "../a", ".."}) {
    list(Json::array({large_file(path)}));
    says(cat("invalid file name '", path, "'"));
  }
  list(Json::array({large_file("a.txt", 7, std::string(64, 'A'))}));
  says("is not a SHA-256");
  list(Json::array({large_file("a.txt", 18446744073709551615u)}));
  says("expected a size from 0 to 2^60 bytes, found 18446744073709551615");
  list(Json::array({large_file("a.txt", -1)}));
  says("expected a size from 0 to 2^60 bytes, found -1");
  list(Json::array({large_file("a", 1LL << 59), large_file("b", 1LL << 59), large_file("c", 1LL << 59)}));
  says("more than 2^60 bytes together");
  commit = "0123abc";
  says("names the commit '0123abc', expected 40 lower-case hexadecimal digits");
}

BOOST_FIXTURE_TEST_CASE(redirects_that_lead_nowhere_are_not_repeated, OneFile) {
  for (const auto& [location, fault] :
       {std::pair<const char*, const char*>{"file:///etc/passwd",
                                            "something other than an http or https address: file:///etc/passwd"},
        {"javascript:alert(1)", "something other than an http"},
        {"", "it redirects without an address"},
        {"/again", "more than 10 redirects"}}) {
    const std::size_t before = server.requests().size();
    handler = [&](const WebRequest&, int) -> WebAnswer {
      return {.status = 302, .headers = {cat("Location: ", location)}};
    };
    const Failure failed = failure();
    BOOST_TEST(failed.code == 3, failed.text);
    BOOST_TEST(has(failed.text, fault), failed.text);
    BOOST_TEST(server.requests().size() - before == (std::string(location) == "/again" ? 11u : 1u));
  }
}

BOOST_AUTO_TEST_CASE(without_a_home_nothing_of_the_current_folder_is_used) {
  test::TempFolder folder;
  fs::create_directories(folder / ".cache/huggingface/hub/datasets--a--b/blobs");
  std::ofstream(folder / ".cache/huggingface/token") << "hf_of_the_folder\n";
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  const Variable token("HF_TOKEN", nullptr), token_path("HF_TOKEN_PATH", nullptr), hf_home("HF_HOME", nullptr),
      hub_cache("HF_HUB_CACHE", nullptr), downloads("PE_DOWNLOADS", nullptr);
  for (const char* home : {static_cast<const char*>(nullptr), "", "."}) {
    const Variable unset("HOME", home), cache("XDG_CACHE_HOME", home);
    BOOST_TEST(data::HubOptions::from_environment().token == "");
    const Failure failed = failure_of([] { data::DownloadOptions::from_environment(); });
    BOOST_TEST(failed.code == 2);
    BOOST_TEST(has(failed.text, "no folder for downloads"), failed.text);
    const Variable named("PE_DOWNLOADS", "mine");
    const data::DownloadOptions options = data::DownloadOptions::from_environment();
    BOOST_TEST(options.folder == "mine");
    BOOST_TEST(options.other.empty());
  }
  {
    const Variable relative("HF_HOME", ".cache/huggingface"), unset("HOME", nullptr), named("PE_DOWNLOADS", "mine");
    BOOST_TEST(data::HubOptions::from_environment().token == "");
    BOOST_TEST(data::DownloadOptions::from_environment().other.empty());
  }
  const Variable set("HOME", folder.path().c_str()), cache("XDG_CACHE_HOME", nullptr);
  BOOST_TEST(data::HubOptions::from_environment().token == "hf_of_the_folder");
  BOOST_TEST(data::DownloadOptions::from_environment().folder == folder / ".cache/pe-pipeline/downloads");
  BOOST_TEST(data::DownloadOptions::from_environment().other.size() == 1u);
  fs::current_path(before);
}

BOOST_FIXTURE_TEST_CASE(a_file_of_unknown_size_has_a_bound, OneFile) {
  lock.files[0].bytes = -1;
  options.most_unannounced = 1'000'000;
  handler = [&](const WebRequest& request, int) { return ranged(request, body); };
  struct Totals : test::RecordingProgress {
    std::vector<std::pair<std::int64_t, std::int64_t>> steps;
    void advance(std::string_view, std::int64_t done, std::int64_t total, const Json&) override {
      steps.emplace_back(done, total);
    }
  } progress;
  data::download_all(lock, options, progress);
  BOOST_TEST(progress.has("1 of 1 files, 0 B and 1 of unknown size"), progress.lines);
  for (std::size_t i = 0; i + 1 < progress.steps.size(); ++i) BOOST_TEST(progress.steps[i].second == 0);
  BOOST_TEST((progress.steps.back() == std::pair<std::int64_t, std::int64_t>(300'000, 300'000)));
  fs::remove_all(folder / "downloads");
  handler = [&](const WebRequest&, int) -> WebAnswer { return {.body = body, .unannounced = true}; };
  BOOST_TEST(fetched() == body);
  fs::remove_all(folder / "downloads");
  asked = 0;
  handler = [&](const WebRequest&, int) -> WebAnswer { return {.body = body, .endless = true}; };
  const Failure failed = failure();
  BOOST_TEST(failed.code == 3);
  BOOST_TEST(has(failed.text, "longer than the 1000000 bytes that a file may have whose size"), failed.text);
  BOOST_TEST(asked == 1);
  BOOST_TEST(fs::file_size(part()) == 0u);
  handler = [&](const WebRequest&, int) -> WebAnswer { return {.body = body, .announced = 1LL << 59}; };
  BOOST_TEST(has(failure().text, "downloads need"));
}

BOOST_FIXTURE_TEST_CASE(waits_are_told, OneFile) {
  handler = [&](const WebRequest& request, int n) -> WebAnswer {
    if (n == 1) return {.status = 503, .headers = {"Retry-After: 1"}};
    return ranged(request, body);
  };
  test::RecordingProgress progress;
  // Another program holds the part, and goes away after a while.
  fs::create_directories(part().parent_path());
  const int held = ::open(part().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  BOOST_REQUIRE(::flock(held, LOCK_EX) == 0);
  std::thread other([&] {
    ::usleep(500'000);
    ::close(held);
  });
  data::download_all(lock, options, progress);
  other.join();
  BOOST_TEST(progress.has("file 'a.txt': another download of it is under way (its .part is locked)"), progress.lines);
  BOOST_TEST(progress.has("which asks for a wait of 1.0 s; repeated in 1.0 s (attempt 2 of 3)"), progress.lines);
}

BOOST_AUTO_TEST_SUITE_END()
