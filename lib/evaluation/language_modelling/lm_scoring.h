/// @file
/// Losses of documents under several protocols and context lengths in one go: the windows that they need, each fed
/// once, and the sums of every protocol.
#pragma once

#include <cstdint>
#include <vector>

#include "evaluation/documents.h"
#include "evaluation/lm_protocols.h"
#include "evaluation/scorer.h"
#include "evaluation/text_codec.h"
#include "evaluation/windows.h"
#include "schema/language_modelling.h"

namespace pe::evaluation {

/// One protocol at one context length.
struct LmSetting {
  const LmProtocol* protocol = nullptr;
  std::int64_t length = 0;  ///< tokens, separator included
  std::int64_t stride = 0;  ///< `length` where windows do not overlap
  BosPolicy bos = BosPolicy::kNone;
};

/// How texts are cut, the same for all settings.
struct LmCutting {
  std::int64_t longest = 0;      ///< Context, tokens.
  std::int64_t cut = 0;          ///< Tokens of a text, separator included; protocols that read whole texts ignore it.
  std::int64_t targets = 256;    ///< Tokens that tail and anchored score.
  std::int64_t min_context = 0;  ///< Context that sliding needs before a token.
  bool common = true;  ///< blocks and sliding score tokens beyond the longest context alone, the same at every length
  bool words = false;  ///< words are counted too
};

/// Sums of one setting over one document: its row of the table, and sums that only the journal sees.
struct LmSums : schema::LmDocument {
  static constexpr const char* kName = "perplexity.sums";
  double context = 0;  ///< over scored tokens: tokens before it in its window, separator included
  std::int64_t windows = 0;
  double window_means = 0;  ///< over windows: mean loss of its scored tokens
  std::int64_t words = 0;   ///< -1: unknown

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    schema::LmDocument::columns(row, column);
    column("context", row.context, "tokens", "sum over scored tokens");
    column("windows", row.windows, "", "windows");
    column("window_means", row.window_means, "nats", "sum over windows");
    column("words", row.words, "words", "words that end with a scored token");
  }
};

struct LmScores {
  std::vector<std::vector<LmSums>> sums;         ///< [document][setting]; zeros under Cut::kPosition
  std::vector<std::vector<double>> by_position;  ///< [document][position in the window], nats; position 0 has no loss
};

/// Windows of a text of `n` tokens, `history` of which belong to the piece before it and are scored there.
std::vector<Window> windows_of(const LmSetting& setting, const LmCutting& cutting, std::int64_t document,
                               std::int64_t n, std::int64_t history);

struct LmModel {
  Scorer& scorer;
  const TextCodec& text;
  std::int64_t draws = 1;
  ScoringWatch watch = {};
};

/// @param ids documents of `source`. @param first place of the first one among all documents: draws depend on it.
LmScores score_documents(const LmModel& model, const DocumentSource& source, const std::vector<LmSetting>& settings,
                         const LmCutting& cutting, const std::vector<std::int64_t>& ids, std::int64_t first);

}  // namespace pe::evaluation
