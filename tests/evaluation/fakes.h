/// @file
/// Models, tokenizers and documents that can be solved by hand.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "evaluation/documents.h"
#include "evaluation/task.h"
#include "support/random.h"

namespace pe::evaluation::testing {

/// Calls a function for each target: (ids, position of the target) → (nll, correct).
class FakeScorer : public Scorer {
 public:
  struct Answer {
    double nll;
    bool correct;
    double share = 1;  ///< among_share where it is correct
  };
  using Model = std::function<Answer(const std::vector<std::int32_t>& ids, std::int64_t target)>;

  explicit FakeScorer(Model model, Capabilities capabilities = {.vocabulary = 256, .train_length = 128})
      : model_(std::move(model)), capabilities_(capabilities) {}

  const Capabilities& capabilities() const override { return capabilities_; }
  std::int64_t batch_tokens() const override { return 256; }

  std::vector<Score> score(const std::vector<const Sequence*>& batch, std::int64_t draw, std::int64_t) override {
    std::vector<Score> scores;
    for (const Sequence* sequence : batch) {
      BOOST_REQUIRE_EQUAL(sequence->ids.size(), batch[0]->ids.size());
      tokens_fed += static_cast<std::int64_t>(sequence->ids.size());
      Score score;
      for (const auto& [at, wanted] : targets_of(*sequence)) {
        std::vector<std::int32_t> ids = sequence->ids;  // as if the label followed
        if (!sequence->labels.empty()) {
          ids.resize(static_cast<std::size_t>(at) + 1);
          ids.push_back(wanted);
        }
        const Answer answer = model_(ids, at + 1);
        score.nll.push_back(static_cast<float>(answer.nll + noise * static_cast<double>(draw)));
        if (sequence->guesses) score.correct.push_back(answer.correct ? 1 : 0);
        if (!sequence->among.empty()) {
          score.among.push_back(answer.correct ? 1 : 0);
          score.among_share.push_back(answer.correct ? static_cast<float>(answer.share) : 0);
        }
      }
      scores.push_back(std::move(score));
    }
    return scores;
  }

  std::int64_t tokens_fed = 0;
  double noise = 0;  ///< added to each loss for each draw

 private:
  Model model_;
  Capabilities capabilities_;
};

/// log V everywhere; its first guess is id 0.
inline FakeScorer uniform_model(std::int64_t vocabulary, Capabilities capabilities = {.train_length = 128}) {
  capabilities.vocabulary = vocabulary;
  return FakeScorer(
      [vocabulary](const std::vector<std::int32_t>& ids, std::int64_t target) {
        return FakeScorer::Answer{std::log(static_cast<double>(vocabulary)),
                                  ids[static_cast<std::size_t>(target)] == 0};
      },
      capabilities);
}

/// A loss that depends on the previous token and the target alone.
inline FakeScorer order_one_model(Capabilities capabilities = {.vocabulary = 256, .train_length = 128}) {
  return FakeScorer(
      [](const std::vector<std::int32_t>& ids, std::int64_t target) {
        const auto at = static_cast<std::size_t>(target);
        const std::uint64_t bits =
            support::make_key({static_cast<std::uint64_t>(ids[at - 1]), static_cast<std::uint64_t>(ids[at])});
        return FakeScorer::Answer{static_cast<double>(bits >> 40) / static_cast<double>(1 << 24), false};
      },
      capabilities);
}

/// Bytes are ids 0 to 255, BOS is 256; every byte but newline is an ordinary piece.
class ByteCodec final : public TextCodec {
 public:
  std::vector<std::int32_t> encode_inside(std::string_view text) const override {
    std::vector<std::int32_t> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::optional<std::int32_t> bos() const override { return 256; }
  std::vector<std::int32_t> ordinary_pieces() const override {
    std::vector<std::int32_t> pieces;
    for (std::int32_t id = 0; id < 256; ++id) {
      if (id != '\n') pieces.push_back(id);
    }
    return pieces;
  }
};

/// Joins pairs of digits, as tokenizers without split digits may: "12" is id 300 + 12.
class PairCodec final : public TextCodec {
 public:
  std::vector<std::int32_t> encode_inside(std::string_view text) const override {
    std::vector<std::int32_t> ids;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto digit = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
      // Pairs that begin with 7 are not in the vocabulary, so keys differ in their number of tokens.
      if (digit(i) && digit(i + 1) && text[i] != '7') {
        ids.push_back(300 + 10 * (text[i] - '0') + (text[i + 1] - '0'));
        ++i;
      } else {
        ids.push_back(static_cast<unsigned char>(text[i]));
      }
    }
    return ids;
  }
  std::optional<std::int32_t> bos() const override { return 256; }
  std::vector<std::int32_t> ordinary_pieces() const override { return {}; }
};

/// Documents of given lengths with keyed bytes; every token is three bytes.
class FakeDocuments final : public DocumentSource {
 public:
  explicit FakeDocuments(std::vector<std::int64_t> lengths) : lengths_(std::move(lengths)) {}

  std::string split() const override { return "test"; }
  std::int64_t count() const override { return static_cast<std::int64_t>(lengths_.size()); }
  std::int64_t tokens(std::int64_t id) const override { return lengths_[static_cast<std::size_t>(id)]; }
  std::uint64_t hash(std::int64_t id) const override { return support::mix(static_cast<std::uint64_t>(id)); }
  Document read(std::int64_t id, std::int64_t limit) const override {
    Document document;
    document.id = id;
    support::Xoshiro random(static_cast<std::uint64_t>(id));
    for (std::int64_t i = 0; i < std::min(limit, tokens(id)); ++i) {
      document.ids.push_back(static_cast<std::int32_t>(random.below(256)));
      document.bytes.push_back(3);
    }
    return document;
  }

 private:
  std::vector<std::int64_t> lengths_;
};

/// Keeps rows in memory.
class MemoryResults final : public Results {
 public:
  const schema::Rows& item(const std::string& name, const std::function<schema::Rows()>& work) override {
    names.push_back(name);
    add(items_[name] = work());
    return items_[name];
  }
  void add(const schema::Rows& more) override { rows.append(more); }

  schema::Rows rows;
  std::vector<std::string> names;

 private:
  std::map<std::string, schema::Rows> items_;
};

/// Rows as an artifact has them, without the identity in front.
using Row = std::vector<artifact::Cell>;
using Rows = std::map<std::string, std::vector<Row>>;

inline Rows cells_of(const schema::Rows& rows) {
  Rows all;
  const std::size_t front = schema::columns_of<schema::Identity>().size();
  for (const artifact::Table& table : schema::make_tables(rows, {})) {
    for (std::size_t row = 0; row < table.rows(); ++row) {
      Row cells;
      for (std::size_t i = front; i < table.columns().size(); ++i) cells.push_back(table.cell(row, i));
      all[table.name()].push_back(std::move(cells));
    }
  }
  return all;
}

/// The column of a table with a name, in a row of it.
inline const artifact::Cell& cell(const std::string& table, const Row& row, const std::string& column) {
  for (const schema::Layout& layout : schema::layouts()) {
    if (layout.name != table) continue;
    for (std::size_t i = 0; i < layout.columns.size(); ++i) {
      if (layout.columns[i].name == column) return row.at(i);
    }
  }
  throw std::logic_error("no column " + column + " in " + table);
}

/// NaN when the cell is missing or text.
inline double number(const artifact::Cell& cell) {
  if (const auto* integer = std::get_if<std::int64_t>(&cell.value())) return static_cast<double>(*integer);
  if (const auto* real = std::get_if<double>(&cell.value())) return *real;
  return std::numeric_limits<double>::quiet_NaN();
}

inline double value(const std::string& table, const Row& row, const std::string& column) {
  return number(cell(table, row, column));
}

inline std::string text(const artifact::Cell& cell) {
  const auto* value = std::get_if<std::string>(&cell.value());
  return value == nullptr ? "" : *value;
}

/// The rows of `table` in which the given columns have the given words or numbers.
inline std::vector<Row> rows_where(const Rows& rows, const std::string& table,
                                   const std::vector<std::pair<std::string, std::string>>& words) {
  std::vector<Row> found;
  const auto it = rows.find(table);
  if (it == rows.end()) return found;
  for (const Row& row : it->second) {
    bool fits = true;
    for (const auto& [column, word] : words) {
      const artifact::Cell& value = cell(table, row, column);
      const auto* integer = std::get_if<std::int64_t>(&value.value());
      fits = fits && (integer != nullptr ? std::to_string(*integer) : text(value)) == word;
    }
    if (fits) found.push_back(row);
  }
  return found;
}

}  // namespace pe::evaluation::testing
