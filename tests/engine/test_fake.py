from fedaudit.api.engine import Engine, GenerationBatch
from fedaudit.api.records import GenerationRequest, Target
from fedaudit.engine.fake import FakeEngine

TUNED, BASE = Target(name="tuned", adapter="x"), Target(name="base")
TEXT = "Ann Lee lives, as  far as\nwe know, at 5 原告 Lane."


def echo(target, prompt, sample):
    return f"{target.name}|{prompt}|{sample}"


def test_tokens_cover_the_text_in_order():
    [tokens] = FakeEngine(echo).tokenize([TEXT])
    assert "".join(TEXT[start:end] for start, end in tokens.offsets) == TEXT
    assert [a for _, a in tokens.offsets[:-1]] == [b for b, _ in tokens.offsets[1:]]
    assert len(tokens.ids) == len(tokens.offsets)


def test_equal_words_are_equal_tokens():
    engine = FakeEngine(echo)
    one, two = engine.tokenize(["to be or", "to be"])
    assert one.ids[:2] == two.ids
    assert len(set(one.ids)) == 3
    assert engine.tokenize([""])[0].ids == ()


def test_it_answers_as_programmed_and_remembers_what_it_was_asked():
    engine: Engine = FakeEngine(echo, prompt_starts={"bos": (9999,)})
    prompt = engine.tokenize(["Dear Ann"])[0].ids
    requests = [
        GenerationRequest(prompt=(9999, *prompt), samples=2, max_new_tokens=4),
        GenerationRequest(prompt=prompt, samples=0, max_new_tokens=4),
    ]
    found = engine.generate(TUNED, GenerationBatch(requests, seed=0))
    assert [g.texts for g in found] == [("tuned|<9999>Dear Ann|0", "tuned|<9999>Dear Ann|1"), ()]
    assert engine.asked == [(TUNED, request) for request in requests]
    assert engine.prompt_starts == {"bos": (9999,)}


def test_scores_leave_out_the_first_token_and_see_what_came_before():
    def likelihood(target, token, before):
        return float(len(before)) if target == TUNED else -2.0

    engine = FakeEngine(echo, likelihood=likelihood)
    rows = [t.ids for t in engine.tokenize(["one two three", "one", ""])]
    assert engine.score(TUNED, rows) == [[3.0, 7.0], [], []]
    assert engine.score(BASE, rows) == [[-2.0, -2.0], [], []]
    assert FakeEngine(echo).score(BASE, [[0, 1]]) == [[-1.0]]


def test_progress_is_reported():
    seen = []
    engine = FakeEngine(echo)
    engine.generate(
        BASE,
        GenerationBatch([GenerationRequest(prompt=(0,), samples=1, max_new_tokens=1)], seed=0),
        progress=lambda done, total: seen.append((done, total)),
    )
    engine.score(BASE, [[1], [2]], progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 1), (2, 2)]
