"""Finished trials in one compressed file."""

from typer.testing import CliRunner

from ascender.cli import app
from ascender.common.files import json_rows
from ascender.lab.reports import read
from ascender.lab.reports.source import pack
from ascender.lab.store import PACKED, packed_bytes, read_packed
from support import lab_cases as cases


def test_packing_a_bundle_keeps_every_trial_once(tmp_path):
    """Two suites share a trial; a second pack adds what is new and keeps what is there."""
    one = cases.records(("distinct",), ("vanilla", "ascender"), 2)
    two = [one[0], *cases.records(("fewshot-digits",), ("vanilla", "ascender"), 2)]
    for name, made in (("one", one), ("two", two)):
        cases.store(tmp_path / "lab" / name, made, name=name)
    (tmp_path / "lab" / "claims.json").write_text('{"name": "paper", "claims": []}')
    out = tmp_path / "results"
    ran = CliRunner().invoke(app, ["lab", "pack", str(tmp_path / "lab"), "--out", str(out)])
    assert ran.exit_code == 0, ran.output
    assert len(json_rows(out / PACKED)) == len({r["key"] for r in (*one, *two)})
    for name, made in (("one", one), ("two", two)):
        assert read(out / name).records == tuple(made)
        assert not (out / name / PACKED).exists()
    before = (out / PACKED).read_bytes()
    again = {**one[0], "seconds": 1.0}
    new = cases.record("distinct", "vanilla", 9)
    pack(cases.store(tmp_path / "more", [again, new], name="one"), out)
    found = read_packed(out / PACKED)
    assert found[one[0]["key"]]["seconds"] == one[0]["seconds"]
    assert found[new["key"]] == new
    pack(tmp_path / "lab", out)
    assert (out / PACKED).read_bytes() != before
    assert len(read(out / "one").records) == len(one)


def test_packed_bytes_depend_on_the_records_alone():
    made = cases.records(seeds=2)
    assert packed_bytes(made) == packed_bytes([*reversed(made), made[0]])
