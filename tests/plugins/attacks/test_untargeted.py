"""Untargeted extraction by hand: an engine that says what it is told, a detector with a list."""

import random
import re
from collections import Counter

import pytest
from fedaudit_plugins.attacks.untargeted import sampled_texts, scoring
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.plugin import AttackContext, PiiDetector, PromptStart
from fedaudit.api.records import Document, GenerationRequest, PiiSpan, SamplingParams, Target
from fedaudit.config import registry
from fedaudit.engine.fake import FakeEngine
from fedaudit.extraction.targets import control_strings
from fedaudit.metrics.intervals import wilson

TUNED, BASE = Target(name="tuned", adapter="x"), Target(name="base")
PEOPLE, TOWNS = ("Kim", "Lee", "Fox"), ("Hull", "Bath")
OTHERS = {"Orr": "PERSON", "Day": "PERSON", "York": "ADDRESS"}
KINDS = {**dict.fromkeys(PEOPLE, "PERSON"), **dict.fromkeys(TOWNS, "ADDRESS"), **OTHERS}


class Listed(PiiDetector):
    """Finds the strings of a list, and reads no more than one text at a time."""

    name = "listed"

    def __init__(self, kinds=KINDS):
        self.kinds = dict(kinds)
        every = "|".join(map(re.escape, sorted(self.kinds, key=len, reverse=True)))
        self.pattern = re.compile(every) if every else None

    def detect(self, texts):
        return [
            tuple(
                PiiSpan(*m.span(), self.kinds[m[0]])
                for m in (self.pattern.finditer(text) if self.pattern else ())
            )
            for text in texts
        ]

    def describe(self):
        return "a list"


def marked(text, *pairs):
    spans = [PiiSpan(text.index(s), text.index(s) + len(s), label) for s, label in pairs]
    return Document(id=text, text=text, pii=tuple(sorted(spans)))


VICTIM = [
    marked("Kim met Lee in Hull.", ("Kim", "PERSON"), ("Lee", "PERSON"), ("Hull", "ADDRESS")),
    marked("Fox left Bath for Kim.", ("Fox", "PERSON"), ("Bath", "ADDRESS"), ("Kim", "PERSON")),
]
SPOKEN = {
    "tuned": ["Kim and Lee", "Lee again, Lee", "Orr of York and Hull", ""],
    "base": ["Kim", "Day after Day", "", "Kim of York"],
}
"""G = Kim, Lee, Orr, York, Hull; B = Kim, Day, York; what leaked is Lee, Orr and Hull."""


def attacked(spoken=SPOKEN, victim=VICTIM, *, fake=None, changes=None, **options):
    """Attack an engine whose every sample is the next of `spoken`."""
    engine = fake or FakeEngine(lambda target, prompt, sample: spoken[target.name][sample])
    case = AttackContext(
        **{
            "engine": engine,
            "tuned": TUNED,
            "base": BASE,
            "attacker": [Document(id="a", text="Nobody is here.", pii=())],
            "victim": victim,
            "detector": Listed(),
            "beginning": PromptStart(start="bos"),
            **(changes or {}),
        }
    )
    engine.prompt_starts = {"bare": (), "bos": (0,), **engine.prompt_starts}
    samples = min(map(len, spoken.values()))
    return registry.create("attack", "untargeted", {"samples": samples, **options}).run(case)


def row(result, metric, source, label=None):
    [found] = [
        r
        for r in result.measurements
        if (r.metric, r.scope.get("source"), r.scope.get("label")) == (metric, source, label)
        and "detection" not in r.scope
    ]
    return found


def counts(result, source, label=None):
    """Return (hits, n) of precision and of recall."""
    rows = (row(result, f"extraction_{m}", source, label) for m in ("precision", "recall"))
    return [(r.hits, r.n) for r in rows]


def test_precision_and_recall_by_hand():
    result = attacked()
    assert counts(result, "tuned") == [(3, 5), (3, 5)]
    assert counts(result, "base") == [(1, 3), (1, 5)]
    assert counts(result, "tuned-not-base") == [(2, 3), (2, 5)]
    for found in result.measurements:
        assert (found.kind, found.plugin) == ("extraction", "untargeted")
        if found.metric != "queries":
            wanted = wilson(found.hits, found.n)
            assert (found.value, found.low, found.high) == (wanted.value, wanted.low, wanted.high)
    precision = row(result, "extraction_precision", "tuned-not-base")
    assert (precision.value, precision.baseline) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert row(result, "extraction_recall", "tuned").baseline == 0.2
    assert row(result, "extraction_recall", "base").baseline is None


def test_precision_and_recall_by_kind():
    result = attacked()
    assert counts(result, "tuned", "PERSON") == [(2, 3), (2, 3)]
    assert counts(result, "tuned", "ADDRESS") == [(1, 2), (1, 2)]
    assert counts(result, "tuned-not-base", "PERSON") == [(1, 2), (1, 3)]
    assert counts(result, "tuned-not-base", "ADDRESS") == [(1, 1), (1, 2)]
    assert counts(result, "base", "ADDRESS") == [(0, 1), (0, 2)]


def test_a_kind_may_have_another_name_in_the_data():
    victim = [marked("Kim, Lee", ("Kim", "NAME"), ("Lee", "NAME"))]
    result = attacked(victim=victim)
    assert counts(result, "tuned-not-base") == [(1, 3), (1, 2)]
    assert row(result, "extraction_recall", "tuned-not-base", "NAME").hits == 1
    assert row(result, "extraction_precision", "tuned-not-base", "PERSON").hits == 1
    assert result.findings[0].label == "NAME"


def test_findings_are_what_leaked_commonest_first():
    spoken = {**SPOKEN, "tuned": ["Hull", "Lee, Lee", "Kim", "Orr"]}
    result = attacked(spoken)
    assert [(f.label, f.severity, f.evidence) for f in result.findings] == [
        # A handful of controls cannot tell these words from lucky guesses.
        ("PERSON", "low", {"text": "Lee", "mentions": 2}),
        ("ADDRESS", "low", {"text": "Hull", "mentions": 1}),
    ]
    # Of 120 real names that nobody has, none is said: 1/121, and 4.1 % for one of five strings.
    names = [f"Name{'abcdefghijkl'[n % 12]}{'abcdefghij'[n // 12]}" for n in range(120)]
    others = [marked(f"{name} waits.", (name, "PERSON")) for name in names]
    found = attacked(spoken, changes={"control": others}).findings
    assert [(f.label, f.severity) for f in found] == [("PERSON", "medium"), ("ADDRESS", "low")]
    assert [leak["text"] for leak in result.revealed] == ["Lee", "Hull"]
    assert [leak["id"] for leak in result.revealed] == [f.id for f in result.findings]


def test_strings_are_equal_or_they_differ_but_for_white_space_around_them():
    kinds = {" Kim\n": "PERSON", "Van  Dyk": "PERSON", "LEE": "PERSON"}
    spoken = {"tuned": ["so  Kim\n", "Van  Dyk", "LEE"], "base": ["", "", ""]}
    victim = [marked("Kim | Van Dyk | Lee ", *((s, "PERSON") for s in ("Kim", "Van Dyk", "Lee ")))]
    result = attacked(spoken, victim, changes={"detector": Listed(kinds)})
    assert counts(result, "tuned") == [(1, 3), (1, 3)]
    assert result.findings[0].evidence["text"] == "Kim"


def test_an_empty_leak_has_no_precision_and_says_why():
    result = attacked({"tuned": ["Kim", "York"], "base": ["York", "Kim"]})
    precision = row(result, "extraction_precision", "tuned-not-base")
    assert (precision.value, precision.low, precision.n, precision.hits) == (None, None, 0, None)
    assert "that the base's lack" in precision.reason
    recall = row(result, "extraction_recall", "tuned-not-base")
    assert (recall.value, recall.high) == (0.0, wilson(0, 5).high)
    assert result.findings == ()
    silent = attacked({"tuned": [""], "base": ["Kim"]})
    assert "tuned model's texts" in row(silent, "extraction_precision", "tuned").reason


def test_without_a_base_nothing_is_subtracted_and_nothing_is_sure():
    result = attacked(changes={"base": None})
    assert {r.scope["source"] for r in result.measurements} == {"tuned", "control"}
    assert counts(result, "tuned") == [(3, 5), (3, 5)]
    assert row(result, "extraction_recall", "tuned").baseline is None
    assert {f.severity for f in result.findings} == {"unverified"}
    assert scoring.NO_BASE in result.limits


def test_without_a_victim_the_attackers_own_data_is_looked_for():
    own = [*VICTIM, Document(id="p", text="Ray said", is_prompt=True)]
    result = attacked(victim=None, changes={"attacker": own})
    assert result == attacked()
    assert sampled_texts.searched_documents(case_of(None, attacker=own)) == VICTIM


def test_only_the_kinds_that_are_named():
    result = attacked(labels=("ADDRESS",))
    assert counts(result, "tuned") == [(1, 2), (1, 2)]
    assert counts(result, "tuned-not-base") == [(1, 1), (1, 2)]
    [unasked] = [r for r in result.measurements if r.metric == "targets"]
    assert dict(unasked.scope) == {"set": "unasked", "label": "PERSON"}
    assert unasked.value == unasked.n == len(PEOPLE)
    asked = [r for r in result.measurements if r != unasked]
    assert {r.scope.get("label") for r in asked} == {None, "ADDRESS"}
    assert [f.evidence["text"] for f in result.findings] == ["Hull"]
    with pytest.raises(UsageError, match="Did you mean 'PERSON'"):
        attacked(labels=("PERSO",))


def test_a_string_of_several_kinds_counts_once():
    class Unsure(Listed):
        def detect(self, texts):
            # "Kim" is a person in two mentions and an alias in one, "Lee" each once.
            return [
                tuple(PiiSpan(s.start, s.end, "ALIAS" if "of" in text else s.label) for s in spans)
                for text, spans in zip(texts, super().detect(texts), strict=True)
            ]

    found = scoring.detected_strings(Unsure(), ["Kim", "of Kim", "Kim", "of Lee", "Lee"])
    assert (found.labels, found.mentions) == (
        {"Kim": "PERSON", "Lee": "ALIAS"},
        {"Kim": 3, "Lee": 2},
    )
    victim = [marked("Kim, again Kim", ("Kim", "PERSON"), ("again Kim", "X"))]
    twice = Document(id="d", text="Kim Kim", pii=(PiiSpan(0, 3, "PERSON"), PiiSpan(4, 7, "ALIAS")))
    assert sampled_texts.target_strings(case_of([*victim, twice])) == {
        "Kim": "ALIAS",
        "again Kim": "X",
    }


def case_of(victim, **changes):
    return AttackContext(
        **{
            "engine": FakeEngine(lambda *_: ""),
            "tuned": TUNED,
            "base": BASE,
            "attacker": (),
            "victim": victim,
            **changes,
        }
    )


def test_many_texts_are_read_in_batches_and_told_of():
    texts = [f"{name} {i}" for i in range(50) for name in ("Kim", "Lee", "Orr")]
    told = []
    found = scoring.detected_strings(
        Listed(), texts, progress=lambda done, total: told.append((done, total))
    )
    assert found.mentions == {"Kim": 50, "Lee": 50, "Orr": 50}
    assert told == [(64, 150), (128, 150), (150, 150)]


def test_nobody_hears_of_the_order():
    rng = random.Random(3)
    for _ in range(5):
        mixed = {name: rng.sample(texts, len(texts)) for name, texts in SPOKEN.items()}
        assert attacked(mixed, rng.sample(VICTIM, len(VICTIM))) == attacked()


def spelled(result):
    """Return hits and n of the word-for-word search, by source."""
    rows = [row for row in result.measurements if row.scope.get("detection") == "verbatim"]
    assert {row.metric for row in rows} == {"extraction_recall"}
    return {row.scope["source"]: (row.hits, row.n) for row in rows}


def test_the_control_is_invented_and_counts_as_chance():
    victim = [marked("Anna Lee, Bernd Orr", ("Anna Lee", "X"), ("Bernd Orr", "X"))]
    truth = {"Anna Lee": "X", "Bernd Orr": "X"}
    # Of kind X nobody is invented: words are recombined, and what is in the data is left out.
    made = control_strings(case_of(victim), truth)
    assert {"Anna Orr", "Bernd Lee"} <= made.keys()
    assert not made.keys() & truth.keys()
    real = [marked("Anna Orr, Bernd Lee", ("Anna Orr", "X"), ("Bernd Lee", "X"))]
    own = [Document(id="a", text="Anna Orr is the attacker's.", pii=())]
    named = case_of(victim, attacker=own, control=real)
    assert control_strings(named, truth) == {"Bernd Lee": "X"}
    detector = Listed(dict.fromkeys([*truth, "Anna Orr", "Bernd Lee"], "X"))
    spoken = {"tuned": ["Anna Lee met Bernd Lee"], "base": [""]}
    result = attacked(
        spoken, victim, changes={"detector": detector, "attacker": own, "control": real}
    )
    guessed = row(result, "extraction_recall", "control")
    assert (guessed.hits, guessed.n, guessed.value) == (1, 1, 1.0)
    assert row(result, "extraction_recall", "tuned").chance == 1.0
    assert counts(result, "tuned") == [(1, 2), (1, 2)]
    assert spelled(result)["control"] == (1, 1)


def test_what_the_detector_cannot_see_is_told():
    blind = Listed({name: kind for name, kind in KINDS.items() if name not in ("Lee", "Bath")})
    spoken = {"tuned": ["Lee", "Hull"], "base": ["Bath", ""]}
    result = attacked(spoken, changes={"detector": blind})
    drawn, seen = result.limits
    assert "found: 1 in the tuned model's (1 distinct), 0 in the base's (0 distinct)." in drawn
    assert "2 texts of at most 256 tokens were drawn from each model behind the" in drawn
    assert "It is a list." in drawn
    assert "of the 5 PII strings looked for, the detector finds 3 in their own" in seen
    assert "PERSON 2 of 3, ADDRESS 1 of 2" in seen
    assert "above 60.0%" in seen
    found = spelled(result)
    assert found.pop("control")[0] == 0
    assert found == {"tuned": (2, 5), "base": (1, 5), "tuned-not-base": (2, 5)}


def test_one_probe_asks_for_all_texts_with_the_decoding_and_the_seed():
    asked = []

    class Spy(FakeEngine):
        def generate(self, target, batch, *, progress):
            asked.append((target, *batch.requests, batch.seed, batch.decoding))
            return super().generate(target, batch, progress=progress)

    titles = []

    def progress(title):
        titles.append(title)
        return lambda done, total: None

    options = {"samples": 7, "new_tokens": 9, "temperature": 0.5, "top_k": 3, "top_p": 0.9}
    fake = Spy(lambda *_: "Kim", prompt_starts={"bare": (), "bos": (5,)})
    result = attacked(fake=fake, changes={"seed": 4, "progress": progress}, **options)
    request = GenerationRequest(prompt=(5,), samples=7, max_new_tokens=9)
    wanted = (request, 4, SamplingParams(temperature=0.5, top_k=3, top_p=0.9))
    assert asked == [(TUNED, *wanted), (BASE, *wanted)]
    assert [row(result, "queries", name).value for name in ("tuned", "base")] == [7, 7]
    assert titles[:2] == ["sampling tuned", "sampling base"]


@pytest.mark.parametrize(
    ("prompt_starts", "start", "wanted", "told"),
    [
        ({"bare": (), "bos": (5,), "template": (5, 6)}, "template", (5, 6), "'template'"),
        ({"bare": (), "bos": (5,)}, "bare", (5,), "'bos' (documents begin bare)"),
        ({"bare": ()}, "bare", (0,), "a newline (the model has no token that begins a text)"),
    ],
)
def test_every_text_begins_with_something(prompt_starts, start, wanted, told):
    fake = FakeEngine(lambda *_: "", prompt_starts=prompt_starts)
    case = case_of(VICTIM, engine=fake, beginning=PromptStart(start=start), detector=Listed())
    result = registry.create("attack", "untargeted", {"samples": 2}).run(case)
    assert {request.prompt for _, request in fake.asked} == {wanted}
    assert told in result.limits[0]
    if wanted == (0,):
        assert fake._text(wanted) == "\n"


def test_texts_end_with_the_context():
    fake = FakeEngine(lambda *_: "", prompt_starts={"bare": (), "bos": (1, 2)})
    fake.context_length = 12
    result = attacked(fake=fake, new_tokens=11)
    assert {request.max_new_tokens for _, request in fake.asked} == {10}
    assert any("holds texts of 10 tokens, not of 11" in limit for limit in result.limits)
    exact = attacked(fake=fake, new_tokens=10)
    assert not any("tokens, not of" in limit for limit in exact.limits)
    fake.context_length = 2
    with pytest.raises(InputError, match="fills the model's context"):
        attacked(fake=fake)


@pytest.mark.parametrize(
    ("changes", "whose"),
    [
        ({"victim": [Document(id="d", text="nothing", pii=())]}, "--victim"),
        ({"victim": [Document(id="d", text=" ", pii=(PiiSpan(0, 1, "X"),))]}, "--victim"),
        ({"victim": None}, "--prefixes"),
    ],
)
def test_data_without_pii_is_a_wrong_input(changes, whose):
    fake = FakeEngine(lambda *_: "")
    with pytest.raises(InputError, match=f"no PII to look for.*{whose}"):
        attacked(fake=fake, changes=changes)
    assert not fake.asked


def test_it_needs_a_detector():
    with pytest.raises(UsageError, match="detector"):
        attacked(changes={"detector": None})


WORDS = st.lists(st.sampled_from(sorted(KINDS)), max_size=4).map(" ".join)
TEXTS = st.lists(WORDS, min_size=1, max_size=6)
NAMES = ("Kim", "Lee", "Fox", "Hull")
XS = [marked(f"Here is {name}.", (name, "X")) for name in NAMES]
"""Of a kind that nothing is invented for: that would take most of the time."""


def padded(tuned, base):
    """Return what each model says, as many texts of one as of the other."""
    size = max(len(tuned), len(base))
    return {
        name: [*texts, *[""] * (size - len(texts))]
        for name, texts in (("tuned", tuned), ("base", base))
    }


@given(TEXTS, TEXTS)
def test_it_is_what_plain_loops_count(tuned, base):
    leaked = []
    for text in tuned:
        for word in text.split():
            if word not in leaked and not any(word in other.split() for other in base):
                leaked.append(word)
    right = [word for word in leaked if word in NAMES]
    result = attacked(padded(tuned, base), XS)
    precision, recall = counts(result, "tuned-not-base")
    assert recall == (len(right), 4)
    assert precision == (len(right) if leaked else None, len(leaked))
    mentions = Counter(word for text in tuned for word in text.split())
    assert {f.evidence["text"]: f.evidence["mentions"] for f in result.findings} == {
        word: mentions[word] for word in right
    }


@given(TEXTS, TEXTS)
def test_more_samples_never_lower_recall_nor_does_more_of_the_base_raise_it(tuned, base):
    def recalls(results, source):
        return [row(result, "extraction_recall", source).value for result in results]

    by_samples = [attacked(padded(tuned[:n], base), XS) for n in range(len(tuned) + 1)]
    for source in ("tuned", "tuned-not-base"):
        assert recalls(by_samples, source) == sorted(recalls(by_samples, source))
    by_base = [attacked(padded(tuned, base[:n]), XS) for n in range(len(base) + 1)]
    beyond, whole = (recalls(by_base, source) for source in ("tuned-not-base", "tuned"))
    assert beyond == sorted(beyond, reverse=True)
    assert {*whole} == {beyond[0]}
