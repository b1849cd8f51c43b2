"""The arguments of a cloud's hooks: the resource and the context of the provider."""

from __future__ import annotations

import random
import secrets as randomness
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pulumi_sandbox.providers.values import NO_SECRETS, Secrets
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import World

# log(text, severity) with the engine's severities. A `status` line is shown only during the resource's operation.
Log = Callable[[str, str], None]
DEFAULTS = "__defaults"
HEX = "0123456789abcdef"

PureFunction = Callable[[Mapping[str, Any]], dict[str, Any]]
"""A function that computes its result from its arguments alone."""


class Refused(Exception):  # noqa: N818 - an answer of the vendor, not a failure of ours
    """The vendor refuses the call. The text is shown to the user."""


@dataclass(frozen=True)
class Problem:
    """One problem of an input. The text may have the lines `got` and `expected`; the hint is added as its own line."""

    path: str
    text: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.text}\n  hint: {self.hint}" if self.hint else self.text


def _no_log(_: str, __: str) -> None:
    """Log nothing, because there is no engine."""


@dataclass
class Context:
    """The context of a running provider."""

    workspace: Workspace
    world: World
    # The provider's configuration (gcp:project ...) as plain values; secrets are unwrapped.
    config: dict[str, Any] = field(default_factory=dict)
    # Set when the engine requests a stop (Ctrl-C). Every wait must end when it is set.
    cancelled: threading.Event = field(default_factory=threading.Event)
    # True if the engine of this provider has exited. The provider and its processes then end within seconds.
    engine_gone: Callable[[], bool] = lambda: False
    # log(text, "debug" | "info" | "warning" | "error" | "status"), without a resource.
    log: Log = _no_log


@dataclass
class Resource:
    """One resource, as passed to a hook."""

    token: str
    name: str  # the logical name, the last part of the URN
    urn: str
    world: World
    inputs: dict[str, Any] = field(default_factory=dict)
    # The old inputs; None for a new resource.
    old_inputs: dict[str, Any] | None = None
    # The outputs in the engine's state (at Update, Delete), or the new outputs (in created).
    outputs: dict[str, Any] = field(default_factory=dict)
    id: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    project: str = ""
    stack: str = ""
    preview: bool = False
    # Paths of the inputs that are secret.
    secrets: Secrets = NO_SECRETS
    # The program's time limit for this step in seconds (customTimeouts); 0 for the provider's default.
    timeout: float = 0.0
    # The same at every Check of one deployment. A preview therefore shows the name that the update uses.
    seed: bytes = b""
    # log(text, severity): adds a line under this resource.
    log: Log = _no_log

    def suffix(self, length: int = 7, alphabet: str = HEX) -> str:
        """Return a random suffix. The engine's seed determines it."""
        generator = random.Random(self.seed) if self.seed else randomness.SystemRandom()  # noqa: S311 - a name
        return "".join(generator.choice(alphabet) for _ in range(length))

    def autonamed(self, key: str = "name") -> bool:
        """Return True if the provider, not the program, chose this input."""
        return key in self.inputs.get(DEFAULTS, ())

    def set_default(self, key: str, make: Callable[[], Any]) -> None:
        """Set an input that the program does not set, and record it as a default. An old default value is kept."""
        if self.inputs.get(key) is not None:
            return
        old = self.old_inputs or {}
        keeps_old = key in old.get(DEFAULTS, ()) and old.get(key) is not None
        self.inputs[key] = old[key] if keeps_old else make()
        self.inputs[DEFAULTS] = sorted({*self.inputs.get(DEFAULTS, ()), key})

    def default_name(
        self, key: str = "name", *, separator: str = "-", length: int = 7, max_length: int = 63, lower: bool = True
    ) -> None:
        """Set the usual automatic name: the logical name, cut to fit, a separator and a random suffix.

        `<name>-<7 hex digits>` is pulumi-terraform-bridge's AutoName (v3.137.0, pkg/tfbridge/names.go).
        """

        def make() -> str:
            stem = self.name.lower() if lower else self.name
            return stem[: max_length - length - len(separator)] + separator + self.suffix(length)

        self.set_default(key, make)
