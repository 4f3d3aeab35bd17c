"""FLForensics (Jia et al., 2025): clients whose updates made the model better at target texts.

The influence of client i on texts x is summed over the rounds t that it took part in,

    s_i(x) = sum_t (1 / n_t) * <-grad loss(x; w_t), dW_i,t / |dW_i,t|>

with n_t the participants, dW the client's change of the effective weights W + s B A, and w_t the
global model that the round began with. Each client is then two numbers: its influence on target
texts, here marked documents, and on clean ones. docs/attribution-baselines.md says what differs.

Points are (clients, 2): the influence on target texts, then on clean texts.
"""

from collections.abc import Callable, Sequence
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

from . import plaintext
from .gap import SAME

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
        points = scale_axes(np.stack([target, clean], axis=1))
        if self.cluster == "kmeans":
            labels = mean_labels(points, seed)
        else:
            labels = density_labels(points, self.smallest)
        chosen = malicious(points, labels)
        return [client for client, guilty in zip(everybody, chosen, strict=True) if guilty]

    def _influences(self, context: AttributionContext, everybody: Sequence[str]) -> "np.ndarray":
        """Return float64 (1 + marks, clients): the influence on clean texts, then on each mark's.

        One set's gradient is in memory at a time: it is as large as the weights it is of.
        """
        import numpy as np

        from fedaudit.engine.parallel.engine import local_engine
        from fedaudit.engine.training.gradients import (
            change_norm,
            gradient_product,
            weight_change,
            weight_gradients,
        )

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
                client: change_norm(weight_change(folder, record.start))
                for client, folder in folders.items()
            }
            for row, sequences in enumerate(texts if folders else []):
                target = Target(name="start", adapter=str(record.start))
                gradients = weight_gradients(engine, target, sequences)
                for client, folder in folders.items():
                    if lengths[client]:
                        changed = weight_change(folder, record.start)
                        gained = -gradient_product(gradients, changed) / lengths[client]
                        influences[row, column[client]] += gained / len(folders)
                progress(done * len(texts) + row + 1, len(rounds) * len(texts))
        return influences

    def _texts(self, context: AttributionContext) -> list[Texts]:
        """Return the clean texts as tokens, and those that each mark makes of the same texts."""
        if not context.texts:
            raise InputError(f"{self.name} needs texts that no training saw, and there are none.")
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
                f"takes {needed}), so no client can be flagged{advice}."
            )
        return caveats


@dataclass(frozen=True, kw_only=True)
class FLForensicsKMeans(FLForensics):
    """Cluster clients' influence by k-means: FLForensics for federations of few clients."""

    name: ClassVar[str] = "flforensics_kmeans"
    cluster: Literal["hdbscan", "kmeans"] = "kmeans"
    """How clients are clustered: "kmeans" where they are too few for "hdbscan"."""


NOISE = -1
"""The label of points that HDBSCAN puts into no cluster."""


def scale_axes(points: "np.ndarray") -> "np.ndarray":
    """Return each axis divided by its range; by its largest magnitude where it has none."""
    import numpy as np

    spread, largest = np.ptp(points, axis=0), np.abs(points).max(axis=0)
    ranges = np.where(spread > SAME * largest, spread, np.where(largest > 0, largest, 1.0))
    return np.asarray(points / ranges)


def density_labels(points: "np.ndarray", smallest: int) -> "np.ndarray":
    """Return HDBSCAN's clusters of at least `smallest` scaled points, and NOISE."""
    from sklearn.cluster import HDBSCAN

    # The released code's settings. The package hdbscan, which it uses, does not count the point
    # itself among min_samples as scikit-learn does; at 1, both are plain single linkage.
    clusterer = HDBSCAN(min_cluster_size=smallest, min_samples=1, copy=True)
    return _in_order(points, lambda sorted_points: clusterer.fit(sorted_points).labels_)


def mean_labels(points: "np.ndarray", seed: int, most: int = 5) -> "np.ndarray":
    """Return the clusters of scaled points by k-means, k from 2 to `most` by the best silhouette.

    Fewer than three points, or points that are all alike, are one cluster.
    """
    import numpy as np
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    def fit(ordered: "np.ndarray") -> "np.ndarray":
        alike = np.ptp(ordered, axis=0) <= SAME * np.abs(ordered).max(axis=0)
        ks = range(2, min(most, len(ordered) - 1, len(np.unique(ordered, axis=0))) + 1)
        if alike.all() or not ks:
            return np.zeros(len(ordered), dtype=int)
        candidates = [KMeans(k, n_init=10, random_state=seed).fit(ordered).labels_ for k in ks]
        return np.asarray(max(candidates, key=lambda labels: silhouette_score(ordered, labels)))

    return _in_order(points, fit)


def malicious(points: "np.ndarray", labels: "np.ndarray") -> "np.ndarray":
    """Return who is flagged, bool (clients,), from scaled points and their clusters.

    A group is suspect if its mean influence on target texts is above 0 and it has fewer than half
    of the clients; those without a cluster are a group, too. A single suspect group is flagged.
    Among several, a cluster is if its ratio of influence on clean to influence on target texts is
    at most that of all suspect clusters together, and then so is each client without a cluster
    that has a positive influence on target texts and no larger a ratio.
    """
    import numpy as np

    members = [(label, labels == label) for label in sorted(set(labels.tolist()))]
    suspect = [
        (label, mask)
        for label, mask in members
        if points[mask, 0].mean() > 0 and mask.sum() < len(points) / 2
    ]
    if len(suspect) < 2:
        return suspect[0][1] if suspect else np.zeros(len(points), dtype=bool)
    clusters = [mask for label, mask in suspect if label != NOISE]
    bound = _ratio(points[np.any(clusters, axis=0)])
    guilty = [mask for mask in clusters if _ratio(points[mask]) <= bound]
    noise = (labels == NOISE) & (points[:, 0] > 0)
    noise[noise] = [_ratio(points[index : index + 1]) <= bound for index in np.flatnonzero(noise)]
    return np.asarray(np.any([*guilty, noise], axis=0))


def _ratio(points: "np.ndarray") -> float:
    return float(points[:, 1].mean() / points[:, 0].mean())


def _in_order(points: "np.ndarray", fit: Callable[["np.ndarray"], "np.ndarray"]) -> "np.ndarray":
    """Return the labels of points that are fitted sorted: so the clients' order does not matter."""
    import numpy as np

    order = np.lexsort((points[:, 1], points[:, 0]))
    labels = np.empty(len(points), dtype=int)
    labels[order] = fit(points[order])
    return labels
