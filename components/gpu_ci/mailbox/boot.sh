#!/usr/bin/env bash
# The boot script of a machine with a mailbox: an EC2 instance or a rented host. Root runs it from a file. It fetches the
# boot document and the boot agent (agent/gpu_agent), and starts the agent. If that fails, or if the agent dies without
# ending the machine, it writes the reason into the mailbox and powers the machine off.
#
# The sandbox runs machines as processes on a developer's computer. It sets GPU_AGENT_BOOT.
set -u -o pipefail
export LC_ALL=C
umask 077

BOOT_URL='@BOOT_URL@'
BOOT_SHA256='@BOOT_SHA256@'
BOOT=${GPU_AGENT_BOOT:-/run/gpu-ci/boot.json}
IMDS=${GPU_AGENT_IMDS:-@IMDS@}
STATE=${GPU_AGENT_STATE:-/var/lib/gpu-ci}
UNITS=${GPU_AGENT_UNITS:-/etc/systemd/system}
DOCUMENT=
AGENT=
STOPPED=
DONE=

# request METHOD URL [HEADER BODY]: sends a request, and prints the answer. Ends with 22 if the answer is an error. The
# URL is a secret, so it is no argument of curl.
request() {
  local sec=120 retries=5
  [[ $1 == GET ]] || sec=15 retries=1
  printf '%s = "%s"\n' url "$2" ${3:+header "$3"} |
    curl -fsS -K - -H "Content-Type: application/json" -X "$1" --max-time "$sec" --retry "$retries" --retry-connrefused ${4+--data-binary "$4"}
}

# entry NAME: finds an entry of the boot document, in the form in which boot.py writes it. BASH_REMATCH then has the URL
# as 1, and the digest or the header's name and value as 3 and 5.
entry() {
  [[ $DOCUMENT =~ \"$1\":\ \{\"url\":\ \"([^\"]+)\",\ \"(sha256|headers)\":\ \{?\"([^\"]+)\"(:\ \"([^\"]+)\")? ]]
}

# publish NAME VALUE: writes an object of the mailbox. It is refused if the agent has written the object.
publish() {
  entry "$1" && request PUT "${BASH_REMATCH[1]}" "${BASH_REMATCH[3]}: ${BASH_REMATCH[5]}" "$2" >/dev/null 2>&1
}

# end_machine REASON DETAIL: reports the end of the machine instead of the agent, and powers the machine off. The reasons
# are those of agent/gpu_agent/outcomes.py.
end_machine() {
  trap '' TERM INT HUP
  local detail=${2//[^ -~]/ } stops=false
  detail=${detail//[\"\\]/\'}
  detail=${detail:0:500}
  [[ $1 != no-config && $1 != no-tool ]] || stops=true
  printf 'GPU-AGENT-END %s: %s\n' "$1" "$detail"
  publish verdict "{\"verdict\":\"fail\",\"exit_code\":2,\"summary\":\"$detail\",\"reason\":\"$1\"}"
  publish end "{\"reason\":\"$1\",\"detail\":\"$detail\",\"stops_pool\":$stops,\"seconds\":$SECONDS}"
  power_off
}

# power_off: powers the machine off, by force if necessary, and ends the script. In a sandbox it uses no force.
power_off() {
  rm -rf "$GPU_AGENT_WORK"
  if ! timeout 20 shutdown -h now && [[ -z ${GPU_AGENT_BOOT-} ]]; then
    timeout 20 systemctl poweroff --force --force || exit 1
  fi
  DONE=yes
  exit 0
}

# cut_power: powers the machine off if the script exits in another way, such as bash that can start no process. This
# request to the kernel starts none (docs.kernel.org/admin-guide/sysrq.html).
cut_power() {
  [[ -n $DONE || -n ${GPU_AGENT_BOOT-} ]] || echo o >/proc/sysrq-trigger
}

# fetch URL SHA256 FILE: downloads a file, or ends the machine. A bucket that answers with 5xx or 429 for now is not a
# wrong configuration, which would stop the pool.
fetch() {
  local error code
  error=$(request GET "$1" 2>&1 >"$3")
  code=$?
  ((code != 22)) || [[ $error =~ error:\ (5|429) ]] || end_machine no-config "${3##*/} could not be downloaded: ${error##*$'\n'}"
  ((code == 0)) || end_machine timed-out "${3##*/} could not be downloaded: ${error##*$'\n'}"
  sha256sum --check --status <<<"$2  $3" || end_machine no-config "${3##*/} is not the pinned one"
}

# find_python: sets PYTHON to the program that runs the agent.
find_python() {
  for PYTHON in python3 python3.1{4,3,2,1}; do
    "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && return
  done
  end_machine no-tool "the image has no python3, 3.11 or newer"
}

# renew: starts the script that the user data of an EC2 instance has now. The manager changes it while the instance is
# stopped, because the URL of an earlier script ends with the credentials that signed it. If the service does not answer,
# this script continues.
renew() {
  local token
  token=$(curl -fsS --max-time 5 --retry 5 --retry-connrefused -X PUT -H "X-aws-ec2-metadata-token-ttl-seconds: 60" "$IMDS/latest/api/token") &&
    curl -fsS --max-time 5 --retry 5 -H "X-aws-ec2-metadata-token: $token" "$IMDS/latest/user-data" >"$STATE/new.sh" &&
    [[ $(<"$STATE/new.sh") == '#!'* ]] && mv "$STATE/new.sh" "$STATE/boot.sh" &&
    exec /usr/bin/env bash "$STATE/boot.sh" renewed
}

# start_unit: starts a copy of this script in the agent's own unit, also in each later boot, and exits.
# docs/adr/0018-a-unit-for-the-boot-agent.md explains each property.
start_unit() {
  local error
  error=$({ mkdir -p "$STATE" && cp --remove-destination "$0" "$STATE/boot.sh" && cat >"$UNITS/gpu-agent.service" &&
    timeout 60 systemctl daemon-reload && timeout 60 systemctl enable --now --no-block gpu-agent.service; } 2>&1 <<END
[Unit]
After=network-online.target nftables.service docker.service
Wants=network-online.target
FailureAction=poweroff
RefuseManualStop=yes
[Service]
ExecStart=/usr/bin/env bash "$STATE/boot.sh" in-unit
KillMode=mixed
TimeoutStopSec=30
RuntimeMaxSec=@LIMIT_SEC@
OOMPolicy=continue
StandardOutput=journal+console
LogRateLimitIntervalSec=0
[Install]
WantedBy=multi-user.target
END
  ) && exit 0
  echo "gpu-ci: the agent starts in the unit of this script: ${error##*$'\n'}"
}

# on_stop_signal: passes a stop signal on to the agent, which then ends the machine itself.
on_stop_signal() {
  [[ -n $AGENT ]] || end_machine stopped "the machine received a stop signal before its agent was started"
  STOPPED=yes SIGNALLED=yes
  kill -TERM "$AGENT" 2>/dev/null
}
# In a sandbox, no unit is started, because the services of the developer's computer must not change.
[[ -n ${1-} || (-n ${GPU_AGENT_BOOT-} && -z ${GPU_AGENT_STATE-}) ]] || start_unit
[[ ${1-} != in-unit || -z $IMDS ]] || renew
mkdir -p "${BOOT%/*}"
exec {LOCK}>"$BOOT.lock"
if ! flock -n "$LOCK"; then
  echo "gpu-ci: the boot agent already runs on this machine"
  exit 0
fi
# Automatic upgrades hold locks of apt for minutes, and replace a driver that is in use.
[[ -n ${GPU_AGENT_BOOT-} ]] || timeout 60 systemctl mask --runtime --now apt-daily{,-upgrade}.{timer,service} >/dev/null 2>&1
# If the disk is full, the folder is in /run, which is in memory.
GPU_AGENT_WORK=$(mktemp -d || mktemp -d -p /run) || GPU_AGENT_WORK=/run/gpu-ci-nowhere
export GPU_AGENT_WORK
trap on_stop_signal TERM INT HUP
trap : PIPE # a write to a closed output must fail without ending the script
trap cut_power EXIT

rm -f "$BOOT"
fetch "$BOOT_URL" "$BOOT_SHA256" "$BOOT.new"
mv "$BOOT.new" "$BOOT"
DOCUMENT=$(<"$BOOT")
find_python
entry agent
fetch "${BASH_REMATCH[1]}" "${BASH_REMATCH[3]}" "$GPU_AGENT_WORK/gpu_agent.pyz"
"$PYTHON" "$GPU_AGENT_WORK/gpu_agent.pyz" run &
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
