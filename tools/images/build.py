"""Builds container images without a registry, runs them, and reads their layers (`make test-images`).

    sudo .venv/bin/python -m tools.images.build [dev|runtime|runner ...] [--runner FOLDER] [--platform PLATFORM]

The base is made of Debian packages with mmdebstrap, because the default bases are in registries. So the real bases are
not tested. The packages of torch come from PyPI: 3 GB. Needs root, buildah, mmdebstrap and 33 GiB of disk.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools.images import layers, pairs

ROOT = Path(__file__).resolve().parents[2]
NEEDED_GIB = 33
RELEASE = "trixie"
"""The Debian release of the default base of dev and runtime, python:3.13-slim-trixie."""
IMAGES = ("dev", "runtime", "runner")
DEFAULT = ("runtime", "runner")
"""The images to build without arguments. dev has the packages of runner on the base of runtime."""
MACHINES = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}
NATIVE = {machine: name for name, machine in MACHINES.items()}.get(platform.machine(), "linux/amd64")
EMULATORS = Path("/proc/sys/fs/binfmt_misc")
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
# run-helper.sh prints one of these after the listener has ended: the second one if the listener is missing, as in the
# source code of actions/runner.
LISTENER_ENDED = ("Runner listener exit with", "Exiting with unknown error code")


class BuildError(Exception):
    """A command of the build fails, or the image is wrong."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="make test-images", description="Build and run the images without a registry."
    )
    parser.add_argument(
        "images", nargs="*", metavar="image", help=f"{', '.join(IMAGES)}; default: {' and '.join(DEFAULT)}"
    )
    parser.add_argument(
        "--platform", choices=list(pairs.PLATFORMS), default=NATIVE, help=f"another one is emulated; default: {NATIVE}"
    )
    parser.add_argument(
        "--runner", type=Path, metavar="FOLDER", help="GitHub's unpacked runner, whose run.sh the runner image starts"
    )
    options = parser.parse_args(arguments)
    names = options.images or list(DEFAULT)
    try:
        require(names, options.runner, options.platform)
        with tempfile.TemporaryDirectory(prefix="gpu-ci-images-") as folder:
            builder = Builder(Path(folder), options.platform)
            try:
                found = list(wheels())
                builder.make_base()
                found += [line for name in names for line in builder.test(name, options.runner)]
            finally:
                builder.close()
    except BuildError as error:
        print(f"images: {error}", file=sys.stderr)
        return 1
    for line in found:
        print(line)
    return 1 if found else 0


def require(names: list[str], runner: Path | None, built_for: str) -> None:
    """Raise BuildError if this machine cannot build the images."""
    if unknown := [name for name in names if name not in IMAGES]:
        raise BuildError(f"unknown image\n  got: {', '.join(unknown)}\n  expected: {', '.join(IMAGES)}")
    if runner and not (runner / "run.sh").is_file():
        raise BuildError(
            f"--runner is not GitHub's runner\n  got: {runner}, without a file run.sh\n"
            "  expected: the folder into which actions-runner-linux-<arch>-<version>.tar.gz was unpacked"
        )
    needed = TOOLS if built_for == NATIVE else (*TOOLS, "arch-test")
    if missing := [tool for tool in needed if shutil.which(tool) is None]:
        raise BuildError(
            f"{' and '.join(missing)} cannot be found on PATH\n"
            f"  hint: on Debian and Ubuntu, apt-get install --no-install-recommends {' '.join(missing)}"
        )
    if os.geteuid():
        raise BuildError("the build needs root, for chroot and overlay mounts\n  hint: sudo make test-images")
    if built_for != NATIVE and not any(EMULATORS.glob(f"qemu-{MACHINES[built_for]}*")):
        raise BuildError(
            f"this machine cannot run programs of {built_for}\n  got: no emulator in {EMULATORS}\n"
            "  hint: on Debian and Ubuntu, apt-get install qemu-user-static; or build on such a machine"
        )
    free = shutil.disk_usage(tempfile.gettempdir()).free >> 30
    if free < NEEDED_GIB:
        raise BuildError(
            f"too little disk in {tempfile.gettempdir()}\n  got: {free} GiB free\n  expected: {NEEDED_GIB} GiB\n"
            "  hint: set TMPDIR to a folder of a larger disk"
        )


def wheels() -> Iterator[str]:
    """Yield the locks with a package that has no wheel for a platform and a Python of the images."""
    uv = str(ROOT / ".tools/bin/uv")
    for built_for, machine in MACHINES.items():
        for python in (f"{major}.{minor}" for major, minor in pairs.PYTHONS):
            for lock in ("locks/torch.lock", "locks/uv.lock"):
                command = [uv, "pip", "install", "--dry-run", "--quiet", "--require-hashes", "--only-binary", ":all:"]
                # The glibc of Ubuntu 24.04, which is older than that of Debian trixie.
                command += ["--python-platform", f"{machine}-manylinux_2_39", "--python-version", python]
                command += ["--target", str(Path(tempfile.gettempdir()) / "none"), "--requirements", str(ROOT / lock)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    yield f"{lock}: no wheels for {built_for} and Python {python}: {done.stderr.strip()}"


class Builder:
    """buildah with a store of its own, in a temporary folder."""

    def __init__(self, folder: Path, built_for: str = NATIVE) -> None:
        self.folder = folder
        self.platform = built_for
        self.buildah = ["buildah", "--root", str(folder / "store"), "--runroot", str(folder / "run")]

    def make_base(self) -> None:
        """Make the image `base`: Debian with Python, as in the default base of dev and runtime."""
        log(f"making a base of Debian {RELEASE}")
        (self.folder / "uv.toml").write_text(UV_SETTINGS)
        hooks = ['mkdir -p "$1/etc/uv"', f"upload {self.folder}/uv.toml /etc/uv/uv.toml"]
        hooks += [f"upload {file} {file}" for file in (CERTIFICATES, PIP_SETTINGS) if file.is_file()]
        # The base then does not have the day of the build, which the comparison finds in files that a command changes.
        command = ["env", f"SOURCE_DATE_EPOCH={EPOCH}", "mmdebstrap", "--quiet", "--variant=minbase"]
        command += ["--include=python3,python3-venv,ca-certificates", f"--architectures={self.platform.split('/')[1]}"]
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
        run([*command, *arguments, "--platform", self.platform, "--file", str(file), "--tag", name, str(context)])

    def test(self, name: str, runner: Path | None) -> Iterator[str]:
        """Build an image and run it, and yield what is wrong with it."""
        base = "localhost/base"
        if name == "runner":
            (self.folder / "runner").mkdir()
            if runner:
                shutil.copytree(runner, self.folder / "runner", symlinks=True, dirs_exist_ok=True)
            self.build_text("runner-base", RUNNER_BASE)
            base = "localhost/runner-base"
        self.build_image(name, base)
        yield from self.run_image(name, bool(runner))
        with self.layers(name, base) as (own, config):
            yield from (f"{name}: {line}" for line in layers.problems(own, config))

    def build_image(self, name: str, base: str) -> None:
        file = ROOT / f"images/{name}/Dockerfile"
        log(f"building {name}: packages are downloaded, unless buildah has them in its cache")
        began = time.monotonic()
        ignored = ("--ignorefile", f"{file}.dockerignore", "--build-arg", f"BASE={base}")
        self.build(f"test-{name}", file, ROOT, "--no-cache", *ignored)
        log(f"built {name} in {time.monotonic() - began:.0f} s")

    def run_image(self, name: str, has_runner: bool) -> Iterator[str]:
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
        if name == "runner" and has_runner:
            yield from self.start_runner(name)
        elif name == "runner":
            log("runner: run.sh was not started, because --runner names no unpacked runner of GitHub")

    def start_runner(self, name: str) -> Iterator[str]:
        """Start GitHub's entry script, which starts the listener. Without a registration, the listener ends at once."""
        done = self.inside(name, "cd /home/runner && timeout 120 ./run.sh")
        output = done.stdout + done.stderr
        for line in output.strip().splitlines():
            log(f"run.sh: {line}")
        if not any(message in output for message in LISTENER_ENDED):
            yield f"runner: run.sh exits with {done.returncode} before its listener started"

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
        found, config = layers.read(layout)
        yield found[len(below) :], config
        shutil.rmtree(layout)

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
