"""A fake apt-get with two locks, one of which another program may have for a while.

`update` takes the lock of the package lists. It fails at once if another program has the lock, whatever
DPkg::Lock::Timeout says. apt 2.6.1 of Debian 12 does the same (also: ipspace/netlab#2473, docker/docker-install#366).
`install` takes dpkg's frontend lock, and waits for it as long as that option says (apt 1.9.11 and newer).
"""

from __future__ import annotations

from pathlib import Path

from tests.agent.fakes.boot import Tools

LISTS, DPKG = "lists", "dpkg"
# A lock is a file. `apt-get` checks once a second if it still exists.
_APT_GET = """
echo "apt-get $*"
wait_sec=0
while [[ $1 == -* ]]; do
  [[ $1 != -o ]] || { [[ $2 != DPkg::Lock::Timeout=* ]] || wait_sec=${2#*=}; shift; }
  shift
done
case $1 in
  update)
    if [[ -e FOLDER/lists ]]; then
      echo "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 812 (apt-get)" >&2
      echo "E: Unable to lock directory /var/lib/apt/lists/" >&2
      exit 100
    fi ;;
  install)
    while [[ -e FOLDER/dpkg ]]; do
      if ((wait_sec-- <= 0)); then
        echo "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 813 (unattended-upgr)" >&2
        echo "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend)" >&2
        exit 100
      fi
      sleep 0.05
    done
    touch FOLDER/installed ;;
esac
"""


def install(tools: Tools, folder: Path) -> None:
    """Install this apt-get on the machine. Another program has a lock as long as the lock's file is in `folder`."""
    tools.add("apt-get", _APT_GET.replace("FOLDER", str(folder)))
    tools.only("env", "sleep", "touch")
