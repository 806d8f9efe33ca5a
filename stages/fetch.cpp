// pe-fetch: documents from files or from our own grammar, as raw text.
#include "data/sources/fetch.h"
#include "revisions.h"
#include "stage/stage_main.h"
using pe::artifact::Kind;

int main(int argc, char** argv) {
  return pe::stage::run<pe::data::FetchConfig>(
      argc, argv,
      {.name = "fetch",
       .version = 2,
       .revisions = {pe::stages::kInvalidUtf8},
       .summary = "Read documents from files or a lock of the hub, or generate stories, and write raw text.",
       .outputs = {{"raw", Kind::kRawText}}},
      pe::data::fetch);
}
