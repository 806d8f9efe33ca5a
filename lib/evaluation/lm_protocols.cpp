#include "evaluation/lm_protocols.h"

namespace pe::evaluation {

const std::vector<LmProtocol>& lm_protocols() {
  // Sources of the published ones: E 1.1. "S = 256" of YaRN's tables was run with one truncated window a document.
  static const std::vector<LmProtocol> protocols = {
      {.name = "prefix", .cut = Cut::kPrefix, .meaning = "the first L tokens of each document"},
      {.name = "blocks", .cut = Cut::kBlocks, .meaning = "windows of L that do not overlap; a last one of 32 tokens counts"},
      {.name = "sliding", .cut = Cut::kSliding, .meaning = "windows of L every `stride` tokens, new tokens scored"},
      {.name = "tail", .cut = Cut::kTail, .meaning = "the first L tokens, the last `targets` scored"},
      {.name = "position", .cut = Cut::kPosition, .meaning = "loss by position in the first tokens of the longest context"},
      {.name = "anchored", .cut = Cut::kAnchored, .bos = BosPolicy::kNone,
       .meaning = "the same targets at every L, with the L tokens that end with them: does more context help?"},
      {.name = "stream", .cut = Cut::kBlocks, .bos = BosPolicy::kNone, .text = TextKind::kStream,
       .meaning = "blocks of L of documents that are joined by the separator: tolerance of length, not use of it"},
      {.name = "yarn", .cut = Cut::kPrefix, .bos = BosPolicy::kEveryWindow, .window_mean = true,
       .meaning = "YaRN's tables 1 and 2, and LongRoPE's: prefixes, mean of window means"},
      {.name = "yarn_govreport", .cut = Cut::kSliding, .bos = BosPolicy::kEveryWindow, .stride = 256, .window_mean = true,
       .meaning = "YaRN on GovReport: sliding by 256, mean of window means"},
      {.name = "alibi", .cut = Cut::kBlocks, .bos = BosPolicy::kNone, .text = TextKind::kStream,
       .meaning = "ALiBi's tables: blocks of a stream"},
      {.name = "alibi_stride_1", .cut = Cut::kSliding, .bos = BosPolicy::kNone, .text = TextKind::kStream, .stride = 1,
       .meaning = "ALiBi's sliding evaluation: one new token a window"},
      {.name = "dape", .cut = Cut::kTail, .bos = BosPolicy::kNone, .meaning = "DAPE: the last 256 tokens of a window of L"},
      {.name = "harness", .cut = Cut::kRolling, .bos = BosPolicy::kDocStart,
       .meaning = "lm-evaluation-harness: rolling windows, each token predicted once"},
      {.name = "seed_004", .cut = Cut::kSliding, .bos = BosPolicy::kNone, .text = TextKind::kBlankLineStream,
       .stride = kStrideHalf, .meaning = "a stream joined by blank lines, sliding by L/2, remainder dropped"},
  };
  return protocols;
}

const LmProtocol* find_lm_protocol(const std::string& name) {
  for (const LmProtocol& protocol : lm_protocols()) {
    if (name == protocol.name) return &protocol;
  }
  return nullptr;
}

std::vector<std::string> lm_protocol_names() {
  std::vector<std::string> names;
  for (const LmProtocol& protocol : lm_protocols()) names.emplace_back(protocol.name);
  return names;
}

}  // namespace pe::evaluation
