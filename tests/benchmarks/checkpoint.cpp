// Cost of checkpoints for a training of 164M parameters with AdamW's moments (2 GB) on the CPU, two threads. Measured
// are the pause of the training, the speed of writing the file, and the time from the start of a resumed program to its
// first step. References in the same run and the same folder: one copy of as many bytes, and a plain write of them with
// the same fsync.
//
//     checkpoint PE-TRAIN [FOLDER] [--width N]     6 GB of memory, 14 GB of FOLDER (default: the folder for temporary
//     files);
//                                                 a width of less than 768 makes the model smaller
#include <ATen/Parallel.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "artifact/token_shards.h"
#include "model/flat_zeros.h"
#include "support/error.h"
#include "support/files.h"
#include "support/json.h"
#include "support/random.h"
#include "support/text.h"

namespace {

using namespace pe;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

std::string list(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += fmt::format("{}{:.2f}", text.empty() ? "" : ", ", value);
  return text;
}

constexpr std::int64_t kVocabulary = 65536;

void write_shards(const fs::path& folder) {
  artifact::TokenizerRecord record;
  record.kind = "bytes";
  record.vocabulary = kVocabulary;
  record.bos_id = 0;
  record.token_bytes.assign(kVocabulary, 4);
  record.content_hash = record.library = "benchmark";
  artifact::TokenShardsWriter writer(folder, {}, record, 64 << 20);
  support::Xoshiro random(1);
  std::vector<std::int32_t> ids(1 << 16);
  for (std::uint64_t document = 0; document < 16; ++document) {
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random.below(kVocabulary));
    writer.add(document == 15 ? artifact::Split::kValidation : artifact::Split::kTrain, ids.data(), ids.size(), 4 << 16,
               document);
  }
  artifact::DatasetTotals totals;
  writer.finish(totals);
}

/// Runs pe-train and shows each line that it writes, with the seconds since it was started, until `seen` wants no more;
/// then sends `last` and waits.
void run(const std::vector<std::string>& arguments, int last,
         const std::function<bool(const std::string&, double)>& seen) {
  int ends[2];
  if (::pipe(ends) != 0) std::abort();
  const auto begin = Clock::now();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a training whose benchmark was killed would fill the disk
    ::dup2(ends[1], 2);
    ::close(ends[0]);
    ::close(ends[1]);
    std::vector<char*> words;
    for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
    words.push_back(nullptr);
    ::execv(words[0], words.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  std::string pending;
  bool more = true;
  char buffer[4096];
  for (ssize_t got; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;) {
    const double now = seconds_since(begin);
    pending.append(buffer, static_cast<std::size_t>(got));
    for (std::size_t end; (end = pending.find('\n')) != std::string::npos; pending.erase(0, end + 1)) {
      if (more && !seen(pending.substr(0, end), now)) {
        more = false;
        ::kill(pid, last);
      }
    }
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
}

/// pwrite, fsync, close, as a checkpoint has it. @return seconds
double plain_write(const fs::path& path, const char* data, std::size_t bytes) {
  const auto begin = Clock::now();
  const support::Descriptor fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t count = ::write(fd.get(), data + done, std::min<std::size_t>(bytes - done, 1U << 30));
    if (count <= 0) support::throw_errno("write", path.string());
    done += static_cast<std::size_t>(count);
  }
  ::fsync(fd.get());
  return seconds_since(begin);
}

void drop_from_cache(const fs::path& path) {
  const support::Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ::fsync(fd.get());
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
}

/// Reading it front to back, keeping nothing.
double plain_read(const fs::path& path) {
  const auto begin = Clock::now();
  const support::Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::vector<char> buffer(1 << 20);
  while (::read(fd.get(), buffer.data(), buffer.size()) > 0) {
  }
  return seconds_since(begin);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: checkpoint PE-TRAIN [FOLDER] [--width N]\n");
    return 2;
  }
  fs::path folder = fs::temp_directory_path();
  std::string width = "768";
  for (int i = 2; i < argc; ++i) {
    if (std::string(argv[i]) == "--width" && i + 1 < argc)
      width = argv[++i];
    else
      folder = argv[i];
  }
  folder /= fmt::format("pe-checkpoint-{}", ::getpid());
  support::make_folders(folder);
  write_shards(folder / "data");
  const auto command = [&](const std::string& work) {
    std::vector<std::string> words{argv[1],
                                   "--progress",
                                   "plain",
                                   "--work",
                                   (folder / work).string(),
                                   "--input",
                                   "data=" + (folder / "data").string(),
                                   "--output",
                                   "model=" + (folder / "model.h5").string()};
    words.insert(words.end(), {"--set", "model.width=" + width});
    for (const char* setting :
         {"model.layers=12", "model.heads=12", "model.encoding=rope", "train.batch=2", "train.length=128",
          "train.tokens=1000000", "train.validate_every=0", "train.log_every=1", "checkpoint.every=1e6",
          "checkpoint.pin_every=3", "compute.threads=2"}) {
      words.insert(words.end(), {"--set", setting});
    }
    return words;
  };

  // Checkpoints after steps 3, 6, 9 and 12 during the training, and one at the end while it waits.
  const auto records = [&] {
    std::vector<Json> found;
    for (const std::string& line : support::split(support::read_file(folder / "run/metrics.jsonl"), '\n')) {
      const Json record = Json::parse(line, nullptr, false);
      if (record.is_object()) found.push_back(record);
    }
    return found;
  };
  std::string parameters;
  run(command("run"), SIGTERM, [&](const std::string& line, double) {
    if (line.find(" parameters (") != std::string::npos) parameters = line;
    fmt::print("  {}\n", line);
    return line.rfind("train ", 0) != 0 || std::atoi(line.c_str() + 6) < 14;
  });
  std::vector<double> stalls, beside, alone, shares;
  std::uint64_t bytes = 0;
  std::int64_t last_step = 0;
  for (const Json& record : records()) {
    if (record["phase"] == "train") {
      shares.push_back(record["data_share"]);
      last_step = record["step"];
    }
  }
  for (const Json& record : records()) {
    if (record["phase"] != "checkpoint") continue;
    const bool at_end = record["step"] == last_step;
    if (!at_end) stalls.push_back(record["stall_s"]);
    (at_end ? alone : beside).push_back(record["write_s"]);
    bytes = record["bytes"];
  }
  const fs::path newest = folder / "run/checkpoints" / fmt::format("step-{}.h5", last_step);
  fmt::print("{}\ncheckpoint of {:.0f} MB\n", parameters, static_cast<double>(bytes) / 1e6);

  at::set_num_threads(2);
  const auto floats = static_cast<std::int64_t>(bytes / 4);
  std::vector<double> copies, writes;
  {
    const at::Tensor from = model::flat_zeros(floats, at::TensorOptions(at::kFloat));
    const at::Tensor to = model::flat_zeros(floats, at::TensorOptions(at::kFloat));
    auto* words = from.data_ptr<float>();
    support::Xoshiro random(2);
    for (std::int64_t i = 0; i < floats; ++i) words[i] = static_cast<float>(random.below(1 << 20));
    for (int i = 0; i < 4; ++i) {
      const auto begin = Clock::now();
      to.copy_(from);
      copies.push_back(seconds_since(begin));
    }
    // All are kept until the last is there, as checkpoints are: a file in the place of one just removed costs less.
    const auto plain = [&](int i) { return folder / fmt::format("plain-{}", i); };
    for (int i = 0; i < 3; ++i) writes.push_back(plain_write(plain(i), reinterpret_cast<const char*>(words), bytes));
    for (int i = 0; i < 3; ++i) fs::remove(plain(i));
  }
  fmt::print("training stands still for {} s; one copy of as many bytes {} s (the first into fresh memory)\n",
             list(stalls), list(copies));
  fmt::print(
      "file written in {} s while training stands, {} s beside it; plain write and fsync {} s: {:.0f} % of its speed\n",
      list(alone), list(beside), list(writes), alone.empty() ? 0 : 100 * median(writes) / median(alone));

  const auto first_step = [&](const std::string& work) {
    double seconds = -1;
    bool resumed = false;
    run(command(work), SIGKILL, [&](const std::string& line, double now) {
      resumed = resumed || line.find("resuming at step") != std::string::npos;
      if (line.rfind("encoding ", 0) != 0 && line.rfind("train ", 0) != 0) return true;  // steps begin after this line
      seconds = now;
      return false;
    });
    if (resumed != (work == "run"))
      fmt::print("unexpected: {} {}\n", work, resumed ? "resumed" : "started from step 0");
    return seconds;
  };
  std::vector<double> warm, cold, fresh, cold_reads;
  for (int i = 0; i < 3; ++i) warm.push_back(first_step("run"));
  for (int i = 0; i < 2; ++i) {
    drop_from_cache(newest);
    cold_reads.push_back(plain_read(newest));
    drop_from_cache(newest);
    cold.push_back(first_step("run"));
  }
  for (int i = 0; i < 2; ++i) {
    fresh.push_back(first_step("fresh"));
    support::remove_tree(folder / "fresh");
  }
  fmt::print(
      "from the program's start to its first step: resumed {} s, with the file not in memory {} s (merely reading it "
      "{} s); "
      "begun anew {} s\n",
      list(warm), list(cold), list(cold_reads), list(fresh));
  fmt::print("waiting for data: {:.4f} % of a step\n", 100 * median(shares));
  support::remove_tree(folder);
  return 0;
}
