"""Differentially private training (DP-SGD; Abadi et al., 2016, algorithm 1), through Opacus.

At every step each of n documents is drawn with probability q, on its own. Each drawn document's
gradient g_i, that of its mean token loss, is cut to the norm C, and the optimizer is given

    g = (sum of g_i * min(1, C / |g_i|) + N(0, sigma^2 C^2 I)) / (q n)

An accountant says which (epsilon, delta) so many steps with this sigma and q amount to.
"""

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import sha256
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fedaudit.api import (
    ClientState,
    Defense,
    FinishedFederation,
    InputError,
    Measurement,
    PromptTemplate,
    Result,
    TargetError,
    TrainingSession,
    UsageError,
)

if TYPE_CHECKING:
    import torch

Accountant = Literal["prv", "rdp"]
MAX_PRV_EPSILON = 200.0
"""Above this RDP bound the PRV accountant takes minutes and gigabytes and says no more."""


def require_opacus() -> None:
    """Raise UsageError where Opacus is not installed."""
    if find_spec("opacus") is None:
        raise UsageError("The defence dp needs Opacus: pip install 'fedaudit[dp]'.")


def load_opacus() -> None:
    """Import Opacus without the root logger that it sets up, which prints what others log."""
    require_opacus()
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    import opacus.accountants  # noqa: F401

    root.handlers[:] = before
    root.setLevel(level)


def sample_rate(batch_size: int, documents: int) -> float:
    """Return q; a batch larger than the data is all of the data, at every step."""
    return min(1.0, batch_size / documents)


@lru_cache(maxsize=256)
def noise_for(
    epsilon: float, delta: float, rate: float, steps: int, accountant: Accountant
) -> float:
    """Return a sigma that spends `epsilon`, or up to 0.01 less; UsageError where none does."""
    load_opacus()
    from opacus.accountants.utils import get_noise_multiplier

    settings = {"target_epsilon": epsilon, "target_delta": delta, "accountant": accountant}
    try:
        with _quiet():
            return float(get_noise_multiplier(sample_rate=rate, steps=steps, **settings))
    except ValueError:
        message = f"dp: no noise is shown to give epsilon {epsilon:g} at delta {delta:g}."
        raise UsageError(message) from None


@lru_cache(maxsize=256)
def spent_epsilon(
    sigma: float, delta: float, rate: float, steps: int, accountant: Accountant
) -> tuple[float, Accountant]:
    """Return an upper bound on epsilon and its accountant, always RDP above MAX_PRV_EPSILON."""
    load_opacus()
    from opacus.accountants import create_accountant

    def bound(name: Accountant) -> float:
        counting = create_accountant(mechanism=name)
        counting.history = [(sigma, rate, steps)]
        with _quiet():
            return max(0.0, float(counting.get_epsilon(delta=delta)))

    coarse = bound("rdp")
    if accountant == "rdp" or coarse > MAX_PRV_EPSILON:
        return coarse, "rdp"
    return bound("prv"), "prv"


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence accountants' warnings where their bound is valid: at q = 1, at extreme orders.

    A search for sigma passes by some so small that PRV's integrals overflow on the way; the sigma
    that it ends with is far from those.
    """
    import numpy as np
    from scipy.integrate import IntegrationWarning

    ignored = np.errstate(divide="ignore", over="ignore", invalid="ignore")
    with warnings.catch_warnings(), ignored:
        warnings.filterwarnings("ignore", message="Optimal order is the")
        warnings.filterwarnings("ignore", category=IntegrationWarning)
        yield


Sequences = Sequence[Sequence[int]]
Gradients = Callable[[Sequences], "torch.Tensor"]

LARGEST = 100.0
"""The largest epsilon to ask for; far below it nothing is guaranteed any more."""
CHUNK_SIZE = 8
"""So many sequences go through the model at once; only memory and rounding depend on it."""

LIMITS = (
    "dp: the guarantee is for one document of one client, against anyone who sees what this client "
    "sends or anything made of it. It does not cover the adapters that a client keeps to itself, "
    "nor an upload that another defence mixes them into. A fact that k documents repeat is k "
    "examples: its epsilon is k times as large, and its delta grows too.",
    "dp: the noise is drawn from a seed by a generator that is not cryptographically secure, so "
    "that a simulation can be repeated: anyone who has the seed, which is in the manifest, can "
    "remove the noise again. The manifest's mean losses and numbers of documents have no noise.",
)


@dataclass(frozen=True, kw_only=True)
class DifferentialPrivacy(Defense):
    """Clip each document's gradient and add noise to their sum (DP-SGD)."""

    name: ClassVar[str] = "dp"
    paper: ClassVar[str] = "Abadi et al. 2016, arXiv:1607.00133, algorithm 1"

    epsilon: float = 8.0
    """The epsilon that a client spends over all rounds together if it takes part in every one."""
    delta: float = 0.0
    """The delta of the guarantee; 0: one over the client's number of documents."""
    max_grad_norm: float = 1.0
    """C, the norm that each document's gradient is clipped to; the training's own clipping is
    off."""
    optimizer: Literal["adamw", "sgd"] = "adamw"
    """The optimizer for the noisy gradients: the federation's, or plain SGD as in Abadi et al."""
    noise_multiplier: float = 0.0
    """sigma; 0 finds it from epsilon, any other value is used whatever epsilon it gives."""
    accountant: Accountant = "prv"
    """How privacy loss is summed over steps: "prv" numerically, "rdp" by Renyi divergences."""

    def __post_init__(self) -> None:
        if not 0 < self.epsilon <= LARGEST:
            raise ValueError(f"epsilon must be above 0 and at most {LARGEST:g}.")
        if not 0 <= self.delta < 1:
            raise ValueError("delta must be at least 0 and below 1.")
        if self.max_grad_norm <= 0 or (self.noise_multiplier and self.noise_multiplier < 1e-9):
            raise ValueError("max_grad_norm must be above 0, noise_multiplier 0 or above 1e-9.")

    def check(self, template: PromptTemplate) -> None:
        """Refuse to begin without Opacus."""
        require_opacus()

    def train(self, session: TrainingSession) -> float:
        """Train with clipped, noisy gradients; return the mean loss of what was drawn.

        NaN where no step drew anything. Raises TargetError when a trained tensor has no gradient
        of each document's own, or does not move.
        """
        import torch

        start = {name: weight.detach().clone() for name, weight in session.weights.items()}
        with per_document(session.model, session.weights) as gradients:
            optimizer = self._optimizer(session)
            losses = [
                loss
                for step, batch in enumerate(poisson_batches(session))
                for loss in _step(optimizer, gradients, batch, session.rate(step))
            ]
        for name, weight in session.weights.items():
            if torch.equal(weight, start[name]):
                raise TargetError(f"dp trained, but {name} did not change.")
        return float(torch.cat(losses).mean())

    def _optimizer(self, session: TrainingSession) -> Any:
        load_opacus()
        import torch
        from opacus.optimizers import DPOptimizer

        weights, documents = list(session.weights.values()), len(session.sequences)
        sigma = self.noise(documents, session.batch_size, session.steps * session.rounds)
        kind = torch.optim.SGD if self.optimizer == "sgd" else torch.optim.AdamW
        return DPOptimizer(
            kind(weights, weight_decay=session.weight_decay),
            noise_multiplier=sigma,
            max_grad_norm=self.max_grad_norm,
            expected_batch_size=min(session.batch_size, documents),
            generator=_generator(session.seed, "noise", weights[0].device),
        )

    def noise(self, documents: int, batch_size: int, steps: int) -> float:
        """Return sigma for a client; `steps` are those of all rounds of the federation."""
        delta, rate = self.delta_of(documents), sample_rate(batch_size, documents)
        sigma = self.noise_multiplier
        return sigma or noise_for(self.epsilon, delta, rate, steps, self.accountant)

    def delta_of(self, documents: int) -> float:
        """Return the delta of a client; InputError for one with too few documents."""
        if documents < (1 if self.delta else 2):
            raise InputError(f"dp: a client has {documents} documents; set delta, or give it more.")
        return self.delta or 1 / documents

    def deploy(self, finished: FinishedFederation) -> Result:
        """Return the epsilon that each client spent in the rounds that it took part in."""
        rows = (self._epsilon_row(finished, *pair) for pair in finished.parties.items())
        return Result(measurements=tuple(rows), limits=LIMITS)

    def _epsilon_row(
        self, finished: FinishedFederation, client: str, client_state: ClientState
    ) -> Measurement:
        documents, steps = len(client_state.prepared), client_state.steps * client_state.rounds
        sigma = self.noise(documents, finished.batch_size, client_state.steps * finished.rounds)
        rate, delta = sample_rate(finished.batch_size, documents), self.delta_of(documents)
        value, accountant = spent_epsilon(sigma, delta, rate, steps, self.accountant)
        scope = {"client": client, "delta": delta, "accountant": accountant}
        return Measurement(
            kind="defense",
            plugin=self.name,
            metric="epsilon",
            value=value,
            scope={**scope, "noise_multiplier": sigma, "sample_rate": rate, "steps": steps},
        )


def poisson_batches(session: TrainingSession) -> Iterator[Sequences]:
    """Yield the sequences of each step: every one with probability q, the shortest first."""
    import torch

    generator, count = _generator(session.seed, "draws", "cpu"), len(session.sequences)
    rate = sample_rate(session.batch_size, count)
    for _ in range(session.steps):
        mask = torch.rand(count, generator=generator, dtype=torch.float64) < rate
        yield sorted((session.sequences[i] for i in mask.nonzero().flatten().tolist()), key=len)


def _generator(seed: int, purpose: str, device: Any) -> "torch.Generator":
    """Return a generator for one purpose: with one seed, draws, noise and dropout are related."""
    import torch

    digest = sha256(f"dp {purpose} {seed}".encode()).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest[:8], "big") >> 1)


def _step(
    optimizer: Any, gradients: Gradients, batch: Sequences, rate: float
) -> Iterator["torch.Tensor"]:
    """Make one step and yield the losses of what was drawn."""
    for group in optimizer.param_groups:
        group["lr"] = rate
    # An empty batch is a step too: skipping it would reveal that nothing was drawn.
    chunks = [batch[i : i + CHUNK_SIZE] for i in range(0, len(batch), CHUNK_SIZE)] or [[]]
    for number, chunk in enumerate(chunks, start=1):
        yield gradients(chunk)
        optimizer.signal_skip_step(number < len(chunks))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


@contextmanager
def per_document(model: Any, weights: Mapping[str, Any]) -> Iterator[Gradients]:
    """Yield the function that sets every sequence's own gradient, `grad_sample` of each weight."""
    hooked = _wrap_model(model)
    for weight in weights.values():
        weight.grad = None
    try:
        with warnings.catch_warnings():
            # The input of the first trained layer has no gradient, and needs none.
            warnings.filterwarnings("ignore", message="Full backward hook is firing when")
            yield partial(_gradients, hooked, weights)
    finally:
        hooked.to_standard_module()  # which leaves some of its attributes behind
        for owner in (*model.modules(), *weights.values()):
            for attribute in ("activations", "max_batch_len", "summed_grad"):
                vars(owner).pop(attribute, None)
        for weight in weights.values():
            weight.grad = None


def _gradients(hooked: Any, weights: Mapping[str, Any], sequences: Sequences) -> "torch.Tensor":
    """Compute the gradients of `sequences` and return their losses, shape (sequences,)."""
    import torch

    device = next(iter(weights.values())).device
    if not sequences:
        for weight in weights.values():
            weight.grad_sample = weight.new_zeros(0, *weight.shape)
        return torch.zeros(0, device=device)
    losses = mean_losses(hooked, sequences, device)
    if not losses.requires_grad:
        raise TargetError("dp: the loss does not depend on what is trained.")
    hooked.backwards = True
    losses.sum().backward()
    hooked.backwards = False
    for name, weight in weights.items():
        if getattr(weight, "grad_sample", None) is None:
            raise TargetError(f"dp: {name} gets no gradient of each document's own.")
        grads = weight.grad_sample
        # They do not sum to the ordinary gradient where Opacus missed a use of the weight.
        if not hooked.checked and not (grads.sum(0) - weight.grad).norm() <= 1e-3 * grads.norm():
            raise TargetError(f"dp: the documents' own gradients of {name} do not add up.")
    hooked.checked = True
    return losses.detach()


def _wrap_model(model: "torch.nn.Module") -> Any:
    """Return `model` in Opacus' wrapper, for a loss that is summed over documents."""
    load_opacus()
    from opacus.grad_sample import GradSampleModule
    from opacus.utils.module_utils import trainable_modules

    class Hooked(GradSampleModule):  # type: ignore[misc]
        backwards = checked = False

        def capture_activations_hook(self, *args: Any) -> None:
            """Note a layer's input, but not again when checkpointing computes it again."""
            if not self.backwards:
                super().capture_activations_hook(*args)

    for name, module in trainable_modules(model):
        if type(module) not in Hooked.GRAD_SAMPLERS:
            raise TargetError(f"dp: Opacus has no rule for {name}, a {type(module).__name__}.")
    return Hooked(model, loss_reduction="sum")


def mean_losses(model: Any, sequences: Sequences, device: Any) -> "torch.Tensor":
    """Return each sequence's mean token loss, shape (sequences,); 0 where it has one token."""
    import torch

    rows = [torch.tensor(sequence, dtype=torch.long) for sequence in sequences]
    ids = torch.nn.utils.rnn.pad_sequence(rows, True, -100).to(device)
    real, aims = (ids >= 0).long(), ids[:, 1:]
    output = model(input_ids=ids.clamp(min=0), attention_mask=real, use_cache=False)
    logits = output.logits[:, :-1].float().flatten(0, 1)
    losses = torch.nn.functional.cross_entropy(logits, aims.flatten(), reduction="none")
    return losses.view(aims.shape).sum(1) / real[:, 1:].sum(1).clamp(min=1)
