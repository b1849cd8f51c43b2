"""Builds container images without a registry and runs them (`make test-images`).

    sudo .venv/bin/python -m tools.images [dev|runtime|runner ...]

The base is made of Debian packages with mmdebstrap, because the default bases are in registries. So the real bases are
not tested. The packages of torch come from PyPI: 3 GB. Needs root, buildah, mmdebstrap and 33 GiB of disk.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

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
# What pip and uv need to reach PyPI from this machine. They are files of the base.
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
        # The next build needs the disk space.
        run([*self.buildah, "rmi", f"localhost/test-{name}"])
        run([*self.buildah, "rmi", "--prune"])

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

    def close(self) -> None:
        """Remove the containers and images, because the mounts of a store keep its folder from being removed."""
        subprocess.run([*self.buildah, "rm", "--all"], capture_output=True, check=False)
        subprocess.run([*self.buildah, "rmi", "--all", "--force"], capture_output=True, check=False)


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
