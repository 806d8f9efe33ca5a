"""Finds the programs: those of the wheel that this module is part of, of the clone it lies in, or on the PATH."""
from __future__ import annotations

import os
import pathlib
import shutil
import sys

PACKAGE = pathlib.Path(__file__).resolve().parent


def program(name: str = "pe-pipeline") -> str:
    """The path of a program. Raises FileNotFoundError that says what to do."""
    installed = [above / "bin" for above in list(PACKAGE.parents)[3:4]]  # share/pe-pipeline/tools/pe_pipeline
    for folder in (PACKAGE / "bin", PACKAGE.parents[1] / "build/stages", *installed):  # of a wheel, clone, or this
        if os.access(folder / name, os.X_OK):
            return str(folder / name)
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"{name} is neither next to the module pe_pipeline nor on the PATH: build it with "
                                f"./bootstrap build, or put its folder on the PATH")
    return found


def environment() -> dict[str, str]:
    """The environment that programs of a wheel need: this Python, its torch, and the wheel's own gnuplot and fonts."""
    variables = {**os.environ, "PE_PYTHON": os.environ.get("PE_PYTHON") or sys.executable}
    extra = PACKAGE / "plot"
    if not extra.is_dir():
        return variables
    variables["PATH"] = f"{extra}:{variables.get('PATH', os.defpath)}"
    variables["FONTCONFIG_FILE"] = str(extra / "fonts.conf")
    beside = PACKAGE.parent
    for name, folder in (("torch", "lib"), ("pyarrow", "")):
        if not (beside / name).is_dir():  # of another site-packages: the programs' own search path misses it
            import importlib.util

            spec = importlib.util.find_spec(name)
            for place in spec.submodule_search_locations or [] if spec else []:
                path = variables.get("LD_LIBRARY_PATH")
                variables["LD_LIBRARY_PATH"] = str(pathlib.Path(place, folder)) + (f":{path}" if path else "")
    return variables


def main():
    """The console scripts of the wheel: becomes the program of the script's name."""
    path = program(pathlib.Path(sys.argv[0]).name)
    os.execve(path, [path, *sys.argv[1:]], environment())
