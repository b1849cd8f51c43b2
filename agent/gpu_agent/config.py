"""Reads and validates the configuration: one JSON value in the machine's metadata, set by the instance template."""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from .outcomes import AgentExit

KEY = "gpu-agent-config"
T = TypeVar("T")


@dataclass(frozen=True)
class DriverConfig:
    """The source of the NVIDIA driver."""

    source: str = "image"
    """The source: image, installer or cos."""
    branch: str = ""
    """The installer's name of a branch, or a branch such as R580 on Container-Optimized OS."""
    installer: str = ""
    """The address of cuda_installer.pyz."""
    sha256: str = ""
    """The SHA-256 of cuda_installer.pyz."""
    image: str = ""
    """The container image with torch, on Container-Optimized OS."""


@dataclass(frozen=True)
class GithubConfig:
    """The place where a runner registers, and the App that registers it."""

    owner: str
    app_id: str
    """The App's id, or its client id."""
    installation_id: int
    private_key: str
    """The secret as projects/<project>/secrets/<name>. Its latest version is read."""
    labels: list[str]
    repository: str = ""
    """The repository; empty for a runner of the organization."""
    runner_group: str = "Default"
    """The name of the runner group. The id would change if the group is created again."""
    api_url: str = "https://api.github.com"


@dataclass(frozen=True)
class RunnerConfig:
    """The version and the limits of the runner."""

    version: str
    sha256: dict[str, str]
    """The SHA-256 of the release's archive, by architecture: x64, arm64."""
    docker: str = "none"
    """The Docker mode: none, rootless or rootful."""
    idle_sec: int = 600
    """Seconds that the runner waits for a job."""
    register_sec: int = 300
    """Seconds for download, unpacking and registration together."""
    warm_sec: int = 0
    """Further seconds that the machine waits for a registration by the runner manager, with its check passed."""
    notice_grace_sec: int = 10
    """Seconds that an armed job gets after a notice, before it is interrupted."""
    work_folder: str = "_work"
    installs: bool = True
    """False if the machine must not download a runner, because it checks that its image contains the runner."""
    public: bool = False
    """True if public repositories may use the pool. The machine then accepts jobs of one run only, and jobs reach no
    private address.
    """


@dataclass(frozen=True)
class Config:
    """The configuration of the agent."""

    pool: str
    check_args: list[str]
    """Arguments of gpu-smoke. The machine requires --expect-gpus among them."""
    check_sec: int
    """Seconds from the first boot to the verdict. They include the driver's installation with its restarts, the
    installation of torch, and on a check machine the rehearsal.
    """
    torch: str
    driver: DriverConfig = field(default_factory=DriverConfig)
    github: GithubConfig | None = None
    runner: RunnerConfig | None = None
    registered_by: str = "machine"
    """The program that registers the runner: `machine`, as configured in `github`, or `manager`, the runner manager."""
    installs: bool = True
    """False if the machine must not install torch, because it checks that its image contains torch."""
    reuse: bool = False
    """True if its host may run another job later, after a cleaning."""


def parse(text: str | None) -> Config:
    """Return the configuration. Raises AgentExit("no-config")."""
    return parse_as(Config, text, KEY, _mistakes)


def parse_as(kind: type[T], text: str | None, key: str, mistakes: Callable[[T], list[str]] = lambda _: []) -> T:
    """Return a metadata value as `kind`, a dataclass. `mistakes` returns the mistakes that types do not show.

    Raises AgentExit("no-config").
    """
    if not text:
        raise AgentExit("no-config", f"the machine's metadata has no {key}")
    try:
        parsed: T = _built(kind, json.loads(text), "the value")
    except (ValueError, RecursionError, TypeError) as error:
        raise AgentExit("no-config", f"{key} is not a configuration: {error}") from None
    if problems := mistakes(parsed):
        raise AgentExit("no-config", f"{key}: " + "; ".join(problems))
    return parsed


def _mistakes(config: Config) -> list[str]:
    if "--expect-gpus" not in config.check_args:
        # Without its expectations the check would pass on any GPU.
        return ["check_args: has no --expect-gpus"]
    return _registration_mistakes(config)


def _registration_mistakes(config: Config) -> list[str]:
    """Return the mistakes in the settings of the registration."""
    if config.registered_by not in ("machine", "manager"):
        return [f"registered_by: expected machine or manager, got {config.registered_by!r}"]
    if config.registered_by == "manager":
        is_valid = config.runner and not config.github
        return [] if is_valid else ["registered_by: manager requires runner and excludes github"]
    if (config.github is None) != (config.runner is None):
        return ["github and runner: must be set together"]
    return []


def _built(kind: Any, value: Any, name: str) -> Any:
    """Return the value as `kind`, a dataclass or the type of a field. Raises TypeError with the first mistake."""
    if get_origin(kind) is types.UnionType:
        if value is None:
            return None
        kind = get_args(kind)[0]
    expected = dict if dataclasses.is_dataclass(kind) else get_origin(kind) or kind
    if not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool):
        raise TypeError(f"{name}: expected {expected.__name__}, got {type(value).__name__}")
    if not dataclasses.is_dataclass(kind):
        return value
    hints = get_type_hints(kind)
    return kind(**{key: _built(hints.get(key, object), each, key) for key, each in value.items()})  # type: ignore[operator]
