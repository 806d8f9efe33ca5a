// pe-report: tables, figures and one self-contained page that compare models.
//
// What is gathered arrives with labels, which are content of a report; so pe-pipeline writes them into this stage's
// config, where they are hashed:
//
//     title     text            the pipeline's title
//     labels    list of text    one per artifact that is gathered, in order: "scores from=decay,encoding=rope,seed=42",
//                               "curves stage=decay,encoding=rope,seed=42"
//     missing   list of text    results to list as absent: "scores encoding=rope,seed=43: the training failed"
//
// In a partial gather the labels that no input carries are listed as missing, with the reason from the task's document.
//
// Run by hand, it takes labels from the inputs, or else encoding and seed from the tables themselves.
#include "report/report.h"
#include "stage/stage_main.h"

using pe::artifact::Kind;

int main(int argc, char** argv) {
  return pe::stage::run<pe::report::ReportConfig>(
      argc, argv,
      {.name = "report",
       .version = 4,   // 3: claims are two tables, verdicts and claims; 4: no empty panels of perplexity
       .summary = "Compare models in tables, figures and one self-contained page.",
       .inputs = {{.name = "scores", .kind = Kind::kEvalTable, .many = true, .optional = true},
                  {.name = "curves", .kind = Kind::kMetrics, .many = true, .optional = true}},
       .outputs = {{"report", Kind::kReport}},
       .epilogue = "Needs gnuplot (gnuplot-nox) and rsvg-convert (librsvg2-bin).",
       .takes_labels = true},
      pe::report::write_report);
}
