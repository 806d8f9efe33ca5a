#include "data/token_shards/tokenize.h"

#include <sched.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

#include "artifact/raw_text.h"
#include "artifact/token_shards.h"
#include "data/sources/length_histogram.h"
#include "data/token_shards/seen_texts.h"
#include "data/tokenizers/tokenizer.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/escaped.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/text.h"

namespace pe::data {

using artifact::RawTextReader;
using support::cat;
using support::with_commas;

void TokenizeConfig::describe(support::FieldVisitor& v) {
  TokenizerConfig::describe_fields(v, true);
  v.group("split", split, "Documents are split by the SHA-256 of their text.");
  v.choice("duplicates", duplicates, {{"drop", Duplicates::kDrop}, {"keep", Duplicates::kKeep}},
           "Documents with exactly the same text as an earlier one.");
  v.choice("utf8", utf8, {{"error", Utf8::kError}, {"replace", Utf8::kReplace}, {"skip", Utf8::kSkip}},
           "Documents that are not UTF-8: end the stage, replace invalid bytes by U+FFFD, or skip them.");
  v.field("min_tokens", min_tokens, "Leave out documents with fewer tokens, BOS not counted.",
          {.unit = "tokens", .min = 0});
  v.field("shard_tokens", shard_tokens, "Most tokens of a shard file; a longer document has a separate file.",
          {.unit = "tokens", .min = 1000, .max = 1LL << 31});
  v.field("workers", workers, "Threads that encode; auto: one a processor.", {.min = 1, .max = 1024, .hashed = false});
  v.field("check_roundtrip", check_roundtrip, "Decode every document and say how many do not come back byte for byte.",
          {.hashed = false});
}

namespace {

/// The cache is sound by the model's own description; this checks it on the first documents.
bool cache_agrees(const Tokenizer& tokenizer, RawTextReader& reader, support::Progress& progress) {
  CachedEncoder cached(tokenizer);
  if (!cached.caches()) return false;
  bool agrees = true;
  std::vector<std::int32_t> expected, found;
  RawTextReader::Document document;
  std::size_t bytes = 0;
  for (int i = 0; i < 64 && bytes < (1 << 20) && reader.next(document); ++i) {
    const std::string_view text = document.text.substr(0, 1 << 16);
    bytes += text.size();
    tokenizer.encode(text, expected);
    cached.encode(text, found);
    agrees = agrees && expected == found;
  }
  reader.rewind();
  if (!agrees)
    progress.warn("the word cache gives other ids than the tokenizer on the first documents; it is not used");
  return agrees;
}

struct Batch {
  std::uint64_t number = 0;
  std::vector<RawTextReader::Document> documents;
};

struct TokenBatch {
  struct Document {
    std::size_t first = 0, count = 0;  // of its ids
    std::uint32_t bytes = 0;
    std::uint64_t index = 0;
    std::uint64_t unknown = 0;  // of its ids
    TextHash hash{};
    artifact::Split split = artifact::Split::kTrain;
    bool dropped = false;  // by the UTF-8 policy, or for being empty
    bool broken_utf8 = false;
    bool roundtrip = true;
  };
  std::vector<Document> documents;
  std::vector<std::int32_t> ids;
  std::exception_ptr error;
};

/// Encodes batches on several threads; results come back by number.
class EncoderPool {
 public:
  EncoderPool(const Tokenizer& tokenizer, const TokenizeConfig& config, const SplitRule& rule, bool cache, int workers)
      : tokenizer_(tokenizer), config_(config), rule_(rule), cache_(cache) {
    try {
      for (int i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
    } catch (const std::system_error& error) {
      // The system allows no further thread: the running threads encode all batches.
      if (threads_.empty()) throw support::IoError(support::cat("cannot start a thread: ", error.what()));
    }
  }
  ~EncoderPool() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      queue_.clear();
    }
    ready_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void submit(Batch batch) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(batch));
    }
    ready_.notify_one();
  }

  TokenBatch take(std::uint64_t number) {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return results_.count(number) != 0; });
    TokenBatch result = std::move(results_.at(number));
    results_.erase(number);
    return result;
  }

 private:
  void work() {
    CachedEncoder encoder(tokenizer_);
    std::vector<std::int32_t> ids;
    while (true) {
      Batch batch;
      {
        std::unique_lock lock(mutex_);
        ready_.wait(lock, [&] { return ended_ || !queue_.empty(); });
        if (ended_) return;
        batch = std::move(queue_.front());
        queue_.pop_front();
      }
      TokenBatch result;
      try {
        encode(batch, encoder, ids, result);
      } catch (...) {
        result.error = std::current_exception();
      }
      {
        const std::lock_guard lock(mutex_);
        results_.emplace(batch.number, std::move(result));
      }
      done_.notify_one();
    }
  }

  void encode(const Batch& batch, CachedEncoder& encoder, std::vector<std::int32_t>& ids, TokenBatch& result) const {
    for (const RawTextReader::Document& from : batch.documents) {
      TokenBatch::Document to;
      to.index = from.index;
      to.first = result.ids.size();
      std::string mended;
      std::string_view text = from.text;
      if (const std::size_t at = support::find_invalid_utf8(text); at != std::string_view::npos) {
        if (config_.utf8 == TokenizeConfig::Utf8::kError) {
          throw support::ArtifactError(cat("document ", from.index, " of the raw text: byte ", at, " is not UTF-8"),
                                       "utf8: replace or skip says what to do with such documents");
        }
        to.broken_utf8 = true;
        mended = support::replace_invalid_utf8(text);
        text = mended;
      }
      if (text.size() > std::numeric_limits<std::uint32_t>::max()) {
        throw support::ArtifactError(
            cat("document ", from.index, " of the raw text has ", text.size(), " bytes, more than 4 GiB"));
      }
      to.dropped = text.empty() || (to.broken_utf8 && config_.utf8 == TokenizeConfig::Utf8::kSkip);
      if (!to.dropped) {
        to.bytes = static_cast<std::uint32_t>(text.size());
        to.hash = hash_of(text);
        to.split = rule_.of(to.hash, from.source);
        if (cache_) {
          encoder.encode(text, ids);
        } else {
          tokenizer_.encode(text, ids);
        }
        if (tokenizer_.bos_id() >= 0) result.ids.push_back(static_cast<std::int32_t>(tokenizer_.bos_id()));
        result.ids.insert(result.ids.end(), ids.begin(), ids.end());
        if (tokenizer_.unk_id() >= 0) {
          to.unknown = static_cast<std::uint64_t>(
              std::count(ids.begin(), ids.end(), static_cast<std::int32_t>(tokenizer_.unk_id())));
        }
        if (config_.check_roundtrip) to.roundtrip = tokenizer_.decode(ids) == text;
      }
      to.count = result.ids.size() - to.first;
      result.documents.push_back(to);
    }
  }

  const Tokenizer& tokenizer_;
  const TokenizeConfig& config_;
  const SplitRule& rule_;
  bool cache_;
  std::mutex mutex_;
  std::condition_variable ready_, done_;
  std::deque<Batch> queue_;
  std::map<std::uint64_t, TokenBatch> results_;
  bool ended_ = false;
  std::vector<std::thread> threads_;
};

int processors() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1U, std::thread::hardware_concurrency());
}

/// Reported, not stored.
struct Summary {
  LengthHistogram lengths;
  std::uint64_t not_back = 0;
  double took_s = 0, waited_s = 0;  ///< of it for the encoders
};

void report_speed(const Summary& summary, int workers, support::Progress& progress) {
  const double share = summary.waited_s / std::max(summary.took_s, 1e-9);
  progress.note(fmt::format("{} on {}; {} the bottleneck", support::short_duration(summary.took_s),
                            workers == 1 ? "one thread" : cat(workers, " threads"),
                            share > 0.5 ? "encoding is" : "reading and writing are"));
}

/// Does the rule of splits put documents there?
bool rule_has(const SplitConfig& rule, artifact::Split split) {
  switch (split) {
    case artifact::Split::kTrain:
      return rule.by_file() || rule.train > 0;
    case artifact::Split::kValidation:
      return rule.by_file() ? !rule.validation_files.empty() : rule.validation > 0;
    case artifact::Split::kTest:
      return rule.by_file() ? !rule.test_files.empty() : rule.test > 0;
  }
  return true;
}

void report(const artifact::DatasetTotals& totals, const TokenizeConfig& config, const Summary& summary,
            support::Progress& progress) {
  const auto number = [](std::uint64_t value) { return with_commas(static_cast<std::int64_t>(value)); };
  std::uint64_t tokens = 0, bytes = 0;
  for (const artifact::Split split : artifact::kAllSplits) {
    const artifact::SplitTotals& of = totals.splits[static_cast<std::size_t>(split)];
    progress.note(cat(artifact::split_name(split), ": ", number(of.documents), " documents, ", number(of.tokens),
                      " tokens, ", support::short_bytes(static_cast<double>(of.bytes))));
    if (of.documents == 0 && rule_has(config.split, split))
      progress.warn(cat("split ", artifact::split_name(split), " is empty: there are too few documents"));
    tokens += of.tokens;
    bytes += of.bytes;
  }
  if (tokens > 0)
    progress.note(fmt::format("{:.3f} bytes per token", static_cast<double>(bytes) / static_cast<double>(tokens)));
  if (totals.duplicates > 0) progress.note(cat(number(totals.duplicates), " exact duplicates were left out"));
  if (totals.empty > 0) progress.note(cat(number(totals.empty), " empty documents were left out"));
  if (totals.too_short > 0)
    progress.note(cat(number(totals.too_short), " documents under ", config.min_tokens, " tokens were left out"));
  if (totals.invalid_utf8 > 0) {
    progress.warn(cat(number(totals.invalid_utf8), " documents were not UTF-8 and were ",
                      config.utf8 == TokenizeConfig::Utf8::kSkip ? "left out" : "repaired with U+FFFD"));
  }
  if (totals.unknown_tokens > 0) {
    progress.warn(
        fmt::format("{} tokens ({:.2f} %) are unknown to the tokenizer; bits per byte count their text as nothing",
                    number(totals.unknown_tokens),
                    100.0 * static_cast<double>(totals.unknown_tokens) / static_cast<double>(tokens)));
  }
  progress.note(cat("tokens per document, at most: ", summary.lengths.shares()));
  if (config.check_roundtrip)
    progress.note(cat(number(summary.not_back), " documents do not come back byte for byte when decoded"));
}

std::unique_ptr<Tokenizer> open_tokenizer(const TokenizeConfig& config, const SplitRule& rule,
                                          artifact::Workspace& workspace, RawTextReader& reader) {
  const bool given = config.tokenizer == TokenizerConfig::Tokenizer::kInput;
  if (given && !workspace.has_input("tokenizer")) {
    throw support::ConfigError("tokenizer: input needs an input 'tokenizer'", {},
                               "needs: {tokenizer: STAGE}, of a stage that runs pe-make-tokenizer");
  }
  if (!given && workspace.has_input("tokenizer")) {
    throw support::ConfigError("the stage has an input 'tokenizer', but its config asks for another", {},
                               "set tokenizer: input");
  }
  if (!given) return choose_tokenizer(config, rule, &reader, *workspace.progress);
  const artifact::Input& input = workspace.input("tokenizer");
  auto tokenizer = make_tokenizer(artifact::read_tokenizer(input.path), input.path.string());
  warn_of_normaliser(*tokenizer, *workspace.progress);
  return tokenizer;
}

/// Writes the documents that are kept, in the order of the raw text, and counts the others.
class KeptDocuments {
 public:
  KeptDocuments(const TokenizeConfig& config, const Tokenizer& tokenizer, std::uint64_t documents,
                artifact::TokenShardsWriter& writer, Summary& summary, support::Progress& progress)
      : config_(config),
        documents_(documents),
        marks_(tokenizer.bos_id() >= 0 ? 1 : 0),
        drops_(config.duplicates == TokenizeConfig::Duplicates::kDrop),
        writer_(writer),
        summary_(summary),
        progress_(progress),
        seen_(drops_ ? documents : 0) {
    if (drops_ && SeenTexts::memory(documents) > (64 << 20)) {
      progress.note(cat("looking for duplicates takes ",
                        support::short_bytes(static_cast<double>(SeenTexts::memory(documents))), " of memory"));
    }
  }

  void write(const TokenBatch& batch) {
    for (const TokenBatch::Document& document : batch.documents) {
      ++totals_.read;
      if (document.broken_utf8) ++totals_.invalid_utf8;
      if (document.dropped) {
        if (!document.broken_utf8) ++totals_.empty;
        continue;
      }
      if (drops_ && !seen_.insert(document.hash)) {
        ++totals_.duplicates;
        continue;
      }
      if (document.count < static_cast<std::size_t>(config_.min_tokens) + marks_) {
        ++totals_.too_short;
        continue;
      }
      if (!document.roundtrip) ++summary_.not_back;
      writer_.add(document.split, batch.ids.data() + document.first, document.count, document.bytes, document.index);
      samples_[static_cast<std::size_t>(document.split)].add(hash_word(document.hash, 16));
      totals_.unknown_tokens += document.unknown;
      summary_.lengths.add(document.count);
      bytes_ += document.bytes;
      tokens_ += document.count;
    }
    const double speed = static_cast<double>(bytes_) / 1e6 / std::max(support::steady_s() - started_, 1e-9);
    progress_.advance("documents", static_cast<std::int64_t>(totals_.read), static_cast<std::int64_t>(documents_),
                      {{"tokens", tokens_}, {"megabytes_per_second", speed}});
  }

  artifact::DatasetTotals& totals() { return totals_; }  ///< the writer completes them
  std::uint64_t tokens() const { return tokens_; }
  artifact::SplitRecord splits(const SplitRule& rule) {
    return {.rule = rule.describe(), .documents = std::move(samples_)};
  }

 private:
  const TokenizeConfig& config_;
  std::uint64_t documents_;  ///< of the raw text
  std::size_t marks_;        ///< tokens before each document
  bool drops_;
  artifact::TokenShardsWriter& writer_;
  Summary& summary_;
  support::Progress& progress_;
  SeenTexts seen_;
  artifact::DatasetTotals totals_;
  decltype(artifact::SplitRecord::documents) samples_;
  std::uint64_t bytes_ = 0, tokens_ = 0;
  double started_ = support::steady_s();
};

/// Up to 256 documents or about a megabyte; an empty batch at the end.
Batch next_batch(RawTextReader& reader, bool& more) {
  Batch batch;
  std::size_t bytes = 0;
  RawTextReader::Document document;
  while (batch.documents.size() < 256 && bytes < (1 << 20) && (more = reader.next(document))) {
    bytes += document.text.size();
    batch.documents.push_back(std::move(document));
  }
  return batch;
}

/// Gives `write` all documents, encoded and in order. @throws support::Stopped
void encode_all(RawTextReader& reader, EncoderPool& pool, int workers, Summary& summary,
                const std::function<void(const TokenBatch&)>& write) {
  // Batches in flight are bounded, so a slow early one cannot make the others pile up.
  const std::uint64_t most_in_flight = 2 * static_cast<std::uint64_t>(workers) + 4;
  std::uint64_t submitted = 0, written = 0;
  bool more = true;
  while (more || written < submitted) {
    if (support::stop_requested()) throw support::StopRequest(false);
    while (more && submitted - written < most_in_flight) {
      Batch batch = next_batch(reader, more);
      if (batch.documents.empty()) break;
      batch.number = submitted++;
      pool.submit(std::move(batch));
    }
    if (written == submitted) continue;
    const double waiting = support::steady_s();
    const TokenBatch result = pool.take(written++);
    summary.waited_s += support::steady_s() - waiting;
    if (result.error) std::rethrow_exception(result.error);
    write(result);
  }
}

}  // namespace

void tokenize(const TokenizeConfig& config, artifact::Workspace& workspace) {
  support::Progress& progress = *workspace.progress;
  RawTextReader reader(workspace.input("raw").path);
  const SplitRule rule(config.split);
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(config, rule, workspace, reader);
  if (tokenizer->bos_id() < 0) progress.warn("the model has no BOS; documents follow each other without a mark");

  const int workers = config.workers ? static_cast<int>(*config.workers) : processors();
  EncoderPool pool(*tokenizer, config, rule, cache_agrees(*tokenizer, reader, progress), workers);
  artifact::TokenShardsWriter writer(workspace.output("data"), workspace.recipe, tokenizer->record(),
                                     static_cast<std::uint64_t>(config.shard_tokens));
  Summary summary;
  KeptDocuments kept(config, *tokenizer, reader.documents(), writer, summary, progress);
  const double started = support::steady_s();
  encode_all(reader, pool, workers, summary, [&](const TokenBatch& batch) { kept.write(batch); });
  if (kept.tokens() == 0) throw support::ArtifactError("the raw text holds no document that can be kept");
  rule.require_all_matched();
  summary.took_s = support::steady_s() - started;
  writer.set_splits(kept.splits(rule));
  writer.finish(kept.totals());
  report(kept.totals(), config, summary, progress);
  report_speed(summary, workers, progress);
}

}  // namespace pe::data
