// The only source that sees sentencepiece's headers.
#include <dlfcn.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <iostream>

#include "sentencepiece/plugin.h"

namespace pe::sentencepiece_plugin {

namespace {

std::string problem_of(const sentencepiece::util::Status& status) { return status.ok() ? "" : status.ToString(); }

class LoadedModel final : public Model {
 public:
  std::string load(std::string_view model) {
    return problem_of(processor_.LoadFromSerializedProto({model.data(), model.size()}));
  }
  int size() const override { return processor_.GetPieceSize(); }
  int bos_id() const override { return processor_.bos_id(); }
  int eos_id() const override { return processor_.eos_id(); }
  int pad_id() const override { return processor_.pad_id(); }
  int unk_id() const override { return processor_.unk_id(); }
  std::string encode(std::string_view text, std::vector<int>& ids) const override {
    return problem_of(processor_.Encode({text.data(), text.size()}, &ids));
  }
  std::string decode(const std::vector<int>& ids, std::string& text) const override {
    return problem_of(processor_.Decode(ids, &text));
  }

 private:
  sentencepiece::SentencePieceProcessor processor_;
};

class Texts final : public sentencepiece::SentenceIterator {
 public:
  explicit Texts(const std::function<bool(std::string&)>& next) : next_(next) { Next(); }
  bool done() const override { return ended_; }
  void Next() override { ended_ = !next_(text_); }
  const std::string& value() const override { return text_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::function<bool(std::string&)>& next_;
  std::string text_;
  bool ended_ = false;
};

std::unique_ptr<Model> load(std::string_view model, std::string& problem) {
  auto loaded = std::make_unique<LoadedModel>();
  problem = loaded->load(model);
  if (!problem.empty()) return nullptr;
  return loaded;
}

std::string train(const std::unordered_map<std::string, std::string>& settings,
                  const std::function<bool(std::string&)>& next, std::string& model) {
  Texts texts(next);
  return problem_of(sentencepiece::SentencePieceTrainer::Train(settings, &texts, &model));
}

/// A program that names std::cerr holds a copy of it. This plug-in and the library see libstdc++'s own, which is then
/// not constructed; a message of the library would crash.
void construct_stream(std::ostream& own, const char* symbol) {
  auto* of_program = static_cast<std::ostream*>(dlsym(RTLD_DEFAULT, symbol));
  if (of_program != nullptr && of_program != &own) new (&own) std::ostream(of_program->rdbuf());
}

constexpr Table kTable{.load = load, .train = train};

}  // namespace

extern "C" __attribute__((visibility("default"))) const Table* pe_sentencepiece_table() {
  static const bool constructed =
      (construct_stream(std::cerr, "_ZSt4cerr"), construct_stream(std::cout, "_ZSt4cout"), true);
  return constructed ? &kTable : nullptr;
}

extern "C" __attribute__((visibility("default"))) const char* pe_sentencepiece_layout() {
  return PE_SENTENCEPIECE_LAYOUT;
}

}  // namespace pe::sentencepiece_plugin
