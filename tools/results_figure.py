"""Draw docs/img/results/summary.png, the picture of the README, from the stored trials of a suite.

    python tools/results_figure.py results/accuracy docs/img/results/summary.png

Left: the score of ASCender minus that of plain attention on every task, with its 95% interval,
positive where ASCender is better. Right: the FLOPs of its attention, as a multiple.
"""

import argparse
from pathlib import Path

from ascender.lab.reports.source import read
from ascender.lab.reports.suite_results import SuiteResults
from ascender.report.figure import style
from ascender.report.palette import line_styles

FLOPS = "attention_flops_an_example"
SMALLEST = "below the smallest\ndifference of interest"


def draw(folder: Path, file: Path) -> None:
    """One row per task: difference and interval on the left, cost on the right."""
    import matplotlib.pyplot as plt

    results = SuiteResults.of(read(folder), draws=1)
    conditions = [
        condition for condition in results.conditions if condition.variant == results.ruled()
    ]
    colour = line_styles(results.variants)[conditions[0].variant].colour
    with style():
        figure, (left, right) = plt.subplots(
            1, 2, figsize=(9, 3.9), sharey=True, width_ratios=(3, 1.3), layout="constrained"
        )
        for row, condition in enumerate(conditions):
            difference = results.judged[condition.task, condition.variant].by_seed
            sign = 1 if condition.records[0]["higher"] else -1
            low, high = (sign * end for end in difference.interval)
            won = results.verdict(condition) == "win"
            left.plot((low, high), (row, row), color=colour, lw=1.8)
            left.plot(sign * difference.mean, row, "^" if won else "o", color=colour, ms=7,
                      mfc=colour if won else "white", label="win" if won else "tie")  # fmt: skip
            cost = condition.mean(FLOPS) / results.base_of(condition).mean(FLOPS)
            right.barh(row, cost, color=colour, height=0.55)
            right.text(cost + 0.08, row, f"{cost:.1f}×", va="center")
        smallest = results.sheet.rule.smallest
        left.axvspan(-smallest, smallest, color="#DDDDDD", zorder=0, label=SMALLEST)
        left.axvline(0, color="black", lw=0.8, zorder=1)
        names = [
            condition.task
            if condition.records[0]["higher"]
            else f"{condition.task} (bits, sign reversed)"
            for condition in conditions
        ]
        left.set_yticks(range(len(conditions)), names)
        left.invert_yaxis()
        left.set_xlabel("← plain attention is better      ASCender is better →")
        left.set_title("difference of test scores, 95% interval", fontsize=10)
        handles = dict(zip(*reversed(left.get_legend_handles_labels()), strict=True))
        left.legend(handles.values(), handles.keys(), loc="lower right", frameon=False)
        right.axvline(1, color="black", lw=0.8)
        right.set_xlim(0, 5.6)
        right.set_xlabel("× plain attention")
        right.set_title("FLOPs of attention", fontsize=10)
        figure.savefig(file, dpi=160)
        plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="stored trials of a suite")
    parser.add_argument("file", type=Path, help="picture to write")
    args = parser.parse_args()
    draw(args.folder, args.file)


if __name__ == "__main__":
    main()
