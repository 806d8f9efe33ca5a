#include "commands/session.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <set>

#include "cli/terminal.h"
#include "pipeline/orchestrator.h"
#include "support/environment.h"
#include "support/error.h"
#include "support/folders.h"
#include "support/json_text.h"
#include "support/process.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::commands {

using support::cat;
using support::ConfigError;
using support::quote;

namespace {

/// Says on standard error what takes so long while input files are hashed: a line that is redrawn on a terminal, one
/// every half a minute elsewhere. Nothing in the first second.
class HashingNote {
 public:
  HashingNote() : terminal_(cli::can_draw(2)), next_(Clock::now() + std::chrono::seconds(1)) {}
  ~HashingNote() {
    if (drawn_) say("\r\033[K");
  }
  void operator()(const pipeline::HashingProgress& progress) {
    if (Clock::now() < next_) return;
    next_ = Clock::now() + (terminal_ ? std::chrono::milliseconds(200) : std::chrono::milliseconds(30000));
    const std::string text =
        cat("hashing input files: ", support::short_bytes(static_cast<double>(progress.done_bytes)), " of ",
            support::short_bytes(static_cast<double>(progress.total_bytes)), ", now ",
            quote(progress.file.filename().string()));
    say(terminal_ ? cat("\r\033[K", cli::fit(text, cli::terminal_size(2).columns - 1))
                  : cat("pe-pipeline: ", text, "\n"));
    drawn_ = terminal_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  bool terminal_, drawn_ = false;
  Clock::time_point next_;
};

void write_out(std::FILE* stream, const std::string& text) { std::fwrite(text.data(), 1, text.size(), stream); }

}  // namespace

std::string pipeline_file_of(const cli::CommandLine& line) {
  if (line.words.empty()) {
    throw ConfigError("no pipeline file is named", {"pe-pipeline " + line.verb, 0, 0, "", 1},
                      cat("as in: pe-pipeline ", line.verb, " pipelines/quickstart.yml"));
  }
  return line.words.front();
}

std::vector<std::string> selectors_of(const cli::CommandLine& line) {
  if (line.words.empty()) pipeline_file_of(line);
  return {line.words.begin() + 1, line.words.end()};
}

bool makes_inputs(const cli::CommandLine& line) {
  if (!line.make_inputs && selectors_of(line).empty())
    throw ConfigError("--from-store makes only selected tasks, and none is named",
                      {"pe-pipeline " + line.verb, 0, 0, "", 1}, "add a SELECT, such as: report");
  return line.make_inputs;
}

fs::path store_path(const cli::CommandLine& line, const fs::path& root) {
  support::require_utf8(root);
  support::require_utf8(line.store);
  const std::string named = support::variable("PE_STORE");
  support::require_utf8(named);
  if (!line.store.empty()) return fs::absolute(line.store);
  if (!named.empty() && !fs::path(named).is_absolute()) {
    throw ConfigError(
        cat("PE_STORE must be an absolute path, found ", quote(named)), {},
        cat("a relative path is another store in each folder; here it would be ", fs::absolute(named).string()));
  }
  return named.empty() ? root / "store" : fs::path(named);
}

fs::path store_path_for(cli::CommandLine& line, bool may_make) {
  fs::path root = pipeline::find_root_of_store(fs::current_path());
  if (!line.words.empty() && cli::names_pipeline_file(line.words.front())) {
    if (!fs::exists(line.words.front()))
      throw ConfigError("there is no such pipeline file", {line.words.front(), 0, 0, "", 1},
                        support::file_suggestion(line.words.front(), {".yml", ".yaml"}));
    line.file = line.words.front();
    line.words.erase(line.words.begin());
    root = pipeline::find_root(line.file);
  }
  const fs::path path = store_path(line, root);
  if (!line.store.empty() && !may_make) require_store(path);
  return path;
}

pipeline::ExpandOptions expand_options(const cli::CommandLine& line) {
  pipeline::ExpandOptions options;
  options.set = line.set;
  options.axis = line.axis;
  options.scale = line.scale;
  return options;
}

pipeline::StageCatalog stage_catalog() { return pipeline::StageCatalog({support::own_executable().parent_path()}); }

std::vector<std::string> stage_programs() {
  constexpr std::string_view kEnding = ".describe.json";
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(support::own_executable().parent_path())) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("pe-", 0) == 0 && name.size() > kEnding.size() && entry.path().extension() == ".json")
      names.push_back(name.substr(0, name.size() - kEnding.size()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

pipeline::Capacity capacity_of(const cli::CommandLine& line) {
  pipeline::Capacity capacity = pipeline::detect_capacity();
  // More CPUs and memory than there are may be asked for: they are only counted.
  if (line.jobs) capacity.cpus = *line.jobs;
  if (line.mem_bytes) capacity.mem_bytes = *line.mem_bytes;
  if (line.gpus) {
    capacity.gpus.clear();
    for (const std::string& word : support::split(*line.gpus, ',')) {
      const std::string id(support::trim(word));
      if (id.empty()) continue;
      const bool by_name = id.starts_with("GPU-") || id.starts_with("MIG-");
      if (const auto number = support::parse_integer(id); !by_name && (!number || *number < 0))
        throw ConfigError(cat("expected numbers of GPUs, such as 0,1, or GPU-… of nvidia-smi, found ", quote(id)),
                          {"--gpus", 0, 0, "", 1});
      if (std::find(capacity.gpus.begin(), capacity.gpus.end(), id) != capacity.gpus.end())
        throw ConfigError(cat("GPU ", quote(id), " is named twice"), {"--gpus", 0, 0, "", 1});
      capacity.gpus.push_back(id);
    }
  }
  for (const std::string& pool : line.pools) {
    const auto equals = pool.find('=');
    const auto size = equals == std::string::npos ? std::nullopt : support::parse_integer(pool.substr(equals + 1));
    if (!size || *size < 1 || equals == 0) {
      throw ConfigError(cat("expected NAME=N with N of 1 or more, found ", quote(pool)), {"--pool", 0, 0, "", 1});
    }
    capacity.pools[pool.substr(0, equals)] = *size;
  }
  return capacity;
}

void refuse_reading_flags(const cli::CommandLine& line, const std::string& hint) {
  for (const auto& [flag, given] : {std::pair<const char*, bool>{"--set", !line.set.empty()},
                                    {"--axis", !line.axis.empty()},
                                    {"--scale", !line.scale.empty()}}) {
    if (given) throw ConfigError(cat("'pe-pipeline ", line.verb, "' takes no ", flag), {flag, 0, 0, "", 1}, hint);
  }
}

std::string hint_to_name_a_file(const cli::CommandLine& line) {
  return cat("name a pipeline file, as in: pe-pipeline ", line.verb, " FILE");
}

void check_pools(const cli::CommandLine& line, const pipeline::Graph& graph) {
  std::set<std::string> known;
  for (const auto& task : graph.tasks) known.insert(task.resources.pools.begin(), task.resources.pools.end());
  for (const std::string& pool : line.pools) {
    const std::string name = pool.substr(0, pool.find('='));
    if (known.count(name)) continue;
    const std::string near = support::suggestion(name, {known.begin(), known.end()});
    throw ConfigError(cat("no task takes from a pool ", quote(name)), {"--pool", 0, 0, "", 1},
                      near.empty() ? "`resources: {pools: [NAME]}` of a stage names one" : near);
  }
}

ExpandedPipeline load(const cli::CommandLine& line, const std::string& file, const fs::path& store) {
  ExpandedPipeline loaded;
  open_for_reading(store);            // rejects a folder of something else, before a cache is written there
  pipeline::share_with_group(store);  // before any user's plan writes the first cache
  loaded.catalog = std::make_unique<pipeline::StageCatalog>(stage_catalog());
  loaded.catalog->remember_in(store / "memo" / "describe");
  loaded.graph = pipeline::expand(pipeline::read_pipeline_file(file), *loaded.catalog, expand_options(line));
  pipeline::StampMemo memo = pipeline::StampMemo::of_inputs(store);
  HashingNote note;
  pipeline::hash_externals(loaded.graph, memo, std::ref(note));
  pipeline::compute_plan_keys(loaded.graph);
  return loaded;
}

void warn_of_idle_axes(const pipeline::Graph& graph) {
  for (const std::string& warning : pipeline::idle_axes(graph)) say(cat("pe-pipeline: warning: ", warning, "\n"));
}

void use_what_is_there(pipeline::Graph& graph, const pipeline::Store& store, const std::vector<bool>& selected) {
  for (const auto& [isa, count] : pipeline::use_results_of_other_cpus(graph, pipeline::StoreReader(store), selected))
    say(cat("pe-pipeline: note: ", counted(count, "result"), " by a CPU with ", isa, "\n"));
}

void require_store(const fs::path& path) {
  if (support::is_there(path / "VERSION")) return;
  open_for_reading(path);  // rejects a folder of something else
  throw ConfigError(cat("there is no store at ", quote(path.string())), {},
                    "`pe-pipeline run` makes it; --store names another");
}

bool names_a_path(const std::string& word, const std::string& file) {
  if (!fs::exists(word)) return false;
  // Stages are often called as folders are: with a pipeline file, a word alone is a stage or task of it.
  return file.empty() || word.find('/') != std::string::npos || word.ends_with(".h5");
}

pipeline::Store open_for_writing(const cli::CommandLine& line, const fs::path& path) {
  require_store(path);
  pipeline::StoreOptions options;
  options.durable = line.durability != "off";
  return pipeline::Store(path, options);
}

pipeline::Store open_for_reading(const fs::path& path) {
  pipeline::StoreOptions options;
  options.create = false;
  return pipeline::Store(path, options);
}

void print_warnings(const pipeline::Store& store) {
  for (const std::string& warning : store.take_warnings()) say(cat("pe-pipeline: warning: ", warning, "\n"));
}

void print(const std::string& text) { write_out(stdout, text); }
void say(const std::string& text) {
  std::fflush(stdout);
  write_out(stderr, text);
}

void print_json(const Json& json) { print(support::json_text(json, 1) + "\n"); }

cli::Style out_style(const cli::CommandLine& line) { return cli::Style(cli::use_color(line.color, 1)); }
cli::Style err_style(const cli::CommandLine& line) { return cli::Style(cli::use_color(line.color, 2)); }

std::string table(std::vector<std::vector<std::string>> rows) {
  for (auto& row : rows) {
    for (std::string& cell : row) {
      cell = cli::harmless(cell);  // a record may come from an imported file
      for (auto at = cell.find('\n'); at != std::string::npos; at = cell.find('\n', at)) cell.replace(at, 1, "\\n");
    }
  }
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    if (widths.size() < row.size()) widths.resize(row.size());
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], support::display_width(row[i]));
  }
  std::string out;
  for (const auto& row : rows) {
    std::string text;
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size()) text += std::string(widths[i] - support::display_width(row[i]) + 2, ' ');
    }
    while (!text.empty() && text.back() == ' ') text.pop_back();
    out += text + "\n";
  }
  return out;
}

std::string short_path(const fs::path& path) {
  const fs::path relative = path.lexically_relative(fs::current_path());
  const std::string text = relative.string();
  return text.empty() || text.rfind("..", 0) == 0 ? path.string() : text;
}

std::string counted(std::size_t count, const std::string& noun) {
  const std::string number = support::with_commas(static_cast<std::int64_t>(count));
  const bool after_vowel =
      noun.size() > 1 && std::string_view("aeiou").find(noun[noun.size() - 2]) != std::string_view::npos;
  if (count != 1 && noun.back() == 'y' && !after_vowel) return cat(number, " ", noun.substr(0, noun.size() - 1), "ies");
  return cat(number, " ", noun, count == 1 ? "" : "s");
}

}  // namespace pe::commands
