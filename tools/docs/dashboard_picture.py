"""Draws docs/pictures/dashboard.svg, the panels of the dashboard, from the series of one run in the sandbox.

`make test-monitoring PICTURE=write` makes the run and writes the file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from tools.docs.tables import DOCS

FILE = DOCS / "pictures" / "dashboard.svg"
Points = Sequence[tuple[float, float]]
"""Seconds since the begin of the run, and a value, which may be NaN."""
_COLUMNS, _WIDTH, _HEIGHT, _LEFT, _TOP, _FOOT = 3, 360, 190, 44, 34, 42
_COLOURS = ("#3b7dd8", "#d9822b", "#3a9d5d", "#b5485d", "#7a5cc2", "#5b6770", "#b08d00")


@dataclass(frozen=True)
class Chart:
    """One panel: its title, the unit of its values, and its lines by their legends."""

    title: str
    unit: str
    lines: dict[str, Points]


def _text(value: float, unit: str) -> str:
    if unit == "percentunit":
        return f"{value * 100:.0f} %"
    return f"{value:,.{0 if value >= 10 or value == int(value) else 2}f}{' s' if unit == 's' else ''}"


def _moves(points: Points) -> bool:
    return any(value and not math.isnan(value) for _, value in points)


def _chart(chart: Chart, end: float) -> Iterator[str]:
    numbers = [value for points in chart.lines.values() for _, value in points if not math.isnan(value)]
    top = max([*numbers, 0.0]) or 1.0
    width, height = _WIDTH - _LEFT - 12, _HEIGHT - _TOP - _FOOT
    yield f'<rect width="{_WIDTH - 8}" height="{_HEIGHT - 8}" rx="4" fill="#ffffff" stroke="#d5d9de"/>'
    yield f'<text x="10" y="20" font-weight="bold">{escape(chart.title)}</text>'
    for share in (0.0, 0.5, 1.0):
        y = _TOP + height * (1 - share)
        yield f'<path d="M{_LEFT} {y:.1f}h{width}" stroke="#e6e9ed"/>'
        yield f'<text x="{_LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{_text(top * share, chart.unit)}</text>'
    x_legend = float(_LEFT)
    for colour, (name, points) in zip(_COLOURS, chart.lines.items(), strict=False):
        for is_gap, run in groupby(points, key=lambda point: math.isnan(point[1])):
            if not is_gap:
                places = (
                    f"{_LEFT + at / end * width:.1f} {_TOP + height * (1 - value / top):.1f}" for at, value in run
                )
                yield f'<path d="M{"L".join(places)}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
        yield f'<text x="{x_legend:.0f}" y="{_HEIGHT - 18}" fill="{colour}">{escape(name)}</text>'
        x_legend += 6.2 * len(name) + 10
    yield f'<text x="{_LEFT}" y="{_HEIGHT - 32}">0 s</text>'
    yield f'<text x="{_LEFT + width}" y="{_HEIGHT - 32}" text-anchor="end">{end:.0f} s</text>'


def draw(charts: Sequence[Chart]) -> str:
    """Return the picture. Lines that are always 0, and charts without another one, are left out."""
    charts = [chart for chart in charts if any(map(_moves, chart.lines.values()))]
    end = max(at for chart in charts for points in chart.lines.values() for at, _ in points)
    rows = -(-len(charts) // _COLUMNS)
    size = f"{_COLUMNS * _WIDTH + 8} {rows * _HEIGHT + 8}"
    font = 'font-family="sans-serif" font-size="11" fill="#3c4249"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" {font}>',
        '<rect width="100%" height="100%" fill="#f4f5f7"/>',
    ]
    for number, chart in enumerate(charts):
        moving = {name: points for name, points in chart.lines.items() if _moves(points)}
        x, y = number % _COLUMNS * _WIDTH + 8, number // _COLUMNS * _HEIGHT + 8
        parts += [f'<g transform="translate({x} {y})">']
        parts += _chart(Chart(chart.title, chart.unit, moving), end)
        parts += ["</g>"]
    return "\n".join([*parts, "</svg>", ""])
