"""What a cloud's hooks are given: the resource at hand, and what the provider works with."""

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

# The engine's severities; `status` lines are shown under the resource while it is worked on, and then forgotten.
Log = Callable[[str, str], None]
DEFAULTS = "__defaults"
HEX = "0123456789abcdef"

PureFunction = Callable[[Mapping[str, Any]], dict[str, Any]]
"""A lookup's result, computed from its arguments alone."""


class Refused(Exception):  # noqa: N818 - an answer of the vendor, not a failure of ours
    """The vendor says no; the text is what the operator reads."""


@dataclass(frozen=True)
class Problem:
    """One thing wrong with an input. The text may carry lines of got / expected; the hint becomes a line of its own."""

    path: str
    text: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.text}\n  hint: {self.hint}" if self.hint else self.text


def _silent(_: str, __: str) -> None:
    """Says nothing; where no engine listens."""


@dataclass
class Context:
    """What a provider works with while it runs."""

    workspace: Workspace
    world: World
    # The provider's own configuration (gcp:project ...), plain; secrets in it are unwrapped.
    config: dict[str, Any] = field(default_factory=dict)
    # Set when the engine asks everything to stop (Ctrl-C): whoever waits must wait on it.
    cancelled: threading.Event = field(default_factory=threading.Event)
    # Whether the engine that started this provider is gone: the provider, and what it runs, end within seconds.
    engine_gone: Callable[[], bool] = lambda: False
    # log(text, "debug" | "info" | "warning" | "error" | "status"), about no resource.
    log: Log = _silent


@dataclass
class Resource:
    """One resource as a hook sees it."""

    token: str
    name: str  # the logical name, the last part of the URN
    urn: str
    world: World
    inputs: dict[str, Any] = field(default_factory=dict)
    # What the inputs were before; None when the resource is new.
    old_inputs: dict[str, Any] | None = None
    # The outputs the engine's state has (at Update, Delete), or those just computed (in created, updated).
    outputs: dict[str, Any] = field(default_factory=dict)
    id: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    project: str = ""
    stack: str = ""
    preview: bool = False
    # Paths of the inputs that are secret.
    secrets: Secrets = NO_SECRETS
    # How many seconds the program lets this step take (customTimeouts); 0 for what is the provider's own rule.
    timeout: float = 0.0
    # The same at every Check of one deployment, so that a preview shows the name that the update then uses.
    seed: bytes = b""
    # log(text, severity): a line under this resource.
    log: Log = _silent

    def suffix(self, length: int = 7, alphabet: str = HEX) -> str:
        """A random ending that is the same whenever the engine's seed is."""
        chosen = random.Random(self.seed) if self.seed else randomness.SystemRandom()
        return "".join(chosen.choice(alphabet) for _ in range(length))

    def autonamed(self, key: str = "name") -> bool:
        """Whether the provider chose this input, not the program."""
        return key in self.inputs.get(DEFAULTS, ())

    def set_default(self, key: str, make: Callable[[], Any]) -> None:
        """Fill an input the program leaves open, and record that; what was chosen once is kept."""
        if self.inputs.get(key) is not None:
            return
        old = self.old_inputs or {}
        kept = key in old.get(DEFAULTS, ()) and old.get(key) is not None
        self.inputs[key] = old[key] if kept else make()
        self.inputs[DEFAULTS] = sorted({*self.inputs.get(DEFAULTS, ()), key})

    def default_name(
        self, key: str = "name", *, separator: str = "-", length: int = 7, most: int = 63, lower: bool = True
    ) -> None:
        """The name most providers choose: the logical name, a separator and a random ending, cut to fit.

        `<name>-<7 hex digits>` is pulumi-terraform-bridge's AutoName (v3.137.0, pkg/tfbridge/names.go).
        """

        def make() -> str:
            stem = self.name.lower() if lower else self.name
            return stem[: most - length - len(separator)] + separator + self.suffix(length)

        self.set_default(key, make)
