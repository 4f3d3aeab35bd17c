"""Canaries that a client was to be given and that its records lack."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from fedaudit.api.errors import InputError
from fedaudit.api.templates import template
from fedaudit.audit.exposure import count_canary_copies
from fedaudit.audit.input_files import InputReader
from fedaudit.canaries.canary_file import Canary, CanarySet
from fedaudit.canaries.secret_space import SecretSpace
from fedaudit.federation.folder import Federation


def canary(number, client="c0", times=1):
    return Canary(text=f"Note {number}: call {{secret}}.", secret=f"07700 90000{number}",
                  client=client, times=times)  # fmt: skip


CANARIES = CanarySet(
    made="2026-11-29T00:00:00+00:00", salt="0" * 64, kind="phone", language="en", label="PHONE",
    space=SecretSpace(pattern="07700 90####"),
    canaries=(canary(1), canary(2, times=2), canary(3, client="c1")),
)  # fmt: skip


def federation(folder, *texts):
    """Return a federation of c0, whose records are at hand, and c1, whose are not."""
    lines = (f'{{"text": "{text}"}}\n' for text in texts)
    (folder / "c0.jsonl").write_text("".join(lines))
    clients = [SimpleNamespace(id="c0", data="c0.jsonl"), SimpleNamespace(id="c1", data="")]
    return Federation(folder, SimpleNamespace(clients=clients, template=template("fed_pii")))


def test_records_that_lack_canaries_are_refused(tmp_path):
    first, second = (one.sentence for one in CANARIES.planted[:2])
    found = count_canary_copies(
        federation(tmp_path, "Nothing.", first, second), CANARIES, InputReader()
    )
    assert found.found == {"c0": 1}  # of the second there should be two copies
    with pytest.raises(InputError, match=r"The records of c0 in .* lack 1 of its 2 canaries"):
        found.check(tmp_path)
    full = count_canary_copies(
        federation(tmp_path, first, second, f"Again: {second}"), CANARIES, InputReader()
    )
    full.check(tmp_path)


def test_canaries_of_a_client_that_the_federation_lacks_are_refused(tmp_path):
    """Nothing was planted, and the secrets of c7 and c8 were no likelier than others: a pass."""
    own = federation(tmp_path, "Nothing.")
    strangers = replace(CANARIES, canaries=(canary(1, client="c8"), canary(2, client="c7")))
    with pytest.raises(InputError, match="has no client c7 and no c8, for whom canaries were made"):
        count_canary_copies(own, strangers, InputReader())
    count_canary_copies(None, strangers, InputReader())


def test_whose_records_are_not_at_hand_is_said(tmp_path):
    found = count_canary_copies(federation(tmp_path, "Nothing."), CANARIES, InputReader())
    [said] = found.caveats()
    assert said.startswith("The records of c1 are not at hand")
    count_canary_copies(None, CANARIES, InputReader()).check(tmp_path)
    [said] = count_canary_copies(None, CANARIES, InputReader()).caveats()
    assert said.startswith("The records of c0, c1 are not at hand")
