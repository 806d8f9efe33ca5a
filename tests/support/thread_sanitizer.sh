#!/bin/sh
# thread_sanitizer.sh SOURCE BUILD: thread-tests built with ThreadSanitizer in BUILD/thread-sanitizer, and run. Fails at the
# first report.
set -eu
source=$1 build=$2 folder=$2/thread-sanitizer
python=/usr/bin/python3
[ -x $python ] || python=python3
option() { sed -n "s/^$1=//p" "$folder.options"; }
$python "$source/meson/meson.py" introspect --buildoptions "$build" | $python -c '
import json, sys
for option in json.load(sys.stdin):
    if option["name"] in ("torch_root", "arrow_root"): print(option["name"] + "=" + option["value"])' > "$folder.options"
[ -f "$folder/build.ninja" ] ||
  $python "$source/meson/meson.py" setup "$folder" "$source" -Db_sanitize=thread -Db_lundef=false -Doptimization=1 \
    -Dbenchmarks=false -Dtorch_root="$(option torch_root)" -Darrow_root="$(option arrow_root)"
ninja -C "$folder" tests/thread-tests
TSAN_OPTIONS=halt_on_error=1 PE_TEST_SEQUENCES=${PE_TEST_SEQUENCES:-60} "$folder/tests/thread-tests" --color_output=no
