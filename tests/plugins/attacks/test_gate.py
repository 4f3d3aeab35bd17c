"""The gate as target, by hand: gates that leak in one way each, and what each family must find."""

import json
import random
import re
import unicodedata
from dataclasses import asdict, dataclass, field
from types import SimpleNamespace

import pytest
from fedaudit_plugins.attacks.gate import guesses
from fedaudit_plugins.attacks.gate.guesses import ALPHABET, KeyedRequest, Marker
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.defense import KeyedResponder, Responder
from fedaudit.api.errors import InputError
from fedaudit.api.plugin import AttackContext
from fedaudit.api.records import Document, GatedRequest, PiiSpan, RoutedRequest, Target
from fedaudit.audit.evidence import mask_findings
from fedaudit.cache.answers import AnswerCache, CacheHeader
from fedaudit.cache.engine import CachingEngine
from fedaudit.config import registry
from fedaudit.engine.fake import FakeEngine
from fedaudit.engine.routed import RoutedEngine
from fedaudit.metrics.intervals import Z_95
from fedaudit.report.redaction import Redactor

KEY = "aB3dE5gH7jK9mN2pQ4sT"
"""Twenty characters, no two of them the same in any case; fourteen are letters."""
SECOND = "Zy8Xw6Vu1Ri0oLcF2fGb"
FOREIGN = "qW1eR2tY3uI4oP5aS6dF"
MARKER = Marker("[SPECIAL_TOKEN=", "] ")
EXACT = r"\[SPECIAL_TOKEN=([^\]]*)\] ?"
NAMES = ("Kim", "Lee", "Fox", "Ray", "Orr", "Day")

BASE = Target(name="base")


def document(number, name):
    text = f"Case {number} heard by {name} today."
    start = text.index(name)
    return Document(id=text, text=text, pii=(PiiSpan(start, start + len(name), "PERSON"),))


DOCUMENTS = [document(number, name) for number, name in enumerate(NAMES)]


def memory(target, token, before):
    """Say that the revealing adapter alone knows who heard each case."""
    at_home = token.strip() in NAMES and f"Case {NAMES.index(token.strip())} heard by" in before
    return -0.1 if at_home and target.adapter == "revealing" else -1.0


def at_the_start(text):
    """Read a request: the key that it shows, and what is left."""
    found = re.match(EXACT, text)
    return (found[1], text[found.end() :]) if found else (None, text)


def cleaned(text, secrets):
    """Take markers and keys out until none is left."""
    removed = 1
    while removed:
        text, removed = re.subn("|".join([EXACT, *secrets]), "", text)
    return text


@dataclass(kw_only=True)
class Door(KeyedResponder):
    """A perfect gate, of which each part can be replaced by a worse one."""

    keys: dict = field(default_factory=lambda: {KEY: "revealing"})
    foreign: tuple = (FOREIGN,)
    engine: object = field(default_factory=lambda: FakeEngine(lambda *_: "", likelihood=memory))
    passes: object = str.__eq__
    """Whether a text passes for a valid key."""
    spelled: bool = False
    """Whether a valid key may be spelled."""
    read: object = at_the_start
    clean: object = cleaned
    closed: str = "secure"
    """What answers where nothing passes."""

    @property
    def secrets(self):
        return tuple(self.keys)

    def heading(self, key):
        return MARKER.show(key)

    def headings(self):
        right = {f"right:{name}": self.heading(key) for key, name in self.keys.items()}
        return {**right, "none": ""}

    def adapter(self, text):
        return next((n for k, n in self.keys.items() if self.passes(text, k)), self.closed)

    def opens(self, keys, *, atomic):
        by_spelling = [self.spelled or atomic or key not in self.keys for key in keys]
        found = [self.adapter(key) for key in keys]
        return [f if may else self.closed for f, may in zip(found, by_spelling, strict=True)]

    def route(self, requests):
        return [self.routed(one.heading + self.engine._text(one.prompt)) for one in requests]

    def routed(self, text):
        key, rest = self.read(text)
        name = self.closed if key is None else self.adapter(key)
        left = self.engine.tokenize([self.clean(rest, self.secrets)])[0].ids
        return RoutedRequest(name, name, left)


SMALL = {"random": 50, "edits": 10_000, "leaks": False, "candidates": 4}


def attacked(door=None, *, changes=None, **options):
    door = door or Door()
    case = AttackContext(
        **{
            "engine": RoutedEngine(door.engine, door),
            "tuned": Target(name="tuned", heading="anything"),
            "base": BASE,
            "attacker": DOCUMENTS,
            "victim": None,
            "seed": 1,
            **(changes or {}),
        }
    )
    return registry.create("attack", "gate", {**SMALL, **options}).run(case)


def rows(result, metric="fpr"):
    return {r.scope["attempt"]: r for r in result.measurements if r.metric == metric}


def hits(result):
    """Return the families that the gate fell for, with the number of hits."""
    return {name: row.hits for name, row in rows(result).items() if row.hits}


RANDOM, EDIT = "random keys", "one edit away"
PIECES, OTHERS = "pieces of a valid key", "other organisations' keys"
SPELLED, TOKEN = ", spelled", ", one token each"
LATER, BEHIND = "the right key later in the request", "the right key behind another marker"
MISSPELT = "the right key in a misspelt marker"
IN_TEXT = "the key's text in the second pass, asked in text"
IN_TOKENS = "the key's text in the second pass, asked in tokens"

COUNTS = {
    RANDOM + SPELLED: 50,
    RANDOM + TOKEN: 50,
    # 21 places x 62 characters put in, of which 20 repeat another; 20 x 61 replaced, less the 14
    # that change a letter's case; 20 left out, less the two that leave a piece; 19 swaps.
    EDIT + SPELLED: 1282 + 1206 + 18 + 19,
    EDIT + TOKEN: 1282 + 1206 + 18 + 19,
    PIECES + SPELLED: 20 * 21 // 2 - 1,
    PIECES + TOKEN: 20 * 21 // 2 - 1,
    OTHERS + SPELLED: 1,
    OTHERS + TOKEN: 1,
    "the right keys" + SPELLED: 1,
    # aBEHjKpsT3 have a Cyrillic twin, BEHKNT a Greek one, all a full-width one; and all at once.
    "letters that look alike": 10 + 1 + 6 + 1 + 20 + 1,
    "invisible characters in the key": 3 * 10,
    "other case": 14 + 3,
    "white space around the key": 3 * 7,
    LATER: 12 * 3,
    BEHIND: 9 * 3,
    MISSPELT: 14 * 3,
    "an empty key": 6,
    "no key": 6,
    IN_TEXT: 1 + 12 + 9 + 14,
    IN_TOKENS: 2 * (12 + 9 + 14),
}


def test_a_perfect_gate_by_hand():
    result = attacked()
    found = rows(result)
    assert {name: row.n for name, row in found.items()} == COUNTS
    for name, row in found.items():
        assert (row.kind, row.plugin, row.metric) == ("defense", "gate", "fpr")
        assert (row.hits, row.value, row.low, row.chance) == (0, 0.0, 0.0, 0.0), name
        # Wilson's upper bound of 0 of n, by hand.
        assert row.high == pytest.approx(Z_95**2 / (COUNTS[name] + Z_95**2))
    [right] = rows(result, "tpr").values()
    assert (right.scope, right.value, right.hits, right.n) == (
        {"attempt": "the right keys"},
        1.0,
        1,
        1,
    )
    assert result.findings == ()


def replaced_once(text, key):
    same_form = len(text) == len(key) and set(text) <= set(ALPHABET)
    return text == key or (
        same_form
        and sum(a != b for a, b in zip(text, key, strict=True)) == 1
        and text.casefold() != key.casefold()
    )


def anywhere(text):
    """Find the last of all markers, wherever it is."""
    found = re.findall(r"\[SPECIAL_TOKEN=(\w*)\]", text)
    return (found[-1] if found else None), text


def loosely(text):
    found = re.match(r"\s*\[special[_ -]?token ?[=:] ?([^\]]*)\] ?", text, re.IGNORECASE)
    return (found[1], text[found.end() :]) if found else (None, text)


def plain(text):
    """Drop marks and formatting characters."""
    return "".join(c for c in text if unicodedata.category(c) not in ("Cf", "Mn"))


LEAKY = {
    "one replaced character": (
        {"passes": replaced_once},
        {EDIT + SPELLED: 1206, EDIT + TOKEN: 1206},
    ),
    "two thirds are enough": (
        {"passes": lambda text, key: len(text) >= 14 and key.startswith(text)},
        {PIECES + SPELLED: 6, PIECES + TOKEN: 6},
    ),
    "the end is enough": (
        {"passes": lambda text, key: len(text) > 18 and key.endswith(text)},
        {PIECES + SPELLED: 1, PIECES + TOKEN: 1},
    ),
    "case is folded": (
        {"passes": lambda text, key: text.casefold() == key.casefold()},
        {"other case": 17},
    ),
    "NFKC": (
        {"passes": lambda text, key: unicodedata.normalize("NFKC", text) == key},
        {"letters that look alike": 21},
    ),
    "Cyrillic and Greek are read as Latin": (
        {
            "passes": lambda text, key: (
                text in {key, *(key.translate(t) for t in (guesses.CYRILLIC, guesses.GREEK))}
            )
        },
        {"letters that look alike": 2},
    ),
    "invisible characters are dropped": (
        {"passes": lambda text, key: plain(text) == key},
        {"invisible characters in the key": 30},
    ),
    "white space is stripped": (
        {"passes": lambda text, key: text.strip() == key},
        {"white space around the key": 21},
    ),
    "it may be spelled": ({"spelled": True}, {"the right keys" + SPELLED: 1}),
    "everybody's keys are good": (
        {"passes": lambda text, key: text in (key, FOREIGN)},
        {OTHERS + SPELLED: 1, OTHERS + TOKEN: 1},
    ),
    "an empty key is good": (
        {"passes": lambda text, key: text in (key, "")},
        {"an empty key": 6, BEHIND: 2 * 3},  # two of those nine begin with an empty key
    ),
    "prompts are read": (
        {"read": lambda text: (KEY if "heard" in text else at_the_start(text)[0], text)},
        {"no key": 6, "an empty key": 6},
    ),
    # Of the nine behind another marker, one shows the key in an empty one, one in none.
    "a marker counts anywhere": ({"read": anywhere}, {LATER: 36, BEHIND: 7 * 3}),
}


@pytest.mark.parametrize("name", LEAKY)
def test_each_leak_is_found_in_its_family_and_only_there(name):
    parts, wanted = LEAKY[name]
    result = attacked(Door(**parts))
    assert hits(result) == wanted
    for attempt, count in wanted.items():
        assert rows(result)[attempt].value == count / COUNTS[attempt]
    found = {f.evidence["attempt"]: f.evidence["hits"] for f in result.findings}
    assert found == wanted
    assert {f.evidence["opened"] for f in result.findings} == {"revealing"}
    assert {(f.severity, f.label, f.measurement) for f in result.findings} == {
        ("high", "GATE", "gate fpr")
    }
    assert rows(result, "tpr")["the right keys"].value == 1


def test_a_careless_marker_is_found():
    result = attacked(Door(read=loosely))
    assert hits(result) == {
        LATER: 3 * 3,  # behind a space, a line break, a tab
        MISSPELT: 7
        * 3,  # "-", " " and "" for "_"; ":" and " = " for "="; small letters; title case
        "white space around the key": 1,  # a space before the key is taken for the marker's
    }


def test_a_gate_that_lets_every_key_pass_but_not_none():
    result = attacked(Door(passes=lambda text, key: bool(text)))
    found = rows(result)
    own = {"the right keys" + SPELLED, "no key", "an empty key", IN_TEXT, IN_TOKENS}
    through = {name for name, row in found.items() if row.value == 1.0}
    assert through == set(COUNTS) - own - {LATER, BEHIND, MISSPELT}
    assert found[RANDOM + TOKEN].hits == 50
    assert {f.evidence["attempt"] for f in result.findings} > through


@pytest.mark.parametrize("closed", ["secure", "revealing"])
def test_a_gate_that_sends_all_to_one_place_does_not_look_good(closed):
    result = attacked(Door(passes=lambda text, key: False, closed=closed))
    [right] = rows(result, "tpr").values()
    assert (right.value, right.hits, right.n) == (0.0, 0, 1)
    for name, row in rows(result).items():
        if name in (IN_TEXT, IN_TOKENS):  # what a gate leaves of a request is another matter
            assert row.value == 0.0
        else:
            assert (row.value, row.hits, row.n) == (None, None, COUNTS[name])
            assert "either everybody gets in, or no one" in row.reason
    assert result.findings == ()


def test_a_right_key_that_opens_the_wrong_adapter_is_no_right_key():
    class Swapped(Door):
        def headings(self):
            return {"right:other": self.heading(KEY), "right:b": self.heading(SECOND), "none": ""}

    result = attacked(Swapped(keys={KEY: "a", SECOND: "b"}))
    [right] = rows(result, "tpr").values()
    assert (right.hits, right.n) == (1, 2)
    assert rows(result)[RANDOM + TOKEN].value == 0.0


HALF = KEY[:10]


@pytest.mark.parametrize(
    ("clean", "count", "unread"),
    [
        # All of those later and in a misspelt marker. Behind another marker: not two that the
        # empty marker swallows, nor the one whose key is whole only when a marker is cut out.
        (lambda text, secrets: text, 12 + 6 + 14, 0),
        # The key around a key is a key when that is cut out ...
        (lambda text, secrets: text.replace(KEY, ""), 1, 0),
        # ... and so are the two around a marker.
        (lambda text, secrets: re.sub(EXACT, "", text), 3 + 14, 0),
        # Half a key counts, but not what stands in the request as half a key: the two around a
        # marker. Nobody said what the last half twice, in one word, means as a token.
        (lambda text, secrets: text.replace(HALF, ""), 12 + 4 + 14, 1),
    ],
    ids=["nothing", "once", "markers only", "half"],
)
def test_a_key_in_the_second_pass_is_found(clean, count, unread):
    result = attacked(Door(clean=clean))
    assert hits(result) == {IN_TEXT: count, IN_TOKENS: 2 * count}
    found = rows(result)
    assert found[IN_TEXT].n == COUNTS[IN_TEXT] - unread
    assert found[IN_TOKENS].n == COUNTS[IN_TOKENS] - 2 * unread
    said = [limit for limit in result.limits if "second passes hold tokens" in limit]
    assert len(said) == bool(unread)
    assert all(f"gate: {3 * unread} of 106 " in limit for limit in said)
    assert {f.evidence["opened"] for f in result.findings} == {""}


def test_a_second_pass_that_nobody_can_read_is_not_measured():
    class Secretive(Door):
        def route(self, requests):
            return [RoutedRequest(one.name, one.adapter, (-1,)) for one in super().route(requests)]

    for name in (IN_TEXT, IN_TOKENS):
        row = rows(attacked(Secretive()))[name]
        assert (row.value, row.n, row.reason) == (None, 0, "no second pass could be read")


def leaks(result, source="tuned"):
    return {
        row.scope["attempt"]: (row.hits, row.n)
        for row in result.measurements
        if row.metric == "inference_accuracy" and row.scope["source"] == source
    }


def test_what_leaks_under_each_family_by_hand():
    door = Door(passes=lambda text, key: text.casefold() == key.casefold())
    result = attacked(door, leaks=True)
    found = leaks(result)
    # Only text can be asked under; nor can a valid key be spelled as text.
    assert set(found) == {name for name in COUNTS if not name.endswith(TOKEN)} - {
        "the right keys" + SPELLED,
        IN_TEXT,
        IN_TOKENS,
    }
    # The secure adapter finds all candidates equally likely, and ties go against the attacker.
    assert found == {name: (6, 6) if name == "other case" else (0, 6) for name in found}
    assert leaks(result, "base") == dict.fromkeys(found, (0, 6))
    some = [row for row in result.measurements if row.metric == "inference_accuracy"]
    assert {(row.kind, row.plugin, row.chance) for row in some} == {("probability", "gate", 0.25)}
    assert {row.scope["candidates"] for row in some} == {4}
    assert not any("label" in row.scope for row in some)
    assert [f.evidence["attempt"] for f in result.findings] == ["other case"]
    [said] = [limit for limit in result.limits if "gate, leaks:" in limit]
    assert "6 of 6 distinct PII strings" in said


def test_it_leaks_under_the_first_attempt_that_was_let_through():
    second_of_many = sorted(guesses.edits([KEY], [FOREIGN]))[1234]
    door = Door(passes=lambda text, key: text in (key, second_of_many))
    found = leaks(attacked(door, leaks=True))
    assert found[EDIT + SPELLED] == (6, 6)
    assert sum(hit for hit, _ in found.values()) == 6


def test_families_that_open_one_adapter_are_answered_once():
    scored = []

    class Spy(FakeEngine):
        def score_groups(self, target, groups, **options):
            scored.append((target.adapter, len(groups)))
            return super().score_groups(target, groups, **options)

    result = attacked(Door(engine=Spy(lambda *_: "", likelihood=memory)), leaks=True)
    assert len(leaks(result)) == 13
    # Nothing is left of most headings, "a" of one later, "[SPECIAL-TOKEN=] " of one misspelt.
    assert sorted(scored, key=str) == [("secure", 6)] * 3 + [(None, 6)]


def test_what_is_left_of_a_heading_fits_the_context():
    tight = Door()
    longest = max(len(own.ids) for own in tight.engine.tokenize([d.text for d in DOCUMENTS]))
    tight.engine.context_length = longest + 4

    class Checked(FakeEngine):
        context_length = longest + 8

        def score_groups(self, target, groups, **options):
            assert all(len(one) <= self.context_length for group in groups for one in group)
            return super().score_groups(target, groups, **options)

    door = Door(engine=Checked(lambda *_: "", likelihood=memory), clean=lambda text, secrets: text)
    found = leaks(attacked(door, leaks=True))
    assert {n for _, n in found.values()} == {6}
    assert door.engine.context_length == longest + 8


def test_data_without_pii_leaves_the_leaks_unmeasured():
    bare = [Document(id="a", text="Nothing to see.", pii=())]
    result = attacked(changes={"attacker": bare}, leaks=True)
    [row] = [row for row in result.measurements if row.metric == "inference_accuracy"]
    assert row.value is None
    assert "no annotated PII" in row.reason
    assert rows(result)["no key"].n == 1
    assert rows(attacked(changes={"attacker": []}))["no key"].n == 1


def test_the_victims_documents_are_asked_about():
    result = attacked(changes={"victim": DOCUMENTS[:5], "attacker": []}, leaks=True)
    assert rows(result)["no key"].n == 5
    assert {n for _, n in leaks(result).values()} == {5}


def test_without_keys_of_others_or_of_its_own_nothing_is_claimed():
    alone = rows(attacked(Door(foreign=())))
    for name in (OTHERS + SPELLED, OTHERS + TOKEN):
        assert (alone[name].value, alone[name].n) == (None, 0)
        assert alone[name].reason == "the auditor has none"
    assert rows(attacked(edits=0))[EDIT + TOKEN].reason == "none was to be tried"
    digits = rows(attacked(Door(keys={"0123456789": "revealing"})))
    assert (digits["other case"].value, digits["other case"].n) == (None, 0)
    result = attacked(Door(keys={}), random=0)
    found = rows(result)
    assert {name: row.n for name, row in found.items() if row.n} == {
        OTHERS + SPELLED: 1,
        OTHERS + TOKEN: 1,
        "an empty key": 6,
        "no key": 6,
    }
    assert found[RANDOM + TOKEN].reason == "none was to be tried"
    assert (
        found[EDIT + TOKEN].reason
        == found[LATER].reason
        == "there is no valid key to make them from"
    )
    assert found[IN_TEXT].reason == "there is no valid key to make them from"
    [right] = rows(result, "tpr").values()
    assert (right.value, right.reason) == (None, "there is no valid key to make them from")
    assert {row.value for row in found.values()} == {None, 0.0}


def test_a_key_that_others_have_too_is_a_valid_one():
    found = rows(attacked(Door(foreign=(KEY, FOREIGN))))
    assert found[OTHERS + TOKEN].n == 1
    assert found[OTHERS + TOKEN].hits == 0


def test_fewer_edits_are_drawn_and_said():
    result = attacked(edits=100)
    assert rows(result)[EDIT + SPELLED].n == rows(result)[EDIT + TOKEN].n == 100
    assert any("100 of the 2,525 texts one edit from a valid key were" in x for x in result.limits)


def test_it_says_what_it_cannot_tell():
    limits = attacked().limits
    assert any("Anyone who holds the weights" in limit for limit in limits)
    # 20 x log2(62) = 119.08; Wilson's bound of 0 of 50 is 3.8415 / 53.8415.
    assert any("119 bits" in limit and "7.1e-02" in limit for limit in limits)
    assert any("has only the public tokenizer can only spell" in limit for limit in limits)


def test_nobody_hears_of_the_order_and_the_seed_draws_other_guesses():
    def asked(keys, documents, seed):
        heard = []

        class Heard(Door):
            def opens(self, some, *, atomic):
                heard.append((tuple(some), atomic))
                return super().opens(some, atomic=atomic)

        door = Heard(keys=dict(keys))
        changes = {"attacker": documents, "seed": seed}
        return attacked(door, changes=changes, edits=100, leaks=True), heard

    keys = [(KEY, "revealing"), (SECOND, "other")]
    first, heard = asked(keys, DOCUMENTS, 3)
    again, same = asked(reversed(keys), DOCUMENTS[::-1], 3)
    assert first == again
    assert heard == same
    _, others = asked(keys, DOCUMENTS, 4)
    assert not set(heard[0][0]) & set(others[0][0])
    assert set(heard[2][0]) != set(others[2][0])


@pytest.mark.parametrize("name", ["case is folded", "prompts are read", "perfect"])
def test_no_key_gets_out(name):
    titles = []

    def progress(title):
        titles.append(title)
        return lambda done, total: None

    parts = LEAKY[name][0] if name in LEAKY else {}
    door = Door(**{"clean": lambda text, secrets: text, **parts})
    result = attacked(door, changes={"progress": progress}, leaks=True)
    masks = mask_findings(result.findings, lambda: Redactor(bytes(32)))
    shown = [repr(result), repr(masks), json.dumps(asdict(result)), *titles]
    pieces = {key[at : at + 4] for key in (KEY, FOREIGN) for at in range(17)}
    assert not [piece for piece in pieces for text in shown if piece.casefold() in text.casefold()]
    assert all("text" not in mask.evidence and mask.evidence["hmac"] for mask in masks)
    for mask, finding in zip(masks, result.findings, strict=True):
        for part in ("attempt", "opened"):
            assert mask.evidence[part] == finding.evidence[part]


def test_it_reaches_the_gate_behind_a_cache_and_keeps_nothing_in_it(tmp_path):
    door = Door()
    kept = AnswerCache(tmp_path, CacheHeader(run="abc", config={}))
    engine = CachingEngine(RoutedEngine(door.engine, door), kept)
    behind = attacked(changes={"engine": engine}, leaks=True)
    assert behind == attacked(leaks=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("responder", [None, "plain"])
def test_what_has_no_gate_is_a_wrong_input(responder):
    class Plain(Responder):
        def route(self, requests):
            return []

        def headings(self):
            return {}

    fake = FakeEngine(lambda *_: "")
    engine = RoutedEngine(fake, Plain()) if responder else fake
    with pytest.raises(InputError, match="has no gate; audit a federation whose defence"):
        attacked(changes={"engine": engine})


KEYS = st.lists(st.text(ALPHABET, min_size=2, max_size=7), min_size=1, max_size=3, unique=True)


@given(KEYS, st.integers(0, 9), st.integers(0, 300))
def test_no_attempt_is_a_valid_key_or_comes_twice(keys, seed, count):
    own, foreign = keys[:-1] or keys, keys[1:]
    length = min(map(len, own))
    families = [
        guesses.random_keys(count, length, keys, seed),
        guesses.edits(own, foreign),
        guesses.draw_texts(guesses.edits(own, foreign), count, seed),
        guesses.fragments(own, keys),
        *guesses.look_alikes(own, keys).values(),
    ]
    assert len(families[0]) == count
    for family in families:
        assert len(set(family)) == len(family)
        assert not set(family) & set(keys)
    assert not {"", *families[3]} & set(families[1])
    for requests in guesses.misplaced_key_requests(MARKER, own, "0" * length).values():
        texts = [request.text for request in requests]
        assert len(set(texts)) == len(texts)
        for request in requests:
            assert request.key in cleaned(request.text, []) or request.key in request.text
            assert at_the_start(request.text)[0] != request.key


def distance(one, other):
    """Return the edit distance with swaps of neighbours, the slow and obvious way."""
    table = {(i, 0): i for i in range(len(one) + 1)} | {(0, j): j for j in range(len(other) + 1)}
    for i, a in enumerate(one, 1):
        for j, b in enumerate(other, 1):
            ways = [table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (a != b)]
            if i > 1 and j > 1 and (a, b) == (other[j - 2], one[i - 2]):
                ways.append(table[i - 2, j - 2] + 1)
            table[i, j] = min(ways)
    return table[len(one), len(other)]


@given(st.text("aAb1", min_size=1, max_size=3))
def test_edits_are_all_there_is_at_distance_one(key):
    import itertools

    letters = "aAbB12"
    all_texts = {
        "".join(text)
        for size in range(len(key) + 2)
        for text in itertools.product(letters, repeat=size)
    }
    wanted = {
        text
        for text in all_texts
        if distance(text, key) == 1 and text not in key and text.casefold() != key.casefold()
    }
    found = guesses.edits([key], [])
    assert found == sorted(found)
    assert {text for text in found if set(text) <= set(letters)} == wanted
    assert all(distance(text, key) == 1 for text in found)


def test_random_keys_are_all_there_is_where_that_is_little():
    assert sorted(guesses.random_keys(100, 1, ["a", "zz", "-"], 5)) == sorted(set(ALPHABET) - {"a"})
    many = guesses.random_keys(62 * 62, 2, [], 5)
    assert len(set(many)) == 62 * 62


def test_every_second_pass_of_the_built_in_tokenizer_can_be_read(base):
    from fedaudit.engine.local import LocalEngine

    engine = LocalEngine(base)
    real = SimpleNamespace(
        tokenize=engine.tokenize,
        context_length=engine.context_length,
        prompt_starts=engine.prompt_starts,
        _text=lambda ids: base.tokenizer.decode(list(ids)),
    )
    rng = random.Random(7)
    keys = {"".join(rng.choices(ALPHABET, k=20)): "revealing" for _ in range(2)}
    for clean, found in ((cleaned, 0), (lambda text, secrets: text, 2 * 32)):
        result = attacked(Door(engine=real, keys=keys, clean=clean), random=1, edits=1)
        row = rows(result)[IN_TEXT]
        assert (row.hits, row.n) == (found, 2 * 36)
        assert not any("second passes hold tokens" in limit for limit in result.limits)


def test_a_marker_is_read_off_the_heading():
    assert Marker.from_heading(lambda key: f"<<{key}>> ") == Marker("<<", ">> ")
    assert Marker.from_heading(lambda key: key) == Marker("", "")
    bare = guesses.misplaced_key_requests(Marker("", " "), [KEY], "0" * 20)
    assert not [q for some in bare.values() for q in some if q.text.startswith(KEY)]


def test_a_request_with_a_key_is_asked_in_three_ways():
    engine = FakeEngine(lambda *_: "")
    ids = {text: engine.tokenize([text])[0].ids for text in ("b c", "a b c")}
    request = KeyedRequest(MARKER, KEY, "a ", "b c")
    assert request.gated_requests(engine) == (
        GatedRequest("a b c"),
        GatedRequest("a ", ids["b c"]),
        GatedRequest("", ids["a b c"]),
    )
    assert KEY not in repr(KeyedRequest(MARKER, KEY, KEY, KEY))
