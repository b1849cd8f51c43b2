"""The program `ssh` for clients of the sandbox: sends the script on its standard input to a VM of this computer.

It accepts only a command that writes a script of root and starts it, with the options with which a program can check a
host. Anything else fails as ssh does, with 255.
"""

from __future__ import annotations

import argparse
import re
import stat
import sys
import urllib.request
from pathlib import Path

# A second reader of the file, such as its group, is an error (ssh(1), -i).
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_REMOTE = re.compile(
    r"sudo -n sh -c 'umask 077; cat >(/root/[\w.-]+) && systemd-run( --[a-z]+)* /usr/bin/env bash \1'", re.ASCII
)
NEEDED = {"BatchMode": "yes", "IdentitiesOnly": "yes", "StrictHostKeyChecking": "accept-new", "ForwardAgent": "no"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="ssh", add_help=False, allow_abbrev=False)
    parser.add_argument("-F", choices=["none"], required=True)
    parser.add_argument("-T", action="store_true", required=True)
    parser.add_argument("-i", type=Path, required=True)
    parser.add_argument("-o", action="append", default=[])
    parser.add_argument("-p", type=int, required=True)
    parser.add_argument("-l", choices=["ubuntu"], required=True)
    parser.add_argument("host", choices=["127.0.0.1"])
    parser.add_argument("command")
    given = parser.parse_args()
    options = dict(each.split("=", 1) for each in given.o)
    if missing := [name for name, value in NEEDED.items() if options.get(name) != value]:
        return failed(f"the sandbox needs the options {', '.join(missing)}")
    if not {"HostKeyAlias", "UserKnownHostsFile"} <= options.keys():
        return failed("Host key verification failed.")
    if given.i.stat().st_mode & _OTHERS:
        return failed("UNPROTECTED PRIVATE KEY FILE!")
    if not _REMOTE.fullmatch(given.command):
        return failed(f"the sandbox does not run {given.command}")
    try:
        request = urllib.request.Request(f"http://127.0.0.1:{given.p}/", sys.stdin.buffer.read(), method="POST")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        opener.open(request, timeout=30).read()
    except OSError as error:
        return failed(f"connect to host {given.host} port {given.p}: {error}")
    return 0


def failed(text: str) -> int:
    sys.stderr.write(f"{text}\n")
    return 255


if __name__ == "__main__":
    sys.exit(main())
