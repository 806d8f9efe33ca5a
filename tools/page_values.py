#!/usr/bin/env python3
"""Compares the numbers of pages with the published results they come from.

    tools/page_values.py             checks README.md and doc/; prints each difference, exit code 1 if there is one
    tools/page_values.py --write     replaces each number that differs, with as many decimals as it had
    tools/page_values.py PAGE...     these pages only

It imports all files of reports/published/ into one new store and makes their reports, with programs of --build. With
--tables DIR these tables are in DIR/STUDY/, and are made there if DIR does not exist.

A page marks a value with a comment before and after it, and not at the beginning of a line, where a comment ends
the paragraph. GitHub shows neither comment:

    rope loses <!--=claim G2.1 0.52-x-->0.585 [0.225, 0.945]<!--/--> nats per token

    verdict CLAIM[.TEST]             the verdict of a claim or of one of its tests
    claim CLAIM.TEST [FORMULA]       effect and interval of a test; CLAIM.control1 is the first control
    failed checks                    the numbers of the checks of the comparison that failed
    TABLE COLUMN KEY=VALUE... [FORMULA]
                                     a cell of TABLE.csv, with its interval where the table has one

CLAIM may be the beginning of a name. FORMULA is an expression of x, such as 0.52-x or 100*x. The study is the one
that the page is named after; `novels:claim ...` names another one. Verdicts and effects come from verdicts.csv and
claims.csv.
The text may be a number, a number with an interval in brackets, or a number with a half width after ±; text in
parentheses after it is left alone.

One comment before a table marks all of its cells that hold numbers:

    <!--=table TABLE KEY=VALUE... COLUMN COLUMN ... -->

COLUMN n belongs to cell n + 1 of a row; `-` leaves a cell out. A row belongs to the encoding whose name in code
font is in its first cell; a comment <!--KEY=VALUE ...--> in that cell overrides or adds keys. Other rows are left out.
In VALUE, a plus sign stands for ", " (values of variants contain it).
"""
import argparse
import csv
import functools
import math
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

NUMBER = re.compile(r"(?<![\w.])[-−]?(?:\d[\d,]*)?\.?\d+(?:e[-+]?\d+)?")
MARK = re.compile(r"<!--=(?!table )(.*?)-->(.*?)<!--/-->", re.S)
INTERVALS = [("{}_low", "{}_high"), ("ci_lo", "ci_hi"), ("low", "high")]


# Reports of the published results, by the name that marks use: pipeline, and how to run it.
CPU = ["--scale", "cpu"]
ATLAS = "encoding=none,sinusoidal,learned,rope,rope_matched,alibi,kerple_log,fire,pope,fox,path"
REPORTS = {
    "alibi_curve": ("alibi_curve", []),
    "atlas": ("atlas", [*CPU, "--axis", ATLAS]),
    "atlas_all": ("atlas", CPU),
    "context_used": ("context_used", []),
    "context_used_cpu": ("context_used", CPU),
    "distances_or_keys": ("distances_or_keys", CPU),
    "dummy": ("dummy", []),
    "known_results": ("known_results", ["--scale", "mini"]),
    "novels": ("quickstart", ["--scale", "novels"]),
    "scaffold": ("scaffold_nope_rope_yarn_pope", CPU),
    "steps_left": ("steps_left", CPU),
    "stories": ("tinystories_ape_rope_alibi", ["--scale", "reference"]),
    "stories_start": ("tinystories_ape_rope_alibi", ["--scale", "start"]),
    "text_ranking": ("text_ranking", CPU),
}
# Files on this machine whose digests are in the keys of a study: without them its report finds no result.
FILES = dict.fromkeys(("stories", "stories_start"),
                      ("data/tinystories/train.txt", "data/gpt2/vocab.json", "data/gpt2/merges.txt"))


def make_tables(root, build, tables):
    """Makes all reports from the published files alone."""
    program = build.resolve() / "stages" / "pe-pipeline"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for part in ("configs", "pipelines"):
            shutil.copytree(root / part, folder / part)

        def call(verb, pipeline, *words):
            command = [program, verb, f"pipelines/{pipeline}.yml", "--store", "store", *words]
            done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
            if done.returncode:
                raise SystemExit(f"{' '.join(map(str, command))} ends with {done.returncode}\n{done.stdout}")

        (folder / "data").symlink_to(root / "data")
        pipelines = {study: pipeline for study, (pipeline, _) in REPORTS.items()}
        for study in sorted((root / "reports" / "published").iterdir()):
            call("import", pipelines.get(study.name, study.name), *sorted(study.glob("*.tar.zst")))
        for study, (pipeline, words) in REPORTS.items():
            if not all((root / file).exists() for file in FILES.get(study, ())):
                continue
            call("run", pipeline, *words, "report", "--from-store", "--durability", "off")
            shutil.copytree(folder / "reports" / pipeline / "latest" / "tables", tables / study)


class Wrong(Exception):
    """A marked value that cannot be looked up."""


@functools.lru_cache(None)
def read(path):
    if not path.exists():
        return None
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def one_row(rows, keys, what):
    found = [row for row in rows if all(row.get(key) == value for key, value in keys.items())]
    if len(found) != 1:
        raise Wrong(f"{len(found)} rows of {what} have " + ", ".join(f"{key}={value}" for key, value in keys.items()))
    return found[0]


def values_of(row, column, what):
    """The number, its low and high end, and its half width; None for each that the table lacks."""
    if column not in row:
        raise Wrong(f"{what} has no column {column}")
    cell = row[column]
    low = high = half = None
    for names in INTERVALS:
        first, last = (name.format(column) for name in names)
        if first in row and last in row and not (names[0] == "low" and column != "delta_nll"):
            low, high = row[first], row[last]
            break
    half = row.get(column + "_half_width")
    if half is None and low not in (None, ""):
        half = (float(high) - float(low)) / 2
    return [None if each in (None, "") else float(each) for each in (cell, low, high, half)]


class Study:
    def __init__(self, tables, name):
        self.tables = tables / name
        if not self.tables.is_dir():
            raise Wrong(f"no study is called {name}")

    def table(self, name):
        rows = read(self.tables / (name + ".csv"))
        if rows is None:
            raise Wrong(f"there is no table {name}.csv in {self.tables.name}")
        return rows

    def claim(self, word):
        """The row of a claim (test empty), of one test or of one control."""
        name, _, test = word.partition(".")
        counts = {}
        rows = [dict(row, test="") for row in self.table("verdicts")]
        for row in self.table("claims"):
            kind = "control" if row["expected"].startswith("control") else ""
            number = counts[row["claim_id"], kind] = counts.get((row["claim_id"], kind), 0) + 1
            rows.append(dict(row, test=kind + str(number)))
        names = {row["claim_id"] for row in rows if row["claim_id"].startswith(name)}
        names = {name} if name in names else names
        if len(names) != 1:
            raise Wrong(f"{len(names)} claims begin with {name}")
        return one_row(rows, {"claim_id": names.pop(), "test": test}, "the claims")

    def look_up(self, words):
        """The text of a verdict, or the four numbers of a cell."""
        if words[0] == "verdict":
            return self.claim(words[1])["verdict"]
        if words[0] == "claim":
            return values_of(self.claim(words[1]), "effect", "the claim")
        if words == ["failed", "checks"]:
            return ", ".join(row["number"] for row in self.table("checks") if row["verdict"] == "FAIL")
        keys = dict(word.split("=", 1) for word in words[2:])
        keys = {key: value.replace("+", ", ") for key, value in keys.items()}
        return values_of(one_row(self.table(words[0]), keys, words[0]), words[1], words[0])


def transformed(values, formula):
    if formula is None:
        return values
    if not re.fullmatch(r"[-+*/().\dx]+|exp\(x\)", formula):
        raise Wrong(f"'{formula}' is no formula of x")
    code = compile(formula, "formula", "eval")
    number, low, high = (None if x is None else eval(code, {"exp": math.exp}, {"x": x}) for x in values[:3])
    if low is not None and low > high:
        low, high = high, low
    half = values[3]
    if half is not None:
        half = abs(eval(code, {"exp": math.exp}, {"x": half}) - eval(code, {"exp": math.exp}, {"x": 0.0}))
    return [number, low, high, half]


def printed(value, like):
    """The value as `like` is printed: as many decimals, thousands with a comma, a zero before the point or none."""
    plain = like.replace(",", "").replace("−", "-")
    if "e" in plain:
        return f"{value:.{len(plain.split('e')[0].partition('.')[2])}e}".replace("e-0", "e-")
    decimals = len(plain.partition(".")[2])
    text = f"{value:,.{decimals}f}" if "," in like else f"{value:.{decimals}f}"
    if float(text.replace(",", "")) == 0:
        text = text.lstrip("-")
    if plain.lstrip("-").startswith("."):
        text = re.sub(r"^(-?)0\.", r"\1.", text)
    return text


def right_text(text, answer):
    """The text with the numbers of the answer in place of its own."""
    if isinstance(answer, str):
        word = text.strip().strip("*")
        return text if word == answer else text.replace(word, answer)
    found = list(NUMBER.finditer(text.partition("(")[0]))
    number, low, high, half = answer
    wanted = [number, half] if "±" in text else [number, low, high][:len(found)]
    if len(found) not in (1, 3) and "±" not in text or len(found) != len(wanted):
        raise Wrong(f"'{text.strip()}' is no number, no number with an interval, and no number with a half width")
    if any(value is None for value in wanted):
        raise Wrong(f"the table has no such value for '{text.strip()}'")
    for place, value in reversed(list(zip(found, wanted))):
        text = text[:place.start()] + printed(value, place.group()) + text[place.end():]
    return text


class Page:
    def __init__(self, tables, path):
        self.tables, self.path = tables, path
        self.text = path.read_text()
        self.findings = []
        self.count = 0

    def study(self, name):
        return Study(self.tables, name or self.path.stem)

    def settle(self, at, old, answer):
        """The right text, with a finding where it differs from the old one."""
        self.count += 1
        try:
            new = right_text(old, answer() if callable(answer) else answer)
        except (Wrong, ValueError) as error:
            self.findings.append((self.line(at), str(error)))
            return old
        if new != old:
            self.findings.append((self.line(at), f"the page has '{old.strip()}', the table '{new.strip()}'"))
        return new

    def line(self, at):
        return 1 + self.text.count("\n", 0, at)

    def value(self, match):
        words = match.group(1).split()
        name, colon, first = words[0].rpartition(":")
        words[0] = first
        formula = words.pop() if len(words) > 2 and "x" in words[-1] and "=" not in words[-1] else None

        def answer():
            found = self.study(name if colon else None).look_up(words)
            return found if isinstance(found, str) else transformed(found, formula)

        new = self.settle(match.start(), match.group(2), answer)
        return f"<!--={match.group(1)}-->{new}<!--/-->"

    def table(self, match):
        head, rows = match.group(1).split(), match.group(2)
        name, colon, table = head[0].rpartition(":")
        keys = dict(word.split("=", 1) for word in head[1:] if "=" in word)
        columns = [word for word in head[1:] if "=" not in word]
        lines, at = rows.split("\n"), match.start(2)
        for index, line in enumerate(lines):
            if index >= 2 and line.startswith("|"):
                lines[index] = self.row(line, at, name if colon else None, table, keys, columns)
            at += len(line) + 1
        return match.group(0)[:match.start(2) - match.start()] + "\n".join(lines)

    def row(self, line, at, study, table, keys, columns):
        cells = line.split("|")
        own = re.search(r"<!--(.*?)-->", cells[1])
        code = re.search(r"`([^`]+)`", cells[1])
        if not own and not code:
            return line
        keys = dict({"encoding": code.group(1)} if code else {}, **keys)
        if own:
            keys.update(word.split("=", 1) for word in own.group(1).split())
        for place, column in enumerate(columns, 2):
            if column == "-" or place >= len(cells) or not NUMBER.search(cells[place]) or "<!--" in cells[place]:
                continue
            column, _, formula = column.partition(":")
            words = [table, column] + [f"{key}={value}" for key, value in keys.items()]
            cells[place] = self.settle(
                at, cells[place],
                lambda words=words, formula=formula: transformed(self.study(study).look_up(words), formula or None))
        return "|".join(cells)

    def corrected(self):
        for match in re.finditer(r"^ *(?:[-*] +)?<!--=(?!table )", self.text, re.M):
            self.findings.append((self.line(match.start()), "a marked value begins the line: it ends the paragraph"))
        text = MARK.sub(self.value, self.text)
        self.text = text
        return re.sub(r"<!--=table (.*?)-->\n+((?:\|.*\n)+)", self.table, text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=pathlib.Path)
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--write", action="store_true", help="replace the numbers that differ")
    parser.add_argument("--build", type=pathlib.Path, default=root / "build", help="folder with stages/pe-pipeline")
    parser.add_argument("--tables", type=pathlib.Path, help="folder of tables; made if it is missing")
    arguments = parser.parse_args()
    pages = arguments.pages or [root / "README.md", *sorted((root / "doc").rglob("*.md"))]
    with tempfile.TemporaryDirectory() as folder:
        tables = arguments.tables or pathlib.Path(folder) / "tables"
        if not tables.exists():
            make_tables(root, arguments.build, tables)
        return check(pages, tables, arguments.write)


def check(pages, tables, write):
    count = wrong = 0
    for path in pages:
        if path.stem in FILES and not (tables / path.stem).is_dir():
            print(f"{path}: not checked, since it needs {' and '.join(FILES[path.stem])} (data/README.md)")
            continue
        page = Page(tables, path.resolve())
        text = page.corrected()
        count += page.count
        wrong += len(page.findings)
        for line, finding in sorted(page.findings):
            print(f"{path}:{line}: {finding}")
        if write and text != path.read_text():
            path.write_text(text)
    if count == 0:
        raise SystemExit("no page has a mark")
    print(f"{count} values, {wrong} of them wrong" + (", replaced where a table has them" if write else ""))
    return 1 if wrong and not write else 0


if __name__ == "__main__":
    sys.exit(main())
