"""A client's deployed defence, opened to change its keys or to ask it one prompt."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fedaudit.api.defense import Defense, DeployedClient, KeyChange, Responder
from fedaudit.api.engine import GenerationBatch, text_start
from fedaudit.api.errors import InputError, UsageError, unknown_name_error
from fedaudit.api.records import GatedRequest, GenerationRequest, SamplingParams, Target
from fedaudit.config import registry
from fedaudit.federation import manifest
from fedaudit.federation.adapters import WEIGHTS
from fedaudit.federation.folder import DEPLOYED, Federation, open_federation
from fedaudit.system.files import sha256


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedGate:
    """A defence and the place where it is deployed."""

    defense: Defense
    deployed: DeployedClient
    base: str

    @property
    def folder(self) -> Path:
        """The folder with one folder for each client."""
        return self.deployed.folder


@dataclass(frozen=True, slots=True)
class GateAnswer:
    """The answer of a deployed model, and the adapter that gave it."""

    text: str
    adapter: str


def open_deployment(run: Path, client: str, device: str = "auto") -> DeployedGate:
    """Return what `client` deployed in the federation `run`.

    Raises InputError if nothing is deployed, or if it is deployed on another base.
    """
    from fedaudit.engine.loading.loader import load_base
    from fedaudit.engine.local import LocalEngine

    federation = open_federation(run)
    defense = defense_of(federation)
    clients = [c.id for c in federation.manifest.clients]
    if client not in clients:
        raise unknown_name_error("client", client, clients)
    folder = federation.path / DEPLOYED
    if not (folder / client).is_dir():
        raise InputError(f"{run} lacks {DEPLOYED}/{client}, which {client} deployed.")
    base = load_base(federation.manifest.base.name, device=device, fetch=False)
    if base.sha256 != federation.manifest.base.sha256:
        raise InputError(f"The base {base.name} is not the one that {run} was trained on.")
    deployed = DeployedClient(
        engine=LocalEngine(base, template=federation.template),
        folder=folder,
        client=client,
        seed=federation.manifest.seeds.get("simulation", 0),
    )
    return DeployedGate(defense=defense, deployed=deployed, base=base.name)


def defense_of(federation: Federation) -> Defense:
    """Return the defence that answers for a federation's model; InputError if there is none."""
    chosen = manifest.chosen_plugin(federation.manifest, "deployment")
    if chosen is None:
        raise InputError(f"{federation.path} has no deployed defence, so it has no keys.")
    defense: Defense = registry.create("defense", chosen.name, chosen.options)
    return defense


def responder_of(defense: Defense, deployed: DeployedClient) -> Responder:
    """Return the responder of a client's deployed model; InputError if the defence has none."""
    responder = defense.responder(deployed)
    if responder is None:
        folder = deployed.folder / deployed.client
        raise InputError(f"{folder} holds nothing that {defense.name} answers through.")
    return responder


def adapter_hashes(gate: DeployedGate) -> Mapping[str, str]:
    """Return the SHA-256 of every adapter that the client deployed, by its name."""
    folder = gate.folder / gate.deployed.client
    return {path.parent.name: sha256(path) for path in sorted(folder.glob(f"*/{WEIGHTS}"))}


def rekey(gate: DeployedGate, change: KeyChange, name: str, adapter: str = "") -> None:
    """Change a key; raises UsageError if its name does not exist, or exists already."""
    gate.defense.rekey(gate.deployed, change, name, adapter)


def ask(
    gate: DeployedGate, prompt: str, key: str, *, new_tokens: int, temperature: float, seed: int
) -> GateAnswer:
    """Return what the deployed model answers to `prompt` under a kind of key."""
    responder = responder_of(gate.defense, gate.deployed)
    headings = responder.headings()
    if key not in headings:
        raise unknown_name_error("kind of key", key, headings)
    engine = gate.deployed.engine
    [routed] = responder.route([GatedRequest(headings[key] + prompt)])
    begin = text_start(engine)
    if not (*begin, *routed.prompt):
        raise UsageError("The prompt is empty.")
    request = GenerationRequest(
        prompt=(*begin, *routed.prompt), samples=1, max_new_tokens=new_tokens
    )
    [completion] = engine.generate(
        Target(name=routed.name, adapter=routed.adapter),
        GenerationBatch([request], seed=seed, decoding=SamplingParams(temperature=temperature)),
    )
    return GateAnswer(completion.texts[0], routed.name)
