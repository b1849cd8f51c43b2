"""Pools on rented hosts: what the runner manager reads about them and in the mailbox, and its permissions."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from gpu_agent.config import parse
from gpu_ci import payload
from gpu_ci.errors import ArgsError
from gpu_ci.kinds.rented.args import RentedRunnerPoolArgs
from gpu_ci.machines.runner import RunnerGithub
from gpu_ci.mailbox.boot import Definition
from gpu_manager.suppliers.jarvislabs.pool import JarvisPool
from pydantic import TypeAdapter

from tests.gpu_ci.harness import Deployment
from tests.gpu_ci.program.stack import config, refused, site
from tests.gpu_ci.program.test_github_apps import GROUP
from tests.gpu_ci.program.test_manager import MANAGER
from tests.gpu_ci.program.test_program import STACK, run

OBJECT, S3_OBJECT = "gcp:storage/bucketObject:BucketObject", "aws:s3/bucketObjectv2:BucketObjectv2"
SECRETS = {"apiKey": "projects/example-ci/secrets/jarvis", "sshKey": "projects/other/secrets/jarvis-ssh"}
POOL: dict[str, Any] = {
    "kind": "rented-runners",
    "vendor": "jarvislabs",
    "account": "user-17",
    "machineType": "1xH100",
    "zones": ["IN2", "IN1"],
    "max": 2,
    "mailboxRegion": "us-central1",
    **SECRETS,
}
MANAGED = {"gpu-ci:manager": {"image": f"europe-docker.pkg.dev/p/i/manager@sha256:{'0' * 64}", "region": "us-central1"}}


def stack(**pools: dict[str, Any]) -> dict[str, Any]:
    return config(pools, **site(github={"owner": "acme", "managerApp": MANAGER})) | {"gpu-ci:github": GROUP}


def entry(deployment: Deployment) -> JarvisPool:
    """Return the only pool of the stack's output `manager`, as the runner manager reads it."""
    [found] = deployment.outputs[STACK]["manager"]["pools"]
    assert found.pop("supplier") == "jarvislabs"
    read: JarvisPool = TypeAdapter(JarvisPool).validate_json(json.dumps(found))
    return read


def text(inputs: dict[str, Any]) -> str:
    return str(inputs["source"]["text"])


def test_the_manager_reads_the_entry() -> None:
    limits = {"maxRunDurationSec": 7200, "maxUsdPerDay": 50, "priceCeilingUsd": 3, "standby": {"stoppedSize": 1}}
    found = entry(run(stack(h100={**POOL, **limits, "storageGb": 200, "ladder": [{"machineType": "1xH200"}]})))
    assert (found.account, found.storage_gb, found.standby) == ("user-17", 200, 1)
    assert (found.max_run_duration_sec, found.max_usd_per_day, found.price_ceiling_usd) == (7200, 50, 3)
    assert (found.mailbox.address, found.mailbox.region) == ("gs://pool-state-1", "")
    assert [(each.zone, each.machine_type, each.usd_per_hour, bool(each.template)) for each in found.rungs] == [
        ("IN2", "1xH100", 2.69, False),
        ("IN1", "1xH100", 2.69, False),
        ("IN2", "1xH200", 3.99, True),
        ("IN1", "1xH200", 3.99, True),
    ]


def test_a_pool_that_reuses_hosts_says_it_to_the_manager_the_agent_and_the_quota_of_disks() -> None:
    deployment = run(stack(h100={**POOL, "reuse": {"maxJobs": 5}}))
    found = entry(deployment)
    assert (found.reuse, found.kept, found.runner_group) == (5, 2, "gpu-stack")
    [text_] = [text(row.inputs) for row in deployment.of(OBJECT) if row.name == "h100-stack-definition"]
    assert (json.loads(text_)["config"]["reuse"], parse(json.dumps(json.loads(text_)["config"])).reuse) == (True, True)
    given = {key: value for key, value in POOL.items() if key != "kind"} | {"reuse": {"maxJobs": 2}}
    given |= {"mailbox_bucket": "mailbox-1", "managers": []}
    args = RentedRunnerPoolArgs(**given, github=RunnerGithub(owner="acme", runner_group="gpu"))
    assert args.demand("h100").stopped_machines == 2
    with pytest.raises(ArgsError, match="not closed to other repositories"):
        RentedRunnerPoolArgs(**given, github=RunnerGithub(owner="acme"))


def test_each_machine_type_has_a_definition_that_each_manager_finds_by_its_digest() -> None:
    others = {**MANAGED["gpu-ci:manager"], "others": {"second": ["other"]}}
    pools = {"h100": {**POOL, "ladder": [{"machineType": "1xH200"}]}, "other": POOL}
    deployment = run(stack(**pools) | {"gpu-ci:manager": others})
    objects = {
        row.inputs["name"]: text(row.inputs)
        for row in deployment.rows
        if row.name.startswith("h100-") and row.name.endswith("-definition")
    }
    assert {key.partition("/")[0] for key in objects} == {"stack", "stack-second"}
    assert len(objects) == 4
    for key, written in objects.items():
        assert key.partition("/")[2] == f"templates/{hashlib.sha256(written.encode()).hexdigest()}.json"
        definition = Definition.parse(written)
        assert definition.payloads == payload.digests()
        agent = parse(json.dumps(definition.config))
        assert (agent.pool, agent.registered_by, agent.github) == ("h100", "manager", None)
        assert agent.check_args[agent.check_args.index("--expect-gpu") + 1] in ("NVIDIA H100", "NVIDIA H200")
    [found] = deployment.outputs[STACK]["manager"]["pools"]
    named = {found["template"], *(each["template"] for each in found["rungs"] if "template" in each)}
    assert {f"stack/templates/{each}.json" for each in named} == {key for key in objects if key.startswith("stack/")}


def test_the_mailbox_on_google_is_private_and_has_the_downloads() -> None:
    deployment = run(stack(h100=POOL))
    bucket = deployment.one("gcp:storage/bucket:Bucket").inputs
    assert (bucket["uniformBucketLevelAccess"], bucket["publicAccessPrevention"]) == (True, "enforced")
    assert (bucket["versioning"], bucket["softDeletePolicy"]["retentionDurationSeconds"]) == ({"enabled": False}, 0)
    [rule] = bucket["lifecycleRules"]
    assert rule["condition"] == {"age": 8, "matchesPrefixes": ["stack/mail/"]}
    files = {row.inputs["name"]: row for row in deployment.of(OBJECT) if "path" in row.inputs["source"]}
    assert {key.rpartition("/")[2] for key in files} == set(payload.digests().values())
    for key, row in files.items():
        content = Path(row.inputs["source"]["path"]).read_bytes()
        assert key == f"stack/payloads/{hashlib.sha256(content).hexdigest()}"
        assert row.request.retainOnDelete


def test_the_name_of_a_pool_is_as_long_as_a_vm_name_allows() -> None:
    [problem] = refused(stack(**{"h100-of-team": POOL})).problems
    assert (problem.path, "at most 11" in problem.expected) == ("gpu-ci:pools.h100-of-team", True)
    assert entry(run(stack(**{"h100-of-tea": POOL}))).name == "h100-of-tea"
