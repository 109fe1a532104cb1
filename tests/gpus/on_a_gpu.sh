#!/usr/bin/env bash
# Runs tests/gpus/on_a_gpu.py on a machine with a GPU, from a checkout: bash tests/gpus/on_a_gpu.sh [DIRECTORY]
# Packages that Python lacks there are installed from wheels in the directory $WHEELS, without a network.
set -euo pipefail

cd "$(dirname "$0")/../.."
modules=$PWD/.path:$PWD
if [ -n "${WHEELS:-}" ]; then
    packages=$(mktemp -d)
    python3 -m pip install -q --no-index --no-deps --no-compile --target "$packages" "$WHEELS"/*.whl
    modules=$modules:$packages
fi
PYTHONPATH=$modules PYTHONUNBUFFERED=1 exec python3 -m tests.gpus.on_a_gpu "$@"
