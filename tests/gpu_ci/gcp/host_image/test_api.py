"""The calls for images by Google's own client: pages, incomplete lists, failed operations, and no repeated change."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from googleapiclient.http import HttpMockSequence
from gpu_ci.gcp.gate.compute_api import ApiError
from gpu_ci.gcp.host_image.api import GoogleImages

Answers = Callable[..., tuple[GoogleImages, HttpMockSequence]]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Return the API and its connection, which answers with these bodies, or with these statuses."""
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "one")

    def made(*bodies: Any) -> tuple[GoogleImages, HttpMockSequence]:
        connection = HttpMockSequence(
            [
                ({"status": str(body)}, "{}") if isinstance(body, int) else ({"status": "200"}, json.dumps(body))
                for body in bodies
            ]
        )
        monkeypatch.setattr(GoogleImages, "_connection", lambda _: connection)
        return GoogleImages(), connection

    return made


def templates(region: str, *links: str) -> dict[str, Any]:
    rows = [
        {"properties": {"disks": [{"initializeParams": {"sourceImage": link}}, {"type": "SCRATCH"}]}} for link in links
    ]
    return {f"regions/{region}": {"instanceTemplates": rows}}


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (
            {"items": {"regions/us-east1": {"warning": {"code": "UNREACHABLE"}}}},
            "the list of instance templates lacks some of regions/us-east1: UNREACHABLE",
        ),
        ({"unreachables": ["regions/us-east1"]}, "the list of instance templates lacks regions/us-east1"),
    ],
)
def test_a_list_of_templates_without_some_region_is_an_error(answers: Answers, page: Any, text: str) -> None:
    api, _ = answers(
        {**page, "items": {**templates("us-west1", "projects/p/global/images/a"), **page.get("items", {})}}
    )
    with pytest.raises(ApiError, match=text):
        api.images_of_templates("p")


def test_a_change_of_labels_is_sent_once_because_a_repeated_one_would_fail(answers: Answers) -> None:
    api, connection = answers(503, {"name": "one"})
    with pytest.raises(ApiError):
        api.label_image("p", "a", "f", {"x": "y"})
    assert len(connection.request_sequence) == 1
