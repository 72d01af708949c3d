"""ert_roofline: what the GPU was measured to do at most, by the judge's own kernels and torch's libraries."""

from __future__ import annotations

from typing import Any

from agents.protocols import ToolResult
from evaluation.client import Evaluates
from evaluation.profile.rates import PRECISIONS, MeasuredRoofline, Rate

_LEVELS = {"l2_read": "L2 read", "dram_read": "DRAM read", "dram_copy": "DRAM copy"}
_EXPLANATION = (
    "A kernel that does fewer operations per byte of DRAM traffic than the ridge point of its precision is bound by",
    "memory: it takes at least its bytes over the DRAM bandwidth. One that does more is bound by compute throughput.",
)


class ErtRoofline:
    """The empirical roofline, kept for the GPU from its first measurement on."""

    name = "ert_roofline"
    description = (
        "Measured peaks of the GPU that kernels run on: bandwidth of DRAM and of the L2 cache, compute throughput by "
        "precision, and the ridge points between them. The figures are kept, so calling it again tells nothing new."
    )
    parameters: dict[str, Any] = {"type": "object", "properties": {}}  # noqa: RUF012 (the protocol's form)

    def __init__(self, evaluator: Evaluates) -> None:
        self._evaluator = evaluator

    def call(self, arguments: dict[str, Any]) -> ToolResult:  # noqa: ARG002 (takes none)
        """See the class. Faults of the evaluator are raised."""
        if self._evaluator.settings.device != "cuda":
            return ToolResult(
                text=f"{self.name} FAILED: there is no GPU in this session; it needs device=cuda.", ok=False
            )
        return roofline_result(self._evaluator.roofline())


def roofline_result(found: MeasuredRoofline) -> ToolResult:
    """The measurement as text, its figures as data."""
    bandwidths = {label: found.bandwidths[key] for key, label in _LEVELS.items() if key in found.bandwidths}
    operations = {kind.upper(): found.operations[kind] for kind in PRECISIONS if kind in found.operations}
    lines = [
        "ert_roofline PASSED: empirical roofline benchmarks complete.",
        "=== Empirical Roofline Model ===",
        f"Device: {found.device_name}",
        "Measured Bandwidth:",
        *(_row(label, _gb_s(rate), f"working set: {_kb(rate)}", rate) for label, rate in bandwidths.items()),
        "Measured Compute Throughput (dense products of square matrices):",
        *(_row(label, _tera(label, rate), f"rows: {rate.size}", rate) for label, rate in operations.items()),
        *(f"  {_LEVELS.get(name, name.upper())}: not measured, {why}" for name, why in sorted(found.absent.items())),
        *(f"Ridge point ({kind.upper()}): {ridge:.1f} {_per_byte(kind)}" for kind, ridge in found.ridge_points.items()),
        *_EXPLANATION,
    ]
    data = {
        "device": found.device_name,
        **{label: _gb_s(rate) for label, rate in bandwidths.items()},
        **{label: _tera(label, rate) for label, rate in operations.items()},
    }
    return ToolResult(text="\n".join(lines), ok=True, data=data)


def _row(label: str, value: str, size: str, rate: Rate) -> str:
    how = f"best of {rate.rounds} medians, {rate.calls} calls, spread {100 * rate.spread:.1f} %"
    return f"  {label:<9}  {value:>13}  ({size}; {how})"


def _gb_s(rate: Rate) -> str:
    return f"{rate.per_s / 1e9:.0f} GB/s"


def _kb(rate: Rate) -> str:
    return f"{rate.size / 1024:.0f} KB"


def _tera(label: str, rate: Rate) -> str:
    return f"{rate.per_s / 1e12:.1f} {'TOPS' if label.startswith('INT') else 'TFLOPS'}"


def _per_byte(kind: str) -> str:
    return "operations/byte" if kind.startswith("int") else "FLOPs/byte"
