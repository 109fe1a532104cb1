#!/usr/bin/env bash
# Prints the path of the BOINC client for the tests. One that is installed is taken; else root installs Debian's, without
# the service that comes with it.
set -euo pipefail

if ! command -v boinc >/dev/null; then
    [ "$(id -u)" = 0 ] || { echo "BOINC is not installed: apt-get install boinc-client" >&2; exit 1; }
    policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' > $policy
        chmod 755 $policy
        trap 'rm -f $policy' EXIT
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get install --quiet --yes --no-install-recommends boinc-client >&2 ||
        { apt-get update --quiet >&2 && apt-get install --quiet --yes --no-install-recommends boinc-client >&2; }
fi
command -v boinc
