"""Peers of tests/benchmarks/submission.cpp: the packages submitit and Snakemake's Slurm plugin, on the Slurm of SLURM_CONF.

usage: submission_peer.py submitit JOBS | snakemake JOBS

Every job is held, so nothing runs. Prints a JSON line: peer with its version, jobs, seconds until all were in the queue.
Exit code 77 without the package.
"""
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import tempfile
import time


def version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        print(f"no package {package}", file=sys.stderr)
        sys.exit(77)


def queued():
    words = ["squeue", "--me", "--noheader", "--array", "--format=%i"]
    return len(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())


def nothing(value):
    return value


def with_submitit(jobs, folder):
    import submitit

    executor = submitit.SlurmExecutor(folder=folder)
    executor.update_parameters(time=10, array_parallelism=1000, additional_parameters={"hold": True})
    begin = time.perf_counter()
    for first in range(0, jobs, 1000):  # an array holds no more here
        executor.map_array(nothing, range(first, min(jobs, first + 1000)))
    return time.perf_counter() - begin


def with_snakemake(jobs, folder):
    with open(os.path.join(folder, "Snakefile"), "w", encoding="utf-8") as file:
        file.write(
            f"rule all:\n    input: expand('{{i}}.txt', i=range({jobs}))\n"
            "rule one:\n    output: '{i}.txt'\n    shell: 'touch {output}'\n"
        )
    words = [sys.executable, "-m", "snakemake", "--executor", "slurm", "--jobs", str(jobs), "--directory", folder,
             "--snakefile", os.path.join(folder, "Snakefile"), "--max-jobs-per-second", "1000",
             "--default-resources", "slurm_account=none", "slurm_partition=main", "runtime=10", "mem_mb=100",
             "slurm_extra='--hold'"]
    begin = time.perf_counter()
    with open(os.path.join(folder, "log"), "w", encoding="utf-8") as log:
        # It runs for as long as its jobs do; here it ends once they are in the queue.
        with subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True) as process:
            while queued() < jobs:
                if process.poll() is not None or time.perf_counter() - begin > 900:
                    with open(os.path.join(folder, "log"), encoding="utf-8") as text:
                        print(text.read()[-2000:], file=sys.stderr)
                    if process.poll() is None:
                        os.killpg(process.pid, signal.SIGKILL)
                    sys.exit(1)
                time.sleep(0.2)
            seconds = time.perf_counter() - begin
            os.killpg(process.pid, signal.SIGKILL)
    return seconds


def main():
    peer, jobs = sys.argv[1], int(sys.argv[2])
    package = {"submitit": "submitit", "snakemake": "snakemake-executor-plugin-slurm"}[peer]
    name = f"{package} {version(package)}"
    with tempfile.TemporaryDirectory() as folder:
        seconds = {"submitit": with_submitit, "snakemake": with_snakemake}[peer](jobs, folder)
    print(json.dumps({"peer": name, "jobs": jobs, "seconds": seconds}))


if __name__ == "__main__":
    main()
