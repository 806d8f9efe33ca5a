#include "data/tokenizers/token_numbers.h"

#include <algorithm>

#include "data/tasks/algorithmic_task.h"
#include "data/tokenizers/byte_level_bpe.h"
#include "data/tokenizers/sentencepiece_model.h"
#include "data/tokenizers/symbol_tokenizer.h"
#include "data/tokenizers/tokenizer.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::data {

namespace {

using support::cat;
using Ids = std::span<const std::int64_t>;
using Numbers = std::vector<std::int64_t>;

/// The text of each id, the space before a word included; control ids have none.
std::vector<std::string> texts_of(const Tokenizer& tokenizer) {
  const std::string kind = tokenizer.record().kind;
  const bool spelled = kind != kByteLevelBpe && kind != "bytes";  // as the text itself, but for spaces and single bytes
  std::vector<std::string> texts;
  for (std::int64_t id = 0; id < tokenizer.vocabulary(); ++id) {
    std::string text;
    const bool control =
        id == tokenizer.bos_id() || id == tokenizer.eos_id() || id == tokenizer.pad_id() || id == tokenizer.unk_id();
    if (!control && !spelled) {
      const auto one = static_cast<std::int32_t>(id);
      text = tokenizer.decode({&one, 1});
    } else if (!control) {
      text = tokenizer.piece(id);
      if (text.size() == 6 && text.starts_with("<0x") && text.back() == '>') {
        text.assign(1, static_cast<char>(std::stoi(text.substr(3, 2), nullptr, 16)));
      }
      for (std::size_t at = 0; (at = text.find(kSpaceMark, at)) != std::string::npos;)
        text.replace(at, kSpaceMark.size(), " ");
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

TokenNumbers digits(const Tokenizer& tokenizer) {
  enum Kind : std::uint8_t { kOther, kDigit, kFirstDigit };  // the latter behind a space
  std::vector<Kind> kinds;
  for (const std::string& text : texts_of(tokenizer)) {
    const bool alone = text.size() == 1 && is_digit(text[0]);
    const bool behind_space = text.size() == 2 && text[0] == ' ' && is_digit(text[1]);
    kinds.push_back(alone ? kDigit : behind_space ? kFirstDigit : kOther);
  }
  return [kinds = std::move(kinds)](Ids ids) {
    Numbers numbers;
    std::int64_t place = 0;
    for (const std::int64_t id : ids) {
      const Kind kind = kinds.at(static_cast<std::size_t>(id));
      place = kind == kOther ? 0 : kind == kFirstDigit ? 1 : place + 1;
      numbers.push_back(place);
    }
    return numbers;
  };
}

TokenNumbers segments(const Tokenizer& tokenizer, const std::vector<std::string>& separators) {
  std::vector<bool> ends;
  for (const std::string& text : texts_of(tokenizer)) {
    ends.push_back(
        std::any_of(separators.begin(), separators.end(), [&](const std::string& end) { return text.ends_with(end); }));
  }
  return [ends = std::move(ends)](Ids ids) {
    Numbers numbers;
    std::int64_t place = 0, segment = 0;
    for (const std::int64_t id : ids) {
      numbers.push_back(place);
      numbers.push_back(segment);
      ++place;
      if (!ends.at(static_cast<std::size_t>(id))) continue;
      place = 0;
      ++segment;
    }
    return numbers;
  };
}

/// Places of an example, or of its beginning: the question is in [begin, separator), the answer in (separator, end).
/// Each is the number of ids where it has not come yet.
struct Parts {
  std::size_t begin = 0, separator = 0, end = 0;
};

std::size_t place_of(Ids ids, std::int64_t id, std::size_t from = 0) {
  return static_cast<std::size_t>(std::find(ids.begin() + static_cast<std::ptrdiff_t>(from), ids.end(), id) -
                                  ids.begin());
}

Parts parts_of(Ids ids) {
  Parts parts{.begin = !ids.empty() && ids[0] == kTaskBos ? 1U : 0U, .separator = place_of(ids, kTaskSep)};
  const auto ends = [](std::int64_t id) { return id == kTaskEos || id == kTaskPad; };
  parts.end = static_cast<std::size_t>(std::find_if(ids.begin(), ids.end(), ends) - ids.begin());
  parts.separator = std::min(parts.separator, parts.end);
  return parts;
}

/// Digits of one weight have one id. @param operator_id of the sign between the operands. @param reversed least
/// significant first.
Numbers coupled_addition(Ids ids, std::int64_t operator_id, bool reversed) {
  const Parts parts = parts_of(ids);
  const std::size_t sign = std::min(place_of(ids, operator_id), parts.separator);
  Numbers numbers(ids.size(), 0);
  /// @param digits of the number that begins there, some of which may not have come.
  const auto number = [&](std::size_t begin, std::size_t end, std::size_t digits) {
    for (std::size_t i = begin; i < std::min(end, begin + digits); ++i) {
      numbers[i] = 2 + static_cast<std::int64_t>(reversed ? i - begin : digits - 1 - (i - begin));
    }
  };
  number(parts.begin, sign, sign - parts.begin);
  if (sign < parts.separator) {
    numbers[sign] = 1;
    number(sign + 1, parts.separator, parts.separator - sign - 1);
  }
  if (parts.separator >= parts.end) return numbers;
  // Padded operands have as many digits as each other, and their sum one more, which is known before it is said.
  const std::size_t digits = reversed ? parts.end - parts.separator - 1 : sign - parts.begin + 1;
  numbers[parts.separator] = reversed ? 1 : 2 + static_cast<std::int64_t>(digits);
  number(parts.separator + 1, parts.end, digits);
  return numbers;
}

Numbers coupled_copy(Ids ids) {
  const Parts parts = parts_of(ids);
  Numbers numbers(ids.size(), 0);
  for (std::size_t i = parts.begin; i < parts.separator; ++i)
    numbers[i] = 2 + static_cast<std::int64_t>(i - parts.begin);
  if (parts.separator < parts.end) numbers[parts.separator] = 1;
  for (std::size_t i = parts.separator + 1; i < parts.end; ++i)
    numbers[i] = 2 + static_cast<std::int64_t>(i - parts.separator - 1);
  return numbers;
}

Numbers coupled_reverse(Ids ids) {
  const Parts parts = parts_of(ids);
  const auto asked = static_cast<std::int64_t>(parts.separator - parts.begin);
  Numbers numbers(ids.size(), 0);
  for (std::size_t i = parts.begin; i < parts.separator; ++i)
    numbers[i] = 1 + static_cast<std::int64_t>(i - parts.begin);
  if (parts.separator < parts.end) numbers[parts.separator] = 1 + asked;
  for (std::size_t i = parts.separator + 1; i < parts.end; ++i) {
    numbers[i] = std::max<std::int64_t>(1, asked - static_cast<std::int64_t>(i - parts.separator - 1));
  }
  return numbers;
}

Numbers coupled_parity(Ids ids) {
  const Parts parts = parts_of(ids);
  Numbers numbers(ids.size(), 0);
  for (std::size_t i = parts.begin; i < parts.end; ++i) numbers[i] = i == parts.separator ? 2 : 1;
  return numbers;
}

/// The same for several examples in a row, each with its BOS.
TokenNumbers each_example(TokenNumbers of_one) {
  return [of_one = std::move(of_one)](Ids ids) {
    Numbers all;
    for (std::size_t begin = 0; begin < ids.size();) {
      const std::size_t end = place_of(ids, kTaskBos, begin + 1);
      const Numbers one = of_one(ids.subspan(begin, end - begin));
      all.insert(all.end(), one.begin(), one.end());
      begin = end;
    }
    return all;
  };
}

TokenNumbers coupled(const artifact::TokenizerRecord& record, const std::string& where) {
  const std::string hint =
      "it has positions for add_rev, add_pad, copy_repeat, copy_multi, reverse, parity and parity_check";
  if (record.kind != kSymbolTokenizer) {
    throw support::ConfigError(
        cat(where, ": encoding 'coupled' reads the symbols of an algorithmic task, and this data is text"), {}, hint);
  }
  const Json task = task_of_tokenizer(record, where);
  const std::string name = choose_task(task).name;
  if (name == "add_rev" || name == "add_pad") {
    const auto symbols = choose_task(task).task->symbols();
    const auto sign = kFirstSymbol + (std::find(symbols.begin(), symbols.end(), "+") - symbols.begin());
    return each_example(
        [sign, reversed = name == "add_rev"](Ids ids) { return coupled_addition(ids, sign, reversed); });
  }
  if (name == "copy_repeat" || name == "copy_multi") return each_example(coupled_copy);
  if (name == "reverse") return each_example(coupled_reverse);
  if (name == "parity" || name == "parity_check") return each_example(coupled_parity);
  throw support::ConfigError(cat(where, ": encoding 'coupled' has no positions for task ", support::quote(name)), {},
                             hint);
}

}  // namespace

TokenNumbers token_numbers(const Json& wish, const artifact::TokenizerRecord& record, const std::string& where) {
  const auto reads = wish.at("reads").get<std::string>();
  if (reads == "coupled") return coupled(record, where);
  const auto tokenizer = make_tokenizer(record, where);
  if (reads == "digits") return digits(*tokenizer);
  return segments(*tokenizer, wish.at("separators").get<std::vector<std::string>>());
}

}  // namespace pe::data
