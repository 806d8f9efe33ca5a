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
#include "pipeline/run/exit_code.h"
#include "pipeline/run/local_runner.h"
#include "pipeline/upkeep/results_file.h"
#include "pipeline/upkeep/verify.h"
#include "support/error.h"
#include "support/folders.h"
#include "support/text.h"

namespace pe::commands {

namespace {

using pipeline::Inventory;
using pipeline::Problem;
using pipeline::Record;
using pipeline::Rerun;
using pipeline::Store;
using support::cat;

/// What belongs together: one task, or all chosen snapshots of one trajectory.
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
  std::size_t known = 0, whole = 0, broken = 0, same = 0, differs = 0, failed = 0, cannot = 0;
};

Json json_of(const Rerun& rerun) {
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

std::string text_of(const Rerun& rerun, const std::string& name, const cli::Style& style) {
  std::string out;
  switch (rerun.outcome) {
    case Rerun::Outcome::kSame:
      out = cat(style.good("same     "), name, "  ", support::short_duration(rerun.wall_s),
                rerun.inputs_made > 0
                    ? cat(", and ", counted(rerun.inputs_made, "task"), " for inputs that were not here")
                    : "",
                "\n");
      break;
    case Rerun::Outcome::kDiffers:
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
    case Rerun::Outcome::kFailed:
      out = cat(style.bad("failed   "), name, "  ", cli::harmless(rerun.why), "\n");
      break;
    case Rerun::Outcome::kCannot:
      out = cat(style.warn("cannot   "), name, "  ", cli::harmless(rerun.why), "\n");
      break;
  }
  if (!rerun.folder.empty()) out += cat("  kept: ", rerun.folder.string(), "\n");
  return out;
}

}  // namespace

namespace {

bool is_known_only(const Store& store, const pipeline::StoredResult& result) {
  return !result.outputs.empty() &&
         std::all_of(result.outputs.begin(), result.outputs.end(), [&](const pipeline::OutputRecord& output) {
           return output.absent && !store.has_object(output.object);
         });
}

int verify_store(const cli::CommandLine& line) {
  const Scope scope = scope_of(line);
  pipeline::StoreOptions options;
  options.create = line.repair;
  Store store(scope.store, options);
  const Inventory inventory = pipeline::read_inventory(store);
  const std::vector<std::size_t> chosen = chosen_results(line, scope, store, inventory);
  std::vector<Group> groups = groups_of(inventory, chosen);
  if (line.rerun && line.sample) {
    std::erase_if(groups, [&](const Group& group) { return is_known_only(store, inventory.results[group.front()]); });
  }
  if (line.sample) sample(groups, *line.sample);

  const cli::Style style = out_style(line);
  Json json{{"schema", "pe-verify/1"}, {"schema_version", 1}, {"results", Json::array()}};
  Tally tally;
  pipeline::Verifier verifier(store);
  pipeline::StageCatalog catalog = stage_catalog();
  catalog.remember_in(scope.store / "memo" / "describe");
  pipeline::LocalRunner runner(SIGKILL);  // checkpoints of a stage that is run again are of no use to other processes
  pipeline::RerunOptions how;
  how.keep = line.keep;
  how.ulp = static_cast<std::uint64_t>(line.ulp.value_or(0));
  how.gpus = capacity_of(line).gpus;
  how.stop = StopSignals::level;
  std::optional<pipeline::RemadeInputs> remade;
  if (line.rerun) how.remade = &remade.emplace(store);
  bool stopped = false;
  const auto show = [&](const std::string& text) {
    if (!line.json) print(text);
  };
  for (const Group& group : groups) {
    std::vector<Record> records;
    bool broken = false;
    for (const std::size_t i : group) {
      const std::string name = inventory.results[i].name();
      auto record = store.read(inventory.results[i].key);
      if (!record) continue;  // went away meanwhile
      if (const auto origin = known_only(store, *record)) {
        ++tally.known;
        json["results"].push_back(
            {{"task", name}, {"key", record->key.key}, {"known_from", *origin}, {"problems", Json::array()}});
        continue;
      }
      const std::vector<Problem> problems = verifier.check(*record);
      Json each{{"task", name}, {"key", record->key.key}, {"problems", Json::array()}};
      if (record->key.is_snapshot()) each["step"] = record->key.step;
      for (const Problem& problem : problems) {
        each["problems"].push_back({{"what", what_name(problem.what)},
                                    {"role", problem.role},
                                    {"object", problem.object},
                                    {"text", problem.text}});
        show(cat(style.bad(problem.what == Problem::What::kMissing ? "gone     " : "damaged  "), name,
                 problem.role.empty() ? "" : "." + problem.role, "  ", cli::harmless(problem.text), "\n"));
      }
      ++(problems.empty() ? tally.whole : tally.broken);
      broken = broken || !problems.empty();
      if (!problems.empty() && line.repair) {
        set_aside(store, *record, problems);
        each["set_aside"] = true;
      }
      json["results"].push_back(std::move(each));
      records.push_back(*std::move(record));
    }
    if (!line.rerun || broken || records.empty()) continue;
    const StopSignals signals;
    const Rerun rerun = pipeline::run_again(store, inventory, catalog, runner, records, how);
    ++(rerun.outcome == Rerun::Outcome::kSame      ? tally.same
       : rerun.outcome == Rerun::Outcome::kDiffers ? tally.differs
       : rerun.outcome == Rerun::Outcome::kFailed  ? tally.failed
                                                   : tally.cannot);
    json["results"].back()["rerun"] = json_of(rerun);
    show(text_of(rerun, names_of(inventory, group), style));
    std::fflush(stdout);
    stopped = StopSignals::level() > 0;
    if (stopped) break;
  }
  for (const auto& key : inventory.unreadable) {
    ++tally.broken;
    json["results"].push_back(
        {{"task", ""},
         {"key", key.key},
         {"problems",
          Json::array({{{"what", "record"}, {"role", ""}, {"object", ""}, {"text", "the record is damaged"}}})}});
    if (key.is_snapshot()) json["results"].back()["step"] = key.step;
    show(cat(style.bad("damaged  "), key.short_name(), "  its record: ", store.record_path(key).string(), "\n"));
    if (line.repair) store.forget(key);
  }
  print_warnings(store);
  json["bytes"] = verifier.bytes_read();
  json["objects"] = verifier.objects_read();
  json["counts"] = {{"whole", tally.whole}, {"damaged", tally.broken}, {"known", tally.known}};
  if (line.rerun) {
    json["counts"]["same"] = tally.same;
    json["counts"]["differs"] = tally.differs;
    json["counts"]["failed"] = tally.failed;
    json["counts"]["cannot"] = tally.cannot;
  }
  if (line.json) {
    print_json(json);
  } else {
    std::string out = cat(counted(tally.whole, "result"), " whole");
    if (tally.broken > 0) out += cat(", ", style.bad(cat(tally.broken, " damaged")));
    if (tally.known > 0) out += cat(", ", tally.known, " known and not here");
    out += cat("; read ", counted(verifier.objects_read(), "object"), ", ",
               support::short_bytes(static_cast<double>(verifier.bytes_read())), "\n");
    if (line.rerun) {
      out += cat("run again: ", tally.same, " same");
      if (tally.differs > 0) out += cat(", ", style.bad(cat(tally.differs, " different")));
      if (tally.failed > 0) out += cat(", ", style.bad(cat(tally.failed, " failed")));
      if (tally.cannot > 0) out += cat(", ", tally.cannot, " that cannot be run again");
      out += "\n";
    }
    if (tally.broken > 0) {
      out += line.repair ? "what is damaged lies in the trash; the next run makes it again\n"
                         : "with --repair, what is damaged goes to the trash and the next run makes it again\n";
    }
    print(out);
  }
  if (tally.broken > 0 || tally.differs > 0 || tally.failed > 0) return pipeline::kRunMismatch;
  return tally.cannot > 0 || stopped ? pipeline::kRunIncomplete : pipeline::kRunDone;
}

/// A packed file is checked like a store that holds nothing else.
int verify_packed(const cli::CommandLine& given) {
  support::ScratchFolder folder = support::ScratchFolder::temporary("pe-verify");
  {
    pipeline::StoreOptions options;
    options.durable = false;
    Store store(folder.path(), options);
    pipeline::unpack_results(given.words.front(), store);
  }
  cli::CommandLine line = given;
  line.words.clear();
  line.store = folder.path().string();
  const int code = verify_store(line);
  if (line.rerun && (line.keep || code == pipeline::kRunMismatch)) folder.keep();  // with what came out
  return code;
}

}  // namespace

int verify_command(const cli::CommandLine& line) {
  const bool packed = line.words.size() == 1 && line.words.front().ends_with(pipeline::kResultsEnding);
  return packed ? verify_packed(line) : verify_store(line);
}

}  // namespace pe::commands
