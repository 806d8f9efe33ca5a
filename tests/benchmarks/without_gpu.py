#!/usr/bin/env python3
"""A benchmark that is asked for a GPU where there is none: one line that says why, exit code 2, and nothing measured.

usage: without_gpu.py PROGRAM ARGS...; exit code 77 where there is a GPU
"""
import subprocess
import sys

ran = subprocess.run(sys.argv[1:], capture_output=True, text=True, timeout=200)
if ran.returncode == 0:
    print("there is a GPU here, so nothing can be refused")
    sys.exit(77)
lines = ran.stderr.strip().splitlines()
assert ran.returncode == 2, ran
assert "a GPU was asked for" in ran.stderr and len(lines) <= 2, ran
assert ran.stdout == "", ran
print(lines[0])
