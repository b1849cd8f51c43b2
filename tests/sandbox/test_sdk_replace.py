"""What makes a new resource where no table knows the type, as the SDKs themselves tell."""

from __future__ import annotations

import pytest
from pulumi_sandbox.providers.sdk_replace import says_new

# Sentences of pulumi-gcp 10.2 and pulumi-aws 7, and what they say of every change.
SENTENCES = {
    "Immutable. The name of the site.": True,
    "Optional. Immutable. The principal of the binding.": True,
    "The domain. Changing this forces a new resource to be created.": True,
    "File system ID. Changing this value forces replacement.": True,
    "Display name of the portal. Forces replacement if changed.": True,
    "Suffix of the group. If `suffix` is changed, creates a new resource.": True,
    "Changing this will force terraform to create new resource.": True,
    "The field is immutable and causes resource replacement when mutated.": True,
    "The display name. Can be updated without creating a new resource.": False,
    "Its type. It's immutable and can only be specified during creation or the first update.": False,
    "If `enabled`, changing this forces a new resource.": False,
    "Adding or removing this configuration forces a new resource.": False,
    "Changing this property may recreate the FHIR store (removing all data).": False,
    "A table. * `name` - (Required - Forces new resource) The name.": False,
    "Whether to force a new deployment of the service.": False,
    "The range.": False,
}


@pytest.mark.parametrize("text", SENTENCES)
def test_a_sentence_says_that_every_change_makes_a_new_resource(text: str) -> None:
    assert says_new(text) is SENTENCES[text]
