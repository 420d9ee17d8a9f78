#!/bin/sh
# Starts three nodes on 9092, 9093 and 9094 and returns when all are ready; stop.sh stops them.
# Data, logs and process ids are kept in a folder of this clone: CLUSTER_DIR=/elsewhere for another one.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
data=${CLUSTER_DIR:-"$root/.cluster"}
chronik=${CHRONIK:-"$root/.venv/bin/chronik"}

if [ ! -x "$(command -v "$chronik")" ]; then
    echo "start.sh: there is no $chronik: run \`make setup\` first" >&2
    exit 1
fi
mkdir -p "$data"
if [ -e "$data/pid" ] && kill -0 "$(cat "$data/pid")" 2>/dev/null; then
    echo "start.sh: the cluster runs already: $here/stop.sh stops it" >&2
    exit 1
fi
nohup "$chronik" up --nodes 3 --port 9092 --data "$data/data" --log-level INFO >"$data/out" 2>"$data/log" </dev/null &
echo $! >"$data/pid"
# A node that cannot start ends the whole; 60 s are for a machine under load.
for _ in $(seq 600); do
    if grep -q '^ready' "$data/out"; then
        cat "$data/out"
        exit 0
    fi
    if ! kill -0 "$(cat "$data/pid")" 2>/dev/null; then
        break
    fi
    sleep 0.1
done
echo "start.sh: the cluster did not start; its log, $data/log, ends so:" >&2
tail -n 20 "$data/log" >&2
exit 1
