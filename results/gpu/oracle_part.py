"""A table of configs of one example, each measured once: results/search/oracle, on this card. Goes on where it was."""

from __future__ import annotations

import json

from parts import LAST_S, ROOT, Part, call

CONFIGS = 60


def main() -> int:
    part = Part.begin(("char_transformer", "digits_cnn"), dry=("char_transformer",))
    name = part.workloads[0]
    command = [str(ROOT / "results/search/oracle/measure.py"), name, "--out", str(part.out), "--replicates", "1"]
    command += ["--configs", "1" if part.dry_run else str(CONFIGS), "--seconds", f"{0.75 * part.seconds:.0f}"]
    status = call(command, timeout=part.left_s() - LAST_S)
    table = part.out / f"{name}.jsonl"
    lines = [json.loads(line) for line in table.read_text().splitlines()] if table.exists() else []
    rows = [
        {
            **line["observation"]["config"],
            "kind": line["kind"],
            "outcome": line["observation"]["outcome"],
            "us_per_sample": 1e6 * (line["observation"]["sample_s"] or 0),
            "peak_bytes": line["observation"]["peak_bytes"],
            "flags": " ".join(line["flags"]),
        }
        for line in lines
    ]
    if rows:
        part.table("oracle", rows)
    times = [row["us_per_sample"] for row in rows if row["us_per_sample"]]
    if times:
        part.say(f"oracle: {name}: {len(times)} of {len(rows)} ran, {min(times):.1f} to {max(times):.1f} us a sample")
    return status


if __name__ == "__main__":
    raise SystemExit(main())
