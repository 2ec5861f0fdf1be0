"""The abstract, the conclusion, the checklist and the appendices of a paper: their numbers again by
other means, both languages alike, code that is there, and no failing claim as one that holds."""

import importlib
import json
import re
import statistics
from pathlib import Path

import pytest
from scipy import stats as scipy_stats

import ascender
from ascender import lab
from ascender.lab.paper import (
    checklist_strings,
    footprint_strings,
    procedure_strings,
    settings_strings,
    settings_tables,
    sweep_strings,
)
from ascender.lab.paper.appendix import appendix
from ascender.lab.paper.checklist import checklist
from ascender.lab.paper.document import Heading, TableBlock, labels_of, texts_of
from ascender.lab.paper.facts import check, numerals
from ascender.lab.paper.material import material
from ascender.lab.paper.summary import SENTENCES, abstract, conclusion, findings
from ascender.lab.reports.claims import TESTS
from support import lab_cases as cases
from support.lab_tiny import SUITE
from support.paper_cases import VARIANTS, finish, store

DRAWS = 20
POINTER = re.compile(r"`([a-z_/]+\.py):([\w.]+)`")


def test_every_setting_has_its_meaning_in_korean():
    names = [name for name in settings_tables.HELP if name not in settings_tables.OWN]
    assert [n for n in names if f"ko.{n}" not in settings_strings.SETTINGS] == []


def raw(root):
    """Every record, read without the lab."""
    paths = root.glob("*/trials/*/record.json")
    return {r["key"]: r for r in (json.loads(p.read_text()) for p in paths)}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(folder, material, every block)."""
    root = store(tmp_path_factory.mktemp("paper"))
    of = material(root, DRAWS, say=lambda line: None)
    return root, of, every_block(of)


def every_block(of):
    found = findings(of)
    return [*abstract(of, found), *conclusion(of, found), *checklist(of), *appendix(of, found)]


def plain(blocks, lang="en"):
    return " ".join(text.plain(lang) for block in blocks for text in texts_of(block))


def sentence(blocks, start, lang="en"):
    """The text that begins so."""
    texts = [t for b in blocks for t in texts_of(b) if t.plain(lang).startswith(start)]
    assert len(texts) == 1, f"{len(texts)} texts begin with {start!r}"
    return texts[0]


def numbers(text, lang="en"):
    """Those in cells, in order."""
    return [n.value for s in text.spans(lang) if s.cell for n in numerals(s.text)]


def table(blocks, name):
    (one,) = [b.table for b in blocks if isinstance(b, TableBlock) and b.table.name == name]
    return one.records()


# --- numbers


def test_the_abstract_counts_what_is_there(made):
    root, of, _ = made
    records = raw(root)
    runs = [r["run"] for r in records.values()]
    (text,) = texts_of(abstract(of, findings(of))[0])
    got = numbers(text)
    size = [len(records), len({r["task"] for r in runs}), len({r["variant"] for r in runs})]
    assert got[:4] == [3, *size]
    tests = [r for r in records.values() if not r["key"].startswith("rate")]
    values = {
        "parameters": [r["parameters"] for r in tests], "steps": [r["steps"] for r in tests],
        **{name: [r["run"][name] for r in tests] for name in ("layers", "hidden")},
    }  # fmt: skip
    ends = [x for name in ("parameters", "layers", "hidden", "steps")
            for x in sorted({min(values[name]), max(values[name])})]  # fmt: skip
    assert got[-len(ends) :] == ends


def test_a_claim_that_holds_has_its_numbers(tmp_path):
    root = store(tmp_path)
    finish(root)
    of = material(root, DRAWS, say=lambda line: None)
    text = sentence_of(of, "The largest difference")
    by_task = {}
    for task in cases.TASKS:
        a, b = (values(raw(root), task, v) for v in ("ascender", "vanilla"))
        by_task[task] = [x - y for x, y in zip(a, b, strict=True)]
    most = max(by_task.values(), key=statistics.mean)
    half = scipy_stats.t.ppf(0.975, 2) * statistics.stdev(most) / 3**0.5
    mean = statistics.mean(most)
    expected = [mean, max(mean - half, -1), min(mean + half, 1), 3]
    assert numbers(text) == pytest.approx(expected, abs=5.1e-5)
    wins = sentence_of(of, "With the rules attention is better")
    assert numbers(wins) == [2, 2, 0, 0]


def values(records, task, variant):
    own = [r for r in records.values() if r["run"]["task"] == task
           and r["run"]["variant"] == variant and not r["key"].startswith("rate")]  # fmt: skip
    return [r["test"]["value"] for r in sorted(own, key=lambda r: r["run"]["seed"])]


def sentence_of(of, start):
    """The sentence of a claim within the abstract, as a text."""
    found = findings(of)
    said = [SENTENCES[c.test](of.suites[c.suite], c, f) for c, f in found
            if f.verdict == "supported"]  # fmt: skip
    (one,) = [text for text in said if text.plain("en").startswith(start)]
    assert one.plain("en") in plain(abstract(of, found))
    assert one.plain("ko") in plain(abstract(of, found), "ko")
    return one


def test_the_checklist_counts_what_is_there(made):
    root, _, blocks = made
    records = raw(root)
    tests = [r for r in records.values() if not r["key"].startswith("rate")]
    conditions = len(cases.TASKS) * len(VARIANTS)
    assert numbers(sentence(blocks, "Seeds. ")) == [3, conditions, conditions, 5]
    m = conditions - len(cases.TASKS)
    assert numbers(sentence(blocks, "Correction. ")) == [m, 1, m, m]
    assert numbers(sentence(blocks, "Exclusions. ")) == [len(records), len(records) + 1, 1, 0]
    assert numbers(sentence(blocks, "Tuning. ")) == [6, 1, 1]
    assert numbers(sentence(blocks, "Stopping. "))[1:] == [6, len(records)]
    sizes = {r["run"]["task"]: r["test"]["n"] for r in tests}
    assert numbers(sentence(blocks, "Test examples. "))[1:] == list(sizes.values())
    row = table(blocks, "criteria")[0]
    assert row["trials"].text == f"{len(tests)} / {len(tests) + 1}"
    assert row["m"].text == str(m)
    assert (row["alpha"].text, row["smallest"].text, row["margin"].text) == ("0.05", "0.005", "0")
    assert row["fixed"].text == "2026-01-02"


def test_the_footprint_is_the_sum_of_the_records(made):
    root, _, blocks = made
    records = raw(root)
    seconds = sum(r["seconds"] + r["judging_seconds"] for r in records.values())
    total = sentence(blocks, f"{len(records)} trials took")
    assert numbers(total) == pytest.approx(
        [len(records), seconds / 3600, seconds / 3600], abs=0.005
    )
    last = table(blocks, "footprint")[-1]
    assert last["hours"].data[""] == pytest.approx(seconds / 3600)
    by_suite = table(blocks, "footprint")[:-1]
    assert sum(row["hours"].data[""] for row in by_suite) == pytest.approx(seconds / 3600)
    assert sum(row["trials"].data["n"] for row in by_suite) == len(records)


def test_core_hours_count_threads_and_processes(tmp_path):
    root = store(tmp_path)
    for path in root.glob("accuracy/trials/*/record.json"):
        record = json.loads(path.read_text())
        record["hardware"]["threads"], record["processes"] = 4, 2
        path.write_text(json.dumps(record))
    blocks = every_block(material(root, DRAWS, say=lambda line: None))
    accuracy, tuned, _ = table(blocks, "footprint")
    assert accuracy["core_hours"].data[""] == pytest.approx(8 * accuracy["hours"].data[""])
    assert tuned["core_hours"].data[""] == pytest.approx(tuned["hours"].data[""])


def test_limitations_are_counted(made):
    root, _, blocks = made
    records = raw(root)
    # vanilla is best inside the values tried, ascender at the largest
    assert numbers(sentence(blocks, "Of 2 tasks and variants")) == [2, 1]
    poor = 0
    for task in cases.TASKS:
        for v in VARIANTS:
            x = values(records, task, v)
            half = scipy_stats.t.ppf(0.975, 2) * statistics.stdev(x) / 3**0.5
            poor += statistics.mean(x) - half <= cases.TASKS[task][2]
    n = len(cases.TASKS) * len(VARIANTS)
    (said,) = [
        t for b in blocks for t in texts_of(b) if "reaches the chance level" in t.plain("en")
    ]
    assert numbers(said) == [poor, n]


def test_a_sweep_has_each_condition_and_its_difference(made):
    root, _, blocks = made
    records = raw(root)
    rows = [r for r in table(blocks, "sweep_k") if r["task"].text == "distinct"]
    assert [r["variant"].text for r in rows] == ["vanilla", "ascender", "ascender+k=4"]
    swept, base = (values(records, "distinct", v) for v in ("ascender+k=4", "vanilla"))
    row = rows[-1]
    assert row["score"].data["mean"] == pytest.approx(statistics.mean(swept))
    differences = [a - b for a, b in zip(swept, base, strict=True)]
    assert row["vs"].data["mean"] == pytest.approx(statistics.mean(differences))
    assert row["against"].text == "vanilla"
    assert [r["variant"].text for r in table(blocks, "sweep_gates")[:3]] == [
        "vanilla", "ascender", "ungated",
    ]  # fmt: skip
    assert "No trial varies the widths and temperature τ." in plain(blocks)


def test_what_was_not_run_is_named_with_its_command(made):
    _, _, blocks = made
    rows = table(blocks, "not_run")
    tau = [r for r in rows if "τ" in r["sweep"].text and r["suite"].text == "sensitivity"]
    assert tau[0]["command"].text == "ascender lab run sensitivity --out lab/sensitivity"
    assert "ascender+tau=0.5" in tau[0]["settings"].text


def test_what_was_run_is_not_named_as_missing(tmp_path):
    from ascender.lab.suite import suite

    planned = [r for r in suite("sensitivity").runs if "tau" in r.variant]
    root = store(tmp_path)
    extra = [{**cases.record(r.task, r.variant, r.seed), "key": r.key} for r in planned]
    (root / "more").mkdir()
    cases.store(root / "more", extra, name="more")
    blocks = every_block(material(root, DRAWS, say=lambda line: None))
    left = [r for r in table(blocks, "not_run") if "τ" in r["sweep"].text]
    assert not [r for r in left if r["suite"].text == "sensitivity"]
    swept = [r["variant"].text for r in table(blocks, "sweep_tau")]
    assert swept == 2 * ["ascender+tau=0.5", "ascender+tau=2"]


def test_settings_are_those_of_the_records(made):
    root, _, blocks = made
    records = [r for r in raw(root).values() if not r["key"].startswith("rate")]
    rows = table(blocks, "task_settings")
    assert sum(r["trials"].data["n"] for r in rows) == len(records)
    shared = {r["setting"].text: r["value"].text for r in table(blocks, "shared_settings")}
    assert (shared["layers"], shared["batch"], shared["clip"]) == ("2", "16", "1")
    assert "rate" not in shared, "the suite that tunes varies it"
    by_variant = {r["variant"].text: r for r in table(blocks, "variants")}
    assert by_variant["ascender+window=8"]["options"].text == "window=8"
    assert sum(r["trials"].data["n"] for r in by_variant.values()) == len(raw(root))
    starts = {r["setting"].text: r["value"].text for r in table(blocks, "rule_options")}
    assert (starts["kappa"], starts["k"], starts["delta"]) == ("32", "16", "0.2")


def test_failures_are_listed_with_their_error(made):
    _, _, blocks = made
    (row,) = table(blocks, "failures")
    assert (row["key"].text, row["error"].text) == ("broken", "Ill: step 4")
    assert table(blocks, "completeness")[0]["failed"].text == "1"
    seeds = table(blocks, "seeds")
    assert (seeds[0]["n"].text, seeds[0]["seeds"].text) == ("3", "0, 1, 2")


def test_without_failures_there_is_no_list(tmp_path):
    root = store(tmp_path)
    finish(root)
    blocks = every_block(material(root, DRAWS, say=lambda line: None))
    assert "No trial failed for good" in plain(blocks)
    assert not [b for b in blocks if isinstance(b, TableBlock) and b.table.name == "failures"]


# --- claims


def test_a_failing_claim_never_appears_as_holding(tmp_path):
    texts = {}
    for name, gain in (("better", 0.12), ("equal", 0.0)):
        root = store(tmp_path / name, gain)
        finish(root)
        of = material(root, DRAWS, say=lambda line: None)
        found = findings(of)
        texts[name] = {lang: plain(abstract(of, found), lang) for lang in ("en", "ko")}
        verdicts = {claim.text: finding.verdict for claim, finding in found}
        assert (verdicts["It wins."] == "supported") == (name == "better")
        end = conclusion(of, found)
        held = next((t for b in end for t in texts_of(b) if "held:" in t.plain("en")), None)
        failed = next(
            (t for b in end for t in texts_of(b) if "do not support" in t.plain("en")), None
        )
        assert (held is not None and "It wins" in held.plain("en")) == (name == "better")
        assert (failed is not None and "It wins" in failed.plain("en")) == (name == "equal")
    assert "With the rules attention is better" in texts["better"]["en"]
    assert "낫고" in texts["better"]["ko"]
    assert "With the rules attention is better" not in texts["equal"]["en"]
    assert "No claim held." in texts["equal"]["en"]
    assert "성립한 주장은 없다" in texts["equal"]["ko"]


def test_a_gain_over_all_controls_is_said_with_the_difference_from_each(tmp_path):
    given = {"ours": "flock+far=4", "controls": ["vanilla"], "at_least": 0.083}
    claim = {"text": "More.", "text_ko": "더.", "suite": "accuracy", "test": "gain_over_all"}
    root = store(tmp_path, claims=[{**claim, "given": given}])
    finish(root)
    of = material(root, DRAWS, say=lambda line: None)
    blocks = abstract(of, findings(of))
    said = plain(blocks)
    assert "flock+far=4 is better than every control by at least 0.083 on some task" in said
    for task in cases.TASKS:
        scores = {c.variant: c.summary.mean for c in of.suites["accuracy"].of_task(task)}
        gap = re.escape(f"{scores['flock+far=4'] - scores['vanilla']:+.4f} ")
        assert re.search(rf"{gap}\[.*?\] from vanilla on {task} \(3 seeds\)", said)
    for lang in ("en", "ko"):
        check(blocks, of.facts, lang)


def test_an_unfinished_claim_is_open(made):
    _, of, blocks = made
    assert {f.verdict for _, f in findings(of)} == {"unfinished", "not_run"}
    assert "0 held, 0 did not, and 3 could not be decided" in plain(blocks)
    assert sentence(blocks, "Undecided").plain("en").count("“") == 3


def test_every_test_of_claims_has_a_sentence():
    assert set(SENTENCES) == set(TESTS)


def test_without_claims_that_is_said(tmp_path):
    root = store(tmp_path)
    (root / "claims.json").unlink()
    blocks = every_block(material(root, DRAWS, say=lambda line: None))
    assert "No claim was stated" in plain(blocks)


# --- all of it


def test_every_number_may_be_printed(made):
    _, of, blocks = made
    for lang in ("en", "ko"):
        check(blocks, of.facts, lang)


def test_both_languages_have_the_same_numbers(made):
    _, _, blocks = made
    for block in blocks:
        for text in texts_of(block):
            en, ko = (sorted(n.value for s in side if s.cell for n in numerals(s.text))
                      for side in (text.en, text.ko))  # fmt: skip
            assert en == ko, text.plain("en")
            assert text.plain("en") != text.plain("ko") or not re.search(
                "[a-z]{4}", text.plain("en")
            )
        if isinstance(block, TableBlock):
            for row in block.table.rows:
                for cell in row:
                    en, ko = (re.findall(r"\d+", x) for x in cell.pair)
                    assert en == ko, cell.pair


def test_labels_are_unique_and_references_lead_somewhere(made):
    _, _, blocks = made
    labels = labels_of(blocks)
    assert len(labels) == len(set(labels))
    spans = [s for b in blocks for t in texts_of(b) for s in t.en if s.style == "ref"]
    assert spans
    assert {s.text for s in spans} <= set(labels)
    assert [b.label for b in blocks if isinstance(b, Heading) and b.level == 1] == [
        "sec:checklist", "app:settings", "app:sweeps", "app:examples", "app:procedures",
        "app:limitations",
    ]  # fmt: skip


@pytest.mark.slow
def test_trials_that_were_trained(tmp_path):
    """The same of a suite that really ran: its times, sizes and settings."""
    lab.run(SUITE, tmp_path, workers=1, say=lambda line: None)
    of = material(tmp_path, DRAWS, say=lambda line: None)
    blocks = every_block(of)
    for lang in ("en", "ko"):
        check(blocks, of.facts, lang)
    records = [json.loads(p.read_text()) for p in tmp_path.glob("trials/*/record.json")]
    (row,) = table(blocks, "footprint")
    seconds = sum(r["seconds"] + r["judging_seconds"] for r in records)
    assert row["hours"].data[""] == pytest.approx(seconds / 3600)
    assert row["trials"].text == str(len(records)) == "4"
    shared = {r["setting"].text: r["value"].text for r in table(blocks, "shared_settings")}
    run = records[0]["run"]
    for name in ("steps", "batch", "hidden", "rate", "every"):
        assert float(shared[name]) == run[name]
    sizes = {r["run"]["variant"]: f"{r['parameters']:,}" for r in records}
    for one in table(blocks, "variants"):
        assert one["parameters"].text == sizes[one["variant"].text]


def resolve(file, name):
    """The object at a place in the code."""
    path = Path(ascender.__file__).parent / file
    assert path.is_file(), f"{file} is no file of the package"
    thing = importlib.import_module(f"ascender.{file.removesuffix('.py').replace('/', '.')}")
    for part in name.split("."):
        thing = getattr(thing, part)
    return thing


def test_every_place_in_the_code_exists():
    tables = [
        checklist_strings.CHECKLIST, footprint_strings.FOOTPRINT, procedure_strings.PROCEDURES,
        settings_strings.SETTINGS, sweep_strings.SWEEPS,
    ]  # fmt: skip
    places = {}
    for strings in tables:
        for key, pair in strings.items():
            en, ko = (POINTER.findall(text) for text in pair)
            assert en == ko, key
            places |= dict.fromkeys(en, key)
    assert len(places) > 35
    for file, name in places:
        resolve(file, name)


def test_a_place_that_does_not_exist_is_noticed():
    with pytest.raises(AttributeError):
        resolve("core/softmax.py", "nonsense")
    with pytest.raises(AssertionError):
        resolve("core/nonsense.py", "softmax")
