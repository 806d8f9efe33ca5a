/// @file
/// Targets of fuzzing: readers of bytes from other programs. Each takes any bytes and must end in a value or an Error.
#pragma once

#include <string_view>

namespace pe::fuzz {

void read_yaml(std::string_view bytes);             ///< strict YAML, and every node's place and rendering
void read_pipeline_file(std::string_view bytes);    ///< a pipeline file, without its stages' descriptions
void expand_pipeline(std::string_view bytes);       ///< one that the stages of the grid expand, plan keys included
void read_manifest(std::string_view bytes);         ///< a collection's manifest
void read_artifact(std::string_view bytes);         ///< an HDF5 file of any kind
void read_results_file(std::string_view bytes);     ///< a packed file of results, unpacked and checked
void read_task(std::string_view bytes);             ///< a stage's task file
void read_json_lines(std::string_view bytes);       ///< documents of a .jsonl, with a filter
void read_text_file(std::string_view bytes);        ///< documents of a .txt, cut in every way
void read_gzip(std::string_view bytes);             ///< documents of a .jsonl.gz
void read_zstd(std::string_view bytes);             ///< documents of a .jsonl.zst
void read_parquet(std::string_view bytes);          ///< documents of a .parquet, with a filter
void read_sentencepiece(std::string_view bytes);    ///< a sentencepiece model, and words encoded by it
void read_byte_level(std::string_view bytes);       ///< the halves as vocab.json and merges.txt
void read_hub_answer(std::string_view bytes);       ///< a listing, a Link header, a lock, a list of addresses
void read_gguf(std::string_view bytes);             ///< a file of llama.cpp, and its tensors
void read_safetensors(std::string_view bytes);      ///< a file of weights, and the index of several
void read_tokenizer_json(std::string_view bytes);   ///< a tokenizer.json, and words encoded by it
void read_rope_parameters(std::string_view bytes);  ///< a config.json, its rotary frequencies and their encoding

void read_slurm_answer(std::string_view bytes);  ///< the output of Slurm's programs
void read_stage_events(std::string_view bytes);  ///< lines of a stage, as the journal keeps and the display shows them

}  // namespace pe::fuzz
