"""Texts that look like a secret, complete or cut, are removed. Texts that people and programs need are not."""

from __future__ import annotations

import base64
import random

import pytest
from gpu_agent.redact import Lines, redact


def base64_of(length: int, seed: int, alphabet: bytes = b"+/") -> str:
    """Return random base64 of this length, the same in each run."""
    return base64.b64encode(random.Random(seed).randbytes(length), alphabet).decode()[:length]


@pytest.mark.parametrize("alphabet", [b"+/", b"-_"])
@pytest.mark.parametrize("length", [65, 76, 100, 128, 200, 201, 1000])
def test_base64_of_any_length_is_removed(length: int, alphabet: bytes) -> None:
    for seed in range(200):
        assert redact(f"it said {base64_of(length, seed, alphabet)} at last") == "it said [redacted] at last"


@pytest.mark.parametrize("width", [64, 76])
def test_a_key_is_removed_line_by_line_with_its_short_last_line(width: int) -> None:
    text = base64_of(3 * width, 1)
    lines = Lines()
    key = [text[:width], text[width : 2 * width], "from somebody else", text[2 * width :], "kJ8s/w==", "done"]
    said = [lines.redact(line) for line in key]
    assert said == ["[redacted]", "[redacted]", "from somebody else", "[redacted]", "[redacted]", "done"]
    assert redact("\n".join(key)) == "\n".join(said)


@pytest.mark.parametrize(
    "secret",
    [
        "AABF3JGZDX3P5PMEXLND6TS6FCWO6",
        "LLBF3JGZDX3P5PMEXLND6TS6FCWO6",
        "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpX",
        "eyJhbGciOiJSUzI1NiJ9.",
        "eyJhbGciOiJSUzI1NiJ9.eyJpc3Mi",
        "eyIucnVubmVyIjoiZXlKQloy",
    ],
)
def test_registration_tokens_and_truncated_tokens_and_blobs_are_removed(secret: str) -> None:
    assert redact(f"got '{secret}' back") == "got '[redacted]' back"
    assert secret not in redact(f"token={secret}")


@pytest.mark.parametrize(
    "text",
    [
        "sha256=04cf0be1aff4c3ec3554466c39124ca250e3effd8873bb7e8d68535aa9505d5d",
        "04CF0BE1AFF4C3EC3554466C39124CA250E3EFFD8873BB7E8D68535AA9505D5D",
        "/system/docker/04cf0be1aff4c3ec3554466c39124ca250e3effd8873bb7e8d68535aa9505d5d/merged",
        "projects/example-ci-with-a-long-name-1/zones/us-central1-a/instances/gpu-l4-production-x7k2-and-more",
        "https://github.com/Example-Organization/GPU-Test-Repository-For-Models/actions/runs/12345678901/job/2345",
        "//secretmanager/v1/projects/123456789012/secrets/github-app-private-key/versions/latest",
        "/usr/local/lib/python3/site-packages/torch/lib/libtorch_cuda_linalg_and_some_more_of_it/file",
        "GPU-1a2b3c4d-0000-1111-2222-333344445555 and 00000000:00:04.0",
        "-" * 80,
    ],
)
def test_text_that_people_need_is_not_removed(text: str) -> None:
    assert redact(text) == text
