"""Long documents and a question about them, or their summary: LongBench and SCROLLS."""

from __future__ import annotations

from ascender.common.validate import lookup
from ascender.tasks.answers import Answers, Asked
from ascender.tasks.metrics import rouge_l
from ascender.tasks.rows import Row, carved, labelled, rows

F1, ROUGE, EXACT = "F1", "ROUGE-L", "exact match"
LONGBENCH = {
    "narrativeqa": F1, "qasper": F1, "multifieldqa_en": F1, "hotpotqa": F1, "2wikimqa": F1,
    "musique": F1, "gov_report": ROUGE, "qmsum": ROUGE, "multi_news": ROUGE,
}  # fmt: skip
SCROLLS = {
    "qasper": F1, "narrative_qa": F1, "quality": EXACT, "contract_nli": EXACT, "qmsum": ROUGE,
    "gov_report": ROUGE, "summ_screen_fd": ROUGE,
}  # fmt: skip
REPLY = {F1: 64, EXACT: 64, ROUGE: 512}


class LongAnswers(Answers):
    """Answers about long texts: F1 of words, ROUGE-L, or exact match, as SQuAD compares words.

    Levels, by characters against the room for the prompt: fits, 2 times, 4 times, more.
    """

    metric = F1
    levels = ("fits", "2 times", "4 times", "more")

    def level_of(self, prompt: str, room: int) -> int:
        return sum(len(prompt) > n * room for n in (1, 2, 4))

    def right(self, target: str, predicted: str) -> float:
        from ascender.hf.squad_metrics import compute_exact, compute_f1

        how = {F1: compute_f1, EXACT: compute_exact, ROUGE: rouge_l}[self.metric]
        return float(how(target, predicted))


class LongBench(LongAnswers):
    """A document of thousands of words, a question, a short answer or a summary (LongBench,
    arXiv:2308.14508): the English subsets of questions (F1) and of summaries (ROUGE-L).

        … document …
        Question: What is the place of birth of the director of film …?
        Answer:
        → Paris

    LongBench has one split, made for models that were trained elsewhere. Here it is parted by
    document, 8 : 1 : 1, the same always; so a number from here is not one of its table (`ascender
    eval --tasks longbench_hotpotqa` gives those). The first of several answers counts.
    """

    def __init__(
        self, subset: str = "hotpotqa", tokenizer: str = "bytes", length: int = 2048,
        reply: int | None = None, graded: int = 100, data_dir: str | None = None,
    ) -> None:  # fmt: skip
        self.metric = lookup("subset of LongBench", subset, LONGBENCH)
        reply = REPLY[self.metric] if reply is None else reply
        documents = rows("Xnhyacinth/LongBench", subset, "test", data_dir, ("context", "answers"))

        def asked(row: Row) -> Asked:
            question = str(row.get("question", row.get("input", ""))).strip()
            last = f"Question: {question}\nAnswer:" if question else "Summary:"
            prompt = f"{row['context'].strip()}\n\n{last}"
            answers = row["answers"] if isinstance(row["answers"], list) else [row["answers"]]
            return Asked(prompt, f" {answers[0]}", self.level_of(prompt, length - reply))

        splits: dict[str, list[Asked]] = {"train": [], "validation": [], "test": []}
        names = list(splits)
        for row, part in zip(documents, carved((r["context"] for r in documents), 2), strict=True):
            splits[names[part]].append(asked(row))
        self.fill(splits, tokenizer, length, reply, graded)


class Scrolls(LongAnswers):
    """A long text, often behind a question, and an answer or a summary (SCROLLS, arXiv:2201.03533):
    qasper, narrative_qa (F1), quality, contract_nli (exact match), qmsum, gov_report,
    summ_screen_fd (ROUGE-L).

        What datasets are used? … paper …
        Answer:
        → SST-2 and IMDB

    SCROLLS hides the answers of its test. So test is the official validation, or test.jsonl where
    the folder has one with answers; validation is a tenth carved from train, the same always. The
    first of several answers counts. From a folder: scrolls/SUBSET/{train,validation}.jsonl with
    input and output.
    """

    def __init__(
        self, subset: str = "qasper", tokenizer: str = "bytes", length: int = 2048,
        reply: int | None = None, graded: int = 100, data_dir: str | None = None,
    ) -> None:  # fmt: skip
        self.metric = lookup("subset of SCROLLS", subset, SCROLLS)
        reply = REPLY[self.metric] if reply is None else reply
        last = "Summary:" if subset in ("gov_report", "summ_screen_fd") else "Answer:"
        columns = ("input", "output")
        train = rows("tau/scrolls", subset, "train", data_dir, columns)
        test = labelled("tau/scrolls", subset, data_dir, "output", columns)

        def asked(of: list[Row]) -> list[Asked]:
            first: dict[str, Asked] = {}
            for row in of:
                prompt = f"{row['input'].strip()}\n\n{last}"
                level = self.level_of(prompt, length - reply)
                first.setdefault(prompt, Asked(prompt, f" {row['output']}", level))
            return list(first.values())

        self.part(asked(train), asked(test), tokenizer, (length, reply), length, reply, graded)
