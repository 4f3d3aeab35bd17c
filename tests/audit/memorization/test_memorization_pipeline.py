"""Cross-client memorization with a model that is told what to say: the controls of the measure."""

import json
import random
from dataclasses import replace

import pytest
from memorized import (
    FORM,
    MODELS,
    PROTOCOL,
    corpus,
    cut,
    found,
    hits,
    knowing,
    measured,
    one,
    request,
    sentence,
    text,
)

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.plugin import Paraphraser
from fedaudit.api.records import Document, Target
from fedaudit.audit.evidence import mask_findings
from fedaudit.audit.input_files import InputReader
from fedaudit.audit.memorization import matching, run
from fedaudit.audit.memorization.findings import bracket_matches, examples, findings, outline
from fedaudit.audit.memorization.rows import too_short
from fedaudit.audit.memorization.splits import unused_text_caveats
from fedaudit.audit.request import Protocol
from fedaudit.engine.fake import FakeEngine
from fedaudit.metrics.intervals import wilson
from fedaudit.report.redaction import Redactor
from fedaudit.report.verdict.policy import verdict

AB = {"a": corpus("a"), "b": corpus("b")}


def test_a_model_that_knows_everything_draws_its_own_texts_and_the_base_nothing():
    some = measured(AB, knowing(*AB.values()))
    assert hits(some) == {("a", "a"): (6, 6), ("a", "b"): (0, 6), ("b", "a"): (0, 6),
                          ("b", "b"): (6, 6)}  # fmt: skip
    assert set(hits(some, "base").values()) == {(0, 6)}
    intra, inter, total = (one(some, m, source="tuned", category="all") for m in
                           ("mr_intra", "mr_inter", "mr_total"))  # fmt: skip
    assert (intra.value, inter.value, total.value) == (1, 0, 1)
    assert (total.hits, total.n, intra.n, intra.hits) == (12, 12, 12, None)
    assert total.low == wilson(12, 12).low
    assert inter.low == 0 < inter.high < 0.5
    assert intra.baseline == total.baseline == 0
    for metric in ("mr_intra", "mr_inter", "mr_total"):
        row = one(some, metric, source="base", category="all")
        assert row.value == row.low == 0 < row.high
        assert row.baseline is None
    assert intra.scope["decoding"] == "top-k"
    assert intra.scope["prefix_length"] == 5


def test_weights_are_the_clients_documents():
    few = {"a": corpus("a", 8), "b": corpus("b", 2)}
    some = measured(few, knowing(few["a"]))  # what b has is not known to the model
    assert one(some, "mr_intra", source="tuned", category="all").value == pytest.approx(0.8)
    assert one(some, "mr_total", source="tuned", category="all").hits == 8


def planted():
    """Return clients of which b has a sentence of a's in one text, and a model that knows all."""
    a, b = corpus("a"), corpus("b")
    stolen = a[0].text.split(". ")[2] + "."
    b[1] = replace(b[1], text=f"{b[1].text} {stolen}")
    return {"a": a, "b": b}


def test_a_planted_copy_shows_up_in_both_directions():
    some = measured(planted(), knowing(*planted().values()))
    assert hits(some)["a", "b"] == hits(some)["b", "a"] == (1, 6)
    assert hits(some, category="verbatim") == hits(some)
    assert one(some, "mr_inter", source="tuned", category="all").value == pytest.approx(1 / 6)
    assert hits(some, "base")["a", "b"] == (0, 6)


def test_swapping_the_clients_labels_swaps_the_matrix():
    three = {**planted(), "c": corpus("c", 4)}
    names = {"a": "c", "b": "a", "c": "b"}
    swapped = {names[name]: three[name] for name in ("c", "a", "b")}
    engine = knowing(*three.values())
    before, after = hits(measured(three, engine)), hits(measured(swapped, engine))
    assert after == {(names[j], names[k]): value for (j, k), value in before.items()}
    assert len(set(before.values())) > 2


def test_neither_order_of_documents_nor_of_clients_matters():
    chance, three = random.Random(0), {**planted(), "c": corpus("c", 4)}
    engine = knowing(*three.values())
    mixed = {name: chance.sample(three[name], len(three[name])) for name in ("c", "b", "a")}
    assert hits(measured(three, engine)) == hits(measured(mixed, engine))


def test_equal_texts_of_two_clients_are_never_between_clients():
    three = {
        name: [*corpus(name, 4), Document(id=f"{name}-x", text=text("shared"))] for name in "ab"
    }
    three["c"] = [
        *corpus("c", 4),
        Document(id="c-x", text=f"{text('mine', 1)} {text('shared', 2)}"),
    ]
    engine = knowing(*three.values())
    some = measured(three, engine)
    assert hits(some)["a", "b"] == hits(some)["b", "a"] == (0, 5)
    assert hits(some)["a", "a"] == hits(some)["b", "b"] == (5, 5)
    # c has half of it in a text of another beginning: that is not a copy, and is drawn by both.
    assert hits(some)["c", "a"] == hits(some)["c", "b"] == (1, 5)
    assert hits(some)["a", "c"] == hits(some)["b", "c"] == (1, 5)
    notes = list(matching.shared_text_caveats(cut(three, engine)))
    assert notes == [
        "a and b share 1 texts: what their prefixes draw of these counts as their own, not as the "
        "other's."
    ]
    searched = [row for row in some if row.metric == "searched"]
    told = {(r.scope["attacker"], r.scope["victim"]): (r.hits, r.n) for r in searched}
    assert told == {("a", "b"): (4, 5), ("b", "a"): (4, 5)}


def test_a_copy_of_the_victims_texts_is_no_pass():
    """Slowly: what may be hidden is what was not looked for, and all of it if that is all."""
    a, b, c = (corpus(name, 50) for name in "abc")
    engine = knowing(a, b, c)
    alone = measured({"a": a, "b": b}, engine)
    assert hits(alone)["a", "b"] == hits(alone)["b", "a"] == (0, 50)
    assert hits(alone)["a", "a"] == hits(alone)["b", "b"] == (50, 50)
    assert verdict(alone, [])["status"] == "pass"
    for copies, status in ((1, "pass"), (10, "inconclusive"), (50, "inconclusive")):
        with_copies = measured({"a": [*a, *b[:copies]], "b": b, "c": c}, engine)
        drawn = hits(with_copies)
        assert drawn["a", "b"] == ((0, 50 + copies) if copies < 50 else (None, 100))
        assert drawn["b", "a"] == (0, 50)
        judged = verdict(with_copies, [])
        assert judged["status"] == status
        if copies == 10:
            [reason] = judged["reasons"]
            assert "10 of 50 texts of b were not looked for, because a has them as well" in reason
        if copies == 50:
            assert judged["reasons"] == [
                "memorize (decoding top-k, prefix_length 5): what the prefixes of a draw of b's "
                "texts was not measured: a has every text of b as well, so nothing was looked for; "
                "so for 1 of 6 pairs of clients."
            ]
    same = measured({"a": a, "b": a}, engine)
    assert one(same, "mr_inter", source="tuned", category="all").value is None
    assert verdict(same, [])["status"] == "inconclusive"


def test_a_search_in_which_own_texts_do_not_come_out_is_no_pass():
    a, b = corpus("a", 60), corpus("b", 60)
    gibberish = measured({"a": a, "b": b}, knowing())
    assert {drawn for drawn, _ in hits(gibberish).values()} == {0}
    judged = verdict(gibberish, [])
    assert judged["status"] == "inconclusive"
    assert "0 of 60 positive controls of a came out, 0 of 60 positive" in judged["reasons"][0]
    echo = {document.text[:20]: "Too short." for document in a}
    short = verdict(measured({"a": a, "b": b}, knowing(a, b, echo=echo)), [])
    assert short["status"] == "inconclusive"
    assert (
        "0 of 60 positive controls of a came out (60 of 60 continuations are too short to find "
        "anything in), 60 of 60 positive controls of b came out"
    ) in short["reasons"][0]


def test_texts_that_were_not_drawn_are_looked_for():
    """Every prefix of a draws a text of b's that the sample may leave out."""
    a, b = corpus("a", 40), corpus("b", 40)
    own = {one.text[:20]: f"{one.text[30:]} {other.text}" for one, other in zip(a, b, strict=True)}
    ab, engine = {"a": a, "b": b}, knowing(a, b, echo=own)
    some = measured(ab, engine, replace(PROTOCOL, sample=10, new_tokens=200))
    assert hits(some) == {("a", "a"): (10, 10), ("a", "b"): (10, 10), ("b", "a"): (0, 10),
                          ("b", "b"): (10, 10)}  # fmt: skip
    assert not [row for row in some if row.metric == "searched"]
    assert verdict(some, [])["status"] == "fail"
    notes = list(unused_text_caveats(cut(ab, engine, PROTOCOL), replace(PROTOCOL, sample=10)))
    assert notes == [
        f"{name}: the prefixes of 10 of 40 texts were asked; the suffixes of all were looked for."
        for name in ab
    ]


def test_what_compat_does_not_look_for_bars_a_pass():
    """The published program looks for the suffixes of the sample only."""
    a, b = corpus("a", 80), corpus("b", 80)
    protocol = replace(PROTOCOL, sample=60, compat=True)
    some = measured({"a": a, "b": b}, knowing(a, b), protocol)
    searched = [row for row in some if row.metric == "searched"]
    told = {
        (r.scope["attacker"], r.scope["victim"]): (r.hits, r.n, r.scope["not_drawn"])
        for r in searched
        if "attacker" in r.scope
    }
    assert [(r.scope["victim"], r.hits, r.n) for r in searched if "text" in r.scope] == [
        ("a", 60, 80), ("b", 60, 80),
    ]  # fmt: skip
    assert told == {(j, k): (60, 80, 20) for j in "ab" for k in "ab"}
    judged = verdict(some, [])
    assert judged["status"] == "inconclusive"
    assert (
        "20 of 80 texts of b were not looked for, because --compat looks for a sample only"
    ) in judged["reasons"][0]
    shared = measured({"a": [*a, *b[:40]], "b": b}, knowing(a, b), protocol)
    assert "has them as well and --compat looks for" in verdict(shared, [])["reasons"][0]
    every = measured({"a": a, "b": b}, knowing(a, b), replace(protocol, compat=False))
    assert verdict(every, [])["status"] == "pass"


def answered(name, count):
    """Return records whose answers are of their own, and one that repeats the last one's answer."""
    raw = [
        Document(
            id=f"{name}-{n}", text="", input=text(f"{name}-{n}"), instruction="Answer.",
            output=text(f"{name} answer {min(n, count - 2)}", 1),
        )
        for n in range(count)
    ]  # fmt: skip
    return [FORM.render(one) for one in raw]


def test_a_pass_says_that_answers_were_not_looked_for():
    """Each of a's prefixes draws an answer of b's behind its own rest: inputs are compared only."""
    a, b = answered("a", 50), answered("b", 50)
    ab = {"a": a, "b": [*b, Document(id="short", text="One word.")]}

    def says(target, prompt, sample):
        if target.name == "base":
            return text(f"base {prompt}", 3)
        for own, other in zip([*a, *b], [*b, *a], strict=True):
            begin = own.text.index(own.input)
            if own.text.startswith(prompt) and len(prompt) > begin:
                return f"{own.text[len(prompt) : begin + len(own.input)]} {other.output[:60]}"
        return text(f"new {prompt}", 3)

    engine = FakeEngine(says)
    some = measured(ab, engine)
    told = {
        (r.scope["victim"], r.scope["text"]): (r.hits, r.n)
        for r in some
        if r.metric == "searched" and "attacker" not in r.scope
    }
    assert told == {("a", "output"): (0, 49), ("b", "output"): (0, 49), ("b", "input"): (50, 51)}
    judged = verdict(some, [])
    assert judged["status"] == "pass"
    left_out = "1 of 51 texts and 98 of 98 answers of the clients"
    assert judged["reasons"][0].endswith(f" Not looked for: {left_out}.")
    notes = list(unused_text_caveats(cut(ab, engine), PROTOCOL))
    assert (
        "a: 49 answers were not looked for: of a record with an instruction, only the input is."
    ) in notes
    assert not [note for note in unused_text_caveats(cut(AB, engine), PROTOCOL) if "answ" in note]


@pytest.mark.parametrize("copies", [0, 1, 4])
def test_what_the_asker_has_as_well_takes_no_place_among_the_retrieved(copies):
    """Half of b's last text is in one of a's; copies of a's texts are more alike, and left out."""
    a = corpus("a")
    half = Document(id="half", text=f"{text('half', 2)} {' '.join(a[0].text.split('. ')[2:])}")
    b = [*corpus("b"), *(replace(one, id=f"copy-{one.id}") for one in a[:copies]), half]
    some = measured({"a": a, "b": b}, knowing(a, b), replace(PROTOCOL, retrieved=1))
    assert hits(some)["a", "b"] == (1, 6)
    assert hits(some)["a", "a"] == (6, 6)


def test_texts_of_one_beginning_are_drawn_apart_and_copies_alike():
    start = " ".join(text("start").split()[:8])
    a = [Document(id=f"a-{n}", text=f"{start} {text(n)}") for n in range(3)]
    b = [Document(id="b-0", text=a[0].text), Document(id="b-1", text=f"{start} {text('b')}")]
    engine = FakeEngine(lambda target, prompt, sample: f"{target.name} {sample}")
    made, _, _ = found({"a": a, "b": b}, engine)
    said = {(t.client, t.split.document): t.text for t in made[0].continuations.texts}
    assert said["a", "a-0"] == said["b", "b-0"]
    assert len(set(said.values())) == 4
    assert [probe.samples for _, probe in engine.asked] == [4, 4]


def test_greedy_asks_every_prompt_once():
    start = " ".join(text("start").split()[:8])
    own = {"a": [Document(id=f"a-{n}", text=f"{start} {text(n)}") for n in range(3)]}
    engine = FakeEngine(lambda target, prompt, sample: f"{sample}")
    greedy = replace(PROTOCOL, decoding="greedy")
    made, clients, _ = found(own, engine, greedy)
    assert [t.text for t in made[0].continuations.texts] == ["0"] * 3
    assert run._count_queries(clients, greedy) == {"queries": 1, "prefixes": 1}
    assert run._count_queries(clients, PROTOCOL) == {"queries": 3, "prefixes": 1}


def test_repetitive_continuations_do_not_count():
    odd = f"{AB['a'][0].text} " + "as well as " * 12
    start = " ".join(AB["a"][0].text.split()[:5])
    engine = knowing(*AB.values(), echo={start: odd})
    some = measured(AB, engine)
    assert hits(some)["a", "a"] == (5, 5)
    assert one(some, "repetitive", source="tuned", attacker="a").hits == 1
    assert one(some, "repetitive", source="tuned").n == 12
    assert one(some, "repetitive", source="base").hits == 0


def test_an_idea_is_counted_apart_from_copies():
    body = " ".join(sentence("idea", 9).rstrip(".").split())
    own = [
        Document(id="a-0", text=f"{text('lead', 2)} {body}. {sentence('tail', 9)}"),
        *corpus("a"),
    ]
    rng, parts = random.Random(0), []
    for _ in range(5):
        shuffled = body.lower().split()
        rng.shuffle(shuffled)
        parts.append(" ".join(shuffled).capitalize() + ".")
    engine = knowing(corpus("a"), echo={" ".join(own[0].text.split()[:5]): " ".join(parts)})
    some = measured({"a": own}, engine)
    assert one(some, "mr_total", source="tuned", category="idea").hits == 1
    assert one(some, "mr_total", source="tuned", category="verbatim").hits == 6
    assert one(some, "mr_total", source="tuned", category="all").hits == 7


def test_one_client_has_no_others():
    some = measured({"a": corpus("a")}, knowing(corpus("a")))
    row = one(some, "mr_inter", source="tuned", category="all")
    assert row.value is None
    assert "only one client" in row.reason
    assert one(some, "mr_intra", source="tuned", category="all").value == 1


def test_an_empty_client_changes_nothing_for_the_others():
    three = {**planted(), "e": [], "s": [Document(id="s", text="Too short.")]}
    engine = knowing(*three.values())
    some, without = measured(three, engine), measured(planted(), engine)
    for metric in ("mr_intra", "mr_inter", "mr_total"):
        wanted = {"source": "tuned", "category": "all"}
        assert one(some, metric, **wanted) == one(without, metric, **wanted)
    for pair in (("a", "e"), ("e", "a"), ("e", "e"), ("s", "b")):
        row = one(some, "mr_pair", source="tuned", category="all", attacker=pair[0],
                  victim=pair[1])  # fmt: skip
        assert row.value is None
        assert "no texts that are long enough" in row.reason


def test_all_pairs_finds_what_retrieval_leaves_out():
    sly = replace(PROTOCOL, retrieved=1)
    three = planted()
    # b's own text is nearer to this continuation than the planted one of a.
    assert hits(measured(three, knowing(*three.values()), sly))["b", "a"] == (1, 6)
    said = f"{AB['a'][1].text} {AB['a'][2].text.split('. ')[2]}."
    engine = knowing(*AB.values(), echo={" ".join(AB["b"][0].text.split()[:5]): said})
    retrieved, _, _ = found(AB, engine, sly)
    every, _, _ = found(AB, engine, replace(PROTOCOL, all_pairs=True))
    drawn = [
        [h.split.document for answer in made[0].answers for h in answer.hits if h.victim == "a"
         and answer.continued.client == "b"]
        for made in (retrieved, every)
    ]  # fmt: skip
    assert drawn == [["a-1"], ["a-1", "a-2"]]


def test_lengths_say_why_nothing_can_be_found():
    raw = [
        Document(id=f"r-{n}", text="", instruction="Say.", input=text(f"r{n}"), output="Yes.")
        for n in range(4)
    ]
    own = {"a": [FORM.render(one) for one in raw]}
    engine = FakeEngine(lambda target, prompt, sample: "yes")
    some = measured(own, engine)
    assert one(some, "too_short", source="tuned").value == 1
    assert one(some, "median_length", source="tuned", text="generation").value == 1
    assert one(some, "median_length", text="input").value == 52  # 48 words, 4 full stops
    assert one(some, "median_length", text="output").value > 1
    notes = list(run._limits(cut(own, engine), request(own), some, 0))
    assert any("fewer than 50 characters" in note for note in notes)


@pytest.mark.parametrize(
    ("said", "short", "short_for_the_published"),
    [
        ("x" * 49, True, True),
        ("x" * 50, False, False),
        ("合" * 19, True, True),
        ("合" * 20, False, True),
        ("合" * 10 + "x" * 24, True, True),
        ("合" * 10 + "x" * 25, False, True),
    ],
)
def test_how_short_is_too_short(said, short, short_for_the_published):
    assert too_short(said, PROTOCOL) is short
    assert too_short(said, replace(PROTOCOL, compat=True)) is short_for_the_published


def test_the_texts_that_are_drawn_most_are_named():
    some = measured(planted(), knowing(*planted().values()))
    most = [row for row in some if row.metric == "drawn" and row.scope["source"] == "tuned"]
    told = {(row.scope["victim"], row.scope["document"]): row.value for row in most}
    assert told["a", "a-0"] == told["b", "b-1"] == 2
    assert [row.value for row in most] == sorted((row.value for row in most), reverse=True)
    assert len(most) == 10


# examples


def drawn(corpora, engine=None):
    made, _, _ = found(corpora, engine or knowing(*corpora.values()))
    return examples(made[0].answers, made[1].answers)


def test_examples_are_worst_first_and_masked_until_revealed():
    some = drawn(planted())
    made, plain = findings(some, compared=True)
    assert [one.severity for one in made] == ["high", "high"] + ["low"] * 10
    assert {made[0].evidence["victim"], made[1].evidence["victim"]} == {"a", "b"}
    first, told = made[0], plain[0]
    assert first.evidence["prefixes"] == 2
    assert first.evidence["prefixes_of_others"] == 1
    assert first.id == told["id"] == "memorize-0001"
    assert first.evidence["text"] == told["text"]
    assert f"[[{told['text']}]]" in told["training"]
    kept = {key: value for key, value in first.evidence.items() if key != "text"}
    words_of = {word for document in planted()["a"] for word in document.text.rstrip(".").split()}
    assert not [word for word in words_of if word in json.dumps(kept)]
    assert set(first.evidence["training"]) == {".", "="}
    [shown] = mask_findings(made[:1], lambda: Redactor(bytes(32)))
    mask = Redactor(bytes(32)).mask(told["text"], "TEXT")
    assert shown.evidence == {**kept, **mask}


def test_without_a_base_nothing_is_verified():
    made, _, _ = found(planted(), knowing(*planted().values()), models=MODELS[:1])
    some, _ = findings(examples(made[0].answers, None), compared=False)
    assert {one.severity for one in some} == {"unverified"}


def test_what_the_base_draws_as_well_is_unverified():
    engine = FakeEngine(lambda target, prompt, sample: AB["b"][0].text)
    some, _ = findings(drawn(AB, engine), compared=True)
    assert {(one.severity, one.evidence["victim"]) for one in some} == {("unverified", "b")}


@pytest.mark.parametrize(
    ("spans", "length", "picture"),
    [
        ([(0, 10)], 20, "=====....."),
        ([(19, 20)], 20, ".........="),
        ([(3, 5), (9, 11)], 20, ".==.==...."),
        ([], 5, "....."),
        ([(0, 2)], 3, "==."),
        ([], 0, ""),
    ],
)
def test_the_outline_of_a_text(spans, length, picture):
    assert outline(spans, length, cells=10) == picture


def test_brackets_stand_around_what_matches():
    assert bracket_matches([(0, 2), (4, 5)], "abcdef") == "[[ab]]cd[[e]]f"
    assert bracket_matches([(1, 4), (2, 6)], "abcdef") == "a[[bcdef]]"
    assert bracket_matches([], "abc") == "abc"


# paraphrases


class Scorer(Paraphraser):
    name = "scorer"

    def __init__(self, value):
        self.value, self.asked = value, []

    def score(self, pairs):
        self.asked += pairs
        return [self.value] * len(pairs)

    def describe(self):
        return "a scorer"


class Finder:
    def detect(self, texts):
        return [() for _ in texts]

    def describe(self):
        return "a finder"


def shuffled(seed=0):
    """Return a text, and one sentence of it in other words: a candidate, neither copy nor idea."""
    own = corpus("a")
    body = own[0].text.split(". ")[2].lower().split()
    random.Random(seed).shuffle(body)
    said = f"{sentence('x')} {' '.join(body).capitalize()}. {sentence('y')}"
    return own, knowing(own[1:], echo={" ".join(own[0].text.split()[:5]): said})


@pytest.mark.parametrize(
    ("value", "compat", "category"),
    [
        (0.8, False, "paraphrase_high"),
        (0.8, True, "paraphrase_high"),
        (0.3, True, "paraphrase_low"),
        (0.3, False, ""),
        (0.995, True, ""),
        (0.995, False, "paraphrase_high"),
    ],
)
def test_a_scorer_decides_on_candidates(monkeypatch, value, compat, category):
    own, engine = shuffled()
    scorer = Scorer(value)
    monkeypatch.setattr(run, "_scorer", lambda request: scorer)
    monkeypatch.setattr(run, "_detector", lambda request: Finder())
    protocol = replace(PROTOCOL, paraphraser="scorer", compat=compat)
    some = measured({"a": own}, engine, protocol)
    counts = {name: one(some, "mr_total", source="tuned", category=name).hits
              for name in (*protocol.categories(), "all")}  # fmt: skip
    assert counts.pop("verbatim") == 5
    assert counts.pop("all") == 5 + bool(category)
    assert {name for name, count in counts.items() if count} == ({category} - {""})
    assert len(scorer.asked) == len(set(scorer.asked)) > 0


def test_without_a_scorer_candidates_count_for_nothing_and_the_report_says_so():
    own, engine = shuffled()
    made, _, notes = found({"a": own}, engine)
    assert sum(bool(answer.hits) for answer in made[0].answers) == 5
    assert "Paraphrases were not looked for" in notes[0]


# options and requests


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample": 0}, "at least 1"),
        ({"prefix_length": 0}, "at least 1"),
        ({"decoding": "temperature", "temperature": 0.0}, "above 0"),
        ({"decoding": "top-p", "top_p": 1.5}, "top_p"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Protocol(**options)


def test_decodings_are_the_papers():
    drawing = {
        how: Protocol(decoding=how).sampling_params() for how in ("top-k", "top-p", "temperature")
    }
    assert (drawing["top-k"].top_k, drawing["top-k"].top_p, drawing["top-k"].temperature) == (
        40,
        1,
        1,
    )
    assert (drawing["top-p"].top_k, drawing["top-p"].top_p) == (0, 0.8)
    assert drawing["temperature"].temperature == 1.0
    assert Protocol(decoding="greedy").sampling_params().temperature == 0


def test_a_context_that_is_too_short_is_told():
    engine = knowing(*AB.values())
    engine.context_length = 20
    made, _, _ = found(AB, engine)
    assert {probe.max_new_tokens for _, probe in engine.asked} == {15}
    engine.context_length = 5
    with pytest.raises(InputError, match="shorter --prefix-length"):
        found(AB, engine)
    assert made


def test_no_client_is_refused():
    with pytest.raises(UsageError, match="no client"):
        run.resolve(request({}), InputReader())


def test_the_central_model_is_a_source_of_its_own():
    models = (*MODELS, Target(name="central", adapter="c"))
    some = measured(AB, knowing(*AB.values()), models=models)
    assert one(some, "mr_total", source="central", category="all").value == 1
    assert one(some, "mr_total", source="central", category="all").baseline == 0


def test_the_published_detector_is_told_to_read_english_only():
    own = {
        "a": corpus("a"),
        "zh": [Document(id="z", text=f"{text('z', 2)} {'原告与被告签订合同' * 4}")],
    }
    engine = knowing(*own.values())
    clients, compat = cut(own, engine), replace(PROTOCOL, compat=True)
    said = {
        protocol.compat: " ".join(run._limits(clients, request(own, protocol), [], 0))
        for protocol in (PROTOCOL, compat)
    }
    assert "English only: zh have Chinese texts" in said[True]
    assert "English only" not in said[False]
