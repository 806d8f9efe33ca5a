#include "cli/tool_table.h"

#include <algorithm>

namespace pe::cli {

namespace {

ToolText score_text() {
  return {
      .program = "pe-score",
      .summary = "Write logits, weights, outputs and gradients of attention with a positional encoding.",
      .flags =
          {{.name = "--encoding",
            .type = "ENCODING",
            .help = "A name, or YAML such as {stack: [rope, {kind: ssmax}]}",
            .required = true},
           {.name = "--set", .type = "KEY=VALUE", .help = "An option of the encoding; may be repeated", .many = true},
           {.name = "--in",
            .type = "PATH",
            .help = "HDF5 with q [B,H,T,d_h], k and v [B,G,T,d_h] and other inputs of the encoding",
            .required = true},
           {.name = "--out", .type = "PATH", .help = "HDF5 to write", .required = true},
           {"--dtype", "TYPE", "Precision of q, k, v and x", "float64", {"float64", "float32", "bfloat16"}},
           {"--route",
            "ROUTE",
            "How the output is computed; logits and weights are always the definition's",
            "reference",
            {"reference", "fused", "chunked"}},
           {"--gradients", "", "Also write gradients of sum(output * grad_output); reads grad_output [B,H,T,d_h]"},
           {"--layer", "N", "The layer whose parameters are used, from 0", "0"},
           {"--layers", "N", "Layers of the model"},
           {"--train-length", "N", "Training length of the model; without it the length of q"},
           {"--pe-length", "N", "Length given to a length-dependent encoding"}},
      .epilogue = "doc/format-scores.md describes both files.\n",
      .exits =
          "0 done; 2 flags or encoding; 3 a dataset is missing or has the wrong shape; 70 an internal error; 73 the "
          "output cannot be created; 74 it cannot be written; 137 out of memory."};
}

ToolText export_text() {
  return {
      .program = "pe-export",
      .summary = "Write a model and its tokenizer for Hugging Face transformers or llama.cpp.",
      .flags = {{"--model", "PATH", "A checkpoint"},
                {"--tokenizer", "PATH", "The token shards that it was trained on, or their tokenizer"},
                {"--out", "PATH", "The folder to write, or a file NAME.gguf for llama.cpp; it must not exist"},
                {"--dtype", "TYPE", "Type of the weights", "float32", {"float32", "bfloat16", "float16"}},
                {"--weights", "NAME", "Which weights of the checkpoint", "model", {"model", "ema", "best"}},
                {"--length", "N", "The context that the config states; without it the training context"},
                {"--verify", "PATH", "Check an exported folder or GGUF file, and the numbers of its model"}},
      .epilogue =
          "A stock class is used where one computes the same: Qwen3, Llama or SmolLM3. Other models come with\n"
          "one file of code and need trust_remote_code. GGUF files are of architecture qwen3 or llama.\n"
          "doc/interop.md says which model becomes which.\n",
      .examples = {"pe-export --model model.h5 --tokenizer data --out exported",
                   "pe-export --model model.h5 --tokenizer data --out model.gguf", "pe-export --verify exported"},
      .exits =
          "0 done; 2 flags, or nothing there computes the same; 3 an input of the wrong kind or damaged, or a check "
          "of --verify failed; 70 an internal error; 73 the output exists or cannot be created; 74 it cannot be read "
          "or written; 137 out of memory."};
}

ToolText hub_text() {
  return {
      .program = "pe-hub",
      .summary = "Write the lock of a data set on the Hugging Face hub, or bring its files to this machine.",
      .flags = {{"--data", "NAME", "fineweb, fineweb-edu, tinystories, or owner/name; @REVISION may follow"},
                {"--urls", "FILE", "Lines '<sha256>  <url>', in place of a data set"},
                {.name = "--files",
                 .type = "GLOB",
                 .help = "Which files, such as 'sample/10BT/*.parquet'; may be repeated",
                 .many = true},
                {"--lock", "FILE", "The lock file: written by lock, read by fetch"},
                {"--max-shards", "N", "Lock at most this many files"},
                {"--max-bytes", "SIZE", "Lock files up to this total size, such as 20G; at least one file"},
                {"--dry-run", "", "Print what would be locked or downloaded; write and download nothing"},
                {"--offline", "", "Make no request; name the missing files (as HF_HUB_OFFLINE does)"},
                {"--verify", "", "Hash complete files again"},
                {"--parallel", "N", "Files to download at the same time", "4"}},
      .verbs = {"lock", "fetch"},
      .epilogue =
          "Downloads are stored by SHA-256 in $PE_DOWNLOADS, else in pe-pipeline/downloads of the cache folder; files\n"
          "in the Hugging Face cache are used in place. HF_ENDPOINT names a mirror; HF_TOKEN gives access to gated "
          "data sets.\n",
      .examples = {"pe-hub lock --data fineweb-edu --max-shards 2 --lock fetch.lock", "pe-hub fetch --lock fetch.lock",
                   "pe-hub fetch --lock fetch.lock --dry-run"},
      .exits =
          "0 done; 2 flags or lock; 3 a file does not exist or differs from the lock; 69 the network failed; 70 an "
          "internal error; 73 a file cannot be created; 74 it cannot be read or written; 130 stopped."};
}

ToolText data_text() {
  return {.program = "pe-data",
          .summary = "Print what raw text, a tokenizer, token shards, an eval-table or metrics hold.",
          .flags = {{.name = "--in",
                     .type = "PATH",
                     .help = "The artifact's folder, or a file in it",
                     .required = true,
                     .plain = true},
                    {"--documents", "N", "How many documents to show, from the first", "3"},
                    {"--characters", "N", "Most characters (or tokens) shown of each", "400"},
                    {"--split", "NAME", "The split to show, of token shards", "train", {"train", "validation", "test"}},
                    {"--table", "NAME", "The only table to show, of an eval-table or metrics, such as lm_summary"},
                    {"--rows", "N", "Most rows shown of a table: the first and the last", "40"},
                    {"--export-tokenizer", "FOLDER",
                     "Write the tokenizer's own files there: tokenizer.model, or vocab.json and merges.txt"}},
          .epilogue =
              "Of raw text and token shards it prints totals, lengths and the first documents; of an eval-table and\n"
              "metrics the tables, lm_summary first. Values that all rows share come before the columns.\n",
          .examples = {"pe-data store/…/data", "pe-data raw --documents 10", "pe-data scores.h5 --table lm_summary",
                       "pe-data tokenizer.h5 --export-tokenizer ."},
          .exits =
              "0 done; 2 flags; 3 an input of the wrong kind, or corrupt; 70 an internal error; 73 a file cannot be "
              "created; 74 it cannot be read or written."};
}

ToolText encodings_text() {
  return {.program = "pe-encodings",
          .summary = "Check an encoding, or write the pages of all, their pitfalls, or their golden vectors.",
          .flags = {{.name = "--encoding",
                     .type = "ENCODING",
                     .help = "The encoding to check, by name or as YAML",
                     .plain = true},
                    {"--out", "PATH",
                     "Folder of the pages (doc/encodings), or the file to write; without it to standard output"}},
          .verbs = {"check", "pages", "pitfalls", "golden"},
          .epilogue =
              "check takes seconds. It compares gradients with finite differences and all routes with the definition.\n"
              "pages needs gnuplot (gnuplot-nox) for figures with changed data.\n",
          .examples = {"pe-encodings check alibi", "pe-encodings pages --out doc/encodings",
                       "pe-encodings golden --out reports/golden/encodings.json", "pe-encodings pitfalls"},
          .exits =
              "0 done; 1 a check failed; 2 flags or encoding; 70 an internal error; 73 a file cannot be created; 74 it "
              "cannot be written; 137 out of memory."};
}

}  // namespace

const std::vector<ToolText>& tools() {
  static const std::vector<ToolText> table = {score_text(), export_text(), hub_text(), data_text(), encodings_text()};
  return table;
}

const ToolText* find_tool(const std::string& program) {
  const auto found =
      std::find_if(tools().begin(), tools().end(), [&](const ToolText& tool) { return tool.program == program; });
  return found == tools().end() ? nullptr : &*found;
}

}  // namespace pe::cli
