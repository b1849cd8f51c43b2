#!/usr/bin/env bash
# Starts the boot agent (agent/gpu_agent), which comes with the machine's metadata and does all the rest. Where it cannot
# be started, or is gone without having ended the machine, this says so in its place and switches the machine off.
set -u -o pipefail
export LC_ALL=C

HOST=${GCE_METADATA_HOST:-metadata.google.internal}
GPU_AGENT_WORK=$(mktemp -d)
export GPU_AGENT_WORK
AGENT=
STOPPED=
STEP=start

# What can end here, in the words of agent/gpu_agent/ends.py.
declare -A MEANING=(
  [no-config]="the machine's metadata says nothing it can go by"
  [no-tool]="the image lacks a program the agent needs"
  [check-failed]="the GPU check did not pass"
  [stopped]="somebody stopped the machine"
  [crashed]="the agent itself failed"
)
declare -A NEXT_STEP=(
  [no-config]="bring the stack up again"
  [no-tool]="an image that has what the detail names"
  [check-failed]="the summary says what failed and what mends it"
  [stopped]="nothing, where it was you"
  [crashed]="report it, with the machine's serial port"
)
declare -A STOPS_POOL=([no-config]=true [no-tool]=true)

# metadata METHOD PATH [BODY]: one request to the metadata server; the answer on standard output.
metadata() {
  if command -v curl >/dev/null; then
    curl -fsS --max-time 60 --retry 5 --retry-connrefused -H 'Metadata-Flavor: Google' -X "$1" ${3+--data-binary "$3"} \
      "http://$HOST/computeMetadata/v1/$2"
    return
  fi
  python3 -c '
import sys, urllib.request as http
method, host, path, *body = sys.argv[1:]
url, flavor = f"http://{host}/computeMetadata/v1/{path}", {"Metadata-Flavor": "Google"}
request = http.Request(url, "".join(body).encode() if body else None, flavor, method=method)
sys.stdout.write(http.build_opener(http.ProxyHandler({})).open(request, timeout=60).read().decode())
' "$1" "$HOST" "$2" ${3+"$3"}
}

# tell KEY VALUE: as a guest attribute.
tell() {
  metadata PUT "instance/guest-attributes/$1" "$2" >/dev/null || echo "gpu-ci: the guest attribute $1 could not be written" >&2
}

# first NAME: whether nobody has said it yet; the agent asks the same way.
first() {
  (set -o noclobber && : >"$GPU_AGENT_WORK/$1") 2>/dev/null
}

# ended REASON DETAIL: what the agent can not say any more.
ended() {
  trap '' TERM INT HUP
  local words=${2//[^ -~]/ } json
  words=${words//[\"\\]/\'}
  words=${words:0:500}
  if first ended; then
    if first verdict; then
      json="{\"verdict\":\"fail\",\"exit_code\":2,\"summary\":\"$words\",\"reason\":\"$1\"}"
      tell gpu-smoke/verdict "$json"
      echo "SMOKE-RESULT $(printf '%s' "$json" | base64 | tr -d '\n')"
    fi
    json="{\"reason\":\"$1\",\"detail\":\"$words\",\"meaning\":\"${MEANING[$1]}\",\"next_step\":\"${NEXT_STEP[$1]}\""
    json+=",\"stops_pool\":${STOPS_POOL[$1]-false},\"step\":\"$STEP\",\"seconds\":$SECONDS}"
    tell gpu-agent/end "$json"
    echo "GPU-AGENT-END $json"
  fi
  sleep 15 # whoever asked deletes the machine as soon as it has the verdict; this is for when nobody is left
  off
}

# off: whatever it takes, on a machine of Google's.
off() {
  rm -rf "$GPU_AGENT_WORK"
  shutdown -h now || [[ -n ${GCE_METADATA_HOST-} ]] || systemctl poweroff --force --force
  exit 0
}

# Container-Optimized OS has no Python: there the agent runs in the container that has torch, and reaches the machine
# through nsenter. A sandbox plays machines on somebody's computer, which is to be left alone.
find_python() {
  PYTHON=(python3)
  local config
  config=$(metadata GET instance/attributes/gpu-agent-config 2>/dev/null)
  if [[ $config =~ \"source\":\ *\"cos\" && $config =~ \"image\":\ *\"([^\"]+)\" ]] &&
    [[ -z ${GCE_METADATA_HOST-} || -n ${GPU_AGENT_STATE-} ]]; then
    local image=${BASH_REMATCH[1]}
    timeout -k 10 1200 docker pull --quiet "$image" 2>&1 | tee "$GPU_AGENT_WORK/pull.log" ||
      ended check-failed "the container of the check could not be fetched: $(tail -n 1 "$GPU_AGENT_WORK/pull.log")"
    PYTHON=(docker run --rm --privileged --pid host --network host --volume /dev:/dev
      --volume "$GPU_AGENT_WORK:$GPU_AGENT_WORK" --env GPU_AGENT_WORK --env GCE_METADATA_HOST
      --env "GPU_AGENT_PREFIX=nsenter --target 1 --all" "$image" python3)
    return
  fi
  command -v python3 >/dev/null || ended no-tool "the image has no python3, 3.11 or newer"
  local found
  found=$(python3 -c 'import sys; print(*sys.version_info[:2], sep="."); sys.exit(sys.version_info < (3, 11))' 2>&1) ||
    ended no-tool "the image's python3 is not 3.11 or newer: ${found##*$'\n'}"
}

# A machine that goes down tells its agent, which ends by itself.
stopped() {
  [[ -n $AGENT ]] || ended stopped "the machine was told to stop before its agent was started"
  STOPPED=yes
  kill -TERM "$AGENT" 2>/dev/null
}
trap stopped TERM INT HUP

find_python
PYZ=$GPU_AGENT_WORK/gpu_agent.pyz
metadata GET instance/attributes/gpu-agent-pyz | base64 -d >"$PYZ" && [[ -s $PYZ ]] ||
  ended no-config "the agent did not arrive: the machine's metadata has no readable gpu-agent-pyz"
STEP=unknown # the agent knows, and has said it
"${PYTHON[@]}" "$PYZ" run &
AGENT=$!
while true; do
  wait "$AGENT"
  CODE=$?
  kill -0 "$AGENT" 2>/dev/null || break
done
if ((CODE)); then
  # It may have been told before it could listen.
  [[ -z $STOPPED ]] || ended stopped "the machine was told to stop, and its agent ended with code $CODE"
  sleep 40 # an agent that has lost its supervisor only ends the machine by itself
  ended crashed "the agent's supervisor ended with code $CODE"
fi
rm -rf "$GPU_AGENT_WORK"
