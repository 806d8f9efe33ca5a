#include "data/tokenizers/piece_cuts.h"

#include <algorithm>

namespace pe::data {

PieceCuts::PieceCuts(const CutPieces& lists) {
  for (const std::vector<std::string>& pieces : lists) {
    List& list = lists_.emplace_back();
    for (const std::string& piece : pieces) list[piece.at(0)].push_back(piece);
    for (auto& [first, same] : list) {
      std::stable_sort(same.begin(), same.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
    }
  }
}

std::string_view PieceCuts::find(std::size_t list, std::string_view text) const {
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto same = lists_[list].find(text[at]);
    if (same == lists_[list].end()) continue;
    const std::string_view from = text.substr(at);
    const auto found = std::find_if(same->second.begin(), same->second.end(),
                                    [&](const std::string& piece) { return from.starts_with(piece); });
    if (found != same->second.end()) return from.substr(0, found->size());
  }
  return {};
}

bool PieceCuts::Reader::next(Part& part) {
  while (!rest_.empty()) {
    const Rest first = rest_.back();
    rest_.pop_back();
    if (first.text.empty()) continue;
    if (first.is_piece || first.list == cuts_.lists_.size()) {
      part = {first.text, first.is_piece};
      return true;
    }
    const std::string_view piece = cuts_.find(first.list, first.text);
    if (piece.empty()) {
      rest_.push_back({first.text, first.list + 1, false});
      continue;
    }
    const std::size_t at = static_cast<std::size_t>(piece.data() - first.text.data());
    rest_.push_back({first.text.substr(at + piece.size()), first.list, false});
    rest_.push_back({piece, first.list, true});
    rest_.push_back({first.text.substr(0, at), first.list + 1, false});
  }
  return false;
}

}  // namespace pe::data
