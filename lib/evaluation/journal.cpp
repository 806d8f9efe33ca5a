#include "evaluation/journal.h"

#include "support/files.h"
#include "support/parse_json.h"
#include "support/text.h"

namespace pe::evaluation {

Journal::Journal(std::filesystem::path path, std::string identity) : path_(std::move(path)) {
  std::string kept;
  if (std::filesystem::exists(path_)) {
    bool first = true;
    for (const std::string& line : support::split(support::read_file(path_), '\n')) {
      const Json entry = support::parse_json(line);
      if (!entry.is_object()) break;
      if (first) {
        if (entry.value("identity", "") != identity) break;
        first = false;
      } else {
        if (!entry.contains("item") || !entry.contains("rows")) break;
        items_[entry["item"].get<std::string>()] = schema::Rows::from_json(entry["rows"]);
      }
      kept += line + "\n";
    }
  }
  recovered_ = items_.size();
  if (kept.empty()) kept = Json{{"schema", "pe-evaluation-journal/2"}, {"identity", identity}}.dump() + "\n";
  support::write_file_atomically(path_, kept, /*durable=*/false);
}

const schema::Rows& Journal::item(const std::string& name, const std::function<schema::Rows()>& work) {
  auto found = items_.find(name);
  if (found == items_.end()) {
    if (support::stop_requested()) throw support::StopRequest(/*resumable=*/true);
    found = items_.emplace(name, work()).first;
    support::append_file(path_, Json{{"item", name}, {"rows", found->second.to_json()}}.dump() + "\n");
  }
  add(found->second);
  return found->second;
}

}  // namespace pe::evaluation
