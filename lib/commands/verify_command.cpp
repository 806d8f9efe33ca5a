#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "cli/terminal.h"
#include "commands/chosen.h"
#include "commands/commands.h"
#include "commands/diff_text.h"
#include "commands/session.h"
#include "commands/stop_signals.h"
#include "pipeline/orchestrator.h"
#include "support/error.h"
#include "support/folders.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::commands {

namespace {

using pipeline::Inventory;
using pipeline::Problem;
using pipeline::Record;
using pipeline::RerunResult;
using pipeline::Store;
using support::cat;

/// Results that belong together: one task, or all chosen snapshots of one trajectory.
using Group = std::vector<std::size_t>;

std::vector<Group> groups_of(const Inventory& inventory, const std::vector<std::size_t>& chosen) {
  std::map<std::string, Group> by_key;  // sorted by key, as the inventory is; steps ascend within
  for (const std::size_t i : chosen) by_key[inventory.results[i].key.key].push_back(i);
  std::vector<Group> groups;
  for (auto& [key, group] : by_key) groups.push_back(std::move(group));
  return groups;
}

/// A share of the groups by chance, at least one; so that sampling again and again comes by all of them.
void sample(std::vector<Group>& groups, double share) {
  if (groups.empty()) return;
  std::random_device device;
  std::mt19937_64 random(device());
  std::shuffle(groups.begin(), groups.end(), random);
  groups.resize(
      std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(share * static_cast<double>(groups.size())))));
  std::sort(groups.begin(), groups.end());
}

std::string names_of(const Inventory& inventory, const Group& group) {
  std::string name = inventory.results[group.front()].name();
  for (std::size_t i = 1; i < group.size(); ++i) name += cat(",@", inventory.results[group[i]].key.step);
  return name;
}

struct Tally {
  std::size_t known = 0, partial = 0, whole = 0, broken = 0, same = 0, differs = 0, failed = 0, cannot = 0;
};

Json json_of(const RerunResult& rerun) {
  Json json{{"outcome", outcome_name(rerun.outcome)}, {"wall_s", rerun.wall_s}, {"outputs", Json::array()}};
  if (!rerun.why.empty()) json["why"] = rerun.why;
  if (rerun.inputs_made > 0) json["inputs_made"] = rerun.inputs_made;
  if (!rerun.folder.empty()) json["folder"] = rerun.folder.string();
  for (const auto& output : rerun.outputs) {
    Json each{{"role", output.role}, {"same", output.same()}, {"stored", output.stored}, {"again", output.again}};
    if (output.key.is_snapshot()) each["step"] = output.key.step;
    if (!output.same()) each["differences"] = differences_json(output.diff);
    json["outputs"].push_back(std::move(each));
  }
  return json;
}

std::string text_of(const RerunResult& rerun, const std::string& name, const cli::Style& style) {
  std::string out;
  switch (rerun.outcome) {
    case RerunResult::Outcome::kSame:
      out = cat(style.good("same     "), name, "  ", support::short_duration(rerun.wall_s),
                rerun.inputs_made > 0
                    ? cat(", and ", counted(rerun.inputs_made, "task"), " for inputs that were not here")
                    : "",
                "\n");
      break;
    case RerunResult::Outcome::kDiffers:
      out = cat(style.bad("differs  "), name, rerun.why.empty() ? "" : "  ", cli::harmless(rerun.why), "\n");
      for (const auto& output : rerun.outputs) {
        if (output.same()) continue;
        out += cat("  ", output.role, output.key.is_snapshot() ? cat(" at step ", output.key.step) : "", ": ");
        if (output.again.empty())
          out += "was not written this time\n";
        else if (output.stored.empty())
          out += "was not written then\n";
        else
          out += cat("content ", output.stored.substr(0, 12), ", now ", output.again.substr(0, 12), "\n",
                     differences_text(output.diff, "    ", 8));
      }
      break;
    case RerunResult::Outcome::kFailed:
      out = cat(style.bad("failed   "), name, "  ", cli::harmless(rerun.why), "\n");
      break;
    case RerunResult::Outcome::kCannot:
      out = cat(style.warn("cannot   "), name, "  ", cli::harmless(rerun.why), "\n");
      break;
  }
  if (!rerun.folder.empty()) out += cat("  kept: ", rerun.folder.string(), "\n");
  return out;
}

}  // namespace

namespace {

bool is_known_only(const Store& store, const std::vector<pipeline::OutputRecord>& outputs) {
  return !outputs.empty() && pipeline::absent_roles(store, outputs).size() == outputs.size();
}

/// Checks the chosen results of a store, and runs them again with --rerun.
class StoreCheck {
 public:
  StoreCheck(const cli::CommandLine& line, const Scope& scope, Store& store, const Inventory& inventory)
      : line_(line), store_(store), inventory_(inventory), verifier_(store), catalog_(stage_catalog()) {
    catalog_.remember_in(scope.store / "memo" / "describe");
    how_.keep = line.keep;
    how_.root = scope.file.empty() ? pipeline::find_root_of_store(fs::current_path()) : pipeline::find_root(scope.file);
    how_.gpus = capacity_of(line).gpus;
    how_.stop = StopSignals::level;
    if (line.rerun) how_.remade = &remade_.emplace(store);
  }

  int check(const std::vector<Group>& groups) {
    bool stopped = false;
    for (const Group& group : groups) {
      stopped = !check_group(group);
      if (stopped) break;
    }
    for (const auto& key : inventory_.unreadable) add_unreadable(key);
    print_warnings(store_);
    if (line_.json)
      print_json(finished_json());
    else
      print(totals_text());
    if (tally_.broken > 0 || tally_.differs > 0 || tally_.failed > 0) return pipeline::kRunMismatch;
    return tally_.cannot > 0 || stopped ? pipeline::kRunIncomplete : pipeline::kRunDone;
  }

 private:
  void show(const std::string& text) {
    if (!line_.json) print(text);
  }

  /// @returns false if a signal asks to stop
  bool check_group(const Group& group) {
    std::vector<Record> records;
    bool broken = false;
    for (const std::size_t i : group) {
      const std::string name = inventory_.results[i].name();
      auto record = store_.read(inventory_.results[i].key, true);
      if (!record) continue;  // went away meanwhile
      if (is_known_only(store_, record->outputs)) {
        ++tally_.known;
        Json known{{"task", name},
                   {"key", record->key.key},
                   {"known_from", pipeline::origin_of(*record)},
                   {"problems", Json::array()}};
        if (record->key.is_snapshot()) known["step"] = record->key.step;
        results_.push_back(std::move(known));
        if (line_.rerun) records.push_back(*std::move(record));  // its contents are compared with the known digests
        continue;
      }
      broken = !check_record(*record, name) || broken;
      records.push_back(*std::move(record));
    }
    if (!line_.rerun || broken || records.empty()) return true;
    run_again(records, names_of(inventory_, group));
    return StopSignals::level() == 0;
  }

  /// @returns false if the record has problems
  bool check_record(const Record& record, const std::string& name) {
    const std::vector<Problem> problems = verifier_.check(record);
    Json each{{"task", name}, {"key", record.key.key}, {"problems", Json::array()}};
    if (record.key.is_snapshot()) each["step"] = record.key.step;
    for (const Problem& problem : problems) {
      each["problems"].push_back({{"what", what_name(problem.what)},
                                  {"role", problem.role},
                                  {"object", problem.object},
                                  {"text", problem.text}});
      show(cat(style_.bad(problem.what == Problem::What::kMissing ? "gone     " : "damaged  "), name,
               problem.role.empty() ? "" : "." + problem.role, "  ", cli::harmless(problem.text), "\n"));
    }
    const std::vector<std::string> absent = pipeline::absent_roles(store_, record.outputs);
    if (!absent.empty()) each["absent"] = absent;
    ++(!problems.empty() ? tally_.broken : absent.empty() ? tally_.whole : tally_.partial);
    if (!problems.empty() && line_.repair) {
      set_aside(store_, record, problems);
      each["set_aside"] = true;
    }
    results_.push_back(std::move(each));
    return problems.empty();
  }

  void run_again(const std::vector<Record>& records, const std::string& names) {
    const StopSignals signals;
    const RerunResult rerun = pipeline::run_again(store_, inventory_, catalog_, runner_, records, how_);
    ++(rerun.outcome == RerunResult::Outcome::kSame      ? tally_.same
       : rerun.outcome == RerunResult::Outcome::kDiffers ? tally_.differs
       : rerun.outcome == RerunResult::Outcome::kFailed  ? tally_.failed
                                                         : tally_.cannot);
    results_.back()["rerun"] = json_of(rerun);
    show(text_of(rerun, names, style_));
    std::fflush(stdout);
  }

  void add_unreadable(const pipeline::ResultKey& key) {
    ++tally_.broken;
    results_.push_back(
        {{"task", ""},
         {"key", key.key},
         {"problems",
          Json::array({{{"what", "record"}, {"role", ""}, {"object", ""}, {"text", "the record is damaged"}}})}});
    if (key.is_snapshot()) results_.back()["step"] = key.step;
    show(cat(style_.bad("damaged  "), key.short_name(), "  its record: ", store_.record_path(key).string(), "\n"));
    if (line_.repair) store_.forget(key);
  }

  Json finished_json() {
    Json json{{"schema", "pe-verify/1"}, {"schema_version", 1}, {"results", std::move(results_)}};
    json["bytes"] = verifier_.bytes_read();
    json["objects"] = verifier_.objects_read();
    json["counts"] = {
        {"whole", tally_.whole}, {"partial", tally_.partial}, {"damaged", tally_.broken}, {"known", tally_.known}};
    if (line_.rerun) {
      json["counts"]["same"] = tally_.same;
      json["counts"]["differs"] = tally_.differs;
      json["counts"]["failed"] = tally_.failed;
      json["counts"]["cannot"] = tally_.cannot;
    }
    return json;
  }

  std::string totals_text() const {
    std::string out = cat(counted(tally_.whole, "result"), " whole");
    if (tally_.broken > 0) out += cat(", ", style_.bad(cat(tally_.broken, " damaged")));
    if (tally_.partial > 0) out += cat(", ", tally_.partial, " sound but not complete here");
    if (tally_.known > 0) out += cat(", ", tally_.known, " known and not here");
    out += cat("; read ", counted(verifier_.objects_read(), "object"), ", ",
               support::short_bytes(static_cast<double>(verifier_.bytes_read())), "\n");
    if (line_.rerun) {
      out += cat("run again: ", tally_.same, " same");
      if (tally_.differs > 0) out += cat(", ", style_.bad(cat(tally_.differs, " different")));
      if (tally_.failed > 0) out += cat(", ", style_.bad(cat(tally_.failed, " failed")));
      if (tally_.cannot > 0) out += cat(", ", tally_.cannot, " that cannot be run again");
      out += "\n";
    }
    if (tally_.broken > 0) {
      out += line_.repair ? "damaged data is in the trash; the next run makes it again\n"
                          : "with --repair, damaged data goes to the trash and the next run makes it again\n";
    }
    return out;
  }

  const cli::CommandLine& line_;
  Store& store_;
  const Inventory& inventory_;
  const cli::Style style_ = out_style(line_);
  Json results_ = Json::array();
  Tally tally_;
  pipeline::Verifier verifier_;
  pipeline::StageCatalog catalog_;
  pipeline::LocalRunner runner_{SIGKILL};  ///< no other process needs checkpoints of a stage that is run again
  pipeline::RerunOptions how_;
  std::optional<pipeline::RemadeInputs> remade_;
};

int verify_store(const cli::CommandLine& line) {
  const Scope scope = scope_of(line);
  require_store(scope.store);
  pipeline::StoreOptions options;
  options.create = line.repair;
  Store store(scope.store, options);
  const Inventory inventory = pipeline::read_inventory(store);
  const std::vector<std::size_t> chosen = chosen_results(line, scope, store, inventory);
  if (chosen.empty() && !line.words.empty())
    throw ConfigError(cat("the store ", quote(scope.store.string()), " has none of the named results"));
  std::vector<Group> groups = groups_of(inventory, chosen);
  if (line.rerun && line.sample) {
    std::erase_if(groups,
                  [&](const Group& group) { return is_known_only(store, inventory.results[group.front()].outputs); });
  }
  if (line.sample) sample(groups, *line.sample);
  return StoreCheck(line, scope, store, inventory).check(groups);
}

bool is_packed_file(const std::string& word) { return word.ends_with(pipeline::kResultsEnding); }

/// A packed file is checked like a store that holds nothing else. The other words choose among its results.
int verify_packed(const cli::CommandLine& given) {
  const auto packed = std::find_if(given.words.begin(), given.words.end(), is_packed_file);
  if (!fs::exists(*packed))
    throw ConfigError("there is no such file", {*packed, 0, 0, "", 1},
                      support::file_suggestion(*packed, {fs::path(pipeline::kResultsEnding).extension().string()}));
  support::ScratchFolder folder = support::ScratchFolder::temporary("pe-verify");
  {
    pipeline::StoreOptions options;
    options.durable = false;
    Store store(folder.path(), options);
    pipeline::unpack_results(*packed, store);
  }
  cli::CommandLine line = given;
  line.words.erase(line.words.begin() + (packed - given.words.begin()));
  line.store = folder.path().string();
  const int code = verify_store(line);
  if (line.rerun && (line.keep || code == pipeline::kRunMismatch)) folder.keep();  // with the outputs of the rerun
  return code;
}

}  // namespace

int verify_command(const cli::CommandLine& line) {
  const auto packed = std::count_if(line.words.begin(), line.words.end(), is_packed_file);
  if (packed > 1) throw ConfigError(cat("found ", packed, " packed files; verify checks one at a time"));
  if (line.keep && !line.rerun)
    throw ConfigError("--keep keeps the outputs of --rerun", {"--keep", 0, 0, "", 1}, "add --rerun");
  return packed == 1 ? verify_packed(line) : verify_store(line);
}

}  // namespace pe::commands
