"""FLForensics (Jia et al., 2025): clients whose updates made the model better at target texts.

The influence of client i on texts x is summed over the rounds t that it took part in,

    s_i(x) = sum_t (1 / n_t) * <-grad loss(x; w_t), dW_i,t / |dW_i,t|>

with n_t the participants, dW the client's change of the effective weights W + s B A, and w_t the
global model that the round began with. Each client is then two numbers: its influence on target
texts, here marked documents, and on clean ones. docs/attribution-baselines.md says what differs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from fedaudit.api import (
    AttributionContext,
    AttributionResult,
    Attributor,
    ClientScore,
    Document,
    InputError,
    Target,
    text_start,
)

from . import minority, plaintext

if TYPE_CHECKING:
    import numpy as np

Texts = list[tuple[int, ...]]


@dataclass(frozen=True, kw_only=True)
class FLForensics(Attributor):
    """Cluster clients by their influence on marked and on clean texts, and suspect minorities."""

    name: ClassVar[str] = "flforensics"
    paper: ClassVar[str] = "Jia et al. 2025, arXiv:2407.07221"

    cluster: Literal["hdbscan", "kmeans"] = "hdbscan"
    """How clients are clustered: "kmeans" where they are too few for "hdbscan"."""
    smallest: int = 7
    """The fewest clients that make a cluster of HDBSCAN."""
    documents: int = 16
    """How many clean texts are used, and how many marked ones for every mark."""
    length: int = 256
    """The most tokens of a text that are read."""

    def __post_init__(self) -> None:
        if self.smallest < 2 or self.documents < 1 or self.length < 2:
            raise ValueError("smallest and length must be at least 2, documents at least 1.")

    def attribute(self, context: AttributionContext) -> AttributionResult:
        """Flag a client that is in a suspect minority for any mark."""
        everybody = plaintext.clients(context.rounds)
        key = __name__, self.documents, self.length
        clean, *marked = context.once(key, lambda: self._influences(context, everybody))
        suspects: dict[str, str] = {}
        for (mark, _), target in zip(context.marks, marked, strict=True):
            for client in self._flag_clients(everybody, target, clean, context.seed):
                suspects.setdefault(client, mark.id)
        return AttributionResult(
            clients=tuple(
                ClientScore(
                    client=client, flagged=client in suspects, mark=suspects.get(client, "")
                )
                for client in everybody
            ),
            limits=(plaintext.limit(self.name), *self._limits(len(everybody))),
        )

    def _flag_clients(
        self, everybody: Sequence[str], target: "np.ndarray", clean: "np.ndarray", seed: int
    ) -> list[str]:
        import numpy as np

        if len(everybody) < 3:
            return []
        points = minority.scale_axes(np.stack([target, clean], axis=1))
        if self.cluster == "kmeans":
            labels = minority.mean_labels(points, seed)
        else:
            labels = minority.density_labels(points, self.smallest)
        chosen = minority.malicious(points, labels)
        return [client for client, guilty in zip(everybody, chosen, strict=True) if guilty]

    def _influences(self, context: AttributionContext, everybody: Sequence[str]) -> "np.ndarray":
        """Return float64 (1 + marks, clients): the influence on clean texts, then on each mark's.

        One set's gradient is in memory at a time: it is as large as the weights it is of.
        """
        import numpy as np

        from fedaudit.engine.parallel.engine import local_engine
        from fedaudit.engine.training import influence

        rounds = list(plaintext.readable_rounds(context.rounds, self.name))
        engine = local_engine(context.engine)
        texts = self._texts(context)
        column = {client: index for index, client in enumerate(everybody)}
        influences = np.zeros((len(texts), len(everybody)))
        progress = context.progress("deriving influences")
        for done, (record, read) in enumerate(rounds):
            folders = {
                client: context.write(record.start, read(client)) for client in record.participants
            }
            lengths = {
                client: influence.change_norm(influence.weight_change(folder, record.start))
                for client, folder in folders.items()
            }
            for row, sequences in enumerate(texts if folders else []):
                target = Target(name="start", adapter=str(record.start))
                gradients = influence.weight_gradients(engine, target, sequences)
                for client, folder in folders.items():
                    if lengths[client]:
                        changed = influence.weight_change(folder, record.start)
                        gained = -influence.gradient_product(gradients, changed) / lengths[client]
                        influences[row, column[client]] += gained / len(folders)
                progress(done * len(texts) + row + 1, len(rounds) * len(texts))
        return influences

    def _texts(self, context: AttributionContext) -> list[Texts]:
        """Return the clean texts as tokens, and those that each mark makes of the same texts."""
        if not context.texts:
            raise InputError(f"{self.name} needs texts that nobody trained on, and there are none.")
        clean = [
            Document(id=f"clean-{index}", text=text)
            for index, text in enumerate(context.texts[: self.documents])
        ]
        sets = [clean]
        for mark, watermark in context.marks:
            progress = context.progress(f"marking documents for {mark.id}")
            sets.append(
                watermark.embed(
                    mark.secret, clean, context.engine, seed=context.seed, progress=progress
                )
            )
        return [self._tokens(context, documents) for documents in sets]

    def _tokens(self, context: AttributionContext, documents: Sequence[Document]) -> Texts:
        begin = text_start(context.engine)
        most = min(self.length, context.engine.context_length)
        encodings = context.engine.tokenize([document.text for document in documents])
        return [(*begin, *tokens.ids)[:most] for tokens in encodings]

    def _limits(self, clients: int) -> list[str]:
        caveats = [
            f"{self.name}: the target texts are {self.documents} documents that each mark makes of "
            "clean ones, not those that clients trained on."
        ]
        needed = 2 * self.smallest + 1 if self.cluster == "hdbscan" else 3
        if clients < needed:
            advice = "; cluster = kmeans allows smaller ones" if self.cluster == "hdbscan" else ""
            caveats.append(
                f"{self.name}: {clients} clients cannot have a cluster that is a minority (that "
                f"takes {needed}), so nobody can be flagged{advice}."
            )
        return caveats


@dataclass(frozen=True, kw_only=True)
class FLForensicsKMeans(FLForensics):
    """Cluster clients' influence by k-means: FLForensics for federations of few clients."""

    name: ClassVar[str] = "flforensics_kmeans"
    cluster: Literal["hdbscan", "kmeans"] = "kmeans"
    """How clients are clustered: "kmeans" where they are too few for "hdbscan"."""
