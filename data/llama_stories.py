#!/usr/bin/env python3
"""Writes train.txt and validation.txt from a clone of https://github.com/erikhyrkas/snakes (MIT licence).

    git clone https://github.com/erikhyrkas/snakes && git -C snakes checkout d235dd496dcd99b8898cf14e45aec15720ac58e4
    python3 data/llama_stories.py snakes data/tinystories

The texts are short stories by Llama 3.1 8B. pipelines/tinystories_ape_rope_alibi.yml reads the two files, whose stories end with a
line <|endoftext|>. The SHA-256 of a story decides its file, so the files are the same on each machine.
"""

import hashlib
import pathlib
import re
import sys

KINDS = re.compile(r"(generated-(bedtime|campfire|child|food-stories)|llama-(stories|slice-of-life))\b.*\.md")
STORY = re.compile(r"<start>(.*?)<end>", re.DOTALL)
SHORTEST = 200  # bytes; shorter texts are refusals and fragments


def stories(folder):
    files = sorted(path for path in folder.glob("training_data/*.md") if KINDS.fullmatch(path.name))
    if not files:
        sys.exit(f"{folder}: it has no training_data/generated-bedtime-*.md and is not a clone of erikhyrkas/snakes")
    found = {}
    for path in files:
        for story in STORY.findall(path.read_text(encoding="utf-8")):
            story = story.strip()
            if len(story.encode()) >= SHORTEST:
                found[hashlib.sha256(story.encode()).hexdigest()] = story
    return sorted(found.items())


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: python3 data/llama_stories.py CLONE FOLDER")
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    parts = {"train.txt": [], "validation.txt": []}
    for digest, story in stories(pathlib.Path(sys.argv[1])):
        held_out = int(digest[-4:], 16) % 20 == 0
        parts["validation.txt" if held_out else "train.txt"].append(story)
    for name, texts in parts.items():
        data = "".join(text + "\n<|endoftext|>\n" for text in texts).encode()
        (folder / name).write_bytes(data)
        print(f"{folder / name}: {len(texts)} stories, {len(data)} bytes, SHA-256 {hashlib.sha256(data).hexdigest()}")


if __name__ == "__main__":
    main()
