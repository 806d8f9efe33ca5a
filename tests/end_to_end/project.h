/// @file
/// A project folder with a pipeline of toys, and the real pe-pipeline at work in it.
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <boost/test/unit_test.hpp>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "pipeline/store/journal.h"
#include "pipeline/store/store.h"
#include "support/files.h"
#include "support/json.h"
#include "support/process.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace pe::test {

namespace fs = std::filesystem;

inline const char* const kToyPipeline = R"(schema: pe-pipeline/1
name: toy
title: A toy
axes:
  seed: [1, 2]
stages:
  data:
    run: pe-toy
    resources: {pools: [network]}
    config: {set: {value: 5}}
  trunk:
    run: pe-toy
    over: [seed]
    needs: {init: data}
    config: {set: {value: $(seed), tokens: 40, step_s: 0.003, checkpoint_every: 4}}
    snapshots: {s10: 0.25, s20: 0.5}
  decay:
    run: pe-toy
    over: [seed, branch]
    axes: {branch: {s10: 1, s20: 2}}
    needs: {init: 'trunk@$(branch)'}
    config: {set: {value: $(branch.value), tokens: 6, step_s: 0.003}}
  report:
    run: pe-toy-report
    gather: {in: decay}
    config: {set: {text: the report}}
)";

struct Answer {
  int code = 0;
  std::string out, err;
};

class Project {
 public:
  explicit Project(const std::string& text = kToyPipeline, const std::string& name = "toy.yml") : name_(name) {
    const char* path = ::getenv("PATH");
    const std::string folders = std::string(PE_TOY_FOLDER) + ":" + (path ? path : "");
    ::setenv("PATH", folders.c_str(), 1);
    ::setenv("NO_COLOR", "1", 1);
    fs::create_directories(root() / "configs");
    if (!text.empty()) write(text);
  }
  fs::path root() const { return folder_ / "a project"; }
  fs::path file() const { return root() / name_; }
  void write(const std::string& text) const { support::write_file_atomically(file(), text, false); }

  std::vector<std::string> command(const std::string& verb, const std::vector<std::string>& rest) const {
    std::vector<std::string> words = {program(), verb, file().string()};
    words.insert(words.end(), rest.begin(), rest.end());
    if (verb == "run") words.insert(words.end(), {"--durability", "off"});
    return words;
  }
  Answer call(const std::string& verb, const std::vector<std::string>& rest = {}) const {
    return call_words(command(verb, rest));
  }
  Answer call_words(const std::vector<std::string>& words) const {
    const auto captured = support::capture(words, "", 64u << 20, root());
    return {captured.status.code, captured.out, captured.err};
  }
  /// `run` in the background; `environment` is added to this process's own.
  pid_t start(const std::vector<std::string>& rest = {}, const std::vector<std::string>& environment = {}) const {
    support::SpawnOptions options;
    options.arguments = command("run", rest);
    if (!environment.empty()) {
      std::vector<std::string> all = environment;
      for (char** entry = environ; *entry; ++entry) all.emplace_back(*entry);
      options.environment = std::move(all);
    }
    options.directory = root();
    const support::Descriptor out(
        ::open((root() / "run.out").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    options.stdout_fd = options.stderr_fd = out.get();
    return support::spawn(options);
  }
  pipeline::Store store() const {
    pipeline::StoreOptions options;
    options.create = false;
    return pipeline::Store(root() / "store", options);
  }
  /// The outputs of every record: key → content digests.
  std::map<pipeline::ResultKey, std::string> contents() const {
    std::map<pipeline::ResultKey, std::string> all;
    const pipeline::Store opened = store();
    for (const auto& key : opened.keys()) {
      const auto record = opened.read(key);
      if (!record) continue;
      for (const auto& output : record->outputs) all[key] += output.role + "=" + output.content + " ";
    }
    return all;
  }
  static std::string program() { return (test::build_root() / "stages" / "pe-pipeline").string(); }

 private:
  test::TempFolder folder_;
  std::string name_;
};

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline void check_has(int line, const std::string& text, const std::string& part) {
  BOOST_TEST(has(text, part), "line " << line << ": expected '" << part << "' in:\n" << text);
}
#define CHECK_HAS(text, part) pe::test::check_has(__LINE__, text, part)

inline std::string one_task(const std::string& set) {
  return "schema: pe-pipeline/1\nname: toy\nstages:\n  t:\n    run: pe-toy\n    config: {set: {" + set + "}}\n";
}

}  // namespace pe::test
