"""The door: the user's samples, labels and kernels in; problems on stored kernels out."""

from .base import Assembly, Predictor
from .combined import Combination, gated_sum, gaussian_product, squared_sum
from .factors import FactorAssembly, FactorExpansion, described, from_factors
from .labels import Targets, Task, read_targets, read_weight, split_tasks
from .memory import available_memory, check_memory
from .parameters import Options, check_number, check_whole
from .products import (
    FactorProductAssembly,
    FactorProductExpansion,
    ProductAssembly,
    ProductExpansion,
    check_products,
    paired,
)
from .stacks import KernelAssembly, from_samples, from_stack, read_stack, real_array, resolve_bank
from .tensors import check_together, read_labels, read_tensor

__all__ = [
    "Assembly",
    "Combination",
    "FactorAssembly",
    "FactorExpansion",
    "FactorProductAssembly",
    "FactorProductExpansion",
    "KernelAssembly",
    "Options",
    "Predictor",
    "ProductAssembly",
    "ProductExpansion",
    "Targets",
    "Task",
    "available_memory",
    "check_memory",
    "check_number",
    "check_products",
    "check_together",
    "check_whole",
    "described",
    "from_factors",
    "from_samples",
    "from_stack",
    "gated_sum",
    "gaussian_product",
    "paired",
    "read_labels",
    "read_stack",
    "read_targets",
    "read_tensor",
    "read_weight",
    "real_array",
    "resolve_bank",
    "split_tasks",
    "squared_sum",
]
