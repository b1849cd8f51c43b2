"""A fake runner manager: it encrypts a runner's registration for the machine's key, or answers wrongly."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.serialization import Encoding, pkcs7
from gpu_agent.broker.registration import new_key_pair

from tests.agent.fakes.google import FakeGoogle

if TYPE_CHECKING:
    from tests.agent.fakes.whole_machine import Github

KEY, SEALED = "gpu-agent/key", "gpu-agent-registration"
USELESS = ("never", "another key", "another machine", "no configuration", "truncated", "altered", "no base64")
"""Answers after which no runner may start."""
# The change is in the encrypted message, some blocks before its end.
_ALTERED_BYTE = -100


class Answer(NamedTuple):
    """The answer to a machine's key."""

    how: str = ""
    """One of USELESS; if empty, the answer is a registration of the machine."""
    after_sec: float = 0.05


def serve(cloud: FakeGoogle, github: Github, answer: Answer, boots: int = 1) -> None:
    """Answer the key of the last boot once. Return when the machine is off, at the latest."""
    while len(cloud.keys()) < boots:
        if cloud.closing.wait(0.05):
            return
    if answer.how == "never" or cloud.closing.wait(answer.after_sec):
        return
    published_key = cloud.last(KEY)
    request = {"name": published_key["machine"], "runner_group_id": 7, "labels": ["gpu", "l4"]}
    _, made = github._register({"owner": "acme"}, {}, request)
    cloud.attributes[SEALED] = _sealed(published_key, made, answer.how)


def _sealed(published_key: dict[str, str], made: dict[str, Any], how: str) -> str:
    message = {
        "machine": "l4-other-43" if how == "another machine" else published_key["machine"],
        "runnerId": made["runner"]["id"],
        "jitConfig": "" if how == "no configuration" else made["encoded_jit_config"],
    }
    key = new_key_pair().certificate if how == "another key" else base64.b64decode(published_key["certificate"])
    to = x509.load_der_x509_certificate(key)
    envelope = pkcs7.PKCS7EnvelopeBuilder().set_data(json.dumps(message).encode()).add_recipient(to)
    sealed = bytearray(
        envelope.set_content_encryption_algorithm(AES256).encrypt(Encoding.DER, [pkcs7.PKCS7Options.Binary])
    )
    if how == "altered":
        sealed[_ALTERED_BYTE] ^= 1
    if how == "truncated":
        del sealed[len(sealed) // 2 :]
    text = base64.b64encode(sealed).decode()
    return f"{text[:40]}!{text[40:]}" if how == "no base64" else text
