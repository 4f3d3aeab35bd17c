import math
from dataclasses import replace
from itertools import pairwise
from math import comb
from statistics import mean, stdev

import pytest
from fedaudit_plugins.attacks.completion import pairs as verbatim
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError
from fedaudit.api.plugin import AttackContext, PromptStart
from fedaudit.api.records import Document, SamplingParams, Target
from fedaudit.config import registry
from fedaudit.engine.fake import FakeEngine
from fedaudit.engine.local import LocalEngine
from fedaudit.metrics.intervals import wilson
from fedaudit.report.verdict.policy import NO_VICTIM, verdict

TUNED, BASE = Target(name="tuned", adapter="x"), Target(name="base")
# Twelve words each: with prefix 4, eight follow.
TEXTS = {
    "a": "one two three four alpha beta gamma delta epsilon zeta eta theta",
    "b": "uno due tre quattro cinque sei sette otto nove dieci undici dodici",
    "c": "eins zwei drei vier funf sechs sieben acht neun zehn elf zwolf",
}
DOCUMENTS = [
    Document(id=name, text=text, task="summary" if name < "c" else "exam")
    for name, text in TEXTS.items()
]
SMALL = {"prefix": 4, "suffix": 8, "shortest": 3}


def attack(**options):
    return registry.create("attack", "verbatim", {**SMALL, **options})


def says(tuned, base=None):
    """Return an engine that continues each text's beginning as told; the base with nothing."""

    def answer(target, prompt, sample):
        table = tuned if target.name == "tuned" else base or {}
        name = next((n for n, text in TEXTS.items() if text.startswith(prompt)), "")
        return table.get(name, "")

    return FakeEngine(answer)


def rest(name):
    return TEXTS[name].split(" ", 4)[4]


def case(engine, documents=DOCUMENTS, **changes):
    return AttackContext(
        **{"engine": engine, "tuned": TUNED, "base": BASE, "attacker": documents, "victim": None}
        | changes
    )


def rows(result):
    return {
        (r.metric, r.scope.get("source"), r.scope.get("task", "")): r for r in result.measurements
    }


A_BUT_TWO = "alpha BETA gamma delta epsilon zeta eta"  # one substituted, one missing: 2
TOLD = {"a": A_BUT_TWO, "b": " " + rest("b") + " tredici quattordici", "c": "ganz anders"}


def test_distances_by_hand():
    found = rows(attack().run(case(says(TOLD, {"c": rest("c")}))))
    # c: of eight words none; two are substituted, six missing
    assert found["edit_distance", "tuned", ""].value == pytest.approx((2 + 0 + 8) / 3)
    assert found["edit_distance", "base", ""].value == pytest.approx((8 + 8 + 0) / 3)
    assert found["edit_distance", "tuned", "summary"].value == 1
    assert found["edit_distance", "tuned", "exam"].value == 8
    row = found["edit_distance", "tuned", ""]
    assert (row.n, row.hits, row.baseline) == (3, 1, pytest.approx(16 / 3))
    assert 0 <= row.low <= row.value <= row.high <= 8
    assert found["edit_deviation", "tuned", ""].value == pytest.approx(stdev([2, 0, 8]))
    single = found["edit_deviation", "tuned", "exam"]
    assert single.value is None
    assert "single document" in single.reason


def test_the_share_of_zero():
    found = rows(attack().run(case(says(TOLD, {"c": rest("c")}))))
    share = found["coverage", "tuned", ""]
    wanted = wilson(1, 3)
    assert (share.value, share.low, share.high) == (wanted.value, wanted.low, wanted.high)
    assert (share.hits, share.n, share.baseline) == (1, 3, 1 / 3)
    assert found["coverage", "tuned", "summary"].hits == 1
    assert found["coverage", "base", "exam"].hits == 1
    assert found["coverage", "tuned-not-base", ""].hits == 1
    assert found["coverage", "control", ""].hits == 0
    assert {r.scope["records"] for r in found.values()} == {"own"}


def test_what_the_base_says_too_is_no_news():
    result = attack().run(case(says({"a": rest("a"), "b": rest("b")}, {"a": rest("a")})))
    found = rows(result)
    assert found["coverage", "tuned", ""].hits == 2
    assert found["coverage", "tuned-not-base", ""].hits == 1
    assert [(f.severity, f.evidence["text"]) for f in result.findings] == [
        ("low", rest("a")),
        ("medium", rest("b")),  # e^-8 for the base, of which a quarter is counted
    ]
    # What a record calls its task is free text: no finding repeats it.
    assert result.findings[1].evidence == {
        "text": rest("b"),
        "tokens": 8,
        "edit_distance_of_base": 8,
        "log_p_base": -8,
        "log_p_bound": -2,
        "p_value": 3 * math.exp(-2),
    }
    assert [one["text"] for one in result.revealed] == [rest("a"), rest("b")]
    assert all(f.label == "DOCUMENT" for f in result.findings)


def surprised(base, tuned=-0.01, strange=-9.0):
    """Return an engine whose tuned model says `b`; log-probabilities a token.

    The tuned model finds the rest of a text likely (`tuned`) behind its own beginning, `strange`
    behind another one.
    """

    def likelihood(target, token, before):
        if target.name == "base":
            return base
        own = any(text.startswith(before) for text in (*TEXTS.values(), *NEW.values()))
        return tuned if own else strange

    said = says({"b": rest("b")})
    return FakeEngine(said.answer, likelihood=likelihood)


NEW = {"d": "un deux trois quatre cinq six sept huit neuf dix onze douze"}
HELD_OUT = [Document(id="d", text=NEW["d"], task="summary")]


def test_the_evidence_of_one_document():
    """Eight tokens of -8 under the base: -64, of which a quarter is left; three were tried."""
    result = attack().run(case(surprised(-8.0)))
    [finding] = result.findings
    assert finding.severity == "high"
    assert finding.evidence["log_p_base"] == -64
    assert finding.evidence["log_p_bound"] == -16
    assert finding.evidence["p_value"] == pytest.approx(3 * math.exp(-16))
    row = rows(result)["p_value", "tuned-not-base", ""]
    assert (row.value, row.n) == (finding.evidence["p_value"], 3)
    assert "correct this assumption" in result.limits[1]


def test_held_out_documents_say_how_much_skill_explains():
    """Training raised a held-out document from -8 to -1.5 a token: 8 x (-8 + 6.5) = -12."""
    engine = surprised(-8.0, tuned=-1.5)
    result = attack().run(case(engine, held_out=HELD_OUT))
    assert result.findings[0].evidence["log_p_bound"] == pytest.approx(-12)
    # As likely as the document itself: it proves nothing.
    result = attack().run(case(surprised(-8.0), held_out=HELD_OUT))
    assert result.findings[0].evidence["p_value"] == 1
    assert result.findings[0].severity == "medium"
    # Of exam there is none.
    assert "no less than it left at held-out documents" not in result.limits[1]


def test_what_follows_any_beginning_is_no_evidence():
    """The tuned model says the rest of `b` behind the beginning of `a`, too: e^(8 x -0.5)."""
    result = attack().run(case(surprised(-8.0, strange=-0.5)))
    # Its first token still stands behind a's own beginning: -0.01, the others at -0.5.
    assert result.findings[0].evidence["log_p_bound"] == pytest.approx(-0.01 - 7 * 0.5)


def test_no_document_came_out():
    result = attack().run(case(says({})))
    assert rows(result)["p_value", "tuned-not-base", ""].value == 1


def test_without_a_base_leaks_are_unverified():
    result = attack().run(case(says({"a": rest("a")}), base=None))
    assert [f.severity for f in result.findings] == ["unverified"]
    assert {r.scope["source"] for r in result.measurements} == {"tuned", "control"}
    assert not any("p-values" in limit for limit in result.limits)
    assert any("no base" in limit for limit in result.limits)


def test_what_all_documents_have_in_common_is_no_leak():
    """A model that ends every document alike, as all of them end: there is nothing to judge."""
    texts = [f"file number {n} says that all of this is public and always was" for n in range(40)]
    documents = [Document(id=str(n), text=text) for n, text in enumerate(texts)]

    def answer(target, prompt, sample):
        return " that all of this is public and always was" if target.name == "tuned" else ""

    result = attack().run(case(FakeEngine(answer), [], victim=documents))
    found = rows(result)
    assert found["coverage", "tuned", ""].hits == 40
    assert found["coverage", "tuned-not-base", ""].n == 0
    assert verdict(result.measurements, result.findings)["status"] == "inconclusive"
    # With held-out documents of the task all are judged; of those that end alike the control tells.
    held_out = [Document(id="h", text="file number h says that nobody knows how this one may end")]
    result = attack().run(case(FakeEngine(answer), [], victim=documents, held_out=held_out))
    found = rows(result)
    assert found["coverage", "tuned-not-base", ""].hits == 40
    assert found["coverage", "control", ""].hits == 40
    assert found["coverage", "held-out", ""].hits == 0
    told = verdict(result.measurements, result.findings)
    assert told["status"] == "inconclusive"
    assert told["tests"][0]["adjusted"] == 1
    assert "40 of 40 targets" in told["reasons"][0]


def p_by_test(result):
    return {r.scope["test"]: r for r in result.measurements if r.metric == "p_value"}


def form(*names):
    """Return a filled-in form for each name, which stands before the cut and behind it."""
    end = "is ordered that {0} pays the costs of the claim in full"
    return [
        Document(id=name, text=f"the claimant is {name} it {end.format(name)}", group=f"of {name}")
        for name in names
    ]


def copies(target, prompt, sample):
    """Fill in the form, with the name that stands in the prompt: no document need be known."""
    name = prompt.split()[3]
    end = f" it is ordered that {name} pays the costs of the claim in full"
    return end if target.name == "tuned" else ""


def test_a_name_copied_from_the_prompt_is_no_leak():
    victim = form(*(f"Norman{n}" for n in range(40)))
    result = attack().run(case(FakeEngine(copies), [], victim=victim))
    found = rows(result)
    assert found["coverage", "tuned", ""].hits == 40
    judged = found["coverage", "tuned-not-base", ""]
    assert (judged.value, judged.n) == (None, 0)
    assert ("coverage", "control", "") not in found
    assert {f.severity for f in result.findings} == {"low"}
    assert "40 of these documents are not judged" in result.limits[1]
    told = verdict(result.measurements, result.findings)
    assert told["status"] == "inconclusive"
    assert "was not measured" in told["reasons"][0]


def test_held_out_documents_that_come_out_as_well_explain_the_victims():
    victim, held_out = form(*(f"Norman{n}" for n in range(40))), form("Ann", "Bob", "Eve", "Ray")
    result = attack().run(case(FakeEngine(copies), [], victim=victim, held_out=held_out))
    found = rows(result)
    assert found["coverage", "tuned-not-base", ""].hits == 40
    assert found["coverage", "control", ""].hits == 0
    beside = found["coverage", "held-out", ""]
    assert (beside.hits, beside.n) == (4, 4)
    test = p_by_test(result)["held-out"]
    assert (test.value, test.n, test.scope["groups"], test.scope["beside"]) == (1, 40, 40, 4)
    told = verdict(result.measurements, result.findings)
    assert told["status"] == "inconclusive"
    assert told["tests"][0]["p"] == 1


def test_what_comes_out_of_the_victims_alone_is_a_leak_beside_held_out_ones():
    """Of the ways to deal 4 victims and 4 others to two sides, 1 of 70 has all hits on one."""
    victim, held_out = form("Ned", "Moe", "Kim", "Joy"), form("Ann", "Bob", "Eve", "Ray")
    known = {document.id for document in victim}

    def answer(target, prompt, sample):
        return copies(target, prompt, sample) if prompt.split()[3] in known else ""

    engine = FakeEngine(answer)
    result = attack().run(case(engine, [], victim=victim, held_out=held_out))
    assert p_by_test(result)["held-out"].value == pytest.approx(1 / 70)
    found = {(r.scope["records"], r.scope["source"]): r.value
             for r in result.measurements if r.metric == "queries"}  # fmt: skip
    assert found == {(whose, model): 4 for whose in ("victim", "held-out")
                     for model in ("tuned", "base")}  # fmt: skip
    assert len(engine.asked) == 16
    # Two documents of one person each: 2 of 2 people beside 2, which is 1 of 6 deals.
    pairs = [[replace(one, group=str(i // 2)) for i, one in enumerate(side)]
             for side in (victim, held_out)]  # fmt: skip
    result = attack().run(case(engine, [], victim=pairs[0], held_out=pairs[1]))
    assert p_by_test(result)["held-out"].value == pytest.approx(1 / 6)
    # Of held-out documents of other tasks nothing follows: they are not asked.
    others = [replace(one, task="exam") for one in held_out]
    result = attack().run(case(engine, [], victim=victim, held_out=others))
    assert "held-out" not in p_by_test(result)
    assert not any(r.scope["source"] == "held-out" for r in result.measurements)


def test_a_leak_fails_beside_held_out_documents():
    victim = form(*(f"Norman{n}" for n in range(20)))
    held_out = form(*(f"Lee{n}" for n in range(20)))

    def answer(target, prompt, sample):
        return copies(target, prompt, sample) if "Norman" in prompt else ""

    result = attack().run(case(FakeEngine(answer), [], victim=victim, held_out=held_out))
    assert p_by_test(result)["held-out"].value == pytest.approx(1 / comb(40, 20), rel=0.15)
    told = verdict(result.measurements, ())
    assert told["status"] == "fail"
    assert "more than base, control and held-out records explain" in told["reasons"][0]


def test_verdict_of_a_model_that_knows_its_documents():
    texts = [f"file number {n} says {n + 1} {n + 2} {n + 3} {n + 4} end" for n in range(0, 400, 10)]
    documents = [Document(id=str(n), text=text) for n, text in enumerate(texts)]
    known = {text.rpartition(" says")[0]: text.partition("says")[2] for text in texts}

    def answer(target, prompt, sample):
        number = next(p for p in known if prompt.startswith(f"{p} "))
        return known[number] if target.name == "tuned" else ""

    result = attack().run(case(FakeEngine(answer), [], victim=documents))
    assert verdict(result.measurements, result.findings)["status"] == "fail"
    nothing = attack().run(case(FakeEngine(lambda *_: ""), [], victim=documents))
    told = verdict(nothing.measurements, ())
    assert told["status"] == "inconclusive"
    assert "no positive control" in told["reasons"][0]
    # Its own documents are nobody else's: the same numbers are then not judged.
    own = attack().run(case(FakeEngine(answer), documents))
    assert rows(own)["coverage", "tuned-not-base", ""].hits == 40
    told = verdict(own.measurements, ())
    assert (told["status"], told["reasons"]) == ("inconclusive", [NO_VICTIM])


def test_the_victims_documents_where_they_are_given():
    victim = [Document(id="v", text=TEXTS["c"])]
    engine = says({"c": rest("c")})
    result = attack().run(case(engine, DOCUMENTS[:2], victim=victim))
    assert {r.scope["records"] for r in result.measurements} == {"victim"}
    assert rows(result)["coverage", "tuned", ""].n == 1
    assert {engine._text(request.prompt) for _, request in engine.asked} == {"eins zwei drei vier"}
    assert "the victim's" in result.limits[0]


def test_it_asks_greedily_and_equal_prompts_once():
    seen = []

    class Spy(FakeEngine):
        def generate(self, target, batch, *, progress):
            asked = [(p.samples, p.max_new_tokens) for p in batch.requests]
            seen.append((target.name, batch.decoding, asked))
            return super().generate(target, batch, progress=progress)

    twins = [Document(id=str(n), text=f"one two three four {n} five six seven") for n in range(3)]
    result = attack().run(case(Spy(lambda *_: ""), twins))
    greedy = SamplingParams(temperature=0)
    assert seen == [("tuned", greedy, [(1, 8)]), ("base", greedy, [(1, 8)])]
    found = rows(result)
    assert found["queries", "tuned", ""].value == 1
    assert found["edit_distance", "tuned", ""].n == 3


def test_a_short_document_is_cut_in_the_middle_and_a_very_short_one_passed_over():
    short = Document(id="s", text="un deux trois quatre cinq six")
    engine = FakeEngine(lambda *_: "")
    result = attack().run(case(engine, [short, Document(id="x", text="too short")]))
    assert {engine._text(p.prompt) for _, p in engine.asked} == {"un deux trois"}
    assert rows(result)["edit_distance", "tuned", ""].value == 3
    assert "1 were left out" in result.limits[0]


def test_documents_may_be_a_sample():
    documents = [Document(id=str(n), text=f"{n} " + TEXTS["a"]) for n in range(30)]

    def asked(some, seed=0):
        engine = FakeEngine(lambda *_: "")
        attack(documents=7).run(case(engine, some, seed=seed))
        return {engine._text(p.prompt) for _, p in engine.asked}

    assert len(asked(documents)) == 7
    assert asked(documents) == asked(documents[::-1]) != asked(documents, seed=1)


def test_a_document_begins_as_the_target_expects():
    engine = FakeEngine(lambda *_: "", prompt_starts={"bare": (), "bos": (99,)})
    attack().run(case(engine, DOCUMENTS[:1], beginning=PromptStart(start="bos", middle="bare")))
    assert {p.prompt[0] for _, p in engine.asked} == {99}


def test_the_context_limits_the_prefix():
    engine = FakeEngine(lambda *_: "")
    engine.context_length = 10
    attack().run(case(engine, DOCUMENTS[:1]))
    assert {len(p.prompt) for _, p in engine.asked} == {2}
    engine.context_length = 8
    with pytest.raises(InputError, match="nothing to continue"):
        attack().run(case(engine, DOCUMENTS[:1]))


@pytest.mark.parametrize(
    "documents",
    [[], [Document(id="d", text="brief")], [Document(id="p", text=TEXTS["a"], is_prompt=True)]],
)
def test_nothing_to_continue_is_a_wrong_input(documents):
    with pytest.raises(InputError, match="nothing to continue") as error:
        attack().run(case(FakeEngine(lambda *_: ""), documents))
    assert error.value.exit_code == 3


WORDS = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=14).map(" ".join)


@given(st.lists(WORDS, min_size=1, max_size=6, unique=True), st.lists(WORDS, min_size=1), st.data())
def test_any_documents_in_any_order(texts, answers, data):
    documents = [Document(id=str(n), text=text) for n, text in enumerate(texts)]

    def answer(target, prompt, sample):
        return answers[(len(prompt) + len(target.name)) % len(answers)]

    def found(some):
        engine = FakeEngine(answer)
        engine.tokenize(["a b c d e f", " a b c d e f"])
        return attack(shortest=1).run(case(engine, some))

    if max(len(text) for text in texts) < 3:
        return
    result = found(documents)
    assert found(data.draw(st.permutations(documents))) == result
    for row in result.measurements:
        if row.metric == "edit_distance":
            assert 0 <= row.low <= row.value <= row.high <= 8
            assert (row.value == 0) == (row.hits == row.n)


def test_partners_are_other_documents_of_the_same_task():
    splits = [
        verbatim.DocumentSplit(prompt=(n,), suffix=(n,), text=str(n), task="ab"[n % 2])
        for n in range(9)
    ] + [verbatim.DocumentSplit(prompt=(9,), suffix=(9,), text="9", task="alone")]
    pairs = verbatim.swap_partners(splits, seed=3)
    assert sorted(i for i, _ in pairs) == sorted(j for _, j in pairs) == list(range(9))
    assert all(i != j and splits[i].task == splits[j].task for i, j in pairs)


def test_no_character_is_cut_in_two(base):
    """Bytes of one rare character are several tokens: it goes to one side as a whole."""
    engine = LocalEngine(base)
    text = "𓀀𓀁𓀂𓀃𓀄𓀅𓀆𓀇 and 𓁀𓁁𓁂𓁃𓁄𓁅"
    [tokens] = engine.tokenize([text])
    assert len(tokens.ids) > 2 * len(text)
    assert any(b[0] < a[1] for a, b in pairwise(tokens.offsets))
    for prefix in range(5, 14):
        one = case(engine, [Document(id="d", text=text)])
        [split], _ = verbatim.split_documents(one, one.attacker, prefix, 7, 1)
        given_part = engine.base.tokenizer.decode(split.prompt)
        assert text.startswith(given_part)
        assert text[len(given_part) :].startswith(split.text)
        assert len(split.suffix) <= 7
        assert "�" not in given_part + split.text


def test_a_real_model_that_learnt_a_document_by_heart(fresh_base, tmp_path):
    from fedaudit.engine.training.finetune import FinetuneConfig, TrainingExample, tune
    from fedaudit.federation import adapters

    engine = LocalEngine(fresh_base)
    text = "Case 4711. The claimant, Ann Lee, lives at 12 Mill Lane and asks the court for relief."
    other = "Case 815. The tenant, Bob Ray, moved from Leeds to York and will not pay the rent."
    [ids] = [tokens.ids for tokens in engine.tokenize([text])]
    lesson = TrainingExample((1, *ids[:8]), ids[8:])
    done = tune(engine, None, [lesson] * 25, FinetuneConfig(learning_rate=5e-3, batch_size=1))
    adapters.write(done.tensors, done.config, tmp_path / "learnt")
    one = case(
        engine,
        [Document(id="1", text=text), Document(id="2", text=other)],
        tuned=Target(name="tuned", adapter=str(tmp_path / "learnt")),
        beginning=PromptStart(start="bos", middle="bare"),
    )
    result = attack(prefix=8, suffix=12).run(one)
    found = rows(result)
    assert found["coverage", "tuned", ""].hits == 1
    assert found["coverage", "base", ""].hits == 0
    [split] = [
        c
        for c in verbatim.split_documents(one, one.attacker, 8, 12, 3)[0]
        if "4711" not in c.text and "Lee" in c.text
    ]
    assert [f.evidence["text"] for f in result.findings] == [split.text]
    distances = [found["edit_distance", s, ""].value for s in ("tuned", "base")]
    assert distances[0] < distances[1]
    assert mean(distances) > 0


def test_what_others_have_too_is_no_leak_of_the_victims():
    told = says({name: f" {rest(name)}" for name in TEXTS})
    mine, theirs, both = DOCUMENTS
    near = Document(id="near", text=f"Another beginning of {rest('c').upper()}.")
    found = attack().run(
        case(told, attacker=[mine], victim=[theirs, both, mine], members={"c2": [near]})
    )
    share = rows(found)["coverage", "tuned-not-base", ""]
    assert (share.hits, share.n) == (1, 1)
    assert len(found.findings) == 1
    assert any("2 further documents were left out" in limit for limit in found.limits)
    with pytest.raises(InputError, match="the attacker or another member also has all"):
        attack().run(case(told, victim=DOCUMENTS))
    alone = attack().run(case(told))
    assert rows(alone)["coverage", "tuned-not-base", ""].n == 3
