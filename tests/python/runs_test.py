#!/usr/bin/python3
"""runs_test.py SOURCE PROGRAMS: starts real runs from Python.

The examples in the docstrings of pe_pipeline.runs, the code of doc/python.md that starts runs, curves of a run while
it trains, `pe-pipeline metrics` with and without the logs of a run, and errors. Trainings are cut to a few steps. Exit
code 77: skipped, since this Python lacks h5py, pandas or matplotlib.
"""
import csv
import doctest
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

SOURCE, PROGRAMS = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
os.environ.update(MPLBACKEND="Agg", PATH=f"{PROGRAMS}:{os.environ['PATH']}", PYTHONDONTWRITEBYTECODE="1", NO_COLOR="1")
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "tools"))
SMALL = {"model.train.tokens": "8k", "model.train.batch": 4, "model.train.warmup_steps": 2, "model.model.width": 16,
         "model.train.validate_windows": 4, "scores.eval.documents": 8, "scores.eval.min_documents": 2,
         "scores.eval.lengths": [1, 2], "scores.eval.tasks": ["perplexity"], "data.vocabulary": 512,
         "text.generated.words": "60k", "text.generated.min_words": 400, "text.generated.max_words": 900}


def small(run):
    """`pe_pipeline.run` with short trainings, and a single seed where none is chosen."""
    return lambda file, select=(), axes=None, **options: run(
        file, select, axes={"seed": [42], **(axes or {})}, **{**options, "set": {**SMALL, **options.get("set", {})}})


def check_docstrings(pe_pipeline):
    from pe_pipeline import runs

    failed, tried = 0, 0
    parser, shared = doctest.DocTestParser(), {}
    for item in (runs.run, runs.Run.tasks.fget, runs.Run.artifacts.fget, runs.Run.metrics, runs.Report):
        test = parser.get_doctest(item.__doc__, shared, item.__qualname__, None, 0)
        result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, clear_globs=False)
        shared.update(test.globs)
        failed, tried = failed + result.failed, tried + result.attempted
    assert failed == 0 and tried >= 9, (failed, tried)


def check_page():
    blocks = re.findall(r"```python\n(.*?)```", (SOURCE / "doc/python.md").read_text(encoding="utf-8"), re.S)
    ran = [exec(compile(block, "doc/python.md", "exec"), {}) for block in blocks if "pe_pipeline.run(" in block]
    assert len(ran) >= 3
    assert pathlib.Path("two_seeds.pdf").read_bytes().startswith(b"%PDF-")


def check_live(pe_pipeline):
    """Curves grow while it trains, and after a stop the same call finishes."""
    options = {"set": {"model.train.tokens": "3M", "model.train.log_every": 1}, "progress": False}
    run = pe_pipeline.run("first.yml", ["model"], axes={"encoding": ["rope"], "seed": range(43, 44)}, wait=False, **options)
    assert list(run.artifacts.columns) and "train/loss" in run.metrics().columns  # before there are any
    assert os.getpgid(run._process.pid) != os.getpgid(0)  # a terminal's Ctrl-C would stop it a second time
    sizes, end = [], time.time() + 120
    while len(sizes) < 2 and time.time() < end:
        rows = len(run.metrics()) if run.state == "running" else 0
        if rows and rows not in sizes:
            sizes.append(rows)
        time.sleep(0.1)
    assert len(sizes) == 2, (sizes, run.state)
    assert run.state == "running"
    run.stop()
    assert run.state == "incomplete", run.state


def check_command(pe_pipeline):
    """The curves of an artifact are the curves of the log; there are no speeds."""

    def curves(folder):
        done = subprocess.run(["pe-pipeline", "metrics", "--out", folder, "model"], capture_output=True, text=True,
                              env={**os.environ, "PE_PYTHON": sys.executable})
        assert done.returncode == 0 and "rows" in done.stderr, done.stderr
        return {path.name: [{key: value for key, value in row.items() if not key.startswith("speed/")}
                            for row in csv.DictReader(path.open())] for path in pathlib.Path(folder).glob("*.csv")}

    run = pe_pipeline.run("first.yml", axes={"encoding": ["none", "rope"]}, progress=False)
    assert run.id is None  # all is reused
    page = run._repr_html_()
    assert page.startswith('<iframe srcdoc="&lt;!') and "loss_tokens" in page, page[:200]
    with_log = curves("with")
    assert with_log and all(len(rows) > 2 for rows in with_log.values()), with_log
    shutil.move("store/work", "work")
    assert curves("without") == with_log
    shutil.move("work", "store/work")


def check_errors(pe_pipeline):
    try:
        pe_pipeline.run("frist.yml", progress=False)
    except pe_pipeline.RunError as error:
        assert "did you mean 'first.yml'" in str(error) and error.code == 2, error
    else:
        raise AssertionError("no error")
    try:
        pe_pipeline.run("first.yml", ["model"], axes={"encoding": ["rope"]}, progress=False,
                        set={"model.train.length": 1000000, "model.train.tokens": "40M"})
    except pe_pipeline.RunError as error:
        assert "model[encoding=rope,seed=42]: " in str(error) and "too few for one window" in str(error), error
    else:
        raise AssertionError("no error")


def main():
    try:
        import h5py, matplotlib, pandas  # noqa: E401,F401
    except ImportError as error:
        print(f"runs_test: skipped: {error}")
        sys.exit(77)
    import pe_pipeline

    from pe_pipeline import programs, runs

    programs.program = runs.program = lambda name="pe-pipeline": str(PROGRAMS / name)
    pe_pipeline.run = small(runs.run)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        page = (SOURCE / "README.md").read_text(encoding="utf-8")
        first = re.search(r"```yaml\n(schema.*?)```", page, re.S).group(1)
        pathlib.Path("first.yml").write_text(first, encoding="utf-8")
        for check in (check_docstrings, check_command, check_errors, check_live):
            check(pe_pipeline)
            print(f"runs_test: {check.__name__} passed", flush=True)
        check_page()
        print("runs_test: check_page passed")
        os.chdir("/")


if __name__ == "__main__":
    main()
