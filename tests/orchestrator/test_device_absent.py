"""A sweep on a device that the machine has not: one sentence, before anything is written or tried."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from evaluation.device.presence import absence
from evaluation.serialize import from_plain, to_plain
from evaluation.settings import EvaluationSettings
from orchestrator.cli.main import main
from orchestrator.settings import CHECKOUT

needs_none = pytest.mark.skipif(absence("cuda") is None, reason="this machine has a CUDA device")


@needs_none
def test_a_sweep_on_cuda_says_what_is_missing_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["run", "experiment=quickstart", "evaluation=cuda", "launcher=inline", "--out", str(tmp_path)])
    said = capsys.readouterr().err
    assert code == 1
    assert said.count("\n") == 1
    assert said.startswith("kernelsweep: evaluation.device=cuda")
    assert not list(tmp_path.iterdir())


def test_the_option_cuda_is_what_the_evaluator_takes_by_itself() -> None:
    declared = yaml.safe_load((CHECKOUT / "conf" / "evaluation" / "cuda.yaml").read_text())
    own = to_plain(EvaluationSettings.on("cuda"))
    assert (
        to_plain(from_plain(EvaluationSettings, own | declared | {"timing": own["timing"] | declared["timing"]})) == own
    )
