"""The listener of Tekton Triggers: a delivery of GitHub's webhook becomes a PipelineRun.

Sources: tektoncd/triggers v0.37.0, pkg/sink and pkg/interceptors. A delivery with JSON gets 202, also without a run.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import celpy
from celpy import celtypes
from celpy.adapter import json_to_cel
from celpy.celparser import CELParseError
from celpy.evaluation import CELEvalError

from pulumi_sandbox.providers.kubernetes.objects import inner, items
from pulumi_sandbox.providers.kubernetes.tekton.graph import REFERENCE, Value, params_of, substitute
from pulumi_sandbox.providers.kubernetes.tekton.runs import TRIGGERS, Runs

ACCEPTED, BAD_REQUEST = 202, 400


@dataclass(frozen=True)
class Delivery:
    """One request to the listener. The names of headers are in lower case."""

    headers: Mapping[str, str]
    content: bytes


@dataclass
class Receipt:
    """The answer to a delivery, with the runs that it started."""

    status: int
    runs: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Why a trigger started no run. A cluster has this in the log of the listener."""


class Stopped(Exception):  # noqa: N818 - an answer, not a failure
    """An interceptor or a binding stops a trigger."""


@dataclass(frozen=True)
class Listener:
    """One EventListener with the objects that its triggers name."""

    runs: Runs
    namespace: str
    name: str

    def receive(self, delivery: Delivery) -> Receipt:
        """Handle a delivery.

        Raises:
            Refused: An object is missing.
        """
        spec = self.runs.spec(f"{TRIGGERS}:EventListener", self.namespace, self.name)
        try:
            # A number of JSON is a double in CEL.
            body, plain = json.loads(delivery.content, parse_int=float), json.loads(delivery.content)
        except ValueError:
            return Receipt(BAD_REQUEST, notes=["the body is not JSON"])
        receipt = Receipt(ACCEPTED)
        for _, trigger in items(spec.get("triggers")):
            try:
                extensions: dict[str, Any] = {}
                for _, each in items(trigger.get("interceptors")):
                    params = params_of(each.get("params"))
                    if inner(each, "ref", "name") == "github":
                        self._github(params, delivery)
                    else:
                        self._cel(params, delivery, body, extensions)
                event = {"body": plain, "header": delivery.headers, "extensions": extensions}
                receipt.runs += self._create(trigger, event, receipt.notes)
            except Stopped as stopped:
                receipt.notes.append(f"{trigger.get('name')}: {stopped}")
        return receipt

    def _github(self, params: Mapping[str, Any], delivery: Delivery) -> None:
        """Check the event and the signature (pkg/interceptors/github/github.go)."""
        headers, types = delivery.headers, params.get("eventTypes")
        if headers.get("content-type") == "application/x-www-form-urlencoded":
            raise Stopped("form parameter encoding not supported, please change the hook to send JSON payloads")
        event = headers.get("x-github-event", "")
        if types is not None and event not in types:
            raise Stopped(f"event type {event} is not allowed")
        if secret := params.get("secretRef"):
            if not (signature := headers.get("x-hub-signature-256")):
                raise Stopped("no X-Hub-Signature-256 header set")
            key = self.runs.settings.secret(self.namespace, secret["secretName"], secret["secretKey"])
            if not hmac.compare_digest(signature, signed(delivery.content, key)):
                raise Stopped("payload signature check failed")

    def _cel(self, params: Mapping[str, Any], delivery: Delivery, body: Any, extensions: dict[str, Any]) -> None:
        """Evaluate the filter, then the overlays (pkg/interceptors/cel/cel.go)."""
        event = {"body": body, "header": dict(delivery.headers), "extensions": extensions}
        if (text := params.get("filter")) and evaluate(text, event) is not True:
            raise Stopped(f"expression {text} did not return true")
        extensions |= {
            str(each["key"]): evaluate(each["expression"], event) for _, each in items(params.get("overlays"))
        }

    def _create(self, trigger: Mapping[str, Any], event: Mapping[str, Any], notes: list[str]) -> list[str]:
        params = {key: _value(str(each), event) for key, each in params_of(trigger.get("bindings")).items()}
        template = self.runs.spec(f"{TRIGGERS}:TriggerTemplate", self.namespace, str(inner(trigger, "template", "ref")))
        scope: dict[str, Value] = {f"tt.params.{key}": each for key, each in params.items()}
        created = []
        for _, each in items(template.get("resourcetemplates")):
            run = substitute(each, scope)
            run["metadata"] = {"namespace": self.namespace, **run["metadata"]}
            name = str(run["metadata"]["name"])
            if self.runs.create(run):
                created.append(f"{self.namespace}/{name}")
            else:
                notes.append(f'{trigger.get("name")}: pipelineruns.tekton.dev "{name}" already exists')
        return created


def signed(content: bytes, key: str) -> str:
    """Return the header X-Hub-Signature-256 of a delivery."""
    return f"sha256={hmac.new(key.encode(), content, hashlib.sha256).hexdigest()}"


def _value(text: str, event: Mapping[str, Any]) -> str:
    """Replace the paths `$(body.a.b)` of a binding."""

    def found(at: re.Match[str]) -> str:
        value = inner(event, *at[1].split("."))
        if value is None:
            raise Stopped(f"{at[1].rpartition('.')[2]} is not found")
        return value if isinstance(value, str) else json.dumps(value)

    return REFERENCE.sub(found, text)


def evaluate(expression: str, event: Mapping[str, Any]) -> Any:
    """Return the value of an expression in CEL.

    Raises:
        Stopped: The expression is wrong, or reads something that the event does not have.
    """
    try:
        environment = celpy.Environment()
        program = environment.program(environment.compile(expression), functions=_FUNCTIONS)
        value = program.evaluate({key: json_to_cel(each) for key, each in event.items()})
    except (CELParseError, CELEvalError) as error:
        raise Stopped(f"error evaluating cel expression: {error.args[0]}") from None
    return bool(value) if isinstance(value, celtypes.BoolType) else str(value)


# The functions of Triggers (pkg/interceptors/cel/triggers.go) and of the extension for strings (google/cel-go, ext).
_FUNCTIONS: dict[str, Any] = {
    "truncate": lambda text, most: celtypes.StringType(text[: int(most)]),
    "lowerAscii": lambda text: celtypes.StringType(re.sub("[A-Z]", lambda at: at[0].lower(), text)),
    "replace": lambda text, old, new: celtypes.StringType(text.replace(old, new)),
}
