"""pe-pipeline in Python: starts runs, reads what they made, and shows reports in a notebook.

    import pe_pipeline

    run = pe_pipeline.run("first.yml", axes={"encoding": ["none", "rope"], "seed": [42]})
    run.metrics()              # curves of all trainings, a pandas.DataFrame
    run.report                 # in a notebook: the page

`read_tables`, `read_checkpoint` and the other readers of artifacts need h5py, and DataFrames need pandas. Everything
else needs Python alone. doc/python.md shows its use.
"""
from __future__ import annotations

import importlib

_HOMES = {"runs": ["Report", "Run", "RunError", "run"],
          "artifacts": ["ArtifactError", "Checkpoint", "Tables", "TokenShards", "read_checkpoint", "read_figure",
                        "read_header", "read_manifest", "read_report_table", "read_tables", "read_token_shards"]}
__all__ = [name for names in _HOMES.values() for name in names]


def __getattr__(name):
    for module, names in _HOMES.items():  # on demand: only artifacts need numpy
        if name in names:
            return getattr(importlib.import_module("." + module, __name__), name)
    raise AttributeError(f"module 'pe_pipeline' has no attribute '{name}'")


def __dir__():
    return sorted(__all__)
