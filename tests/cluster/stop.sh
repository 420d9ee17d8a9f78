#!/bin/sh
# Stops the cluster that start.sh started, cleanly, and returns when it has ended. Its data stays.
set -eu
data=${CLUSTER_DIR:-"$(cd "$(dirname "$0")/../.." && pwd)/.cluster"}
if [ ! -e "$data/pid" ] || ! kill "$(cat "$data/pid")" 2>/dev/null; then
    echo "stop.sh: no cluster runs from $data" >&2
    exit 1
fi
while kill -0 "$(cat "$data/pid")" 2>/dev/null; do
    sleep 0.1
done
rm "$data/pid"
