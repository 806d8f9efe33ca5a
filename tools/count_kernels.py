#!/usr/bin/env python3
"""Counts what the compiled kernels of the CUDA plug-in cost: registers, spills, shared memory, instructions and memory accesses.

usage: count_kernels.py PLUGIN [--arch sm_90a] [--all] [--most-local BYTES]

PLUGIN is pe-cuda.so, or an object of it. Needs cuobjdump (CUDA toolkit), and no GPU: these are counts of instructions as they
stand in the machine code, once each, not times. --all: every form of a kernel; else those for bf16 that read several values
at once, or the only one.
--most-local: ends with 1 where a kernel of these keeps more in local memory. Ends with 77 where there is no cuobjdump.

Columns: registers of a thread; bytes that it keeps in local memory (arrays that do not fit registers, spills); static shared
memory; instructions; loads and stores of global memory, and how many of them move 16 bytes at once; barriers and shuffles;
warps that a multiprocessor of 65,536 registers can hold, by registers alone.
"""
import argparse
import re
import subprocess
import sys
from collections import Counter


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def demangled(names):
    out = subprocess.run(["c++filt"], input="\n".join(names), check=True, capture_output=True, text=True).stdout
    return dict(zip(names, out.splitlines()))


def short(name):
    """run_lines<CrossEntropyLine<bf16, 8, 16>> of a demangled signature."""
    name = re.sub(r"\(anonymous namespace\)::|pe::cuda::|_INTERNAL_\w+::", "", name)
    name = re.sub(r"^void ", "", name).replace("__nv_bfloat16", "bf16").replace("> >", ">>").replace("> >", ">>")
    depth = 0
    for at, sign in enumerate(name):
        depth += (sign == "<") - (sign == ">")
        if sign == "(" and depth == 0:
            name = name[:at]
            break
    return re.sub(r"\((?:int|bool)\)", "", name)


def usage(plugin, arch):
    """name -> registers, local bytes, shared bytes"""
    found = {}
    name = None
    for line in run("cuobjdump", "-arch", arch, "-res-usage", plugin).splitlines():
        if match := re.search(r"Function (\S+):", line):
            name = match.group(1)
        elif (match := re.search(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)", line)) and name:
            registers, stack, shared, local = map(int, match.groups())
            found[name] = (registers, stack + local, shared)
    return found


def instructions(plugin, arch):
    """name -> Counter of opcodes with their modifiers"""
    found = {}
    counter = None
    for line in run("cuobjdump", "-arch", arch, "-sass", plugin).splitlines():
        if match := re.search(r"Function : (\S+)", line):
            counter = found.setdefault(match.group(1), Counter())
        elif counter is not None and (match := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)", line)):
            if match.group(1) != "NOP":
                counter[match.group(1)] += 1
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plugin")
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--most-local", type=int)
    options = parser.parse_args()
    try:
        used, sass = usage(options.plugin, options.arch), instructions(options.plugin, options.arch)
    except FileNotFoundError as error:
        print(f"count_kernels.py: {error.filename} is not on the PATH; it comes with the CUDA toolkit", file=sys.stderr)
        return 77
    except subprocess.CalledProcessError as error:
        sys.exit(f"count_kernels.py: {' '.join(error.cmd)} failed: {error.stderr.strip()}")
    if not used:
        sys.exit(f"count_kernels.py: {options.plugin} holds no code for {options.arch}")
    names = demangled(list(used))
    print("| kernel | registers | local | shared | instructions | loads | of 16 B | stores | of 16 B | barriers, shuffles | warps |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    rows = []
    for name, (registers, local, shared) in used.items():
        label = short(names[name])
        other_form = "float" in label and "bf16" not in label or re.search(r"bf16, 1[,>]", label)
        if not options.all and other_form:
            continue
        counts = sass.get(name, Counter())
        total = lambda *starts: sum(n for op, n in counts.items() if op.split(".")[0] in starts)  # noqa: E731
        wide = lambda start: sum(n for op, n in counts.items() if op.split(".")[0] == start and ".128" in op)  # noqa: E731
        # Registers are given out to warps in units of 256.
        warps = min(64, 65536 // (-(-registers * 32 // 256) * 256)) if registers else 64
        rows.append((label, registers, local, shared, sum(counts.values()), total("LDG"), wide("LDG"), total("STG"), wide("STG"),
                     f"{total('BAR')}, {total('SHFL')}", warps))
    for row in sorted(rows):
        print("| `" + row[0] + "` | " + " | ".join(str(value) for value in row[1:]) + " |")
    too_much = [] if options.most_local is None else [row for row in rows if row[2] > options.most_local]
    for row in too_much:
        print(f"count_kernels.py: {row[0]} keeps {row[2]} bytes in local memory, more than {options.most_local}", file=sys.stderr)
    return 1 if too_much else 0


if __name__ == "__main__":
    sys.exit(main())
