#include "cli/completion.h"

#include <algorithm>

#include "cli/command_table.h"
#include "cli/layout.h"
#include "cli/stage_flags.h"
#include "cli/tool_table.h"
#include "support/text.h"

namespace pe::cli {

namespace {

using support::cat;

bool begins(const std::string& word, const std::string& typed) { return word.rfind(typed, 0) == 0; }

/// A flag as completion sees it, of a command or of a stage.
struct CompletedFlag {
  std::vector<std::string> names;
  std::string value, help;
  bool repeats;
};

template <typename Table>
std::vector<CompletedFlag> known(const Table& table) {
  std::vector<CompletedFlag> out;
  for (const auto& flag : table) out.push_back({support::split(flag.names, ','), flag.value, flag.help, flag.repeats});
  return out;
}

const CompletedFlag* find(const std::vector<CompletedFlag>& flags, const std::string& name) {
  for (const CompletedFlag& flag : flags) {
    if (std::find(flag.names.begin(), flag.names.end(), name) != flag.names.end()) return &flag;
  }
  return nullptr;
}

void add(std::vector<Candidate>& out, const std::string& kinds, const std::string& typed,
         const CompletionContext& context, CompletionSource& source) {
  const std::vector<std::string> choices = choices_of(kinds);
  for (const std::string& word : choices) {
    if (begins(word, typed)) out.push_back({word, ""});
  }
  if (!choices.empty()) return;
  for (const std::string& kind : support::split(kinds, '|')) {
    if (std::none_of(kind.begin(), kind.end(), [](char c) { return c >= 'A' && c <= 'Z'; })) {
      if (begins(kind, typed)) out.push_back({kind, ""});  // a word among kinds stands for itself
      continue;
    }
    for (Candidate& candidate : source.find(kind, typed, context)) {
      const bool known =
          std::any_of(out.begin(), out.end(), [&](const Candidate& one) { return one.word == candidate.word; });
      if (begins(candidate.word, typed) && !known) out.push_back(std::move(candidate));
    }
  }
}

/// Kinds of the word after `words`. An optional FILE is there when the first word names one; after one word of a place
/// that repeats, the next place may follow, too.
std::vector<std::string> kinds_at(const std::vector<UsagePlace>& places, const std::vector<std::string>& words) {
  std::size_t at = 0;
  bool repeated = false;
  for (const std::string& word : words) {
    if (at >= places.size()) return {};
    if (places[at].kind == "FILE" && places[at].optional && !names_pipeline_file(word)) ++at;
    if (at >= places.size()) return {};
    repeated = places[at].repeats;
    if (!repeated) ++at;
  }
  std::vector<std::string> out;
  for (; at < places.size(); ++at) {
    out.push_back(places[at].kind);
    if (!places[at].optional && !repeated) break;
    repeated = false;
  }
  return out;
}

/// Bash reads these in a word that is not quoted.
std::string shell_escaped(const std::string& word) {
  std::string out;
  for (const char c : word) {
    if (std::string_view(" \t\\'\"`$&;()<>|{}?*[]~#!").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

namespace {

/// Flags and places of the program that a line begins with.
struct Grammar {
  std::vector<CompletedFlag> flags;
  std::vector<UsagePlace> places;
};

Grammar grammar_of_tool(const ToolText& tool) {
  Grammar grammar;
  for (const ToolFlag& flag : tool.flags) {
    if (flag.plain) grammar.places.push_back({flag.type, false, false});
    grammar.flags.push_back(
        {{flag.name}, flag.choices.empty() ? flag.type : support::join(flag.choices, "|"), flag.help, flag.many});
  }
  grammar.flags.push_back({{"--version"}, "", "Show the version", false});
  if (!tool.verbs.empty())
    grammar.places.insert(grammar.places.begin(), {support::join(tool.verbs, "|"), false, false});
  return grammar;
}

Grammar grammar_of_stage() {
  Grammar grammar{known(stage_flags()), {}};
  grammar.flags.push_back({{"--version"}, "", "Show the version", false});
  grammar.flags.push_back({{"-h", "--help"}, "TOPIC", "Show help, or help on part of the config", false});
  return grammar;
}

std::vector<Candidate> complete_command(const std::string& typed, CompletionSource& source) {
  std::vector<Candidate> out;
  for (const Command& command : source.commands()) {
    if (begins(command.name, typed)) out.push_back({command.name, command.summary});
  }
  for (const char* flag : {"--help", "--version"}) {
    if (!typed.empty() && begins(flag, typed)) out.push_back({flag, ""});
  }
  return out;
}

/// The words between the program, or its command, and the word that is typed.
struct WordsBefore {
  const CompletedFlag* open = nullptr;  ///< a flag that still needs its value
  bool only_words = false;              ///< after "--"
  std::vector<std::string> given;
};

/// Notes values of flags, and words of places, in `context`.
WordsBefore read_words(const std::vector<std::string>& words, std::size_t at, const std::vector<CompletedFlag>& flags,
                       CompletionContext& context) {
  WordsBefore before;
  for (; at + 1 < words.size(); ++at) {
    const std::string& word = words[at];
    if (before.open) {
      context.values.emplace_back(before.open->names.back(), word);
      before.open = nullptr;
    } else if (!before.only_words && word == "--") {
      before.only_words = true;
    } else if (!before.only_words && word.size() > 1 && word.front() == '-') {
      const auto equals = word.find('=');
      const CompletedFlag* flag = find(flags, word.substr(0, equals));
      if (!flag) continue;
      before.given.push_back(flag->names.back());
      if (flag->value.empty()) continue;
      if (equals == std::string::npos)
        before.open = flag;
      else
        context.values.emplace_back(flag->names.back(), word.substr(equals + 1));
    } else {
      context.words.push_back(word);
    }
  }
  return before;
}

/// Flags that begin with `typed`, or values of the flag in "--flag=value".
std::vector<Candidate> complete_flag(const std::string& typed, const std::vector<CompletedFlag>& flags,
                                     const std::vector<std::string>& given, CompletionContext& context,
                                     CompletionSource& source) {
  std::vector<Candidate> out;
  const auto equals = typed.find('=');
  if (equals != std::string::npos) {
    if (const CompletedFlag* flag = find(flags, typed.substr(0, equals)); flag && !flag->value.empty()) {
      context.flag = flag->names.back();
      add(out, flag->value, typed.substr(equals + 1), context, source);
      for (Candidate& candidate : out) candidate.word.insert(0, typed, 0, equals + 1);
    }
    return out;
  }
  for (const CompletedFlag& flag : flags) {
    if (!flag.repeats && std::find(given.begin(), given.end(), flag.names.back()) != given.end()) continue;
    for (const std::string& name : flag.names) {
      if (begins(name, typed) && (name.size() > 2 || typed.size() == 2)) out.push_back({name, flag.help});
    }
  }
  return out;
}

}  // namespace

std::vector<Candidate> complete(const std::vector<std::string>& words, CompletionSource& source) {
  std::vector<Candidate> out;
  if (words.size() < 2) return out;
  const std::string& typed = words.back();
  CompletionContext context;
  context.program = words.front().substr(words.front().rfind('/') + 1);
  std::size_t at = 1;
  Grammar grammar;
  if (context.program == "pe-pipeline") {
    if (words.size() == 2) return complete_command(typed, source);
    const Command* command = find_command(source.commands(), words[1]);
    if (!command) return out;
    context.command = command->name;
    grammar = {known(command->flags), usage_places(command->usage)};
    at = 2;
  } else if (const ToolText* tool = find_tool(context.program)) {
    grammar = grammar_of_tool(*tool);
  } else {
    grammar = grammar_of_stage();
  }
  std::vector<CompletedFlag>& flags = grammar.flags;
  if (!find(flags, "--help")) flags.push_back({{"-h", "--help"}, "", "Show help", false});
  const WordsBefore before = read_words(words, at, flags, context);
  if (before.open) {
    context.flag = before.open->names.back();
    add(out, before.open->value, typed, context, source);
    return out;
  }
  if (!before.only_words && !typed.empty() && typed.front() == '-')
    return complete_flag(typed, flags, before.given, context, source);
  for (const std::string& kind : kinds_at(grammar.places, context.words)) add(out, kind, typed, context, source);
  return out;
}

TypedLine split_line(std::string_view line, std::string_view breaks) {
  TypedLine out;
  std::string word;
  bool inside = false;
  char quote = 0;
  std::size_t settled = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote) {
      if (c == quote)
        quote = 0;
      else if (c == '\\' && quote == '"' && i + 1 < line.size())
        word += line[++i];
      else
        word += c;
      continue;
    }
    if (c == ' ' || c == '\t') {
      if (inside) out.words.push_back(word);
      word.clear();
      inside = false;
      settled = 0;
      continue;
    }
    inside = true;
    if (c == '\'' || c == '"') {
      quote = c;
      settled = word.size();
    } else if (c == '\\' && i + 1 < line.size()) {
      word += line[++i];
    } else {
      word += c;
      if (breaks.find(c) != std::string_view::npos) settled = word.size();
    }
  }
  out.words.push_back(word);
  out.quoted = quote != 0;
  out.settled = settled;
  return out;
}

std::string answer_completion(const std::vector<std::string>& arguments, CompletionSource& source) {
  std::string out;
  if (arguments.size() < 2) return out;
  if (arguments.front() == "bash") {
    TypedLine line = split_line(arguments[1], arguments.size() > 2 ? arguments[2] : "");
    std::vector<Candidate> found = complete(line.words, source);
    // Bash closes a quote after a single candidate, so an incomplete one is returned with its possible continuations.
    if (found.size() == 1 && !found[0].word.empty() &&
        std::string_view("=[,/.").find(found[0].word.back()) != std::string_view::npos) {
      line.words.back() = found[0].word;
      if (std::vector<Candidate> further = complete(line.words, source); !further.empty()) found = std::move(further);
    }
    for (const Candidate& candidate : found) {
      if (candidate.word.size() < line.settled) continue;
      const std::string rest = candidate.word.substr(line.settled);
      out += (line.quoted ? rest : shell_escaped(rest)) + "\n";
    }
    return out;
  }
  for (const Candidate& candidate : complete({arguments.begin() + 1, arguments.end()}, source)) {
    out += cat(candidate.word, "\t", candidate.help, "\n");
  }
  return out;
}

std::string completion_script(const std::string& shell, const std::vector<std::string>& programs) {
  std::string names;
  for (const std::string& program : programs) names += " " + program;
  if (shell == "bash") {
    return cat(R"sh(# bash completion of pe-pipeline and its stages: source this, or put it into
# ~/.local/share/bash-completion/completions/pe-pipeline
_pe_pipeline() {
  local asked=pe-pipeline candidate
  case $1 in */*) asked=${1%/*}/pe-pipeline ;; esac
  COMPREPLY=()
  while IFS= read -r candidate; do
    COMPREPLY+=("$candidate")
  done < <("${asked/#\~/$HOME}" __complete bash "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)
  case ${COMPREPLY[*]} in *[=,/.] | *'[') compopt -o nospace 2>/dev/null ;; esac
}
complete -F _pe_pipeline)sh",
               names, "\n");
  }
  if (shell == "zsh") {
    return cat("#compdef", names, R"sh(
# zsh completion of pe-pipeline and its stages: source this after compinit, or put it as _pe_pipeline into a folder of
# $fpath
_pe_pipeline() {
  local asked=pe-pipeline line word
  local -a whole whole_notes open open_notes
  [[ $words[1] == */* ]] && asked=${~words[1]:h}/pe-pipeline
  while IFS= read -r line; do
    word=${line%%$'\t'*}
    if [[ $word == *[=,/.\[] ]]; then
      open+=("$word"); open_notes+=("$word  ${line#*$'\t'}")
    else
      whole+=("$word"); whole_notes+=("$word  ${line#*$'\t'}")
    fi
  done < <($asked __complete zsh "${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)
  (( $#whole )) && compadd -l -d whole_notes -- "${whole[@]}"
  (( $#open )) && compadd -S '' -l -d open_notes -- "${open[@]}"
}
compdef _pe_pipeline)sh",
               names, "\n");
  }
  return cat(R"sh(# fish completion of pe-pipeline and its stages: source this, or put it into
# ~/.config/fish/completions/pe-pipeline.fish
function __pe_pipeline_complete
  set -l words (commandline --tokenize --cut-at-cursor --current-process)
  set -l asked pe-pipeline
  string match --quiet '*/*' -- $words[1]; and set asked (string replace --regex '[^/]*$' '' -- $words[1])pe-pipeline
  $asked __complete fish $words (commandline --current-token --cut-at-cursor | string unescape) 2>/dev/null
end
for program in)sh",
             names, R"sh(
  complete --command $program --no-files --arguments '(__pe_pipeline_complete)'
end
)sh");
}

}  // namespace pe::cli
