"""How much each step does: the real amounts, and tiny ones for a test on a CPU."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """Numbers of things; lengths are in tokens."""

    prompts: int = 50
    prefix: int = 50
    samples: int = 15
    new: int = 10
    many: int = 500
    """Prompts that do not fit together: some take the place of others."""
    alone: int = 10
    """Prompts that `generate` continues one at a time: their rate stands for all."""
    batches: tuple[int, ...] = (5, 15, 50)
    """Prompts in a batch of `generate`; the best counts."""
    long_prompts: int = 64
    long_prefix: int = 1024
    texts: int = 128
    text: int = 256
    candidates: int = 50
    """Texts of a group that share all but their last 16 tokens."""
    strings: int = 100
    adapters: int = 11
    rank: int = 8
    questions: int = 32
    answer: int = 16
    lessons: int = 128
    repeats: int = 3
    matrix: int = 8192
    buffer: int = 2**30
    """Bytes that are copied."""


FULL = Amounts()
TINY = Amounts(
    prompts=4,
    prefix=12,
    samples=3,
    new=4,
    many=9,
    alone=2,
    batches=(2, 4),
    long_prompts=3,
    long_prefix=24,
    texts=6,
    text=24,
    candidates=4,
    strings=6,
    adapters=3,
    rank=2,
    questions=3,
    answer=4,
    lessons=4,
    repeats=1,
    matrix=128,
    buffer=2**16,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A Llama's shape."""

    name: str
    hidden: int
    inner: int
    layers: int
    heads: int
    shared: int
    """Heads of keys and values."""
    vocabulary: int
    tied: bool = True

    @property
    def linear(self) -> int:
        """Weights that every token is multiplied by, the output layer's aside."""
        width = self.hidden * self.shared // self.heads
        attention = 2 * self.hidden**2 + 2 * self.hidden * width
        return self.layers * (attention + 3 * self.hidden * self.inner)

    @property
    def parameters(self) -> int:
        """All weights but the norms'."""
        return self.linear + self.hidden * self.vocabulary * (1 if self.tied else 2)

    def flops(self, tokens: int, logits: int, pairs: int) -> int:
        """Return the FLOPs of reading `tokens`, of which `logits` are asked what follows.

        `pairs` are those of a token and one that it attends to. A multiply-add is two; norms,
        activations and softmax are left out.
        """
        attention = 4 * self.layers * self.hidden * pairs
        return 2 * self.linear * tokens + 2 * self.hidden * self.vocabulary * logits + attention


SIZES = (
    Size(
        name="135M", hidden=576, inner=1536, layers=30, heads=9, shared=3, vocabulary=49_152
    ),  # SmolLM
    Size(
        name="1B", hidden=2048, inner=8192, layers=16, heads=32, shared=8, vocabulary=128_256
    ),  # Llama 3.2
    Size(
        name="8B",
        hidden=4096,
        inner=14_336,
        layers=32,
        heads=32,
        shared=8,
        vocabulary=128_256,
        tied=False,
    ),  # Llama 3.1
)
SMALL = Size(name="small", hidden=64, inner=96, layers=2, heads=4, shared=2, vocabulary=200)
"""The model that correctness is tested with; so few tokens that all pairs can be listed."""
TINY_SIZES = (
    Size(name="135M", hidden=32, inner=48, layers=1, heads=4, shared=2, vocabulary=400),
    Size(name="1B", hidden=32, inner=48, layers=2, heads=4, shared=2, vocabulary=400),
    Size(name="8B", hidden=32, inner=64, layers=2, heads=4, shared=2, vocabulary=400, tied=False),
)
