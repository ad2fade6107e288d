"""Line charts as SVG that takes its colours from the page's style, light or dark."""

import math
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 460, 240
RIGHT, TOP, BOTTOM = 14, 22, 38
DIGIT = 9  # the widest, at the size of small screens
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
    x_ticks = _whole_ticks(last_x)
    y_ticks = _ticks(min(y for _, y in points), max(y for _, y in points))
    left = _left(y_ticks)
    at = _places((0, last_x), y_ticks, left)
    parts = _axes(at, x_ticks, y_ticks, x_name, left)
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
    return _drawing(parts)


def scatter_chart(points: list[tuple[float, float]], x_name: str) -> str:
    """Points around the diagonal, on which both numbers are equal, as an SVG element.

    Args:
        points: At least one.
        x_name: What the horizontal axis shows.
    """
    values = [value for point in points for value in point]
    ticks = _ticks(min(values), max(values))
    left = _left(ticks)
    at = _places(ticks, ticks, left)
    parts = _axes(at, ticks, ticks, x_name, left)
    (x1, y1), (x2, y2) = (at(tick, tick) for tick in (ticks[0], ticks[-1]))
    parts.append(f'<line class="mark" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>')
    for point in points:
        x, y = at(*point)
        parts.append(f'<circle class="first" cx="{x:.1f}" cy="{y:.1f}" r="2.5" opacity=".5"/>')
    return _drawing(parts)


def _left(y_ticks):
    """Where the vertical axis stands: its numbers have room at any width of the page."""
    return 12 + DIGIT * max(len(f"{tick:g}") for tick in y_ticks)


def _places(x_ticks, y_ticks, left):
    """Where a point is drawn."""

    def at(x, y):
        across = (x - x_ticks[0]) / (x_ticks[-1] - x_ticks[0])
        up = (y - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])
        return left + across * (WIDTH - left - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    return at


def _axes(at, x_ticks, y_ticks, x_name, left):
    parts = []
    for tick in y_ticks:
        _, y = at(x_ticks[0], tick)
        parts.append(f'<line class="grid" x1="{left}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for tick in x_ticks:
        x, _ = at(tick, y_ticks[0])
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">{tick:g}</text>')
    middle = (left + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 5}" text-anchor="middle">{escape(x_name)}</text>')
    return parts


def _drawing(parts):
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{"".join(parts)}</svg>'


def _is_finite(point):
    return all(abs(value) < MOST_DRAWN for value in point)  # also false for NaN


def _whole_ticks(last):
    """Whole numbers from 0 to at most ``last``, at most seven; of less than two epochs also parts."""
    if last < 2:
        return [tick for tick in _ticks(0, last) if tick <= last]
    return list(range(0, int(last) + 1, math.ceil(last / 6)))


def _ticks(least, most):
    """Round numbers from at most ``least`` to at least ``most``, ``TICKS`` steps or a few more."""
    span = max(most - least, abs(most) * 0.1, 1e-6)
    power = 10 ** math.floor(math.log10(span / TICKS))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power * TICKS >= span)
    first, last = math.floor(least / step + 1e-9), math.ceil(most / step - 1e-9)
    return [round(number * step, 10) for number in range(min(first, last - 1), last + 1)]
