"""How fast both arms were: on a device in device time and end to end, with the state of the device beside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from markupsafe import Markup

from evaluation.verdict import LAUNCH_BOUND, LAUNCH_BOUND_US, WAITS, Conditions, EndToEnd, Evaluation, Status, Timing
from orchestrator.report.page_format import (
    DEVICE_TIME,
    END_TO_END,
    UNKNOWN,
    byte_size,
    duration,
    duration_interval,
    durations,
    seconds,
    significant,
    speedup_interval,
)
from orchestrator.report.page_rows import Block, Row, known, unreached
from orchestrator.report.page_svg import samples_picture

COMPILED = "torch.compile of it"
_SILENT = "the device's driver does not tell"
_HIDDEN = "not known: the driver does not tell, or some may be hidden from this process"
_PIDS_SHOWN = 8


def runtime_rows(timing: Timing | None, absent: str) -> list[Row]:
    """Runtime of both arms and their ratio, with intervals; on a device in both kinds of time."""
    labels = ("runtime", "reference runtime", "speed-up")
    if timing is None:
        return [Row(label, absent=absent) for label in labels]
    if timing.end_to_end is None:
        return _three_rows(labels, timing)
    return [
        *_three_rows((DEVICE_TIME, f"reference {DEVICE_TIME}", f"speed-up, {DEVICE_TIME}"), timing),
        *_three_rows((END_TO_END, f"reference {END_TO_END}", f"speed-up, {END_TO_END}"), timing.end_to_end),
    ]


def _three_rows(labels: tuple[str, str, str], timing: Timing | EndToEnd) -> list[Row]:
    new, old = timing.candidate, timing.reference
    values = (
        duration_interval(new.median_us, new.low_us, new.high_us),
        duration_interval(old.median_us, old.low_us, old.high_us),
        speedup_interval(timing.speedup, timing.speedup_low, timing.speedup_high),
    )
    return [Row(label, value) for label, value in zip(labels, values, strict=True)]


def speedup_words(timing: Timing) -> str:
    """The speed-up with its interval; on a device both, and whether they say much."""
    words = speedup_interval(timing.speedup, timing.speedup_low, timing.speedup_high)
    plain = timing.end_to_end
    if plain is None:
        return words
    plain_words = speedup_interval(plain.speedup, plain.speedup_low, plain.speedup_high)
    mark = " · launch-bound" if timing.launch_bound else ""
    return f"{words} {DEVICE_TIME} · {plain_words} {END_TO_END}{mark}"


def headline(grade: Evaluation | None) -> str:
    """What a page says first of the speed-up."""
    if grade is None or grade.timing is None:
        return "no speed-up: " + ("not timed" if grade else "no kernel was written")
    return speedup_words(grade.timing)


def is_launch_bound(timing: Timing) -> bool:
    """Whether the reference is so short that what surrounds a kernel outweighs it; asked on a CPU, too."""
    return timing.reference.median_us < LAUNCH_BOUND_US


def timing_block(grade: Evaluation | None) -> Block:
    """Both arms by the judge's clock."""
    timing = grade.timing if grade else None
    absent = unreached(grade, "timing")
    rows = runtime_rows(timing, absent)
    means = ("kernel mean / median / std", "reference mean / median / std")
    others = ("faster than the reference", "size", "blocks", "clock", "measuring took")
    if timing is None:
        return Block(title="timing", rows=rows + [Row(label, absent=absent) for label in (*means, *others)])
    for label, arm in zip(means, (timing.candidate, timing.reference), strict=True):
        rows.append(Row(label, durations([arm.mean_us, arm.median_us, arm.std_us])))
    if timing.compiled:
        rows.append(Row("reference ran as", COMPILED))
    rows += _device_rows(timing)
    settled = (
        ""
        if grade is None or grade.status is not Status.UNSTABLE_TIMING
        else "; the interval did not become tight enough"
    )
    claim = "yes: the whole interval lies above 1" if timing.faster else "not shown: the interval reaches 1 or less"
    values = (
        claim + settled,
        LAUNCH_BOUND if is_launch_bound(timing) else f"the reference takes at least {LAUNCH_BOUND_US:g} µs",
        _blocks(timing),
        timing.clock,
        seconds(timing.wall_s),
    )
    rows += [Row(label, known(value)) for label, value in zip(others, values, strict=True)]
    clock, pictures = "judge's clock", [samples_picture(timing, DEVICE_TIME if timing.end_to_end else "")]
    if timing.end_to_end is not None:
        clock = "device time by events on the device, end to end by the judge's clock"
        pictures.append(samples_picture(timing.end_to_end, END_TO_END))
    return Block(
        title="timing",
        source=f"{clock}; medians of the blocks with 95 % intervals",
        rows=rows,
        picture=Markup("").join(pictures),
    )


def _blocks(timing: Timing) -> str:
    words = (
        f"{len(timing.candidate.samples_us)} pairs of {timing.calls_per_block} calls each, "
        f"from {timing.process_pairs} processes of each arm"
    )
    plain = timing.end_to_end
    return words if plain is None else f"{words}; {len(plain.candidate.samples_us)} pairs {END_TO_END}"


def _device_rows(timing: Timing) -> list[Row]:
    plain = timing.end_to_end
    if plain is None:
        return []
    arms = {"kernel": plain.candidate, "reference": plain.reference}
    return [
        *(
            Row(f"{name} {END_TO_END}, mean / median / std", durations([arm.mean_us, arm.median_us, arm.std_us]))
            for name, arm in arms.items()
        ),
        Row("bounded by the judge's clock", attested_words(timing)),
    ]


def attested_words(timing: Timing) -> str:
    """What the judge's clock alone says of a candidate on a device."""
    return WAITS if timing.attested_us is None else f"at least {duration(timing.attested_us)} of {DEVICE_TIME}"


def conditions_blocks(grade: Evaluation | None) -> list[Block]:
    """The state of the device, a moment before and after the timing; no block where nothing was timed on a device."""
    timing = grade.timing if grade else None
    if timing is None or timing.end_to_end is None:
        return []
    source = "as the driver tells it, before → after the timing"
    return [Block(title="device while timed", source=source, rows=conditions_rows(timing.conditions))]


def conditions_rows(found: Sequence[Conditions]) -> list[Row]:
    """One row a figure, with its value at each moment."""
    highest = _limit([state.max_sm_clock_mhz for state in found], "highest {:d} MHz")
    allowed = _limit([state.power_limit_w for state in found], "limit {:g} W")
    return [
        _row("SM clock", [state.sm_clock_mhz for state in found], "MHz", note=highest),
        _row("memory clock", [state.memory_clock_mhz for state in found], "MHz"),
        _row("power", [state.power_w for state in found], "W", note=allowed),
        _row("temperature", [state.temperature_c for state in found], "°C"),
        _row("clocks held down by", [state.throttle_reasons for state in found], show=_reasons),
        _processes_row([state.foreign_processes for state in found]),
        _row("utilisation", [state.utilisation_percent for state in found], "%"),
        _row("memory in use", [state.memory_used_bytes for state in found], show=byte_size),
    ]


def _figure(value: float) -> str:
    return str(value) if isinstance(value, int) else significant(value)


def _reasons(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"


def _processes(pids: Sequence[int]) -> str:
    if not pids:
        return "none"
    shown = ", ".join(map(str, pids[:_PIDS_SHOWN])) + (", …" if len(pids) > _PIDS_SHOWN else "")
    return f"{len(pids)} (pid {shown})"


def _processes_row(values: Sequence[Sequence[int] | None]) -> Row:
    silent = bool(values) and all(pids is None for pids in values)
    return Row("other processes", absent=_HIDDEN) if silent else _row("other processes", values, show=_processes)


def _limit(values: Sequence[Any], words: str) -> str:
    """The bound in words; empty where it is not known or did not stay the same."""
    distinct = set(values)
    return words.format(distinct.pop()) if len(distinct) == 1 and None not in distinct else ""


def _row(
    label: str, values: Sequence[Any], unit: str = "", *, note: str = "", show: Callable[[Any], str] = _figure
) -> Row:
    if all(value is None for value in values):
        return Row(label, absent=_SILENT)
    words = " → ".join(UNKNOWN if value is None else show(value) for value in values)
    return Row(label, " ".join(part for part in (words, unit, f"({note})" if note else "") if part))
