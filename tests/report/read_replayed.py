"""Prints what a tracker holds of one metric as [[tokens, value], ...], read with the tracker's own package or its files.

usage: read_replayed.py wandb|trackio|tensorboard|csv FOLDER METRIC
"""
import csv
import glob
import json
import sqlite3
import sys

kind, folder, metric = sys.argv[1:]
rows = []
if kind == "csv":
    with open(glob.glob(folder + "/*.csv")[0], newline="") as file:
        rows = [[float(row["tokens"]), float(row[metric])] for row in csv.DictReader(file) if row[metric]]
elif kind == "tensorboard":
    from tensorboard.backend.event_processing import event_accumulator

    events = event_accumulator.EventAccumulator(glob.glob(folder + "/*")[0], size_guidance={"scalars": 0})
    events.Reload()
    rows = [[event.step, event.value] for event in events.Scalars(metric)]
elif kind == "wandb":
    import struct

    from wandb.proto import wandb_internal_pb2

    # A header of 7 bytes, then records in blocks of 32 KiB as LevelDB logs have them: checksum, length, kind (1 whole, 2 to 4 parts).
    with open(glob.glob(folder + "/wandb/offline-run-*/*.wandb")[0], "rb") as file:
        data = file.read()
    at, parts, records = 7, b"", []
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        length, part = struct.unpack("<HB", data[at + 4:at + 7])
        parts += data[at + 7:at + 7 + length]
        at += 7 + length
        if part in (1, 4):
            records.append(parts)
            parts = b""
    for text in records:
        record = wandb_internal_pb2.Record()
        record.ParseFromString(text)
        if not record.HasField("history"):
            continue
        row = {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
        if metric in row:
            rows.append([row["tokens"], row[metric]])
elif kind == "trackio":
    with sqlite3.connect(glob.glob(folder + "/*.db")[0]) as database:
        for (text,) in database.execute("SELECT metrics FROM metrics ORDER BY id"):
            row = json.loads(text)
            if metric in row:
                rows.append([row["tokens"], row[metric]])
json.dump(rows, sys.stdout)
