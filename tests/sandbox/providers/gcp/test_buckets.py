"""The objects of a bucket that is deleted."""

from __future__ import annotations

import pytest
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.object_storage import BUCKET_OBJECT

from tests.sandbox.providers.gcp.conftest import Google


@pytest.mark.parametrize(("forced", "left"), [(True, ["a kept object of b-2"]), (False, ["a", "a kept object of b-2"])])
def test_a_bucket_is_deleted_with_its_objects_only_if_that_is_forced(
    google: Google, forced: bool, left: list[str]
) -> None:
    bucket = google.make(types.BUCKET, "bucket", {"name": "b-1", "location": "us-central1", "forceDestroy": forced})
    for name, place in (("a", "b-1"), ("a kept object of b-2", "b-2")):
        google.make(BUCKET_OBJECT, name, {"name": name, "bucket": place, "content": "x"})
    google.lifecycle.delete(bucket)
    assert [str(row.inputs["name"]) for row in google.world.find(BUCKET_OBJECT)] == left
