/// @file
/// The vocabulary of an algorithmic task as a tokenizer: words separated by spaces, one id each. Its record names the
/// task with its options, so that the owner of a model and data can make further items of the same task.
#pragma once

#include <memory>
#include <string>

#include "data/tasks/algorithmic_task.h"
#include "data/tokenizers/tokenizer.h"

namespace pe::data {

constexpr const char* kSymbolTokenizer = "symbols";

/// The record of the tokenizer of a task, as a config names it.
artifact::TokenizerRecord symbol_tokenizer_record(const Json& task);

/// Makes it from `TokenizerRecord::model`. @throws ArtifactError; `where` names the artifact.
std::unique_ptr<Tokenizer> make_symbol_tokenizer(const std::string& model, const std::string& where);

/// The task that a record of kind `symbols` belongs to. @throws ArtifactError
Json task_of_tokenizer(const artifact::TokenizerRecord& record, const std::string& where);

}  // namespace pe::data
