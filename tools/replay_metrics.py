#!/usr/bin/env python3
"""Send the metrics of trainings to W&B, Trackio or TensorBoard, or write them as CSV.

    replay_metrics.py store/work --to tensorboard --out charts
    replay_metrics.py store/work/3fa9c2d1e0b4 --to wandb --project encodings --follow

Trainings write `metrics.jsonl` into their work folders (doc/training.md). This script finds every such file below the
paths given, joins the attempts of a run, and logs each run once, over tokens, under the names that `watch.tensorboard`
uses. A run is called as its task, with the whole config, the axes' labels and the pipeline. With --follow it keeps
reading until the trainings end. It needs the package that it sends to, and no other.
"""
import argparse
import csv
import fnmatch
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
NAMES = {"bpb": "bits_per_byte", "lr": "learning_rate", "grad_norm": "gradient_norm"}
PLACES = {"train/tokens_per_second": "speed/tokens_per_second", "train/mfu": "speed/mfu"}
ENDED = {"done", "stopped", "diverged"}


def metric(phase, name):
    """The name of a curve, as the trainings' own event files have it."""
    tag = f"{phase}/{NAMES.get(name, name)}"
    return PLACES.get(tag, tag)


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


def encoding_name(encoding):
    """"rope", or "rope+ssmax" of a stack."""
    if isinstance(encoding, dict) and isinstance(encoding.get("stack"), list):
        return "+".join(encoding_name(part) for part in encoding["stack"])
    return str(encoding.get("kind", "")) if isinstance(encoding, dict) else str(encoding)


def labels_of(task):
    """{"encoding": "rope", "seed": "1"} of "trunk[encoding=rope,seed=1]"."""
    inside = task[task.find("[") + 1:-1] if task.endswith("]") and "[" in task else ""
    return dict(part.split("=", 1) for part in inside.split(",") if "=" in part)


class Plans:
    """What the runs of a store say of its work folders: folder of a task -> {pipeline: id of the task}, the newest last."""

    def __init__(self):
        self.stores = {}

    def of(self, path):
        task_folder = os.path.dirname(os.path.dirname(os.path.abspath(path)))
        store = os.path.dirname(os.path.dirname(task_folder))
        if store not in self.stores:
            self.stores[store] = self.read(os.path.join(store, "runs"))
        return self.stores[store].get(os.path.basename(task_folder), {})

    @staticmethod
    def read(runs):
        known = {}
        for run in sorted(os.listdir(runs)) if os.path.isdir(runs) else []:
            try:
                with open(os.path.join(runs, run, "plan.json"), encoding="utf-8") as file:
                    plan = json.load(file)
                for task in plan["tasks"]:
                    named = known.setdefault(task["plan_key"], {})
                    named.pop(plan["pipeline"], None)
                    named[plan["pipeline"]] = task["id"]
            except (OSError, ValueError, KeyError, TypeError):
                continue
        return known


class Run:
    """One training: its attempts' logs, joined."""

    def __init__(self, run_id):
        self.id = run_id
        self.paths = []
        self.name = run_id[:12]
        self.config = {"run_id": run_id}
        self.tasks = {}   # pipeline -> id there

    def add(self, path, plans):
        self.paths.append(path)
        # An attempt's task.json says what was trained; it is not there for trainings that were started by hand.
        try:
            with open(os.path.join(os.path.dirname(path), "task.json"), encoding="utf-8") as file:
                task = json.load(file)
            config = task.get("config", {})
            self.config.update(config)
            self.config["stage"] = task.get("stage", "")
            encoding = encoding_name(config.get("model", {}).get("encoding", ""))
            seed = config.get("train", {}).get("seed", "")
            parts = [task.get("stage", ""), encoding, f"seed{seed}" if seed != "" else "", self.id[:8]]
            self.name = "-".join(part for part in parts if part)
        except (OSError, ValueError, AttributeError):
            pass
        self.tasks.update(plans.of(path))
        if self.tasks:
            pipeline, task = list(self.tasks.items())[-1]
            self.name = f"{pipeline}.{task}-{self.id[:8]}"
            self.config.update({"pipeline": pipeline, "task": task, "labels": labels_of(task)})

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
                    row[1][metric(phase, name)] = value
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
    runs, plans = {}, Plans()
    for top in paths:
        if not os.path.exists(top):
            sys.exit(f"replay_metrics.py: there is no {top}")
        found = [top] if os.path.isfile(top) else [
            os.path.join(folder, name) for folder, _, names in os.walk(top) for name in names if name == "metrics.jsonl"]
        for path in sorted(found):
            run_id = next((r["run_id"] for r in records_of(path) if r.get("run_id")), None)
            if run_id:
                runs.setdefault(run_id, Run(run_id)).add(path, plans)
    return runs


class WandbSink:
    def __init__(self, options, run):
        import wandb

        self.run = wandb.init(project=options.project, id=run.id[:32], name=run.name, resume="allow", dir=options.out,
                              config=run.config, reinit="create_new")
        self.run.define_metric("tokens")
        self.run.define_metric("*", step_metric="tokens")

    def log(self, tokens, step, values):
        self.run.log({"tokens": tokens, "step": step, **values})

    def close(self):
        self.run.finish()


class TrackioSink:
    def __init__(self, options, run):
        import trackio

        self.run = trackio.init(project=options.project, name=run.name, config=run.config, embed=False)

    def log(self, tokens, step, values):
        finite = {name: value for name, value in values.items() if math.isfinite(value)}
        self.run.log({"tokens": tokens, **finite}, step=int(tokens))

    def close(self):
        self.run.finish()


class TensorboardSink:
    """Event files whose step is the number of tokens, and beside them the run's config."""

    def __init__(self, options, run):
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self.event, self.summary = event_pb2.Event, summary_pb2.Summary
        folder = os.path.join(options.out, run.name.replace("/", "_"))
        self.writer = EventFileWriter(folder)
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(run.config, file, indent=1)

    def log(self, tokens, step, values):
        summary = self.summary(value=[self.summary.Value(tag=name, simple_value=value) for name, value in values.items()])
        self.writer.add_event(self.event(wall_time=time.time(), step=int(tokens), summary=summary))

    def close(self):
        self.writer.close()


class CsvSink:
    COLUMNS = [metric(phase, name) for phase, names in CHARTED.items() for name in names]

    def __init__(self, options, run):
        os.makedirs(options.out, exist_ok=True)
        self.file = open(os.path.join(options.out, run.name.replace("/", "_") + ".csv"), "w", newline="", encoding="utf-8")
        self.writer = csv.writer(self.file)
        self.writer.writerow(["tokens", "step", *self.COLUMNS])

    def log(self, tokens, step, values):
        self.writer.writerow([tokens, step, *[values.get(name, "") for name in self.COLUMNS]])

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
    parser.add_argument("--pipeline", help="only trainings of this pipeline, by its name")
    parser.add_argument("--task", metavar="PATTERN", help="only tasks of this name; * stands for any characters")
    parser.add_argument("--follow", action="store_true", help="go on until the trainings end")
    parser.add_argument("--every", type=float, default=5, help="seconds between two looks with --follow (default: 5)")
    options = parser.parse_args()
    runs = find_runs(options.paths)
    if not runs:
        sys.exit("replay_metrics.py: found no metrics.jsonl with records below " + ", ".join(options.paths))
    if options.pipeline or options.task:
        known = sorted({pipeline for run in runs.values() for pipeline in run.tasks})
        pattern = (options.task or "*").replace("[", "[[]")   # a bracket is one
        runs = {key: run for key, run in runs.items()
                if any(fnmatch.fnmatchcase(task, pattern) for pipeline, task in run.tasks.items()
                       if options.pipeline in (None, pipeline))}
        if not runs:
            sys.exit("replay_metrics.py: no training is of that pipeline and task; there are pipelines " + ", ".join(known))
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
