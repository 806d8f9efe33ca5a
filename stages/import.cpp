// pe-import: a model of Hugging Face transformers as a checkpoint and a tokenizer.
#include "interop/hf_import.h"
#include "kernels/explain.h"
#include "stage/stage_main.h"
using pe::artifact::Kind;

int main(int argc, char** argv) {
  return pe::stage::run<pe::interop::ImportConfig>(
      argc, argv,
      {.name = "import",
       .version = 2,
       .summary =
           "Read a Llama, Mistral, Qwen2, Qwen3, SmolLM3 or GPT-2 model and its tokenizer from a Hugging Face folder.",
       .outputs = {{"model", Kind::kCheckpoint}, {"tokenizer", Kind::kTokenizer}},
       .epilogue = "Weights are safetensors. pe-evaluate, pe-drop-pe, pe-extend and pe-tokenize take the results.\n",
       .explain = pe::kernels::explain},
      pe::interop::import_from_hf);
}
