"""Runs the meson that ./bootstrap put into .deps/, so that ninja can call it again from any shell."""
import os
import sys

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(root, ".deps", "wheels"))
# An older ninja on the PATH, which meson would call after it configured again, drops the log of this one. Then all is built again.
os.environ["NINJA"] = os.path.join(root, ".deps", "wheels", "bin", "ninja")
from mesonbuild.mesonmain import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
