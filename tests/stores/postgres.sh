#!/usr/bin/env bash
# Prints the URL of a PostgreSQL database for the tests: POOLBOOK_TEST_POSTGRES=$(bash tests/stores/postgres.sh).
# Takes the server that answers on this machine, else starts the one that is installed. To be run as root, or by a user
# who may start servers of their own (then it is one in a folder of that user's, on port 5433).
set -euo pipefail

port=5432
name=poolbook_test
binaries=$(ls -d /usr/lib/postgresql/*/bin /usr/pgsql-*/bin 2>/dev/null | sort -V | tail -n 1 || true)
PATH=$PATH:$binaries

command -v pg_isready >/dev/null || { echo "PostgreSQL is not installed: apt-get install postgresql" >&2; exit 1; }

if [ "$(id -u)" = 0 ]; then
    as_owner() { su postgres -s /bin/bash -c 'cd / && exec "$@"' -- postgres "$@"; }
    folder=/var/lib/postgresql/poolbook_test
else
    as_owner() { "$@"; }
    port=5433
    folder=${XDG_STATE_HOME:-$HOME/.local/state}/poolbook_test
fi

if ! pg_isready --quiet --host=localhost --port=$port; then
    if [ "$(id -u)" = 0 ] && command -v pg_lsclusters >/dev/null && pg_lsclusters --no-header | grep --quiet " $port "; then
        read -r version cluster _ < <(pg_lsclusters --no-header | grep " $port ")
        pg_ctlcluster "$version" "$cluster" start >&2
    else
        as_owner test -d "$folder" || as_owner initdb --pgdata="$folder" --username=postgres --auth=trust >&2
        as_owner pg_ctl --pgdata="$folder" --options="-p $port -k '$folder'" --log="$folder/log" --wait start >&2
    fi
    for _ in $(seq 50); do
        pg_isready --quiet --host=localhost --port=$port && break
        sleep 0.2
    done
fi

sql() { as_owner psql --quiet --no-psqlrc --tuples-only --no-align --port=$port --dbname=postgres "${socket[@]}" "$@"; }
socket=()
as_owner test -S "$folder/.s.PGSQL.$port" && socket=(--host="$folder" --username=postgres)
have() { [ "$(sql --command="$1")" = 1 ]; }
have "SELECT 1 FROM pg_roles WHERE rolname='$name'" ||
    sql --command="CREATE ROLE $name LOGIN PASSWORD '$name'" >&2
have "SELECT 1 FROM pg_database WHERE datname='$name'" ||
    sql --command="CREATE DATABASE $name OWNER $name ENCODING 'UTF8' TEMPLATE template0" >&2

echo "postgresql://$name:$name@localhost:$port/$name"
