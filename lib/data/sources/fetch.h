/// @file
/// `pe-fetch`: documents from files, or from our own grammar, as a raw-text artifact.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "artifact/workspace.h"
#include "support/config.h"

namespace pe::data {

struct FetchConfig {
  enum class Source { kLocal, kGenerated, kHub };
  enum class OnBad { kError, kSkip };
  enum class InvalidUtf8 { kBad, kReplace, kKeep };

  struct GeneratedText {
    std::int64_t seed = 1;
    std::int64_t words = 1'000'000;
    std::int64_t min_words = 50;
    std::int64_t max_words = 20'000;
    void describe(support::FieldVisitor& v);
  };
  struct Text {
    std::string separator;
    std::int64_t document_bytes = 0;
    bool lines = false;
    std::string column = "text";
    std::vector<std::string> filter;
    std::int64_t longest_document = 32 << 20;
    void describe(support::FieldVisitor& v);
  };

  Source source = Source::kLocal;
  std::vector<std::string> path;
  std::string lock;
  GeneratedText generated;
  Text text;
  OnBad on_bad = OnBad::kError;
  InvalidUtf8 invalid_utf8 = InvalidUtf8::kBad;
  std::int64_t max_documents = 0;
  std::int64_t max_bytes = 0;
  void describe(support::FieldVisitor& v);
};

/// Reads every document of the source and writes output `raw`.
void fetch(const FetchConfig& config, artifact::Workspace& workspace);

}  // namespace pe::data
