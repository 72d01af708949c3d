"""Nothing that an honest candidate does is taken for cheating."""

import pytest
from corpus import entries, evaluate

HONEST = [entry for entry in entries("honest") if entry.needs == "cpu" and not entry.slow]


@pytest.mark.parametrize("entry", HONEST, ids=[entry.id for entry in HONEST])
def test_an_honest_candidate_is_not_refused(corpus_judge, entry):
    complaint = entry.complaint(evaluate(corpus_judge, entry))
    assert complaint is None, f"{entry.title}: {complaint}"
