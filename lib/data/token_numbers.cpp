#include "data/token_numbers.h"

#include <algorithm>
#include <map>
#include <memory>

#include "data/algorithmic_task.h"
#include "data/symbol_tokenizer.h"
#include "data/tokenizer.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::data {

namespace {

using support::cat;
using Ids = std::span<const std::int64_t>;
using Numbers = std::vector<std::int64_t>;

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";   // "▁", as sentencepiece spells a space

std::string text_of(const Tokenizer& tokenizer, std::int64_t id) {
  if (id == tokenizer.bos_id() || id == tokenizer.eos_id() || id == tokenizer.pad_id() || id == tokenizer.unk_id()) return "";
  std::string piece = tokenizer.piece(id);
  if (piece.size() == 6 && piece.rfind("<0x", 0) == 0) return std::string(1, static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16)));
  for (std::size_t at = piece.find(kSpaceMark); at != std::string::npos; at = piece.find(kSpaceMark, at)) piece.replace(at, kSpaceMark.size(), " ");
  return piece;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

TokenNumbers digits(const Tokenizer& tokenizer) {
  enum : std::uint8_t { kOther, kDigit, kFirstDigit };   // of a number, behind a space
  auto kinds = std::make_shared<std::vector<std::uint8_t>>();
  for (std::int64_t id = 0; id < tokenizer.vocabulary(); ++id) {
    const std::string text = text_of(tokenizer, id);
    const bool alone = text.size() == 1 && is_digit(text[0]), behind_space = text.size() == 2 && text[0] == ' ' && is_digit(text[1]);
    kinds->push_back(alone ? kDigit : behind_space ? kFirstDigit : kOther);
  }
  return [kinds](Ids ids) {
    Numbers numbers;
    std::int64_t place = 0;
    for (const std::int64_t id : ids) {
      const std::uint8_t kind = kinds->at(static_cast<std::size_t>(id));
      place = kind == kOther ? 0 : kind == kFirstDigit ? 1 : place + 1;
      numbers.push_back(place);
    }
    return numbers;
  };
}

TokenNumbers segments(const Tokenizer& tokenizer, const std::vector<std::string>& separators) {
  auto ends = std::make_shared<std::vector<bool>>();
  for (std::int64_t id = 0; id < tokenizer.vocabulary(); ++id) {
    const std::string text = text_of(tokenizer, id);
    ends->push_back(std::any_of(separators.begin(), separators.end(), [&](const std::string& end) { return text.ends_with(end); }));
  }
  return [ends](Ids ids) {
    Numbers numbers;
    std::int64_t place = 0, segment = 0;
    for (const std::int64_t id : ids) {
      numbers.push_back(place);
      numbers.push_back(segment);
      ++place;
      if (!ends->at(static_cast<std::size_t>(id))) continue;
      place = 0;
      ++segment;
    }
    return numbers;
  };
}

/// What stands between BOS and SEP, and between SEP and EOS.
struct Parts {
  std::size_t begin = 0, separator = 0, end = 0;
  std::int64_t asked() const { return static_cast<std::int64_t>(separator - begin); }
};

Parts parts_of(Ids ids) {
  Parts parts;
  parts.begin = !ids.empty() && ids[0] == kTaskBos ? 1 : 0;
  parts.separator = static_cast<std::size_t>(std::find(ids.begin(), ids.end(), kTaskSep) - ids.begin());
  parts.end = static_cast<std::size_t>(std::find(ids.begin(), ids.end(), kTaskEos) - ids.begin());
  return parts;
}

/// Digits of one weight have one id. @param operator_id of the sign between the operands. @param reversed least significant first
Numbers coupled_addition(Ids ids, std::int64_t operator_id, bool reversed) {
  const Parts parts = parts_of(ids);
  Numbers numbers(ids.size(), 0);
  const auto run = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < std::min(end, ids.size()); ++i) {
      numbers[i] = 2 + static_cast<std::int64_t>(reversed ? i - begin : end - 1 - i);
    }
  };
  const auto sign = static_cast<std::size_t>(std::find(ids.begin(), ids.end(), operator_id) - ids.begin());
  run(parts.begin, std::min(sign, parts.separator));
  if (sign < parts.separator) {
    numbers[sign] = 1;
    run(sign + 1, parts.separator);
  }
  if (parts.separator == ids.size()) return numbers;
  // Of padded operands the sum has one digit more than they, so what has not been said yet is known.
  const std::size_t digits = reversed ? parts.end - parts.separator - 1 : sign - parts.begin + 1;
  numbers[parts.separator] = reversed ? 1 : 2 + static_cast<std::int64_t>(digits);
  const std::size_t behind = std::min(parts.end, parts.separator + 1 + digits);
  for (std::size_t i = parts.separator + 1; i < behind; ++i) {
    const std::size_t place = i - parts.separator - 1;
    numbers[i] = 2 + static_cast<std::int64_t>(reversed ? place : digits - 1 - place);
  }
  return numbers;
}

Numbers coupled_copy(Ids ids) {
  const Parts parts = parts_of(ids);
  Numbers numbers(ids.size(), 0);
  for (std::size_t i = parts.begin; i < parts.separator; ++i) numbers[i] = 2 + static_cast<std::int64_t>(i - parts.begin);
  if (parts.separator < ids.size()) numbers[parts.separator] = 1;
  for (std::size_t i = parts.separator + 1; i < parts.end; ++i) numbers[i] = 2 + static_cast<std::int64_t>(i - parts.separator - 1);
  return numbers;
}

Numbers coupled_reverse(Ids ids) {
  const Parts parts = parts_of(ids);
  Numbers numbers(ids.size(), 0);
  for (std::size_t i = parts.begin; i < parts.separator; ++i) numbers[i] = 1 + static_cast<std::int64_t>(i - parts.begin);
  if (parts.separator < ids.size()) numbers[parts.separator] = 1 + parts.asked();
  for (std::size_t i = parts.separator + 1; i < parts.end; ++i) {
    numbers[i] = std::max<std::int64_t>(1, parts.asked() - static_cast<std::int64_t>(i - parts.separator - 1));
  }
  return numbers;
}

Numbers coupled_parity(Ids ids) {
  const Parts parts = parts_of(ids);
  Numbers numbers(ids.size(), 0);
  for (std::size_t i = parts.begin; i < std::min(parts.end, ids.size()); ++i) numbers[i] = i == parts.separator ? 2 : 1;
  return numbers;
}

TokenNumbers coupled(const artifact::TokenizerRecord& record, const std::string& where) {
  const std::string hint = "position coupling is defined for add_rev, add_pad, copy_repeat, copy_multi, reverse, parity and parity_check";
  if (record.kind != kSymbolTokenizer) {
    throw support::ConfigError(cat(where, ": encoding 'coupled' reads the symbols of an algorithmic task, and this data is text"), {}, hint);
  }
  const Json task = task_of_tokenizer(record, where);
  const std::string name = task.is_string() ? task.get<std::string>() : task.value("kind", "");
  if (name == "add_rev" || name == "add_pad") {
    const auto symbols = choose_task(task).task->symbols();
    const auto sign = kFirstSymbol + (std::find(symbols.begin(), symbols.end(), "+") - symbols.begin());
    return [sign, reversed = name == "add_rev"](Ids ids) { return coupled_addition(ids, sign, reversed); };
  }
  if (name == "copy_repeat" || name == "copy_multi") return coupled_copy;
  if (name == "reverse") return coupled_reverse;
  if (name == "parity" || name == "parity_check") return coupled_parity;
  throw support::ConfigError(cat(where, ": encoding 'coupled' knows no ids for task ", support::quote(name)), {}, hint);
}

}  // namespace

TokenNumbers token_numbers(const Json& wish, const artifact::TokenizerRecord& record, const std::string& where) {
  const std::string reads = wish.at("reads").get<std::string>();
  if (reads == "coupled") return coupled(record, where);
  const auto tokenizer = make_tokenizer(record, where);
  if (reads == "digits") return digits(*tokenizer);
  return segments(*tokenizer, wish.at("separators").get<std::vector<std::string>>());
}

}  // namespace pe::data
