"""The built-in detector: what its rules find and leave alone, its models, and no network."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError, UsageError
from fedaudit.config.registry import create
from fedaudit.pii.checksums import id_card_check_digit, luhn_check_digit

ID = "11010519491231002X"
CARD = "6222021234567890128"
VISA = "4111111111111111"


def found(text: str, **options: object) -> list[tuple[str, str]]:
    """Return the pieces of `text` that the detector finds, with their labels."""
    (spans,) = create("detector", "presidio", options).detect([text])
    return [(text[span.start : span.end], span.label) for span in spans]


# Left and right of a find: Latin and Chinese words, punctuation, emoji beyond the first plane.
AROUND = [("", ""), ("请看", "。"), ("see ", ", please"), ("是", "的"), ("(", ")"), ("😀🀄", "😀")]

ALONE = [
    ("zhang.san@qq.com", "EMAIL_ADDRESS"),
    ("o'brien+x@mail.example.co.uk", "EMAIL_ADDRESS"),
    ("jürgen@müller.de", "EMAIL_ADDRESS"),
    ("zhang＠qq．com", "EMAIL_ADDRESS"),
    ("13812345678@163.com", "EMAIL_ADDRESS"),
    (ID, "ID_CARD"),
    (ID.lower(), "ID_CARD"),
    ("110105 19491231 002X", "ID_CARD"),
    ("１１０１０５１９４９１２３１００２Ｘ", "ID_CARD"),
    ("AB 123456 C", "ID_CARD"),
    ("13812345678", "PHONE_NUMBER"),
    ("138 1234 5678", "PHONE_NUMBER"),
    ("138-1234-5678", "PHONE_NUMBER"),
    ("+8613812345678", "PHONE_NUMBER"),
    ("+86 138 1234 5678", "PHONE_NUMBER"),
    ("008613812345678", "PHONE_NUMBER"),
    ("１３８１２３４５６７８", "PHONE_NUMBER"),
    ("010-62345678", "PHONE_NUMBER"),
    ("020 7946 0958", "PHONE_NUMBER"),
    ("+44 20 7946 0958", "PHONE_NUMBER"),
    (CARD, "BANK_CARD"),
    ("6200 0000 0000 0005", "BANK_CARD"),
    (VISA, "BANK_CARD"),
    ("4111-1111-1111-1111", "BANK_CARD"),
    ("378282246310005", "BANK_CARD"),
    ("3782 822463 10005", "BANK_CARD"),
    ("DE89370400440532013000", "IBAN_CODE"),
    ("192.168.1.17", "IP_ADDRESS"),
    ("2001:db8::8a2e:370:7334", "IP_ADDRESS"),
    ("00:1A:2B:3C:4D:5E", "MAC_ADDRESS"),
    ("1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", "CRYPTO"),
    ("219-09-9998", "US_SSN"),
]


@pytest.mark.parametrize(("before", "after"), AROUND)
def test_what_needs_no_context_is_found_whole_wherever_it_stands(before, after):
    texts = [before + text + after for text, _ in ALONE]
    pairs = zip(texts, create("detector", "presidio").detect(texts), strict=True)
    assert [[(text[s.start : s.end], s.label) for s in spans] for text, spans in pairs] == [
        [one] for one in ALONE
    ]


@pytest.mark.parametrize(
    "text",
    [
        "110105194912310021",  # wrong check character
        "11010519491331008X",  # month 13
        f"9{ID}",
        f"{ID}9",
        f"x{ID}",
        "130503670401001",  # the old form, on nobody's word
        "23812345678",
        "11012345678",
        "138123456789",
        "9138123456789",
        "0.13812345678",
        "13812345678.50",
        "hash13812345678cafe",
        "6222021234567890129",  # wrong check digit
        f"{CARD}0",
        f"1{VISA}",
        "4111 1111 1111 1112",
        "9558801001234567896",  # Luhn holds, but no card scheme begins so
        "zhang at qq.com",
        "zhang@qq",
        "@qq.com",
        "张三@例子",
        "DE89370400440532013001",
        "999.168.1.17",
        "application no. 62614/13 of 13.10.1996",
        "1994 300-400",
        "16080702",
        "BG 123456 A",
        "born on 1996-10-13, see https://example.org/a",
        "",
        " \n",
    ],
)
def test_what_only_looks_like_it_is_left_alone(text):
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "piece", "label"),
    [
        ("身份证号：{}", "130503670401001", "ID_CARD"),
        ("his ID card is {}", "130503670401001", "ID_CARD"),
        ("卡号 {}", "9558801001234567896", "BANK_CARD"),
        ("into my account {}", "9558801001234567896", "BANK_CARD"),
        ("Accounts: {}", "9558801001234567896", "BANK_CARD"),
        ("a telephone, {}", "052 1796 7874", "PHONE_NUMBER"),
        ("致电{}", "052 1796 7874", "PHONE_NUMBER"),
        ("Her SSN: {}", "219099998", "US_SSN"),
    ],
)
def test_a_word_before_it_tells_what_a_number_is(text, piece, label):
    assert found(text.format(piece)) == [(piece, label)]
    assert found(piece) == []
    assert found("accountancy phonetic " + piece) == []


def test_the_word_must_be_near():
    assert found("卡号" + "很远" * 30 + "9558801001234567896") == []


@pytest.mark.parametrize("languages", ["en", "zh", "en,zh"])
@pytest.mark.parametrize("text", ["Call 13812345678 now", "请打13812345678"])
def test_chinese_numbers_are_found_in_both_languages(languages, text):
    assert found(text, languages=languages) == [("13812345678", "PHONE_NUMBER")]


def test_several_kinds_side_by_side():
    text = f"李雷，邮箱zhang@qq.com手机13812345678，身份证号{ID}卡号{CARD}。"
    assert found(text) == [
        ("zhang@qq.com", "EMAIL_ADDRESS"),
        ("13812345678", "PHONE_NUMBER"),
        (ID, "ID_CARD"),
        (CARD, "BANK_CARD"),
    ]
    assert found("13812345678,13912345678 13712345678") == [
        ("13812345678", "PHONE_NUMBER"),
        ("13912345678", "PHONE_NUMBER"),
        ("13712345678", "PHONE_NUMBER"),
    ]


def test_a_lone_surrogate_is_no_obstacle():
    assert found("\ud800 a@b.de \udfff") == [("a@b.de", "EMAIL_ADDRESS")]


@given(st.integers(0, 10**9 - 1), st.text("0123456789", min_size=14, max_size=14))
def test_every_valid_number_is_found(number, digits):
    identity = f"620102{1950 + number % 50}0{1 + number % 9}1{number % 9}{digits[:3]}"
    identity += id_card_check_digit(identity)
    card = f"62{digits[:13]}"
    card += luhn_check_digit(card)
    text = f"😀{identity}和{card}、1{3 + number % 7}{number:09d}"
    assert found(text) == [
        (identity, "ID_CARD"),
        (card, "BANK_CARD"),
        (f"1{3 + number % 7}{number:09d}", "PHONE_NUMBER"),
    ]


@given(st.text(alphabet="0123456789 -+.@aB电话卡号，😀１\n\ud800", max_size=80))
def test_spans_are_sorted_apart_and_inside_whatever_the_text(text):
    (spans,) = create("detector", "presidio").detect([text])
    assert all(0 <= span.start < span.end <= len(text) for span in spans)
    assert all(left.end <= right.start for left, right in pairwise(spans))


def test_each_text_is_judged_by_itself():
    texts = ["13812345678", "", f"卡号{CARD}", "nothing", ID]
    detector = create("detector", "presidio")
    alone = [detector.detect([text])[0] for text in texts]
    assert detector.detect(texts) == alone
    assert detector.detect([]) == []


def test_dates_and_web_addresses_are_found_on_request():
    text = "on 1996-10-13 at https://example.org, a@b.de"
    assert found(text, entities="DATE_TIME,URL") == [
        ("1996-10-13", "DATE_TIME"),
        ("https://example.org", "URL"),
        ("b.de", "URL"),
    ]
    assert found(text, entities=["EMAIL_ADDRESS", "URL"])[-1] == ("a@b.de", "EMAIL_ADDRESS")


def test_presidios_name_for_bank_cards_is_understood():
    assert found(f"{VISA} a@b.de", entities="CREDIT_CARD") == [(VISA, "BANK_CARD")]


def test_threshold_holds_back_what_is_less_sure():
    text = "13812345678 +44 20 7946 0958 a@b.de"
    assert [label for _, label in found(text)] == ["PHONE_NUMBER", "PHONE_NUMBER", "EMAIL_ADDRESS"]
    assert [label for _, label in found(text, threshold=0.7)] == ["PHONE_NUMBER", "EMAIL_ADDRESS"]
    assert found(text, threshold=1) == [("a@b.de", "EMAIL_ADDRESS")]


def test_description_says_that_rules_find_no_names():
    described = create("detector", "presidio").describe()
    assert described.startswith("presidio-analyzer 2.")
    assert "en, zh" in described
    assert "no names" in described


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"languages": "de"}, "'de'"),
        ({"languages": []}, "languages"),
        ({"threshold": 1.5}, "threshold"),
        ({"ner": "en_core_web_sm"}, "spacy:NAME"),
        ({"ner": "spacy:"}, "spacy:NAME"),
        ({"ner": "spcy:x"}, "'spacy'"),
    ],
)
def test_a_wrong_option_is_refused_at_once(options, message):
    with pytest.raises(UsageError, match=message):
        create("detector", "presidio", options)


def test_an_entity_that_nothing_finds_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match="Did you mean 'PHONE_NUMBER'"):
        found("x", entities="PHONE_NUMBR")
    with pytest.raises(UsageError, match="no names without ner"):
        found("x", entities="PERSON")


@pytest.mark.parametrize("ner", ["spacy:no_such_model", "transformers:no/such", "transformers:/no"])
def test_a_missing_model_is_one_line(ner):
    with pytest.raises(InputError, match="neither") as caught:
        found("x", ner=ner)
    assert "\n" not in str(caught.value)


OFFLINE = """
import socket, sys
import fedaudit_plugins.detectors.presidio
assert not {"presidio_analyzer", "spacy", "torch"} & sys.modules.keys(), "heavy import"

def blocked(*args, **kwargs):
    raise AssertionError("network")

class Blocked(socket.socket):
    __init__ = blocked

socket.socket = Blocked
socket.create_connection = socket.getaddrinfo = socket.gethostbyname = blocked
from fedaudit.config.registry import create
texts = sys.argv[1:]
for options in ({}, {"entities": "URL,DATE_TIME,EMAIL_ADDRESS"}):
    print(sum(map(len, create("detector", "presidio", options).detect(texts))))
"""


def test_importing_it_imports_nothing_heavy():
    code = "\n".join(OFFLINE.splitlines()[:3])
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.oracle
def test_no_socket_is_ever_opened(tmp_path: Path):
    texts = [text for text, _ in ALONE]
    command = [sys.executable, "-c", OFFLINE, *texts]
    environment = {"HOME": str(tmp_path), "PATH": ""}
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert int(done.stdout.split()[0]) == len(texts)
    assert list(tmp_path.rglob("*tldextract*")) == []


# --- models of the user's own ---------------------------------------------------------------


def save_spacy(folder: Path, language: str, *patterns: tuple[str, str]) -> str:
    """Save a spaCy pipeline that knows some names by heart; return its place in `ner`."""
    import spacy

    nlp = spacy.blank(language)
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": label, "pattern": pattern} for label, pattern in patterns])
    nlp.to_disk(folder)
    return f"spacy:{folder}"


def save_transformers(folder: Path) -> str:
    """Save a token classifier that knows Alice Smith and 李雷; return its place in `ner`.

    It has no layers: each word's embedding is a unit vector that the classifier reads off.
    """
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertForTokenClassification, PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "alice", "smi", "##th", "李", "雷"]
    kinds = [0, 0, 0, 0, 0, 1, 2, 0, 1, 2]
    tokenizer = Tokenizer(models.WordPiece({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]", model_max_length=32
    ).save_pretrained(folder)
    labels = ["O", "B-PER", "I-PER"]
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=4,
        num_hidden_layers=0,
        num_attention_heads=1,
        max_position_embeddings=32,
        id2label=dict(enumerate(labels)),
        label2id={label: i for i, label in enumerate(labels)},
    )
    model = BertForTokenClassification(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.bert.embeddings.LayerNorm.weight.fill_(1)
        model.bert.embeddings.word_embeddings.weight.copy_(torch.eye(4)[kinds])
        model.classifier.weight.copy_(5 * torch.eye(4)[:3])
    model.save_pretrained(folder)
    return f"transformers:{folder}"


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("network")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)


def test_rules_open_no_socket(blocked: None):
    texts = [text for text, _ in ALONE]
    assert sum(map(len, create("detector", "presidio", {}).detect(texts))) == len(texts)
    assert found("https://example.org", entities="URL") == [("https://example.org", "URL")]


def test_a_spacy_model_finds_names_in_its_own_language(tmp_path: Path, blocked: None):
    english = save_spacy(tmp_path / "en", "en", ("PERSON", "Alice"), ("GPE", "Wonderland"))
    chinese = save_spacy(tmp_path / "zh", "zh", ("PER", "李雷"), ("PER", "Alice"))
    text = "😀李雷 met Alice of Wonderland, a@b.de"
    assert found(text, ner=english) == [
        ("Alice", "PERSON"),
        ("Wonderland", "LOCATION"),
        ("a@b.de", "EMAIL_ADDRESS"),
    ]
    # The Chinese model is not asked about what is not in Han characters.
    assert found(text, ner=chinese) == [("李雷", "PERSON"), ("a@b.de", "EMAIL_ADDRESS")]
    both = create("detector", "presidio", {"ner": [english, chinese], "entities": "PERSON"})
    assert [[span.start for span in spans] for spans in both.detect([text, "none"])] == [[1, 8], []]
    assert english in both.describe()


def test_organisations_are_found_on_request(tmp_path: Path):
    model = save_spacy(tmp_path, "en", ("ORG", "the Court"), ("QUANTITY", "ten"))
    assert found("the Court of ten", ner=model) == []
    assert found("the Court of ten", ner=model, entities="ORGANIZATION") == [
        ("the Court", "ORGANIZATION")
    ]


def test_a_model_adds_to_the_names_of_the_rules_and_shortens_none(tmp_path: Path):
    model = save_spacy(
        tmp_path,
        "en",
        ("PERSON", "Dorothy"),
        ("GPE", "Mr Lake"),
        ("PERSON", "Patient Xyla"),
        ("PERSON", "Qomo\nWard"),
    )
    text = "Dorothy MCGREW told Mr Lake. Patient Xyla slept.\nSo did Qomo\nWard 2 was full"
    [spans] = create("detector", "names", {"ner": [model]}).detect([text])
    people = [text[one.start : one.end] for one in spans if one.label == "PERSON"]
    assert people == ["Dorothy MCGREW", "Lake", "Xyla", "Qomo"]


def test_a_model_of_another_language_is_refused(tmp_path: Path):
    model = save_spacy(tmp_path / "de", "de", ("PER", "Anna"))
    with pytest.raises(UsageError, match="reads 'de', not en or zh"):
        found("Anna", ner=model)
    assert found("Anna", ner=f"en={model}") == [("Anna", "PERSON")]


def test_a_model_without_entities_is_refused(tmp_path: Path):
    import spacy

    spacy.blank("en").to_disk(tmp_path)
    with pytest.raises(InputError, match="finds no entities"):
        found("Anna", ner=f"spacy:{tmp_path}")


def test_a_transformers_model_finds_names_in_any_language(tmp_path: Path, blocked: None):
    model = save_transformers(tmp_path)
    text = "😀李雷 met Alice, 13812345678"
    names = [("李雷", "PERSON"), ("Alice", "PERSON")]
    assert found(text, ner=model, entities="PERSON") == names
    assert found(text, ner=model)[-1] == ("13812345678", "PHONE_NUMBER")
    assert found(text, ner=f"zh={model}", entities="PERSON") == names[:1]
    assert found(text, ner=f"en={model}", entities="PERSON") == names[1:]


def test_a_word_is_not_cut_and_a_long_text_is_read_to_its_end(tmp_path: Path):
    model = f"en={save_transformers(tmp_path)}"
    assert found("x " * 100 + "Alice Smith" + " y" * 50, ner=model) == [("Alice Smith", "PERSON")]


def test_weights_that_are_not_safetensors_are_refused(tmp_path: Path):
    (tmp_path / "pytorch_model.bin").touch()
    with pytest.raises(InputError, match="safetensors"):
        found("x", ner=f"transformers:{tmp_path}")


def test_a_damaged_model_is_one_line(tmp_path: Path):
    model = save_transformers(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(InputError, match="does not load") as caught:
        found("x", ner=model)
    assert "\n" not in str(caught.value)


def test_code_in_a_models_folder_is_not_run(tmp_path: Path):
    model = save_transformers(tmp_path)
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    config = json.loads((tmp_path / "config.json").read_text())
    names = {"AutoConfig": "own.A", "AutoModelForTokenClassification": "own.B"}
    (tmp_path / "config.json").write_text(json.dumps(config | {"auto_map": names}))
    assert found("met Alice", ner=model) == [("Alice", "PERSON")]
    (tmp_path / "config.json").write_text(
        json.dumps(config | {"auto_map": names, "model_type": "own"})
    )
    with pytest.raises(InputError, match="does not load"):
        found("met Alice", ner=f"en={model}")
    assert not (tmp_path / "ran").exists()
