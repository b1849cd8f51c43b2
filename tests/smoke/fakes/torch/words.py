"""Whole numbers in the memory of a device. A few stand for many. They can be copied, compared, added up, and lost."""

from __future__ import annotations

from typing import Any

from . import CPU, cuda, device, dtype, faulted, happen, uint8

KEPT = 4


class Words:
    def __init__(self, values: list[int], count: int, size: int = 4, where: device = CPU) -> None:
        self.values, self.count, self.size, self.device = values, count, size, where

    def __mul__(self, factor: int) -> Words:
        return self._like([value * factor for value in self.values])

    def __ne__(self, other: Any) -> Words:  # type: ignore[override]
        return self._like([int(value != other) for value in self.values])

    def __eq__(self, other: Any) -> Words:  # type: ignore[override]
        return self._like([int(value == other) for value in self.values])

    def all(self) -> bool:
        return all(self.values)

    def sum(self) -> Words:
        return Words([sum(self.values) * self.count // len(self.values)], 1)

    def item(self) -> int:
        return self.values[0]

    def double(self) -> Words:
        return self

    def cpu(self) -> Words:
        if self.device.type == "cuda":
            cuda.spend("pageable", self.count * self.size / 1e9)
        return Words(self.values, self.count, self.size)

    def zero_(self) -> None:
        self.values = [0] * KEPT

    def copy_(self, other: Words, non_blocking: bool = False) -> None:
        kinds = {self.device.type, other.device.type}
        what = "copy" if self.device == other.device else "peer" if kinds == {"cuda"} else "host"
        cuda.linger(what)
        pair = f"{other.device.index}-{self.device.index}" if what == "peer" else ""
        if pair:
            cuda.wait_once("peer", pair)
            happen("hang" if faulted("hang", "peer") else "")
        cuda.spend(what, (2 if what == "copy" else 1) * self.count * self.size / 1e9, pair)
        self.values = [*other.values]
        if self.device.type == "cuda" and faulted("corrupt", what):
            self.values[0] ^= 1

    def _like(self, values: list[int]) -> Words:
        return Words(values, self.count, self.size, self.device)


def _made(count: int, size: int, where: device, pinned: bool) -> None:
    if where.type == "cuda":
        cuda.wait_once("context", where.index)
    elif pinned:
        cuda.spend("pin", count * size / 1e9)


def arange(count: int, dtype: dtype, device: device = CPU, pin_memory: bool = False) -> Words:
    _made(count, dtype.size, device, pin_memory)
    return Words([*range(KEPT)], count, dtype.size, device)


def zeros(count: int, dtype: dtype, device: device = CPU, pin_memory: bool = False) -> Words:
    _made(count, dtype.size, device, pin_memory)
    return Words([0] * KEPT, count, 1 if dtype is uint8 else dtype.size, device)


def full(shape: tuple[int], value: float, dtype: dtype | None = None, device: device = CPU) -> Words:
    return Words([int(value)] * KEPT, shape[0], 4, device)


def empty_like(other: Words) -> Words:
    return other._like([0] * KEPT)


def bitwise_xor(one: Words, other: Any, out: Words) -> None:
    if out.device.type == "cuda":
        cuda.spend("copy", 3 * out.count * out.size / 1e9)
    others = other.values if isinstance(other, Words) else [other] * KEPT
    out.values = [value ^ each for value, each in zip(one.values, others, strict=True)]
    if isinstance(other, int) and out.device.type == "cuda" and faulted("forget"):  # what is written
        out.values[0] ^= 1
