#!/usr/bin/env python3
"""Send the metrics of trainings to W&B, Trackio or TensorBoard, or write them as CSV.

    replay_metrics.py store/work --to tensorboard --out charts
    replay_metrics.py store/work/3fa9c2d1e0b4 --to wandb --project encodings --follow

Trainings write `metrics.jsonl` into their work folders (doc/training.md). This script finds every such file below the
paths given, joins the attempts of a run, and logs each run once, over tokens. With --follow it keeps reading until the
trainings end. It needs the package that it sends to, and no other.
"""
import argparse
import csv
import json
import math
import os
import sys
import time

CHARTED = {
    "train": ["loss", "bpb", "lr", "grad_norm", "tokens_per_second", "mfu"],
    "validation": ["loss", "bpb"],
    "attention": ["largest_logit"],
}
ENDED = {"done", "stopped", "diverged"}


def number(value):
    """A number, also of the texts that stand for what JSON lacks; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value)
    return {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}.get(value)


def records_of(path):
    """The records of a log; a line that is not finished yet, or was cut by a kill, is left out."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return
    for line in text.split("\n")[:-1]:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and record.get("phase") in CHARTED and "step" in record:
            yield record


class Run:
    """One training: its attempts' logs, joined."""

    def __init__(self, run_id):
        self.id = run_id
        self.paths = []
        self.name = run_id[:12]

    def add(self, path):
        self.paths.append(path)
        # An attempt's task.json says what was trained; it is not there for trainings that were started by hand.
        try:
            with open(os.path.join(os.path.dirname(path), "task.json"), encoding="utf-8") as file:
                task = json.load(file)
            config = task.get("config", {})
            encoding = config.get("model", {}).get("encoding", "")
            encoding = encoding.get("kind", "") if isinstance(encoding, dict) else encoding
            seed = config.get("train", {}).get("seed", "")
            parts = [task.get("stage", ""), encoding, f"seed{seed}" if seed != "" else "", self.id[:8]]
            self.name = "-".join(part for part in parts if part)
        except (OSError, ValueError, AttributeError):
            pass

    def rows(self):
        """(tokens, step, {name: value}) by step. Where attempts overlap the later one counts: it is what went on."""
        newest = {}
        for path in self.paths:
            for record in records_of(path):
                key = (record["step"], record["phase"])
                if key not in newest or record.get("attempt", 0) >= newest[key].get("attempt", 0):
                    newest[key] = record
        # What an earlier attempt wrote beyond the point where the last one went on was lost with it.
        last = max((r.get("attempt", 0) for r in newest.values()), default=0)
        begins = min((r["step"] for r in newest.values() if r.get("attempt", 0) == last), default=0)
        joined = {}
        for (step, phase), record in sorted(newest.items()):
            if record.get("attempt", 0) < last and step > begins:
                continue
            row = joined.setdefault(step, (record.get("tokens", 0), {}))
            for name in CHARTED[phase]:
                value = number(record.get(name))
                if value is not None:
                    row[1][f"{phase}/{name}"] = value
        for step in sorted(joined):
            tokens, values = joined[step]
            yield tokens, step, values

    def ended(self):
        """Whether the newest attempt says so."""
        folder = os.path.dirname(max(self.paths, key=lambda path: (os.path.getmtime(path), path)))
        if os.path.exists(os.path.join(folder, "exit.json")):
            return True
        try:
            with open(os.path.join(folder, "progress.json"), encoding="utf-8") as file:
                return json.load(file).get("state") in ENDED
        except (OSError, ValueError):
            return False


def find_runs(paths):
    runs = {}
    for top in paths:
        if not os.path.exists(top):
            sys.exit(f"replay_metrics.py: there is no {top}")
        found = [top] if os.path.isfile(top) else [
            os.path.join(folder, name) for folder, _, names in os.walk(top) for name in names if name == "metrics.jsonl"]
        for path in sorted(found):
            run_id = next((r["run_id"] for r in records_of(path) if r.get("run_id")), None)
            if run_id:
                runs.setdefault(run_id, Run(run_id)).add(path)
    return runs


class WandbSink:
    def __init__(self, options, run):
        import wandb

        self.run = wandb.init(project=options.project, id=run.id[:32], name=run.name, resume="allow", dir=options.out,
                              config={"run_id": run.id}, reinit="create_new")
        self.run.define_metric("tokens")
        self.run.define_metric("*", step_metric="tokens")

    def log(self, tokens, step, values):
        self.run.log({"tokens": tokens, "step": step, **values})

    def close(self):
        self.run.finish()


class TrackioSink:
    def __init__(self, options, run):
        import trackio

        self.run = trackio.init(project=options.project, name=run.name, config={"run_id": run.id}, embed=False)

    def log(self, tokens, step, values):
        finite = {name: value for name, value in values.items() if math.isfinite(value)}
        self.run.log({"tokens": tokens, **finite}, step=int(tokens))

    def close(self):
        self.run.finish()


class TensorboardSink:
    """Event files whose step is the number of tokens."""

    def __init__(self, options, run):
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self.event, self.summary = event_pb2.Event, summary_pb2.Summary
        self.writer = EventFileWriter(os.path.join(options.out, run.name.replace("/", "_")))

    def log(self, tokens, step, values):
        summary = self.summary(value=[self.summary.Value(tag=name, simple_value=value) for name, value in values.items()])
        self.writer.add_event(self.event(wall_time=time.time(), step=int(tokens), summary=summary))

    def close(self):
        self.writer.close()


class CsvSink:
    NAMES = [f"{phase}/{name}" for phase, names in CHARTED.items() for name in names]

    def __init__(self, options, run):
        os.makedirs(options.out, exist_ok=True)
        self.file = open(os.path.join(options.out, run.name.replace("/", "_") + ".csv"), "w", newline="", encoding="utf-8")
        self.writer = csv.writer(self.file)
        self.writer.writerow(["tokens", "step", *self.NAMES])

    def log(self, tokens, step, values):
        self.writer.writerow([tokens, step, *[values.get(name, "") for name in self.NAMES]])

    def close(self):
        self.file.close()


SINKS = {"wandb": WandbSink, "trackio": TrackioSink, "tensorboard": TensorboardSink, "csv": CsvSink}


class Sender:
    """What of a run was sent."""

    def __init__(self, options, run):
        self.run, self.sent, self.over = run, set(), False
        self.sink = SINKS[options.to](options, run)

    def send(self, follow):
        self.over = not follow or self.run.ended()   # asked before reading, so that no last row is missed
        rows = list(self.run.rows())
        for i, (tokens, step, values) in enumerate(rows):
            fresh = {name: value for name, value in values.items() if (step, name) not in self.sent}
            # The newest row may be one of which a part is still to come.
            if not fresh or (not self.over and i + 1 == len(rows)):
                continue
            self.sink.log(tokens, step, fresh)
            self.sent.update((step, name) for name in fresh)
        if self.over:
            self.sink.close()
            print(f"{self.run.name}: {len({step for step, _ in self.sent})} rows", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", help="logs, work folders, or folders of such")
    parser.add_argument("--to", choices=sorted(SINKS), required=True, help="where to send the metrics")
    parser.add_argument("--project", default="pe-pipeline", help="project of W&B and Trackio (default: pe-pipeline)")
    parser.add_argument("--out", default=".", help="folder for files (default: the current one)")
    parser.add_argument("--follow", action="store_true", help="go on until the trainings end")
    parser.add_argument("--every", type=float, default=5, help="seconds between two looks with --follow (default: 5)")
    options = parser.parse_args()
    runs = find_runs(options.paths)
    if not runs:
        sys.exit("replay_metrics.py: found no metrics.jsonl with records below " + ", ".join(options.paths))
    try:
        senders = []
        for run in sorted(runs.values(), key=lambda run: (run.name, run.id)):
            senders.append(Sender(options, run))
            if not options.follow:   # one at a time: a store may hold hundreds
                senders.pop().send(follow=False)
        while senders:
            for sender in senders:
                sender.send(follow=True)
            senders = [sender for sender in senders if not sender.over]
            if senders:
                time.sleep(options.every)
    except ImportError as error:
        sys.exit(f"replay_metrics.py: {error}; install the package that --to {options.to} sends to")


if __name__ == "__main__":
    main()
