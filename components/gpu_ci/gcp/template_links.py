"""Reads the links of instance templates. It uses the standard library only, as programs without pydantic import it."""

from __future__ import annotations


def region_and_name_of_template(link: str) -> tuple[str, str]:
    """Return region and name of a template link: projects/<p>/regions/<region>/instanceTemplates/<name>, or a URL."""
    parts = link.split("?")[0].split("/")
    return parts[parts.index("regions") + 1], parts[-1]
