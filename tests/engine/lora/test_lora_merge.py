"""An adapter inside the weights answers as it does beside them, and leaves no trace there."""

import json
from dataclasses import replace

import pytest
import random_models
import tiny_models
import torch

from fedaudit.api.engine import GenerationBatch
from fedaudit.api.errors import InputError
from fedaudit.api.records import GenerationRequest, SamplingParams, Target
from fedaudit.engine import local
from fedaudit.engine.loading import module_patterns
from fedaudit.engine.local import LocalEngine
from fedaudit.engine.lora.merge import MAX_MERGED
from fedaudit.federation import adapters

BASE = Target(name="base")
UNPADDED = dict(random_models.UNPADDED)
ROWS = [
    [1, 9, 30, 7],
    [5, 6],
    [40, 41, 42, 43, 44, 45, 46, 47, 48],
    [40, 41, 42, 43, 44, 45, 46, 3],
]
PROBES = [GenerationRequest(prompt=tuple(row), samples=4, max_new_tokens=9) for row in ROWS]


@pytest.fixture(params=["llama", "tied", "gpt2"])
def tiny(base, request):
    if request.param == "gpt2":
        return lambda: tiny_models.gpt2(base.tokenizer)
    return lambda: tiny_models.llama(base.tokenizer, tied=request.param == "tied")


one_kind = pytest.mark.parametrize("tiny", ["llama"], indirect=True)
"""For what is the same whatever the layers."""


@pytest.fixture
def folder(tiny, tmp_path):
    return tiny_models.write(tiny(), tmp_path / "adapter", r=4, lora_alpha=6, seed=2)


def target(folder):
    return Target(name="tuned", adapter=str(folder))


def beside(made):
    """Return an engine that leaves adapters beside the weights, as PEFT does."""
    engine = LocalEngine(made)
    engine.merging.possible = False
    return engine


def flat(rows):
    return torch.tensor([one for row in rows for one in row])


def test_a_pattern_that_hangs_on_other_modules_is_refused(base, tmp_path, monkeypatch):
    """The adapter's own modules are told apart at once; the names of others take for ever."""
    monkeypatch.setattr(module_patterns, "SECONDS", 0.5)
    folder = tiny_models.write(tiny_models.llama(base.tokenizer), tmp_path / "adapter", r=4)
    config = json.loads((folder / adapters.CONFIG).read_text())
    config["exclude_modules"] = r"(?!.*proj)([a-z_.0-9]+)+!"
    (folder / adapters.CONFIG).write_text(json.dumps(config))
    with pytest.raises(InputError, match="pattern of modules"):
        LocalEngine(tiny_models.llama(base.tokenizer)).generate(
            target(folder), GenerationBatch(PROBES, seed=3)
        )


def test_it_answers_as_peft_does(tiny, folder):
    inside, outside = LocalEngine(tiny()), beside(tiny())
    assert inside.merging.weights(str(folder)) is not None
    one = target(folder)
    assert inside.generate(one, GenerationBatch(PROBES, seed=3)) == outside.generate(
        one, GenerationBatch(PROBES, seed=3)
    )
    torch.testing.assert_close(flat(inside.score(one, ROWS)), flat(outside.score(one, ROWS)))
    [group], [other] = (e.score_groups(one, [ROWS[2:]]) for e in (inside, outside))
    torch.testing.assert_close(flat(group), flat(other))
    assert outside.score(one, ROWS)[0] != pytest.approx(outside.score(BASE, ROWS)[0], abs=1e-3)


@pytest.mark.parametrize("kind", ["mamba", "jamba"])
def test_layers_whose_weights_the_model_reads_itself(base, tmp_path, kind):
    """Mamba multiplies by dt_proj.weight without calling the layer: PEFT has no effect there."""
    made = tiny_models.ready(random_models.made(kind, UNPADDED[kind]), base.tokenizer)
    folder = tiny_models.write(made, tmp_path / "adapter", r=4, target_modules=["dt_proj"])
    inside, one = LocalEngine(made), target(folder)
    assert inside.merging.weights(str(folder)) is None
    scores = flat(inside.score(one, ROWS))
    torch.testing.assert_close(scores, flat(inside.score(BASE, ROWS)))
    called = tiny_models.write(made, tmp_path / "called", r=4, target_modules=["x_proj"])
    assert inside.merging.weights(str(called)) is not None


def test_the_base_is_what_it_was_to_the_last_bit(tiny, folder):
    engine = LocalEngine(tiny())
    before = {name: weight.clone() for name, weight in engine.base.model.named_parameters()}
    scores = engine.score(BASE, ROWS)
    tuned = engine.score(target(folder), ROWS)
    assert engine.score(BASE, ROWS) == scores
    assert engine.score(target(folder), ROWS) == tuned != scores
    after = dict(engine.base.model.named_parameters())
    assert all(torch.equal(after[name], weight) for name, weight in before.items())


@one_kind
def test_a_failure_leaves_the_base_too(tiny, folder, monkeypatch):
    engine = LocalEngine(tiny())
    scores = engine.score(BASE, ROWS)

    def fails(*given):
        raise OSError("no more")

    with monkeypatch.context() as patched:
        patched.setattr(local.scheduler, "score_all", fails)
        with pytest.raises(OSError, match="no more"):
            engine.score(target(folder), ROWS)
    assert engine.score(BASE, ROWS) == scores


@one_kind
@pytest.mark.parametrize("many", [1, 10**9], ids=["in turn", "together"])
def test_whoever_looks_on_may_fail_and_keep_the_error(tiny, folder, monkeypatch, many):
    """A kept traceback holds every frame below, and with it what they have not closed."""
    monkeypatch.setattr(local, "MIN_MERGED_QUESTIONS", many)
    engine = LocalEngine(tiny())
    scores = engine.score(BASE, ROWS)

    def fails(*given):
        raise KeyError("looking on")

    with pytest.raises(KeyError) as kept:
        engine.answers([target(folder)], ROWS, new=3, progress=fails)
    assert engine.score(BASE, ROWS) == scores
    assert kept.value.__traceback__ is not None


@one_kind
def test_peft_around_the_layers_does_not_matter(tiny, folder, tmp_path):
    """What a gradient or a tuning asked for before stays where it is."""
    engine = LocalEngine(tiny())
    wanted = engine.score(target(folder), ROWS), engine.score(BASE, ROWS)
    other = tiny_models.write(tiny(), tmp_path / "other", r=2, seed=9)
    with engine.activate(target(other)):
        pass
    assert (engine.score(target(folder), ROWS), engine.score(BASE, ROWS)) == wanted


@one_kind
def test_few_adapters_are_remembered_and_changed_ones_are_read_again(tiny, tmp_path):
    engine = LocalEngine(tiny())
    folders = [
        tiny_models.write(tiny(), tmp_path / str(seed), r=2, seed=seed)
        for seed in range(MAX_MERGED + 2)
    ]
    first = [engine.score(target(one), ROWS) for one in folders]
    assert len(engine.merging._known) == MAX_MERGED
    assert [engine.score(target(one), ROWS) for one in folders] == first
    tensors = adapters.read(folders[1])
    adapters.write(tensors, adapters.check(folders[1]), folders[0])
    assert engine.score(target(folders[0]), ROWS) == first[1]


@pytest.mark.parametrize("how", ["dora", "half"])
def test_what_is_no_sum_of_weights_stays_beside_them(base, tmp_path, how):
    made = tiny_models.llama(base.tokenizer)
    options = {"use_dora": True} if how == "dora" else {}
    written = tiny_models.write(made, tmp_path / "odd", target_modules=("q_proj",), **options)
    if how == "half":
        made = replace(made, model=made.model.to(torch.bfloat16))
    engine = LocalEngine(made)
    assert engine.merging.weights(str(written)) is None
    assert engine.score(target(written), ROWS) != engine.score(BASE, ROWS)


def test_an_adapter_of_another_base_is_refused_as_before(base, tmp_path):
    other = tiny_models.llama(base.tokenizer, hidden=16)
    foreign = tiny_models.write(other, tmp_path / "foreign", target_modules=("q_proj",))
    with pytest.raises(InputError, match="foreign"):
        LocalEngine(tiny_models.llama(base.tokenizer)).score(target(foreign), ROWS)
    with pytest.raises(InputError, match="nowhere"):
        LocalEngine(tiny_models.llama(base.tokenizer)).score(target(tmp_path / "nowhere"), ROWS)


@pytest.mark.parametrize(
    "decoding", [SamplingParams(temperature=0), SamplingParams()], ids=["greedy", "drawn"]
)
def test_many_questions_are_answered_alike_one_adapter_at_a_time(
    tiny, folder, tmp_path, monkeypatch, decoding
):
    other = tiny_models.write(tiny(), tmp_path / "other", r=3, seed=5)
    asked = [target(folder), BASE, target(other)]
    together = LocalEngine(tiny()).answers(asked, ROWS, new=9, decoding=decoding)
    monkeypatch.setattr(local, "MIN_MERGED_QUESTIONS", len(ROWS))
    told = []
    apart = LocalEngine(tiny(), batch_size=3).answers(
        asked, ROWS, new=9, decoding=decoding, progress=lambda *event: told.append(event)
    )
    assert apart == together
    assert told[-1] == (len(ROWS), len(ROWS))
    assert len({tuple(row) for row in together}) == 3
