#!/usr/bin/env python3
"""Records commands in a terminal as an animated SVG, from real runs of them.

usage: record_session.py OUT.svg COMMAND...

Each COMMAND is run by sh in the current folder, in a pseudo-terminal of 100 columns, after its line was "typed". Long
waits are shortened in the picture: it shows at most MOST_FRAMES screens, each for FRAME_S seconds, and the last one longer. The
picture needs no script and no network; where animations are off it shows the last screen.

doc/images/session.svg is made so, in an empty folder that links to this project's pipelines/ and configs/, with build/stages
on the PATH:

    record_session.py session.svg 'pe-pipeline plan pipelines/quickstart.yml' 'pe-pipeline run pipelines/quickstart.yml' \
        'pe-pipeline run pipelines/quickstart.yml'
"""
import codecs
import fcntl
import html
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios

COLUMNS, ROWS = 100, 28
MOST_FRAMES, FRAME_S, LAST_S = 60, 0.35, 6.0
CELL_W, CELL_H, MARGIN = 8.0, 17.0, 14.0
INK, PAPER, FAINT = "#d8dee9", "#1f2430", "#7d8799"
COLOURS = ["#4c566a", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d8dee9"]
CONTROL = re.compile(r"\x1b\[([?0-9;]*)([@-~])|\x1b\][^\x07]*\x07|\x1b[()][A-Z0-9]|\x1b[=>78]")
PLAIN = (INK, False)


class Screen:
    """As much of a terminal as pe-pipeline asks for: text, line feeds, cursor movements, erasing and colours."""

    def __init__(self):
        self.cells = [[(" ", PLAIN)] * COLUMNS for _ in range(ROWS)]
        self.row = self.column = 0
        self.style = PLAIN
        self.unread = ""

    def feed(self, text):
        text, self.unread = self.unread + text, ""
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                match = CONTROL.match(text, at)
                if not match:
                    if len(text) - at < 64:  # the rest of a sequence is still to come
                        self.unread = text[at:]
                        return
                    at += 1
                    continue
                if match[2]:
                    self.control(match[1], match[2])
                at = match.end()
                continue
            self.put(text[at])
            at += 1

    def put(self, char):
        if char == "\n":
            self.down()
        elif char == "\r":
            self.column = 0
        elif char == "\b":
            self.column = max(0, self.column - 1)
        elif char == "\t":
            self.column = min(COLUMNS - 1, self.column // 8 * 8 + 8)
        elif char >= " ":
            if self.column == COLUMNS:
                self.column = 0
                self.down()
            self.cells[self.row][self.column] = (char, self.style)
            self.column += 1

    def down(self):
        if self.row + 1 < ROWS:
            self.row += 1
        else:
            self.cells = self.cells[1:] + [[(" ", PLAIN)] * COLUMNS]

    def control(self, arguments, letter):
        numbers = [int(number) for number in arguments.lstrip("?").split(";") if number.isdigit()]
        count = numbers[0] if numbers and numbers[0] > 0 else 1
        blank = (" ", PLAIN)
        if letter == "A":
            self.row = max(0, self.row - count)
        elif letter == "B":
            self.row = min(ROWS - 1, self.row + count)
        elif letter == "C":
            self.column = min(COLUMNS - 1, self.column + count)
        elif letter == "D":
            self.column = max(0, self.column - count)
        elif letter == "F":
            self.row, self.column = max(0, self.row - count), 0
        elif letter == "G":
            self.column = min(COLUMNS, count) - 1
        elif letter == "K":
            begin, end = {0: (self.column, COLUMNS), 1: (0, self.column), 2: (0, COLUMNS)}[numbers[0] if numbers else 0]
            self.cells[self.row][begin:end] = [blank] * (end - begin)
        elif letter == "J":
            if numbers and numbers[0] >= 2:
                self.cells = [[blank] * COLUMNS for _ in range(ROWS)]
            else:
                self.cells[self.row][self.column:] = [blank] * (COLUMNS - self.column)
                self.cells[self.row + 1:] = [[blank] * COLUMNS for _ in range(ROWS - self.row - 1)]
        elif letter == "m":
            self.colour(numbers or [0])

    def colour(self, numbers):
        ink, bold = self.style
        while numbers:
            number = numbers.pop(0)
            if number == 0:
                ink, bold = PLAIN
            elif number == 1:
                bold = True
            elif number == 2:
                ink = FAINT
            elif number == 22:
                ink, bold = (INK if ink == FAINT else ink), False
            elif 30 <= number <= 37:
                ink = COLOURS[number - 30]
            elif 90 <= number <= 97:
                ink = COLOURS[number - 90] if number != 90 else FAINT
            elif number == 39:
                ink = INK
            elif number == 38 and numbers[:1] == [5]:
                ink, numbers = INK, numbers[2:]
            elif number == 38 and numbers[:1] == [2]:
                ink, numbers = "#%02x%02x%02x" % tuple(numbers[1:4]), numbers[4:]
        self.style = (ink, bold)

    def copy(self):
        return [list(row) for row in self.cells]


def run(command, screen, frames):
    """Runs a command in the pseudo-terminal, with a copy of the screen after each piece of output."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(ROWS)}
    for name in ("NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"):
        environment.pop(name, None)
    process = subprocess.Popen(["sh", "-c", command], stdin=theirs, stdout=theirs, stderr=theirs, env=environment,
                               close_fds=True, start_new_session=True)
    os.close(theirs)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while True:
        ready, _, _ = select.select([ours], [], [], 0.2)
        if not ready:
            if process.poll() is not None:
                break
            continue
        try:
            data = os.read(ours, 65536)
        except OSError:  # the other side is closed
            break
        if not data:
            break
        screen.feed(decoder.decode(data))
        frames.append(screen.copy())
    os.close(ours)
    return process.wait()


def text_of(row):
    return "".join(char for char, _ in row).rstrip()


def lines_svg(cells):
    """The visible lines of a screen as text elements, a span for each run of one style."""
    out = []
    for number, row in enumerate(cells):
        if not text_of(row):
            continue
        y = MARGIN + (number + 0.8) * CELL_H
        begin = 0
        while begin < COLUMNS:
            end = begin + 1
            while end < COLUMNS and row[end][1] == row[begin][1]:
                end += 1
            text = "".join(char for char, _ in row[begin:end])
            if text.strip():
                ink, bold = row[begin][1]
                lead = len(text) - len(text.lstrip())
                weight = ' font-weight="bold"' if bold else ""
                shown = text.strip()
                out.append(f'<text x="{MARGIN + (begin + lead) * CELL_W:g}" y="{y:g}" fill="{ink}"{weight} '
                           f'textLength="{len(shown) * CELL_W:g}" xml:space="preserve">{html.escape(shown)}</text>')
            begin = end
    return "\n".join(out)


def svg(frames, title):
    height = 2 * MARGIN + CELL_H * max(i + 1 for cells in frames for i, row in enumerate(cells) if text_of(row))
    width = 2 * MARGIN + CELL_W * COLUMNS
    total = FRAME_S * (len(frames) - 1) + LAST_S
    style, groups = [], []
    for number, cells in enumerate(frames):
        begin = 100 * FRAME_S * number / total
        end = 100 * FRAME_S * (number + 1) / total if number + 1 < len(frames) else 100
        last = number + 1 == len(frames)
        hidden = "" if begin == 0 else f"0%{{visibility:hidden}}{begin:.3f}%{{visibility:visible}}"
        gone = "" if last else f"{end:.3f}%{{visibility:hidden}}100%{{visibility:hidden}}"
        first = "0%{visibility:visible}" if begin == 0 else hidden
        style.append(f"@keyframes f{number}{{{first}{gone}{'100%{visibility:visible}' if last else ''}}}")
        rest = "visible" if last else "hidden"
        style.append(f"#f{number}{{visibility:{rest};animation:f{number} {total:g}s step-end infinite}}")
        groups.append(f'<g id="f{number}">\n{lines_svg(cells)}\n</g>')
    style.append("@media (prefers-reduced-motion:reduce){g{animation:none!important}}")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}" '
            f'role="img" font-family="ui-monospace,Menlo,Consolas,\'DejaVu Sans Mono\',monospace" font-size="13">\n'
            f"<title>{html.escape(title)}</title>\n<style>{''.join(style)}</style>\n"
            f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>\n' + "\n".join(groups) + "\n</svg>\n")


def chosen(frames):
    """At most MOST_FRAMES of them, evenly; the last always."""
    distinct = [frame for i, frame in enumerate(frames) if i + 1 == len(frames) or frame != frames[i + 1]]
    if len(distinct) <= MOST_FRAMES:
        return distinct
    step = (len(distinct) - 1) / (MOST_FRAMES - 1)
    return [distinct[round(i * step)] for i in range(MOST_FRAMES)]


def main():
    if len(sys.argv) < 3 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    screen, shown = Screen(), []
    for command in sys.argv[2:]:
        frames = []
        screen.style = ("#98c379", True)
        screen.feed("$ ")
        screen.style = PLAIN
        screen.feed(command)
        frames.append(screen.copy())
        screen.feed("\r\n")
        code = run(command, screen, frames)
        screen.style = PLAIN
        if screen.column > 0:
            screen.feed("\r\n")
        if code != 0:
            sys.exit(f"'{command}' ended with {code}:\n" + "\n".join(text_of(row) for row in screen.cells))
        shown.append(frames)
    most = max(shown, key=len)  # the longest command gives way to the others
    keep = [frame for frames in shown for frame in (frames if frames is not most else chosen(frames))]
    keep.append(screen.copy())
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        out.write(svg(chosen(keep), " && ".join(sys.argv[2:])))


if __name__ == "__main__":
    main()
