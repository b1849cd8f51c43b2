"""The folders of a sandbox and the environment that points the CLI at them."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from pulumi_sandbox import workspace as workspaces
from pulumi_sandbox.workspace import NoProjectError, Workspace, without_proxy


@pytest.fixture(autouse=True)
def no_sandbox_of_the_caller(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("PULUMI_") or workspaces.is_hidden(name):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PULUMI_SANDBOX_ENGINE_DIR", str(tmp_path / "engine"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "a project"
    (folder / "deep" / "inside").mkdir(parents=True)
    (folder / "Pulumi.yaml").write_text("name: p\nruntime: python\n")
    return folder


def test_the_sandbox_is_beside_the_nearest_project_file(project: Path) -> None:
    found = Workspace.find(project / "deep" / "inside")
    assert (found.root, found.project) == (project / ".sandbox", project)
    assert found.settings_file == project / "sandbox.yaml"


def test_an_inner_project_has_a_sandbox_of_its_own(project: Path) -> None:
    (project / "deep" / "Pulumi.yaml").write_text("name: q\nruntime: python\n")
    assert Workspace.find(project / "deep" / "inside").root == project / "deep" / ".sandbox"


def test_the_environment_may_choose_another_folder(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_SANDBOX_DIR", str(project.parent / "elsewhere"))
    found = Workspace.find(project)
    assert (found.root, found.project) == (project.parent / "elsewhere", project)


def test_a_folder_without_a_project_is_refused_with_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(NoProjectError) as caught:
        Workspace.find(tmp_path)
    problem, got, expected, hint = str(caught.value).splitlines()
    assert problem == "pulumi-sandbox: no Pulumi project here"
    assert got == f"  got: {tmp_path}"
    assert expected == "  expected: a Pulumi.yaml in this folder or in one above it"
    assert hint.startswith("  hint: change into the project's folder, name it with --cwd, or set PULUMI_SANDBOX_DIR")


def test_the_compute_port_is_chosen_once_even_when_many_ask_at_the_same_time(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports: list[int] = []
    all_have_one = threading.Barrier(8, timeout=60)
    free = iter(range(20000, 20008))

    def free_port() -> int:
        port = next(free)
        all_have_one.wait()
        return port

    monkeypatch.setattr(workspaces, "free_port", free_port)
    threads = [threading.Thread(target=lambda: ports.append(Workspace.find(project).compute_port)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ports) == 8
    assert set(ports) == {Workspace.find(project).compute_port}
    file = project / ".sandbox" / "ports.json"
    assert json.loads(file.read_text())["compute"] == ports[0]
    assert file.stat().st_mode & 0o777 == 0o600, "the file has the token of the servers"
    assert [path.name for path in (project / ".sandbox").iterdir()] == ["ports.json"]


def test_commands_share_no_port_so_that_none_is_asked_for_the_machine_of_another(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Workspace.find(project)
    ports = iter((20001, 20002, 20003))
    monkeypatch.setattr(workspaces, "free_port", lambda: next(ports))
    first, second = found.child_environment(), found.child_environment()
    for environment, port in ((first, 20001), (second, 20002)):
        assert environment["GOOGLE_COMPUTE_CUSTOM_ENDPOINT"] == f"http://127.0.0.1:{port}/compute/v1/"
        assert environment["GCE_METADATA_HOST"] == f"127.0.0.1:{port}"
    monkeypatch.setenv("GOOGLE_COMPUTE_CUSTOM_ENDPOINT", second["GOOGLE_COMPUTE_CUSTOM_ENDPOINT"])
    assert found.endpoint_port == 20002
    tokens = [each["PULUMI_SANDBOX_TOKEN"] for each in (first, second, found.environment(), found.environment())]
    assert (len(set(tokens)), tokens[2]) == (3, tokens[3]), "plain pulumi has one token for all of its shells"


def test_the_environment_names_the_sandbox_and_nothing_outside_it(project: Path) -> None:
    found = Workspace.find(project)
    port = found.compute_port
    environment = found.environment()
    root = project / ".sandbox"
    assert environment["PULUMI_HOME"] == str(root / "home")
    assert environment["PULUMI_BACKEND_URL"] == f"file://{root}/state?metadata=skip"
    assert environment["PULUMI_SANDBOX_DIR"] == str(root)
    assert environment["PULUMI_CONFIG_PASSPHRASE"] == "sandbox"
    assert environment["GOOGLE_COMPUTE_CUSTOM_ENDPOINT"] == f"http://127.0.0.1:{port}/compute/v1/"
    assert environment["GCE_METADATA_HOST"] == environment["GCE_METADATA_IP"] == f"127.0.0.1:{port}"
    assert Path(environment["KUBECONFIG"]).read_text() == ""
    assert Path(environment["CLOUDSDK_CONFIG"]).is_dir()
    assert environment["PATH"] == os.environ["PATH"]  # no engine of our own yet
    assert (root / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize("name", ["PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"])
def test_the_callers_passphrase_wins(project: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "theirs")
    environment = Workspace.find(project).environment()
    assert "PULUMI_CONFIG_PASSPHRASE" not in environment
    assert Workspace.find(project).child_environment()[name] == "theirs"


# Written out here once more: a name that is lost in the code is missed.
REAL = (
    "AWS_PROFILE", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_OAUTH_ACCESS_TOKEN",
    "GCLOUD_PROJECT", "CLOUDSDK_AUTH_ACCESS_TOKEN", "GCE_METADATA_ROOT", "ARM_CLIENT_SECRET", "AZURE_CLIENT_SECRET",
    "DIGITALOCEAN_TOKEN", "CLOUDFLARE_API_TOKEN", "GITHUB_APP_PEM_FILE", "GITHUB_TOKEN", "GH_TOKEN", "GITHUB_BASE_URL",
    "GITHUB_OWNER", "KUBE_CONFIG_PATH", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "BOTO_CONFIG",
    "PULUMI_ACCESS_TOKEN",
)  # fmt: skip
# The sandbox has these too: the program gets its own.
OURS = (
    "GOOGLE_COMPUTE_CUSTOM_ENDPOINT", "GCE_METADATA_HOST", "GCE_METADATA_IP", "CLOUDSDK_CONFIG", "KUBECONFIG",
    "AWS_EC2_METADATA_DISABLED", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE", "AWS_ENDPOINT_URL",
)  # fmt: skip
HARMLESS = ("GITHUB_ACTIONS", "GITHUB_SHA", "AWSOME", "MY_AWS_PROFILE", "PULUMI_STACK", "KUBECTL_EXTERNAL_DIFF")


@pytest.mark.parametrize("name", REAL)
def test_what_opens_a_real_account_does_not_reach_the_program(
    project: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "theirs")
    found = Workspace.find(project)
    assert found.variables_to_unset() == (name,)
    assert name not in found.child_environment()


@pytest.mark.parametrize("name", OURS)
def test_what_names_a_real_endpoint_names_the_sandboxs_own(
    project: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "theirs")
    monkeypatch.setattr(workspaces, "free_port", lambda: 20001)
    found = Workspace.find(project)
    assert found.variables_to_unset() == ()
    assert found.child_environment()[name] == found.environment()[name] != "theirs"


@pytest.mark.parametrize("name", HARMLESS)
def test_what_opens_nothing_reaches_the_program(project: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "theirs")
    found = Workspace.find(project)
    assert found.variables_to_unset() == ()
    assert found.child_environment()[name] == "theirs"


def test_every_name_and_every_beginning_that_is_hidden_is_asserted_here() -> None:
    expected = {*REAL, *OURS}
    assert set(workspaces.HIDDEN_NAMES) <= expected
    assert [one for one in workspaces.HIDDEN_PREFIXES if not any(name.startswith(one) for name in expected)] == []


def test_the_sandboxs_own_endpoints_are_never_asked_through_a_proxy() -> None:
    assert without_proxy("") == "127.0.0.1"
    assert without_proxy("localhost,.example") == "localhost,.example,127.0.0.1"
    assert without_proxy("127.0.0.1") == "127.0.0.1"
