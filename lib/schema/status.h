/// @file
/// Words of the columns `status`.
#pragma once

namespace pe::schema::status {

inline constexpr const char* kOk = "ok";
inline constexpr const char* kPositions = "na_positions";    ///< the length is beyond the encoding's positions
inline constexpr const char* kOverflow = "overflow";         ///< perplexity above 1e4, or not finite
inline constexpr const char* kSkipped = "skipped_docs";      ///< too few documents are long enough
inline constexpr const char* kLength = "na_length";          ///< the length cannot hold the task's shortest item
inline constexpr const char* kVocabulary = "na_vocabulary";  ///< the tokenizer has too few distinct pieces
inline constexpr const char* kNone = "none";                 ///< there is no such length or position
inline constexpr const char* kUncovered = "na_uncovered";    ///< lengths that the number needs were not tested
inline constexpr const char* kMeasure = "na_measure";        ///< the task has no such score
inline constexpr const char* kNotAcquired =
    "not_acquired";  ///< below one half at the training length: nothing to compare with
inline constexpr const char* kSeparator = "na_separator";  ///< the data has no separator
inline constexpr const char* kReference = "na_reference";  ///< no other model was given, or it cannot say
inline constexpr const char* kEncoding = "na_encoding";    ///< the model's encoding has no such form

}  // namespace pe::schema::status
