#include "evaluation/skipped_contexts.h"

#include "support/text.h"

namespace pe::evaluation {

using support::cat;
using support::with_commas;

void warn_of_skipped(const TaskContext& context, const std::string& task, const std::vector<SkippedContexts>& skipped,
                     std::int64_t least) {
  std::vector<std::string> left_out;
  for (const SkippedContexts& each : skipped) {
    std::vector<std::string> places;
    for (const auto& [length, held] : each.held) {
      // Units are named once.
      places.push_back(places.empty()
                           ? cat(with_commas(length), " tokens (", held, " ", each.text, held == 1 ? "" : "s",
                                 each.contexts == 2 ? " of twice as many tokens)" : ")")
                           : cat(with_commas(length), " (", held, ")"));
    }
    if (!places.empty())
      left_out.push_back(cat(each.subject, each.subject.empty() ? "" : " at ", support::join(places, ", ")));
  }
  if (left_out.empty()) return;
  const std::string split = context.documents.split();
  const std::int64_t all = context.documents.count();
  context.progress.warn(cat(task, ": too few ", split, " documents are long enough, and eval.min_documents asks for ",
                            least, "; left out: ", support::join(left_out, "; "), ". ",
                            all < least
                                ? cat("The ", split, " split has ", all, all == 1 ? " document" : " documents",
                                      ": a .txt file is one document, and text.document_bytes of pe-fetch divides it")
                                : cat("Lower eval.lengths, or use longer documents")));
}

}  // namespace pe::evaluation
