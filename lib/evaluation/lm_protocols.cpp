#include "evaluation/lm_protocols.h"

#include <iterator>

namespace pe::evaluation {

namespace {

// "S = 256" of YaRN's tables was run with one truncated window per document. ALiBi was measured with fairseq, which
// feeds the token before a block in front of it, and so does lm-evaluation-harness. L tokens are fed and L are
// predicted.
constexpr LmProtocol kProtocols[] = {
    {.name = "prefix", .cut = Cut::kPrefix, .meaning = "the first L tokens of each document"},
    {.name = "blocks",
     .cut = Cut::kBlocks,
     .meaning = "windows of L that do not overlap; tokens beyond the longest context scored"},
    {.name = "sliding",
     .cut = Cut::kSliding,
     .meaning = "windows of L every `stride` tokens; the same tokens scored as in blocks"},
    {.name = "tail", .cut = Cut::kTail, .meaning = "the first L tokens, the last `targets` scored"},
    {.name = "position",
     .cut = Cut::kPosition,
     .meaning = "loss by position in the first tokens of the longest context"},
    {.name = "anchored",
     .cut = Cut::kAnchored,
     .bos = BosPolicy::kNone,
     .meaning = "the same targets at every L, with the L tokens that end with them: does more context help?"},
    {.name = "stream",
     .cut = Cut::kBlocks,
     .bos = BosPolicy::kNone,
     .text = TextKind::kStream,
     .meaning = "blocks of L of documents that are joined by the separator: tolerance of length, not use of it"},
    {.name = "yarn",
     .cut = Cut::kPrefix,
     .bos = BosPolicy::kEveryWindow,
     .window_mean = true,
     .meaning = "YaRN's tables 1 and 2, and LongRoPE's: prefixes, mean of window means"},
    {.name = "yarn_govreport",
     .cut = Cut::kSliding,
     .bos = BosPolicy::kEveryWindow,
     .stride = 256,
     .window_mean = true,
     .whole = true,
     .meaning = "YaRN on GovReport: whole documents, sliding by 256, mean of window means"},
    {.name = "alibi",
     .cut = Cut::kRolling,
     .bos = BosPolicy::kNone,
     .text = TextKind::kStream,
     .whole = true,
     .predicts_next = true,
     .meaning = "ALiBi's tables: a stream in blocks of L, each after the token before it"},
    {.name = "alibi_stride_1",
     .cut = Cut::kSliding,
     .bos = BosPolicy::kNone,
     .text = TextKind::kStream,
     .stride = 1,
     .whole = true,
     .predicts_next = true,
     .meaning = "ALiBi's sliding evaluation: each token of a stream from the L before it"},
    {.name = "dape",
     .cut = Cut::kTail,
     .bos = BosPolicy::kNone,
     .meaning = "DAPE: the last 256 tokens of a window of L"},
    {.name = "harness",
     .cut = Cut::kRolling,
     .bos = BosPolicy::kDocStart,
     .whole = true,
     .predicts_next = true,
     .meaning = "lm-evaluation-harness: whole documents, each token predicted once, L from L"},
    {.name = "seed_004",
     .cut = Cut::kSliding,
     .bos = BosPolicy::kNone,
     .text = TextKind::kBlankLineStream,
     .stride = kStrideHalf,
     .whole = true,
     .meaning = "a stream joined by blank lines, sliding by L/2, remainder dropped"},
};

}  // namespace

const std::vector<LmProtocol>& lm_protocols() {
  static const std::vector<LmProtocol> protocols(std::begin(kProtocols), std::end(kProtocols));
  return protocols;
}

bool follows(const LmProtocol& protocol) {
  return protocol.text == TextKind::kDocuments && !protocol.whole &&
         (protocol.cut == Cut::kBlocks || protocol.cut == Cut::kSliding);
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
