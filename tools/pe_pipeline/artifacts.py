"""Reads the artifacts of pe-pipeline into numpy and pandas.

It only reads: checkpoints, tables of metrics and evaluations, token shards, manifests and the data of reports. It needs
h5py, for tables also pandas, and no other part of pe-pipeline: this file may be copied to where you need it.
doc/python.md shows its use; the doc/format-*.md pages define the files.

Artifacts are in out/<pipeline>/<stage>/ after `pe-pipeline run`. Every error is an ArtifactError that names the file,
what was expected and what was found.
"""
from __future__ import annotations

import contextlib
import functools
import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

try:
    import h5py
    import numpy as np
except ImportError:  # runs are started without them; what needs them says so
    h5py = np = None

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ArtifactError", "Checkpoint", "TokenShards", "Tables", "read_checkpoint", "read_figure", "read_header",
           "read_manifest", "read_report_table", "read_tables", "read_token_shards"]

NEWEST_FORMAT = {"checkpoint": 1, "metrics": 1, "eval-table": 1, "token-shards": 1, "raw-text": 2, "tokenizer": 1}
SPLITS = ("train", "validation", "test")


class ArtifactError(Exception):
    """A file is not the artifact that was asked for, or is damaged."""


def read_header(path) -> dict:
    """What an HDF5 artifact says of itself: schema, kind, format and made_by, the recipe as a dict."""
    with _errors_of(path), _open(path) as file:
        return _header(file, path)


def read_tables(path) -> Tables:
    """All tables of a metrics or evaluation artifact, as DataFrames by name, with the file's facts in `.facts`."""
    with _errors_of(path), _open(path) as file:
        _require(_header(file, path), ("metrics", "eval-table"), path)
        frames = {name: _table(file["tables"][name], f"{path}: /tables/{name}") for name in _json(file, "order", path)}
        return Tables(frames, _json(file, "facts", path), path)


def read_checkpoint(path) -> Checkpoint:
    """A checkpoint: its metadata now, its tensors when they are asked for."""
    return Checkpoint(path)


def read_token_shards(folder) -> TokenShards:
    """Token ids of a tokenized data set, by split and document."""
    return TokenShards(folder)


def read_manifest(folder) -> dict:
    """The manifest of a collection: kind, content digest, recipe and members."""
    path = pathlib.Path(folder) / "manifest.json"
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise ArtifactError(f"'{folder}': expected a collection, found no manifest.json in it") from None
    except OSError as error:
        raise ArtifactError(f"'{path}': {error.strerror}") from None
    except ValueError as error:
        raise ArtifactError(f"'{path}': not JSON: {error}") from None
    if not isinstance(manifest, dict) or manifest.get("schema") != "pe-collection/1":
        raise ArtifactError(f"'{path}': expected schema pe-collection/1, found {_found(manifest, 'schema')}")
    return manifest


def read_figure(report, figure) -> pd.DataFrame:
    """The data of one figure of a report: columns panel, series, seed, role, x, y, low, high, n, value.

    `report` is the folder of a report, such as reports/quickstart/latest; `figure` is the id that its page shows.
    """
    return _csv(report, "data", f"figure_{figure}", "figure", {"panel": str, "series": str, "seed": str, "role": str})


def read_report_table(report, table) -> pd.DataFrame:
    """One table of a report, tables/<table>.csv, with the bounds of its intervals as columns."""
    return _csv(report, "tables", table, "table", {})


class Tables(Mapping):
    """DataFrames by name, in the order of the file.

    A cell that is missing is pandas.NA; NaN, infinity, 0 and "" are values. A column without missing cells has a numpy
    type, and one with missing cells a nullable type: Int64, Float64 or string. Units are in `frame.attrs["units"]`, facts
    that hold for a whole table in `frame.attrs["attributes"]`.
    """

    def __init__(self, frames, facts, path):
        self._frames, self.facts, self.path = frames, facts, path

    def __getitem__(self, name):
        try:
            return self._frames[name]
        except KeyError:
            raise ArtifactError(f"'{self.path}' has no table '{name}'; it has {_names(self._frames)}") from None

    def __contains__(self, name):
        return name in self._frames

    def __iter__(self):
        return iter(self._frames)

    def __len__(self):
        return len(self._frames)

    def __repr__(self):
        return f"Tables({', '.join(f'{name}: {len(frame)} rows' for name, frame in self._frames.items())})"


class Checkpoint(Mapping):
    """A model: `checkpoint["model/embedding"]` is a numpy array, `.meta` a dict of everything that is not a tensor.

    bf16 and f16 tensors become float32. `.tensors` lists name, dtype and shape without reading any tensor, as a
    DataFrame. Checksums are not compared here: `pe-pipeline verify` does that.
    """

    def __init__(self, path):
        self.path = pathlib.Path(path)
        with _errors_of(path), _open(path) as file:
            self.header = _header(file, path)
            _require(self.header, ("checkpoint",), path)
            group = file["meta"]
            self.meta = {name: _plain(value) for name, value in group.attrs.items()}
            for name, member in group.items():  # texts are JSON; numbers, such as `trained_on`, are arrays
                self.meta[name] = member[()] if member.shape else _json(group, name, path)
            rows = []
            file.visititems(lambda name, item: rows.append(
                (name, (_plain(item.attrs["dtype"]), item.shape, int(item.size))))
                if isinstance(item, h5py.Dataset) and not name.startswith(("pe/", "meta/")) else None)
        self._tensors = dict(sorted(rows))

    @functools.cached_property
    def tensors(self) -> pd.DataFrame:
        rows = [(name, *facts) for name, facts in self._tensors.items()]
        return _pandas("tensors").DataFrame(rows, columns=["name", "dtype", "shape", "elements"]).set_index("name")

    def __getitem__(self, name):
        if name not in self._tensors:
            near = [other for other in self._tensors if name in other or other.split("/")[-1] == name.split("/")[-1]]
            hint = f"; did you mean {_names(near[:5])}?" if near else ""
            raise ArtifactError(f"'{self.path}' has no tensor '{name}'{hint}")
        with _errors_of(self.path), _open(self.path) as file:
            values = file[name][()]
        dtype = self._tensors[name][0]
        if dtype == "bf16":  # the upper half of a float32
            return (np.asarray(values, np.uint32) << 16).view(np.float32)
        return np.asarray(values, np.uint16).view(np.float16).astype(np.float32) if dtype == "f16" else np.asarray(values)

    def __contains__(self, name):
        return name in self._tensors

    def __iter__(self):
        return iter(self._tensors)

    def __len__(self):
        return len(self._tensors)

    def __repr__(self):
        return f"Checkpoint({self.path.name}, step {self.meta.get('step')}, {len(self)} tensors)"


class TokenShards:
    """Tokenized documents. `.tokenizer` and `.totals` are dicts, `.token_bytes` the bytes of text of each id."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.manifest = read_manifest(folder)
        if self.manifest.get("kind") != "token-shards":
            raise ArtifactError(f"'{folder}': expected kind token-shards, found {_found(self.manifest, 'kind')}")
        with _errors_of(self.folder / "dataset.h5"), _open(self.folder / "dataset.h5") as file:
            _require(_header(file, self.folder / "dataset.h5"), ("token-shards",), self.folder / "dataset.h5")
            tokenizer = file["tokenizer"]
            self.tokenizer = {name: _plain(value) for name, value in tokenizer.attrs.items()}
            self.tokenizer["model"] = tokenizer["model"][()].tobytes()
            self.token_bytes = tokenizer["token_bytes"][()]
            totals = file["totals"]
            self.totals = {name: _plain(value) for name, value in totals.attrs.items()}
            self.totals.update({split: {name: _plain(value) for name, value in totals[split].attrs.items()}
                                for split in totals})

    def tokens(self, split) -> np.ndarray:
        """All token ids of a split as one array; shards of 128 MiB make it as large as the data."""
        return np.concatenate([tokens for (tokens,) in self._columns(split, "tokens")])

    def documents(self, split) -> Iterator[np.ndarray]:
        """The token ids of one document after another; one shard is in memory at a time."""
        for tokens, offsets in self._columns(split, "tokens", "doc_offsets"):
            offsets = offsets.astype(np.int64)
            for begin, end in zip(offsets[:-1], offsets[1:]):
                yield tokens[begin:end]

    def table(self, split) -> pd.DataFrame:
        """A row a document: tokens, bytes of its text, and its number in the raw text."""
        pd = _pandas("table")
        frames = [pd.DataFrame({"tokens": np.diff(offsets.astype(np.int64)), "bytes": sizes.astype(np.int64),
                                "index": numbers.astype(np.int64)})
                  for offsets, sizes, numbers in self._columns(split, "doc_offsets", "doc_bytes", "doc_index")]
        return pd.concat(frames, ignore_index=True)

    def _columns(self, split, *names):
        """Datasets of one shard after another."""
        if split not in SPLITS:
            raise ArtifactError(f"no split '{split}'; there are {_names(SPLITS)}")
        for member in self.manifest["members"]:
            if member["name"].startswith(split + "-"):
                with _errors_of(self.folder / member["name"]), _open(self.folder / member["name"]) as file:
                    columns = [file[name][()] for name in names]
                yield columns  # outside, so that errors of the caller are not the file's


@contextlib.contextmanager
def _errors_of(path):
    """Errors of a damaged file name it."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OSError) as error:
        raise ArtifactError(f"'{path}': damaged: {error}") from error


def _open(path):
    if h5py is None:
        raise ArtifactError(f"'{path}': this Python has no h5py: pip install h5py")
    try:
        return h5py.File(path, "r")
    except FileNotFoundError:
        raise ArtifactError(f"'{path}': no such file") from None
    except OSError as error:
        raise ArtifactError(f"'{path}': not a readable HDF5 file: {error}") from None


def _header(file, path):
    group = file.get("pe")
    if group is None or _plain(group.attrs.get("schema", "")) != "pe-artifact/1":
        found = "no group /pe" if group is None else f"schema '{_plain(group.attrs.get('schema', ''))}'"
        raise ArtifactError(f"'{path}': expected an artifact with schema pe-artifact/1, found {found}")
    return {**{name: _plain(value) for name, value in group.attrs.items()}, "made_by": _json(group, "made_by", path)}


def _require(header, kinds, path):
    if header["kind"] not in kinds:
        raise ArtifactError(f"'{path}': expected kind {' or '.join(kinds)}, found {header['kind']}")
    if header["format"] > NEWEST_FORMAT[header["kind"]]:
        raise ArtifactError(f"'{path}': format {header['format']} of {header['kind']} is newer than this reader, "
                            f"which knows up to {NEWEST_FORMAT[header['kind']]}")


def _table(group, where):
    pd = _pandas("read_tables")
    columns, units, missing_of = {}, {}, group.get("missing", {})
    for name in json.loads(_plain(group["columns"][()])):
        data = group["data"][name]
        units[name] = _plain(data.attrs["unit"])
        kind = _plain(data.attrs["type"])
        if len(data) != int(group.attrs["rows"]):
            raise ArtifactError(f"'{where}': expected {group.attrs['rows']} rows, found {len(data)} in column '{name}'")
        missing = missing_of[name][()].astype(bool) if name in missing_of else None
        if kind == "text":
            values = np.array([_plain(text) for text in data[()]], dtype=object)
            if missing is not None:
                values[missing] = pd.NA
                columns[name] = pd.array(values, dtype="string")
            else:
                columns[name] = values
        elif missing is None:
            columns[name] = data[()]
        elif kind == "integer":
            columns[name] = pd.arrays.IntegerArray(data[()].astype(np.int64), missing)
        else:
            columns[name] = pd.arrays.FloatingArray(data[()].astype(np.float64), missing)
    frame = pd.DataFrame(columns)
    frame.attrs = {"units": units, "attributes": json.loads(_plain(group["attributes"][()]))}
    return frame


def _csv(report, folder, name, what, types):
    path = pathlib.Path(report) / folder / f"{name}.csv"
    if not path.exists():
        prefix = "figure_" if what == "figure" else ""
        there = sorted(file.stem.removeprefix(prefix) for file in path.parent.glob(f"{prefix}*.csv"))
        raise ArtifactError(f"'{report}' has no {what} '{name.removeprefix(prefix)}'; it has {_names(there)}")
    with _errors_of(path):
        frame = _pandas(f"read_{what}").read_csv(path, dtype=types, keep_default_na=False, na_values=[""])
        return frame.fillna({name: "" for name in types})  # an empty title is a text


def _pandas(what):
    try:
        import pandas
    except ImportError:
        raise ArtifactError(f"`{what}` makes a DataFrame, and this Python has no pandas: install it, or read the file with "
                            f"h5py alone") from None
    return pandas


def _json(group, name, path):
    try:
        return json.loads(_plain(group[name][()]))
    except (KeyError, ValueError):
        raise ArtifactError(f"'{path}': {group.name.rstrip('/')}/{name} is missing or not JSON") from None


def _plain(value):
    """A Python int, float or str of an HDF5 scalar; fixed-length text is padded with NUL."""
    if isinstance(value, np.ndarray) and value.shape == ():
        value = value[()]
    if isinstance(value, bytes):
        return value.rstrip(b"\0").decode("utf-8")
    return value.item() if isinstance(value, np.generic) else value


def _found(mapping, key):
    return f"'{mapping[key]}'" if isinstance(mapping, dict) and key in mapping else f"no '{key}'"


def _names(names):
    return ", ".join(names) if len(names) else "none"
