from pathlib import Path

import pytest
import torch
from corpus import entries
from corpus import settings as settings_for
from corpus_builds import build_all

from evaluation.judge import Judge
from evaluation.settings import EvaluationSettings, LimitSettings, TimingSettings
from evaluation.verdict import Solution
from problems.library import read_problem

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(autouse=True)
def same_numbers_every_time():
    """Tensors that a test draws by itself do not depend on the tests before it."""
    torch.manual_seed(5)


def quick_settings(**changes):
    limits = LimitSettings(load_s=20.0, call_s=10.0, processes=24)
    timing = TimingSettings(budget_s=0.2, stable_interval=1e6)
    return EvaluationSettings(**({"limits": limits, "timing": timing, "draws": 3} | changes))


@pytest.fixture(scope="session")
def corpus_judge(tmp_path_factory):
    """For the corpora of exploits and of honest candidates."""
    timing = TimingSettings(budget_s=0.2, process_pairs=2, min_blocks=8, stable_interval=1e6)
    with Judge(settings_for(timing), tmp_path_factory.mktemp("cache")) as judge:
        yield judge


@pytest.fixture(scope="session")
def gpu_corpus_judge(tmp_path_factory):
    """The same on the GPU, with everything built that the corpora there ask for."""
    cache = tmp_path_factory.mktemp("cache")
    both = [entry for corpus in ("exploits", "honest") for entry in entries(corpus, "cuda")]
    build_all(both, cache)
    timing = TimingSettings(budget_s=0.2, process_pairs=2, min_blocks=8, stable_interval=1e6)
    with Judge(settings_for(timing, "cuda"), cache) as judge:
        yield judge


@pytest.fixture(scope="session")
def affine():
    return read_problem(DATA / "problems" / "1_affine.py")


@pytest.fixture(scope="session")
def candidate():
    def read(name):
        return Solution(source=(DATA / "candidates" / f"{name}.py").read_text())

    return read


@pytest.fixture(scope="session")
def settings():
    return quick_settings()


@pytest.fixture(scope="session")
def data_folder():
    return DATA


@pytest.fixture(scope="session")
def judge(tmp_path_factory):
    with Judge(quick_settings(), tmp_path_factory.mktemp("cache")) as judge:
        yield judge
