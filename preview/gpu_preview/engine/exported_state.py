"""Reads the state of a stack from `pulumi stack export`, and removes its secrets.

The form is that of pulumi/pulumi v3.259.0, sdk/go/common/apitype/core.go (UntypedDeployment, DeploymentV3).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_common import pulumi_wire

from .. import json_text
from ..errors import PreviewError
from ..json_text import as_list, as_map

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


def read_all(files: Mapping[str, Path]) -> dict[str, ExportedState]:
    """Return the states of these stacks. PreviewError names every file that cannot be read."""
    found, problems = {}, []
    for stack, file in files.items():
        try:
            found[stack] = strip(file.read_text(encoding="utf-8"), stack)
        except OSError as error:
            problems.append(f"{file}: {error.strerror or error}\n  {_HINT.format(stack)}")
        except UnicodeDecodeError:
            problems.append(f"{file}: is no text in UTF-8\n  {_HINT.format(stack)}")
        except PreviewError as error:
            problems.append(f"{file}: {error}")
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
        kept, secrets = without_secrets(deployment)
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
    return ExportedState({**version, "deployment": kept}, secrets)


STRIPPED = "[secret taken out of the state]"
"""The text in place of a secret; the sandbox accepts any secret for it (docs/how-it-works/sandbox.md)."""

_REMOVED_KEYS = ("secrets_providers", "pending_operations")
# A shorter text, such as `true` or `8080`, occurs in many places that are unrelated to the secret.
_SHORTEST = 6


def without_secrets(deployment: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """Return the deployment without secrets, and their number. ValueError for JSON that cannot be a value."""
    found: list[Any] = []
    given = {key: value for key, value in deployment.items() if key not in _REMOVED_KEYS}
    resources = [_with_named_outputs(each, found) for each in as_list(given.get("resources"))]
    marked = _without({**given, **({"resources": resources} if resources else {})}, found)
    plain = {text for each in found for text in _texts(each) if len(text) >= _SHORTEST} - {STRIPPED}
    again: list[Any] = []
    repeated = [_without_repeated(each, plain, again) for each in as_list(marked.get("resources"))]
    return {**marked, **({"resources": repeated} if repeated else {})}, len(found) + len(again)


def _secret() -> dict[str, str]:
    return {pulumi_wire.SIGNATURE: pulumi_wire.SECRET, "plaintext": json.dumps(STRIPPED)}


def _is_secret(value: Any) -> bool:
    return isinstance(value, Mapping) and value.get(pulumi_wire.SIGNATURE) == pulumi_wire.SECRET


def _with_named_outputs(resource: Mapping[str, Any], found: list[Any]) -> dict[str, Any]:
    """Return the resource with unmarked secret outputs marked as secrets. They are added to `found`."""
    outputs = dict(as_map(resource.get("outputs")))
    for name in as_list(resource.get("additionalSecretOutputs")):
        if name in outputs and not _is_secret(outputs[name]):
            found.append(_without(outputs[name], found))
            outputs[name] = _secret()
    return {**resource, **({"outputs": outputs} if outputs else {})}


def _without(value: Any, found: list[Any]) -> Any:
    """Return the value without marked secrets. The secrets that the state contains are added to `found`."""
    if _is_secret(value):
        found.append(_opened(value.get("plaintext")))
        return _secret()
    if isinstance(value, str) and pulumi_wire.SECRET in value:
        return _text_without(value, found)
    return _mapped(value, lambda part: _without(part, found))


def _text_without(text: str, found: list[Any]) -> Any:
    """Return a text with the signature, parsed as JSON, without its secrets. Any other such text is wholly secret."""
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if isinstance(document, Mapping | list):
        return json.dumps(_without(document, found))
    found.append(text)
    return _secret()


def _without_repeated(resource: Mapping[str, Any], plain: set[str], found: list[Any]) -> dict[str, Any]:
    """Return the resource with a secret for each text that is secret elsewhere. An ID must stay a text."""

    def part(value: Any) -> Any:
        if isinstance(value, str) and value in plain:
            found.append(value)
            return _secret()
        return value if _is_secret(value) else _mapped(value, part)

    kept = {key: part(resource[key]) for key in ("inputs", "outputs") if key in resource}
    for key in ("id", "importID"):
        if resource.get(key) in plain:
            found.append(resource[key])
            kept[key] = STRIPPED
    return {**resource, **kept}


def _mapped(value: Any, part: Callable[[Any], Any]) -> Any:
    if isinstance(value, Mapping):
        return {key: part(one) for key, one in value.items()}
    return [part(one) for one in value] if isinstance(value, list) else value


def _opened(plaintext: Any) -> Any:
    """Return the value of a secret, which is JSON in a text."""
    try:
        return json.loads(plaintext)
    except (TypeError, ValueError):
        return plaintext


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
        if value[:1] in ("{", "["):
            opened = _opened(value)
            yield from _texts(opened) if isinstance(opened, Mapping | list) else ()
    elif isinstance(value, Mapping | list):
        entries = [value[key] for key in value if key != pulumi_wire.SIGNATURE] if isinstance(value, Mapping) else value
        for one in entries:
            yield from _texts(one)
