#!/usr/bin/env python3
"""Checks documents, --help texts and messages against the rules of doc/style.md.

    prose.py                   the test: findings per 1,000 sentences of each group, against its ceiling
    prose.py --list [FILE...]  every finding in these files, or in all
    prose.py --examples        only the examples of doc/style.md

A finding names file, line, rule and a proposal. Exit code 1: a group is above its ceiling, or an example is wrong.
"""
import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Allowed findings per 1,000 sentences. A ceiling only goes down: after an improvement, write the new rate here.
CEILINGS = {
    "README and CONTRIBUTING": 4,
    "documents": 1,
    "studies": 15,
    "pages of encodings": 6,
    "help and messages": 31,
}

LONGEST_SENTENCE = 30   # words; the rule says 25
LONGEST_CELL = 30       # words of a table cell; the rule says 12
WIDEST_LINE = 100       # columns of Markdown outside tables and code
MOST_NUMBERS = 3        # in a sentence; the rule says 2

# Rule of doc/style.md, pattern, proposal.
PATTERNS = [
    (1, r"^(?:What|Whatever|Whoever|Whichever)\b(?!.*\?$)", "begin with the thing itself"),
    (1, r"\b(?:of|by|from|than|with|for|on|is|are|to) what\b(?! extent| kind)(?!.*\?$)", "name the thing instead of 'what …'"),
    (2, r"\bbeside\b", "write 'next to', 'with' or 'compared with'"),
    (2, r"\b(?:likewise|anew|thereof|whereof|therein|hereby|whence|thence|lest|thrice|ere|heretofore)\b",
     "use an everyday word: 'also', 'again', 'three times'"),
    (3, r"\bof (?:its|their|our|your|his|her|one's|somebody's) own\b", "write 'its X' or 'a separate X'"),
    (4, r"\b(?:nobody|somebody|anybody|everybody|whoever|whomever|no one)\b", "name the program, or use the passive"),
    (4, r"\b(?:is|are|was|were|be|been|being) told\b|\bunless told\b|\bsays? so\b", "write 'is set to', 'the log has', 'by default'"),
    (5, r"\b(?:go|goes|going|went) on\b", "write 'continue'"),
    (5, r"\b(?:stands?|stood) (?:in|at|for|aside|there|behind|beyond|by)\b|\bcomes? out\b|\bties? up\b|\bbears\b",
     "write 'is', 'has', 'results in' or 'finishes'"),
    (5, r"\b(?:lies|lie) (?:in|at|beyond|beside|behind|there)\b", "write 'is'"),
    (5, r"\bmend(?:s|ed|ing)?\b", "write 'repair' or 'fix'"),
    (5, r"\bas (?:it is|they are|it was|they were|it stands|they stand)(?=[.,;:)]|$)", "write 'unchanged' or 'unscaled'"),
    (6, r"\b(?:learned|trained) numbers\b", "write 'parameters'"),
    (6, r"\bturn(?:s|ed|ing)? (?:q|k|pairs|queries|keys|heads|channels)\b", "write 'rotate'"),
    (6, r"\brefus(?:e|es|ed|ing)\b", "write 'reject'"),
    (6, r"\bdamaged\b", "write 'corrupt'"),
    (6, r"\bseeds? scatter|\bscatters? (?:over|by|less|more)\b", "write 'vary' or 'the standard deviation is'"),
]
PATTERNS = [(rule, re.compile(pattern, 0 if pattern.startswith("^") else re.I), proposal)
            for rule, pattern, proposal in PATTERNS]
NUMBER = re.compile(r"(?<![\w.,/-])[0-9][0-9.,]*(?:e-?[0-9]+)?(?:\s?%|[kMGT]B?)?(?![\w/-])")


class Sentence:
    """A sentence of a paragraph, a table cell, or a string of the code, with the line where its text begins."""

    def __init__(self, line, text, kind):
        self.line, self.text, self.kind = line, text, kind


def without_code(text):
    """The text with code and the targets of links replaced."""
    text = re.sub(r"`[^`]*`", "CODE", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return text.replace("[", "").replace("]", "").replace("*", "")


def split(line, text, kind):
    """Sentences of at least three words."""
    for part in re.split(r"(?<=[.!?])[\"')]*\s+(?=[A-Z0-9\"'(])", without_code(text)):
        if len(part.split()) > 2:
            yield Sentence(line, part.strip(), kind)


def sentences_of_markdown(text):
    paragraph, start, fenced = [], 0, False

    def flush():
        nonlocal paragraph
        if paragraph:
            yield from split(start, " ".join(paragraph), "text")
        paragraph = []

    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if stripped.startswith("```"):
            fenced = not fenced
            stripped = ""
        elif fenced or (line.startswith("    ") and not paragraph):
            stripped = ""
        if stripped.startswith("|"):
            yield from flush()
            if not set(stripped) <= set("|-: "):
                for cell in re.split(r"(?<!\\)\|", stripped.strip("|")):
                    if len(cell.split()) > 3:
                        yield Sentence(number, without_code(cell.strip()), "cell")
            continue
        item = re.match(r"(?:[-*+]|\d+\.)\s+", stripped)
        if not stripped or stripped[0] in "#<!" or item:
            yield from flush()
            if not item:
                continue
            stripped = stripped[item.end():]
        if not paragraph:
            start = number
        paragraph.append(stripped)
    yield from flush()


LITERALS = re.compile(r'"((?:[^"\\\n]|\\.)*)"(?:\s*"((?:[^"\\\n]|\\.)*)")*')
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def sentences_of_code(text):
    """Texts in quotation marks that have four words or more; adjacent literals are one text."""
    text = re.sub(r'R"(\w*)\(.*?\)\1"', lambda raw: '""' + "\n" * raw.group(0).count("\n"), text, flags=re.S)
    text = re.sub(r"^\s*(?:#include.*|//.*)$", "", text, flags=re.M)
    line, at = 1, 0
    for found in LITERALS.finditer(text):
        line += text.count("\n", at, found.start())
        at = found.start()
        whole = "".join(LITERAL.findall(found.group(0))).replace("\\n", " ").replace('\\"', "'")
        if len(re.findall(r"[a-z]{2,}", whole)) >= 4 and " " in whole:
            yield from split(line, whole, "string")


def findings(sentence):
    """(rule, proposal) of a sentence."""
    for rule, pattern, proposal in PATTERNS:
        if pattern.search(sentence.text):
            yield rule, proposal
    words = len(sentence.text.split())
    if sentence.kind == "cell":
        if words > LONGEST_CELL:
            yield 8, f"{words} words in a cell: move the text below the table"
        return
    if words > LONGEST_SENTENCE:
        yield 7, f"{words} words: split it"
    elif len(re.findall(r"[;:](?=\s)", sentence.text)) > 2:
        yield 7, "several colons and semicolons: split it"
    if sentence.kind == "text" and len(NUMBER.findall(sentence.text)) > MOST_NUMBERS:
        yield 11, "move the numbers into a table"


def wide_lines(text):
    """Lines of Markdown above the limit, without comments, and outside tables, code and lines that one long word fills."""
    fenced = False
    for number, line in enumerate(text.split("\n"), 1):
        line = re.sub(r"<!--.*?-->", "", line)
        if line.startswith("```"):
            fenced = not fenced
        if fenced or line.startswith(("|", "    ", "!", "<")) or len(line) <= WIDEST_LINE:
            continue
        if " " in line.strip()[:WIDEST_LINE]:
            yield number, line


def group_of(name):
    if name in ("README.md", "CONTRIBUTING.md"):
        return "README and CONTRIBUTING"
    if name.startswith("doc/") and name.endswith(".md"):
        part = name.split("/")[1]
        return {"studies": "studies", "encodings": "pages of encodings"}.get(part, "documents")
    if re.match(r"(?:lib|stages)/.*\.(?:cpp|h)$", name):
        return "help and messages"
    return None


def check(name):
    """The number of sentences of a file, and its findings as (line, rule, excerpt, proposal)."""
    text = (ROOT / name).read_text(encoding="utf-8", errors="replace")
    markdown = name.endswith(".md")
    count, found = 0, []
    for sentence in sentences_of_markdown(text) if markdown else sentences_of_code(text):
        count += 1
        for rule, proposal in findings(sentence):
            found.append((sentence.line, rule, sentence.text[:120], proposal))
    if markdown:
        for number, line in wide_lines(text):
            found.append((number, 8, line.strip()[:60] + " …", f"{len(line)} columns: break the line"))
    return count, sorted(found)


def example_errors():
    """Mistakes of the examples in doc/style.md: each `before` must have a finding of its rule, each `after` none."""
    text = (ROOT / "doc/style.md").read_text(encoding="utf-8")
    examples = re.findall(r"^## (\d+)\. .*?^before: (.*?)^after: (.*?)^```", text, flags=re.M | re.S)
    if [int(rule) for rule, _, _ in examples] != list(range(1, 13)):
        yield "doc/style.md: expected rules 1 to 12 with an example each"
    checked = {1, 2, 3, 4, 5, 6, 7, 8, 11}
    for rule, before, after in examples:
        for text, is_before in ((before, True), (after, False)):
            found = {r for s in sentences_of_markdown(text.strip()) for r, _ in findings(s)}
            if is_before and int(rule) in checked and int(rule) not in found:
                yield f"doc/style.md: rule {rule} does not find its example: {text.strip()}"
            if not is_before and found:
                yield f"doc/style.md: rule {min(found)} finds the corrected example of rule {rule}: {text.strip()}"


def earlier_ceilings():
    """The ceilings of the previous commit of this script; empty without git."""
    name = "tests/documents/prose.py"
    try:
        commits = subprocess.run(["git", "log", "-2", "--format=%H", "--", name], cwd=ROOT, capture_output=True,
                                 text=True, check=True).stdout.split()
        texts = [subprocess.run(["git", "show", f"{commit}:{name}"], cwd=ROOT, capture_output=True, text=True,
                                check=True).stdout for commit in commits]
    except (OSError, subprocess.CalledProcessError):
        return {}
    lowest = {}
    for text in texts:
        for group, value in re.findall(r'^    "([^"]+)": (\d+),$', text, flags=re.M):
            lowest[group] = min(int(value), lowest.get(group, int(value)))
    return lowest


def files():
    for folder in ("doc", "lib", "stages"):
        for path in sorted((ROOT / folder).rglob("*")):
            yield path.relative_to(ROOT).as_posix()
    yield from ("README.md", "CONTRIBUTING.md")


def main():
    parser = argparse.ArgumentParser(description="Checks documents, help and messages against doc/style.md.")
    parser.add_argument("--list", action="store_true", help="print every finding")
    parser.add_argument("--examples", action="store_true", help="check only the examples of doc/style.md")
    parser.add_argument("files", nargs="*", help="files relative to the root (default: all)")
    arguments = parser.parse_args()

    for name in arguments.files:
        if group_of(name) is None or not (ROOT / name).is_file():
            parser.error(f"{name} is not a checked file: give paths relative to {ROOT}, or none for all files")

    errors = list(example_errors())
    if arguments.examples:
        print("\n".join(errors))
        return bool(errors)
    sentences, found = {}, {}
    for name in arguments.files or files():
        group = group_of(name)
        if group is None:
            continue
        count, here = check(name)
        sentences[group] = sentences.get(group, 0) + count
        found.setdefault(group, []).extend(
            f"{name}:{line}: rule {rule}: {proposal}: {excerpt}" for line, rule, excerpt, proposal in here)
    if arguments.list:
        for lines in found.values():
            print("\n".join(lines)) if lines else None
    earlier = earlier_ceilings()
    for group in sorted(sentences):
        rate = 1000 * len(found[group]) / max(1, sentences[group])
        ceiling = CEILINGS[group]
        print(f"{group}: {len(found[group])} findings in {sentences[group]} sentences, {rate:.0f} per 1,000 "
              f"(ceiling {ceiling})")
        if arguments.files:
            continue
        if rate > ceiling:
            print("\n".join(found[group][:200]))
            errors.append(f"{group}: {rate:.0f} findings per 1,000 sentences, above the ceiling of {ceiling}; "
                          "doc/style.md explains the rules")
        elif rate < ceiling - 10:
            print(f"  lower the ceiling of '{group}' in tests/documents/prose.py to {int(rate) + 1}")
        if ceiling > earlier.get(group, ceiling):
            errors.append(f"{group}: the ceiling was raised from {earlier[group]} to {ceiling}; ceilings only go down")
    print("\n".join(errors)) if errors else None
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main())
