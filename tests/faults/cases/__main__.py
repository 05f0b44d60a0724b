"""Print the table of cases."""

from __future__ import annotations

from tests.faults.cases import PAGES

for page, cases in PAGES.items():
    print(f"\n{page}: {sum(bool(item.tests) for item in cases.values())} of {len(cases)} tested")
    for identity, item in cases.items():
        print(f"{identity:4} {item.title}")
        for line in item.tests or (f"no test: {item.reason}",):
            print(f"       {line}")
