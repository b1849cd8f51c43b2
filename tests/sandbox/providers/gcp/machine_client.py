"""Asks the sandbox's Secret Manager, Cloud Logging and GitHub over HTTP, as a machine does."""

from __future__ import annotations

import base64
import json
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any

from pulumi_sandbox.providers import rsa_key
from pulumi_sandbox.providers.gcp import machine_services
from pulumi_sandbox.providers.machines.local_services import LocalServices
from pulumi_sandbox.providers.machines.metadata import token_of

from tests.sandbox.providers.gcp.api import OPENER
from tests.sandbox.providers.gcp.conftest import Google

ACCOUNT = "runner@ci-project.iam.gserviceaccount.com"
KEY = "projects/ci-project/secrets/app-key"
SETTINGS = """
guest: {environment: {SECRETS: "${secretmanager}", MIXED: "${github}/api/v3", PLAIN: x}}
exists:
  gcp: ["projects/ci-project/secrets/*"]
  github: [apps/17/installations/18]
lookups:
  "gcp:secretmanager/getSecretVersionAccess:getSecretVersionAccess":
    - match: {secret: "*/app-key"}
      secrets: [secretData]
      result: {secretData: "${made.rsaPrivateKeys.17}"}
"""


@dataclass
class Client:
    """Asks one of the services as a machine does."""

    google: Google
    services: LocalServices = field(init=False)

    def __post_init__(self) -> None:
        self.services = machine_services.local_services(self.google.cloud)

    def ask(self, service: str, method: str, path: str, token: str = "", body: Any = None) -> tuple[int, Any]:
        # The other APIs have an address too, which machines do not need.
        url = self.services.url(service)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{url}{path}", data, headers, method=method)  # noqa: S310 - our own server
        try:
            with OPENER.open(request, timeout=30) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def secret(self, name: str = KEY, account: str = ACCOUNT) -> tuple[int, Any]:
        return self.ask("secretmanager", "GET", f"/v1/{name}/versions/latest:access", token_of(account))

    def grant(self, secret: str = KEY, role: str = "roles/secretmanager.secretAccessor") -> None:
        inputs = {"secretId": secret, "role": role, "member": f"serviceAccount:{ACCOUNT}"}
        self.google.make("gcp:secretmanager/secretIamMember:SecretIamMember", "grant", inputs)

    def token(self, **claims: Any) -> tuple[int, Any]:
        return self.ask("github", "POST", "/app/installations/18/access_tokens", self.jwt(**claims), {})

    def jwt(self, key: str = "", **claims: Any) -> str:
        """As an App makes one: RS256 by openssl."""
        now = int(time.time())
        payload = {"iss": "17", "iat": now - 60, "exp": now + 540, **claims}
        parts = [encoded(json.dumps(each).encode()) for each in ({"alg": "RS256", "typ": "JWT"}, payload)]
        text = ".".join(parts)
        pem = self.google.folder / "key.pem"
        pem.write_text(key or rsa_key.private_key(self.google.world, payload["iss"]))
        words = ["openssl", "dgst", "-sha256", "-sign", str(pem)]
        return f"{text}.{encoded(subprocess.run(words, input=text.encode(), capture_output=True, check=True).stdout)}"

    def installed(self, body: Any = None) -> str:
        status, answer = self.ask("github", "POST", "/app/installations/18/access_tokens", self.jwt(), body)
        assert status == 201, answer
        return str(answer["token"])


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
