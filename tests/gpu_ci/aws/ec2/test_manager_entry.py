"""What the runner manager reads about pools on EC2, and the mailbox that the pools of a stack share."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest
from gpu_ci.aws.mailbox import Mailbox, MailboxArgs
from gpu_ci.stack.warnings import stack_warnings

from tests.gpu_ci.aws.ec2.pools import LADDER, SUBNETS, made
from tests.gpu_ci.harness import deploy
from tests.gpu_ci.program.stack import config, load, site
from tests.gpu_ci.program.test_github_apps import GROUP
from tests.gpu_ci.program.test_manager import MANAGER
from tests.gpu_ci.program.test_program import STACK, run
from tests.gpu_ci.support import COMPUTED

OBJECT, BUCKET = "aws:s3/bucketObjectv2:BucketObjectv2", "aws:s3/bucket:Bucket"
POOL: dict[str, Any] = {
    "kind": "ec2-runners",
    "machineType": "g5.xlarge",
    "zones": ["us-east-1a", "us-east-1b"],
    "subnets": SUBNETS,
    "max": 4,
}


def stack(**pools: dict[str, Any]) -> dict[str, Any]:
    return config(pools, **site(github={"owner": "acme", "managerApp": MANAGER})) | {"gpu-ci:github": GROUP}


def entry(**changes: Any) -> dict[str, Any]:
    """The entry of a pool in the stack's output `manager`."""
    [found] = run(stack(a10g={**POOL, **changes})).outputs[STACK]["manager"]["pools"]
    return dict(found)


def test_the_manager_reads_the_entry() -> None:
    pool = pytest.importorskip("gpu_manager.suppliers.ec2.pool").Ec2Pool
    from gpu_manager.model import Priorities
    from pydantic import TypeAdapter

    order = {"order": ["merge_group", "push:main"], "repositoryShare": 0.5}
    given = {"maxRunDurationSec": 7200, "maxUsdPerDay": 50, "queueTimeoutSec": 1800, "priorities": order}
    found = json.dumps(entry(ladder=LADDER, **given))
    for made_up, real in {"-template-id:": "lt-", "-security-group-id": "sg-"}.items():
        for name in ("a10g-us-east-2-g6-xlarge-6f1c7a", "a10g-us-east-2", "a10g"):
            found = found.replace(f'"{name}{made_up}', f'"{real}0a1b2c3d4e5f60718' + (":" if ":" in made_up else ""))
    read = TypeAdapter(pool).validate_json(found)
    assert (read.max_run_duration_sec, read.max_usd_per_day, read.queue_timeout_sec) == (7200, 50, 1800)
    assert read.priorities == Priorities(("merge_group", "push:main"), 1800, 0.5)
    assert (read.account, read.mailbox.bucket, read.rungs[-1].region) == ("123456789012", "mailbox-1", "us-east-2")


def test_limits_that_ignore_machines_without_a_price_are_reported() -> None:
    limits = {"maxUsdPerDay": 50, "priceCeilingUsd": 9}
    assert stack_warnings(load(stack(a10g={**POOL, **limits}))) == []
    assert stack_warnings(load(stack(a10g={**POOL, "ladder": LADDER}))) == []
    found = stack_warnings(load(stack(a10g={**POOL, **limits, "ladder": LADDER})))
    assert [each.partition(", whose")[0] for each in found] == [
        f"gpu-ci:pools.a10g.{name}: has no effect for g6.xlarge spot in us-east-2" for name in limits
    ]


def test_stopped_machines_are_in_the_entry_and_in_the_quota_of_disks() -> None:
    standby = {"market": "standard", "standby": {"stoppedSize": 2}}
    args = made(**standby)[0]._args
    assert (entry(**standby)["standby"], args.demand("a10g").stopped_machines) == (2, 2)


def test_a_mailbox_is_private_and_its_downloads_have_the_names_of_their_digests() -> None:
    args = {"region": "us-east-1", "managers": ["dev", "dev-other"]}
    deployment = deploy(lambda: Mailbox("mailbox", MailboxArgs(**args)), computed=COMPUTED)
    for row in deployment.of(OBJECT):
        content = base64.b64decode(row.inputs["contentBase64"])
        assert row.inputs["key"].endswith(f"/payloads/{hashlib.sha256(content).hexdigest()}")
        assert row.request.retainOnDelete
    assert len(deployment.of(OBJECT)) == 4
    block = deployment.one("aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock").inputs
    assert [each for each in block.values() if isinstance(each, bool)] == [True] * 4
    [statement] = json.loads(deployment.one("aws:s3/bucketPolicy:BucketPolicy").inputs["policy"])["Statement"]
    assert (statement["Effect"], statement["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})
    rules = deployment.one("aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration").inputs["rules"]
    assert {each["filter"]["prefix"]: each["expiration"]["days"] for each in rules} == {
        f"{manager}/{kind}/": 30 for manager in args["managers"] for kind in ("mail", "records")
    }


def test_a_pool_without_runners_has_no_entry() -> None:
    assert made(github=None)[0].managed() is None
