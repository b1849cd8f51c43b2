"""VMs: the startup script really runs, reads its metadata server, and ends with the process that runs the VM."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from pulumi_sandbox.providers.gcp.compute import vm_store
from pulumi_sandbox.providers.resource import Refused
from pulumi_sandbox.world.faults import Fault

from tests.sandbox.providers.gcp.api import OPENER, Api, printed, script
from tests.sandbox.providers.gcp.conftest import Google

PATH = "projects/ci-project/zones/us-central1-a/instances/check"
GET = (
    'get() { curl -sS -H "Metadata-Flavor: Google" '
    '"http://$GCE_METADATA_HOST/computeMetadata/v1/instance/$1"; echo; }\n'
)
PUT = (
    'put() { curl -sS -o /dev/null -w "%{http_code}\\n" -X PUT -H "Metadata-Flavor: Google" --data "$2" '
    '"http://$GCE_METADATA_HOST/computeMetadata/v1/instance/guest-attributes/$1"; }\n'
)
TEXT = "  expected: a string\n  hint: put the value in quotes, or remove the entry"


def test_a_machine_reads_its_own_metadata(api: Api) -> None:
    account = api.google.make("gcp:serviceaccount/account:Account", "one", {"accountId": "runner"}).outputs["email"]
    reads = (
        "name",
        "zone",
        "attributes/",
        "attributes/color",
        "service-accounts/default/email",
        "preempted",
    )
    lines = (
        GET
        + "\n".join(f"get {path}" for path in (*reads, "nothing"))
        + "\nget service-accounts/default/token\nshutdown -h now"
    )
    template = api.google.template(
        **script(lines, color="blue"), serviceAccount={"email": account, "scopes": ["cloud-platform"]}
    )
    api.insert(template.id)
    found = printed(api.off())
    assert found[:2] == ["check", "projects/0/zones/us-central1-a"]
    assert [line for line in found[2:] if line][:7] == [
        "color",
        "enable-guest-attributes",
        "startup-script",
        "blue",
        account,
        "FALSE",
        "Not Found",
    ]
    token = json.loads(next(line for line in found if line.startswith("{")))
    assert (token["token_type"], token["expires_in"]) == ("Bearer", 3599)


def test_a_machine_writes_guest_attributes_that_are_read_back_after_it_is_off(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vm_store, "QUERY_LIMITS", ())
    verdict = json.dumps({"verdict": "pass", "exit_code": 0, "summary": "1 x L4"})
    template = api.google.template(
        **script(f"{PUT}put gpu-smoke/verdict '{verdict}'; put other/key x; shutdown -h now")
    )
    api.insert(template.id)
    assert printed(api.off())[:2] == ["200", "200"]
    path = "zones/us-central1-a/instances/check/getGuestAttributes"
    assert api.ok("GET", path, queryPath="gpu-smoke/")["queryValue"]["items"] == [
        {"namespace": "gpu-smoke", "key": "verdict", "value": verdict}
    ]
    status, body = api.call("GET", path, queryPath="gpu-smoke/none")
    assert (status, body["error"]["message"]) == (
        404,
        "The resource 'gpu-smoke/none' of type 'Guest Attribute' was not found.",
    )


def test_the_metadata_server_wants_its_header(api: Api) -> None:
    api.insert(api.google.template(**script("echo $GCE_METADATA_HOST; sleep 60")).id)
    api.until(lambda: bool(printed(api.serial())), "an address on the serial port")
    url = f"http://{printed(api.serial())[0]}/computeMetadata/v1/instance/name"
    with pytest.raises(urllib.error.HTTPError) as refused:
        OPENER.open(urllib.request.Request(url), timeout=30)
    refused.value.close()
    assert refused.value.code == 403
    with OPENER.open(urllib.request.Request(url, headers={"Metadata-Flavor": "Google"}), timeout=30) as answer:
        assert answer.read() == b"check"
        assert answer.headers["Metadata-Flavor"] == "Google"


def test_a_failing_script_leaves_the_machine_running_and_says_so_on_the_serial_port(api: Api) -> None:
    api.insert(api.google.template(**script("echo before; exit 3")).id)
    api.until(lambda: "Finished running" in api.serial(), "the end of the script")
    assert api.serial() == (
        'startup-script: before\nScript "startup-script" failed with error: exit status 3\n'
        "Finished running startup scripts.\n"
    )
    assert api.instance()["status"] == "RUNNING"


def test_the_serial_port_is_read_on_from_where_one_was(api: Api) -> None:
    api.insert(api.google.template(**script("echo one; sleep 60")).id)
    api.until(lambda: bool(printed(api.serial())), "a line on the serial port")
    path = "zones/us-central1-a/instances/check/serialPort"
    first = api.ok("GET", path)
    assert (first["start"], first["next"]) == ("0", str(len(first["contents"])))
    assert api.ok("GET", path, start="16")["contents"] == first["contents"][16:]
    assert api.ok("GET", path, start="10000") == {**first, "contents": "", "start": first["next"]}


def test_a_machine_has_the_environment_that_the_settings_give_it_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    settings = "guest:\n  path: [tools]\n  environment: {GPU_SMOKE_DEVICE: cpu, DEPTH: 2}\n"
    google = Google(tmp_path, settings=settings)
    (tmp_path / "project" / "tools").mkdir()
    google.cloud.configure(google.config)
    try:
        api = Api(google)
        google.world.add_fault(Fault("guest", settings={"BROKEN": "yes"}))
        template = google.template(**script("env | sort; shutdown -h now")).id
        api.insert(template)
        found = dict(line.split("=", 1) for line in printed(api.off()) if "=" in line)
        path = found.pop("PATH").split(os.pathsep)
        assert (path[0].endswith("/sbin"), path[1]) == (True, str(tmp_path / "project" / "tools"))
        assert set(found) == {
            "BROKEN", "DEPTH", "GCE_METADATA_HOST", "GPU_SMOKE_DEVICE", "HOME", "LANG", "PWD", "SHLVL", "TMPDIR", "_",
        }  # fmt: skip
        assert (found["GPU_SMOKE_DEVICE"], found["DEPTH"], found["BROKEN"]) == ("cpu", "2", "yes")
        api.insert(template, "second")
        assert "BROKEN=yes" not in api.off("second")
    finally:
        google.cloud.stop()


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("nowhere", 'guest: wrong form\n  got: "nowhere"\n  expected: a map of path, environment, scriptOutput'),
        ("{path: [a, 1]}", "guest.path[1]: wrong form\n  got: 1\n  expected: a text"),
        (
            "{scriptOutput: nowhere}",
            "guest.scriptOutput: unknown value\n  got: nowhere\n  expected: serial-port, journal",
        ),
        ("{environment: {A: x, B: yes}}", f"guest.environment.B: wrong type\n  got: bool\n{TEXT}"),
        ("{environment: {A: {B: hush}}}", f"guest.environment.A: wrong type\n  got: dict\n{TEXT}"),
    ],
)
def test_invalid_guest_settings_are_reported_when_the_provider_starts(
    tmp_path: Path, written: str, problem: str
) -> None:
    google = Google(tmp_path, settings=f"guest: {written}\n")
    with pytest.raises(Refused) as refused:
        google.cloud.configure(google.config)
    assert str(refused.value) == f"sandbox.yaml: {problem}"
    google.world.close()


def test_a_startup_script_runs_only_where_the_project_says_that_it_may(tmp_path: Path) -> None:
    google = Google(tmp_path, settings="exists: {gcp: []}\n")
    google.cloud.configure(google.config)
    try:
        api = Api(google)
        template = google.template(**script(f"touch '{tmp_path}/ran'")).id
        status, body = api.call(
            "POST", "zones/us-central1-a/instances", {"name": "check"}, sourceInstanceTemplate=template
        )
        assert status == 400
        assert body["error"]["message"].startswith("the sandbox boots a machine by running its startup script on this")
        assert "add `guest: {}` to sandbox.yaml" in body["error"]["message"]
        assert google.world.find("gcp:compute/instance:Instance") == []
    finally:
        google.cloud.stop()
    assert not (tmp_path / "ran").exists()


def test_a_folder_of_the_guests_path_that_is_not_there_is_refused_when_a_machine_boots(tmp_path: Path) -> None:
    google = Google(tmp_path, settings="guest: {path: [tools/bin]}\n")
    google.cloud.configure(google.config)
    try:
        api, template = Api(google), google.template(**script("true")).id
        where = "zones/us-central1-a/instances"
        status, body = api.call("POST", where, {"name": "check"}, sourceInstanceTemplate=template)
        assert status == 400
        assert body["error"]["message"] == (
            f"sandbox.yaml: guest.path: folder does not exist\n  got: {tmp_path}/project/tools/bin\n"
            "  expected: a folder with the programs of the guest's image\n"
            "  hint: create the folder or remove the entry; a comment in sandbox.yaml may say how"
        )
        (tmp_path / "project" / "tools" / "bin").mkdir(parents=True)
        api.insert(template)
    finally:
        google.cloud.stop()
