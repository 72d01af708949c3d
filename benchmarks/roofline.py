"""What this GPU can do at most: by its driver, by its vendor, and measured several times over.

    python benchmarks/roofline.py --commit "$(git rev-parse --short HEAD)" --out benchmarks/results/roofline.json \\
        [--repeats 3]

Each figure comes with its share of the vendor's and how far the repeats are apart. Needs a GPU.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from common import Json, header, measure, write  # noqa: E402

from agents.tools.ert_roofline import roofline_result  # noqa: E402
from agents.tools.get_gpu_specs import facts_result  # noqa: E402
from evaluation.device.facts import device_facts  # noqa: E402
from evaluation.profile.rates import MeasuredRoofline  # noqa: E402
from evaluation.profile.roofline import measured_roofline  # noqa: E402
from evaluation.profile.specs import Specs, specs_of  # noqa: E402
from evaluation.serialize import to_plain  # noqa: E402

LONGEST_S = 4.0


def main() -> None:
    """Measure, show the tools' texts, and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    facts = device_facts()
    found = _repeated(arguments.repeats)
    sys.stdout.write(f"{facts_result(facts).text}\n{roofline_result(found[0]).text}\n")
    report = header("torch", "numpy", commit=arguments.commit)
    report["samples"] = {"facts": to_plain(facts), "rooflines": [to_plain(one) for one in found]}
    report["measures"] = _measures(found, specs_of(facts.name))
    write(report, arguments.out)


def _repeated(repeats: int) -> list[MeasuredRoofline]:
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(repeats):
            found.append(measured_roofline(Path(folder)))
            for kept in Path(folder, "roofline").iterdir():
                kept.unlink()
    return found


def _measures(found: list[MeasuredRoofline], specs: Specs | None) -> list[Json]:
    """In TB/s and TFLOPS (TOPS)."""
    measures = [measure("measuring, longest", max(one.wall_s for one in found), "s", "<=", LONGEST_S)]
    rates = found[0].bandwidths | found[0].operations
    vendors: dict[str, float] = {}
    if specs is not None:
        vendors = dict.fromkeys(("dram_copy", "dram_read"), specs.dram_bandwidth_bytes_s) | specs.peak_flops
    for name in rates:
        values = [(one.bandwidths | one.operations)[name].per_s for one in found]
        measures.append(measure(name, values[0] / 1e12, "T/s"))
        measures.append(measure(f"{name}, repeats apart", 100 * (max(values) / min(values) - 1), "%"))
        if name in vendors:
            measures.append(measure(f"{name}, of the vendor's", 100 * values[0] / vendors[name], "%"))
    return measures


if __name__ == "__main__":
    main()
