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


def image(name: str, day: int) -> dict[str, str]:
    return {"name": name, "creationTimestamp": f"2026-01-0{day}T00:00:00Z"}


def templates(region: str, *links: str) -> dict[str, Any]:
    rows = [
        {"properties": {"disks": [{"initializeParams": {"sourceImage": link}}, {"type": "SCRATCH"}]}} for link in links
    ]
    return {f"regions/{region}": {"instanceTemplates": rows}}


def test_images_of_all_pages_are_sorted_and_are_those_of_the_pipeline(answers: Answers) -> None:
    api, connection = answers(
        {"items": [image("a", 1), image("b", 3)], "nextPageToken": "two"}, {"items": [image("c", 2)]}
    )
    assert [each["name"] for each in api.images("p", "gpu-host-prod")] == ["b", "c", "a"]
    first, second = (uri for uri, *_ in connection.request_sequence)
    assert "filter=labels.gpu-ci-image%3Dgpu-host-prod" in first
    assert "pageToken=two" in second


def test_images_of_templates_of_all_pages_and_regions_are_found(answers: Answers) -> None:
    host = "https://www.googleapis.com/compute/v1/"
    empty = {"warning": {"code": "NO_RESULTS_ON_PAGE"}}
    one = templates("us-central1", f"{host}projects/p/global/images/a") | {"regions/us-east1": empty}
    two = templates("us-east1", "projects/p/global/images/b")
    api, _ = answers({"items": one, "nextPageToken": "two"}, {"items": two})
    assert api.images_of_templates("p") == {"projects/p/global/images/a", "projects/p/global/images/b"}


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


def test_a_failed_operation_is_an_error(answers: Answers) -> None:
    failed = {"status": "DONE", "error": {"errors": [{"code": "QUOTA_EXCEEDED", "message": "no more images"}]}}
    api, _ = answers({"status": "RUNNING"}, failed)
    assert api.image_done("p", "one") is False
    with pytest.raises(ApiError, match="no more images"):
        api.image_done("p", "one")


def test_a_change_of_labels_is_sent_once_because_a_repeated_one_would_fail(answers: Answers) -> None:
    api, connection = answers(503, {"name": "one"})
    with pytest.raises(ApiError):
        api.label_image("p", "a", "f", {"x": "y"})
    assert len(connection.request_sequence) == 1
