"""Canaries with coins: made, committed to, kept, planted."""

import json
import stat
from collections import Counter
from dataclasses import asdict, replace

import pytest

from fedaudit.api.errors import InputError, UsageError
from fedaudit.canaries import coin_file, coin_generator
from fedaudit.canaries.planting_plan import PlantRequest, plant_coins

WORDS = [f" {a}{b}c" for a in "abcdefghijklm" for b in "nopqrstuvwxyz"]
VOCABULARY = [*WORDS, "the", " x", " 12", "\x00", " of the"]


@pytest.fixture
def records(tmp_path):
    place = tmp_path / "c0.jsonl"
    rows = [{"text": f"Call from {n}: the claimant asked.", "pii": []} for n in range(8)]
    place.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return place


def make(records, **options):
    order = {
        "corpus": records,
        "count": 40,
        "prefix_words": 4,
        "suffix_tokens": 5,
        "seed": 3,
        **options,
    }
    return coin_generator.make(coin_generator.CoinRequest(**order), VOCABULARY)


def test_a_canary_begins_as_records_do_and_ends_in_words_of_the_vocabulary(records):
    made = make(records)
    for one in made.canaries:
        assert one.prefix.startswith("Call from ")
        assert len(one.prefix.split()) == 4
        assert {f" {word}" for word in one.suffix.split()} <= set(WORDS)
        assert len(one.suffix.split()) == 5
    assert len({one.text for one in made.canaries}) == 40
    assert 10 <= sum(made.coins) <= 30


def test_a_suffix_has_a_largest_length(records):
    assert make(records, count=20, suffix_tokens=4096).canaries[0].suffix.count(" ") == 4096
    for tokens in (4097, 99_999):
        with pytest.raises(UsageError, match=r"--suffix-tokens must be 4,096 or fewer"):
            make(records, suffix_tokens=tokens)


def test_without_a_seed_nobody_can_make_them_again(records):
    one, two = make(records, seed=None), make(records, seed=None)
    assert one.canaries != two.canaries
    assert one.salt != two.salt
    assert make(records).canaries == make(records).canaries


def test_coins_are_fair_and_independent_of_the_text(records):
    made = make(records, count=2000)
    # 4 standard deviations of 2,000 fair coins.
    assert abs(sum(made.coins) - 1000) <= 4 * (2000 / 4) ** 0.5


def test_the_commitment_is_to_every_choice(records):
    made = make(records)
    first = made.canaries[0]
    changed = (first.__class__(**{**asdict(first), "included": not first.included}),)
    others = [
        replace(made, canaries=(*changed, *made.canaries[1:])),
        replace(made, delta=1e-6),
        replace(made, level=0.01),
        replace(made, shares=(0.5,)),
        replace(made, positions=("outsider",)),
        replace(made, estimator="one_run"),
        replace(made, salt="0" * 64),
    ]
    assert len({coin_file.commitment(one) for one in (made, *others)}) == 8


def test_a_file_reads_back_and_is_its_owners_alone(records, tmp_path):
    made, place = make(records), tmp_path / "coins.json"
    coin_file.write(made, place)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert coin_file.read(place) == made


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"delta": 0.01}, "delta must be above 0 and at most 1e-05"),
        ({"level": 0.5}, "level must be"),
        ({"shares": []}, "shares are"),
        ({"positions": ["client", "client"]}, "positions are"),
        ({"positions": ["judge"]}, "judge"),
        ({"salt": "x"}, "salt"),
        ({"made": "today"}, "not a time"),
        ({"scorer": "another"}, "scorer"),
        ({"client": "../x"}, "client"),
        ({"canaries": []}, "20 to 20,000"),
        ({"canaries": [{"prefix": "a", "suffix": " b"}]}, "no canaries with coins"),
        ({"canaries": "many"}, "no canaries with coins"),
    ],
)
def test_files_that_are_none(records, tmp_path, change, message):
    place = tmp_path / "coins.json"
    place.write_text(json.dumps({**asdict(make(records)), **change}))
    with pytest.raises(InputError, match=message):
        coin_file.read(place)


def test_coins_that_all_fell_alike_and_canaries_twice(records, tmp_path):
    made, place = make(records), tmp_path / "coins.json"
    alike = tuple(replace(one, included=True) for one in made.canaries)
    coin_file.write(replace(made, canaries=alike), place)
    with pytest.raises(InputError, match="fell alike"):
        coin_file.read(place)
    coin_file.write(replace(made, canaries=(made.canaries[0], *made.canaries)), place)
    with pytest.raises(InputError, match="one canary twice"):
        coin_file.read(place)


def test_orders_that_cannot_be(records, tmp_path):
    with pytest.raises(UsageError, match="--count must be"):
        make(records, count=19)
    with pytest.raises(UsageError, match="a token of suffix"):
        make(records, suffix_tokens=0)
    with pytest.raises(UsageError, match="at most 1e-05"):
        make(records, delta=1 / 96)
    few = coin_generator.CoinRequest(corpus=records, count=40)
    with pytest.raises(InputError, match="100 are needed"):
        coin_generator.make(few, WORDS[:50])
    empty = tmp_path / "empty.jsonl"
    empty.write_text('{"text": " "}\n')
    with pytest.raises(InputError, match="no text that a canary could begin with"):
        make(empty)


def planted(records, tmp_path, name="out.jsonl", **options):
    options = {"client": "", **options}
    place = tmp_path / "coins.json"
    made = make(records)
    coin_file.write(made, place)
    out = tmp_path / name
    done = plant_coins(PlantRequest(secrets=place, records=records, out=out, **options))
    return made, done, [json.loads(line) for line in out.read_text().splitlines()]


def test_each_canary_that_is_in_is_planted_once(records, tmp_path):
    made, done, rows = planted(records, tmp_path, client="c0")
    texts = Counter(row["text"] for row in rows)
    assert all(texts[one.text] == one.included for one in made.canaries)
    assert done.canaries == sum(made.coins)
    assert done.records == len(rows) == 8 + sum(made.coins)
    assert all(row["pii"] == [] for row in rows)


def test_canaries_join_the_corpus_of_the_records(records, tmp_path):
    grouped = tmp_path / "grouped.jsonl"
    lines = records.read_text().splitlines()
    rows = [{**json.loads(line), "group": f"c0/{n}"} for n, line in enumerate(lines)]
    grouped.write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, _, found = planted(grouped, tmp_path)
    assert {row["group"].partition("/")[0] for row in found} == {"c0"}
    assert len({row["group"] for row in found}) == len(found)


def test_records_that_hold_a_canary_and_other_mistakes(records, tmp_path):
    made, _, _ = planted(records, tmp_path)
    place = tmp_path / "coins.json"
    with records.open("a") as file:
        file.write(json.dumps({"text": made.canaries[0].text}) + "\n")
    order = PlantRequest(secrets=place, records=records, client="", out=tmp_path / "new.jsonl")
    with pytest.raises(InputError, match="holds 1 of the canaries already"):
        plant_coins(order)
    with pytest.raises(UsageError, match="is for c0, not for c1"):
        plant_coins(replace(order, client="c1"))
    with pytest.raises(InputError, match="exists already"):
        plant_coins(replace(order, out=records))


def test_a_text_of_the_corpus_is_no_canary(records, monkeypatch):
    made = make(records)
    with records.open("a") as file:
        file.write(json.dumps({"text": made.canaries[0].text}) + "\n")
    # The same seed, which draws the same ends, but passes over what the corpus has.
    again = make(records)
    assert made.canaries[0].text not in {one.text for one in again.canaries}


def test_gradients_are_for_the_position_that_sees_updates(records, tmp_path):
    made = make(records, score="gradient", positions=("server",))
    assert made.uses_gradients
    assert not make(records).uses_gradients
    coin_file.write(made, tmp_path / "coins.json")
    assert coin_file.read(tmp_path / "coins.json") == made
    other = replace(made, scorer=coin_file.SCORERS["loss"])
    assert coin_file.commitment(made) != coin_file.commitment(other)
    for positions in (("client",), ("server", "client")):
        with pytest.raises(UsageError, match="only the position server sees updates"):
            make(records, score="gradient", positions=positions)
    table = json.loads((tmp_path / "coins.json").read_text())
    (tmp_path / "coins.json").write_text(json.dumps({**table, "positions": ["outsider"]}))
    with pytest.raises(InputError, match="only the position server"):
        coin_file.read(tmp_path / "coins.json")
