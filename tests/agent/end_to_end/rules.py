"""The rules that hold for every end of a machine."""

from __future__ import annotations

from typing import Any

from gpu_agent.outcomes import OUTCOMES


def broken(found: dict[str, Any], registered: int = 1) -> list[str]:
    """Return the rules that a machine broke. `registered` is the number of registrations that GitHub may have made for
    it.
    """
    rules = {
        "it lived on after its deadline": not found["alive"],
        "it said no reason, or not one of the known": bool(found["end"]) and found["end"]["reason"] in OUTCOMES,
        f"it said {found['ends']} ends": found["ends"] == 1,
        # A machine that ends as `used` runs no check.
        f"it said {found['verdicts']} verdicts": found["verdicts"] == ((found["end"] or {}).get("reason") != "used"),
        f"it was switched off {found['off']} times": found["off"] == 1,
        f"secrets lay in {found['leaked']}": not found["leaked"],
        f"it registered {found['registered']} runners": found["registered"] <= registered,
        "its job had the identity": "JOB HAS THE IDENTITY" not in found["serial"],
        # The scanner is to scan fifty times a second, which a busy computer may not reach.
        f"only {found['rounds']} looks for secrets": found["rounds"] > found["sec"] * 2,
    }
    return [rule for rule, holds in rules.items() if not holds]
