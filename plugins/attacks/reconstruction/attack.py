"""Reconstruction from updates: whole records out of the span of what clients send.

DAGER (arXiv:2405.15586) on the A matrices of LoRA: the server has the global adapter of a round and
what a client made of it; with secure aggregation, the sum of several clients' changes; a member has
the next global adapter, a mean of them. Several steps, an adaptive optimizer or too many tokens
give a change of full rank, in whose span everything lies. The first layer's may still be a
combination of so few tokens' inputs that no others can be behind it: embeddings do not change from
step to step. Then the tokens are known, without their order (the word bag that UTR,
arXiv:2601.17533, takes from frozen layers). Otherwise it is said that nothing can be told.

The first layer's inputs are embeddings, which each token of the vocabulary is tried as. In a causal
model the second layer's input at a place follows from the tokens up to there, so that texts grow by
one token at a time (DAGER, arXiv:2405.15586, section 4.3, on decoders).
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from fedaudit.api import (
    Attack,
    AttackContext,
    Cost,
    Counts,
    Document,
    Finding,
    InputError,
    Measurement,
    Result,
    RoundUpdate,
    Target,
    Tokens,
    unwrap_engine,
)
from fedaudit.metrics.privacy.read_part import tokens_to_read

from .span import UpdateSpan, recover_inputs, update_span

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from fedaudit.engine.local import LocalEngine

    Matrices = Mapping[str, torch.Tensor]

ROOT, A = "base_model.model.", ".lora_A.weight"
KIND, RATE, TOKENS = "reconstruction", "reconstruction_rate", "token_rate"
NO_START = (
    "the global model with which the round began is not at hand: only rounds after the first can "
    "be inverted"
)
NO_WEIGHTS = "the model's weights are not in this process"
NO_MODULES = "LoRA is on no query, key or value projection, whose inputs could be recognised"


@dataclass(frozen=True, kw_only=True)
class Reconstruction(Attack):
    """Read the records of one training step out of the span of a client's update."""

    name: ClassVar[str] = "reconstruction"
    paper: ClassVar[str] = "DAGER, arXiv:2405.15586, sections 4.1 to 4.3"
    reads_updates: ClassVar[bool] = True
    reads_rounds: ClassVar[bool] = True
    needs = frozenset({"weights"})

    tokens: int = 256
    """The most tokens of a text that is put together."""

    def __post_init__(self) -> None:
        if self.tokens < 2:
            raise ValueError("tokens must be at least 2.")

    def cost(self, counts: Counts) -> Cost:
        """Return no questions: updates are read, and inputs of the first two layers computed."""
        return Cost()

    def run(self, context: AttackContext) -> Result:
        """Invert the update of every client in the round of the audited model."""
        from fedaudit.engine.local import LocalEngine

        engine = unwrap_engine(context.engine, LocalEngine)
        if engine is None:
            return Result(measurements=(_missing(NO_WEIGHTS, {}),))
        if not context.updates:
            raise InputError(f"{self.name} needs the updates of clients.")
        rows: list[Measurement] = []
        findings: list[Finding] = []
        revealed: list[Mapping[str, str]] = []
        hidden: dict[str, list[RoundUpdate]] = {}
        limits: list[str] = []
        known = [d for update in context.updates for d in update.documents]
        tokens_of = _tokens(engine, [*known, *(context.held_out or ()), *context.control])
        longer = 0
        trained = context.trained_tokens
        room = tokens_to_read(
            engine.context_length, len(context.with_start((), at_start=True)), trained=trained
        )
        # Only what training read of a record can be behind an update.
        ids_of = {text: row.ids[:room] for text, row in tokens_of.items() if room > 1}
        for update in context.updates:
            scope: dict[str, object] = {"client": update.name, "view": update.view}
            start = context.rounds.get(update.round - 1)
            found = _invert(engine, start, update, self.tokens)
            if isinstance(found, str):
                hidden.setdefault(found, []).append(update)
                continue
            texts = {document.text for document in update.documents}
            owned = {text: ids for text, ids in ids_of.items() if text in texts}
            others = {text: ids for text, ids in ids_of.items() if text not in texts}
            recovered, metric = [text for text, ids in owned.items() if found.gives(ids)], RATE
            longer += sum(len(tokens_of[text].ids) > len(ids) for text, ids in owned.items())
            if found.given_up and not recovered:
                hidden.setdefault(found.given_up, []).append(update)
            else:
                rows += self._rows(scope, found, owned, others, recovered)
            if not recovered:
                recovered = [text for text, ids in owned.items() if found.has_tokens(ids)]
                metric = TOKENS
                rows += self._rates(scope, TOKENS, owned, others, found.has_tokens)
            elif found.given_up:
                limits.append(f"{self.name}: {update.name}: {found.given_up}; more may come out.")
            for text in recovered:
                count = len(owned[text])
                out = text[: tokens_of[text].offsets[count - 1][1]]
                evidence = {"text": out, "tokens": count, "rank": found.span.rank}
                name = f"{self.name}-{update.name}-{len(findings) + 1:04d}"
                findings.append(self._finding(name, metric, evidence))
                revealed.append({"id": name, "label": "DOCUMENT", "text": out})
        for reason, updates in hidden.items():
            names = _names(updates)
            rows += [_missing(reason, {"client": name, "view": updates[0].view}) for name in names]
            limits.append(
                f"{self.name}: no text can be told of the update of {', '.join(names)}: {reason}."
            )
        return Result(
            measurements=tuple(rows),
            findings=tuple(findings),
            limits=(*limits, *_reading_limits(self.name, trained and room, longer, len(known))),
            revealed=tuple(revealed),
        )

    def _finding(self, name: str, metric: str, evidence: Mapping[str, object]) -> Finding:
        return Finding(
            id=name,
            severity="high" if metric == RATE else "medium",
            label="DOCUMENT",
            measurement=f"{self.name} {metric}",
            evidence=evidence,
        )

    def _rows(
        self,
        scope: Mapping[str, object],
        found: "InvertedUpdate",
        owned: Mapping[str, Sequence[int]],
        others: Mapping[str, Sequence[int]],
        recovered: Sequence[str],
    ) -> Iterator[Measurement]:
        """Yield how many records came out, of the members' and of others, and a p value.

        A token that is in none of the members' records is inside the span with a chance of at most
        f. Were none of the records in the update, all T tokens of some record would be inside with
        a chance of at most n f^T, whatever the second layer says.
        """
        yield from self._rates(scope, RATE, owned, others, found.gives)
        theirs = {token for ids in owned.values() for token in ids}
        strangers = set(range(found.vocabulary)) - theirs
        chance = (len(strangers & set(found.tokens)) + 1) / (len(strangers) + 1)
        longest = max((len(set(owned[text][:-1])) for text in recovered), default=0)
        p = min(1.0, len(owned) * chance**longest) if longest else 1.0
        yield Measurement(
            kind=KIND, plugin=self.name, metric="p_value", value=max(p, 1e-300), n=len(owned),
            scope={**scope, "source": "tuned"},
        )  # fmt: skip

    def _rates(
        self,
        scope: Mapping[str, object],
        metric: str,
        owned: Mapping[str, Sequence[int]],
        others: Mapping[str, Sequence[int]],
        comes_out: Callable[[Sequence[int]], bool],
    ) -> Iterator[Measurement]:
        """Yield how many of the members' records come out, and of others."""
        rate = partial(Measurement.rate, kind=KIND, plugin=self.name, metric=metric)
        yield rate(
            sum(map(comes_out, owned.values())),
            len(owned),
            scope={**scope, "source": "tuned"},
            reason="no record of two tokens is at hand of those who trained",
        )
        if others:
            hits = sum(map(comes_out, others.values()))
            yield rate(hits, len(others), scope={**scope, "source": "control"})


def _reading_limits(name: str, room: int, longer: int, records: int) -> Iterator[str]:
    """Yield what of records was compared: training read `room` tokens of each, 0 if unknown."""
    if not room and records:
        yield (
            f"{name}: how many tokens of a record training read is not stated: a record counts as "
            "recovered where all of it came out, so that one that was cut cannot."
        )
    elif longer:
        yield (
            f"{name}: training read the first {room:,} tokens of a record; {longer:,} records are "
            "longer, and count as recovered where these came out."
        )


def _names(updates: Sequence[RoundUpdate]) -> list[str]:
    """Return the names of updates; several sums are one name, since there may be hundreds."""
    if updates[0].view == "sum" and len(updates) > 1:
        return [f"{len(updates)} sums of clients"]
    return [update.name for update in updates]


def _missing(reason: str, scope: Mapping[str, object]) -> Measurement:
    return Measurement.missing(
        reason,
        kind=KIND,
        plugin=Reconstruction.name,
        metric=RATE,
        scope={**scope, "source": "tuned"},
    )


@dataclass(frozen=True, slots=True)
class InvertedUpdate:
    """What the span of an update contains."""

    span: UpdateSpan
    """Of the first layer."""
    tokens: Sequence[int]
    """The tokens whose inputs lie in it, or, if it is full, that the change is made of."""
    texts: Sequence[tuple[int, ...]]
    """Texts whose inputs all lie in the second layer's."""
    vocabulary: int
    given_up: str = ""
    """Why no texts were looked for, or the search ended before its time; empty if it did not."""

    def has_tokens(self, ids: Sequence[int]) -> bool:
        """Tell whether all of these tokens came out but the last, which has no gradient."""
        return set(ids[:-1]) <= set(self.tokens)

    def gives(self, ids: Sequence[int]) -> bool:
        """Tell whether some text has all of these tokens but the last, which has no gradient."""
        wanted = tuple(ids[:-1])
        size = len(wanted)
        return any(
            text[i : i + size] == wanted for text in self.texts for i in range(len(text) - size + 1)
        )


def _invert(
    engine: "LocalEngine", start: Target | None, update: RoundUpdate, most: int
) -> InvertedUpdate | str:
    """Return what an update gives away, or why it cannot be told."""
    from fedaudit.engine.lora import adapter

    if start is None or start.adapter is None:
        return NO_START
    before = {name: a for name, (a, _) in adapter.read(Path(start.adapter)).pairs.items()}
    change = _change(before, update)
    if isinstance(change, str):
        return change
    spans = layer_spans(before, change, _roundings(update))
    if len(spans) < 2:
        return NO_MODULES
    if not spans[0][1].rank:
        return "A of its first layer did not change"
    with engine.activate(start) as model:
        return search_update(model, spans, min(most, engine.context_length))


def search_update(
    model: "PreTrainedModel", spans: Sequence[tuple[str, UpdateSpan]], most: int
) -> InvertedUpdate | str:
    """Return what the first two layers' spans give away, or why it cannot be told.

    `model` has the adapter with which the round began; texts are of at most `most` tokens.
    """
    (first, span), (second, deeper) = spans[:2]
    tokens = find_tokens(model, first, span)
    if isinstance(tokens, str):
        return tokens
    texts: Sequence[tuple[int, ...]] = ()
    given_up = f"{_full(2, deeper)}: tokens are told, but not their order"
    if not deeper.is_full:
        texts, given_up = find_texts(model, second, deeper, tokens, most)
    return InvertedUpdate(span, tokens, texts, vocabulary_size(model), given_up)


def _full(layer: int, span: UpdateSpan) -> str:
    return f"the change of A in layer {layer} has full rank, {span.rank} of {span.rows} rows"


def _change(before: "Matrices", update: RoundUpdate) -> "Matrices | str":
    """Return how much A of each module changed, summed or averaged over the members, float64.

    Where the tensors are not an update of `before`, the reason is returned.
    """
    tensors = update.read()
    names = {module: f"{ROOT}{module}{A}" for module in before}
    if any(
        name not in tensors or tensors[name].shape != before[module].shape
        for module, name in names.items()
    ):
        return "its tensors are not those of the global adapter"
    read = {module: tensors[name].double() for module, name in names.items()}
    if not all(bool(one.isfinite().all()) for one in read.values()):
        return "it has NaN or infinite values"
    if update.view == "sum":
        return read
    return {module: after - before[module].double() for module, after in read.items()}


def _roundings(update: RoundUpdate) -> float:
    """Return how many stored A, each rounded for itself, are at most behind an entry of the change.

    What members weigh is not stored; in a sum by size each weighs less than one.
    """
    count = len(update.members)
    return {"client": 1.0, "sum": float(count), "global": 1 + 1 / count}[update.view]


def _tokens(engine: "LocalEngine", documents: Sequence[Document]) -> dict[str, Tokens]:
    """Return the tokens of every distinct record of two tokens or more, by its text."""
    texts = sorted({document.text for document in documents if not document.is_prompt})
    rows = engine.tokenize(texts)
    return {text: row for text, row in zip(texts, rows, strict=True) if len(row.ids) > 1}


ROWS = 512
"""The most sequences that go through the model at once."""
BEAM = 256
"""The most beginnings that are kept; beyond, tokens do not tell texts apart."""
REPEATED = 8
"""The most times that a text may begin with one token: a run has one input, whatever its length."""
TRIED = 1 << 20
"""The most sequences that are tried in search of one update's texts."""
PRODUCTS = 2 * 10**12
"""The most products in search of one update's tokens: a minute or two of two cores."""

_READS_THE_BLOCK = re.compile(r"(.*?\.(\d+)\..*?)(q_proj|k_proj|v_proj|query|key|value|c_attn)$")
"""Modules that read what comes into a layer's attention; LoRA is on some of them."""


class _Read(Exception):
    """What a module reads was seen."""


def layer_spans(
    before: "Matrices", change: "Matrices", roundings: float = 1.0
) -> list[tuple[str, UpdateSpan]]:
    """Return the span of each layer's update in order, with a module that reads its inputs.

    `before` and `change` are of A by module, (rank, width); `roundings` is how many roundings of a
    stored A are in an entry of the change.
    """
    layers: dict[int, list[str]] = {}
    for module in sorted(before):
        if match := _READS_THE_BLOCK.match(module):
            layers.setdefault(int(match[2]), []).append(module)
    return [
        (
            modules[0],
            update_span([before[m] for m in modules], [change[m] for m in modules], roundings),
        )
        for _, modules in sorted(layers.items())
    ]


@contextmanager
def _seen(model: "torch.nn.Module", module: str) -> "Iterator[list[torch.Tensor]]":
    inputs: list[torch.Tensor] = []

    def keep(_: object, arguments: "tuple[torch.Tensor, ...]") -> None:
        inputs.append(arguments[0].detach())
        raise _Read

    handle = model.get_submodule(module).register_forward_pre_hook(keep)
    try:
        yield inputs
    finally:
        handle.remove()


def module_inputs(
    model: "torch.nn.Module", module: str, sequences: Sequence[Sequence[int]]
) -> "Iterator[torch.Tensor]":
    """Yield what a module reads at the last place of sequences of one length, (rows, width).

    A batch at a time: the inputs of a whole vocabulary may be larger than the model.
    """
    import torch

    device = next(model.parameters()).device
    with _seen(model, module) as inputs, torch.no_grad():
        for start in range(0, len(sequences), ROWS):
            try:
                model(input_ids=torch.tensor(sequences[start : start + ROWS], device=device))
            except _Read:
                yield inputs.pop()[:, -1].double().cpu()


def vocabulary_size(model: "PreTrainedModel") -> int:
    """Return how many tokens a model has embeddings of."""
    return int(model.config.get_text_config().vocab_size)


def find_tokens(model: "PreTrainedModel", module: str, span: UpdateSpan) -> list[int] | str:
    """Return the tokens of the vocabulary that a change of the first layer is made of, or why none.

    They are those whose inputs lie in the span. If that is full, or has more directions than tokens
    inside since rounding hides some, they are the only ones of which the change can be a
    combination. With rotary positions a place changes nothing before the attention.
    """
    import torch

    size = vocabulary_size(model)
    words = [[token] for token in range(size)]
    inside: list[int] = []
    if not span.is_full:
        fit = _contained(span, module_inputs(model, module, words))
        inside = [token for token, fits in enumerate(fit) if fits]
        if len(inside) >= span.rank:
            return inside
    tokens, reason = None, f"a search for tokens would take more than {PRODUCTS:,} products"
    if size * span.directions.numel() * span.max_inputs <= PRODUCTS:
        inputs = torch.cat([batch.float() for batch in module_inputs(model, module, words)])
        tokens = recover_inputs(span, inputs)
        reason = (
            f"takes more than {span.max_inputs:,} tokens to make up, as after an adaptive "
            "optimizer, with noise or with more tokens"
        )
    if tokens is None and span.is_full:
        return f"{_full(1, span)}, and {reason}"
    return sorted({*inside, *(tokens or ())})


def _contained(span: UpdateSpan, batches: "Iterator[torch.Tensor]") -> list[bool]:
    """Tell for each row of each batch whether it lies in the span."""
    return [fits for batch in batches for fits in span.contains(batch).tolist()]


def find_texts(
    model: "torch.nn.Module",
    module: str,
    span: UpdateSpan,
    tokens: Sequence[int],
    most: int,
) -> tuple[list[tuple[int, ...]], str]:
    """Return the longest token sequences of `tokens` whose inputs of the second layer all fit.

    At most `most` tokens long. With them comes why the search was given up, empty if it was not.
    A token and its repetitions have the same input, whatever their number: such texts are left out,
    and so are those that begin with more than REPEATED of them.
    """
    alive: list[tuple[int, ...]] = [()]
    ended: list[tuple[int, ...]] = []
    tried, given_up = 0, ""
    for _ in range(most):
        tried += len(alive) * len(tokens)
        if tried > TRIED:
            given_up = f"more than {TRIED:,} beginnings of texts would have to be tried"
            break
        grown = [(*text, token) for text in alive for token in tokens]
        if not grown:
            break
        inside = _contained(span, module_inputs(model, module, grown))
        kept = [text for text, fits in zip(grown, inside, strict=True) if fits]
        begun = {text[:-1] for text in kept}
        ended += [text for text in alive if text and text not in begun]
        alive = [text for text in kept if len(text) <= REPEATED or len(set(text)) > 1]
        if len(alive) > BEAM:
            given_up = f"more than {BEAM} beginnings of texts fit: tokens do not tell them apart"
            break
    return [text for text in ended + alive if len(set(text)) > 1], given_up
