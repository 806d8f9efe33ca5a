// Cost of a report: of the quickstart's size, of a grid with 900 tasks, of 10,000 evaluations, and the time until its
// page is seen.
//
//     report WORK-FOLDER [quickstart|grid|evaluations|page]
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <string>

#include "report/page/report.h"
#include "report/sample_results.h"
#include "support/files.h"
#include "support/process.h"

using namespace pe;
using namespace pe::report;

namespace {

using Clock = std::chrono::steady_clock;

struct Study {
  const char* name;
  sample::Options options;
  std::vector<std::string> sizes{""};  // of models: one more axis
  double goal_s, goal_mb;
};

std::vector<std::string> names(int count) {
  std::vector<std::string> list{"none", "rope", "alibi", "sinusoidal"};
  for (int i = 4; i < count; ++i) list.push_back(fmt::format("encoding{}", i));
  list.resize(static_cast<std::size_t>(count));
  return list;
}

artifact::Workspace inputs_of(const std::filesystem::path& folder, const Study& study) {
  artifact::Workspace all;
  all.progress = &support::silent_progress();
  for (const std::string& size : study.sizes) {
    const auto own = folder / (size.empty() ? "inputs" : size);
    std::filesystem::create_directories(own);
    const artifact::Workspace part = sample::write_inputs(own, study.options);
    for (const auto& [role, inputs] : part.inputs) {
      for (artifact::Input input : inputs) {
        if (!size.empty()) input.labels["size"] = size;
        all.inputs[role].push_back(std::move(input));
      }
    }
  }
  return all;
}

double peak_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void measure(const std::filesystem::path& work, const Study& study) {
  const auto folder = work / study.name;
  std::filesystem::remove_all(folder);
  artifact::Workspace workspace = inputs_of(folder, study);
  workspace.outputs["report"] = folder / "report";
  const double before = peak_mb();
  const auto start = Clock::now();
  write_report({}, workspace);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  fmt::print(
      "{:<12} {:>6} evaluations, {:>5} training logs: {:7.2f} s (goal {:g}), peak {:.0f} MB, {:.0f} before{}; page "
      "{:.2f} MB\n",
      study.name, workspace.inputs["scores"].size(), workspace.inputs["curves"].size(), seconds, study.goal_s,
      peak_mb(), before, study.goal_mb > 0 ? fmt::format(" (goal {:g})", study.goal_mb) : std::string(),
      static_cast<double>(std::filesystem::file_size(folder / "report" / "report.html")) / 1e6);
}

/// How long a browser takes from the page's beginning until it shows something.
void first_paint(const std::filesystem::path& page, const std::filesystem::path& work) {
  if (!support::find_program("chromium")) {
    fmt::print("first paint: chromium is not installed\n");
    return;
  }
  std::string text = support::read_file(page);
  const std::string told =
      "<script>new PerformanceObserver(function (list) { document.body.setAttribute('data-paint', "
      "list.getEntries()[0].startTime); })"
      ".observe({type: 'paint', buffered: true});</script></body>";
  text.replace(text.rfind("</body>"), 7, told);
  support::write_file_atomically(work / "paint.html", text, false);
  std::vector<double> times;
  for (int i = 0; i < 7; ++i) {
    const auto shown = support::capture({"timeout", "120", "chromium", "--headless", "--no-sandbox", "--disable-gpu",
                                         "--disable-dev-shm-usage", "--virtual-time-budget=2000",
                                         "--user-data-dir=" + (work / "profile").string(), "--dump-dom",
                                         "file://" + (work / "paint.html").string()});
    const auto at = shown.out.find("data-paint=\"");
    if (at != std::string::npos) times.push_back(std::strtod(shown.out.c_str() + at + 12, nullptr));
  }
  if (times.empty()) {
    fmt::print("first paint: the browser reported none\n");
    return;
  }
  std::sort(times.begin(), times.end());
  fmt::print("first paint of that page: {:.0f} ms, median of {} (goal 200)\n", times[times.size() / 2], times.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') {
    fmt::print(stderr, "usage: report WORK-FOLDER [quickstart|grid|evaluations|page]\n");
    return 2;
  }
  const std::filesystem::path work = argv[1];
  const std::string only = argc > 2 ? argv[2] : "";
  const std::vector<Study> studies = {
      // pipelines/quickstart.yml: four encodings, three seeds.
      {.name = "quickstart",
       .options = {.encodings = names(4),
                   .seeds = {1, 2, 3},
                   .lengths = {128, 256, 512, 1024},
                   .documents = 100,
                   .configs = true},
       .goal_s = 1,
       .goal_mb = 0},
      // 10 encodings × 3 sizes × 2 seeds × (trunk, decay, drop, control), and the evaluations of the last three.
      {.name = "grid",
       .options = {.encodings = names(12),
                   .stages = {"decay", "drop", "nodrop"},
                   .seeds = {1, 2, 3, 4},
                   .lengths = {128, 256, 512, 1024},
                   .documents = 100,
                   .configs = true},
       .sizes = {"tiny", "small", "medium"},
       .goal_s = 5,
       .goal_mb = 500},
      {.name = "evaluations",
       .options = {.encodings = names(20),
                   .stages = {"decay", "drop"},
                   .seeds = {1, 2, 3, 4, 5},
                   .lengths = {128, 512},
                   .documents = 30,
                   .curves = false},
       .sizes =
           [] {
             std::vector<std::string> sizes;
             for (int i = 0; i < 51; ++i) sizes.push_back(fmt::format("budget{}", i));
             return sizes;
           }(),
       .goal_s = 20,
       .goal_mb = 0},
      {.name = "page",
       .options = {.encodings = names(5),
                   .seeds = {1, 2},
                   .lengths = {128, 256, 512, 1024},
                   .documents = 100,
                   .configs = true},
       .goal_s = 1,
       .goal_mb = 0}};
  for (const Study& study : studies) {
    if (!only.empty() && only != study.name) continue;
    measure(work, study);
    if (study.name == std::string("page")) first_paint(work / "page" / "report" / "report.html", work);
  }
  return 0;
}
