"""What tests of the lab's reports share: results of made-up records, tables and pages read back."""

import csv
from html.parser import HTMLParser

import pytest

from ascender.lab.reports import SuiteResults, read
from ascender.lab.reports.tables import table
from support import lab_cases as cases

DRAWS = 50


def results_of(tmp_path, records, **sheet):
    return SuiteResults.of(read(cases.store(tmp_path, records, **sheet)), DRAWS)


def rows(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def groups(records):
    by_cell = {}
    for r in records:
        by_cell.setdefault((r["run"]["task"], r["run"]["variant"]), []).append(r)
    return by_cell


def near(text, x):
    return float(text) == pytest.approx(x, abs=1e-9)


class Reader(HTMLParser):
    """Tags, links, the text of scripts, the numbers and their trials."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.tags, self.links, self.scripts, self.numbers = [], [], [], []

    def handle_starttag(self, tag, attrs):
        of = dict(attrs)
        self.tags.append(tag)
        self.links += [of[a] for a in ("src", "href", "xlink:href") if of.get(a)]
        if tag == "button" and "data-t" in of:
            self.numbers.append(["", [int(i) for i in of["data-t"].split()]])

    def handle_data(self, data):
        if self.tags and self.tags[-1] == "script":
            self.scripts.append(data)
        if self.numbers and self.tags[-1] in ("button", "span"):
            self.numbers[-1][0] += data


def read_page(text):
    reader = Reader()
    reader.feed(text)
    return reader


def tables(results):
    """The tables of the records, those with a row."""
    names = ("accuracy", "examples", "learning", "efficiency", "further")
    return [one for one in (table(name, results) for name in names) if one.rows]
