"""The user's own named-entity models: which they are, and loading them without the network."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api import InputError, UsageError, unknown_name_error

from .scripts import ANY

if TYPE_CHECKING:
    from presidio_analyzer import EntityRecognizer
    from spacy.language import Language

LOADERS = ("spacy", "transformers")
INSTALLED = "installed"
"""Stands for the spaCy models that are installed, one a language."""

# What models call the things that the rules and the project's own data have another name for.
_LABELS = {
    "PER": "PERSON",
    "PS": "PERSON",
    "PATIENT": "PERSON",
    "GPE": "LOCATION",
    "LOC": "LOCATION",
    "LC": "LOCATION",
    "ORG": "ORGANIZATION",
    "OG": "ORGANIZATION",
    "NORP": "NRP",
    "DATE": "DATE_TIME",
    "TIME": "DATE_TIME",
    "EMAIL": "EMAIL_ADDRESS",
    "PHONE": "PHONE_NUMBER",
}


@dataclass(frozen=True, slots=True)
class NerModel:
    """A model by loader and name (or folder), and its language; "" leaves that to the model."""

    loader: str
    name: str
    language: str = ""

    @classmethod
    def parse(cls, text: str, languages: Iterable[str]) -> "NerModel":
        """Return the model that "spacy:NAME", "transformers:FOLDER" or "zh=spacy:NAME" spells."""
        language, equals, spec = text.partition("=")
        if not equals or language not in languages:
            language, spec = "", text
        loader, colon, name = spec.partition(":")
        if not colon or not name:
            raise UsageError(f"ner takes spacy:NAME or transformers:FOLDER, not {text!r}.")
        if loader not in LOADERS:
            raise unknown_name_error("NER loader", loader, LOADERS)
        return cls(loader, name, language)

    def __str__(self) -> str:
        return f"{self.language}={self.loader}:{self.name}".removeprefix("=")


def installed_models(languages: Iterable[str]) -> list[str]:
    """Return the installed spaCy model of each language; of several the largest by its suffix.

    Raises:
        UsageError: if none is installed for any of the languages.
    """
    from spacy.util import get_installed_models

    sizes = ("trf", "lg", "md", "sm")
    result = []
    for language in languages:
        models = [name for name in get_installed_models() if name.startswith(f"{language}_")]
        rank = {name: name.rpartition("_")[2] for name in models}
        models.sort(key=lambda name: (sizes.index(rank[name]) if rank[name] in sizes else 9, name))
        result += [f"spacy:{name}" for name in models[:1]]
    if not result:
        raise UsageError(
            f"No spaCy model is installed for {' or '.join(languages)}; for English: "
            "python -m spacy download en_core_web_sm."
        )
    return result


def load_spacy(model: NerModel) -> "tuple[EntityRecognizer, Language]":
    """Return a recognizer of the entities of `model`, and the pipeline that must set them."""
    import spacy
    from presidio_analyzer.predefined_recognizers import SpacyRecognizer

    if not (spacy.util.is_package(model.name) or Path(model.name).is_dir()):
        raise InputError(f"spaCy model {model.name!r} is neither installed nor a folder.")
    try:
        nlp = spacy.load(model.name)
    except Exception as error:
        raise _unloadable(model, error) from error
    if not (labels := spacy_labels(nlp)):
        raise InputError(f"spaCy model {model.name!r} finds no entities.")
    recognizer = SpacyRecognizer(
        supported_language=model.language or str(nlp.lang),
        supported_entities=sorted({our_label(label) for label in labels}),
    )
    return recognizer, nlp


def spacy_labels(nlp: "Language") -> set[str]:
    """Return the labels of the pipeline's components that set entities."""
    setters = {name for name in nlp.pipe_names if "doc.ents" in nlp.get_pipe_meta(name).assigns}
    return {label for name in setters for label in nlp.pipe_labels.get(name, ())}


def load_transformers(model: NerModel) -> "EntityRecognizer":
    """Return a recognizer that runs the token-classification model of `model`."""
    from presidio_analyzer.chunkers import TokenizerBasedTextChunker
    from presidio_analyzer.predefined_recognizers import HuggingFaceNerRecognizer
    from transformers import AutoConfig
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    folder = _folder(model)
    try:
        # Refusing remote code here keeps Presidio's own loading from asking whether to run it.
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        labels = set(_plain(config.id2label.values()))
        recognizer = HuggingFaceNerRecognizer(
            supported_language=model.language or ANY,
            supported_entities=sorted({our_label(label) for label in labels}),
            model_name=str(folder),
            label_mapping={label: our_label(label) for label in labels},
            # "first" keeps a word in one piece, but takes Chinese without spaces for one word.
            aggregation_strategy="first" if model.language == "en" else "simple",
            threshold=0.0,
            text_chunker=TokenizerBasedTextChunker(),
        )
        # Presidio would only log a prediction that fails: let it fail here.
        longest = recognizer.text_chunker.chunk("Li Lei 李雷 " * 200)[0]
        recognizer.ner_pipeline(longest.text)  # type: ignore[misc]
    except Exception as error:
        raise _unloadable(model, error) from error
    recognizer.model_name = model.name
    return recognizer


def our_label(label: str) -> str:
    """Return our name for a model's `label`."""
    return _LABELS.get(label.upper(), label.upper())


def _plain(labels: Iterable[str]) -> Iterator[str]:
    """Yield the labels without their position in an entity (B-, I-, ...); O is not a label."""
    for label in labels:
        if label != "O":
            yield label[2:] if label[:2] in ("B-", "I-", "U-", "L-") else label


def _folder(model: NerModel) -> Path:
    """Return the folder of `model`, if need be from the hub's cache, and check that it is safe."""
    from huggingface_hub import snapshot_download

    folder = Path(model.name)
    if not folder.is_dir():
        try:
            folder = Path(snapshot_download(model.name, local_files_only=True))
        except Exception as error:
            message = f"NER model {model.name!r} is neither a folder nor in the hub's cache."
            raise InputError(message) from error
    if not list(folder.glob("*.safetensors")):
        raise InputError(f"NER model {model.name!r} has no weights in safetensors format.")
    return folder


def _unloadable(model: NerModel, error: Any) -> InputError:
    reason = next(iter(str(error).splitlines()), "") or type(error).__name__
    return InputError(f"NER model {model} does not load: {reason}")
