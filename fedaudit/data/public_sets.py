"""Recipes that turn public data sets, as they are published, into records.

Nothing is fetched: a recipe reads files that are on this machine. What a paper does to its data
beyond that (how many records, who gets which) is in its profile's settings and in `each`.
"""

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError, unknown_name_error
from fedaudit.api.templates import template
from fedaudit.data import corpus
from fedaudit.data.corpus import existing_file
from fedaudit.system.files import json_sha256, open_regular, read_json

Record = dict[str, Any]
Rows = Iterator[tuple[str, Mapping[str, Any]]]

NO_ANSWER, COPIES, OUTSIDE, SHORT, DRAWN = (
    "without an answer",
    "duplicates",
    "in none of the recipe's groups",
    "shorter than 15 words",
    "over the --each limit",
)
"""Why rows are left out."""
SHORTEST = 15
"""Words of the shortest paragraph of a judgment that is a record."""


class LeftOutError(Exception):
    """A row that is not a record, with the reason."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the rows of a data set become records."""

    what: str
    """What the data set is, and the files that are read."""
    record: Callable[[Mapping[str, Any]], Record | list[Record]]
    rows: Callable[[Path], Rows] = corpus.read_objects


@dataclass(slots=True)
class Converted:
    """The records of a data set, and how many rows were left out, by the reason."""

    records: list[Record] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def convert(name: str, files: Sequence[Path], each: int = 0) -> Converted:
    """Return the records of the data set `name` in `files`; repeated ones count once.

    With `each`, at most so many of each corpus (a group's part before the slash) are taken, drawn
    by the hash of their content. Raises UsageError for an unknown name, InputError that names
    file and place for a row that the recipe cannot read.
    """
    if name not in RECIPES:
        raise unknown_name_error("data set", name, RECIPES)
    result, seen = Converted(), set[str]()
    for path in files:
        for where, row in RECIPES[name].rows(existing_file(path, "a file of the data set")):
            for record in _records(name, row, f"{path}, {where}", result.left_out):
                content = _digest(record)
                if content in seen:
                    result.left_out[COPIES] += 1
                else:
                    seen.add(content)
                    result.records.append(record)
    if not result.records:
        raise InputError(f"There is no record of {name} in {', '.join(map(str, files))}.")
    if each:
        _draw(result, each)
    return result


def corpus_name(record: Mapping[str, Any]) -> str:
    """Return the corpus that a record is of, empty where the data set has none."""
    return str(record.get("group", "")).partition("/")[0]


def _records(name: str, row: Mapping[str, Any], where: str, left_out: Counter[str]) -> list[Record]:
    try:
        made = RECIPES[name].record(row)
    except LeftOutError as reason:
        left_out[str(reason)] += 1
        return []
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        missing = f": {error} is missing" if isinstance(error, KeyError) else ""
        raise InputError(f"{where}: not a row of the data set {name}{missing}.") from None
    records = made if isinstance(made, list) else [made]
    for record in records:
        corpus.parse_document(record, template("fed_pii"), where)
    return records


def _digest(record: Mapping[str, Any]) -> str:
    text = {key: value for key, value in record.items() if key not in ("id", "group", "pii")}
    return json_sha256(text)


def _draw(result: Converted, each: int) -> None:
    """Leave at most `each` records of each corpus, in their order."""
    by_corpus: dict[str, list[int]] = defaultdict(list)
    for index, record in enumerate(result.records):
        by_corpus[corpus_name(record)].append(index)
    digests = [_digest(record) for record in result.records]
    kept = {
        index
        for indices in by_corpus.values()
        for index in sorted(indices, key=digests.__getitem__)[:each]
    }
    if dropped := len(result.records) - len(kept):
        result.left_out[DRAWN] += dropped
    result.records = [record for index, record in enumerate(result.records) if index in kept]


def _with(record: Record, **others: str) -> Record:
    """Return a record with those of the other fields that say something."""
    return {**{key: value for key, value in others.items() if value}, **record}


def _answered(instruction: str, given: str, answer: str, task: str = "") -> Record:
    if not answer.strip() or not instruction.strip():
        raise LeftOutError(NO_ANSWER)
    return _with({"instruction": instruction, "output": answer}, input=given, task=task)


def _instructions(row: Mapping[str, Any]) -> Record:
    return _answered(row["instruction"], row.get("input") or "", row["output"])


def _chat(row: Mapping[str, Any]) -> Record:
    """UltraChat: `messages` of the 200k selection, or the turns in `data` of the whole."""
    turns = row.get("messages")
    if turns is None:
        speakers = ("user", "assistant")
        turns = [{"role": speakers[n % 2], "content": text} for n, text in enumerate(row["data"])]
    if not any(turn["role"] == "assistant" and turn["content"].strip() for turn in turns):
        raise LeftOutError(NO_ANSWER)
    messages = [{"role": turn["role"], "content": turn["content"]} for turn in turns]
    return _with({"messages": messages}, id=str(row.get("prompt_id") or row.get("id") or ""))


DOCTOR = (
    "If you are a doctor, please answer the medical questions based on the patient's description."
)


def _dialogue(row: Mapping[str, Any]) -> Record:
    """ChatDoctor's rows, or MedDialog's: a description, and utterances of patient and doctor."""
    if "utterances" not in row:
        return _answered(DOCTOR, row["input"], row["output"], "dialogue")
    texts = [re.split(r":\s*", text, maxsplit=1) for text in row["utterances"]]
    said = {
        speaker: next((rest[0] for who, *rest in texts if who.strip().lower() == speaker), "")
        for speaker in ("patient", "doctor")
    }
    return _answered(DOCTOR, said["patient"], said["doctor"], "dialogue")


def _question(row: Mapping[str, Any]) -> Record:
    """PubMedQA: the long answer; groups by medical subject headings, as in the paper."""
    given = row.get("context") or {}
    if "QUESTION" in row:
        given = {"contexts": row["CONTEXTS"], "meshes": row["MESHES"]}
        row = {"question": row["QUESTION"], "long_answer": row.get("LONG_ANSWER"), **row}
    meshes = set(given["meshes"])
    animals, humans, middle = (name in meshes for name in ("Animals", "Humans", "Middle Aged"))
    if animals == humans:
        raise LeftOutError(OUTSIDE)
    group = "animals" if animals else "middle-aged" if middle else "other-humans"
    answer = row.get("long_answer") or ""
    text = " ".join(given["contexts"])
    name = str(row.get("pubid") or row.get("key") or "")
    record = _answered(row["question"], text, answer, "question_answering")
    return _with(record, id=name, group=f"{group}/{name or _digest(record)[:12]}")


CLASSES = ("BACKGROUND", "OBJECTIVE", "METHODS", "RESULTS", "CONCLUSIONS")
CLASSIFY = (
    "Please classify the following passage into one of the following categories: "
    f"{', '.join(CLASSES[:-1])}, or {CLASSES[-1]}."
)


def _sentence(row: Mapping[str, Any]) -> Record:
    """PubMed RCT: the group is the class, over which the paper deals sentences to clients."""
    label = row["label"].upper()
    if label not in CLASSES:
        raise KeyError("label")
    record = _answered(CLASSIFY, row["text"], label, "classification")
    return _with(record, group=label)


AREAS = {
    "astrophysics": ("astro-ph.HE", "astro-ph.IM", "astro-ph.EP", "astro-ph.GA"),
    "condensed-matter": (
        *("cond-mat.supr-con", "cond-mat.soft", "cond-mat.dis-nn", "cond-mat.quant-gas"),
        "cond-mat.other",
    ),
    "mathematics": ("math.KT", "math.ST", "math.DG", "math.MP", "math-ph"),
}
"""The paper's three areas, by arXiv's primary categories."""


def _abstract(row: Mapping[str, Any]) -> Record:
    primary = row.get("primary_cat") or str(row["categories"]).split()[0]
    area = next((name for name, categories in AREAS.items() if primary in categories), "")
    if not area:
        raise LeftOutError(OUTSIDE)
    abstract, title = (" ".join(row[key].split()) for key in ("abstract", "title"))
    name = str(row.get("arxiv_id") or row.get("id") or "")
    instruction = "Please summarize the following abstract into a title."
    record = _answered(instruction, abstract, title, "summary")
    return _with(record, id=name, group=f"{area}/{name or _digest(record)[:12]}")


def _anonymized(row: Mapping[str, Any]) -> Record:
    """TAB: what some annotator marked as an identifier; where spans overlap, their union."""
    marked = [
        (mention["start_offset"], mention["end_offset"], mention["entity_type"])
        for annotator in row["annotations"].values()
        for mention in annotator["entity_mentions"]
        if mention["identifier_type"] != "NO_MASK"
    ]
    spans: list[Record] = []
    for start, end, label in sorted(marked, key=lambda one: (one[0], -one[1], one[2])):
        if spans and start < spans[-1]["end"]:
            spans[-1]["end"] = max(end, spans[-1]["end"])
        else:
            spans.append({"start": start, "end": end, "label": label})
    name = str(row["doc_id"])
    return {"id": name, "text": row["text"], "group": f"legal/{name}", "pii": spans}


def _judgment(row: Mapping[str, Any]) -> list[Record]:
    """ECHR: a record for each paragraph of a judgment."""
    paragraphs = row["facts"] if "facts" in row else row["TEXT"]
    name = str(row.get("ITEMID") or _digest({"text": paragraphs})[:12])
    texts = [" ".join(text.split()) for text in paragraphs]
    records = [
        {"text": text, "group": f"legal/{name}"} for text in texts if len(text.split()) >= SHORTEST
    ]
    if not records:
        raise LeftOutError(SHORT)
    return records


def _review(row: Mapping[str, Any]) -> Record:
    text = row["text"]
    if not text.strip():
        raise LeftOutError(NO_ANSWER)
    writer = row.get("user_id") or _digest({"text": text})[:12]
    return _with({"text": text, "group": f"bank/{writer}"}, id=str(row.get("review_id") or ""))


def _charges(row: Mapping[str, Any]) -> Record:
    charges = "、".join(row["meta"]["accusation"])
    return _answered("请根据案情描述判断被告人的罪名。", row["fact"], charges, "classification")


def _ruling(row: Mapping[str, Any]) -> Record:
    text = row["text"]
    whole = text if isinstance(text, str) else "".join(one["sentence"] for one in text)
    record = _answered("请概括下面的裁判文书。", whole, row["summary"], "summary")
    return _with(record, id=str(row.get("id") or ""))


def _case(row: Mapping[str, Any]) -> list[Record]:
    """CJRC: a record for each question; those on one case share a group."""
    records = []
    for paragraph in row["paragraphs"]:
        text = paragraph["context"]
        group = str(row.get("caseid") or _digest({"text": text})[:12])
        for question in paragraph["qas"]:
            if str(question.get("is_impossible", "")).lower() == "true":
                continue
            given = [text for one in question["answers"] if (text := one["text"] or "").strip()]
            if not given:
                continue
            instruction = f"请根据案情回答问题：{question['question']}"
            record = _answered(instruction, text, given[0], "reading")
            records.append(_with(record, id=str(question.get("id") or ""), group=group))
    if not records:
        raise LeftOutError(NO_ANSWER)
    return records


def _matching(row: Mapping[str, Any]) -> Record:
    cases = "\n".join(f"<Case {name}>\n{row[name]}" for name in "ABC")
    instruction = "案例B与案例C中，哪一个与案例A更相似？"
    return _answered(instruction, cases, row["label"], "case_matching")


def _exam(row: Mapping[str, Any]) -> Record:
    options = "\n".join(f"{key}. {text}" for key, text in sorted(row["option_list"].items()))
    answer = "、".join(row["answer"])
    question = f"{row['statement']}\n{options}"
    record = _answered("请回答下面的司法考试题，给出所有正确选项。", question, answer, "exam")
    return _with(record, id=str(row.get("id") or ""))


def _whole(path: Path) -> Rows:
    """Yield the rows of a JSON file that is one object, else what records are read from.

    The object is a row, or it has rows in `data`, or by key.
    """
    if path.suffix != ".json" or corpus.is_array(path):
        yield from corpus.read_objects(path)
        return
    table = read_json(path, f"There is no file {path}.")
    if isinstance(table, Mapping) and isinstance(table.get("data"), list):
        yield from ((f"data {number}", row) for number, row in enumerate(table["data"], 1))
    elif (
        isinstance(table, Mapping) and table and all(isinstance(v, Mapping) for v in table.values())
    ):
        yield from ((f"record {n}", {"key": key, **table[key]}) for n, key in enumerate(table, 1))
    else:
        yield "record 1", table


def _abstract_lines(path: Path) -> Rows:
    """Yield the sentences of PubMed RCT: a line for each, its class before a tab."""
    with open_regular(path) as file:
        for number, line in enumerate(file, 1):
            text = line.decode("utf-8", "replace").strip()
            if text and not text.startswith("###"):
                label, _, sentence = text.partition("\t")
                yield f"line {number}", {"label": label, "text": sentence}


def _table(path: Path, header: Sequence[str] = ()) -> Rows:
    """Yield the rows of a CSV or TSV file, whose columns are `header` or those of its first line.

    Other files are read as records.
    """
    if path.suffix not in (".csv", ".tsv"):
        yield from corpus.read_objects(path)
        return
    csv.field_size_limit(corpus.LONGEST_TEXT)
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ",")
        try:
            names = header or next(rows, [])
            for cells in filter(None, rows):
                yield f"line {rows.line_num}", dict(zip(names, cells, strict=False))
        except (UnicodeDecodeError, csv.Error) as error:
            raise InputError(f"{path}, line {rows.line_num}: {error}.") from None


def _reviews(path: Path) -> Rows:
    yield from _table(path, ("label", "text"))


RECIPES: Mapping[str, Recipe] = {
    "alpaca": Recipe("Stanford Alpaca: alpaca_data.json; AlpacaEval's questions", _instructions),
    "arxiv": Recipe(
        "arXiv titles and abstracts of three areas: staeiou/arxiv_archive's TSV, arXiv's snapshot",
        _abstract,
        _table,
    ),
    "cail-charges": Recipe("CAIL2018: facts and charges, JSONL", _charges),
    "cail-exam": Recipe("JEC-QA: questions of the judicial examination, JSONL", _exam),
    "cail-matching": Recipe("CAIL2019-SCM: which of two cases is like a third, JSONL", _matching),
    "cail-reading": Recipe("CJRC and CAIL's reading comprehension, JSON", _case, _whole),
    "cail-summary": Recipe("CAIL2020's summaries of rulings, JSONL", _ruling),
    "echr": Recipe("Judgments of the ECHR (Chalkidis et al. 2019), JSON", _judgment, _whole),
    "healthcaremagic": Recipe("HealthCareMagic: ChatDoctor's or MedDialog's JSON", _dialogue),
    "medalpaca": Recipe("Medical Meadow of MedAlpaca, JSON", _instructions),
    "medinstruct": Recipe("MedInstruct-52k of AlpaCare and its test set, JSON", _instructions),
    "pubmed-rct": Recipe("PubMed 200k RCT: train.txt", _sentence, _abstract_lines),
    "pubmedqa": Recipe("PubMedQA: ori_pqal.json, or the hub's Parquet", _question, _whole),
    "tab": Recipe("Text Anonymization Benchmark: echr_train.json, annotated", _anonymized),
    "ultrachat": Recipe("UltraChat, or its selection UltraChat-200k: JSONL or Parquet", _chat),
    "yelp": Recipe("Yelp's reviews: the academic JSONL, or Yelp Review Full", _review, _reviews),
}
"""By name, in the order of the alphabet."""
