#!/bin/sh
# meson install: man pages and completions. $1 pe-pipeline, $2 mandir, $3 datadir (relative to the prefix, or absolute).
set -eu
below() {
  case $1 in
    /*) echo "${DESTDIR:-}$1" ;;
    *) echo "$MESON_INSTALL_DESTDIR_PREFIX/$1" ;;
  esac
}
data=$(below "$3")
"$1" man --out "$(below "$2")/man1"
bash=$data/bash-completion/completions
fish=$data/fish/vendor_completions.d
mkdir -p "$bash" "$fish" "$data/zsh/site-functions"
"$1" completion bash >"$bash/pe-pipeline"
"$1" completion fish >"$fish/pe-pipeline.fish"
"$1" completion zsh >"$data/zsh/site-functions/_pe_pipeline"
# Shells look for a file of the program's name.
for program in "$(dirname "$1")"/pe-*.describe.json pe-score pe-encodings pe-export pe-hub pe-data; do
  program=$(basename "$program" .describe.json)
  ln -sf pe-pipeline "$bash/$program"
  ln -sf pe-pipeline.fish "$fish/$program.fish"
done
