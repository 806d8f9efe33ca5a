// The promises of the README, word for word: its pipeline, its plan, its three ways in, and the numbers on pages about
// the programs. Trainings are cut to a few steps by flags that are added to the README's commands.
#include <boost/test/unit_test.hpp>
#include <regex>

#include "pipeline/run/run.h"
#include "project.h"
#include "support/json.h"
#include "support/markdown.h"
#include "support/text.h"

using namespace pe;  // NOLINT
namespace fs = std::filesystem;
using test::Answer;
using test::CodeBlock;
using test::has;
using test::Project;

namespace {

std::string readme() { return support::read_file(test::source_root() / "README.md"); }

/// The only block of that language in the README that holds `mark`.
std::string block(const std::string& language, const std::string& mark) {
  std::string found;
  for (const CodeBlock& each : test::code_blocks(readme())) {
    if (each.language != language || !has(each.text, mark)) continue;
    BOOST_TEST(found.empty(), "the README has two blocks with " << mark);
    found = each.text;
  }
  BOOST_REQUIRE_MESSAGE(!found.empty(), "the README has no block with " << mark);
  return found;
}

/// A folder as the README leaves its reader in: first.yml, and configs/ of the clone.
class Reader : public Project {
 public:
  explicit Reader(const std::string& text = block("yaml", "name: first")) : Project(text, "first.yml") {
    fs::remove(root() / "configs");
    fs::create_directory_symlink(test::source_root() / "configs", root() / "configs");
  }
  /// The README's line of code that begins so, as a shell runs it, with more words at its end.
  Answer type(const std::string& begin, const std::string& more = "",
              const std::map<std::string, std::string>& places = {}) const {
    std::string line;
    for (const CodeBlock& each : test::code_blocks(readme())) {
      const std::string joined = std::regex_replace(each.text, std::regex(R"( *\\\n *)"), " ");
      for (const std::string& candidate : support::split(joined, '\n')) {
        if (line.empty() && candidate.rfind(begin, 0) == 0) line = candidate.substr(0, candidate.find("  #"));
      }
    }
    BOOST_REQUIRE_MESSAGE(!line.empty(), "the README has no line that begins with " << begin);
    for (const auto& [name, place] : places) {
      const auto at = line.find(name);
      BOOST_REQUIRE_MESSAGE(at != std::string::npos, line << " has no " << name);
      line.replace(at, name.size(), pipeline::shell_quoted(place));
    }
    const std::string path = "PATH='" + (test::build_root() / "stages").string() + "':\"$PATH\"; ";
    return call_words({"sh", "-c", path + line + " " + more});
  }
};

/// Models that learn next to nothing, in seconds.
const std::string kSmall =
    "--axis encoding=none,rope --axis seed=42 --set model.train.tokens=8k --set model.train.batch=4 --set "
    "model.train.warmup_steps=2 --set "
    "model.model.width=16"
    " --set model.train.validate_windows=4 --set scores.eval.documents=8 --set scores.eval.min_documents=2"
    " --set 'scores.eval.lengths=[1,2]' --set 'scores.eval.tasks=[perplexity]' --set data.vocabulary=512";
const std::string kFew =
    kSmall + " --set text.generated.words=60k --set text.generated.min_words=400 --set text.generated.max_words=900";
const std::string kQuiet = " --durability off --progress plain";

std::string stage(const std::string& name) { return (test::build_root() / "stages" / name).string(); }

}  // namespace

BOOST_AUTO_TEST_SUITE(ways_in)

BOOST_AUTO_TEST_CASE(the_plan_of_the_readme_is_what_plan_says) {
  const Reader reader;
  const Answer answer = reader.type("pe-pipeline run first.yml", "--dry-run");
  BOOST_TEST(answer.code == 0, answer.err);
  const Answer plan = reader.call("plan");
  BOOST_REQUIRE_MESSAGE(plan.code == 0, plan.err);
  BOOST_TEST(plan.out == block("text", "first  21 tasks"));
  // The README's example of changes, as plan prints it.
  BOOST_TEST(has(reader.type("pe-pipeline explain first.yml").out, "model[encoding=rope,seed=42]"));
}

BOOST_AUTO_TEST_CASE(the_pipeline_of_the_readme_measures_every_length) {
  const Reader reader;
  // Texts, documents and lengths are the README's.
  const Answer run = reader.type("pe-pipeline run first.yml",
                                 "--axis encoding=none,rope --axis seed=42 --set model.train.tokens=8k"
                                 " --set model.train.warmup_steps=2 --set model.model.width=16"
                                 " --set model.train.validate_windows=4 --set 'scores.eval.tasks=[perplexity]'" +
                                     kQuiet);
  BOOST_REQUIRE_MESSAGE(run.code == 0, run.out << run.err);
  BOOST_TEST(has(run.err + run.out, "done     scores"), run.err);  // the log has lines of evaluations
  BOOST_TEST(!has(run.err + run.out, "left out"), run.out << run.err);
  const std::string found = support::read_file(reader.root() / "reports/first/latest/result.txt");
  for (const char* place : {"perplexity at 128 (1×)", "perplexity at 1,024 (8×)"}) BOOST_TEST(has(found, place), found);
  // The tour takes the same file.
  BOOST_TEST(has(support::read_file(test::source_root() / "doc/tour.md"), block("yaml", "name: first")));
}

BOOST_AUTO_TEST_CASE(a_folder_of_text_leads_to_a_report) {
  const Reader reader;
  const fs::path texts = reader.root() / "my texts";
  fs::create_directory(texts);
  const std::vector<std::string> words{"the", "cat",   "saw",  "another", "bird", "near",
                                       "a",   "green", "tree", "and",     "sang"};
  std::uint32_t state = 1;
  for (int file = 0; file < 10; ++file) {  // few files: each is a book
    std::string text;
    for (int i = 0; i < 12000; ++i) {
      state = state * 1664525u + 1013904223u;
      text += words[(state >> 16) % words.size()] + (i % 120 == 119 ? ".\n\n" : i % 12 == 11 ? ".\n" : " ");
    }
    support::write_file_atomically(texts / support::cat("book ", file, ".txt"), text, false);
  }
  const Answer run = reader.type("pe-pipeline run first.yml --set text.source=local",
                                 kSmall + " --set data.vocabulary=300" + kQuiet, {{"DIR", texts.string()}});
  BOOST_REQUIRE_MESSAGE(run.code == 0, run.out << run.err);
  // It ends with the results, and the path of the page.
  const std::string found = support::read_file(reader.root() / "reports/first/latest/result.txt");
  BOOST_TEST(found.rfind("perplexity at ", 0) == 0u, found);
  for (const std::string& line : support::split(found, '\n'))
    if (!line.empty()) BOOST_TEST(has(run.out, "  " + line + "\n"), run.out);
  BOOST_TEST(has(run.out, "\nreport: reports/first/"), run.out);
  const std::string page = support::read_file(reader.root() / "reports/first/latest/report.html");
  for (const char* part : {"rope", "Perplexity against context length"}) BOOST_TEST(has(page, part), part);
  const Answer again = reader.type("pe-pipeline run first.yml --set text.source=local",
                                   kSmall + " --set data.vocabulary=300" + kQuiet, {{"DIR", texts.string()}});
  BOOST_TEST(has(again.out, "nothing to do"), again.out);
}

BOOST_AUTO_TEST_CASE(four_gpus_get_a_task_each_or_share_one) {
  const auto with_gpus = [](int gpus) {
    std::string text = block("yaml", "name: first");
    std::vector<std::string> stages{"  model: {run: pe-train,"};
    if (gpus == 1) stages.push_back("  scores: {run: pe-evaluate,");  // which runs in one process
    for (const std::string& name : stages) {
      const auto at = text.find(name);
      BOOST_REQUIRE(at != std::string::npos);
      text.insert(at + name.size(), support::cat(" resources: {gpus: ", gpus, "},"));
    }
    return text;
  };
  for (const int gpus : {1, 4}) {
    const Reader reader(with_gpus(gpus));
    const Answer plan = reader.type("pe-pipeline plan first.yml --gpus 0,1,2,3");
    BOOST_REQUIRE_MESSAGE(plan.code == 0, plan.err);
    BOOST_TEST(!has(plan.out, "too large"), plan.out);
    BOOST_TEST(has(reader.call("plan", {"--gpus", "none"}).out, "too large"));
    const Json config = Json::parse(reader.call("config", {"model[encoding=rope,seed=42]", "--json"}).out);
    const std::string text = config.dump();
    BOOST_TEST(has(text, "\"device\":\"cuda\""), text);
    BOOST_TEST(has(text, support::cat("\"ranks\":", gpus)), text);
  }
}

BOOST_AUTO_TEST_CASE(one_number_of_a_report_is_computed_again) {
  const Reader theirs;
  const Answer run = theirs.type("pe-pipeline run first.yml", kFew + kQuiet);
  BOOST_REQUIRE_MESSAGE(run.code == 0, run.out << run.err);
  const fs::path scores = "out/first/scores/from=model,encoding=rope,seed=42.h5";
  BOOST_REQUIRE(fs::exists(theirs.root() / scores));

  const Reader mine;  // a separate store
  const Answer part = mine.type("pe-pipeline run first.yml '+scores", kFew + kQuiet);
  BOOST_REQUIRE_MESSAGE(part.code == 0, part.out << part.err);
  BOOST_TEST(fs::exists(mine.root() / scores));
  BOOST_TEST(!fs::exists(mine.root() / "out/first/scores/from=model,encoding=none,seed=42.h5"));  // and nothing else
  const Answer diff = mine.type("pe-pipeline diff THEIRS.h5", "", {{"THEIRS.h5", (theirs.root() / scores).string()}});
  BOOST_TEST(diff.code == 0, diff.out << diff.err);
  const Answer verify = mine.type("pe-pipeline verify first.yml", kFew);
  BOOST_TEST(verify.code == 0, verify.out << verify.err);

  // Another seed gives other numbers, and diff says so.
  const Reader other;
  const std::string seeds = std::regex_replace(kFew, std::regex("seed=42"), "seed=43");
  BOOST_REQUIRE(
      other
          .call_words({"sh", "-c",
                       "PATH='" + (test::build_root() / "stages").string() +
                           "':\"$PATH\"; pe-pipeline run first.yml '+scores[encoding=rope]' " + seeds + kQuiet})
          .code == 0);
  const Answer differs =
      mine.type("pe-pipeline diff THEIRS.h5", "",
                {{"THEIRS.h5", (other.root() / "out/first/scores/from=model,encoding=rope,seed=43.h5").string()}});
  BOOST_TEST(differs.code == 1, differs.out << differs.err);
}

BOOST_AUTO_TEST_CASE(help_fits_a_screen_and_says_where_the_rest_is) {
  int stages = 0;
  for (const auto& entry : fs::directory_iterator(test::build_root() / "stages")) {
    const std::string name = entry.path().filename().string();
    if (!fs::exists(entry.path().string() + ".describe.json")) continue;  // no stage
    ++stages;
    const auto help = support::capture({entry.path().string(), "--help"});
    BOOST_TEST(help.status.code == 0, name);
    const auto lines = std::count(help.out.begin(), help.out.end(), '\n');
    BOOST_TEST(lines <= 48, name << " --help has " << lines << " lines");
    BOOST_TEST(has(help.out, "--help all"), name);
    const auto all = support::capture({entry.path().string(), "--help", "all"});
    BOOST_TEST(all.status.code == 0, name);
    BOOST_TEST(all.out.size() > 0u, name);
  }
  BOOST_TEST(stages > 10);
  const auto topic = [](const std::string& program, const std::string& name) {
    return support::capture({stage(program), "--help", name});
  };
  BOOST_TEST(has(topic("pe-train", "encodings").out, "  rope "));
  BOOST_TEST(has(topic("pe-train", "yarn").out, "factor"));
  BOOST_TEST(has(topic("pe-train", "model").out, "model.width"));
  BOOST_TEST(topic("pe-train", "encodigns").status.code == 2);
  BOOST_TEST(has(topic("pe-train", "encodigns").err, "did you mean 'encodings'?"));
}

BOOST_AUTO_TEST_CASE(keys_of_other_programs_lead_to_ours) {
  const auto hint = [](const std::string& program, const std::string& config) {
    return support::capture({stage(program), "--check"}, config + "\n").out;
  };
  for (const auto& [typed, meant] : std::map<std::string, std::string>{{"lr", "peak_lr"},
                                                                       {"bs", "batch"},
                                                                       {"batch_size", "batch"},
                                                                       {"wd", "weight_decay"},
                                                                       {"steps", "tokens"},
                                                                       {"seq_len", "length"},
                                                                       {"max_grad_norm", "clip"},
                                                                       {"warmup", "warmup_steps"},
                                                                       {"optim", "optimizer"}}) {
    const std::string answer = hint("pe-train", support::cat(R"({"train": {")", typed, R"(": 1}})"));
    BOOST_TEST(has(answer, "did you mean '" + meant + "'?"), typed << ": " << answer);
  }
  for (const auto& [typed, meant] : std::map<std::string, std::string>{{"d_model", "width"},
                                                                       {"n_layers", "layers"},
                                                                       {"num_heads", "heads"},
                                                                       {"n_kv_heads", "key_value_heads"},
                                                                       {"pe", "encoding"}}) {
    const std::string answer = hint("pe-train", support::cat(R"({"model": {")", typed, R"(": 1}})"));
    BOOST_TEST(has(answer, "did you mean '" + meant + "'?"), typed << ": " << answer);
  }
  BOOST_TEST(has(hint("pe-tokenize", R"({"vocab_size": 1})"), "vocabulary"));
}

BOOST_AUTO_TEST_CASE(numbers_that_pages_say_are_those_of_the_programs) {
  const Project project;
  const Json encodings = Json::parse(project.call_words({Project::program(), "list", "encodings", "--json"}).out);
  const std::size_t kinds = encodings.at("encodings").size();
  const std::string list = support::capture({stage("pe-evaluate"), "--list"}).out;
  const auto begin = list.find("protocols of perplexity");
  BOOST_REQUIRE(begin != std::string::npos);
  std::size_t protocols = 0;
  const std::vector<std::string> rest = support::split(list.substr(begin), '\n');
  for (std::size_t i = 1; i < rest.size() && rest[i].rfind("  ", 0) == 0; ++i) ++protocols;
  const std::map<std::string, std::size_t> true_numbers{{"encodings", kinds}, {"protocols", protocols}};
  std::size_t said = 0;
  for (const auto& entry : fs::recursive_directory_iterator(test::source_root())) {
    const std::string name = fs::relative(entry.path(), test::source_root()).string();
    if (entry.path().extension() != ".md" || name.rfind("build", 0) == 0 || name.rfind(".", 0) == 0) continue;
    if (name == "CHANGELOG.md" || name.rfind("doc/performance", 0) == 0) continue;  // numbers of their day
    const std::string page = support::read_file(entry.path());
    static const std::regex phrase(R"((\d+) (encodings|protocols)\b)");
    for (std::sregex_iterator it(page.begin(), page.end(), phrase), end; it != end; ++it) {
      if (std::stoul((*it)[1].str()) < 10) continue;  // "2 encodings" are some of them
      ++said;
      BOOST_TEST(std::stoul((*it)[1].str()) == true_numbers.at((*it)[2].str()), name << " says " << (*it)[0].str());
    }
  }
  BOOST_TEST(said >= 1u);
}

BOOST_AUTO_TEST_CASE(the_quickstart_is_small_and_its_tasks_are_those_that_pages_name) {
  const Project project("", "");
  fs::remove(project.root() / "configs");
  fs::create_directory_symlink(test::source_root() / "configs", project.root() / "configs");
  fs::create_directory(project.root() / "pipelines");
  fs::copy(test::source_root() / "pipelines/quickstart.yml", project.root() / "pipelines/quickstart.yml");
  const Answer plan = project.call_words({Project::program(), "plan", "pipelines/quickstart.yml", "--json"});
  BOOST_REQUIRE_MESSAGE(plan.code == 0, plan.err);
  const Json tasks = Json::parse(plan.out);
  BOOST_TEST(tasks.at("tasks").size() <= 30u);
  BOOST_TEST(tasks.at("cost").at("training_tokens").get<std::int64_t>() <= 3'000'000);  // more than two minutes allow
  std::string ids;
  for (const Json& task : tasks.at("tasks")) ids += task.at("id").get<std::string>() + "\n";
  for (const char* id :
       {"train[encoding=rope,seed=42]", "encoding=none", "encoding=alibi", "seed=44", "tokenize", "report"}) {
    BOOST_TEST(has(ids, id), id << " is not among\n" << ids);
  }
}

BOOST_AUTO_TEST_SUITE_END()
