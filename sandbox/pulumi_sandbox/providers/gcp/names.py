"""Parse and build Google resource names, from full self links to short forms."""

from __future__ import annotations

import re

COMPUTE_API = "https://www.googleapis.com/compute/v1/"
NAME_PATTERN = r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?"  # discovery document compute v1, e.g. InstanceTemplate.name
_PREFIX = re.compile(r"https?://[^/]+/(?:compute/)?v1/")


def relative(link: str) -> str:
    """Return the `projects/…` path of a self link in any form the API accepts (full URL, partial path, unique link)."""
    path = _PREFIX.sub("", link.split("?")[0], count=1).removeprefix("//compute.googleapis.com/").lstrip("/")
    return path.removeprefix("compute/v1/")


def absolute(link: str, project: str) -> str:
    """Return the path of a self link; a short form without a project gets the given project."""
    path = relative(link)
    return path if path.startswith("projects/") else f"projects/{project}/{path}"


def self_link(path: str) -> str:
    return COMPUTE_API + path


def last(link: str) -> str:
    return relative(link).rsplit("/", 1)[-1]


def part(link: str, collection: str) -> str:
    """Return the name after `collection/` in a link; empty if the link has no such collection."""
    parts = relative(link).split("/")
    return parts[parts.index(collection) + 1] if collection in parts[:-1] else ""


def region_of(zone: str) -> str:
    return last(zone).rpartition("-")[0]


def in_region(project: str, region: str, collection: str, name: str) -> str:
    return f"projects/{project}/regions/{region}/{collection}/{name}"


def in_zone(project: str, zone: str, collection: str, name: str) -> str:
    return f"projects/{project}/zones/{zone}/{collection}/{name}"


def everywhere(project: str, collection: str, name: str) -> str:
    return f"projects/{project}/global/{collection}/{name}"


def service_account_email(account_id: str, project: str) -> str:
    # The address reverses a domain-scoped project id: "example.com:name" becomes "name.example.com" (IAM
    # documentation, "Service accounts").
    host = ".".join(reversed(project.split(":")))
    return f"{account_id}@{host}.iam.gserviceaccount.com"
