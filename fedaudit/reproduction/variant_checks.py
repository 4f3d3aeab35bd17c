"""What of a variant cannot be run, found before any federation is trained."""

from collections.abc import Iterator

from fedaudit.api.errors import UsageError, unknown_name_error
from fedaudit.attribution.measurements import PROTOCOL
from fedaudit.attribution.server.protocol_config import ProtocolConfig
from fedaudit.audit.request import Protocol
from fedaudit.config import registry
from fedaudit.config.options import build_settings
from fedaudit.config.profile import EVERYBODY, OTHERS, Variant
from fedaudit.reproduction.instruments import RANKING
from fedaudit.simulation.config import Simulation


def check_variant(variant: Variant, config: Simulation) -> None:
    """Refuse names and options that what is measured of a variant does not have.

    Raises UsageError, which names the variant.
    """
    try:
        _check_plugins(variant)
        _check_federation(variant, config)
    except UsageError as error:
        raise UsageError(f"variant {variant.name}: {error}") from None


def _check_plugins(variant: Variant) -> None:
    options = variant.options
    known = {name for kind in registry.KINDS for name in registry.plugins(kind)} | {PROTOCOL}
    for name in options.keys() - known:
        raise unknown_name_error("plugin in options", name, known)
    for name in variant.attacks:
        registry.create("attack", name, options.get(name))
    if variant.infer is not None:
        registry.create("attack", RANKING, variant.infer)
    methods = (PROTOCOL, *registry.plugins("attribution"))
    for name in variant.attribution:
        if name not in methods:
            raise unknown_name_error("attribution", name, methods)
        if name == PROTOCOL:
            build_settings(ProtocolConfig, options.get(PROTOCOL, {}), PROTOCOL)
        else:
            registry.create("attribution", name, options.get(name))
    if variant.memorize is not None:
        build_settings(Protocol, variant.memorize, "memorize")


def _check_federation(variant: Variant, config: Simulation) -> None:
    for name in _clients(variant):
        if name not in (EVERYBODY, OTHERS) and name not in config.client_names:
            raise unknown_name_error("client", name, config.client_names)
    if variant.contaminated and config.client_data:
        raise UsageError("contaminated draws cases from `data`, which client_data replaces.")
    if variant.round > config.rounds:
        raise UsageError(f"round {variant.round} is none of {config.rounds}.")
    if variant.model == "central" and not config.central:
        raise UsageError('model = "central" needs a federation that is simulated with central.')
    if variant.model == "local" and config.local == "no":
        raise UsageError('model = "local" needs a federation that is simulated with local.')


def _clients(variant: Variant) -> Iterator[str]:
    """Yield the clients that what is measured of the variant is about."""
    yield from variant.clients
    if variant.attacks and not variant.clients and not variant.matrix:
        yield from (variant.attacker, variant.victim)
    elif variant.infer is not None:
        yield variant.victim
