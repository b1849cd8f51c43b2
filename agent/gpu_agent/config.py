"""Reads and validates the configuration: one JSON value in the machine's metadata, set by the instance template."""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

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
    work_folder: str = "_work"
    installs: bool = True
    """False if the machine must not download a runner, because it checks that its image contains the runner."""


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
    uv: str
    driver: DriverConfig = field(default_factory=DriverConfig)
    github: GithubConfig | None = None
    runner: RunnerConfig | None = None
    registered_by: str = "machine"
    """The program that registers the runner: `machine`, as configured in `github`, or `manager`, the runner manager."""
    installs: bool = True
    """False if the machine must not install torch, because it checks that its image contains torch."""


def parse(text: str | None) -> Config:
    """Return the configuration. Raises AgentExit("no-config") with all mistakes."""
    return parse_as(Config, text, KEY, _mistakes)


def parse_as(kind: type[T], text: str | None, key: str, mistakes: Callable[[T], list[str]] = lambda _: []) -> T:
    """Return a metadata value as `kind`, a dataclass. `mistakes` returns the mistakes that types do not show.

    Raises AgentExit("no-config") with all mistakes.
    """
    if not text:
        raise AgentExit("no-config", f"the machine's metadata has no {key}")
    try:
        value = json.loads(text)
    except ValueError as error:
        raise AgentExit("no-config", f"{key} is not valid JSON: {error}") from None
    except RecursionError:
        raise AgentExit("no-config", f"{key} is not a configuration: it is nested too deeply") from None
    problems: list[str] = []
    parsed: T = _parsed_value(kind, value, "", problems)
    problems = problems or mistakes(parsed)
    if problems:
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
        return (
            []
            if config.runner and not config.github
            else ["registered_by: manager requires runner and excludes github"]
        )
    if (config.github is None) != (config.runner is None):
        return ["github and runner: must be set together"]
    return []


def _parsed_value(kind: Any, value: Any, path: str, problems: list[str]) -> Any:
    """Return the value as `kind`, which is a dataclass or the type of a dataclass field."""
    if get_origin(kind) in (Union, types.UnionType):
        if value is None:
            return None
        [kind] = [each for each in get_args(kind) if each is not type(None)]
    if not dataclasses.is_dataclass(kind):
        return _plain(kind, value, path, problems)
    if not isinstance(value, dict):
        problems.append(f"{path or 'the value'}: expected a map, got {type(value).__name__}")
        return None
    hints, known = get_type_hints(kind), {each.name: each for each in dataclasses.fields(kind)}
    under = f"{path}." if path else ""
    problems += [f"{under}{key}: is unknown" for key in value if key not in known]
    given = {
        key: _parsed_value(hints[key], each, f"{under}{key}", problems) for key, each in value.items() if key in known
    }
    for name, each in known.items():
        if name not in given and each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING:
            problems.append(f"{under}{name}: is missing")
            given[name] = None
    return kind(**given)  # type: ignore[operator]


def _plain(kind: Any, value: Any, path: str, problems: list[str]) -> Any:
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if not isinstance(value, origin) or (isinstance(value, bool) and origin is not bool):
        problems.append(f"{path}: expected {origin.__name__}, got {type(value).__name__}")
    elif inner and not all(isinstance(each, inner[-1]) for each in (value.values() if origin is dict else value)):
        problems.append(f"{path}: expected every {inner[-1].__name__}")
    return value
