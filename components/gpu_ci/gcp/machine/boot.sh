#!/usr/bin/env bash
# Starts the boot agent (agent/gpu_agent), which comes with the machine's metadata and does all the rest. Where it cannot
# be started, or is gone without having ended the machine, this says so in its place and switches the machine off.
set -u -o pipefail
export LC_ALL=C

HOST=${GCE_METADATA_HOST:-metadata.google.internal}
RUN=${GPU_AGENT_RUN:-/run}
# The VMs of a sandbox share one computer's /run, and each has a TMPDIR of its own.
[[ -n ${GPU_AGENT_RUN-} || -z ${GCE_METADATA_HOST-} ]] || RUN=${TMPDIR:-/tmp}
AGENT=
STOPPED=
DONE=
STEP=start

# The ends that this script reports. The texts are those of agent/gpu_agent/outcomes.py.
declare -A MEANING=(
  [no-config]="the machine's metadata has no valid configuration"
  [no-tool]="the image lacks a program the agent needs"
  [check-failed]="the smoke check did not pass"
  [stopped]="a user or program stopped the machine"
  [crashed]="the agent itself failed"
)
declare -A NEXT_STEP=(
  [no-config]="run pulumi up again"
  [no-tool]="use an image with the program in the detail"
  [check-failed]="the summary has the failure and its correction"
  [stopped]="nothing, if you stopped it"
  [crashed]="report it, with the serial port output"
)
declare -A STOPS_POOL=([no-config]=true [no-tool]=true)

# metadata METHOD PATH [BODY]: one request to the metadata server; the answer on standard output. What the script needs
# is worth minutes; what it tells is not, as the machine is to end.
metadata() {
  local sec=60 again=5
  [[ $1 == GET ]] || sec=10 again=1
  if command -v curl >/dev/null; then
    curl -fsS --max-time "$sec" --retry "$again" --retry-connrefused -H 'Metadata-Flavor: Google' -X "$1" ${3+--data-binary "$3"} \
      "http://$HOST/computeMetadata/v1/$2"
    return
  fi
  python3 -c '
import sys, urllib.request as http
sec, method, host, path, *body = sys.argv[1:]
url, flavor = f"http://{host}/computeMetadata/v1/{path}", {"Metadata-Flavor": "Google"}
request = http.Request(url, "".join(body).encode() if body else None, flavor, method=method)
sys.stdout.write(http.build_opener(http.ProxyHandler({})).open(request, timeout=int(sec)).read().decode())
' "$sec" "$1" "$HOST" "$2" ${3+"$3"}
}

# tell KEY VALUE: as a guest attribute.
tell() {
  metadata PUT "instance/guest-attributes/$1" "$2" >/dev/null 2>&1 || say "gpu-ci: the guest attribute $1 could not be written"
}

# say LINE: on standard output and on the serial port itself, as a guest agent may log the output to the journal alone.
# Either may be full or closed; what comes after it counts more.
say() {
  timeout -k 1 5 printf '%s\n' "$1"
  local device devices="/dev/ttyS0 /dev/console"
  [[ -z ${GCE_METADATA_HOST-} ]] || devices=${GPU_AGENT_CONSOLE-}
  for device in $devices; do
    # shellcheck disable=SC2016 # the inner shell expands them
    timeout -k 1 5 bash -c 'exec 3>"$1" && [[ -t 3 ]] && printf "\n%s\n" "$2" >&3' say "$device" "$1" 2>/dev/null && break
  done
}

# first NAME: whether nobody has said it yet; the agent asks the same way. Where no file can be made, nobody has.
first() {
  (set -o noclobber && : >"$GPU_AGENT_WORK/$1") 2>/dev/null || [[ ! -e $GPU_AGENT_WORK/$1 ]]
}

# ended REASON DETAIL: what the agent can not say any more.
ended() {
  trap '' TERM INT HUP
  local words=${2//[^ -~]/ } verdict='' end
  words=${words//[\"\\]/\'}
  words=${words:0:500}
  if first ended; then
    # The serial port first: a machine that goes down may not outlive a slow metadata server.
    if first verdict; then
      verdict="{\"verdict\":\"fail\",\"exit_code\":2,\"summary\":\"$words\",\"reason\":\"$1\"}"
      say "SMOKE-RESULT $(printf '%s' "$verdict" | base64 | tr -d '\n')"
    fi
    end="{\"reason\":\"$1\",\"detail\":\"$words\",\"meaning\":\"${MEANING[$1]}\",\"next_step\":\"${NEXT_STEP[$1]}\""
    end+=",\"stops_pool\":${STOPS_POOL[$1]-false},\"step\":\"$STEP\",\"seconds\":$SECONDS}"
    say "GPU-AGENT-END $end"
    [[ -z $verdict ]] || tell gpu-smoke/verdict "$verdict"
    tell gpu-agent/end "$end"
  fi
  # The gate deletes the VM as soon as it has the verdict; the pause is for when no gate is left. A VM that stops
  # already has no time for it.
  [[ $1 == stopped ]] || sleep 15
  off
}

# off: whatever it takes, on a machine of Google's.
off() {
  rm -rf "$GPU_AGENT_WORK"
  if ! timeout 20 shutdown -h now && [[ -z ${GCE_METADATA_HOST-} ]]; then
    timeout 20 systemctl poweroff --force --force || exit 1
  fi
  DONE=yes
  exit 0
}

# cut: where nothing else works, or bash itself gives up, as it does when it can start no process. The kernel needs none
# (docs.kernel.org/admin-guide/sysrq.html).
cut() {
  [[ -n $DONE || -n ${GCE_METADATA_HOST-} ]] || echo o >/proc/sysrq-trigger
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
      ended check-failed "the container image of the check could not be downloaded: $(tail -n 1 "$GPU_AGENT_WORK/pull.log")"
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

# The image's upgrades hold locks of apt for minutes, and replace a driver that is in use. Their timers are due at once on
# an image that is some days old (Persistent=true in Debian's and Ubuntu's apt-daily*.timer).
UPGRADES=(apt-daily.timer apt-daily-upgrade.timer apt-daily.service apt-daily-upgrade.service)
# Google's unit for startup scripts has KillMode=process and no OOMPolicy: a stop of the VM reaches the agent only after
# the network is down, and an OOM kill of a job ends what copies the script's output. So the agent has a unit of its own.
# docs/adr/0018-a-unit-for-the-boot-agent.md has the reason of each property.
UNIT=(--collect --quiet --unit=gpu-agent --property=KillMode=mixed --property=TimeoutStopSec=25
  --property=OOMPolicy=continue --property=FailureAction=poweroff --property=RefuseManualStop=yes
  "--property=After=network.target network-online.target nftables.service docker.service rsyslog.service"
  --property=StandardOutput=journal+console --property=LogRateLimitIntervalSec=0)

# in_own_unit: starts this script again in a unit of the agent's own. Google's script runner deletes the file it runs as
# soon as that ends, so the unit runs a copy.
in_own_unit() {
  timeout 60 systemctl mask --runtime --now "${UPGRADES[@]}" >/dev/null 2>&1
  local why
  why=$({ cp --remove-destination "$0" "$RUN/gpu-agent-boot.sh" &&
    timeout 30 systemd-run "${UNIT[@]}" bash "$RUN/gpu-agent-boot.sh" in-unit; } 2>&1) && exit 0
  say "gpu-ci: the agent starts in the unit of startup scripts: ${why##*$'\n'}"
}

# alone: whether no other start of this script runs, such as one by hand or by an upgrade of Google's guest agent. A
# second agent would switch a machine off under its job.
alone() {
  command -v flock >/dev/null && { exec {LOCK}>"$RUN/gpu-agent.lock"; } 2>/dev/null || return 0
  flock -n "$LOCK"
}

# A machine that goes down tells its agent, which ends by itself.
stopped() {
  [[ -n $AGENT ]] || ended stopped "the machine received a stop signal before its agent was started"
  STOPPED=yes
  kill -TERM "$AGENT" 2>/dev/null
}
# A sandbox boots VMs as processes of somebody's computer, whose services are to be left alone.
[[ ${1-} == in-unit || (-n ${GCE_METADATA_HOST-} && -z ${GPU_AGENT_STATE-}) ]] || in_own_unit
alone || {
  say "gpu-ci: the boot agent already runs on this machine"
  exit 0
}
# In memory where the disk is full. Where that fails too, nothing lies in this folder, and the end is said all the same.
GPU_AGENT_WORK=$(mktemp -d || mktemp -d -p /run) || GPU_AGENT_WORK=/run/gpu-ci-nowhere
export GPU_AGENT_WORK
trap stopped TERM INT HUP
# A serial port that is closed is to end a line, and no boot. Not ignored, as all that is started here would inherit that.
trap : PIPE
trap cut EXIT

find_python
PYZ=$GPU_AGENT_WORK/gpu_agent.pyz
WHY_NOT=$({ metadata GET instance/attributes/gpu-agent-pyz | base64 -d >"$PYZ"; } 2>&1) && [[ -s $PYZ ]] || {
  say "gpu-ci: $WHY_NOT"
  ended no-config "the agent did not arrive: the machine's metadata has no readable gpu-agent-pyz"
}
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
  [[ -z $STOPPED ]] || ended stopped "the machine received a stop signal, and its agent ended with code $CODE"
  sleep 40 # an agent that has lost its supervisor only ends the machine by itself
  ended crashed "the agent's supervisor ended with code $CODE"
fi
DONE=yes # by the agent, or it is a machine that stays
rm -rf "$GPU_AGENT_WORK"
