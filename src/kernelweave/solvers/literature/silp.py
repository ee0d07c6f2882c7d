"""Semi-infinite linear programming: SVMs give cuts, a linear programme gives the next weights."""

from __future__ import annotations

import numpy as np

from .cuts import CutState, Cutting


class SILP(Cutting):
    """The cutting planes of Sonnenburg, Raetsch, Schaefer and Schoelkopf (JMLR 2006), for ``penalty='l1'``.

    It minimises over the simplex of weights the value ``J(w)`` of the SVM at ``w``. Any duals bound J from below by a
    linear function; an SVM gives the one that touches J at its weights, and the next SVM is trained where the largest
    of them all is lowest, which HiGHS finds. That level never falls; where it meets the best J, the mixture of duals
    that proves it is offered to the judge. A step is an SVM and a linear programme, or that proof.

    Examples
    --------
    >>> import kernelweave as kw
    >>> kw.MKLClassifier(solver="silp").get_params()["solver"]
    'silp'
    """

    name = "silp"

    def choose(self, state: CutState, lowest: np.ndarray) -> np.ndarray:
        return lowest
