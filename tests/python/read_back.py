"""Prints as JSON the values of pe_pipeline from artifacts that python_reader_test.cpp wrote into the folder argv[1]."""
import json
import os
import sys

import numpy as np
import pandas as pd

from pe_pipeline import artifacts as pe

folder = sys.argv[1]


def plain(value):
    """JSON has no NaN, infinity or NA: they are texts here."""
    if value is pd.NA:
        return "NA"
    if isinstance(value, (float, np.floating)) and not np.isfinite(value):
        return str(float(value))
    return value.item() if isinstance(value, np.generic) else value


def error_of(call, *arguments):
    try:
        call(*arguments)
    except pe.ArtifactError as error:
        return str(error)
    return "no error"


tables = pe.read_tables(os.path.join(folder, "scores.h5"))
documents = tables["documents"]
checkpoint = pe.read_checkpoint(os.path.join(folder, "model.h5"))
shards = pe.read_token_shards(os.path.join(folder, "shards"))
damaged = pe.read_token_shards(os.path.join(folder, "damaged"))
curves = pe.read_figure(os.path.join(folder, "report"), "loss")

json.dump({
    "tables": list(tables),
    "facts": tables.facts,
    "columns": {name: [plain(value) for value in documents[name]] for name in documents},
    "types": {name: str(documents[name].dtype) for name in documents},
    "plotted": [plain(value) for value in documents["nll"].astype(float)],
    "attrs": documents.attrs,
    "empty": len(tables["empty"]),
    "stage": pe.read_header(os.path.join(folder, "scores.h5"))["made_by"]["stage"],
    "meta": {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in checkpoint.meta.items()},
    "tensors": {name: [row["dtype"], list(row["shape"]), row["elements"]] for name, row in checkpoint.tensors.iterrows()},
    "values": {name: np.asarray(checkpoint[name]).tolist() for name in checkpoint},
    "kinds": {name: str(checkpoint[name].dtype) for name in checkpoint},
    "tokens": {split: shards.tokens(split).tolist() for split in pe.SPLITS},
    "documents": [ids.tolist() for ids in shards.documents("train")],
    "document_table": shards.table("train").to_dict("list"),
    "tokenizer": {name: shards.tokenizer[name] for name in ("kind", "vocabulary", "bos_id")},
    "token_bytes": shards.token_bytes.tolist(),
    "totals": shards.totals["train"],
    "curves": {name: [plain(value) if value == value else "nan" for value in curves[name]] for name in curves},
    "errors": [
        error_of(pe.read_tables, os.path.join(folder, "model.h5")),
        error_of(pe.read_tables, os.path.join(folder, "nowhere.h5")),
        error_of(pe.read_tables, os.path.join(folder, "plain.txt")),
        error_of(tables.__getitem__, "document"),
        error_of(checkpoint.__getitem__, "embedding"),
        error_of(pe.read_token_shards, folder),
        error_of(shards.tokens, "dev"),
        error_of(pe.read_figure, os.path.join(folder, "report"), "lost"),
        error_of(pe.read_tables, os.path.join(folder, "newer.h5")),
        error_of(damaged.tokens, "train"),
        error_of(damaged.table, "train"),
        error_of(lambda: list(damaged.documents("train"))),
    ],
}, sys.stdout)
