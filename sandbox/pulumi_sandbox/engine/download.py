"""The second way to a Pulumi CLI: Pulumi's own installer."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path

from pulumi_sandbox.engine.model import HOST, VERSION, Engine, WayError, ask_version, describe, new_enough
from pulumi_sandbox.progress import Progress

# Where pulumi.automation.PulumiCommand.install downloads its script from. Asked first and briefly, because the
# installer itself has no time limit and would hang on a network without a way out.
ADDRESS = "https://get.pulumi.com/install.sh"
PATIENCE = 10


def install(home: Path, say: Callable[[str], None]) -> Engine:
    """Download the official build into our folder."""
    if os.name != "posix":
        raise WayError("not tried on this system", "install Pulumi by hand and put it on PATH")
    check_reachable()
    from pulumi.automation import PulumiCommand
    from semver import VersionInfo

    # The installer fills a folder file by file, so it gets one that nobody looks at yet.
    draft, root = home / f"official-{os.getpid()}.partial", home / f"official-{VERSION}"
    shutil.rmtree(draft, ignore_errors=True)
    try:
        with Progress(f"getting Pulumi {VERSION} from the official installer", say):
            PulumiCommand.install(root=str(draft), version=VersionInfo.parse(VERSION), skip_version_check=True)
        if not os.access(draft / "bin" / HOST, os.X_OK) or not new_enough(ask_version(draft / "bin" / "pulumi")):
            raise WayError("what it installed is not a whole Pulumi", "try again, or install Pulumi by hand")
        shutil.rmtree(root, ignore_errors=True)
        draft.rename(root)
    except (OSError, subprocess.SubprocessError) as error:
        raise WayError(f"it failed: {describe(error)}", "try again, or install Pulumi by hand") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return Engine(root / "bin", VERSION, "official")


def check_reachable() -> None:
    """A name that resolves slowly is not covered by urllib's time limit, so the question is asked on a thread."""
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(ask()), daemon=True)
    thread.start()
    thread.join(PATIENCE + 1)
    problem = answers[0] if answers else f"no answer within {PATIENCE} s"
    if problem:
        raise WayError(
            f"{ADDRESS} cannot be reached: {problem}",
            "let this machine reach it (https_proxy is honoured), or install Pulumi by hand and put it on PATH",
        )


def ask() -> str:
    """What keeps the address from answering; empty when it answers."""
    request = urllib.request.Request(ADDRESS, method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE):  # noqa: S310 - a literal https address
            return ""
    except (OSError, ValueError) as error:  # URLError is an OSError
        return str(getattr(error, "reason", None) or error)
