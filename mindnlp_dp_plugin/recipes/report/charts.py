"""Line charts as SVG that takes its colours from the page's style, light or dark."""

import math
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 460, 240
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 22, 34
TICKS = 4
MOST_DRAWN = 1e15


class Series(NamedTuple):
    """A line.

    Attributes:
        name: For the legend.
        points: (x, y) each.
        style: Its class in the page's style.
        has_dots: Whether each point is marked.
    """

    name: str
    points: list[tuple[float, float]]
    style: str
    has_dots: bool = False


def line_chart(series: list[Series], x_name: str, marked_x: float | None = None, mark: str = "") -> str:
    """An SVG element; nothing if no series has a point.

    Args:
        series: The lines.
        x_name: What the horizontal axis shows.
        marked_x: Where an upright line stands.
        mark: What it says.
    """
    series = [each._replace(points=list(filter(_is_finite, each.points))) for each in series]
    points = [point for each in series for point in each.points]
    if not points:
        return ""
    last_x = max(x for x, _ in points) or 1
    x_ticks = [tick for tick in _ticks(0, last_x) if tick <= last_x]
    y_ticks = _ticks(min(y for _, y in points), max(y for _, y in points))

    def at(x, y):
        across = x / last_x
        up = (y - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    parts = []
    for tick in y_ticks:
        _, y = at(0, tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for tick in x_ticks:
        x, _ = at(tick, y_ticks[0])
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">{tick:g}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 2}" text-anchor="middle">{escape(x_name)}</text>')
    if marked_x is not None:
        x, _ = at(marked_x, 0)
        parts.append(f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        side = "end" if x > WIDTH / 2 else "start"
        parts.append(f'<text x="{x:.1f}" y="{TOP - 6}" text-anchor="{side}">{escape(mark)}</text>')
    for each in series:
        places = [at(*point) for point in each.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline class="{each.style}" points="{path}"/>')
        if each.has_dots:
            parts += [f'<circle class="{each.style}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in places]
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{"".join(parts)}</svg>'


def _is_finite(point):
    return all(abs(value) < MOST_DRAWN for value in point)  # also false for NaN


def _ticks(least, most):
    """Round numbers from at most ``least`` to at least ``most``, ``TICKS`` steps or a few more."""
    span = max(most - least, abs(most) * 1e-3, 1e-6)
    power = 10 ** math.floor(math.log10(span / TICKS))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power * TICKS >= span)
    first, last = math.floor(least / step + 1e-9), math.ceil(most / step - 1e-9)
    return [round(number * step, 10) for number in range(first, max(last, first + 1) + 1)]
