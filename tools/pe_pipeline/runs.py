"""Runs of pipelines, and their reports."""
from __future__ import annotations

import html
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from . import metrics as _metrics
from .programs import environment, program

if TYPE_CHECKING:
    import pandas as pd


class RunError(Exception):
    """A run, or a question about it, ended with an error; `code` is the exit code of pe-pipeline.

    The message of a run has the reason of each task that failed, with the last lines of its log."""

    def __init__(self, message: str, code: int):
        super().__init__(message)
        self.code = code


def run(file, select: Iterable[str] = (), *, axes: Mapping[str, Any] | None = None,
        set: Mapping[str, Any] | None = None, scale: str | None = None, store: str | os.PathLike | None = None,
        jobs: int | None = None, wait: bool = True, progress: bool = True) -> Run:
    """Runs what is missing of a pipeline, as `pe-pipeline run` does, and returns a handle of its results.

    `file` is a pipeline file, or the name of one that comes with pe-pipeline, such as "quickstart". `axes` replaces the
    labels of axes, `set` values of configs; a text of `set` is read as YAML. Results that exist are reused, so the same call is also how to come back to
    them. With `wait=False` the run continues in the background. `progress` prints a line for each task.

    >>> import pe_pipeline
    >>> run = pe_pipeline.run("first.yml", axes={"encoding": ["none", "rope"]}, progress=False)
    >>> run.state
    'done'

    Raises RunError with the reasons when a task failed, or with the program's message when the file is wrong."""
    flags = []
    for name, labels in (axes or {}).items():
        single = isinstance(labels, str) or not isinstance(labels, Iterable)
        flags += ["--set", f"axes.{name}={_as_json([labels] if single else labels)}"]
    for key, value in (set or {}).items():
        flags += ["--set", f"{key}={value if isinstance(value, str) else _as_json(value)}"]
    for flag, value in (("--scale", scale), ("--store", store)):
        flags += [flag, str(value)] if value is not None else []
    started = Run(file, [select] if isinstance(select, str) else list(select), flags, jobs, progress)
    return started.wait() if wait else started


def _as_json(value) -> str:
    """JSON, also of ranges and other iterables, and of numpy's numbers and arrays."""
    return json.dumps(value, default=lambda other: other.tolist() if hasattr(other, "tolist") else list(other))


class Run:
    """A run of a pipeline and its results; made by `pe_pipeline.run`.

    `state` is running, done, failed, or incomplete after `stop`. In a notebook a run is shown as its report."""

    def __init__(self, file, select: list[str], flags: list[str], jobs: int | None, progress: bool):
        self.id: str | None = None  # None when there was nothing to do
        self._word, self._select, self._flags, self._reports = str(file), select, flags, []
        self._failures: list[str] = []
        self._errors = tempfile.TemporaryFile("w+")
        command = [program(), "run", self._word, *select, *flags, "--progress", "json"]
        command += ["-j", str(jobs)] if jobs else []
        # A terminal sends Ctrl-C to all of this process's group: the run is asked to stop by `stop` alone, once.
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._errors, text=True,
                                         env=environment(), start_new_session=True)
        self._reader = threading.Thread(target=self._read, args=(progress,), daemon=True)
        self._reader.start()

    def _read(self, progress: bool):
        for line in self._process.stdout:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            kind = event.get("event")
            if kind == "end":
                self.id, self._reports = event.get("run"), event.get("reports", [])
            if kind == "fail":
                self._failures.append("\n  ".join([f"{event.get('task', '')}: {event.get('reason', '')}",
                                                   *event.get("tail", [])]))
            if progress and kind in ("start", "publish", "warn", "fail", "block", "wait"):
                word = "done" if kind == "publish" else kind
                said = event.get("text") or event.get("reason") or event.get("owner") or ""
                print(f"{word:8} {event.get('task', '')} {said}".rstrip(), file=sys.stderr)

    @property
    def state(self) -> str:
        code = self._process.poll()
        return "running" if code is None else {0: "done", 3: "incomplete", 130: "incomplete"}.get(code, "failed")

    @property
    def file(self) -> str:
        """The pipeline file."""
        own = pathlib.Path(self._word + ".yml")
        return str(own) if not pathlib.Path(self._word).exists() and own.exists() else self._word

    def wait(self) -> Run:
        """Waits for the end. An interrupt (Ctrl-C, or the notebook's stop) lets tasks save, and the same call resumes.

        Raises RunError when the run failed."""
        try:
            self._process.wait()
        except KeyboardInterrupt:
            self.stop()
            raise
        self._reader.join()
        if self._process.returncode != 0:
            self._errors.seek(0)
            said = [text for text in (self._errors.read().strip(), *self._failures) if text]
            raise RunError("\n".join(said) or f"pe-pipeline run ended with {self._process.returncode}",
                           self._process.returncode)
        return self

    def stop(self) -> None:
        """Asks the tasks to save and stop, and waits for that."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()

    def _ask(self, *words: str) -> dict:
        answer = subprocess.run([program(), *words, "--json"], capture_output=True, text=True, env=environment())
        if answer.returncode != 0:
            raise RunError(answer.stderr.strip(), answer.returncode)
        return json.loads(answer.stdout)

    def _list(self, what: str) -> list[dict]:
        return self._ask("list", what, self.file, *self._select, *self._flags)[what]

    @property
    def tasks(self) -> pd.DataFrame:
        """A row for each task: id, stage, state and the labels of its axes.

        >>> list(run.tasks.query("stage == 'model'")["encoding"])
        ['none', 'rope']
        """
        rows = [{"id": task["id"], "stage": task["stage"], "state": task["state"], **_metrics.labels_of(task["id"])}
                for task in self._list("tasks")]
        return _pandas("tasks").DataFrame(rows)

    @property
    def artifacts(self) -> pd.DataFrame:
        """A row for each artifact: task, role, kind, path, bytes, and whether it is here.

        >>> path = run.artifacts.query("kind == 'eval-table' and task.str.contains('rope')")["path"].item()
        >>> "lm_summary" in pe_pipeline.read_tables(path)
        True
        """
        columns = ["task", "role", "kind", "path", "bytes", "present", "status", "step", "key"]
        return _pandas("artifacts").DataFrame(self._list("artifacts"), columns=columns)

    def metrics(self) -> pd.DataFrame:
        """The curves of all trainings, also of running ones: a row for each logged step, over tokens.

        >>> curves = run.metrics()
        >>> list(curves.columns[:5])
        ['task', 'encoding', 'seed', 'tokens', 'step']
        >>> bool(curves["train/loss"].min() > 0)
        True
        """
        paths = {row["task"]: row["path"] for row in self._list("artifacts")
                 if row["kind"] == "metrics" and row["present"]}
        rows = []
        for task in self._list("tasks"):
            source = {"id": task["id"], "task_key": task["task_key"], "work": task["work"],
                      "artifact": paths.get(task["id"])}
            labels = {"task": task["id"], **_metrics.labels_of(task["id"])}
            rows += [{**labels, "tokens": tokens, "step": step, **values}
                     for tokens, step, values in _metrics.Training(source, "").rows()]
        frame = _pandas("metrics").DataFrame(rows)
        return frame if rows else frame.reindex(columns=["task", "tokens", "step", *_metrics.COLUMNS])

    @property
    def report(self) -> Report:
        """The report of the run. Raises RunError for a pipeline without one."""
        if self._process.poll() is not None:
            self._reader.join()
        if not self._reports:
            raise RunError(f"{self.file} has no report, or it was not made yet", 3)
        return Report(self._reports[-1])

    def _repr_html_(self) -> str:
        return self.report._repr_html_() if self._reports else f"<code>{html.escape(repr(self))}</code>"

    def __repr__(self):
        return f"Run({self.file}, {self.state})"


class Report:
    """The folder of a report. In a notebook it is shown as its page.

    >>> report = run.report
    >>> "loss_tokens" in report.figures
    True
    >>> report.figure("loss_tokens")["series"].unique().tolist()
    ['none', 'rope']
    """

    def __init__(self, folder: str | os.PathLike):
        self.folder = pathlib.Path(folder)

    @property
    def figures(self) -> list[str]:
        """Ids of the figures."""
        return sorted(path.stem.removeprefix("figure_") for path in self.folder.glob("data/figure_*.csv"))

    @property
    def tables(self) -> list[str]:
        """Names of the tables."""
        return sorted(path.stem for path in self.folder.glob("tables/*.csv"))

    def figure(self, figure: str) -> pd.DataFrame:
        """The data of a figure; see `read_figure`."""
        from .artifacts import read_figure

        return read_figure(self.folder, figure)

    def table(self, table: str) -> pd.DataFrame:
        """A table, with the bounds of its intervals as columns."""
        from .artifacts import read_report_table

        return read_report_table(self.folder, table)

    def _repr_html_(self) -> str:
        page = (self.folder / "report.html").read_text(encoding="utf-8")
        return f'<iframe srcdoc="{html.escape(page)}" style="width: 100%; height: 40em; border: 0"></iframe>'

    def __repr__(self):
        return f"Report({str(self.folder)!r})"


def _pandas(what: str):
    from .artifacts import _pandas as needed

    return needed(what)
