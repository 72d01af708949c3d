"""From the samples of `timing.py` to the figures that are quoted, and from profilers' files to durations."""

from __future__ import annotations

import csv
import json
import statistics
from collections.abc import Sequence
from typing import Any

from common import Json, measure
from timing_cases import SLOWDOWN

REPEATS = 50
SHARE = 0.95
"""Of the repeats, that must be as they should be."""
SHORT_US, SHORT_TOLERANCE_US, LONG_TOLERANCE = 10.0, 0.3, 0.03
"""Device times below SHORT_US may differ from CUPTI's by SHORT_TOLERANCE_US, others by LONG_TOLERANCE of them."""
NCU_FROM_US = 50.0
"""Below, its own overhead is more than it should be compared within."""
HANDOVER_S, CACHED_S = 0.3, 3.0
_UNITS_US = {"ns": 1e-3, "nsecond": 1e-3, "us": 1.0, "usecond": 1.0, "ms": 1e3, "msecond": 1e3, "s": 1e6, "second": 1e6}


def measures_of(samples: Json) -> list[Json]:
    """The figures of all parts that have samples, each with the bar that it is held to."""
    makers = {
        "aa": equal_measures,
        "detection": slower_measures,
        "handover": handover_measures,
        "agreement": agreement_measures,
    }
    found = [one for part, maker in makers.items() if part in samples for one in maker(_whole(samples[part]))]
    if "kernelbench" in samples:
        found += kernelbench_measures(_whole(samples["kernelbench"]), _whole(samples.get("agreement", {})))
    failed = [f"{part}: {name}" for part, rows in samples.items() for name in rows if "failed" in rows[name]]
    return [*found, measure("parts that failed" + f" ({'; '.join(failed)})" * bool(failed), len(failed), "", "<=", 0)]


def equal_measures(rows: Json) -> list[Json]:
    """Equal arms: how often the ratio is as near to 1 as it should be, and how often the interval holds 1."""
    found = []
    for name, row in rows.items():
        repeats, within = row["repeats"], row["within"]
        ratios = [one["speedup"] for one in repeats]
        near = [abs(ratio - 1) <= within for ratio in ratios]
        held = [one["speedup_low"] <= 1 <= one["speedup_high"] for one in repeats]
        wide = [(one["speedup_high"] - one["speedup_low"]) / 2 for one in repeats]
        found += [
            *_about(f"A/A {name}", repeats),
            measure(f"A/A {name}: ratio within 1 +- {within:.1%}", _share(near), "", ">=", SHARE),
            measure(f"A/A {name}: furthest from 1", max(abs(ratio - 1) for ratio in ratios), ""),
            measure(f"A/A {name}: interval holds 1", _share(held), ""),
            measure(f"A/A {name}: half-width of the interval, median", statistics.median(wide), ""),
        ]
        attested = [one["attested_us"] for one in repeats if one.get("attested_us") is not None]
        if attested:
            found.append(measure(f"A/A {name}: attested, median", statistics.median(attested), "us"))
        whole = [one["end_to_end"] for one in repeats if one.get("end_to_end") is not None]
        if whole:
            called_us = statistics.median(one["reference"]["median_us"] for one in whole)
            held = [one["speedup_low"] <= 1 <= one["speedup_high"] for one in whole]
            found.append(measure(f"A/A {name}: end to end", called_us, "us"))
            found.append(measure(f"A/A {name}: end-to-end interval holds 1", _share(held), ""))
    return found


def slower_measures(rows: Json) -> list[Json]:
    """A candidate that does SLOWDOWN times the work: how often it is called slower."""
    found = []
    for name, row in rows.items():
        repeats = row["repeats"]
        slower = [one["speedup_high"] < 1 for one in repeats]
        slowdowns = [1 / one["speedup"] for one in repeats]
        found += [
            *_about(f"{SLOWDOWN - 1:.0%} slower {name}", repeats),
            measure(f"{SLOWDOWN - 1:.0%} slower {name}: called slower", _share(slower), "", ">=", SHARE),
            measure(f"{SLOWDOWN - 1:.0%} slower {name}: slowdown, median", statistics.median(slowdowns), "x"),
        ]
    return found


def agreement_measures(rows: Json) -> list[Json]:
    """Our device times against CUPTI's kernel durations, and against ncu's for the longer ones."""
    found = []
    for name, row in rows.items():
        ours_us = row["timing"]["candidate"]["median_us"]
        if "cupti_us" in row:
            cupti_us = statistics.median(row["cupti_us"])
            found.append(measure(f"{name}: ours", ours_us, "us"))
            found.append(measure(f"{name}: CUPTI", cupti_us, "us"))
            if cupti_us < SHORT_US:
                apart_us = abs(ours_us - cupti_us)
                found.append(measure(f"{name}: ours and CUPTI apart", apart_us, "us", "<=", SHORT_TOLERANCE_US))
            else:
                apart = abs(ours_us / cupti_us - 1)
                found.append(measure(f"{name}: ours and CUPTI apart", apart, "", "<=", LONG_TOLERANCE))
        if "ncu_us" in row:
            ncu_us = statistics.median(row["ncu_us"])
            found.append(measure(f"{name}: ncu", ncu_us, "us"))
            apart = abs(ours_us / ncu_us - 1)
            found.append(measure(f"{name}: ours and ncu apart", apart, "", "<=", LONG_TOLERANCE))
    return found


def kernelbench_measures(rows: Json, agreement: Json) -> list[Json]:
    """What KernelBench prints; where the agreement part has the same kernel, also how far both are from CUPTI."""
    found = []
    for name, row in rows.items():
        mean_us, std_us = (row["runtime_stats"][key] * 1e3 for key in ("mean", "std"))
        found.append(measure(f"{name}: KernelBench, mean", mean_us, "us"))
        found.append(measure(f"{name}: KernelBench, standard deviation", std_us, "us"))
        beside = agreement.get(name, {})
        if "cupti_us" in beside:
            cupti_us = statistics.median(beside["cupti_us"])
            ours_us = beside["timing"]["candidate"]["median_us"]
            found.append(measure(f"{name}: KernelBench over CUPTI", mean_us / cupti_us, "x"))
            found.append(measure(f"{name}: ours over CUPTI", ours_us / cupti_us, "x"))
    return found


def handover_measures(rows: Json) -> list[Json]:
    """Seconds to a worker, and of a whole evaluation whose build is cached."""
    found = []
    if "worker" in rows:
        seconds = rows["worker"]["spawn_s"]
        found += [
            measure("pre-warmed worker answers, median", statistics.median(seconds), "s"),
            measure("pre-warmed worker answers, slowest", max(seconds), "s", "<", HANDOVER_S),
        ]
    for name, row in rows.items():
        if name != "worker":
            found.append(measure(f"{name}: evaluation from the cache", row["total_s"], "s", "<", CACHED_S))
    return found


def trace_durations_us(trace: Json, kernel: str) -> list[float]:
    """Durations of a kernel in a file that torch.profiler has exported, in order of start."""
    events = [
        event
        for event in trace["traceEvents"]
        if event.get("cat") == "kernel" and event["name"].split("(")[0] == kernel
    ]
    return [float(event["dur"]) for event in sorted(events, key=lambda event: float(event["ts"]))]


def ncu_durations_us(text: str, metric: str = "gpu__time_duration.sum") -> list[float]:
    """A duration for each launch in `ncu --csv` output, in order of launch.

    Raises ValueError when there is no table, which is what ncu says when it may not read the counters, or when a unit
    is none of time.
    """
    lines = text.splitlines()
    start = next((index for index, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise ValueError(f"ncu printed no table: {text.strip()[-500:]}")
    rows = [row for row in csv.DictReader(lines[start:]) if row["Metric Name"] == metric]
    unknown = {row["Metric Unit"] for row in rows} - set(_UNITS_US)
    if unknown:
        raise ValueError(f"ncu gave {metric} in {', '.join(sorted(unknown))}, which is no unit of time known here")
    rows.sort(key=lambda row: int(row["ID"]))
    return [float(row["Metric Value"].replace(",", "")) * _UNITS_US[row["Metric Unit"]] for row in rows]


def counted(launches: Sequence[float], uncounted: int, repeats: int) -> list[list[float]]:
    """The launches of each size without its first `uncounted`. Raises ValueError when they are no whole sizes."""
    each = uncounted + repeats
    if not launches or len(launches) % each:
        raise ValueError(f"{len(launches)} launches were seen, which is no multiple of {each}")
    return [list(launches[start + uncounted : start + each]) for start in range(0, len(launches), each)]


def as_text(report: Json) -> str:
    """The report as JSON, indented but for the samples, which have a line for each case."""
    parts = [
        f"  {json.dumps(part)}: {{\n"
        + ",\n".join(f"   {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
        + "\n  }"
        for part, rows in report["samples"].items()
    ]
    rest = json.dumps({name: value for name, value in report.items() if name != "samples"}, indent=1)
    return rest.removesuffix("\n}") + ',\n "samples": {\n' + ",\n".join(parts) + "\n }\n}\n"


def rounded(value: Any) -> Any:
    """The same nest with floats to six digits, so that raw samples stay readable."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


def _whole(rows: Json) -> Json:
    return {name: row for name, row in rows.items() if "failed" not in row}


def _about(name: str, repeats: Sequence[Json]) -> list[Json]:
    return [
        measure(f"{name}: repeats", len(repeats), "", ">=", REPEATS),
        measure(f"{name}: device time", statistics.median(one["reference"]["median_us"] for one in repeats), "us"),
        measure(f"{name}: seconds for a repeat", statistics.median(one["wall_s"] for one in repeats), "s"),
    ]


def _share(good: Sequence[bool]) -> float:
    return sum(good) / len(good)
