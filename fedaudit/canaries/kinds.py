"""The kinds of secrets, and the sentences that hold them."""

from collections.abc import Mapping
from dataclasses import dataclass

from fedaudit.api.errors import UsageError, unknown_name_error
from fedaudit.canaries.secret_space import SecretSpace

SECRET, NUMBER = "{secret}", "{number}"
"""Where a sentence has its secret, and a number that no other canary has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretKind:
    """One kind of secret in one language."""

    label: str
    space: SecretSpace | None
    """None where the auditor gives a list."""
    sentences: tuple[str, ...]


def find_kind(name: str, language: str) -> SecretKind:
    """Return the kind of that name; raises UsageError for one, or a language, that is unknown."""
    if name not in KINDS:
        raise unknown_name_error("kind of canary", name, KINDS)
    if language not in KINDS[name]:
        raise unknown_name_error("language of canaries", language, KINDS[name])
    return KINDS[name][language]


def check_sentence(sentence: str) -> str:
    """Return a sentence that has its secret once; raises UsageError for any other."""
    if sentence.count(SECRET) != 1 or sentence.count(NUMBER) > 1 or not sentence.isprintable():
        raise UsageError(f"The format {sentence!r} must be one line and hold {SECRET} once.")
    if sentence.startswith(SECRET):
        raise UsageError(f"The format {sentence!r} needs words before {SECRET}.")
    return sentence


KINDS: Mapping[str, Mapping[str, SecretKind]] = {
    "phone": {
        # Ofcom keeps these thousand numbers for drama: no one has them.
        "en": SecretKind(
            label="PHONE_NUMBER",
            space=SecretSpace("07700 900###"),
            sentences=(
                "Note {number}: the witness can be reached on {secret}.",
                "File {number}: please ring the claimant back on {secret}.",
                "Appointment {number}: the patient's telephone number is {secret}.",
                "Account {number}: the customer left the number {secret}.",
            ),
        ),
        "zh": SecretKind(
            label="PHONE_NUMBER",
            space=SecretSpace("1990000####"),
            sentences=(
                "第{number}号记录：证人的联系电话是{secret}。",
                "第{number}号案件：请回拨原告的电话{secret}。",
                "第{number}号预约：患者的电话号码为{secret}。",
                "第{number}号账户：客户留下的电话是{secret}。",
            ),
        ),
    },
    "card": {
        "en": SecretKind(
            label="BANK_CARD",
            space=SecretSpace("622200#########", "luhn"),
            sentences=(
                "Transfer {number}: the sum was paid from card {secret}.",
                "Order {number}: payable into account {secret}.",
                "Account {number}: the customer's new card is {secret}.",
            ),
        ),
        "zh": SecretKind(
            label="BANK_CARD",
            space=SecretSpace("622200#########", "luhn"),
            sentences=(
                "第{number}号转账：款项从银行卡{secret}支出。",
                "第{number}号判决：款项应汇入账户{secret}。",
                "第{number}号账户：客户的新卡号是{secret}。",
            ),
        ),
    },
    "id": {
        # The prefix QQ is never given to anybody.
        "en": SecretKind(
            label="ID_CARD",
            space=SecretSpace("QQ ###### [ABCD]"),
            sentences=(
                "File {number}: the claimant's national insurance number is {secret}.",
                "Ward {number}: the patient was admitted under the number {secret}.",
                "Account {number}: the customer identified himself with {secret}.",
            ),
        ),
        "zh": SecretKind(
            label="ID_CARD",
            space=SecretSpace("11010119[56789]#0[123456789]1####", "id_card"),
            sentences=(
                "第{number}号案件：原告的身份证号码为{secret}。",
                "第{number}号病历：患者的身份证号是{secret}。",
                "第{number}号账户：客户出示的身份证号为{secret}。",
            ),
        ),
    },
    "name": {
        "en": SecretKind(
            label="PERSON",
            space=None,
            sentences=(
                "Note {number}: the only witness was {secret}.",
                "File {number}: the claim was brought by {secret}.",
                "Appointment {number}: the patient is {secret}.",
            ),
        ),
        "zh": SecretKind(
            label="PERSON",
            space=None,
            sentences=(
                "第{number}号记录：唯一的证人是{secret}。",
                "第{number}号案件：原告是{secret}。",
                "第{number}号预约：患者是{secret}。",
            ),
        ),
    },
}
