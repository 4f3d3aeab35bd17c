"""The tokenizer and chat template that a trainer saved beside an adapter are used."""

import json
import shutil
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from fedaudit import nano
from fedaudit.api.errors import InputError
from fedaudit.audit import access, attacks
from fedaudit.audit.input_files import InputReader
from fedaudit.audit.request import ExtractionRequest
from fedaudit.federation import adapters, manifest
from fedaudit.federation.folder import unchecked_caveats
from fedaudit.system.files import sha256

pytestmark = pytest.mark.usefixtures("few_controls")

CHAT = (
    "{% for m in messages %}<s>[{{ m['role'] }}] {{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>[reply] {% endif %}"
)
TURN = "<s>[user] {}</s><s>[reply] "
RECORD = {
    "instruction": "Summarise.",
    "input": "Ann Lee was heard.",
    "output": "Ann Lee: heard.",
}
WORDS = ("--prefixes", "ours.jsonl", "--set", "contextual.samples=1", "--device", "cpu")
WORDS += ("--set", "contextual.new_tokens=4", "--out", "out")


@pytest.fixture
def run(run, empty_folder):
    (empty_folder / "ours.jsonl").write_text(json.dumps(RECORD) + "\n")
    return run


@pytest.fixture
def lora(adapter, tmp_path):
    """Return a function that copies an adapter and saves a tokenizer beside it, as trainers do."""

    def save(folder=None, *, eos="<pad>", template=CHAT, alone=False, edit=None):
        folder = folder or tmp_path / "lora"
        folder.mkdir(parents=True, exist_ok=True)
        for name in (adapters.CONFIG, adapters.WEIGHTS):
            shutil.copyfile(adapter / name, folder / name)
        if alone:
            (folder / adapters.CHAT_TEMPLATE).write_text(template)
            return folder
        tokenizer = AutoTokenizer.from_pretrained(nano.folder())
        if eos:
            tokenizer.eos_token = eos
        if template:
            tokenizer.chat_template = template
        tokenizer.save_pretrained(folder)
        if edit:
            table = json.loads((folder / "tokenizer.json").read_text())
            edit(table)
            (folder / "tokenizer.json").write_text(json.dumps(table))
        return folder

    return save


def resolved(folder, **more):
    request = ExtractionRequest(
        attacks=("contextual",), prefixes=Path("ours.jsonl"), device="cpu",
        **{"target": nano.BASE, "adapter": str(folder) if folder else None, **more},
    )  # fmt: skip
    return attacks.resolve(request, InputReader())


def federation(folder, place, template="alpaca"):
    """Write a federation whose last global adapter is the one in `folder`."""
    for number in (0, 1):
        shutil.copytree(folder, place / f"rounds/00{number}/global")
    form = manifest.Template(name=template, with_input="{instruction} {input}: ",
                             without_input="{instruction}: ")  # fmt: skip
    names = [f"rounds/00{n}/global" for n in (0, 1)]
    manifest.write(
        manifest.Manifest(
            status="complete",
            base=manifest.BaseModel(name=nano.BASE, sha256=""),
            clients=(manifest.ManifestClient(id="c0", examples=1, weight=1.0),),
            rounds=tuple(manifest.Round(round=n, adapter=name) for n, name in enumerate(names)),
            aggregation={"name": "fedavg", "options": {}},
            template=form,
            seeds={},
            files={
                f"{name}/{file.name}": sha256(file)
                for name in names
                for file in sorted((place / name).iterdir())
            },
        ),
        place,
    )
    return place


def limits():
    return json.loads(Path("out/report.json").read_text())["limits"]


def test_an_adapter_is_asked_with_its_own_tokenizer_and_template(run, lora):
    folder = lora()
    inputs = resolved(folder)
    assert inputs.form.name == "chat_template"
    [document] = inputs.attacker.documents
    turn = TURN.format("Summarise.\nAnn Lee was heard.")
    assert document.text == turn + "Ann Lee: heard."
    engine, _ = access.load_engine(inputs.audited, inputs.form, inputs.request)
    assert 0 in engine.end_tokens  # its <pad>, and </s> of the base's generation_config.json
    header = engine.tokenize(["<s>[user] "])[0].ids
    assert engine.prompt_starts["template"] == header
    done = run("extract", "--target", nano.BASE, "--adapter", folder, *WORDS)
    assert done.code in (0, 1, 7), done
    told = (
        "The tokenizer saved beside the adapter was used, not the base's: it has '<pad>' as the "
        "token that ends a text, not '</s>' and a chat template of its own.",
        "Records with an instruction became text by that chat template.",
    )
    assert set(told) <= set(limits())
    assert all(sentence in done.err for sentence in told)


def test_a_template_that_is_named_goes_before_the_adapters_own(run, lora):
    inputs = resolved(lora(), template="alpaca")
    assert inputs.form.name == "alpaca"
    *_, told = inputs.audited.origin_caveats(inputs.form)
    assert "by the prompt template alpaca, not by that chat template" in told


def test_a_chat_template_alone_is_rendered_with_the_bases_tokens(run, lora):
    inputs = resolved(lora(alone=True))
    assert inputs.form.without_input == TURN.format("{instruction}")
    engine, _ = access.load_engine(inputs.audited, inputs.form, inputs.request)
    assert engine.prompt_starts["template"] == engine.tokenize(["<s>[user] "])[0].ids
    assert engine.base.tokenizer.eos_token == "</s>"


def listed(**templates):
    return {"chat_template": [{"name": n, "template": text} for n, text in templates.items()]}


FORMS = {
    "text": {"tokenizer_config.json": {"chat_template": CHAT}},
    "list": {"tokenizer_config.json": listed(tool_use="{{ tools }}", default=CHAT)},
    "processor": {"chat_template.json": {"chat_template": CHAT}},
    "file": {"additional_chat_templates/default.jinja": CHAT},
    "files": {
        "chat_template.jinja": CHAT,
        "additional_chat_templates/rag.jinja": "{{ documents }}",
    },
    "file before text": {
        "chat_template.jinja": CHAT,
        "tokenizer_config.json": {"chat_template": "{{ messages }}"},
    },
}


def save(files, folder):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name).write_text(text)


@pytest.fixture
def chat_base(tmp_path):
    """Return a base with a chat template of its own, as a file."""
    base = shutil.copytree(nano.folder(), tmp_path / "base")
    (base / adapters.CHAT_TEMPLATE).write_text("{% for m in messages %}{{ m['role'] }}{% endfor %}")
    return base


@pytest.mark.parametrize(
    ("form", "alone"), [*((form, False) for form in FORMS), ("list", True), ("files", True)]
)
def test_a_chat_template_is_used_in_whichever_form_it_was_saved(run, lora, chat_base, form, alone):
    folder = lora(alone=alone, template="" if not alone else CHAT)
    if alone:
        (folder / adapters.CHAT_TEMPLATE).unlink()
    save(FORMS[form], folder)
    inputs = resolved(folder, target=str(chat_base))
    assert inputs.form.without_input == TURN.format("{instruction}")
    assert any("a chat template of its own" in text for text in inputs.audited.tokenizer_caveats)
    engine, _ = access.load_engine(inputs.audited, inputs.form, inputs.request)
    assert engine.prompt_starts["template"] == engine.tokenize(["<s>[user] "])[0].ids


def test_templates_of_which_none_is_the_default_are_told_of(run, lora):
    folder = lora(alone=True)
    (folder / adapters.CHAT_TEMPLATE).unlink()
    save({"tokenizer_config.json": listed(tool_use=CHAT, rag=CHAT)}, folder)
    caveats = " ".join(resolved(folder).audited.tokenizer_caveats)
    assert "a chat template of its own" in caveats
    assert "renders no single message, and was not used" in caveats


@pytest.mark.parametrize("form", ["processor", "files"])
def test_an_import_keeps_every_form_of_a_chat_template(run, lora, tmp_path, form):
    folder = lora(tmp_path / "src/round_1", template="")
    save(FORMS[form], folder)
    assert run("import", "src", "made", "--base", nano.BASE).code == 0
    table = json.loads((tmp_path / "made/federation.json").read_text())
    assert table["template"]["without_input"] == TURN.format("{instruction}")
    assert {f"rounds/001/global/{name}" for name in FORMS[form]} <= table["files"].keys()
    assert resolved(None, target="made").audited.chat_template is not None


def test_what_is_the_bases_changes_and_says_nothing(run, lora):
    inputs = resolved(lora(eos="", template=""))
    assert inputs.audited.tokenizer is None
    assert inputs.audited.tokenizer_caveats == ()
    assert inputs.form.name == "fed_pii"


def test_a_federations_own_template_stays_and_its_tokenizer_is_the_saved_one(run, lora, tmp_path):
    place = federation(lora(), tmp_path / "fed")
    inputs = resolved(None, target=str(place))
    assert inputs.form.name == "alpaca"
    engine, _ = access.load_engine(inputs.audited, inputs.form, inputs.request)
    assert 0 in engine.end_tokens
    told = " ".join(inputs.audited.origin_caveats(inputs.form))
    assert "saved beside the adapter was used" in told
    assert "by the prompt template alpaca, not by that chat" in told
    assert not any("no hash of rounds" in c for c in unchecked_caveats(inputs.audited.federation))
    (place / "rounds/001/global/tokenizer_config.json").write_text("{}")
    run.refused(3, "extract", "--target", place, *WORDS, says="tokenizer_config.json is not the")


def test_an_import_keeps_the_saved_tokenizer_and_takes_its_template(run, lora, tmp_path):
    for number in (1, 2):
        lora(tmp_path / f"sft/checkpoint-{number}")
        (tmp_path / f"sft/checkpoint-{number}/trainer_state.json").write_text("{}")
    done = run("import", "sft", "made", "--base", nano.BASE)
    assert done.code == 0, done
    table = json.loads((tmp_path / "made/federation.json").read_text())
    assert table["template"]["without_input"] == TURN.format("{instruction}")
    assert "rounds/002/global/tokenizer.json" in table["files"]
    assert "by the chat template saved with the adapters" in str(table["imported"]["notes"])
    inputs = resolved(None, target="made")
    assert inputs.audited.tokenizer is not None
    assert inputs.form == inputs.audited.chat_template


def swapped(table):
    vocabulary = table["model"]["vocab"]
    first, second = list(vocabulary)[400:402]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]


@pytest.mark.parametrize("through", ["adapter", "federation"])
def test_a_vocabulary_of_another_base_is_refused(run, lora, tmp_path, through):
    folder = lora(edit=swapped)
    words = ("--target", nano.BASE, "--adapter", folder)
    if through == "federation":
        words = ("--target", federation(folder, tmp_path / "fed"))
    run.refused(3, "extract", *words, *WORDS, says="it was trained on another base")


def test_other_tokens_in_files_that_cannot_be_compared_are_refused_once_loaded(run, lora):
    folder = lora(edit=swapped)
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    (folder / "merges.txt").write_text("\n".join(map(" ".join, model["merges"])))
    (folder / "tokenizer.json").unlink()
    run.refused(3, "extract", "--target", nano.BASE, "--adapter", folder, *WORDS,
                says="it was trained on another base")  # fmt: skip


def test_a_template_that_renders_no_message_is_not_used_and_it_is_said(run, lora):
    inputs = resolved(lora(template="{{ messages[0]['content'][:3] }}"))
    assert inputs.form.name == "fed_pii"
    assert any("renders no single message" in text for text in inputs.audited.tokenizer_caveats)


def test_a_broken_tokenizer_ends_with_one_line(run, lora):
    folder = lora(template="")
    (folder / "tokenizer.json").write_text('{"model": {')
    inputs = resolved(folder)
    with pytest.raises(InputError, match=r"^\S+ comes with a broken tokenizer: [^\n]*$"):
        access.load_engine(inputs.audited, inputs.form, inputs.request)


def test_another_saved_tokenizer_is_another_adapter_to_a_resumed_audit(lora):
    folder = lora()
    before = adapters.fingerprint(folder)
    (folder / adapters.CHAT_TEMPLATE).write_text("{{ messages }}")
    assert adapters.fingerprint(folder) != before


@pytest.mark.parametrize("form", ["processor", "file"])
def test_another_template_in_another_form_is_another_adapter_too(lora, form):
    folder = lora()
    before = adapters.fingerprint(folder)
    save(FORMS[form], folder)
    assert adapters.fingerprint(folder) != before
