/// @file
/// The protocols of language modelling by name: protocols of this project and of published results, so that a number
/// can be compared with its source.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "evaluation/windows.h"

namespace pe::evaluation {

/// How a text is cut into windows.
enum class Cut { kPrefix, kBlocks, kSliding, kTail, kAnchored, kRolling, kPosition };

/// Texts that the windows are cut from.
enum class TextKind {
  kDocuments,
  kStream,           ///< held-out documents joined with the separator: tolerance of long inputs, not use of context
  kBlankLineStream,  ///< joined by a blank line, without separators
};

/// Stride of kSliding: tokens, or one of these.
constexpr std::int64_t kStrideAsConfigured = -1;
constexpr std::int64_t kStrideHalf = -2;

struct LmProtocol {
  const char* name;
  Cut cut;
  std::optional<BosPolicy> bos;  ///< absent: as `eval.bos` says
  TextKind text = TextKind::kDocuments;
  std::int64_t stride = kStrideAsConfigured;
  bool window_mean = false;  ///< the mean of the windows' means, as some sources average; else every token counts alike
  /// Documents are read to their end, and a stream is one text: windows reach back over the pieces that rows are made
  /// of.
  bool whole = false;
  /// A window of L tokens is fed and L tokens are predicted, the last of which follows it; else the last one fed is
  /// predicted.
  bool predicts_next = false;
  const char* meaning = "";  ///< one line for `--list`
};

/// Whether windows follow each other within a document, which takes documents of at least twice the context: in shorter
/// ones they would equal `prefix`.
bool follows(const LmProtocol& protocol);

const std::vector<LmProtocol>& lm_protocols();
const LmProtocol* find_lm_protocol(const std::string& name);  ///< null when there is none
std::vector<std::string> lm_protocol_names();

}  // namespace pe::evaluation
