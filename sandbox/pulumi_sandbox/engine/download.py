"""Install the Pulumi CLI with Pulumi's own installer."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path

from pulumi_sandbox.engine.model import HOST, VERSION, Engine, SourceError, ask_version, failure_reason, new_enough
from pulumi_sandbox.progress import Progress

# pulumi.automation.PulumiCommand.install downloads its script from this address. The address is requested first with a
# short timeout, because the installer has no timeout. It would hang on a network without internet access.
ADDRESS = "https://get.pulumi.com/install.sh"
TIMEOUT_SECONDS = 10


def install(home: Path, say: Callable[[str], None]) -> Engine:
    """Download the official build into the engine folder."""
    if os.name != "posix":
        raise SourceError("not tried on this system", "install Pulumi by hand and put it on PATH")
    check_reachable()
    from pulumi.automation import PulumiCommand
    from semver import VersionInfo

    # The installer writes file by file. A draft folder keeps other processes from running a partial installation.
    draft, root = home / f"official-{os.getpid()}.partial", home / f"official-{VERSION}"
    shutil.rmtree(draft, ignore_errors=True)
    try:
        with Progress(f"getting Pulumi {VERSION} from the official installer", say):
            PulumiCommand.install(root=str(draft), version=VersionInfo.parse(VERSION), skip_version_check=True)
        if not os.access(draft / "bin" / HOST, os.X_OK) or not new_enough(ask_version(draft / "bin" / "pulumi")):
            raise SourceError("its installation is incomplete or too old", "try again, or install Pulumi by hand")
        shutil.rmtree(root, ignore_errors=True)
        draft.rename(root)
    except (OSError, subprocess.SubprocessError) as error:
        raise SourceError(f"it failed: {failure_reason(error)}", "try again, or install Pulumi by hand") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return Engine(root / "bin", VERSION, "official")


def check_reachable() -> None:
    """Raise SourceError if the installer's address does not answer.

    The request runs on a thread because the timeout of urllib does not cover DNS resolution.
    """
    problems: list[str] = []
    thread = threading.Thread(target=lambda: problems.append(connection_problem()), daemon=True)
    thread.start()
    thread.join(TIMEOUT_SECONDS + 1)
    problem = problems[0] if problems else f"no answer within {TIMEOUT_SECONDS} s"
    if problem:
        raise SourceError(
            f"{ADDRESS} cannot be reached: {problem}",
            "allow access to this address (https_proxy is honoured), or install Pulumi by hand and put it on PATH",
        )


def connection_problem() -> str:
    """Return the reason why the address does not answer, or an empty string if it answers."""
    request = urllib.request.Request(ADDRESS, method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS):  # noqa: S310 - a literal https address
            return ""
    except (OSError, ValueError) as error:  # URLError is an OSError
        return str(getattr(error, "reason", None) or error)
