"""Profiles as files: `matmul_fp16` was measured on an H200, the others were written by hand for one of these."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from device_evaluations import MEAN, on_h200

from evaluation.serialize import from_plain
from evaluation.verdict import Evaluation, Profile, Stage

FOLDER = Path(__file__).parents[1] / "data" / "profiles"


def profile_of(name: str) -> Profile:
    """`matmul_fp16` without a count of tensor cores, `memory_copy`, `three_kernels`, `only_launches` or `cpu`."""
    plain = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return from_plain(Profile, {key: plain[key] for key in ("metrics", "absent", "words", "kernels")})


def with_profile(profile: Profile) -> Evaluation:
    """An evaluation of a right kernel on an H200, with this profile."""
    return replace(on_h200(MEAN), stage=Stage.PROFILE, profile=profile)
