"""The version file, which code reads as text instead of importing torch.

The imported torch has the version of FAKE_TORCH.
"""

__version__ = "9.9.9+fake"
cuda: str | None = "13.2"
