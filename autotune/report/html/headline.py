"""The top of the page: what to use, how sure that is, what it costs in memory, and how to apply it."""

from __future__ import annotations

import shlex

from autotune.report.figures import memory, percent, rounded, significant
from autotune.report.flags import explain
from autotune.report.html.evidence import BEST, Answer, Evidence
from autotune.report.html.markup import Html, escape, join, table, tag
from autotune.report.outcome import (
    UNCHANGED,
    apply_line,
    before_and_after,
    changes,
    emitted_notes,
    nothing_measured,
    samples_per_s,
    step_ms,
)
from autotune.report.rows import Row
from autotune.report.table import screening_line
from autotune.report.text import value_text
from autotune.search.verification import Verdict
from autotune.search.verification.wording import contribution

TITLES = {BEST: "Best config", "same_batch": "Best config with the baseline's batch size"}


def headline(evidence: Evidence) -> Html:
    """Return a section an answer; one that says why, where there is none."""
    if not evidence.answers:
        told = tag("p", nothing_measured(evidence.rows), class_="verdict")
        advice = tag("p", "The table of all trials below says what happened to each.")
        return tag("section", told, advice, class_="answer none")
    several = len(evidence.answers) > 1
    return join(*(_answer(evidence, answer, several) for answer in evidence.answers))


def _answer(evidence: Evidence, answer: Answer, several: bool) -> Html:
    parts = [tag("h2", TITLES[answer.role], class_="kicker")] if several else []
    parts.append(_verdict(evidence, answer))
    checked = evidence.numerics(answer)
    if checked:
        parts.append(tag("p", checked, class_="evidence"))
    parts += [_cards(evidence, answer), _options(evidence, answer)]
    parts.append(_apply(evidence, answer))
    notes = emitted_notes(answer.path)
    if notes:
        parts.append(tag("ul", *(tag("li", note) for note in notes), class_="notes"))
    row = evidence.row(answer)
    if row is not None and row.flags:
        told = (tag("li", explain(flag)) for flag in row.flags)
        parts.append(tag("details", tag("summary", "Flags of its trials"), tag("ul", *told)))
    return tag("section", *parts, class_=f"answer {answer.role.replace('_', '-')}")


def _verdict(evidence: Evidence, answer: Answer) -> Html:
    if answer.claim is None:
        how = tag("code", f"autotune verify {_folder(evidence)}")
        told: str = join("One search proves nothing: single runs differ by luck. Proof: ", how)
        if not answer.config.difference(evidence.run.baseline):
            told = f"Of what was measured, {UNCHANGED}. Nothing was verified."
            return join(tag("p", "Keep what you run today", class_="verdict"), tag("p", told, class_="evidence"))
        return join(tag("p", "Best found, not verified", class_="verdict"), tag("p", told, class_="evidence"))
    proven = answer.claim.verdict is not Verdict.INCONCLUSIVE
    main, _, rest = answer.sentence.partition(" (" if proven else "; ")
    parts = [tag("p", main, class_=f"verdict {answer.claim.verdict.value}")]
    if rest:
        parts.append(tag("p", rest.removesuffix(")") if proven else rest, class_="evidence"))
    if not answer.config.difference(evidence.run.baseline):
        slower = answer.claim.verdict is Verdict.SLOWER
        why = "the search's best proved slower" if slower else UNCHANGED
        parts.append(tag("p", f"Keep what you run today: {why}.", class_="evidence"))
    elif not answer.is_claimed:
        parts.append(
            tag(
                "p",
                "Options that gave nothing were taken back after that, and the rest measured again.",
                class_="evidence",
            )
        )
    return join(*parts)


def _cards(evidence: Evidence, answer: Answer) -> Html:
    """Return throughput, step time and memory, before and after."""
    before, after = evidence.baseline_row, evidence.row(answer)
    claim = answer.claim
    cards = []
    times = (claim.baseline_sample_s, claim.candidate_sample_s) if claim and answer.is_claimed else (None, None)
    steps = (claim.baseline_step_s, claim.candidate_step_s) if claim and answer.is_claimed else (None, None)
    if claim and claim.comparison and all(times) and all(steps):
        half = claim.comparison.noise
        proven = claim.verdict is not Verdict.INCONCLUSIVE
        count = f"mean of {claim.comparison.pairs} fresh processes each{'' if proven else ', nothing is proven'}"
        rates = [rounded(1 / time_s, half / time_s) for time_s in times if time_s]
        cards.append(_card("samples/s", rates[0], rates[1], count))
        spent = [rounded(1e3 * step_s, half * 1e3 * step_s) for step_s in steps if step_s]
        cards.append(_card("ms a step", spent[0], spent[1], _batches(evidence, answer)))
    elif after is not None:
        runs = "from the search alone, not verified" if claim is None else "from the search's trials"
        cards.append(_card("samples/s", samples_per_s(before) if before else "", samples_per_s(after), runs))
        cards.append(_card("ms a step", step_ms(before) if before else "", step_ms(after), _batches(evidence, answer)))
    if after is not None and after.peak_bytes is not None:
        cards.append(_memory_card(before, after, evidence.run.accelerator))
    figures = Html("")
    if after is not None:
        heading = screening_line([row for row in (before, after) if row], evidence.noise)
        shown = [list(cells) for cells in before_and_after(before, after)]
        told = tag("summary", "The search's own figures of both")
        figures = tag("details", told, tag("p", heading), table(["", "before", "after"], shown, class_="plain"))
    return join(tag("div", *cards, class_="cards"), figures)


def _card(title: str, before: str, after: str, note: str) -> Html:
    values = [
        tag("span", before, class_="before"),
        tag("span", "→", class_="arrow"),
        tag("span", after, class_="after"),
    ]
    shown = values if before and before != after else values[2:]
    return tag(
        "div",
        tag("div", title, class_="title"),
        tag("div", *shown, class_="values"),
        tag("div", note, class_="note"),
        class_="card",
    )


def _memory_card(before: Row | None, after: Row, accelerator: bool) -> Html:
    was = memory(before.peak_bytes) if before is not None and before.peak_bytes is not None else ""
    peak = after.peak_bytes or 0
    where = "peak device memory" if accelerator else "peak host memory"
    room = ""
    if after.limit_bytes is not None:
        share = f"{percent(peak / after.limit_bytes)} of the {memory(after.limit_bytes)} allowed"
        room = share if after.fits is not False else f"over the limit of {memory(after.limit_bytes)}"
    return _card(where, was, memory(peak), room)


def _batches(evidence: Evidence, answer: Answer) -> str:
    before, after = evidence.run.baseline.value("batch_size"), answer.config.value("batch_size")
    same = f"at batch {value_text(after)}"
    return same if before == after else f"at batch {value_text(before)}, then {value_text(after)}"


def _options(evidence: Evidence, answer: Answer) -> Html:
    changed = changes(answer.config, evidence.run.baseline)
    if not changed:
        return tag("p", f"Nothing to change: {UNCHANGED}.")
    rows = [
        [_breakable(change.option), change.before, tag("strong", change.after), gives(evidence, answer, change.option)]
        for change in changed
    ]
    shown = table(["option", "before", "after", "what it alone gave"], rows, class_="options")
    return tag("div", shown, class_="scroll")


def _breakable(name: str) -> Html:
    """Return an option's name that may go on in the next line after an underscore."""
    return Html(escape(name).replace("_", "_<wbr>"))


def gives(evidence: Evidence, answer: Answer, option: str) -> Html:
    """Return what an option of the answer gives, in words: measured, or marked as a belief."""
    found = answer.contribution(option)
    if found is not None:
        return tag("span", contribution(found).partition(": ")[2])
    belief = evidence.belief(answer, option)
    if belief is None:
        return tag("span", "not measured", class_="muted")
    return tag("span", f"believed {significant(belief.ratio, 2)}x, not measured alone", class_="belief")


def _apply(evidence: Evidence, answer: Answer) -> Html:
    """Return what to copy: the line that loads the config, and how to see more."""
    if not answer.path.exists():
        told = f"The search ended before it wrote {answer.path.name}; autotune search --resume goes on with it."
        return tag("p", told, class_="evidence")
    source = evidence.run.info.source
    apply = apply_line(answer.path, source)
    python = apply if source.unmodified else f"{apply}\ntuned = autotune.Tuned(config)"
    more = f"autotune results {_folder(evidence)}"
    return join(_command("Apply it", python), _command("See more", more) if answer.role == BEST else "")


def _command(title: str, text: str) -> Html:
    button = tag("button", "Copy", type="button", class_="copy", data_copy=text)
    return tag("div", tag("span", title, class_="what"), tag("pre", tag("code", text)), button, class_="command")


def _folder(evidence: Evidence) -> str:
    return shlex.quote(str(evidence.run.folder.path))
