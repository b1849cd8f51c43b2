"""`gpu-ci github-app store`: stores private keys in a secret store. No key is in a file, an argument or a message."""

from __future__ import annotations

import base64
import re
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass

import click
from google.auth import crypt, jwt

from gpu_ci.cli import google_api, options
from gpu_ci.cli.google_api import Call, GoogleError
from gpu_ci.cli.output import InputError, print_json
from gpu_ci.cli.programs import NotAskedError
from gpu_ci.secret_manager import aws_secret

_NAME = re.compile(r"projects/(?P<project>[a-z0-9.:-]+)/secrets/(?P<name>[A-Za-z0-9_-]{1,255})")
_CONFLICT = 409
_AWS_CREDENTIALS = (
    "credentials of the secret's account with secretsmanager:CreateSecret, secretsmanager:GetSecretValue and "
    "secretsmanager:PutSecretValue"
)
# docs.github.com, "Generating a JSON Web Token (JWT) for a GitHub App": the token is issued 60 s in the past to allow
# for clock differences, and expires within 10 minutes.
_ISSUED_BEFORE_SEC, _EXPIRES_AFTER_SEC = 60, 300
_MAX_KEY_BYTES = 64 * 1024  # the limit of a secret's version: cloud.google.com/secret-manager/quotas


def connect() -> Call:
    """Return a connection to Google with the credentials of this computer. Raise InputError if there are none."""
    try:
        return google_api.connect()
    except NotAskedError as error:
        command = click.get_current_context().command_path
        hint = next(iter(error.fix), "")
        raise InputError(f"{command}: no Google credentials", got=str(error), hint=hint) from None


def check_name(secret: str) -> None:
    """Raise InputError unless the text names a secret."""
    if not _NAME.fullmatch(secret) and not aws_secret(secret):
        expected = "projects/<project>/secrets/<name>, or arn:aws:secretsmanager:<region>:<account>:secret:<name>"
        raise InputError("the secret's name has another form", got=repr(secret), expected=expected)


def check_key(pem: bytes) -> None:
    """Raise InputError unless the text is an RSA private key in PEM form. The message does not contain the key."""
    try:
        if len(pem) > _MAX_KEY_BYTES:
            raise ValueError
        crypt.RSASigner.from_string(pem)  # type: ignore[no-untyped-call]
    except Exception:
        raise InputError(
            "the input is not an RSA private key in PEM form",
            expected="the .pem file that GitHub gives for the App",
            hint="gpu-ci github-app store SECRET < downloaded.pem",
        ) from None


def app_token(app: int, key: bytes) -> str | None:
    """Return the App's JSON web token, or None for a text that is no key."""
    try:
        signer = crypt.RSASigner.from_string(key)  # type: ignore[no-untyped-call]
    except Exception:  # cryptography raises several types, and their texts may quote the key
        return None
    now = int(time.time())
    claims = {"iat": now - _ISSUED_BEFORE_SEC, "exp": now + _EXPIRES_AFTER_SEC, "iss": str(app)}
    token: bytes = jwt.encode(signer, claims)  # type: ignore[no-untyped-call]
    return token.decode()


@dataclass(frozen=True)
class Stores:
    """The stores of some secrets: Secret Manager of Google Cloud, AWS Secrets Manager, or both."""

    _google: Call | None

    def add(self, secret: str, pem: bytes) -> str:
        """Add the key as the newest version of the secret, and create a missing secret. Raise InputError on failure."""
        if self._google is None or aws_secret(secret):
            return _store_on_aws(secret, pem)
        return _store_on_google(self._google, secret, pem)

    def newest(self, secret: str) -> bytes | None:
        """Return the newest version of a secret, or None if it cannot be read. The value stays in memory."""
        try:
            if self._google is None or aws_secret(secret):
                return newest_on_aws(secret)
            return newest_on_google(self._google, secret)
        except (GoogleError, NotAskedError):
            return None


def stores(secrets: Collection[str]) -> Stores:
    """Return the stores of these secrets. Raise InputError if the credentials of a store are missing."""
    for secret in secrets:
        if aws_secret(secret):
            _check_aws_account(secret)
    return Stores(connect() if any(not aws_secret(each) for each in secrets) else None)


def newest_on_google(call: Call, secret: str) -> bytes:
    """Return the newest version of a secret in Secret Manager. Raise GoogleError if it cannot be read."""
    answer = call(
        "secretmanager", "v1",
        lambda api: api.projects().secrets().versions().access(name=f"{secret}/versions/latest"),
    )  # fmt: skip
    return base64.b64decode(answer.get("payload", {}).get("data", ""))


def newest_on_aws(secret: str) -> bytes | None:
    """Return the newest version of a secret in AWS Secrets Manager, or None if there is none.

    Raises:
        NotAskedError: The secret cannot be read.
    """
    from gpu_ci.aws.limits.eks_api import Account, ApiError, AwsClient

    arn = aws_secret(secret)
    assert arn, "checked before"  # noqa: S101
    try:
        answer = AwsClient("secretsmanager", Account(arn["region"])).call("get_secret_value", SecretId=secret)
    except ApiError as error:
        if error.missing:
            return None
        raise NotAskedError(f"the key in {secret} cannot be read: {error}") from None
    return str(answer.get("SecretString", "")).encode()


def _check_aws_account(secret: str) -> None:
    """Raise InputError unless there are credentials of the secret's account in AWS."""
    from gpu_ci.aws.limits.eks_api import Account, ApiError, AwsClient

    arn = aws_secret(secret)
    assert arn, "checked before"  # noqa: S101
    try:
        account = AwsClient("sts", Account(arn["region"])).call("get_caller_identity")["Account"]
        if f":{account}:" not in secret:
            raise ApiError("", f"the credentials are of the account {account}")
    except ApiError as error:
        command = click.get_current_context().command_path
        raise InputError(
            f"{command}: no AWS credentials for {secret}",
            got=str(error),
            expected=_AWS_CREDENTIALS,
            hint="sign in, for example with `aws sso login`, or set AWS_PROFILE",
        ) from None


def _store_on_aws(secret: str, pem: bytes) -> str:
    """Add the key as the newest version of a secret in AWS Secrets Manager, and create the secret if it is missing.

    Returns:
        The ARN of the secret.

    Raises:
        InputError: AWS refused the request or could not be reached.
    """
    from gpu_ci.aws.limits.eks_api import Account, ApiError, AwsClient

    arn = aws_secret(secret)
    assert arn, "checked before"  # noqa: S101
    try:
        client = AwsClient("secretsmanager", Account(arn["region"]))
        try:
            answer = client.call("put_secret_value", SecretId=secret, SecretString=pem.decode())
        except ApiError as error:
            if not error.missing:
                raise
            answer = client.call("create_secret", Name=arn["name"], SecretString=pem.decode())
    except ApiError as error:
        raise InputError(
            f"{secret}: the key could not be stored",
            got=str(error),
            expected=_AWS_CREDENTIALS,
        ) from None
    return str(answer["ARN"])


def _store_on_google(call: Call, secret: str, pem: bytes) -> str:
    """Add the key as the newest version of the secret, and create the secret if it is missing.

    Returns:
        The name of the version, as projects/<number>/secrets/<name>/versions/<number>.

    Raises:
        InputError: Google refused the request or could not be reached.
    """
    found = _NAME.fullmatch(secret)
    assert found, "checked before"  # noqa: S101
    parent = f"projects/{found['project']}"
    payload = {"payload": {"data": base64.b64encode(pem).decode()}}
    try:
        try:
            call(
                "secretmanager", "v1",
                lambda api: api.projects().secrets().create(
                    parent=parent, secretId=found["name"], body={"replication": {"automatic": {}}}
                ),
            )  # fmt: skip
        except GoogleError as error:
            if error.status != _CONFLICT:
                raise
        answer = call(
            "secretmanager", "v1", lambda api: api.projects().secrets().addVersion(parent=secret, body=payload)
        )
    except (GoogleError, NotAskedError) as error:
        raise InputError(
            f"{secret}: the key could not be stored",
            got=str(error),
            expected="roles/secretmanager.admin on the project, or on the secret if it exists",
        ) from None
    return str(answer["name"])


@click.command("store")
@click.argument("secret")
@options.as_json
def command(secret: str, as_json: bool) -> None:
    """Store a GitHub App's private key from standard input as the newest version of a secret.

    SECRET is projects/<project>/secrets/<name>, or the ARN of a secret in AWS Secrets Manager. The command creates the
    secret if it is missing. It uses the credentials of this computer, and writes the key to no file.

    \b
    Examples:
      gpu-ci github-app store projects/acme-ci/secrets/github-app-key < downloaded.pem
      gpu-ci github-app store projects/acme-ci/secrets/github-app-key --json < downloaded.pem
    """
    check_name(secret)
    if sys.stdin.isatty():
        raise InputError("gpu-ci github-app store: no key on standard input", hint=f"{secret} < downloaded.pem")
    pem = sys.stdin.buffer.read()
    check_key(pem)
    version = stores([secret]).add(secret, pem)
    if as_json:
        print_json({"version": version})
    else:
        click.echo(f"stored {version}; delete the file of the key")
