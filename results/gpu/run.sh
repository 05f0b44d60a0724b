#!/usr/bin/env bash
# Everything that is to be known about autotune on a GPU, measured here: see README.md beside this file.
#   results/gpu/run.sh                     every part, each within its time
#   results/gpu/run.sh --only search       one part: tests, search, agreement, memory, oracle or rival
#   results/gpu/run.sh --dry-run           the same on the CPU, tiny, in a few minutes
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-}
if [ -z "$python" ]; then
  python=$(command -v python || command -v python3) || { echo "no python here: set PYTHON=/path/to/python" >&2; exit 2; }
fi
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
exec "$python" "$root/results/gpu/run.py" "$@"
