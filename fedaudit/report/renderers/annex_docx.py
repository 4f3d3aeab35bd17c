"""The annex as a Word document (DOCX), by python-docx."""

import io
import zipfile
from typing import TYPE_CHECKING

from fedaudit.api.errors import UsageError
from fedaudit.api.kind import Table
from fedaudit.report.checklist.validity import NOT_OWNED, ReportOwner
from fedaudit.report.query import Row
from fedaudit.report.redaction import make_visible
from fedaudit.report.renderers.annex import Bullets, Heading, Paragraph, annex
from fedaudit.system.outputs import GENERATOR

if TYPE_CHECKING:
    from docx.document import Document

PROPERTIES = "docProps/core.xml"
"""The part that names the generator. It is stored uncompressed, so that a later run sees the mark
and knows the file for its own."""


def render(report: Row, owned: ReportOwner = NOT_OWNED) -> bytes:
    """Return the annex of a valid report's document; UsageError without python-docx."""
    try:
        from docx import Document
    except ImportError:
        raise UsageError(
            "A Word file needs python-docx: pip install 'fedaudit[docx]', or write HTML."
        ) from None
    document = Document()
    document.core_properties.author = "fedaudit"
    document.core_properties.comments = GENERATOR
    for block in annex(report, owned):
        if isinstance(block, Heading):
            document.add_heading(make_visible(block.text), block.level - 1)
        elif isinstance(block, Paragraph):
            document.add_paragraph().add_run(make_visible(block.text)).bold = block.bold
        elif isinstance(block, Bullets):
            for item in block.items:
                document.add_paragraph(make_visible(item), style="List Bullet")
        else:
            _add_table(document, block)
    file = io.BytesIO()
    document.save(file)
    return _with_plain_properties(file)


def _add_table(document: "Document", table: Table) -> None:
    document.add_heading(make_visible(table.title), 2)
    laid = document.add_table(rows=1, cols=len(table.columns), style="Table Grid")
    for cell, text in zip(laid.rows[0].cells, table.columns, strict=True):
        cell.paragraphs[0].add_run(make_visible(text)).bold = True
    for row in table.rows:
        for cell, text in zip(laid.add_row().cells, row, strict=True):
            cell.text = make_visible(text)
    for note in table.notes:
        document.add_paragraph(make_visible(note)).runs[0].italic = True


def _with_plain_properties(file: io.BytesIO) -> bytes:
    """Return the archive with PROPERTIES uncompressed, at its end, and no times in it."""
    packed = io.BytesIO()
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(packed, "w") as target:
        for entry in sorted(source.infolist(), key=lambda entry: entry.filename == PROPERTIES):
            stored = entry.filename == PROPERTIES
            info = zipfile.ZipInfo(entry.filename, date_time=(1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
            target.writestr(info, source.read(entry))
    return packed.getvalue()
