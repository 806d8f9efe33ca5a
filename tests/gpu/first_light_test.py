#!/usr/bin/env python3
"""Steps of first_light with programs that stand in for those of a bundle: one passes, fails, hangs, is missing, or skips itself,
and what each said is there before the next one ends.

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
  *tiny*) (trap '' TERM; echo $$ > "$STAND_IN_PID"; trap '' TERM; while :; do sleep 1; done) ;;
  *medium*) printf '\\377\\n' ;;
esac
"""


def program(folder, name, text):
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)


def call(script, *arguments, **environment):
    return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, timeout=120, env={**os.environ, **environment})


def main():
    script = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as place:
        place = Path(place)
        programs, out, pid = place / "bin", place / "out", place / "pid"
        programs.mkdir()
        program(programs, "learning-tests", LEARNING_TESTS)
        program(programs, "training", TRAINING)
        program(programs, "python3", "#!/bin/sh\necho \"peer $*\"\nexit 77\n")
        program(programs, "nvidia-smi", "#!/bin/sh\necho 'a GPU that is none'\n")

        begin = time.monotonic()
        ran = call(script, "--programs", str(programs), "--out", str(out), "--most", "2", STAND_IN_PID=str(pid))
        assert time.monotonic() - begin < 60, "a step that hangs held everything up"
        assert ran.returncode == 1, ran
        records = [json.loads(line) for line in (out / "first_light.jsonl").read_text().splitlines()]
        found = {record["step"]: record["outcome"] for record in records}
        wanted = {"device": "passed", "kernels": "exit code 201", "training-small": "passed", "peer-small": "skipped itself", "training-suite": "skipped itself",
                  "encoding-suite": "signal 11", "encodings-few": f"encodings is not in {programs.resolve()}",
                  "training-tiny": "not done within 2 s", "training-medium": "passed"}
        for step, outcome in wanted.items():
            assert found[step] == outcome, (step, found[step])
        order = [record["step"] for record in records]
        assert order.index("kernels") < order.index("training-small") < order.index("encodings-model"), order
        log = (out / "first_light.txt").read_text(errors="replace")
        for text in ("a GPU that is none", "check failed", "training 5 --device cuda --size small", "==== encodings-few"):
            assert text in log, text
        assert not Path(f"/proc/{pid.read_text().strip()}").exists(), "what hung still runs"

        # No time: nothing is begun, and everything is said.
        rest = place / "rest"
        ran = call(script, "--programs", str(programs), "--out", str(rest), "--minutes", "0")
        assert ran.returncode == 1 and "not begun: no time is left" in (rest / "first_light.jsonl").read_text(), ran

        # A result is there while the next step runs, and stays when this script is killed.
        killed = place / "killed"
        child = subprocess.Popen([sys.executable, script, "--programs", str(programs), "--out", str(killed), "--only", "device,training-tiny"],
                                 stdout=subprocess.DEVNULL, env={**os.environ, "STAND_IN_PID": str(pid)})
        for _ in range(400):
            if (killed / "first_light.txt").exists() and "training 3" in (killed / "first_light.txt").read_text():
                break
            time.sleep(0.05)
        assert [json.loads(line)["step"] for line in (killed / "first_light.jsonl").read_text().splitlines()] == ["device"]
        child.terminate()
        assert child.wait(60) == 143
        assert not Path(f"/proc/{pid.read_text().strip()}").exists(), "what was running still runs"

        assert call(script, "--only", "device", "--programs", str(programs), "--out", str(place / "one")).returncode == 0
        unknown = call(script, "--only", "nothing")
        assert unknown.returncode == 2 and "there is no step 'nothing'; steps: device, kernels" in unknown.stderr, unknown
        assert "training-small" in call(script, "--list").stdout
    print("first_light: order, limits, failures and interrupted runs are as they should be")


if __name__ == "__main__":
    main()
