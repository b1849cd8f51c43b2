"""Reads and writes the files of a model in a folder, or in Cloud Storage at gs://BUCKET/FOLDER.

One library does this in training jobs, in containers that serve, and on a computer. It needs no mount, such as /gcs.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any


@contextmanager
def reading(address: str, names: Sequence[str]) -> Iterator[Path]:
    """Give a folder with these files of a folder or of gs://BUCKET/FOLDER."""
    if not address.startswith("gs://"):
        yield Path(address)
        return
    with TemporaryDirectory() as folder:
        for name in names:
            _blob(address, name).download_to_filename(f"{folder}/{name}")
        yield Path(folder)


@contextmanager
def writing(address: str, names: Sequence[str]) -> Iterator[Path]:
    """Give a folder for these files, and upload them to gs://BUCKET/FOLDER in this order."""
    if not address.startswith("gs://"):
        yield Path(address)
        return
    with TemporaryDirectory() as folder:
        yield Path(folder)
        for name in names:
            _blob(address, name).upload_from_filename(f"{folder}/{name}")


def _blob(address: str, name: str) -> Any:
    # Local folders do not need this package, which takes most of a second to import.
    from google.cloud import storage

    bucket, _, folder = address.removeprefix("gs://").partition("/")
    return storage.Client().bucket(bucket).blob("/".join(filter(None, [folder.strip("/"), name])))
