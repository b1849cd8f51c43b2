#!/usr/bin/env bash
# Provisions the disk of a builder machine, from which the build of a host image creates an image. It runs as the
# machine's startup script. Each boot continues with the first step that is not done, because cuda_installer restarts
# the machine. The build reads the steps and the verdict on the serial port and as a guest attribute, as those of a
# smoke check (gate/channel.py).
#
# Every path is below GPU_CI_ROOT, which is empty on Compute Engine. Without it, the script runs only there.
# shellcheck disable=SC2329 # the loop at the end calls the steps by their names
set -u -o pipefail

ROOT=${GPU_CI_ROOT-}
HOST=${GCE_METADATA_HOST:-metadata.google.internal}
STATE=$ROOT/var/lib/gpu-ci-image
LOG=$STATE/log
STEP=start
# Fingerprints of the keys that sign the packages of https://download.docker.com and https://nvidia.github.io
# (docs.docker.com/engine/install/ubuntu; the second one as in public repositories, such as apt::key of puppet modules).
DOCKER_KEY=9DC858229FC7DD38854AE2D88D81803C0EBFCD88
NVIDIA_KEY=C95B321B61E88C1809C4F759DDCAE044F796ECB0
# cuda_installer needs one or two restarts (agent/gpu_agent/machine/driver.py has the same limit).
RESTARTS=3

metadata() {
  curl -fsS --max-time 60 --retry 5 --retry-connrefused -H 'Metadata-Flavor: Google' -X "$1" ${3+--data-binary "$3"} \
    "http://$HOST/computeMetadata/v1/$2"
}

# report LINE: prints a line to standard output, and to the serial port.
report() {
  printf '%s\n' "$1"
  # shellcheck disable=SC2016 # the inner shell expands it
  if [[ -z $ROOT && -w /dev/ttyS0 ]]; then timeout 5 bash -c 'printf "\n%s\n" "$1" >/dev/ttyS0' report "$1"; fi
}

# verdict pass|fail CODE REASON SUMMARY: reports the end of the provisioning, and ends the script.
verdict() {
  local summary=${4//[^ -~]/ } json
  summary=${summary//[\"\\]/\'}
  json="{\"verdict\":\"$1\",\"exit_code\":$2,\"summary\":\"${summary:0:600}\",\"reason\":\"$3\"}"
  report "SMOKE-RESULT $(printf '%s' "$json" | base64 | tr -d '\n')"
  metadata PUT instance/guest-attributes/gpu-smoke/verdict "$json" >/dev/null 2>&1
  exit "$2"
}

# fail REASON TEXT: reports the failed step with the last line that its programs printed.
fail() {
  local last
  last=$(grep -v '^[[:space:]]*$' "$LOG" 2>/dev/null | tail -n 1)
  if grep -q 'No space left on device' "$LOG" 2>/dev/null; then set -- disk-full "$2"; fi
  verdict fail 1 "$1" "step $STEP: $2${last:+: $last}"
}

# run REASON TEXT COMMAND...: runs a program, with its output behind a bar, so that no output is read as a report.
run() {
  local reason=$1 text=$2
  shift 2
  "$@" </dev/null 2>&1 | tee "$LOG" | sed -u 's/^/| /' || fail "$reason" "$text"
}

# download URL FILE
download() {
  run unreachable "$1 could not be downloaded" curl -fsSL --retry 5 --retry-connrefused --max-time 1800 -o "$2" "$1"
}

# is_done STEP: begins a step. Succeeds if an earlier boot has finished it.
is_done() {
  STEP=$1
  if [[ -e $STATE/done-$1 ]]; then return 0; fi
  report "GPU-AGENT-STEP {\"step\":\"$1\",\"seconds\":$SECONDS}"
  return 1
}

apt_get() {
  run "$1" "$2" env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 \
    apt-get -qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=5 "${@:3}"
}

# verify NAME FILE SHA256: fails unless the file has this checksum.
verify() {
  local sum
  sum=$(sha256sum "$2" | cut -d ' ' -f 1)
  [[ $sum == "$3" ]] || fail wrong-checksum "$1 has the SHA-256 $sum, expected $3"
}

# settings: reads KEY=VALUE lines from the metadata. The component has validated the values.
settings() {
  local line text
  text=$(metadata GET instance/attributes/gpu-image-settings) || fail no-config "the metadata has no gpu-image-settings"
  while read -r line; do
    [[ $line =~ ^(DRIVER|BRANCH|INSTALLER|INSTALLER_SHA256|RUNNER|SHA256|ARCHITECTURE|TORCH|DOCKER)=([A-Za-z0-9:/._+-]*)$ ]] ||
      fail no-config "gpu-image-settings has the line ${line:0:80}"
    printf -v "${BASH_REMATCH[1]}" %s "${BASH_REMATCH[2]}"
  done <<<"$text"
  for line in DRIVER RUNNER SHA256 ARCHITECTURE TORCH DOCKER; do
    [[ -n ${!line-} ]] || fail no-config "gpu-image-settings has no $line"
  done
}

step_packages() {
  # Automatic upgrades hold locks of apt, and could replace the kernel of the driver.
  systemctl mask --now apt-daily.timer apt-daily-upgrade.timer apt-daily.service apt-daily-upgrade.service \
    >/dev/null 2>&1
  command -v apt-get >/dev/null || fail no-tool "the base image has no apt-get"
  apt_get unreachable "the package lists could not be read" update
  apt_get unreachable "the packages could not be installed" install -y --no-install-recommends \
    ca-certificates curl gnupg git nftables openssl python3 python3-venv util-linux
  run no-tool "python3 is not 3.11 or newer" python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'
}

step_driver() {
  if [[ $DRIVER == image ]]; then
    command -v nvidia-smi >/dev/null || fail no-driver "the base image has no nvidia-smi, and driver.source is image"
    return
  fi
  if [[ -e $STATE/installed-driver ]]; then return; fi
  local restarts
  restarts=$(cat "$STATE/restarts" 2>/dev/null || echo 0)
  ((restarts <= RESTARTS)) || fail no-driver "cuda_installer has restarted the machine $restarts times"
  echo $((restarts + 1)) >"$STATE/restarts"
  [[ -e $STATE/cuda_installer.pyz ]] || download "$INSTALLER" "$STATE/cuda_installer.pyz"
  verify "$INSTALLER" "$STATE/cuda_installer.pyz" "$INSTALLER_SHA256"
  # In the mode repo, the installer ignores the branch (linux/cuda_installer/os_installers/ubuntu.py at e4d32d9). The
  # builder has no GPU. The installer compares the checksum of the driver itself.
  run no-driver "cuda_installer failed" python3 "$STATE/cuda_installer.pyz" install_driver --ignore-no-gpu \
    --installation-mode=binary "--installation-branch=$BRANCH"
  if grep -q 'Rebooting now' "$LOG"; then
    report "gpu-ci: cuda_installer restarts the machine"
    [[ -z $ROOT ]] || exit 0
    sleep 300 # the restart ends the script
    fail no-driver "cuda_installer did not restart the machine"
  fi
  command -v nvidia-smi >/dev/null || fail no-driver "cuda_installer ended without nvidia-smi"
  : >"$STATE/installed-driver"
}

step_runner() {
  local archive=$STATE/runner.tar.gz folder=$ROOT/opt/actions-runner/$RUNNER name
  name=actions-runner-linux-$ARCHITECTURE-$RUNNER.tar.gz
  download "https://github.com/actions/runner/releases/download/v$RUNNER/$name" "$archive"
  verify "$name" "$archive" "$SHA256"
  rm -rf "$folder"
  mkdir -p "$folder"
  run no-runner "$name could not be unpacked" \
    tar -xzf "$archive" --no-same-owner --no-same-permissions -C "$folder"
  chmod -R go-w "$folder"
  rm -f "$archive"
  run unreachable "the libraries of the runner could not be installed" "$folder/bin/installdependencies.sh"
  # The agent compares this file with the pool's checksum (agent/gpu_agent/runner/archive.py, MARKER).
  echo "$SHA256" >"$folder/.gpu-agent-sha256"
}

# step_torch: installs torch where the boot agent looks for it (agent/gpu_agent/check.py), with the same commands.
step_torch() {
  local home=$ROOT/var/lib/gpu-ci/torch version=${TORCH%%+*} cuda="" lock=$STATE/lock
  [[ $TORCH != *+* ]] || cuda=${TORCH#*+}
  rm -rf "$home"
  mkdir -p "${home%/*}"
  run no-tool "the environment for torch could not be created" python3 -m venv "$home"
  metadata GET instance/attributes/gpu-image-lock >"$lock" || fail no-config "the metadata has no gpu-image-lock"
  local pip=("$home/bin/python" -m pip install --quiet --no-cache-dir --only-binary :all:)
  if grep -q "^torch==$TORCH " "$lock"; then
    run unreachable "torch $TORCH could not be installed" "${pip[@]}" --require-hashes -r "$lock"
  elif [[ -z $cuda ]]; then
    run unreachable "torch $TORCH could not be installed" "${pip[@]}" "torch==$version"
  else
    run unreachable "uv could not be installed" "${pip[@]}" --require-hashes -r "$lock"
    run unreachable "torch $TORCH could not be installed" "$home/bin/uv" pip install --quiet --no-cache \
      --only-binary :all: --python "$home/bin/python" --torch-backend "$cuda" "torch==$version"
  fi
  run no-torch "torch $TORCH cannot be imported" "$home/bin/python" -c 'import torch'
  # The agent writes the file without a newline, and compares the whole text.
  printf %s "$TORCH" >"$home/.gpu-agent-torch"
}

# repository NAME KEY-URL FINGERPRINT LINE: adds a package repository whose key has this fingerprint.
repository() {
  local key=$ROOT/etc/apt/keyrings/$1.asc found
  mkdir -p "$ROOT/etc/apt/keyrings" "$ROOT/etc/apt/sources.list.d"
  download "$2" "$key"
  found=$(gpg --show-keys --with-colons "$key" 2>/dev/null | awk -F: '$1 == "fpr" { print $10; exit }')
  [[ $found == "$3" ]] || fail wrong-key "$2 has the fingerprint ${found:-of no key}, expected $3"
  echo "deb [signed-by=$key] $4" >"$ROOT/etc/apt/sources.list.d/$1.list"
}

step_docker() {
  [[ $DOCKER == rootless ]] || return 0
  local id codename
  # shellcheck disable=SC1091 # the file of the system
  id=$(. "$ROOT/etc/os-release" && echo "$ID") codename=$(. "$ROOT/etc/os-release" && echo "$VERSION_CODENAME")
  [[ $id == ubuntu || $id == debian ]] || fail no-tool "Docker's packages are for Ubuntu and Debian, not $id"
  repository docker "https://download.docker.com/linux/$id/gpg" "$DOCKER_KEY" \
    "https://download.docker.com/linux/$id $codename stable"
  # shellcheck disable=SC2016 # apt replaces $(ARCH)
  repository nvidia-container-toolkit https://nvidia.github.io/libnvidia-container/gpgkey "$NVIDIA_KEY" \
    'https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH) /'
  apt_get unreachable "the package lists of Docker and NVIDIA could not be read" update
  apt_get unreachable "Docker and NVIDIA's container toolkit could not be installed" install -y --no-install-recommends \
    containerd.io dbus-user-session docker-buildx-plugin docker-ce docker-ce-cli docker-ce-rootless-extras iptables \
    nvidia-container-toolkit slirp4netns uidmap
  # A job uses its own rootless daemon. A daemon of root would only take memory.
  run no-docker "the daemon of root could not be disabled" \
    systemctl disable --now docker.service docker.socket containerd.service
  # NVIDIA's page "Installing the NVIDIA Container Toolkit", section on rootless mode.
  run no-docker "NVIDIA's container toolkit could not be set up for rootless Docker" \
    nvidia-ctk config --set nvidia-container-cli.no-cgroups --in-place
}

# The versions in the summary are those of the programs themselves.
step_verify() {
  local folder=$ROOT/opt/actions-runner/$RUNNER program version
  version=$(cd / && "$folder/bin/Runner.Listener" --version 2>"$LOG")
  [[ $version == "$RUNNER" ]] || fail no-runner "the runner reports the version ${version:-none}, expected $RUNNER"
  rm -rf "$folder/_diag" # its log of this start
  local needed=(git nft openssl python3 setpriv nvidia-smi)
  if [[ $DOCKER == rootless ]]; then
    needed+=(docker dockerd dockerd-rootless.sh newgidmap newuidmap nvidia-ctk slirp4netns)
  fi
  for program in "${needed[@]}"; do
    command -v "$program" >/dev/null || fail no-tool "$program is missing after the installation"
  done
}

# step_clean: deletes what must not be in an image: package lists, caches, logs, keys, and the identity of this machine.
# Google's guest agent creates the keys of the SSH server again at the first boot of another machine.
step_clean() {
  run no-tool "the cache of apt could not be deleted" apt-get clean
  find "$ROOT/var/lib/apt/lists" "$ROOT/tmp" "$ROOT/var/tmp" -mindepth 1 -delete 2>/dev/null
  if command -v cloud-init >/dev/null; then cloud-init clean --logs >/dev/null 2>&1; fi
  rm -rf "$ROOT/root/.cache" "$ROOT/root/.ssh" "$ROOT/root/.config" "$ROOT/root/.bash_history" "$ROOT/root/.gnupg"
  rm -rf "$ROOT"/home/*/.ssh "$ROOT"/home/*/.cache "$ROOT"/home/*/.config "$ROOT"/home/*/.bash_history
  rm -f "$ROOT"/etc/ssh/ssh_host_* "$ROOT/var/lib/dbus/machine-id" "$ROOT/var/lib/systemd/random-seed"
  : >"$ROOT/etc/machine-id" # systemd creates a new one in an empty file at the next boot
  rm -rf "$ROOT"/var/log/journal/*
  find "$ROOT/var/log" -type f \( -name '*.gz' -o -name '*.[0-9]' \) -delete 2>/dev/null
  find "$ROOT/var/log" -type f -exec truncate -s 0 {} + 2>/dev/null
  systemctl unmask apt-daily.timer apt-daily-upgrade.timer apt-daily.service apt-daily-upgrade.service >/dev/null 2>&1
}

product=$(cat /sys/class/dmi/id/product_name 2>/dev/null)
if [[ -z $ROOT && $product != "Google Compute Engine" ]]; then
  echo "provision.sh: this is not a Compute Engine VM, so nothing is changed" >&2
  exit 2
fi
mkdir -p "$STATE"
command -v curl >/dev/null || fail no-tool "the base image has no curl, which reads the metadata"
settings
for step in packages driver runner torch docker verify clean; do
  is_done "$step" && continue
  "step_$step"
  : >"$STATE/done-$step"
done
rm -rf "$STATE"
sync
verdict pass 0 provisioned "runner $RUNNER, torch $TORCH, driver from $DRIVER${BRANCH:+ $BRANCH}, docker $DOCKER"
