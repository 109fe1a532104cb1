#!/usr/bin/env bash
# Runs PSI/J's own tests with the executor `poolbook`: bash tests/pool/psij_suite.sh CHECKOUT [PYTEST-ARGUMENTS]
# CHECKOUT is a clone of https://github.com/ExaWorks/psij-python. The tests run in a separate environment and home
# directory, because PSI/J writes to ~/.psij, and with a pool of four cores.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
checkout=$(cd "$1" && pwd)
shift
work=$(mktemp -d)
trap 'kill $pool 2>/dev/null || true; rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q -e "$here" -r "$checkout/requirements.txt" pytest requests filelock
export HOME=$work POOLBOOK_LOG=$work/pool.db PYTHONPATH=$checkout/src:$checkout/tests/plugins1:$checkout/tests/plugins2
"$work/venv/bin/poolbook" serve -cpus 4 -memory 4096 >"$work/serve.log" 2>&1 &
pool=$!
until [ -S "$work/pool.db.sock" ]; do sleep 0.1; kill -0 $pool; done
# The tests that name the executor `local` run once as they are, and once with `poolbook`.
cp -r "$checkout/tests" "$work/tests"
for test in test_callbacks test_wait; do
    sed "s/'local'/'poolbook'/g; s/def _test_wait/def test_wait/" "$work/tests/$test.py" >"$work/tests/${test}_here.py"
done
sed -i "s/'local'/'poolbook'/g" "$work"/tests/user_guide/{submit,attach}.py
cd "$work"
"$work/venv/bin/python" -m pytest -q --executors=poolbook:single tests "$@"
