"""The kgw watermark as a plugin, with the built-in base as the teacher."""

import json
import math
from dataclasses import replace
from itertools import pairwise

import pytest
from fedaudit_plugins.watermarks.kgw.detection import Detector
from fedaudit_plugins.watermarks.kgw.texts import continue_text, text_beginnings
from fedaudit_plugins.watermarks.kgw.watermark import KGW

from fedaudit.api.engine import GenerationBatch
from fedaudit.api.errors import InputError
from fedaudit.api.records import Completion, Document, SamplingParams, Target
from fedaudit.attribution.report import skewed_count_caveats
from fedaudit.attribution.scores import RoundScores, Scores
from fedaudit.engine.fake import FakeEngine
from fedaudit.engine.local import LocalEngine
from fedaudit.nano import generator

DOCUMENTS = list(
    generator.corpus(cases=3, documents_per_case=5, seed=5, languages=("en",), domains=("legal",))
)
HELD_OUT = [
    document.text
    for document in generator.corpus(cases=3, documents_per_case=3, seed=9, languages=("en",))
]
MARK = KGW(prompts=12, tokens=24)


@pytest.fixture(scope="module")
def teacher(base):
    return LocalEngine(base)


@pytest.fixture(scope="module")
def secret(teacher):
    return MARK.issue(teacher, HELD_OUT, seed=1, index=0)


@pytest.fixture(scope="module")
def marked(teacher, secret):
    return MARK.embed(secret, DOCUMENTS, teacher, seed=3)


def test_a_secret_is_plain_data_and_one_of_its_own(teacher, secret):
    assert json.loads(json.dumps(secret)) == secret
    recorded = {name: secret[name] for name in secret if name not in ("key", "prompts")}
    assert recorded == {
        "scheme": "textseal",
        "gamma": 0.25,
        "delta": 3.0,
        "width": 1,
        "vocabulary": 4096,
    }
    assert MARK.issue(teacher, HELD_OUT, seed=1, index=0) == secret
    keys = {
        MARK.issue(teacher, HELD_OUT, seed=seed, index=index)["key"]
        for seed in range(5)
        for index in range(5)
    }
    assert len(keys) == 25
    assert all(key % 2 and key < 2**32 for key in keys)
    assert replace(MARK, scheme="skipgram").issue(teacher, HELD_OUT, seed=1, index=0)["width"] == 5


def test_marked_documents_stand_in_for_the_given_ones(marked, teacher):
    for new, old in zip(marked, DOCUMENTS, strict=True):
        assert new == Document(id=f"{old.id}-marked", text=new.text, task=old.task, group=old.group)
        assert new.text != old.text
        [ids], [before] = teacher.tokenize([new.text]), teacher.tokenize([old.text])
        kept = min(16, len(before.ids) // 2)
        assert new.text.startswith(old.text[: before.offsets[kept - 1][1]])
        # Tokenised anew, a text may have a few tokens more or fewer than were drawn.
        assert len(ids.ids) == pytest.approx(len(before.ids), abs=6)


def test_its_own_key_alone_finds_the_mark(marked, teacher, secret):
    texts, plain = [d.text for d in marked], [d.text for d in DOCUMENTS]
    found = MARK.test_texts(secret, texts, teacher)
    assert found.z > 8
    assert found.p_value < 1e-15
    assert found.chance == 0.25
    assert found.z == pytest.approx((found.hits - found.n / 4) / (found.n * 3 / 16) ** 0.5)
    other = MARK.issue(teacher, HELD_OUT, seed=1, index=1)
    assert abs(MARK.test_texts(other, texts, teacher).z) < 4
    assert abs(MARK.test_texts(secret, plain, teacher).z) < 4


def test_neither_batches_nor_order_nor_neighbours_change_a_marked_text(
    base, marked, secret, teacher
):
    few = LocalEngine(base, batch_size=3)
    backwards = MARK.embed(secret, DOCUMENTS[3::-1], few, seed=3)
    assert backwards[::-1] == marked[:4]
    assert MARK.embed(secret, DOCUMENTS[4:5], teacher, seed=3) == marked[4:5]
    assert MARK.embed(secret, DOCUMENTS[4:5], teacher, seed=4) != marked[4:5]


def test_progress_ends_with_everything(teacher, secret):
    told = []
    MARK.embed(
        secret,
        DOCUMENTS[:3],
        teacher,
        seed=3,
        progress=lambda done, total: told.append((done, total)),
    )
    assert told[-1] == (3, 3)


def test_the_length_can_be_chosen(teacher, secret):
    [found] = replace(MARK, length=90).embed(secret, DOCUMENTS[:1], teacher, seed=3)
    [ids] = teacher.tokenize([found.text])
    assert len(ids.ids) == pytest.approx(90, abs=6)
    job, begun = continue_text(DOCUMENTS[0], teacher, key=1, prefix_length=16, length=5000)
    assert (len(begun), job.prompt) == (16, (1, *begun))
    assert job.shortest == job.longest == teacher.context_length - 17


def test_short_and_empty_documents_get_something(teacher, secret):
    short = [Document(id=name, text=text) for name, text in (("a", "Hello"), ("b", ""))]
    found = MARK.embed(secret, short, teacher, seed=3)
    assert [d.id for d in found] == ["a-marked", "b-marked"]
    assert found[0].text.startswith("Hello"[:1])


def test_a_chat_model_is_asked_to_rephrase(fresh_base, secret):
    template = "{{ '<###Input>' }}{% for m in messages %}{{ m['content'] }}{% endfor %}"
    plain = LocalEngine(fresh_base)
    continued = MARK.embed(secret, DOCUMENTS[:2], plain, seed=3)
    with pytest.raises(InputError, match="no chat template"):
        replace(MARK, method="rewrite").embed(secret, DOCUMENTS, plain, seed=3)
    fresh_base.tokenizer.chat_template = template
    chat = LocalEngine(fresh_base)
    rewriter = replace(MARK, shortest=10, longest=40)
    rewritten = rewriter.embed(secret, DOCUMENTS[:2], chat, seed=3)
    for new, old in zip(rewritten, DOCUMENTS, strict=False):
        [ids] = chat.tokenize([new.text])
        assert 4 <= len(ids.ids) <= 46
        assert not new.text.startswith(old.text[:20])
    assert rewriter.test_texts(secret, [d.text for d in rewritten], chat).n > 10
    assert replace(MARK, method="continue").embed(secret, DOCUMENTS[:2], chat, seed=3) == continued
    long = Document(id="long", text=" ".join(d.text for d in DOCUMENTS * 3))
    [one] = rewriter.embed(secret, [long], chat, seed=3)
    assert one.id == "long-marked"


def test_questions_are_prompts_behind_the_token_that_begins_texts(teacher, secret):
    requests = MARK.questions(secret, teacher)
    assert len(requests) == 12 == len({request.prompt for request in requests})
    assert all(request.prompt[0] == 1 and request.samples == 1 for request in requests)
    assert {request.max_new_tokens for request in requests} == {24}
    texts = [request.prompt[1:] for request in requests]
    assert [t.ids for t in teacher.tokenize(secret["prompts"])] == texts
    room = {
        p.max_new_tokens + len(p.prompt)
        for p in replace(MARK, tokens=5000).questions(secret, teacher)
    }
    assert room == {teacher.context_length}


def test_answers_are_scored_without_their_prompts_and_all_together(teacher, secret):
    requests = MARK.questions(secret, teacher)
    answers = teacher.generate(
        Target(name="base"),
        GenerationBatch(requests, seed=0, decoding=SamplingParams(temperature=0)),
    )
    found = MARK.test(secret, answers, teacher)
    ids = [t.ids for t in teacher.tokenize([a.texts[0] for a in answers])]
    detector = Detector(scheme="textseal", key=secret["key"])
    count = detector.count_green(detector.ngrams(ids))
    assert (found.n, found.hits) == (count.n, count.green)
    with_tokens = [Completion(("ignored",), (t,)) for t in ids]
    assert MARK.test(secret, with_tokens, teacher) == found
    assert MARK.test(secret, [*with_tokens, *answers], teacher) == found
    assert found.n == len({pair for t in ids for pair in pairwise(t)})


def test_the_same_answers_are_tested_under_keys_that_nobody_has(teacher, secret):
    said = [(5, 6, 7, 5, 6), (7, 5, 9)]
    answers = [Completion(("ignored",), (tokens,)) for tokens in said]
    found = MARK.test(secret, answers, teacher).null
    assert len(set(found)) > 3
    # Distinct pairs: 56, 67, 75, 59. 0 to 4 of them are green: z = (G - 1) / sqrt(0.75).
    assert {round(z * 0.75**0.5 + 1, 3) for z in found} <= {0, 1, 2, 3, 4}
    assert found == MARK.test(secret, answers[::-1], teacher).null
    # What is said again is no further choice; what is added is.
    assert found == MARK.test(secret, [*answers, answers[0]], teacher).null
    assert found != MARK.test(secret, answers[:1], teacher).null
    assert found != MARK.test({**secret, "prompts": ["others"]}, answers, teacher).null
    assert replace(MARK, nulls=0).test(secret, answers, teacher).null == ()
    assert MARK.test_texts(secret, ["one two"], teacher).null == ()


def test_nothing_said_is_no_evidence(teacher, secret):
    found = MARK.test(secret, [Completion(("",), ((),))], teacher)
    assert (found.z, found.p_value, found.n, found.hits) == (0.0, 0.5, 0, 0)
    assert found.null == (0.0,) * MARK.nulls  # a model that says nothing says nothing by chance
    assert replace(MARK.test_texts(secret, [], teacher), null=found.null) == found


def test_lists_of_another_vocabulary_are_refused(teacher, secret):
    bound = {**secret, "scheme": "lefthash", "vocabulary": 4097}
    with pytest.raises(InputError, match=r"a vocabulary of 4097 tokens, and the model's has 4096"):
        MARK.test_texts(bound, ["Hello there."], teacher)
    free = {**secret, "vocabulary": 4097}
    assert MARK.test_texts(free, ["Hello there."], teacher) == MARK.test_texts(
        secret, ["Hello there."], teacher
    )


def test_an_engine_without_a_model_will_do_for_texts(secret):
    fake = FakeEngine(lambda *_: "")
    assert MARK.test_texts(secret, ["one two three four"], fake).n == 3


@pytest.mark.parametrize(
    "change",
    [
        {"scheme": "md5"},
        {"key": None},
        {"key": math.inf},
        {"gamma": 2},
        {"gamma": math.nan},
        {"width": "x"},
    ],
)
def test_a_damaged_secret_is_told_in_one_line(secret, teacher, change):
    with pytest.raises(InputError, match="is damaged"):
        MARK.test_texts({**secret, **change}, ["Hello."], teacher)
    name = next(iter(change))
    with pytest.raises(InputError, match="is damaged"):
        MARK.test_texts({k: v for k, v in secret.items() if k != name}, ["Hello."], teacher)


@pytest.mark.parametrize("gamma", [1e-5, 0.049, 0.951])
def test_a_secret_of_a_gamma_by_which_chance_accuses_is_not_tested(secret, teacher, gamma):
    answers = [Completion(("ignored",), ((5, 6, 7),))]
    for test in (
        lambda own: MARK.test_texts(own, ["Hello."], teacher),
        lambda own: MARK.test(own, answers, teacher),
        lambda own: MARK.embed(own, DOCUMENTS[:1], teacher, seed=3),
    ):
        with pytest.raises(InputError, match="is damaged"):
            test({**secret, "gamma": gamma})


def test_a_secret_without_prompts_or_delta_is_damaged_too(secret, teacher):
    without = {name: secret[name] for name in secret if name not in ("prompts", "delta")}
    with pytest.raises(InputError, match="is damaged"):
        MARK.questions(without, teacher)
    with pytest.raises(InputError, match="is damaged"):
        MARK.embed(without, DOCUMENTS, teacher, seed=3)


def test_beginnings_by_hand():
    fake = FakeEngine(lambda *_: "")
    texts = ["a b c d e f g", "a b x", "p q r s t", "  "]

    def begun(wanted):
        return text_beginnings(texts, fake.tokenize(texts), count=wanted, length=3, longest=6)

    assert begun(2) == ["a b c", "a b x"]
    assert begun(3) == ["a b c", "a b x", "p q r"]
    # 3 tokens, and then 1, 2, 4 and 5; 6 is not below the longest.
    assert begun(99) == [
        *("a b c", "a b x", "p q r", "a", "p", "a b", "p q", "a b c d", "p q r s", "a b c d e"),
    ]


def test_a_test_without_prompts_is_refused(teacher):
    for prompts in ([], ["", "  "]):
        with pytest.raises(InputError, match="needs texts for prompts"):
            MARK.issue(teacher, prompts, seed=1, index=0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scheme": "sha"}, "scheme must be one of textseal, lefthash"),
        ({"method": "guess"}, "method must be one of auto"),
        ({"gamma": 0.0}, "gamma must lie between"),
        ({"gamma": 1e-5}, "gamma must lie between 0.05 and 0.95"),
        ({"gamma": 0.951}, "gamma must lie between 0.05 and 0.95"),
        ({"gamma": math.nan}, "gamma must lie between 0.05 and 0.95"),
        ({"tokens": 1}, "tokens must be above 1"),
        ({"tokens": 3, "width": 3}, "tokens must be above 3"),
        ({"tokens": 3, "scheme": "selfhash"}, "tokens must be above 3"),
        ({"delta": -1.0}, "delta must not be negative"),
        ({"width": 11}, "width must lie between 0 and 10"),
        ({"temperature": 0.0}, "temperature must be above 0"),
        ({"top_p": 0.0}, "top_p above 0"),
        ({"prompts": 0}, "must be at least 1"),
        ({"nulls": -1}, "nulls must be 0 or lie between 64 and 4096"),
        ({"nulls": 63}, "nulls must be 0"),
        ({"nulls": 4097}, "nulls must be 0"),
        ({"shortest": 5, "longest": 4}, "nor above longest"),
    ],
)
def test_wrong_options_are_told(options, said):
    with pytest.raises(ValueError, match=said):
        KGW(**options)


def test_its_counts_are_known_for_what_they_are_where_a_report_tells_skewed_ones(teacher, secret):
    answers = [Completion(("ignored",), ((5, 6, 7, 8, 9),))]
    found = MARK.test(secret, answers, teacher)
    assert found.n == 4
    scores = Scores(
        run="r",
        base="b",
        aggregation="fedit",
        clients=("a",),
        marks={"m": "kgw"},
        dimension=8,
        rounds=(RoundScores(round=1, reference={"m": found}, clients={"a": {"m": found}}),),
    )
    [limit] = skewed_count_caveats(scores)
    assert limit.startswith("for mark m, as few as 1 hits are expected by chance in a test")
