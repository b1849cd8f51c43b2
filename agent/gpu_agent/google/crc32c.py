"""The CRC-32C checksum (RFC 3720, appendix B.4) that Google sends with a secret. Python's zlib has only CRC-32."""

from __future__ import annotations

# The polynomial 0x1EDC6F41 with its bits reversed.
_POLYNOMIAL = 0x82F63B78


def _row(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = tuple(_row(byte) for byte in range(256))


def crc32c(content: bytes) -> int:
    """Return the checksum as an unsigned 32-bit number."""
    value = 0xFFFF_FFFF
    for byte in content:
        value = value >> 8 ^ _TABLE[(value ^ byte) & 0xFF]
    return value ^ 0xFFFF_FFFF
