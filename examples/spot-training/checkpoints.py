"""Checkpoints in one folder: a new folder for each step, of which the newest complete one counts.

The folder is a local path or an address of fsspec, such as gs://BUCKET/FOLDER with the package gcsfs.
"""

from __future__ import annotations

import contextlib
from typing import Any

import fsspec
import torch.distributed.checkpoint as dcp


def newest_complete(folder: str) -> str | None:
    """Return the folder of the newest complete checkpoint, or None.

    torch writes `.metadata` last, under another name first. So a checkpoint with this file is complete.
    """
    files, path = fsspec.url_to_fs(folder)
    complete = [each for each in _steps(files, path) if files.exists(f"{each}/.metadata")]
    return str(files.unstrip_protocol(complete[-1])) if complete else None


def save(folder: str, step: int, state: dict[str, Any]) -> None:
    """Save a checkpoint into a new folder, and then delete the older ones."""
    # In a bucket, FOLDER//step-1 is not in the folder FOLDER.
    keep = f"{folder.rstrip('/')}/step-{step:09d}"
    dcp.save(state, checkpoint_id=keep)
    delete_all_but(folder, keep)


def load(checkpoint: str, state: dict[str, Any]) -> None:
    """Load a checkpoint into `state`, which must have the keys and shapes of the checkpoint."""
    dcp.load(state, checkpoint_id=checkpoint)


def delete_all_but(folder: str, keep: str | None) -> None:
    """Delete all other checkpoints. An unfinished one must not remain, because its step is saved again."""
    files, path = fsspec.url_to_fs(folder)
    for each in _steps(files, path):
        if keep and each.endswith(keep.rpartition("/")[2]):
            continue
        # First the name that makes it complete: this program may be killed between two deletions.
        with contextlib.suppress(FileNotFoundError):
            files.rm_file(f"{each}/.metadata")
        files.rm(each, recursive=True)


def _steps(files: fsspec.AbstractFileSystem, path: str) -> list[str]:
    """Return the folders of all checkpoints, the oldest first."""
    files.invalidate_cache()  # gcsfs and s3fs keep listings.
    return sorted(files.glob(f"{path}/step-*"))
