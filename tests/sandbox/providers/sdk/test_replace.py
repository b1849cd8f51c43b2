"""Changes that replace a resource by the SDK's documentation, for types without a table."""

from __future__ import annotations

import pytest
from pulumi_sandbox.providers.sdk.reader import SdkReader
from pulumi_sandbox.providers.sdk.replace import LOCATION_INPUTS, DocumentedReplacements, says_that_change_replaces

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
    assert says_that_change_replaces(text) is SENTENCES[text]


def test_a_documented_type_is_moved_by_a_new_one_whatever_its_documentation_says_of_the_place() -> None:
    reader, attachment = SdkReader("gcp"), "gcp:apigee/endpointAttachment:EndpointAttachment"
    google = DocumentedReplacements(reader, LOCATION_INPUTS)
    # `deletionPolicy` is the provider's own, and `endpointAttachmentId` is a part of what it is imported by.
    replaces = {
        path: google.replaces(attachment, path) for path in ("location", "endpointAttachmentId", "deletionPolicy")
    }
    assert replaces == {"location": True, "endpointAttachmentId": True, "deletionPolicy": None}
