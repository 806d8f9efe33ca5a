// Golden values of the specification, and labels derived independently: solvers here work on the names of symbols and
// share no code with the generators.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "data/tasks/algorithmic_task.h"
#include "data/tasks/task_base.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/test_data.h"

using namespace pe;
using namespace pe::data;
using Words = std::vector<std::string>;

namespace {

Words split(const std::string& text) {
  std::istringstream in(text);
  Words words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::string join(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string name_of(const Words& symbols, std::int32_t id) {
  static const Words shared = {"PAD", "BOS", "EOS", "SEP"};
  return id < kFirstSymbol ? shared.at(static_cast<std::size_t>(id))
                           : symbols.at(static_cast<std::size_t>(id - kFirstSymbol));
}

/// The question and the answer: words before SEP, and the labels.
struct Read {
  Words input, target, all, labels;
};
Read read(const AlgorithmicTask& task, const TaskExample& example) {
  const Words symbols = task.symbols();
  Read read;
  bool asked = false;
  for (std::size_t i = 0; i < example.ids.size(); ++i) {
    const std::string word = name_of(symbols, example.ids[i]);
    read.all.push_back(word);
    read.labels.push_back(example.labels[i] == kUnlabelled ? "-" : name_of(symbols, example.labels[i]));
    if (word == "SEP") asked = true;
    if (!asked && word != "BOS") read.input.push_back(word);
    if (example.labels[i] != kUnlabelled && example.labels[i] != kTaskEos) read.target.push_back(read.labels.back());
  }
  return read;
}

std::int64_t number(const Words& digits, std::size_t begin = 0, std::size_t end = std::string::npos) {
  std::int64_t value = 0;
  for (std::size_t i = begin; i < std::min(end, digits.size()); ++i) value = value * 10 + std::stoll(digits[i]);
  return value;
}

Words digits(std::int64_t value, std::size_t least = 1) {
  Words words;
  for (const char c : std::to_string(value)) words.emplace_back(1, c);
  while (words.size() < least) words.insert(words.begin(), "0");
  return words;
}

Words reversed(Words words) {
  std::reverse(words.begin(), words.end());
  return words;
}

std::pair<Words, Words> around(const Words& words, const std::string& joint) {
  const auto at = std::find(words.begin(), words.end(), joint);
  return {{words.begin(), at}, {at + 1, words.end()}};
}

Words with(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Words sorted(Words words, const std::function<std::int64_t(const std::string&)>& value) {
  // Insertion sort, which the generators do not use.
  for (std::size_t i = 1; i < words.size(); ++i) {
    for (std::size_t j = i; j > 0 && value(words[j]) < value(words[j - 1]); --j) std::swap(words[j], words[j - 1]);
  }
  return words;
}

/// Recursive descent over + - * with the usual precedence and brackets, modulo five; x has a value.
struct Calculator {
  const Words& words;
  std::int64_t x = 0;
  std::size_t at = 0;
  std::int64_t sum() {
    std::int64_t value = product();
    while (at < words.size() && (words[at] == "+" || words[at] == "-")) {
      const bool plus = words[at++] == "+";
      const std::int64_t other = product();
      value += plus ? other : -other;
    }
    return value;
  }
  std::int64_t product() {
    std::int64_t value = factor();
    while (at < words.size() && words[at] == "*") {
      ++at;
      value = value * factor() % 5;
    }
    return value;
  }
  std::int64_t factor() {
    const std::string word = words[at++];
    if (word == "-") return -factor();
    if (word == "x") return x;
    if (word != "(") return std::stoll(word);
    const std::int64_t value = sum();
    ++at;  // )
    return value % 5;
  }
  static std::string mod5(std::int64_t value) { return std::to_string(((value % 5) + 5) % 5); }
};

/// Binary as decimal digits of a long string: good for any length. Low bit first in and out.
std::string binary_of(const Words& bits) {
  std::string text;
  for (const std::string& bit : bits) text += bit;
  return text;
}

unsigned __int128 low_first(const std::string& bits) {
  unsigned __int128 value = 0;
  for (std::size_t i = bits.size(); i-- > 0;) value = 2 * value + static_cast<unsigned>(bits[i] - '0');
  return value;
}

Words low_first_words(unsigned __int128 value, std::size_t length) {
  Words words;
  for (; value > 0; value /= 2) words.push_back(value % 2 == 1 ? "1" : "0");
  words.push_back("2");
  while (words.size() < length) words.push_back("0");
  return words;
}

/// SCAN by rewriting words: each phrase is expanded on its own.
Words scan(const Words& words) {
  for (const char* joint : {"and", "after"}) {
    if (std::find(words.begin(), words.end(), joint) == words.end()) continue;
    auto [a, b] = around(words, joint);
    return std::string(joint) == "and" ? with(scan(a), scan(b)) : with(scan(b), scan(a));
  }
  const auto has = [&](const char* word) { return std::find(words.begin(), words.end(), word) != words.end(); };
  Words once;
  const std::string turn = has("left") ? "TURN_LEFT" : "TURN_RIGHT";
  std::string verb = words[0];
  std::transform(verb.begin(), verb.end(), verb.begin(), [](char c) { return static_cast<char>(std::toupper(c)); });
  const int quarter_turns = has("around") ? 4 : 1;
  for (int i = 0; i < quarter_turns; ++i) {
    if (has("left") || has("right")) once.push_back(turn);
    if (has("opposite")) once.push_back(turn);
    if (verb != "TURN") once.push_back(verb);
  }
  Words all;
  for (int i = 0; i < (has("thrice") ? 3 : has("twice") ? 2 : 1); ++i) all = with(all, once);
  return all;
}

const std::map<std::string, std::function<Words(const Words&)>>& solvers() {
  static const std::map<std::string, std::function<Words(const Words&)>> all = [] {
    std::map<std::string, std::function<Words(const Words&)>> s;
    const auto same = [](const Words& in) { return in; };
    const auto of_index = [](const std::string& word) { return std::stoll(word.substr(1)); };
    for (const char* name : {"copy_repeat", "copy_multi", "pp_norm"}) s[name] = same;
    s["copy_repeat2"] = [](const Words& in) { return with(in, in); };
    s["copy_replace"] = [](const Words& in) { return Words(in.size() - 4, in[2]); };
    s["copy_multi2"] = [](const Words& in) { return with(with(in, {"NEXT"}), in); };
    s["reverse"] = s["reverse_string"] = reversed;
    s["reverse2"] = [](const Words& in) { return with(with(reversed(in), {"NEXT"}), reversed(in)); };
    s["reverse_copy"] = [](const Words& in) { return with(with(reversed(in), {"NEXT"}), in); };
    s["add"] = [](const Words& in) {
      const auto [a, b] = around(in, "+");
      return digits(number(a) + number(b));
    };
    s["add_rev"] = [](const Words& in) {
      const auto [a, b] = around(in, "+");
      return reversed(digits(number(reversed(a)) + number(reversed(b))));
    };
    s["add_pad"] = [](const Words& in) {
      const auto [a, b] = around(in, "+");
      BOOST_REQUIRE(a.size() == b.size());
      return digits(number(a) + number(b), a.size() + 1);
    };
    s["add_index"] = [](const Words& in) {
      const auto value = [](const Words& words) {  // by the letters, not by the order
        std::int64_t sum = 0;
        for (std::size_t i = 0; i < words.size(); i += 2) {
          std::int64_t place = 1;
          for (char c = 'a'; c < words[i][0]; ++c) place *= 10;
          sum += place * std::stoll(words[i + 1]);
        }
        return sum;
      };
      const auto [a, b] = around(in, "+");
      const Words plain = digits(value(a) + value(b));
      Words hinted;
      for (std::size_t i = 0; i < plain.size(); ++i) {
        hinted.emplace_back(1, static_cast<char>('a' + static_cast<char>(plain.size() - 1 - i)));
        hinted.push_back(plain[i]);
      }
      return hinted;
    };
    s["sum_mod"] = [](const Words& in) {
      std::int64_t sum = 0;
      for (const std::string& word : in) sum += word == "+" ? 0 : std::stoll(word);
      return digits(sum % 10);
    };
    s["parity"] = [](const Words& in) {
      bool even = true;
      for (const std::string& word : in) even = word == "1" ? !even : even;
      return Words{even ? "Yes" : "No"};
    };
    s["parity_check"] = [](const Words& in) {
      bool even = true;
      for (const std::string& word : in) even = word == "1" ? !even : even;
      return Words{even ? "0" : "1"};
    };
    s["sort_single"] = [=](const Words& in) { return sorted(in, of_index); };
    s["bucket_sort"] = [](const Words& in) {
      return sorted(in, [](const std::string& word) { return std::stoll(word); });
    };
    s["sort_multi"] = [](const Words& in) {
      Words numbers(1);
      for (const std::string& word : in) {
        if (word == ",")
          numbers.emplace_back();
        else
          numbers.back() += word;
      }
      Words out;
      for (const std::string& value : sorted(numbers, [](const std::string& word) { return std::stoll(word); })) {
        if (!out.empty()) out.push_back(",");
        for (const char c : value) out.emplace_back(1, c);
      }
      return out;
    };
    s["poly"] = [](const Words& in) {
      const auto [point, terms] = around(in, ";");
      const std::string x = point.size() == 2 ? "-" + point[1] : point[0];
      std::int64_t sum = 0;
      std::string rest = join(terms) + " + ";
      for (std::size_t at; (at = rest.find(" + ")) != std::string::npos; rest = rest.substr(at + 3)) {
        const Words term = split(rest.substr(0, at));  // [-] c * x ** e
        const std::int64_t sign = term[0] == "-" ? -1 : 1;
        const Words bare(term.begin() + (sign < 0 ? 1 : 0), term.end());
        sum += sign * std::stoll(bare[0]) * std::llround(std::pow(std::stod(x), std::stod(bare.back())));
      }
      return digits(((sum % 10) + 10) % 10);
    };
    s["lego"] = [](const Words& in) {
      std::map<std::string, int> value = {{"1", 1}};
      for (std::size_t pass = 0; pass < in.size(); ++pass) {  // clauses may have any order
        for (std::size_t i = 0; i + 4 < in.size() && in[i] != "?"; i += 5) {
          if (value.count(in[i + 3]) != 0) value[in[i]] = in[i + 2] == "-" ? -value[in[i + 3]] : value[in[i + 3]];
        }
      }
      return Words{value.at(in.back()) > 0 ? "+1" : "-1"};
    };
    s["scan"] = scan;
    s["even_pairs"] = [](const Words& in) {
      int unequal = 0;
      for (std::size_t i = 1; i < in.size(); ++i) unequal += in[i] != in[i - 1];
      return Words{unequal % 2 == 1 ? "1" : "0"};
    };
    s["mod_arith_simple"] =
        s["mod_arith_brackets"] = [](const Words& in) { return Words{Calculator::mod5(Calculator{in}.sum())}; };
    s["cycle_nav"] = [](const Words& in) {
      int place = 0;
      for (const std::string& step : in) place = (place + 4 + std::stoi(step)) % 5;
      return Words{std::to_string(place)};
    };
    s["stack_manip"] = [](const Words& in) {
      std::deque<std::string> stack;
      for (const std::string& word : in) {
        if (word == "0" || word == "1") stack.push_front(word);
        if (word == "PUSH0" || word == "PUSH1") stack.push_front(word.substr(4));
        if (word == "2" && !stack.empty()) stack.pop_front();
      }
      Words out(stack.begin(), stack.end());
      out.push_back("2");
      while (out.size() < in.size() + 1) out.push_back("0");
      return out;
    };
    s["solve_equation"] = [](const Words& in) {
      const auto [left, right] = around(in, "=");
      Words solutions;
      for (std::int64_t x = 0; x < 5; ++x) {
        if (Calculator::mod5(Calculator{left, x}.sum()) == right[0]) solutions.push_back(std::to_string(x));
      }
      return solutions;
    };
    s["duplicate_string"] = [](const Words& in) { return with(in, in); };
    s["missing_duplicate"] = [](const Words& in) {
      Words bare = in;
      if (bare.back() == "_") bare.pop_back();
      const std::size_t half = bare.size() / 2;
      for (std::size_t i = 0; i < half; ++i) {
        if (bare[i] == "?") return Words{bare[i + half]};
        if (bare[i + half] == "?") return Words{bare[i]};
      }
      return Words{};
    };
    s["odds_first"] = [](const Words& in) {
      Words odd, even;
      for (std::size_t i = 0; i < in.size(); ++i) (i % 2 == 1 ? odd : even).push_back(in[i]);
      return with(odd, even);
    };
    s["binary_addition"] = [](const Words& in) {
      const auto [a, b] = around(in, "2");
      return low_first_words(low_first(binary_of(a)) + low_first(binary_of(b)), in.size() + 1);
    };
    s["binary_multiplication"] = [](const Words& in) {
      const auto [a, b] = around(in, "2");
      return low_first_words(low_first(binary_of(a)) * low_first(binary_of(b)), in.size());
    };
    s["compute_sqrt"] = [](const Words& in) {
      std::string text = binary_of(in);
      std::reverse(text.begin(), text.end());
      const unsigned __int128 value = low_first(text);
      unsigned __int128 root = 0;
      for (unsigned __int128 bit = static_cast<unsigned __int128>(1) << 62; bit > 0; bit /= 2) {
        if ((root + bit) * (root + bit) <= value) root += bit;
      }
      Words out;
      for (std::size_t i = (in.size() + 1) / 2; i-- > 0;) out.push_back((root >> i) % 2 == 1 ? "1" : "0");
      return out;
    };
    s["count"] = [](const Words& in) {
      std::map<std::string, int> value;
      for (std::size_t i = 0; i + 2 < in.size(); ++i) {
        if (in[i + 1] == "=") value[in[i]] = std::stoi(in[i + 2]);
        if (in[i + 1] == "++") ++value[in[i]];
      }
      return Words{std::to_string(value.at(in.back()))};
    };
    s["selcopy"] = [](Words in) {
      in.erase(std::remove(in.begin(), in.end(), "_"), in.end());
      return in;
    };
    s["indirect_index"] = [](const Words& in) {
      const std::string text = join(in);
      const auto [letters, rest] = around(in, ",");
      const std::int64_t shift = (rest[2] == "-" ? -1 : 1) * number(rest, 3, rest.size() - 1);
      for (std::size_t i = 0; i < letters.size(); ++i) {
        if (letters[i] == rest[0]) return Words{letters.at(i + static_cast<std::size_t>(shift))};
      }
      return Words{};
    };
    s["pp_nth"] = [](const Words& in) {
      Words index;
      for (const std::string& word : in) {
        if (word[0] != 's') index.push_back(word);
      }
      return Words{in.at(static_cast<std::size_t>(number(index)))};
    };
    s["pp_order"] = [](const Words& in) {
      for (const std::string& word : in) {
        if (word == "A" || word == "B") return Words{word == "A" ? "yes" : "no"};
      }
      return Words{};
    };
    const auto distance = [](const Words& in) {
      std::vector<std::size_t> marks;
      for (std::size_t i = 0; i < in.size(); ++i) {
        if (in[i] == "M") marks.push_back(i);
      }
      return Words{std::to_string(marks.at(1) - marks.at(0))};
    };
    s["pp_dist"] = s["pp_shift"] = distance;
    s["pp_index"] = [](const Words& in) {
      std::size_t i = 0;
      while (in[i] != "M") ++i;
      return Words{std::to_string(i % 16)};
    };
    return s;
  }();
  return all;
}

/// For tasks whose labels are among the input: the label of each position, "-" where there is none.
const std::map<std::string, std::function<Words(const Words&)>>& annotators() {
  static const std::map<std::string, std::function<Words(const Words&)>> all = [] {
    std::map<std::string, std::function<Words(const Words&)>> s;
    s["flipflop"] = [](const Words& in) {
      Words out(in.size(), "-");
      std::string memory;
      for (std::size_t i = 1; i + 1 < in.size(); i += 2) {
        if (in[i] == "w") memory = in[i + 1];
        if (in[i] == "r") out[i] = memory;
      }
      return out;
    };
    s["mqar"] = [](const Words& in) {
      Words out(in.size(), "-");
      std::map<std::string, std::string> value;
      for (std::size_t i = 0; i < 8; i += 2) value[in[i]] = in[i + 1];
      for (std::size_t i = 8; i < in.size(); i += 2) {
        if (value.count(in[i]) != 0) out[i] = value[in[i]];
      }
      return out;
    };
    s["induction"] = [](const Words& in) {
      Words out(in.size(), "-");
      out.back() = in.at(static_cast<std::size_t>(std::find(in.begin(), in.end(), "MARK") - in.begin()) + 1);
      return out;
    };
    s["induction2"] = [](const Words& in) {
      Words out(in.size(), "-");
      for (std::size_t i = 1 + in.size() / 2; i + 1 < in.size(); ++i) out[i] = in[i + 1];
      return out;
    };
    s["needle_tokens"] = [](const Words& in) {
      Words out(in.size(), "-");
      for (std::size_t i = 0; i + 2 < in.size(); ++i) {
        if (in[i] == "KEY" && in[i + 1] == in.back()) {
          out.back() = in[i + 2];
          break;
        }
      }
      return out;
    };
    s["copy_lm"] = [](const Words& in) {
      Words out(in.size(), "-");
      const auto bar = static_cast<std::size_t>(std::find(in.begin(), in.end(), "|") - in.begin());
      for (std::size_t i = bar; i + 1 < in.size(); ++i) out[i] = i - bar + 1 < bar ? in[i - bar + 1] : ".";
      return out;
    };
    s["dyck"] = [](const Words& in) {
      Words out(in.size(), "-"), stack;
      for (std::size_t i = 0; i + 1 < in.size(); ++i) {
        out[i] = in[i + 1];  // a language model
        // and every closing bracket is the one that is due
        if (in[i][0] == '(') stack.push_back(in[i].substr(1));
        if (in[i][0] == ')') {
          BOOST_TEST(stack.back() == in[i].substr(1));
          stack.pop_back();
        }
        BOOST_TEST(stack.size() <= 10u);
      }
      BOOST_TEST(stack.empty());
      return out;
    };
    s["shuffle_dyck"] = s["dyck1"] = [](const Words& in) {
      Words out;
      std::map<std::string, int> open;
      for (const std::string& word : in) {
        if (word[0] == '(') ++open[word.substr(1)];
        if (word[0] == ')') --open[word.substr(1)];
        int set = 0;
        for (const auto& [kind, count] : open) {
          BOOST_TEST(count >= 0);
          if (count > 0) set += 1 << std::stoi(kind);
        }
        out.push_back("set" + std::to_string(set));
      }
      BOOST_TEST(out.back() == "set0");
      return out;
    };
    s["posgen"] = [](const Words& in) {
      Words out(in.size(), "-");
      for (std::size_t i = 4; i + 1 < in.size(); ++i) {
        std::int64_t sum = 0;
        for (std::size_t back = 0; back < 4; ++back) sum += std::stoll(in[i - back]);
        out[i] = std::to_string(sum % 17);
        BOOST_TEST(out[i] == in[i + 1]);
      }
      return out;
    };
    s["permutation_product"] = [](const Words& in) {  // follows each point through every element
      Words out(in.size(), "-");
      const std::vector<std::string> images = {"012", "021", "102", "120", "201", "210"};
      std::string where = "012";
      for (std::size_t i = 1; i < in.size(); ++i) {
        const std::string& element = images.at(static_cast<std::size_t>(std::stoi(in[i].substr(1))));
        for (char& place : where) place = element[static_cast<std::size_t>(place - '0')];
        out[i] = "e" + std::to_string(std::find(images.begin(), images.end(), where) - images.begin());
      }
      return out;
    };
    s["nth_of_alike"] = [](const Words& in) {
      Words out(in.size(), "-");
      int left = std::stoi(in.back().substr(1));
      for (std::size_t i = 0; i + 2 < in.size(); ++i) {
        if (in[i] != "KEY" || in[i + 1] != in[in.size() - 2] || --left != 0) continue;
        out.back() = in[i + 2];
      }
      return out;
    };
    s["depo"] = [](const Words& in) {  // walks
      Words out(in.size(), "-");
      std::map<std::string, std::string> next;
      std::size_t i = 1;
      for (; in[i].rfind("STEP_", 0) != 0; i += 2) next[in[i]] = in[i + 1];
      for (; i < in.size(); i += 4) {
        std::string at = in[i + 1];
        for (int k = std::stoi(in[i].substr(5)); k > 0; --k) at = next.at(at);
        out[i + 2] = at;
        BOOST_TEST(in[i + 3] == at);
      }
      return out;
    };
    s["mano"] = [](const Words& in) {  // from the back, on a stack
      Words out(in.size(), "-");
      std::vector<int> stack;
      int operators = 0;
      for (std::size_t i = in.size() - 3; i > 1; --i) {
        if (std::isdigit(in[i][0]) != 0) {
          stack.push_back(std::stoi(in[i]));
          continue;
        }
        ++operators;
        const int left = stack.back();
        stack.pop_back();
        int& right = stack.back();
        right = in[i] == "+" ? left + right : in[i] == "-" ? left + 23 - right : left * right;
        right %= 23;
      }
      BOOST_TEST(in[1] == "LEN_" + std::to_string(operators));
      out[in.size() - 2] = std::to_string(stack.at(0));
      return out;
    };
    s["icl_labels"] = [](const Words& in) {  // a class is what shares symbols
      Words out(in.size(), "-");
      std::map<std::string, std::string> label;
      for (std::size_t i = 1; i + 4 < in.size(); i += 5) {
        for (std::size_t x = 0; x < 3; ++x) label[in[i + x]] = in[i + 4];
      }
      out.back() = label.at(in[in.size() - 2]);
      return out;
    };
    s["pp_back"] = [](const Words& in) {
      Words out(in.size(), "-");
      const auto back = static_cast<std::size_t>(std::stoll(in[1].substr(4)));
      for (std::size_t i = 2 + back; i < in.size(); ++i) out[i] = in[i - back];
      return out;
    };
    return s;
  }();
  return all;
}

/// A length of the task's training or test range that solvers here can follow: numbers stay within 64 bits.
std::int64_t length_for(const TaskGenerator& generator, const AlgorithmicTask& task, support::Xoshiro& random) {
  const std::int64_t most =
      std::min<std::int64_t>({generator.test.high, 64, generator.name.rfind("add", 0) == 0 ? 16 : 64});
  for (;;) {
    std::int64_t length = generator.train.low + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(
                                                    std::max<std::int64_t>(1, most - generator.train.low + 1))));
    if (generator.train.low > 64) length = generator.train.low;
    if (task.weight(length) > 0) return length;
  }
}

/// The task's own answer to an input given by hand; the solver has to agree.
Words answer_of(const std::string& name, const std::string& input) {
  const auto task = find_task(name)->make(Json::object());
  const auto* question = dynamic_cast<const QuestionTask*>(task.get());
  BOOST_REQUIRE(question != nullptr);
  const Words names = task->symbols();
  Symbols symbols;
  for (const std::string& word : split(input)) {
    const auto at = std::find(names.begin(), names.end(), word);
    BOOST_REQUIRE_MESSAGE(at != names.end(), name << " has no symbol " << word);
    symbols.push_back(static_cast<std::int32_t>(at - names.begin()));
  }
  Words answer;
  for (const std::int32_t symbol : question->answer(symbols))
    answer.push_back(names.at(static_cast<std::size_t>(symbol)));
  BOOST_TEST(join(answer) == join(solvers().at(name)(split(input))));
  return answer;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(algorithmic_tasks)

BOOST_AUTO_TEST_CASE(labels_agree_with_solvers_that_share_nothing_with_the_generators) {
  for (const TaskGenerator& generator : task_generators()) {
    const auto task = generator.make(Json::object());
    const bool asks = solvers().count(generator.name) != 0;
    BOOST_REQUIRE_MESSAGE(asks || annotators().count(generator.name) != 0, generator.name << " has no solver");
    support::Xoshiro random(support::fnv1a64(generator.name));
    int wrong = 0;
    for (std::int64_t i = 0; i < 1000; ++i) {
      const std::int64_t length = length_for(generator, *task, random);
      const TaskExample example = make_example(*task, generator.name, kTaskTestSeed, Split::kTest, length, i);
      const Read got = read(*task, example);
      BOOST_REQUIRE(example.ids.size() == example.labels.size());
      if (asks) {
        Words input = got.input;
        if (generator.name == "pp_shift") input.erase(std::remove(input.begin(), input.end(), "_"), input.end());
        if (generator.name == "solve_equation" && input.size() < 3) continue;  // too short for an equation: zeros
        const Words expected = solvers().at(generator.name)(input);
        if (got.target != expected) {
          if (wrong++ == 0)
            BOOST_ERROR(generator.name << ": " << join(got.input) << " → " << join(got.target) << ", not "
                                       << join(expected));
        }
        // Every label is the next token, and the last is EOS.
        BOOST_TEST(example.labels[example.labels.size() - 2] == kTaskEos);
      } else {
        const Words expected = annotators().at(generator.name)(got.all);
        if (got.labels != expected && wrong++ == 0) {
          BOOST_ERROR(generator.name << ": " << join(got.all) << " is labelled " << join(got.labels) << ", not "
                                     << join(expected));
        }
      }
    }
    BOOST_TEST(wrong == 0, generator.name << ": " << wrong << " of 1000 labels differ");
  }
}

BOOST_AUTO_TEST_CASE(an_example_depends_on_its_key_alone) {
  for (const TaskGenerator& generator : task_generators()) {
    const auto task = generator.make(Json::object());
    const std::int64_t length = task->weight(generator.train.high) > 0 ? generator.train.high : generator.train.low;
    const auto all_of = [&](int threads) {
      std::vector<std::vector<std::int32_t>> ids(64);
      std::vector<std::thread> workers;
      for (int worker = 0; worker < threads; ++worker) {
        workers.emplace_back([&, worker] {
          for (std::size_t i = static_cast<std::size_t>(worker); i < ids.size();
               i += static_cast<std::size_t>(threads)) {
            ids[i] = make_example(*task, generator.name, 5, Split::kTrain, length, static_cast<std::int64_t>(i)).ids;
          }
        });
      }
      for (std::thread& worker : workers) worker.join();
      return ids;
    };
    const auto one = all_of(1), eight = all_of(8);
    BOOST_TEST((one == eight), generator.name);
    const std::set<std::vector<std::int32_t>> different(one.begin(), one.end());
    BOOST_TEST(different.size() > (generator.name == "copy_repeat" || generator.name == "copy_repeat2" ? 15u : 20u),
               generator.name << ": " << different.size());
    const auto other = make_example(*task, generator.name, 5, Split::kTest, length, 0).ids;
    const auto third = make_example(*task, generator.name, 6, Split::kTrain, length, 1).ids;
    BOOST_TEST((other != one[0] || third != one[1]), generator.name);
  }
}

BOOST_AUTO_TEST_CASE(examples_are_those_that_they_have_always_been) {
  // Published data and cached results hold these examples; digests of some of every task are committed.
  std::vector<std::pair<std::string, Json>> variants;
  for (const TaskGenerator& generator : task_generators()) {
    variants.emplace_back(generator.name, Json::object());
    if (const support::Field* mode = support::find_field(generator.fields, "mode")) {
      variants.emplace_back(generator.name, Json{{"mode", mode->choices.at(1)}});
    }
    if (support::find_field(generator.fields, "alphabet") != nullptr)
      variants.emplace_back(generator.name, Json{{"alphabet", 61}});
    if (support::find_field(generator.fields, "kinds") != nullptr)
      variants.emplace_back(generator.name, Json{{"kinds", 3}});
  }
  Json digests = Json::object();
  for (const auto& [name, options] : variants) {
    const TaskGenerator& generator = *find_task(name);
    const auto task = generator.make(options);
    support::Sha256 hash;
    for (const std::string& symbol : task->symbols()) hash.update(symbol + "\n");
    const auto add = [&](const auto& values) {
      const std::uint64_t count = values.size();
      hash.update(&count, sizeof count);
      hash.update(values.data(), values.size() * sizeof(values[0]));
    };
    add(task->answers());
    for (const LengthRange range : {generator.train, generator.test}) {
      const std::int64_t step = std::max<std::int64_t>(1, (std::min<std::int64_t>(range.high, 160) - range.low) / 6);
      for (std::int64_t length = range.low, done = 0; length <= range.high && done < 8; length += step, ++done) {
        const double weight = task->weight(length);
        hash.update(&weight, sizeof weight);
        if (weight == 0) continue;
        for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) {
          for (std::int64_t index = 0; index < 12; ++index) {
            const TaskExample example = make_example(*task, name, kTaskTestSeed, split, length, index);
            add(example.ids);
            add(example.labels);
            add(example.unjudged);
          }
        }
      }
    }
    digests[options.empty() ? name : name + " " + options.dump()] = hash.hex().substr(0, 16);
  }
  const auto file = test::source_root() / "tests/data/golden/task_examples.json";
  if (std::getenv("PE_TEST_ACCEPT")) {
    support::make_folders(file.parent_path());
    support::write_file_atomically(file, digests.dump(1) + "\n", false);
    BOOST_ERROR("the golden digests were rewritten; run again without PE_TEST_ACCEPT");
  }
  const Json before = Json::parse(support::read_file(file));
  for (const auto& [name, digest] : digests.items()) {
    BOOST_TEST(
        before.value(name, Json()) == digest,
        name << ": its examples or symbols differ from those of the committed digest. If that is meant, raise .version "
                "of "
                "pe-generate and pe-evaluate in stages/, then accept with PE_TEST_ACCEPT=1; if not, find what changed");
  }
  for (const auto& [name, digest] : before.items()) BOOST_TEST(digests.contains(name), name + " is made no more");
}

BOOST_AUTO_TEST_CASE(products_of_permutations_have_their_golden_values) {
  const std::map<std::string, std::pair<std::string, std::string>> golden = {
      {"s3", {"e3 e3 e5 e2 e2 e1", "e3 e4 e1 e3 e1 e0"}},
      {"a5", {"e34 e39 e50 e22 e20 e10", "e34 e9 e54 e3 e23 e58"}},
      {"s5", {"e68 e79 e100 e44 e41 e20", "e68 e6 e114 e73 e56 e68"}}};
  for (const auto& [group, expected] : golden) {
    const auto task = find_task("permutation_product")->make({{"group", group}});
    const TaskExample example = make_example(*task, "permutation_product", kTaskTestSeed, Split::kTest, 6, 0);
    const Read got = read(*task, example);
    BOOST_TEST(join({got.all.begin() + 1, got.all.end()}) == expected.first, group);
    BOOST_TEST(join({got.labels.begin() + 1, got.labels.end()}) == expected.second, group);
    BOOST_TEST(static_cast<int>(example.unjudged[1]) == 1);
    const std::vector<std::int32_t> parts = {0, 0, 2, 2, 4, 4, 4};
    BOOST_CHECK_EQUAL_COLLECTIONS(example.part.begin(), example.part.end(), parts.begin(), parts.end());
    const auto last = find_task("permutation_product")->make({{"group", group}, {"mode", "final"}});
    const Read once = read(*last, make_example(*last, "permutation_product", kTaskTestSeed, Split::kTest, 6, 0));
    BOOST_TEST(join(once.input) == expected.first);
    BOOST_TEST(join(once.target) == got.labels.back());
  }
  const auto swaps = find_task("permutation_product")->make({{"group", "s5"}, {"only", "swaps"}});
  std::set<std::string> seen;
  for (std::int64_t i = 0; i < 50; ++i) {
    const Read got = read(*swaps, make_example(*swaps, "permutation_product", 1, Split::kTrain, 30, i));
    seen.insert(got.all.begin() + 1, got.all.end());
  }
  BOOST_TEST(seen.size() == 11u);  // the identity and ten pairs of points
  BOOST_CHECK_THROW(choose_task({{"kind", "permutation_product"}, {"group", "a5"}, {"only", "swaps"}}),
                    support::ConfigError);
}

BOOST_AUTO_TEST_CASE(words_of_several_tokens_are_walked_along_too) {
  const auto task = find_task("depo")->make({{"word_min", 2}, {"word_max", 4}, {"symbols", 5}, {"steps", 16}});
  for (std::int64_t i = 0; i < 100; ++i) {
    const Read got = read(*task, make_example(*task, "depo", 1, Split::kTest, 20, i));
    std::map<std::string, std::string> next;
    std::size_t at = 1;
    const auto word = [&] {  // ends with a token of a separate kind
      std::string all;
      do all += got.all[at] + " ";
      while (got.all[at++][0] != 'z');
      return all;
    };
    while (got.all[at].rfind("STEP_", 0) != 0) {
      const std::string from = word();
      next[from] = word();
    }
    BOOST_TEST(next.size() == 20u);
    int queries = 0;
    for (; at < got.all.size(); ++queries) {
      int k = std::stoi(got.all[at++].substr(5));
      BOOST_TEST((k & (k - 1)) == 0);
      std::string here = word();
      while (k-- > 0) here = next.at(here);
      BOOST_TEST(got.all[at] == "ANS");
      std::string labels;
      for (std::size_t t = at; got.labels[t] != "-"; ++t) labels += got.labels[t] + " ";
      BOOST_TEST(labels == here);
      ++at;
      BOOST_TEST(word() == here);
    }
    BOOST_TEST(queries == 10);
  }
}

BOOST_AUTO_TEST_CASE(alike_needles_are_counted_from_the_end_too) {
  const auto task = find_task("nth_of_alike")->make({{"from_end", true}});
  for (std::int64_t i = 0; i < 100; ++i) {
    const Read got = read(*task, make_example(*task, "nth_of_alike", 1, Split::kTest, 90, i));
    BOOST_TEST(got.all.size() == 90u);
    Words values;
    for (std::size_t t = 0; t + 2 < got.all.size(); ++t) {
      if (got.all[t] == "KEY" && got.all[t + 1] == got.all[88]) values.insert(values.begin(), got.all[t + 2]);
    }
    BOOST_TEST(got.labels.back() == values.at(static_cast<std::size_t>(std::stoi(got.all.back().substr(1))) - 1));
  }
}

BOOST_AUTO_TEST_CASE(binary_addition_and_multiplication_have_their_golden_values) {
  BOOST_TEST(join(answer_of("binary_addition", "0 0 1 2 0 1 1 0 1")) == "0 1 0 1 1 2 0 0 0 0");
  BOOST_TEST(join(answer_of("binary_addition", "1 0 0 1 2 0 0 0 0 0 1")) == "1 0 0 1 0 1 2 0 0 0 0 0");
  BOOST_TEST(join(answer_of("binary_multiplication", "0 0 1 2 0 1 1 0 1")) == "0 0 0 1 1 0 1 2 0");
  BOOST_TEST(join(answer_of("binary_multiplication", "1 0 0 1 2 0 0 0 0 0 1")) == "0 0 0 0 0 1 0 0 1 2 0");
}

BOOST_AUTO_TEST_CASE(other_chomsky_tasks_have_their_golden_values) {
  BOOST_TEST(join(answer_of("compute_sqrt", "1 0 0 1 0 1")) == "1 1 0");
  BOOST_TEST(join(answer_of("compute_sqrt", "1 1 1")) == "1 0");
  BOOST_TEST(join(answer_of("odds_first", "0 0 1 1 0 1 0 1")) == "0 1 1 1 0 1 0 0");
  BOOST_TEST(join(answer_of("odds_first", "1 1 0")) == "1 1 0");
  BOOST_TEST(join(answer_of("even_pairs", "0 0 1 1 1 0")) == "0");
  BOOST_TEST(join(answer_of("even_pairs", "0 1 0 1 0 0 1")) == "1");
  BOOST_TEST(join(answer_of("cycle_nav", "2 0 1 0 0")) == "3");
  BOOST_TEST(join(answer_of("cycle_nav", "2 2 2 0")) == "2");
  BOOST_TEST(join(answer_of("mod_arith_simple", "1 + 2 * 3")) == "2");
  BOOST_TEST(join(answer_of("mod_arith_simple", "1 - 1 - 1")) == "4");
  BOOST_TEST(join(answer_of("mod_arith_simple", "0 * 1 + 4 * 3 - 2")) == "0");
  BOOST_TEST(join(answer_of("stack_manip", "0 1 1 0 PUSH1 2 2")) == "1 1 0 2 0 0 0 0");
  BOOST_TEST(join(answer_of("stack_manip", "1 1 0 2 2 2")) == "2 0 0 0 0 0 0");
}

BOOST_AUTO_TEST_CASE(scan_has_its_golden_counts) {
  const auto task = find_task("scan")->make(Json::object());
  double all = 0, to_22 = 0, from_24 = 0, to_25 = 0, beyond_25 = 0;
  std::int64_t longest = 0;
  for (std::int64_t n = 1; n < 100; ++n) {
    const double commands = task->weight(n);
    all += commands;
    if (n <= 22) to_22 += commands;
    if (n >= 24) from_24 += commands;
    if (n <= 25)
      to_25 += commands;
    else
      beyond_25 += commands;
    if (commands > 0) longest = n;
  }
  BOOST_TEST(all == 20910);
  BOOST_TEST(to_22 == 16990);
  BOOST_TEST(from_24 == 3920);
  BOOST_TEST(to_25 == 17774);
  BOOST_TEST(beyond_25 == 3136);
  BOOST_TEST(longest == 48);
  BOOST_TEST(join(answer_of("scan", "walk left twice after run")) == "RUN TURN_LEFT WALK TURN_LEFT WALK");
}

BOOST_AUTO_TEST_CASE(posgen_needs_beginnings_for_each_split) {
  BOOST_CHECK_THROW(find_task("posgen")->make({{"rule", "recursive"}, {"modulus", 2}, {"j", 1}, {"k", 3}}),
                    support::ConfigError);
}

BOOST_AUTO_TEST_CASE(posgen_has_its_golden_sequences) {
  // Each rule is followed from the example's own beginning, so a beginning of 1 2 3 4 is looked for.
  const std::map<std::string, std::string> golden = {{"recursive", "1 2 3 4 3 5 1 6 1 6 0 6"},
                                                     {"chain_of_thought", "1 2 3 4 3 4 5 6 2 0 2 5"},
                                                     {"semi_recursive", "1 2 3 4 3 4 6 1 0 3 1 1"}};
  for (const auto& [rule, sequence] : golden) {
    const auto task = find_task("posgen")->make({{"rule", rule}, {"modulus", 7}, {"j", 1}, {"k", 3}});
    std::string found;
    for (int part = 0; part < 3 && found.empty(); ++part) {
      for (std::int64_t i = 0; i < 60000 && found.empty(); ++i) {
        const Words all = read(*task, make_example(*task, "posgen", 1, static_cast<Split>(part), 12, i)).all;
        if (join({all.begin() + 1, all.begin() + 5}) == "1 2 3 4") found = join({all.begin() + 1, all.end()});
      }
    }
    BOOST_TEST(found == sequence, rule << ": " << found);
  }
}

BOOST_AUTO_TEST_CASE(beginnings_of_posgen_are_disjoint_between_splits) {
  const auto task = find_task("posgen")->make({{"modulus", 7}});
  std::map<int, std::set<std::string>> seen;
  for (int part = 0; part < 3; ++part) {
    for (std::int64_t i = 0; i < 30000; ++i) {
      const Words all = read(*task, make_example(*task, "posgen", 1, static_cast<Split>(part), 8, i)).all;
      seen[part].insert(join({all.begin() + 1, all.begin() + 5}));
    }
  }
  for (int part = 1; part < 3; ++part) {
    for (const std::string& start : seen[part])
      BOOST_REQUIRE(seen[0].count(start) == 0 && (part == 2 ? seen[1].count(start) == 0 : true));
  }
  BOOST_TEST(seen[0].size() + seen[1].size() + seen[2].size() == 2401u);  // all tuples belong somewhere
}

BOOST_AUTO_TEST_CASE(a_guesser_is_right_by_chance) {
  for (const TaskGenerator& generator : task_generators()) {
    const auto task = generator.make(Json::object());
    const auto answers = task->answers();
    support::Xoshiro random(support::make_key({3, support::fnv1a64(generator.name)}));
    double expected_exact = 0, expected_token = 0, exact = 0, token = 0, variance_exact = 0;
    constexpr int kExamples = 1500;
    std::vector<double> shares;
    for (std::int64_t i = 0; i < kExamples; ++i) {
      const std::int64_t length = length_for(generator, *task, random);
      const TaskExample example = make_example(*task, generator.name, 9, Split::kTest, length, i);
      const TaskChance chance = chance_of(example, answers);
      expected_exact += chance.exact;
      expected_token += chance.token;
      variance_exact += chance.exact * (1 - chance.exact);
      // One constant answer, drawn for each example; format (EOS, commas) is known.
      const std::vector<std::int32_t>& choices = example.candidates.empty() ? answers : example.candidates;
      const std::int32_t constant = choices[random.below(choices.size())];
      bool all = true;
      double right = 0, judged = 0;
      for (std::size_t t = 0; t < example.labels.size(); ++t) {
        if (example.labels[t] == kUnlabelled || (!example.unjudged.empty() && example.unjudged[t] != 0)) continue;
        const bool guessed = std::find(choices.begin(), choices.end(), example.labels[t]) != choices.end();
        const bool hit = !guessed || example.labels[t] == constant;
        all = all && hit;
        right += hit;
        ++judged;
      }
      if (judged == 0) continue;
      exact += all;
      token += right / judged;
      shares.push_back(right / judged - chance.token);
    }
    double squares = 0;
    for (const double share : shares) squares += share * share;
    BOOST_TEST(std::abs(token - expected_token) <= 3.5 * std::sqrt(squares) + 1e-9,
               generator.name << ": " << token / kExamples << ", chance says " << expected_token / kExamples);
    // A constant is right on a whole answer more often than independent guesses where answers repeat themselves.
    if (generator.name.rfind("copy_rep", 0) != 0) {
      BOOST_TEST(exact >= expected_exact - 3.5 * std::sqrt(variance_exact) - 1,
                 generator.name << ": " << exact << ", " << expected_exact);
    }
  }
  const auto chance = [](const char* name, std::int64_t length) {
    const auto task = find_task(name)->make(Json::object());
    return chance_of(make_example(*task, name, 1, Split::kTest, length, 0), task->answers()).exact;
  };
  BOOST_TEST(std::abs(chance("sum_mod", 5) - 0.1) < 1e-12);
  BOOST_TEST(std::abs(chance("poly", 5) - 0.1) < 1e-12);
  BOOST_TEST(std::abs(chance("parity", 5) - 0.5) < 1e-12);
  BOOST_TEST(std::abs(chance("lego", 5) - 0.5) < 1e-12);
}

BOOST_AUTO_TEST_CASE(parallel_mode_labels_outputs_without_a_shift) {
  const auto task = find_task("reverse_string")->make({{"mode", "parallel"}});
  const Read got = read(*task, make_example(*task, "reverse_string", 1, Split::kTest, 9, 0));
  BOOST_TEST(got.all.size() == 9u + 1 + 9);
  BOOST_TEST(got.all[9] == "SEP");
  BOOST_TEST(got.labels[9] == "-");
  BOOST_TEST(join(got.target) == join(reversed(got.input)));
  for (std::size_t i = 10; i < 19; ++i) BOOST_TEST(got.all[i] == "OUT");
  // The same items as in the other mode.
  const auto sequence = find_task("reverse_string")->make(Json::object());
  BOOST_TEST(join(read(*sequence, make_example(*sequence, "reverse_string", 1, Split::kTest, 9, 0)).input) ==
             join(got.input));
}

BOOST_AUTO_TEST_CASE(what_follows_a_terminator_is_learned_but_not_judged) {
  for (const char* mode : {"sequence", "parallel"}) {
    const auto task = find_task("stack_manip")->make({{"mode", mode}});
    for (std::int64_t i = 0; i < 50; ++i) {
      const TaskExample example = make_example(*task, "stack_manip", 1, Split::kTest, 10, i);
      BOOST_REQUIRE(example.unjudged.size() == example.ids.size());
      bool ended = false;
      for (std::size_t t = 0; t < example.labels.size(); ++t) {
        if (example.labels[t] == kUnlabelled) continue;
        const bool output = example.labels[t] != kTaskEos;
        BOOST_TEST((example.unjudged[t] != 0) == (ended && output));
        if (output && example.labels[t] == kFirstSymbol + 2) ended = true;
      }
      BOOST_TEST(ended);
    }
  }
}

BOOST_AUTO_TEST_CASE(pairs_of_digit_counts_are_equally_often) {
  const auto task = find_task("add")->make(Json::object());
  BOOST_TEST(task->weight(1) == 1);
  BOOST_TEST(task->weight(8) == 15);
  std::map<std::pair<std::size_t, std::size_t>, int> seen;
  constexpr int kExamples = 7000;
  for (std::int64_t i = 0; i < kExamples; ++i) {
    const auto [a, b] = around(read(*task, make_example(*task, "add", 2, Split::kTrain, 4, i)).input, "+");
    ++seen[{a.size(), b.size()}];
    if (a.size() > 1) BOOST_TEST(a[0] != "0");
  }
  BOOST_TEST(seen.size() == 7u);
  for (const auto& [pair, times] : seen) {
    BOOST_TEST(std::max(pair.first, pair.second) == 4u);
    BOOST_TEST(std::abs(times - kExamples / 7.0) < 4 * std::sqrt(kExamples / 7.0));
  }
}

BOOST_AUTO_TEST_CASE(gaps_of_recall_are_short_more_often_than_long) {
  const auto task = find_task("mqar")->make(Json::object());
  std::vector<int> at_gap(28, 0);
  for (std::int64_t i = 0; i < 2000; ++i) {
    const TaskExample example = make_example(*task, "mqar", 2, Split::kTrain, 64, i);
    int labels = 0;
    for (std::size_t t = 0; t < 64; ++t) {
      if (example.labels[t] == kUnlabelled) continue;
      ++labels;
      BOOST_TEST(t % 2 == 0u);
      ++at_gap[(t - 8) / 2];
    }
    BOOST_TEST(labels == 4);
  }
  // Weights of 1, 1/2, 1/3, … without replacement: the first slot is nearly always taken, the last seldom.
  BOOST_TEST(at_gap[0] > 3 * at_gap[5]);
  BOOST_TEST(at_gap[1] > 3 * at_gap[20]);
}

BOOST_AUTO_TEST_CASE(strings_too_long_for_an_n_gram_that_occurs_once_have_no_examples) {
  const auto task = find_task("copy_lm")->make({{"variant", "prefix"}, {"ngram", 1}, {"answer", 1}});
  BOOST_TEST(task->weight(156) == 1);
  BOOST_TEST(task->weight(157) == 0);
  for (std::int64_t i = 0; i < 20; ++i) make_example(*task, "copy_lm", 2, Split::kTrain, 156, i);
  BOOST_TEST(find_task("copy_lm")->make({{"variant", "copy"}})->weight(100000) == 1);
}

BOOST_AUTO_TEST_CASE(copies_of_strings_can_be_asked_by_what_stands_before_the_answer) {
  for (const char* variant : {"prefix", "suffix"}) {
    const auto task = find_task("copy_lm")->make({{"variant", variant}, {"ngram", 3}, {"answer", 4}});
    for (std::int64_t i = 0; i < 200; ++i) {
      std::string text;
      const Read got = read(*task, make_example(*task, "copy_lm", 2, Split::kTrain, 20, i));
      for (const std::string& word : got.all) text += word;
      const std::size_t first = text.find('|'), second = text.find('|', first + 1);
      const std::string s =
          std::string(variant) == "prefix" ? text.substr(first + 1, second - first - 1) : text.substr(1, first - 1);
      const std::string gram = std::string(variant) == "prefix" ? text.substr(1, first - 1) : text.substr(first + 1, 3);
      BOOST_TEST(s.size() == 20u);
      BOOST_TEST(gram.size() == 3u);
      BOOST_TEST(s.find(gram) == s.rfind(gram));
      std::string target;
      for (const std::string& word : got.target) target += word;
      BOOST_TEST(target == s.substr(s.find(gram) + 3, 4) + ".");
    }
  }
}

BOOST_AUTO_TEST_CASE(an_unknown_task_or_option_is_named_with_the_nearest_word) {
  BOOST_CHECK_EXCEPTION(choose_task("copy_repeet"), support::ConfigError, [](const auto& error) {
    return std::string(error.what()).find("did you mean 'copy_repeat'?") != std::string::npos;
  });
  BOOST_CHECK_EXCEPTION(choose_task(Json{{"kind", "posgen"}, {"modulus", 1}}), support::ConfigError,
                        [](const auto& error) {
                          return std::string(error.what()).find("modulus is 1, at least 2") != std::string::npos;
                        });
  BOOST_CHECK_EXCEPTION(
      choose_task(Json{{"kind", "posgen"}, {"modulas", 7}}), support::ConfigError,
      [](const auto& error) { return std::string(error.what()).find("did you mean 'modulus'?") != std::string::npos; });
}

BOOST_AUTO_TEST_SUITE_END()
