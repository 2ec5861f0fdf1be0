"""The smallest suite that trains: for tests of what comes after."""

from ascender.lab import Suite, grid

SUITE = Suite(
    name="tiny",
    claim="Six steps teach nothing.",
    claim_ko="여섯 스텝으로는 아무것도 배우지 못한다.",
    runs=grid(
        {"distinct": {"hidden": 16, "layers": 1, "heads": 2, "steps": 6, "batch": 4, "every": 3,
                      "options": {"crowd": 13, "most": 5}}},
        variants=["vanilla", "ascender"],
        seeds=2,
    ),
    goals={"distinct": 0.9},
)  # fmt: skip
