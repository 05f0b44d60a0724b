"""HTML from parts: whatever is not marked as HTML is escaped, so that no text of a user can become markup."""

from __future__ import annotations

import html
from typing import Any

from autotune.report.strict_json import strict_json
from autotune.words.text import clean

VOID = frozenset({"input", "br"})


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def escape(text: str) -> Html:
    """Return text as HTML that shows it as it is, without terminal escapes; HTML stays."""
    return text if isinstance(text, Html) else Html(html.escape(clean(text)))


def join(*parts: str) -> Html:
    return Html("".join(escape(part) for part in parts))


def tag(name: str, *children: str, **attributes: str | float | bool | None) -> Html:
    """Return an element. `class_` is written class, `data_key` data-key; None and False leave an attribute out."""
    told = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        shown = key.rstrip("_").replace("_", "-")
        told.append(f" {shown}" if value is True else f' {shown}="{html.escape(clean(str(value)))}"')
    opening = f"<{name}{''.join(told)}>"
    return Html(opening if name in VOID else f"{opening}{join(*children)}</{name}>")


def table(head: list[str], rows: list[list[str]], **attributes: str | float | bool | None) -> Html:
    """Return a plain table; the first cell of a row names it."""
    titles = tag("tr", *(tag("th", title, scope="col") for title in head))
    body = [tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:])) for row in rows]
    return tag("table", tag("thead", titles) if any(head) else Html(""), tag("tbody", *body), **attributes)


def data_block(name: str, value: Any) -> Html:
    """Return data as JSON in a script element that is never run, and that no text in it can end."""
    text = strict_json(value, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Html(f'<script type="application/json" id="{name}">{text}</script>')
