"""The rules of the pack, in the order of the documentation."""

from __future__ import annotations

from . import (
    addresses,
    containers,
    encryption,
    metadata_service,
    runners,
    tokens,
    trust,
)
from .rule import Rule

RULES: tuple[Rule, ...] = (
    *addresses.RULES,
    *metadata_service.RULES,
    *encryption.RULES,
    *runners.RULES,
    *tokens.RULES,
    *trust.RULES,
    *containers.RULES,
)
