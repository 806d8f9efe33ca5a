#include "pipeline/expand/mistakes.h"

#include <utility>

#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::Diagnostics;
using support::Place;

void Mistakes::report(Diagnostics& local) {
  for (const support::Diagnostic& item : local.items()) {
    if (told_.size() > kMost) break;  // a longer list is not read
    if (!told_.insert(cat(item.place.str(), "\n", item.message)).second) continue;
    const std::size_t at = diagnostics_.size();
    diagnostics_.add(item.message, item.place, item.hint);
    for (const std::string& context : item.context) diagnostics_.add_context(context, at);
  }
  local = Diagnostics();
}

void Mistakes::report(std::string message, Place place, std::string hint) {
  Diagnostics local;
  local.add(std::move(message), std::move(place), std::move(hint));
  report(local);
}

}  // namespace pe::pipeline
