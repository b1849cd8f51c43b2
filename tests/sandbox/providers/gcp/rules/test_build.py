"""Cloud Build and Artifact Registry: what Google takes, what it refuses, and what its words are."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.values import UNKNOWN

from tests.sandbox.providers.gcp.conftest import Google

POOL: dict[str, Any] = {"location": "us-central1", "workerConfig": {"machineType": "e2-standard-8", "diskSizeGb": 100}}
PEERED = {"peeredNetwork": "projects/123456789012/global/networks/ci"}
ATTACHED = {"networkAttachment": "projects/ci-project/regions/us-central1/networkAttachments/ci"}
TRIGGER: dict[str, Any] = {
    "location": "us-central1",
    "filename": "cloudbuild.yaml",
    "github": {"owner": "acme", "name": "kernels", "push": {"branch": "^main$"}},
}
INLINE = {
    **{key: value for key, value in TRIGGER.items() if key != "filename"},
    "build": {"steps": [{"name": "bash"}], "options": {"logging": "CLOUD_LOGGING_ONLY"}, "timeout": "600s"},
}
ACCOUNT = "projects/ci-project/serviceAccounts/builds@ci-project.iam.gserviceaccount.com"
REPOSITORY: dict[str, Any] = {"format": "DOCKER", "repositoryId": "images", "location": "us-central1"}
KEEP = {"id": "keep", "action": "KEEP", "mostRecentVersions": {"keepCount": 3}}
DELETE = {"id": "delete", "action": "DELETE", "condition": {"tagState": "UNTAGGED", "olderThan": "1209600s"}}

ACCEPTED: dict[str, tuple[str, dict[str, Any]]] = {
    "a pool in Google's network": (types.WORKER_POOL, POOL),
    "a pool of defaults": (types.WORKER_POOL, {"location": "europe-west4"}),
    "a peered pool": (types.WORKER_POOL, {**POOL, "networkConfig": {**PEERED, "peeredNetworkIpRange": "/29"}}),
    "an attached pool": (types.WORKER_POOL, {**POOL, "privateServiceConnect": {**ATTACHED, "routeAllTraffic": True}}),
    "a pool of another series": (types.WORKER_POOL, {**POOL, "workerConfig": {"machineType": "n1-standard-1"}}),
    "the largest disk": (types.WORKER_POOL, {**POOL, "workerConfig": {"diskSizeGb": 4000}}),
    "a disk that Cloud Build chooses": (types.WORKER_POOL, {**POOL, "workerConfig": {"diskSizeGb": 0}}),
    "a trigger with a build file": (types.TRIGGER, TRIGGER),
    "a trigger with steps": (types.TRIGGER, {**INLINE, "serviceAccount": ACCOUNT}),
    "a trigger whose log mode is not known yet": (
        types.TRIGGER,
        {**INLINE, "serviceAccount": ACCOUNT, "build": {"steps": [{"name": "bash"}], "options": {"logging": UNKNOWN}}},
    ),
    "a repository": (types.REPOSITORY, {**REPOSITORY, "cleanupPolicies": [KEEP, DELETE]}),
    "ten policies, and an id of 127 characters": (
        types.REPOSITORY,
        {**REPOSITORY, "cleanupPolicies": [{**DELETE, "id": f"{index:0127}"} for index in range(10)]},
    ),
    "a repository in many regions": (types.REPOSITORY, {**REPOSITORY, "location": "europe"}),
    "an age in days": (
        types.REPOSITORY,
        {**REPOSITORY, "cleanupPolicies": [{**DELETE, "condition": {"olderThan": "30d"}}]},
    ),
    "a pull-through cache": (
        types.REPOSITORY,
        {
            **REPOSITORY,
            "mode": "REMOTE_REPOSITORY",
            "remoteRepositoryConfig": {"dockerRepository": {"publicRepository": "DOCKER_HUB"}},
        },
    ),
}


def test_what_google_takes_is_accepted(google: Google) -> None:
    assert {
        name: found for name, (token, inputs) in ACCEPTED.items() if (found := google.problems(token, inputs))
    } == {}


LOGS = (
    "build.options.logging: if 'build.service_account' is specified, the build must either (a) specify "
    "'build.logs_bucket', (b) use the REGIONAL_USER_OWNED_BUCKET build.options.default_logs_bucket_behavior option, or "
    "(c) use either CLOUD_LOGGING_ONLY / NONE logging options"
)
REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "no location": (
        types.WORKER_POOL,
        {},
        "location: required, and missing",
    ),
    "a zone": (
        types.WORKER_POOL,
        {"location": "us-central1-a"},
        "location: us-central1-a is not a location of Cloud Build\n  hint: such as us-central1",
    ),
    "peered and attached": (
        types.WORKER_POOL,
        {**POOL, "networkConfig": PEERED, "privateServiceConnect": ATTACHED},
        'networkConfig: "networkConfig": conflicts with privateServiceConnect',
    ),
    "too small a range": (
        types.WORKER_POOL,
        {**POOL, "networkConfig": {**PEERED, "peeredNetworkIpRange": "192.168.0.0/30"}},
        (
            "networkConfig.peeredNetworkIpRange: expected a range such as /24 or 192.168.0.0/24, at least /29, got "
            "192.168.0.0/30"
        ),
    ),
    "too large a disk": (
        types.WORKER_POOL,
        {**POOL, "workerConfig": {"diskSizeGb": 4001}},
        "workerConfig.diskSizeGb: expected diskSizeGb to be in the range (100 - 4000), got 4001",
    ),
    "too small a disk": (
        types.WORKER_POOL,
        {**POOL, "workerConfig": {"diskSizeGb": 99}},
        "workerConfig.diskSizeGb: expected diskSizeGb to be in the range (100 - 4000), got 99",
    ),
    "a machine type that is none": (
        types.WORKER_POOL,
        {**POOL, "workerConfig": {"machineType": "foo"}},
        'workerConfig.machineType: "foo" is not a machine type',
    ),
    "a machine with GPUs": (
        types.WORKER_POOL,
        {**POOL, "workerConfig": {"machineType": "g2-standard-8"}},
        "workerConfig.machineType: g2-standard-8 has GPUs, which workers cannot have\n  hint: such as e2-standard-8",
    ),
    "an E2 type there is not": (
        types.WORKER_POOL,
        {**POOL, "workerConfig": {"machineType": "e2-highmem-32"}},
        "workerConfig.machineType: e2-highmem-32 is not a machine type of private pools\n  hint: such as e2-standard-8",
    ),
    "a pool's name in capitals": (
        types.WORKER_POOL,
        {**POOL, "name": "Pool"},
        'name: "name" ("Pool") doesn\'t match regexp "^[a-z0-9-]{1,63}$"',
    ),
    "a file and steps": (
        types.TRIGGER,
        {**INLINE, "filename": "cloudbuild.yaml"},
        "build: exactly one of build, filename, gitFileSource, got build and filename",
    ),
    "nothing to do": (
        types.TRIGGER,
        {key: value for key, value in TRIGGER.items() if key != "filename"},
        "build: exactly one of build, filename, gitFileSource, got none",
    ),
    "no event": (
        types.TRIGGER,
        {"filename": "cloudbuild.yaml"},
        (
            "github: at least one of github, triggerTemplate, pubsubConfig, webhookConfig, repositoryEventConfig, "
            "sourceToBuild, bitbucketServerTriggerConfig, developerConnectEventConfig, got none"
        ),
    ),
    "a branch and a tag": (
        types.TRIGGER,
        {**TRIGGER, "github": {**TRIGGER["github"], "push": {"branch": "a", "tag": "b"}}},
        "github.push.branch: exactly one of branch, tag, got branch and tag",
    ),
    "a comment control there is not": (
        types.TRIGGER,
        {
            **TRIGGER,
            "github": {"owner": "a", "name": "b", "pullRequest": {"branch": "c", "commentControl": "COMMENTS_ENABLE"}},
        },
        (
            'github.pullRequest.commentControl: expected commentControl to be one of ["COMMENTS_DISABLED" '
            '"COMMENTS_ENABLED" "COMMENTS_ENABLED_FOR_EXTERNAL_CONTRIBUTORS_ONLY"], got COMMENTS_ENABLE\n'
            "  hint: did you mean COMMENTS_ENABLED?"
        ),
    ),
    "a log mode there is not": (
        types.TRIGGER,
        {**INLINE, "build": {"steps": [{"name": "bash"}], "options": {"logging": "CLOUD"}}},
        (
            'build.options.logging: expected logging to be one of ["LEGACY" "GCS_ONLY" "STACKDRIVER_ONLY" '
            '"CLOUD_LOGGING_ONLY" "NONE"], got CLOUD'
        ),
    ),
    "an account and no log mode": (
        types.TRIGGER,
        {**INLINE, "serviceAccount": ACCOUNT, "build": {"steps": [{"name": "bash"}]}},
        LOGS,
    ),
    "a timeout that is none": (
        types.TRIGGER,
        {**INLINE, "build": {**INLINE["build"], "timeout": "10m"}},
        "build.timeout: expected timeout to be a duration in seconds, such as 3.5s, got 10m",
    ),
    "a substitution in lower case": (
        types.TRIGGER,
        {**TRIGGER, "substitutions": {"_pool": "x"}},
        'substitutions._pool: the key "_pool" doesn\'t match regexp "^_[A-Z0-9_]+$"',
    ),
    "a repository in capitals": (
        types.REPOSITORY,
        {**REPOSITORY, "repositoryId": "Images"},
        'repositoryId: "repositoryId" ("Images") doesn\'t match regexp "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$"',
    ),
    "a format there is not": (
        types.REPOSITORY,
        {**REPOSITORY, "format": "OCI"},
        (
            'format: expected format to be one of ["DOCKER" "MAVEN" "NPM" "APT" "YUM" "GOOGET" "PYTHON" "KFP" "GO" '
            '"GENERIC" "RUBY" "CONDA"], got OCI'
        ),
    ),
    "a policy that deletes the most recent": (
        types.REPOSITORY,
        {**REPOSITORY, "cleanupPolicies": [{**KEEP, "action": "DELETE"}]},
        "cleanupPolicies[0].mostRecentVersions: may only be specified with a KEEP action",
    ),
    "a policy of nothing": (
        types.REPOSITORY,
        {**REPOSITORY, "cleanupPolicies": [{"id": "a", "action": "KEEP"}]},
        "cleanupPolicies[0].condition: exactly one of condition, mostRecentVersions, got none",
    ),
    "eleven policies": (
        types.REPOSITORY,
        {**REPOSITORY, "cleanupPolicies": [{**DELETE, "id": str(index)} for index in range(11)]},
        "cleanupPolicies: expected at most 10 cleanup policies, got 11",
    ),
    "a policy's id too long": (
        types.REPOSITORY,
        {**REPOSITORY, "cleanupPolicies": [{**DELETE, "id": "x" * 128}]},
        "cleanupPolicies[0].id: expected at most 127 characters, got 128",
    ),
    "a repository in a region there is not": (
        types.REPOSITORY,
        {**REPOSITORY, "location": "mars-1"},
        "location: mars-1 is not a location of Artifact Registry\n  hint: such as us-central1",
    ),
    "a policy twice": (
        types.REPOSITORY,
        {**REPOSITORY, "cleanupPolicies": [KEEP, {**DELETE, "id": "keep"}]},
        'cleanupPolicies[1].id: the policy "keep" is listed twice',
    ),
    "an age in weeks": (
        types.REPOSITORY,
        {**REPOSITORY, "cleanupPolicies": [{**DELETE, "condition": {"olderThan": "2w"}}]},
        "cleanupPolicies[0].condition.olderThan: expected a duration such as 30d or 3600s, got 2w",
    ),
    "a role without its prefix": (
        types.REPOSITORY_MEMBER,
        {"repository": "images", "role": "artifactregistry.writer", "member": "allUsers"},
        (
            "role: Role (artifactregistry.writer) does not exist in the resource's hierarchy.\n"
            "  hint: such as roles/logging.logWriter"
        ),
    ),
}


@pytest.mark.parametrize(("token", "inputs", "expected"), REFUSED.values(), ids=REFUSED)
def test_what_google_refuses_is_refused(google: Google, token: str, inputs: dict[str, Any], expected: str) -> None:
    [problem] = google.problems(token, inputs)
    assert problem.startswith(expected)
