"""Prints the values of one metric in a tracker as [[tokens, value], ...], read with its package or from its files. A
NaN is the text "nan", which JSON lacks.

usage: read_replayed.py wandb|trackio|tensorboard|tensorboard-package|csv FOLDER METRIC
"""
import csv
import glob
import json
import sqlite3
import struct
import sys

kind, folder, metric = sys.argv[1:]
rows = []
if kind == "csv":
    with open(glob.glob(folder + "/*.csv")[0], newline="") as file:
        rows = [[float(row["tokens"]), float(row[metric])] for row in csv.DictReader(file) if row[metric]]
elif kind == "tensorboard-package":
    from tensorboard.backend.event_processing import event_accumulator

    events = event_accumulator.EventAccumulator(glob.glob(folder + "/*")[0], size_guidance={"scalars": 0})
    events.Reload()
    rows = [[event.step, event.value] for event in events.Scalars(metric)]
elif kind == "tensorboard":

    def fields(data):
        """(number, value) of a protobuf message; the value is an int, or bytes."""
        at = 0

        def varint():
            nonlocal at
            value = shift = 0
            while True:
                byte = data[at]
                at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
                if byte < 128:
                    return value

        while at < len(data):
            tag = varint()
            size = {0: None, 1: 8, 2: -1, 5: 4}[tag & 7]
            if size is None:
                yield tag >> 3, varint()
            else:
                size = varint() if size < 0 else size
                yield tag >> 3, data[at:at + size]
                at += size

    for path in glob.glob(folder + "/*/events.out.tfevents.*"):
        with open(path, "rb") as file:
            data = file.read()
        at = 0
        while at < len(data):
            (length,) = struct.unpack("<Q", data[at:at + 8])
            event = dict(fields(data[at + 12:at + 12 + length]))
            at += 16 + length
            for _, value in fields(event.get(5, b"")):
                scalar = dict(fields(value))
                if scalar[1].decode() == metric:
                    rows.append([event[2], struct.unpack("<f", scalar[2])[0]])
elif kind == "wandb":
    from wandb.proto import wandb_internal_pb2

    # A header of 7 bytes, then records in blocks of 32 KiB as in LevelDB: checksum, length, kind (1: whole, 2-4: part).
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
json.dump([[tokens, "nan" if str(value).lower() == "nan" else value] for tokens, value in rows], sys.stdout)
