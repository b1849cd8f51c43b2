"""Checks the Dockerfiles of the checkout (`make check`), without a daemon and without a registry.

    python -m tools.images.check [FILE...]

hadolint checks each file. BuildKit's own frontend (tools/dockerfile) converts each file for every target, for both
platforms, and for every pair of torch and CUDA that works. Needs Go.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tools.images.pairs import PLATFORMS, pairs

ROOT = Path(__file__).resolve().parents[2]
GO_ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"}


class Finding(NamedTuple):
    """A problem of one line of a Dockerfile; line 0 is the whole file."""

    file: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.rule}: {self.text}"


class ToolError(Exception):
    """A tool is missing, or fails before it can check a file."""


def main(arguments: list[str]) -> int:
    try:
        found = findings([Path(each) for each in arguments] or dockerfiles())
    except ToolError as error:
        print(f"dockerfiles: {error}", file=sys.stderr)
        return 2
    for finding in found:
        print(finding)
    return 1 if found else 0


def dockerfiles() -> list[Path]:
    """Return the Dockerfiles of the checkout, also those that are not committed yet."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "Dockerfile", "*/Dockerfile"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [Path(name) for name in sorted(names) if (ROOT / name).is_file()]


def findings(files: list[Path]) -> list[Finding]:
    """Return the problems of these files, each once, sorted by file and line."""
    return sorted({*hadolint(files), *conversions(files)})


def hadolint(files: list[Path]) -> Iterator[Finding]:
    command = [str(Path(sys.executable).with_name("hadolint")), "--config", str(ROOT / ".hadolint.yaml")]
    command += ["--no-fail", "--format", "json", *map(str, files)]
    for row in json.loads(_run(command, "run make dev, which installs hadolint")):
        yield Finding(row["file"], row["line"], row["code"], row["message"])


def builds(file: Path) -> list[dict[str, Any]]:
    """Return the builds of a file to convert. A file with the argument TORCH is built for each pair that works."""
    found: list[tuple[str, dict[str, str]]] = [(platform, {}) for platform in PLATFORMS]
    if re.search(r"^ARG TORCH\b", (ROOT / file).read_text(), re.MULTILINE):
        found += [(each.platform, each.build_args) for each in pairs()]
    return [{"file": str(file), "platform": platform, "args": arguments} for platform, arguments in found]


def conversions(files: list[Path]) -> Iterator[Finding]:
    """Yield the errors and warnings of BuildKit's frontend, and two rules of this project about its results."""
    requests = [build for file in files for build in builds(file)]
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "dockerfile"
        go = shutil.which("go")
        if go is None:
            raise ToolError(
                "no `go` on PATH\n  expected: the version in the `go` line of tools/dockerfile/go.mod, or a newer one\n"
                "  hint: https://go.dev/doc/install"
            )
        # Go keeps what it compiled, so that only the first build takes long.
        _run(
            [go, "build", "-C", str(ROOT / "tools/dockerfile"), "-trimpath", "-o", str(program)],
            "check `go version` against tools/dockerfile/go.mod, and that `go env GOPROXY` can be reached",
        )
        results = json.loads(_run([str(program)], "correct the file", json.dumps(requests)))
    # The frontend lists the targets in the order of the file, so the last result of a file is its default target.
    for result in {result["file"]: result for result in results}.values():
        if not result["problems"] and result["user"].split(":")[0] in ("", "0", "root"):
            text = (
                f"the image runs as root; expected: USER with a number other than 0; got: {result['user'] or 'no USER'}"
            )
            yield Finding(result["file"], 0, "user", text)
    for result in results:
        for problem in result["problems"]:
            yield Finding(result["file"], problem["line"], problem["rule"], problem["text"])
        for base in result["bases"]:
            # The frontend adds this tag to a base without one.
            if base.endswith(":latest"):
                text = f"the base {base} has no fixed version; expected: a digest, or a tag other than latest"
                yield Finding(result["file"], 0, "base", text)


def _run(command: list[str], hint: str, text: str = "") -> str:
    """Run a command of this check and return its standard output."""
    try:
        done = subprocess.run(
            command, cwd=ROOT, input=text, capture_output=True, text=True, check=False, env=os.environ | GO_ENVIRONMENT
        )
    except FileNotFoundError as error:
        raise ToolError(f"{Path(command[0]).name} is not installed\n  hint: {hint}") from error
    if done.returncode:
        reason = done.stderr.strip() or done.stdout.strip()
        raise ToolError(f"{Path(command[0]).name} exits with {done.returncode}\n  got: {reason}\n  hint: {hint}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
