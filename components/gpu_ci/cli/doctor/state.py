"""The steps of `gpu-ci doctor` about Pulumi's state: where it is stored, and what encrypts its secrets."""

from __future__ import annotations

import os
import shlex
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from gpu_common import passphrase

from gpu_ci.cli import programs
from gpu_ci.cli.doctor.deployment import Deployment
from gpu_ci.cli.doctor.steps import Finding, Step, problems_or_pass
from gpu_ci.cli.google_api import find
from gpu_ci.cli.programs import NotAskedError

_VARIABLE = "PULUMI_BACKEND_URL"
_INSTALL = "# install the Pulumi CLI: https://www.pulumi.com/docs/iac/download-install/"
_PUBLISHED_PASSPHRASE = "sandbox"  # noqa: S105 - it is in the files of this repository


def backend_is_shared(deployment: Deployment) -> Finding:
    url, source = _backend(deployment)
    try:
        parts = urlsplit(url)
        shown = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"  # without a user, a password and a query
    except ValueError:
        parts = None
    if parts is None or not parts.scheme or not (parts.netloc or parts.path):
        text = f"{source} has no address such as gs://BUCKET; the value is not shown"
        return Finding("fail", text, fix=(_shared(deployment, source),))
    if parts.scheme == "file":
        return Finding("fail", f"{shown} is a folder of this computer ({source})", fix=(_shared(deployment, source),))
    if parts.scheme == "gs":
        return _bucket(deployment, parts.netloc)
    query = dict(parse_qsl(parts.query))
    if parts.scheme == "s3" and "endpoint" not in query:
        return _s3_bucket(parts.netloc, query.get("region", "us-east-1"), query.get("profile", ""))
    if parts.scheme == "https":
        return Finding("pass", f"{shown} ({source})")
    return Finding("unknown", f"{shown} ({source}): this command checks buckets of Google Cloud and AWS only")


def _backend(deployment: Deployment) -> tuple[str, str]:
    """Return the address of the backend, and where it is set. The order is Pulumi's own."""
    if url := os.environ.get(_VARIABLE):
        return url, _VARIABLE
    backend = deployment.project_file.get("backend")
    if isinstance(backend, dict) and backend.get("url"):
        return str(backend["url"]), "Pulumi.yaml"
    try:
        answer: Any = programs.run_json(["pulumi", "whoami", "--json", "--non-interactive"])
    except NotAskedError as error:
        install = (_INSTALL,) if isinstance(error, programs.NotInstalledError) else ()
        raise NotAskedError(str(error), (*install, _shared(deployment, "pulumi login"))) from None
    if not isinstance(answer, dict) or not answer.get("url"):
        raise NotAskedError("pulumi whoami names no backend", (_shared(deployment, "pulumi login"),))
    return str(answer["url"]), "pulumi login"


def _shared(deployment: Deployment, source: str) -> str:
    """Return how to use a shared backend instead: the bucket that bootstrap/ creates, or Pulumi Cloud."""
    if not deployment.file.project:
        return "pulumi login  # Pulumi Cloud; a bucket: pulumi login s3://BUCKET"
    url = f"gs://{deployment.file.project}-pulumi-state"
    ways = {_VARIABLE: f"export {_VARIABLE}={url}", "Pulumi.yaml": f"# write `backend: {{url: {url}}}` in Pulumi.yaml"}
    return f"{ways.get(source, f'pulumi login {url}')}  # docs/start/bootstrap.md creates the bucket"


def _bucket(deployment: Deployment, name: str) -> Finding:
    answer = find(deployment.call, "storage", "v1", lambda api: api.buckets().get(bucket=name))
    if answer is None:
        place = f"--project {deployment.file.project} --location {deployment.region}"
        create = f"gcloud storage buckets create gs://{name} {place} --uniform-bucket-level-access"
        fix = (create, f"gcloud storage buckets update gs://{name} --versioning")
        return Finding("fail", f"gs://{name} does not exist", fix=fix)
    lacking = {
        "--versioning": not (answer.get("versioning") or {}).get("enabled"),
        "--uniform-bucket-level-access": not (
            (answer.get("iamConfiguration") or {}).get("uniformBucketLevelAccess") or {}
        ).get("enabled"),
    }
    options = [option for option, is_lacking in lacking.items() if is_lacking]
    return problems_or_pass(
        [option.removeprefix("--").replace("-", " ") for option in options],
        f"gs://{name} keeps old versions, and has uniform access",
        None,
        f"gs://{name} has no ",
        [f"gcloud storage buckets update gs://{name} {' '.join(options)}"],
    )


def _s3_bucket(name: str, region: str, profile: str) -> Finding:
    from gpu_ci.aws.limits.eks_api import Account, ApiError, AwsClient  # loads botocore

    try:
        answer = AwsClient("s3", Account(region, profile)).call("get_bucket_versioning", Bucket=name)
    except (ApiError, ModuleNotFoundError) as error:
        if str(error).startswith("NoSuchBucket"):
            return Finding("fail", f"s3://{name} does not exist", fix=(f"aws s3 mb s3://{name} --region {region}",))
        raise NotAskedError(str(error), ("aws sso login",)) from None
    fix = f"aws s3api put-bucket-versioning --bucket {name} --versioning-configuration Status=Enabled"
    wrong = [] if answer.get("Status") == "Enabled" else ["versioning"]
    return problems_or_pass(wrong, f"s3://{name} keeps old versions", None, f"s3://{name} has no ", [fix])


def secrets_are_encrypted(deployment: Deployment) -> Finding:
    provider = str(deployment.file.others.get("secretsprovider") or "")
    salt = str(deployment.file.others.get("encryptionsalt") or "")
    chosen = _provider(deployment)
    initialize = f"pulumi stack init {deployment.stack} --secrets-provider {chosen}"
    if salt and passphrase.opens(salt, _PUBLISHED_PASSPHRASE):
        text = f'the passphrase of encryptionsalt is "{_PUBLISHED_PASSPHRASE}", which is published'
        change = f"pulumi stack change-secrets-provider --stack {deployment.stack} {chosen}  # for an existing stack"
        delete = f"sed -i.bak /^encryptionsalt:/d {shlex.quote(deployment.file.name)}"
        fix = (f"{delete} && {initialize}", change)
        return Finding("fail", text, fix=fix)
    if provider and provider != "passphrase":
        return Finding("pass", f"{urlsplit(provider).scheme or provider} encrypts the secrets of the state")
    if salt:
        return Finding("pass", "a passphrase encrypts the secrets of the state")
    if _backend(deployment)[0].startswith("https://"):
        return Finding("pass", "the Pulumi service encrypts the secrets of the state")
    return Finding("unknown", f"{deployment.file.name} names no provider, so the stack is new", fix=(initialize,))


def _provider(deployment: Deployment) -> str:
    """Return the address of the key that bootstrap/ creates, or a passphrase without a Google project."""
    if not deployment.file.project:
        return "passphrase"
    keys = f"projects/{deployment.file.project}/locations/{deployment.region}/keyRings/pulumi"
    return f"gcpkms://{keys}/cryptoKeys/pulumi-secrets"


STEPS: tuple[Step[Deployment], ...] = (
    Step("backend", "a state that several people and jobs share, with old versions kept", backend_is_shared),
    Step("secrets provider", "a key in Cloud KMS or AWS KMS, or a passphrase of yours", secrets_are_encrypted),
)
