"""Options of the attacks: the papers' protocols by default, and values that cannot be."""

import pytest

from fedaudit.api.errors import UsageError
from fedaudit.config import registry

FED_PII = {"samples": 15, "new_tokens": 10, "context": 50}
PROTOCOLS = {
    "contextual": {**FED_PII, "temperature": 1.0, "top_k": 0, "top_p": 1.0},
    "superset": FED_PII,
    "laft": {
        **FED_PII,
        "pairs": 10_000,
        "rank": 16,
        "alpha": 32.0,
        "learning_rate": 5e-5,
        "epochs": 1,
    },
    "verbatim": {"suffix": 50, "documents": 0},
    "discoverable": {"examples": 100},
    "ranking": {"candidates": (50,), "sentences": 100, "labels": ()},
    "untargeted": {"new_tokens": 256, "temperature": 1.0, "top_k": 40, "top_p": 1.0},
    "gate": {"once": True, "random": 100_000, "edits": 10_000, "leaks": True},
}
REFUSED = {
    "contextual": [
        ({"samples": 0}, "samples"),
        ({"new_tokens": 0}, "new_tokens"),
        ({"context": 0}, "context"),
        ({"temperature": -1.0}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_k": -3}, "top_k"),
        ({"disjoint": "prefix-fee"}, "Did you mean 'prefix-free'"),
    ],
    "superset": [({"context": 0}, "context")],
    "frequency": [
        ({"budget": 0}, "budget must be at least 1"),
        ({"minimum": 0}, "minimum must be at least 1"),
    ],
    "laft": [
        ({"pairs": 0}, "pairs"),
        ({"rank": 0}, "rank"),
        ({"epochs": 0}, "epochs"),
        ({"batch_size": 0}, "batch_size"),
        ({"context": 0}, "context"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"alpha": 0.0}, "alpha"),
        ({"budget": 0}, "budget"),
        ({"prefixes": "frequent"}, "frequency"),
    ],
    "verbatim": [
        ({"prefix": 0}, "prefix"),
        ({"suffix": 0}, "suffix"),
        ({"shortest": 0}, "shortest"),
        ({"shortest": 51}, "at most suffix"),
        ({"documents": -1}, "documents"),
    ],
    "discoverable": [
        ({"examples": -1}, "examples"),
        ({"new_tokens": 0}, "new_tokens"),
        ({"threshold": 0.0}, "threshold"),
        ({"threshold": 1.1}, "threshold"),
    ],
    "ranking": [
        ({"candidates": ()}, "candidates"),
        ({"candidates": (50, 1)}, "candidates must be at least 2"),
        ({"sentences": 0}, "sentences"),
        ({"context": 0}, "context"),
        ({"shortest": 0}, "shortest"),
        ({"per_document": -1}, "per_document"),
    ],
    "untargeted": [
        ({"samples": 0}, "samples"),
        ({"new_tokens": 0}, "new_tokens"),
        ({"temperature": -1.0}, "temperature"),
        ({"top_k": -1}, "top_k"),
        ({"top_p": 0.0}, "top_p"),
    ],
    "gate": [
        ({"random": -1}, "random"),
        ({"edits": -1}, "edits"),
        ({"candidates": 1}, "candidates"),
        ({"sentences": 0}, "sentences"),
        ({"context": 0}, "context"),
    ],
    "membership": [
        ({"shortest": 1}, "at least"),
        ({"tokens": 7}, "at least"),
        ({"neighbours": -1}, "neighbours must be 0 or more"),
    ],
    "source": [({"shortest": 1}, "shortest")],
    "inversion": [({"candidates": 1}, "candidates")],
    "benign": [({"answers": 0}, "at least 1"), ({"requests": "mine"}, "mine")],
}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_it_is_the_papers_protocol_by_default(name):
    plain = registry.create("attack", name)
    assert {option: getattr(plain, option) for option in PROTOCOLS[name]} == PROTOCOLS[name]


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [(name, *case) for name, cases in REFUSED.items() for case in cases],
    ids=str,
)
def test_options_that_cannot_be_are_refused(name, wrong, message):
    with pytest.raises(UsageError, match=message) as error:
        registry.create("attack", name, wrong)
    assert error.value.exit_code == 2
