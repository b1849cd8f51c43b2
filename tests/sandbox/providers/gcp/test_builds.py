"""Builds that a user submits to the sandbox's Cloud Build: steps, log, cancellation and refusals."""

from __future__ import annotations

import base64
import io
import json
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pulumi_sandbox.providers.gcp import build_steps, types
from pulumi_sandbox.providers.gcp.builds import TOPIC as TOPIC_TYPE
from pulumi_sandbox.providers.gcp.builds import TOPIC_MEMBER
from pulumi_sandbox.providers.gcp.builds import Builds as Service
from pulumi_sandbox.providers.gcp.object_storage import ObjectStorage, StoredObject
from pulumi_sandbox.providers.machines.local_services import Call
from pulumi_sandbox.providers.machines.metadata import token_of
from pulumi_sandbox.world.store import Record, World

from tests.gpu_ci.cli.doctor.google_apis import compare
from tests.gpu_ci.cli.image_cloud import OWNER, PLACE, PROJECT

BUCKET = "logs-1"
EMAIL = "builds@acme-ci.iam.gserviceaccount.com"
ACCOUNT = f"projects/{PROJECT}/serviceAccounts/{EMAIL}"


class Builds:
    """Cloud Build with one bucket."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder / "world.db")
        self.storage = ObjectStorage(BUCKET)
        self.service = Service(self.world, self.storage, lambda: {"FROM": "sandbox"})

    def call(self, method: str, path: str, body: Any = None, who: str = OWNER) -> tuple[int, Any]:
        call = Call(method, f"/v1/{path}", {}, who, body)
        answer = self.service.answer(call)
        return answer.status, json.loads(answer.body)

    def submit(self, *steps: dict[str, Any], account: str = "") -> str:
        build = {"steps": list(steps), "logsBucket": f"gs://{BUCKET}", "serviceAccount": account}
        status, operation = self.call("POST", f"{PLACE}/builds", build)
        assert status == 200, operation
        return str(operation["metadata"]["build"]["id"])

    def ended(self, number: str) -> dict[str, Any]:
        while (build := self.call("GET", f"{PLACE}/builds/{number}")[1])["status"] == "WORKING":
            time.sleep(0.01)
        return dict(build)

    def log(self, number: str) -> str:
        found = self.storage.buckets[BUCKET].get(f"log-{number}.txt")
        return found.content.decode() if found else ""


@pytest.fixture
def builds(tmp_path: Path) -> Iterator[Builds]:
    found = Builds(tmp_path)
    yield found
    found.service.close()
    found.world.close()


def test_steps_share_the_workspace_and_the_log_and_get_the_addresses_of_the_sandbox(builds: Builds) -> None:
    builds.storage.buckets[BUCKET]["program/a.txt"] = StoredObject(b"copied\n", 1)
    volumes = [{"name": "v", "path": "/data"}]
    number = builds.submit(
        {"id": "copy", "entrypoint": "gcloud", "args": ["storage", "cp", f"gs://{BUCKET}/program/*", "/data/"],
         "volumes": volumes},
        {"script": "#!/bin/sh\necho $FROM $B >file\n", "env": ["B=$BUILD_ID"]},
        {"script": "#!/bin/sh\ncat /workspace/file /data/a.txt\n", "volumes": volumes},
    )  # fmt: skip
    build = builds.ended(number)
    compare(build, "cloudbuild", "Build")
    assert (build["status"], builds.log(number)) == (
        "SUCCESS",
        f"Starting Step #0 - copy\nStarting Step #1 - 1\nStarting Step #2 - 2\nsandbox {number}\ncopied\nSUCCESS\n",
    )


def test_a_build_keeps_the_output_and_the_times_of_its_steps(builds: Builds) -> None:
    output = {"script": "#!/bin/sh\nprintf %60000s >$BUILDER_OUTPUT/output\n"}
    number = builds.submit({"script": "#!/bin/sh\n"}, output, {"script": "#!/bin/sh\nexit 7\n"}, output)
    build = builds.ended(number)
    compare(build, "cloudbuild", "Build")
    outputs = [base64.b64decode(each) for each in build["results"]["buildStepOutputs"]]
    assert outputs == [b"", b" " * 50_000, b""]
    assert ["timing" in step for step in build["steps"]] == [True, True, True, False]
    times = [build["startTime"], *(each for step in build["steps"][:3] for each in sorted(step["timing"].values()))]
    assert times == sorted(times)


def test_builds_of_a_region_are_listed_in_pages_the_newest_first(builds: Builds) -> None:
    numbers = [builds.submit({"script": "#!/bin/sh\n"}) for _ in range(3)]
    ended = [builds.ended(each) for each in numbers]

    def listed(place: str = PLACE, who: str = OWNER, **query: str) -> tuple[int, Any]:
        call = Call("GET", f"/v1/{place}/builds", {key: [each] for key, each in query.items()}, who, None)
        answer = builds.service.answer(call)
        return answer.status, json.loads(answer.body)

    status, first = listed(pageSize="2", filter='create_time>="2026-11-01T00:00:00Z"')
    compare(first, "cloudbuild", "ListBuildsResponse")
    rest = listed(pageSize="2", pageToken=first["nextPageToken"])[1]
    assert status == 200
    assert sorted([*first["builds"], *rest["builds"]], key=str) == sorted(ended, key=str)
    assert "nextPageToken" not in rest
    assert listed(filter='create_time>="2099-01-01T00:00:00Z"')[1] == {"builds": []}
    assert listed(f"projects/{PROJECT}/locations/global")[1] == {"builds": []}
    assert listed(filter="status=SUCCESS")[0] == 400
    assert listed(who=f"Bearer {token_of(EMAIL)}")[0] == 403


@pytest.mark.parametrize(
    ("step", "detail"),
    [
        ({"script": "#!/bin/sh\nexit 7\n"}, "step 0 failed with code 7"),
        ({"id": "make", "entrypoint": "make"}, "step make failed with code 1"),
        ({"entrypoint": "gcloud", "args": ["storage", "cp", f"gs://{BUCKET}/none/*", "/workspace/"]},
         "step 0 failed with code 1"),
    ],
)  # fmt: skip
def test_a_step_that_fails_ends_the_build(builds: Builds, step: dict[str, Any], detail: str) -> None:
    number = builds.submit(step, {"script": "#!/bin/sh\necho never\n"})
    build = builds.ended(number)
    assert (build["status"], build["statusDetail"]) == ("FAILURE", detail)
    assert "never" not in builds.log(number)


def test_a_cancelled_build_gets_sigterm_and_runs_no_further_step(builds: Builds) -> None:
    script = "#!/bin/sh\ntrap 'echo ends; exit 3' TERM\necho begins\nwhile :; do sleep 0.05; done\n"
    number = builds.submit({"script": script}, {"script": "#!/bin/sh\necho never\n"})
    while "begins" not in builds.log(number):
        time.sleep(0.01)
    assert builds.call("POST", f"{PLACE}/builds/{number}:cancel", {})[0] == 200
    assert builds.ended(number)["status"] == "CANCELLED"
    log = builds.log(number).splitlines()
    assert ("ends" in log, "never" in log, "Starting Step #1 - 1" in log) == (True, False, False)
    assert builds.call("POST", f"{PLACE}/builds/{number}:cancel", {})[0] == 400


def test_a_step_has_the_token_of_the_account_of_its_build(builds: Builds) -> None:
    number = builds.submit({"script": "#!/bin/sh\necho $GOOGLE_OAUTH_ACCESS_TOKEN\n"}, account=ACCOUNT)
    assert builds.ended(number)["status"] == "SUCCESS"
    assert f"\n{token_of(EMAIL)}\n" in builds.log(number)


def test_a_step_that_ignores_sigterm_is_killed_after_a_while(builds: Builds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_steps, "_TERM_SEC", 0.1)
    number = builds.submit({"script": "#!/bin/sh\ntrap '' TERM\necho begins\nwhile :; do sleep 0.05; done\n"})
    while "begins" not in builds.log(number):
        time.sleep(0.01)
    builds.call("POST", f"{PLACE}/builds/{number}:cancel", {})
    assert builds.ended(number)["status"] == "CANCELLED"


def test_a_build_has_the_files_of_its_source_and_knows_its_region(builds: Builds) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        member = tarfile.TarInfo("src/a.txt")
        member.size = 5
        archive.addfile(member, io.BytesIO(b"text\n"))
    builds.storage.buckets[BUCKET]["source.tgz"] = StoredObject(content.getvalue(), 1)
    step = {"script": "#!/bin/sh\ncat src/a.txt; echo $WHERE\n", "env": ["WHERE=$LOCATION"]}
    source = {"storageSource": {"bucket": BUCKET, "object": "source.tgz"}}
    body = {"steps": [step], "logsBucket": f"gs://{BUCKET}", "source": source}
    number = builds.call("POST", f"{PLACE}/builds", body)[1]["metadata"]["build"]["id"]
    assert builds.ended(number)["status"] == "SUCCESS"
    assert "\ntext\nus-central1\n" in builds.log(number)
    body["source"]["storageSource"]["object"] = "none"
    number = builds.call("POST", f"{PLACE}/builds", body)[1]["metadata"]["build"]["id"]
    build = builds.ended(number)
    assert (build["status"], build["statusDetail"]) == ("FAILURE", "KeyError: 'none'")


@pytest.mark.parametrize(
    ("step", "path"),
    [
        ({"nam": "a"}, "$.steps[0]"),
        ({"volumes": [{"paths": "/a"}]}, "$.steps[0].volumes[0]"),
        ({"args": ["a", 1800]}, "$.steps[0].args[1]"),
        ({"args": "-c pass"}, "$.steps[0].args"),
    ],
)
def test_a_build_of_another_form_is_refused_with_the_path(builds: Builds, step: dict[str, Any], path: str) -> None:
    status, answer = builds.call("POST", f"{PLACE}/builds", {"steps": [step]})
    assert (status, answer["error"]["message"].startswith(f"invalid build: {path}: ")) == (400, True)


@pytest.mark.parametrize("missing", [(TOPIC_TYPE, ""), (TOPIC_MEMBER, "/publisher")])
def test_without_topic_or_grant_no_message_is_published(publishing: Builds, missing: tuple[str, str]) -> None:
    kind, end = missing
    publishing.world.delete(kind, f"{TOPIC}{end}")
    number = publish(publishing, "exit 1")
    assert triggered(publishing) == []
    [note] = {each.note for each in publishing.world.events() if each.verb == "publish"}
    assert note.startswith(f"no message about build {number}: ")


def test_a_build_without_steps_and_an_unknown_account_are_refused(builds: Builds) -> None:
    assert builds.call("POST", f"{PLACE}/builds", {"steps": []})[0] == 400
    assert builds.call("POST", f"{PLACE}/builds", {"steps": [{}]}, who="Bearer unknown")[0] in (401, 403)
    assert builds.call("POST", f"{PLACE}/builds/none:cancel", {})[0] == 404


TOPIC = f"projects/{PROJECT}/topics/events-1"
ENDED = f"{PLACE}/triggers/ended"
FILTER = '_STATUS.matches("^(FAILURE|CANCELLED)$")'


@pytest.fixture
def publishing(builds: Builds) -> Builds:
    """Cloud Build with a topic, and a trigger that starts after the unsuccessful builds of the topic."""
    grant = {"topic": "events-1", "role": "roles/pubsub.publisher", "member": f"serviceAccount:{EMAIL}"}
    trigger = {
        "pubsubConfig": {"topic": TOPIC},
        "substitutions": {"_STATUS": "$(body.message.attributes.status)", "_BUILD": "$(body.message.data.id)"},
        "filter": FILTER,
        "serviceAccount": ACCOUNT,
        "build": {
            "steps": [{"script": "#!/bin/sh\necho $SEEN\n", "envs": ["SEEN=$_STATUS $_BUILD"]}],
            "logsBucket": f"gs://{BUCKET}",
        },
    }
    for token, identity, inputs in (
        (TOPIC_TYPE, TOPIC, {}),
        (TOPIC_MEMBER, f"{TOPIC}/publisher", grant),
        (types.TRIGGER, ENDED, trigger),
    ):
        builds.world.insert(Record(token, identity, identity, "", inputs, {}))
    return builds


def publish(builds: Builds, script: str, topic: str = TOPIC) -> str:
    body = {
        "steps": [{"script": f"#!/bin/sh\n{script}\n"}],
        "options": {"pubsubTopic": topic},
        "serviceAccount": ACCOUNT,
    }
    number = str(builds.call("POST", f"{PLACE}/builds", body)[1]["metadata"]["build"]["id"])
    builds.ended(number)
    builds.service.wait(10)  # the message follows the status
    return number


def triggered(builds: Builds) -> list[str]:
    """Return the ids of the builds of the trigger, after their ends."""
    rows = [json.loads(text) for text in builds.world.settings("cloudBuild:")]
    found = [str(row["id"]) for row in rows if row.get("buildTriggerId") == "ended"]
    for each in found:
        builds.ended(each)
    return found


def test_the_trigger_of_a_topic_hears_of_a_failed_build_and_not_of_a_successful_one(publishing: Builds) -> None:
    publish(publishing, "true")
    assert triggered(publishing) == []
    number = publish(publishing, "exit 1")
    until = time.monotonic() + 10
    while not (found := triggered(publishing)) and time.monotonic() < until:
        time.sleep(0.01)
    [build] = found
    assert f"FAILURE {number}\nSUCCESS\n" in publishing.log(build)
    assert publishing.ended(build)["serviceAccount"] == ACCOUNT
    compare(publishing.ended(build), "cloudbuild", "Build")


def test_close_ends_every_build_and_starts_no_other(publishing: Builds, tmp_path: Path) -> None:
    steps = [{"script": f"#!/bin/sh\ntrap '' TERM\ntouch {tmp_path}/begun\nwhile :; do sleep 0.05; done\n"}]
    body = {"steps": steps, "options": {"pubsubTopic": TOPIC}, "serviceAccount": ACCOUNT}
    number = publishing.call("POST", f"{PLACE}/builds", body)[1]["metadata"]["build"]["id"]
    while not (tmp_path / "begun").exists():
        time.sleep(0.01)
    publishing.service.close()
    assert publishing.call("GET", f"{PLACE}/builds/{number}")[1]["status"] == "CANCELLED"
    assert triggered(publishing) == []
