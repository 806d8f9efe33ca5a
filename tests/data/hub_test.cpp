// The hub by a server of our own that has every fault: what is fetched, what is asked for again, and who sees the token.
#include "data/hub/hub.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <ctime>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>

#include "artifact/raw_text.h"
#include "data/hub/downloads.h"
#include "data/sources/fetch.h"
#include "support/error.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/peak_memory.h"
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
  for (const auto& [path, text] : files) lock.files.push_back({path, static_cast<std::int64_t>(text.size()), support::sha256_hex(text), ""});
  return lock;
}

std::vector<fs::path> download(const data::FetchLock& lock, const data::DownloadOptions& options) {
  return data::download_all(lock, options, support::silent_progress());
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
  bool nothing_complete() const { return !fs::exists(folder / "downloads" / lock.files[0].sha256.substr(0, 2) / lock.files[0].sha256); }
};

}  // namespace

BOOST_AUTO_TEST_CASE(names_of_data_sets_are_aliases_or_repositories) {
  BOOST_TEST(data::parse_hub_name("fineweb-edu").repository == "HuggingFaceFW/fineweb-edu");
  BOOST_TEST(data::parse_hub_name("fineweb@v1.0").revision == "v1.0");
  BOOST_TEST(data::parse_hub_name("tinystories").patterns.at(0) == "data/*.parquet");
  BOOST_TEST(data::parse_hub_name("a-b/c.d").repository == "a-b/c.d");
  for (const char* bad : {"finweb", "a/b/c", "a/..", "/a", "a/", "a b/c", "fineweb@"}) BOOST_CHECK_THROW(data::parse_hub_name(bad), support::ConfigError);
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
    if (request.target == "/api/datasets/owner/name/revision/refs%2Fconvert%2Fparquet") return {.body = R"({"sha": ")" + kCommit + R"("})"};
    if (request.target.starts_with("/api/datasets/owner/name/tree/" + kCommit + "/sample%2F10BT?recursive=true")) {
      const bool second = has(request.target, "cursor=x");
      Json list = second ? Json::array({entry("sample/10BT/002.parquet", 300, true), entry("sample/10BT/deeper/003.parquet", 1, true)})
                         : Json::array({{{"type", "directory"}, {"path", "sample/10BT/deeper"}, {"oid", "x"}}, entry("sample/10BT/001.parquet", 200, true),
                                        entry("sample/10BT/000.parquet", static_cast<std::int64_t>(small.size()), false), entry("sample/10BT/README.md", 5, false)});
      WebAnswer answer{.body = list.dump()};
      if (!second) answer.headers.push_back("Link: <" + base + request.target + "&cursor=x>; rel=\"next\"");
      return answer;
    }
    if (request.target == "/datasets/owner/name/resolve/" + kCommit + "/sample/10BT/000.parquet") return {.body = small};
    return {.status = 404, .headers = {"X-Error-Code: EntryNotFound"}};
  });
  base = server.url();
  const auto options = options_for(server.url(), "unused").hub;
  data::HubRequest request{"owner/name", "refs/convert/parquet", {"sample/10BT/*.parquet"}};
  data::FetchLock lock = data::Hub(options).lock(request, {}, support::silent_progress());
  BOOST_REQUIRE(lock.files.size() == 3u);
  BOOST_TEST(lock.commit == kCommit);
  BOOST_TEST(lock.files[0].sha256 == support::sha256_hex(small));
  BOOST_TEST(lock.files[2].path == "sample/10BT/002.parquet");
  BOOST_TEST(data::FetchLock::parse(lock.render(), "x").render() == lock.render());
  BOOST_TEST(!has(lock.render(), "secret"));
  BOOST_TEST(data::Hub(options).lock(request, {.files = 2, .bytes = {}}, support::silent_progress()).files.size() == 2u);
  BOOST_TEST(data::Hub(options).lock(request, {.files = {}, .bytes = 250}, support::silent_progress()).files.size() == 2u);
  request.patterns = {"nothing/*.parquet"};
  const Failure nothing = failure_of([&] { data::Hub(options).lock(request, {}, support::silent_progress()); });
  BOOST_TEST(nothing.code == 3);
}

BOOST_AUTO_TEST_CASE(locks_and_lists_of_addresses_say_what_is_wrong) {
  const std::string digest(64, 'a');
  const data::FetchLock lock = data::parse_url_list("# two\n" + digest + "  https://h.example/x/b.txt?sig=1\n\n" + digest + "\thttp://h.example/a.txt\n", "list");
  BOOST_REQUIRE(lock.files.size() == 2u);
  BOOST_TEST(lock.files[0].path == "a.txt");
  BOOST_TEST(lock.files[1].path == "x/b.txt");
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
  says(R"({"schema": "pe-fetch-lock/1", "files": [{"path": "a", "sha256": ")" + digest + R"(", "url": "file:///etc/passwd"}]})", "expected an http");
  const std::string large = R"({"bytes": 1000000000000000000, "commit": "", "url": "http://h/", "sha256": ")" + digest + R"(", "path": ")";
  says(R"({"schema": "pe-fetch-lock/1", "files": [)" + large + R"(a"}, )" + large + R"(b"}]})", "more than 2^60 bytes together");
  BOOST_CHECK_THROW(data::parse_url_list("abc", "list"), support::ConfigError);
  BOOST_CHECK_THROW(data::parse_url_list(digest + "  http://h/a?\xff\n", "list"), support::ConfigError);   // a lock holds UTF-8
}

BOOST_AUTO_TEST_CASE(listings_that_are_bombs_end_in_a_message_within_a_second_and_100_mb) {
  std::string wide = "[";
  while (wide.size() < 8'000'000) wide += "1,";
  for (const std::string& bomb : {std::string(8'000'000, '['), wide + "1]", R"([{"type": "file", "size": 1, "path": )" + std::string(8'000'000, '[')}) {
    const std::clock_t started = std::clock();   // of the processor: other work on it does not count
    Failure failed;
    const std::int64_t memory = test::peak_growth([&] {
      failed = failure_of([&] { data::parse_listing(bomb, "files of owner/name"); });
    });
    BOOST_TEST(failed.code == 3);
    BOOST_TEST(memory < 100 << 20);
    BOOST_TEST(static_cast<double>(std::clock() - started) / CLOCKS_PER_SEC < 1);
  }
  // What no hub has as an answer is not read to its end.
  const std::string endless(9 << 20, ' ');
  WebServer server([&](const WebRequest&) -> WebAnswer { return {.body = endless}; });
  const Failure failed = failure_of([&] {
    data::Hub(options_for(server.url(), "unused").hub).lock({"owner/name", "main", {"*"}}, {}, support::silent_progress());
  });
  BOOST_TEST(failed.code == support::kExitUnavailable);
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
  WebServer hub([&](const WebRequest&) -> WebAnswer { return {.status = 302, .headers = {"Location: " + storage.url() + "/signed?X-Signature=abc"}}; });
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
    if (request.range() == 0) {   // half of each comes, and then nothing for a second
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
  const fs::path part = folder / "downloads" / lock.files[0].sha256.substr(0, 2) / (lock.files[0].sha256 + ".part");
  const pid_t child = ::fork();
  if (child == 0) {
    options.hub.http.stall_seconds = 60;
    try {
      download(lock, options);
    } catch (...) {
    }
    ::_exit(0);
  }
  for (int i = 0; i < 500 && !(fs::exists(part) && fs::file_size(part) >= 200'000); ++i) ::usleep(10'000);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  BOOST_TEST(nothing_complete());
  BOOST_REQUIRE(fs::file_size(part) == 200'000u);
  BOOST_TEST(fetched() == body);
  BOOST_TEST(server.requests().back().range() == 200'000);
  BOOST_TEST(!fs::exists(part));
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
  BOOST_TEST((has(failed.text, support::sha256_hex(body)) && has(failed.text, support::sha256_hex(wrong))), failed.text);
  BOOST_TEST(nothing_complete());
}

BOOST_FIXTURE_TEST_CASE(rate_limits_and_busy_servers_are_waited_for, OneFile) {
  handler = [&](const WebRequest& request, int n) -> WebAnswer {
    if (n == 1) return {.status = 429, .headers = {"RateLimit: \"resolvers\";r=0;t=0"}};
    if (n == 2) return {.status = 503, .headers = {"Retry-After: 1"}};
    return ranged(request, body);
  };
  BOOST_TEST(data::wait_before({.status = 429, .headers = {{"ratelimit", "\"api\";r=0;t=9223372036854775807"}}}, 1, {}).count() == -1);
  const auto started = std::chrono::steady_clock::now();
  BOOST_TEST(fetched() == body);
  BOOST_TEST(std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count() > 1.9);   // t + 1, and 1
  fs::remove_all(folder / "downloads");
  handler = [&](const WebRequest&, int) -> WebAnswer { return {.status = 429, .headers = {"Retry-After: 100000"}}; };
  BOOST_TEST(failure().code == support::kExitUnavailable);   // longer than anyone waits: said at once
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
  WebServer hub([&](const WebRequest&) -> WebAnswer { return {.status = 302, .headers = {cat("Location: ", storage.url(), "/f?sig=", ++signatures)}}; });
  const auto paths = download(lock_of({{"a.txt", body}}), options_for(hub.url(), folder / "d"));
  BOOST_TEST(support::read_file(paths[0]) == body);
  BOOST_TEST(signatures >= 3);
  BOOST_TEST(storage.requests().back().range() > 0);
}

BOOST_FIXTURE_TEST_CASE(what_is_not_the_file_is_refused_before_it_is_written, OneFile) {
  handler = [&](const WebRequest&, int) -> WebAnswer { return {.headers = {"Content-Type: text/html"}, .body = "<html>log in</html>"}; };
  BOOST_TEST(has(failure().text, "web page"));
  handler = [&](const WebRequest&, int) -> WebAnswer { return {.body = body.substr(7)}; };
  BOOST_TEST(has(failure().text, "it announces 299993"));
  handler = [&](const WebRequest&, int) -> WebAnswer { return {.status = 404, .headers = {"X-Error-Code: EntryNotFound", "X-Error-Message: no such entry"}}; };
  Failure failed = failure();
  BOOST_TEST(failed.code == 3);
  BOOST_TEST(has(failed.text, "no such entry"));
  BOOST_TEST(asked == 5);   // not asked again
  handler = [&](const WebRequest&, int) -> WebAnswer { return {.status = 403, .headers = {"X-Error-Code: GatedRepo"}}; };
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
  // A blob that is not what its name says is not taken.
  std::ofstream(blobs / lock.files[0].sha256) << content(5, body.size());
  options.hub.offline = false;
  BOOST_TEST(fetched() == body);
  BOOST_TEST(asked == 1);
}

BOOST_AUTO_TEST_CASE(the_stage_reads_what_the_lock_names_in_order) {
  test::TempFolder folder;
  const std::string one = "{\"text\": \"first\", \"score\": 3}\n{\"text\": \"weak\", \"score\": 1}\n", two = "{\"text\": \"second\", \"score\": 4}\n";
  WebServer server([&](const WebRequest& request) { return ranged(request, has(request.target, "/b.jsonl") ? two : one); });
  std::ofstream(folder / "fetch.lock") << lock_of({{"data/a.jsonl", one}, {"data/b.jsonl", two}}).render();
  ::setenv("HF_ENDPOINT", server.url().c_str(), 1);
  ::setenv("PE_DOWNLOADS", (folder / "downloads").c_str(), 1);
  data::FetchConfig config;
  config.source = data::FetchConfig::Source::kHub;
  config.lock = (folder / "fetch.lock").string();
  config.text.filter = {"score >= 3"};
  artifact::Workspace workspace;
  workspace.outputs["raw"] = folder / "raw";
  workspace.progress = &support::silent_progress();
  data::fetch(config, workspace);
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

BOOST_AUTO_TEST_SUITE_END()
