"""`gpu-ci migrate`: the drafts of five states, every mistake of its input, and values that are secret."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_ci import extras
from gpu_ci.cli.migrate import terraform
from gpu_ci.cli.migrate.terraform import without_sensitive

from tests.gpu_ci.cli.conftest import Ask

STATES = Path(__file__).parent / "states"
NAMES = sorted(path.stem for path in STATES.glob("*.json"))
IMAGE = f"ghcr.io/acme/runner:2.336.0@sha256:{'0' * 64}"
SUBNETWORKS = "projects/acme-ci/regions/us-central1/subnetworks"
MACHINE = {"kind": "gce-runners", "diskType": "pd-ssd"}
NODES = {"kind": "eks-runners"}

POOLS: dict[str, dict[str, dict[str, Any]]] = {
    "google-mig-vm": {
        "gpu-runners": {
            **MACHINE, "machineType": "g2-standard-8", "zones": ["us-central1-a", "us-central1-b"], "market": "spot",
            "max": 6, "diskGib": 100,
        },
    },
    "instance-groups": {
        "t4": {
            **MACHINE, "machineType": "n1-standard-8", "guestAccelerator": {"type": "nvidia-tesla-t4", "count": 2},
            "zones": ["us-central1-a", "us-central1-b"], "market": "standard", "max": 3,
        },
        "a100-big": {
            **MACHINE, "machineType": "a2-highgpu-1g", "zones": ["us-central1-a"], "market": "standard", "diskGib": 100,
        },
    },
    "google-gke": {
        "arc-runners": {
            "kind": "gke-runners", "clusterName": "gh-runner-arc", "machineType": "g2-standard-16",
            "zones": ["us-central1-a", "us-central1-c"], "market": "spot", "max": 8, "diskGib": 200,
            "diskType": "pd-balanced", "runner": {"scaleSetName": "arc-runners-next"},
        },
    },
    "aws-module": {
        "l4": {**NODES, "instanceTypes": ["g6.xlarge", "g6.2xlarge"], "market": "spot", "max": 4},
        "a10g": {**NODES, "instanceTypes": ["g5.2xlarge"], "market": "standard"},
    },
    "helm-eks": {
        "arc-gpu": {
            **NODES, "instanceTypes": ["g5.2xlarge"], "clusterName": "ci", "market": "standard", "max": 3, "minIdle": 1,
            "runner": {"image": IMAGE, "scaleSetName": "arc-gpu-next", "gpus": 1},
        },
    },
}  # fmt: skip

GROUPS: dict[str, dict[str, Any]] = {
    "google-mig-vm": {"groupName": "gpu", "repositories": ["kernels", "models"]},
    "instance-groups": {"groupName": "gpu", "repositories": ["kernels"]},
    "google-gke": {
        "groupName": "gpu",
        "repositories": ["kernels"],
        "selectedWorkflows": ["acme/kernels/.github/workflows/gpu.yml@refs/heads/main"],
    },
    "aws-module": {"groupName": "gpu", "repositories": ["kernels"]},
    "helm-eks": {"groupName": "gpu", "repositories": ["kernels"]},
}


def migrate(ask: Ask, name: str, *more: str) -> dict[str, Any]:
    answer = ask("migrate", str(STATES / f"{name}.json"), *more, "--json")
    assert (answer.code, answer.err) == (0, "")
    return dict(answer.json)


def config(document: dict[str, Any], stack: str = "dev") -> dict[str, Any]:
    return dict(yaml.safe_load(document["files"][f"Pulumi.{stack}.yaml"])["config"])


def changed(tmp_path: Path, name: str, change: Any) -> str:
    """Write a copy of a state after `change` has changed its resources by address; return its path."""
    state = json.loads((STATES / f"{name}.json").read_text())

    def every(module: dict[str, Any]) -> dict[str, Any]:
        found = {each["address"]: each for each in module.get("resources", [])}
        for child in module.get("child_modules", []):
            found |= every(child)
        return found

    change(every(state["values"]["root_module"]))
    path = tmp_path / "state.json"
    path.write_text(json.dumps(state))
    return str(path)


@pytest.mark.parametrize("name", NAMES)
def test_each_state_gives_these_pools(ask: Ask, name: str) -> None:
    assert config(migrate(ask, name))["gpu-ci:pools"] == POOLS[name]


@pytest.mark.parametrize("name", NAMES)
def test_the_runner_group_keeps_its_name_repositories_and_workflows(ask: Ask, name: str) -> None:
    assert config(migrate(ask, name))["gpu-ci:github"] == {"runnerGroup": GROUPS[name]}


@pytest.mark.parametrize("name", NAMES)
def test_only_the_runner_group_is_imported_under_its_component(ask: Ask, name: str) -> None:
    assert json.loads(migrate(ask, name)["files"]["import.json"]) == {
        "resources": [
            {"type": "pulumi:providers:github", "name": "github-acme", "inputs": {"owner": "acme"}},
            {"type": "gpu-ci:github:RunnerGroup", "name": "runners", "component": True},
            {
                "type": "github:index/actionsRunnerGroup:ActionsRunnerGroup",
                "name": "runners-group",
                "id": "GROUP_ID",
                "parent": "runners",
                "provider": "github-acme",
            },
        ]
    }


def test_the_site_has_project_subnetworks_and_the_labels_that_all_templates_share(ask: Ask) -> None:
    found = config(migrate(ask, "instance-groups"))
    assert found["gcp:project"] == "acme-ci"
    assert found["gpu-ci:site"]["subnetworks"] == {"us-central1": f"{SUBNETWORKS}/ci"}
    assert found["gpu-ci:site"]["labels"] == {"team": "platform"}


def test_a_label_that_looks_like_another_type_stays_text(ask: Ask, tmp_path: Path) -> None:
    def change(resources: dict[str, Any]) -> None:
        template = resources["module.gpu_runners.module.mig_template.google_compute_instance_template.tpl"]
        template["values"]["labels"] = {
            "spot": "true",
            "year": "2026",
            "goog-managed": "x",
            "gpu-ci-pool": "x",
            "A": "x",
        }

    document = ask("migrate", changed(tmp_path, "google-mig-vm", change), "--json").json
    assert config(document)["gpu-ci:site"]["labels"] == {"spot": "true", "year": "2026"}
    assert document["problems"] == []


def test_a_cluster_has_the_region_and_the_subnets_of_its_node_groups(ask: Ask) -> None:
    assert config(migrate(ask, "helm-eks"))["gpu-ci:clusters"] == {
        "ci": {
            "region": "us-east-1",
            "subnets": {"us-east-1a": "subnet-0a1b2c3d4e5f60001", "us-east-1b": "subnet-0a1b2c3d4e5f60002"},
        }
    }


GKE_POOL = 'module.runners.module.runner-cluster.google_container_node_pool.pools["runner-pool"]'
GKE_CLUSTER = "module.runners.module.runner-cluster.google_container_cluster.primary"


def test_a_gke_cluster_is_used_and_kept(ask: Ask) -> None:
    document = migrate(ask, "google-gke")
    assert config(document)["gpu-ci:clusters"] == {"gh-runner-arc": {"kind": "gke", "location": "us-central1-a"}}
    assert [each["addresses"] for each in document["left"] if each["replaced_by"].startswith("kept")] == [[GKE_CLUSTER]]
    site = config(document)["gpu-ci:site"]["github"]
    assert sorted(site) == ["app", "owner", "runnerApp"]


@pytest.mark.parametrize(
    ("values", "enforces"),
    [
        ({}, False),
        ({"network_policy": [{"enabled": False}], "datapath_provider": "LEGACY_DATAPATH"}, False),
        ({"network_policy": [{"enabled": True, "provider": "CALICO"}]}, True),
        ({"datapath_provider": "ADVANCED_DATAPATH"}, True),
    ],
)
def test_a_gke_cluster_without_network_policies_is_a_comment(
    ask: Ask, tmp_path: Path, values: dict[str, Any], enforces: bool
) -> None:
    path = changed(tmp_path, "google-gke", lambda resources: resources[GKE_CLUSTER]["values"].update(values))
    text = ask("migrate", path, "--json").json["files"]["Pulumi.dev.yaml"]
    assert ("      # networkPolicies: the cluster enforces none in the state." in text) is not enforces


def test_a_gke_cluster_of_another_project_names_it(ask: Ask) -> None:
    found = config(migrate(ask, "google-gke", "--project", "acme-keys"))
    assert found["gcp:project"] == "acme-keys"
    assert found["gpu-ci:clusters"]["gh-runner-arc"]["project"] == "acme-ci"


DRIVER = {"type": "nvidia-l4", "count": 1}
LINK = "projects/acme-ci/regions/us-central1/subnetworks/gpu"


@pytest.mark.parametrize(
    ("node", "pool", "fields", "notes"),
    [
        ({"spot": False, "flex_start": True, "max_run_duration": "7200s"}, {},
         {"market": "flex-start", "maxRunDurationSec": 7200}, []),
        ({"spot": False, "reservation_affinity": [{"consume_reservation_type": "SPECIFIC_RESERVATION",
          "key": "compute.googleapis.com/reservation-name", "values": ["gpus"]}]},
         {"node_locations": ["us-central1-a"]},
         {"market": "standard", "reservation": "gpus", "zones": ["us-central1-a"], "max": 4}, []),
        ({"spot": False, "machine_type": "a3-ultragpu-8g", "disk_type": "hyperdisk-balanced",
          "guest_accelerator": [{"type": "nvidia-h200-141gb", "count": 8}],
          "reservation_affinity": [{"consume_reservation_type": "SPECIFIC_RESERVATION", "values": ["h200"]}]},
         {"node_locations": ["us-central1-b"]},
         {"market": "reservation", "reservation": "h200", "zones": ["us-central1-b"], "max": 4,
          "machineType": "a3-ultragpu-8g", "diskType": "hyperdisk-balanced"}, []),
        ({"spot": False, "reservation_affinity": [{"consume_reservation_type": "ANY_RESERVATION", "values": []}]}, {},
         {"market": "standard"}, []),
        ({"guest_accelerator": [{**DRIVER, "gpu_driver_installation_config": [{"gpu_driver_version": "LATEST"}]}]}, {},
         {"driver": "LATEST"}, []),
        ({"guest_accelerator": [{**DRIVER, "gpu_driver_installation_config": [
            {"gpu_driver_version": "INSTALLATION_DISABLED"}]}]}, {}, {}, ["driver"]),
        ({"guest_accelerator": [{**DRIVER, "gpu_sharing_config": [{"gpu_sharing_strategy": "MPS"}]}]}, {}, {},
         ["gpu_sharing_config"]),
        ({"image_type": "UBUNTU_CONTAINERD"}, {}, {"imageType": "UBUNTU_CONTAINERD"}, []),
        ({"gcfs_config": [{"enabled": True}], "image_type": "COS_CONTAINERD"}, {}, {"imageStreaming": True}, []),
        ({"ephemeral_storage_local_ssd_config": [{"local_ssd_count": 1}]}, {}, {"localSsdCount": 1}, []),
        ({"service_account": "ci@acme-ci.iam.gserviceaccount.com"}, {}, {}, ["service_account"]),
        ({}, {"network_config": [{"subnetwork": f"https://www.googleapis.com/compute/v1/{LINK}"}]},
         {"subnetwork": LINK}, []),
        ({}, {"autoscaling": [{"total_min_node_count": 1, "total_max_node_count": 6}]}, {"max": 6}, ["min_node_count"]),
        ({}, {"cluster": "projects/acme-ci/locations/us-central1-a/clusters/gh-runner-arc"},
         {"clusterName": "gh-runner-arc"}, []),
    ],
)  # fmt: skip
def test_the_settings_of_a_gke_node_pool_become_fields_or_notes(
    ask: Ask, tmp_path: Path, node: dict[str, Any], pool: dict[str, Any], fields: dict[str, Any], notes: list[str]
) -> None:
    def change(resources: dict[str, Any]) -> None:
        values = resources[GKE_POOL]["values"]
        values |= {**pool, "node_config": [{**values["node_config"][0], **node}]}

    document = ask("migrate", changed(tmp_path, "google-gke", change), "--json").json
    assert config(document)["gpu-ci:pools"]["arc-runners"] == POOLS["google-gke"]["arc-runners"] | fields
    lines = document["files"]["Pulumi.dev.yaml"].partition("gpu-ci:pools:")[2].splitlines()
    names = [line.removeprefix("      # ").partition(":")[0] for line in lines if line.startswith("      # ")]
    assert sorted(set(names) - {"runner.image", "runner.scaleSetName"}) == notes
    assert [each["path"] for each in document["problems"]] == ["gpu-ci:pools.arc-runners.runner.image"]


def test_scale_sets_are_on_the_node_pools_that_they_select(ask: Ask, tmp_path: Path) -> None:
    state = json.loads((STATES / "google-gke.json").read_text())
    module = state["values"]["root_module"]["child_modules"][0]
    nodes = module["child_modules"][0]["resources"]
    first = nodes[1]
    first["values"]["node_config"][0]["labels"] = {"gpu": "l4"}
    cpu = {"machine_type": "e2-standard-4"}
    h100 = {"machine_type": "a3-highgpu-8g", "guest_accelerator": [{"type": "nvidia-h100-80gb", "count": 8}]}
    for name, machine in (("cpu", cpu), ("h100", h100)):
        values = {**first["values"], "name": name, "node_config": [machine]}
        nodes.append({**first, "address": f"google_container_node_pool.{name}", "values": values})
    release = next(each for each in module["resources"] if each["name"] == "arc_runners_set")
    for name, selector in (("l4", {"gpu": "l4"}), ("big", {"cloud.google.com/gke-nodepool": "h100"})):
        text = yaml.safe_dump({"template": {"spec": {"nodeSelector": selector}}})
        values = {**release["values"], "name": name, "values": [text]}
        module["resources"].append({**release, "address": f"helm_release.{name}", "values": values})
    module["resources"].remove(release)
    (tmp_path / "state.json").write_text(json.dumps(state))
    document = ask("migrate", "state.json", "--json").json
    pools = config(document)["gpu-ci:pools"]
    assert {name: (pool["machineType"], pool["max"]) for name, pool in pools.items()} == {
        "l4": ("g2-standard-16", 8),
        "big": ("a3-highgpu-8g", 8),
    }
    assert [(each["name"], bool(each["skipped"])) for each in document["pools"]] == [
        ("l4", False),
        ("cpu", True),
        ("big", False),
    ]
    kept = [each for each in document["left"] if each["replaced_by"].startswith("kept: the draft has no pool")]
    assert [each["addresses"] for each in kept] == [["google_container_node_pool.cpu"]]


def test_a_scale_set_on_a_gke_cluster_without_node_pools_is_a_pool_on_gke(ask: Ask, tmp_path: Path) -> None:
    state = json.loads((STATES / "google-gke.json").read_text())
    del state["values"]["root_module"]["child_modules"][0]["child_modules"][0]["resources"][1]
    (tmp_path / "state.json").write_text(json.dumps(state))
    document = ask("migrate", "state.json", "--project", "acme-ci", "--json").json
    pool = config(document)["gpu-ci:pools"]["arc-runners"]
    assert pool == {"kind": "gke-runners", "max": 8, "runner": {"scaleSetName": "arc-runners-next"}}
    text = document["files"]["Pulumi.dev.yaml"]
    missing = "write it; the state does not have the nodes of the scale set"
    assert [f"      # {name}: {missing}\n" in text for name in ("clusterName", "machineType", "zones")] == [True] * 3


SKIPPED = {
    "instance-groups": {"web": "the catalog has no machine type e2-small with an NVIDIA GPU"},
    "aws-module": {
        "cpu": "the catalog has no machine type m5.large with an NVIDIA GPU; "
        "the catalog has no machine type c5.large with an NVIDIA GPU",
        "secret": "the settings of its function are sensitive, or missing",
    },
    "helm-eks": {"cpu": "the catalog has no machine type m6i.large with an NVIDIA GPU"},
}


@pytest.mark.parametrize("name", SKIPPED)
def test_runners_without_a_gpu_are_comments_with_the_reason(ask: Ask, name: str) -> None:
    document = migrate(ask, name)
    assert {each["name"]: each["skipped"] for each in document["pools"] if each["skipped"]} == SKIPPED[name]
    lines = document["files"]["Pulumi.dev.yaml"].splitlines()
    for pool, reason in SKIPPED[name].items():
        assert f"    # {pool}: not a pool, because {reason}" in lines


COMMENTS = {
    "google-mig-vm": ["zones", "min_replicas", "runnerLabels", "image", "startup-script", "service_account"],
    "instance-groups": ["diskGib", "access_config", "image", "startup-script", "service_account", "max"],
    "google-gke": ["runner.image", "runner.scaleSetName"],
    "aws-module": ["clusterName", "runner.image", "instanceTypes", "runs-on", "subnets", "max"],
    "helm-eks": ["diskGib", "runner.scaleSetName"],
}


@pytest.mark.parametrize("name", NAMES)
def test_each_value_without_a_field_is_a_comment_in_its_pool(ask: Ask, name: str) -> None:
    lines = migrate(ask, name)["files"]["Pulumi.dev.yaml"].partition("gpu-ci:pools:")[2].splitlines()
    names = [line.removeprefix("      # ").partition(":")[0] for line in lines if line.startswith("      # ")]
    assert sorted(set(names)) == sorted(COMMENTS[name])


LEFT = {
    "google-mig-vm": {
        "google_compute_subnetwork": 1, "google_compute_instance_template": 1, "google_compute_region_autoscaler": 1,
        "google_compute_region_instance_group_manager": 1,
    },
    "instance-groups": {
        "google_compute_instance_template": 2, "google_compute_region_instance_group_manager": 1,
        "google_compute_instance_group_manager": 1,
    },
    "google-gke": {"google_container_cluster": 1, "google_container_node_pool": 1, "helm_release": 2},
    "aws-module": {
        "aws_sqs_queue": 1, "aws_launch_template": 4, "aws_lambda_function": 8, "aws_apigatewayv2_api": 1,
        "aws_ssm_parameter": 1,
    },
    "helm-eks": {"aws_eks_node_group": 2, "helm_release": 2},
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_resources_of_the_runners_are_listed_and_no_others(ask: Ask, name: str) -> None:
    """The group `web`, the chart nginx and a function outside the module are not runners."""
    counts: Counter[str] = Counter()
    for each in migrate(ask, name)["left"]:
        counts[each["type"]] += len(each["addresses"])
    assert counts == LEFT[name]


def test_a_node_group_without_gpus_is_kept(ask: Ask) -> None:
    [kept] = [each for each in migrate(ask, "helm-eks")["left"] if each["replaced_by"].startswith("kept")]
    assert (kept["addresses"], kept["delete_when"]) == (["aws_eks_node_group.cpu"], "no pod runs on its nodes")


def test_the_subnetwork_that_the_draft_uses_is_kept(ask: Ask) -> None:
    kept = [each for each in migrate(ask, "google-mig-vm")["left"] if each["replaced_by"].startswith("kept")]
    assert [each["addresses"] for each in kept] == [["module.gpu_runners.google_compute_subnetwork.gh-subnetwork[0]"]]


PROBLEMS = {
    "google-mig-vm": [],
    "instance-groups": ["gpu-ci:pools.a100-big.max"],
    "google-gke": ["gpu-ci:pools.arc-runners.runner.image"],
    "aws-module": [
        "gpu-ci:pools.a10g.clusterName",
        "gpu-ci:pools.a10g.max",
        "gpu-ci:pools.a10g.runner",
        "gpu-ci:pools.l4.clusterName",
        "gpu-ci:pools.l4.runner",
    ],
    "helm-eks": [],
}


@pytest.mark.parametrize("name", NAMES)
def test_only_what_the_state_cannot_answer_is_left_to_write(ask: Ask, name: str) -> None:
    document = migrate(ask, name, "--project", "acme-ci")
    assert [each["path"] for each in document["problems"]] == PROBLEMS[name]


@pytest.mark.parametrize("name", NAMES)
def test_no_sensitive_value_and_no_token_is_in_the_output_or_the_model(ask: Ask, name: str) -> None:
    path = STATES / f"{name}.json"
    planted = ("ghp_planted", "planted-key", "planted-private-key", "planted-client-key")
    texts = [ask("migrate", str(path)).out, ask("migrate", str(path), "--json").out]
    assert [each for each in planted for text in texts if each in text] == []
    kept = terraform.read(path).model_dump_json()
    assert [each for each in planted[1:] if each in kept] == []


@pytest.mark.parametrize(
    ("values", "marks", "kept"),
    [
        ({"a": 1, "b": 2}, {"b": True}, {"a": 1}),
        ({"a": [{"b": 1, "c": 2}]}, {"a": [{"c": True}]}, {"a": [{"b": 1}]}),
        ({"a": [1, 2]}, {"a": [True]}, {"a": [None, 2]}),
        ({"a": {"b": 1}}, {"a": True}, {}),
        ({"a": 1}, True, None),
        ({"a": 1}, None, {"a": 1}),
    ],
)
def test_a_mark_hides_its_value_and_everything_below(values: Any, marks: Any, kept: Any) -> None:
    assert without_sensitive(values, marks) == kept


def test_without_write_nothing_is_written(ask: Ask, tmp_path: Path) -> None:
    assert ask("migrate", str(STATES / "google-mig-vm.json")).code == 0
    assert list(tmp_path.iterdir()) == []


def test_a_draft_has_no_workflow_that_would_deploy_it(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "source", lambda: f"git+https://github.com/example-org/gpu-ci@{'1f' * 20}")
    assert ask("migrate", str(STATES / "google-mig-vm.json"), "--write", "pools").code == 0
    assert "example-org/gpu-ci" in (tmp_path / "pools" / "requirements.txt").read_text()
    assert not (tmp_path / "pools" / ".github").exists()


def test_write_adds_the_program_and_keeps_existing_files(ask: Ask, tmp_path: Path) -> None:
    folder = tmp_path / "pools"
    folder.mkdir()
    (folder / "__main__.py").write_text("mine\n")
    assert ask("migrate", str(STATES / "google-mig-vm.json"), "--stack", "prod", "--write", str(folder)).code == 0
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) == [
        ".gitignore",
        "Pulumi.prod.yaml",
        "Pulumi.yaml",
        "__main__.py",
        "import.json",
        "plugin/PulumiPlugin.yaml",
        "plugin/__main__.py",
        "requirements.txt",
        "sandbox.yaml",
    ]
    assert (folder / "__main__.py").read_text() == "mine\n"


@pytest.mark.parametrize("name", ["Pulumi.dev.yaml", "import.json"])
def test_an_existing_draft_is_never_changed(ask: Ask, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine\n")
    answer = ask("migrate", str(STATES / "google-mig-vm.json"), "--write", ".")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"{name}: exists, and migrate never changes a file\n")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine\n"


def test_equal_names_get_numbers(ask: Ask, tmp_path: Path) -> None:
    def change(resources: dict[str, Any]) -> None:
        resources["helm_release.nginx"]["values"] |= {"chart": "gha-runner-scale-set", "name": "arc-gpu"}

    document = ask("migrate", changed(tmp_path, "helm-eks", change), "--json").json
    assert [each["name"] for each in document["pools"] if not each["skipped"]] == ["arc-gpu"]
    resources = json.loads((tmp_path / "state.json").read_text())["values"]["root_module"]["resources"]
    kept = [each for each in resources if each["type"] != "aws_eks_node_group"]
    state = {"format_version": "1.0", "values": {"root_module": {"resources": kept}}}
    (tmp_path / "state.json").write_text(json.dumps(state))
    document = ask("migrate", "state.json", "--json").json
    assert [each["name"] for each in document["pools"]] == ["arc-gpu", "arc-gpu-2"]


def test_without_an_organization_the_next_steps_name_the_group_that_is_left_out(ask: Ask, tmp_path: Path) -> None:
    def change(resources: dict[str, Any]) -> None:
        resources["data.github_repository.kernels"]["values"]["full_name"] = ""

    state = changed(tmp_path, "instance-groups", change)
    step = (
        "gpu-ci migrate again with --organization   (without it, the runner group gpu is left out, and no job can "
        "reach the pools)"
    )
    assert step in ask("migrate", state).out
    assert step not in ask("migrate", state, "--organization", "acme").out


def test_a_group_open_to_all_repositories_is_not_copied_as_open(ask: Ask, tmp_path: Path) -> None:
    def change(resources: dict[str, Any]) -> None:
        resources["github_actions_runner_group.gpu"]["values"] |= {"visibility": "all"}

    document = ask("migrate", changed(tmp_path, "helm-eks", change), "--json").json
    assert config(document)["gpu-ci:github"]["runnerGroup"] == {"groupName": "gpu"}
    assert (
        "# repositories: the old group is open to all repositories; name them" in document["files"]["Pulumi.dev.yaml"]
    )
    assert "gpu-ci:github.runnerGroup.repositories" in [each["path"] for each in document["problems"]]


def test_text_of_the_state_cannot_leave_its_comment(ask: Ask, tmp_path: Path) -> None:
    def change(resources: dict[str, Any]) -> None:
        variables = resources['module.runners.module.runners["l4"].aws_lambda_function.scale_up']["values"]
        variables["environment"][0]["variables"]["RUNNER_LABELS"] = "gpu\n    injected: {kind: gce-runners}"

    document = ask("migrate", changed(tmp_path, "aws-module", change), "--json").json
    assert sorted(config(document)["gpu-ci:pools"]) == ["a10g", "l4"]


GOOD = json.loads((STATES / "google-mig-vm.json").read_text())
ONE = {"address": "aws_vpc.a", "mode": "managed", "type": "aws_vpc", "name": "a", "values": {}}
HINT = "terraform show -json > state.json"


def state(*resources: Any, **more: Any) -> str:
    return json.dumps({"format_version": "1.0", "values": {"root_module": {"resources": list(resources)}}, **more})


MISTAKES: dict[str, tuple[str | bytes, str]] = {
    "empty file": ("", "state.json: is not JSON"),
    "text": ("Terraform v1.9", "state.json: is not JSON"),
    "not UTF-8": (b"\xff\xfe{}", "state.json: is not text"),
    "a list": ("[]", "state.json: is not a state\n  got: JSON that is not an object"),
    "a plan": (state(ONE, planned_values={}), "state.json: is not a state\n  got: a plan"),
    "a plan's changes": (state(ONE, resource_changes=[]), "state.json: is not a state\n  got: a plan"),
    "tfstate": ('{"version": 4, "lineage": "a", "resources": []}', "got: a state file of Terraform"),
    "tfstate of version 3": (
        '{"version": 3, "modules": [{"path": ["root"], "resources": {"a.b": {"primary": {"token": "planted"}}}}]}',
        "state.json: is not a state\n  got: a state file of Terraform 0.11 or older",
    ),
    "provider schemas": ('{"format_version": "1.0", "provider_schemas": {}}', "got: the output of terraform providers"),
    "a stack of Pulumi": ('{"version": 3, "deployment": {}}', "got: an exported stack of Pulumi"),
    "no version": ('{"values": {}}', "state.json: format_version: field required"),
    "version is a number": ('{"format_version": 1.0}', "state.json: format_version: input should be a valid string"),
    "major 2": ('{"format_version": "2.0"}', "format_version: is another version of the format\n  got: '2.0'"),
    "major 0": ('{"format_version": "0.1"}', "format_version: is another version of the format\n  got: '0.1'"),
    "no values": ('{"format_version": "1.0"}', "state.json: has no resources"),
    "no resources": (state(), "state.json: has no resources"),
    "no runners": (state(ONE), "state.json: has no runners that this command recognizes"),
    "no type": (state({"address": "a.b", "mode": "managed", "name": "b"}), "resources[0].type: field required"),
    "values are text": (state({**ONE, "values": "ghp_plantedPlantedPlanted"}), "resources[0].values: input should be"),
    "a resource is text": (state("ghp_plantedPlantedPlanted"), "values.root_module.resources[0]: input should be"),
    "deep": ('{"a":' * 100_000, "state.json: is nested too deeply"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_each_mistake_is_one_report_without_values(ask: Ask, tmp_path: Path, name: str) -> None:
    text, problem = MISTAKES[name]
    (tmp_path / "state.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    answer = ask("migrate", "state.json", "--write", "pools")
    assert (answer.code, answer.out, (tmp_path / "pools").exists()) == (2, "", False)
    assert problem in answer.err
    assert "planted" not in answer.err
    assert "Traceback" not in answer.err


WORDS = {
    ("missing.json",): "missing.json: no such file",
    (".",): ".: cannot be read",
    (str(STATES / "helm-eks.json"), "--stack", "a/b"): "--stack 'a/b' is not a name that Pulumi accepts",
    (str(STATES / "helm-eks.json"), "--write", "file"): "file/Pulumi.dev.yaml: cannot be written",
}


@pytest.mark.parametrize(("words", "problem"), WORDS.items())
def test_each_mistake_of_the_command_line_is_one_report(
    ask: Ask, tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    (tmp_path / "file").write_text("a file where the folder would be\n")
    answer = ask("migrate", *words)
    assert (answer.code, answer.out) == (2, "")
    assert problem in answer.err
