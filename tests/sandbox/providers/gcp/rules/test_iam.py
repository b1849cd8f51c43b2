"""Service accounts, IAM members and secrets: the rules, and what is refused for want of something else."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from pulumi.runtime.proto import provider_pb2 as pb
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.protocol import Servicer
from pulumi_sandbox.providers.resource import Refused
from pulumi_sandbox.providers.values import at
from pulumi_sandbox.providers.wire import encode

from tests.sandbox.providers.fake_cloud import FakeCall
from tests.sandbox.providers.gcp.conftest import TEMPLATE, Google

AUTO = {"replication": {"auto": {}}}
MEMBER = "serviceAccount:runner@other-project.iam.gserviceaccount.com"
BOUND = {"project": "ci-project", "role": "roles/logging.logWriter", "member": MEMBER}
REGEX = '"^[a-z]([-a-z0-9]*[a-z0-9])?$"'

ACCEPTED: dict[str, tuple[str, dict[str, Any]]] = {
    "the shortest account": (types.ACCOUNT, {"accountId": "runner"}),
    "the longest account": (types.ACCOUNT, {"accountId": "r" * 30, "displayName": "ä" * 50, "description": "x" * 256}),
    "a member of another project": (types.PROJECT_MEMBER, BOUND),
    "a federated identity": (
        types.PROJECT_MEMBER,
        {**BOUND, "member": "principalSet://iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/*"},
    ),
    "everyone": (types.PROJECT_MEMBER, {**BOUND, "member": "allAuthenticatedUsers"}),
    "a custom role": (types.PROJECT_MEMBER, {**BOUND, "role": "projects/ci-project/roles/runnerStarter"}),
    "a replicated secret": (types.SECRET, {"secretId": "App_key-1", **AUTO}),
    "a secret in two places": (
        types.SECRET,
        {"secretId": "key", "replication": {"userManaged": {"replicas": [{"location": "us-east1"}]}}},
    ),
    "a secret's largest value": (types.SECRET_VERSION, {"secret": "key", "secretData": "x" * 65536}),
    "a secret in base64": (
        types.SECRET_VERSION,
        {"secret": "key", "secretData": base64.b64encode(b"x" * 65536).decode(), "isSecretDataBase64": True},
    ),
}


def test_what_google_takes_is_accepted(google: Google) -> None:
    assert {
        name: found for name, (token, inputs) in ACCEPTED.items() if (found := google.problems(token, inputs))
    } == {}


OUTLINED = (
    "(IAM members must have one of the values outlined here: "
    "https://cloud.google.com/billing/docs/reference/rest/v1/Policy#Binding)\n"
    "  hint: such as serviceAccount:name@project.iam.gserviceaccount.com"
)
REFUSED: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "an account id too short": (
        types.ACCOUNT,
        {"accountId": "runr1"},
        ['accountId: "accountId" ("runr1") must be between 6 and 30 characters long'],
    ),
    "an account id too long": (
        types.ACCOUNT,
        {"accountId": "r" * 31},
        [f'accountId: "accountId" ("{"r" * 31}") must be between 6 and 30 characters long'],
    ),
    "an account id in capitals": (
        types.ACCOUNT,
        {"accountId": "Runner"},
        [f'accountId: "accountId" ("Runner") must match regex {REGEX}'],
    ),
    "an account id that ends in a dash": (
        types.ACCOUNT,
        {"accountId": "runner-"},
        [f'accountId: "accountId" ("runner-") must match regex {REGEX}'],
    ),
    "a long description": (
        types.ACCOUNT,
        {"accountId": "runner", "description": "x" * 257, "displayName": "ä" * 51},
        [
            "description: expected length of description to be in the range (0 - 256), got 257",
            "displayName: expected length of displayName to be in the range (0 - 100), got 102",
        ],
    ),
    "a member that is only an address": (
        types.PROJECT_MEMBER,
        {**BOUND, "member": "me@example.com"},
        [f'member: invalid value "me@example.com" for member {OUTLINED}'],
    ),
    "a member of no kind": (
        types.SECRET_MEMBER,
        {"secretId": "key", "role": "roles/secretmanager.secretAccessor", "member": "serviceaccount:a@b.c"},
        [f'member: invalid value "serviceaccount:a@b.c" for member {OUTLINED}'],
    ),
    "a role without its prefix": (
        types.ACCOUNT_MEMBER,
        {"serviceAccountId": "x", "role": "iam.serviceAccountUser", "member": MEMBER},
        [
            (
                "role: Role (iam.serviceAccountUser) does not exist in the resource's hierarchy.\n"
                "  hint: such as roles/logging.logWriter"
            )
        ],
    ),
    "a secret with a dot": (
        types.SECRET,
        {"secretId": "app.key", **AUTO},
        ['secretId: "secretId" ("app.key") doesn\'t match regexp "^[a-zA-Z0-9_-]{1,255}$"'],
    ),
    "a secret replicated both ways": (
        types.SECRET,
        {"secretId": "key", "replication": {"auto": {}, "userManaged": {"replicas": [{"location": "us-east1"}]}}},
        ["replication: exactly one of replication.auto or replication.userManaged, got auto and userManaged"],
    ),
    "a secret that ends twice": (
        types.SECRET,
        {"secretId": "key", **AUTO, "ttl": "86400s", "expireTime": "2027-01-01T00:00:00Z"},
        ['ttl: "ttl": conflicts with expireTime'],
    ),
    "a label of a secret": (
        types.SECRET,
        {"secretId": "key", **AUTO, "labels": {"a": "b c"}},
        [
            (
                "labels.a: Label value 'b c' violates format constraints. The value can only contain lowercase "
                "letters, "
                "numeric characters, underscores and dashes. The value can be at most 63 characters long. "
                "International "
                "characters are allowed."
            )
        ],
    ),
    "a secret's value too large": (
        types.SECRET_VERSION,
        {"secret": "key", "secretData": "x" * 65537},
        ["secretData: The secret payload is 65537 bytes; it can be at most 65536 bytes."],
    ),
    "a secret's value that is no base64": (
        types.SECRET_VERSION,
        {"secret": "key", "secretData": "hush, hush", "isSecretDataBase64": True},
        ["secretData: expected base64, because isSecretDataBase64 is true"],
    ),
}


@pytest.mark.parametrize(("token", "inputs", "expected"), REFUSED.values(), ids=REFUSED)
def test_what_google_refuses_is_refused(
    google: Google, token: str, inputs: dict[str, Any], expected: list[str]
) -> None:
    assert google.problems(token, inputs) == expected


def refusal(google: Google, token: str, inputs: dict[str, Any]) -> str:
    with pytest.raises(Refused) as refused:
        google.make(token, "again", inputs)
    return str(refused.value)


def test_an_account_that_exists_is_refused_in_googles_words(google: Google) -> None:
    google.make(types.ACCOUNT, "one", {"accountId": "runner"})
    assert refusal(google, types.ACCOUNT, {"accountId": "runner"}) == (
        "Error creating service account: googleapi: Error 409: Service account runner already exists within project "
        "projects/ci-project., alreadyExists"
    )


def test_a_role_for_an_account_that_is_not_there_is_refused(google: Google) -> None:
    member = {**BOUND, "member": "serviceAccount:runner@ci-project.iam.gserviceaccount.com"}
    assert refusal(google, types.PROJECT_MEMBER, member) == (
        'Error applying IAM policy for project "ci-project": googleapi: Error 400: Service account '
        "runner@ci-project.iam.gserviceaccount.com does not exist., badRequest\n"
        "  hint: if the resource exists in the cloud, list it in sandbox.yaml: exists: {gcp: "
        "[projects/ci-project/serviceAccounts/runner@ci-project.iam.gserviceaccount.com]}"
    )
    google.make(types.ACCOUNT, "one", {"accountId": "runner"})
    made = google.make(types.PROJECT_MEMBER, "again", member)
    assert made.id == ("ci-project/roles/logging.logWriter/serviceAccount:runner@ci-project.iam.gserviceaccount.com")


def test_a_role_on_an_account_needs_the_account(google: Google) -> None:
    inputs = {"serviceAccountId": "projects/ci-project/serviceAccounts/x@ci-project.iam.gserviceaccount.com"}
    assert refusal(
        google, types.ACCOUNT_MEMBER, {**inputs, "role": "roles/iam.serviceAccountUser", "member": MEMBER}
    ) == (
        f"Error retrieving IAM policy for service account '{inputs['serviceAccountId']}': googleapi: Error 404: "
        "Unknown service account x@ci-project.iam.gserviceaccount.com, notFound\n"
        "  hint: if the resource exists in the cloud, list it in sandbox.yaml: exists: {gcp: "
        "[projects/ci-project/serviceAccounts/x@ci-project.iam.gserviceaccount.com]}"
    )
    account = google.make(types.ACCOUNT, "one", {"accountId": "runner"})
    inputs = {"serviceAccountId": account.outputs["name"], "role": "roles/iam.serviceAccountUser", "member": MEMBER}
    assert google.make(types.ACCOUNT_MEMBER, "it", inputs).id == f"{account.id}/roles/iam.serviceAccountUser/{MEMBER}"


def test_a_secrets_versions_are_counted_up(google: Google) -> None:
    secret = google.make(types.SECRET, "key", {"secretId": "key", **AUTO})
    ids = [google.make(types.SECRET_VERSION, f"v{i}", {"secret": secret.id, "secretData": "x"}).id for i in (1, 2)]
    assert ids == ["projects/123456789012/secrets/key/versions/1", "projects/123456789012/secrets/key/versions/2"]


def test_a_version_and_a_role_need_their_secret(google: Google) -> None:
    missing = (
        "googleapi: Error 404: Secret [projects/123456789012/secrets/key] not found., notFound\n"
        "  hint: if the resource exists in the cloud, list it in sandbox.yaml: exists: {gcp: "
        "[projects/ci-project/secrets/key]}"
    )
    assert (
        refusal(google, types.SECRET_VERSION, {"secret": "projects/ci-project/secrets/key", "secretData": "x"})
        == missing
    )
    role = {"secretId": "key", "role": "roles/secretmanager.secretAccessor", "member": MEMBER}
    assert refusal(google, types.SECRET_MEMBER, role) == missing


def test_a_secret_that_exists_is_refused_and_a_protected_one_stays(google: Google) -> None:
    secret = google.make(types.SECRET, "key", {"secretId": "key", **AUTO, "deletionProtection": True})
    assert refusal(google, types.SECRET, {"secretId": "key", **AUTO}) == (
        "Error creating Secret: googleapi: Error 409: Secret [projects/123456789012/secrets/key] already exists., "
        "alreadyExists"
    )
    with pytest.raises(Refused, match="deletion_protection=false"):
        google.delete(secret)


@pytest.mark.parametrize(
    ("token", "path", "inputs"),
    [
        (types.ACCOUNT, ("accountId",), {"accountId": "Hush_Hush"}),
        (types.PROJECT_MEMBER, ("role",), {**BOUND, "role": "hush-hush"}),
        (types.REGION_TEMPLATE, ("machineType",), {**TEMPLATE, "machineType": "g2-standard-9"}),
        (types.REGION_TEMPLATE, ("labels", "a"), {**TEMPLATE, "labels": {"a": "Hush Hush"}}),
    ],
)
def test_no_rule_quotes_a_secret(google: Google, token: str, path: tuple[str, ...], inputs: dict[str, Any]) -> None:
    servicer = Servicer(google.cloud, google.cloud.context)
    urn = f"urn:pulumi:dev::tests::{token}::one"
    answer = servicer.Check(pb.CheckRequest(urn=urn, news=encode(inputs, {path})), FakeCall())
    assert answer.failures
    value = at(inputs, path)
    assert all(value not in failed.reason for failed in answer.failures)
    assert "standard-8" not in str(answer.failures)
