"""Nothing that an honest candidate does is taken for cheating."""

import pytest
from corpus import entries, evaluate

ON_CPU, ON_GPU = ([entry for entry in entries("honest", device) if not entry.slow] for device in ("cpu", "cuda"))


@pytest.mark.parametrize("entry", ON_CPU, ids=[entry.id for entry in ON_CPU])
def test_an_honest_candidate_is_not_refused(corpus_judge, entry):
    complaint = entry.complaint(evaluate(corpus_judge, entry))
    assert complaint is None, f"{entry.title}: {complaint}"


@pytest.mark.gpu
@pytest.mark.parametrize("entry", ON_GPU, ids=[entry.id for entry in ON_GPU])
def test_an_honest_candidate_on_a_gpu_is_not_refused(gpu_corpus_judge, entry):
    complaint = entry.complaint(evaluate(gpu_corpus_judge, entry))
    assert complaint is None, f"{entry.title}: {complaint}"
