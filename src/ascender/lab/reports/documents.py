"""`ascender lab report … --into`: the lab's tables inside documents."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ascender.common.files import write
from ascender.lab.bundle import claimed, inside
from ascender.lab.reports.bundle_report import read_suites
from ascender.lab.reports.claims import claims
from ascender.lab.reports.source import read
from ascender.lab.reports.suite_report import all_tables
from ascender.lab.reports.suite_results import DRAWS, SuiteResults
from ascender.report.blocks import block_names, fill_document
from ascender.report.table import Table, markdown


def documents_in(paths: Iterable[Path]) -> list[Path]:
    """The documents themselves, and of folders those with a block of the lab."""
    return [
        found
        for path in paths
        for found in (sorted(path.rglob("*.md")) if path.is_dir() else [path])
        if not path.is_dir() or block_names(found.read_text(encoding="utf-8"), "lab")
    ]


def fill(
    documents: Mapping[Path, str], folder: Path, draws: int = DRAWS,
    say: Callable[[str], None] = warnings.warn,
) -> list[Path]:  # fmt: skip
    """Update the blocks <!-- lab: SUITE TABLE --> of documents, each in its language, from a suite
    or from the suites and claims of a bundle. Blocks of other suites stay. All documents are
    written, or none where one asks for a table that does not exist."""
    wanted = {
        name for path in documents for name in block_names(path.read_text(encoding="utf-8"), "lab")
    }
    bundle, stated = claimed(folder)
    if inside(folder):
        suite_results = read_suites(folder, draws, say)
    else:
        results = SuiteResults.of(read(folder, None, say), draws)
        suite_results = {results.sheet.name: results}
    tables: dict[str, Table] = {}
    for suite, results in suite_results.items():
        needed = {name.split()[1] for name in wanted if name.split()[0] == suite}
        if needed:
            tables |= {f"{suite} {table.name}": table for table in all_tables(results, needed)}
    if stated and f"{bundle} claims" in wanted:
        tables[f"{bundle} claims"] = claims(stated, suite_results)
    known = (bundle, *suite_results)
    texts = {
        path: fill_document(
            path, "lab", {name: markdown(table, lang) for name, table in tables.items()},
            others=lambda name: name.split()[0] not in known,
        )
        for path, lang in documents.items()
    }  # fmt: skip
    return [write(path, text) for path, text in texts.items()]
