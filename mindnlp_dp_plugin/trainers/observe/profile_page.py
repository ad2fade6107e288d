"""The page of a profile: where a step goes on each rank, drawn, in English or Chinese, light or dark."""

from html import escape

from mindnlp_dp_plugin.language import Message, language, translated
from mindnlp_dp_plugin.trainers.observe.trace import ALL_REDUCE_LANE, DATA, STEP_LANE

PHASES = {
    "data": Message("data"),
    "forward": Message("forward"),
    "wait for ranks": Message("waiting for slower ranks"),
    "backward": Message("backward"),
    "wait for gradients": Message("averaging that is not hidden"),
    "clip": Message("clipping"),
    "optimizer": Message("optimizer"),
    "trainer": Message("the Trainer"),
}
WHAT = {
    "data": Message("reading the next batch: tokenize beforehand, or raise dataset_num_workers"),
    "forward": Message("computing the loss"),
    "wait for ranks": Message("before backward: once a step ranks agree on what is averaged, and on signals"),
    "backward": Message("computing gradients, while full buckets are averaged already"),
    "wait for gradients": Message(
        "after backward: the last buckets, and waiting for slower ranks; see the cost model, bench and "
        "gradient_accumulation_steps"
    ),
    "clip": Message("the norm of all gradients, and multiplying them"),
    "optimizer": Message("stepping all parameters; zero_stage=1 shares that out"),
    "trainer": Message("what is left: the learning rate's schedule, callbacks, logs, evaluations, saves"),
}
WAITING = ("wait for ranks", "wait for gradients")
TITLE = Message("Where a step goes")
HEADLINE = Message("A step takes {step} ms. On rank {rank}, which has most to do, {phase} is {share:.0%} of it.")
UNEVEN = Message("Rank {slow} takes {times:.2f} times as long as rank {fast} for its own work; the others wait for it.")
LEGEND = Message("Means over {steps} steps, in ms. The clock is the host's; on Ascend each phase waits for the device.")
ONE_STEP = Message("The first of these steps, as it went")
BUCKETS = Message("all-reduces of buckets")
RANK = Message("rank {rank}")
PHASE, MEANING, STEP, FILES = Message("phase"), Message("what it is"), Message("a step"), Message("Files")
IN_TRACE = Message("all steps and buckets, for ui.perfetto.dev")
IN_NUMBERS = Message("the numbers of this page")
IN_RANKS = Message(
    "what MindSpore's Profiler has seen on each rank in the steps after these: MindStudio Insight opens it"
)
TIMES_UNEVEN = 1.1
LEAST_LABELLED = 0.07
WIDTH, LEFT, LANE, GAP = 960, 70, 22, 8
STYLE = """
:root { color-scheme: light dark; --page: #f5f6f8; --card: #fff; --ink: #1d2330; --soft: #646d7e; --line: #e3e6ec;
  --p0: #8d99ae; --p1: #4c8df6; --p2: #f2a65a; --p3: #2456b8; --p4: #e2711d; --p5: #b07bd8; --p6: #2a9d6f;
  --p7: #aab2c0; --bucket: #49afc2; }
@media (prefers-color-scheme: dark) { :root { --page: #12151b; --card: #1b1f28; --ink: #e6e9ef; --soft: #98a1b3;
  --line: #2c3340; --p7: #5a6270; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1rem 4rem; max-width: 64rem; background: var(--page); color: var(--ink);
  font: 15px/1.55 system-ui, "Segoe UI", "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", sans-serif; }
h1 { margin: 0 0 .3rem; font-size: 1.9rem; } h2 { margin: 0 0 .8rem; font-size: 1.1rem; }
.lead { font-size: 1.05rem; font-weight: 600; margin: .2rem 0; } .help { color: var(--soft); font-size: .87rem; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 14px; padding: 1.3rem 1.4rem;
  margin: 1rem 0; }
.row { display: grid; grid-template-columns: 4.5rem 1fr 5.5rem; align-items: center; gap: .6rem; margin: .35rem 0; }
.bar { display: flex; height: 34px; border-radius: 6px; overflow: hidden; background: var(--line); }
.bar i { display: flex; align-items: center; justify-content: center; color: #fff;
  font: 600 .78rem system-ui; overflow: hidden; }
.row b { text-align: right; font-variant-numeric: tabular-nums; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; margin-top: .8rem; font-size: .87rem; color: var(--soft); }
.legend i, td i { display: inline-block; width: .8rem; height: .8rem; border-radius: 3px; margin-right: .4rem;
  vertical-align: -1px; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; }
th, td { padding: .35rem .7rem; text-align: right; border-bottom: 1px solid var(--line); font-weight: 400;
  white-space: nowrap; }
th { color: var(--soft); font-size: .85rem; } td:first-child, th:first-child { text-align: left; padding-left: 0; }
td:last-child, th:last-child { text-align: left; white-space: normal; color: var(--soft); font-size: .87rem; }
svg { display: block; width: 100%; min-width: 40rem; height: auto; } svg text { fill: var(--soft); font-size: 11.5px; }
code { font: 13px ui-monospace, Consolas, monospace; }
"""


def page(phases: list[dict[str, float]], events: list[list[dict]], num_steps: int) -> str:
    """The page, in the user's language.

    Args:
        phases: For each rank, the seconds of a step in each of ``PHASES``.
        events: For each rank, the events of its trace.
        num_steps: How many steps these are of.
    """
    code = language()

    def say(message, **fields):
        return escape(translated(message, code).format(**fields))

    title = say(TITLE)
    lang = "zh-CN" if code == "zh" else "en"
    parts = [
        f'<!doctype html>\n<html lang="{lang}"><head><meta charset="utf-8">',
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>',
        f"<style>{STYLE}</style></head><body><h1>{title}</h1>",
        *(f'<p class="lead">{sentence}</p>' for sentence in _findings(phases, say)),
        f'<section class="card">{_bars(phases, say)}{_legend(say)}',
        f'<p class="help">{say(LEGEND, steps=num_steps)}</p></section>',
        f'<section class="card"><h2>{say(ONE_STEP)}</h2><div class="scroll">{_timeline(events, say)}</div></section>',
        f'<section class="card"><div class="scroll">{_table(phases, say)}</div></section>',
        f'<section class="card"><h2>{say(FILES)}</h2>',
        f'<p><a href="trace.json"><code>trace.json</code></a> {say(IN_TRACE)}<br>',
        f'<a href="phases.json"><code>phases.json</code></a> {say(IN_NUMBERS)}<br>',
        f"<code>rank0</code> … {say(IN_RANKS)}</p></section></body></html>\n",
    ]
    return "\n".join(parts)


def _findings(phases, say):
    """What the numbers say, in sentences."""
    own = [sum(seconds for name, seconds in of_rank.items() if name not in WAITING) for of_rank in phases]
    slow, fast = own.index(max(own)), own.index(min(own))
    slowest, step = phases[slow], sum(phases[slow].values()) or 1
    name = max(slowest, key=slowest.get)
    yield say(HEADLINE, step=_milliseconds(step), rank=slow, phase=say(PHASES[name]), share=slowest[name] / step)
    if min(own) > 0 and max(own) / min(own) > TIMES_UNEVEN:
        yield say(UNEVEN, slow=slow, fast=fast, times=max(own) / min(own))


def _bars(phases, say):
    longest = max(sum(of_rank.values()) for of_rank in phases) or 1
    rows = []
    for rank, of_rank in enumerate(phases):
        total = sum(of_rank.values()) or 1
        pieces = "".join(
            _piece(number, say(PHASES[name]), of_rank[name] / total, total / longest)
            for number, name in enumerate(PHASES)
        )
        rows.append(
            f'<div class="row"><span>{say(RANK, rank=rank)}</span><div class="bar">{pieces}</div>'
            f"<b>{_milliseconds(total)} ms</b></div>"
        )
    return "".join(rows)


def _milliseconds(seconds):
    """Four digits, and no exponent."""
    return f"{seconds * 1e3:.4g}" if seconds < 1 else f"{seconds * 1e3:.0f}"


def _piece(number, phase, share, length):
    """A phase in the bar of a rank, which has a length relative to the longest."""
    label = f"{share:.0%}" if share >= LEAST_LABELLED else ""
    style = f"width:{share * length:.4%};background:var(--p{number})"
    return f'<i style="{style}" title="{phase} {share:.1%}">{label}</i>'


def _legend(say):
    colours = {f"p{number}": message for number, message in enumerate(PHASES.values())} | {"bucket": BUCKETS}
    entries = (
        f'<span><i style="background:var(--{name})"></i>{say(message)}</span>' for name, message in colours.items()
    )
    return f'<div class="legend">{"".join(entries)}</div>'


def _table(phases, say):
    heads = "".join(f"<th>{say(RANK, rank=rank)}</th>" for rank in range(len(phases)))
    rows = [f"<tr><th>{say(PHASE)}</th>{heads}<th>{say(MEANING)}</th></tr>"]
    for number, name in enumerate(PHASES):
        cells = "".join(f"<td>{of_rank[name] * 1e3:.2f}</td>" for of_rank in phases)
        mark = f'<i style="background:var(--p{number})"></i>'
        rows.append(f"<tr><td>{mark}{say(PHASES[name])}</td>{cells}<td>{say(WHAT[name])}</td></tr>")
    totals = "".join(f"<td><b>{sum(of_rank.values()) * 1e3:.2f}</b></td>" for of_rank in phases)
    rows.append(f"<tr><td><b>{say(STEP)}</b></td>{totals}<td></td></tr>")
    return f"<table>{''.join(rows)}</table>"


def _end_of_step(events):
    """When the first step of a rank ends: where it reads the first batch of the next, or at the last event."""
    steps = [event for event in events if event["tid"] == STEP_LANE]
    names = [event["name"] for event in steps]
    after = names.index("optimizer") if "optimizer" in names else 0
    following = next((event for event in steps[after:] if event["name"] == DATA), None)
    return following["ts"] if following else max((event["ts"] + event["dur"] for event in steps), default=0)


def _timeline(events, say):
    """Both lanes of each rank over the time of one step, as an SVG element; ranks share a clock."""
    shown = max(map(_end_of_step, events)) or 1
    scale = (WIDTH - LEFT) / shown
    parts = []
    for rank, of_rank in enumerate(events):
        top = rank * (2 * LANE + GAP)
        parts.append(f'<text x="0" y="{top + LANE - 6}">{say(RANK, rank=rank)}</text>')
        for event in of_rank:
            begin, end = event["ts"], min(event["ts"] + event["dur"], shown)
            if begin >= end:
                continue
            is_bucket = event["tid"] == ALL_REDUCE_LANE
            colour = "bucket" if is_bucket else f"p{list(PHASES).index(event['name'])}"
            words = escape(event["name"]) if is_bucket else say(PHASES[event["name"]])
            parts.append(
                f'<rect x="{LEFT + begin * scale:.1f}" y="{top + is_bucket * LANE}" '
                f'width="{(end - begin) * scale:.2f}" height="{LANE - 6 * is_bucket - 1}" '
                f'rx="2" fill="var(--{colour})">'
                f"<title>{words}: {(end - begin) / 1e3:.2f} ms</title></rect>"
            )
    height = len(events) * (2 * LANE + GAP) + 14
    for share in (0, 0.25, 0.5, 0.75, 1):
        anchor = "end" if share == 1 else "middle" if share else "start"
        x, milliseconds = LEFT + share * (WIDTH - LEFT), _milliseconds(shown * share / 1e6)
        parts.append(f'<text x="{x:.0f}" y="{height - 2}" text-anchor="{anchor}">{milliseconds} ms</text>')
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(parts)}</svg>'
