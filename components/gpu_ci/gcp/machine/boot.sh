#!/usr/bin/env bash
# The startup script of a machine (a Compute Engine VM). It starts the boot agent (agent/gpu_agent), which is in the
# machine's metadata and does all other work. If the agent cannot be started, or dies without ending the machine, this
# script reports the reason and powers the machine off.
#
# The sandbox runs machines as processes on a developer's computer. It sets GCE_METADATA_HOST.
set -u -o pipefail
export LC_ALL=C

HOST=${GCE_METADATA_HOST:-metadata.google.internal}
RUN=${GPU_AGENT_RUN:-/run}
# Machines of a sandbox share the computer's /run, but each has its own TMPDIR.
[[ -n ${GPU_AGENT_RUN-} || -z ${GCE_METADATA_HOST-} ]] || RUN=${TMPDIR:-/tmp}
AGENT=
STOPPED=
DONE=
STEP=start

# The reasons that this script reports for the end of a machine. The texts are those of agent/gpu_agent/outcomes.py.
declare -A MEANING=(
  [no-config]="the machine's metadata has no valid configuration"
  [no-tool]="the image lacks a program that the agent needs"
  [check-failed]="the smoke check did not pass"
  [stopped]="a user or program stopped the machine"
  [crashed]="the agent itself failed"
)
declare -A NEXT_STEP=(
  [no-config]="run pulumi up again"
  [no-tool]="use an image with the program in the detail"
  [check-failed]="the summary has the failure and the fix"
  [stopped]="nothing, if you stopped it"
  [crashed]="report the failure, with the serial port output"
)
declare -A STOPS_POOL=([no-config]=true [no-tool]=true)

# metadata METHOD PATH [BODY]: sends a request to the metadata server, and prints the answer. A read may take minutes,
# because the script needs the answer. A write may not, because the machine then ends.
metadata() {
  local sec=60 retries=5
  [[ $1 == GET ]] || sec=10 retries=1
  if command -v curl >/dev/null; then
    curl -fsS --max-time "$sec" --retry "$retries" --retry-connrefused -H 'Metadata-Flavor: Google' -X "$1" ${3+--data-binary "$3"} \
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

# publish KEY VALUE: writes a guest attribute.
publish() {
  metadata PUT "instance/guest-attributes/$1" "$2" >/dev/null 2>&1 || report "gpu-ci: the guest attribute $1 could not be written"
}

# report LINE: prints a line to standard output, and to the serial port, because a guest agent may log standard output
# to the journal only. An output that is full or closed must not stop the script.
report() {
  timeout -k 1 5 printf '%s\n' "$1"
  local device devices="/dev/ttyS0 /dev/console"
  [[ -z ${GCE_METADATA_HOST-} ]] || devices=${GPU_AGENT_CONSOLE-}
  for device in $devices; do
    # shellcheck disable=SC2016 # the inner shell expands them
    timeout -k 1 5 bash -c 'exec 3>"$1" && [[ -t 3 ]] && printf "\n%s\n" "$2" >&3' report "$device" "$1" 2>/dev/null && break
  done
}

# claim NAME: succeeds for the first process that claims the name. The agent claims names in the same way, so that each
# report is sent once. If no file can be created, every claim succeeds.
claim() {
  (set -o noclobber && : >"$GPU_AGENT_WORK/$1") 2>/dev/null || [[ ! -e $GPU_AGENT_WORK/$1 ]]
}

# end_machine REASON DETAIL: reports the end of the machine instead of the agent, and powers the machine off.
end_machine() {
  trap '' TERM INT HUP
  local detail=${2//[^ -~]/ } verdict='' end
  detail=${detail//[\"\\]/\'}
  detail=${detail:0:500}
  if claim ended; then
    # The serial port comes first: a machine that shuts down may be off before a slow metadata server answers.
    if claim verdict; then
      verdict="{\"verdict\":\"fail\",\"exit_code\":2,\"summary\":\"$detail\",\"reason\":\"$1\"}"
      report "SMOKE-RESULT $(printf '%s' "$verdict" | base64 | tr -d '\n')"
    fi
    end="{\"reason\":\"$1\",\"detail\":\"$detail\",\"meaning\":\"${MEANING[$1]}\",\"next_step\":\"${NEXT_STEP[$1]}\""
    end+=",\"stops_pool\":${STOPS_POOL[$1]-false},\"step\":\"$STEP\",\"seconds\":$SECONDS}"
    report "GPU-AGENT-END $end"
    [[ -z $verdict ]] || publish gpu-smoke/verdict "$verdict"
    publish gpu-agent/end "$end"
  fi
  # The pause lets a gate read the verdict and delete the machine. A machine that is already stopping has no time for it.
  [[ $1 == stopped ]] || sleep 15
  power_off
}

# power_off: powers the machine off, by force if necessary, and ends the script. In a sandbox it uses no force.
power_off() {
  rm -rf "$GPU_AGENT_WORK"
  if ! timeout 20 shutdown -h now && [[ -z ${GCE_METADATA_HOST-} ]]; then
    timeout 20 systemctl poweroff --force --force || exit 1
  fi
  DONE=yes
  exit 0
}

# cut_power: powers the machine off if the script exits in another way, such as bash that can start no process. This
# request to the kernel starts none (docs.kernel.org/admin-guide/sysrq.html).
cut_power() {
  [[ -n $DONE || -n ${GCE_METADATA_HOST-} ]] || echo o >/proc/sysrq-trigger
}

# find_python: sets PYTHON to the command that runs the agent. Container-Optimized OS has no Python. There the agent runs
# in the check's container, and runs commands on the machine through nsenter. In a sandbox it starts no container.
find_python() {
  PYTHON=(python3)
  local config
  config=$(metadata GET instance/attributes/gpu-agent-config 2>/dev/null)
  if [[ $config =~ \"source\":\ *\"cos\" && $config =~ \"image\":\ *\"([^\"]+)\" ]] &&
    [[ -z ${GCE_METADATA_HOST-} || -n ${GPU_AGENT_STATE-} ]]; then
    local image=${BASH_REMATCH[1]}
    timeout -k 10 1200 docker pull --quiet "$image" 2>&1 | tee "$GPU_AGENT_WORK/pull.log" ||
      end_machine check-failed "the container image of the check could not be downloaded: $(tail -n 1 "$GPU_AGENT_WORK/pull.log")"
    PYTHON=(docker run --rm --privileged --pid host --network host --volume /dev:/dev
      --volume "$GPU_AGENT_WORK:$GPU_AGENT_WORK" --env GPU_AGENT_WORK --env GCE_METADATA_HOST
      --env "GPU_AGENT_PREFIX=nsenter --target 1 --all" "$image" python3)
    return
  fi
  command -v python3 >/dev/null || end_machine no-tool "the image has no python3, 3.11 or newer"
  local version
  version=$(python3 -c 'import sys; print(*sys.version_info[:2], sep="."); sys.exit(sys.version_info < (3, 11))' 2>&1) ||
    end_machine no-tool "the image's python3 is not 3.11 or newer: ${version##*$'\n'}"
}

# Automatic upgrades hold locks of apt for minutes, and replace a driver that is in use. On an image that is some days old,
# their timers start them at once (Persistent=true in Debian's and Ubuntu's apt-daily*.timer).
UPGRADES=(apt-daily.timer apt-daily-upgrade.timer apt-daily.service apt-daily-upgrade.service)
# The properties of the agent's own systemd unit. Google's unit for startup scripts has KillMode=process and no OOMPolicy.
# In that unit, a stop of the machine reaches the agent only after the network is down. An OOM kill of a job also kills
# the process that copies the script's output. docs/adr/0018-a-unit-for-the-boot-agent.md explains each property.
UNIT=(--collect --quiet --unit=gpu-agent --property=KillMode=mixed --property=TimeoutStopSec=30
  --property=OOMPolicy=continue --property=FailureAction=poweroff --property=RefuseManualStop=yes
  "--property=After=network.target network-online.target nftables.service docker.service rsyslog.service"
  --property=StandardOutput=journal+console --property=LogRateLimitIntervalSec=0)

# restart_in_own_unit: starts this script again in the agent's own unit, and exits. Google's script runner deletes the
# script after its exit, so the unit runs a copy.
restart_in_own_unit() {
  timeout 60 systemctl mask --runtime --now "${UPGRADES[@]}" >/dev/null 2>&1
  local error
  error=$({ cp --remove-destination "$0" "$RUN/gpu-agent-boot.sh" &&
    timeout 30 systemd-run "${UNIT[@]}" bash "$RUN/gpu-agent-boot.sh" in-unit; } 2>&1) && exit 0
  report "gpu-ci: the agent starts in the unit of startup scripts: ${error##*$'\n'}"
}

# lock: succeeds if no other process runs this script. A user, or an upgrade of Google's guest agent, may start it again.
# A second agent would power the machine off while a job runs.
lock() {
  command -v flock >/dev/null && { exec {LOCK}>"$RUN/gpu-agent.lock"; } 2>/dev/null || return 0
  flock -n "$LOCK"
}

# on_stop_signal: passes a stop signal on to the agent, which then ends the machine itself.
on_stop_signal() {
  [[ -n $AGENT ]] || end_machine stopped "the machine received a stop signal before its agent was started"
  STOPPED=yes SIGNALLED=yes
  kill -TERM "$AGENT" 2>/dev/null
}
# In a sandbox, no unit is started, because the services of the developer's computer must not change.
[[ ${1-} == in-unit || (-n ${GCE_METADATA_HOST-} && -z ${GPU_AGENT_STATE-}) ]] || restart_in_own_unit
lock || {
  report "gpu-ci: the boot agent already runs on this machine"
  exit 0
}
# If the disk is full, the folder is in /run, which is in memory. If that fails too, the script has no files, but it still
# reports the end of the machine.
GPU_AGENT_WORK=$(mktemp -d || mktemp -d -p /run) || GPU_AGENT_WORK=/run/gpu-ci-nowhere
export GPU_AGENT_WORK
trap on_stop_signal TERM INT HUP
# A write to a closed serial port must fail without ending the script. The signal is handled and not ignored, because
# child processes would inherit that it is ignored.
trap : PIPE
trap cut_power EXIT

find_python
PYZ=$GPU_AGENT_WORK/gpu_agent.pyz
ERROR=$({ metadata GET instance/attributes/gpu-agent-pyz | base64 -d >"$PYZ"; } 2>&1) && [[ -s $PYZ ]] || {
  report "gpu-ci: $ERROR"
  end_machine no-config "the agent did not arrive: the machine's metadata has no readable gpu-agent-pyz"
}
STEP=unknown # from here on, the agent reports its steps
"${PYTHON[@]}" "$PYZ" run &
AGENT=$!
# A signal interrupts `wait`. Its code is then the signal's, even if the agent has just ended, so wait once more.
while true; do
  SIGNALLED=""
  wait "$AGENT"
  CODE=$?
  [[ -n $SIGNALLED ]] || kill -0 "$AGENT" 2>/dev/null || break
done
if ((CODE)); then
  # The signal may have reached the agent before its signal handler existed.
  [[ -z $STOPPED ]] || end_machine stopped "the machine received a stop signal, and its agent ended with code $CODE"
  sleep 40 # an agent that has only lost its supervisor ends the machine itself within this time
  end_machine crashed "the agent's supervisor ended with code $CODE"
fi
DONE=yes # the agent has ended the machine, or the machine stays on
rm -rf "$GPU_AGENT_WORK"
