#!/usr/bin/env bash
# Checks the machine's GPU at boot and says what it found: as the guest attribute gpu-smoke/verdict, and as the line
# SMOKE-RESULT on the serial port. Whatever goes wrong on the way is a verdict too. A check machine then switches itself
# off; so does a machine of a pool whose check failed, before it could take a job.
set -u -o pipefail
export LC_ALL=C

HOST=${GCE_METADATA_HOST:-metadata.google.internal}
STATE= # a folder for what has to outlast a restart, where there will be one
WORK=$(mktemp -d)
RESTARTING=
# Set on what is no machine of Compute Engine: its metadata is served elsewhere, and no test plays the machine.
ELSEWHERE=
if [[ -n ${GCE_METADATA_HOST-} && -z ${GPU_CI_STATE-} ]]; then ELSEWHERE=yes; fi
DEADLINE=600
VERDICT=fail
CODE=2
SUMMARY="the boot script ended before the check began"

# metadata METHOD PATH [BODY]: one request to the metadata server; the answer on standard output.
metadata() {
  if command -v curl >/dev/null; then
    curl -fsS --max-time 60 --retry 5 --retry-connrefused -H 'Metadata-Flavor: Google' -X "$1" ${3+--data-binary "$3"} \
      "http://$HOST/computeMetadata/v1/$2"
    return
  fi
  local fd line body=${3-} port=80
  if [[ $HOST == *:* ]]; then port=${HOST##*:}; fi
  exec {fd}<>"/dev/tcp/${HOST%%:*}/$port" || return 1
  printf '%s /computeMetadata/v1/%s HTTP/1.0\r\nHost: %s\r\nMetadata-Flavor: Google\r\nContent-Length: %d\r\n\r\n%s' \
    "$1" "$2" "$HOST" "${#body}" "$body" >&"$fd"
  IFS= read -r line <&"$fd"
  local status=$line
  while IFS= read -r line <&"$fd" && [[ $line != $'\r' ]]; do :; done
  cat <&"$fd"
  exec {fd}>&-
  [[ $status == *' 200 '* ]]
}

attribute() {
  metadata GET "instance/attributes/$1" 2>/dev/null
}

# as_json TEXT: the text as a JSON string on one line, cut so that it has at most 900 bytes and no half character.
as_json() {
  local text=${1//[$'\x01'-$'\x1f'$'\x7f']/ } escaped length=900
  while true; do
    while [[ ${text:length:1} == [$'\x80'-$'\xbf'] ]]; do length=$((length - 1)); done
    escaped=${text:0:length}
    escaped=${escaped//\\/\\\\}
    escaped=${escaped//\"/\\\"}
    if ((${#escaped} <= 900)); then break; fi
    length=$((length - 10))
  done
  printf '"%s"' "$escaped"
}

report() {
  trap - EXIT
  local json
  json="{\"verdict\":\"$VERDICT\",\"exit_code\":$CODE,\"summary\":$(as_json "$SUMMARY")}"
  metadata PUT instance/guest-attributes/gpu-smoke/verdict "$json" >/dev/null ||
    echo "gpu-ci: the guest attribute could not be written" >&2
  echo "SMOKE-RESULT $(printf '%s' "$json" | base64 | tr -d '\n')"
  rm -rf "$WORK" ${STATE:+"$STATE"}
  if [[ $ROLE == check || $VERDICT != pass ]]; then
    sleep 15 # whoever asked deletes the machine as soon as it has the verdict; this is for when nobody is left
    shutdown -h now
  fi
  exit 0
}

# within COMMAND...: run it for as long as the deadline leaves.
within() {
  local left=$((DEADLINE - SECONDS))
  ((left > 0)) || return 124
  timeout -k 10 "$left" "$@"
}

# The driver, where the image brings none. Google's installer restarts the machine, which then runs this script anew.
get_driver() {
  local branch
  branch=$(attribute gpu-driver-branch)
  # A sandbox boots machines on somebody's computer, which is to keep the driver it has.
  if [[ -n $SOURCE && -n $ELSEWHERE ]]; then
    SUMMARY="a driver is installed on machines of Compute Engine only, and this is none: its metadata is served by $HOST"
    return 1
  fi
  case $SOURCE in
    installer) install_driver "$branch" ;;
    cos)
      if ! within cos-extensions install gpu -- -version="$branch" 2>&1 | tee "$WORK/driver.log"; then
        SUMMARY="Container-Optimized OS could not install driver $branch: $(tail -n 1 "$WORK/driver.log")"
        return 1
      fi
      # Its disk forbids running what lies on it, the driver's libraries and tools too.
      mount --bind /var/lib/nvidia /var/lib/nvidia && mount -o remount,exec /var/lib/nvidia
      ;;
  esac
}

install_driver() {
  if nvidia-smi >/dev/null 2>&1; then return; fi
  local times
  times=$(cat "$STATE/restarts" 2>/dev/null || echo 0)
  if ((times > 3)); then
    SUMMARY="cuda_installer has restarted the machine $times times and there is no driver"
    return 1
  fi
  echo $((times + 1)) >"$STATE/restarts"
  if [[ ! -s $STATE/cuda_installer.pyz ]]; then
    if ! within curl -fsSL --retry 5 -o "$STATE/download" "$(attribute gpu-driver-installer)" 2>"$WORK/driver.log"; then
      SUMMARY="cuda_installer could not be fetched: $(tail -n 1 "$WORK/driver.log"); the network may have no way out"
      return 1
    fi
    mv "$STATE/download" "$STATE/cuda_installer.pyz"
  fi
  # It has the long-term branch in this mode only, and asks for a restart by restarting.
  RESTARTING=yes
  within python3 "$STATE/cuda_installer.pyz" install_driver --installation-mode=binary --installation-branch="$1" 2>&1 |
    tee "$WORK/driver.log"
  local code=${PIPESTATUS[0]}
  if ((code == 0)) && ! nvidia-smi >/dev/null 2>&1; then within sleep 300; fi
  RESTARTING=
  if nvidia-smi >/dev/null 2>&1; then return; fi
  SUMMARY="cuda_installer ended with code $code and no driver: $(tail -n 1 "$WORK/driver.log")"
  return 1
}

# The interpreter that has torch: that of a container, the image's own, or one made here.
find_python() {
  local image
  if image=$(attribute gpu-smoke-image) && [[ -n $image ]]; then
    if ! within docker pull --quiet "$image" 2>&1 | tee "$WORK/pull.log"; then
      SUMMARY="the container of the check could not be fetched: $(tail -n 1 "$WORK/pull.log")"
      return 1
    fi
    local devices=(/dev/nvidia*)
    # As Google's page on GPUs of Container-Optimized OS has it.
    PYTHON=(docker run --rm --network host "${devices[@]/#/--device=}" --volume "$WORK:$WORK"
      --volume /var/lib/nvidia/lib64:/usr/local/nvidia/lib64 --volume /var/lib/nvidia/bin:/usr/local/nvidia/bin
      --env LD_LIBRARY_PATH=/usr/local/nvidia/lib64 "$image" python3)
    return
  fi
  PYTHON=(python3)
  if ! command -v python3 >/dev/null; then
    SUMMARY="the image has no python3"
    return 1
  fi
  # Only whether it is there: the check imports it, once, and tells what is wrong with a broken one.
  if within python3 -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)'; then return; fi
  local torch
  torch=$(attribute gpu-smoke-torch)
  echo "gpu-ci: the image has no torch; installing torch $torch"
  local home=$WORK/torch
  if ! within python3 -m venv "$home"; then
    { within apt-get -qq update && within apt-get -qq install -y python3-venv && within python3 -m venv "$home"; } || true
  fi
  PYTHON=("$home/bin/python")
  if ! install_torch "$torch" "$home/bin" 2>&1 | tee "$WORK/pip.log"; then
    SUMMARY="torch $torch could not be installed: $(tail -n 1 "$WORK/pip.log"); the network may have no way out"
    return 1
  fi
}

# A torch for another CUDA than its default one is in an index of PyTorch's own, which uv knows by the CUDA's name.
install_torch() {
  if [[ $1 != *+* ]]; then
    within "$2/python" -m pip install --quiet --no-cache-dir "torch==$1"
    return
  fi
  within "$2/python" -m pip install --quiet --no-cache-dir "uv==$(attribute gpu-smoke-uv)" &&
    within "$2/uv" pip install --quiet --no-cache --python "$2/python" --torch-backend "${1##*+}" "torch==${1%%+*}"
}

check() {
  get_driver || return
  if ! attribute gpu-smoke-pyz | base64 -d >"$WORK/gpu_smoke.pyz" || [[ ! -s $WORK/gpu_smoke.pyz ]]; then
    SUMMARY="the check did not arrive: the machine's metadata has no readable gpu-smoke-pyz"
    return
  fi
  find_python || return
  # Without its expectations the check would pass on any GPU, so it must not run without them.
  local expectations words
  if ! expectations=$(attribute gpu-smoke-args) || [[ $expectations != *--expect-gpus* ]]; then
    SUMMARY="the check's expectations did not arrive: the machine's metadata has no readable gpu-smoke-args"
    return
  fi
  mapfile -t words <<<"$expectations"
  within "${PYTHON[@]}" "$WORK/gpu_smoke.pyz" "${words[@]}" --termination-log "$WORK/message" 2>&1 | tee "$WORK/output"
  CODE=${PIPESTATUS[0]}
  case $CODE in
    0) VERDICT=pass ;;
    124 | 137)
      CODE=4
      SUMMARY="the check did not end within $DEADLINE s of the boot"
      return
      ;;
  esac
  # The first line of its message is the check's own sentence; a check that died has only what it last printed.
  SUMMARY=$(head -n 1 "$WORK/message" 2>/dev/null)
  if [[ -n $SUMMARY ]]; then return; fi
  VERDICT=fail # a check that proved something says what
  SUMMARY=$(grep -v '^[[:space:]]*$' "$WORK/output" | tail -n 1)
  SUMMARY="the check ended with code $CODE and no message${SUMMARY:+; it last printed: $SUMMARY}"
}

# stopped: told to end. A restart that the driver asked for is none, and says nothing.
stopped() {
  if [[ -n $RESTARTING ]]; then
    trap - EXIT
    rm -rf "$WORK"
    exit 0
  fi
  SUMMARY="the machine was told to stop before the check ended"
  exit
}

ROLE=$(attribute gpu-ci-role)
trap report EXIT
trap stopped TERM INT HUP
seconds=$(attribute gpu-smoke-deadline-sec)
if [[ $seconds =~ ^[0-9]+$ ]]; then DEADLINE=$seconds; fi
SOURCE=$(attribute gpu-driver-source)
if [[ $SOURCE == installer && -z $ELSEWHERE ]]; then
  # The deadline counts from the first boot.
  STATE=${GPU_CI_STATE:-/var/lib/gpu-ci-driver}
  mkdir -p "$STATE"
  [[ -s $STATE/began ]] || date +%s >"$STATE/began"
  DEADLINE=$((DEADLINE - $(date +%s) + $(<"$STATE/began")))
fi
check
