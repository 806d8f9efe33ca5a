#include "evaluation/settings.h"

#include <algorithm>
#include <cmath>

namespace pe::evaluation {

void split_field(support::FieldVisitor& v, artifact::Split& split, const char* help) {
  using artifact::Split;
  v.choice("split", split, {{"train", Split::kTrain}, {"validation", Split::kValidation}, {"test", Split::kTest}},
           help);
}

const char* beyond_name(Beyond beyond) {
  switch (beyond) {
    case Beyond::kReportNa:
      return "report_na";
    case Beyond::kClamp:
      return "clamp";
    case Beyond::kUntrained:
      return "untrained";
    case Beyond::kInterpolate:
      return "interpolate";
  }
  return "";
}

void Settings::describe(support::FieldVisitor& v) {
  v.field("lengths", lengths, "Contexts as multiples of the training length.", {.min = 0.01, .max = 1024});
  v.field("context", context, "Contexts in tokens, separator included; where given, instead of `lengths`.",
          {.unit = "tokens", .min = 2});
  split_field(v, split, "Documents that are tested.");
  v.field("documents", documents,
          "Documents to test: the first ones by the hash of their text that hold the longest context.",
          {.unit = "documents", .min = 1});
  v.field("min_documents", min_documents, "A context is skipped if fewer documents have its length.",
          {.unit = "documents", .min = 1});
  v.field("document_tokens", document_tokens,
          "Documents are cut to this length; 0 cuts at the longest context, for blocks and sliding at twice of it, and "
          "it may not be "
          "less.",
          {.unit = "tokens", .min = 0});
  v.choice("bos", bos,
           {{"none", BosPolicy::kNone}, {"doc_start", BosPolicy::kDocStart}, {"every_window", BosPolicy::kEveryWindow}},
           "Place of a separator: nowhere, before a document, or before every window.");
  v.choice("beyond", beyond,
           {{"report_na", Beyond::kReportNa},
            {"clamp", Beyond::kClamp},
            {"untrained", Beyond::kUntrained},
            {"interpolate", Beyond::kInterpolate}},
           "Treatment of lengths beyond the positions of a bounded encoding.");
  v.field("draws", draws, "Draws over which an encoding that draws is averaged.", {.min = 1, .max = 1000});
  v.field("batch_tokens", batch_tokens, "Tokens of a forward pass, at least one sequence.",
          {.unit = "tokens", .min = 1});
  v.check(!lengths.empty() || !context.empty(), "either `lengths` or `context` must name a length");
}

std::vector<std::int64_t> Settings::contexts(std::int64_t train_length) const {
  std::vector<std::int64_t> result = context;
  if (result.empty()) {
    for (double multiple : lengths) {
      result.push_back(std::llround(multiple * static_cast<double>(train_length)));
    }
  }
  for (std::int64_t& length : result) length = std::max<std::int64_t>(2, length);
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

}  // namespace pe::evaluation
