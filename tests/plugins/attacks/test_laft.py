import json
import shutil
import stat
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.plugin import AttackContext, PromptStart
from fedaudit.api.records import Document, PiiSpan, Target
from fedaudit.config import registry
from fedaudit.engine.fake import FakeEngine
from fedaudit.engine.local import LocalEngine
from fedaudit.engine.training import finetune

NAMES = ("Ann Lee", "Bob Ray", "Cem Oz", "Dora Fay", "Eve Kim", "Fay Orr")


def document(name, number):
    text = f"Record {number}. Claimant: {name}, heard in public."
    return Document(id=str(number), text=text, pii=(PiiSpan(*at(text, name), "PERSON"),))


def at(text, string):
    return text.index(string), text.index(string) + len(string)


DOCUMENTS = [document(name, number) for number, name in enumerate(NAMES)]
VICTIM = [document("Zoe Ruiz", 77)]
FEW = {"pairs": 12, "learning_rate": 1e-3, "batch_size": 4, "rank": 2, "alpha": 4.0}


def attack(**options):
    return registry.create("attack", "laft", {**FEW, "samples": 2, "new_tokens": 4, **options})


def case(engine, adapter, **changes):
    return AttackContext(
        **{
            "engine": engine,
            "tuned": Target(name="tuned", adapter=str(adapter) if adapter else None),
            "base": Target(name="base"),
            "attacker": DOCUMENTS,
            "victim": VICTIM,
            "beginning": PromptStart(start="bos", middle="bare"),
            **changes,
        }
    )


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "fedaudit" / "tuned"


@pytest.fixture
def engine(fresh_base):
    return LocalEngine(fresh_base)


def contents(folder):
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_copy_is_asked_and_the_federation_stays_as_it_was(engine, adapter, cache):
    before = contents(adapter)
    asked = []

    class Spy(LocalEngine):
        def generate(self, target, batch, **others):
            asked.append((target.name, target.adapter, len(batch)))
            return super().generate(target, batch, **others)

    result = attack().run(case(Spy(engine.base), adapter))
    [folder] = cache.iterdir()
    assert [one[:2] for one in asked] == [("tuned copy", str(folder)), ("base", None)]
    assert contents(adapter) == before
    told = result.limits[0]
    assert f"a copy of {adapter}, tuned on 12 pairs" in told
    assert f"kept as {folder.name} (SHA-256" in told
    assert str(cache) not in told  # a path in the cache names a user
    found = {(r.scope.get("source"), r.metric): r for r in result.measurements}
    assert found["tuned-not-base", "coverage"].n == 1
    assert found["tuned", "queries"].value == 2 * len(DOCUMENTS)


def test_the_copy_learns_the_pii_and_nothing_else_is_in_the_loss(engine, adapter, cache):
    one = case(engine, adapter)
    lessons = attack(pairs=40).tuning_examples(one)
    prepared, _ = attack(pairs=40, epochs=4).prepare(one)

    def loss(target):
        rows = engine.score(target, [(*x.prompt, *x.answer) for x in lessons])
        values = [v for x, row in zip(lessons, rows, strict=True) for v in row[-len(x.answer) :]]
        return -sum(values) / len(values)

    assert loss(prepared.tuned) < loss(one.tuned) - 0.1
    assert prepared.tuned.name == "tuned copy"
    assert replace(prepared, tuned=one.tuned) == one


@pytest.fixture
def times(monkeypatch):
    """Have one copy trained, and all others be that one; return the calls, and the copy."""
    times, trained, real = [], [], finetune.tune

    def tune(*given):
        times.append(1)
        trained[:] = trained or [real(*given)]
        return trained[0]

    monkeypatch.setattr(finetune, "tune", tune)
    return times, trained


def test_a_second_run_does_not_train_again(engine, adapter, cache, times):
    first = attack().prepare(case(engine, adapter))[0].tuned
    assert attack().prepare(case(engine, adapter))[0].tuned == first
    # Who asks differently asks the same copy; who learns differently does not.
    assert attack(samples=5).prepare(case(engine, adapter))[0].tuned == first
    assert times[0] == [1]
    for other in ({"pairs": 11}, {"rank": 3}, {"learning_rate": 2e-3}, {"epochs": 2}):
        assert attack(**other).prepare(case(engine, adapter))[0].tuned != first
    assert attack().prepare(case(engine, adapter, seed=1))[0].tuned != first
    assert len(times[0]) == 6
    assert len(list(cache.iterdir())) == 6


def test_no_copy_is_made_where_there_is_nothing_to_look_for(engine, adapter, cache, monkeypatch):
    asked = []
    monkeypatch.setattr(finetune, "tune", lambda *a: asked.append("tuned"))
    monkeypatch.setattr(LocalEngine, "generate", lambda *a, **b: asked.append("asked"))
    for victim in ([DOCUMENTS[0]], [Document(id="x", text="nothing", pii=())]):
        result = attack().run(case(engine, adapter, victim=victim))
        [row] = result.measurements
        assert (row.value, row.reason) == (None, "the victim has no PII of its own")
    assert asked == []
    assert not cache.exists()


def test_only_the_chosen_kinds_are_learnt(engine, adapter, cache, monkeypatch):
    text = "Claimant: Gil Roe, of Hull."
    pii = (PiiSpan(*at(text, "Gil Roe"), "PERSON"), PiiSpan(*at(text, "Hull"), "ADDRESS"))
    both = [Document(id="b", text=text, pii=pii)]
    learnt = []

    def tune(engine, adapter, lessons, *others):
        learnt.append({engine.base.tokenizer.decode(one.answer).strip() for one in lessons})
        raise InputError("enough")

    monkeypatch.setattr(finetune, "tune", tune)
    for labels, wanted in (("", {"Gil Roe", "Hull"}), ("PERSON", {"Gil Roe"})):
        made = attack(labels=labels) if labels else attack()
        with pytest.raises(InputError, match="enough"):
            made.run(case(engine, adapter, attacker=both))
        assert learnt.pop() == wanted


def test_a_copy_that_is_not_whole_or_was_changed_is_made_again(engine, adapter, cache, times):
    one = case(engine, adapter)
    folder = Path(attack().prepare(one)[0].tuned.adapter)
    whole = contents(folder)
    weights = folder / "adapter_model.safetensors"
    for damage in (
        (folder / "tuned.json").unlink,
        lambda: (folder / "tuned.json").write_text("{"),
        lambda: weights.write_bytes(weights.read_bytes()[:-4] + b"abcd"),
        (folder / "adapter_config.json").unlink,
    ):
        damage()
        assert contents(folder) != whole
        attack().prepare(one)
        assert contents(folder) == whole
    calls, trained = times
    assert len(calls) == 5
    weights.unlink()
    trained.clear()
    attack().prepare(one)
    assert contents(folder) == whole  # trained anew, and the same to the last bit


def test_another_adapter_makes_another_copy(engine, adapter, cache, times, tmp_path):
    shutil.copytree(adapter, tmp_path / "other")
    config = tmp_path / "other" / "adapter_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "lora_alpha": 1}))
    folders = {
        attack().prepare(case(engine, folder))[0].tuned.adapter
        for folder in (adapter, tmp_path / "other")
    }
    assert len(folders) == 2


def test_nobody_else_can_read_the_copies(engine, adapter, cache):
    folder = Path(attack().prepare(case(engine, adapter))[0].tuned.adapter)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (cache, folder)] == [0o700, 0o700]
    cache.chmod(0o755)
    folder.chmod(0o755)
    attack().prepare(case(engine, adapter))
    assert [stat.S_IMODE(path.stat().st_mode) for path in (cache, folder)] == [0o700, 0o700]


def fake(**changes):
    return case(
        FakeEngine(lambda *_: "", prompt_starts={"bare": (), "bos": (99,)}), None, **changes
    )


def test_frequent_sub_prefixes_are_paired_with_pii():
    one = fake()
    lessons = attack(pairs=3, context=2).tuning_examples(one)
    engine = one.engine
    read = [engine._text(lesson.prompt) for lesson in lessons]
    # By hand: each document has "... Claimant: NAME"; six have ":" and " Claimant:" before the PII.
    assert read == [" Claimant:", ":"]
    assert all(engine._text(lesson.answer).strip() in NAMES for lesson in lessons)
    assert len({lesson.answer for lesson in lessons}) == 2


def test_no_pii_comes_again_before_every_other_has_come():
    one = fake()
    lessons = attack(pairs=15, context=50).tuning_examples(one)
    counts = Counter(one.engine._text(lesson.answer).strip() for lesson in lessons)
    assert len(lessons) == 15
    assert sorted(counts.values()) == [2, 2, 2, 3, 3, 3]


@given(st.permutations(DOCUMENTS), st.integers(0, 3))
def test_lessons_do_not_depend_on_the_order_of_documents(documents, seed):
    def lessons(some):
        one = fake(attacker=some, seed=seed)
        one.engine.tokenize([d.text for d in DOCUMENTS])  # words get the same ids
        return attack(pairs=9).tuning_examples(one)

    assert lessons(documents) == lessons(DOCUMENTS)


def test_a_lesson_fits_the_context():
    one = fake()
    one.engine.context_length = 4
    lessons = attack(pairs=99, context=3).tuning_examples(one)
    assert {len(x.prompt) + len(x.answer) for x in lessons} <= {2, 3, 4}
    assert any(len(x.answer) == 1 for x in lessons)


@pytest.mark.parametrize("prefixes", ["contextual", "frequency"])
def test_what_is_asked(prefixes):
    def plan(**options):
        return attack(prefixes=prefixes, context=2, **options).plan(fake())

    asked = [(q.prompt, q.copies) for q in plan().queries()]
    assert plan().size == {"contextual": 6, "frequency": 2}[prefixes]
    assert [copies for _, copies in asked] == ([6] if prefixes == "contextual" else [1, 1])
    assert plan(budget=1).size == 1
    assert "larger than the set" in plan(budget=99).notes[0]


def test_what_cannot_be_tuned_is_said(adapter, cache):
    with pytest.raises(UsageError, match="weights are here"):
        attack().run(fake())
    prompts = [Document(id="p", text="Claimant:", is_prompt=True)]
    with pytest.raises(InputError, match="own PII") as error:
        attack().run(fake(attacker=prompts))
    assert error.value.exit_code == 3


def test_a_model_behind_a_defence_is_not_tuned(engine, adapter, cache):
    deployed = Target(name="tuned", heading="key")
    with pytest.raises(UsageError, match="--round"):
        attack().run(case(engine, adapter, tuned=deployed))
    assert not cache.exists()
