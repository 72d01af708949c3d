"""Starting what workers come from; imports no torch, so that it can be done first."""

from __future__ import annotations

from pathlib import Path

from evaluation.device import harness
from evaluation.settings import EvaluationSettings
from evaluation.worker.handle import Zygote


def start_zygote(settings: EvaluationSettings, cache_dir: Path) -> Zygote:
    """For workers as the settings want them. Raises EvaluatorError where a device's harness cannot be built."""
    library = harness.build(cache_dir) if settings.device == "cuda" else None
    return Zygote(settings.cpu_threads, harness=library)
