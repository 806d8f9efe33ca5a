/// @file
/// Pieces that are cut out of a text before its words are looked for, such as runs of spaces and `<tool_call>`.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace pe::data {

/// Lists of pieces. A later list is cut out of the text that the earlier lists leave.
using CutPieces = std::vector<std::vector<std::string>>;

class PieceCuts {
 public:
  struct Part {
    std::string_view text;
    bool is_piece = false;
  };

  PieceCuts() = default;
  /// Pieces are at least a byte.
  explicit PieceCuts(const CutPieces& lists);

  /// The parts of a text, in order and without empty ones. The leftmost piece is cut first, of several there the
  /// longest.
  class Reader {
   public:
    Reader(const PieceCuts& cuts, std::string_view text) : cuts_(cuts), rest_{{text, 0, false}} {}
    /// False at the end.
    bool next(Part& part);

   private:
    struct Rest {
      std::string_view text;
      std::size_t list = 0;  ///< the list that is cut out next
      bool is_piece = false;
    };
    const PieceCuts& cuts_;
    std::vector<Rest> rest_;  ///< the next one last
  };

 private:
  using List = std::unordered_map<char, std::vector<std::string>>;  // by the first byte, longest first

  /// The first piece of the list; empty where there is none.
  std::string_view find(std::size_t list, std::string_view text) const;

  std::vector<List> lists_;
};

}  // namespace pe::data
