"""The report about the pods of a failed check, from events in the format of a real API server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pulumi
import pytest
from gpu_ci.kubernetes import smoke_job
from gpu_ci.kubernetes.smoke import events

POD = "l4-job-1a2b3c4d-x7k2p"
NOWHERE = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
UNAUTHORIZED = 'Failed to pull image "ghcr.io/acme/cuda-runner@sha256:aa": 401 Unauthorized'


def event(reason: str, message: str, name: str = POD, at: str = "2026-11-24T10:00:00Z") -> dict[str, Any]:
    return {
        "metadata": {"name": f"{name}.17f", "namespace": "gpu-ci"},
        "involvedObject": {"kind": "Pod", "name": name, "namespace": "gpu-ci"},
        "reason": reason,
        "message": message,
        "lastTimestamp": at,
    }


def causes(*given: dict[str, Any]) -> list[str]:
    return events.causes(given, "l4-job-1a2b3c4d")


def test_a_pod_without_events_of_an_autoscaler_is_reported() -> None:
    scheduling, unseen = causes(event("FailedScheduling", NOWHERE))
    assert scheduling == f"FailedScheduling: {NOWHERE}"
    assert unseen.startswith("no event TriggeredScaleUp or NotTriggerScaleUp: no Cluster Autoscaler has seen the pod")


def test_events_of_the_autoscaler_come_before_those_of_the_scheduler() -> None:
    said = "pod didn't trigger scale-up: 1 max node group size reached"
    assert causes(event("FailedScheduling", NOWHERE), event("NotTriggerScaleUp", said)) == [
        f"NotTriggerScaleUp: {said}",
        f"FailedScheduling: {NOWHERE}",
    ]


def test_a_pod_that_karpenter_has_nominated_is_not_unseen() -> None:
    nominated = event("Nominated", "Pod should schedule on: nodeclaim/gpu-1")
    assert causes(event("FailedScheduling", NOWHERE), nominated) == [f"FailedScheduling: {NOWHERE}"]


def test_of_a_pod_with_a_node_only_what_came_later_counts() -> None:
    missing = "Unable to retrieve some image pull secrets (ghcr); attempting to pull the image may not succeed."
    assert causes(
        event("FailedScheduling", NOWHERE),
        event("Scheduled", "Successfully assigned gpu-ci/l4 to node"),
        event("Failed", "Error: ErrImagePull", at="2026-11-24T10:01:00Z"),
        event("Failed", UNAUTHORIZED, at="2026-11-24T10:02:00Z"),
        event("FailedToRetrieveImagePullSecret", missing),
    ) == [f"FailedToRetrieveImagePullSecret: {missing}", f"Failed: {UNAUTHORIZED}"]


def test_a_pod_that_waits_counts_where_another_pod_of_the_job_has_a_node() -> None:
    placed, waits = "l4-job-1a2b3c4d-0-x7k2p", "l4-job-1a2b3c4d-1-q9m4t"
    assert causes(
        event("FailedScheduling", "0/1 nodes are available", placed),
        event("TriggeredScaleUp", "pod triggered scale-up: l4 0->2", placed),
        event("Scheduled", "Successfully assigned gpu-ci/l4 to node", placed, at="2026-11-24T10:05:00Z"),
        event("FailedScheduling", NOWHERE, waits),
    ) == [f"FailedScheduling: {NOWHERE}"]


def test_a_quota_is_an_event_of_the_job_and_other_pods_do_not_count() -> None:
    quota = 'Error creating: pods "l4-job-1a2b3c4d-" is forbidden: exceeded quota: gpus'
    assert causes(
        event("FailedCreate", quota, "l4-job-1a2b3c4d"), event("FailedScheduling", NOWHERE, "t4-job-9-a")
    ) == [f"FailedCreate: {quota}"]


class Server(HTTPServer):
    """An API server that answers one token, and lists events by their names in chunks of at most `limit`."""

    events: list[dict[str, Any]]
    asked: list[tuple[str, str | None]]


class Answers(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        token = self.headers.get("Authorization")
        self.server.asked.append((self.path, token))
        self.send_response(200 if token == "Bearer k8s-aws-v1.abc" else 401)
        self.end_headers()
        query = dict(parse_qsl(urlsplit(self.path).query))
        start = int(query.get("continue", "+0").removeprefix("+"))
        end = start + int(query["limit"])
        ordered = sorted(self.server.events, key=lambda each: each["metadata"]["name"])
        more = {"continue": f"+{end}"} if end < len(ordered) else {}
        self.wfile.write(json.dumps({"kind": "EventList", "metadata": more, "items": ordered[start:end]}).encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        """Be silent."""


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server(("127.0.0.1", 0), Answers)
    found.events, found.asked = [event("FailedScheduling", NOWHERE)], []
    thread = threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield found
    found.shutdown()
    found.server_close()


def kubeconfig(server: Server, folder: Path, printed: str) -> str:
    """One as a kind of cluster writes it, with a credential plugin that prints a text."""
    (folder / "credential").write_text(printed)
    program = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "cat", "args": [f"{folder}/credential"]}
    return json.dumps(
        {
            "clusters": [{"name": "ci", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
            "users": [{"name": "ci", "user": {"exec": program}}],
            "contexts": [{"name": "ci", "context": {"cluster": "ci", "user": "ci"}}],
            "current-context": "ci",
        }
    )


def credential(token: str) -> str:
    return json.dumps({"kind": "ExecCredential", "status": {"token": token}})


def explained(kubeconfig: str) -> list[str]:
    metadata = {"namespace": "gpu-ci", "name": "l4-job-1a2b3c4d"}
    failed = pulumi.ErrorHookArgs("", "", "l4-job", "", new_inputs={"metadata": metadata}, failed_operation="create")
    return smoke_job._failure_warning("l4", failed, [kubeconfig]).splitlines()


def test_events_are_read_with_the_token_of_the_credential_plugin(server: Server, tmp_path: Path) -> None:
    lines = explained(kubeconfig(server, tmp_path, credential("k8s-aws-v1.abc")))
    assert server.asked == [("/api/v1/namespaces/gpu-ci/events?limit=500", "Bearer k8s-aws-v1.abc")]
    assert lines[1] == f"  FailedScheduling: {NOWHERE}"
    assert lines[3].startswith("  hint: ")


def test_events_of_the_job_count_also_where_thousands_of_others_are_listed_before(
    server: Server, tmp_path: Path
) -> None:
    server.events += [event("Started", "Started container", f"a-{number:04}") for number in range(2100)]
    lines = explained(kubeconfig(server, tmp_path, credential("k8s-aws-v1.abc")))
    assert lines[1] == f"  FailedScheduling: {NOWHERE}"
    assert server.asked[-1] == ("/api/v1/namespaces/gpu-ci/events?limit=500&continue=%2B2000", "Bearer k8s-aws-v1.abc")


@pytest.mark.parametrize(
    ("printed", "why"),
    [
        (credential("hush-hush"), "the API server returned 401 Unauthorized"),
        ("Unable to locate credentials", "cat returned no credentials for the cluster"),
    ],
)
def test_unreadable_events_are_reported_without_the_credential(
    server: Server, tmp_path: Path, printed: str, why: str
) -> None:
    lines = explained(kubeconfig(server, tmp_path, printed))
    assert lines[1] == (
        f"  the events of its pods could not be read: {why}; kubectl get events --namespace gpu-ci shows them"
    )
    assert "hush-hush" not in "".join(lines)


def with_user(server: Server, folder: Path, user: dict[str, Any]) -> str:
    """The kubeconfig with this user."""
    given = json.loads(kubeconfig(server, folder, ""))
    given["users"][0]["user"] = user
    return json.dumps(given)


def test_a_credential_plugin_that_needs_the_cluster_gets_it(server: Server, tmp_path: Path) -> None:
    script = 'printf %s "$KUBERNETES_EXEC_INFO" >"$0"; printf \'{"status": {"token": "k8s-aws-v1.abc"}}\''
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "sh",
        "args": ["-c", script, f"{tmp_path}/info"],
    }
    assert explained(with_user(server, tmp_path, {"exec": plugin}))[1] == f"  FailedScheduling: {NOWHERE}"
    assert json.loads((tmp_path / "info").read_text())["spec"] == {"interactive": False}
    explained(with_user(server, tmp_path, {"exec": {**plugin, "provideClusterInfo": True}}))
    assert json.loads((tmp_path / "info").read_text())["spec"] == {
        "interactive": False,
        "cluster": {"server": f"http://127.0.0.1:{server.server_port}"},
    }


def test_a_user_with_a_certificate_alone_is_reported(server: Server, tmp_path: Path) -> None:
    lines = explained(with_user(server, tmp_path, {"client-key-data": "hush"}))
    assert "no user with a program or a token" in lines[1]
    assert server.asked == []


def test_a_credential_plugin_that_is_not_installed_is_named(server: Server, tmp_path: Path) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "gke-gcloud-auth-plugin-of-nobody"}
    assert explained(with_user(server, tmp_path, {"exec": plugin}))[1].startswith(
        "  the events of its pods could not be read: gke-gcloud-auth-plugin-of-nobody is not installed; "
    )


@pytest.mark.parametrize("given", ["", "[]", "{", "{clusters: [], contexts: [], users: [], current-context: a}"])
def test_an_invalid_kubeconfig_is_reported(given: str) -> None:
    with pytest.raises(events.UnreadableEventsError, match="has no cluster, or no user with"):
        events.events(given, "gpu-ci")
