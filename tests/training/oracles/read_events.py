"""Prints the scalars of a folder of event files as the tensorboard package reads them: {"tag": [[step, value], ...]}.

usage: read_events.py FOLDER; exit code 77 without the package.
"""
import json
import sys

try:
    from tensorboard.backend.event_processing import event_accumulator
except ImportError:
    sys.exit(77)

events = event_accumulator.EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
events.Reload()
json.dump({tag: [[event.step, event.value] for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}, sys.stdout)
