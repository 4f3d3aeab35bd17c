"""SecureGate (Shaaban and Elmahallawy, 2026): two adapters for each client behind a key.

A client's secure adapter is trained on documents without PII and federated; its revealing adapters
are trained on the documents as they are and never leave it. After the last round each is fused with
the global adapter, and a gate decides by the key in a request which of them answers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from fedaudit.api import (
    Aggregator,
    ClientState,
    Defense,
    DeployedClient,
    Document,
    FinishedFederation,
    InputError,
    KeyChange,
    Measurement,
    Responder,
    Result,
)

if TYPE_CHECKING:
    from ..scrub import Scrub
    from .gate import GateDesign

SECURE = "secure"
"""What the adapter without PII is called; the first one that a gate may choose."""


@dataclass(frozen=True, kw_only=True)
class SecureGate(Defense):
    """Federate an adapter without PII; a key opens the client's own adapter beside it."""

    name: ClassVar[str] = "secure_gate"
    paper: ClassVar[str] = "SecureGate, arXiv:2602.13529"

    needs_annotation: ClassVar[bool] = True

    masked: bool = True
    """Whether the secure adapter is trained on documents with [MASK] for every PII."""
    detector: str = ""
    """Mask what this built-in detector finds, in place of what is annotated: its misses stay."""
    revealing: tuple[str, ...] = ("revealing",)
    """Revealing adapters: NAME, or NAME=PATTERN for the documents whose group matches (legal/*)."""
    nesterov: bool = True
    """Whether the server takes Nesterov steps; if not, it follows the federation's own rule."""
    momentum: float = 0.5
    """The server's momentum, for Nesterov steps."""
    rate: float = 0.7
    """The server's learning rate, for Nesterov steps."""
    psi: float = 0.01
    """The penalty on a unit of a fusion weight, in nats per token."""
    budget: int = 40
    """How many pairs of fusion weights are tried for each adapter."""
    query: int = 16
    """How many of a client's documents fusion weights are judged by."""
    tau: float = 0.9
    """The probability that an adapter must exceed to be chosen in place of the secure one."""
    published: bool = False
    """Whether the gate is as in the paper: plain cross-entropy on the keys of its appendix E, and
    embeddings seeded by MD5. Tokens of other keys than the valid ones may open it."""
    feature: Literal["hidden", "embedding", "both"] = "hidden"
    """What the gate reads: the base's last state at the key's token, its embedding, or both."""

    def __post_init__(self) -> None:
        if not 0 <= self.tau <= 1:
            raise ValueError("tau must be from 0 to 1.")
        # Beyond a budget of 100 NGOpt builds a metamodel under a time limit: no seed makes that
        # repeatable, and nevergrad 1.0.12 cannot build it at all with numpy 2.4.
        if self.psi < 0 or not 2 <= self.budget <= 100 or self.query < 1:
            raise ValueError("psi must be at least 0, budget from 2 to 100, query at least 1.")
        names = [name for name, _ in self._patterns()]
        if not names or len(set(names)) < len(names) or {"", SECURE} & set(names):
            raise ValueError(f"revealing needs different names, none of them {SECURE!r}.")
        from .keys import LENGTH

        if not all(name.replace("_", "").isalnum() and len(name) < LENGTH for name in names):
            raise ValueError(
                "names of revealing adapters are letters, digits and underscores, fewer than the "
                f"{LENGTH} of a key."
            )
        self._server()  # refuses what is not a server step
        self._scrub()  # refuses an unknown detector

    @property
    def design(self) -> "GateDesign":
        """What the gates read, and how they are trained."""
        from .gate import GateDesign

        return GateDesign(published=self.published, feature=self.feature)

    def prepare(self, documents: Sequence[Document]) -> list[Document]:
        """Return the masked view, or the documents as they are."""
        return self._scrub().prepare(documents) if self.masked else list(documents)

    def private(self, documents: Sequence[Document]) -> Mapping[str, list[Document]]:
        """Return the raw view of every revealing adapter; raises InputError where it is empty."""
        if not any(document.pii for document in documents):
            raise InputError(
                "secure_gate needs documents with PII: none has any, so there is nothing to "
                "reveal or to protect."
            )
        views = {
            name: [d for d in documents if fnmatchcase(d.group or d.id, pattern)]
            for name, pattern in self._patterns()
        }
        if not any(views.values()):
            patterns = ", ".join(pattern for _, pattern in self._patterns())
            raise InputError(
                f"no document's group fits a revealing adapter's pattern ({patterns})."
            )
        return {name: view for name, view in views.items() if view}

    def server(self, aggregator: Aggregator) -> Aggregator:
        """Return the Nesterov step, unless the federation's own rule is wanted."""
        return self._server() if self.nesterov else aggregator

    def deploy(self, finished: FinishedFederation) -> Result:
        """Fuse the adapters of every client, draw its keys and train its gate."""
        from .deployment import deploy_client
        from .evaluation import evaluate

        rows: list[Measurement] = []
        progress = finished.progress("deploying")
        for done, (client, client_state) in enumerate(finished.parties.items(), 1):
            rows += deploy_client(
                finished,
                client,
                self.views(client_state),
                query=self.query,
                psi=self.psi,
                budget=self.budget,
                tau=self.tau,
                design=self.design,
            )
            progress(done, len(finished.parties))
        for client in finished.parties:
            rows += evaluate(finished, client)
        return Result(measurements=tuple(rows), limits=(WEIGHTS_NEED_NO_KEY,))

    def responder(self, deployed: DeployedClient) -> Responder | None:
        """Return the client's gate with its adapters."""
        from .deployment import open_gate

        return open_gate(deployed)

    def rekey(
        self, deployed: DeployedClient, change: KeyChange, name: str, adapter: str = ""
    ) -> None:
        """Rotate, add or revoke a key of the client: its gate is trained anew, nothing else."""
        from . import rekeying

        folder = deployed.folder / deployed.client
        if change == "add":
            rekeying.add(folder, deployed.engine, name, adapter, deployed.seed)
        elif change == "rotate":
            rekeying.rotate(folder, deployed.engine, name, deployed.seed)
        else:
            rekeying.revoke(folder, deployed.engine, name, deployed.seed)

    def views(self, client_state: ClientState) -> Iterator[tuple[str, Path, Sequence[Document]]]:
        """Yield (name, the client's own adapter, what it was trained on), the secure one first."""
        yield SECURE, client_state.shared, client_state.prepared
        raw = self.private(client_state.documents)
        for name, folder in client_state.private.items():
            yield name, folder, raw[name]

    def _patterns(self) -> list[tuple[str, str]]:
        """Return the name of every revealing adapter and the pattern of its documents' groups."""
        fields = [entry.partition("=") for entry in self.revealing]
        return [(name.strip(), pattern.strip() or "*") for name, _, pattern in fields]

    def _scrub(self) -> "Scrub":
        from ..scrub import Scrub

        return Scrub(detector=self.detector)

    def _server(self) -> Aggregator:
        from ...aggregation.nesterov import Nesterov

        return Nesterov(momentum=self.momentum, rate=self.rate)


WEIGHTS_NEED_NO_KEY = (
    "secure_gate guards what the deployed model answers. Anyone who holds a client's revealing "
    "adapter as a file needs no key."
)
