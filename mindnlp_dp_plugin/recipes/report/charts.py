"""Curves and points by matplotlib, as SVG that takes its colours from the page's style, light or dark."""

import io
import re
import warnings

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

# Colours that nothing else has, and what of the page's style stands for them.
ACCENT, WARM, SOFT, LINE = (f"#0000{number:02x}" for number in range(0xA1, 0xA5))
IN_THE_PAGE = {ACCENT: "rgb(var(--accent))", WARM: "rgb(var(--warm))", SOFT: "var(--soft)", LINE: "var(--line)"}
STYLE = {
    "svg.fonttype": "none",  # letters stay letters, in the page's font
    "svg.hashsalt": "recipes",
    "text.parse_math": False,  # a class may be called $x_1$
    "font.size": 8.5,
    "axes.formatter.useoffset": False,
    "axes.formatter.limits": (-15, 15),  # a power of ten would stand where the legend is
    **{name: SOFT for name in ("text.color", "xtick.color", "ytick.color", "axes.labelcolor")},
    **{name: LINE for name in ("axes.edgecolor", "grid.color")},
    **{f"axes.spines.{side}": False for side in ("top", "right", "left")},
    **{"axes.grid": True, "axes.grid.axis": "y", "axes.axisbelow": True, "xtick.major.size": 0, "ytick.major.size": 0},
    **{"legend.frameon": False, "figure.constrained_layout.use": True, "lines.linewidth": 1.8},
}
WIDTH, HEIGHT = 4.4, 2.4  # inches
STARTS = (0.8, 0.5)  # of the axis of shares, if all are above
MOST_DRAWN = 1e15
MOST_MARKED = 12


def line_chart(
    lines: dict[str, list], x_name: str, are_shares: bool = False, marked_x: float | None = None, mark: str = ""
) -> str:
    """An SVG element; nothing if no line has two points.

    Args:
        lines: The points (x, y) of each, by name; those of a line of few points are marked.
        x_name: What the horizontal axis shows.
        are_shares: Whether they are shares of a whole: then the axis ends at 1, else it begins at 0.
        marked_x: Where an upright line stands.
        mark: What it says.
    """
    lines = {
        name: [point for point in points if all(abs(value) < MOST_DRAWN for value in point)]
        for name, points in lines.items()
    }
    lines = {name: points for name, points in lines.items() if len(points) > 1}
    if not lines:
        return ""
    with matplotlib.rc_context(STYLE):
        axes = Figure(figsize=(WIDTH, HEIGHT)).subplots()
        for (name, points), colour in zip(lines.items(), (ACCENT, WARM, SOFT)):
            axes.plot(*zip(*points), color=colour, marker="o" if len(points) <= MOST_MARKED else "", ms=4, label=name)
        lowest, last = (
            choose(point[at] for points in lines.values() for point in points) for choose, at in ((min, 1), (max, 0))
        )
        if are_shares:
            axes.set_ylim(next((start for start in STARTS if lowest >= start), min(0, lowest)), 1.01)
            axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        elif lowest >= 0:
            axes.set_ylim(bottom=0)
        axes.set(xlim=(0, 1.02 * last), xlabel=x_name)
        axes.xaxis.set_major_locator(MaxNLocator(integer=last >= 2, nbins=7))
        if marked_x is not None:
            axes.axvline(marked_x, color=SOFT, linestyle=":", linewidth=1, label=mark)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0)
        return _svg(axes.figure)


def scatter_chart(points: list[tuple[float, float]], x_name: str, y_name: str) -> str:
    """Points around the diagonal, on which both numbers are equal, as an SVG element.

    Args:
        points: At least one.
        x_name: What the horizontal axis shows.
        y_name: What the vertical axis shows.
    """
    with matplotlib.rc_context(STYLE):
        axes = Figure(figsize=(WIDTH, HEIGHT * 1.3)).subplots()
        axes.axline(points[0][:1] * 2, slope=1, color=SOFT, linestyle=":", linewidth=1)
        axes.scatter(*zip(*points), color=ACCENT, s=12, alpha=0.5, linewidths=0)
        axes.set(xlabel=x_name, ylabel=y_name)
        return _svg(axes.figure)


def _svg(figure):
    file = io.StringIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of letters that matplotlib's own font lacks
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(file, format="svg", transparent=True, metadata=nothing)
    text = file.getvalue()
    text = re.sub(r' xmlns(:xlink)?="[^"]*"| id="[a-z_]+\d+"', "", text[text.index("<svg") :])
    text = re.sub(r"font-family: [^;\"]*; ", "", text)
    for colour, own in IN_THE_PAGE.items():
        text = text.replace(colour, own)
    return text
