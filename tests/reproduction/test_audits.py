"""Whose records the attacks of a variant are about."""

import json

import pytest

from fedaudit.api.errors import UsageError
from fedaudit.config.profile import Variant
from fedaudit.reproduction import audits
from fedaudit.reproduction.audits import audit_variant
from fedaudit.simulation.config import Simulation


def run_nothing(request):
    pytest.fail("an audit was run")


def test_a_corpus_that_nobody_has_is_refused(tmp_path, monkeypatch):
    for what_the_federation_is in ("_common", "is_deployed"):
        monkeypatch.setattr(audits, what_the_federation_is, lambda *_: {})
    (tmp_path / "data").mkdir()
    for client, group in (("c0", "legal/1"), ("c1", "bank/1")):
        record = {"id": client, "text": "Ann left.", "group": group}
        (tmp_path / f"data/{client}.jsonl").write_text(json.dumps(record) + "\n")
    variant = Variant(
        name="by corpus", attacks=("ranking",), clients=("c0",), corpora=("legal", "bamk")
    )
    with pytest.raises(UsageError) as refused:
        list(audit_variant(variant, tmp_path, Simulation(clients=2), run_nothing))
    # c1, who has that corpus, is not attacked.
    assert str(refused.value) == ("variant by corpus: No corpus named 'bamk'. There is: legal.")
