"""Attribution of every kind of adapter that an audit accepts: it judges, or says why not at once.

PEFT itself draws and loads each adapter here. An estimate is one of its adapters whose numbers are
combinations of the clients'; the right answer to it is PEFT's, with the clients' configuration.
"""

import json
import warnings

import handmade
import pytest
import torch
from adapter_kinds import (
    ANSWERED,
    IDS,
    REFUSED,
    gpt_oss,
    log_probabilities,
    made,
    mixtral,
    qwen,
    ready,
    save,
)
from peft import PeftModel

from fedaudit.api.errors import InputError
from fedaudit.api.records import Target
from fedaudit.attribution import plaintext
from fedaudit.attribution.server import estimation, sum_plan
from fedaudit.config import registry
from fedaudit.engine.local import LocalEngine
from fedaudit.federation import adapters, manifest
from fedaudit.federation.folder import open_federation

MIXTURES = {
    "fused experts": (lambda: qwen(40), {"target_parameters": ["mlp.experts.gate_up_proj"]}),
    "two fused parameters": (
        lambda: qwen(40),
        {"target_parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]},
    ),
    "fused experts, stored transposed": (
        gpt_oss,
        {"target_parameters": ["mlp.experts.gate_up_proj"]},
    ),
    "a mixture, all-linear": (mixtral, {"target_modules": "all-linear"}),
}
KINDS = [*ANSWERED, *MIXTURES]
UNDER_FLORA = {"plain", "all-linear", "rslora", "one layer", "head", "tied base", "gpt2", "neox",
               "qwen2"}  # fmt: skip
CLIENTS = ("c0", "c1", "c2", "c3", "c4")


def fresh(kind, base):
    if kind in MIXTURES:
        return ready(MIXTURES[kind][0], base)
    return made((ANSWERED | REFUSED)[kind][0], base)


def options_of(kind):
    return MIXTURES[kind][1] if kind in MIXTURES else (ANSWERED | REFUSED)[kind][1]


def federation(kind, base, place, rule="fedit", **changes):
    """Write one round of five clients whose adapters PEFT has drawn; c4's options may differ."""
    first = place / "rounds/000/global"
    save(fresh(kind, base), first, {"target_modules": [], **options_of(kind)})
    tensors, config = {}, json.loads((first / adapters.CONFIG).read_text())
    if kind not in REFUSED:
        tensors = adapters.read(first)
    folders = {client: f"rounds/001/clients/{client}" for client in CLIENTS}
    torch.manual_seed(9)
    for client, folder in folders.items():
        own = {name: t + torch.randn_like(t) / 30 for name, t in tensors.items()}
        own = own or {handmade.A: torch.zeros(4, 32), handmade.B: torch.zeros(32, 4)}
        said = {**config, **(changes if client == "c4" else {})}
        if (rank := said["r"]) != config["r"]:
            own = {n: (t[:rank] if "lora_A" in n else t[:, :rank]) for n, t in own.items()}
        adapters.write(own, said, place / folder)
    rounds = (
        manifest.Round(round=0, adapter="rounds/000/global"),
        manifest.Round(round=1, adapter="rounds/000/global", participants=CLIENTS, clients=folders),
    )
    manifest.write(
        manifest.Manifest(
            status="complete",
            base=manifest.BaseModel(name="fedaudit-nano", sha256=""),
            clients=tuple(manifest.ManifestClient(id=c, examples=10, weight=1.0) for c in CLIENTS),
            rounds=rounds,
            aggregation={"name": rule, "options": {}},
            secure_aggregation=None,
            template=handmade.TEMPLATE,
            seeds={},
            config={"by": "hand"},
        ),
        place,
    )
    return place


def estimate(place, out, protocol="pairs"):
    asked = {"others": 2, "pairs": 2} if protocol == "pairs" else {"sets": 2, "hidden": 0.0}
    wanted = sum_plan.ProtocolConfig(protocol=protocol, threshold=2, limit=1.0, seed=4, **asked)
    plan = sum_plan.draw_sum_plan(open_federation(place), wanted)
    return estimation.estimate(plan, out, out.with_name("log.json"))[0]


def by_peft(loaded, folder):
    """Return what PEFT answers with an adapter, and leave the model without it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peft = PeftModel.from_pretrained(loaded.model, folder).eval()
        found = log_probabilities(peft)
        peft.unload()
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_estimates_are_answered_as_by_peft_under_the_clients_configuration(kind, base, tmp_path):
    place = federation(kind, base, tmp_path / "fed")
    [one] = estimate(place, tmp_path / "est").rounds
    folders = [tmp_path / "est" / own.adapter for own in one.estimates[:2]]
    engine = LocalEngine(fresh(kind, base))
    targets = [Target(name=str(folder), adapter=str(folder)) for folder in folders]
    answered = engine.answers(targets, [IDS[:4], IDS[2:6]], new=3)
    plain = fresh(kind, base)
    for target, folder, rows in zip(targets, folders, answered, strict=True):
        config = json.loads((place / "rounds/000/global" / adapters.CONFIG).read_text())
        adapters.write(adapters.read(folder), config, tmp_path / "same")
        wanted = by_peft(plain, tmp_path / "same")
        assert engine.score(target, [IDS])[0] == pytest.approx(wanted, rel=1e-5, abs=3e-5)
        assert rows == engine.answers([target], [IDS[:4], IDS[2:6]], new=3)[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_rule_of_products_takes_plain_adapters_and_refuses_others_at_once(kind, base, tmp_path):
    place = federation(kind, base, tmp_path / "fed", rule="flora")
    if kind in UNDER_FLORA:
        assert len(estimate(place, tmp_path / "est").rounds) == 1
        return
    with pytest.raises(InputError) as refused:
        estimate(place, tmp_path / "est")
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "log.json").exists()


@pytest.mark.parametrize("protocol", ["pairs", "shared"])
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"r": 2}, "shapes"),
        ({"lora_alpha": 3}, "lora_alpha"),
        ({"use_rslora": True}, "use_rslora"),
        ({"alpha_pattern": {"q_proj": 1}}, "alpha_pattern"),
    ],
)
def test_updates_that_cannot_be_added_are_refused_at_once(changes, says, protocol, base, tmp_path):
    place = federation("plain", base, tmp_path / "fed", **changes)
    with pytest.raises(InputError, match=rf"of c4 in round 1 differs .* in its {says}"):
        estimate(place, tmp_path / "est", protocol)
    assert not (tmp_path / "log.json").exists()
    direct = registry.create("attribution", "direct")
    with pytest.raises(InputError, match="of c4 in round 1"):
        plaintext.check(direct, open_federation(place))


@pytest.mark.parametrize("kind", REFUSED)
def test_what_an_audit_refuses_is_refused_before_anything_is_asked(kind, base, tmp_path):
    with pytest.raises(InputError, match=rf"its {kind} is set"):
        estimate(federation(kind, base, tmp_path / "fed"), tmp_path / "est")


@pytest.mark.parametrize("kind", ["ADALORA", "IA3"])
def test_other_types_than_lora_are_named(kind, base, tmp_path):
    place = federation("plain", base, tmp_path / "fed", peft_type=kind)
    with pytest.raises(InputError, match=f"is an adapter of type '{kind}'"):
        estimate(place, tmp_path / "est")
