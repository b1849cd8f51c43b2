"""Finds the base images of a Dockerfile."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpu_ci.cli.output import InputError

# The names that BuildKit and Podman look for, and the usual names of several Dockerfiles in one folder.
_NAME = re.compile(r"(.+\.)?(Dockerfile|Containerfile)(\..+)?", re.IGNORECASE)
_ARG = re.compile(r"ARG\s+(\w+)=(\S+)", re.IGNORECASE)
_FROM = re.compile(r"FROM\s+(?:--\S+\s+)*(?P<image>\S+)(?:\s+AS\s+(?P<stage>\S+))?", re.IGNORECASE)
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


@dataclass(frozen=True)
class Dockerfile:
    """A Dockerfile."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        return str(self.path)

    def base_images(self) -> Iterator[tuple[str, str]]:
        """Yield the stage and the image of each FROM. A stage without a name has its number, as in Docker.

        Variables have the default of their ARG. A FROM with an earlier stage or with `scratch` is left out.
        """
        defaults: dict[str, str] = {}
        stages: list[str] = []
        for line in map(str.strip, self.text.splitlines()):
            if argument := _ARG.match(line):
                defaults[argument[1]] = argument[2].strip("\"'")
            if found := _FROM.match(line):
                image = _VARIABLE.sub(lambda each: defaults.get(each[1] or each[2], each[0]), found["image"])
                stage = found["stage"] or str(len(stages))
                if image not in (*stages, "scratch"):
                    yield stage, image
                stages.append(stage)


def is_dockerfile(path: Path) -> bool:
    """Return True if the file has the name of a Dockerfile."""
    return bool(_NAME.fullmatch(path.name))


def read(path: Path) -> Dockerfile:
    """Read a Dockerfile. Raise InputError if the file cannot be read."""
    try:
        return Dockerfile(path, path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read", got=error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: cannot be read", expected="text in UTF-8") from None
