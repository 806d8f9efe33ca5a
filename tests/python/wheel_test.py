#!/usr/bin/python3
"""wheel_test.py SOURCE BUILD TORCH ARROW: makes a wheel of a build, installs it into a fresh virtual environment, and
runs a small quickstart where compilers, plot programs, fonts and the libraries of Debian packages are hidden.

TORCH and ARROW are the folders of these packages. The environment gets them from there and not by a download of 3 GB.
The files are hidden in a mount namespace, which needs root. Otherwise they are visible, and the test logs that.
Exit code 77: skipped.
"""
import ctypes
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

VALUES = ["train.train.tokens=64k", "train.train.batch=4", "train.model.width=16", "fetch.generated.words=60k",
          "tokenize.vocabulary=512", "evaluate.eval.documents=8", "evaluate.eval.min_documents=2",
          "evaluate.eval.lengths=[1,2]"]
SMALL = ["--axis", "seed=42", "--axis", "encoding=none,rope", *[word for value in VALUES for word in ("--set", value)]]
HIDDEN = ["cc", "gcc", "g++", "c++", "ld", "gnuplot", "rsvg-convert", "dot", "ninja", "meson", "h5dump"]
HIDDEN_FOLDERS = ["/etc/fonts", "/usr/share/fonts", "/usr/share/gnuplot", "/usr/include"]


def say(text):
    print(f"wheel_test: {text}", flush=True)


def run(*command, **options):
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"wheel_test: {' '.join(words)[-300:]} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def can_hide():
    return os.geteuid() == 0 and subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0


def hidden_files(python, libraries):
    """Programs and libraries that a bare machine lacks. Libraries that Python itself needs stay."""
    kept = set(re.findall(r"^\s*(\S+) =>", run("ldd", os.path.realpath(python)), re.M))
    files = {os.path.realpath(found) for found in map(shutil.which, HIDDEN) if found}
    for library in libraries - kept:
        files |= {os.path.realpath(path) for path in pathlib.Path("/usr/lib/x86_64-linux-gnu").glob(library + "*")}
    return sorted(files)


def become(plan, words):
    """In a new mount namespace: mounts as the plan says, and becomes a program. mount(8) would lose its libraries."""
    libc = ctypes.CDLL(None, use_errno=True)
    private, bind = 1 << 18 | 1 << 14, 1 << 12

    def mount(source, target, kind, flags):
        if libc.mount(source.encode(), target.encode(), kind, flags, None) != 0:
            sys.exit(f"wheel_test: cannot mount at {target}: {os.strerror(ctypes.get_errno())}")

    mount("none", "/", None, private)
    for target, source in plan["bind"].items():
        mount(source, target, None, bind)
    for path in plan["files"]:
        mount("/dev/null", path, None, bind)
    for path in plan["folders"]:
        if os.path.isdir(path):
            mount("none", path, b"tmpfs", 0)
    os.chdir(plan["project"])
    os.execv(words[0], words)


def main():
    if sys.argv[1] == "--become":
        become(json.loads(sys.argv[2]), sys.argv[3:])
    source, build, torch, arrow = (pathlib.Path(word).resolve() for word in sys.argv[1:5])
    os.environ["PATH"] = f"{torch.parent / 'bin'}:{os.environ['PATH']}"
    if shutil.which("patchelf") is None:
        say("skipped: patchelf is missing; `./bootstrap wheel` installs it")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        made = os.environ.get("PE_TEST_WHEEL")  # one that exists saves a minute
        wheel = pathlib.Path(made) if made else None
        if wheel is None:
            run(sys.executable, source / "meson/wheel", build, folder)
            wheel = next(folder.glob("*.whl"))
        say(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
        check_installed(folder, wheel, source, build, torch, arrow)


def check_installed(folder, wheel, source, build, torch, arrow):
    run("/usr/bin/python3", "-m", "venv", folder / "v")
    run(folder / "v/bin/pip", "install", "--disable-pip-version-check", "--no-index", "--no-deps", wheel)
    (site,) = (folder / "v/lib").glob("python3*/site-packages")
    # Copies would be gigabytes, and links would lead into the hidden source: these are bind mounts.
    links = {site / "torch": torch, site / "pyarrow": arrow, site / "nvidia": torch.parent / "nvidia"}
    for link, target in links.items():
        if target.is_dir():
            link.mkdir()
    project = folder / "project"
    project.mkdir()
    program = str(folder / "v/bin/pe-pipeline")
    if can_hide():
        libraries = {path.name for path in (site / "pe_pipeline/lib").iterdir()}
        plan = {"bind": {str(link): str(target) for link, target in links.items() if target.is_dir()},
                "files": hidden_files("/usr/bin/python3", libraries), "project": str(project),
                "folders": [*HIDDEN_FOLDERS, str(source), str(build)]}
        script = pathlib.Path(__file__).read_text(encoding="utf-8")
        bare = ["unshare", "-m", "/usr/bin/python3", "-c", script, "--become", json.dumps(plan)]
        seen = run(*bare, "/bin/sh", "-c", "gnuplot --version 2>&1; echo /usr/include/* /etc/fonts/*")
        assert "gnuplot 5" not in seen and seen.endswith("/usr/include/* /etc/fonts/*\n"), seen
        prefix = [*bare, program]
    else:
        say("not root: nothing is hidden")
        for link, target in links.items():
            if link.is_dir():
                link.rmdir()
                link.symlink_to(target)
        os.chdir(project)
        prefix = [program]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "TMPDIR": str(folder)}
    said = run(*prefix, "run", "quickstart", *SMALL, "--progress", "plain", env=environment)
    say(re.search(r"quickstart: .*", said).group())
    report = project / "reports/quickstart/latest"
    for name in ("report.html", "figures/loss_tokens.svg", "figures/loss_tokens.pdf", "figures/loss_tokens.png"):
        assert (report / name).stat().st_size > 1000, name
    run(*prefix, "metrics", env=environment)
    assert len(list((project / "metrics").glob("*.csv"))) == 2
    assert "nothing to do" in run(*prefix, "run", "quickstart", *SMALL, env=environment)
    described = sorted((site / "pe_pipeline/bin").glob("*.describe.json"))
    assert len(described) > 10
    for path in described:  # a plan reads descriptions and starts no stage as long as the build ids agree
        build_id = bytes.fromhex(json.loads(path.read_text())["build_id"])
        assert build_id in path.with_name(path.name.split(".")[0]).read_bytes(), path
    version = run(*prefix[:-1], site / "pe_pipeline/bin/pe-score", "--version", env=environment)
    assert version.startswith("pe-score "), version
    listed = run(folder / "v/bin/pip", "show", "--files", "pe-pipeline")
    assert "pe_pipeline/bin/pe-train" in listed, listed
    say("installed, ran and drew its figures")


if __name__ == "__main__":
    main()
