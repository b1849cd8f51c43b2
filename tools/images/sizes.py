"""The measured sizes of the images (images/sizes.json), and the page with them.

`make test-images ARGS="... --write-sizes"` writes the file. A test fails if an image has changed since its size was
measured.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tools.images import layers as image_layers
from tools.images.matrix import PYTHONS

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "images/sizes.json"
ABOUT = "Written by make test-images with --write-sizes. Sizes are in bytes, and do not include the base."
_COMMAND_LENGTH = 60
# What a builder adds to a command in the history of an image: its shell, its values of build arguments, and mounts.
_NOISE = re.compile(r"^(\|\d+ (\w+=\S* )*)?/bin/sh -c (#\(nop\) )?|--mount=\S+ | # buildkit$|(dir|file):[0-9a-f]+ in ")


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: the command that made it, its compressed bytes, the bytes of its files, and their number."""

    command: str
    transfer: int
    disk: int
    files: int


@dataclass(frozen=True, slots=True)
class Measured:
    """The layers of an image, the lowest first. `inputs` identifies what they were built from."""

    date: str
    platform: str
    inputs: str
    layers: tuple[Layer, ...]

    @property
    def transfer(self) -> int:
        return sum(layer.transfer for layer in self.layers)

    @property
    def disk(self) -> int:
        return sum(layer.disk for layer in self.layers)

    @property
    def files(self) -> int:
        return sum(layer.files for layer in self.layers)

    def __str__(self) -> str:
        return (
            f"{len(self.layers)} layers on the base; {gigabytes(self.transfer)} to transfer, "
            f"{gigabytes(self.disk)} on disk, {self.files} files"
        )


def inputs(name: str) -> str:
    """Return a hash of what the size of an image follows from: its commands and the versions of its packages.

    Comments and hashes of packages do not count. gpu-smoke does not count either: it has less than 0.1 % of an image.
    """
    found = hashlib.sha256()
    for path in (f"images/{name}/Dockerfile", "images/install-torch.sh"):
        lines = (ROOT / path).read_text().splitlines()
        found.update("\n".join(line.strip() for line in lines if line.strip() and line.strip()[0] != "#").encode())
    for path in ("locks/torch.lock", "locks/uv.lock"):
        found.update("\n".join(re.findall(r"^\S+==\S+", (ROOT / path).read_text(), re.MULTILINE)).encode())
    return found.hexdigest()


def measure(name: str, layers: list[Path], config: dict[str, Any]) -> Measured:
    """Return the sizes of these layers, which are the upper ones of an image with this configuration."""
    commands = [row.get("created_by", "") for row in config["history"] if not row.get("empty_layer")]
    rows = []
    for layer, command in zip(layers, commands[len(commands) - len(layers) :], strict=True):
        size = image_layers.size([layer])
        rows.append(Layer(shortened(command), size.transfer, size.disk, size.files))
    return Measured(config["created"][:10], f"linux/{config['architecture']}", inputs(name), tuple(rows))


def shortened(command: str) -> str:
    """Return the start of a command of an image's history, without what a builder adds to it."""
    text = " ".join(_NOISE.sub("", re.sub(r"\s+", " ", command)).split())
    return text if len(text) <= _COMMAND_LENGTH else f"{text[:_COMMAND_LENGTH].rpartition(' ')[0]} …"


def load() -> dict[str, Measured]:
    """Return the sizes of each image of images/sizes.json."""
    found = json.loads(FILE.read_text())["images"]
    return {
        name: Measured(row["date"], row["platform"], row["inputs"], tuple(Layer(**each) for each in row["layers"]))
        for name, row in found.items()
    }


def write(name: str, measured: Measured) -> None:
    """Replace the sizes of one image in images/sizes.json."""
    rows = {**load(), name: measured}
    content = {"about": ABOUT, "images": {each: asdict(rows[each]) for each in sorted(rows)}}
    FILE.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def page() -> Iterator[str]:
    """Yield the lines of docs/reference/image-sizes.md."""
    found = load()
    yield "# Images: sizes"
    yield ""
    yield "Generated from [images/sizes.json](../../images/sizes.json) by `make docs`."
    yield "A test fails if an image has changed since its size was measured. How to measure again:"
    yield "[test the images](../guides/container-images.md#test-the-images)."
    yield ""
    yield "The sizes do not include the base. A pull transfers the layers compressed with gzip."
    yield ""
    yield "| image | platform | transfer | disk | layers | files | measured |"
    yield "|---|---|---|---|---|---|---|"
    for name, row in found.items():
        yield (
            f"| `{name}` | {row.platform} | {gigabytes(row.transfer)} | {gigabytes(row.disk)} "
            f"| {len(row.layers)} | {row.files:,} | {row.date} |"
        )
    if missing := [f"`{name}`" for name in PYTHONS if name not in found]:
        yield ""
        yield f"Not measured yet: {', '.join(missing)}."
    for name, row in found.items():
        yield ""
        yield f"## {name}"
        yield ""
        yield "| layer | transfer | disk | files |"
        yield "|---|---|---|---|"
        for layer in row.layers:
            command = layer.command.replace("|", "\\|")
            yield f"| `{command}` | {megabytes(layer.transfer)} | {megabytes(layer.disk)} | {layer.files:,} |"
    yield ""


def gigabytes(count: int) -> str:
    return f"{count / 1e9:.2f} GB"


def megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"
