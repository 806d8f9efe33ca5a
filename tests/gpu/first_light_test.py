#!/usr/bin/env python3
"""Steps of first_light with stand-ins for the programs of a bundle: one passes, fails, hangs, is missing, or skips itself,
and the output of each is there before the next one ends.

usage: first_light_test.py FIRST_LIGHT
"""
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LEARNING_TESTS = """#!/bin/sh
case $1 in
  *kernels_gpu) echo 'error: in "kernels_gpu/norms": check failed'; exit 201 ;;
  *training_gpu) echo 'Test suite "training_gpu" is skipped because precondition failed: no GPU'; exit 0 ;;
  *) echo "suite $*"; kill -SEGV $$ ;;
esac
"""
TRAINING = """#!/bin/sh
echo "training $*"
case $* in
  *tiny*) (trap '' TERM; echo 'hangs now'; while :; do sleep 1; done) ;;
  *medium*) printf '\\377\\n' ;;
esac
"""


# Does its work immediately, except for one cell, which saves when it is asked to end and is done when it is run again.
PIPELINE = """#!/bin/sh
echo "pipeline $*"
while [ $# -gt 0 ]; do
  case $1 in
    -o) echo packed > "$2" ;;
    *index*rope,seed=42*) [ -e saved ] || { trap 'echo saves; touch saved; exit 3' TERM; while :; do sleep 0.05; done; } ;;
  esac
  shift
done
"""


def program(folder, name, text):
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)


def call(script, *arguments):
    return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, timeout=120)


def still_running(programs):
    """Whatever runs from that folder, after the moment that a killed process takes to go."""
    for _ in range(100):
        found = []
        for process in Path("/proc").iterdir():
            try:
                line = (process / "cmdline").read_bytes() if process.name.isdigit() else b""
            except OSError:  # it has ended
                continue
            if f"{programs}/training".encode() in line:
                found.append(line)
        if not found:
            return []
        time.sleep(0.05)
    return found


def end_when(text, script, programs, out):
    """Its exit code, when it is asked to end as soon as its log holds the text."""
    log = out / "first_light.txt"
    child = subprocess.Popen([sys.executable, script, "--programs", str(programs), "--out", str(out), "--only", "device,training-tiny"],
                             stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (log.exists() and text in log.read_text()):
        assert time.monotonic() < deadline, f"no '{text}' in the log"
        time.sleep(0.001)
    assert [json.loads(line)["step"] for line in (out / "first_light.jsonl").read_text().splitlines()] == ["device"]
    child.terminate()
    return child.wait(60)


def main():
    script = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as place:
        place = Path(place)
        programs, out = place / "bin", place / "out"
        programs.mkdir()
        program(programs, "learning-tests", LEARNING_TESTS)
        program(programs, "training", TRAINING)
        program(programs, "pe-pipeline", PIPELINE)
        program(programs, "python3", "#!/bin/sh\necho \"peer $*\"\nexit 77\n")
        program(programs, "nvidia-smi", "#!/bin/sh\necho 'a GPU that is none'\n")

        begin = time.monotonic()
        ran = call(script, "--programs", str(programs), "--out", str(out), "--most", "2")
        assert time.monotonic() - begin < 60, "a step that hangs held everything up"
        assert ran.returncode == 1, ran
        records = [json.loads(line) for line in (out / "first_light.jsonl").read_text().splitlines()]
        found = {record["step"]: record["outcome"] for record in records}
        wanted = {"device": "passed", "kernels": "exit code 201", "training-small": "passed", "peer-small": "skipped itself", "training-suite": "skipped itself",
                  "encoding-suite": "signal 11", "encodings-few": f"encodings is not in {programs.resolve()}",
                  "training-tiny": "not done within 2 s", "training-medium": "passed", "two-gpus": "skipped itself: it needs 2 GPUs"}
        for step, outcome in wanted.items():
            assert found[step] == outcome, (step, found[step])
        order = [record["step"] for record in records]
        assert order.index("kernels") < order.index("training-small") < order.index("encodings-model"), order
        log = (out / "first_light.txt").read_text(errors="replace")
        for text in ("a GPU that is none", "check failed", "training 5 --device cuda --size small", "==== encodings-few"):
            assert text in log, text
        assert not still_running(programs.resolve()), "what hung still runs"

        # The next call begins with steps that did not end by themselves, also where a lost machine cut the last line.
        with open(out / "first_light.jsonl", "a") as results:
            results.write('{"step": "ker')
        ran = call(script, "--programs", str(programs), "--out", str(out), "--most", "2", "--continue")
        again = [json.loads(line)["step"] for line in (out / "first_light.jsonl").read_text().splitlines()][len(records):]
        assert again == [record["step"] for record in records if record["exit_code"] is None] and "training-tiny" in again, again

        # No time: nothing is begun, and everything is reported.
        rest = place / "rest"
        ran = call(script, "--programs", str(programs), "--out", str(rest), "--minutes", "0")
        assert ran.returncode == 1 and "not begun: no time is left" in (rest / "first_light.jsonl").read_text(), ran

        # A result is there while the next step runs, and stays when this script must end: while a step hangs, and while one
        # is just being started, after its heading.
        for repeat, text in enumerate(["hangs now"] + 10 * ["==== training-tiny"]):
            assert end_when(text, script, programs, place / f"ended{repeat}") == 143
            assert not still_running(programs.resolve()), f"told to end at '{text}', it left the step running"

        assert call(script, "--only", "device", "--programs", str(programs), "--out", str(place / "one")).returncode == 0

        # Where there are two GPUs, a training has two ranks.
        program(programs, "nvidia-smi", "#!/bin/sh\necho 'GPU 0'\necho 'GPU 1'\n")
        assert call(script, "--only", "two-gpus", "--programs", str(programs), "--out", str(place / "two")).returncode == 0
        assert "pipelines/quickstart.yml train[encoding=rope,seed=42]" in (place / "two/first_light.txt").read_text()

        # Cells of studies: results so far are packed, and a step that had no time left continues.
        cells = place / "cells"
        asked = ["--studies", "--programs", str(programs), "--out", str(cells), "--only", "index-pope-42,index-rope-42"]
        for outcome in ("not done within 3 s", "passed"):
            ran = call(script, *asked, "--most", "3")
            records = [json.loads(line) for line in (cells / "first_light.jsonl").read_text().splitlines()]
            assert [record["outcome"] for record in records[-2:]] == ["passed", outcome], (records, ran)
            assert ran.returncode == (0 if outcome == "passed" else 1), ran
            assert (cells / "known_results.tar.zst").read_text() == "packed\n"
        assert "saves" in (cells / "first_light.txt").read_text()
        # A step that had no time left is packed, too.
        alone = place / "alone"
        call(script, "--studies", "--programs", str(programs), "--out", str(alone), "--only", "index-rope-42", "--most", "3")
        assert json.loads((alone / "first_light.jsonl").read_text())["outcome"] == "not done within 3 s"
        assert (alone / "known_results.tar.zst").read_text() == "packed\n"
        # Steps that read a text are skipped without one, and where the vocabulary is missing. Each study is packed by itself.
        (place / "novel.txt").write_text("Call me Ishmael.\n")
        asked = ["--studies", "--programs", str(programs), "--out", str(cells), "--only", "stories-rope,grid-rope-42"]
        vocabulary = (script.parents[2] / "data/gpt2/vocab.json").is_file()
        for text, wanted in (([], ["skipped itself: it reads a text, and there is no --text"] * 2),
                             (["--text", str(place / "novel.txt")], ["passed" if vocabulary else "skipped itself: there is no data/gpt2/vocab.json", "passed"])):
            call(script, *asked, "--continue", *text)  # a step that was skipped is not done
            records = [json.loads(line) for line in (cells / "first_light.jsonl").read_text().splitlines()]
            assert [record["outcome"] for record in records[-2:]] == wanted, records[-2:]
        assert f"vars.path={(place / 'novel.txt').resolve()}" in records[-1]["command"], records[-1]
        assert (cells / "fineweb_grid.tar.zst").read_text() == "packed\n"
        assert call(script, *asked, "--text", str(place / "none.txt")).returncode == 2
        assert call(script, *asked, "--stand-in").returncode == 0

        listed = call(script, "--studies", "--list").stdout.splitlines()
        assert listed[0].startswith("index-pope-42") and "+index[encoding=pope,seed=42]" in listed[0], listed
        assert max(int(line.split()[1]) for line in listed) + 60 <= 480, listed

        unknown = call(script, "--only", "nothing")
        assert unknown.returncode == 2 and "there is no step 'nothing'; steps: device, kernels" in unknown.stderr, unknown
        assert "training-small" in call(script, "--list").stdout
    print("first_light: order, limits, failures and interrupted runs are as they should be")


if __name__ == "__main__":
    main()
