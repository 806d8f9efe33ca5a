/// @file
/// The interface of the sentencepiece plug-in (`pe-sentencepiece.so`). libsentencepiece and LibTorch's libc10 both
/// export `FLAGS_minloglevel`, and the loader would bind them to one address. So programs load the library by this
/// plug-in, whose symbols stay private, and never link it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace pe::sentencepiece_plugin {

/// A model that the library has loaded. Functions are safe to call from several threads; those with a `problem` return
/// an empty text on success.
class Model {
 public:
  virtual ~Model() = default;
  virtual int size() const = 0;  ///< pieces
  virtual int bos_id() const = 0;
  virtual int eos_id() const = 0;
  virtual int pad_id() const = 0;
  virtual int unk_id() const = 0;
  virtual std::string encode(std::string_view text, std::vector<int>& ids) const = 0;
  virtual std::string decode(const std::vector<int>& ids, std::string& text) const = 0;
};

/// The functions of the plug-in; `pe_sentencepiece_table` returns them.
struct Table {
  /// @return nothing, with the library's reason in `problem`, for a model that it rejects
  std::unique_ptr<Model> (*load)(std::string_view model, std::string& problem);
  /// Trains on the texts that `next` yields until it returns false. @return an empty text, or the library's reason
  std::string (*train)(const std::unordered_map<std::string, std::string>& settings,
                       const std::function<bool(std::string& text)>& next, std::string& model);
};

}  // namespace pe::sentencepiece_plugin
