"""An account without a permission is refused, and the error names permission and resource."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from gpu_common import google_permissions
from gpu_common.google_permissions import CREATE, RESOURCES
from pulumi_sandbox.providers.gcp import permissions, types
from pulumi_sandbox.providers.machines.metadata import operator, token_of
from pulumi_sandbox.providers.resource import Refused, Resource
from pulumi_sandbox.providers.values import Decoded

from tests.bootstrap.stacks import WIDE
from tests.sandbox.providers.gcp.api import Api
from tests.sandbox.providers.gcp.conftest import PROJECT, Google
from tests.sandbox.providers.gcp.test_outputs import ONE, made

EMAIL = f"deployer@{PROJECT}.iam.gserviceaccount.com"
MEMBER = f"serviceAccount:{EMAIL}"
ROLE = f"projects/{PROJECT}/roles/deployer"
NOTHING = Decoded({})
FULL = WIDE
# The types of the table with rules of their own in the sandbox; the others are known by their shape.
CHECKED = [token for token in RESOURCES if token in types.TARGETS]
SHAPED = {
    "gcp:storage/bucket:Bucket": {"location": "us-central1", "name": "state"},
    "gcp:storage/bucketIAMMember:BucketIAMMember": {"bucket": "state", "role": "roles/viewer", "member": "allUsers"},
    "gcp:storage/bucketObject:BucketObject": {"bucket": "state", "name": "one", "content": "x"},
}


def grant(google: Google, granted: list[str], role: str = "deployer") -> None:
    """Give the account a custom role of these permissions; a second call replaces them."""
    path = f"projects/{PROJECT}/roles/{role}"
    if google.world.get(types.CUSTOM_ROLE, path):
        row = google.world.get(types.CUSTOM_ROLE, path)
        assert row is not None
        google.world.update(types.CUSTOM_ROLE, path, inputs={**row.inputs, "permissions": granted}, outputs=row.outputs)
        return
    google.make(types.ACCOUNT, "deployer", {"accountId": "deployer"})
    google.make(types.CUSTOM_ROLE, role, {"roleId": role, "title": role, "permissions": granted})
    google.make(types.PROJECT_MEMBER, role, {"project": PROJECT, "role": path, "member": MEMBER})


def impersonate(google: Google) -> None:
    google.cloud.__dict__["caller"] = permissions.Caller(google.world, EMAIL)


def without(permission: str) -> list[str]:
    return [one for one in FULL if one != permission]


def attempt(google: Google, token: str) -> Resource:
    if token in SHAPED:
        return google.make(token, "it", SHAPED[token])
    if token == types.NODE_POOL:
        # The account may not create clusters.
        account = google.cloud.__dict__.pop("caller")
        google.make(types.CLUSTER, "ci", {**ONE[types.CLUSTER], "name": "ci"})
        google.cloud.__dict__["caller"] = account
        return google.make(token, "it", dict(ONE[token]))
    made(google, token)
    return google.resource(token, "it", dict(ONE[token]))


@pytest.mark.parametrize("token", [*CHECKED, *SHAPED])
def test_the_deployer_may_create_every_type(google: Google, token: str) -> None:
    grant(google, FULL)
    impersonate(google)
    attempt(google, token)


@pytest.mark.parametrize("token", RESOURCES)
def test_an_account_without_permissions_lacks_each_that_google_requires(google: Google, token: str) -> None:
    grant(google, [])
    denied = permissions.Caller(google.world, EMAIL).operation(token, CREATE, PROJECT, "one")
    assert [re.search(r"'([\w.]+)'", error.message)[1] for error in denied] == list(RESOURCES[token][CREATE])  # type: ignore[index]


def test_the_error_names_the_permission_and_how_to_add_it(google: Google) -> None:
    grant(google, without("compute.networks.create"))
    impersonate(google)
    with pytest.raises(Refused) as refused:
        attempt(google, types.NETWORK)
    assert re.match(
        r"Error creating Network: googleapi: Error 403: Required 'compute\.networks\.create' permission for "
        rf"'projects/{PROJECT}/global/networks/it-\w+', forbidden\n  hint: {ROLE}, the role of {EMAIL}, lacks the "
        rf"permission; to add it: gcloud iam roles update deployer --project {PROJECT} --add-permissions "
        r"compute\.networks\.create$",
        str(refused.value),
    )


OPERATIONS: dict[str, tuple[str, Callable[[Google, Resource], object], str]] = {
    "update": ("iam.serviceAccounts.update", lambda google, res: update(google, res), "updating"),
    "delete": ("iam.serviceAccounts.delete", lambda google, res: google.delete(res), "deleting"),
    "read": (
        "iam.serviceAccounts.get",
        lambda google, res: google.lifecycle.read(res.token, res.id, (NOTHING, NOTHING)),
        "reading",
    ),
}


def update(google: Google, res: Resource) -> None:
    changed = google.resource(
        res.token, res.name, {**res.inputs, "displayName": "x"}, old_inputs=res.inputs, id=res.id, outputs=res.outputs
    )
    google.lifecycle.update(changed, Decoded(res.outputs))


@pytest.mark.parametrize(("permission", "act", "doing"), OPERATIONS.values(), ids=OPERATIONS)
def test_other_operations_are_refused_too(
    google: Google, permission: str, act: Callable[[Google, Resource], object], doing: str
) -> None:
    account = google.make(types.ACCOUNT, "runner", {"accountId": "runner"})
    grant(google, without(permission))
    impersonate(google)
    with pytest.raises(Refused) as refused:
        act(google, account)
    assert doing in str(refused.value)
    assert f"'{permission}'" in str(refused.value)
    assert f"runner@{PROJECT}.iam.gserviceaccount.com" in str(refused.value)
    grant(google, FULL)
    act(google, account)


def test_a_secret_is_read_with_its_permission_only(google: Google) -> None:
    function = "gcp:secretmanager/getSecretVersionAccess:getSecretVersionAccess"
    google.make(types.SECRET, "key", {"secretId": "key", "replication": {"auto": {}}})
    grant(google, google_permissions.reader())
    impersonate(google)
    with pytest.raises(Refused, match=r"Permission 'secretmanager\.versions\.access' denied on resource 'key'"):
        google.cloud.invoke(function, {"secret": "key", "project": PROJECT})
    grant(google, FULL)
    assert google.cloud.invoke(function, {"secret": "key", "project": PROJECT})


def test_the_previewer_creates_nothing(google: Google) -> None:
    grant(google, google_permissions.reader())
    impersonate(google)
    with pytest.raises(Refused, match=r"'compute\.networks\.create'"):
        attempt(google, types.NETWORK)


def test_an_account_of_another_project_or_without_a_role_may_nothing(google: Google) -> None:
    grant(google, FULL)
    other = f"other@{PROJECT}.iam.gserviceaccount.com"
    google.cloud.__dict__["caller"] = permissions.Caller(google.world, other)
    with pytest.raises(Refused, match="has no custom role in the project"):
        attempt(google, types.NETWORK)
    impersonate(google)
    with pytest.raises(Refused, match=r"Required 'compute\.networks\.create' permission for 'projects/other-project/"):
        google.make(types.NETWORK, "it", {"project": "other-project"})


def test_a_grant_by_a_role_that_no_stack_created_permits_all(google: Google) -> None:
    grant(google, [])
    google.world.delete(types.CUSTOM_ROLE, ROLE)
    impersonate(google)
    attempt(google, types.NETWORK)


CONDITIONS = {
    "not an expression": False,
    "request.time < timestamp('2026-01-01T00:00:00Z')": False,
    'resource.name.startsWith("projects/ci-project/global/networks/it-")': True,
    'resource.name.extract("/networks/{name}").startsWith("other-")': False,
    'resource.name.startsWith("nothing") || resource.name.extract("/networks/{n}").startsWith("it-")': True,
    'resource.name.extract("/networks/{n}").startsWith("it-") && resource.type == "x"': False,
}


@pytest.mark.parametrize(("condition", "permits"), CONDITIONS.items(), ids=range(len(CONDITIONS)))
def test_a_grant_permits_what_its_condition_says_and_nothing_if_it_is_not_known(
    google: Google, condition: str, permits: bool
) -> None:
    grant(google, FULL)
    [row] = google.world.find(types.PROJECT_MEMBER)
    inputs = {**row.inputs, "condition": {"title": "t", "expression": condition}}
    google.world.update(row.type, row.id, inputs=inputs, outputs=row.outputs)
    impersonate(google)
    if permits:
        attempt(google, types.NETWORK)
        return
    with pytest.raises(Refused, match="has the permission, but the condition of its grant does not hold"):
        attempt(google, types.NETWORK)


LIMITS = {
    str(["roles/logging.logWriter", "roles/pubsub.publisher"]): True,
    str(["roles/pubsub.publisher"]): False,
}


@pytest.mark.parametrize(("listed", "permits"), LIMITS.items(), ids=range(len(LIMITS)))
def test_a_condition_limits_the_roles_that_an_account_grants_and_revokes(
    google: Google, listed: str, permits: bool
) -> None:
    grant(google, FULL)
    [row] = google.world.find(types.PROJECT_MEMBER)
    expression = f"api.getAttribute('iam.googleapis.com/modifiedGrantsByRole', []).hasOnly({listed})"
    inputs = {**row.inputs, "condition": {"title": "t", "expression": expression}}
    writer = {"project": PROJECT, "role": "roles/logging.logWriter", "member": MEMBER}
    old = google.make(types.PROJECT_MEMBER, "old", writer)
    google.world.update(row.type, row.id, inputs=inputs, outputs=row.outputs)
    impersonate(google)
    for act in (lambda: google.delete(old), lambda: google.make(types.PROJECT_MEMBER, "new", writer)):
        if permits:
            act()
            continue
        with pytest.raises(Refused, match=r"(?s)IamPolicy.*the condition of its grant does not hold"):
            act()


def test_a_type_without_known_permissions_is_permitted_and_says_so(google: Google) -> None:
    grant(google, [])
    impersonate(google)
    messages: list[str] = []
    disk = google.resource("gcp:compute/disk:Disk", "it", {}, log=lambda text, severity="info": messages.append(text))
    assert list(google.cloud.refusals(disk)) == []
    assert any("its permissions are not known" in text for text in messages)


CALLS = {
    "compute.instances.list": ("GET", "aggregated/instances"),
    "compute.instances.get": ("GET", "zones/us-central1-a/instances/one"),
    "compute.instances.getGuestAttributes": ("GET", "zones/us-central1-a/instances/one/getGuestAttributes"),
    "compute.instances.getSerialPortOutput": ("GET", "zones/us-central1-a/instances/one/serialPort"),
    "compute.zoneOperations.get": ("GET", "zones/us-central1-a/operations/one"),
    "compute.instances.delete": ("DELETE", "zones/us-central1-a/instances/one"),
    "compute.instanceTemplates.get": ("GET", "regions/us-central1/instanceTemplates/one"),
}


@pytest.mark.parametrize(("permission", "call"), CALLS.items(), ids=CALLS)
def test_the_check_calls_the_api_with_the_permissions_of_the_run(
    google: Google, permission: str, call: tuple[str, str]
) -> None:
    grant(google, without(permission))
    google.cloud.configure(google.config)
    status, answer = Api(google, token=f"Bearer {token_of(EMAIL)}").call(*call)
    message = f"Required '{permission}' permission for 'projects/{PROJECT}/{call[1]}'"
    assert (status, answer["error"]["message"]) == (403, message)
    # The sandbox's user may do everything, and any other account what it was granted.
    for account, permitted in {operator(PROJECT): True, f"vm@{PROJECT}.iam.gserviceaccount.com": False}.items():
        assert (Api(google, token=f"Bearer {token_of(account)}").call(*call)[0] != 403) is permitted
    grant(google, FULL)
    assert Api(google, token=f"Bearer {token_of(EMAIL)}").call(*call)[0] != 403


MACHINES = f"machines@{PROJECT}.iam.gserviceaccount.com"
BOOT = {"boot": True, "labels": {"team": "ml"}, "sourceImage": f"projects/{PROJECT}/global/images/one"}
TEMPLATE = {
    "disks": [{**BOOT, "diskType": "pd-balanced", "diskSizeGb": 100}],
    "labels": {"team": "ml"},
    "metadata": {"a": "b"},
    "networkInterfaces": [{"network": "default"}],
    "serviceAccount": {"email": MACHINES, "scopes": ["cloud-platform"]},
}


@pytest.fixture
def insert(google: Google) -> Callable[[list[str]], tuple[int, str]]:
    """Insert a machine from a template with everything, by an account with these permissions."""
    google.make(types.ACCOUNT, "machines", {"accountId": "machines"})
    google.cloud.configure(google.config)
    template = google.template(**TEMPLATE).id
    api = Api(google, token=f"Bearer {token_of(EMAIL)}")

    def answered(permissions: list[str]) -> tuple[int, str]:
        grant(google, permissions)
        body = {"name": "l4-1a2b3c4d"}
        status, answer = api.call("POST", "zones/us-central1-a/instances", body, sourceInstanceTemplate=template)
        return status, answer.get("error", {}).get("message", "")

    return answered


def test_an_insert_needs_the_permissions_of_its_body_and_template(
    google: Google, insert: Callable[[list[str]], tuple[int, str]]
) -> None:
    permissions = list(google_permissions.INSERT)
    status, message = insert(permissions)
    assert (status, "iam.serviceAccounts.actAs" in message) == (403, True)
    user = {
        "serviceAccountId": f"projects/{PROJECT}/serviceAccounts/{MACHINES}",
        "role": "roles/iam.serviceAccountUser",
    }
    google.make(types.ACCOUNT_MEMBER, "user", {**user, "member": MEMBER})
    for permission in permissions:
        status, message = insert([each for each in permissions if each != permission])
        assert (status, message.startswith(f"Required '{permission}' permission for 'projects/{PROJECT}/")) == (
            403,
            True,
        )
    assert insert(permissions)[0] == 200
