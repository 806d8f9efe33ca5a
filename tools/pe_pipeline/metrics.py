"""Sends the curves of trainings to W&B, Trackio or TensorBoard, or writes them as CSV.

`pe-pipeline metrics` starts this module, and `pe_pipeline.Run.metrics` returns the same curves as a DataFrame. A row
has all values of one step, over tokens, under the names that trainings use in their event files. Attempts of a task
are joined. A training on this machine has a log, `metrics.jsonl`. For a result from another machine the rows come from
its metrics artifact, which has the same curves without speeds; that needs h5py.
"""
from __future__ import annotations

import argparse
import csv
import glob
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import time
from collections.abc import Iterator

CHARTED = {
    "train": ["loss", "bpb", "lr", "grad_norm", "tokens_per_second", "mfu"],
    "validation": ["loss", "bpb"],
    "attention": ["largest_logit"],
}
NAMES = {"bpb": "bits_per_byte", "lr": "learning_rate", "grad_norm": "gradient_norm"}
PLACES = {"train/tokens_per_second": "speed/tokens_per_second", "train/mfu": "speed/mfu"}
ENDED = {"done", "reused", "failed", "blocked", "interrupted", "lost", "cancelled"}  # final phases of a task


def metric(phase: str, name: str) -> str:
    """The name of a curve, as in the trainings' own event files.

    >>> metric("train", "bpb"), metric("train", "mfu")
    ('train/bits_per_byte', 'speed/mfu')
    """
    tag = f"{phase}/{NAMES.get(name, name)}"
    return PLACES.get(tag, tag)


COLUMNS = [metric(phase, name) for phase, names in CHARTED.items() for name in names]


def number(value) -> float | None:
    """A number, also of the texts that JSON has for NaN and infinity; None for anything else.

    >>> number(2), number("NaN"), number("Infinity"), number(True), number("fast")
    (2.0, nan, inf, None, None)
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value)
    return {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}.get(value)


def labels_of(task: str) -> dict[str, str]:
    """The labels of the axes in a task's id.

    >>> labels_of("trunk[encoding=rope,seed=1]")
    {'encoding': 'rope', 'seed': '1'}
    """
    inside = task[task.find("[") + 1:-1] if task.endswith("]") and "[" in task else ""
    return dict(part.split("=", 1) for part in inside.split(",") if "=" in part)


def sources(program, store=None, run=None, select=()) -> dict:
    """What `pe-pipeline metrics --json` prints: the run, its state, and where the curves of its tasks are.

    Raises RuntimeError with the program's message."""
    command = [str(program), "metrics", "--json"]
    for flag, value in (("--store", store), ("--run", run)):
        command += [flag, str(value)] if value else []
    answer = subprocess.run(command + list(select), capture_output=True, text=True)
    if answer.returncode != 0:
        raise RuntimeError(answer.stderr.strip() or f"{program} ended with {answer.returncode}")
    return json.loads(answer.stdout)


def log_records(path) -> Iterator[dict]:
    """The records of a log; an unfinished line, of a writer at work or killed, is left out."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                if not line.endswith("\n"):
                    return
                try:
                    record = json.loads(line)
                except ValueError:
                    continue
                if isinstance(record, dict) and record.get("phase") in CHARTED and isinstance(record.get("step"), int):
                    yield record
    except FileNotFoundError:
        return


def artifact_records(path) -> Iterator[dict]:
    """The same of a metrics artifact."""
    import h5py

    with h5py.File(path, "r") as file:
        tables = {phase: {name: data[()].tolist() for name, data in file["tables"][phase]["data"].items()}
                  for phase in CHARTED if phase in file["tables"]}
    train = tables.get("train", {})
    steps, tokens = train.get("step", []), train.get("tokens", [])
    per_step = 0  # attention has no tokens
    if len(steps) > 1:
        per_step = (tokens[-1] - tokens[0]) / (steps[-1] - steps[0])
    elif steps and steps[0] > 0:
        per_step = tokens[0] / steps[0]
    for phase, columns in tables.items():
        for i, step in enumerate(columns["step"]):
            row = {name: values[i] for name, values in columns.items()}
            if "tokens" not in row and steps:
                row["tokens"] = round(tokens[0] + (step - steps[0]) * per_step)
            yield {**row, "phase": phase}


class Training:
    """The curves of one task, from the logs of its attempts or its artifact, with a name and config for trackers."""

    def __init__(self, source: dict, pipeline: str):
        self.task, self.key = source["id"], source.get("task_key", "")
        self.work, self.artifact = pathlib.Path(source["work"]), source.get("artifact")
        self.pipeline, self.config = pipeline, {}

    @property
    def id(self) -> str:
        return self.key or self.work.name

    @property
    def name(self) -> str:
        return f"{self.pipeline}.{self.task}-{self.id[:8]}"

    @property
    def file_name(self) -> str:
        """The name without slashes, and not longer than file systems take."""
        name = self.name.replace("/", "_")
        return name if len(name.encode()) <= 200 else f"{name.encode()[:190].decode(errors='ignore')}-{self.id[:8]}"

    def describe(self) -> dict:
        """The complete config of the training, with pipeline, task and labels."""
        config = {}
        for path in sorted(self.work.glob("a*/task.json")):
            try:
                config = json.loads(path.read_text(encoding="utf-8"))["config"]
            except (OSError, ValueError, KeyError):
                continue
        return {**config, "pipeline": self.pipeline, "task": self.task, "labels": labels_of(self.task),
                "run_id": self.id}

    def rows(self) -> list[tuple[int, int, dict[str, float]]]:
        """(tokens, step, {name: value}) by step. Where attempts overlap the later one counts."""
        records = [record for path in sorted(self.work.glob("a*/metrics.jsonl")) for record in log_records(path)]
        if records:
            key = self.key if any(r.get("run_id") == self.key for r in records) else records[-1].get("run_id")
            records = [record for record in records if record.get("run_id") == key]
            if self.key and key != self.key:  # of other inputs than the result that this run has
                records = []
            self.key = self.key or key or ""
        newest: dict[tuple[int, str], dict] = {}
        for record in records:
            place = (record["step"], record["phase"])
            if place not in newest or record.get("attempt", 0) >= newest[place].get("attempt", 0):
                newest[place] = record
        # Rows of an earlier attempt beyond the point where the last one continued were lost with it.
        last = max((r.get("attempt", 0) for r in newest.values()), default=0)
        begins = min((r["step"] for r in newest.values() if r.get("attempt", 0) == last), default=0)
        newest = {place: r for place, r in newest.items() if r.get("attempt", 0) == last or place[0] <= begins}
        for record in self._from_artifact(needed=not newest):
            newest.setdefault((record["step"], record["phase"]), record)
        joined: dict[int, tuple[int, dict[str, float]]] = {}
        for (step, phase), record in sorted(newest.items()):
            values = joined.setdefault(step, (record.get("tokens", 0), {}))[1]
            for name in CHARTED[phase]:
                value = number(record.get(name))
                if value is not None:
                    values[metric(phase, name)] = value
        return [(tokens, step, values) for step, (tokens, values) in sorted(joined.items())]

    def _from_artifact(self, needed: bool) -> list[dict]:
        if not self.artifact:
            return []
        try:
            return list(artifact_records(self.artifact))
        except ImportError:
            if needed:
                raise RuntimeError(f"{self.task} has no log here; its artifact needs h5py: pip install h5py") from None
            return []


class CsvSink:
    """DIR/NAME.csv: tokens, step and a column for each curve. NaN is `nan`, and a missing value is empty."""

    def __init__(self, options, training):
        os.makedirs(options.out, exist_ok=True)
        path = os.path.join(options.out, training.file_name + ".csv")
        self.file = open(path, "w", newline="", encoding="utf-8")
        self.writer = csv.writer(self.file)
        self.writer.writerow(["tokens", "step", *COLUMNS])

    def log(self, tokens, step, values):
        self.writer.writerow([tokens, step, *[values.get(name, "") for name in COLUMNS]])

    def flush(self):
        self.file.flush()

    def close(self):
        self.file.close()


def _crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC_TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli).

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    crc, table = 0xFFFFFFFF, CRC_TABLE
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def framed(payload: bytes) -> bytes:
    """A record of an event file: length, masked checksum, payload, masked checksum."""

    def mask(data):
        crc = crc32c(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(payload))
    return length + mask(length) + payload + mask(payload)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


class TensorboardSink:
    """DIR/NAME/: an event file whose step is the number of tokens, and config.json."""

    def __init__(self, options, training):
        folder = os.path.join(options.out, training.file_name)
        os.makedirs(folder, exist_ok=True)
        for earlier in glob.glob(os.path.join(glob.escape(folder), "events.out.tfevents.*.pe-pipeline")):
            os.remove(earlier)  # of the same command: points are not repeated
        self.file = open(os.path.join(folder, f"events.out.tfevents.{int(time.time()):010d}.pe-pipeline"), "wb")
        self.file.write(framed(b"\x09" + struct.pack("<d", time.time()) + _field(3, b"brain.Event:2")))
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(training.describe(), file, indent=1)

    def log(self, tokens, step, values):
        summary = b"".join(_field(1, _field(1, name.encode()) + b"\x15" + struct.pack("<f", clamped(value)))
                           for name, value in values.items())
        head = b"\x09" + struct.pack("<d", time.time()) + b"\x10" + _varint(int(tokens))
        self.file.write(framed(head + _field(5, summary)))

    def flush(self):
        self.file.flush()

    def close(self):
        self.file.close()


def clamped(value: float) -> float:
    """A number beyond float32 as infinity, which struct would refuse."""
    return math.copysign(math.inf, value) if abs(value) > 3.4028235e38 else value


class WandbSink:
    """A run of W&B, whose id is the task's key. WANDB_MODE and the other settings of W&B hold."""

    def __init__(self, options, training):
        import wandb

        self.run = wandb.init(project=options.project, id=training.id[:32], name=training.name, resume="allow",
                              dir=options.out, config=training.describe(), reinit="create_new",
                              settings=wandb.Settings(console="off", x_disable_stats=True))
        self.run.define_metric("tokens")
        self.run.define_metric("*", step_metric="tokens")

    def log(self, tokens, step, values):
        self.run.log({"tokens": tokens, **values}, step=step)  # W&B ignores a step that it has

    def flush(self):
        pass

    def close(self):
        self.run.finish()

    @staticmethod
    def ledger(options) -> pathlib.Path:
        return pathlib.Path(options.out, "wandb")


class TrackioSink:
    """A run of Trackio."""

    def __init__(self, options, training):
        import trackio

        self.run = trackio.init(project=options.project, name=training.name, config=training.describe(), resume="allow",
                                embed=False)

    def log(self, tokens, step, values):
        self.run.log({"tokens": tokens, **values}, step=int(tokens))

    def flush(self):
        pass

    def close(self):
        self.run.finish()

    @staticmethod
    def ledger(options) -> pathlib.Path:
        from trackio.utils import TRACKIO_DIR

        return pathlib.Path(TRACKIO_DIR)


SINKS = {"csv": CsvSink, "tensorboard": TensorboardSink, "wandb": WandbSink, "trackio": TrackioSink}


class Ledger:
    """Which step of each training a tracker has got; files need none, since they are written again."""

    def __init__(self, options):
        sink = SINKS[options.to]
        self.path = None
        if hasattr(sink, "ledger"):
            self.path = sink.ledger(options) / f"sent-by-pe-pipeline.{options.project}.json"
        self.steps: dict[str, int] = {}
        if self.path and self.path.exists():
            self.steps = json.loads(self.path.read_text(encoding="utf-8"))

    def save(self):
        if self.path and self.steps:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            partial = self.path.with_suffix(f".{os.getpid()}.tmp")
            partial.write_text(json.dumps(self.steps), encoding="utf-8")
            partial.replace(self.path)


class Sender:
    """Sends one training to a sink, which is made for the first row."""

    def __init__(self, options, training, ledger):
        self.options, self.training, self.ledger = options, training, ledger
        self.sink, self.sent, self.rows, self.has_rows = None, -1, 0, False

    def send(self, over: bool):
        """Sends the new rows. Before the end the newest row waits, since a part of it may still come."""
        rows = self.training.rows()
        self.has_rows = bool(rows)
        if self.rows == 0:
            self.sent = self.ledger.steps.get(self.training.id, -1)
        for tokens, step, values in rows if over else rows[:-1]:
            if step <= self.sent or not values:
                continue
            if self.sink is None:
                self.sink = SINKS[self.options.to](self.options, self.training)
            self.sink.log(tokens, step, values)
            self.sent, self.rows = step, self.rows + 1
        if self.sink:
            self.ledger.steps[self.training.id] = self.sent
            self.sink.flush()
            if over:
                self.sink.close()
        if over and rows:
            has = f", {len(rows) - self.rows} were sent before" if self.rows < len(rows) else ""
            print(f"{self.training.name}: {self.rows} rows{has}", file=sys.stderr)


def send(options) -> int:
    """Sends all trainings of a run; returns how many had rows."""
    ledger, senders, over, had_rows = None, {}, set(), 0
    while True:
        found = sources(options.program, options.store, options.run, options.select)
        options.project = options.project or found["pipeline"]
        ledger = ledger or Ledger(options)
        ended = not options.follow or found["state"] not in ("running", "queued", "unknown")
        for source in found["tasks"]:
            if source["id"] in over or source["phase"] == "waiting" and not ended:
                continue
            sender = senders.setdefault(source["id"], Sender(options, Training(source, found["pipeline"]), ledger))
            sender.training.artifact = source.get("artifact")
            last = ended or source["phase"] in ENDED  # known before the rows are read, so that none is missed
            sender.send(last)
            if last:
                over.add(source["id"])
                had_rows += senders.pop(source["id"]).has_rows
        ledger.save()
        if ended:
            return had_rows
        time.sleep(options.every)


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(prog="pe-pipeline metrics", description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True, help="path of pe-pipeline")
    parser.add_argument("--store")
    parser.add_argument("--run")
    parser.add_argument("--to", choices=sorted(SINKS), default="csv")
    parser.add_argument("--out", default="metrics")
    parser.add_argument("--project")
    parser.add_argument("--follow", action="store_true")
    parser.add_argument("--every", type=float, default=5)
    parser.add_argument("select", nargs="*")
    options = parser.parse_args(arguments)
    try:
        if options.to == "wandb":
            os.makedirs(options.out, exist_ok=True)
        if send(options) == 0:
            print("pe-pipeline metrics: no task of this run has curves here", file=sys.stderr)
    except ImportError as error:
        print(f"pe-pipeline metrics: {error}; --to {options.to} needs that package in {sys.executable} "
              f"(PE_PYTHON chooses another Python)", file=sys.stderr)
        return 2
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 2
    except (OSError, ValueError, KeyError) as error:  # a file that cannot be written, or a damaged one
        print(f"pe-pipeline metrics: {error}", file=sys.stderr)
        return 4
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
