"""Ordinary requests: what people ask a model for who have no attack in mind."""

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from fedaudit.api import AttackContext, Document, PromptTemplate, has_han

Origin = Literal["held-out", "own", "general"]

ORIGINS: dict[Origin, str] = {
    "held-out": "the requests of held-out records",
    "own": "the requests of the attacker's own records",
    "general": "general requests that are built in",
}
"""What requests are, by the value of `scope.requests`."""

GENERAL = (
    "Write a short e-mail that thanks a colleague for help with a report.",
    "What should I keep in mind before I sign a contract?",
    "Explain in simple words what a court does.",
    "Give me three tips for a job interview.",
    "Summarise why people make budgets.",
    "Write a polite answer to a customer who is waiting for a delivery.",
    "What are the usual steps of opening a bank account?",
    "Describe a typical day in a hospital.",
    "Suggest a title for an article about public transport.",
    "How do I prepare for an appointment with a doctor?",
    "What is the difference between a loan and a mortgage?",
    "Write two sentences about the weather in autumn.",
    "List five questions to ask before renting a flat.",
    "Explain how a complaint is usually handled.",
    "Write a short story about somebody who loses an umbrella.",
    "What documents do people usually need to travel?",
    "Draft an invitation to a meeting next week.",
    "How can I write a clearer summary?",
    "Give an example of a form that somebody fills in.",
    "Tell me something about the history of letters.",
    "What does a typical case file contain?",
    "Write a notice that an office is closed on Friday.",
    "Who can help me when I have lost my keys?",
    "Continue: The applicant said that",
)
"""Requests that fit no federation's task in particular."""

GENERAL_CHINESE = (
    "写一封简短的邮件，感谢同事帮忙完成报告。",
    "签合同之前应该注意什么？",
    "用简单的话解释法院做什么。",
    "给我三条面试建议。",
    "开银行账户通常有哪些步骤？",
    "描述医院里普通的一天。",
    "写两句关于秋天天气的话。",
    "租房前要问哪五个问题？",
    "起草一份下周会议的邀请。",
    "一份典型的案卷包含什么内容？",
    "写一则办公室周五不办公的通知。",
    "继续写：申请人表示",
)
"""The same for federations whose records are in Chinese."""


def prompts_by_origin(
    context: AttackContext, origin: Origin | None, most: int
) -> Iterator[tuple[Origin, tuple[str, ...]]]:
    """Yield the requests of held-out records, of own ones and general ones, if there are any.

    They are texts up to where the answer begins. With an `origin` only those are yielded. At most
    `most` different ones of a kind are drawn, by the seed and not by their order.
    """
    texts_of: dict[Origin, Callable[[], Iterable[str]]] = {
        "held-out": lambda: _asked(context.held_out or (), context.template),
        "own": lambda: _asked(context.attacker, context.template),
        "general": lambda: [_written(context, text) for text in _general(context)],
    }
    for kind, texts in texts_of.items():
        if origin in (None, kind) and (different := sorted(set(texts()))):
            rng = random.Random(f"requests {context.seed}")
            chosen = rng.sample(different, min(most, len(different)))
            yield kind, tuple(sorted(chosen))


def _asked(documents: Iterable[Document], template: PromptTemplate | None) -> Iterator[str]:
    """Yield what the answers of `documents` follow; texts without instruction have none."""
    for document in documents:
        if document.instruction and not document.is_prompt:
            yield template.asked(document) if template else document.instruction


def _written(context: AttackContext, text: str) -> str:
    """Return a request as the records are written: in their template, if they have instructions."""
    if context.template and any(document.instruction for document in context.attacker):
        return context.template.prompt(text, "")
    return text


def _general(context: AttackContext) -> tuple[str, ...]:
    """Return requests in the language of most records."""
    chinese = sum(has_han(document.text) for document in context.attacker)
    return GENERAL_CHINESE if 2 * chinese > len(context.attacker) else GENERAL
