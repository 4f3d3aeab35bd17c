"""The audited model: a base and an adapter, found from --target, --adapter and --round."""

import shlex
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit import nano
from fedaudit.api.errors import InputError, UsageError, unknown_name_error
from fedaudit.api.records import Target
from fedaudit.api.templates import PromptTemplate
from fedaudit.audit.input_files import InputReader
from fedaudit.conversion import bases, recognition
from fedaudit.engine.loading import checkpoint
from fedaudit.engine.remote.options import EndpointOptions, ServedModel, is_url
from fedaudit.federation import adapter_options, adapter_origin, adapters, manifest
from fedaudit.federation.folder import (
    DEPLOYED,
    Federation,
    is_federation,
    latest,
    name_rounds,
)
from fedaudit.system.files import suggest_neighbour
from fedaudit.system.names import check_linked

if TYPE_CHECKING:
    from fedaudit.audit.request import AuditRequest

RUNS = Path("runs")
SERVED_KINDS = ("extract", "cross_client", "infer", "memorize")
"""The kinds of request that can audit a model behind a server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditTarget:
    """A base and, unless the base itself is audited, the adapter on it."""

    base: str
    base_sha256: str = ""
    """The hash that the adapter's federation states for its base; empty if it states none."""
    adapter: Path | None = None
    federation: Federation | None = None
    round: int | None = None
    update_of: str = ""
    """The client that sent the audited adapter as its own update; empty for any other adapter."""
    deployment: str = ""
    """The client whose deployed model answers all questions; `adapter` is its folder."""
    served: ServedModel | None = None
    """The model behind a server, if there is one; `base` is then only its name in a report."""
    discovered: bool = False
    """Whether no target was named, so that the user must be told which one was chosen."""
    adapter_caveats: tuple[str, ...] = ()
    """Sentences about options of the adapter's configuration that are unknown."""
    tokenizer: Path | None = None
    """The adapter's folder, if the tokenizer saved there is used in place of the base's."""
    chat_template: PromptTemplate | None = None
    """The chat template saved beside the adapter, if the base has not the same one."""
    tokenizer_caveats: tuple[str, ...] = ()
    """Sentences on the tokenizer saved beside the adapter."""
    last: bool = False
    """Whether the chosen federation is the one written last, not the one of the data."""

    @property
    def tuned(self) -> Target:
        """The model to ask, which is called a base if it is not known to be tuned."""
        if self.served:
            return Target(name="tuned", adapter=self.served.name)
        adapter = str(self.adapter) if self.adapter else None
        return Target(name="tuned" if adapter else "base", adapter=adapter)

    @property
    def trained_tokens(self) -> int:
        """How many tokens of a text training read; 0 where it is not known."""
        return manifest.trained_tokens(self.federation.manifest) if self.federation else 0

    @property
    def untuned(self) -> Target | None:
        """The base to compare the tuned model with, if there is one."""
        has_base = self.served.has_base if self.served else self.adapter is not None
        return Target(name="base") if has_base else None

    @property
    def record_files(self) -> dict[str, Path]:
        """The files of clients' records that the federation's folder has, by client."""
        return self.federation.record_files if self.federation else {}

    @property
    def adapter_name(self) -> str | None:
        """The name of the adapter in a report."""
        if self.served:
            return self.served.name if self.served.has_base else None
        return str(self.adapter) if self.adapter else None

    @property
    def update_caveats(self) -> list[str]:
        """Return what a client's own update shows, and what it does not; nothing for others."""
        if self.update_of:
            return [
                f"The audited adapter is the update of {self.update_of}, which the server receives "
                "and other members do not; of the global adapter this report says nothing."
            ]
        return []

    @property
    def unaudited_model_caveats(self) -> list[str]:
        """Return which models of the federation members and server have that were not audited."""
        if self.federation is None or (self.round is None and not self.deployment):
            return []
        rounds = self.federation.manifest.rounds
        others = [one.round for one in rounds if one.round not in (0, self.round)]
        caveats = []
        if others:
            caveats.append(
                f"The members also have the global adapters of {name_rounds(others)}, which may "
                "give away something else; --round audits one of them."
            )
        names = [client.id for client in self.federation.manifest.clients]
        if self.deployment and (apart := [name for name in names if name != self.deployment]):
            caveats.append(
                f"What {', '.join(apart)} deployed are other models; --client audits one of them."
            )
        updates = next((one.clients for one in rounds if one.round == self.round), {})
        return caveats + [
            "The server also receives each client's own update, which may give away more than the "
            f"global adapter; --adapter FOLDER/{path} audits that of {name}."
            for name, path in sorted(updates.items())[:1]
        ]

    @property
    def discovery_note(self) -> str:
        """Return a message with the chosen target; empty if the user named one."""
        if not self.discovered:
            return ""
        if self.federation:
            origin = "written last" if self.last else "of the data"
            return f"Auditing {self.federation.path}, the federation {origin}."
        return f"Auditing {self.adapter} on {self.base}, the base that it names."

    def origin_caveats(self, form: PromptTemplate) -> list[str]:
        """Return sentences on what the files of adapter and base say that does not agree.

        `form` is the prompt template of the records.
        """
        if self.adapter is None or self.deployment:
            return []
        named = []
        if self.federation is None or self.round is None:  # a federation names those of its rounds
            named = adapter_origin.other_base_caveats([adapters.check(self.adapter)], self.base)
        rendered = []
        if self.chat_template is not None:
            rendered = [
                "Records with an instruction became text by that chat template."
                if form == self.chat_template
                else f"Records with an instruction became text by the prompt template {form.name}, "
                "not by that chat template."
            ]
        base = nano.folder() if self.base == nano.BASE else Path(self.base)
        ends = checkpoint.end_token_caveats(base)
        return [*named, *self.tokenizer_caveats, *rendered, *ends]


def resolve(
    target: str | None,
    adapter: str | None,
    number: int | None,
    data: Path | None = None,
    client: str | None = None,
    victim: Path | None = None,
    *,
    reader: InputReader | None = None,
) -> AuditTarget:
    """Return the target that the options name; checks files, but loads no model.

    A federation's folder gives base and adapter; any other target is a base, to which --adapter is
    applied. Without a target, the federation whose folder contains `data` is chosen, or else the
    one written last below runs/. If a defence is deployed, its model is asked as the named client
    or as the one whose documents are the victim's, unless a round or an adapter is named.
    """
    if is_url(target):
        raise UsageError(  # the address is not quoted, as it may contain a key
            "A server's address as target goes with extract, infer and memorize only."
        )
    reader = reader or InputReader()
    audited = _resolve(target, adapter, number, data, client, victim, reader=reader)
    if audited.adapter is None or audited.deployment:
        return audited
    config = adapters.check(audited.adapter, reader.read)
    caveats = adapter_options.unknown_option_caveats(config)
    if audited.federation is None:
        caveats += recognition.origin_caveats(audited.adapter, audited.base)
    return _with_tokenizer(replace(audited, adapter_caveats=tuple(caveats)))


def _with_tokenizer(audited: AuditTarget) -> AuditTarget:
    """Return `audited` with the tokenizer that was saved beside its adapter.

    Raises InputError if that is the one of another base.
    """
    folder = audited.adapter
    if folder is None or not adapters.tokenizer_files(folder):
        return audited
    base = bases.folder(audited.base)
    saved = adapter_origin.saved_tokenizer(folder, base)
    if saved is None:
        return audited
    form, caveats = None, [saved.caveat()]
    if saved.template and base is not None:
        from fedaudit.engine.loading import saved_tokenizer

        form = saved_tokenizer.chat_template(folder, base)
        if form is None:
            caveats.append("Its chat template renders no single message, and was not used.")
    return replace(audited, tokenizer=folder, chat_template=form, tokenizer_caveats=tuple(caveats))


def _resolve(
    target: str | None,
    adapter: str | None,
    number: int | None,
    data: Path | None,
    client: str | None,
    victim: Path | None,
    *,
    reader: InputReader,
) -> AuditTarget:
    around = _around(data)
    path = Path(target) if target else (around or latest(RUNS))
    unnamed = target is None and number is None and client is None
    if unnamed and adapter is not None and (audited := _open_adapter(adapter, path, reader)):
        return audited
    if path is None:
        raise UsageError(
            "There is no --target and no federation below runs/: name one, or run "
            "`fedaudit simulate --profile fed_pii` first."
        )
    if is_federation(path):
        federation = reader.federation(path)
        opened = _resolve_federation(federation, adapter, number, client, victim or data)
        return replace(opened, discovered=target is None, last=target is None and around is None)
    if number is not None or client is not None:
        option = "--client" if number is None else "--round"
        raise UsageError(f"{option} goes with a federation's folder as --target.")
    return _resolve_base(str(target), path, adapter, reader)


def _resolve_federation(
    federation: Federation,
    adapter: str | None,
    number: int | None,
    client: str | None,
    data: Path | None,
) -> AuditTarget:
    """Return a federation's adapter, or its deployed model if neither option is given."""
    if adapter is not None and number is not None:
        raise UsageError("--round and --adapter exclude each other.")
    if adapter is not None:
        chosen, folder = None, Path(adapter)
    else:
        chosen, folder = federation.adapter(number)
    base = federation.manifest.base
    opened = AuditTarget(
        base=base.name,
        base_sha256=base.sha256,
        adapter=folder,
        federation=federation,
        round=chosen,
        update_of="" if adapter is None else federation.client_of_update(folder),
    )
    if adapter is None and number is None:
        return _apply_deployment(opened, federation, client, data)
    if client is not None:
        raise UsageError("--client goes with neither --round nor --adapter.")
    return opened


def _resolve_base(target: str, path: Path, adapter: str | None, reader: InputReader) -> AuditTarget:
    """Return a base, given as a folder or a hub id, with --adapter applied to it."""
    if path.is_dir() and (path / adapters.CONFIG).exists():
        named = ""
        with suppress(InputError):  # whatever is wrong with it, it needs a base first
            named = str(adapters.check(path, reader.read).get("base_model_name_or_path") or "")
        base = shlex.quote(bases.on_this_machine(named) or "BASE")
        raise UsageError(
            f"{path} is an adapter: name its base, too, with --target {base} --adapter "
            f"{shlex.quote(str(path))}."
        )
    if target != nano.BASE and not path.exists() and _is_path(target):
        raise InputError(f"There is no target {target}.{suggest_neighbour(path)}")
    if path.is_file():
        raise InputError(f"{path} is a file; a target is a folder or a hub id.")
    if path.is_dir() and not (path / "config.json").exists():
        raise InputError(f"{path} is neither a federation (federation.json) nor a model.")
    folder = Path(adapter) if adapter is not None else None
    return AuditTarget(base=target, base_sha256=_stated_sha256(folder), adapter=folder)


def _open_adapter(adapter: str, path: Path | None, reader: InputReader) -> AuditTarget | None:
    """Return an adapter on the base that its configuration names, if that is a folder here.

    None where it is the base of the federation in `path`, or where that takes its place. Raises
    UsageError if there is neither, as a model that only a file names is never downloaded.
    """
    folder = Path(adapter)
    named = str(adapters.check(folder, reader.read).get("base_model_name_or_path") or "")
    base = bases.on_this_machine(named)
    if not base and path is None:
        reason = (
            f"names the base {named!r}, which is not a folder here" if named else "names no base"
        )
        raise UsageError(f"{adapter} {reason}: name it with --target.")
    if not base or (
        path and is_federation(path) and manifest.read(path, reader.read).base.name == base
    ):
        return None
    return AuditTarget(
        base=base, base_sha256=_stated_sha256(folder), adapter=folder, discovered=True
    )


def _apply_deployment(
    audited: AuditTarget, federation: Federation, client: str | None, data: Path | None
) -> AuditTarget:
    """Return `audited` with its deployed defence, if there is one."""
    if federation.manifest.deployment is None:
        if client is not None:
            raise UsageError(f"{federation.path} has no deployed defence: --client names nothing.")
        return audited
    clients = {c.id: federation.path / c.data for c in federation.manifest.clients}
    if client is None and data is not None:
        data_path = data.resolve()
        client = next((name for name, path in clients.items() if path.resolve() == data_path), None)
    if client is None:
        raise UsageError(
            f"{federation.path} answers through its clients' deployed defence: name one with "
            "--client, or audit the global adapter itself with --round."
        )
    if client not in clients:
        raise unknown_name_error("client", client, clients)
    folder = federation.path / DEPLOYED / client
    for path in (folder, *folder.parent.rglob("*")):
        check_linked(path, federation.path)
    if not folder.is_dir():
        raise InputError(
            f"{federation.path} lacks {DEPLOYED}/{client}, which {client} deployed; a client that "
            "took part in no round deploys nothing."
        )
    return replace(audited, adapter=folder, deployment=client, round=None)


def _around(data: Path | None) -> Path | None:
    """Return the folder of the federation whose data/ contains the file `data`."""
    if data is None or data.parent.name != "data" or not is_federation(data.parent.parent):
        return None
    return data.parent.parent


def _stated_sha256(adapter: Path | None) -> str:
    """Return the hash that the federation around an adapter states for its base; empty for none."""
    for folder in adapter.resolve().parents if adapter else ():
        if (folder / manifest.NAME).is_file():
            return manifest.read(folder).base.sha256
    return ""


def _is_path(name: str) -> bool:
    """Tell whether a name that does not exist was meant as a path, not as a hub id.

    A hub id is "model", or "owner/model" if there is no folder here called like the owner.
    """
    folder, slash, remainder = name.partition("/")
    return (
        name.startswith((".", "/", "~"))
        or "/" in remainder
        or bool(slash and Path(folder).is_dir())
    )


def endpoint_target(request: "AuditRequest") -> AuditTarget:
    """Return the served model that a request names; UsageError for options it does not allow."""
    assert request.target is not None
    if request.kind not in SERVED_KINDS:
        raise UsageError(
            f"{request.command} needs a federation or a model's files: a server is audited with "
            "extract, infer and memorize."
        )
    file_options = {
        "--adapter": request.adapter,
        "--round": request.round is not None,
        "--client": request.client,
        "--key": request.keys,
        "--engine": request.engine != "local",
        "--counterfactual": request.counterfactual_path,
        "--reference": request.reference_paths,
    }
    if option := next((name for name, value in file_options.items() if value), None):
        raise UsageError(
            f"{option} needs a model's files and does not work with a server, which serves a "
            "model by its name (--model) and the base by another (--set endpoint.base=NAME)."
        )
    try:
        served = ServedModel(
            url=request.target,
            model=request.model or "",
            options=request.endpoint or EndpointOptions(),
        )
    except ValueError as error:
        raise UsageError(f"--target: {error}") from None
    if served.has_base and served.options.base == request.model and not served.options.base_url:
        raise UsageError("endpoint.base names the model under audit itself, not its base.")
    name = served.base_name if served.has_base else served.name
    return AuditTarget(base=name, served=served)
