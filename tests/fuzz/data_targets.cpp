// Readers of text, tokenizers and hubs: they need no pipeline, and so are built without it.
#include <unistd.h>

#include <stdexcept>

#include "data/hub/hub.h"
#include "data/sources/document_source.h"
#include "data/tokenizers/byte_level_bpe.h"
#include "data/tokenizers/sentencepiece_model.h"
#include "data/tokenizers/sentencepiece_words.h"
#include "data/tokenizers/tokenizer.h"
#include "fuzz/answers.h"
#include "fuzz/targets.h"

namespace pe::fuzz {

namespace {

void read_documents(std::string_view bytes, const std::string& ending, const data::TextOptions& options) {
  const std::string path = put(bytes, ending);
  expect_answer([&] {
    const auto source = data::make_file_source({{path, "fuzz" + ending}}, options);
    data::DocumentSource::Item item;
    for (auto outcome = source->next(item); outcome != data::DocumentSource::Outcome::kEnd;
         outcome = source->next(item)) {
      if (outcome != data::DocumentSource::Outcome::kDocument) continue;
      if (item.text.size() > static_cast<std::size_t>(options.longest_document))
        throw std::logic_error("a document is too long");
    }
  });
  ::unlink(path.c_str());
}

}  // namespace

void read_json_lines(std::string_view bytes) {
  read_documents(bytes, ".jsonl", {.filter = {"n >= 3"}, .longest_document = 1000});
}

void read_text_file(std::string_view bytes) {
  read_documents(bytes, ".txt", {.separator = "--", .longest_document = 60});
  read_documents(bytes, ".txt", {.document_bytes = 20, .longest_document = 60});
  read_documents(bytes, ".txt", {.lines = true, .longest_document = 10});
}

void read_gzip(std::string_view bytes) { read_documents(bytes, ".jsonl.gz", {}); }
void read_zstd(std::string_view bytes) { read_documents(bytes, ".jsonl.zst", {}); }

void read_parquet(std::string_view bytes) {
  read_documents(bytes, ".parquet", {});
  read_documents(bytes, ".parquet", {.filter = {"n >= 3"}});
}

void read_sentencepiece(std::string_view bytes) {
  expect_answer([&] {
    const data::ParsedModel model = data::parse_model(bytes, "fuzz.model");
    data::content_hash(model);
    std::vector<std::int32_t> ids;
    if (const auto words = data::SentencePieceWords::of(model)) words->encode(bytes, ids);
  });
  // The library reads every model that our own reader accepts; words that are remembered have its ids.
  expect_answer([&] {
    const auto tokenizer = data::make_sentencepiece(std::string(bytes), "fuzz.model");
    data::CachedEncoder cached(*tokenizer);
    std::vector<std::int32_t> expected, found;
    for (const std::string text : {"Hello  w\u00f6rld", " 12\n\u2581a b\tab abab \ufb01 \U0001F600", "</s>"}) {
      tokenizer->encode(text, expected);
      cached.encode(text, found);
      if (found != expected) throw std::logic_error("a word has other ids than the library gives");
      tokenizer->decode(found);
    }
  });
}

void read_byte_level(std::string_view bytes) {
  const std::size_t half = std::min(bytes.find("\n--\n"), bytes.size());
  expect_answer([&] {
    const std::string model = data::pack_byte_level(
        {std::string(bytes.substr(0, half)), std::string(bytes.substr(std::min(bytes.size(), half + 4)))}, "fuzz");
    const auto tokenizer = data::make_byte_level(model, "fuzz");
    if (tokenizer->decode(tokenizer->encode(bytes)) != bytes) throw std::logic_error("text did not come back");
  });
}

void read_hub_answer(std::string_view bytes) {
  expect_answer([&] { data::parse_listing(bytes, "fuzz"); });
  expect_answer([&] {
    const data::FetchLock lock = data::FetchLock::parse(bytes, "fuzz.lock");
    if (data::FetchLock::parse(lock.render(), "again").render() != lock.render())
      throw std::logic_error("a lock did not come back");
  });
  expect_answer([&] { data::parse_url_list(bytes, "fuzz.txt").render(); });
  data::next_page(std::string(bytes));
  data::HttpAnswer answer;
  answer.status = 429;
  answer.headers = {
      {"ratelimit", std::string(bytes)}, {"retry-after", std::string(bytes)}, {"x-error-message", std::string(bytes)}};
  data::wait_before(answer, 1, {});
  data::describe(answer);
}

}  // namespace pe::fuzz
