"""Steps of fixed shapes say what steps of their own shapes say; a GPU replays them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from standard_models import MODELS, random_model
from test_generation_shared_prefix import ENDS, MANY, PROMPTS, slow, whole

from fedaudit.api.records import GenerationRequest, SamplingParams
from fedaudit.engine.generation import cuda_graphs
from fedaudit.engine.generation import decoding as generate
from fedaudit.engine.generation.cuda_graphs import CudaGraphs, bucket_size
from fedaudit.engine.generation.sequences import SamplingJob

DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
    ),
]


def asked(model, requests, graphs, *, rows=200, decoding=SamplingParams()):
    """Return the tokens of every sample, request by request."""
    job, found = SamplingJob(requests, 3, decoding, ENDS), {}
    for pieces, tokens in generate.decode_refilled(model, job, whole(requests), rows, graphs):
        answers = iter(tokens)
        found |= {p.index: [next(answers) for _ in range(p.last)] for p in pieces}
    return [found[index] for index in range(len(requests))]


def wanted(model, requests, decoding=SamplingParams()):
    return [[slow(model, p, s, decoding) for s in range(p.samples)] for p in requests]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", MODELS)
def test_fixed_shapes_change_no_sample(kind, device):
    model = random_model(kind)
    requests = [
        GenerationRequest(prompt=prompt, samples=samples, max_new_tokens=7)
        for prompt, samples in zip(PROMPTS, (6, 1, 3, 4), strict=True)
    ]
    alone = wanted(model, requests)
    graphs = CudaGraphs(torch.device(device))
    model.to(device)
    for _ in range(3):  # the second time is recorded, the third replayed
        assert asked(model, requests, graphs) == alone


@pytest.mark.parametrize("decoding", [SamplingParams(temperature=0), SamplingParams(top_k=4)])
def test_prompts_that_take_the_place_of_others_say_the_same(decoding):
    model, graphs = random_model("llama"), CudaGraphs(torch.device("cpu"))
    alone = wanted(model, MANY, decoding)
    for rows in (6, 200):
        assert asked(model, MANY, graphs, rows=rows, decoding=decoding) == alone


def addresses(graphs):
    return [tensor.data_ptr() for layer in graphs._layers for tensor in layer._all]


def test_keys_stay_where_they_are_while_they_have_room():
    model, graphs = random_model("llama"), CudaGraphs(torch.device("cpu"))
    asked(model, MANY, graphs, rows=12)
    before = addresses(graphs)
    assert len(before) == 4
    recorded = dict(graphs._runs)
    assert {kind for kind, _ in recorded} == {"step", "draw", "prefill"}
    asked(model, MANY[:4], graphs, rows=12)
    assert addresses(graphs) == before
    assert all(graphs._runs[key] is run for key, run in recorded.items())
    # What wrote to the old place is forgotten with it.
    long = [GenerationRequest(prompt=(1, 9), samples=20, max_new_tokens=40)]
    assert asked(model, long, graphs) == wanted(model, long)
    assert addresses(graphs) != before
    assert not any(run in graphs._runs.values() for run in recorded.values())


def test_few_shapes_are_enough(monkeypatch):
    model, graphs = random_model("llama"), CudaGraphs(torch.device("cpu"))
    requests = [
        GenerationRequest(prompt=(1, 9 + i), samples=12, max_new_tokens=20) for i in range(6)
    ]
    forwards, forward = [], type(model).forward

    def spy(self, **options):
        forwards.append(options["input_ids"].shape)
        return forward(self, **options)

    monkeypatch.setattr(type(model), "forward", spy)
    asked(model, requests, graphs)
    steps = [key for key in graphs._runs if key[0] == "step"]
    assert len(forwards) == 20
    assert len(steps) < len(forwards) - 1
    assert {shape.rows for _, shape in steps} == {shape[1] for shape in forwards[1:]}


def test_what_was_recorded_is_forgotten_where_it_would_be_wrong():
    model, graphs = random_model("llama"), CudaGraphs(torch.device("cpu"))

    def kept(target):
        with graphs.for_target(model, target) as same:
            known = len(same._runs)
            asked(model, MANY[:3], same)
        return known

    assert kept(None) == 0
    assert kept(None) > 0
    assert kept("another") == 0
    assert kept("another") > 0
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.clone(), requires_grad=False)
    assert kept("another") == 0
    with pytest.raises(KeyError), graphs.for_target(model, "another"):
        raise KeyError
    assert graphs._layers == []
    assert kept("another") == 0


def test_the_oldest_of_a_kind_is_forgotten(monkeypatch):
    monkeypatch.setitem(cuda_graphs.MAX_GRAPHS, "prefill", 2)
    graphs = CudaGraphs(torch.device("cpu"))
    for width in (1, 2, 3, 1):
        found = graphs.run("prefill", width, [torch.full((width,), width)], lambda one: one.sum())
        assert int(found) == width**2
        graphs.run("step", width, [torch.ones(width)], torch.sum)
    assert [key for key in graphs._runs if key[0] == "prefill"] == [("prefill", 3), ("prefill", 1)]
    assert len(graphs._runs) == 5


def test_a_buffer_that_grows_is_another():
    graphs, like = CudaGraphs(torch.device("cpu")), torch.zeros(3, 5)
    four = graphs.buffer("logits", 4, like)
    assert four.shape == (4, 5)
    graphs.run("step", 0, [torch.ones(1)], torch.sum)
    assert graphs.buffer("logits", 2, like).data_ptr() == four.data_ptr()
    assert graphs._runs
    assert graphs.buffer("logits", 9, like).shape == (9, 5)
    assert not graphs._runs


@given(st.integers(1, 100_000))
def test_rounded_counts_are_few_and_near(count):
    assert count <= bucket_size(count) <= max(4, 1.25 * count)
    assert bucket_size(bucket_size(count)) == bucket_size(count)
    assert bucket_size(count) <= bucket_size(count + 1)


def test_rounded_counts_by_hand():
    found = sorted({bucket_size(count) for count in range(1, 33)})
    assert found == [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32]
    assert bucket_size(750) == 768
