"""Write acceptance.csv from what solvers say they take: run by hand, and read the difference before it is kept."""

from __future__ import annotations

import csv

from acceptance import BY_LABEL, FILE, SOLVERS, Cell, places, refusal


def main() -> None:
    with FILE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["solver", "gram", "loss", "bias", *BY_LABEL])
        for solver in SOLVERS:
            for place in places():
                row = ["-" if refusal(Cell(solver, *place, penalty)) else "x" for penalty in BY_LABEL]
                if "x" in row:
                    writer.writerow([solver, *place, *row])


if __name__ == "__main__":
    main()
