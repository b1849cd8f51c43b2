"""Emulate the messages that Cloud Build publishes about a build, and the triggers that start builds for them.

A message goes to the topic that the build names (options.pubsubTopic), after each change of its status. It has the
attributes buildId and status, and the build as its data. The account of the build needs roles/pubsub.publisher on the
topic. Without this grant, the sandbox publishes nothing, and writes an event. It has no topic cloud-builds.

Sources: cloud.google.com/build/docs/subscribe-build-notifications, and cloud.google.com/build/docs/
configuring-notifications/notifiers.

Of a trigger's filter in the Common Expression Language, the sandbox evaluates `_NAME.matches("REGEX")` only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.names import last, part
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.world.store import Record, World

TOPIC, TOPIC_MEMBER = "gcp:pubsub/topic:Topic", "gcp:pubsub/topicIAMMember:TopicIAMMember"
PUBLISHER_ROLES = ("roles/pubsub.publisher", "roles/pubsub.editor", "roles/pubsub.admin")
_PART = re.compile(r"\$\(body\.message\.([^)]+)\)")
_MATCHES = re.compile(r"""(_[A-Z0-9_]+)\.matches\((["'])(.*)\2\)""")

Start = Callable[[str, str, dict[str, Any]], object]
"""Starts a build, given its project and region."""


class BuildEvents:
    """The messages about builds of one server. `start` starts the build of a trigger."""

    def __init__(self, world: World, start: Start) -> None:
        self._world, self._start = world, start

    def publish(self, build: Mapping[str, Any]) -> None:
        """Publish the status of a build to its topic, and start the builds of the topic's triggers."""
        name = str(table(build.get("options")).get("pubsubTopic") or "")
        if not name or not self._may_publish(build, name):
            return
        attributes = {"buildId": build["id"], "status": build["status"]}
        message = {"attributes": attributes, "data": build}
        for trigger in self._world.find(types.TRIGGER):
            if table(trigger.inputs.get("pubsubConfig")).get("topic") == name:
                self._receive(trigger, message)

    def _may_publish(self, build: Mapping[str, Any], name: str) -> bool:
        member = f"serviceAccount:{last(str(build.get('serviceAccount') or ''))}"
        topic = self._world.get(TOPIC, name)
        granted = topic is not None and any(
            grant.inputs.get("member") == member
            and grant.inputs.get("role") in PUBLISHER_ROLES
            and last(str(grant.inputs.get("topic"))) == last(name)
            for grant in self._world.find(TOPIC_MEMBER)
        )
        if not granted:
            problem = f"{member} lacks roles/pubsub.publisher" if topic else "the topic does not exist"
            self._world.event("publish", TOPIC, name, f"no message about build {build['id']}: {problem}")
        return granted

    def _receive(self, trigger: Record, message: Mapping[str, Any]) -> None:
        given = {str(key): str(value) for key, value in table(trigger.inputs.get("substitutions")).items()}
        values = {key: _PART.sub(lambda found: _part(message, found[1]), text) for key, text in given.items()}
        text = str(trigger.inputs.get("filter") or "")
        condition = _MATCHES.fullmatch(text)
        if text and not condition:
            self._world.event("build", types.TRIGGER, trigger.id, f"the sandbox does not evaluate the filter {text}")
            return
        if condition and not re.search(condition[3], values.get(condition[1], "")):
            return
        build = table(trigger.inputs.get("build"))
        # Pulumi's Google package has other names for some fields of a step.
        steps = [
            {("env" if key == "envs" else key): value for key, value in table(step).items()}
            for step in rows(build.get("steps"))
        ]
        document = {
            **build,
            "steps": steps,
            "substitutions": values,
            "serviceAccount": trigger.inputs.get("serviceAccount"),
            "buildTriggerId": last(trigger.id),
        }
        self._start(part(trigger.id, "projects"), part(trigger.id, "locations"), document)


def _part(message: Mapping[str, Any], path: str) -> str:
    """Return a part of the message, or "" if it is missing. The path is such as attributes.status."""
    value: Any = message
    for key in path.split("."):
        value = table(value).get(key)
    return "" if value is None else str(value)
