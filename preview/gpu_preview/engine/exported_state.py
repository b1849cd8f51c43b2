"""Reads the state of a stack from `pulumi stack export`, and removes its secrets.

The form is that of pulumi/pulumi v3.259.0, sdk/go/common/apitype/core.go (UntypedDeployment, DeploymentV3).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import json_text
from ..diff import state_secrets
from ..errors import PreviewError
from ..phrases import number

# A salt for the sandbox's public passphrase (docs/how-it-works/sandbox.md). The engine imports only states that name
# their secrets provider.
_SALT = "v1:rdHK0bDVB20=:v1:gdTHUdW6eJ3QWI3M:JFlRIlEH/xYCzIC9jgN12XBnZxkIIw=="
_HINT = "hint: pulumi stack export --stack {} > state.json"


@dataclass(frozen=True)
class ExportedState:
    """A state without secret values, encrypted or plain."""

    document: Mapping[str, Any]
    secrets: int
    """The number of removed secrets."""
    pending: int
    """The number of interrupted operations. Their result is unknown, so they are left out."""

    @property
    def summary(self) -> str:
        """The changes to the state, as the end of a sentence."""
        pending = f" and {number(self.pending, 'interrupted operation')}" if self.pending else ""
        return f"without {number(self.secrets, 'secret')}{pending}"

    @property
    def resources(self) -> Sequence[Mapping[str, Any]]:
        """The resources of the state."""
        return self.document["deployment"].get("resources") or []

    @property
    def text(self) -> str:
        """Return the state in the form of `pulumi stack export`."""
        return json.dumps(self.document, indent=4)

    @property
    def for_sandbox(self) -> str:
        """Return the state in the form that the engine imports in the sandbox."""
        sealed = {"secrets_providers": {"type": "passphrase", "state": {"salt": _SALT}}}
        return json.dumps({**self.document, "deployment": {**self.document["deployment"], **sealed}})


def read(file: Path, stack: str = "") -> ExportedState:
    """Return the state in a file. PreviewError if the file cannot be read, or has the state of another stack."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise PreviewError(f"{file}: {error.strerror or error}\n  {_HINT.format(stack or 'prod')}") from None
    except UnicodeDecodeError:
        raise PreviewError(f"{file}: is no text in UTF-8\n  {_HINT.format(stack or 'prod')}") from None
    try:
        return strip(text, stack)
    except PreviewError as error:
        raise PreviewError(f"{file}: {error}") from None


def read_all(files: Mapping[str, Path]) -> dict[str, ExportedState]:
    """Return the states of these stacks. PreviewError names every file that cannot be read."""
    found, problems = {}, []
    for stack, file in files.items():
        try:
            found[stack] = read(file, stack)
        except PreviewError as error:
            problems.append(str(error))
    if problems:
        raise PreviewError("\n".join(problems))
    return found


def check_projects(states: Mapping[str, ExportedState], projects: Collection[str]) -> None:
    """Raise PreviewError for a state of another project: the engine would report all resources as new."""
    for stack, state in states.items():
        for project in sorted({str(each["urn"]).split("::")[1] for each in state.resources} - {*projects}):
            expected = ", ".join(sorted(projects))
            raise PreviewError(f"the state of {stack} is of another project\n  got: {project}\n  expected: {expected}")


def strip(text: str, stack: str = "") -> ExportedState:
    """Return the state without its secrets. PreviewError for another stack, or for something that is not a state."""
    try:
        document = json_text.read(text)
        deployment = document["deployment"]
        resources, pending = (deployment.get(key) or [] for key in ("resources", "pending_operations"))
        stacks = {each["urn"].split("::")[0].removeprefix("urn:pulumi:") for each in resources}
        if not isinstance(pending, list) or not all(each["urn"].count("::") >= 3 for each in resources):
            raise ValueError
        kept, secrets = state_secrets.without_secrets(deployment)
    except json_text.TooMuchError as error:
        raise PreviewError(f"is larger than any real state: {error}") from None
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        raise PreviewError(
            "is not what `pulumi stack export` prints\n"
            f"  expected: an object with deployment.resources\n  {_HINT.format(stack or 'prod')}"
        ) from None
    if stack and (others := sorted(stacks - {stack})):
        raise PreviewError(f"is the state of another stack\n  got: {', '.join(others)}\n  expected: {stack}")
    # Other fields are not read, and can have any content.
    version = {"version": document["version"]} if isinstance(document.get("version"), int) else {}
    return ExportedState({**version, "deployment": kept}, secrets, len(pending))
