"""What the documents say is true: paths and targets exist, YAML blocks are accepted, generated pages are fresh."""

from __future__ import annotations

import importlib
import json
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_ci import versions
from gpu_ci.cli.commands import gpu_ci
from gpu_ci.cli.main import run
from gpu_ci.program.stack_file import StackFileError
from pulumi_sandbox.cli.own_commands import commands

from tests.gpu_ci.harness import deploy
from tests.gpu_ci.program.stack import L4, ON_CLUSTER, config, load
from tests.gpu_ci.support import CALLS, COMPONENTS, COMPUTED
from tools.docs import diagrams
from tools.docs.diagrams import mark
from tools.docs.generate import pages

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])

FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]+)?\)")
FOLDERS = sorted(path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith("."))
TOP_FILES = r"(?:Pulumi|sandbox|requirements|pyproject|Makefile|README|CONTRIBUTING|CHANGELOG|LICENSE)"
# Files that the reader creates: of docs/start/deploy.md, of new projects, and of the examples in the commands' help.
CREATED_BY_THE_READER = {"Pulumi.acme-ci.yaml", "Pulumi.dev.yaml", "tests/cpu/", "tests/gpu/"}
A_PATH = re.compile(rf"(?:(?:{'|'.join(FOLDERS)})/[\w./-]*|{TOP_FILES}[\w.-]*\.(?:yaml|lock|toml|md)|Makefile)")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def text_of(file: Path) -> str:
    """The text of a page. Of the changelog, only what is true of this revision: no release, and nothing removed."""
    unreleased = re.split(r"^## \[\d", file.read_text(), maxsplit=1, flags=re.MULTILINE)[0]
    return re.sub(r"^### Removed\n.*?(?=^### |\Z)", "", unreleased, flags=re.MULTILINE | re.DOTALL)


@cache
def fences(page: Path) -> list[tuple[str, str]]:
    """The page's code blocks: language and text, without the indentation they stand in."""
    return [
        (language, "".join(line.removeprefix(indent) for line in text.splitlines(keepends=True)))
        for indent, language, text in FENCE.findall(text_of(page))
    ]


@cache
def code(page: Path) -> list[str]:
    """Everything the page sets as code, in a line or as a line of a block. A continued line is one line."""
    prose = FENCE.sub("", text_of(page))
    blocks = [re.sub(r"\\\n\s*", "", text) for _, text in fences(page)]
    return CODE.findall(prose) + [line.strip() for text in blocks for line in text.splitlines()]


def test_every_path_the_pages_name_exists() -> None:
    missing = [
        f"{name(page)}: {word}"
        for page in PAGES
        for text in code(page)
        for word in (each.rstrip(".,:;") for each in text.split())
        if A_PATH.fullmatch(word) and word not in CREATED_BY_THE_READER and not (ROOT / word).exists()
    ]
    assert missing == []
    assert {"README.md", "docs/operate/undo.md", "docs/adr/README.md"} <= {name(page) for page in PAGES}


def test_every_link_of_the_pages_leads_somewhere() -> None:
    dead = []
    for page in PAGES:
        for target, anchor in LINK.findall(FENCE.sub("", text_of(page))):
            if target.startswith(("http:", "https:")):
                continue
            file = (page.parent / target).resolve()
            if not file.exists() or (anchor and anchor[1:] not in anchors(file)):
                dead.append(f"{name(page)}: {target}{anchor}")
    assert dead == []


@cache
def anchors(file: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", text_of(file), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_every_make_target_the_pages_name_exists() -> None:
    targets = re.findall(r"^([a-z-]+):", text_of(ROOT / "Makefile"), re.MULTILINE)
    # `make -C FOLDER` is that of a checkout of ours elsewhere.
    commands = [(name(page), re.sub(r"^make -C \S+ ", "make ", text).split()) for page in PAGES for text in code(page)]
    unknown = [
        f"{page}: make {words[1]}"
        for page, words in commands
        if words[:1] == ["make"] and len(words) > 1 and words[1] not in targets
    ]
    assert unknown == []


def test_every_extension_point_exists() -> None:
    objects = re.findall(r"^\|[^|]*\| `([\w.]+)(?::(\w+))?` \|", text_of(ROOT / "CONTRIBUTING.md"), re.MULTILINE)
    assert len(objects) > 10
    found = [(module, name, importlib.import_module(module)) for module, name in objects]
    assert [(module, name) for module, name, loaded in found if name and not hasattr(loaded, name)] == []


@pytest.mark.parametrize(("program", "root"), [("pulumi-sandbox", commands), ("gpu-ci", gpu_ci)])
def test_every_command_of_ours_the_pages_name_exists_with_its_options(program: str, root: Any) -> None:
    wrong = []
    for page in PAGES:
        for text in code(page):
            line = text.removeprefix("$ ").split("   ")[0]
            words = shlex.split(line, comments=True) if line.startswith(f"{program} ") else []
            # pulumi-sandbox hands every other command on to pulumi.
            if words[1:2] and (program == "gpu-ci" or words[1] in commands.list_commands(None)):  # type: ignore[arg-type]
                own = words[1 : words.index("--") if "--" in words else None]
                wrong += [f"{name(page)}: {word}" for word in unknown_words(root, own)]
    assert wrong == []


def unknown_words(found: Any, words: list[str]) -> list[str]:
    """The first word that is no command, and every option that is none of the command's."""
    for at, word in enumerate(words):
        if word.startswith("-") and hasattr(found, "get_command"):
            found = found.get_command(None, "list")  # `gpu-ci catalog --gpu l4` lists
        if word.endswith(".yaml") and hasattr(found, "get_command"):
            found = found.get_command(None, "plan")  # `gpu-ci cost Pulumi.prod.yaml` plans
        if not hasattr(found, "get_command"):
            options = {name for parameter in found.params for name in parameter.opts}
            return [word for word in words[at:] if word.startswith("-") and word not in options]
        found = found.get_command(None, word)
        if found is None:
            return [" ".join(words[: at + 1])]
    return []


def test_every_pool_the_pages_show_is_accepted() -> None:
    refused = []
    for page in PAGES:
        for language, text in fences(page):
            document = yaml.safe_load(text) if language == "yaml" else []
            others = {"options", "plugins", "resources", "runtime", "spec", "steps"}
            if isinstance(document, list) or others & set(document):
                continue  # a build, a program, or an object of Kubernetes
            example = document["config"]
            pools = example.get("gpu-ci:pools", {"l4": L4})
            entries = [*pools.values(), *example.get("gpu-ci:images", {}).values()]
            on_cluster = any("clusterName" in entry for entry in entries)
            values = config(pools) | (ON_CLUSTER if on_cluster else {})
            if any(entry.get("kind") == "gke-runners" for entry in entries):
                values["gpu-ci:clusters"] = {"ci": {"kind": "gke", "location": "us-central1"}}
            values |= {key: value for key, value in example.items() if key != "gpu-ci:pools"}
            site = config()["gpu-ci:site"]
            if "networks" in values["gpu-ci:site"]:
                del site["subnetworks"]  # a region has one or the other
            values["gpu-ci:site"] = site | values["gpu-ci:site"]
            try:
                load(values)
            except StackFileError as error:
                refused.append(f"{name(page)}: {error}")
    assert refused == []


def test_the_programs_of_the_kubernetes_pages_make_what_they_say() -> None:
    guides = (ROOT / "docs/guides" / name for name in ("kubernetes.md", "check-several-nodes.md"))
    program, check = (text for page in guides for language, text in fences(page) if language == "python")
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


def test_the_python_program_of_the_github_page_builds_what_it_says() -> None:
    program, lookup = [text for language, text in fences(ROOT / "docs/guides/github.md") if language == "python"]
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
    compile(lookup, "docs/guides/github.md", "exec")


def test_the_python_program_of_the_google_cloud_page_waits_for_the_network_and_for_the_verdict() -> None:
    [program] = [
        text for language, text in fences(ROOT / "docs/guides/gpu-machine-in-python.md") if language == "python"
    ]
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
    check_sec = json.loads(rows["notebook-template"].inputs["metadata"]["gpu-agent-config"])["check_sec"]
    assert (check_sec, rows["notebook-gate"].inputs["deadlineSec"]) == (840, 900)


def test_the_python_program_of_the_aws_page_makes_nodes_where_every_type_is_offered() -> None:
    program, pre_pull = (
        text for language, text in fences(ROOT / "docs/guides/eks-node-groups.md") if language == "python"
    )
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
    assert len([row for row in made.rows if row.request.custom]) == 15
    pulled = deploy(lambda: exec(pre_pull, {}), computed=COMPUTED).one(":DaemonSet").inputs  # noqa: S102
    spec = pulled["spec"]["template"]["spec"]
    assert spec["nodeSelector"].items() <= nodes["labels"].items()
    assert [each["image"] for each in spec["initContainers"]] == [f"ghcr.io/acme/tests@sha256:{'2' * 64}"]


def test_the_python_program_of_the_gke_page_follows_the_cluster_that_it_looks_up() -> None:
    [program] = [text for language, text in fences(ROOT / "docs/guides/gke-node-pools.md") if language == "python"]
    cluster = {"masterVersion": "1.33.5-gke.1080000", "enableAutopilot": False, "workloadIdentityConfigs": []}
    made = deploy(
        lambda: exec(program, {}),  # noqa: S102 - our own page
        computed=COMPUTED,
        calls={"gcp:container/getCluster:getCluster": lambda _: cluster},
    )
    nodes = made.one(":NodePool").inputs
    assert (nodes["cluster"], nodes["upgradeSettings"]["strategy"]) == ("ci", "SURGE")
    assert nodes["nodeConfig"]["workloadMetadataConfig"] == {"mode": "GCE_METADATA"}
    assert made.one(":RepositoryIamMember").inputs["member"] == "serviceAccount:gpu-l4@p.iam.gserviceaccount.com"


def test_the_generated_pages_are_fresh() -> None:
    stale = [name for name, text in pages().items() if (ROOT / "docs" / name).read_text() != text]
    assert stale == [], "run: make docs"


def test_every_diagram_is_drawn_from_its_present_source() -> None:
    stale = [path.name for path in diagrams.sources() if mark(path) not in path.with_suffix(".svg").read_text()]
    assert stale == [], "run: make diagrams"
    assert len(diagrams.sources()) > 0


def test_the_error_that_add_a_pool_shows_is_the_real_one() -> None:
    page = ROOT / "docs/start/add-a-pool.md"
    [block] = [text for _, text in fences(page) if text.startswith("Pulumi.staging.yaml: ")]
    pool = {"kind": "gce-runners", "machineType": "n1-standard-8", "zones": ["us-central1-a"], "max": 2}
    with pytest.raises(Exception, match="guestAccelerator") as caught:
        load(config({"t4-big": pool}))
    assert block in f"{caught.value}\n"


def test_what_the_catalogs_page_shows_of_a_terminal_is_what_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    consoles = [text for language, text in fences(ROOT / "docs/guides/catalog.md") if language == "console"]
    assert len(consoles) == 2
    for text in consoles:
        command, _, printed = text.partition("\n")
        run(shlex.split(command)[2:])
        assert capsys.readouterr().out == printed


def test_the_upgrade_page_names_the_versions_that_are_pinned() -> None:
    page = text_of(ROOT / "docs/operate/upgrade.md")
    now = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|", page, re.MULTILINE))
    day = versions.GCE_IMAGE.rpartition("-v")[2]
    assert now["torch"] == versions.TORCH
    assert now["GitHub's runner on Compute Engine"] == versions.RUNNER
    assert now["charts of ARC"] == versions.ARC_CHARTS
    assert f"image of {day[:4]}-{day[4:6]}-{day[6:]}" in now["image of Compute Engine with the driver"]


def keys_and_comments(file: str) -> tuple[set[str], set[str]]:
    """The keys below a stack file's pools, and those of them that have a comment above them somewhere."""
    lines = (ROOT / file).read_text().partition("  gpu-ci:pools:\n")[2].partition("\n  gpu-ci:")[0].splitlines()
    keys, explained = set(), set()
    for before, line in zip(["", *lines], lines, strict=False):
        if found := re.match(r" {4,8}([\w-]+):", line):
            keys.add(found[1])
            explained |= {found[1]} if before.strip().startswith("#") else set()
    return keys, explained


def test_every_key_of_the_shipped_pools_is_explained() -> None:
    keys, explained = keys_and_comments("Pulumi.staging.yaml")
    assert keys >= {"l4", "t4", "builds", "kind", "machineType", "zones", "market", "max", "smoke"}
    assert keys - explained == {"deadlineSec", "onNoCapacity", "guestAccelerator"}
    prod_keys, prod_explained = keys_and_comments("Pulumi.prod.yaml")
    assert prod_keys >= {"l4", "t4", "a100", "h100", "diskGib", "runnerLabels"}
    assert prod_keys - prod_explained - keys == {"type", "count", "diskType"}, "explained a line above"
