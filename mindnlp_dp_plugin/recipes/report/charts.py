"""Figures by matplotlib, as SVG that takes its colours from the page's style, light or dark."""

import io
import math
import re
import warnings
from typing import NamedTuple

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

# Colours that nothing else has, and what of the page's style stands for them.
ACCENT, WARM, SOFT, LINE, INK, CARD, FAINT = (f"#0000{number:02x}" for number in range(0xA1, 0xA8))
IN_THE_PAGE = {
    **{ACCENT: "rgb(var(--accent))", WARM: "rgb(var(--warm))", SOFT: "var(--soft)", LINE: "var(--line)"},
    **{INK: "var(--ink)", CARD: "var(--card)", FAINT: "rgb(var(--accent) / .4)"},
}
COLOURS = (ACCENT, WARM, SOFT)
STYLE = {
    "svg.fonttype": "none",  # letters stay letters, in the page's font
    "svg.hashsalt": "recipes",
    "text.parse_math": False,  # a class may be called $x_1$
    "font.size": 8.5,
    **{name: SOFT for name in ("text.color", "xtick.color", "ytick.color", "axes.labelcolor")},
    **{name: LINE for name in ("axes.edgecolor", "grid.color")},
    **{f"axes.spines.{side}": False for side in ("top", "right", "left")},
    **{"axes.grid.axis": "y", "axes.axisbelow": True, "xtick.major.size": 0, "ytick.major.size": 0},
    **{"legend.frameon": False, "figure.constrained_layout.use": True, "lines.linewidth": 1.8},
}
WIDTH, HEIGHT, BARS_WIDTH = 4.4, 2.4, 2.9  # inches
BAR, LABEL, CELL, LETTER = 0.15, 0.22, 0.42, 0.08
STARTS = (0.8, 0.5)  # of the axis of shares, if all are above
MOST_DRAWN = 1e15


class Series(NamedTuple):
    """A line.

    Attributes:
        name: For the legend.
        points: (x, y) each.
        has_dots: Whether each point is marked.
    """

    name: str
    points: list[tuple[float, float]]
    has_dots: bool = False


def line_chart(
    series: list[Series], x_name: str, are_shares: bool = False, marked_x: float | None = None, mark: str = ""
) -> str:
    """An SVG element; nothing if no series has two points.

    Args:
        series: The lines.
        x_name: What the horizontal axis shows.
        are_shares: Whether they are shares of a whole: then the axis ends at 1, else it begins at 0.
        marked_x: Where an upright line stands.
        mark: What it says.
    """
    series = [each._replace(points=list(filter(_is_finite, each.points))) for each in series]
    series = [each for each in series if len(each.points) > 1]
    if not series:
        return ""
    with matplotlib.rc_context(STYLE):
        axes = _axes(WIDTH, HEIGHT)
        for each, colour in zip(series, COLOURS):
            axes.plot(*zip(*each.points), color=colour, marker="o" if each.has_dots else "", ms=4, label=each.name)
        lowest = min(y for each in series for _, y in each.points)
        if are_shares:
            axes.set_ylim(next((start for start in STARTS if lowest >= start), 0), 1.01)
        elif lowest >= 0:
            axes.set_ylim(bottom=0)
        axes.grid(True)
        last = max(x for each in series for x, _ in each.points)
        axes.set_xlim(0, 1.02 * last)
        axes.xaxis.set_major_locator(MaxNLocator(integer=last >= 2, nbins=7))
        axes.set_xlabel(x_name)
        if marked_x is not None:
            axes.axvline(marked_x, color=SOFT, linestyle=":", linewidth=1, label=mark)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0)
        return _svg(axes)


def scatter_chart(points: list[tuple[float, float]], x_name: str, y_name: str) -> str:
    """Points around the diagonal, on which both numbers are equal, as an SVG element.

    Args:
        points: At least one.
        x_name: What the horizontal axis shows.
        y_name: What the vertical axis shows.
    """
    with matplotlib.rc_context(STYLE):
        axes = _axes(WIDTH, HEIGHT * 1.3)
        axes.axline(points[0][:1] * 2, slope=1, color=SOFT, linestyle=":", linewidth=1)
        axes.scatter(*zip(*points), color=ACCENT, s=12, alpha=0.5, linewidths=0)
        axes.grid(True)
        axes.set_xlabel(x_name)
        axes.set_ylabel(y_name)
        return _svg(axes)


def bar_chart(groups: dict[str, dict[str, float]], shown: list[list[str]], end: float | None = None) -> str:
    """Lying bars under their names, as an SVG element.

    Args:
        groups: For each kind of bar, which has a colour of its own, the length of each of its bars by name.
        shown: The same, in words.
        end: Of the axis, and then the first bar alone is marked; None: of the longest bar.
    """
    names, thick = list(next(iter(groups.values()))), BAR / (BAR * len(groups) + LABEL)
    has_legend = len(groups) > 1
    with matplotlib.rc_context({**STYLE, "font.size": 9}):
        axes = _axes(BARS_WIDTH, (BAR * len(groups) + LABEL) * len(names) + LABEL * has_legend + 0.1)
        for number, ((kind, bars), texts) in enumerate(zip(groups.items(), shown)):
            places = [place + thick * (number + 0.5) for place in range(len(names))]
            lengths = [min(max(0.0, bars[name]), MOST_DRAWN) for name in names]
            drawn = axes.barh(places, lengths, thick * 0.8, label=kind)
            for bar in drawn:
                bar.set_facecolor(COLOURS[number] if end is None or bar is drawn[0] else FAINT)
            axes.bar_label(drawn, texts, padding=4, color=INK)
        for place, name in enumerate(names):
            axes.text(0, place - 0.06, name, va="bottom")
        longest = end or max(max(of.values(), default=0) for of in groups.values()) or 1
        axes.set(
            xlim=(0, 1.2 * min(longest, MOST_DRAWN)),
            ylim=(len(names) - 1 + thick * len(groups), thick * len(groups) - 1),
        )
        axes.set_axis_off()
        if has_legend:
            axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0)
        return _svg(axes)


def matrix_chart(counts: list[list[int]], names: list[str], x_name: str, y_name: str) -> str:
    """A confusion matrix, as an SVG element: rows true, columns predicted, colours by the share of the row.

    Args:
        counts: How many, by row and column.
        names: Of the classes.
        x_name: What columns are.
        y_name: What rows are.
    """
    with matplotlib.rc_context(STYLE):
        size, margin = CELL * len(names), 0.7 + LETTER * max(map(len, names))
        is_upright = len(names) > 5
        axes = _axes(margin + size * (1 if is_upright else 1.4), size + (margin if is_upright else 0.7))
        for true, row in enumerate(counts):
            for predicted, count in enumerate(row):
                share = count / (sum(row) or 1)
                colour = ACCENT if true == predicted else WARM
                axes.barh(true, 0.94, 0.94, predicted - 0.47, color=colour, alpha=0.04 + 0.9 * share)
                ink = CARD if share > 0.55 else INK if count else SOFT
                axes.text(predicted, true, str(count), ha="center", va="center", color=ink)
        axes.set_xticks(range(len(names)), names, rotation=90 if is_upright else 0)
        axes.set_yticks(range(len(names)), names)
        axes.set(xlim=(-0.5, len(names) - 0.5), ylim=(len(names) - 0.5, -0.5), xlabel=x_name, ylabel=y_name)
        axes.xaxis.set_label_position("top")
        axes.xaxis.tick_top()
        axes.spines["bottom"].set_visible(False)
        return _svg(axes)


def _axes(width, height):
    return Figure(figsize=(width, height)).subplots()


def _svg(axes):
    file = io.StringIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of letters that matplotlib's own font lacks
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        axes.figure.savefig(file, format="svg", transparent=True, metadata=nothing)
    text = file.getvalue()
    text = re.sub(r' xmlns(:xlink)?="[^"]*"| id="[a-z_]+\d+"', "", text[text.index("<svg") :])
    text = re.sub(r"font-family: [^;\"]*; ", "", text)
    for colour, own in IN_THE_PAGE.items():
        text = text.replace(colour, own)
    return text


def _is_finite(point):
    return all(math.isfinite(value) and abs(value) < MOST_DRAWN for value in point)
