"""The rules of the pack, in the order of the documentation."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any

from .pods import CHARTS, GPU, JOBS, SCALE_SET_CHART, chart, containers
from .properties import UNKNOWN, at, boolean, document, entries, is_list, mapping, number, texts
from .rule import Resource, Rule, RuleContext

GCP_MACHINES = {
    "gcp:compute/instance:Instance",
    "gcp:compute/instanceFromTemplate:InstanceFromTemplate",
    "gcp:compute/instanceTemplate:InstanceTemplate",
    "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate",
}
# AWS: the path of the setting in each resource.
AWS_SWITCHES = {
    "aws:ec2/instance:Instance": "associatePublicIpAddress",
    "aws:ec2/launchConfiguration:LaunchConfiguration": "associatePublicIpAddress",
    "aws:ec2/subnet:Subnet": "mapPublicIpOnLaunch",
    "aws:ec2/defaultSubnet:DefaultSubnet": "mapPublicIpOnLaunch",
}


def public_addresses(resource: Resource, _context: RuleContext) -> Iterator[str]:
    if resource.type in GCP_MACHINES:
        for index, interface in enumerate(entries(resource.props, "networkInterfaces")):
            for key in ("accessConfigs", "ipv6AccessConfigs"):
                found = at(interface, key)
                if is_list(found) and len(found):
                    yield f"networkInterfaces[{index}].{key} gives the machine a public address"
    switch = AWS_SWITCHES.get(resource.type, "")
    if switch and boolean(at(resource.props, switch)) is True:
        yield f"{switch} gives machines a public address"
    if resource.type == "aws:ec2/launchTemplate:LaunchTemplate":
        for index, interface in enumerate(entries(resource.props, "networkInterfaces")):
            if boolean(at(interface, "associatePublicIpAddress")) is True:
                yield f"networkInterfaces[{index}].associatePublicIpAddress gives machines a public address"


EC2_MACHINES = {
    "aws:ec2/instance:Instance",
    "aws:ec2/launchConfiguration:LaunchConfiguration",
    "aws:ec2/launchTemplate:LaunchTemplate",
}


def imds_v1_allowed(resource: Resource, _context: RuleContext) -> Iterator[str]:
    if not has_metadata_service(resource):
        return
    tokens = at(resource.props, "metadataOptions", "httpTokens")
    if tokens is not UNKNOWN and tokens != "required":
        yield f"metadataOptions.httpTokens is {tokens or 'not set'}, and has to be required"


def hop_limit_problems(resource: Resource, context: RuleContext) -> Iterator[str]:
    limit, allowed = at(resource.props, "metadataOptions", "httpPutResponseHopLimit"), context.settings["maxHops"]
    if not has_metadata_service(resource) or limit is UNKNOWN:
        return
    hops = number(limit)
    if hops is None:
        yield f"metadataOptions.httpPutResponseHopLimit is not set, and has to be at most {allowed:.0f}"
    elif hops > allowed:
        yield f"metadataOptions.httpPutResponseHopLimit is {hops:.0f}, and has to be at most {allowed:.0f}"


def has_metadata_service(resource: Resource) -> bool:
    """Return True if the resource is a machine whose metadata service is not disabled and not unknown."""
    endpoint = at(resource.props, "metadataOptions", "httpEndpoint")
    return resource.type in EC2_MACHINES and endpoint is not UNKNOWN and endpoint != "disabled"


OF_A_MACHINE: dict[str, tuple[str, ...]] = {"rootBlockDevice": (), "ebsBlockDevices": ()}
# AWS: the properties of a resource that list disks, and the path of the disk in an entry.
AWS_DISKS: dict[str, dict[str, tuple[str, ...]]] = {
    "aws:ec2/launchTemplate:LaunchTemplate": {"blockDeviceMappings": ("ebs",)},
    "aws:ec2/instance:Instance": OF_A_MACHINE,
    "aws:ec2/launchConfiguration:LaunchConfiguration": OF_A_MACHINE,
}
VOLUME = "aws:ebs/volume:Volume"
# The resources that store data, and the property that names the key. Any value other than an empty one counts.
KEYS = {
    VOLUME: ("kmsKeyId",),
    "aws:ecr/repository:Repository": ("encryptionConfigurations",),
    "gcp:artifactregistry/repository:Repository": ("kmsKeyName",),
    "gcp:compute/disk:Disk": ("diskEncryptionKey", "kmsKeySelfLink"),
    "gcp:storage/bucket:Bucket": ("encryption", "defaultKmsKeyName"),
}


def unencrypted_disks(resource: Resource, _context: RuleContext) -> Iterator[str]:
    for path, disk in aws_disks(resource):
        encrypted = at(disk, "encrypted")
        if encrypted is not UNKNOWN and boolean(encrypted) is not True:
            yield f"{path} is {'not set' if encrypted is None else 'off'}, and has to be on"


def missing_customer_keys(resource: Resource, context: RuleContext) -> Iterator[str]:
    if not context.settings["required"]:
        return
    path = KEYS.get(resource.type)
    if path and is_missing(at(resource.props, *path)):
        yield f"{'.'.join(path)} names no key"
    if resource.type in GCP_MACHINES:
        for index, disk in enumerate(entries(resource.props, "disks")):
            if at(disk, "type") != "SCRATCH" and is_missing(at(disk, "diskEncryptionKey", "kmsKeySelfLink")):
                yield f"disks[{index}].diskEncryptionKey.kmsKeySelfLink names no key"
    if resource.type != VOLUME:
        for where, disk in aws_disks(resource):
            if is_missing(at(disk, "kmsKeyId")):
                yield f"{where.removesuffix('encrypted')}kmsKeyId names no key"


def is_missing(value: object) -> bool:
    return value is not UNKNOWN and not value


def aws_disks(resource: Resource) -> Iterator[tuple[str, object]]:
    """Yield each EBS disk of a resource, with the path of its encryption setting."""
    if resource.type == VOLUME:
        yield "encrypted", resource.props
    for key, inner in AWS_DISKS.get(resource.type, {}).items():
        for index, entry in enumerate(entries(resource.props, key)):
            disk = at(entry, *inner)
            if disk is not None:
                yield ".".join([f"{key}[{index}]", *inner, "encrypted"]), disk


# The registration of a runner in a script, with its arguments. A backslash continues a line.
CONFIGURES = re.compile(r"\bconfig\.(?:sh|cmd)\b(?P<arguments>(?:\\\r?\n|[^\n;&|])*)")
OLD_CHART = "actions-runner-controller"
OLD_KINDS = {
    "kubernetes:actions.summerwind.dev/v1alpha1:RunnerDeployment": ("spec", "template", "spec", "ephemeral"),
    "kubernetes:actions.summerwind.dev/v1alpha1:RunnerSet": ("spec", "ephemeral"),
    "kubernetes:actions.summerwind.dev/v1alpha1:Runner": ("spec", "ephemeral"),
}
VERSION = r"(\d+\.\d+\.\d+)"
ARCHIVE = re.compile(rf"actions-runner-(?:linux|win|osx)-(?:x64|arm64|arm)-{VERSION}\.")
TAG = re.compile(rf".*:v?{VERSION}(?:-[\w.-]*)?(?:@sha256:[0-9a-f]+)?")
# The name of the runner's container in the template of a scale set, by the rule of the chart.
RUNNER_CONTAINER = "[runner]"


def persistent_runners(resource: Resource, _context: RuleContext) -> Iterator[str]:
    for path, text in texts(resource.props):
        for readable in (text, decoded(text)):
            for found in CONFIGURES.finditer(readable):
                if "--url" in found["arguments"] and "--ephemeral" not in found["arguments"]:
                    yield f"{path} registers a runner without --ephemeral"
    if chart(resource) == OLD_CHART:
        yield f"the chart {OLD_CHART} is the controller of before scale sets, whose runners may last"
    switch = OLD_KINDS.get(resource.type)
    if switch and boolean(at(resource.props, *switch)) is False:
        yield f"{'.'.join(switch)} is off"


def job_pods(resource: Resource, _context: RuleContext) -> Iterator[str]:
    mode = at(resource.props, "values", "containerMode", "type")
    if chart(resource) == SCALE_SET_CHART and mode in ("kubernetes", "kubernetes-novolume"):
        yield f"values.containerMode.type is {mode}"


def versions(resource: Resource) -> dict[str, str]:
    """Return the runner versions of a resource by path. Images whose tag is not a version are left out."""
    found = {}
    config = document(at(resource.props, "metadata", "gpu-agent-config"))
    version = at(config, "runner", "version")
    if isinstance(version, str) and re.fullmatch(VERSION, version):
        found["metadata.gpu-agent-config: runner.version"] = version
    for path, container in containers(resource):
        image = at(container, "image")
        runs = path.endswith(RUNNER_CONTAINER) and resource.type in {*CHARTS, *SCALE_SETS}
        if runs and isinstance(image, str) and (tag := TAG.fullmatch(image)):
            found[f"{path}.image"] = tag[1]
    for path, text in texts(resource.props):
        for readable in (text, decoded(text)):
            if archive := ARCHIVE.search(readable):
                found[path] = archive[1]
    return found


SCALE_SETS = {"kubernetes:actions.github.com/v1alpha1:AutoscalingRunnerSet"}


def refused_versions(resource: Resource, _context: RuleContext) -> Iterator[str]:
    from gpu_catalog import staleness  # an optional package: Rule.needs_catalog

    for path, version in versions(resource).items():
        if floor := staleness.runner_floor(version):
            yield f"{path} is {version}, and GitHub registers {floor} or later"


def outdated_versions(resource: Resource, context: RuleContext) -> Iterator[str]:
    from gpu_catalog import staleness

    for path, version in versions(resource).items():
        if not staleness.runner_floor(version):
            yield from (f"{path}: {stale}" for stale in staleness.runner(version, context.today))


RULE_OF_GITHUB = "https://docs.github.com/en/actions/reference/runners/self-hosted-runners"


# The prefixes and minimum lengths of GitHub tokens.
TOKENS = {
    "a personal access token": re.compile(r"\b(?:ghp_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})"),
    "a token of an app or of a user's sign-in": re.compile(r"\bgh[ousr]_[A-Za-z0-9_.-]{36,}"),
    "a token that registers runners": re.compile(r"(?:--token[ =]|RUNNER_TOKEN[\"']?\s*[=:]\s*)[\"']?A[A-Z0-9]{28}\b"),
}
# A request in a script for a registration token. Such a token registers any number of runners for an hour.
REGISTRATION_REQUEST = re.compile(r"/actions/runners/registration-token\b")
BASE64 = re.compile(r"[A-Za-z0-9+/\s]{40,}(?:={1,2}\s*)?")


def github_tokens(resource: Resource, _context: RuleContext) -> Iterator[str]:
    if resource.type.startswith("pulumi:providers:"):
        return  # credentials of the deployment itself, which reach no machine and no job
    for path, text in texts(resource.props):
        for readable in (text, decoded(text)):
            for kind, pattern in TOKENS.items():
                if pattern.search(readable):
                    yield f"{path} holds {kind}"
            if REGISTRATION_REQUEST.search(readable):
                yield f"{path} requests a registration token from GitHub"
    yield from arc_token(resource)


def arc_token(resource: Resource) -> Iterator[str]:
    """Yield the path of a scale set's personal access token, with any value."""
    key_paths = {
        "kubernetes:core/v1:Secret": (("data",), ("stringData",)),
        "kubernetes:helm.sh/v3:Release": (("values", "githubConfigSecret"),),
        "kubernetes:helm.sh/v4:Chart": (("values", "githubConfigSecret"),),
    }
    for path in key_paths.get(resource.type, ()):
        if "github_token" in mapping(at(resource.props, *path)):
            yield f"{'.'.join(path)}.github_token is a personal access token for runners"


def decoded(text: str) -> str:
    """Decode base64 as Latin-1, in which every byte is a character. Return an empty text if it is not base64."""
    if not BASE64.fullmatch(text):
        return ""
    try:
        return base64.b64decode(text).decode("latin-1")
    except binascii.Error:
        return ""


ISSUER = "token.actions.githubusercontent.com"
SUBJECT = f"{ISSUER}:sub"
# The operators that restrict a subject. Negative operators, and those with IfExists, also match other subjects.
MATCHING_OPERATORS = re.compile(r"(?:ForAnyValue:)?String(?:Equals(?:IgnoreCase)?|Like)")
# A subject that begins with a literal owner: `repo:acme/…`, or `repository_owner_id:123…` for a custom claim.
NAMED_OWNER = re.compile(r"\w+:[^*?:/]+(?:[/:].*)?")
# The claims that restrict a Google Cloud condition to an owner, a repository or a subject.
IDENTIFYING_CLAIMS = re.compile(
    r"\b(?:assertion|attribute)\.(?:sub|repository|repository_id|repository_owner|repository_owner_id|job_workflow_ref)\b"
    r"|\bgoogle\.subject\b"
)
ROLE = "aws:iam/role:Role"
POOL_PROVIDER = "gcp:iam/workloadIdentityPoolProvider:WorkloadIdentityPoolProvider"
EVERYONE = re.compile(r"principalSet://iam\.googleapis\.com/.+/workloadIdentityPools/[^/]+/\*")


def open_roles(resource: Resource, _context: RuleContext) -> Iterator[str]:
    if resource.type != ROLE:
        return
    for index, statement in enumerate(entries(document(at(resource.props, "assumeRolePolicy")), "Statement")):
        if at(statement, "Effect") != "Allow" or not trusts_github(at(statement, "Principal", "Federated")):
            continue
        if problem := subject_problem(at(statement, "Condition")):
            yield f"assumeRolePolicy.Statement[{index}] {problem}"


def trusts_github(federated: object) -> bool:
    names = federated if is_list(federated) else [federated]
    return any(isinstance(name, str) and ISSUER in name for name in names)


def subject_problem(conditions: object) -> str:
    """Return the problem of a statement's conditions; empty if one of them restricts the subject to an owner."""
    if conditions is UNKNOWN:
        return ""
    open_subjects: list[Any] = []
    for operator, expected in mapping(conditions).items():
        if not MATCHING_OPERATORS.fullmatch(operator):
            continue
        values = at(expected, SUBJECT)
        each = list(values) if is_list(values) else [values]
        if all(value is UNKNOWN or (isinstance(value, str) and NAMED_OWNER.fullmatch(value)) for value in each):
            return ""
        open_subjects += [value for value in each if isinstance(value, str) and not NAMED_OWNER.fullmatch(value)]
    if not open_subjects:
        return f"has no condition on {SUBJECT}"
    return f"accepts {SUBJECT} of {' or '.join(open_subjects)}, without a fixed owner"


def open_pools(resource: Resource, _context: RuleContext) -> Iterator[str]:
    if resource.type == POOL_PROVIDER:
        issuer, condition = at(resource.props, "oidc", "issuerUri"), at(resource.props, "attributeCondition")
        if isinstance(issuer, str) and ISSUER in issuer and condition is not UNKNOWN:
            if not condition:
                yield "attributeCondition is not set, so every repository on GitHub is trusted"
            elif not (isinstance(condition, str) and IDENTIFYING_CLAIMS.search(condition)):
                yield "attributeCondition does not restrict the owner, the repository or the subject"
    if resource.type.startswith("gcp:"):
        for member in [at(resource.props, "member"), *entries(resource.props, "members")]:
            if isinstance(member, str) and EVERYONE.fullmatch(member):
                yield f"{member} means every identity that the pool accepts"


PINNED = re.compile(r".+@sha256:[0-9a-f]{64}")


def unpinned_images(resource: Resource, _context: RuleContext) -> Iterator[str]:
    if resource.type not in JOBS:
        return
    for path, container in containers(resource):
        image = at(container, "image")
        if isinstance(image, str) and not PINNED.fullmatch(image):
            yield f"{path}.image is {image}, which has no digest"


def unequal_gpu_requests(resource: Resource, _context: RuleContext) -> Iterator[str]:
    for path, container in containers(resource):
        requests, most = mapping(at(container, "resources", "requests")), at(container, "resources", "limits")
        # Without a request, Kubernetes uses the limit as the request. So only a given request can differ.
        for name in sorted(filter(GPU.fullmatch, requests)):
            request, limit = requests[name], at(most, name)
            if request is UNKNOWN or limit is UNKNOWN:
                continue
            if limit is None:
                yield f"{path}.resources.requests has {name} and the limits have none"
            elif str(request) != str(limit):
                yield f"{path}.resources asks for {request} of {name} and has a limit of {limit}"


RULES = (
    Rule(
        name="no-public-ip",
        title="Machines have no public address.",
        why="A runner runs the code of any workflow author. No service on the internet needs to reach it.",
        fix="Remove accessConfigs (Google Cloud). Set associatePublicIpAddress and mapPublicIpOnLaunch to false (AWS). "
        "For outgoing connections, use a NAT gateway.",
        sources=(
            "https://docs.cloud.google.com/compute/docs/ip-addresses/configure-static-external-ip-address",
            "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/using-instance-addressing.html",
        ),
        check=public_addresses,
    ),
    Rule(
        name="imds-v2",
        title="The metadata service of an EC2 instance requires a session (IMDSv2).",
        why="Without a session, a forged request that a job sends can return the credentials of the instance.",
        fix='Set metadataOptions.httpTokens to "required".',
        sources=("https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-service.html",),
        check=imds_v1_allowed,
    ),
    Rule(
        name="imds-hop-limit",
        title="Pods cannot reach the metadata service of their EC2 instance.",
        why="With two hops, every container can use the role of the instance. Without a value, the account or the "
        "image decides, and an image that requires IMDSv2 gets two hops.",
        fix="Set metadataOptions.httpPutResponseHopLimit to 1.",
        sources=(
            "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-IMDS-new-instances.html",
            "https://docs.aws.amazon.com/eks/latest/best-practices/identity-and-access-management.html",
        ),
        check=hop_limit_problems,
        settings={"maxHops": {"type": "integer", "minimum": 1, "default": 1, "description": "Maximum number of hops."}},
    ),
    Rule(
        name="encrypted-disks",
        title="EBS disks are encrypted.",
        why="An attacker with an unencrypted disk, or a snapshot of it, can read all of its data. EBS encrypts a disk "
        "only on request, or by a default of the account that a preview does not see. Google Cloud, S3 and ECR always "
        "encrypt, and EKS encrypts the data of the Kubernetes API from 1.28 on.",
        fix="Set encrypted to true on every named disk.",
        sources=(
            "https://docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption.html",
            "https://docs.aws.amazon.com/eks/latest/userguide/envelope-encryption.html",
            "https://docs.cloud.google.com/docs/security/encryption/default-encryption",
        ),
        check=unencrypted_disks,
    ),
    Rule(
        name="own-keys",
        title="If required, disks, buckets and registries are encrypted with your own key.",
        why="You can revoke only your own key, and only its use is in your audit log.",
        fix="Set a KMS key: kmsKeyName, kmsKeySelfLink, defaultKmsKeyName or kmsKeyId.",
        sources=("https://docs.cloud.google.com/kms/docs/cmek",),
        check=missing_customer_keys,
        settings={"required": {"type": "boolean", "default": False, "description": "True to check the rule."}},
    ),
    Rule(
        name="ephemeral-runners",
        title="A runner runs one job and then ends.",
        why="Files and processes of a job would reach the next job, which may belong to another user.",
        fix="Register with a just-in-time configuration, or with config.sh --ephemeral. On Kubernetes, use the chart "
        "gha-runner-scale-set.",
        sources=("https://docs.github.com/en/actions/reference/security/secure-use#hardening-for-self-hosted-runners",),
        check=persistent_runners,
    ),
    Rule(
        name="no-job-pods",
        title="Jobs on Kubernetes run in the runner's own pod.",
        why="In the container modes kubernetes and kubernetes-novolume, a runner's account may create pods and read "
        "Secrets. A job that gets the runner's token can read the key of the GitHub App, and register runners for the "
        "whole organization. The rule is advisory, because a team may trust all its workflows.",
        fix="Use an image with the runner and the tools of the job, without a container mode.",
        sources=(
            "https://github.com/actions/actions-runner-controller/blob/master/charts/gha-runner-scale-set/templates/kube_mode_role.yaml",
            "https://kubernetes.io/docs/concepts/security/rbac-good-practices/#workload-creation",
        ),
        check=job_pods,
        level="advisory",
    ),
    Rule(
        name="runner-accepted",
        title="The version of a runner is one that GitHub registers.",
        why="GitHub refuses older versions. The machines start and cost money, but get no job.",
        fix="Use a newer version of github.com/actions/runner, or an image with a newer version.",
        sources=(RULE_OF_GITHUB, "catalog/gpu_catalog/data/runners.json"),
        check=refused_versions,
        needs_catalog=True,
    ),
    Rule(
        name="runner-fresh",
        title="A runner is updated within 30 days of a newer release.",
        why="GitHub gives older runners no jobs. The rule is advisory, because an unchanged stack would start to fail "
        "after a release, and the installed catalog may not know the newest releases.",
        fix="Use a newer version of github.com/actions/runner, or an image with a newer version.",
        sources=(RULE_OF_GITHUB, "catalog/gpu_catalog/data/runners.json"),
        check=outdated_versions,
        level="advisory",
        needs_catalog=True,
    ),
    Rule(
        name="no-github-token",
        title="No resource contains a GitHub token.",
        why="Every job can read the user data and metadata of its machine. With a token that registers runners or acts "
        "for a user, a job can take over the pool or the organization.",
        fix="Use a GitHub App with its key in a secret store, and register with a just-in-time configuration. For ARC, "
        "put github_app_id, github_app_installation_id and github_app_private_key into its Secret.",
        sources=(
            "https://github.blog/engineering/platform-security/behind-githubs-new-authentication-token-formats/",
            "https://docs.github.com/en/actions/reference/security/secure-use",
            "https://docs.github.com/en/actions/how-tos/manage-runners/use-actions-runner-controller/authenticate-to-the-api",
        ),
        check=github_tokens,
    ),
    Rule(
        name="aws-oidc-subject",
        title="An AWS role that trusts GitHub names the workflows.",
        why="GitHub signs tokens for every repository. Without a condition on the subject, any workflow on GitHub can "
        "assume the role.",
        fix=f"Add a condition StringEquals or StringLike on {SUBJECT}. Its value begins with the owner and the "
        "repository, such as repo:acme/kernels:ref:refs/heads/main.",
        sources=(
            "https://docs.github.com/en/actions/how-tos/secure-your-work/security-harden-deployments/oidc-in-aws",
            "https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_create_for-idp_oidc.html",
        ),
        check=open_roles,
    ),
    Rule(
        name="gcp-oidc-subject",
        title="A workload identity pool that trusts GitHub names the workflows.",
        why="GitHub signs tokens for every repository. Without a condition, any workflow on GitHub gets an identity.",
        fix='Set attributeCondition, such as assertion.repository_owner_id == "123456". Bind roles to a subject or an '
        "attribute of the pool, not to the whole pool.",
        sources=(
            "https://docs.cloud.google.com/iam/docs/workload-identity-federation-with-deployment-pipelines",
            "https://docs.github.com/en/actions/how-tos/secure-your-work/security-harden-deployments/oidc-in-google-cloud-platform",
        ),
        check=open_pools,
    ),
    Rule(
        name="pinned-images",
        title="Pods of jobs, checks and runners name their image by digest.",
        why="A user who can push to a registry can move a tag. Then the pool runs another image than the "
        "image that its check has tested.",
        fix="Write the image as name:tag@sha256:…; docker buildx imagetools inspect prints the digest.",
        sources=("https://kubernetes.io/docs/concepts/containers/images/#image-names",),
        check=unpinned_images,
    ),
    Rule(
        name="gpu-request-is-limit",
        title="The GPU request of a container equals its limit.",
        why="Kubernetes assigns whole GPUs. It refuses a pod with another request only when it creates the pod, which "
        "is after the deployment.",
        fix="Set the number of GPUs under resources.limits, and the same number or nothing under resources.requests.",
        sources=("https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/",),
        check=unequal_gpu_requests,
    ),
)
