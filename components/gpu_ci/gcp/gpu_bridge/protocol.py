"""The settings of a bridge, and the objects and the metadata that a build step and its machine exchange.

| place | written by | content |
|---|---|---|
| `sources/<sha256>.tar.gz` | step | the workspace, under the digest of its content |
| `requests/<build>/<step>-<attempt>.json` | step | the request, which builds cannot read; the step deletes it |
| metadata `gpu-ci-build` | step | bucket, name and digest of the request |
| `<prefix>log-00000001`, ... | machine | the output of the command, at most 1 MiB in each object |
| `<prefix>artifacts.tar.gz` | machine | the files that --artifact names |
| `<prefix>result.json` | machine | the result, which is the machine's last object |

The prefix is `builds/<build>/<token>-<attempt>/`. Only the request contains the token (BridgeBuild.token). Each object
has its SHA-256 in its custom metadata, under `sha256`. The settings are a JSON object of the bucket, which the
component writes. They have no secrets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

FORMAT = 1
OBJECT_SEC = 86_400
"""The bucket deletes each object of a build at this age."""
ARTIFACT_FILES = 10_000
"""The maximum number of artifacts."""
REPORT_SEC = 1200
"""The time of a machine after its command: for the artifacts, the rest of the output, and the result."""
ROLE = "build"
"""The value of the metadata key gpu-ci-role."""
REQUEST_KEY = "gpu-ci-build"
RESULT, ARTIFACTS = "result.json", "artifacts.tar.gz"
DIGEST = "sha256"
BRIDGE_LABEL, BUILD_LABEL, REGION_LABEL = "gpu-ci-bridge", "gpu-ci-build", "gpu-ci-build-region"
TTL_LABEL = "gpu-ci-ttl"
"""The label of the machine with the Unix time after which the reaper deletes it."""


@dataclass(frozen=True)
class Result:
    """The machine's report about the command."""

    failed: str
    """What failed: fetch, start, command, timeout, artifacts, output or report; empty after exit code 0."""
    reason: str
    """The reason of the machine's end if it is not the command's own (agent/gpu_agent/outcomes.py)."""
    detail: str
    exit_code: int | None
    signal: int | None
    logs: int
    """The number of log objects."""
    artifacts: Mapping[str, Any] | None
    """The sha256, bytes and files of the artifacts, if there are any."""


def log_name(prefix: str, number: int) -> str:
    """Return the name of a log object. The first number is 1."""
    return f"{prefix}log-{number:08d}"


def parse_result(content: bytes) -> Result:
    """Return the result, which the agent wrote. Raise ValueError if it has another format."""
    try:
        value = json.loads(content)
        if value["format"] != FORMAT:
            raise ValueError(f"format: got {value['format']!r}, expected {FORMAT}")
        return Result(**{name: value[name] for name in Result.__dataclass_fields__})
    except (KeyError, TypeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None


class Place(NamedTuple):
    """A place of the ladder: where a step requests its machine."""

    zone: str
    template: str
    market: str
    machine_type: str


@dataclass(frozen=True)
class Settings:
    """The settings of one bridge."""

    project: str
    """The id of the Google Cloud project."""
    name: str
    """The value of the label gpu-ci-bridge, which is unique in the project."""
    template: str
    """The instance template, as projects/PROJECT/regions/REGION/instanceTemplates/NAME."""
    rungs: list[dict[str, str]]
    """The places to try, in order, each with zone, machine_type and market, and with its template if it is another
    one."""
    bucket: str
    """The bucket of sources, output and artifacts."""
    max: int = 1
    """The maximum number of machines at once."""
    check_sec: int = 1200
    """Seconds from the start of the machine until its check has passed."""
    fetch_sec: int = 900
    """Seconds for the sources and the container image on the machine."""
    wait_sec: int = 3600
    """Seconds that a step waits while other builds use all machines."""
    longest_timeout_sec: int = 14_400
    """The largest value of --timeout."""
    source_mib: int = 4096
    """The maximum size of the workspace."""
    artifact_mib: int = 2048
    """The maximum size of the artifacts."""
    labels: dict[str, str] = field(default_factory=dict)
    """More labels of the machines."""

    def places(self, *, without_spot: bool = False) -> list[Place]:
        """Return the places to try, in order. With `without_spot`, those of another market, or all with `standard`."""
        found = [
            Place(each["zone"], each.get("template") or self.template, each["market"], each["machine_type"])
            for each in self.rungs
        ]
        if not without_spot:
            return found
        others = [each for each in found if each.market != "spot"]
        return others or list(dict.fromkeys(each._replace(market="standard") for each in found))


def parse_settings(text: str) -> Settings:
    """Return the settings of the JSON object. Raise ValueError if it is no map or lacks a field.

    Unknown fields are left out. The component may be newer than this program, because builds may use an older program.
    """
    try:
        value = json.loads(text)
        return Settings(**{each.name: value[each.name] for each in fields(Settings) if each.name in value})
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"are not the settings of a bridge ({error})") from None
