"""What the teacher writes: the bias by hand, and both ways between us and transformers."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fedaudit_plugins.watermarks.kgw.detection import Detector, z_score
from fedaudit_plugins.watermarks.kgw.schemes import SCHEMES, is_green
from fedaudit_plugins.watermarks.kgw.writing import (
    WatermarkLogitsProcessor,
    WritingConfig,
    WritingJob,
    write,
)
from transformers import (
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    WatermarkDetector,
    WatermarkingConfig,
)

from fedaudit.api.records import SamplingParams

VOCABULARY, NEW = 300, 60
THEIRS = {"lefthash": "lefthash", "selfhash": "hf-selfhash"}


@pytest.fixture(scope="module")
def llama():
    """Return a tiny model with random weights, and a teacher's shape around it."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        bos_token_id=1,
        eos_token_id=2,
        initializer_range=0.3,
    )
    model = LlamaForCausalLM(config).eval()
    base = SimpleNamespace(model=model)
    return SimpleNamespace(model=model, base=base, rows=512, tokens=32_768)


def style(scheme, *, key=15485863, delta=4.0, width=0, vocabulary=VOCABULARY, **changes):
    mark = Detector(scheme=scheme, key=key, vocabulary=vocabulary, width=width)
    settings = {"decoding": SamplingParams(), "ends": (2,), "banned": (0, 1), **changes}
    return WritingConfig(detector=mark, delta=delta, **settings)


def jobs(count, new=NEW):
    return [WritingJob((1, 10 + i, 20 + 3 * i), new, new, 1000 + i) for i in range(count)]


def counted(detector, texts):
    return detector.count_green(detector.ngrams(texts))


def config_of(scheme, width=1):
    return WatermarkingConfig(
        greenlist_ratio=0.25, bias=4.0, seeding_scheme=scheme, context_width=width
    )


def verdict(llama, config, text):
    detector = WatermarkDetector(llama.model.config, "cpu", config)
    return detector(torch.tensor([text]), return_dict=True)


@pytest.mark.parametrize(("scheme", "width"), [("lefthash", 1), ("lefthash", 3), ("selfhash", 2)])
def test_we_find_what_transformers_marks(llama, scheme, width):
    config = config_of(scheme, width)
    prompt = torch.tensor([[1, 10, 20], [1, 11, 23]])
    torch.manual_seed(3)
    found = llama.model.generate(
        input_ids=prompt,
        attention_mask=torch.ones_like(prompt),
        watermarking_config=config,
        generation_config=GenerationConfig(
            do_sample=True, min_new_tokens=NEW, max_new_tokens=NEW, eos_token_id=2, pad_token_id=2
        ),
    )
    for row in found[:, 3:].tolist():
        theirs = verdict(llama, config, row)
        ours = Detector(
            scheme=THEIRS[scheme],
            key=15485863,
            vocabulary=VOCABULARY,
            width=width,
        )
        count = ours.count_green(ours.windows([row]))
        assert (count.n, count.green) == (
            theirs.num_tokens_scored[0],
            theirs.num_green_tokens[0],
        )
        assert z_score(count, 0.25) == pytest.approx(theirs.z_score[0], rel=1e-9)
        assert z_score(count, 0.25) > 4


@pytest.mark.parametrize(("scheme", "width"), [("lefthash", 1), ("selfhash", 2)])
def test_transformers_finds_what_we_mark(llama, scheme, width):
    marked = write(llama, jobs(3), style(THEIRS[scheme], width=width))
    for row in marked:
        assert len(row) == NEW
        assert verdict(llama, config_of(scheme, width), row).z_score[0] > 4
        other = WatermarkingConfig(
            greenlist_ratio=0.25, hashing_key=991, seeding_scheme=scheme, context_width=width
        )
        assert abs(verdict(llama, other, row).z_score[0]) < 4


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_is_found_by_its_key_alone(llama, scheme):
    chosen = style(scheme, key=77)
    marked = write(llama, jobs(3), chosen)
    assert z_score(counted(chosen.detector, marked), 0.25) > 6
    wrong = Detector(scheme=scheme, key=79, vocabulary=VOCABULARY)
    assert abs(z_score(counted(wrong, marked), 0.25)) < 4
    unmarked = write(llama, jobs(3), style(scheme, key=77, delta=0.0))
    right = Detector(scheme=scheme, key=77, vocabulary=VOCABULARY)
    assert abs(z_score(counted(right, unmarked), 0.25)) < 4


LOGITS = (2.0, 1.0, 0.5, 0.0, -1.0)


def by_hand(scheme, green, temperature, top_p, delta):
    """Return the probabilities of five tokens, as the scheme's own program draws them."""
    logits = np.array(LOGITS) + (delta * green if scheme == "lefthash" else 0)
    chances = np.exp(logits / temperature)
    chances /= chances.sum()
    order = np.argsort(-chances)
    ahead = np.cumsum(chances[order]) - chances[order]
    chances[order[ahead >= top_p]] = 0
    if scheme == "textseal":
        chances = chances * np.exp(delta * green)
    return chances / chances.sum()


@pytest.mark.parametrize("scheme", ["lefthash", "textseal"])
def test_tokens_are_drawn_as_by_hand(scheme):
    rows, decoding = 20_000, SamplingParams(temperature=0.7, top_p=0.9)
    made = style(scheme, delta=1.5, vocabulary=5, decoding=decoding, ends=(), banned=())
    ids = torch.tensor([[3]]).expand(rows, 1)
    marking = WatermarkLogitsProcessor(
        made, [WritingJob((3,), 9, 9, key) for key in range(rows)], 1
    )
    forced = marking(ids, torch.tensor([LOGITS]).expand(rows, 5))
    assert (forced == 0).sum() == rows
    settings = {"vocabulary": 5, "gamma": 0.25, "key": 15485863}
    green = is_green(scheme, np.array([3]), np.arange(5), **settings)
    assert 0 < green.sum() < 5
    wanted = by_hand(scheme, green, 0.7, 0.9, 1.5)
    counts = torch.bincount(forced.argmax(-1), minlength=5).numpy()
    # Five standard deviations of a share are at most 5 * 0.5 / sqrt(20000) = 0.018.
    assert counts / rows == pytest.approx(wanted, abs=0.018)
    assert (counts[wanted == 0] == 0).all()
    plain = by_hand(scheme, green, 0.7, 0.9, 0.0)
    assert abs(wanted - plain).max() > 0.05


@pytest.mark.parametrize("scheme", ["minhash", "textseal"])
def test_a_row_without_a_whole_window_is_not_biased(scheme):
    made = style(scheme, width=4)
    rows = [WritingJob((5, 6), 9, 9, 1), WritingJob((5, 6, 7, 8), 9, 9, 2)]
    ids = torch.tensor([[0, 0, 5, 6], [5, 6, 7, 8]])
    bias = WatermarkLogitsProcessor(made, rows, 4).bias(ids, torch.zeros(2, VOCABULARY))
    assert not bias[0].any()
    assert set(bias[1].tolist()) == {0.0, 4.0}
    assert (
        not WatermarkLogitsProcessor(made, rows, 2)
        .bias(ids[:, 2:], torch.zeros(2, VOCABULARY))
        .any()
    )


def test_selfhash_judges_the_likeliest_candidates_alone():
    logits = torch.arange(VOCABULARY, 0, -1).float()[None]
    for scheme, most in (("selfhash", 41), ("hf-selfhash", 40)):
        marking = WatermarkLogitsProcessor(style(scheme, width=3), [WritingJob((5, 6), 9, 9, 1)], 2)
        bias = marking.bias(torch.tensor([[5, 6]]), logits)[0]
        settings = {"vocabulary": VOCABULARY, "gamma": 0.25, "key": 15485863}
        green = is_green(scheme, np.array([5, 6]), np.arange(VOCABULARY), **settings)
        assert green[most:].any()
        green[most:] = False
        assert (bias.numpy() > 0).tolist() == green.tolist()


def test_texts_end_between_shortest_and_longest(llama):
    many = [WritingJob((1, 10 + i), 3, 12, i) for i in range(60)]
    lengths = [len(row) for row in write(llama, many, style("textseal", ends=(2, 3, 4, 5, 6, 7)))]
    assert min(lengths) >= 3
    assert max(lengths) == 12
    assert min(lengths) < 12
    exact = [WritingJob((1, 10 + i), 1 + i, 1 + i, i) for i in range(20)]
    for ends in ((2,), ()):
        found = write(llama, exact, style("textseal", ends=ends))
        assert [len(row) for row in found] == list(range(1, 21))
        assert not {0, 1} & {token for row in found for token in row}


def test_the_models_own_advice_and_the_global_generator_do_not_matter(llama):
    plain = write(llama, jobs(3), style("textseal"))
    before = llama.model.generation_config
    state = torch.random.get_rng_state()
    try:
        llama.model.generation_config = GenerationConfig(
            do_sample=True, temperature=0.3, top_p=0.4, top_k=3, repetition_penalty=1.9
        )
        torch.manual_seed(123)
        assert write(llama, jobs(3), style("textseal")) == plain
    finally:
        llama.model.generation_config = before
        torch.random.set_rng_state(state)


@pytest.mark.parametrize("scheme", ["textseal", "lefthash"])
def test_batches_and_order_change_nothing(llama, scheme):
    rng = np.random.default_rng(0)
    mixed = [
        WritingJob(
            (1, *rng.integers(3, 300, int(rng.integers(1, 20))).tolist()), 5 + i % 7, 5 + i % 7, i
        )
        for i in range(12)
    ]
    together = write(llama, mixed, style(scheme))
    one_by_one = SimpleNamespace(**{**vars(llama), "rows": 1})
    assert write(one_by_one, mixed[::-1], style(scheme))[::-1] == together
