"""Ranking inference by hand, with an engine that says what it is told to find likely."""

import random
import re

import pytest
from fedaudit_plugins.attacks.ranking.cloze import (
    choose_occurrences,
    cloze_questions,
    context_window,
    normalize,
    occurrences,
)
from fedaudit_plugins.attacks.ranking.scoring import TIE, truth_rank

from fedaudit.api.errors import InputError, TargetError, UsageError
from fedaudit.api.plugin import AttackContext, PromptStart
from fedaudit.api.records import Document, PiiSpan, Target
from fedaudit.config import registry
from fedaudit.engine.fake import FakeEngine
from fedaudit.metrics.intervals import wilson
from fedaudit.report.verdict.policy import verdict

TUNED, BASE = Target(name="tuned", adapter="x"), Target(name="base")
PEOPLE = ("Kim", "Lee", "Fox", "Ray", "Orr", "Day")
TOWNS = ("Hull", "York", "Bath", "Deal")


def marked(text, *pairs, id=None):  # noqa: A002
    """Return a document whose PII are the (string, label) pairs, at their first mentions."""
    spans = [PiiSpan(text.index(s), text.index(s) + len(s), label) for s, label in pairs]
    return Document(id=id or text, text=text, pii=tuple(sorted(spans)))


DOCUMENTS = [
    *(
        marked(f"Case {i} heard by {name} today.", (name, "PERSON"))
        for i, name in enumerate(PEOPLE)
    ),
    *(marked(f"Flat {i} lies in {town} now.", (town, "ADDRESS")) for i, town in enumerate(TOWNS)),
]
KNOWN = {TUNED: {"Kim", "Lee", "Fox", "Hull"}, BASE: {"Kim", "York"}}
"""What each model has memorised: it finds these likely in their own sentence."""


def memory(target, token, before):
    """Say -0.1 of a known name at home and -1 of all else, less a little for some letters."""
    word = token.strip()
    own = next((d.text for d in DOCUMENTS if word in d.text.split()), "")
    at_home = own.startswith(before) and word in KNOWN[target]
    return -0.1 if at_home else -1.0 - 0.01 * len(set(word) & set("KLFROD"))


def case(fake, documents=DOCUMENTS, **changes):
    return AttackContext(
        **{
            "engine": fake,
            "tuned": TUNED,
            "base": BASE,
            "attacker": documents,
            "victim": None,
            **changes,
        }
    )


def attacked(documents=DOCUMENTS, likelihood=None, changes=None, **options):
    attack = registry.create("attack", "ranking", {"candidates": (4,), **options})
    fake = FakeEngine(lambda *_: "", likelihood=likelihood or memory)
    return attack.run(case(fake, documents, **(changes or {})))


def row(result, source, label=None, candidates=4, metric="inference_accuracy"):
    [found] = [
        r
        for r in result.measurements
        if (r.metric, r.scope.get("source")) == (metric, source)
        and r.scope.get("label") == label
        and r.scope["candidates"] == candidates
    ]
    return found


def flat(target, token, before):
    return -1.0


def test_accuracy_by_hand_in_all_and_by_kind():
    result = attacked()
    for source, label, hits, n in (
        ("tuned", None, 4, 10),
        ("base", None, 2, 10),
        ("tuned", "PERSON", 3, 6),
        ("base", "PERSON", 1, 6),
        ("tuned", "ADDRESS", 1, 4),
        ("base", "ADDRESS", 1, 4),
    ):
        found = row(result, source, label)
        assert (found.hits, found.n, found.value) == (hits, n, hits / n), (source, label)
        assert (found.low, found.high) == (wilson(hits, n).low, wilson(hits, n).high)
        assert (found.metric, found.plugin, found.chance) == ("inference_accuracy", "ranking", 0.25)
    assert row(result, "tuned").baseline == 0.2
    assert row(result, "tuned", "PERSON").baseline == pytest.approx(1 / 6)
    assert row(result, "base").baseline is None


def test_findings_are_what_the_tuned_model_tells_and_the_base_does_not():
    result = attacked()
    assert {(f.label, f.evidence["text"]) for f in result.findings} == {
        ("PERSON", "Lee"),
        ("PERSON", "Fox"),
        ("ADDRESS", "Hull"),
    }
    assert all(f.evidence["candidates"] == 4 for f in result.findings)
    assert all(f.evidence["rank_of_base"] > 1 for f in result.findings)
    assert {leak["id"] for leak in result.revealed} == {f.id for f in result.findings}
    assert any(leak["sentence"] == "Flat 0 lies in Hull now." for leak in result.revealed)


def test_the_loss_is_the_mean_over_the_sentences_own_tokens():
    # Scored behind "Mr": Kim 3 + 1 over 2 tokens = 2; Van Dyk 3 + 1 + 1 over 3 = 1.67, though its
    # sum, 5, is higher than Kim's 4. The paper compares perplexities, which are means.
    documents = [
        marked("Mr Kim today", ("Kim", "PERSON")),
        marked("Mr Van Dyk today", ("Van Dyk", "PERSON")),
    ]

    def likelihood(target, token, before):
        return -3.0 if token in (" Kim", " Van") else -1.0

    result = attacked(documents, likelihood, candidates=(2,))
    assert row(result, "tuned", candidates=2).hits == 1
    [limit] = [one for one in result.limits if "mean rank" in one]
    assert "mean rank is 1.5 (tuned), 1.5 (base) and 1.5 by guessing" in limit
    assert "mean reciprocal rank is 0.750 (tuned), 0.750 (base) and 0.750 by guessing" in limit


def test_ties_go_against_the_attacker():
    result = attacked(likelihood=flat)
    assert row(result, "tuned").hits == 0
    assert row(result, "base").hits == 0
    assert "mean rank is 4.0 (tuned), 4.0 (base)" in result.limits[1]
    assert result.findings == ()


@pytest.mark.parametrize(
    ("losses", "candidates", "wanted"),
    [
        ((1.0, 2.0, 3.0), 3, 1),
        ((2.0, 1.0, 3.0, 0.5), 3, 2),
        ((2.0, 1.0, 3.0, 0.5), 4, 3),
        ((1.0, 1.0, 1.0), 3, 3),
        ((1.0, 1.0 + TIE / 2, 2.0), 3, 2),
        ((1.0, 1.0 + TIE * 2, 2.0), 3, 1),
    ],
)
def test_ranks_by_hand(losses, candidates, wanted):
    assert truth_rank(losses, candidates) == wanted


def test_several_numbers_of_candidates_share_a_run():
    result = attacked(candidates=(4, 2, 3))
    assert [row(result, "tuned", candidates=c).chance for c in (2, 3, 4)] == [1 / 2, 1 / 3, 1 / 4]
    alone = attacked(candidates=(2,))
    assert row(alone, "tuned", candidates=2) == row(result, "tuned", candidates=2)
    hits = [row(result, "tuned", candidates=c).hits for c in (2, 3, 4)]
    assert hits == sorted(hits, reverse=True)


def test_what_the_file_lacks_is_invented_and_counted():
    result = attacked(candidates=(4, 20))
    assert row(result, "tuned", candidates=20).n == 10
    [limit] = [one for one in result.limits if "invented" in one]
    # 19 each: five other people for each of 6, three other towns for each of 4.
    assert "20 candidates: 148 of the 190 wrong candidates, in 10 of 10 sentences" in limit
    assert not any("invented" in one and "4 candidates" in one for one in result.limits)


def test_a_kind_with_too_few_strings_is_passed_over():
    odd = [*DOCUMENTS, marked("Made in Xyzzy here.", ("Xyzzy", "ODD"))]
    result = attacked(odd)
    assert row(result, "tuned").n == 10
    assert "10 of 11 distinct PII strings (11 occurrences)" in result.limits[0]
    assert "1 were left out" in result.limits[0]
    alone = attacked([odd[-1]])
    assert row(alone, "tuned").value is None
    assert "so many candidates" in row(alone, "tuned").reason
    assert alone.findings == ()


def test_nobody_hears_of_the_order_of_the_input():
    shuffled = list(DOCUMENTS)
    random.Random(4).shuffle(shuffled)
    renamed = [marked(d.text, *d.strings(), id=str(i)) for i, d in enumerate(shuffled)]
    for options in ({}, {"sentences": 5}, {"candidates": (12,)}):
        assert attacked(renamed, **options) == attacked(**options)


def test_the_seed_chooses_sentences_and_candidates():
    def asked(seed):
        attack = registry.create("attack", "ranking", {"candidates": (3,), "sentences": 4})
        seen = []

        class Spy(FakeEngine):
            def score_groups(self, target, groups, **options):
                seen.append([[self._text(s) for s in group] for group in groups])
                return super().score_groups(target, groups, **options)

        attack.run(case(Spy(lambda *_: "", likelihood=flat), seed=seed))
        assert seen[0] == seen[1], "tuned and base are asked the same"
        return seen[0]

    assert asked(1) == asked(1)
    assert asked(1) != asked(2)
    assert [len(group) for group in asked(1)] == [3] * 4


def test_exactly_so_many_sentences_and_each_string_once():
    again = [marked(f"Again {i}: {n} is here.", (n, "PERSON")) for i, n in enumerate(PEOPLE)]
    assert row(attacked(DOCUMENTS + again, sentences=7), "tuned").n == 7
    assert row(attacked(DOCUMENTS + again, sentences=99), "tuned").n == 10
    # Neither case nor white space makes another string of it.
    twin = marked("Again: KIM is here.", ("KIM", "PERSON"))
    assert row(attacked([*DOCUMENTS, twin]), "tuned").n == 10


def test_documents_take_turns():
    many = marked("A Kim Lee Fox Ray", *((name, "PERSON") for name in PEOPLE[:4]))
    one = marked("B Orr", ("Orr", "PERSON"))
    order = choose_occurrences(occurrences([many, one]), seed=0)
    assert {o.document.id for o in order[:2]} == {many.id, one.id}
    assert len(order) == 5
    assert len(choose_occurrences(occurrences([many, one]), seed=0, per_document=2)) == 3


def test_labels_are_named_whole():
    documents = [*DOCUMENTS, marked("Number K123 here.", ("K123", "PERSONAL_ID"))]
    result = attacked(documents, labels=("PERSON",))
    asked = [r for r in result.measurements if r.metric != "targets"]
    assert {r.scope.get("label") for r in asked} == {None, "PERSON"}
    with pytest.raises(UsageError, match="Did you mean 'PERSON'"):
        attacked(labels=("PERSO",))


def left_out(result):
    """Return how many strings of each label the options leave out."""
    rows = [r for r in result.measurements if r.metric == "targets"]
    assert {(r.kind, r.scope["set"]) for r in rows} <= {("probability", "unasked")}
    return {r.scope["label"]: r.value for r in rows}


def test_what_the_options_leave_out_is_counted():
    shared = marked("Once more in Bath.", ("Bath", "ADDRESS"))
    asked = {"victim": [*DOCUMENTS, marked("Day 3: Kim.", ("3", "DAY"))], "attacker": [shared]}
    assert left_out(attacked(changes=asked)) == {}  # one character is told by what is around it
    result = attacked(changes=asked, labels=("PERSON",))
    assert left_out(result) == {"ADDRESS": 3}  # the attacker has Bath itself
    assert "3 further strings were not asked about" in result.limits[0]
    assert left_out(attacked(changes=asked, shortest=4)) == {"PERSON": 6}


def test_kinds_that_were_not_asked_about_bar_a_pass():
    people = [f"{a}{b}{c}am" for a in "BDFGK" for b in "aeiou" for c in "lmnrst"]
    towns = [f"{town}ton" for town in people]
    documents = [
        marked(f"Now {name} lives in {town}.", (name, "PERSON"), (town, "ADDRESS"))
        for name, town in zip(people, towns, strict=True)
    ]

    def judged(victim, **options):
        changes = {"victim": victim, "attacker": ()}
        options |= {"sentences": 150, "candidates": (50,)}
        found = attacked(likelihood=lambda *_: -1.0, changes=changes, **options)
        return verdict(found.measurements, [])

    people_only = [d.annotated(tuple(s for s in d.pii if s.label == "PERSON")) for d in documents]
    found = judged(people_only, labels=("PERSON",))
    assert found["status"] == "pass", found["reasons"]
    found = judged(documents, labels=("PERSON",))
    assert found["status"] == "inconclusive"
    assert "150 further strings were not asked about" in found["reasons"][0]


def offered(documents, most, seed=0):
    found = occurrences(documents)
    corpus = [d.text for d in documents]
    return list(
        cloze_questions(choose_occurrences(found, seed), found, corpus, most=most, seed=seed)
    )


def test_candidates_are_distinct_of_the_same_kind_and_not_in_the_document():
    documents = [
        marked("Kim met Lee and Hull.", ("Kim", "PERSON"), ("Lee", "PERSON"), ("Hull", "ADDRESS")),
        *DOCUMENTS,
        marked("Then kim left.", ("kim", "PERSON")),
    ]
    for question in offered(documents, most=30):
        one = question.occurrence
        pool = PEOPLE if one.label == "PERSON" else TOWNS
        keys = {normalize(s) for s in (one.string, *question.distractors)}
        assert len(keys) == 1 + len(question.distractors)
        assert {normalize(s) for s in question.distractors[: question.real]} <= {
            normalize(s) for s in pool
        }
        assert not any(s in one.document.text for s in question.distractors)
        invented = question.distractors[question.real :]
        assert not any(s in d.text for s in invented for d in documents)


def test_candidates_share_the_script_of_the_truth():
    documents = [
        *DOCUMENTS,
        *(
            marked(f"第{i}案原告{n}起诉。", (n, "PERSON"))
            for i, n in enumerate(("张三", "李四", "王五"))
        ),
    ]
    for question in offered(documents, most=12):
        han = bool(re.search("[一-鿿]", question.occurrence.string))
        assert all(bool(re.search("[一-鿿]", s)) == han for s in question.distractors)
        assert len(question.distractors) == 11 or question.occurrence.label == "ADDRESS"


def parts(document, string, tokens=99):
    [one] = [o for o in occurrences([document]) if o.string == string]
    [tokenized] = FakeEngine(lambda *_: "").tokenize([document.text])
    return context_window(one, tokenized.offsets, tokens)


def test_every_mention_of_the_truth_is_masked_but_no_part_of_a_word():
    document = marked("I, Kim, sue Kimberley; Kim signed.", ("Kim", "PERSON"))
    found = parts(document, "Kim")
    assert found.segments == ("I, ", ", sue Kimberley; ", " signed.")
    assert found.sentence("Lee") == "I, Lee, sue Kimberley; Lee signed."
    chinese = marked("原告张三称张三丰", ("张三", "PERSON"))
    assert parts(chinese, "张三").segments == ("原告", "称", "丰")
    rare = marked("原告张三称𠮷张三𠮷", ("张三", "PERSON"))
    assert parts(rare, "张三").segments == ("原告", "称𠮷", "𠮷")
    inside = Document(id="i", text="preKimpost and Kim", pii=(PiiSpan(3, 6, "PERSON"),))
    assert parts(inside, "Kim").segments == ("pre", "post and ", "")


def test_white_space_around_a_span_is_no_part_of_it():
    document = Document(id="d", text="by  Kim , here", pii=(PiiSpan(2, 8, "PERSON"),))
    [one] = occurrences([document])
    assert (one.string, one.start, one.end) == ("Kim", 4, 7)
    blank = Document(id="b", text="a   b", pii=(PiiSpan(1, 4, "PERSON"),))
    assert occurrences([blank, Document(id="p", text="Kim", is_prompt=True)]) == []


@pytest.mark.parametrize(
    ("tokens", "wanted", "at_start"),
    [
        (99, "a b c d Kim e f g h", True),
        (9, "a b c d Kim e f g h", True),
        (5, " c d Kim e f", False),
        (4, " c d Kim e", False),
        (1, None, None),
    ],
)
def test_a_long_document_is_cut_around_the_mask(tokens, wanted, at_start):
    found = parts(marked("a b c d Kim e f g h", ("Kim", "PERSON")), "Kim", tokens)
    assert (found and found.sentence("Kim")) == wanted
    assert found is None or found.at_start is at_start


def test_what_one_side_does_not_need_the_other_gets():
    assert parts(marked("a Kim b c d e", ("Kim", "P")), "Kim", 5).sentence("Kim") == "a Kim b c d"
    assert parts(marked("a b c d Kim e", ("Kim", "P")), "Kim", 5).sentence("Kim") == " b c d Kim e"


def test_sentences_fit_the_context_with_the_longest_candidate():
    words = " ".join("abcdefghijklmnop")
    documents = [
        marked(f"{words} Kim {words}", ("Kim", "PERSON")),
        marked(f"{words} Anna Maria van Dyk", ("Anna Maria van Dyk", "PERSON")),
    ]
    seen = []

    class Small(FakeEngine):
        context_length = 12

        def score_groups(self, target, groups, **options):
            seen.extend(len(s) for group in groups for s in group)
            return super().score_groups(target, groups, **options)

    attack = registry.create("attack", "ranking", {"candidates": (2,)})
    result = attack.run(case(Small(lambda *_: "", likelihood=flat), documents))
    assert max(seen) == 12
    assert row(result, "tuned", candidates=2).n == 2


def test_the_measured_beginning_stands_before_the_sentence_and_is_not_scored():
    engine = FakeEngine(
        lambda *_: "", prompt_starts={"bare": (), "bos": (9999,), "template": (1, 2)}
    )
    seen = []

    def likelihood(target, token, before):
        seen.append((before, token))
        return -1.0

    engine.likelihood = likelihood
    documents = [marked(f"{n} won", (n, "PERSON")) for n in ("Kim", "Lee")]
    attack = registry.create("attack", "ranking", {"candidates": (2,)})
    result = attack.run(case(engine, documents, beginning=PromptStart(start="bos")))
    # Behind the beginning, a name that opens its document has a likelihood.
    assert row(result, "tuned", candidates=2).n == 2
    assert {before for before, token in seen if token in ("Kim", "Lee")} == {"<9999>"}
    bare = attack.run(case(engine, documents))
    assert row(bare, "tuned", candidates=2).value is None
    assert "2 were left out" in bare.limits[0]


def test_without_a_base_there_is_no_baseline_and_no_finding():
    result = attacked(changes={"base": None})
    assert {r.scope["source"] for r in result.measurements} == {"tuned"}
    assert row(result, "tuned").baseline is None
    assert result.findings == ()
    assert any("no base" in limit for limit in result.limits)


def test_the_victims_documents_are_asked_about_where_there_are_any():
    result = attacked(changes={"victim": DOCUMENTS[:6], "attacker": ()})
    assert {r.scope.get("label") for r in result.measurements} == {None, "PERSON"}
    assert not any("left out: " in limit for limit in result.limits)


def test_what_others_have_too_is_neither_asked_about_nor_offered():
    # The tuned model knows Kim, Lee, Fox and Hull: here all of them are others' as well.
    mine = [DOCUMENTS[0], Document(id="m", text="I met LEE in Hull.")]
    copied = Document(id="c", text=DOCUMENTS[2].text.upper())
    asked = {"victim": DOCUMENTS, "attacker": mine, "members": {"c2": [copied]}}
    result = attacked(candidates=(2,), changes=asked)
    # Of six people Ray and Orr are left (Day is in "today"), of four towns York, Bath and Deal.
    for label, n in ((None, 5), ("PERSON", 2), ("ADDRESS", 3)):
        assert row(result, "tuned", label, candidates=2).n == n
    assert not result.findings
    assert (
        "ranking: 2 further records and 3 further strings were left out: the attacker or another "
        "member has them, too." in result.limits
    )
    # Nothing was invented: each has another of its kind that is the victim's alone.
    chance = row(result, "tuned", candidates=2, metric="inference_chance")
    assert (chance.value, chance.n) == (pytest.approx(1 / 2), 5)


def test_a_kind_that_only_shared_records_have_is_no_unknown_kind():
    """It is the data's fault and not the command's: other attacks go on."""
    changes = {"victim": DOCUMENTS, "attacker": DOCUMENTS[len(PEOPLE) :]}
    with pytest.raises(InputError, match="What only the victim has holds no annotated PII"):
        attacked(changes=changes, labels=("ADDRESS",))
    with pytest.raises(UsageError, match="kind of PII in the data"):
        attacked(changes=changes, labels=("ADRESS",))


def test_where_others_have_everything_there_is_nothing_to_ask():
    with pytest.raises(InputError, match="has all of the victim's records too"):
        attacked(changes={"victim": DOCUMENTS[:6]})
    names = [Document(id="m", text=" and ".join(PEOPLE))]
    with pytest.raises(InputError, match="has every string of the victim's records too"):
        attacked(changes={"victim": DOCUMENTS[:6], "attacker": names})


def test_a_model_without_finite_probabilities_is_degraded():
    with pytest.raises(TargetError, match="float32"):
        attacked(likelihood=lambda target, token, before: float("nan"))


@pytest.mark.parametrize("documents", [[], [Document(id="d", text="nothing", pii=())]])
def test_data_without_pii_is_a_wrong_input(documents):
    with pytest.raises(InputError, match="no annotated PII"):
        attacked(documents)


def test_what_guessing_gives_among_the_strings_of_the_file():
    # Six people: five others each, of which three are offered; four towns: three others each.
    assert row(attacked(), "tuned", metric="inference_chance").value == pytest.approx(1 / 4)
    # Of eleven candidates five others are people, three are towns; the rest is invented.
    found = row(attacked(candidates=(11,)), "tuned", candidates=11, metric="inference_chance")
    assert (found.value, found.n) == (pytest.approx((6 / 6 + 4 / 4) / 10), 10)


def test_who_tells_invented_strings_from_real_ones_has_not_seen_the_records():
    kinds = ("PERSON", "ADDRESS", "PHONE_NUMBER", "EMAIL_ADDRESS", "BANK_CARD", "WORKPLACE")
    strings = [f"{c}{v}{c} {v}{c}{v}" for c, v in zip("BCDFGK", "AEIOUA", strict=True)]
    documents = [
        marked(f"In case {i} it was {string} here.", (string, kind))
        for i, (string, kind) in enumerate(zip(strings, kinds, strict=True))
    ]

    def writes_capitals(target, token, before):
        """Learned from others' records that what they name stands in capitals."""
        odd = target == TUNED and before.endswith(" was") and not token.strip().isupper()
        return -9.0 if odd else -1.0 - 0.1 * (target == BASE and token.strip().isupper())

    found = attacked(documents, writes_capitals, candidates=(50,))
    told = {s: row(found, s, candidates=50).hits for s in ("tuned", "base")}
    assert told == {"tuned": 6, "base": 0}
    assert verdict(found.measurements, found.findings)["status"] == "inconclusive"
