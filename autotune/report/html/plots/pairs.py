"""The paired measurements of a verification, one by one."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.report.evidence import BASELINE, BEST, Answer, Evidence
from autotune.report.flags import explain
from autotune.report.html.plots.figure import NAMES, Figure, Trace, curve, lines, marker, points, role
from autotune.search.verification.statistics import NOISE, Comparison
from autotune.search.verification.windows import Window
from autotune.words.figures import significant


def draw(evidence: Evidence) -> Iterator[Figure]:
    for answer in evidence.answers:
        if answer.claim is not None and any(window.sample_s for window in answer.claim.windows):
            yield _figure(answer)


def _figure(answer: Answer) -> Figure:
    claim = answer.claim
    assert claim is not None
    arms = {"baseline": BASELINE, "candidate": answer.role}
    measured = [window for window in claim.windows if window.sample_s is not None]
    traces = [_joined(measured)]
    for arm, shown in arms.items():
        own = [window for window in measured if window.arm == arm]
        traces.append(
            points(
                [window.round + 1 for window in own],
                [1 / (window.sample_s or 1.0) for window in own],
                [_hover(window) for window in own],
                name=NAMES[shown],
                marker=marker(shown, symbol=[_symbol(window, shown) for window in own]),
            )
        )
    ratios = _ratios(measured)
    if ratios:
        traces.append(
            points(
                list(ratios),
                list(ratios.values()),
                [lines(f"round {at}", f"{significant(value, 4)} times as fast") for at, value in ratios.items()],
                name="ratio of the round",
                yaxis="y2",
                marker={"color": role("ink"), "size": 8, "symbol": "circle"},
                showlegend=False,
            )
        )
    of = "" if answer.role == BEST else ": best at the same batch"
    return Figure(
        name=f"pairs-{answer.role.replace('_', '-')}",
        title=f"Verification, round by round{of}",
        caption=_caption(answer, measured),
        traces=traces,
        layout=_layout(answer, ratios),
        height=440,
        wide=True,
    )


def _layout(answer: Answer, ratios: dict[int, float]) -> dict[str, object]:
    comparison = _shown(answer)
    shapes = []
    if ratios:
        whole = {"xref": "paper", "x0": 0, "x1": 1, "yref": "y2"}
        shapes.append({**whole, "type": "line", "y0": 1, "y1": 1, "line": {"color": role("muted"), "dash": "dot"}})
        if comparison is not None:
            band = {"y0": comparison.lower, "y1": comparison.upper, "fillcolor": role(answer.role), "opacity": 0.22}
            shapes.append({**whole, "type": "rect", **band, "line": {"width": 0}, "layer": "below"})
            middle = {"y0": comparison.speedup, "y1": comparison.speedup, "line": {"color": role(answer.role)}}
            shapes.append({**whole, "type": "line", **middle})
    return {
        "xaxis": {"title": {"text": "round"}, "dtick": 1, "anchor": "y2" if ratios else "y"},
        "yaxis": {"title": {"text": "samples/s"}, "domain": [0.5, 1] if ratios else [0, 1], "rangemode": "tozero"},
        **({"yaxis2": {"title": {"text": "times as fast"}, "domain": [0, 0.4]}} if ratios else {}),
        "shapes": shapes,
    }


def _shown(answer: Answer) -> Comparison | None:
    """Return the comparison whose interval may be drawn: none where the windows were too disturbed, or failed."""
    claim = answer.claim
    return claim.comparison if claim is not None and claim.reason in ("", NOISE) else None


def _joined(windows: list[Window]) -> Trace:
    """Return the line that joins the two windows of each round."""
    x: list[int | None] = []
    y: list[float | None] = []
    for number in sorted({window.round for window in windows}):
        for window in windows:
            if window.round == number and window.sample_s:
                x.append(number + 1)
                y.append(1 / window.sample_s)
        x.append(None)
        y.append(None)
    return curve(x, y, "muted", line={"width": 1}, showlegend=False)


def _ratios(windows: list[Window]) -> dict[int, float]:
    """Return the baseline's time over the config's of each complete round."""
    times = {(window.round, window.arm): window.sample_s for window in windows}
    found = {}
    for number in sorted({window.round for window in windows}):
        before, after = times.get((number, "baseline")), times.get((number, "candidate"))
        if before and after:
            found[number + 1] = before / after
    return found


def _symbol(window: Window, arm: str) -> str:
    symbol = str(marker(arm)["symbol"])
    return f"{symbol}-open" if window.disturbed else symbol


def _hover(window: Window) -> str:
    assert window.sample_s is not None
    step = "" if window.step_s is None else f"{significant(1e3 * window.step_s)} ms a step"
    told = [f"round {window.round + 1}, trial {window.trial}", f"{significant(1 / window.sample_s, 4)} samples/s", step]
    return lines(*told, *(explain(flag) for flag in window.flags))


def _caption(answer: Answer, measured: list[Window]) -> str:
    claim = answer.claim
    assert claim is not None
    told = "Each mark is one fresh process; a line joins the two of a round."
    told += " Below: how many times as fast in each round"
    if _shown(answer) is not None:
        told += f", their mean and its {100 * (1 - claim.alpha):g} % interval (band)."
    else:
        told += "; no interval, since nothing follows from these rounds."
    if any(window.disturbed for window in measured):
        told += " Hollow marks were disturbed."
    if not answer.is_claimed:
        told += " The config handed out keeps only the options that give something; this is the whole winner."
    failed = sum(1 for window in claim.windows if window.failure)
    return told + (f" {failed} of the windows failed." if failed else "")
