// Costs of data: encoding, training a tokenizer, reading Parquet, fetching over loopback, windows of tokens, memory;
// compared with peers in the same run.
//
//     data [tokenize] [train] [train-program] [parquet] [fetch] [window] [memory]   all by default
//         --seconds S    at least, for each figure; 1
//         --train-mb N   text that tokenizers are trained on; 10
//         --text-mb N    text that is tokenised for its memory; may be given several times; 200 and 400
//         --workers N    threads that tokenise it; may be given several times; 2
//         --fetch-mb N   a file that is fetched; 512
//
// Text and models come from PE_TEST_DATA; PE_TEST_PYTHON names a Python with the packages sentencepiece and
// tokenizers (data_peer.py). Rates of one thread are by its CPU time, so that other work on the machine moves them
// less. Files are written to TMPDIR.
#include <arpa/inet.h>
#include <arrow/io/file.h>
#include <arrow/table.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <parquet/arrow/reader.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "artifact/raw_text.h"
#include "data/hub/downloads.h"
#include "data/sources/document_source.h"
#include "data/sources/parquet_text.h"
#include "data/token_shards/token_dataset.h"
#include "data/token_shards/tokenize.h"
#include "data/tokenizers/byte_level_bpe.h"
#include "data/tokenizers/tokenizer.h"
#include "data/tokenizers/tokenizer_training.h"
#include "support/error.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/peak_memory.h"
#include "support/process.h"
#include "support/progress.h"
#include "support/random.h"
#include "support/temp_folder.h"
#include "support/text.h"

namespace {

using namespace pe;  // NOLINT
namespace fs = std::filesystem;

double at_least_s = 1;
std::size_t train_bytes = 10'000'000, fetch_bytes = 512'000'000;
std::vector<std::size_t> text_bytes;
std::vector<int> worker_counts;

double cpu_now() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Of all threads.
double process_cpu() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double wall_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// CPU seconds of one call, from as many as fill the time.
double cpu_of(const std::function<void()>& body) {
  body();  // once to warm up
  const double start = cpu_now();
  int calls = 0;
  do {
    body();
    ++calls;
  } while (cpu_now() - start < at_least_s);
  return (cpu_now() - start) / calls;
}

fs::path data_folder() {
  const char* folder = std::getenv("PE_TEST_DATA");
  return folder == nullptr ? "" : folder;
}

/// Web pages, each once.
std::vector<std::string> web_pages() {
  const auto source = data::make_local_source({(data_folder() / "fineweb").string()}, {}, support::silent_progress());
  std::vector<std::string> texts;
  data::DocumentSource::Item item;
  for (auto outcome = source->next(item); outcome != data::DocumentSource::Outcome::kEnd;
       outcome = source->next(item)) {
    if (outcome == data::DocumentSource::Outcome::kDocument && !item.text.empty()) texts.push_back(item.text);
  }
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return texts;
}

double megabytes(const std::vector<std::string>& texts) {
  double bytes = 0;
  for (const std::string& text : texts) bytes += static_cast<double>(text.size());
  return bytes / 1e6;
}

void write_texts(const fs::path& path, const std::vector<std::string>& texts) {
  std::ofstream out(path, std::ios::binary);
  for (const std::string& text : texts) out << Json{{"text", text}}.dump() << "\n";
}

/// SHA-256 over all ids as 32-bit little-endian.
std::string digest_of(const std::vector<std::string>& texts,
                      const std::function<void(const std::string&, std::vector<std::int32_t>&)>& encode) {
  support::Sha256 hash;
  std::vector<std::int32_t> ids;
  for (const std::string& text : texts) {
    encode(text, ids);
    hash.update(ids.data(), ids.size() * sizeof ids[0]);
  }
  return hash.hex();
}

/// Runs the peers, which print a JSON object a line; nothing without their packages.
void ask_peers(const std::vector<std::string>& arguments, double ours, const std::string& digest) {
  const char* python = std::getenv("PE_TEST_PYTHON");
  std::vector<std::string> words = {python != nullptr ? python : "python3", PE_PEER};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const support::CapturedOutput answer = support::capture(words);
  if (answer.status.code != 0) {
    fmt::print("  no peer: {}\n", support::trim(answer.err));
    return;
  }
  for (const std::string& line : support::split(answer.out, '\n')) {
    if (line.empty()) continue;
    const Json said = Json::parse(line);
    const double rate = said["rate"];
    fmt::print("  {:<44} {:8.2f} {}   ours {:.2f} times{}\n", said["peer"].get<std::string>(), rate,
               said["unit"].get<std::string>(), ours / rate,
               digest.empty()          ? ""
               : said["ids"] == digest ? ", same ids"
                                       : ", OTHER ids");
  }
}

void measure_tokenize() {
  const std::vector<std::string> texts = web_pages();
  const double mb = megabytes(texts);
  const test::TempFolder folder;
  write_texts(folder / "texts.jsonl", texts);
  fmt::print("encoding {} web pages, {:.1f} MB, MB/s of one thread\n", texts.size(), mb);
  const fs::path models = data_folder() / "models";
  const auto rate_of = [&](const char* name,
                           const std::function<void(const std::string&, std::vector<std::int32_t>&)>& encode) {
    std::vector<std::int32_t> ids;
    const double rate = mb / cpu_of([&] {
                          for (const std::string& text : texts) encode(text, ids);
                        });
    fmt::print("  {:<44} {:8.2f} MB/s\n", name, rate);
    return rate;
  };
  // Each pass begins with an empty cache of words, as a worker does.
  const auto cold_rate_of = [&](const char* name, const data::Tokenizer& tokenizer) {
    std::vector<std::int32_t> ids;
    const double rate = mb / cpu_of([&] {
                          data::CachedEncoder encoder(tokenizer);
                          for (const std::string& text : texts) encoder.encode(text, ids);
                        });
    fmt::print("  {:<44} {:8.2f} MB/s\n", name, rate);
    return rate;
  };
  {
    const fs::path model = models / "mistral-v1-32000.model";
    const auto tokenizer = data::make_sentencepiece(support::read_file(model), model.string());
    data::CachedEncoder encoder(*tokenizer);
    const auto ours_encode = [&](const std::string& text, std::vector<std::int32_t>& ids) {
      encoder.encode(text, ids);
    };
    const double ours = cold_rate_of("ours, sentencepiece BPE 32,000", *tokenizer);
    rate_of("ours, with the words of the same text remembered", ours_encode);
    const double linked =
        rate_of("linked sentencepiece " PE_SENTENCEPIECE_VERSION " (as spm_encode)",
                [&](const std::string& text, std::vector<std::int32_t>& ids) { tokenizer->encode(text, ids); });
    fmt::print("  ours {:.2f} times the linked library\n", ours / linked);
    ask_peers({"sentencepiece", (folder / "texts.jsonl").string(), model.string()}, ours,
              digest_of(texts, ours_encode));
  }
  {
    const fs::path vocab = models / "gpt2-vocab.json", merges = models / "gpt2-merges.txt";
    const auto tokenizer = data::make_byte_level(
        data::pack_byte_level({support::read_file(vocab), support::read_file(merges)}, "gpt2"), "gpt2");
    data::CachedEncoder encoder(*tokenizer);
    const auto ours_encode = [&](const std::string& text, std::vector<std::int32_t>& ids) {
      encoder.encode(text, ids);
    };
    const double ours = cold_rate_of("ours, GPT-2's byte-level BPE", *tokenizer);
    ask_peers({"tokenizers", (folder / "texts.jsonl").string(), vocab.string(), merges.string()}, ours,
              digest_of(texts, ours_encode));
  }
  artifact::RawTextWriter raw(folder / "raw", {});
  for (int copy = 0; copy < 4; ++copy) {
    for (std::size_t i = 0; i < texts.size(); ++i) raw.add(texts[i] + static_cast<char>('a' + copy), "pages", i);
  }
  raw.finish();
  for (const int workers : {1, 2}) {
    data::TokenizeConfig config;
    config.tokenizer = data::TokenizeConfig::Tokenizer::kFile;
    config.model = (models / "mistral-v1-32000.model").string();
    config.workers = workers;
    artifact::Workspace workspace;
    workspace.inputs["raw"] = {{folder / "raw", artifact::Kind::kRawText, "", {}}};
    workspace.outputs["data"] = folder / std::to_string(workers);
    workspace.progress = &support::silent_progress();
    const double seconds = wall_of([&] { data::tokenize(config, workspace); });
    fmt::print("  {:<44} {:8.2f} MB/s by the clock\n",
               fmt::format("the whole stage, {} worker{}", workers, workers > 1 ? "s" : ""), 4 * mb / seconds);
  }
}

/// Web pages until there are so many bytes: each once, and then again with every 32nd word made of the halves of two
/// words. New words thus keep coming as they do in more text.
std::vector<std::string> many_pages(std::size_t bytes) {
  const std::vector<std::string> pages = web_pages();
  std::vector<std::string_view> words;
  for (const std::string& page : pages) {
    for (std::size_t at = 0; at < page.size();) {
      const std::size_t end = std::min(page.find(' ', at), page.size());
      const std::string_view word = std::string_view(page).substr(at, end - at);
      const bool plain = std::all_of(word.begin(), word.end(), [](unsigned char c) { return c < 128 && c > ' '; });
      if (plain && word.size() > 3) words.push_back(word);
      at = end + 1;
    }
  }
  std::vector<std::string> texts;
  support::Xoshiro random(3);
  for (std::size_t i = 0, got = 0; got < bytes; ++i) {
    const std::string& page = pages[i % pages.size()];
    if (i < pages.size()) {
      texts.push_back(page);
    } else {
      std::string text;
      int count = 0;
      for (std::size_t at = 0; at < page.size(); ++count) {
        const std::size_t end = std::min(page.find(' ', at), page.size());
        if (count % 32 == 31) {
          const std::string_view first = words[random.below(words.size())], second = words[random.below(words.size())];
          text += first.substr(0, first.size() / 2);
          text += second.substr(second.size() / 2);
        } else {
          text.append(page, at, end - at);
        }
        if (end < page.size()) text += ' ';
        at = end + 1;
      }
      texts.push_back(std::move(text));
    }
    got += texts.back().size();
  }
  return texts;
}

std::size_t distinct_words(const std::vector<std::string>& texts) {
  std::unordered_set<std::string_view> words;
  for (const std::string& text : texts) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find_first_of(" \n", at), text.size());
      words.insert(std::string_view(text).substr(at, end - at));
      at = end + 1;
    }
  }
  return words.size();
}

/// Compares with the package, or with the program, which takes a line a text.
void measure_train(bool program) {
  std::vector<std::string> texts = many_pages(train_bytes);
  if (program) {
    for (std::string& text : texts) std::replace(text.begin(), text.end(), '\n', ' ');
  }
  fmt::print("training BPE with 32,000 pieces on {:.1f} MB of web pages with {} distinct words{}, seconds of CPU\n",
             megabytes(texts), distinct_words(texts), program ? ", spaces for line ends" : "");
  const double start = cpu_now();
  std::size_t at = 0;
  data::train_bpe({.vocabulary = 32000},
                  [&](std::string& text) { return at < texts.size() && (text = texts[at++], true); });
  const double ours = cpu_now() - start;
  fmt::print("  {:<44} {:8.2f} s\n", "ours", ours);
  std::fflush(stdout);
  const test::TempFolder folder;
  write_texts(folder / "texts.jsonl", texts);
  ask_peers({program ? "train-program" : "train", (folder / "texts.jsonl").string()}, ours, "");
}

void measure_parquet() {
  fmt::print("text of Parquet files, MB/s of one thread\n");
  for (const char* name : {"web-900-snappy-rg256.parquet", "web-500-zstd-textonly-rg128.parquet"}) {
    const fs::path path = data_folder() / "fineweb" / name;
    double mb = 0;
    const double ours = cpu_of([&] {
      data::ParquetText rows(path, "text", {});
      std::optional<std::string_view> text;
      std::size_t bytes = 0;
      while (rows.next(text)) bytes += text ? text->size() : 0;
      mb = static_cast<double>(bytes) / 1e6;
    });
    const double arrow = cpu_of([&] {
      const auto file = arrow::io::ReadableFile::Open(path.string()).ValueOrDie();
      auto reader = parquet::arrow::OpenFile(file, arrow::default_memory_pool()).ValueOrDie();
      reader->set_use_threads(false);
      const int column = reader->parquet_reader()->metadata()->schema()->ColumnIndex("text");
      std::shared_ptr<arrow::Table> table;
      if (!reader->ReadTable({column}, &table).ok()) throw support::ConfigError("Arrow cannot read it");
    });
    fmt::print("  {:<44} {:8.1f} MB/s, Arrow's table {:.1f}: {:.2f} of it\n", name, mb / ours, mb / arrow,
               arrow / ours);
  }
}

/// Serves one file for every request, from a separate process and by sendfile.
class FileServer {
 public:
  explicit FileServer(const fs::path& path) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (socket < 0 || ::bind(socket, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(socket, 8) != 0 ||
        ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      throw support::IoError("no socket for a server");
    }
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    child_ = ::fork();
    if (child_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      while (true) serve(::accept(socket, nullptr, nullptr), path);
    }
    ::close(socket);
  }
  ~FileServer() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  const std::string& url() const { return url_; }

 private:
  static void serve(int connection, const fs::path& path) {
    if (connection < 0) return;
    std::string request;
    char piece[4096];
    while (request.find("\r\n\r\n") == std::string::npos) {
      const ssize_t got = ::recv(connection, piece, sizeof piece, 0);
      if (got <= 0) break;
      request.append(piece, static_cast<std::size_t>(got));
    }
    const int file = ::open(path.c_str(), O_RDONLY);
    std::size_t left = fs::file_size(path);
    const std::string head = fmt::format("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", left);
    if (::send(connection, head.data(), head.size(), MSG_NOSIGNAL | MSG_MORE) < 0) left = 0;
    while (left > 0) {
      const ssize_t sent = ::sendfile(connection, file, nullptr, left);
      if (sent <= 0) break;
      left -= static_cast<std::size_t>(sent);
    }
    ::close(file);
    ::close(connection);
  }

  std::string url_;
  pid_t child_ = -1;
};

void measure_fetch() {
  const test::TempFolder folder;
  const fs::path served = folder / "served";
  {
    std::string block(1 << 20, 'x');
    std::ofstream out(served, std::ios::binary);
    support::Xoshiro random(1);
    for (std::size_t written = 0; written < fetch_bytes; written += block.size()) {
      for (std::size_t i = 0; i + 8 <= block.size(); i += 64) {
        const std::uint64_t value = random.below(~0ULL);
        std::copy_n(reinterpret_cast<const char*>(&value), 8, block.begin() + static_cast<std::ptrdiff_t>(i));
      }
      out.write(block.data(), static_cast<std::streamsize>(std::min(block.size(), fetch_bytes - written)));
    }
  }
  support::sync_path(served);
  const std::string digest = support::sha256_file(served);
  const double mb = static_cast<double>(fetch_bytes) / 1e6;
  const FileServer server(served);
  data::DownloadOptions options;
  options.folder = folder / "downloads";
  options.hub.endpoint = server.url();
  const data::FetchLock lock{
      "owner/name", "main", std::string(40, 'a'), {{"file", static_cast<std::int64_t>(fetch_bytes), digest, ""}}};
  fmt::print("fetching {:.0f} MB over loopback with SHA-256 and sync\n", mb);
  double ours = 0, used = 0;
  for (int turn = 0; turn < 3; ++turn) {
    fs::remove_all(options.folder);
    const double cpu = process_cpu();
    const double seconds = wall_of([&] { data::download_all(lock, options, support::silent_progress()); });
    if (turn > 0 && seconds >= ours) continue;
    ours = seconds;
    used = process_cpu() - cpu;
  }
  fmt::print("  {:<44} {:8.0f} MB/s by the clock, {:.0f} MB a second of its CPU\n",
             "ours, as the others the fastest of 3", mb / ours, mb / used);
  const fs::path copy = folder / "copy";
  // Seconds of a line of the shell in which $1 is the served file, $2 the copy and $3 the server; the fastest of three.
  const auto fastest = [&](const char* line) {
    double best = 0;
    for (int turn = 0; turn < 3; ++turn) {
      fs::remove(copy);
      bool good = true;
      const double seconds = wall_of([&] {
        good =
            support::capture({"sh", "-c", line, "sh", served.string(), copy.string(), server.url()}).status.code == 0;
      });
      if (!good) return -1.0;
      best = turn == 0 ? seconds : std::min(best, seconds);
    }
    return best;
  };
  if (const double peer = fastest("curl -sS -o \"$2\" $3/file && sync \"$2\" && sha256sum \"$2\""); peer > 0) {
    fmt::print("  {:<44} {:8.0f} MB/s by the clock   ours {:.2f} times\n", "curl, sync, sha256sum", mb / peer,
               peer / ours);
  }
  const double written = fastest("cp \"$1\" \"$2\" && sync \"$2\"");
  const double hashed = cpu_of([&] { support::sha256_file(served); });
  const double again = wall_of([&] { data::download_all(lock, options, support::silent_progress()); });
  fmt::print("  copying the file with sync {:.0f} MB/s, its SHA-256 {:.0f} MB/s; fetched again {:.1f} ms\n",
             mb / written, mb / hashed, 1e3 * again);
}

void measure_window() {
  const test::TempFolder folder;
  {
    artifact::TokenizerRecord record = data::make_byte_tokenizer()->record();
    artifact::TokenShardsWriter writer(folder / "data", {}, record, 1 << 25);
    support::Xoshiro random(1);
    std::vector<std::int32_t> ids(1000);
    for (int document = 0; document < 60'000; ++document) {
      for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random.below(256));
      writer.add(data::Split::kTrain, ids.data(), ids.size(), 1000, static_cast<std::uint64_t>(document));
    }
    artifact::DatasetTotals totals;
    writer.finish(totals);
  }
  const data::TokenDataset dataset(folder / "data");
  const std::uint64_t windows = dataset.windows(data::Split::kTrain, 1024);
  support::Xoshiro random(2);
  std::vector<std::int64_t> out(64 * 1025);
  const auto row = [&](std::size_t i) { return std::span(out).subspan(i * 1025, 1025); };
  const double alone = cpu_of([&] {
    for (std::size_t i = 0; i < 64; ++i) dataset.window(data::Split::kTrain, 1024, random.below(windows), row(i));
  });
  // As training reads a batch, whose windows are known beforehand.
  const double batch = cpu_of([&] {
    std::uint64_t next = random.below(windows);
    for (std::size_t i = 0; i < 64; ++i) {
      const std::uint64_t window = std::exchange(next, random.below(windows));
      dataset.expect_window(data::Split::kTrain, 1024, next);
      dataset.window(data::Split::kTrain, 1024, window, row(i));
    }
  });
  fmt::print(
      "windows of 1,025 tokens at random out of 60M, in memory: {:.2f} us each, {:.2f} us in a batch, a batch of 64 in "
      "{:.1f} us\n",
      1e6 * alone / 64, 1e6 * batch / 64, 1e6 * batch);
}

/// Web pages, each with a separate number so that none is a duplicate, until there are so many bytes.
void write_pages(const fs::path& folder, const std::vector<std::string>& texts, std::size_t bytes) {
  artifact::RawTextWriter raw(folder, {});
  for (std::uint64_t i = 0; raw.bytes() < bytes; ++i) {
    raw.add(texts[i % texts.size()] + std::to_string(i), "pages", i);
  }
  raw.finish();
}

void measure_memory() {
  const std::vector<std::string> texts = web_pages();
  const test::TempFolder folder;
  fmt::print("memory at the peak of pe-tokenize, BPE 32,000, mapped text counted\n");
  for (std::size_t i = 0; i < text_bytes.size(); ++i) {
    const fs::path raw = folder / fmt::format("raw{}", i);
    write_pages(raw, texts, text_bytes[i]);
    for (const int workers : worker_counts) {
      data::TokenizeConfig config;
      config.tokenizer = data::TokenizeConfig::Tokenizer::kFile;
      config.model = (data_folder() / "models" / "mistral-v1-32000.model").string();
      config.workers = workers;
      artifact::Workspace workspace;
      workspace.inputs["raw"] = {{raw, artifact::Kind::kRawText, "", {}}};
      workspace.outputs["data"] = folder / fmt::format("data{}_{}", i, workers);
      workspace.progress = &support::silent_progress();
      std::int64_t grown = 0;
      const double seconds = wall_of([&] { grown = test::peak_growth([&] { data::tokenize(config, workspace); }); });
      fmt::print("  {:6.0f} MB of text, {} worker{} {:8.0f} MB of memory, {:.1f} MB/s by the clock\n",
                 static_cast<double>(text_bytes[i]) / 1e6, workers, workers > 1 ? "s" : "",
                 static_cast<double>(grown) / 1e6, static_cast<double>(text_bytes[i]) / 1e6 / seconds);
      std::fflush(stdout);
      fs::remove_all(workspace.outputs["data"]);
    }
    fs::remove_all(raw);
  }

  constexpr std::uint64_t kDocuments = 15'000'000;
  {
    artifact::TokenShardsWriter writer(folder / "many", {}, data::make_byte_tokenizer()->record(), 1 << 22);
    const std::int32_t ids[] = {256, 'a'};
    for (std::uint64_t i = 0; i < kDocuments; ++i) writer.add(data::Split::kTrain, ids, 2, 1, i);
    artifact::DatasetTotals totals;
    writer.finish(totals);
  }
  ::malloc_trim(0);
  const std::int64_t before = test::status_bytes("RssAnon");
  const data::TokenDataset dataset(folder / "many");
  const std::int64_t opened = test::status_bytes("RssAnon");
  fmt::print("{} documents, opened: {:.1f} MB that ranks do not share\n", dataset.documents(data::Split::kTrain),
             static_cast<double>(opened - before) / 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> wanted;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--seconds" && i + 1 < argc)
      at_least_s = std::atof(argv[++i]);
    else if (word == "--train-mb" && i + 1 < argc)
      train_bytes = static_cast<std::size_t>(std::atof(argv[++i]) * 1e6);
    else if (word == "--text-mb" && i + 1 < argc)
      text_bytes.push_back(static_cast<std::size_t>(std::atof(argv[++i]) * 1e6));
    else if (word == "--workers" && i + 1 < argc)
      worker_counts.push_back(std::atoi(argv[++i]));
    else if (word == "--fetch-mb" && i + 1 < argc)
      fetch_bytes = static_cast<std::size_t>(std::atof(argv[++i]) * 1e6);
    else
      wanted.push_back(word);
  }
  if (text_bytes.empty()) text_bytes = {200'000'000, 400'000'000};
  if (worker_counts.empty()) worker_counts = {2};
  if (!fs::exists(data_folder() / "fineweb")) {
    fmt::print(stderr, "PE_TEST_DATA names no folder with fineweb/ and models/\n");
    return 77;
  }
  const auto asked = [&](const char* name) {
    return wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end();
  };
  try {
    if (asked("tokenize")) measure_tokenize();
    if (asked("train")) measure_train(false);
    if (asked("train-program")) measure_train(true);
    if (asked("parquet")) measure_parquet();
    if (asked("fetch")) measure_fetch();
    if (asked("window")) measure_window();
    if (asked("memory")) measure_memory();
  } catch (const support::Error& error) {
    fmt::print(stderr, "data: {}\n", error.what());
    return error.exit_code();
  }
  return 0;
}
