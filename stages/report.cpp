// pe-report: tables, figures and one self-contained page that compare models.
//
// Inputs of a report have labels, which are content of the report. pe-pipeline therefore writes them into this stage's
// config, where they are hashed:
//
//     title     text            the pipeline's title
//     labels    list of text    one per gathered artifact, in order: "scores from=decay,encoding=rope,seed=42",
//                               "curves stage=decay,encoding=rope,seed=42"
//     missing   list of text    absent results: "scores encoding=rope,seed=43: the training failed"
//
// In a partial gather the labels that no input carries are listed as missing, with the reason from the task's document.
//
// Run by hand, it takes labels from the inputs, or else encoding and seed from the tables themselves.
#include <algorithm>
#include <cstdio>
#include <string_view>

#include "report/page/report.h"
#include "stage/stage_main.h"

using pe::artifact::Kind;

namespace {

std::vector<std::string> fallen;  // claims with a worse verdict than expected

void make_report(const pe::report::ReportConfig& config, pe::artifact::Workspace& workspace) {
  fallen = pe::report::write_report(config, workspace);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<char*> arguments(argv, argv + argc);
  const auto flag = std::find(arguments.begin(), arguments.end(), std::string_view("--check-claims"));
  const bool checks = flag != arguments.end();
  if (checks) arguments.erase(flag);
  const int code = pe::stage::run<pe::report::ReportConfig>(
      static_cast<int>(arguments.size()), arguments.data(),
      {.name = "report",
       .version = 33,
       .summary = "Compare models in tables, figures and one self-contained page.",
       .inputs = {{.name = "scores", .kind = Kind::kEvalTable, .many = true, .optional = true},
                  {.name = "curves", .kind = Kind::kMetrics, .many = true, .optional = true}},
       .outputs = {{"report", Kind::kReport}},
       .flags = {{"--check-claims", "End with 1 if a verdict is worse than expected"}},
       .takes_labels = true},
      make_report);
  if (!checks || code != 0 || fallen.empty()) return code;
  for (const std::string& claim : fallen) std::fprintf(stderr, "pe-report: %s\n", claim.c_str());
  return 1;
}
