#include "report/results/drops.h"

#include <set>

namespace pe::report {
namespace {

bool has_encoding_axis(const Labels& labels) { return labels.count("encoding") != 0 || labels.count("pe") != 0; }

bool made_by(const Run& run, const Curve& curve) {
  const auto from = run.labels.find("from"), stage = curve.run.labels.find("stage");
  const bool other = from != run.labels.end() && stage != curve.run.labels.end() && from->second != stage->second;
  return !other && run.seed == curve.run.seed && without_makers(run.labels) == without_makers(curve.run.labels);
}

}  // namespace

std::string drop_arm(const Curve& curve) {
  if (!curve.config.is_object() || !curve.config.contains("drop") || !curve.config["drop"].is_object()) return "";
  return curve.config["drop"].value("arm", "");
}

Labels without_makers(Labels labels) {
  for (const char* maker : {"stage", "from", "snapshot"}) labels.erase(maker);
  return labels;
}

bool same_fork(const Curve& a, const Curve& b) {
  if (!a.parent.empty() && !b.parent.empty()) return a.parent == b.parent;
  return a.run.encoding == b.run.encoding && a.run.seed == b.run.seed && a.first_step == b.first_step;
}

void name_drops(Results& results) {
  std::vector<Curve*> named;
  for (Curve& drop : results.curves) {
    if (drop_arm(drop) != "drop" || drop.parent.empty() || has_encoding_axis(drop.run.labels)) continue;
    for (const Curve& control : results.curves) {
      if (drop_arm(control) != "nodrop" || control.parent != drop.parent) continue;
      drop.run.encoding = control.run.encoding;
      named.push_back(&drop);
      break;
    }
  }
  for (Run& run : results.runs) {
    if (has_encoding_axis(run.labels)) continue;
    std::set<std::string> names;
    for (const Curve* drop : named) {
      if (made_by(run, *drop)) names.insert(drop->run.encoding);
    }
    if (names.size() == 1) run.encoding = *names.begin();
  }
}

}  // namespace pe::report
