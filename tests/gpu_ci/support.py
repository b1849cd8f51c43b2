"""Shared by tests of gpu_ci: every component with valid arguments, and answers for values that clouds compute."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, TypeVar

import pulumi
from gpu_ci import schema as schema_of_package
from gpu_ci import versions
from gpu_ci.component import Component
from gpu_ci.kinds import catalog
from gpu_ci.pool_args import PoolArgs
from pydantic.alias_generators import to_camel

from tests.gpu_ci.harness import Input

T = TypeVar("T")

COMPONENTS = {found.token: found.load() for found in catalog() if issubclass(found.load(), Component)}

schema = cache(schema_of_package.schema)
"""The schema of all components, made once."""

TEMPLATE = "projects/p/regions/us-central1/instanceTemplates/l4-template-1"

COMPUTED: dict[str, dict[str, Any]] = {
    "gcp:pubsub/topic:Topic": {"name": "topic-1"},
    "aws:ec2/launchTemplate:LaunchTemplate": {"latestVersion": 3},
    "aws:ec2/placementGroup:PlacementGroup": {"name": "together-1"},
    "aws:cloudwatch/logGroup:LogGroup": {"name": "log-1"},
    **{
        f"aws:ecs/{kind[0].lower()}{kind[1:]}:{kind}": {"arn": f"arn:aws:ecs:us-east-1:123456789012:{kind}/1"}
        for kind in ("Cluster", "Service", "TaskDefinition")
    },
    "aws:eks/nodeGroup:NodeGroup": {
        "nodeGroupName": "pool-nodes-1",
        "resources": [{"autoscalingGroups": [{"name": "eks-pool-nodes-1"}]}],
        "amiType": "AL2023_x86_64_NVIDIA",
        "releaseVersion": "1.35.3-20260917",
    },
    **{
        f"aws:imagebuilder/{kind[0].lower()}{kind[1:]}:{kind}": {
            "arn": f"arn:aws:imagebuilder:us-east-1:123456789012:{path}"
        }
        for kind, path in {
            "Component": "component/pool/1.0.1/1",
            "DistributionConfiguration": "distribution-configuration/pool",
            "ImagePipeline": "image-pipeline/pool",
            "ImageRecipe": "image-recipe/pool/1.0.1",
            "InfrastructureConfiguration": "infrastructure-configuration/pool",
        }.items()
    },
    "aws:s3/bucket:Bucket": {"bucket": "mailbox-1"},
    "aws:iam/instanceProfile:InstanceProfile": {"name": "pool-build-1"},
    "aws:iam/openIdConnectProvider:OpenIdConnectProvider": {
        "arn": "arn:aws:iam::123456789012:oidc-provider/token.actions.githubusercontent.com"
    },
    "aws:iam/role:Role": {"arn": "arn:aws:iam::123456789012:role/pool-role-1", "name": "pool-role-1"},
    "gcp:serviceaccount/account:Account": {
        "email": "gpu-l4@p.iam.gserviceaccount.com",
        "name": "projects/p/serviceAccounts/gpu-l4@p.iam.gserviceaccount.com",
    },
    "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate": {"selfLink": TEMPLATE},
    "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager": {"instanceGroup": "group-1"},
    "gcp:artifactregistry/repository:Repository": {"name": "build-pool-stack"},
    "gcp:cloudbuild/trigger:Trigger": {"triggerId": "8d1ab0d2-0000-4000-8000-000000000000"},
    "gcp:container/nodePool:NodePool": {"name": "pool-nodes-1", "version": "1.34.1-gke.3720000"},
    "gcp:compute/router:Router": {"name": "pool-router-1"},
    "gcp:iam/workloadIdentityPool:WorkloadIdentityPool": {
        "name": "projects/123456789012/locations/global/workloadIdentityPools/gh-pool-stack"
    },
    "gcp:iam/workloadIdentityPoolProvider:WorkloadIdentityPoolProvider": {
        "name": "projects/123456789012/locations/global/workloadIdentityPools/gh-pool-stack/providers/github"
    },
    "gcp:projects/iAMCustomRole:IAMCustomRole": {"name": "projects/p/roles/manager"},
    "gcp:vertex/aiEndpoint:AiEndpoint": {"name": "1234567890", "dedicatedEndpointDns": "1.europe-west4.vertexai.goog"},
    "gcp:storage/bucket:Bucket": {"name": "pool-state-1"},
    "gcp:storage/bucketObject:BucketObject": {"name": "configuration.json"},
    "gpu-ci:aws:NodeGroupLimits": {"currentMaxSize": 4},
    "gpu-ci:aws:SmokeGate": {
        "checkedTemplate": Input("template"),
        "verdict": "pass",
        "summary": "pass",
        "zone": "us-east-1a",
    },
    "gpu-ci:gcp:SmokeGate": {
        "checkedTemplate": TEMPLATE,
        "verdict": "pass",
        "summary": "pass",
        "zone": "us-central1-a",
    },
    "github:index/repositoryRuleset:RepositoryRuleset": {"rulesetId": 7},
    "kubernetes:apps/v1:DaemonSet": {"metadata": {"name": "pre-pull-1"}},
    "kubernetes:batch/v1:Job": {"metadata": {"name": "smoke-job-1"}, "status": {"succeeded": 1}},
    "kubernetes:core/v1:ConfigMap": {"metadata": {"name": "files-1"}},
    "kubernetes:core/v1:Secret": {"metadata": {"name": "app-1"}},
    "kubernetes:core/v1:Service": {"metadata": {"name": "peers-1"}},
}

REPOSITORY_IDS = {"web": 101, "kernels": 102}


def repository(arguments: dict[str, Any]) -> dict[str, Any]:
    """A private repository for each name of REPOSITORY_IDS, a public one for those that begin with `open`, and else
    what the provider answers where there is none: nothing."""
    name = arguments["name"]
    if name.startswith("open"):
        return {"name": name, "repoId": 200, "visibility": "public"}
    return {"name": name, "repoId": REPOSITORY_IDS[name], "visibility": "private"} if name in REPOSITORY_IDS else {}


CALLS = {
    "github:index/getRepository:getRepository": repository,
    "aws:index/getCallerIdentity:getCallerIdentity": lambda _: {"accountId": "123456789012"},
    "aws:ec2/getSubnet:getSubnet": lambda _: {"vpcId": "vpc-0123456789abcdef0"},
    "aws:ssm/getParameter:getParameter": lambda _: {"insecureValue": "ami-0123456789abcdef0"},
}

WIRING = {
    "project": "example-ci",
    "subnetwork": "projects/example-ci/regions/us-central1/subnetworks/s",
    "labels": {"team": "ml"},
}

# What a node pool takes of its cluster.
GKE_WIRING = {
    "project": "example-ci",
    "cluster_name": "ci",
    "location": "us-central1",
    "control_plane_version": "1.34.1-gke.3720000",
    "labels": {"team": "ml"},
}

# What some components take besides.
MORE_WIRING = {"service_account_email": "gpu@example-ci.iam.gserviceaccount.com"}

# What a runner manager takes.
MANAGER_WIRING: dict[str, Any] = {
    "configuration": '{"name": "stack"}',
    "app_key": "projects/example-ci/secrets/manager-key",
    "machine_accounts": {"l4": "gpu-l4@example-ci.iam.gserviceaccount.com"},
}

# What components of AWS take instead.
AWS_WIRING = {
    "region": "us-east-1",
    "cluster_name": "ci",
    "kubernetes_version": "1.35",
    "subnets": {"us-east-1a": "subnet-0123456789abcdef0", "us-east-1b": "subnet-0123456789abcdef1"},
    "tags": {"team": "ml"},
}
AMI_WIRING = {"subnet_id": "subnet-0123456789abcdef0", "vpc_id": "vpc-0123456789abcdef0"}
EC2_WIRING = {"mailbox_bucket": "mailbox-1"}
RENTED_WIRING: dict[str, Any] = {**EC2_WIRING, "managers": ["stack"]}
ECS_WIRING = {
    "manager": "stack",
    "configuration": MANAGER_WIRING["configuration"],
    "app_key": "arn:aws:secretsmanager:us-east-1:123456789012:secret:github-manager-app-key",
    "mailbox_region": "us-east-1",
}
CONTROLLER = {"serviceAccountName": "arc", "namespace": "arc-systems", "version": versions.ARC_CHARTS}


def scale_set_wiring() -> dict[str, Any]:
    """Return the wiring of a scale set. Call it in the running program, because an Output needs its event loop."""
    key = "-----BEGIN RSA PRIVATE KEY-----\nhush-hush\n-----END RSA PRIVATE KEY-----\n"
    app = {"id": "1234567", "installation_id": "7654321", "private_key": key}
    return {
        "namespace": "gpu-ci",
        "controller": CONTROLLER,
        "app": {name: pulumi.Output.secret(value) for name, value in app.items()},
    }


def patched(value: Any, patch: Any) -> Any:
    """Return a value after a JSON merge patch (RFC 7396)."""
    if not isinstance(patch, Mapping):
        return patch
    value = value if isinstance(value, Mapping) else {}
    merged = {key: patched(value.get(key), each) for key, each in patch.items() if each is not None}
    return {key: each for key, each in (*value.items(), *merged.items()) if patch.get(key, each) is not None}


def build(
    component: type[Component],
    name: str = "pool",
    transform: Mapping[str, Any] = MappingProxyType({}),
    changes: Mapping[str, Any] = MappingProxyType({}),
    **options: Any,
) -> Component:
    """One component from its own example, after a JSON merge patch of its arguments."""
    model: Any = component.ARGS
    given = (
        AWS_WIRING | AMI_WIRING | EC2_WIRING | ECS_WIRING
        if component.TYPE.startswith("gpu-ci:aws:")
        else GKE_WIRING
        if "control_plane_version" in model.model_fields
        else WIRING | MORE_WIRING | MANAGER_WIRING | RENTED_WIRING
    )
    wiring: dict[str, Any] = {
        key: value
        for key, value in given.items()
        if key in model.model_fields and to_camel(key) not in component.EXAMPLE
    }
    if "secrets" in model.WIRING:
        # Made here, in the running program: an Output needs its loop.
        wiring["secrets"] = {"DEPLOY_TOKEN": pulumi.Output.secret("hush-hush")}
    if "app" in model.WIRING:
        wiring |= scale_set_wiring()
    if "webhook_secret" in model.WIRING:
        wiring |= {"owner": "acme", "pool": "l4", "webhook_secret": pulumi.Output.secret("hush-hush-hush-hush")}
    if component.TYPE in ("gpu-ci:kubernetes:ImagePrePull", "gpu-ci:kubernetes:SmokeJob"):
        wiring["namespace"] = "gpu-ci"
    if component.ON_CLUSTER and issubclass(component.ARGS, PoolArgs):
        wiring |= {"github_config_url": "https://github.com/acme", "runner_group": "gpu"}
    given = patched({**component.EXAMPLE, **{to_camel(key): value for key, value in wiring.items()}}, changes)
    return component(name, model(**given, transform=transform), pulumi.ResourceOptions(**options))


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run something asynchronous to its end."""
    return asyncio.run(work)
