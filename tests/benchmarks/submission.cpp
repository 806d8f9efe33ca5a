// Cost of sending 10,000 elements to a real Slurm and of their status, and of an element in addition to its stage:
//     submission PE-PIPELINE FOLDER-OF-PE-TOY [ELEMENTS]
// The many are held, so nothing of them runs. Status is asked twice: with all of them queued, and with a journal of
// each element. PE_TEST_PYTHON names a Python with submitit and snakemake-executor-plugin-slurm, which then do the
// same.
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "pipeline/store/journal.h"
#include "support/files.h"
#include "support/json.h"
#include "support/process.h"
#include "support/real_slurm.h"
#include "support/temp_folder.h"
#include "support/text.h"

namespace fs = std::filesystem;
using pe::Json;
using pe::support::cat;

namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double timed(const std::vector<std::string>& words, std::string* out = nullptr) {
  const auto begin = std::chrono::steady_clock::now();
  const auto captured = pe::support::capture(words);
  const double took = seconds_since(begin);
  if (captured.status.code != 0) {
    std::fprintf(stderr, "%s ended with %d: %s\n", words[1].c_str(), captured.status.code, captured.err.c_str());
    std::exit(1);
  }
  if (out) *out = captured.out;
  return took;
}

double best_of(int times, const std::vector<std::string>& words) {
  double best = 1e9;
  for (int i = 0; i < times; ++i) best = std::min(best, timed(words));
  return best;
}

std::size_t lines_of(const fs::path& path) {
  if (!fs::exists(path)) return 0;
  const std::string text = pe::support::read_file(path);
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

/// Scripts in front of Slurm's programs that note each call; a millisecond or two each.
class Counted {
 public:
  Counted() {
    for (const char* name : {"sbatch", "squeue", "scontrol", "scancel", "sacct", "sinfo"}) {
      const auto real = pe::support::find_program(name);
      if (!real) continue;
      const fs::path path = folder_ / name;
      pe::support::write_file_atomically(
          path, cat("#!/bin/sh\necho ", name, " >>\"", file().string(), "\"\nexec ", real->string(), " \"$@\"\n"),
          false);
      fs::permissions(path, fs::perms(0755));
    }
    ::setenv("PATH", cat(folder_.path().string(), ":", ::getenv("PATH")).c_str(), 1);
  }
  std::size_t calls() const { return lines_of(file()); }

 private:
  fs::path file() const { return folder_ / "calls"; }
  pe::test::TempFolder folder_;
};

fs::path only_run(const fs::path& store) {
  for (const auto& entry : fs::directory_iterator(store / "runs")) return entry.path();
  std::exit(1);
}

void submit_many(const std::string& program, int elements, const Counted& counted) {
  const pe::test::TempFolder folder;
  const int lanes = elements / 2;
  std::string seeds;
  for (int i = 0; i < lanes; ++i) seeds += cat(i ? ", " : "", 100 + i);  // 13 is refused
  const fs::path file = folder / "many.yml";
  pe::support::write_file_atomically(
      file,
      cat("schema: pe-pipeline/1\nname: many\nslurm: {options: [--hold]}\naxes:\n  seed: [", seeds,
          "]\nstages:\n  first:\n    run: pe-toy\n    over: [seed]\n    config: {set: {value: $(seed)}}\n"
          "  second:\n    run: pe-toy\n    over: [seed]\n    needs: {init: first}\n"),
      false);
  const std::vector<std::string> store{"--store", (folder / "store").string()};
  std::vector<std::string> plan{program, "plan", file.string()}, submit{program, "submit", file.string()},
      status{program, "status", "--json"};
  for (auto* words : {&plan, &submit, &status}) words->insert(words->end(), store.begin(), store.end());
  std::printf("plan of %d tasks: %.2f s\n", elements, best_of(2, plan));
  std::string said;
  std::size_t before = counted.calls();
  const double submitted = timed(submit, &said);
  std::printf("%ssubmit %d elements: %.2f s, %zu calls of Slurm\n", said.c_str(), elements, submitted,
              counted.calls() - before);
  before = counted.calls();
  const double asked = best_of(3, status);
  std::printf("status, all queued: %.0f ms, %.1f calls\n", 1000 * asked,
              static_cast<double>(counted.calls() - before) / 3);
  // One small journal an element, as their jobs leave them.
  const fs::path run = only_run(folder / "store");
  for (const char* stage : {"first", "second"}) {
    for (int i = 0; i < lanes; ++i) {
      const std::string task = cat(stage, "[seed=", 100 + i, "]");
      std::string text;
      int seq = 0;
      for (Json event :
           {Json{{"event", "element-start"}, {"token", "x"}},
            Json{{"event", "start"}, {"task", task}, {"attempt", 1}, {"log", "/x"}},
            Json{{"event", "publish"}, {"task", task}, {"key", "0123"}},
            Json{{"event", "exit"}, {"task", task}, {"class", "done"}}, Json{{"event", "element-end"}, {"code", 0}}}) {
        event["seq"] = ++seq;
        event["time"] = 1.7e9 + seq;
        text += pe::pipeline::journal_line(event);
      }
      pe::support::write_file_atomically(run / cat("journal.", stage, ".", i, ".jsonl"), text, false);
    }
  }
  std::printf("status, a journal of each element: %.0f ms\n", 1000 * best_of(3, status));
  timed({"scancel", "--me"});
}

/// A job of one element at work for ten seconds: how soon its stage starts, its requests to Slurm, and how often it
/// writes.
void one_element(const std::string& program, const pe::test::RealSlurm& slurm) {
  const pe::test::TempFolder folder;
  const fs::path file = folder / "one.yml", began = folder / "began", calls = folder / "calls";
  // The job's own PATH: its calls are counted apart from ours.
  std::string setup = cat("date +%s.%N >>\\\"", began.string(), "\\\"");
  for (const char* name : {"squeue", "scontrol", "sbatch", "sacct", "scancel"}) {
    const fs::path path = folder / "bin" / name;
    fs::create_directories(folder / "bin");
    pe::support::write_file_atomically(path, cat("#!/bin/sh\necho ", name, " >>\"", calls.string(), "\"\nexit 1\n"),
                                       false);
    fs::permissions(path, fs::perms(0755));
  }
  setup += cat("\", \"export PATH=\\\"", (folder / "bin").string(), ":$PATH\\\"");
  pe::support::write_file_atomically(
      file,
      cat("schema: pe-pipeline/1\nname: one\nslurm: {setup: [\"", setup,
          "\"]}\nstages:\n  only:\n    run: pe-toy\n    config: {set: {tokens: 200, step_s: 0.05}}\n"),
      false);
  timed({program, "submit", file.string(), "--store", (folder / "store").string()});
  const fs::path run = only_run(folder / "store");
  std::map<std::string, std::pair<fs::file_time_type, std::uintmax_t>> seen;
  std::size_t writes = 0, bytes = 0;
  double work_s = 0;
  auto start = std::chrono::steady_clock::now();
  bool working = false;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (std::chrono::steady_clock::now() < until) {
    std::error_code error;
    bool ended = false;
    for (const auto& entry : fs::recursive_directory_iterator(run, error)) {
      const std::string name = entry.path().filename().string();
      if (!entry.is_regular_file(error)) continue;
      const auto now = std::pair(fs::last_write_time(entry.path(), error), fs::file_size(entry.path(), error));
      const auto [at, fresh] = seen.try_emplace(entry.path().string(), now);
      if (!fresh && at->second == now) continue;
      if (working) {
        ++writes;
        bytes += now.second > at->second.second || fresh ? now.second - (fresh ? 0 : at->second.second) : now.second;
      }
      at->second = now;
      if (name.rfind("journal", 0) == 0 && !error) {
        const std::string text = pe::support::read_file(entry.path());
        if (!working && text.find("\"start\"") != std::string::npos) {
          working = true;
          start = std::chrono::steady_clock::now();
        }
        ended = ended || text.find("\"publish\"") != std::string::npos;
      }
    }
    if (ended) break;
    if (working) work_s = seconds_since(start);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const std::size_t asked = lines_of(calls);  // the last job, which begins now, asks
  slurm.drain(60);
  // From the first line of the batch script to the start of the stage, by the clock of the machine.
  double from = 0, element = 0, stage = 0;
  std::sscanf(pe::support::read_file(began).c_str(), "%lf", &from);
  for (const auto& [path, ignored] : seen) {
    if (path.find("journal") == std::string::npos) continue;
    for (const std::string& line : pe::support::split(pe::support::read_file(path), '\n')) {
      const Json event = Json::parse(line, nullptr, false);
      if (!event.is_object() || !event.contains("time")) continue;
      const std::string what = event.value("event", "");
      if (what == "element-start") element = event["time"].get<double>();
      if (what == "start") stage = event["time"].get<double>();
    }
  }
  std::printf(
      "a good element: its stage starts %.0f ms after the batch script (%.0f ms of it in the element), %zu calls of "
      "Slurm, "
      "%.2f writes a second of %.0f bytes\n",
      1000 * (stage - from), 1000 * (stage - element), asked, static_cast<double>(writes) / work_s,
      writes ? static_cast<double>(bytes) / static_cast<double>(writes) : 0.0);
}

void ask_peer(const std::string& peer, int jobs) {
  const char* python = std::getenv("PE_TEST_PYTHON");
  const auto answer = pe::support::capture({python ? python : "python3", PE_PEER, peer, std::to_string(jobs)});
  if (answer.status.code != 0) {
    std::printf("no peer %s: %s\n", peer.c_str(), answer.err.c_str());
  } else {
    const Json said = Json::parse(answer.out);
    std::printf("%s: %d jobs in %.1f s\n", said.at("peer").get<std::string>().c_str(), jobs,
                said.at("seconds").get<double>());
  }
  pe::support::capture({"scancel", "--me"});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: submission PE-PIPELINE FOLDER-OF-PE-TOY [ELEMENTS]\n");
    return 2;
  }
  if (const std::string lacks = pe::test::RealSlurm::lacks(); !lacks.empty()) {
    std::printf("left out: %s\n", lacks.c_str());
    return 0;
  }
  const int elements = argc > 3 ? static_cast<int>(pe::support::parse_integer(argv[3]).value_or(10'000)) : 10'000;
  const pe::test::RealSlurm slurm({.more = "MaxArraySize=1001\n"});
  ::setenv("PATH", cat(argv[2], ":", ::getenv("PATH")).c_str(), 1);
  one_element(argv[1], slurm);
  ask_peer("submitit", elements);
  ask_peer("snakemake", elements / 20);
  const Counted counted;
  submit_many(argv[1], elements, counted);
  return 0;
}
