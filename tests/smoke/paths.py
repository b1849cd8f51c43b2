"""The paths of the fakes."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAKES = Path(__file__).parent / "fakes"
