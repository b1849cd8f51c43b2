"""Uploads a version of the model to Vertex AI's registry, and prints its number.

    python register.py projects/PROJECT/locations/LOCATION/models/arr-coc run-1 IMAGE gs://BUCKET/FOLDER

A second call with the same alias, such as run-1, uploads nothing, and prints the same number.
"""

import re
import sys
import time
from typing import Any

from googleapiclient.discovery import build
from googleapiclient.errors import HttpError

POLL_SEC = 10


def register(api: Any, name: str, alias: str, image: str, folder: str) -> str:
    """Return the number of the version. Raise HttpError, or RuntimeError if the upload fails.

    Args:
        api: projects().locations() of Google's client.
        name: The model, projects/PROJECT/locations/LOCATION/models/ID.
        alias: An alias of this version.
        image: The image with its digest.
        folder: The folder with the files of the model.
    """
    parent, _, model = name.partition("/models/")
    if version := version_of(api, f"{name}@{alias}"):
        return version
    # These are the defaults of arr_coc.serve. The default port is 8080.
    container = {"imageUri": image, "healthRoute": "/health", "predictRoute": "/predict"}
    uploaded = {"displayName": model, "artifactUri": folder, "versionAliases": [alias], "containerSpec": container}
    # The first version creates the model.
    place = {"parentModel": name} if version_of(api, name) else {"modelId": model}
    operation = api.models().upload(parent=parent, body={"model": uploaded, **place}).execute()
    while not operation.get("done"):
        time.sleep(POLL_SEC)
        operation = api.operations().get(name=operation["name"]).execute(num_retries=3)
    if "error" in operation:
        raise RuntimeError(operation["error"].get("message", "the upload failed"))
    return str(operation["response"]["modelVersionId"])


def version_of(api: Any, name: str) -> str | None:
    """Return the number of a version, or None if it does not exist."""
    try:
        return str(api.models().get(name=name).execute(num_retries=3)["versionId"])
    except HttpError as error:
        if error.status_code == 404:
            return None
        raise


def main(name: str, alias: str, image: str, folder: str) -> None:
    """Register the version. An error exits with 1."""
    location = name.split("/")[3]
    address = {"api_endpoint": f"https://{location}-aiplatform.googleapis.com"}
    api = build("aiplatform", "v1", client_options=address).projects().locations()
    try:
        print(register(api, name, alias, image, folder))
    except (HttpError, RuntimeError) as error:
        sys.exit(f"{name}: {error}")


if __name__ == "__main__":
    if len(sys.argv) != 5 or not re.fullmatch(r"projects/[^/]+/locations/[^/]+/models/[^/]+", sys.argv[1]):
        sys.exit(__doc__)
    main(*sys.argv[1:])
