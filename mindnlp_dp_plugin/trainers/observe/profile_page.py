"""The page of a profile: where a step goes on each rank, in English or Chinese, light or dark.

matplotlib draws it, and jinja2 fills ``profile_page.html``.
"""

import io
from collections import defaultdict
from pathlib import Path

import jinja2
import matplotlib
import numpy as np
from matplotlib.figure import Figure

from mindnlp_dp_plugin.language import language, translated
from mindnlp_dp_plugin.trainers.observe.profile import DATA, STEP_LANE

PHASES = {  # and their colours
    "data": "#8d99ae",
    "forward": "#4c8df6",
    "wait for ranks": "#f2a65a",
    "backward": "#2456b8",
    "wait for gradients": "#e2711d",
    "clip": "#b07bd8",
    "optimizer": "#2a9d6f",
    "trainer": "#77808f",
}
WAITING = ("wait for ranks", "wait for gradients")
BUCKETS = "#49afc2"
LEAST_LABELLED, TIMES_UNEVEN = 0.07, 1.1
WIDTH, ROW, MARGIN = 9.6, 0.55, 0.4  # inches
GREY = "#808890"  # on light and dark
STYLE = {"svg.fonttype": "none", **dict.fromkeys(("text.color", "xtick.color", "ytick.color", "axes.edgecolor"), GREY)}


def phases_of(events: list[dict], num_steps: int) -> dict[str, float]:
    """Seconds that a step spends in each phase, the mean over steps.

    Args:
        events: Those of a rank's trace.
        num_steps: How many steps they are of.
    """
    seconds = dict.fromkeys(PHASES, 0.0)
    for event in events:
        if event["tid"] == STEP_LANE:
            seconds[event["name"]] += event["dur"] / 1e6 / num_steps
    return seconds


def page(phases: list[dict[str, float]], events: list[list[dict]], num_steps: int) -> str:
    """The page, in the user's language.

    Args:
        phases: For each rank, the seconds of a step in each of ``PHASES``.
        events: For each rank, the events of its trace.
        num_steps: How many steps these are of.
    """
    code = language()
    own = [sum(seconds for name, seconds in of_rank.items() if name not in WAITING) for of_rank in phases]
    slow, fast = own.index(max(own)), own.index(min(own))
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined)
    environment.globals["_"] = lambda template, **fields: translated(template, code).format(**fields)
    template = environment.from_string(Path(__file__).with_suffix(".html").read_text(encoding="utf-8"))
    with matplotlib.rc_context(STYLE):
        drawn = {"bars": _bars(phases), "timeline": _timeline(events)}
    return template.render(
        language=code,
        phases=phases,
        colours=PHASES,
        buckets=BUCKETS,
        num_steps=num_steps,
        milliseconds=milliseconds,
        slow=slow,
        fast=fast,
        times=own[slow] / own[fast] if own[fast] > 0 else 1,
        times_uneven=TIMES_UNEVEN,
        longest=max(phases[slow], key=phases[slow].get),
        **drawn,
    )


def milliseconds(seconds: float) -> str:
    """Four digits, and no exponent."""
    return f"{seconds * 1e3:.4g}" if seconds < 1 else f"{seconds * 1e3:.0f}"


def _bars(phases):
    """A bar for each rank."""
    axes = _axes(len(phases))
    lengths = np.array([list(of_rank.values()) for of_rank in phases]) * 1e3
    totals, ends = lengths.sum(1), lengths.cumsum(1)
    for colour, length, end in zip(PHASES.values(), lengths.T, ends.T):
        bars = axes.barh(range(len(phases)), length, left=end - length, color=colour)
        shares = [f"{share:.0%}" if share >= LEAST_LABELLED else "" for share in length / totals]
        axes.bar_label(bars, shares, label_type="center", color="white")
    axes.set_xlim(0, totals.max())
    return _svg(axes)


def _timeline(events):
    """The phases of each rank over the time of one step, and below them its buckets; ranks share a clock."""
    axes = _axes(len(events))
    shown = max(map(_end_of_step, events)) or 1
    for rank, of_rank in enumerate(events):
        spans = defaultdict(list)
        for event in of_rank:
            if event["ts"] < shown:
                colour = PHASES[event["name"]] if event["tid"] == STEP_LANE else BUCKETS
                spans[colour].append((event["ts"] / 1e3, event["dur"] / 1e3))
        for colour, of_colour in spans.items():
            place = (rank + 0.1, 0.25) if colour == BUCKETS else (rank - 0.4, 0.45)
            axes.broken_barh(of_colour, place, color=colour, linewidth=0)
    axes.set_xlim(0, shown / 1e3)
    return _svg(axes)


def _end_of_step(events):
    """When the first step of a rank ends: where it reads the first batch of the next, or at the last event."""
    steps = [event for event in events if event["tid"] == STEP_LANE]
    names = [event["name"] for event in steps]
    after = names.index("optimizer") if "optimizer" in names else 0
    following = next((event for event in steps[after:] if event["name"] == DATA), None)
    return following["ts"] if following else max((event["ts"] + event["dur"] for event in steps), default=0)


def _axes(num_ranks):
    """A row for each rank, over milliseconds."""
    axes = Figure(figsize=(WIDTH, ROW * num_ranks + MARGIN), layout="constrained").subplots()
    axes.set_yticks(range(num_ranks), [f"rank {rank}" for rank in range(num_ranks)])
    axes.set_ylim(num_ranks - 0.5, -0.5)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.xaxis.set_major_formatter("{x:g} ms")
    return axes


def _svg(axes):
    file = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    axes.figure.savefig(file, format="svg", transparent=True, metadata=nothing)
    return file.getvalue()[file.getvalue().index("<svg") :]
