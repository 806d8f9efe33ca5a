// What it takes to hand 10,000 elements to a real Slurm, and to ask after them:
//     submission PE-PIPELINE FOLDER-OF-PE-TOY
// All are held, so nothing runs. Status is asked twice: with all of them queued, and with a journal of each element.
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
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

constexpr int kLanes = 5000;

double timed(const std::vector<std::string>& words, std::string* out = nullptr) {
  const auto begin = std::chrono::steady_clock::now();
  const auto captured = pe::support::capture(words);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (captured.status.code != 0) {
    std::fprintf(stderr, "%s ended with %d: %s\n", words[1].c_str(), captured.status.code, captured.err.c_str());
    std::exit(1);
  }
  if (out) *out = captured.out;
  return took.count();
}

double best_of(int times, const std::vector<std::string>& words) {
  double best = 1e9;
  for (int i = 0; i < times; ++i) best = std::min(best, timed(words));
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: submission PE-PIPELINE FOLDER-OF-PE-TOY\n");
    return 2;
  }
  if (const std::string lacks = pe::test::RealSlurm::lacks(); !lacks.empty()) {
    std::printf("left out: %s\n", lacks.c_str());
    return 0;
  }
  const pe::test::RealSlurm slurm("MaxArraySize=1001\n");
  ::setenv("PATH", cat(argv[2], ":", ::getenv("PATH")).c_str(), 1);
  const pe::test::TempFolder folder;
  std::string seeds;
  for (int i = 0; i < kLanes; ++i) seeds += cat(i ? ", " : "", i);
  const fs::path file = folder / "many.yml";
  pe::support::write_file_atomically(
      file,
      cat("schema: pe-pipeline/1\nname: many\nslurm: {options: [--hold]}\naxes:\n  seed: [", seeds,
          "]\nstages:\n  first:\n    run: pe-toy\n    over: [seed]\n    config: {set: {value: $(seed)}}\n"
          "  second:\n    run: pe-toy\n    over: [seed]\n    needs: {init: first}\n"),
      false);
  const std::vector<std::string> store{"--store", (folder / "store").string()};
  std::vector<std::string> submit{argv[1], "submit", file.string()}, status{argv[1], "status", "--json"};
  submit.insert(submit.end(), store.begin(), store.end());
  status.insert(status.end(), store.begin(), store.end());
  std::string said;
  const double submitted = timed(submit, &said);
  std::printf("%s", said.c_str());
  std::printf("submit 10,000 elements: %.2f s\n", submitted);
  std::printf("status, all queued: %.0f ms\n", 1000 * best_of(3, status));
  // One small journal an element, as their jobs leave them.
  fs::path run;
  for (const auto& entry : fs::directory_iterator(folder / "store/runs")) run = entry.path();
  for (const char* stage : {"first", "second"}) {
    for (int i = 0; i < kLanes; ++i) {
      std::string text;
      int seq = 0;
      for (Json event : {Json{{"event", "element-start"}, {"token", "x"}},
                         Json{{"event", "start"}, {"task", cat(stage, "[seed=", i, "]")}, {"attempt", 1}, {"log", "/x"}},
                         Json{{"event", "publish"}, {"task", cat(stage, "[seed=", i, "]")}, {"key", "0123"}},
                         Json{{"event", "exit"}, {"task", cat(stage, "[seed=", i, "]")}, {"class", "done"}},
                         Json{{"event", "element-end"}, {"code", 0}}}) {
        event["seq"] = ++seq;
        event["seq"] = ++seq;
        event["time"] = 1.7e9 + seq;
        text += pe::pipeline::journal_line(event);
      }
      pe::support::write_file_atomically(run / cat("journal.", stage, ".", i, ".jsonl"), text, false);
    }
  }
  std::printf("status, a journal of each element: %.0f ms\n", 1000 * best_of(3, status));
  return 0;
}
