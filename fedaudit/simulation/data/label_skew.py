"""Label skew: how far clients' shares of classes are from everybody's, and from what was meant."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from fedaudit.api.records import Document
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.data.partition import deal_documents
from fedaudit.simulation.data.settings import Partition
from fedaudit.system.files import read_json

FILE = "data/partition.json"
SKEWED = ("dirichlet", "cluster")
"""The methods of partition in which alpha determines how much clients differ."""
LEAST = 0.5
"""The share of the intended skew below which clients count as too much alike."""


@dataclass(frozen=True, slots=True)
class LabelSkew:
    """How much clients differ: 0 if they are alike, up to 1 if each has classes of its own."""

    found: float
    meant: float
    """The skew of the same documents dealt one by one."""


def label_skew(counts: Sequence[Sequence[int]]) -> float:
    """Return how far, on average, clients' class shares are from those of all clients together.

    The result is the mean total variation distance over clients with documents. `counts` has a row
    for each client and a column for each class.
    """
    import numpy as np

    rows = np.array([row for row in counts if sum(row)], dtype=np.float64)
    if not rows.size:
        return 0.0
    shares, everybody = rows / rows.sum(axis=1, keepdims=True), rows.sum(axis=0) / rows.sum()
    return float(np.abs(shares - everybody).sum(axis=1).mean() / 2)


def measure_label_skew(
    partition: Partition,
    documents: Sequence[Document],
    classes: Sequence[int],
    dealt: Sequence[Sequence[Document]],
    seed: int,
) -> LabelSkew | None:
    """Return the skew of documents that were dealt in whole groups; None if none were."""
    grouped = partition.whole_groups and any(document.group for document in documents)
    if partition.method not in SKEWED or not grouped:
        return None
    kind = {id(document): own for document, own in zip(documents, classes, strict=True)}
    apart = deal_documents(
        documents,
        classes,
        clients=len(dealt),
        alpha=partition.alpha,
        seed=seed,
        whole_groups=False,
    )
    found, meant = (
        label_skew([_counts([kind[id(d)] for d in own], max(classes) + 1) for own in part])
        for part in (dealt, apart)
    )
    return LabelSkew(round(found, 4), round(meant, 4))


def _counts(classes: Sequence[int], count: int) -> list[int]:
    return [classes.count(number) for number in range(count)]


def write_label_skew(skew: LabelSkew, folder: Path) -> None:
    """Write the skew of a federation's data into its folder."""
    (folder / FILE).write_text(json.dumps(asdict(skew)) + "\n", "utf-8")


def label_skew_caveats(config: Simulation, folder: Path) -> list[str]:
    """Return a caveat if whole groups left clients much more alike than alpha intends."""
    if not (folder / FILE).is_file():
        return []
    table = read_json(folder / FILE, missing="")
    found, meant = table["found"], table["meant"]
    if found >= LEAST * meant:
        return []
    of = config.partition.by if config.partition.method == "dirichlet" else "cluster"
    return [
        f"clients are more alike than partition.alpha = {config.partition.alpha:g} means them, as "
        f"groups of records are not parted: their shares of each {of} are {found:.2f} from "
        f"everybody's on average (0: alike), and {meant:.2f} with partition.whole_groups = false"
    ]
