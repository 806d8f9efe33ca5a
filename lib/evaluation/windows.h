/// @file
/// Which parts of a document a protocol feeds to the model, and which of their tokens it scores. Extents follow the
/// golden values: (n, L, S) = (10, 4, 2) gives [0,4) scored whole, [2,6) scored [4,6), [4,8) scored [6,8), …
#pragma once

#include <cstdint>
#include <vector>

namespace pe::evaluation {

/// How a document is cut for a context of L tokens.
enum class Protocol {
  kPrefix,   ///< Its first L tokens, once.
  kBlocks,   ///< [0, L), [L, 2L), …; the last, shorter one only when it has at least 32 tokens.
  kSliding,  ///< Windows of L every S tokens; each scores the tokens that no earlier window scored.
};

/// The text before a document.
enum class BosPolicy {
  kNone,         ///< nothing: the first token is never scored
  kDocStart,     ///< a separator before the document, part of its first window
  kEveryWindow,  ///< a separator before every window, which then holds L - 1 tokens of the document
};

const char* bos_policy_name(BosPolicy policy);

/// Tokens [begin, end) of a document are fed, of which [score_begin, score_end) are scored. The window's very first
/// token can only be scored after a separator, which this struct does not know.
struct Window {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t score_begin = 0;
  std::int64_t score_end = 0;

  bool operator==(const Window&) const = default;
};

constexpr std::int64_t kShortestBlock = 32;

/// The windows of a document of `n` tokens. @param stride of kSliding, in 1..length; ignored by the others.
/// @param shortest_block the shortest last block that is kept.
std::vector<Window> windows(Protocol protocol, std::int64_t n, std::int64_t length, std::int64_t stride,
                            std::int64_t shortest_block = kShortestBlock);

/// Sliding windows in the middle of a text: the first `from` tokens were scored by earlier windows. With `from` 0 they
/// equal kSliding. Every window is whole where the text has `length` tokens before it.
std::vector<Window> sliding_windows(std::int64_t n, std::int64_t length, std::int64_t stride, std::int64_t from);

/// Windows that each score `length` tokens from as many: a window holds one token more, the first of which has no score
/// and the last of which is not fed. They follow each other from token `from` on; the last one is moved back to be
/// whole. This is how lm-evaluation-harness rolls, and how fairseq cuts blocks of a stream.
std::vector<Window> rolling_windows(std::int64_t n, std::int64_t length, std::int64_t from = 1);

/// The first `length` tokens, of which the last `targets` are scored.
Window tail_window(std::int64_t n, std::int64_t length, std::int64_t targets);

/// Windows of `length` that score the `targets` tokens before `end`, which are the same for every length. One window
/// where it holds twice the targets; else several, each of which scores its second half at most.
std::vector<Window> anchored_windows(std::int64_t end, std::int64_t length, std::int64_t targets);

/// Up to `count` different ends in [longest, n], ascending: they depend on document `id`, not on the model.
std::vector<std::int64_t> anchors(std::int64_t id, std::int64_t n, std::int64_t longest, std::int64_t count);

/// Targets that a window of `length` can score with at least half of it before them: `wanted`, but no more than that
/// half.
std::int64_t targets_within(std::int64_t wanted, std::int64_t length);

/// The stride of kSliding where none is given: 256 from 1,024 tokens on, else a quarter of the length, at least 1.
std::int64_t default_stride(std::int64_t length);

}  // namespace pe::evaluation
