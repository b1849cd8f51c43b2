"""Read as text by who must not import torch; the torch that is imported says what FAKE_TORCH has."""

__version__ = "9.9.9+fake"
cuda: str | None = "13.2"
