"""What the documents say is true: paths and targets exist, YAML blocks are accepted, generated pages are fresh."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml
from gpu_ci.cli.commands import gpu_ci
from gpu_ci.cli.main import run
from pulumi_sandbox.cli.own_commands import commands

from tests.gpu_ci.harness import deploy
from tests.gpu_ci.support import CALLS, COMPONENTS, COMPUTED
from tests.infra.stack import L4, ON_CLUSTER, config, load
from tools.docs.generate import pages

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
every_page = pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])

FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]+)?\)")
FOLDERS = sorted(path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith("."))
TOP_FILES = r"(?:Pulumi|sandbox|requirements|pyproject|Makefile|README|CONTRIBUTING|CHANGELOG|LICENSE)"
A_PATH = re.compile(rf"(?:(?:{'|'.join(FOLDERS)})/[\w./-]*|{TOP_FILES}[\w.-]*\.(?:yaml|lock|toml|md)|Makefile)")


def fences(page: Path) -> list[tuple[str, str]]:
    """The page's code blocks: language and text, without the indentation they stand in."""
    return [
        (language, "".join(line.removeprefix(indent) for line in text.splitlines(keepends=True)))
        for indent, language, text in FENCE.findall(page.read_text())
    ]


def code(page: Path) -> list[str]:
    """Everything the page sets as code, in a line or as a line of a block."""
    prose = FENCE.sub("", page.read_text())
    return CODE.findall(prose) + [line.strip() for _, text in fences(page) for line in text.splitlines()]


def targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text()
    return set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))


def test_there_are_pages_to_check() -> None:
    names = {str(page.relative_to(ROOT)) for page in PAGES}
    assert names >= {
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "docs/add-a-pool.md",
        "docs/undo.md",
        "docs/sandbox.md",
    }


@every_page
def test_every_path_a_page_names_exists(page: Path) -> None:
    words = [word.rstrip(".,:;") for text in code(page) for word in text.split()]
    missing = [word for word in words if A_PATH.fullmatch(word) and not (ROOT / word).exists()]
    assert missing == []


@every_page
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    dead = []
    for target, anchor in LINK.findall(FENCE.sub("", page.read_text())):
        if target.startswith(("http:", "https:")):
            continue
        file = (page.parent / target).resolve()
        if not file.exists() or (anchor and anchor[1:] not in anchors(file)):
            dead.append(target + anchor)
    assert dead == []


def anchors(file: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", file.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@every_page
def test_every_make_target_a_page_names_exists(page: Path) -> None:
    # `make -C FOLDER` is that of a checkout of ours elsewhere.
    commands = (re.sub(r"^make -C \S+ ", "make ", text).split() for text in code(page))
    named = {words[1] for words in commands if words[:1] == ["make"] and len(words) > 1}
    assert named - targets() == set()


PROGRAMS: dict[str, Any] = {"pulumi-sandbox": commands, "gpu-ci": gpu_ci}


@every_page
@pytest.mark.parametrize("program", PROGRAMS)
def test_every_command_of_ours_a_page_names_exists_with_its_options(page: Path, program: str) -> None:
    wrong = []
    for text in code(page):
        line = text.removeprefix("$ ").split("   ")[0]
        words = shlex.split(line, comments=True) if line.startswith(f"{program} ") else []
        # pulumi-sandbox hands every other command on to pulumi.
        if words[1:2] and (program == "gpu-ci" or words[1] in commands.list_commands(None)):  # type: ignore[arg-type]
            wrong += unknown_words(PROGRAMS[program], words[1:])
    assert wrong == []


def unknown_words(found: Any, words: list[str]) -> list[str]:
    """The first word that is no command, and every option that is none of the command's."""
    for at, word in enumerate(words):
        if word.startswith("-") and hasattr(found, "get_command"):
            found = found.get_command(None, "list")  # `gpu-ci catalog --gpu l4` lists
        if not hasattr(found, "get_command"):
            options = {name for parameter in found.params for name in parameter.opts}
            return [word for word in words[at:] if word.startswith("-") and word not in options]
        found = found.get_command(None, word)
        if found is None:
            return [" ".join(words[: at + 1])]
    return []


@every_page
def test_every_pool_a_page_shows_is_accepted(page: Path) -> None:
    for language, text in fences(page):
        if language != "yaml" or "runtime" in yaml.safe_load(text):
            continue
        shown = yaml.safe_load(text)["config"]
        pools = shown.get("gpu-ci:pools", {"l4": L4})
        on_cluster = any("clusterName" in pool for pool in pools.values())
        values = config(pools) | (ON_CLUSTER if on_cluster else {})
        values |= {key: value for key, value in shown.items() if key != "gpu-ci:pools"}
        values["gpu-ci:site"] = config()["gpu-ci:site"] | values["gpu-ci:site"]
        load(values)


def test_the_program_of_the_kubernetes_page_makes_what_it_says() -> None:
    program, check = (text for language, text in fences(ROOT / "docs/kubernetes.md") if language == "python")
    secrets = {
        "project:kubeconfig": "{}",
        "project:appId": "1234567",
        "project:appInstallationId": "7654321",
        "project:appPrivateKey": "-----BEGIN RSA PRIVATE KEY-----",
    }
    made = deploy(lambda: exec(program, {}), computed=COMPUTED, config=secrets, secrets=secrets)  # noqa: S102
    tops = {row.name: row.type for row in made.rows if row.parent_name == "project-stack" and row.type in COMPONENTS}
    assert tops == {
        "nvdp": "gpu-ci:kubernetes:DevicePlugin",
        "gpu-ci": "gpu-ci:kubernetes:GpuNamespace",
        "arc": "gpu-ci:kubernetes:ArcController",
        "gpu-l4": "gpu-ci:kubernetes:RunnerScaleSet",
    }
    passed = {**COMPUTED, "kubernetes:batch/v1:Job": {"status": {"succeeded": 4}}}
    made = deploy(lambda: exec(check, {}), computed=passed)  # noqa: S102
    assert made.one(":Job").inputs["spec"]["parallelism"] == 4


def test_the_yaml_program_of_the_github_page_is_accepted() -> None:
    shown_files = [yaml.safe_load(text) for language, text in fences(ROOT / "docs/github.md") if language == "yaml"]
    [shown] = [file["resources"] for file in shown_files if "resources" in file]
    assert [each["type"] for each in shown.values()] == [
        f"gpu-ci:github:{name}" for name in ("RunnerGroup", "ActionsSecrets", "RepositoryRules")
    ]

    def build() -> None:
        for name, each in shown.items():
            given = each["properties"]
            for secret in given.get("secrets", {}):
                given["secrets"][secret] = pulumi.Output.secret("x")
            component = COMPONENTS[each["type"]]
            component(name, component.ARGS(**given))

    assert len(deploy(build, computed=COMPUTED, calls=CALLS).rows) == 7


def test_the_python_program_of_the_github_page_builds_the_same() -> None:
    program, lookup = [text for language, text in fences(ROOT / "docs/github.md") if language == "python"]
    config = {"project:deployToken": "x"}
    made = deploy(
        lambda: exec(program, {}),  # noqa: S102 - our own page
        computed=COMPUTED,
        calls=CALLS,
        config=config,
        secrets=config,
    )
    assert sorted(row.name for row in made.rows if row.request.custom) == [
        "gpu-l4-group",
        "web-rules-ruleset",
        "web-secret-DEPLOY_TOKEN",
        "web-variable-INSTANCE_NAME",
    ]
    compile(lookup, "docs/github.md", "exec")


def test_the_python_program_of_the_google_cloud_page_waits_for_the_network_and_for_the_verdict() -> None:
    [program] = [text for language, text in fences(ROOT / "docs/gcp.md") if language == "python"]
    # A preview, as the ids the recorder makes up are no paths of subnetworks.
    made = deploy(lambda: exec(program, {}), preview=True)  # noqa: S102 - our own page
    rows = {row.name: row for row in made.rows if row.request.custom}
    waits = {
        (name, key): {urn.rpartition("::")[2] for urn in rows[name].request.propertyDependencies[key].urns}
        for name, key in (
            ("notebook-template", "networkInterfaces"),
            ("notebook-gate", "template"),
            ("notebook", "sourceInstanceTemplate"),
        )
    }
    assert waits == {
        ("notebook-template", "networkInterfaces"): {"ci-subnetwork", "ci-nat", "ci-deny", "ci-iap-ssh"},
        ("notebook-gate", "template"): {"notebook-template"},
        ("notebook", "sourceInstanceTemplate"): {"notebook-gate"},
    }
    assert len(rows) == 10
    told = json.loads(rows["notebook-template"].inputs["metadata"]["gpu-agent-config"])["check_sec"]
    assert (told, rows["notebook-gate"].inputs["deadlineSec"]) == (840, 900)


def test_the_python_program_of_the_aws_page_makes_nodes_where_every_type_is_offered() -> None:
    [program] = [text for language, text in fences(ROOT / "docs/aws.md") if language == "python"]
    calls = {
        "aws:eks/getCluster:getCluster": lambda asked: {"name": asked["name"], "version": "1.35"},
        "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings": lambda asked: {
            "locations": ["us-east-1a", "us-east-1b"] if asked["locationType"] == "availability-zone" else []
        },
    }
    made = deploy(lambda: exec(program, {}), computed=COMPUTED, calls=calls)  # noqa: S102 - our own page
    nodes = made.one(":NodeGroup").inputs
    assert (nodes["clusterName"], nodes["version"], nodes["capacityType"]) == ("ci", "1.35", "SPOT")
    assert nodes["subnetIds"] == ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]
    assert len([row for row in made.rows if row.request.custom]) == 13


@pytest.mark.parametrize("name", pages())
def test_the_generated_pages_are_fresh(name: str) -> None:
    assert (ROOT / "docs" / name).read_text() == pages()[name], f"docs/{name} is stale; run: make docs"


def test_the_error_that_add_a_pool_shows_is_the_real_one() -> None:
    [block] = [text for _, text in fences(ROOT / "docs/add-a-pool.md") if text.startswith("Pulumi.staging.yaml: ")]
    pool = {"kind": "gce-runners", "machineType": "n1-standard-8", "zones": ["us-central1-a"], "max": 2}
    with pytest.raises(Exception, match="guestAccelerator") as caught:
        load(config({"t4": pool}))
    assert block in f"{caught.value}\n"


def test_what_the_catalogs_page_shows_of_a_terminal_is_what_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    shown = [text for language, text in fences(ROOT / "docs/catalog.md") if language == "console"]
    assert len(shown) == 3
    for text in shown:
        command, _, printed = text.partition("\n")
        run(shlex.split(command)[2:])
        assert capsys.readouterr().out == printed


def test_the_licence_is_the_one_the_package_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / "LICENSE").read_text()
    assert project["license"] == "Apache-2.0"
    assert "Apache License\n                           Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_changelog_begins_with_what_is_not_released_and_says_what_would_be_replaced() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    first, *_ = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert first == "[Unreleased]"
    assert "### Replaces" in text.split("\n## ")[1]


def explained(file: str) -> tuple[set[str], set[str]]:
    """The keys below a stack file's pools, and those of them that have a comment above them somewhere."""
    lines = (ROOT / file).read_text().partition("  gpu-ci:pools:\n")[2].partition("\n  gpu-ci:")[0].splitlines()
    keys, told = set(), set()
    for before, line in zip(["", *lines], lines, strict=False):
        if found := re.match(r" {4,8}([\w-]+):", line):
            keys.add(found[1])
            told |= {found[1]} if before.strip().startswith("#") else set()
    return keys, told


def test_every_key_of_the_shipped_pools_is_explained() -> None:
    keys, told = explained("Pulumi.staging.yaml")
    assert keys >= {"l4", "t4", "builds", "kind", "machineType", "zones", "market", "max", "smoke"}
    assert keys - told == {"deadlineSec", "onNoCapacity", "guestAccelerator"}
    prod_keys, prod_told = explained("Pulumi.prod.yaml")
    assert prod_keys >= {"l4", "t4", "a100", "h100", "diskGib", "runnerLabels"}
    assert prod_keys - prod_told - keys == {"type", "count", "diskType"}, "explained a line above"
