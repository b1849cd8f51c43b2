"""Builds container images without a registry, runs them, and reads their layers (`make test-images`).

    sudo .venv/bin/python -m tools.images [dev|runtime|runner ...]

The base is made of Debian packages with mmdebstrap, because the default bases are in registries. So the real bases are
not tested. The packages of torch come from PyPI: 3 GB. Needs root, buildah, mmdebstrap and 33 GiB of disk.

A file that a later command deletes is still in the layer of the command that wrote it, so each layer is read by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NEEDED_GIB = 33
RELEASE = "trixie"
"""The Debian release of the default base of dev and runtime, python:3.13-slim-trixie."""
IMAGES = ("dev", "runtime", "runner")
DEFAULT = ("runtime", "runner")
"""The images to build without arguments. dev has the packages of runner on the base of runtime."""
EPOCH = 315532800
"""The time that images/install-torch.sh sets, too."""
TOOLS = ("buildah", "mmdebstrap")
# What pip and uv need to reach PyPI from this machine. They are files of the base, which is removed after the test. The
# check of the layers would find them in the image.
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
PIP_SETTINGS = Path("/etc/pip.conf")
UV_SETTINGS = "system-certs = true\n"

BASE = """\
FROM scratch
ADD base.tar /
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
"""
# As in images/Dockerfile of actions/runner: the user, the variable and the folder.
RUNNER_BASE = """\
FROM localhost/base
ENV RUNNER_MANUALLY_TRAP_SIG=1
RUN useradd --uid 1001 --create-home --shell /bin/bash runner
COPY --chown=1001:1001 runner/ /home/runner/
USER runner
"""
_READ_BYTES = 1 << 20
"""Larger files are not searched for secrets."""

_PACKAGE_LIST = re.compile(r"var/lib/dpkg/info/[^/]+\.list")
"""The files of an installed package, which are not checked: some have passwords and keys as public examples."""

PATHS = {
    "an index of a package manager": re.compile(
        r"var/lib/apt/lists/.*[^/]|var/cache/apt/[^/]+\.bin|var/cache/(dnf|yum|apk)/.*|etc/apk/cache/.*"
    ),
    "a downloaded package": re.compile(r".*\.(deb|rpm|apk|whl|conda)"),
    "a cache": re.compile(
        r"(root|home/[^/]+)/\.(cache|ccache|npm|conda/pkgs)/.*[^/]|var/cache/debconf/.*-old|var/cache/ldconfig/aux-cache"
    ),
    "a log": re.compile(r"var/log/.*"),
    "a temporary file": re.compile(r"(var/)?tmp/.*"),
    "an identity of one machine": re.compile(
        r"etc/machine-id|var/lib/dbus/machine-id|var/lib/systemd/random-seed|etc/ssh/ssh_host_[^/]*_key"
    ),
    "a setting or a login of this machine": re.compile(
        r"(.*/)?(\.netrc|\.pypirc|\.npmrc|\.git-credentials|\.docker/config\.json|pip\.conf|uv\.toml)"
    ),
    "a key": re.compile(r"(.*/)?(id_(rsa|dsa|ecdsa|ed25519)|[^/]+\.(p12|pfx|jks))"),
    "a state of Pulumi": re.compile(r"(.*/)?(\.pulumi|\.sandbox)/.*"),
}
CONTENTS = {
    "a private key": re.compile(rb"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----\s+[A-Za-z0-9+/=]{16}"),
    "a token of GitHub": re.compile(rb"\b(?:gh[oprsu]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{82})\b"),
    "an access key of AWS": re.compile(rb"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b"),
    "a key of a Google service account": re.compile(rb'"type":\s*"service_account"'),
    "an address with a password": re.compile(rb"https?://[^\s/:@\"'<>{}$]+:(?=[^@]*\d)[^\s/:@\"'<>{}$]{8,}@[a-z0-9]"),
}


class BuildError(Exception):
    """A command of the build fails, or the image is wrong."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="make test-images", description="Build and run the images without a registry."
    )
    parser.add_argument(
        "images", nargs="*", metavar="image", help=f"{', '.join(IMAGES)}; default: {' and '.join(DEFAULT)}"
    )
    names = parser.parse_args(arguments).images or list(DEFAULT)
    try:
        require(names)
        with tempfile.TemporaryDirectory(prefix="gpu-ci-images-") as folder:
            builder = Builder(Path(folder))
            try:
                builder.make_base()
                found = [line for name in names for line in builder.test(name)]
            finally:
                builder.close()
    except BuildError as error:
        print(f"images: {error}", file=sys.stderr)
        return 1
    for line in found:
        print(line)
    return 1 if found else 0


def require(names: list[str]) -> None:
    """Raise BuildError if this machine cannot build the images."""
    if unknown := [name for name in names if name not in IMAGES]:
        raise BuildError(f"unknown image\n  got: {', '.join(unknown)}\n  expected: {', '.join(IMAGES)}")
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        raise BuildError(
            f"{' and '.join(missing)} cannot be found on PATH\n"
            f"  hint: on Debian and Ubuntu, apt-get install --no-install-recommends {' '.join(missing)}"
        )
    if os.geteuid():
        raise BuildError("the build needs root, for chroot and overlay mounts\n  hint: sudo make test-images")
    free = shutil.disk_usage(tempfile.gettempdir()).free >> 30
    if free < NEEDED_GIB:
        raise BuildError(
            f"too little disk in {tempfile.gettempdir()}\n  got: {free} GiB free\n  expected: {NEEDED_GIB} GiB\n"
            "  hint: set TMPDIR to a folder of a larger disk"
        )


class Builder:
    """buildah with a store of its own, in a temporary folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.buildah = ["buildah", "--root", str(folder / "store"), "--runroot", str(folder / "run")]

    def make_base(self) -> None:
        """Make the image `base`: Debian with Python, as in the default base of dev and runtime."""
        log(f"making a base of Debian {RELEASE}")
        (self.folder / "uv.toml").write_text(UV_SETTINGS)
        hooks = ['mkdir -p "$1/etc/uv"', f"upload {self.folder}/uv.toml /etc/uv/uv.toml"]
        hooks += [f"upload {file} {file}" for file in (CERTIFICATES, PIP_SETTINGS) if file.is_file()]
        # The base then does not have the day of the build, which the comparison finds in files that a command changes.
        command = ["env", f"SOURCE_DATE_EPOCH={EPOCH}", "mmdebstrap", "--quiet", "--variant=minbase"]
        command += ["--include=python3,python3-venv,ca-certificates"]
        command += [f"--customize-hook={hook}" for hook in hooks]
        run([*command, RELEASE, str(self.folder / "base.tar")])
        self.build_text("base", BASE)

    def build_text(self, name: str, text: str) -> None:
        """Build an image from the text of a Dockerfile, with the temporary folder as its context."""
        file = self.folder / f"Dockerfile.{name}"
        file.write_text(text)
        self.build(name, file, self.folder)

    def build(self, name: str, file: Path, context: Path, *arguments: str) -> None:
        # chroot isolation needs no container runtime. A layer per command, as docker build writes it.
        command = [*self.buildah, "build", "--quiet", "--isolation", "chroot", "--format", "oci", "--layers"]
        run([*command, *arguments, "--file", str(file), "--tag", name, str(context)])

    def test(self, name: str) -> Iterator[str]:
        """Build an image and run it, and yield what is wrong with it."""
        base = "localhost/base"
        if name == "runner":
            (self.folder / "runner").mkdir()
            self.build_text("runner-base", RUNNER_BASE)
            base = "localhost/runner-base"
        self.build_image(name, base)
        yield from self.run_image(name)
        with self.layers(name, base) as (own, config):
            yield from (f"{name}: {line}" for line in problems(own, config))

    def build_image(self, name: str, base: str) -> None:
        file = ROOT / f"images/{name}/Dockerfile"
        log(f"building {name}: packages are downloaded, unless buildah has them in its cache")
        began = time.monotonic()
        ignored = ("--ignorefile", f"{file}.dockerignore", "--build-arg", f"BASE={base}")
        self.build(f"test-{name}", file, ROOT, "--no-cache", *ignored)
        log(f"built {name} in {time.monotonic() - began:.0f} s")

    def run_image(self, name: str) -> Iterator[str]:
        """Run the smoke check and the entry point of an image as its user, without root."""
        user = self.inside(name, "id -u").stdout.strip()
        if user != "1001":
            yield f"{name}: the user has uid {user}, not 1001"
        check = self.inside(name, "gpu-smoke --device cpu")
        log(f"{name}: {(check.stderr.strip() or 'gpu-smoke printed nothing').splitlines()[-1]}")
        if check.returncode:
            yield f"{name}: gpu-smoke exits with {check.returncode}: {check.stdout}{check.stderr}"
        if name in ("dev", "runner"):
            tools = self.inside(
                name, "g++ --version && cmake --version && ninja --version && ccache --version && uv -V"
            )
            if tools.returncode:
                yield f"{name}: a compiler or uv does not start: {tools.stderr.strip()}"
            written = self.inside(
                name, "uv pip install --python /opt/torch --dry-run numpy && touch /opt/torch/written"
            )
            if written.returncode:
                yield f"{name}: the user cannot install into /opt/torch: {written.stderr.strip()}"

    def inside(self, name: str, command: str) -> subprocess.CompletedProcess[str]:
        container = run([*self.buildah, "from", f"localhost/test-{name}"]).strip()
        try:
            arguments = [*self.buildah, "run", "--isolation", "chroot", container, "--", "bash", "-c", command]
            return subprocess.run(arguments, capture_output=True, text=True, check=False)
        finally:
            run([*self.buildah, "rm", container])

    @contextmanager
    def layers(self, name: str, base: str) -> Iterator[tuple[list[Path], dict[str, Any]]]:
        """Yield the layers of an image that are not its base's, and its configuration. Then remove the image."""
        log(f"reading the layers of {name}")
        layout = self.folder / "layout"
        run([*self.buildah, "push", "--quiet", "--disable-compression", f"localhost/test-{name}", f"oci:{layout}"])
        # The next build needs the disk space.
        run([*self.buildah, "rmi", f"localhost/test-{name}"])
        run([*self.buildah, "rmi", "--prune"])
        below = json.loads(run([*self.buildah, "inspect", "--type", "image", base]))["OCIv1"]["rootfs"]["diff_ids"]
        found, config = read(layout)
        yield found[len(below) :], config
        shutil.rmtree(layout)

    def close(self) -> None:
        """Remove the containers and images, because the mounts of a store keep its folder from being removed."""
        subprocess.run([*self.buildah, "rm", "--all"], capture_output=True, check=False)
        subprocess.run([*self.buildah, "rmi", "--all", "--force"], capture_output=True, check=False)


def read(layout: Path) -> tuple[list[Path], dict[str, Any]]:
    """Return the layers and the configuration of the only image of an OCI layout, the lowest layer first."""
    [entry] = _json(layout / "index.json")["manifests"]
    manifest = _json(_blob(layout, entry["digest"]))
    config: dict[str, Any] = _json(_blob(layout, manifest["config"]["digest"]))
    return [_blob(layout, each["digest"]) for each in manifest["layers"]], config


def problems(layers: Iterable[Path], config: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each file, and for each entry of the configuration, that an image must not have."""
    packaged: set[str] = set()
    found = []
    for number, layer in enumerate(layers, 1):
        for name, content in _files(layer):
            if _PACKAGE_LIST.fullmatch(name):
                packaged.update(content.decode().splitlines())
            kinds = [f"is {what}" for what, pattern in PATHS.items() if pattern.fullmatch(name)]
            kinds += [f"has {what}" for what in _secrets(content)]
            found += [(number, f"/{name}", kind) for kind in kinds]
    for number, path, kind in found:
        if path not in packaged:
            yield f"layer {number}: {path} {kind}"
    for what in _secrets(json.dumps(config).encode()):
        yield f"configuration: has {what}"
    for entry in config.get("config", {}).get("Env", []):
        name, _, value = entry.partition("=")
        if value and re.search(r"TOKEN|SECRET|PASSWORD|CREDENTIAL|INDEX_URL|PROXY", name, re.IGNORECASE):
            yield f"configuration: the variable {name} has a value"


def _files(blob: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(blob, "r|*") as archive:
        for member in archive:
            name = member.name.removeprefix("./").removeprefix("/")
            if not member.isfile() or name.rpartition("/")[2].startswith(".wh."):
                continue
            content = archive.extractfile(member) if member.size <= _READ_BYTES else None
            yield name, content.read() if content else b""


def _secrets(content: bytes) -> list[str]:
    return [what for what, pattern in CONTENTS.items() if pattern.search(content)]


def _blob(layout: Path, digest: str) -> Path:
    algorithm, _, value = digest.partition(":")
    return layout / "blobs" / algorithm / value


def _json(file: Path) -> Any:
    return json.loads(file.read_text())


def log(text: str) -> None:
    print(f"images: {text}", flush=True)


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = "\n  ".join(done.stderr.strip().splitlines()[-15:])
        raise BuildError(f"`{' '.join(command[:1] + command[5:7])} …` exits with {done.returncode}\n  {lines}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
