"""Profiles: the shipped ones hold together, and a broken one is named."""

from functools import cache

import pytest

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.templates import template
from fedaudit.attribution.measurements import PROTOCOL
from fedaudit.config import profile, registry
from fedaudit.config.options import build, merge_tables
from fedaudit.config.profile import Profile, Select, load, parse
from fedaudit.reproduction.runner import study_variants, variant_config
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.initialization import documents
from fedaudit.simulation.runner import prepare

SHIPPED = profile.shipped_profiles()


@cache
def shipped_simulations(name: str) -> dict[str, Simulation]:
    return simulations(load(name))


def simulations(chosen: Profile) -> dict[str, Simulation]:
    """Return every federation that a profile can train, by scale and variant."""
    made = {}
    for scale in chosen.scale:
        settings = chosen.settings(scale)
        made[scale] = build(Simulation, settings, scale)
        for variant in chosen.study:
            table = merge_tables(settings, chosen.variant_settings(variant, scale))
            made[f"{scale} {variant.name}"] = build(Simulation, table, variant.name)
    return made


def test_fed_pii_is_shipped():
    assert "fed_pii" in SHIPPED
    assert "nano" in load("fed_pii").scale


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_profile_is_named_as_its_file_and_says_what_it_is(name):
    chosen = load(name)
    assert chosen.name == name
    assert chosen.title
    # What no paper has measured has no paper's scale.
    assert list(chosen.scale) == ["nano", "small", *(["paper"] if chosen.paper else [])]


@pytest.mark.parametrize("name", SHIPPED)
def test_every_scale_and_variant_makes_a_federation_of_what_is_installed(name):
    for which, config in shipped_simulations(name).items():
        assert registry.create("aggregation", *config.aggregator()), which
        assert template(config.template), which


@pytest.mark.parametrize("name", SHIPPED)
def test_variants_name_installed_attacks_and_clients_that_exist(name):
    chosen = load(name)
    names = [variant.name for variant in chosen.study]
    assert len(set(names)) == len(names)
    made = shipped_simulations(name)
    for scale in chosen.scale:
        for variant in chosen.study:
            config = made[f"{scale} {variant.name}"]
            clients = {f"c{number}" for number in range(config.clients)}
            assert {variant.attacker, variant.victim} <= clients | {"*", "others"}
            assert variant.attacker != variant.victim
            assert variant.round <= config.rounds
            for attack in variant.attacks:
                assert registry.create("attack", attack)
            for way in variant.attribution:
                assert way == PROTOCOL or registry.create("attribution", way)
            if config.watermark_plugin()[0]:
                assert registry.create("watermark", *config.watermark_plugin())


@pytest.mark.parametrize("name", SHIPPED)
def test_claims_and_figures_speak_of_variants_that_exist(name):
    chosen = load(name)
    variants = {name for one in chosen.study for name in (one.name, one.pool) if name}
    ids = [claim.id for claim in chosen.claims]
    assert len(set(ids)) == len(ids)
    sides = [side for claim in chosen.claims for side in (claim.left, claim.right)]
    assert {side.variant for side in sides if isinstance(side, Select)} <= variants
    assert {figure.variant for figure in chosen.figures} <= variants | {""}
    assert all(part.source for part in (*chosen.claims, *chosen.figures))


WHOLE = """
name = "mine"
[scale.nano]
clients = 2
[[study]]
name = "plain"
attacks = ["contextual"]
quick = true
simulate.training.rank = 4
[[claims]]
id = "leaks"
source = "table 1"
statement = "It leaks."
left = { variant = "plain", metric = "coverage", scope = { source = "tuned" } }
compare = ">"
right = { variant = "plain", metric = "coverage" }
factor = 2
[[claims]]
id = "leaks-at-all"
source = "table 1"
statement = "It leaks something."
left = { variant = "plain", metric = "coverage" }
compare = ">"
right = 0
[[figures]]
source = "table 1"
what = "coverage"
metric = "coverage"
value = 0.5
"""


def test_a_profile_is_read_from_a_path(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(WHOLE)
    chosen = load(str(path))
    assert chosen.name == "mine"
    assert chosen.study[0].simulate == {"training": {"rank": 4}}
    assert chosen.claims[0].left.scope == {"source": "tuned"}
    assert chosen.claims[0].right == Select(variant="plain", metric="coverage")
    assert chosen.claims[0].factor == 2.0
    assert chosen.claims[1].right == 0.0
    assert chosen.figures[0].value == 0.5
    assert simulations(chosen)["nano plain"].training.rank == 4


def test_a_file_without_the_ending_is_found_too(tmp_path):
    path = tmp_path / "mine"
    path.write_text(WHOLE)
    assert load(str(path)).name == "mine"


def test_an_unknown_profile_names_the_nearest():
    with pytest.raises(UsageError, match=r"No profile named 'fedpii'\. Did you mean 'fed_pii'"):
        load("fedpii")


def test_an_unknown_scale_names_the_nearest():
    with pytest.raises(UsageError, match=r"No scale of profile fed_pii .* Did you mean 'nano'"):
        load("fed_pii").settings("nanno")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n[scale]]\n", "line 2"),
        ("", "profile: name and scale are missing"),
        ('name = "x"', "profile: scale is missing"),
        ("name = 5\n[scale.nano]\nclients = 2", "profile.name takes str"),
        ('name = "x"\n[scales]\n', "Did you mean 'scale'"),
        ('name = "x"\nscale = 5', "profile.scale takes"),
        ('name = "x"\n[scale]\nnano = 5', "scale.nano must be a table"),
        ('name = "x"\nlike.smal = "nano"\n[scale.nano]', "No scale in like named 'smal'"),
        ('name = "x"\nlike.nano = "nan"\n[scale.nano]', "Did you mean 'nano'"),
        ('name = "x"\nlike = {a = "b", b = "a"}\n[scale.a]\n[scale.b]', "like another scale"),
        ('name = "x"\nstudy = 5\n[scale]', "study must be a list of tables"),
        ('name = "x"\nstudy = ["y"]\n[scale]', "study must be a table, not 'y'"),
        ('name = "x"\n[scale]\n[[study]]\n', "study: name is missing"),
        ('name = "x"\n[scale]\n[[study]]\nname = "a"\natacks = []', "Did you mean 'attacks'"),
        ('name = "x"\n[scale]\n[[claims]]\ncompare = "=="', "claims.compare"),
        ('name = "x"\n[scale]\n[[claims]]\nleft = { metrc = "" }', "Did you mean 'metric'"),
        ('name = "x"\n[scale]\n[[figures]]\nvalue = nan', "finite"),
        ("name = " + "9" * 5000, "digits"),
    ],
)
def test_a_broken_profile_is_an_input_error_that_names_file_and_fault(tmp_path, text, message):
    path = tmp_path / "broken.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        load(str(path))
    assert "broken.toml" in str(caught.value)
    assert caught.value.exit_code == 3


CLAIM = {
    "id": "c",
    "source": "s",
    "statement": "t",
    "left": {"variant": "a", "metric": "loss"},
    "compare": ">",
}
COLUMN = {"title": "loss", "metric": "loss", "axis": True}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"study": [{"name": "a", "pool": "a"}]}, "the pool 'a' has the name of a variant"),
        ({"study": [{"name": "a"}], "claims": [CLAIM, CLAIM]}, "two claims have the id 'c'"),
        ({"tradeoffs": [COLUMN, COLUMN]}, "two tradeoffs have the title 'loss'"),
        ({"study": [{"name": "a", "only": "papr"}]}, "Did you mean 'paper'"),
        ({"study": [{"name": "a", "scale": {"papr": {}}}]}, "Did you mean 'paper'"),
        (
            {
                "study": [{"name": "first"}],
                "figures": [
                    {"source": "s", "what": "w", "metric": "m", "value": 1, "variant": "frist"}
                ],
            },
            "Did you mean 'first'",
        ),
    ],
    ids=["pool", "claim", "column", "only", "scale", "figure"],
)
def test_names_that_mean_two_things_or_nothing_are_refused(table, message):
    with pytest.raises(UsageError, match=message):
        profile.parse({"name": "mine", "scale": {"nano": {}, "paper": {}}, **table})


def test_a_path_that_cannot_be_read_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match=r"absent\.toml cannot be read as a profile"):
        load(str(tmp_path / "absent.toml"))
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(InputError, match=r"folder\.toml cannot be read as a profile"):
        load(str(tmp_path / "folder.toml"))
    (tmp_path / "latin.toml").write_bytes(b'name = "\xfc"')
    with pytest.raises(InputError, match=r"latin\.toml is not TOML in UTF-8"):
        load(str(tmp_path / "latin.toml"))


def test_settings_are_those_of_the_scale():
    chosen = parse({"name": "x", "scale": {"nano": {"clients": 3}}})
    assert chosen.settings("nano") == {"clients": 3}


LIKE = {
    "name": "x",
    "scale": {
        "nano": {"clients": 3, "training": {"rank": 4, "steps": 9}},
        "small": {"base": "real", "training": {"rank": 16}},
        "paper": {"clients": 50},
    },
    "like": {"small": "nano"},
    "study": [
        {"name": "plain", "only": "nano", "simulate": {"rounds": 2, "clients": 4}},
        {"name": "far", "scale": {"nano": {"clients": 5, "rounds": 1}, "small": {"rounds": 7}}},
        {"name": "large", "only": "paper"},
    ],
}


def test_a_scale_takes_what_it_does_not_say_from_the_one_that_it_is_like():
    chosen = parse(LIKE)
    training = {"rank": 16, "steps": 9}
    assert chosen.settings("small") == {"base": "real", "clients": 3, "training": training}
    assert chosen.settings("nano") == LIKE["scale"]["nano"]
    assert chosen.settings("paper") == {"clients": 50}


def test_variants_run_at_a_scale_with_the_settings_of_the_one_that_it_is_like():
    chosen = parse(LIKE)
    plain, far, large = chosen.study
    scales = ("nano", "small", "paper")
    assert [chosen.runs_at(plain, scale) for scale in scales] == [True, True, False]
    assert [chosen.runs_at(far, scale) for scale in scales] == [True, True, True]
    assert [chosen.runs_at(large, scale) for scale in scales] == [False, False, True]
    assert chosen.variant_settings(plain, "small") == {"rounds": 2, "clients": 4}
    assert chosen.variant_settings(far, "small") == {"clients": 5, "rounds": 7}
    assert chosen.variant_settings(far, "nano") == {"clients": 5, "rounds": 1}
    assert chosen.variant_settings(far, "paper") == {}


@pytest.mark.parametrize("name", SHIPPED)
def test_every_variant_can_be_trained_as_far_as_that_is_known_before(name, tmp_path):
    chosen = load(name)
    for scale in ("nano", "small"):
        for one in study_variants(chosen, scale, quick=False):
            prepare(variant_config(chosen, scale, one, {}), tmp_path / "out")


@pytest.mark.parametrize("scale", ["nano", "small"])
@pytest.mark.parametrize("name", SHIPPED)
def test_a_profile_has_records_for_every_client_without_any_variant(name, scale):
    config = build(Simulation, load(name).settings(scale), scale)
    assert len(documents(config)) > config.clients


@pytest.mark.parametrize("name", SHIPPED)
def test_small_is_a_real_model_tuned_as_people_do(name):
    chosen = load(name)
    config = build(Simulation, chosen.settings("small"), "small")
    training = config.training
    assert config.dtype == "auto"  # bfloat16 on a GPU
    assert (training.rank, len(training.targets), training.steps) == (16, 7, 0)
    assert 2e-4 <= training.learning_rate <= 1e-3
    made = shipped_simulations(name)
    own = [made[f"small {one.name}"] for one in chosen.study if chosen.runs_at(one, "small")]
    assert {one.base for one in (config, *own)} == {"HuggingFaceTB/SmolLM2-135M-Instruct"}
    assert {one.data for one in (config, *own)} == {"nano"}


def test_instructions_are_in_the_models_own_turns():
    assert load("memorization").settings("small")["template"] == "smollm2"


def variants_of(claim):
    return {side.variant for side in (claim.left, claim.right) if isinstance(side, Select)}


@pytest.mark.parametrize("name", profile.shipped_profiles())
def test_two_cores_run_what_claims_need_and_quick_what_two_fifths_of_them_do(name):
    chosen = load(name)
    small = [variant for variant in chosen.study if variant.only in ("", "nano")]
    at_nano, quick = (
        {name for variant in ran for name in (variant.name, variant.pool) if name}
        for ran in (small, [variant for variant in small if variant.quick])
    )
    assert all(variants_of(claim) <= at_nano for claim in chosen.claims)
    without_ablations = [claim for claim in chosen.claims if variants_of(claim) <= quick]
    assert len(without_ablations) > 0.4 * len(chosen.claims) or not chosen.claims


@pytest.mark.parametrize("name", ["../../evil", "/tmp/x", ".", "a/b", "con"])
def test_the_name_of_a_profile_names_no_other_folder(tmp_path, name):
    path = tmp_path / "p.toml"
    path.write_text(f'name = "{name}"\n[scale.nano]\n')
    with pytest.raises(InputError, match=r"the profile .* cannot name a file"):
        profile.load(str(path))
