"""Training on prefix trees: the loss and gradients of padded batches, for every kind of model."""

from itertools import accumulate

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from standard_models import GROUPED, MODELS, random_model
from transformers import MistralConfig, MistralForCausalLM

from fedaudit.engine import architecture
from fedaudit.engine.training import loss as losses
from fedaudit.engine.training.loss import (
    BatchLoss,
    PrefixTree,
    mean_loss,
    pad_batch,
    supports_prefix_trees,
    tree_loss,
)

SEQUENCES = [
    [5, 9, 30, 7, 8, 4],
    [5, 9, 4],
    [5, 9, 30, 8],
    [17, 2, 20, 44, 3],
    [5, 9, 4],  # a second time
    [5, 9, 30],  # how others begin
]
READ = {"all": [0] * 6, "some": [2, 0, 1, 0, 2, 2], "few": [5, 2, 3, 4, 2, 2]}
ROWS = st.lists(
    st.tuples(st.lists(st.integers(1, 3), min_size=1, max_size=6), st.integers(0, 6)),
    min_size=1,
    max_size=6,
)


def gradients(loss, model):
    weights = dict(model.named_parameters())
    found = torch.autograd.grad(loss, list(weights.values()), allow_unused=True)
    return dict(zip(weights, found, strict=True))


def test_a_tree_by_hand():
    tree = PrefixTree.from_sequences([[1, 2, 3], [1, 2, 4, 5], [1, 2]], [2, 0, 0])
    # Last in the alphabet first: 1 2 4 5, then 3 behind the same 1 2; nothing of 1 2 is new.
    assert tree.tokens.tolist() == [1, 2, 4, 5, 3]
    assert tree.rows.tolist() == [[0, 1, 2, 3], [0, 1, 4, 0]]
    assert tree.positions.tolist() == [0, 1, 2, 3, 2]
    assert tree.label_counts.tolist() == [
        0,
        2,
        1,
        1,
        1,
    ]  # 2 by two of three, the first token by none
    nodes, before = tree.predictions()
    assert (nodes.tolist(), before.tolist()) == ([1, 2, 3, 4], [0, 1, 2, 1])
    assert not PrefixTree.from_sequences([range(9)], [0]).has_sparse_labels()
    assert PrefixTree.from_sequences([range(9)], [4]).has_sparse_labels()


@given(ROWS)
def test_nodes_are_the_distinct_prefixes(rows):
    sequences, read = [row for row, _ in rows], [begin for _, begin in rows]
    tree = PrefixTree.from_sequences(sequences, read)
    prefixes = {tuple(row[: i + 1]) for row in sequences for i in range(len(row))}
    assert len(tree.tokens) == len(prefixes)
    rest = set(prefixes)
    for nodes in tree.rows.tolist():
        texts = accumulate([int(tree.tokens[node])] for node in nodes)
        rest -= {tuple(text) for text in texts}
    assert not rest
    learned = sum(len(row[max(1, begin) :]) for row, begin in rows)
    assert tree.label_counts.sum() == learned
    assert PrefixTree.from_sequences(sequences[::-1], read[::-1]).label_counts.sum() == learned


def test_every_kind_is_tested():
    assert set(MODELS) == set(architecture.KINDS)


@pytest.mark.parametrize("kind", MODELS)
def test_loss_and_gradients_are_those_of_the_padded_batch(kind, monkeypatch):
    model = random_model(kind).requires_grad_(True)
    assert supports_prefix_trees(model)
    before = model.config._attn_implementation
    for case, read in READ.items():
        padded = mean_loss(model, pad_batch(SEQUENCES, read, "cpu"))
        wanted = gradients(padded, model)
        for few in (True, False):  # the last layer at some positions, or at all
            monkeypatch.setattr(PrefixTree, "has_sparse_labels", lambda tree, few=few: few)
            shared = tree_loss(model, PrefixTree.from_sequences(SEQUENCES, read))
            assert float(shared.detach()) == pytest.approx(float(padded.detach()), rel=1e-5)
            for name, found in gradients(shared, model).items():
                torch.testing.assert_close(
                    found, wanted[name], rtol=1e-3, atol=1e-5, msg=f"{case}, {few}: {name}"
                )
    assert model.config._attn_implementation == before
    assert not any(m._forward_pre_hooks or m._forward_hooks for m in model.modules())


def test_half_precision_attends_in_float32_on_a_cpu(monkeypatch):
    """Gradients are no further from those of float32 than the padded batch's in bfloat16."""
    seen = []
    attend = losses.sdpa_attention_forward

    def watched(module, query, *remaining, **options):
        seen.append(query.dtype)
        return attend(module, query, *remaining, **options)

    monkeypatch.setattr(losses, "sdpa_attention_forward", watched)
    tree = PrefixTree.from_sequences(SEQUENCES, READ["all"])
    model = random_model("llama").requires_grad_(True)
    exact = gradients(tree_loss(model, tree), model)
    model.to(torch.bfloat16)

    def distance(loss):
        found = gradients(loss, model)
        return sum(float((found[name].float() - exact[name]).norm()) for name in exact)

    padded = distance(mean_loss(model, pad_batch(SEQUENCES, READ["all"], "cpu")))
    assert distance(tree_loss(model, tree)) <= 1.1 * padded
    assert set(seen) == {torch.float32}


def test_the_last_layer_computes_what_is_learned_only():
    model, seen = random_model("llama"), []
    first, last = (layer.mlp.up_proj for layer in model.model.layers)
    for part in (first, last, model.model.layers[-1].self_attn.k_proj):
        part.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0].shape[1]))
    tree_loss(model, PrefixTree.from_sequences(SEQUENCES, READ["few"]))
    # 13 distinct prefixes; 5 9 (before 4 and before 30), 5 9 30, 5 9 30 7 8 and 17 2 20 44 predict.
    assert seen == [13, 13, 4]


@pytest.mark.parametrize("shared", [True, False])
def test_a_batch_is_a_tree_where_that_saves_tokens(shared, monkeypatch):
    model, trees = random_model("llama"), []
    monkeypatch.setattr(losses, "tree_loss", lambda *given: trees.append(1) or tree_loss(*given))
    sequences = SEQUENCES if shared else [[5, *range(9, 19)], [6, *range(9, 19)]]
    read = [0] * len(sequences)
    found = float(BatchLoss(model)(sequences, read).detach())
    expected = float(mean_loss(model, pad_batch(sequences, read, "cpu")).detach())
    assert found == pytest.approx(expected, rel=1e-5)
    assert len(trees) == shared


def test_models_of_another_kind_are_padded():
    sliding = MistralForCausalLM(MistralConfig(**GROUPED, sliding_window=3)).requires_grad_(False)
    assert not supports_prefix_trees(sliding)
    read = READ["some"]
    expected = float(mean_loss(sliding, pad_batch(SEQUENCES, read, "cpu")))
    assert float(BatchLoss(sliding)(SEQUENCES, read)) == expected


def test_dropout_checkpoints_and_eager_attention_are_left_alone():
    dropping = random_model("gpt2")
    assert supports_prefix_trees(dropping)  # nothing drops out in evaluation mode
    assert not supports_prefix_trees(dropping.train())
    checkpointed = random_model("llama").train()
    assert supports_prefix_trees(checkpointed)
    older = checkpointed.gradient_checkpointing_enable
    enable = getattr(checkpointed, "activation_checkpointing_enable", older)
    enable({"use_reentrant": False})
    assert not supports_prefix_trees(checkpointed)
    eager = random_model("llama")
    eager.config._attn_implementation = "eager"
    assert not supports_prefix_trees(eager)
    weights = random_model("llama")
    weights.config.attention_dropout = 0.1
    assert not supports_prefix_trees(weights.train())
