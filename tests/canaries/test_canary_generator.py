"""New canaries: drawn by their law, dealt to clients, and none that a corpus holds."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from fedaudit.api.errors import InputError, UsageError
from fedaudit.canaries import generator
from fedaudit.canaries.generator import CanaryRequest, make


def order(**options):
    return CanaryRequest(**{"controls": 5, "seed": 3, **options})


def test_every_client_gets_every_multiplicity():
    found = make(order(count=12, clients=("c0", "c1")))
    assert Counter((one.client, one.times) for one in found.planted) == {
        (client, times): 2 for client in ("c0", "c1") for times in (1, 4, 16)
    }


def test_secrets_are_of_the_space_and_sentences_differ():
    found = make(order(count=30, controls=50))
    assert len({one.secret for one in found.canaries}) == 80
    assert all(one.secret in found.space for one in found.canaries)
    assert len({one.prefix for one in found.planted}) == 30
    assert {one.text for one in found.controls} <= {one.text for one in found.planted}


def test_a_seed_repeats_them_and_without_one_they_are_others():
    first, again, other = make(order()), make(order()), make(order(seed=4))
    assert first.canaries == again.canaries
    assert first.salt == again.salt
    assert other.canaries != first.canaries
    assert make(order(seed=None)).canaries != make(order(seed=None)).canaries


def test_no_secret_is_one_of_a_corpus_however_it_is_spaced(tmp_path):
    space = generator.SecretSpace("07700 9001#[02468]")
    held = [secret for secret in space if secret[-2] != "7"]  # all but five
    lines = (json.dumps({"text": f"Ring {s.replace(' ', '-')} now."}) for s in held)
    (tmp_path / "r.jsonl").write_text("\n".join(lines) + "\n")
    some = order(count=3, controls=2, pattern=space.pattern, corpora=(tmp_path / "r.jsonl",))
    found = make(some)
    assert {one.secret[-2] for one in found.canaries} == {"7"}
    with pytest.raises(UsageError, match="too few for 3 canaries and 3 controls"):
        make(order(count=3, controls=3, pattern=space.pattern, corpora=(tmp_path / "r.jsonl",)))


def test_names_are_those_of_the_list_that_no_corpus_has(tmp_path):
    (tmp_path / "names").write_text("Ann Lee\n\nBo Orr\nCy Ash\nDi Fox\nAnn Lee\n")
    (tmp_path / "r.jsonl").write_text('{"text": "BO ORR sued."}\n')
    some = order(kind="name", names=tmp_path / "names", count=3, controls=0, times=(1, 2, 3))
    with pytest.raises(UsageError, match="4 secrets of this kind"):
        make(some)  # nobody would be left to be ranked among
    assert make(replace(some, count=2, times=(1, 2))).space.size == 4
    held = CanaryRequest(
        kind="name", names=tmp_path / "names", count=1, controls=1, times=(1,), seed=0,
        corpora=(tmp_path / "r.jsonl",),
    )  # fmt: skip
    assert set(make(held).space.words) == {"Ann Lee", "Cy Ash", "Di Fox"}


@pytest.mark.parametrize(
    ("kind", "language"), [(k, la) for k in ("phone", "card", "id") for la in ("en", "zh")]
)
def test_every_kind_can_be_made(kind, language):
    found = make(order(kind=kind, language=language, count=6))
    assert all(one.secret in one.sentence and "{" not in one.sentence for one in found.canaries)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kind": "phon"}, "Did you mean 'phone'"),
        ({"language": "fr"}, "language of canaries"),
        ({"times": ()}, "--times"),
        ({"times": (0,)}, "--times"),
        ({"times": (2, 2)}, "nothing twice"),
        ({"clients": ("c0", "c0")}, "nothing twice"),
        ({"count": 2}, "3 in all"),
        ({"template": "fedpii"}, "No prompt template named 'fedpii'. Did you mean 'fed_pii'"),
        ({"count": 200_000}, "10,000 canaries"),
        ({"formats": ("no slot",)}, "must be one line"),
        ({"formats": ("{secret} first",)}, "needs words before"),
        ({"formats": ("a {secret}",)}, "fewer than 12 different beginnings"),
        ({"kind": "name"}, "needs --names"),
        ({"pattern": "["}, "--pattern"),
        ({"pattern": ""}, "--pattern is empty"),
        ({"instruction": "say {secret}"}, "--instruction"),
        ({"controls": 2000}, "too few for 12 canaries"),
    ],
)
def test_what_cannot_be_is_said(options, says):
    with pytest.raises(UsageError, match=says):
        make(order(**options))


def test_a_phone_takes_no_names_and_a_client_is_a_name(tmp_path):
    with pytest.raises(UsageError, match="takes no --names"):
        make(order(names=tmp_path / "names"))
    with pytest.raises(InputError, match="There is no file"):
        make(order(kind="name", names=tmp_path / "names"))
    with pytest.raises(InputError, match="cannot name a file"):
        make(order(clients=("../c0",)))
