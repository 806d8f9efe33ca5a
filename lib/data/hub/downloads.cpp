#include "data/hub/downloads.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "data/hub/environment.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/escaped.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/text.h"

namespace pe::data {

namespace fs = std::filesystem;
using support::ArtifactError;
using support::cat;
using support::quote;

namespace {

fs::path complete_path(const DownloadOptions& options, const LockedFile& file) {
  return options.folder / file.sha256.substr(0, 2) / file.sha256;
}
fs::path part_path(const DownloadOptions& options, const LockedFile& file) {
  return fs::path(complete_path(options, file)) += ".part";
}

bool has_size(const fs::path& path, std::int64_t bytes) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  const auto size = fs::file_size(path, error);
  return !error && (bytes < 0 || size == static_cast<std::uint64_t>(bytes));
}

/// Path of the complete file on this machine; empty when there is none.
fs::path find_complete(const DownloadOptions& options, const LockedFile& file) {
  if (const fs::path own = complete_path(options, file); has_size(own, file.bytes)) return own;
  for (const fs::path& folder : options.other) {
    if (const fs::path blob = folder / file.sha256; has_size(blob, file.bytes)) return blob;
  }
  return {};
}

/// SHA-256 on another thread than the one that receives.
class HashBeside {
 public:
  HashBeside() : thread_([this] { work(); }) {}
  ~HashBeside() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    more_.notify_one();
    thread_.join();
  }

  /// Takes the bytes; what it leaves is room for others.
  void update(std::string& bytes) {
    {
      std::unique_lock lock(mutex_);
      less_.wait(lock, [this] { return waiting_.size() < kMostWaiting; });
      waiting_.push_back(std::move(bytes));
      bytes.clear();
      if (!spare_.empty()) {
        bytes = std::move(spare_.back());
        spare_.pop_back();
      }
    }
    more_.notify_one();
  }
  void restart() {
    wait();
    hash_ = support::Sha256();
  }
  std::string hex() {
    wait();
    return hash_.hex();
  }

 private:
  static constexpr std::size_t kMostWaiting = 8;  // received pieces that wait

  void wait() {
    std::unique_lock lock(mutex_);
    less_.wait(lock, [this] { return waiting_.empty() && !busy_; });
  }
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      more_.wait(lock, [this] { return over_ || !waiting_.empty(); });
      if (over_) return;
      std::string piece = std::move(waiting_.front());
      waiting_.pop_front();
      busy_ = true;
      lock.unlock();
      hash_.update(piece);
      lock.lock();
      busy_ = false;
      piece.clear();
      spare_.push_back(std::move(piece));
      less_.notify_one();
    }
  }

  support::Sha256 hash_;  // the thread's while it is busy
  std::mutex mutex_;
  std::condition_variable more_, less_;
  std::deque<std::string> waiting_;
  std::vector<std::string> spare_;
  bool busy_ = false, over_ = false;
  std::thread thread_;
};

/// One file on its way: the part, what is there of it, and its hash so far.
class Part {
 public:
  Part(const fs::path& path, std::atomic<std::int64_t>& done) : path_(path), done_(done) {
    support::make_folders(path.parent_path());
    fd_ = support::Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!fd_) support::throw_errno("write", path.string(), true);
  }

  /// Waits while another program works on it, having said so once. False when that program finished and took the part
  /// away.
  bool hold(const std::function<void()>& say_waits) {
    bool said = false;
    while (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) return true;  // no locks here; the digest decides in the end
      if (errno == EWOULDBLOCK && !std::exchange(said, true)) say_waits();
      wait_for(std::chrono::milliseconds(200));
    }
    struct stat ours {
    }, named{};
    return ::fstat(fd_.get(), &ours) == 0 && ::stat(path_.c_str(), &named) == 0 && ours.st_ino == named.st_ino;
  }

  /// Hashes what an earlier try left.
  void resume(std::int64_t most) {
    const off_t size = ::lseek(fd_.get(), 0, SEEK_END);
    if (size < 0) support::throw_errno("read", path_.string());
    if (most >= 0 && size > most) return restart();
    std::string piece;
    ::lseek(fd_.get(), 0, SEEK_SET);
    while (bytes_ < size) {
      if (support::stop_requested()) throw support::StopRequest(true);
      piece.resize(1 << 20);
      const ssize_t got = ::read(fd_.get(), piece.data(), piece.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) support::throw_errno("read", path_.string());
      if (got == 0) {  // another host cut it meanwhile
        done_ += bytes_;
        return restart();
      }
      piece.resize(static_cast<std::size_t>(got));
      hash_.update(piece);
      bytes_ += got;
    }
    on_disk_ = bytes_;
    done_ += bytes_;
  }

  void restart() {
    if (::ftruncate(fd_.get(), 0) != 0) support::throw_errno("write", path_.string());
    ::lseek(fd_.get(), 0, SEEK_SET);
    done_ -= bytes_;
    bytes_ = on_disk_ = 0;
    hash_.restart();
  }

  /// Takes the bytes.
  void append(std::string& bytes) {
    const auto count = static_cast<std::int64_t>(bytes.size());
    if (!support::write_whole(fd_.get(), bytes)) support::throw_errno("write", path_.string());
    hash_.update(bytes);
    bytes_ += count;
    done_ += count;
    // The disk begins during the download, so that little is left to sync at the end.
    if (bytes_ - on_disk_ >= kWriteBehind) {
      ::sync_file_range(fd_.get(), on_disk_, bytes_ - on_disk_, SYNC_FILE_RANGE_WRITE);
      on_disk_ = bytes_;
    }
  }

  std::int64_t bytes() const { return bytes_; }
  std::string digest() { return hash_.hex(); }
  void publish(const fs::path& as) {
    if (::fsync(fd_.get()) != 0) support::throw_errno("write", path_.string());
    support::rename_durably(path_, as, true);
  }
  void remove() { ::unlink(path_.c_str()); }

 private:
  fs::path path_;
  std::atomic<std::int64_t>& done_;
  static constexpr std::int64_t kWriteBehind = 8 << 20;
  support::Descriptor fd_;
  HashBeside hash_;
  std::int64_t bytes_ = 0;
  std::int64_t on_disk_ = 0;  // or on its way there
};

/// Position and total of "bytes 10-99/100".
bool range_fits(const std::string& header, std::int64_t from, std::int64_t total) {
  std::string_view text = support::trim(header);
  if (!text.starts_with("bytes ")) return false;
  text.remove_prefix(6);
  const std::size_t dash = text.find('-'), slash = text.find('/');
  if (dash == std::string_view::npos || slash == std::string_view::npos) return false;
  const auto first = support::parse_integer(text.substr(0, dash));
  const std::string_view all = text.substr(slash + 1);
  return first && *first == from && (total < 0 || all == "*" || support::parse_integer(all) == total);
}

double free_bytes(const fs::path& folder) {
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0) return std::numeric_limits<double>::infinity();
  return static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
}

void require_room(double bytes, const fs::path& folder) {
  const double free = free_bytes(folder);
  if (bytes <= free) return;
  throw support::IoError(cat("downloads need ", support::short_bytes(bytes), " in ", quote(folder.string()),
                             ", which has ", support::short_bytes(free)),
                         true);
}

/// How long a file may become while it comes.
struct SizeLimit {
  std::int64_t bytes = 0;
  const char* from = "";  ///< "of the lock"
};

class Downloader {
 public:
  Downloader(const FetchLock& lock, const DownloadOptions& options, Say say)
      : lock_(lock), options_(options), say_(std::move(say)), http_(options.hub.http) {}

  /// Counts the file's bytes in `done` on arrival.
  fs::path get(const LockedFile& file, std::atomic<std::int64_t>& done) {
    if (support::stop_requested()) throw support::StopRequest(true);
    const fs::path complete = complete_path(options_, file);
    if (fs::path here = find_complete(options_, file); !here.empty()) {
      // Files of other programs were never verified by this one.
      if ((here == complete && !options_.verify) || support::sha256_file(here) == file.sha256) return here;
      if (options_.hub.offline)
        throw support::Error(support::kExitUnavailable,
                             support::Diagnostic{cat("HF_HUB_OFFLINE is set, and ", quote(here.string()),
                                                     " differs from the digest of the lock"),
                                                 {},
                                                 "pe-hub fetch brings it where there is a network"});
      if (here == complete) fs::remove(here);
    }
    for (int turn = 0; turn < 2; ++turn) {
      Part part(part_path(options_, file), done);
      const auto say_waits = [&] {
        say_(cat("file ", quote(file.path),
                 ": another download of it is under way (its .part is locked); waiting for its end"));
      };
      if (!part.hold(say_waits)) {
        if (has_size(complete, file.bytes)) return complete;
        --turn;
        continue;
      }
      if (has_size(complete, file.bytes)) {  // finished between our look and our lock
        part.remove();
        return complete;
      }
      part.resume(file.bytes);
      transfer(file, part);
      const std::string found = part.digest();
      if (found == file.sha256) {
        part.publish(complete);
        return complete;
      }
      part.restart();
      part.remove();
      if (turn == 1)
        throw ArtifactError(
            cat("file ", quote(file.path), ": expected SHA-256 ", file.sha256, ", found ", found, " twice"),
            "the lock and the server disagree; nothing was kept");
    }
    return complete;
  }

 private:
  /// Until the part is as long as the file, or the server says that it ends.
  void transfer(const LockedFile& file, Part& part) {
    const std::string what = cat("file ", quote(file.path));
    const std::string url = download_url(options_.hub, lock_, file);
    const bool of_hub = file.url.empty();
    bool restarted = false;
    int refusals = 0;
    SizeLimit bound{file.bytes, "of the lock"};
    for (int attempt = 1;;) {
      if (file.bytes >= 0 && part.bytes() == file.bytes) return;
      const std::int64_t from = part.bytes();
      HttpRequest request{url, of_hub ? options_.hub.token : std::string()};
      if (from > 0) request.headers.push_back(cat("Range: bytes=", from, "-"));
      std::string refused;
      bool looked = false, too_long = false;
      const HttpAnswer answer = http_.get(request, [&](const HttpAnswer& head, std::string& bytes) {
        if (!looked) {
          refused = look(file, head, from);
          if (refused.empty() && head.status == 200 && from > 0) part.restart();  // ranges are not for this server
          if (refused.empty() && file.bytes < 0) bound = find_bound(head, part.bytes());
        }
        looked = true;
        if (!refused.empty()) return false;
        if (part.bytes() + std::ssize(bytes) > bound.bytes) {
          refused = cat("it is longer than the ", bound.bytes, " bytes ", bound.from);
          too_long = true;
          return false;
        }
        part.append(bytes);
        return true;
      });
      if (support::stop_requested()) throw support::StopRequest(true);
      if (!refused.empty()) {
        // Not this file; a second look in case a proxy answered for the server. Nothing of the answer was taken, unless
        // it was too long. A server that answers with other ranges is asked for the whole file in the end.
        const bool other_range = answer.status == 206 && from > 0;
        if (too_long || (other_range && refusals > 0)) part.restart();
        const int most = other_range ? 2 : too_long && file.bytes < 0 ? 0 : 1;  // without a size it is as long again
        if (refusals++ >= most) throw ArtifactError(cat(what, " from ", answer.host, ": ", refused));
        continue;
      }
      const bool good = answer.problem.empty() && (answer.status == 200 || answer.status == 206);
      if (good && (file.bytes < 0 || part.bytes() == file.bytes)) return;
      if (answer.status == 416 && !restarted) {
        restarted = true;
        part.restart();
        continue;
      }
      if (part.bytes() > from) attempt = 1;
      // The signature of a storage host ends while a long file comes; the hub gives another.
      const bool expired = answer.redirected && (answer.status == 401 || answer.status == 403 || answer.status == 410);
      if (!(good || expired || worth_a_retry(answer)) || attempt >= options_.hub.retry.attempts)
        fail(answer, what, good, part, file);
      const auto wait = wait_before(answer, attempt, options_.hub.retry);
      if (wait.count() < 0) fail(answer, what, good, part, file);
      const std::string fault =
          good ? cat("ended after ", part.bytes(), " of ", file.bytes, " bytes") : describe(answer);
      wait_to_repeat(cat(what, ": ", fault), wait, ++attempt, options_.hub.retry, say_);
    }
  }

  /// For a file without a size in the lock: the server's size, or else a share of the disk.
  /// @throws IoError when the disk has no room for the server's size
  SizeLimit find_bound(const HttpAnswer& head, std::int64_t from) const {
    const auto length = support::parse_integer(head.header("content-length"));
    if (length && *length >= 0 && *length <= kMostLockedBytes) {
      require_room(static_cast<double>(*length), options_.folder);
      return {from + *length, "that the server announces"};
    }
    const auto share = static_cast<std::int64_t>(
        std::min(free_bytes(options_.folder) / 2, static_cast<double>(options_.most_unannounced)));
    return {std::max(from, share), "that a file may have whose size neither the lock ('bytes') nor the server names"};
  }

  [[noreturn]] void fail(const HttpAnswer& answer, const std::string& what, bool good, const Part& part,
                         const LockedFile& file) {
    if (good) {
      throw support::Error(support::kExitUnavailable,
                           support::Diagnostic{cat(what, " from ", answer.host, ": ended after ", part.bytes(), " of ",
                                                   file.bytes, " bytes"),
                                               {},
                                               "finished downloads are kept; run again to continue",
                                               {}});
    }
    fail_hub(answer, what, file.url.empty() && !options_.hub.token.empty());
  }

  /// The head of an answer: is it this file, from where we are or from the beginning? Says why not.
  static std::string look(const LockedFile& file, const HttpAnswer& head, std::int64_t from) {
    const std::int64_t begin = head.status == 200 ? 0 : from;
    if (head.status == 206 && !range_fits(head.header("content-range"), from, file.bytes)) {
      return cat("asked from byte ", from, ", it answers with range ",
                 quote(head.header("content-range").substr(0, 60)));
    }
    const auto length = support::parse_integer(head.header("content-length"));
    const bool is_page = head.header("content-type").starts_with("text/html") && !file.path.ends_with(".html") &&
                         !file.path.ends_with(".htm");
    if (is_page && !(length && file.bytes >= 0 && *length == file.bytes - begin))
      return "expected data, found a web page; a proxy or login page may have answered";
    if (length && file.bytes >= 0 && *length != file.bytes - begin)
      return cat("expected ", file.bytes - begin, " bytes, it announces ", *length);
    return {};
  }

  const FetchLock& lock_;
  const DownloadOptions& options_;
  Say say_;
  Http http_;
};

/// How far a file is.
struct Transfer {
  std::atomic<std::int64_t> bytes = 0;
  std::atomic<bool> ended = false;
};

/// "000_00000.parquet 45%, 001_00000.parquet 12%": the files that have begun and not ended.
std::string under_way(const FetchLock& lock, const std::vector<Transfer>& transfers) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < transfers.size() && parts.size() < 8; ++i) {
    const std::int64_t bytes = transfers[i].bytes, all = lock.files[i].bytes;
    if (bytes <= 0 || bytes == all || transfers[i].ended) continue;
    const std::string name = support::escaped(fs::path(lock.files[i].path).filename().string(), 40);
    parts.push_back(all > 0 ? cat(name, " ", 100 * bytes / all, "%")
                            : cat(name, " ", support::short_bytes(static_cast<double>(bytes))));
  }
  return support::join(parts, ", ");
}

}  // namespace

fs::path default_downloads() {
  if (const std::string folder = variable("PE_DOWNLOADS"); !folder.empty()) return folder;
  fs::path cache = absolute_folder("XDG_CACHE_HOME");
  if (const fs::path home = absolute_folder("HOME"); cache.empty() && !home.empty()) cache = home / ".cache";
  if (cache.empty())
    throw support::ConfigError(
        "no folder for downloads: PE_DOWNLOADS is not set, and neither XDG_CACHE_HOME nor HOME is an absolute path", {},
        "set PE_DOWNLOADS");
  return cache / "pe-pipeline/downloads";
}

DownloadOptions DownloadOptions::from_environment() {
  DownloadOptions options;
  options.folder = default_downloads();
  options.hub = HubOptions::from_environment();
  fs::path cache = variable("HF_HUB_CACHE");
  if (const fs::path home = hugging_face_home(); cache.empty() && !home.empty()) cache = home / "hub";
  if (cache.empty()) return options;
  std::error_code error;
  for (fs::directory_iterator it(cache, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->path().filename().native().starts_with("datasets--") && fs::is_directory(it->path() / "blobs", ignored))
      options.other.push_back(it->path() / "blobs");
  }
  return options;
}

DownloadPlan plan_downloads(const FetchLock& lock, const DownloadOptions& options) {
  DownloadPlan plan;
  for (const LockedFile& file : lock.files) {
    plan.here.push_back(find_complete(options, file));
    if (!plan.here.back().empty()) continue;
    ++plan.missing_files;
    if (file.bytes < 0) ++plan.missing_of_unknown_size;
    std::error_code error;
    const auto part = fs::file_size(part_path(options, file), error);
    plan.missing_bytes += std::max<std::int64_t>(0, file.bytes - (error ? 0 : static_cast<std::int64_t>(part)));
  }
  return plan;
}

namespace {

/// @throws Error with kExitUnavailable if files are missing and the hub is offline
void require_network(const FetchLock& lock, const DownloadOptions& options, const DownloadPlan& plan) {
  if (!options.hub.offline || plan.missing_files == 0) return;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < lock.files.size() && names.size() < 5; ++i) {
    if (plan.here[i].empty()) names.push_back(quote(lock.files[i].path));
  }
  throw support::Error(support::kExitUnavailable,
                       support::Diagnostic{cat("HF_HUB_OFFLINE is set, and ", plan.missing_files, " of ",
                                               lock.files.size(), " files are not on this machine: ",
                                               support::join(names, ", "), plan.missing_files > 5 ? ", …" : ""),
                                           {},
                                           "pe-hub fetch brings them where there is a network",
                                           {}});
}

/// Makes the folder and announces the downloads, if files are missing. @throws IoError when the disk has no room
void prepare_folder(const FetchLock& lock, const DownloadOptions& options, const DownloadPlan& plan,
                    support::Progress& progress) {
  if (plan.missing_files == 0) return;
  support::make_folders(options.folder);
  require_room(static_cast<double>(plan.missing_bytes), options.folder);
  const std::string unknown =
      plan.missing_of_unknown_size > 0 ? cat(" and ", plan.missing_of_unknown_size, " of unknown size") : "";
  progress.note(cat("downloading ", plan.missing_files, " of ", lock.files.size(), " files, ",
                    support::short_bytes(static_cast<double>(plan.missing_bytes)), unknown));
}

/// Downloads the files of a lock by several threads, and shows how far they are.
class ParallelDownloads {
 public:
  ParallelDownloads(const FetchLock& lock, const DownloadOptions& options, const DownloadPlan& plan,
                    support::Progress& progress)
      : lock_(lock), options_(options), plan_(plan), progress_(progress) {}

  /// @throws the first failure of a thread, after all of them have ended
  std::vector<fs::path> run() {
    const auto most = static_cast<int>(std::min<std::size_t>(lock_.files.size(), 64));
    running_ = static_cast<std::size_t>(std::clamp<int>(options_.parallel, 1, most));
    std::vector<std::thread> threads;
    const std::size_t wanted = running_;
    try {
      while (threads.size() < wanted) threads.emplace_back([this] { work(); });
    } catch (const std::system_error& error) {
      // The system allows no further thread: the running threads download all files.
      if (threads.empty()) throw support::IoError(cat("cannot start a thread: ", error.what()));
      const std::lock_guard guard(mutex_);
      running_ -= wanted - threads.size();
      if (running_ == 0) ended_.notify_one();
    }
    show_until_ended();
    for (std::thread& thread : threads) thread.join();
    if (failure_) std::rethrow_exception(failure_);
    return std::move(paths_);
  }

 private:
  void work() {
    download_next_files();
    const std::lock_guard guard(mutex_);
    if (--running_ == 0) ended_.notify_one();
  }

  void say(const std::string& line) {
    const std::lock_guard guard(mutex_);
    progress_.note(line);
  }

  void download_next_files() {
    try {
      Downloader downloader(lock_, options_, [this](const std::string& line) { say(line); });
      for (std::size_t i = next_++; i < lock_.files.size() && !failed_; i = next_++) {
        paths_[i] = downloader.get(lock_.files[i], transfers_[i].bytes);
        const auto size = static_cast<std::int64_t>(fs::file_size(paths_[i]));
        transfers_[i].bytes = size;
        transfers_[i].ended = true;
        ++finished_;
        if (plan_.here[i].empty())
          say(cat(support::escaped(lock_.files[i].path, 200), ": ", support::short_bytes(static_cast<double>(size))));
      }
    } catch (...) {
      const std::lock_guard guard(mutex_);
      if (!failed_.exchange(true)) failure_ = std::current_exception();
    }
  }

  void show_until_ended() {
    const double started = support::steady_s();
    const std::int64_t here = lock_.bytes() - plan_.missing_bytes;
    for (bool over = false; !over;) {
      std::unique_lock guard(mutex_);
      over = ended_.wait_for(guard, std::chrono::milliseconds(20), [&] { return running_ == 0; });
      const double seconds = support::steady_s() - started;
      std::int64_t all = 0;
      for (const Transfer& transfer : transfers_) all += transfer.bytes;
      Json detail = {{"megabytes_per_second", static_cast<double>(all - here) / 1e6 / std::max(seconds, 1e-3)},
                     {"files", cat(finished_.load(), "/", lock_.files.size())}};
      if (std::string now = under_way(lock_, transfers_); !now.empty()) detail["now"] = std::move(now);
      const bool known = plan_.missing_of_unknown_size == 0 || (over && !failed_);
      progress_.advance("bytes", all, known ? std::max(lock_.bytes(), all) : 0, detail);
    }
  }

  const FetchLock& lock_;
  const DownloadOptions& options_;
  const DownloadPlan& plan_;
  support::Progress& progress_;
  std::vector<fs::path> paths_ = std::vector<fs::path>(lock_.files.size());
  std::vector<Transfer> transfers_ = std::vector<Transfer>(lock_.files.size());
  std::atomic<std::size_t> next_ = 0, finished_ = 0;
  std::atomic<bool> failed_ = false;
  std::exception_ptr failure_;
  std::mutex mutex_;  ///< of progress, failure and the number of running threads
  std::size_t running_ = 0;
  std::condition_variable ended_;
};

}  // namespace

std::vector<fs::path> download_all(const FetchLock& lock, const DownloadOptions& options, support::Progress& progress) {
  const DownloadPlan plan = plan_downloads(lock, options);
  require_network(lock, options, plan);
  prepare_folder(lock, options, plan, progress);
  return ParallelDownloads(lock, options, plan, progress).run();
}

}  // namespace pe::data
