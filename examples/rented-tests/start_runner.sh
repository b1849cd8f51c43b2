#!/usr/bin/env bash
# Starts the GitHub runner of a host that keeps only /home, such as a container at Jarvis Labs. Run it as root after each
# start of the host: it creates the user of the runner again, and starts the runner if it does not run. The runner was
# configured once, in actions-runner of the user's home.
#
#   RUNNER_USER=runner RUNNER_UID=10010 ./start_runner.sh
set -euo pipefail

user=${RUNNER_USER:-runner} uid=${RUNNER_UID:-10010}
home=/home/$user runner=/home/$user/actions-runner

# /home has the uid and not the name, so the user gets the same uid each time.
getent group "$user" >/dev/null || groupadd --gid "$uid" "$user"
getent passwd "$user" >/dev/null ||
  useradd --uid "$uid" --gid "$uid" --home-dir "$home" --no-create-home --shell /bin/bash "$user"
if [ "$(id -u "$user")" != "$uid" ] || [ "$(id -g "$user")" != "$uid" ]; then
  echo "start_runner.sh: $user has uid $(id -u "$user") and gid $(id -g "$user"), expected $uid: choose another RUNNER_UID" >&2
  exit 1
fi

# Only the folders themselves change their owner: a recursive chown of a large home takes minutes, and follows what a job
# has left there.
for folder in "$home" "$home/.cache" "$home/.local" "$home/.local/share"; do
  if [ -L "$folder" ]; then
    echo "start_runner.sh: $folder is a symbolic link, and root does not follow it: delete it" >&2
    exit 1
  fi
  install -d -m 0750 -o "$uid" -g "$uid" "$folder"
done

if [ ! -x "$runner/run.sh" ]; then
  echo "start_runner.sh: $runner/run.sh is missing: download and configure the runner as $user" >&2
  exit 1
fi
cd "$runner"
# The lock is the runner's as long as it runs, so a second start does nothing. The environment of root is not passed on.
setsid --fork env -i "HOME=$home" "USER=$user" "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
  setpriv --reuid "$uid" --regid "$uid" --init-groups \
  flock --nonblock --conflict-exit-code 0 "$runner" ./run.sh </dev/null >>"/var/log/$user.log" 2>&1
