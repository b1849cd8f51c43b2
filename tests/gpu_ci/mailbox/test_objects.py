"""The objects of both clouds, and their signed URLs. The judges: moto, botocore's signer, and google-cloud-storage."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

import pytest
from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from gpu_ci.mailbox.google_objects import GoogleObjects
from gpu_ci.mailbox.objects import MOST_SIGNED_SEC, Objects, ObjectsError, S3Objects, Signed
from pulumi_sandbox.providers.machines.metadata import TOKEN

from tests.gpu_ci.gcp.gpu_bridge.faulty_storage import Fault, FaultyServer
from tests.gpu_ci.mailbox.s3 import BUCKET, REGION, s3, send


@pytest.fixture(scope="module")
def bucket() -> Iterator[S3Objects]:
    with s3() as made:
        yield made


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyServer]:
    server = FaultyServer(BUCKET)
    for name in ("GOOGLE_CREDENTIALS", "GOOGLE_CLOUD_KEYFILE_JSON", "GCLOUD_KEYFILE_JSON", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", TOKEN)
    monkeypatch.setenv("GOOGLE_STORAGE_CUSTOM_ENDPOINT", f"{server.address}/storage/v1/")
    yield server
    server.close()


@pytest.fixture(params=["s3", "google"])
def objects(request: pytest.FixtureRequest) -> Objects:
    if request.param == "s3":
        found: S3Objects = request.getfixturevalue("bucket")
        for key in found.names(""):
            found.delete(key)
        return found
    request.getfixturevalue("storage")
    return GoogleObjects(BUCKET)


def test_an_object_is_written_once_read_listed_and_deleted(objects: Objects) -> None:
    key, began = "ci/mail/0a b+ü/key", time.time()
    assert (objects.read(key), objects.names("ci/")) == (None, [])
    assert objects.write(key, b"one", only_new=True)
    assert not objects.write(key, b"two", only_new=True)
    assert objects.read(key) == b"one"
    assert objects.write(key, b"three")
    assert objects.write("ci/records/a", b"")
    assert objects.write("other/a", b"")
    assert (objects.read(key), objects.read("other/a"), objects.read(key, 2)) == (b"three", b"", b"th")
    assert objects.names("ci/") == [key, "ci/records/a"]
    # S3 says seconds.
    assert began - 2 < objects.times("ci/")[key] < time.time() + 2
    objects.delete(key)
    objects.delete(key)
    assert objects.names("ci/") == ["ci/records/a"]


def test_only_the_version_that_was_read_is_replaced(objects: Objects) -> None:
    """moto checks If-Match and If-None-Match of a write, and not the status 409 of two writes at the same time."""
    assert objects.stored("state") is None
    assert objects.replace("state", b"lost", '"0123"' if isinstance(objects, S3Objects) else "5") is None
    first = objects.replace("state", b"one", "")
    assert first
    assert objects.replace("state", b"two", "") is None
    found = objects.stored("state")
    assert found
    assert (found.content, found.version, abs(found.age_sec) < 60) == (b"one", first, True)
    assert objects.replace("state", b"two", first) not in (None, first)
    assert objects.replace("state", b"three", first) is None
    assert objects.read("state") == b"two"


def test_a_list_has_all_its_pages(bucket: S3Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "2")
    keys = [f"pages/{number}" for number in range(5)]
    for key in keys:
        bucket.write(key, b"")
    assert bucket.names("pages/") == keys


def test_a_list_of_cloud_storage_has_all_its_pages(storage: FaultyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    objects, queries = GoogleObjects(BUCKET), []
    first, second = ({"name": name, "timeCreated": "1970-01-01T00:00:07.000Z"} for name in "ab")
    pages = [{"items": [first], "nextPageToken": "t"}, {}, {"items": [second]}]

    def answered(method: str, url: str, key: str, query: Any) -> bytes:
        queries.append(query.get("pageToken"))
        return json.dumps(pages[0 if "pageToken" not in query else 2]).encode()

    monkeypatch.setattr(objects, "_send", answered)
    assert (objects.times("x"), queries) == ({"a": 7.0, "b": 7.0}, [None, "t"])


def problem(call: Any) -> ObjectsError:
    with pytest.raises(ObjectsError) as raised:
        call()
    return raised.value


def test_an_outage_is_temporary_and_a_missing_bucket_is_not(
    bucket: S3Objects, storage: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for missing in (S3Objects("acme-none", REGION), GoogleObjects("acme-none")):
        for call in (lambda: missing.names("x"), lambda: missing.write("x", b"", only_new=True)):  # noqa: B023
            assert not problem(call).is_temporary
    google = GoogleObjects(BUCKET)
    google.write("x", b"1")
    storage.faults.append(Fault(status=503))
    assert google.read("x") == b"1"
    for fault, is_temporary in ((Fault(status=503, times=9), True), (Fault(status=403), False)):
        storage.faults[:] = [fault]
        assert problem(lambda: google.read("x")).is_temporary is is_temporary
    storage.faults[:] = [Fault(is_cut=True, times=9)]
    assert problem(lambda: google.read("x")).is_temporary
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    assert problem(lambda: S3Objects(BUCKET, REGION).read("x")).is_temporary


@pytest.mark.parametrize(
    ("status", "code", "is_temporary"),
    [
        (409, "ConditionalRequestConflict", True),
        (503, "SlowDown", True),
        (400, "ExpiredToken", True),
        (403, "AccessDenied", False),
    ],
)
def test_an_error_of_s3_is_temporary_or_final(
    bucket: S3Objects, status: int, code: str, is_temporary: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from botocore.stub import Stubber

    objects = S3Objects(BUCKET, REGION)
    with Stubber(objects._s3()) as stub:
        stub.add_client_error("put_object", code, http_status_code=status)
        error = problem(lambda: objects.write("x", b"", only_new=True))
    assert (error.is_temporary, f"{status} {code}" in str(error)) == (is_temporary, True)


def test_without_credentials_an_error_says_so(bucket: S3Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/none")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/none")
    objects = S3Objects(BUCKET, REGION)
    for call in (lambda: objects.read("x"), lambda: objects.signed("GET", "x", 60)):
        assert "Unable to locate credentials" in str(problem(call))


# -- signed URLs of S3 ------------------------------------------------------------------------------------------------


def is_signed(method: str, signed: Signed, key: str = "planted") -> bool:
    """Return True if the signature is the one that botocore makes for this request at this time."""
    url = urlsplit(signed.url)
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    auth = S3SigV4QueryAuth(Credentials("AKIAIOSFODNN7EXAMPLE", key), "s3", REGION, int(query["X-Amz-Expires"]))
    request = AWSRequest(method, urlunsplit(url._replace(query="")), dict(signed.headers))
    request.context["timestamp"] = query["X-Amz-Date"]
    auth._modify_request_before_signing(request)
    expected = auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
    return bool(expected == query["X-Amz-Signature"])


def test_a_signed_url_of_s3_reads_and_writes_one_object_once(bucket: S3Objects) -> None:
    put, get = bucket.signed("PUT", "m/key", 60, only_new=True), bucket.signed("GET", "m/key", 60)
    assert put.headers == {"If-None-Match": "*"}
    assert [send("PUT", put, body)[0] for body in (b"one", b"two")] == [200, 412]
    assert (send("GET", get), bucket.read("m/key")) == ((200, b"one"), b"one")
    assert "http" not in repr(put)


def test_the_signature_covers_method_key_header_and_time(bucket: S3Objects) -> None:
    """moto checks neither signature nor expiry, so this is the verdict of botocore's own signer."""
    put = bucket.signed("PUT", "m/key", 60, only_new=True)
    assert is_signed("PUT", put)
    assert not is_signed("PUT", put, "another")
    assert not is_signed("GET", put)
    assert not is_signed("PUT", Signed(put.url.replace("m/key", "m/end"), put.headers))
    assert not is_signed("PUT", Signed(put.url, {"If-None-Match": '"etag"'}))
    assert not is_signed("PUT", Signed(put.url, {}))
    assert not is_signed("PUT", Signed(put.url.replace("Expires=60", "Expires=6000"), put.headers))


def test_a_signed_url_has_the_host_of_its_region(bucket: S3Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
    url = S3Objects(BUCKET, REGION).signed("GET", "a/b", 60).url
    assert url.startswith(f"https://{BUCKET}.s3.{REGION}.amazonaws.com/a/b?")


@pytest.mark.parametrize("within_sec", [0, MOST_SIGNED_SEC + 1])
def test_no_url_lives_longer_than_seven_days(bucket: S3Objects, storage: FaultyServer, within_sec: int) -> None:
    for objects in (bucket, GoogleObjects(BUCKET)):
        with pytest.raises(ValueError, match="604800"):
            objects.signed("GET", "x", within_sec)


# -- signed URLs of Cloud Storage -------------------------------------------------------------------------------------

EMAIL = "manager@acme-ci.iam.gserviceaccount.com"


@pytest.fixture(scope="module")
def account() -> dict[str, str]:
    key = rsa.generate_private_key(65537, 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return {
        "type": "service_account",
        "client_email": EMAIL,
        "private_key": key.decode(),
        "token_uri": "http://127.0.0.1:1",
    }


@pytest.mark.filterwarnings("ignore:The load_credentials_from_dict method:DeprecationWarning")
@pytest.mark.parametrize("endpoint", ["", "http://127.0.0.1:8080/storage/v1/"])
@pytest.mark.parametrize("key", ["ci/mail/0a/key", "ci/a b+~ü/key"])
@pytest.mark.parametrize("only_new", [True, False])
def test_the_signed_url_is_the_one_of_google_cloud_storage(
    account: dict[str, str], endpoint: str, key: str, only_new: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from google.cloud.storage import _signing
    from google.cloud.storage.client import Client
    from google.oauth2.service_account import Credentials

    monkeypatch.delenv("GOOGLE_OAUTH_ACCESS_TOKEN", raising=False)
    monkeypatch.delenv("GOOGLE_STORAGE_CUSTOM_ENDPOINT", raising=False)
    monkeypatch.setenv("GOOGLE_CREDENTIALS", json.dumps(account))
    if endpoint:
        monkeypatch.setenv("GOOGLE_STORAGE_CUSTOM_ENDPOINT", endpoint)
    unix = 1_800_000_000.25
    signed = GoogleObjects(BUCKET, lambda: unix).signed("PUT", key, 600, only_new=only_new)
    stamp = datetime.fromtimestamp(unix, UTC).strftime("%Y%m%dT%H%M%SZ")
    monkeypatch.setattr(_signing, "get_v4_now_dtstamps", lambda: (stamp, stamp[:8]))
    blob = Client("acme-ci", Credentials.from_service_account_info(account)).bucket(BUCKET).blob(key)
    host = endpoint.removesuffix("/storage/v1/") or "https://storage.googleapis.com"
    headers = {"x-goog-if-generation-match": "0"} if only_new else {}
    assert signed.url == blob.generate_signed_url(
        600, host, "PUT", version="v4", headers=dict(headers), credentials=blob.client._credentials
    )
    assert signed.headers == headers


def test_an_account_without_a_key_signs_with_iam(monkeypatch: pytest.MonkeyPatch) -> None:
    import google.auth.transport.requests as transport

    sent: list[tuple[str, bytes]] = []

    class Request:
        def __call__(self, url: str, method: str, body: bytes, headers: dict[str, str]) -> Any:
            sent.append((url, base64.b64decode(json.loads(body)["payload"])))
            return SimpleNamespace(
                status=200, data=json.dumps({"signedBlob": base64.b64encode(b"\xab\xcd").decode()}).encode()
            )

    class CloudRun:
        valid, service_account_email, universe_domain = False, "default", "googleapis.com"

        def refresh(self, request: Any) -> None:
            self.service_account_email = EMAIL

        def before_request(self, *_: Any) -> None:
            pass

    monkeypatch.setattr(transport, "Request", Request)
    objects = GoogleObjects(BUCKET)
    objects._credentials = CloudRun()
    assert objects.signed("GET", "x", 60).url.endswith("&X-Goog-Signature=abcd")
    [(url, payload)] = sent
    assert url.endswith(f"/serviceAccounts/{EMAIL}:signBlob")
    assert payload.startswith(b"GOOG4-RSA-SHA256\n")


def test_credentials_without_an_account_cannot_sign(storage: FaultyServer) -> None:
    error = problem(lambda: GoogleObjects(BUCKET).signed("GET", "x", 60))
    assert (error.is_temporary, "impersonate" in str(error), TOKEN in str(error)) == (False, True, False)
