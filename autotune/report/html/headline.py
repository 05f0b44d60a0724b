"""The top of the page: what to use, how sure that is, what it costs in memory, and how to apply it."""

from __future__ import annotations

import shlex

from autotune.report.compared import Pair, alternatives, compared, gives, memory_told
from autotune.report.evidence import BEST, Answer, Evidence
from autotune.report.flags import explain
from autotune.report.html.markup import Html, escape, join, table, tag
from autotune.report.outcome import before_and_after, changes, nothing_measured
from autotune.report.table import screening_line
from autotune.search.verification import Verdict

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
    if others := alternatives(evidence, answer):
        parts.append(tag("p", others, class_="evidence"))
    if answer.notes:
        parts.append(tag("ul", *(tag("li", note) for note in answer.notes), class_="notes"))
    row = evidence.row(answer)
    if row is not None and row.flags:
        told = (tag("li", explain(flag)) for flag in row.flags)
        parts.append(tag("details", tag("summary", "Flags of its trials"), tag("ul", *told)))
    return tag("section", *parts, class_=f"answer {answer.role.replace('_', '-')}")


def _verdict(evidence: Evidence, answer: Answer) -> Html:
    if answer.claim is None:
        how = tag("code", evidence.verify_line(answer))
        told: str = join("One search proves nothing: single runs differ by luck. Proof: ", how)
        if not answer.config.difference(evidence.run.baseline):
            told = f"Nothing was verified: {evidence.why_unchanged}."
            return join(tag("p", "Keep what you run today", class_="verdict"), tag("p", told, class_="evidence"))
        return join(tag("p", "Best found, not verified", class_="verdict"), tag("p", told, class_="evidence"))
    proven = answer.claim.verdict is not Verdict.INCONCLUSIVE
    main, _, rest = answer.sentence.partition(" (" if proven else "; ")
    main = "; ".join(filter(None, (memory_told(evidence, answer), main)))
    parts = [tag("p", main, class_=f"verdict {answer.claim.verdict.value}")]
    if rest:
        parts.append(tag("p", rest.removesuffix(")") if proven else rest, class_="evidence"))
    if not answer.config.difference(evidence.run.baseline):
        slower = answer.claim.verdict is Verdict.SLOWER
        why = "the search's best proved slower" if slower else evidence.why_unchanged
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
    cards = [_card(pair) for pair in compared(evidence, answer)]
    figures = Html("")
    if after is not None:
        heading = screening_line([row for row in (before, after) if row], evidence.noise)
        shown = [list(cells) for cells in before_and_after(before, after)]
        told = tag("summary", "The search's own figures of both")
        figures = tag("details", told, tag("p", heading), table(["", "before", "after"], shown, class_="plain"))
    return join(tag("div", *cards, class_="cards"), figures)


def _card(pair: Pair) -> Html:
    values = [
        tag("span", pair.before, class_="before"),
        tag("span", "→", class_="arrow"),
        tag("span", pair.after, class_="after"),
    ]
    shown = values if pair.before and pair.before != pair.after else values[2:]
    return tag(
        "div",
        tag("div", pair.title, class_="title"),
        tag("div", *shown, class_="values"),
        tag("div", pair.note, class_="note"),
        class_="card",
    )


def _options(evidence: Evidence, answer: Answer) -> Html:
    changed = changes(answer.config, evidence.run.baseline)
    if not changed:
        return tag("p", f"Nothing to change: {evidence.why_unchanged}.")
    rows = [
        [
            _breakable(change.option),
            change.before,
            tag("strong", change.after),
            gives_html(evidence, answer, change.option),
        ]
        for change in changed
    ]
    shown = table(["option", "before", "after", "what it alone gave"], rows, class_="options")
    return tag("div", shown, class_="scroll")


def _breakable(name: str) -> Html:
    """Return an option's name that may go on in the next line after an underscore."""
    return Html(escape(name).replace("_", "_<wbr>"))


def gives_html(evidence: Evidence, answer: Answer, option: str) -> Html:
    """Return what an option of the answer gives, in words: measured, or marked as a belief."""
    told, measured = gives(evidence, answer, option)
    if measured:
        return tag("span", told)
    return tag("span", told, class_="belief") if told else tag("span", "not measured", class_="muted")


def _apply(evidence: Evidence, answer: Answer) -> Html:
    """Return what to copy: the line that loads the config, and how to see more."""
    if not answer.path.exists():
        on = "autotune search --resume" if evidence.run.info.source.script else "the same search with resume=True"
        told = f"The search ended before it wrote {answer.path.name}; {on} goes on with it."
        return tag("p", told, class_="evidence")
    more = f"autotune results {_folder(evidence)}"
    apply = _command("Apply it", evidence.apply_line(answer))
    return join(apply, _command("See more", more) if answer.role == BEST else "")


def _command(title: str, text: str) -> Html:
    button = tag("button", "Copy", type="button", class_="copy", data_copy=text)
    return tag("div", tag("span", title, class_="what"), tag("pre", tag("code", text)), button, class_="command")


def _folder(evidence: Evidence) -> str:
    return shlex.quote(str(evidence.run.folder.path))
