"""Install the Pulumi CLI from Pulumi's archive."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import tarfile
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

from pulumi_sandbox.engine.model import HOST, VERSION, Engine, SourceError, ask_version, failure_reason, new_enough
from pulumi_sandbox.engine.progress import progress

ADDRESS = f"https://get.pulumi.com/releases/sdk/pulumi-v{VERSION}"
# The checksums of the archives of this version, by Linux or macOS and the processor
# (pulumi/homebrew-tap@51fb494: Formula/pulumi.rb).
SHA256 = {
    "linux-x64": "94ba357acac23d01474084c4b00098dc0f7bc70ce13f34c777459254a5f718e5",
    "linux-arm64": "edc8327463a72160bb36cf82cf5062da9c8a244290a706d9980988e7bf486853",
    "darwin-x64": "eaca4c3b8277bfa3ab061fa3b270d1c66358a0b2e613da8c5587a04b7226c534",
    "darwin-arm64": "57c27f179e527e2cf9f62b841a448af72a020e44b2fb4ee0d9bd85556c00c864",
}
PROCESSORS = {"x86_64": "x64", "aarch64": "arm64", "arm64": "arm64"}
TIMEOUT_SECONDS = 10


def install(home: Path, say: Callable[[str], None]) -> Engine:
    """Download the official build into the engine folder."""
    system = f"{platform.system().lower()}-{PROCESSORS.get(platform.machine())}"
    if system not in SHA256:
        raise SourceError("not tried on this system", "install Pulumi by hand and put it on PATH")
    address = f"{ADDRESS}-{system}.tar.gz"
    # A draft folder keeps other processes from running a partial installation.
    draft, root = home / f"official-{os.getpid()}.partial", home / f"official-{VERSION}"
    shutil.rmtree(draft, ignore_errors=True)
    try:
        with progress(f"getting Pulumi {VERSION} from {address}", say):
            fetch(address, SHA256[system], draft)
        if not os.access(draft / "bin" / HOST, os.X_OK) or not new_enough(ask_version(draft / "bin" / "pulumi")):
            raise SourceError("its installation is incomplete or too old", "try again, or install Pulumi by hand")
        shutil.rmtree(root, ignore_errors=True)
        draft.rename(root)
    except (OSError, ValueError, HTTPException) as error:
        hint = "allow access to this address (https_proxy is honoured), or install Pulumi by hand and put it on PATH"
        raise SourceError(f"{address}: {failure_reason(error)}", hint) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return Engine(root / "bin", VERSION, "official")


def fetch(address: str, checksum: str, folder: Path) -> None:
    """Write the programs of an archive with this checksum into the folder `bin` of a new folder."""
    folder.mkdir(parents=True)
    archive = folder / "pulumi.tar.gz"
    with urllib.request.urlopen(address, timeout=TIMEOUT_SECONDS) as answer, archive.open("wb") as file:  # noqa: S310
        shutil.copyfileobj(answer, file)
    with archive.open("rb") as file:
        got = hashlib.file_digest(file, "sha256").hexdigest()
    if got != checksum:
        raise SourceError(
            f"{address} has another SHA-256\n     got: {got}\n     expected: {checksum}",
            "do not run this archive; try another network, or install Pulumi by hand",
        )
    with tarfile.open(archive) as opened:
        # Debian 12 has Python 3.11.2, without tarfile's filter "data" of 3.11.4. The checksum was compared.
        opened.extraction_filter = getattr(tarfile, "data_filter", None)
        opened.extractall(folder)  # noqa: S202 - see above
    archive.unlink()
    (folder / "pulumi").rename(folder / "bin")
